//! The ipvs mode as people run it, on a kernel that has IPVS: written, restarted, repaired, cleaned up. Most kernels of build machines
//! have no IPVS, so this is the VM's; `needs_vm/upstream.rs` has what upstream's left behind, `needs_vm/leaving.rs` what becomes of ours.

mod drain;
mod leaving;
mod tuning;
mod upstream;

use std::collections::{BTreeMap, BTreeSet};
use std::net::{IpAddr, SocketAddr};

use kernel::ipset::Ipsets as _;
use kernel::ipvs::{Ipvs as _, RealServer, Request, VirtualServer, What};
use kernel::sysctl::Sysctls as _;

use crate::common::{Outcome, Place, Running, skipped};

/// The example of the documents, on this node.
const EXAMPLE: &str = "\
apiVersion: v1
kind: Service
metadata: { name: web }
spec:
  type: NodePort
  clusterIP: 10.10.0.1
  ports: [{ port: 8410, nodePort: 30410 }]
---
apiVersion: discovery.k8s.io/v1
kind: EndpointSlice
addressType: IPv4
metadata: { name: web-1, labels: { kubernetes.io/service-name: web } }
ports: [{ port: 12345 }]
endpoints: [{ addresses: [10.2.17.53] }, { addresses: [10.2.17.54] }]
";
const MODE: &str = "--mode ipvs --service-cidr 10.10.0.0/16";
/// The host's own address, on its own interface.
const HOST: &str = "192.0.2.10";

/// All that the mode may change.
#[derive(Debug, PartialEq, Eq)]
struct Kernel {
    servers: BTreeMap<What, BTreeMap<SocketAddr, u32>>,
    /// With the interface of each.
    addresses: BTreeSet<(IpAddr, String)>,
    sets: BTreeSet<String>,
    settings: BTreeMap<&'static str, Option<String>>,
    timeouts: [u32; 3],
}

const SETTINGS: [&str; 7] = [
    "net/ipv4/vs/conntrack",
    "net/ipv4/vs/conn_reuse_mode",
    "net/ipv4/vs/expire_nodest_conn",
    "net/ipv4/vs/expire_quiescent_template",
    "net/ipv4/ip_forward",
    "net/ipv4/conf/all/arp_ignore",
    "net/ipv4/conf/all/arp_announce",
];

impl Kernel {
    fn read(place: &Place) -> Self {
        place.inside(|| {
            let mut ipvs = kernel::ipvs::Netlink::open().unwrap();
            let mut servers = BTreeMap::new();
            for server in ipvs.virtual_servers().unwrap() {
                let real = ipvs.real_servers(&server.what).unwrap();
                let real = real.iter().map(|one| (one.server.address, one.server.weight)).collect();
                servers.insert(server.what, real);
            }
            let timeouts = ipvs.timeouts().unwrap();
            let addresses = kernel::host::addresses().unwrap().into_iter().filter(|one| one.ip.is_ipv4());
            let sets = kernel::ipset::Netlink::open().unwrap().sets().unwrap();
            let mut sysctl = kernel::sysctl::ThisMachine;
            Self {
                servers,
                addresses: addresses.map(|one| (one.ip, one.link_name)).collect(),
                sets: sets.into_iter().map(|set| set.name).collect(),
                settings: SETTINGS.map(|name| (name, sysctl.read(name).unwrap())).into(),
                timeouts: [timeouts.tcp_s, timeouts.tcp_fin_s, timeouts.udp_s],
            }
        })
    }

    /// The real servers of a TCP virtual server, with their weights.
    #[track_caller]
    fn real(&self, text: &str) -> Vec<(String, u32)> {
        let found = self.servers.get(&tcp(text)).unwrap_or_else(|| panic!("no {text} in {self:#?}"));
        found.iter().map(|(address, weight)| (address.to_string(), *weight)).collect()
    }

    fn is_on(&self, ip: &str, interface: &str) -> bool {
        self.addresses.contains(&(ip.parse().unwrap(), interface.to_owned()))
    }

    fn setting(&self, name: &str) -> &str {
        self.settings[name].as_deref().unwrap_or("none")
    }
}

fn tcp(text: &str) -> What {
    What::Address(text.parse().unwrap(), kernel::IpProtocol::TCP)
}

/// A host with one address, and the example's manifest; `None` where the kernel is not the VM's.
fn place() -> Option<Place> {
    if std::env::var_os("PORTWAY_VM").is_none() {
        return skipped("it needs the VM's kernel: `cargo xtask vm --smoke`");
    }
    let place = Place::new()?;
    for command in ["link set lo up", "link add eth0 type dummy", "link set eth0 up"] {
        place.ip(command);
    }
    place.ip(&format!("address add {HOST}/24 dev eth0"));
    place.write("web.yaml", EXAMPLE);
    Some(place)
}

fn start(place: &Place, options: &str) -> Running {
    let running = place.start_with(&format!("{MODE} {options}"));
    running.wait_for("portway is in sync");
    running
}

/// All that it needs was there.
#[track_caller]
fn writes_nothing(running: &Running) {
    let line = running.wait_for("portway is in sync");
    assert!(line.contains(" 0 operations"), "{line}");
}

/// The status, once the portway is not busy.
fn status(place: &Place) -> serde_json::Value {
    place.portway("status -o json").json()
}

fn cleanup(place: &Place) -> Outcome {
    place.portway("cleanup --mode ipvs").ends_with(0)
}

