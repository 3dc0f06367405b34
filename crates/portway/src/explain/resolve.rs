//! Makes a packet of a question: names become addresses.
//!
//! A Pod, a Service and this node may have an address of each family. The first pair of one family is taken, in the order in
//! which the Service lists its cluster IPs.

use std::net::IpAddr;

use model::fate::Payload;
use model::{Family, Packet, Protocol};
use observe::picture::Picture;
use serde_json::Value;
use standalone::objects::{Kind, Object};
use standalone::suggest::nearest;

use super::question::{Destination, Name, ServicePort, Source};
use super::{ExplainArgs, notes, outside};
use crate::kube::{self, Port, cluster_ips, pod_ips};

/// A packet, and how it came to be.
#[derive(Debug)]
pub(super) struct Asked {
    /// The packet.
    pub(super) packet: Packet,
    /// What the sender was called, where it was a word.
    pub(super) sender: Option<String>,
    /// What the reader should know about the question.
    pub(super) notes: Vec<String>,
}

/// The packet that is asked about, or a sentence on why there is none.
pub(super) fn packet(picture: &Picture, args: &ExplainArgs) -> Result<Asked, String> {
    let senders = senders(picture, &args.source, &args.namespace)?;
    let (receivers, payload) = receivers(picture, &args.destination, &args.namespace)?;
    let (source, destination) = pair(&senders.addresses, &receivers)?;
    let packet = Packet { source, destination, payload, interface: args.interface.clone() };
    let notes = notes::on_question(picture, &packet);
    Ok(Asked { packet, sender: senders.called, notes })
}

/// Who may have sent it.
struct Senders {
    addresses: Vec<IpAddr>,
    called: Option<String>,
}

fn senders(picture: &Picture, source: &Source, namespace: &str) -> Result<Senders, String> {
    match source {
        Source::Address(address) => Ok(Senders { addresses: vec![*address], called: None }),
        Source::Outside => Ok(Senders {
            addresses: outside::addresses(picture),
            called: Some("somebody outside".to_owned()),
        }),
        Source::Node => node(picture),
        Source::Pod(name) => pod(picture, name, namespace),
    }
}

fn node(picture: &Picture) -> Result<Senders, String> {
    let node = picture.table().node();
    let primary = Family::ALL.into_iter().filter_map(|family| *node.primary.get(family));
    let addresses: Vec<IpAddr> = primary.chain(node.addresses.iter().copied()).collect();
    if addresses.is_empty() {
        return Err(format!("no address of node `{}` is known: add `--node-ip IP`", node.name));
    }
    Ok(Senders { addresses, called: Some(format!("node {}", node.name)) })
}

fn pod(picture: &Picture, name: &Name, namespace: &str) -> Result<Senders, String> {
    if picture.is_trimmed() {
        return Err(format!(
            "Pods are not watched in a cluster, so none is known by the name `{0}`: write its address, which `kubectl -n {1} get pod \
             {0} -o wide` shows; or `node`, or `outside`",
            name.name,
            name.namespace.as_deref().unwrap_or(namespace)
        ));
    }
    let pod = find(picture, Kind::Pod, name, namespace)?;
    let addresses: Vec<IpAddr> = pod_ips(&pod.value).into_iter().filter_map(model::net::parse_ip).collect();
    if addresses.is_empty() {
        return Err(format!("{} has no address yet (status.podIPs)", pod.key));
    }
    Ok(Senders { addresses, called: Some(pod.key.to_string()) })
}

/// The object of this name. Without a namespace: in the namespace of the command, or the only one that has it.
fn find<'a>(picture: &'a Picture, kind: Kind, name: &Name, namespace: &str) -> Result<&'a Object, String> {
    let wanted = name.namespace.as_deref().unwrap_or(namespace);
    let of_kind = || picture.objects().values().filter(move |object| object.key.kind == kind);
    let named: Vec<&Object> = of_kind().filter(|object| *object.key.name == *name.name).collect();
    if let Some(object) = named.iter().find(|object| *object.key.namespace == *wanted) {
        return Ok(object);
    }
    match named[..] {
        [object] if name.namespace.is_none() => Ok(object),
        [] => Err(match nearest(&name.name, of_kind().map(|object| &*object.key.name)) {
            Some(near) => format!("no {} `{}`: did you mean `{near}`?", kind.name(), name.name),
            None => format!("no {} `{}` in what was read", kind.name(), name.name),
        }),
        [object, ..] => Err(format!(
            "no {} `{}` in namespace `{wanted}`: did you mean `{}/{}`?",
            kind.name(),
            name.name,
            object.key.namespace,
            name.name
        )),
    }
}

fn receivers(
    picture: &Picture,
    destination: &Destination,
    namespace: &str,
) -> Result<(Vec<IpAddr>, Payload), String> {
    match destination {
        Destination::Ping(address) => Ok((vec![*address], Payload::Ping)),
        Destination::Port(address, port, protocol) => {
            Ok((vec![*address], Payload::Transport { protocol: *protocol, port: *port }))
        }
        Destination::Service(name, port) => {
            let service = find(picture, Kind::Service, name, namespace)?;
            let ips: Vec<IpAddr> =
                cluster_ips(&service.value).into_iter().filter_map(model::net::parse_ip).collect();
            if ips.is_empty() {
                return Err(no_cluster_ip(service));
            }
            let (protocol, port) = service_port(service, port)?;
            Ok((ips, Payload::Transport { protocol, port }))
        }
    }
}

