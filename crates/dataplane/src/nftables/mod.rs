//! nftables, by direct netlink: the flagship. README.md beside this file tells the packet's way.
//!
//! In: the forwarding table. Out: one table `kube-proxy` in each family, of maps that every service shares. A service is a
//! handful of elements; chains follow the distinct classes in use.
//!
//! Each family is written by itself, so that one broken family does not stop the other.

mod adopt;
mod chains;
mod class;
mod counts;
mod culprit;
mod desired;
mod elements;
mod families;
mod family;
mod layout;
mod meddling;
mod mode;
mod numbers;
mod observed;
mod packets;
mod plan;
#[cfg(feature = "sim")]
pub mod sim;
mod tracked;

use std::time::Duration;

use family::FamilyState;
use kernel::nft::family_name;
use kernel::nft::{Error, Kernel, Transaction};
use kernel::sysctl::Sysctls;
use layout::TABLE;
pub use meddling::Listener;
pub use mode::MODE;
use model::{Family, ForwardingTable, Promises};
use packets::PacketCounts;
use tracked::Tracked;

use crate::checks::{BRIDGE_HAIRPIN, BRIDGE_NETFILTER, Check, FORWARD_FILTER, IP_FORWARD};
use crate::served::Served;
use crate::{Counted, Dataplane, Scope, ServicePortIds, SyncError, Synced};

/// What else must be so on this host: packets are translated, and then forwarded as any others.
pub const CHECKS: &[Check] = &[IP_FORWARD, FORWARD_FILTER, BRIDGE_NETFILTER, BRIDGE_HAIRPIN];

/// Are these rules of this mode?
pub fn owns(served: Served) -> bool {
    matches!(served, Served::Table(..))
}

/// A packet is long past its lookups after this: what nothing leads to any more can go.
const SETTLE_AFTER: Duration = Duration::from_millis(5);

/// With 0 here, a packet in the middle of a connection that is not tracked is invalid.
const TCP_LOOSE: &str = "net/netfilter/nf_conntrack_tcp_loose";

/// What the operator chose for this mode.
#[derive(Clone, Copy, Debug)]
pub struct Options {
    /// The mark bit that says: hide the source of this connection.
    pub masquerade_mark: u32,
    /// Drop replies of endpoints that are outside of the TCP window: a stray one resets its connection.
    pub drops_stray_replies: bool,
    /// What the mode promises where Kubernetes leaves the choice.
    pub promises: Promises,
}

impl Default for Options {
    fn default() -> Self {
        Self { masquerade_mark: 0x4000, drops_stray_replies: true, promises: Promises::default() }
    }
}

/// The nftables mode, on a kernel and beside its settings.
#[derive(Clone, Debug)]
pub struct Nftables<K, S> {
    kernel: Tracked<K>,
    settings: S,
    /// One for each family that is served.
    families: Vec<FamilyState>,
    /// What no Service asked for stayed at the last full sync.
    keeps_leftovers: bool,
    packets: PacketCounts,
}

impl<K: Kernel, S: Sysctls> Nftables<K, S> {
    /// The mode for these families on `kernel`, of whose contents nothing is known yet, with these settings. Other families are neither
    /// read nor written.
    pub fn beside(kernel: K, families: &[Family], options: Options, settings: S) -> Self {
        let families = families.iter().map(|family| FamilyState::new(*family, options)).collect();
        let (kernel, packets) = (Tracked::new(kernel), PacketCounts::default());
        Self { kernel, settings, families, keeps_leftovers: false, packets }
    }

    /// The settings of the kernel.
    pub fn settings(&mut self) -> &mut S {
        &mut self.settings
    }

    /// A strict tracker calls every reply invalid whose connection it has not seen begin, also where replies alone are routed over this
    /// node: then no reply is dropped. A setting that cannot be read changes nothing.
    /// Returns what has changed, in words.
    fn read_settings(&mut self) -> Option<String> {
        let value = self.settings.read(TCP_LOOSE).ok()??;
        let (drops, mut has_changed) = (value != "0", false);
        for state in &mut self.families {
            has_changed |= std::mem::replace(&mut state.options.drops_stray_replies, drops) != drops;
        }
        let words =
            if drops { "stray replies of endpoints are dropped" } else { "stray replies of endpoints pass" };
        has_changed.then(|| format!("nf_conntrack_tcp_loose is {value}: {words}"))
    }

    /// The kernel.
    pub fn kernel(&mut self) -> &mut K {
        &mut self.kernel.kernel
    }

    /// Whether the kernel is as the last full sync left it, which asked for the same.
    fn is_untouched(&mut self, scope: Scope<&ServicePortIds>) -> bool {
        let keeps = scope.keeps_leftovers();
        let is_same = std::mem::replace(&mut self.keeps_leftovers, keeps) == keeps;
        is_same && self.kernel.is_untouched()
    }

    fn look_at_packets(&mut self) {
        self.packets.look(&mut self.kernel, self.families.iter().map(|state| state.family));
    }

    fn settle_after(&self) -> Option<Duration> {
        self.families.iter().any(FamilyState::is_unsettled).then_some(SETTLE_AFTER)
    }
}

