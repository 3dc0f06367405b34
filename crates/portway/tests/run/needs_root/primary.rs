//! Which address of this host node ports answer at, where no Node object says so.

use std::collections::BTreeSet;
use std::net::{IpAddr, SocketAddr, TcpListener, TcpStream};
use std::time::Duration;

use super::place;
use crate::common::{Place, has_program, skipped};

const WEB: &str = "\
apiVersion: v1
kind: Service
metadata: { name: web }
spec:
  type: NodePort
  ipFamilyPolicy: RequireDualStack
  ports: [{ port: 80, nodePort: 30080 }]
---
apiVersion: discovery.k8s.io/v1
kind: EndpointSlice
addressType: IPv4
metadata: { name: web-4, labels: { kubernetes.io/service-name: web } }
ports: [{ port: 8080 }]
endpoints: [{ addresses: [10.244.0.1] }]
---
apiVersion: discovery.k8s.io/v1
kind: EndpointSlice
addressType: IPv6
metadata: { name: web-6, labels: { kubernetes.io/service-name: web } }
ports: [{ port: 8080 }]
endpoints: [{ addresses: [\"fd00:244::1\"] }]
";

/// Endpoints on this very host, so that a connection needs no second one.
const ENDPOINTS: [&str; 2] = ["10.244.0.1:8080", "[fd00:244::1]:8080"];
const OWN: [&str; 2] = ["192.168.77.10", "fd00:77::10"];

/// A host at `192.168.77.10/24` and `fd00:77::10/64`, with default routes.
fn host() -> Option<Place> {
    if !has_program("ip") {
        return skipped("the program `ip` is not installed");
    }
    let place = place()?;
    place.write("web.yaml", WEB);
    for command in [
        "link set lo up",
        "link add eth0 type veth peer name wire",
        "link set wire up",
        "link set eth0 up",
        "addr add 10.244.0.1/32 dev lo",
        "addr add fd00:244::1/128 dev lo",
        "addr add 192.168.77.10/24 dev eth0",
        "addr add fd00:77::10/64 dev eth0 nodad",
        "route add default via 192.168.77.1 dev eth0",
        "-6 route add default via fd00:77::1 dev eth0",
    ] {
        place.ip(command);
    }
    Some(place)
}

fn reaches(place: &Place, address: &str) -> bool {
    let ip: IpAddr = address.parse().unwrap();
    let limit = playground::patient(Duration::from_secs(1));
    place.inside(|| TcpStream::connect_timeout(&SocketAddr::new(ip, 30080), limit).is_ok())
}

/// Waits until the running portway knows that this host has these addresses.
fn wait_for_addresses(place: &Place, addresses: &[&str]) {
    let wanted: BTreeSet<IpAddr> = addresses.iter().map(|text| text.parse().unwrap()).collect();
    place.until("portway knows the addresses", || {
        let picture = observe::socket::picture(&place.path("run")).ok();
        picture.and_then(|picture| picture.local_addresses).is_some_and(|known| wanted.is_subset(&known))
    });
}

/// `ip addr add 192.168.77.9/32 dev eth0` beside .10/24 moved all node ports to .9, and .10:30080 was refused.
fn node_ports_stay(mode: &str) {
    let Some(place) = host() else { return };
    let arguments =
        format!("--mode {mode} --nodeport-addresses primary --service-cidr 10.96.0.0/12,fd00:96::/112");
    let _listeners = ENDPOINTS.map(|at| place.inside(|| TcpListener::bind(at).unwrap()));
    let mut running = place.start_with(&arguments);
    running.wait_for("portway is in sync");
    assert!(OWN.iter().all(|own| reaches(&place, own)), "{mode}: before");
    place.ip("addr add 192.168.77.9/32 dev eth0");
    place.ip("addr add 192.168.77.8/24 dev eth0");
    place.ip("addr add fd00:77::9/128 dev eth0 nodad");
    place.ip("addr add fd00:77::8/64 dev eth0 nodad preferred_lft 0");
    wait_for_addresses(&place, &["192.168.77.9", "192.168.77.8", "fd00:77::9", "fd00:77::8"]);
    let check = |when: &str| {
        for own in OWN {
            assert!(reaches(&place, own), "{mode}, {when}: {own}:30080 does not answer");
        }
        let status = place.portway("status").fine();
        assert!(status.contains("192.168.77.10, fd00:77::10"), "{mode}, {when}: {status}");
    };
    check("beside other addresses");
    running.kill();
    let running = place.start_with(&arguments);
    running.wait_for("portway is in sync");
    check("after a restart");
    place.ip("addr del 192.168.77.10/24 dev eth0");
    let line = running.wait_for_log("the primary address of this node changed");
    assert!(line.contains("192.168.77.10") && line.contains("192.168.77.9"), "old and new: {line}");
    place.until("node ports answer at the address that is left", || reaches(&place, "192.168.77.9"));
    assert!(reaches(&place, OWN[1]), "{mode}: IPv6 did not change");
}

#[test]
fn root_node_ports_stay_at_the_address_of_the_host_when_a_virtual_ip_comes_nftables() {
    node_ports_stay("nftables");
}

#[test]
fn root_node_ports_stay_at_the_address_of_the_host_when_a_virtual_ip_comes_iptables() {
    if !has_program("iptables") {
        return skipped("the program `iptables` is not installed").unwrap_or_default();
    }
    node_ports_stay("iptables");
}

#[test]
fn root_node_ports_stay_at_the_address_of_the_host_when_a_virtual_ip_comes_userspace() {
    if !has_program("iptables") {
        return skipped("the program `iptables` is not installed").unwrap_or_default();
    }
    node_ports_stay("userspace");
}
