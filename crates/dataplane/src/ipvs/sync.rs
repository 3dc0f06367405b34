//! The mode itself: what is wanted is compared with what is there, and the difference is written step by step.

use std::cell::OnceCell;
use std::collections::{BTreeMap, BTreeSet};
use std::fmt;
use std::net::{IpAddr, SocketAddr};
use std::sync::Arc;
use std::time::Duration;

use kernel::IpProtocol;
use kernel::ipvs::{Request, What};
use kernel::xtables::Xtables;
use model::flows::VanishedFlows;
use model::table::NodeView;
use model::{Family, ForwardingTable, Frontend, ServicePortId};

use super::doors::Doors;
use super::drain::Drain;
use super::items::{Delta, Item, Place};
use super::names::SetId;
use super::observed::{self, Observed};
use super::render::rules::Rules;
use super::scheduler::Scheduler;
use super::steps::{Draining, Plan, Step, plan};
use super::wanted::Wanted;
use super::write::{self, Trouble};
use super::{Error, Options, carried, cleanup, keep, names, settings, timeouts};
use crate::programs;
use crate::quarantine::Quarantine;
use crate::xtables::Families;
use crate::{Carried, Dataplane, Leaving, Scope, ServicePortIds, SyncError, Synced};

/// A sync takes out what the kernel refuses and goes through the rest again, at most so often. One pass is enough for all that is refused
/// by itself.
const PASSES_MAX: usize = 8;
/// Real servers that are left by their connections are looked at this often.
const DRAIN_AFTER: Duration = Duration::from_secs(5);

/// The IPVS mode, behind the doors of an iptables program and of the kernel.
#[derive(Clone)]
pub struct Ipvs<X, D> {
    rules: Families<X, Rules>,
    doors: D,
    options: Options,
    families: Vec<Family>,
    /// Time since some moment: for how long real servers have been left.
    clock: Arc<dyn Fn() -> Duration + Send + Sync>,
    wanted: Wanted,
    drain: Drain,
    /// Virtual servers that somebody else had made where Services are dialled.
    strangers: BTreeSet<What>,
    /// The node for which all this was written; `None` if the kernel must be read.
    node: Option<NodeView>,
    /// Not all that is desired is known, so what nobody asks for stays.
    keeps_leftovers: bool,
}

impl<X: fmt::Debug, D: fmt::Debug> fmt::Debug for Ipvs<X, D> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Ipvs").field("rules", &self.rules).field("doors", &self.doors).finish_non_exhaustive()
    }
}

impl<X: Xtables, D: Doors> Ipvs<X, D> {
    /// The mode behind these doors: of an iptables program, one for each family that is served; and of the kernel. `clock` tells the
    /// time since some moment.
    pub fn new(
        programs: impl IntoIterator<Item = X>,
        doors: D,
        options: Options,
        clock: impl Fn() -> Duration + Send + Sync + 'static,
    ) -> Self {
        let mut rules = Families::new(programs, Rules::new(&options, BTreeMap::new()));
        let families = rules.doors().map(|door| door.family()).collect();
        Self {
            rules,
            doors,
            options,
            families,
            clock: Arc::new(clock),
            wanted: Wanted::default(),
            drain: Drain::default(),
            strangers: BTreeSet::new(),
            node: None,
            keeps_leftovers: false,
        }
    }

    /// The doors of iptables.
    pub fn programs(&mut self) -> impl Iterator<Item = &mut X> {
        self.rules.doors()
    }

    /// The other doors.
    pub fn doors(&mut self) -> &mut D {
        &mut self.doors
    }

    /// The addresses that this mode gives the interface: to Services they are no addresses of this host.
    pub fn bound(&self) -> BTreeSet<IpAddr> {
        self.wanted.items.addresses().collect()
    }

    /// Only a kernel that makes a dummy has what that takes. One that was not there before is not there after.
    fn try_dummy(&mut self) -> Result<(), SyncError> {
        let (host, interface) = (self.doors.host(), &self.options.interface);
        if host.links().map_err(Error::Addresses)?.iter().any(|link| link.name == *interface) {
            return Ok(());
        }
        let tried = host.make_dummy(interface).and_then(|()| host.delete_dummy(interface));
        tried.map_err(|error| Error::from(error).into())
    }

