//! Who asks by HTTP while portway runs, and what it sets in the kernel.

use std::io::{Read as _, Write as _};
use std::net::{SocketAddr, TcpListener, TcpStream};
use std::time::Duration;

use serde_json::Value;

use super::{WEB, place};
use crate::common::Place;

const BOTH: &str = "--healthz-bind-address 127.0.0.1:10256 --metrics-bind-address 127.0.0.1:10249";

/// A place whose loopback addresses are there.
fn with_loopback() -> Option<Place> {
    let place = place()?;
    place.ip("link set lo up");
    Some(place)
}

impl Place {
    /// What is answered there; `None` where nobody listens.
    pub(super) fn get(&self, at: &str, path: &str) -> Option<String> {
        let at: SocketAddr = at.parse().unwrap();
        self.inside(|| {
            let mut stream = TcpStream::connect_timeout(&at, Duration::from_secs(5)).ok()?;
            stream.set_read_timeout(Some(Duration::from_secs(5))).unwrap();
            write!(stream, "GET {path} HTTP/1.1\r\nHost: a\r\nConnection: close\r\n\r\n").unwrap();
            let mut text = String::new();
            stream.read_to_string(&mut text).unwrap();
            Some(text)
        })
    }

    pub(super) fn metric(&self, line: &str) -> Option<f64> {
        let page = self.get("127.0.0.1:10249", "/metrics")?;
        let value = page.lines().find_map(|found| found.strip_prefix(line)?.strip_prefix(' '));
        value?.parse().ok()
    }

    fn listeners(&self) -> usize {
        let listening = |table: &str| {
            let text = self.tool("cat", &format!("/proc/net/{table}"));
            text.lines().filter(|line| line.split_whitespace().nth(3) == Some("0A")).count()
        };
        listening("tcp") + listening("tcp6")
    }
}

fn is(answer: Option<String>, code: u16) -> bool {
    answer.is_some_and(|answer| answer.starts_with(&format!("HTTP/1.1 {code} ")))
}

#[test]
fn root_health_and_metrics_tell_of_the_running_portway() {
    let Some(place) = with_loopback() else { return };
    let running = place.start_with(BOTH);
    running.wait_for("portway is in sync");
    place.until("it is healthy", || is(place.get("127.0.0.1:10256", "/healthz"), 200));
    assert!(is(place.get("127.0.0.1:10256", "/livez"), 200));
    let family = "{ip_family=\"IPv4\"}";
    place.until("the first sync is counted", || {
        place.metric(&format!("kubeproxy_sync_full_proxy_rules_duration_seconds_count{family}")) == Some(1.0)
    });
    assert_eq!(place.metric("kubeproxy_sync_proxy_rules_service_changes_total"), Some(1.0));
    assert_eq!(place.metric("portway_service_ports"), Some(1.0));
    place.write("web.yaml", &WEB.replace("10.244.0.2", "10.244.0.77"));
    place.until("a change is counted, written and pends no more", || {
        place.metric("kubeproxy_sync_proxy_rules_endpoint_changes_total") == Some(2.0)
            && place.metric("kubeproxy_sync_proxy_rules_endpoint_changes_pending") == Some(0.0)
            && place.metric(&format!("kubeproxy_sync_partial_proxy_rules_duration_seconds_count{family}"))
                == Some(1.0)
    });
    let body = |path: &str| {
        let answer = place.get("127.0.0.1:10249", path).unwrap();
        answer.split_once("\r\n\r\n").unwrap().1.to_owned()
    };
    let configz: Value = serde_json::from_str(&body("/configz")).unwrap();
    let config = &configz["kubeproxy.config.k8s.io"];
    assert_eq!((&config["kind"], &config["mode"]), (&"KubeProxyConfiguration".into(), &"nftables".into()));
    assert_eq!(config["healthzBindAddress"], "127.0.0.1:10256");
    assert_eq!(config["nftables"]["syncPeriod"], "30s");
    assert_eq!(
        (&config["logging"]["format"], &config["clientConnection"]["burst"]),
        (&"text".into(), &10.into())
    );
    assert!(config["featureGates"].is_object() && config["ipvs"]["scheduler"] == "", "{config}");
    for line in ["metrics-bind-address=127.0.0.1:10249", "mode=nftables", "sync-period=30s", "node-name=a"] {
        assert!(body("/flagz").contains(&format!("\n{line}\n")), "no {line} in {}", body("/flagz"));
    }
    assert!(body("/state").contains("\"nodeName\":\"a\""), "{}", body("/state"));
}

#[test]
fn root_without_options_nothing_listens_and_nothing_is_set() {
    let Some(place) = with_loopback() else { return };
    let timeout = "/proc/sys/net/netfilter/nf_conntrack_tcp_timeout_established";
    let before = place.tool("cat", timeout);
    let running = place.start();
    running.wait_for("portway is in sync");
    assert_eq!((place.listeners(), place.tool("cat", timeout)), (0, before));
    assert_eq!(
        place.tool("cat", &format!("/proc/{}/oom_score_adj", running.pid())),
        place.tool("cat", "/proc/self/oom_score_adj")
    );
}

