//! The program under upstream's name, as a `DaemonSet` starts it: a document as kubeadm writes it, in a folder as a ConfigMap is mounted,
//! an API server, and connections through Services.

use std::io::{Read as _, Write as _};
use std::net::{SocketAddr, TcpListener, TcpStream};
use std::os::unix::fs::symlink;
use std::time::Duration;

use mockapi::objects::{node, service, slice};
use mockapi::{Certificates, MockApi, NODES, Options, SERVICES, SLICES, User, kubeconfig};

use crate::common::{Place, Running, has_program, skipped};

/// As kubeadm writes it: every field, nearly all of them empty.
const KUBEADM: &str = "\
apiVersion: kubeproxy.config.k8s.io/v1alpha1
bindAddress: 0.0.0.0
bindAddressHardFail: false
clientConnection:
  acceptContentTypes: \"\"
  burst: 0
  contentType: \"\"
  kubeconfig: KUBECONFIG
  qps: 0
clusterCIDR: 10.244.0.0/16
configSyncPeriod: 0s
conntrack:
  maxPerCore: null
  min: null
  tcpBeLiberal: false
  tcpCloseWaitTimeout: null
  tcpEstablishedTimeout: null
  udpStreamTimeout: 0s
  udpTimeout: 0s
detectLocal:
  bridgeInterface: \"\"
  interfaceNamePrefix: \"\"
detectLocalMode: \"\"
enableProfiling: false
healthzBindAddress: \"\"
hostnameOverride: \"\"
iptables:
  localhostNodePorts: null
  masqueradeAll: false
  masqueradeBit: null
  minSyncPeriod: 0s
  syncPeriod: 0s
ipvs:
  excludeCIDRs: null
  minSyncPeriod: 0s
  scheduler: \"\"
  strictARP: false
  syncPeriod: 0s
  tcpFinTimeout: 0s
  tcpTimeout: 0s
  udpTimeout: 0s
kind: KubeProxyConfiguration
logging:
  flushFrequency: 0
  options:
    json:
      infoBufferSize: \"0\"
    text:
      infoBufferSize: \"0\"
  verbosity: 0
metricsBindAddress: \"\"
mode: \"\"
nftables:
  masqueradeAll: false
  masqueradeBit: null
  minSyncPeriod: 0s
  syncPeriod: 0s
nodePortAddresses: null
oomScoreAdj: null
portRange: \"\"
showHiddenMetricsForVersion: \"\"
winkernel:
  enableDSR: false
  forwardHealthCheckVip: false
  networkName: \"\"
  rootHnsEndpointName: \"\"
  sourceVip: \"\"
";

/// The host's own address, where the one endpoint listens.
const ENDPOINT: &str = "192.0.2.1:8080";

/// A node of a cluster.
struct Node {
    place: Place,
    _server: MockApi,
    _endpoint: std::thread::JoinHandle<()>,
    document: String,
}

impl Node {
    /// One with a NodePort Service, an endpoint that answers `hello`, and a way to every address.
    fn new() -> Option<Self> {
        if !["nft", "iptables", "ip"].into_iter().all(has_program) {
            return skipped("the program `nft`, `iptables` or `ip` is not installed");
        }
        let place = Place::new()?;
        for arguments in [
            "link set lo up",
            "link add d0 type veth peer name d1",
            "address add 192.0.2.1/24 dev d0",
            "link set d0 up",
            "link set d1 up",
            "route add default dev d0",
        ] {
            place.ip(arguments);
        }
        let tls = Some(Certificates::generate().unwrap());
        let server = place.inside(|| MockApi::start(Options { tls, ..Options::default() }).unwrap());
        server.put(NODES, node("a", "192.0.2.1"));
        let mut web = service("web", "10.96.0.80");
        web["spec"]["type"] = "NodePort".into();
        web["spec"]["ports"][0]["nodePort"] = 30080.into();
        server.put(SERVICES, web);
        server.put(SLICES, slice("web", &["192.0.2.1"]));
        server.need_certificate();
        let kubeconfig = kubeconfig(&server, &User::Certificate, &place.path("")).unwrap();
        let document = KUBEADM.replace("KUBECONFIG", &kubeconfig.display().to_string());
        let listener = place.inside(|| TcpListener::bind(ENDPOINT).unwrap());
        let endpoint = std::thread::spawn(move || {
            for mut stream in listener.incoming().map_while(Result::ok) {
                // A client that went away is no matter.
                let _ = stream.write_all(b"hello");
            }
        });
        let node = Self { place, _server: server, _endpoint: endpoint, document };
        Some(node)
    }