    fn try_sync(
        &mut self,
        desired: &ForwardingTable,
        scope: Scope<&ServicePortIds>,
        synced: &mut Synced,
    ) -> Result<(), SyncError> {
        if scope.is_full() {
            self.wanted.quarantine = Quarantine::default();
            self.keeps_leftovers = scope.keeps_leftovers();
        }
        for pass in 1.. {
            let (trouble, is_fresh) = match scope {
                Scope::Changed(ids) if self.node.is_some() => {
                    (self.sync_changed(desired, ids, synced)?, false)
                }
                _ => (self.sync_everything(desired, synced)?, true),
            };
            if trouble.is_empty() {
                self.wanted.accepted.accept();
                self.wanted.unknown_prior.known();
                self.wanted.unknown_prior.only(&self.wanted.quarantine);
                return Ok(());
            }
            // What is refused may be due to somebody who changed the kernel since we knew it. After a fresh look it is the
            // service port's own.
            self.node = None;
            if let Some(nobodys) =
                is_fresh.then(|| self.wanted.quarantine_owners(desired, &trouble)).flatten()
            {
                return Err(Error::Refused(nobodys.reason.clone()).into());
            }
            // Whoever is refused is told. What is written of them goes with the next full sync.
            if pass >= PASSES_MAX {
                break;
            }
        }
        Ok(())
    }

    fn sync_changed(
        &mut self,
        desired: &ForwardingTable,
        ids: &BTreeSet<ServicePortId>,
        synced: &mut Synced,
    ) -> Result<Vec<Trouble>, SyncError> {
        let is_same_node = self.node.as_ref() == Some(desired.node());
        let ids = if is_same_node { self.wanted.touched(desired, ids) } else { self.wanted.all_ids(desired) };
        for id in &ids {
            self.wanted.quarantine.release(id);
        }
        let changes = self.wanted.render(desired, &ids, &self.families, &self.options);
        let delta = self.wanted.items.delta(&changes);
        if !is_same_node || delta.changes_outside() {
            let earlier = std::mem::replace(&mut self.rules.style.outside, self.wanted.outside());
            self.keep_outside(earlier);
        }
        self.node = Some(desired.node().clone());
        self.write(desired, &delta, Scope::Changed(&BTreeSet::new()), synced)
    }

    fn sync_everything(
        &mut self,
        desired: &ForwardingTable,
        synced: &mut Synced,
    ) -> Result<Vec<Trouble>, SyncError> {
        synced.was_full = true;
        let (delta, observed) = self.compare(desired, self.keeps_leftovers, &mut synced.kept)?;
        let keeps_leftovers = self.keeps_leftovers();
        self.strangers.extend(&observed.strangers);
        self.wanted.warn_of_strangers(&self.strangers);
        self.node = Some(desired.node().clone());
        synced.operations += write::prepare(&mut self.doors, &self.families, &self.options, &observed)?;
        self.drain.only(&observed.draining);
        self.drain.begin((self.clock)(), observed.draining.clone());
        let scope = if keeps_leftovers { Scope::AllThatIsKnown } else { Scope::Everything };
        let trouble = self.write(desired, &delta, scope, synced)?;
        if !keeps_leftovers {
            synced.left_behind.extend(delta.removed.iter().filter_map(|item| left_behind(item, desired)));
            synced.operations += write::leave_others(&mut self.doors, &self.options, &observed)?;
            synced.replaced.extend(cleanup::remove_upstreams_sets(self.doors.sets())?);
        }
        Ok(trouble)
    }

    /// What differs. While not all is known, what no service port asks for is kept, and added to `kept`.
    fn compare(
        &mut self,
        desired: &ForwardingTable,
        is_kept: bool,
        kept: &mut BTreeSet<Frontend>,
    ) -> Result<(Delta, Observed), SyncError> {
        let earlier = observed::marked(self.rules.doors())?;
        let wanted = self.wanted.render_all(desired, &self.families, &self.options, earlier.clone());
        let observed = observed::read(&mut self.doors, &self.families, &self.options, &wanted)?;
        self.wanted.unknown_prior.look(observed.items.iter().any(|item| matches!(item, Item::Server(_))));
        let mut delta = Delta::between(&observed.items, &wanted);
        self.rules.style.outside = self.wanted.outside();
        if is_kept || self.wanted.unknown_prior.keeps_rules() {
            kept.extend(delta.removed.iter().filter_map(|item| left_behind(item, desired)));
            keep::leftovers(&mut delta, &wanted);
            self.keep_outside(earlier);
        }
        Ok((delta, observed))
    }

    /// Whether what no service port asks for stays: not all is known, or a service port is refused of which it is not known how it was.
    fn keeps_leftovers(&self) -> bool {
        self.keeps_leftovers || self.wanted.unknown_prior.keeps_rules()
    }

    /// Adds the marks of places that nobody asks for yet.
    fn keep_outside(&mut self, earlier: impl IntoIterator<Item = (Place, u32)>) {
        if !self.keeps_leftovers() {
            return;
        }
        let items = &self.wanted.items;
        let left = earlier.into_iter().filter(|(place, _)| items.server(&place.what()).is_none());
        self.rules.style.outside.extend(left);
    }

