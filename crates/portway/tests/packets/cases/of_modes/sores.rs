//! What IPVS modes are known to get wrong: addresses of Services are addresses of the host, and its settings are changed.

use std::fs;
use std::io::ErrorKind;
use std::net::{IpAddr, Ipv4Addr, SocketAddr, TcpListener, TcpStream};
use std::time::Duration;

use kernel::host::{Host as _, ThisMachine};
use kernel::ipset::{Ipsets as _, Netlink};
use kernel::xtables::{Programs, Table, Xtables as _};
use playground::plan::NODES;
use playground::{Family, Ping, ping};
use serde_json::json;

use crate::check::{Target, Want};
use crate::manifest::{PORT, Service};
use crate::stage::{Setting, Stage};
use crate::talk::PATIENCE;

use crate::cases::frontends::{SECOND, add_address};

const WEB: [&str; 1] = ["web-b-0"];
/// A daemon of the node listens here, at every address.
const DAEMON: u16 = 2222;
const DUMMY: &str = "kube-ipvs0";
const SETTINGS: [&str; 5] = [
    "ipv4/vs/conntrack",
    "ipv4/vs/expire_nodest_conn",
    "ipv4/vs/expire_quiescent_template",
    "ipv4/conf/all/arp_ignore",
    "ipv4/conf/all/arp_announce",
];

pub(crate) fn root_ports_of_the_host_do_not_answer_at_addresses_of_services(setting: &Setting) {
    let web = Service::new("web", 1).on(&WEB).load_balanced().externally();
    let Some(stage) = setting.stage(&[&web]) else { return };
    for family in Family::ALL {
        let any = if family == Family::V4 { "0.0.0.0" } else { "::" };
        let daemon = SocketAddr::new(any.parse().unwrap(), DAEMON);
        let _daemon = stage.place("a").run(|| TcpListener::bind(daemon).unwrap()).unwrap();
        let dial = |from: &str, ip| {
            let to = SocketAddr::new(ip, DAEMON);
            stage.place(from).run(|| TcpStream::connect_timeout(&to, playground::patient(PATIENCE))).unwrap()
        };
        for from in ["client-a", "outside", "a"] {
            dial(from, stage.place("a").address(family)).unwrap();
            for at in [web.cluster_ip(family), web.load_balancer_ip(family), web.external_ip(family)] {
                let refused = dial(from, at.ip()).unwrap_err();
                assert_eq!(refused.kind(), ErrorKind::ConnectionRefused, "{from} -> {at}: {refused}");
            }
        }
    }
}

pub(crate) fn root_a_ping_of_a_service_is_answered_by_the_node(setting: &Setting) {
    let web = Service::new("web", 1).on(&WEB).load_balanced();
    let Some(stage) = setting.stage(&[&web]) else { return };
    for family in Family::ALL {
        for from in ["client-a", "client-b", "outside", "a"] {
            for at in [web.cluster_ip(family), web.load_balancer_ip(family)] {
                let pinged = ping(stage.place(from), at.ip(), PATIENCE);
                assert!(matches!(pinged, Ping::Answered { .. }), "{from} pings {}: {pinged:?}", at.ip());
            }
        }
    }
}

/// The external IP is an address that node a has, and node b has not. Strict ARP, lest node b says that it is there.
pub(crate) fn root_an_address_that_is_the_hosts_too_is_told_and_never_removed(setting: &Setting) {
    let web = Service::new("web", 1).on(&WEB);
    let Some(mut stage) = setting.with(&["--ipvs-strict-arp"]).stage(&[&web]) else { return };
    add_address(&stage);
    let shared = web.clone().with("externalIPs", json!(SECOND));
    stage.apply(&shared);
    let own: [IpAddr; 2] = SECOND.map(|ip| ip.parse().unwrap());
    let said = stage.said("a");
    for ip in own {
        assert!(said.contains(&format!("{ip} is an address of this host, too")), "{ip}: {said}");
        assert_eq!(links_of(&stage, ip), ["eth0"], "{ip}");
    }
    // Node b has taken the address for its own, since the Service has it. With IPv6, node a would speak to node b from this very address,
    // and hear nothing: the newest address of an interface is the one that the kernel chooses.
    let shared_at = move |family| SocketAddr::new(own[usize::from(family == Family::V6)], PORT);
    let target = || Target::new("the shared address", "a", shared_at);
    stage.check_of(
        &[Family::V4],
        &[("outside", target(), Want::masqueraded(&WEB)), ("client-a", target(), Want::masqueraded(&WEB))],
    );
    stage.delete(&shared);
    for ip in own {
        assert_eq!(links_of(&stage, ip), ["eth0"], "{ip} after the Service");
    }
    stage.terminate("a");
    stage.clean_up("a", dataplane::ipvs::MODE);
    for ip in own {
        assert_eq!(links_of(&stage, ip), ["eth0"], "{ip} after a cleanup");
    }
}

