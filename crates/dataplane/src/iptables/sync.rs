//! The mode itself: both families, kept in step with the forwarding table.

use kernel::sysctl::Sysctls;
use kernel::xtables::Xtables;
use model::ForwardingTable;

use super::Options;
use super::localnet::Localnet;
use super::packets::{Look, PacketCounts};
use crate::programs;
use crate::xtables::Families;
use crate::{Counted, Dataplane, Scope, ServicePortIds, SyncError, Synced};

/// The connection tracker takes no packet for invalid that is outside of TCP's window.
const BE_LIBERAL: &str = "net/netfilter/nf_conntrack_tcp_be_liberal";

/// The iptables mode, behind the doors of one program, and beside the settings of the kernel.
#[derive(Clone, Debug)]
pub struct Iptables<X, S> {
    families: Families<X, Options>,
    settings: S,
    packets: PacketCounts,
    /// Set after each sync, when the rules that guard it are in force.
    localnet: Option<Localnet>,
}

impl<X: Xtables, S: Sysctls> Iptables<X, S> {
    /// The mode behind these doors, one for each family that is served, on a kernel with these settings.
    pub fn beside(doors: impl IntoIterator<Item = X>, options: Options, settings: S) -> Self {
        let (families, packets) = (Families::new(doors, options), PacketCounts::default());
        Self { families, settings, packets, localnet: None }
    }

    /// The same, with packets of 127.0.0.0/8 let out and in.
    pub(super) fn with_localnet(self, localnet: Localnet) -> Self {
        Self { localnet: Some(localnet), ..self }
    }

    /// The settings of the kernel.
    pub fn settings(&mut self) -> &mut S {
        &mut self.settings
    }

    /// With a liberal tracker, invalid packets are dropped no more, as upstream: an operator may turn that on at any time. A setting that
    /// cannot be read, or is not there until the tracker is loaded, changes nothing.
    /// Returns what has changed, in words.
    fn read_settings(&mut self) -> Option<String> {
        let value = self.settings.read(BE_LIBERAL).ok()??;
        let drops = value == "0";
        let has_changed = std::mem::replace(&mut self.families.style.drops_invalid, drops) != drops;
        let words = if drops {
            "packets that are invalid are dropped"
        } else {
            "packets that are invalid are not dropped"
        };
        has_changed.then(|| format!("nf_conntrack_tcp_be_liberal is {value}: {words}"))
    }

    /// The doors.
    pub fn doors(&mut self) -> impl Iterator<Item = &mut X> {
        self.families.doors()
    }
}

impl<X: Xtables, S: Sysctls + Send> Dataplane for Iptables<X, S> {
    fn sync(
        &mut self,
        desired: &ForwardingTable,
        scope: Scope<&ServicePortIds>,
    ) -> Result<Synced, SyncError> {
        let is_full = scope.is_full();
        let mut synced = Synced { was_full: is_full, ..Synced::default() };
        if is_full {
            synced.settings.extend(self.read_settings());
            // What a rule has counted is gone when it is written anew.
            self.packets.look(&mut self.families, Look::Whole);
        }
        let result = self.families.sync(desired, scope, &mut synced);
        self.packets.follow_writes(&mut self.families);
        if is_full {
            self.packets.look(&mut self.families, Look::Whole);
        }
        if result.is_ok() {
            synced.waits.extend(self.localnet.as_ref().and_then(|localnet| localnet.open().err()));
        }
        result.map(|()| synced)
    }

    fn counted(&mut self) -> Counted {
        self.packets.look(&mut self.families, Look::Cheap);
        self.packets.counted()
    }

    fn settle(&mut self) -> Result<Synced, SyncError> {
        self.families.settle()
    }

    fn differences(&mut self, desired: &ForwardingTable) -> Result<Vec<String>, SyncError> {
        self.read_settings();
        self.families.differences(desired)
    }

    fn try_to_write(&mut self) -> Result<(), String> {
        programs::try_to_write(self.families.doors())
    }

    fn is_flushed(&mut self) -> Result<bool, SyncError> {
        self.families.is_flushed()
    }
}
