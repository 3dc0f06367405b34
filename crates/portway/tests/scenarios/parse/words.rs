//! The words of the single lines: packets, landings, flows, options, promises.

use std::collections::BTreeSet;
use std::net::IpAddr;

use model::fate::{Loopback, Payload, Refusal};
use model::flows::{StaleFlows, VanishedFlows};
use model::name::SliceName;
use model::net::{IpNet, parse_cidr, parse_ip};
use model::{
    Config, DetectLocal, Event, NodePortAddress, Packet, Promises, Protocol, ServiceName, ServicePortId,
};

use crate::step::{Action, Landing, Outcome, Share};

/// `10.244.1.5 -> 10.96.0.10:80/tcp via veth1`.
pub(super) fn packet(text: &str) -> Result<Packet, String> {
    let (source, rest) = text.split_once("->").ok_or("a packet is `SOURCE -> DESTINATION`")?;
    let (destination_text, interface) = match rest.split_once(" via ") {
        Some((destination, interface)) => (destination, Some(interface.trim().to_owned())),
        None => (rest, None),
    };
    let source = address(source.trim())?;
    let (destination, payload) = destination(destination_text.trim())?;
    Ok(Packet { source, destination, payload, interface })
}

/// `10.96.0.10:80`, `[fd00::1]:53/udp`, `10.96.0.10 ping`.
pub(super) fn destination(text: &str) -> Result<(IpAddr, Payload), String> {
    if let Some(ip) = text.strip_suffix(" ping") {
        return Ok((address(ip.trim())?, Payload::Ping));
    }
    let ((ip, port), protocol) = dialled(text)?;
    Ok((ip, Payload::Transport { protocol, port }))
}

/// `10.96.0.10:80/udp`; TCP when it does not say.
fn dialled(text: &str) -> Result<((IpAddr, u16), Protocol), String> {
    let (place, protocol) = text.split_once('/').unwrap_or((text, "tcp"));
    let protocol =
        Protocol::parse(protocol).ok_or_else(|| format!("`{protocol}` is not tcp, udp or sctp"))?;
    Ok((address_and_port(place)?, protocol))
}

fn address_and_port(text: &str) -> Result<(IpAddr, u16), String> {
    let parsed = text.rsplit_once(':').and_then(|(ip, port)| {
        let ip = ip.strip_prefix('[').and_then(|ip| ip.strip_suffix(']')).unwrap_or(ip);
        Some((parse_ip(ip)?, port.parse().ok()?))
    });
    parsed.ok_or_else(|| format!("`{text}` is no address with a port, such as 10.96.0.10:80 or [fd00::1]:80"))
}

fn address(text: &str) -> Result<IpAddr, String> {
    parse_ip(text).ok_or_else(|| format!("`{text}` is no IP address"))
}

/// The lines below a packet. `None` when there are none.
pub(super) fn outcome(lines: &[&str]) -> Result<Option<Outcome>, String> {
    Ok(Some(match lines {
        [] => return Ok(None),
        ["untouched"] => Outcome::Untouched,
        ["rejected"] => Outcome::Rejected,
        ["dropped"] => Outcome::Dropped,
        lines => Outcome::OneOf(lines.iter().map(|line| landing(line)).collect::<Result<_, _>>()?),
    }))
}

/// `10.244.1.6:8080 1/2 masqueraded`.
fn landing(line: &str) -> Result<Landing, String> {
    let mut words = line.split_whitespace();
    let endpoint = address_and_port(words.next().unwrap_or_default())?;
    let mut landing = Landing { endpoint, share: Share::ALL, masqueraded: false };
    for word in words {
        match word.split_once('/') {
            None if word == "masqueraded" => landing.masqueraded = true,
            Some((part, whole)) => {
                landing.share = share(part, whole).ok_or_else(|| format!("`{word}` is no share"))?;
            }
            None => return Err(format!("`{word}` must be a share such as 1/2, or `masqueraded`")),
        }
    }
    Ok(landing)
}

fn share(part: &str, whole: &str) -> Option<Share> {
    Share::new(part.parse().ok()?, whole.parse().ok()?)
}

/// `10.96.0.10:53/udp except 10.244.1.6:53 10.244.2.7:53`: the flows to an address, except those that are answered by these.
pub(super) fn stale_flows(line: &str) -> Result<StaleFlows, String> {
    let mut words = line.split_whitespace();
    let (destination, protocol) = dialled(words.next().unwrap_or_default())?;
    match words.next() {
        None | Some("except") => {}
        Some(word) => return Err(format!("`{word}` must be `except`")),
    }
    let still_served_by: BTreeSet<_> = words.map(address_and_port).collect::<Result<_, _>>()?;
    Ok(StaleFlows { protocol, destination, still_served_by })
}

/// `default/web:http 10.96.0.10:80 192.168.0.1:30080 -> 10.244.1.6:8080`: the connections of a service port, by where they were
/// dialled, to an endpoint that has vanished.
pub(super) fn vanished_flows(line: &str) -> Result<VanishedFlows, String> {
    let wrong = || format!("`{line}` must be NAMESPACE/NAME:PORT DIALLED... -> ENDPOINT");
    let (dialled, endpoint) = line.split_once(" -> ").ok_or_else(wrong)?;
    let mut words = dialled.split_whitespace();
    let (service, port) = words.next().and_then(|word| word.split_once(':')).ok_or_else(wrong)?;
    Ok(VanishedFlows {
        port: ServicePortId { service: service_name(service)?, port: port.into(), protocol: Protocol::Tcp },
        endpoint: address_and_port(endpoint.trim())?,
        destinations: words.map(address_and_port).collect::<Result<_, _>>()?,
    })
}