#[test]
fn root_without_a_cluster_a_document_opens_and_sets_only_what_it_names() {
    let Some(place) = with_loopback() else { return };
    let timeout = "/proc/sys/net/netfilter/nf_conntrack_tcp_timeout_established";
    let before = place.tool("cat", timeout);
    for (named, listeners) in [("healthzBindAddress: ''\n", 0), ("healthzBindAddress: 127.0.0.1\n", 1)] {
        let head =
            "apiVersion: kubeproxy.config.k8s.io/v1alpha1\nkind: KubeProxyConfiguration\nmode: nftables\n";
        std::fs::write(place.path("config.conf"), format!("{head}{named}")).unwrap();
        let mut running = place.start_with("--config config.conf");
        running.wait_for("portway is in sync");
        assert_eq!((place.listeners(), place.tool("cat", timeout)), (listeners, before.clone()), "{named}");
        assert_eq!(
            place.tool("cat", &format!("/proc/{}/oom_score_adj", running.pid())),
            place.tool("cat", "/proc/self/oom_score_adj")
        );
        assert_eq!(running.terminate(), Some(0));
    }
}

#[test]
fn root_the_picture_is_told_on_this_host_only() {
    let Some(place) = with_loopback() else { return };
    place.ip("address add 192.0.2.1/32 dev lo");
    let running = place.start_with("--metrics-bind-address 0.0.0.0:10249");
    running.wait_for("portway is in sync");
    place.until("it is answered", || is(place.get("127.0.0.1:10249", "/state"), 200));
    assert!(is(place.get("192.0.2.1:10249", "/proxyMode"), 200));
    assert!(is(place.get("192.0.2.1:10249", "/state"), 403), "asked from another address");
}

#[test]
fn root_health_checks_of_services_come_and_go() {
    const BALANCED: &str = "\
apiVersion: v1
kind: Service
metadata: { name: lb }
spec:
  type: LoadBalancer
  clusterIP: 10.96.0.90
  externalTrafficPolicy: Local
  healthCheckNodePort: 32500
  ports: [{ port: 80, nodePort: 32501 }]
---
apiVersion: discovery.k8s.io/v1
kind: EndpointSlice
addressType: IPv4
metadata: { name: lb-1, labels: { kubernetes.io/service-name: lb } }
ports: [{ port: 8080 }]
endpoints: [{ addresses: [10.244.0.9], nodeName: a }]
";
    let Some(place) = with_loopback() else { return };
    let running = place.start_with("--nodeport-addresses all");
    running.wait_for("portway is in sync");
    let get = || place.get("127.0.0.1:32500", "/");
    assert_eq!(get(), None);
    place.write("lb.yaml", BALANCED);
    place.until("it is answered", || is(get(), 200));
    assert!(get().unwrap().contains("\r\nX-Load-Balancing-Endpoint-Weight: 1\r\n"), "{:?}", get());
    place.write("lb.yaml", &BALANCED.replace("nodeName: a", "nodeName: b"));
    place.until("the endpoint is elsewhere", || is(get(), 503));
    place.remove("lb.yaml");
    place.until("nobody listens", || get().is_none());
}

#[test]
fn root_a_port_in_use_is_told_and_taken_later_or_ends_the_start() {
    let Some(place) = with_loopback() else { return };
    let squatter = place.inside(|| TcpListener::bind("127.0.0.1:10256").unwrap());
    let refused = place.portway(&format!("run --from manifests {BOTH} --bind-address-hard-fail"));
    refused.refused(
        1,
        &["`--healthz-bind-address 127.0.0.1:10256`", "another program", "`--bind-address-hard-fail`"],
    );
    let running = place.start_with(BOTH);
    running.wait_for("portway is in sync");
    running.wait_for_log("another program has this port");
    place.until("status tells", || {
        place
            .portway("status")
            .says_anything_of("Not heard:  `--healthz-bind-address 127.0.0.1:10256`: another program")
    });
    drop(squatter);
    place.until("it is answered", || is(place.get("127.0.0.1:10256", "/healthz"), 200));
    assert_eq!(running.logged("another program has this port"), 1);
}

#[test]
fn root_who_takes_over_listens_where_the_other_did() {
    // In userspace mode the old one goes on for a while, with the connections that it carries.
    for mode in ["nftables", "userspace"] {
        let Some(place) = with_loopback() else { return };
        if mode == "userspace" && !crate::common::has_program("iptables") {
            return eprintln!("skipped: the program `iptables` is not installed");
        }
        let first = place.start_with(&format!("{BOTH} --mode {mode}"));
        first.wait_for("portway is in sync");
        let second = place.start_with(&format!("{BOTH} --mode {mode} --take-over --bind-address-hard-fail"));
        second.wait_for("portway is in sync");
        place.until("the new one answers", || {
            place.get("127.0.0.1:10249", "/flagz").is_some_and(|flags| flags.contains("\ntake-over=true\n"))
        });
        assert!(is(place.get("127.0.0.1:10256", "/healthz"), 200), "{mode}");
    }
}

