//! Somebody outside: an address that is nobody's.
//!
//! Networks for documentation stand for anybody. But people write them into their own manifests too, so an address is taken
//! that no Node, Pod or Service has, and that lies in no network of theirs.

use std::collections::BTreeSet;
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr};

use model::facts::Service;
use observe::picture::Picture;
use standalone::objects::{Kind, Object};

use crate::kube::{items, pod_ips, text};

/// An address of each family that is nobody's.
pub(super) fn addresses(picture: &Picture) -> Vec<IpAddr> {
    let known = known(picture);
    let (table, node) = (picture.table(), picture.table().node());
    let is_nobodys = |ip: &IpAddr| {
        let is_inside =
            table.service_networks().iter().any(|net| net.contains(ip)) || node.pods.is_pod(*ip, None);
        !known.contains(ip) && !node.is_own(*ip) && !is_inside
    };
    let first = |candidates: Vec<IpAddr>| candidates.into_iter().find(is_nobodys);
    [first(fours()), first(sixes())].into_iter().flatten().collect()
}

/// The networks for documentation, then the one for measurements.
fn fours() -> Vec<IpAddr> {
    let networks = [(203, 0, 113), (198, 51, 100), (192, 0, 2)].into_iter();
    let measured = (0..=255).map(|third| (198, 18, third));
    let hosts = |(a, b, c): (u8, u8, u8)| (1..=254).map(move |d| IpAddr::V4(Ipv4Addr::new(a, b, c, d)));
    networks.chain(measured).flat_map(hosts).collect()
}

fn sixes() -> Vec<IpAddr> {
    let host = |network, last| IpAddr::V6(Ipv6Addr::new(0x2001, 0xdb8, network, 0, 0, 0, 0, last));
    (0..=255).flat_map(|network| (1..=254).map(move |last| host(network, last))).collect()
}

/// Every address that an object has.
fn known(picture: &Picture) -> BTreeSet<IpAddr> {
    let of_objects = picture.objects().values().flat_map(of_object).filter_map(model::net::parse_ip);
    of_objects.chain(picture.cluster().services().flat_map(of_service)).collect()
}

fn of_object(object: &Object) -> Vec<&str> {
    match object.key.kind {
        Kind::Pod => pod_ips(&object.value),
        Kind::Node => {
            items(&object.value, "status.addresses").iter().filter_map(|a| text(a, "address")).collect()
        }
        Kind::EndpointSlice => {
            let endpoints = items(&object.value, "endpoints").iter();
            endpoints.flat_map(|endpoint| crate::kube::texts(endpoint, "addresses")).collect()
        }
        Kind::Service | Kind::ServiceCidr => Vec::new(),
    }
}

fn of_service(service: &Service) -> Vec<IpAddr> {
    let mut ips: Vec<IpAddr> = service.cluster_ips.iter().filter_map(|(_, ip)| *ip).collect();
    if let Some(external) = &service.external {
        ips.extend(&external.external_ips);
        ips.extend(external.load_balancer_ips.iter().map(|balancer| balancer.ip));
    }
    ips
}
