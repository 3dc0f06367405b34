//! What virtual servers have carried, as the kernel counts it, by service port.
//!
//! In: whose virtual servers are whose; the kernel's counts. Out: [`Carried`] for each service port and family. Counts begin anew with a
//! virtual server, and so with a scheduler that is exchanged or a Service that is recreated.
//!
//! All virtual servers are one listing. Their real servers are one listing each, so they are looked at in a small cluster alone.

use std::collections::BTreeMap;

use kernel::ipvs::{self, Counts, FoundServer, What};
use model::{Family, ServicePortId};

use super::items::{Item, Items};
use crate::{Carried, relay};

/// Real servers are listed of so many virtual servers at most.
const MOST_LISTED: usize = 200;

/// Reads the counts of all that is ours.
pub(super) fn read(servers: &mut dyn ipvs::Ipvs, items: &Items) -> ipvs::Result<Vec<Carried>> {
    let counts: BTreeMap<What, Counts> = servers.carried()?.into_iter().collect();
    let is_small = counts.len() <= MOST_LISTED;
    let mut found: BTreeMap<(ServicePortId, Family), Carried> = BTreeMap::new();
    for (id, what) in owned(items) {
        let Some(count) = counts.get(&what) else { continue };
        let family = what.family();
        let entry = found.entry((id.clone(), family));
        let carried = entry.or_insert_with(|| Carried::nothing(id.clone(), family));
        add(&mut carried.all, count, 0);
        if is_small {
            for FoundServer { server, active, counts, .. } in servers.real_servers(&what)? {
                carried.all.active += u64::from(active);
                add(carried.endpoints.entry(server.address).or_default(), &counts, active);
            }
        }
    }
    Ok(found.into_values().collect())
}

fn owned(items: &Items) -> impl Iterator<Item = (&ServicePortId, What)> {
    let server = |item: &Item| if let Item::Server(server) = item { Some(server.what) } else { None };
    items.owners().flat_map(move |id| items.of(id).iter().filter_map(server).map(move |what| (id, what)))
}

fn add(to: &mut relay::Counts, counts: &Counts, active: u32) {
    to.connections += counts.connections;
    to.bytes_in += counts.bytes_in;
    to.bytes_out += counts.bytes_out;
    to.active += u64::from(active);
}