/// The host gets an address that a Service has already: both keep theirs.
pub(crate) fn root_an_address_that_becomes_the_hosts_stays_when_the_service_goes(setting: &Setting) {
    let web = Service::new("web", 1).on(&WEB).externally();
    let Some(mut stage) = setting.stage(&[&web]) else { return };
    let both = Family::ALL.map(|family| web.external_ip(family).ip());
    for ip in both {
        assert_eq!(links_of(&stage, ip), [DUMMY], "{ip}");
    }
    let [v4, v6] = both;
    stage
        .place("a")
        .ip([format!("addr add {v4}/32 dev eth0"), format!("addr add {v6}/128 dev eth0 nodad")])
        .unwrap();
    stage.check(&[("client-b", stage.external_ip(&web), Want::masqueraded(&WEB))]);
    stage.delete(&web);
    for ip in both {
        assert_eq!(links_of(&stage, ip), ["eth0"], "{ip} after the Service");
    }
    stage.terminate("a");
    stage.clean_up("a", dataplane::ipvs::MODE);
    for ip in both {
        assert_eq!(links_of(&stage, ip), ["eth0"], "{ip} after a cleanup");
    }
}

/// Of both families: servers, sets, addresses, rules; and the settings are as they were.
pub(crate) fn root_a_cleanup_leaves_nothing_and_gives_settings_back(setting: &Setting) {
    let web = Service::new("web", 1).on(&WEB).load_balanced().externally();
    let setting = setting.with(&["--ipvs-strict-arp"]);
    let Some(mut stage) = setting.stage_without_portways(&[&web]) else { return };
    let before = settings(&stage);
    for node in NODES {
        stage.start(node);
    }
    stage.wait_for_sync("a");
    assert_ne!(settings(&stage), before);
    assert!(sets(&stage).iter().any(|name| name.starts_with("PORTWAY-6-")));
    stage.terminate("a");
    let said = stage.clean_up("a", dataplane::ipvs::MODE);
    assert_eq!(settings(&stage), before, "{said}");
    assert_eq!(sets(&stage), Vec::<String>::new(), "{said}");
    assert_eq!(stage.virtual_servers("a"), [], "{said}");
    for family in Family::ALL {
        assert_eq!(links_of(&stage, web.cluster_ip(family).ip()), Vec::<String>::new(), "{said}");
    }
    assert!(!has_chains(&stage), "{said}");
}

/// A neighbour asks who has the cluster IP: with strict ARP nobody says so.
pub(crate) fn root_neighbours_hear_of_no_address_with_strict_arp(setting: &Setting) {
    for (options, is_told) in [(&[][..], true), (&["--ipvs-strict-arp"], false)] {
        let web = Service::new("web", 1).on(&WEB);
        let Some(stage) = setting.with(options).stage(&[&web]) else { return };
        let IpAddr::V4(ip) = web.cluster_ip(Family::V4).ip() else { unreachable!("it is of IPv4") };
        assert_eq!(is_told_by_arp(&stage, ip), is_told, "{options:?}");
        // Those who are routed here reach it all the same.
        stage.check_of(&[Family::V4], &[("client-a", stage.cluster_ip(&web), Want::kept(&WEB))]);
    }
}

/// Whether somebody on the wire answers the outside client, who believes that this address is there.
fn is_told_by_arp(stage: &Stage, ip: Ipv4Addr) -> bool {
    let outside = stage.place("outside");
    outside.ip([format!("route add {ip}/32 dev eth0")]).unwrap();
    let to = SocketAddr::new(ip.into(), PORT);
    let dialled = outside.run(|| TcpStream::connect_timeout(&to, Duration::from_secs(10))).unwrap();
    match dialled {
        Ok(_) => true,
        Err(error) if error.kind() == ErrorKind::HostUnreachable => false,
        Err(error) => panic!("{to}: {error}"),
    }
}

/// The interfaces of node a that have an address.
fn links_of(stage: &Stage, ip: IpAddr) -> Vec<String> {
    let addresses = stage.place("a").run(|| ThisMachine.addresses().unwrap()).unwrap();
    addresses.into_iter().filter(|address| address.ip == ip).map(|address| address.link_name).collect()
}

fn sets(stage: &Stage) -> Vec<String> {
    let found = stage.place("a").run(|| Netlink::open().unwrap().sets().unwrap()).unwrap();
    found.into_iter().map(|set| set.name).collect()
}

fn settings(stage: &Stage) -> Vec<String> {
    let read = |name: &str| fs::read_to_string(format!("/proc/sys/net/{name}")).unwrap().trim().to_owned();
    stage.place("a").run(|| SETTINGS.map(read).to_vec()).unwrap()
}

fn has_chains(stage: &Stage) -> bool {
    let has =
        |table, door: &mut Programs| door.save(table).unwrap().is_some_and(|text| text.contains("PORTWAY-"));
    let any = || {
        let mut found = Programs::find();
        found
            .programs
            .iter_mut()
            .any(|door| [Table::Nat, Table::Filter, Table::Mangle].into_iter().any(|table| has(table, door)))
    };
    stage.place("a").run(any).unwrap()
}
