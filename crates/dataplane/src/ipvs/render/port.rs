//! One service port: every place where it is dialled has a virtual server, and is in the sets that say what becomes of its packets.

use std::net::IpAddr;

use kernel::ipset::Entry;
use kernel::ipvs::What;
use model::flows::dialled_at;
use model::table::{AllowedSources, Masquerade};
use model::{Action, Family, ForwardingTable, Frontend, FrontendKind, Route, ServicePort};

use super::{bound, pool};
use crate::ipvs::Options;
use crate::ipvs::items::{Item, Place};
use crate::ipvs::marks::Marks;
use crate::ipvs::names::SetId;
use crate::ipvs::scheduler::{self, Scheduler, UnknownScheduler};
use crate::xtables::{routes_of, sources};

/// What is rendered with.
pub(in crate::ipvs) struct Renderer<'a> {
    pub(in crate::ipvs) table: &'a ForwardingTable,
    pub(in crate::ipvs) families: &'a [Family],
    pub(in crate::ipvs) options: &'a Options,
}

/// What a service port needs.
#[derive(Debug, Default)]
pub(in crate::ipvs) struct Rendered {
    pub(in crate::ipvs) items: Vec<Item>,
    /// What is wrong, though it works.
    pub(in crate::ipvs) warnings: Vec<String>,
    /// Why nothing is written for it.
    pub(in crate::ipvs) refusal: Option<String>,
}

impl Renderer<'_> {
    /// One service port.
    pub(in crate::ipvs) fn port(&self, port: &ServicePort, marks: &mut Marks) -> Rendered {
        let asked = port.annotations.get(scheduler::ANNOTATION).map(Scheduler::named).transpose();
        let warnings = asked.as_ref().err().map(unknown).into_iter().collect();
        let scheduler = asked.ok().flatten().or(self.options.scheduler);
        let mut rendered = Rendered { warnings, ..Rendered::default() };
        for family in self.families {
            let mut of_family =
                OfFamily { renderer: self, port, scheduler, family: *family, items: Vec::new() };
            if of_family.write(marks).is_none() {
                let refusal = "all numbers for virtual servers by mark are in use: set `externalTrafficPolicy: Cluster`";
                return Rendered { refusal: Some(refusal.to_owned()), ..rendered };
            }
            rendered.warnings.extend(of_family.taken_addresses());
            rendered.items.append(&mut of_family.items);
        }
        rendered
    }

    /// Where a frontend is dialled. Node ports do not answer at link-local addresses of IPv6, as upstream has it: each link has one, a
    /// virtual server knows no link, and pods' links come and go. A node port yields to an address that is dialled with its number.
    pub(in crate::ipvs) fn places(&self, frontend: &Frontend) -> Vec<Place> {
        let (protocol, port) = (frontend.protocol(), frontend.port());
        let is_free = |ip: &IpAddr| {
            matches!(frontend, Frontend::Address { .. })
                || !is_link_local_of_ipv6(*ip)
                    && self.table.route(&Frontend::Address { ip: *ip, protocol, port }).is_none()
        };
        let ips = dialled_at(frontend, self.table.node(), self.options.default_node_port_addresses);
        let place = |ip| Place { ip, protocol: protocol.into(), port };
        ips.into_iter().filter(is_free).map(place).collect()
    }
}

fn is_link_local_of_ipv6(ip: IpAddr) -> bool {
    matches!(ip, IpAddr::V6(ip) if ip.is_unicast_link_local())
}

fn unknown(error: &UnknownScheduler) -> String {
    format!("annotation {}: {error}; the default is used", scheduler::ANNOTATION)
}

struct OfFamily<'a> {
    renderer: &'a Renderer<'a>,
    port: &'a ServicePort,
    scheduler: Option<Scheduler>,
    family: Family,
    items: Vec<Item>,
}