fn no_cluster_ip(service: &Object) -> String {
    let reason = match (kube::service_type(&service.value), kube::text(&service.value, "spec.clusterIP")) {
        ("ExternalName", _) => "it is a name elsewhere (spec.externalName)",
        (_, Some("None")) => "it is headless (spec.clusterIP: None), so clients dial its Pods",
        _ => "`portway check` tells why",
    };
    format!("{} has no cluster IP: {reason}", service.key)
}

/// The port of a Service that is meant. A number that it does not have is dialled all the same: the answer tells.
fn service_port(service: &Object, wanted: &ServicePort) -> Result<(Protocol, u16), String> {
    let ports: Vec<(&str, Protocol, u16)> = Port::all(&service.value).iter().filter_map(usable).collect();
    let fits = |protocol: Protocol| wanted.protocol.is_none_or(|wanted| wanted == protocol);
    let is_meant = |(name, protocol, number): &&(&str, Protocol, u16)| {
        fits(*protocol) && wanted.port.as_ref().is_none_or(|port| port == name || *port == number.to_string())
    };
    let meant: Vec<_> = ports.iter().filter(is_meant).collect();
    let number = wanted.port.as_deref().and_then(|port| port.parse::<u16>().ok());
    match (&meant[..], number) {
        ([(_, protocol, number)], _) => Ok((*protocol, *number)),
        (_, Some(number)) => Ok((wanted.protocol.unwrap_or(Protocol::Tcp), number)),
        _ => Err(which_port(service, wanted, &ports)),
    }
}

fn usable<'a>(port: &Port<'a>) -> Option<(&'a str, Protocol, u16)> {
    Some((port.name(), Protocol::parse(port.protocol())?, port.number().parse().ok()?))
}

fn which_port(service: &Object, wanted: &ServicePort, ports: &[(&str, Protocol, u16)]) -> String {
    let show = |(name, protocol, number): &(&str, Protocol, u16)| match *name {
        "" => format!("`{number}/{protocol}`"),
        name => format!("`{name}` ({number}/{protocol})"),
    };
    let all = match ports {
        [] => "it has none (spec.ports)".to_owned(),
        _ => format!("it has {}", ports.iter().map(show).collect::<Vec<_>>().join(", ")),
    };
    let is_there = |protocol: Protocol| ports.iter().any(|(_, of, _)| *of == protocol);
    match (&wanted.port, wanted.protocol) {
        (_, Some(protocol)) if !is_there(protocol) => {
            format!("{} has no {} port: {all}", service.key, protocol.upper_name())
        }
        (Some(port), _) => format!("{} has no port `{port}`: {all}", service.key),
        (None, _) => format!("which port of {}? {all}", service.key),
    }
}

/// The first two addresses of one family.
fn pair(senders: &[IpAddr], receivers: &[IpAddr]) -> Result<(IpAddr, IpAddr), String> {
    let of_family = |to: &IpAddr| senders.iter().find(|from| Family::of(**from) == Family::of(*to));
    let found = receivers.iter().find_map(|to| of_family(to).map(|from| (*from, *to)));
    found.ok_or_else(|| {
        let (from, to) = (senders[0], receivers[0]);
        format!(
            "`{from}` is {} and `{to}` is {}: a packet has one family, so give two addresses of one",
            Family::of(from),
            Family::of(to)
        )
    })
}

/// The name of the Pod with this address, seen from a Service's namespace.
pub(super) fn pod_at(picture: &Picture, namespace: &str, address: IpAddr) -> Option<String> {
    let has_address =
        |value: &Value| pod_ips(value).into_iter().filter_map(model::net::parse_ip).any(|ip| ip == address);
    let is_it = |object: &&Object| {
        object.key.kind == Kind::Pod && *object.key.namespace == *namespace && has_address(&object.value)
    };
    let from_pod = picture.objects().values().find(is_it).map(|object| object.key.name.to_string());
    from_pod.or_else(|| pod_in_slices(picture, namespace, address))
}

/// The Pod that an `EndpointSlice` names for this address.
fn pod_in_slices(picture: &Picture, namespace: &str, address: IpAddr) -> Option<String> {
    let slices = picture
        .objects()
        .values()
        .filter(|object| object.key.kind == Kind::EndpointSlice && *object.key.namespace == *namespace);
    let named = |endpoint: &&Value| {
        kube::text(endpoint, "targetRef.kind") == Some("Pod")
            && kube::texts(endpoint, "addresses")
                .into_iter()
                .any(|ip| model::net::parse_ip(ip) == Some(address))
    };
    slices
        .flat_map(|slice| kube::items(&slice.value, "endpoints"))
        .find(named)
        .and_then(|endpoint| kube::text(endpoint, "targetRef.name"))
        .map(str::to_owned)
}

#[cfg(test)]
mod tests {
    use model::Config;

    use super::*;

    #[test]
    fn a_pod_of_a_cluster_is_asked_for_by_its_address() {
        let picture = Picture::of(Picture::of_server(Config::default()).snapshot());
        let name = Name { namespace: Some("prod".into()), name: "db-0".into() };
        let Err(message) = pod(&picture, &name, "default") else { panic!("no Pod is known") };
        assert!(
            message.contains("not watched") && message.contains("`kubectl -n prod get pod db-0 -o wide`"),
            "{message}"
        );
    }
}