#[test]
fn root_a_compare_that_finds_nothing_is_no_line_of_the_log() {
    let Some(place) = place() else { return };
    let running = place.start_with("--sync-period 1s");
    running.wait_for("portway is in sync");
    place.until("it has compared again", || {
        let status = place.portway("status -o json").json();
        status["fullSyncs"].as_u64().is_some_and(|count| count >= 3)
    });
    assert_eq!(running.logged("synced"), 1);
    let line = running.wait_for_log("synced");
    for field in ["service_ports=1", "changed=1", "operations=", "took_ms=", "full=true"] {
        assert!(line.contains(field), "{line}");
    }
}

#[test]
fn root_a_log_in_json_has_nothing_else_in_it_and_numbers_are_numbers() {
    let Some(place) = place() else { return };
    let mut running = place.start_with("--log-format json");
    running.wait_for_log("portway is in sync");
    running.terminate();
    let (out, log) = running.said();
    assert_eq!(out, [""; 0]);
    let lines: Vec<Value> = log.iter().map(|line| serde_json::from_str(line).expect(line)).collect();
    let synced = lines.iter().find(|line| line["fields"]["message"] == "synced").expect("it has synced");
    for field in ["service_ports", "changed", "operations", "took_ms"] {
        assert!(synced["fields"][field].is_u64(), "{field} in {synced}");
    }
}

#[test]
fn root_settings_are_made_that_were_asked_for() {
    let Some(place) = place() else { return };
    let options = "--oom-score-adj 500 --conntrack-tcp-timeout-established 2h --conntrack-tcp-timeout-close-wait 30m \
                   --conntrack-udp-timeout 40s --conntrack-udp-timeout-stream 200s --conntrack-tcp-be-liberal";
    let running = place.start_with(options);
    running.wait_for("portway is in sync");
    let read = |name: &str| {
        place.tool("cat", &format!("/proc/sys/net/netfilter/nf_conntrack_{name}")).trim().to_owned()
    };
    let settings = [
        "tcp_timeout_established",
        "tcp_timeout_close_wait",
        "udp_timeout",
        "udp_timeout_stream",
        "tcp_be_liberal",
    ];
    place.until("all are made", || settings.map(&read) == ["7200", "1800", "40", "200", "1"]);
    assert_eq!(place.tool("cat", &format!("/proc/{}/oom_score_adj", running.pid())).trim(), "500");
    assert_eq!(running.logged("set net/netfilter/nf_conntrack_udp_timeout = 40"), 1);
    drop(running);
    let again = place.start_with(options);
    again.wait_for("portway is in sync");
    assert_eq!(again.logged("set net/netfilter"), 0, "they are right already");
}

#[test]
fn root_rules_of_iptables_are_counted_as_they_are_in_the_kernel() {
    let Some(place) = with_loopback() else { return };
    if !crate::common::has_program("iptables-nft") {
        return eprintln!("skipped: the program `iptables-nft` is not installed");
    }
    let running =
        place.start_with("--mode iptables --iptables-program nft --metrics-bind-address 127.0.0.1:10249");
    running.wait_for("portway is in sync");
    let in_kernel = |table: &str| {
        let saved = place.tool("iptables-nft-save", &format!("-t {table}"));
        saved.lines().filter(|line| line.starts_with("-A ")).count().to_string().parse::<f64>().ok()
    };
    let counted = |table: &str, what: &str| {
        place.metric(&format!(
            "kubeproxy_sync_proxy_rules_iptables_{what}{{ip_family=\"IPv4\",table=\"{table}\"}}"
        ))
    };
    let is_counted = || ["nat", "filter"].iter().all(|table| counted(table, "total") == in_kernel(table));
    place.until("all are counted", is_counted);
    assert_eq!(counted("nat", "last"), in_kernel("nat"), "all were written by the first sync");
    let before = in_kernel("nat");
    place.write("more.yaml", &WEB.replace("web", "more").replace("10.96.0.80", "10.96.0.81"));
    let is_news = || counted("nat", "last").zip(before).map(|(new, before)| before + new) == in_kernel("nat");
    place.until("the new ones are written, and those alone", || {
        place.metric("portway_service_ports") == Some(2.0) && is_news()
    });
    place.until("and counted", is_counted);
    place.remove("more.yaml");
    place.until("they are gone, and counted no more", || {
        place.metric("portway_service_ports") == Some(1.0) && is_counted()
    });
}
