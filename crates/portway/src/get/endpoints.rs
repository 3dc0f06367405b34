//! `get endpoints`: NAME ENDPOINTS AGE, one row per Service: those that are ready and in force. The first three are shown;
//! wide: all of them.

use observe::picture::Picture;
use standalone::objects::Object;

use super::Style;
use crate::age;
use crate::kube::{ReadyEndpoint, Refused, Slices, first_three, joined, ready_endpoints, service_type};
use crate::table::Table;
use crate::view::View;

/// The ready endpoints of these Services.
pub(super) fn table(view: &View, services: &[&Object], style: Style) -> Table {
    let mut table = style.table(&["NAME", "ENDPOINTS", "AGE"], &[]);
    let (slices, refused) = (Slices::of(&view.picture), Refused::of(&view.picture));
    // A Service that is only a name elsewhere has no endpoints, not even none.
    for service in services.iter().filter(|service| service_type(&service.value) != "ExternalName") {
        let ready = ready_endpoints(slices.of_service(service), &refused);
        let addresses: Vec<String> = ready.iter().map(ReadyEndpoint::address).collect();
        let shown = if style.is_wide { joined(&addresses) } else { first_three(&addresses) };
        table.push(style.row(
            service,
            [service.key.name.to_string(), shown, age::of(&service.value, view.now)],
            [],
        ));
    }
    table
}

/// The `EndpointSlices` of these Services.
pub(super) fn slices<'a>(picture: &'a Picture, services: &[&'a Object]) -> Vec<&'a Object> {
    let slices = Slices::of(picture);
    services.iter().flat_map(|service| slices.of_service(service)).copied().collect()
}