/// `Service default/web`, `Node a`.
pub(super) fn deletion(text: &str) -> Result<Event, String> {
    let (kind, name) = text.split_once(' ').ok_or("`delete` needs a kind and a name")?;
    let in_namespace = || service_name(name);
    match kind {
        "Service" => Ok(Event::DeleteService(in_namespace()?)),
        "EndpointSlice" => Ok(Event::DeleteSlice(in_namespace()? as SliceName)),
        "Node" => Ok(Event::DeleteNode(name.into())),
        "ServiceCIDR" => Ok(Event::DeleteServiceCidr(name.into())),
        _ => Err(format!("`{kind}` must be Service, EndpointSlice, Node or ServiceCIDR")),
    }
}

fn service_name(text: &str) -> Result<ServiceName, String> {
    let (namespace, name) = text.split_once('/').ok_or_else(|| format!("`{text}` must be NAMESPACE/NAME"))?;
    Ok(ServiceName::new(namespace, name))
}

/// `default/web 30000 2`, `default/web none`.
pub(super) fn health(text: &str) -> Result<Action, String> {
    let words: Vec<&str> = text.split_whitespace().collect();
    let wrong = || format!("`{text}` must be NAMESPACE/NAME PORT ENDPOINTS, or NAMESPACE/NAME none");
    match words[..] {
        [name, "none"] => Ok(Action::Health(service_name(name)?, None)),
        [name, port, count] => {
            let (port, count) = (port.parse().map_err(|_| wrong())?, count.parse().map_err(|_| wrong())?);
            Ok(Action::Health(service_name(name)?, Some((port, count))))
        }
        _ => Err(wrong()),
    }
}

/// `90s`, `5m`, `3h`.
pub(super) fn seconds(text: &str) -> Result<u64, String> {
    let unit = match text.chars().last() {
        Some('s') => 1,
        Some('m') => 60,
        Some('h') => 3600,
        _ => return Err(format!("`{text}` must be a time such as 90s, 5m or 3h")),
    };
    let number = text[..text.len() - 1].parse::<u64>();
    number.map(|n| n * unit).map_err(|_| format!("`{text}` must be a time such as 90s, 5m or 3h"))
}

/// `cluster-cidr=10.244.0.0/16 masquerade-all ...`: options of the program, by their names.
pub(super) fn configure(text: &str, config: &mut Config) -> Result<(), String> {
    for word in text.split_whitespace() {
        let (name, value) = word.split_once('=').unwrap_or((word, ""));
        match name {
            "cluster-cidr" => config.detect_local = DetectLocal::ClusterCidr(cidrs(value)?),
            "detect-local" if value == "NodeCIDR" => config.detect_local = DetectLocal::NodeCidr,
            "bridge" => config.detect_local = DetectLocal::BridgeInterface(value.into()),
            "interface-prefix" => config.detect_local = DetectLocal::InterfaceNamePrefix(value.into()),
            "masquerade-all" => config.masquerade_all = true,
            "nodeport-addresses" => config.node_port_addresses = node_port_addresses(value)?,
            "service-proxy-name" => config.service_proxy_name = Some(value.into()),
            "allowed-external-ips" => config.allowed_external_ips = cidrs(value)?,
            "no-external-ips" => config.refuses_external_ips = true,
            "node-ip" => config.node_ips = value.split(',').map(address).collect::<Result<_, _>>()?,
            _ => return Err(format!("unknown option `{word}`")),
        }
    }
    Ok(())
}

fn cidrs(text: &str) -> Result<Vec<IpNet>, String> {
    text.split(',').map(|net| parse_cidr(net).ok_or_else(|| format!("`{net}` is no network"))).collect()
}

fn node_port_addresses(text: &str) -> Result<Vec<NodePortAddress>, String> {
    let entry =
        |word| NodePortAddress::parse(word).ok_or_else(|| format!("`{word}` is no network and no keyword"));
    text.split(',').map(entry).collect()
}

/// `undefined-port=untouched ping=drop ...`.
pub(super) fn promises(text: &str, promises: &mut Promises) -> Result<(), String> {
    for word in text.split_whitespace() {
        let (name, value) = word.split_once('=').unwrap_or((word, ""));
        match name {
            "undefined-port" => promises.undefined_port_of_cluster_ip = refusal(value)?,
            "undefined-external-port" => promises.undefined_port_of_external_ip = refusal(value)?,
            "unallocated-ip" => promises.unallocated_service_ip = refusal(value)?,
            "ping" => promises.ping_of_cluster_ip = refusal(value)?,
            "default-nodeport-addresses" => {
                promises.default_node_port_addresses =
                    NodePortAddress::parse(value).ok_or_else(|| format!("`{value}` is no keyword"))?;
            }
            "loopback-nodeports" => promises.loopback_node_ports = loopback(value)?,
            "hairpin-of-other-nodes" => promises.hairpin_of_other_nodes = value == "yes",
            _ => return Err(format!("unknown promise `{word}`")),
        }
    }
    Ok(())
}

fn refusal(text: &str) -> Result<Refusal, String> {
    match text {
        "rejected" => Ok(Refusal::Reject),
        "dropped" => Ok(Refusal::Drop),
        "untouched" => Ok(Refusal::Untouched),
        _ => Err(format!("`{text}` must be rejected, dropped or untouched")),
    }
}

fn loopback(text: &str) -> Result<Loopback, String> {
    match text {
        "never" => Ok(Loopback::Never),
        "ipv4" => Ok(Loopback::Ipv4),
        "localhost" => Ok(Loopback::Localhost),
        "both" => Ok(Loopback::Both),
        _ => Err(format!("`{text}` must be never, ipv4, localhost or both")),
    }
}
