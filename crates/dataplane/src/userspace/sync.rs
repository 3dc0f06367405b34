//! The mode itself: listeners first, then the rules that lead to them, then what nothing leads to goes.

use std::collections::{BTreeMap, BTreeSet};

use kernel::xtables::Xtables;
use model::{Family, ForwardingTable, ServicePortId};

use super::earlier::Earlier;
use super::held::{self, Held};
use super::listening::{Listening, Opener};
use super::render::Portals;
use super::stale::Led;
use super::{Options, Ports};
use crate::programs;
use crate::relay::{ListenerId, Relays};
use crate::xtables::Families;
use crate::{Dataplane, Scope, ServicePortIds, SyncError, Synced};

/// The userspace mode: the doors of one iptables program, and the relay.
#[derive(Clone, Debug)]
pub struct Userspace<X, R> {
    families: Families<X, Portals>,
    served: Vec<Family>,
    relays: R,
    /// `None` until the kernel was looked at.
    earlier: Option<Earlier>,
    listening: Listening,
    /// Service ports that may be different since the last sync that went well.
    touched: BTreeSet<ServicePortId>,
    held: Held,
    led: Led,
    /// All service ports were asked what they need.
    has_begun: bool,
}

impl<X: Xtables, R: Relays> Userspace<X, R> {
    /// The mode behind these doors, one for each family that is served, and before this relay.
    pub fn new(doors: impl IntoIterator<Item = X>, relays: R, options: Options) -> Self {
        let doors: Vec<X> = doors.into_iter().collect();
        Self {
            served: doors.iter().map(Xtables::family).collect(),
            families: Families::new(doors, Portals::new(options, Ports::default())),
            relays,
            earlier: None,
            listening: Listening::default(),
            touched: BTreeSet::new(),
            held: Held::default(),
            led: Led::default(),
            has_begun: false,
        }
    }

    /// The doors.
    pub fn doors(&mut self) -> impl Iterator<Item = &mut X> {
        self.families.doors()
    }

    /// The relay.
    pub fn relays(&mut self) -> &mut R {
        &mut self.relays
    }

    /// The ports that rules lead to.
    pub fn ports(&self) -> &Ports {
        &self.families.style.ports
    }

    fn look_back(&mut self) -> Result<(), SyncError> {
        if self.earlier.is_none() {
            let earlier = Earlier::read(self.families.doors())?;
            earlier.reserve(&mut self.relays);
            self.earlier = Some(earlier);
        }
        Ok(())
    }

    /// The service ports that may be different.
    fn ids(&self, desired: &ForwardingTable, scope: Scope<&ServicePortIds>) -> BTreeSet<ServicePortId> {
        match scope {
            Scope::Changed(ids) if self.has_begun && desired.node() == self.led.node() => ids.clone(),
            _ => {
                let known = self.ports().ids().chain(self.held.ids()).chain(self.led.ids());
                desired
                    .ports()
                    .map(|port| port.id())
                    .chain(known)
                    .chain(self.families.style.quarantine.ids())
                    .cloned()
                    .collect()
            }
        }
    }

    fn listening<'a>(&'a mut self, desired: &'a ForwardingTable) -> (&'a mut Listening, Opener<'a, R>) {
        let opener = Opener {
            relays: &mut self.relays,
            desired,
            families: &self.served,
            style: &mut self.families.style,
            earlier: self.earlier.get_or_insert_default(),
        };
        (&mut self.listening, opener)
    }

    /// Writes rules. A service port whose rules are refused in one family is as it was in the other one, too.
    fn write(
        &mut self,
        desired: &ForwardingTable,
        scope: Scope<&ServicePortIds>,
        synced: &mut Synced,
    ) -> Result<(), SyncError> {
        self.families.sync(desired, scope, synced)?;
        let is_tried = |id: &ServicePortId| self.touched.contains(id);
        let refused = synced.refused.clone().into_iter().filter(|(id, _)| is_tried(id)).collect();
        let (listening, mut opener) = self.listening(desired);
        let back = listening.bring_back(&mut opener, refused);
        if !back.is_empty() {
            self.families.sync(desired, Scope::Changed(&back), synced)?;
        }
        self.listening.accept();
        Ok(())
    }

    /// Rules are in force: what depends upon them follows.
    fn follow(&mut self, desired: &ForwardingTable, scope: Scope<&ServicePortIds>, synced: &mut Synced) {
        let is_complete = matches!(scope, Scope::Everything);
        let style = &mut self.families.style;
        let default = style.options.default_node_port_addresses;
        self.listening.close(&mut self.relays, &mut style.ports, is_complete);
        let touched = std::mem::take(&mut self.touched);
        let wanted = |id: &ServicePortId| {
            let port = style.quarantine.wanted(desired, id);
            port.map(|port| held::wanted(&port, desired.node(), default)).unwrap_or_default()
        };
        let wanted: BTreeMap<_, _> = touched.iter().map(|id| (id.clone(), wanted(id))).collect();
        self.held.update(&mut self.relays, wanted);
        let earlier = self.earlier.get_or_insert_default();
        synced.stale = Some(self.led.follow(&touched, desired, style, earlier));
        if is_complete {
            earlier.end(&mut self.relays);
        }
        synced.refused.extend(style.quarantine.reasons());
        synced.warned.clone_from(&self.held.warned);
    }

    /// The ports that rules would lead to: those of listeners, else of an earlier life, else any.
    fn expected_ports(&self, desired: &ForwardingTable, earlier: &Earlier) -> Ports {
        let expected = |(id, example): (ListenerId, u16)| {
            let open = self.ports().get(&id.port, id.family, id.purpose);
            let port = open.or_else(|| earlier.port_of(&id)).unwrap_or(example);
            (id, port)
        };
        let quarantine = &self.families.style.quarantine;
        let wanted = desired.ports().filter_map(|port| quarantine.wanted(desired, port.id()));
        Ports::examples_of(wanted).iter().map(expected).collect()
    }
}

impl<X: Xtables, R: Relays> Dataplane for Userspace<X, R> {
    fn sync(
        &mut self,
        desired: &ForwardingTable,
        scope: Scope<&ServicePortIds>,
    ) -> Result<Synced, SyncError> {
        self.look_back()?;
        let ids = self.ids(desired, scope);
        let (listening, mut opener) = self.listening(desired);
        listening.open(&mut opener, &ids);
        self.touched.extend(ids);
        self.has_begun = true;
        let mut synced = Synced { was_full: scope.is_full(), ..Synced::default() };
        self.write(desired, scope, &mut synced)?;
        self.follow(desired, scope, &mut synced);
        Ok(synced)
    }

    fn settle(&mut self) -> Result<Synced, SyncError> {
        self.families.settle()
    }

    fn differences(&mut self, desired: &ForwardingTable) -> Result<Vec<String>, SyncError> {
        let earlier = Earlier::read(self.families.doors())?;
        let expected = self.expected_ports(desired, &earlier);
        let ports = std::mem::replace(&mut self.families.style.ports, expected);
        let found = self.families.differences(desired);
        self.families.style.ports = ports;
        found
    }

    fn try_to_write(&mut self) -> Result<(), String> {
        programs::try_to_write(self.families.doors())
    }

    fn is_flushed(&mut self) -> Result<bool, SyncError> {
        self.families.is_flushed()
    }
}
