//! Checks that judge the path of one packet.

use kernel::xtables;
use model::fate::Payload;
use model::{Family, Fate, Packet};

use super::conditions::ConntrackLoad;
use super::path::neighbour;
use super::{Check, Conditions, FilterVerdict, HostTrouble, Path, Probe, Severity, Subject, Trouble};

/// The connection tracker is called nearly full from this share on, in percent.
const NEARLY_FULL: u64 = 90;
/// `rp_filter`: a source must be reached by the link that its packet came in by.
const STRICT: u8 = 1;

/// Whether this host forwards packets at all.
pub const IP_FORWARD: Check = Check {
    name: "ip-forward",
    question: "does this host forward packets?",
    traffic: "clients elsewhere and pods, to endpoints on other hosts or in pods",
    probe: Probe::Packet(ip_forward),
};

/// Whether rules of other programs drop what this host forwards.
pub const FORWARD_FILTER: Check = Check {
    name: "forward-filter",
    question: "do firewall rules let forwarded packets of Services pass?",
    traffic: "clients elsewhere and pods, to endpoints on other hosts or in pods",
    probe: Probe::Packet(forward_filter),
};

/// Whether answers between pods of one bridge are translated back.
pub const BRIDGE_NETFILTER: Check = Check {
    name: "bridge-netfilter",
    question: "are answers between pods on one bridge translated back?",
    traffic: "a pod to a cluster IP whose endpoint is on the same bridge",
    probe: Probe::Both(bridge_netfilter, lonely_pod_on_bridge),
};

/// Whether a pod on a bridge reaches itself.
pub const BRIDGE_HAIRPIN: Check = Check {
    name: "bridge-hairpin",
    question: "does a pod on a bridge reach itself through its Service?",
    traffic: "a pod to a Service whose endpoint it is itself",
    probe: Probe::Packet(bridge_hairpin),
};

/// Whether the connection tracker has room.
pub const CONNTRACK_FULL: Check = Check {
    name: "conntrack-full",
    question: "has the connection tracker room for new connections?",
    traffic: "every new connection of this host",
    probe: Probe::Packet(conntrack_full),
};

/// Whether the reverse path filter drops clients.
pub const RP_FILTER: Check = Check {
    name: "rp-filter",
    question: "does the reverse path filter let clients in by every link?",
    traffic: "IPv4 clients whose packets come in by another link than answers would leave by",
    probe: Probe::Both(rp_filter, strict_links),
};

fn ip_forward(conditions: &Conditions, path: &Path) -> Option<Trouble> {
    let link = conditions.link(path.in_link.as_ref()?)?;
    if !path.is_forwarded() {
        return None;
    }
    if path.source.is_ipv6() {
        let is_off = conditions.ipv6_forwarding == Some(false) && !link.forces_ipv6_forwarding;
        return is_off.then(|| Trouble {
            severity: Severity::Error,
            cause: "net.ipv6.conf.all.forwarding is 0, so the kernel drops every IPv6 packet that is not for this host itself"
                .to_owned(),
            fix: "sysctl -w net.ipv6.conf.all.forwarding=1".to_owned(),
        });
    }
    let is_on_elsewhere =
        conditions.links.values().any(|other| !other.is_inward && other.forwarding == Some(true));
    let (setting, from) = if is_on_elsewhere {
        (setting("ipv4", &link.name, "forwarding"), format!(" from {}", link.name))
    } else {
        ("net.ipv4.ip_forward".to_owned(), String::new())
    };
    (link.forwarding == Some(false)).then(|| Trouble {
        severity: Severity::Error,
        cause: format!(
            "{setting} is 0, so the kernel drops every IPv4 packet{from} that is not for this host itself"
        ),
        fix: format!("sysctl -w {setting}=1"),
    })
}

fn forward_filter(conditions: &Conditions, path: &Path) -> Option<Trouble> {
    // With other routing tables the packet may leave by another link, for which the rules may say something else.
    let certain = if conditions.has_policy_routing { Severity::Possible } else { Severity::Error };
    let (severity, cause, fix) = match &path.filter {
        FilterVerdict::NotAsked | FilterVerdict::Accepted => return None,
        FilterVerdict::Dropped { by, fix } => {
            (certain, format!("a firewall rule drops it: {by}"), fix.clone())
        }
        FilterVerdict::DroppedBySource { by, fix } => (
            Severity::Possible,
            format!("a firewall rule drops clients with such a source: {by}"),
            fix.clone(),
        ),
        FilterVerdict::Unknown(because) => (
            Severity::Possible,
            format!("whether firewall rules drop it depends upon what cannot be judged from here: {because}"),
            "nft list ruleset".to_owned(),
        ),
    };
    Some(Trouble { severity, cause, fix })
}

