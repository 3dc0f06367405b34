//! The words of a question: who sends a packet, and where to.

use std::net::IpAddr;

use model::Protocol;
use model::net::parse_ip;

/// Who sends the packet.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum Source {
    /// This address.
    Address(IpAddr),
    /// This node.
    Node,
    /// Somebody outside the cluster.
    Outside,
    /// A Pod.
    Pod(Name),
}

/// Where it is sent.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum Destination {
    /// A port of an address.
    Port(IpAddr, u16, Protocol),
    /// A ping of an address.
    Ping(IpAddr),
    /// A port of the cluster IP of a Service.
    Service(Name, ServicePort),
}

/// The name of a Pod or a Service.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Name {
    /// Its namespace, where it was told.
    pub(super) namespace: Option<String>,
    /// Its name.
    pub(super) name: String,
}

/// Which port of a Service.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct ServicePort {
    /// Its name or number; nothing for the only one.
    pub(super) port: Option<String>,
    /// Its protocol, where it was told.
    pub(super) protocol: Option<Protocol>,
}

/// Reads who sends it.
pub(super) fn source(text: &str) -> Result<Source, String> {
    if let Some(address) = parse_ip(text) {
        return Ok(Source::Address(address));
    }
    let pod = |text: &str| name(text).map(Source::Pod);
    let read = match text {
        "node" => Some(Source::Node),
        "outside" => Some(Source::Outside),
        _ if looks_like_an_address(text) => None,
        _ => pod(text.strip_prefix("pod/").unwrap_or(text)),
    };
    read.ok_or_else(|| {
        format!("`{text}` sends no packets: write an address such as `10.244.1.5`, `pod/NAME`, `node` or `outside`")
    })
}

/// Reads where it is sent.
pub(super) fn destination(text: &str) -> Result<Destination, String> {
    let (place, protocol) = match text.rsplit_once('/') {
        Some((place, last)) if Protocol::parse(last).is_some() => (place, Protocol::parse(last)),
        _ => (text, None),
    };
    let read = match address_of(place) {
        Some(address) if protocol.is_none() => Some(Destination::Ping(address)),
        Some(_) => {
            return Err(format!("`{text}` has a protocol but no port: write it as `10.96.0.10:53/udp`"));
        }
        None => port_of(place, protocol),
    };
    read.ok_or_else(|| {
        format!(
            "`{text}` is no destination: write `10.96.0.10:53/udp`, `[fd00::1]:80`, an address alone for a ping, \
             or a Service such as `default/web:http`"
        )
    })
}

/// `10.0.0.1`, `fd00::1` or `[fd00::1]`.
fn address_of(text: &str) -> Option<IpAddr> {
    parse_ip(text).or_else(|| parse_ip(text.strip_prefix('[')?.strip_suffix(']')?))
}

fn port_of(text: &str, protocol: Option<Protocol>) -> Option<Destination> {
    let (host, port) = match text.rsplit_once(':') {
        Some((host, port)) if !port.is_empty() => (host, Some(port.to_owned())),
        Some(_) => return None,
        None => (text, None),
    };
    if let Some(address) = address_of(host) {
        let number = port?.parse().ok().filter(|number| *number != 0)?;
        return Some(Destination::Port(address, number, protocol.unwrap_or(Protocol::Tcp)));
    }
    let is_acceptable = port.as_deref().is_none_or(model::name::is_acceptable);
    let service = name(host).filter(|_| is_acceptable && !looks_like_an_address(host))?;
    Some(Destination::Service(service, ServicePort { port, protocol }))
}

/// `NAME` or `NAMESPACE/NAME`.
fn name(text: &str) -> Option<Name> {
    let (namespace, name) = match text.split_once('/') {
        Some((namespace, name)) => (Some(namespace), name),
        None => (None, text),
    };
    let is_acceptable = model::name::is_acceptable(name) && namespace.is_none_or(model::name::is_acceptable);
    is_acceptable.then(|| Name { namespace: namespace.map(str::to_owned), name: name.to_owned() })
}

/// Digits and dots: somebody wanted to write an address.
fn looks_like_an_address(text: &str) -> bool {
    text.contains('.') && text.bytes().all(|b| b.is_ascii_digit() || b == b'.')
}

#[cfg(test)]
mod tests {
    use super::*;

    fn service(
        namespace: Option<&str>,
        name: &str,
        port: Option<&str>,
        protocol: Option<Protocol>,
    ) -> Destination {
        let name = Name { namespace: namespace.map(str::to_owned), name: name.to_owned() };
        Destination::Service(name, ServicePort { port: port.map(str::to_owned), protocol })
    }

    #[test]
    fn destinations_are_read() {
        let ip = |text: &str| text.parse::<IpAddr>().unwrap();
        for (text, expected) in [
            ("10.96.0.10:53/udp", Destination::Port(ip("10.96.0.10"), 53, Protocol::Udp)),
            ("10.96.0.10:53", Destination::Port(ip("10.96.0.10"), 53, Protocol::Tcp)),
            ("[fd00::1]:80/SCTP", Destination::Port(ip("fd00::1"), 80, Protocol::Sctp)),
            ("10.96.0.1", Destination::Ping(ip("10.96.0.1"))),
            ("fd00::1", Destination::Ping(ip("fd00::1"))),
            ("[fd00::1]", Destination::Ping(ip("fd00::1"))),
            ("web", service(None, "web", None, None)),
            ("default/web:http", service(Some("default"), "web", Some("http"), None)),
            ("web:53/udp", service(None, "web", Some("53"), Some(Protocol::Udp))),
        ] {
            assert_eq!(destination(text), Ok(expected), "{text}");
        }
    }

    #[test]
    fn what_is_no_destination_is_refused_with_its_text() {
        for text in [
            "",
            ":",
            "10.96.0.1:",
            "10.96.0.1:0",
            "10.96.0.1:99999",
            "10.96.0.1/udp",
            "10.96.0:80",
            "a/b/c:80",
        ] {
            let message = destination(text).unwrap_err();
            assert!(message.starts_with(&format!("`{text}`")), "{message}");
        }
    }

    #[test]
    fn sources_are_read() {
        let pod = |namespace: Option<&str>, name: &str| {
            Source::Pod(Name { namespace: namespace.map(str::to_owned), name: name.to_owned() })
        };
        for (text, expected) in [
            ("10.244.1.5", Source::Address("10.244.1.5".parse().unwrap())),
            ("node", Source::Node),
            ("outside", Source::Outside),
            ("pod/node", pod(None, "node")),
            ("db-0", pod(None, "db-0")),
            ("prod/db-0", pod(Some("prod"), "db-0")),
            ("pod/prod/db-0", pod(Some("prod"), "db-0")),
        ] {
            assert_eq!(source(text), Ok(expected), "{text}");
        }
        for text in ["", "10.244.1", "10.244.1.5:80", "a b"] {
            assert!(source(text).unwrap_err().starts_with(&format!("`{text}`")), "{text}");
        }
    }
}
