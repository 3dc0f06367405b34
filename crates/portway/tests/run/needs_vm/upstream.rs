//! What upstream's IPVS mode leaves on a node: chains, sets, addresses and virtual servers, made by hand in its shapes.

use kernel::ipset::{Entry, Ipsets as _, Kind, Request as SetRequest, Set, SetName};
use kernel::ipvs::{Ipvs as _, RealServer, Request, VirtualServer};

use super::{HOST, Kernel, place, start, status, tcp};
use crate::common::Place;

/// The jumps, and the rules that hold sets.
const RULES: &str = "\
*nat
:KUBE-SERVICES - [0:0]
:KUBE-POSTROUTING - [0:0]
:KUBE-NODE-PORT - [0:0]
:KUBE-LOAD-BALANCER - [0:0]
:KUBE-MARK-MASQ - [0:0]
-A PREROUTING -m comment --comment \"kubernetes service portals\" -j KUBE-SERVICES
-A OUTPUT -m comment --comment \"kubernetes service portals\" -j KUBE-SERVICES
-A POSTROUTING -m comment --comment \"kubernetes postrouting rules\" -j KUBE-POSTROUTING
-A KUBE-SERVICES ! -s 10.244.0.0/16 -m set --match-set KUBE-CLUSTER-IP dst,dst -j KUBE-MARK-MASQ
-A KUBE-SERVICES -m addrtype --dst-type LOCAL -j KUBE-NODE-PORT
-A KUBE-NODE-PORT -p tcp -m set --match-set KUBE-NODE-PORT-TCP dst -j KUBE-MARK-MASQ
-A KUBE-MARK-MASQ -j MARK --or-mark 0x4000
COMMIT
*filter
:KUBE-FORWARD - [0:0]
:KUBE-NODE-PORT - [0:0]
:KUBE-PROXY-FIREWALL - [0:0]
:KUBE-SOURCE-RANGES-FIREWALL - [0:0]
:KUBE-IPVS-FILTER - [0:0]
:KUBE-IPVS-OUT-FILTER - [0:0]
-A INPUT -m comment --comment \"kubernetes ipvs access filter\" -j KUBE-IPVS-FILTER
-A INPUT -m comment --comment \"kube-proxy firewall rules\" -j KUBE-PROXY-FIREWALL
-A INPUT -m comment --comment \"kubernetes health check rules\" -j KUBE-NODE-PORT
-A FORWARD -m comment --comment \"kube-proxy firewall rules\" -j KUBE-PROXY-FIREWALL
-A FORWARD -m comment --comment \"kubernetes forwarding rules\" -j KUBE-FORWARD
-A OUTPUT -m comment --comment \"kubernetes ipvs access filter\" -j KUBE-IPVS-OUT-FILTER
-A KUBE-IPVS-FILTER -m conntrack --ctstate NEW -m set --match-set KUBE-IPVS-IPS dst -j REJECT
COMMIT
";

fn leave_behind(place: &Place) {
    place.ip("link add kube-ipvs0 type dummy");
    for ip in ["10.10.0.1", "10.10.0.77"] {
        place.ip(&format!("address add {ip}/32 dev kube-ipvs0"));
    }
    place.inside(|| {
        let name = |text| SetName::new(text).unwrap();
        let v4 = kernel::ipset::Family::V4;
        let sets = [
            ("KUBE-CLUSTER-IP", Kind::IpPort(v4)),
            ("KUBE-IPVS-IPS", Kind::Ip(v4)),
            ("KUBE-NODE-PORT-TCP", Kind::Port),
            ("KUBE-6-LOAD-BALANCER-SOURCE-CID", Kind::IpPortNet(kernel::ipset::Family::V6)),
        ];
        let create = sets.map(|(text, kind)| SetRequest::Create(Set::new(name(text), kind)));
        let mut ipset = kernel::ipset::Netlink::open().unwrap();
        assert!(ipset.run(&create).unwrap().is_empty());
        let port = SetRequest::Add(name("KUBE-NODE-PORT-TCP"), Entry::Port(31_111));
        assert!(ipset.run(&[port]).unwrap().is_empty());
        let mut ipvs = kernel::ipvs::Netlink::open().unwrap();
        for at in ["10.10.0.1:8410", "10.10.0.77:80", "192.0.2.10:31111", "192.0.2.10:22222"].map(tcp) {
            let real = RealServer::masquerading("10.2.17.53:12345".parse().unwrap(), 1);
            let requests = [Request::Add(VirtualServer::new(at, "rr")), Request::AddServer(at, real)];
            assert!(ipvs.run(&requests).unwrap().is_empty());
        }
    });
    std::fs::write(place.path("rules"), RULES).unwrap();
    place.tool("iptables-restore", "--noflush rules");
}

#[test]
fn root_ipvs_takes_over_from_upstream_and_leaves_what_is_neithers() {
    let Some(place) = place() else { return };
    leave_behind(&place);
    let _running = start(&place, "--sync-period 1s");
    place.until("upstream's chains and sets are gone", || {
        // The canary is ours, too.
        let rules = place.tool("iptables-save", "").replace("KUBE-PROXY-CANARY", "");
        !rules.contains("KUBE-") && Kernel::read(&place).sets.iter().all(|name| !name.starts_with("KUBE-"))
    });
    let after = Kernel::read(&place);
    let places: Vec<String> = after.servers.keys().map(ToString::to_string).collect();
    let expected = ["10.10.0.1:8410".to_owned(), format!("{HOST}:22222"), format!("{HOST}:30410")];
    assert_eq!(places, expected.map(|at| format!("TCP {at}")), "stale ones are gone, the stranger's is not");
    assert!(after.is_on("10.10.0.1", "kube-ipvs0") && !after.is_on("10.10.0.77", "kube-ipvs0"), "{after:#?}");
    assert!(after.is_on(HOST, "eth0"), "{after:#?}");
    let told = status(&place)["beside"]["tookOver"].to_string();
    for words in ["chains of upstream's ipvs mode", "set KUBE-CLUSTER-IP of upstream's IPVS mode"] {
        assert!(told.contains(words), "no {words} in {told}");
    }
}

#[test]
fn root_ipvs_another_mode_tells_of_what_upstream_left_and_it_goes_when_somebody_says_so() {
    let Some(place) = place() else { return };
    leave_behind(&place);
    let running = place.start_with("--mode nftables --service-cidr 10.10.0.0/16");
    running.wait_for_log("of upstream's ipvs mode");
    assert_eq!(Kernel::read(&place).real("10.10.0.1:8410").len(), 1, "it may come back");
    place.portway("status").says(&["Stays:", "`portway cleanup --mode ipvs --force` removes them"]);
    place
        .portway("cleanup --mode ipvs --force")
        .ends_with(0)
        .says(&["Removed 3 virtual servers, 2 addresses"]);
    let after = Kernel::read(&place);
    let places: Vec<String> = after.servers.keys().map(ToString::to_string).collect();
    assert_eq!(places, [format!("TCP {HOST}:22222")], "the stranger's stays");
    assert_eq!(after.sets.len(), 0, "{after:#?}");
}