/// A request to a cluster IP goes through the host, which translates it. The endpoint is the client's neighbour on the bridge and
/// answers it directly; unless bridged packets pass netfilter, the answer keeps the endpoint's address and the client resets it.
fn bridge_netfilter(conditions: &Conditions, path: &Path) -> Option<Trouble> {
    let bridge = path.in_link.as_ref().filter(|link| path.out_link.as_ref() == Some(link))?;
    let is_direct = path.is_endpoint_on_link && !path.is_masqueraded && path.source != path.endpoint;
    let is_neighbour = conditions.way_to(path.source) == Some((bridge.clone(), true));
    (is_direct && is_neighbour)
        .then(|| bridge_trouble(conditions, bridge, Family::of(path.source), Severity::Error))
        .flatten()
}

/// Where bridged packets pass netfilter, the bridge sends a translated request on by itself, and not back to the port where it came in.
fn bridge_hairpin(conditions: &Conditions, path: &Path) -> Option<Trouble> {
    let bridge = path.in_link.as_ref().filter(|link| path.out_link.as_ref() == Some(link))?;
    let link = conditions.link(bridge)?;
    let (v4, v6) = link.bridge_calls?;
    let is_called = if path.source.is_ipv4() { v4 } else { v6 };
    let off: Vec<&str> =
        link.hairpin_ports.iter().filter(|(_, is_on)| !**is_on).map(|(port, _)| port.as_str()).collect();
    let first =
        off.first().filter(|_| is_called && path.source == path.endpoint && path.is_endpoint_on_link)?;
    let is_certain = off.len() == link.hairpin_ports.len();
    Some(Trouble {
        severity: if is_certain { Severity::Error } else { Severity::Possible },
        cause: format!(
            "hairpin mode is off on ports of bridge {bridge}, so it does not send a packet back to the pod that sent it"
        ),
        fix: format!(
            "bridge link set dev {first} hairpin on   (for the port of each pod; CNI bridge plugin: \"hairpinMode\": true)"
        ),
    })
}

fn bridge_trouble(
    conditions: &Conditions,
    bridge: &str,
    family: Family,
    severity: Severity,
) -> Option<Trouble> {
    let (v4, v6) = conditions.link(bridge)?.bridge_calls?;
    let (is_on, name) = match family {
        Family::V4 => (v4, xtables::program(xtables::Family::V4)),
        Family::V6 => (v6, xtables::program(xtables::Family::V6)),
    };
    (!is_on).then(|| Trouble {
        severity,
        cause: format!(
            "net.bridge.bridge-nf-call-{name} is 0 or missing, so an answer from one pod on {bridge} to another is not translated back, and \
             the client refuses it"
        ),
        fix: format!("modprobe br_netfilter && sysctl -w net.bridge.bridge-nf-call-{name}=1"),
    })
}

/// One pod is known on the bridge. Another one, which is no endpoint and so not known here, would be its client.
fn lonely_pod_on_bridge(subject: &Subject<'_>) -> Vec<HostTrouble> {
    let trouble = |path: &Path| {
        let link = path.out_link.as_ref().filter(|_| path.is_endpoint_on_link)?;
        let trouble =
            bridge_trouble(subject.conditions, link, Family::of(path.endpoint), Severity::Possible)?;
        let source = neighbour(path.endpoint);
        let payload = Payload::Transport { protocol: path.protocol, port: path.port };
        let packet = Packet { source, destination: path.destination, payload, interface: Some(link.clone()) };
        let Fate::OneOf(one_of) = subject.table.fate(&packet, subject.promises).fate else { return None };
        let is_direct =
            one_of.landings.iter().any(|landing| !landing.masqueraded && landing.address == path.endpoint);
        let traffic = format!("another pod on {link} to Service {}", path.service.service);
        is_direct.then_some(HostTrouble { trouble, traffic })
    };
    subject.paths.iter().filter_map(trouble).collect()
}

