//! The doors that this mode goes through, beside those of iptables.

use kernel::host::ChangeHost;
use kernel::ipset::Ipsets;
use kernel::ipvs::Ipvs;
use kernel::sysctl::Sysctls;

/// Everything that is not iptables.
pub trait Doors {
    /// Virtual servers.
    fn servers(&mut self) -> &mut dyn Ipvs;
    /// Sets.
    fn sets(&mut self) -> &mut dyn Ipsets;
    /// Links and addresses.
    fn host(&mut self) -> &mut dyn ChangeHost;
    /// Settings.
    fn settings(&mut self) -> &mut dyn Sysctls;
}

/// The doors, side by side.
#[derive(Clone, Debug)]
pub struct Kernel<V, S, H, C> {
    /// Virtual servers.
    pub servers: V,
    /// Sets.
    pub sets: S,
    /// Links and addresses.
    pub host: H,
    /// Settings.
    pub settings: C,
}

impl<V: Ipvs, S: Ipsets, H: ChangeHost, C: Sysctls> Doors for Kernel<V, S, H, C> {
    fn servers(&mut self) -> &mut dyn Ipvs {
        &mut self.servers
    }

    fn sets(&mut self) -> &mut dyn Ipsets {
        &mut self.sets
    }

    fn host(&mut self) -> &mut dyn ChangeHost {
        &mut self.host
    }

    fn settings(&mut self) -> &mut dyn Sysctls {
        &mut self.settings
    }
}