    /// Puts a document where a ConfigMap would be, by the swap of a link.
    fn mount(&self, version: &str, document: &str) {
        let folder = self.place.path("mounted");
        std::fs::create_dir_all(folder.join(version)).unwrap();
        std::fs::write(folder.join(version).join("config.conf"), document).unwrap();
        symlink(version, folder.join("..data_tmp")).unwrap();
        std::fs::rename(folder.join("..data_tmp"), folder.join("..data")).unwrap();
        let file = folder.join("config.conf");
        if !file.is_symlink() {
            symlink("..data/config.conf", file).unwrap();
        }
    }

    /// As the `DaemonSet` of kubeadm does.
    fn start(&self) -> Running {
        let running = self.place.start_kube_proxy("--config=mounted/config.conf --hostname-override=A");
        running.wait_for("portway is in sync");
        running
    }

    /// Whether `hello` comes from there.
    fn is_served(&self, at: &str) -> bool {
        let at: SocketAddr = at.parse().unwrap();
        self.place.inside(|| {
            let Ok(mut stream) = TcpStream::connect_timeout(&at, Duration::from_millis(500)) else {
                return false;
            };
            stream.set_read_timeout(Some(Duration::from_secs(2))).unwrap();
            let mut text = String::new();
            stream.read_to_string(&mut text).is_ok() && text == "hello"
        })
    }

    fn configz(&self) -> String {
        self.place.get("127.0.0.1:10249", "/configz").unwrap_or_default()
    }
}

#[test]
fn root_the_document_of_kubeadm_serves_services_by_iptables() {
    let Some(node) = Node::new() else { return };
    node.mount("..1", &node.document);
    let running = node.start();
    running.wait_for_log("no mode is chosen, so it is iptables");
    assert!(node.place.tool("iptables-save", "-t nat").contains("KUBE-SVC-"), "upstream's chains are there");
    for at in ["10.96.0.80:80", "192.0.2.1:30080", "127.0.0.1:30080", "[::1]:30080"] {
        let is_expected = !at.starts_with('[');
        assert_eq!(node.is_served(at), is_expected, "{at}: the Service has no IPv6");
    }
    let localnet = node.place.tool("cat", "/proc/sys/net/ipv4/conf/all/route_localnet");
    assert_eq!(localnet.trim(), "0", "localhost is served without it");
    node.place.until("it is healthy", || {
        node.place.get("127.0.0.1:10256", "/healthz").is_some_and(|answer| answer.contains(" 200 "))
    });
    assert!(node.place.get("127.0.0.1:10249", "/proxyMode").is_some_and(|mode| mode.ends_with("iptables")));
}

#[test]
fn root_localhost_node_ports_can_be_turned_off() {
    let Some(node) = Node::new() else { return };
    node.mount("..1", &node.document.replace("localhostNodePorts: null", "localhostNodePorts: false"));
    let _running = node.start();
    assert!(node.is_served("192.0.2.1:30080"), "elsewhere it answers");
    assert!(!node.is_served("127.0.0.1:30080"));
}

#[test]
fn root_node_port_addresses_say_where_node_ports_answer() {
    let Some(node) = Node::new() else { return };
    node.mount("..1", &node.document.replace("nodePortAddresses: null", "nodePortAddresses: [localhost]"));
    let _running = node.start();
    assert!(node.is_served("127.0.0.1:30080"));
    assert!(!node.is_served("192.0.2.1:30080"));
    assert!(node.is_served("10.96.0.80:80"), "the cluster IP is none of theirs");
}

#[test]
fn root_the_same_document_serves_services_by_nftables() {
    let Some(node) = Node::new() else { return };
    node.mount("..1", &node.document.replace("mode: \"\"", "mode: nftables"));
    let _running = node.start();
    assert!(node.place.nft("list table ip kube-proxy").contains("10.96.0.80"));
    for (at, is_expected) in [("10.96.0.80:80", true), ("192.0.2.1:30080", true), ("127.0.0.1:30080", false)]
    {
        assert_eq!(node.is_served(at), is_expected, "{at}: node ports answer on the primary address");
    }
}

#[test]
fn root_the_bit_of_the_document_is_the_mark_of_the_rules() {
    for mode in ["nftables", "iptables"] {
        let Some(node) = Node::new() else { return };
        let document = node.document.replace("mode: \"\"", &format!("mode: {mode}"));
        node.mount("..1", &document.replace("masqueradeBit: null", "masqueradeBit: 15"));
        let _running = node.start();
        let rules = match mode {
            "nftables" => node.place.nft("list table ip kube-proxy"),
            _ => node.place.tool("iptables-save", "-t nat"),
        };
        assert!(rules.contains("0x8000") || rules.contains("0x00008000"), "{mode}: {rules}");
        assert!(!rules.contains("0x4000") && !rules.contains("0x00004000"), "{mode}: {rules}");
        node.place.until("the kernel holds what it should", || node.place.portway("diff").has_ended_with(0));
    }
}