fn conntrack_full(conditions: &Conditions, _path: &Path) -> Option<Trouble> {
    let ConntrackLoad { count, max, dropped } = conditions.conntrack.filter(|load| load.max > 0)?;
    // Counts that change all the time stay out of the text: each would be a new finding.
    let (severity, cause) = if count >= max && dropped.is_some_and(|dropped| dropped > 0) {
        (
            Severity::Error,
            format!(
                "the connection tracker is full ({max} entries), and packets of new connections were dropped"
            ),
        )
    } else if count >= max {
        (
            Severity::Possible,
            format!(
                "the connection tracker is full ({max} entries): new connections are dropped when none can be evicted"
            ),
        )
    } else if count.saturating_mul(100) >= max.saturating_mul(NEARLY_FULL) {
        (
            Severity::Possible,
            format!(
                "the connection tracker is more than {NEARLY_FULL} % full ({max} entries): when it is full, new connections are dropped"
            ),
        )
    } else {
        return None;
    };
    Some(Trouble {
        severity,
        cause,
        fix: format!("sysctl -w net.netfilter.nf_conntrack_max={}", max.saturating_mul(2)),
    })
}

fn rp_filter(conditions: &Conditions, path: &Path) -> Option<Trouble> {
    let link = conditions.link(path.in_link.as_ref()?).filter(|_| path.source.is_ipv4())?;
    let back = conditions.way_to(path.source).map(|(link, _)| link);
    if link.rp_filter != STRICT || back.as_ref() == Some(&link.name) {
        return None;
    }
    let severity = if conditions.has_policy_routing { Severity::Possible } else { Severity::Error };
    let back = back
        .map_or_else(|| "no route leads back".to_owned(), |back| format!("the route back leads by {back}"));
    Some(Trouble {
        severity,
        cause: format!(
            "rp_filter of {} is 1 (strict): it drops packets from {}, because {back}",
            link.name, path.source
        ),
        fix: loosen(&link.name),
    })
}

/// Links with an address of this host and a strict filter, from which no route leads to clients beyond: those can only come in
/// where another link has the default route.
fn strict_links(subject: &Subject<'_>) -> Vec<HostTrouble> {
    let conditions = subject.conditions;
    let example = std::net::IpAddr::V4(std::net::Ipv4Addr::new(198, 51, 100, 77));
    let Some((outward, _)) = conditions.way_to(example) else { return Vec::new() };
    let is_outside = |path: &&Path| !path.is_from_pod && path.source.is_ipv4();
    let Some(path) = subject.paths.iter().find(is_outside) else { return Vec::new() };
    let has_address = |name: &str| {
        conditions
            .addresses
            .iter()
            .any(|address| address.link_name == name && address.ip.is_ipv4() && address.prefix_length < 32)
    };
    let leads_to_pods = |name: &str| {
        subject.paths.iter().any(|path| path.is_from_pod && path.in_link.as_deref() == Some(name))
    };
    let is_strict = |link: &&super::LinkConditions| {
        link.rp_filter == STRICT
            && !link.is_inward
            && link.bridge_calls.is_none()
            && link.name != outward
            && has_address(&link.name)
            && !leads_to_pods(&link.name)
    };
    // The count itself would make a new finding with each packet.
    let seen = if conditions.reverse_path_drops > 0 {
        "; this host has dropped packets for this reason before"
    } else {
        ""
    };
    let trouble = |link: &super::LinkConditions| HostTrouble {
        trouble: Trouble {
            severity: Severity::Possible,
            cause: format!(
                "rp_filter of {} is 1 (strict), and the default route leads by {outward}: clients beyond a router who come in by {} are dropped{seen}",
                link.name, link.name
            ),
            fix: loosen(&link.name),
        },
        traffic: format!("clients beyond a router by {} to Service {}", link.name, path.service.service),
    };
    conditions.links.values().filter(is_strict).map(trouble).collect()
}

fn loosen(link: &str) -> String {
    format!("sysctl -w {}=2", setting("ipv4", link, "rp_filter"))
}

/// The name of a setting of one link. A link's name may have dots, which sysctl would take for slashes.
pub(super) fn setting(family: &str, link: &str, name: &str) -> String {
    if link.contains('.') {
        format!("net/{family}/conf/{link}/{name}")
    } else {
        format!("net.{family}.conf.{link}.{name}")
    }
}