impl<K: Kernel, S: Sysctls> Nftables<K, S> {
    /// Removes everything that this mode has ever written, in any version, and nothing else.
    pub fn cleanup(&mut self) -> Result<(), SyncError> {
        for state in &mut self.families {
            let family = state.family;
            let tables = self.kernel.tables(family)?;
            for table in tables.iter().filter(|table| is_ours(table)) {
                if has_upstreams_chain(&mut self.kernel, family, &table.name)? {
                    continue;
                }
                for step in adopt::removal(&mut self.kernel, family, &table.name)? {
                    self.kernel.run(&step)?;
                }
            }
            state.forget();
        }
        Ok(())
    }
}

impl<K: Kernel, S: Sysctls + Send> Dataplane for Nftables<K, S> {
    fn sync(
        &mut self,
        desired: &ForwardingTable,
        scope: Scope<&ServicePortIds>,
    ) -> Result<Synced, SyncError> {
        let mut synced = Synced { was_full: scope.is_full(), ..Synced::default() };
        let mut is_untouched = true;
        if scope.is_full() {
            synced.settings.extend(self.read_settings());
            is_untouched = self.is_untouched(scope);
            if !is_untouched {
                self.kernel.look();
            }
            // What a rule has counted is gone when it is written anew.
            self.look_at_packets();
        }
        let mut result = Ok(());
        for state in &mut self.families {
            result = result.and(state.sync(&mut self.kernel, desired, scope, is_untouched, &mut synced));
        }
        if scope.is_full() {
            self.look_at_packets();
        }
        result?;
        synced.settle_after = self.settle_after();
        Ok(synced)
    }

    fn settle(&mut self) -> Result<Synced, SyncError> {
        let (mut synced, mut failed) = (Synced::default(), None);
        for state in &mut self.families {
            match state.settle(&mut self.kernel) {
                Ok(operations) => synced.operations += operations,
                Err(error) => {
                    state.forget();
                    failed = Some(error);
                }
            }
        }
        synced.settle_after = self.settle_after();
        failed.map_or(Ok(synced), |error| Err(error.into()))
    }

    fn differences(&mut self, desired: &ForwardingTable) -> Result<Vec<String>, SyncError> {
        self.read_settings();
        let mut found = Vec::new();
        for state in &self.families {
            let mut state = FamilyState::new(state.family, state.options);
            let mut transaction = state.difference(&mut self.kernel, desired)?;
            state.add_deletions(&mut transaction);
            found.extend(transaction.script().lines().map(str::to_owned));
        }
        Ok(found)
    }

    fn counted(&mut self) -> Counted {
        self.look_at_packets();
        Counted { localhost_rejected: self.packets.totals(), ..Counted::default() }
    }
}

/// Our mark, in any version of the layout.
fn is_ours(table: &kernel::nft::Table) -> bool {
    table.comment.as_ref().is_some_and(|comment| comment.as_str().starts_with(layout::MARK_OF_OURS))
}

/// Upstream's kube-proxy writes into a table of that name as it finds it, so our mark stays on what is its own then.
fn has_upstreams_chain<K: Kernel>(
    kernel: &mut K,
    family: kernel::nft::Family,
    table: &str,
) -> Result<bool, Error> {
    let Some(listed) = kernel.list(family, table)? else { return Ok(false) };
    let chain = layout::UPSTREAMS_CHAIN;
    Ok(listed.chains.contains_key(chain) || listed.unknown.contains(&format!("chain {chain}")))
}

/// Removes every table `kube-proxy`, ours or upstream's, for a mode that does its work now. What is gone, in words.
pub fn take_over<K: Kernel>(kernel: &mut K) -> Result<Vec<String>, Error> {
    let mut gone = Vec::new();
    for family in kernel::nft::Family::ALL {
        let is_theirs = |table: &kernel::nft::Table| [layout::TABLE, layout::BESIDE].contains(&&*table.name);
        for table in kernel.tables(family)?.iter().filter(|table| is_theirs(table)) {
            let is_ours = is_ours(table) && !has_upstreams_chain(kernel, family, &table.name)?;
            let whose = if is_ours { "our" } else { "upstream's" };
            for step in adopt::removal(kernel, family, &table.name)? {
                kernel.run(&step)?;
            }
            gone.push(format!("table {} {} of {whose} nftables mode", family_name(family), &*table.name));
        }
    }
    Ok(gone)
}

/// The whole table as `nft -f` reads it, for both families: what [`Dataplane::sync`] would write into an empty kernel.
pub fn render(desired: &ForwardingTable, options: &Options) -> String {
    let mut text = String::new();
    for family in Family::ALL {
        let mut state = FamilyState::new(family, *options);
        text.push_str(&state.whole(desired).script());
    }
    text
}

/// Operations of a transaction, each element counted.
fn count_operations(transaction: &Transaction) -> usize {
    use kernel::nft::Operation::{AddElements, DeleteElements};
    let count = |operation: &kernel::nft::Operation| match operation {
        AddElements(_, elements) | DeleteElements(_, elements) => elements.len(),
        _ => 1,
    };
    transaction.operations.iter().map(count).sum()
}
