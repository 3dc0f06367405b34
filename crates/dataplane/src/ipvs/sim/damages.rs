//! What other programs may do to virtual servers, sets and the interface.

use kernel::host::ChangeHost as _;
use kernel::ipset::{Ipsets as _, Request as SetRequest};
use kernel::ipvs::{Ipvs as _, RealServer, Request, What};
use model::Family;

use super::Node;
use crate::ipvs::{DUMMY, SetId};
use crate::sim::{Named, SimulatedMode};

/// One change.
enum Damage {
    Server(Request),
    Set(SetRequest),
    NoInterface,
}

pub(super) fn damaged(node: &mut Node) -> Result<Named<'_>, String> {
    let servers = &mut node.dataplane.doors().servers.part;
    let mut damages = Vec::new();
    for server in servers.virtual_servers().map_err(|error| error.to_string())? {
        let what = server.what;
        let real = servers.real_servers(&what).map_err(|error| error.to_string())?;
        let strangers = if matches!(what, What::Address(at, _) if at.is_ipv6()) {
            "[2001:db8::1]:1"
        } else {
            "192.0.2.1:1"
        };
        let stranger = strangers.parse().map_err(|error| format!("{error}"))?;
        damages
            .extend([Request::Delete(what), Request::AddServer(what, RealServer::masquerading(stranger, 1))]);
        damages.push(Request::Change(kernel::ipvs::VirtualServer { scheduler: "lc".to_owned(), ..server }));
        for one in real.iter().take(1) {
            let heavier = RealServer { weight: 9, ..one.server };
            damages.extend([
                Request::DeleteServer(what, one.server.address),
                Request::ChangeServer(what, heavier),
            ]);
        }
    }
    let sets =
        SetId::ALL.into_iter().flat_map(|set| Family::ALL.map(|family| SetRequest::Flush(set.name(family))));
    let damages =
        damages.into_iter().map(Damage::Server).chain(sets.map(Damage::Set)).chain([Damage::NoInterface]);
    let node = &*node;
    Ok(Box::new(damages.map(move |damage| {
        let mut node = node.another();
        let parts = node.dataplane.doors();
        let name = match damage {
            Damage::Server(request) => {
                format!("{request} {:?}", parts.servers.part.run(std::slice::from_ref(&request)))
            }
            Damage::Set(request) => {
                format!("{request:?} {:?}", parts.sets.part.run(std::slice::from_ref(&request)))
            }
            Damage::NoInterface => format!("no interface {:?}", parts.host.part.delete_dummy(DUMMY)),
        };
        (name, Box::new(node) as Box<dyn SimulatedMode>)
    })))
}