#[test]
fn root_one_goes_on_in_the_place_of_another_under_the_same_name() {
    let Some(node) = Node::new() else { return };
    node.mount("..1", &node.document.replace("mode: \"\"", "mode: nftables"));
    let old = node.start();
    let arguments = "--config=mounted/config.conf --hostname-override=a --take-over";
    let mut new = node.place.start_kube_proxy(arguments);
    new.wait_for("portway is in sync");
    old.wait_for_log("standing by");
    assert!(node.is_served("10.96.0.80:80"));
    new.kill();
    let old_one: u64 = old.pid().parse().unwrap();
    node.place.until("the old one goes on, with its flags", || {
        let status = node.place.portway("status -o json");
        status.has_ended_with(0) && status.json()["pid"] == old_one
    });
}

#[test]
fn root_a_changed_config_map_counts_without_a_restart() {
    let Some(node) = Node::new() else { return };
    let first = node.document.replace("mode: \"\"", "mode: nftables");
    node.mount("..1", &first);
    let mut running = node.start();
    assert!(!node.is_served("127.0.0.1:30080"));
    let second = first
        .replace("nodePortAddresses: null", "nodePortAddresses: [primary, localhost]")
        .replace("verbosity: 0", "verbosity: 4")
        .replace("masqueradeAll: false", "masqueradeAll: true")
        .replace("syncPeriod: 0s", "syncPeriod: 7s")
        .replace("clusterCIDR: 10.244.0.0/16", "clusterCIDR: 10.245.0.0/16");
    node.mount("..2", &second);
    running.wait_for_log("restart to bring into force: `clusterCIDR`");
    running.wait_for_log("in force now: `logging.verbosity`");
    node.place.until("node ports answer on localhost", || node.is_served("127.0.0.1:30080"));
    for words in [
        "\"syncPeriod\":\"7s\"",
        "\"masqueradeAll\":true",
        "\"clusterCIDR\":\"10.244.0.0/16\"",
        "\"verbosity\":4",
        "\"contentType\":\"application/vnd.kubernetes.protobuf\"",
    ] {
        assert!(node.configz().contains(words), "no {words} in {}", node.configz());
    }
    let flags = node.place.get("127.0.0.1:10249", "/flagz").unwrap_or_default();
    for line in [
        "kube-api-qps=5",
        "proxy-mode=nftables",
        "cleanup=false",
        "ipvs-sync-period=30s",
        // What was chosen anew.
        "nodeport-addresses=primary,localhost",
        "masquerade-all=true",
        "iptables-sync-period=7s",
        "v=4",
    ] {
        assert!(flags.contains(&format!("\n{line}\n")), "no {line} in {flags}");
    }
    running.wait_for_log("debug: ");
    let status_says = |words: &str| node.place.portway("status").says_anything_of(words);
    node.place
        .until("the status tells what waits", || status_says("changes of clusterCIDR wait for a restart"));
    node.mount("..3", "mode: [");
    running.wait_for_log("all stays as it was");
    node.place.until("the status tells of the refusal", || {
        status_says("Config:     it cannot be used as it is now")
    });
    assert!(node.is_served("127.0.0.1:30080"));
    node.mount("..4", &first);
    node.place.until("nothing is left to tell", || !status_says("Config:"));
    node.place.until("they answer there no more", || !node.is_served("127.0.0.1:30080"));
    assert!(node.is_served("192.0.2.1:30080"));
    assert_eq!(running.terminate(), Some(0));
}

/// What the user saw: SIGHUP ended the proxy without a word. The file is changed through a second name of it, which nobody watches.
#[test]
fn root_sighup_has_kube_proxy_read_its_config_file_again() {
    let Some(node) = Node::new() else { return };
    let document = node.document.replace("mode: \"\"", "mode: nftables");
    node.mount("..1", &document);
    let unwatched = node.place.path("second-name");
    std::fs::hard_link(node.place.path("mounted/..1/config.conf"), &unwatched).unwrap();
    let mut running = node.start();
    std::fs::write(unwatched, document.replace("verbosity: 0", "verbosity: 4")).unwrap();
    running.signal("HUP");
    running.wait_for_log(
        "SIGHUP: reading the config file again; the API server is watched, and needs no reload",
    );
    running.wait_for_log("in force now: `logging.verbosity`");
    assert!(node.is_served("10.96.0.80:80"));
    assert_eq!(running.terminate(), Some(0));
}

