//! The objects of a scenario: written out as YAML, or in short for the three that nearly every scenario has.

use std::collections::BTreeSet;
use std::net::IpAddr;

use model::net::parse_ip;
use serde_json::{Value, json};

/// A `node` line.
pub(super) struct NodeLine {
    pub(super) name: String,
    pub(super) object: Value,
    pub(super) local_addresses: BTreeSet<IpAddr>,
}

/// `a ip=192.168.0.1 also=10.0.0.1 zone=z1 pod-cidr=10.244.1.0/24`: a Node object, and the addresses of its host, of which
/// those after `also=` are not in the object.
pub(super) fn node(text: &str) -> Result<NodeLine, String> {
    let mut words = text.split_whitespace();
    let name = words.next().ok_or("`node` needs a name")?;
    let (mut addresses, mut local, mut pod_cidrs, mut labels) = (vec![], BTreeSet::new(), vec![], json!({}));
    for word in words {
        match word.split_once('=') {
            Some(("ip", ip)) => {
                local.insert(address(ip)?);
                addresses.push(json!({"type": "InternalIP", "address": ip}));
            }
            Some(("also", ip)) => drop(local.insert(address(ip)?)),
            Some(("zone", zone)) => labels["topology.kubernetes.io/zone"] = zone.into(),
            Some(("pod-cidr", cidr)) => pod_cidrs.push(cidr),
            _ => return Err(format!("`{word}` must be ip=, also=, zone= or pod-cidr=")),
        }
    }
    let object = json!({
        "kind": "Node",
        "metadata": {"name": name, "labels": labels},
        "spec": {"podCIDRs": pod_cidrs},
        "status": {"addresses": addresses},
    });
    Ok(NodeLine { name: name.into(), object, local_addresses: local })
}

/// `10.96.0.0/12,fd00:96::/108`.
pub(super) fn service_cidr(text: &str) -> Result<Value, String> {
    let cidrs: Vec<&str> = text.split(',').collect();
    match cidrs.iter().find(|cidr| model::net::parse_cidr(cidr).is_none()) {
        Some(wrong) => Err(format!("`{wrong}` is no network such as 10.96.0.0/12")),
        None => {
            Ok(json!({"kind": "ServiceCIDR", "metadata": {"name": "kubernetes"}, "spec": {"cidrs": cidrs}}))
        }
    }
}

/// `web 8080 10.244.1.6@a 10.244.2.7@b`: the one slice `web-ipv4` (or `web-ipv6`), with these ready endpoints on these nodes.
/// The port is `8080`, `53/udp`, or several with names: `dns:53/udp,dns-tcp:53/tcp`.
pub(super) fn endpoints(text: &str) -> Result<Value, String> {
    let mut words = text.split_whitespace();
    let (Some(service), Some(ports)) = (words.next(), words.next()) else {
        return Err("`endpoints` needs a Service, its port, then ADDRESS@NODE ...".into());
    };
    let (namespace, service) = service.split_once('/').unwrap_or(("default", service));
    let (mut endpoints, mut family) = (Vec::new(), "IPv4");
    for word in words {
        let (ip, node) = word.split_once('@').ok_or_else(|| format!("`{word}` must be ADDRESS@NODE"))?;
        family = if address(ip)?.is_ipv4() { "IPv4" } else { "IPv6" };
        endpoints.push(json!({"addresses": [ip], "nodeName": node}));
    }
    let name = format!("{service}-{}", family.to_lowercase());
    Ok(json!({
        "kind": "EndpointSlice",
        "metadata": {"namespace": namespace, "name": name, "labels": {"kubernetes.io/service-name": service}},
        "addressType": family,
        "ports": ports.split(',').map(port).collect::<Result<Vec<_>, _>>()?,
        "endpoints": endpoints,
    }))
}

/// The same slice, as the EndpointSlice controller writes it: `10.244.1.6@a` is a Pod, `10.244.1.6@a,terminating` one that ends,
/// `10.244.1.6@a,not-ready` one that is not ready, `10.244.1.6@a,pod=web-2` one that has this name.
pub(super) fn pods(text: &str) -> Result<Value, String> {
    let plain = text.split_whitespace().map(|word| match word.split_once('@') {
        Some(_) => word.split(',').next().unwrap_or_default(),
        None => word,
    });
    let mut slice = endpoints(&plain.collect::<Vec<_>>().join(" "))?;
    slice["metadata"]["labels"]["endpointslice.kubernetes.io/managed-by"] =
        json!("endpointslice-controller.k8s.io");
    let pods = text.split_whitespace().filter(|word| word.contains('@'));
    for (index, word) in pods.enumerate() {
        let endpoint = &mut slice["endpoints"][index];
        let mut name = format!("pod-{index}");
        if let Some((ip, _)) = word.split_once('@') {
            name = format!("pod-{}", ip.replace(['.', ':'], "-"));
        }
        for word in word.split(',').skip(1) {
            match word.split_once('=') {
                Some(("pod", given)) => given.clone_into(&mut name),
                None if word == "terminating" => {
                    endpoint["conditions"] = json!({"ready": false, "serving": true, "terminating": true});
                }
                None if word == "not-ready" => {
                    endpoint["conditions"] = json!({"ready": false, "serving": false, "terminating": false});
                }
                _ => return Err(format!("`{word}` must be terminating, not-ready or pod=NAME")),
            }
        }
        endpoint["targetRef"] = json!({"kind": "Pod", "name": name});
    }
    Ok(slice)
}

fn port(text: &str) -> Result<Value, String> {
    let (name, rest) = text.split_once(':').unwrap_or(("", text));
    let (number, protocol) = rest.split_once('/').unwrap_or((rest, "tcp"));
    let number: u16 =
        number.parse().map_err(|_| format!("`{text}` is no port such as 80, 53/udp or dns:53/udp"))?;
    Ok(json!({"name": name, "port": number, "protocol": protocol.to_uppercase()}))
}

fn address(text: &str) -> Result<IpAddr, String> {
    parse_ip(text).ok_or_else(|| format!("`{text}` is no IP address"))
}

/// YAML documents, indented, with `---` between them.
pub(super) fn from_yaml(body: &[&str]) -> Result<Vec<Value>, String> {
    let indent = body.iter().map(|line| line.len() - line.trim_start().len()).min().unwrap_or(0);
    let mut documents = vec![String::new()];
    for line in body.iter().map(|line| &line[indent..]) {
        if line.trim_end() == "---" {
            documents.push(String::new());
        } else if let Some(document) = documents.last_mut() {
            document.push_str(line);
            document.push('\n');
        }
    }
    documents.retain(|document| !document.trim().is_empty());
    if documents.is_empty() {
        return Err("`apply` needs objects, as indented YAML below it".into());
    }
    documents.iter().map(|text| serde_saphyr::from_str(text).map_err(|e| format!("no YAML: {e}"))).collect()
}