    fn write(
        &mut self,
        desired: &ForwardingTable,
        delta: &Delta,
        scope: Scope<&ServicePortIds>,
        synced: &mut Synced,
    ) -> Result<Vec<Trouble>, SyncError> {
        let plan = self.plan(delta);
        let mut trouble = Vec::new();
        for step in &plan.steps {
            synced.operations += step.len();
            if *step == Step::Rules {
                self.rules.sync(desired, scope, synced)?;
            } else {
                trouble.extend(write::step(&mut self.doors, &self.options.interface, step)?);
            }
        }
        self.drain.end(&plan.returned);
        self.drain.begin((self.clock)(), plan.drained);
        let gone: BTreeSet<What> = write::deleted(&plan.steps).collect();
        self.drain.retain(|what| !gone.contains(what));
        Ok(trouble)
    }

    fn plan(&self, delta: &Delta) -> Plan {
        let scheduler = |what: &What| self.wanted.items.server(what).map(|server| server.scheduler.as_str());
        let protocols = OnceCell::new();
        let has_connections = |what: &What| match what {
            What::Address(_, protocol) => write::has_connections(*protocol),
            What::Mark(..) => {
                let protocols = protocols.get_or_init(|| self.protocols_by_mark());
                protocols.get(what).copied().is_none_or(write::has_connections)
            }
        };
        let drains =
            |what: &What| has_connections(what) && scheduler(what).is_none_or(Scheduler::passes_over);
        plan(delta, &self.drain.servers(), &drains, &|what| self.places(what))
    }

    /// The protocols of virtual servers by mark: the kernel knows none of them, but each is one service port's.
    fn protocols_by_mark(&self) -> BTreeMap<What, IpProtocol> {
        let outside = self.wanted.items.outside();
        let by_mark = |(place, mark): (Place, u32)| (What::Mark(mark, Family::of(place.ip)), place.protocol);
        outside.map(by_mark).collect()
    }

    /// Where a virtual server is dialled, but for places that are silent anyway.
    fn places(&self, what: &What) -> Vec<Place> {
        let items = &self.wanted.items;
        let places = match *what {
            What::Address(at, protocol) => vec![Place { ip: at.ip(), protocol, port: at.port() }],
            What::Mark(mark, family) => {
                let is_of = |place: &Place| Family::of(place.ip) == family;
                items
                    .outside()
                    .filter(|(place, its)| *its == mark && is_of(place))
                    .map(|(place, _)| place)
                    .collect()
            }
        };
        let is_silent =
            |place: &Place| items.has(&Item::Entry(Family::of(place.ip), SetId::Drop, place.entry()));
        places.into_iter().filter(|place| !is_silent(place)).collect()
    }

    /// Is the interface gone, or one of its addresses?
    fn lacks_addresses(&mut self) -> Result<bool, SyncError> {
        let found = self.doors.host().addresses().map_err(Error::Addresses)?;
        let of_interface = found.iter().filter(|address| address.link_name == self.options.interface);
        let there: BTreeSet<IpAddr> = of_interface.map(|address| address.ip).collect();
        let is_lacking = self.wanted.items.addresses().any(|ip| !there.contains(&ip));
        Ok(is_lacking)
    }

    fn drain_after(&self) -> Option<Duration> {
        (!self.drain.servers().is_empty()).then_some(DRAIN_AFTER)
    }

    /// Removes real servers that wait for connections to endpoints that have vanished. The kernel ends those connections at their next
    /// packet (`expire_nodest_conn`).
    fn remove_vanished(&mut self, vanished: &BTreeSet<VanishedFlows>) -> Result<(), SyncError> {
        let gone: BTreeSet<SocketAddr> =
            vanished.iter().map(|flows| SocketAddr::from(flows.endpoint)).collect();
        let draining = self.drain.servers();
        let due: Draining = draining.into_iter().filter(|(_, address)| gone.contains(address)).collect();
        let requests = due.iter().map(|(what, address)| Request::DeleteServer(*what, *address)).collect();
        write::step(&mut self.doors, &self.options.interface, &Step::Servers(requests))?;
        self.drain.end(&due);
        Ok(())
    }

    /// Removes real servers that all connections have left.
    fn remove_drained(&mut self, synced: &mut Synced) -> Result<(), SyncError> {
        let draining = self.drain.servers();
        let mut connections: BTreeMap<(What, SocketAddr), u32> = BTreeMap::new();
        for what in draining.iter().map(|(what, _)| *what).collect::<BTreeSet<_>>() {
            let found = self.doors.servers().real_servers(&what)?;
            connections.extend(
                found.iter().map(|one| ((what, one.server.address), one.active.saturating_add(one.inactive))),
            );
        }
        let lost: Draining = draining.iter().filter(|one| !connections.contains_key(*one)).copied().collect();
        self.drain.end(&lost);
        let due = self.drain.due((self.clock)(), self.options.drain_limit, &connections);
        let requests: Vec<Request> =
            due.iter().map(|(what, address)| Request::DeleteServer(*what, *address)).collect();
        synced.operations += requests.len();
        write::step(&mut self.doors, &self.options.interface, &Step::Servers(requests))?;
        self.drain.end(&due);
        synced.drain_after = self.drain_after();
        Ok(())
    }
}

