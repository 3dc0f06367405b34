//! Modes beside simulated settings, for tests that are about something else: no setting is there, as on a kernel without them.
//!
//! Absent on purpose: simulated kernels, which are in the crate `kernel-sim`.

use kernel::nft::Kernel;
use kernel::xtables::Xtables;
use kernel_sim::sysctl::Simulated;
use model::Family;

use crate::{iptables, nftables};

/// The nftables mode of both families.
pub type Nftables<K> = nftables::Nftables<K, Simulated>;

/// The iptables mode.
pub type Iptables<X> = iptables::Iptables<X, Simulated>;

impl<K: Kernel> Nftables<K> {
    /// The mode on `kernel`, of whose contents nothing is known yet, without settings.
    pub fn new(kernel: K, options: nftables::Options) -> Self {
        Self::beside(kernel, &Family::ALL, options, Simulated::default())
    }
}

impl<X: Xtables> Iptables<X> {
    /// The mode behind these doors, one for each family that is served, on a kernel without settings.
    pub fn new(doors: impl IntoIterator<Item = X>, options: iptables::Options) -> Self {
        Self::beside(doors, options, Simulated::default())
    }
}