impl OfFamily<'_> {
    /// `None` if there is no number left for a mark.
    fn write(&mut self, marks: &mut Marks) -> Option<()> {
        let routes = routes_of(self.port, self.family);
        let places_of = |route: &&Route| self.renderer.places(&route.frontend);
        let local: Vec<&Route> = routes.iter().copied().filter(|route| is_local(route)).collect();
        let mark = if let Some(route) = local.first() {
            let places: Vec<Place> = local.iter().flat_map(places_of).collect();
            Some(self.by_mark(route, marks.give(self.port.id(), self.family, &places)?))
        } else {
            marks.take_back(self.port.id(), self.family);
            None
        };
        for route in routes {
            self.route(route, mark);
        }
        Some(())
    }

    /// The virtual server for what comes from outside. With persistence the kernel would forget endpoints' ports, so that a client
    /// is known by a hash there.
    fn by_mark(&mut self, route: &Route, number: u16) -> u32 {
        let mark = Marks::mark(number);
        let what = What::Mark(mark, self.family);
        let hash = self.port.affinity_seconds.map(|_| Scheduler::SOURCE_HASH);
        self.items.extend(pool::servers(what, &route.outside, hash.or(self.scheduler), None));
        self.entry(SetId::Marks, Entry::Port(number));
        mark
    }

    fn route(&mut self, route: &Route, mark: Option<u32>) {
        for place in self.renderer.places(&route.frontend) {
            if let Frontend::Address { ip, .. } = route.frontend {
                let is_cluster_ip = route.kind == FrontendKind::ClusterIp;
                self.items.extend(bound(ip, is_cluster_ip, self.renderer.table.node()));
            }
            self.entry(SetId::Servers, place.entry());
            let persistence_s = self.port.affinity_seconds;
            self.items.extend(pool::servers(place.what(), &route.inside, self.scheduler, persistence_s));
            self.entry(class(route), place.entry());
            if route.inside == Action::Drop {
                self.entry(SetId::Drop, place.entry());
            }
            self.items.extend(mark.filter(|_| marks_outside(route)).map(|mark| Item::Outside(place, mark)));
            if let Some(allowed) = route.allowed_sources.as_deref() {
                self.guard(place, allowed);
            }
        }
        let protocol = route.frontend.protocol();
        self.items.extend(pool::hairpins(&route.inside, protocol));
        self.items.extend(pool::hairpins(&route.outside, protocol));
    }

    fn guard(&mut self, place: Place, allowed: &AllowedSources) {
        self.entry(SetId::Guarded, place.entry());
        for source in sources(allowed) {
            self.entry(SetId::Sources, Entry::IpPortNet(place.ip, place.protocol, place.port, source));
        }
    }

    fn entry(&mut self, set: SetId, entry: Entry) {
        self.items.push(Item::Entry(self.family, set, entry));
    }

    /// Addresses of a Service that this host has itself: nobody takes them away, but all their other ports are the host's.
    fn taken_addresses(&self) -> Vec<String> {
        let node = self.renderer.table.node();
        let taken = |route: &Route| match route.frontend {
            Frontend::Address { ip, .. } if node.is_own(ip) => Some(format!(
                "its {} {ip} is an address of this host, too: it stays where it is, and programs of this host are reached at its \
                 other ports",
                route.kind.name()
            )),
            _ => None,
        };
        routes_of(self.port, self.family).into_iter().filter_map(taken).collect()
    }
}

/// Whose source is hidden; all of these sets together are the places that are served.
fn class(route: &Route) -> SetId {
    match route.masquerade {
        Masquerade::Everybody => SetId::Masquerade,
        Masquerade::AllButPods | Masquerade::Nobody => SetId::ClusterIps,
        Masquerade::ThisHost => SetId::Local,
    }
}

fn is_local(route: &Route) -> bool {
    class(route) == SetId::Local
}

/// Without an endpoint here, silence; without one anywhere, the virtual server by mark has none either, and refuses.
fn marks_outside(route: &Route) -> bool {
    is_local(route) && route.outside != Action::Drop
}
