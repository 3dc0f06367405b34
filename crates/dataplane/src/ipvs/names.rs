//! What sets, chains and marks are called. All of them are ours alone: upstream's, and those of other modes, may be there beside
//! them, so that a switch from one to the other leaves no moment without service.

use kernel::IpProtocol;
use kernel::ipset::{Kind, Set, SetName};
use kernel::xtables::ChainName;
use model::Family;

use crate::xtables::name;

/// The comment of every rule that leads to our chains.
pub(crate) const WORDS: &str = "portway ipvs";
/// Every chain of this mode begins so.
pub(crate) const PREFIX: &str = "PORTWAY-";

/// `mangle`: who may not come at all.
pub(super) const GUARD: &str = "PORTWAY-GUARD";
/// `mangle`: load balancer IPs with source ranges.
pub(super) const RANGES: &str = "PORTWAY-RANGES";
/// `mangle`: frontends whose outside has endpoints of its own.
pub(super) const OUTSIDE: &str = "PORTWAY-OUTSIDE";
/// `mangle`: takes the mark of [`OUTSIDE`] off.
pub(super) const UNMARK: &str = "PORTWAY-UNMARK";
/// `nat`: whose source is hidden.
pub(crate) const SERVICES: &str = "PORTWAY-SERVICES";
/// `nat`: the same, of what this host sends.
pub(super) const HOST: &str = "PORTWAY-HOST";
/// `nat`: marks everybody who is no pod.
pub(super) const OTHERS: &str = "PORTWAY-OTHERS";
/// `nat`: sets the masquerade mark.
pub(super) const MARK_MASQ: &str = "PORTWAY-MARK-MASQ";
/// `nat`: masquerades.
pub(super) const POSTROUTING: &str = "PORTWAY-POSTROUTING";
/// `filter`: refuses what no Service has; lets health checks in.
pub(super) const FILTER: &str = "PORTWAY-FILTER";
/// `filter`: lets answers through.
pub(super) const FORWARD: &str = "PORTWAY-FORWARD";

/// The marks of virtual servers by mark are this and a number. IPVS compares all bits of a packet's mark, so such a packet carries
/// nothing else; bit 14, by which sources are hidden, is not among them.
pub(super) const MARKS: u32 = 0x0100_0000;
/// So many numbers there are.
pub(super) const MARKS_MAX: u16 = 0x4000;

/// Upstream's sets of node ports, and the protocol of each: with them its virtual servers on addresses of this host are known. Sets
/// of SCTP say their protocol themselves, but for those before 1.15.
const NODE_PORTS_OF_UPSTREAM: [(&str, IpProtocol); 8] = [
    ("NODE-PORT-TCP", IpProtocol::TCP),
    ("NODE-PORT-LOCAL-TCP", IpProtocol::TCP),
    ("NODE-PORT-UDP", IpProtocol::UDP),
    ("NODE-PORT-LOCAL-UDP", IpProtocol::UDP),
    ("NODE-PORT-SCTP", IpProtocol::SCTP),
    ("NODE-PORT-LOCAL-SCTP", IpProtocol::SCTP),
    ("NODE-PORT-SCTP-HASH", IpProtocol::SCTP),
    ("NODE-PORT-LOCAL-SCTP-HASH", IpProtocol::SCTP),
];

/// All of upstream's other sets, of any version. Names begin with `KUBE-`, or `KUBE-6-`, and end after 31 letters.
const SETS_OF_UPSTREAM: [&str; 12] = [
    "LOOP-BACK",
    "CLUSTER-IP",
    "EXTERNAL-IP",
    "EXTERNAL-IP-LOCAL",
    "LOAD-BALANCER",
    "LOAD-BALANCER-LOCAL",
    "LOAD-BALANCER-FW",
    "LOAD-BALANCER-SOURCE-CIDR",
    "LOAD-BALANCER-SOURCE-IP",
    "LOAD-BALANCER-MASQ",
    "HEALTH-CHECK-NODE-PORT",
    "IPVS-IPS",
];

/// Is a set of this name upstream's?
pub(super) fn is_of_upstream(name: &str) -> bool {
    SETS_OF_UPSTREAM.iter().any(|word| is_upstreams(name, word)) || node_ports_of_upstream(name).is_some()
}

/// The protocol of the node ports in a set of this name, if it is upstream's.
pub(super) fn node_ports_of_upstream(name: &str) -> Option<IpProtocol> {
    let found = NODE_PORTS_OF_UPSTREAM.iter().find(|(word, _)| is_upstreams(name, word));
    found.map(|(_, protocol)| *protocol)
}

fn is_upstreams(name: &str, word: &str) -> bool {
    ["KUBE-", "KUBE-6-"].iter().any(|prefix| {
        let whole = format!("{prefix}{word}");
        whole.get(..SetName::BYTES_MAX).unwrap_or(&whole) == name
    })
}