/// The frontend of a virtual server that nobody asks for.
fn left_behind(item: &Item, desired: &ForwardingTable) -> Option<Frontend> {
    let Frontend::Address { ip, protocol, port } = item.frontend()? else { return None };
    let is_node_port = desired.node().is_own(ip);
    let node_port = Frontend::NodePort { family: Family::of(ip), protocol, port };
    let frontend = if is_node_port { node_port } else { Frontend::Address { ip, protocol, port } };
    desired.route(&frontend).is_none().then_some(frontend)
}

#[cfg(feature = "sim")]
impl<X: Xtables, D: Doors> Ipvs<X, D> {
    /// What a cleanup removes, with all chains that are known, by the programs that the mode writes with.
    pub fn cleanup(&mut self, known: &crate::upstream::KnownChains) -> Result<(), SyncError> {
        self.node = None;
        self.drain = Drain::default();
        let clear_chains = |_: &mut dyn Doors| self.rules.cleanup(known);
        cleanup::everything(&mut self.doors, &self.families, &self.options, clear_chains)
    }
}

impl<X: Xtables, D: Doors> Dataplane for Ipvs<X, D> {
    fn sync(
        &mut self,
        desired: &ForwardingTable,
        scope: Scope<&ServicePortIds>,
    ) -> Result<Synced, SyncError> {
        let mut synced = Synced::default();
        // After an error nothing is known.
        self.try_sync(desired, scope, &mut synced).inspect_err(|_| self.node = None)?;
        synced.drain_after = self.drain_after();
        synced.refused.extend(self.wanted.quarantine.reasons());
        synced.warned.extend(self.wanted.warned.clone());
        Ok(synced)
    }

    fn settle(&mut self) -> Result<Synced, SyncError> {
        let mut synced = self.rules.settle()?;
        self.remove_drained(&mut synced).inspect_err(|_| self.node = None)?;
        Ok(synced)
    }

    fn differences(&mut self, desired: &ForwardingTable) -> Result<Vec<String>, SyncError> {
        let (delta, observed) = self.compare(desired, false, &mut BTreeSet::new())?;
        self.node = None;
        let mut lines = settings::lines(&mut self.doors, self.options.strict_arp)?;
        lines.extend(timeouts::lines(self.doors.servers(), self.options.timeouts)?);
        let missing = write::missing_sets(&self.families, &self.options, &observed);
        lines.extend(missing.iter().map(|set| format!("create set {}", set.name)));
        if !observed.has_interface {
            lines.push(format!("make interface {}", self.options.interface));
        }
        for step in self.plan(&delta).steps {
            lines.extend(step.lines(&self.options.interface));
            if step == Step::Rules {
                lines.extend(self.rules.differences(desired)?);
            }
        }
        for interface in observed.interfaces.iter().filter(|name| **name != self.options.interface) {
            let addresses = write::strays(&observed, interface).collect();
            lines.extend(Step::DeleteAddresses(addresses).lines(interface));
            lines.extend(names::on(interface).map(|record| format!("destroy set {}", record.name)));
        }
        Ok(lines)
    }

    fn end_connections(&mut self, vanished: &BTreeSet<VanishedFlows>) -> Result<(), SyncError> {
        self.remove_vanished(vanished).inspect_err(|_| self.node = None)
    }

    fn leaving(&mut self) -> Option<Leaving> {
        let longest = self.drain.longest((self.clock)())?;
        Some(Leaving { count: self.drain.servers().len(), longest })
    }

    /// Of what is in force: rules, and addresses, which go with their interface.
    fn carried(&mut self) -> Option<Vec<Carried>> {
        // Who only looks at figures does not hear of an error; the next sync does.
        carried::read(self.doors.servers(), &self.wanted.items).ok()
    }

    fn try_to_write(&mut self) -> Result<(), String> {
        programs::try_to_write(self.rules.doors())?;
        let scheduler = self.options.scheduler.unwrap_or(Scheduler::ROUND_ROBIN);
        scheduler.try_on(self.doors.servers()).map_err(|error| error.to_string())?;
        self.try_dummy().map_err(|error| error.to_string())
    }

    fn is_flushed(&mut self) -> Result<bool, SyncError> {
        Ok(self.node.is_some() && self.lacks_addresses()? || self.rules.is_flushed()?)
    }
}
