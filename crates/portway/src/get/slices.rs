//! `get endpointslices`: NAME ADDRESSTYPE PORTS ENDPOINTS AGE, as kubectl shows them.

use serde_json::Value;
use standalone::objects::Object;

use super::Style;
use crate::age;
use crate::kube::{NOT_KEPT, first_three, items, joined, shown, text, texts};
use crate::table::Table;
use crate::view::View;

/// The `EndpointSlices`.
pub(super) fn table(view: &View, slices: &[&Object], style: Style) -> Table {
    let mut table = style.table(&["NAME", "ADDRESSTYPE", "PORTS", "ENDPOINTS", "AGE"], &[]);
    for slice in slices {
        let value = &slice.value;
        let endpoints = items(value, "endpoints").iter().flat_map(|endpoint| texts(endpoint, "addresses"));
        let endpoints: Vec<&str> = endpoints.collect();
        // Of a slice of a cluster the family is known by its endpoints.
        let is_unknown = view.picture.is_trimmed() && endpoints.is_empty();
        let family = if is_unknown { Some(NOT_KEPT) } else { text(value, "addressType") };
        let age = if view.picture.is_trimmed() { NOT_KEPT.to_owned() } else { age::of(value, view.now) };
        let usual = [
            slice.key.name.to_string(),
            family.unwrap_or("<unset>").to_owned(),
            ports(value),
            if style.is_wide { joined(&endpoints) } else { first_three(&endpoints) },
            age,
        ];
        table.push(style.row(slice, usual, []));
    }
    table
}

fn ports(slice: &Value) -> String {
    let number = |port: &Value| port.get("port").map_or_else(|| "*".to_owned(), shown);
    let ports: Vec<String> = items(slice, "ports").iter().map(number).collect();
    if ports.is_empty() { "<unset>".to_owned() } else { joined(&ports) }
}
