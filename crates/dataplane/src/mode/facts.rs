//! Facts of a mode that decide nothing in it: where its settings stand in upstream's config file, how it is deployed, what clients notice.

use kernel::xtables::Variant;

/// Sections of upstream's config file.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Sections {
    /// `syncPeriod` and `minSyncPeriod`.
    pub pace: &'static str,
    /// `masqueradeAll` and `masqueradeBit`.
    pub masquerade: &'static str,
    /// `localhostNodePorts`, where upstream's mode has it.
    pub localhost: Option<&'static str>,
}

/// What a mode needs of the image and of the container.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Deployment {
    /// Its folder in `deploy/overlays`.
    pub overlay: &'static str,
    /// The iptables program that it writes with.
    pub program: Option<Variant>,
    /// Capabilities, without `CAP_`.
    pub capabilities: &'static [&'static str],
    /// Debian packages.
    pub packages: &'static [&'static str],
}

/// What of a mode's work clients notice beyond its semantics.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
#[expect(clippy::struct_excessive_bools, reason = "facts that have nothing to do with each other")]
pub struct Behaviour {
    /// The relay carries connections, which end with the process. Otherwise the kernel does, and they outlive it.
    pub relays_connections: bool,
    /// A TCP connection is refused by a reset. Otherwise by an ICMP error.
    pub refuses_by_reset: bool,
    /// What a host sends itself is refused on its way out where a Service has no endpoints, and on its way in where there is no such port:
    /// the sender hears that it may not send, or of an ICMP error.
    pub refuses_own_packets_in_two_ways: bool,
    /// A segment far ahead of the TCP window resets no connection, also not one that is masqueraded or of this host itself.
    pub drops_all_stray_segments: bool,
    /// A client is not forgotten before the kernel has forgotten its last connection, minutes after its end.
    pub affinity_waits_for_connections: bool,
    /// The file that says how many clients an endpoint's affinity has room for. Without one there is room for all.
    pub affinity_limit: Option<&'static str>,
    /// Modules that not every kernel has.
    pub kernel_modules: &'static [&'static str],
}

/// Who counts what was carried for a service port.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum TrafficSource {
    /// The relay, for what goes through it.
    Relay,
    /// The kernel: [`Dataplane::carried`](crate::Dataplane::carried).
    Kernel,
}