#[test]
fn root_ipvs_writes_what_the_documents_list_and_neither_restart_nor_kill_takes_it_away() {
    let Some(place) = place() else { return };
    let mut running = start(&place, "");
    let written = Kernel::read(&place);
    let pods = [("10.2.17.53:12345".to_owned(), 1), ("10.2.17.54:12345".to_owned(), 1)];
    assert_eq!(written.real("10.10.0.1:8410"), pods);
    assert_eq!(written.real(&format!("{HOST}:30410")), pods);
    assert!(written.is_on("10.10.0.1", "kube-ipvs0"), "{written:#?}");
    assert!(written.sets.contains("PORTWAY-CLUSTER-IP"), "{written:#?}");
    assert_eq!(written.setting("net/ipv4/vs/conntrack"), "1");
    assert!(!written.servers.contains_key(&tcp("10.10.0.1:30410")), "a cluster IP is no address of the host");
    let said = place.portway("status");
    said.says(&["Mode:       ipvs, by iptables-", "Scheduler:  rr, and wrr", "Addresses:  on kube-ipvs0"]);
    said.says(&["Draining:   none", "Drift:      none"]);
    place.portway("diff").says(&["No difference"]);
    assert_eq!(running.terminate(), Some(0));
    assert_eq!(Kernel::read(&place), written, "the end of a portway");
    let mut second = start(&place, "");
    writes_nothing(&second);
    second.kill();
    assert_eq!(Kernel::read(&place), written, "kill -9");
}

#[test]
fn root_ipvs_drift_is_repaired_and_counted() {
    let Some(place) = place() else { return };
    let _running = start(&place, "");
    let written = Kernel::read(&place);
    place.inside(|| {
        let mut ipvs = kernel::ipvs::Netlink::open().unwrap();
        let real = RealServer::masquerading("10.2.17.99:12345".parse().unwrap(), 7);
        let meddle =
            [Request::AddServer(tcp("10.10.0.1:8410"), real), Request::Delete(tcp(&format!("{HOST}:30410")))];
        assert!(ipvs.run(&meddle).unwrap().is_empty());
    });
    place.ip("address delete 10.10.0.1/32 dev kube-ipvs0");
    // The periodic compare waits 20 times as long as it takes, which is long in a VM: a flush is looked for, and all is compared then.
    place.tool("iptables", "-t mangle -F");
    place.until("all is as it was", || {
        let mut now = Kernel::read(&place);
        // The stranger had no connection, but it leaves as those do that have one.
        let at = now.servers.get_mut(&tcp("10.10.0.1:8410"));
        at.map(|real| real.retain(|_, weight| *weight > 0)).is_some() && now == written
    });
    place.until("the repair is counted", || status(&place)["drift"]["repairs"].as_u64() >= Some(1));
    assert!(place.tool("iptables-save", "-t mangle").contains("-j PORTWAY-GUARD"));
}

#[test]
fn root_ipvs_cleanup_gives_settings_back_and_leaves_what_is_not_ours() {
    let Some(place) = place() else { return };
    place.inside(|| {
        let mut ipvs = kernel::ipvs::Netlink::open().unwrap();
        let what = tcp("203.0.113.5:80");
        let real = RealServer::masquerading("198.51.100.7:80".parse().unwrap(), 3);
        let theirs = [Request::Add(VirtualServer::new(what, "wlc")), Request::AddServer(what, real)];
        assert!(ipvs.run(&theirs).unwrap().is_empty());
    });
    let before = Kernel::read(&place);
    let options = "--ipvs-strict-arp --ipvs-scheduler lc --ipvs-tcp-timeout 1h --ipvs-udp-timeout 90s";
    let mut running = start(&place, options);
    let written = Kernel::read(&place);
    assert_eq!(written.setting("net/ipv4/conf/all/arp_ignore"), "1");
    assert_eq!(written.setting("net/ipv4/conf/all/arp_announce"), "2");
    assert_eq!(written.timeouts, [3600, before.timeouts[1], 90], "what is not asked for stays");
    assert_eq!(written.real("203.0.113.5:80"), before.real("203.0.113.5:80"));
    place.portway("status").says(&["Scheduler:  lc", "strict ARP"]);
    place.portway("diff").says(&["No difference"]);
    assert_eq!(running.terminate(), Some(0));
    cleanup(&place);
    assert_eq!(Kernel::read(&place), before);
    assert!(!place.tool("iptables-save", "").contains("PORTWAY"));
    assert!(!place.ip("link").contains("kube-ipvs0"));
}

#[test]
fn root_ipvs_on_another_interface_the_hosts_own_address_stays_its_own() {
    let Some(place) = place() else { return };
    let mut running = start(&place, "--ipvs-interface eth0");
    let written = Kernel::read(&place);
    assert!(written.is_on("10.10.0.1", "eth0") && written.is_on(HOST, "eth0"), "{written:#?}");
    assert!(!place.ip("link").contains("kube-ipvs0"));
    // Had the bound address counted as the host's, its node port would answer there.
    let places: Vec<String> = written.servers.keys().map(ToString::to_string).collect();
    assert_eq!(places, ["TCP 10.10.0.1:8410", &format!("TCP {HOST}:30410")]);
    assert_eq!(running.terminate(), Some(0));
    let mut second = start(&place, "--ipvs-interface eth0");
    writes_nothing(&second);
    place.portway("diff").says(&["No difference"]);
    assert_eq!(second.terminate(), Some(0));
    cleanup(&place);
    let after = Kernel::read(&place);
    assert!(after.is_on(HOST, "eth0") && !after.is_on("10.10.0.1", "eth0"), "{after:#?}");
    assert_eq!((after.servers.len(), after.sets.len()), (0, 0), "{after:#?}");
}