/// A set of ours, of one family.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum SetId {
    /// Virtual servers by address that are ours: written before one is made, removed after it is gone.
    Servers,
    /// Virtual servers by mark that are ours, by their number; the same.
    Marks,
    /// Addresses that we gave the interface; the same.
    Bound,
    /// Addresses of which only the ports of Services may be dialled.
    Addresses,
    /// Cluster IPs with their ports: hidden are all but pods.
    ClusterIps,
    /// Frontends whose clients are all hidden.
    Masquerade,
    /// Frontends whose outside has endpoints of its own, or none: `externalTrafficPolicy: Local`.
    Local,
    /// Frontends that nobody is to reach, and nobody is told: `internalTrafficPolicy: Local` without an endpoint here.
    Drop,
    /// Load balancer IPs that not everybody may reach.
    Guarded,
    /// Who may reach them.
    Sources,
    /// Endpoints with themselves as clients.
    Hairpin,
    /// Health checks that are let in.
    HealthChecks,
}

impl SetId {
    /// All of them.
    pub const ALL: [Self; 12] = [
        Self::Servers,
        Self::Marks,
        Self::Bound,
        Self::Addresses,
        Self::ClusterIps,
        Self::Masquerade,
        Self::Local,
        Self::Drop,
        Self::Guarded,
        Self::Sources,
        Self::Hairpin,
        Self::HealthChecks,
    ];

    /// Its name.
    pub fn name(self, family: Family) -> SetName {
        let word = match self {
            Self::Servers => "SERVERS",
            Self::Marks => "MARKS",
            Self::Bound => "BOUND",
            Self::Addresses => "ADDRESSES",
            Self::ClusterIps => "CLUSTER-IP",
            Self::Masquerade => "MASQUERADE",
            Self::Local => "LOCAL",
            Self::Drop => "DROP",
            Self::Guarded => "GUARDED",
            Self::Sources => "SOURCES",
            Self::Hairpin => "HAIRPIN",
            Self::HealthChecks => "HEALTH-CHECK",
        };
        set_name(&format!("{}{word}", prefix(family)))
    }

    /// The set as it is made.
    pub(super) fn set(self, family: Family) -> Set {
        Set { entries_max: ENTRIES_MAX, ..Set::new(self.name(family), self.kind(family)) }
    }

    fn kind(self, family: Family) -> Kind {
        match self {
            Self::Bound | Self::Addresses => Kind::Ip(family),
            Self::Sources => Kind::IpPortNet(family),
            Self::Hairpin => Kind::IpPortIp(family),
            Self::Marks | Self::HealthChecks => Kind::Port,
            _ => Kind::IpPort(family),
        }
    }
}

/// A hash grows by itself; this is only where it stops.
const ENTRIES_MAX: u32 = 1 << 20;

/// What settings were before we changed them, as numbers; one for the whole host.
pub(super) fn former() -> Set {
    Set::new(set_name("PORTWAY-FORMER"), Kind::Port)
}

/// What timeouts of IPVS were before we changed them.
pub(super) fn former_timeouts() -> Set {
    Set::new(set_name("PORTWAY-FORMER-TIMEOUTS"), Kind::Port)
}

/// How the records of interfaces begin: their names say on which interface the addresses of [`SetId::Bound`] are. They are empty.
const ON: &str = "PORTWAY-ON-";

/// The record of an interface; `None` if no set can be called so.
pub(super) fn on(interface: &str) -> Option<Set> {
    SetName::new(&format!("{ON}{interface}")).map(|name| Set::new(name, Kind::Port))
}

/// The interface of which a set of this name is the record.
pub(super) fn interface_of(set: &str) -> Option<&str> {
    set.strip_prefix(ON)
}

/// How the names of a family's sets begin, as upstream tells them apart.
fn prefix(family: Family) -> &'static str {
    match family {
        Family::V4 => "PORTWAY-",
        Family::V6 => "PORTWAY-6-",
    }
}

fn set_name(text: &str) -> SetName {
    SetName::new(text).expect("it is made here, of letters and hyphens, and short")
}

/// A chain of ours.
pub(super) fn chain(text: &str) -> ChainName {
    name(text)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn sets_of_upstream_are_known_by_their_whole_names() {
        for (name, is_theirs, protocol) in [
            ("KUBE-CLUSTER-IP", true, None),
            ("KUBE-6-LOAD-BALANCER-SOURCE-CID", true, None),
            ("KUBE-NODE-PORT-UDP", true, Some(IpProtocol::UDP)),
            ("KUBE-NODE-PORT-LOCAL-SCTP-HASH", true, Some(IpProtocol::SCTP)),
            ("KUBE-6-NODE-PORT-LOCAL-SCTP-HAS", true, Some(IpProtocol::SCTP)),
            ("KUBE-NODE-PORT-SCTP", true, Some(IpProtocol::SCTP)),
            ("KUBE-CLUSTER-IPS", false, None),
            ("KUBE-MINE", false, None),
            ("CLUSTER-IP", false, None),
        ] {
            assert_eq!((is_of_upstream(name), node_ports_of_upstream(name)), (is_theirs, protocol), "{name}");
        }
    }

    #[test]
    fn the_record_of_an_interface_says_its_name() {
        let record = on("flannel.1").unwrap();
        assert_eq!(interface_of(record.name.as_str()), Some("flannel.1"));
        assert_eq!(interface_of(SetId::Bound.name(Family::V4).as_str()), None);
        assert_eq!(on("two words"), None);
    }
}