#[test]
fn root_portway_run_takes_the_same_document_and_its_options_go_before_it() {
    let Some(node) = Node::new() else { return };
    let document = node.document.replace("masqueradeAll: false", "masqueradeAll: true");
    node.mount("..1", &document);
    let first = node.place.start_plain("--config mounted/config.conf --nodeport-addresses localhost");
    first.wait_for("portway is in sync");
    let flags = node.place.get("127.0.0.1:10249", "/flagz").unwrap_or_default();
    for line in ["masquerade-all=true", "bind-address-hard-fail=false", "iptables-localhost-nodeports=false"]
    {
        assert!(flags.contains(&format!("\n{line}\n")), "no {line} in {flags}");
    }
    assert!(node.place.nft("list table ip kube-proxy").contains("10.96.0.80"), "nftables is its own default");
    assert!(node.is_served("127.0.0.1:30080") && !node.is_served("192.0.2.1:30080"));
    node.mount("..2", &document.replace("nodePortAddresses: null", "nodePortAddresses: [primary]"));
    first.wait_for_log("without effect: `nodePortAddresses` (--nodeport-addresses goes before it)");
    assert!(
        node.is_served("127.0.0.1:30080") && !node.is_served("192.0.2.1:30080"),
        "the option goes before"
    );
}

#[test]
fn root_the_privileged_part_makes_settings_and_writes_no_rule() {
    let Some(node) = Node::new() else { return };
    let setting = "/proc/sys/net/netfilter/nf_conntrack_tcp_timeout_close_wait";
    if node.place.try_tool("cat", setting).is_none() {
        return skipped("this kernel has no connection tracker loaded").unwrap_or_default();
    }
    // The size is one of the whole machine: 0 leaves it alone.
    let arguments = "--init-only --conntrack-max-per-core=0 --conntrack-tcp-timeout-close-wait=59m";
    let forwarding = || node.place.tool("cat", "/proc/sys/net/ipv4/ip_forward").trim().to_owned();
    node.place.inside(|| std::fs::write("/proc/sys/net/ipv4/ip_forward", "0")).unwrap();
    let said = node.place.finish_kube_proxy(arguments).ends_with(0);
    said.says(&["nf_conntrack_tcp_timeout_close_wait", "All settings"]);
    assert_eq!(forwarding(), "0", "nobody asked for it");
    let said = node.place.finish_kube_proxy(&format!("{arguments} --set-ip-forward")).ends_with(0);
    said.says(&["net/ipv4/ip_forward = 1 (it was 0)"]);
    assert_eq!(forwarding(), "1");
    assert_eq!(node.place.tool("cat", setting).trim(), "3540");
    assert_eq!(node.place.nft("list ruleset"), "");
}

#[test]
fn root_cleanup_removes_the_rules_of_every_mode() {
    let Some(node) = Node::new() else { return };
    node.mount("..1", &node.document);
    let mut running = node.start();
    assert_eq!(running.terminate(), Some(0));
    assert!(node.place.tool("iptables-save", "-t nat").contains("KUBE-SVC-"), "the rules stay");
    let said = node.place.finish_kube_proxy("--cleanup").ends_with(0);
    said.says(&["chains of the iptables mode (upstream's or ours)"]);
    assert_eq!(said.err, "", "what there is to tell of the chosen mode is beside the point");
    assert!(!node.place.tool("iptables-save", "-t nat").contains("KUBE-SVC-"));
}

#[test]
fn root_cleanup_removes_upstreams_table_too() {
    let Some(node) = Node::new() else { return };
    node.place.nft("add table ip kube-proxy { comment \"rules for kube-proxy\"; }");
    node.place.nft("add table ip6 kube-proxy { comment \"portway layout 1\"; }");
    node.place.nft("add chain ip6 kube-proxy services");
    node.place.nft("add table ip others");
    let said = node.place.finish_kube_proxy("--cleanup").ends_with(0);
    said.says(&[
        "Removed table ip kube-proxy of upstream's nftables mode.",
        "Removed table ip6 kube-proxy of upstream's nftables mode.",
    ]);
    assert_eq!(node.place.nft("list tables").trim(), "table ip others");
    let again = node.place.finish_kube_proxy("--cleanup").ends_with(0);
    again.says(&["No table `kube-proxy` is in this kernel."]);
}
