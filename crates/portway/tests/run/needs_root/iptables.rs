//! The iptables mode as people run it, with each of the two programs: written, followed, repaired, handed over, cleaned up.
//! `iptables/refusals.rs` has what it says where it cannot, `iptables/localnet.rs` what comes with `route_localnet`.

mod cleanup;
mod localnet;
mod refusals;

use std::time::{Duration, Instant};

use playground::patient;

use super::WEB;
use crate::common::{Outcome, Place, Running, has_program, skipped};

/// Both programs.
const VARIANTS: [&str; 2] = ["nft", "legacy"];
/// The machine may be slow.
const LONG: Duration = Duration::from_secs(60);
/// A flush is looked for every 5 s; then all is written anew.
const SOON: Duration = Duration::from_secs(8);

/// What others have in the built-in chains, in this order.
const THEIRS: [&str; 6] = [
    "-A INPUT -m comment --comment first -j ACCEPT",
    "-A FORWARD -s 192.0.2.0/24 -j RETURN",
    "-A FORWARD -s 198.51.100.0/24 -j ACCEPT",
    "-t nat -A POSTROUTING -s 192.0.2.0/24 -j RETURN",
    "-t nat -A POSTROUTING -s 198.51.100.0/24 -j ACCEPT",
    "-t nat -A PREROUTING -s 192.0.2.7/32 -j ACCEPT",
];

/// A place with one manifest, and one of the programs.
struct Node {
    place: Place,
    variant: &'static str,
}

impl Node {
    /// One for each program that is there; the others are told.
    fn all() -> Vec<Self> {
        let node = |variant| {
            if !has_program(&format!("iptables-{variant}")) || !has_program("nft") {
                return skipped(&format!("the program `iptables-{variant}` or `nft` is not installed"));
            }
            let place = Place::new()?;
            place.write("web.yaml", WEB);
            Some(Self { place, variant })
        };
        VARIANTS.into_iter().filter_map(node).collect()
    }

    /// The same, with rules of others.
    fn all_with_others() -> Vec<Self> {
        let nodes = Self::all();
        for node in &nodes {
            for rule in THEIRS {
                drop(node.iptables(rule));
            }
        }
        nodes
    }

    fn start(&self, arguments: &str) -> Running {
        self.place.start_with(&format!("{} {arguments}", self.mode()))
    }

    fn mode(&self) -> String {
        format!("--mode iptables --iptables-program {}", self.variant)
    }

    fn iptables(&self, arguments: &str) -> String {
        self.place.tool(&format!("iptables-{}", self.variant), arguments)
    }

    /// All tables of both families, without what changes by itself.
    fn saved(&self) -> String {
        let save = |program| self.place.tool(&format!("{program}-{}-save", self.variant), "");
        let text = ["iptables", "ip6tables"].map(save).concat();
        let lines = text.lines().filter(|line| !line.starts_with('#'));
        let without_counter = |line: &str| line.split_once(" [").map_or(line, |(head, _)| head).to_owned();
        let line = |line: &str| if line.starts_with(':') { without_counter(line) } else { line.to_owned() };
        lines.map(|text| line(text) + "\n").collect()
    }

    /// The same, in an order that does not depend on which chain was made first.
    fn sorted(&self) -> Vec<String> {
        let mut lines: Vec<String> = self.saved().lines().map(str::to_owned).collect();
        lines.sort();
        lines
    }

    fn has(&self, words: &str) -> bool {
        self.saved().contains(words)
    }

    fn until(&self, what: &str, is_so: impl Fn() -> bool) {
        self.until_within(LONG, what, is_so);
    }

    fn until_within(&self, limit: Duration, what: &str, is_so: impl Fn() -> bool) {
        let begun = Instant::now();
        while !is_so() {
            assert!(begun.elapsed() < limit, "{}: it is not so that {what}:\n{}", self.variant, self.saved());
            std::thread::sleep(Duration::from_millis(30));
        }
    }

    /// Rules of others are all there, in their order, whatever of ours is between them.
    #[track_caller]
    fn assert_others_stay(&self) {
        let text = self.place.tool(&format!("iptables-{}-save", self.variant), "");
        for chain in ["INPUT", "FORWARD", "POSTROUTING", "PREROUTING"] {
            let mark = format!("-A {chain} ");
            let is_ours = |line: &&str| line.contains("KUBE-");
            let found: Vec<&str> =
                text.lines().filter(|line| line.starts_with(&mark)).filter(|line| !is_ours(line)).collect();
            let theirs: Vec<&str> =
                THEIRS.iter().filter_map(|rule| rule.find(&mark).map(|at| &rule[at..])).collect();
            assert_eq!(found, theirs, "{}: {text}", self.variant);
        }
    }

    /// It ends with 1 while a sync fails.
    fn status(&self) -> serde_json::Value {
        self.place.portway("status -o json").json()
    }
}

#[test]
fn root_iptables_drops_no_invalid_packet_where_the_tracker_is_liberal() {
    for node in Node::all() {
        let invalid = "--ctstate INVALID -j DROP";
        let mut running = node.start("");
        running.wait_for("portway is in sync");
        assert!(node.has(invalid), "{}", node.saved());
        assert_eq!(running.terminate(), Some(0));
        let mut running = node.start("--conntrack-tcp-be-liberal");
        running.wait_for("portway is in sync");
        assert!(!node.has(invalid), "{}", node.saved());
        assert_eq!(running.terminate(), Some(0));
        // The setting stays, and is read by whoever starts next. One that changes later is told as what it is, and not as another program.
        let running = node.start("--sync-period 1s");
        running.wait_for("portway is in sync");
        assert!(!node.has(invalid), "{}", node.saved());
        node.place.tool("sysctl", "-w net.netfilter.nf_conntrack_tcp_be_liberal=0");
        running.wait_for_log("nf_conntrack_tcp_be_liberal is 0: packets that are invalid are dropped");
        node.until("invalid packets are dropped again", || node.has(invalid));
        let (_, log) = running.said();
        assert!(!log.iter().any(|line| line.contains("somebody else")), "{log:?}");
    }
}

#[test]
fn root_iptables_writes_the_rules_and_follows_the_files() {
    for node in Node::all_with_others() {
        let running = node.start("");
        let line = running.wait_for("portway is in sync");
        assert!(line.contains("1 service ports"), "{line}");
        assert_eq!(node.status()["program"], format!("iptables-{}", node.variant));
        for words in ["-d 10.96.0.80/32", "--to-destination 10.244.0.2:8080", ":KUBE-PROXY-CANARY"] {
            assert!(node.has(words), "{}", node.saved());
        }
        node.place.write("web.yaml", &WEB.replace("10.244.0.2", "10.244.0.77"));
        node.until("the new endpoint is there and the old one is gone", || {
            node.has("10.244.0.77:8080") && !node.has("10.244.0.2:8080")
        });
        node.place.write("more.yaml", &WEB.replace("web", "more").replace("10.96.0.80", "10.96.0.81"));
        node.until("the new Service is there", || node.has("10.96.0.81"));
        node.place.remove("more.yaml");
        node.until("it is gone again", || !node.has("10.96.0.81") && !node.has("default/more"));
        node.assert_others_stay();
        assert_eq!(node.status()["mode"], "iptables");
        // Nobody asked for it, so neighbours do not reach loopback addresses of this host.
        let read = || std::fs::read_to_string("/proc/sys/net/ipv4/conf/all/route_localnet");
        assert_eq!(node.place.inside(read).unwrap().trim(), "0");
    }
}

#[test]
fn root_iptables_a_restart_or_a_crash_writes_nothing_anew() {
    for node in Node::all_with_others() {
        let mut running = node.start("");
        running.wait_for("portway is in sync");
        let saved = node.saved();
        assert_eq!(running.terminate(), Some(0));
        for _ in 0..2 {
            assert_eq!(node.saved(), saved, "the end leaves the rules");
            let generation = node.place.generation();
            let mut again = node.start("");
            again.wait_for("portway is in sync: 1 service ports, 0 operations");
            assert_eq!((node.saved(), node.place.generation()), (saved.clone(), generation));
            again.kill();
        }
        let clean = node.place.portway_from(&format!("diff {}", node.mode())).fine();
        assert!(clean.starts_with("No difference"), "{clean}");
        node.assert_others_stay();
    }
}

/// Flushes, in the words of people, and what they leave of the others' rules.
const FLUSHES: [&[&str]; 5] = [
    &["-t nat -F", "-t nat -X"],
    &["-t nat -F"],
    &["-F KUBE-SERVICES", "-F FORWARD", "-F OUTPUT", "-F INPUT", "-F", "-X"],
    &["-t mangle -F", "-t mangle -X"],
    &["-t nat -F", "-F", "-t mangle -F", "-t nat -X", "-X", "-t mangle -X"],
];

#[test]
fn root_iptables_a_flush_of_any_table_is_noticed_without_a_comparison() {
    for node in Node::all() {
        let running = node.start("--sync-period 1h");
        running.wait_for("portway is in sync");
        let saved = node.sorted();
        for (n, flush) in FLUSHES.iter().enumerate() {
            flush.iter().for_each(|step| drop(node.iptables(step)));
            assert_ne!(node.sorted(), saved, "{flush:?}");
            node.until_within(patient(SOON), &format!("{flush:?} is repaired"), || node.sorted() == saved);
            node.until("it is counted", || node.status()["drift"]["repairs"].as_u64() == Some(n as u64 + 1));
        }
        node.place.portway("status").ends_with(0).says(&["Mode:", "iptables", "Drift:", "repairs"]);
    }
}

/// What somebody may do to one rule or one chain; `{}` is the Service's chain.
const DAMAGES: [(&str, &str); 6] = [
    ("a jump is missing", "-t nat -D PREROUTING 1"),
    ("a service's rules are missing", "-t nat -F {}"),
    ("a service's rule is missing", "-t nat -D {} 2"),
    ("the service's rule is missing", "-t nat -D KUBE-SERVICES 1"),
    ("a rule too many", "-t nat -I {} -j RETURN"),
    ("a chain of old", "-t nat -N KUBE-SVC-AAAAAAAAAAAAAAAA"),
];

#[test]
fn root_iptables_single_rules_and_chains_are_repaired_by_the_comparison() {
    for node in Node::all_with_others() {
        let running = node.start("--sync-period 1s");
        running.wait_for("portway is in sync");
        let saved = node.sorted();
        let jump = saved.iter().find(|line| line.starts_with("-A KUBE-SERVICES -d 10.96.0.80/32")).unwrap();
        let chain = jump.rsplit(' ').next().unwrap();
        for (what, damage) in DAMAGES {
            let repairs = || node.status()["drift"]["repairs"].as_u64().unwrap();
            let before = repairs();
            node.iptables(&damage.replace("{}", chain));
            // A comparison may come at once: that there was something to put right is what it counts.
            node.until(&format!("{what} and put right"), || repairs() > before && node.sorted() == saved);
            node.assert_others_stay();
        }
    }
}

#[test]
fn root_iptables_a_foreign_rule_that_leads_to_a_deleted_service_stops_no_sync() {
    let more = WEB.replace("web", "more").replace("10.96.0.80", "10.96.0.81");
    for node in Node::all() {
        node.place.write("more.yaml", &more);
        let running = node.start("--sync-period 1s");
        running.wait_for("portway is in sync: 2 service ports");
        let saved = node.saved();
        let jump = saved.lines().find(|line| line.starts_with("-A KUBE-SERVICES -d 10.96.0.81/32")).unwrap();
        let chain = jump.rsplit(' ').next().unwrap();
        node.iptables("-t nat -N FOREIGN");
        node.iptables(&format!("-t nat -A FOREIGN -p tcp --dport 1 -j {chain}"));
        node.place.remove("more.yaml");
        node.until("the Service is gone", || !node.has("10.96.0.81") && !node.has("default/more"));
        node.place.write("web.yaml", &WEB.replace("10.244.0.2", "10.244.0.77"));
        node.until("another one's change is written", || node.has("10.244.0.77:8080"));
        node.until("all is well", || node.status()["isInSync"] == true);
        node.place.portway("status").ends_with(0).says(&["Stays:", chain, "delete those rules"]);
        let full = || node.status()["fullSyncs"].as_u64().unwrap();
        let begun = full();
        node.until("it was compared again", || full() >= begun + 2);
        assert_eq!(running.logged("is empty now but stays"), 1, "it is told once");
        node.iptables("-t nat -F FOREIGN");
        node.until("the chain goes when it can", || !node.has(chain));
    }
}

#[test]
fn root_iptables_diff_tells_what_is_missing_and_writes_nothing() {
    for node in Node::all() {
        let diff = |code| node.place.portway_from(&format!("diff {}", node.mode())).ends_with(code);
        diff(1).says(&["-A KUBE-SVC-", "10.96.0.80", "*nat"]);
        let mut running = node.start("");
        running.wait_for("portway is in sync");
        running.terminate();
        diff(0).says(&["No difference"]);
        node.iptables("-t nat -D KUBE-SERVICES 1");
        let saved = node.saved();
        diff(1).says(&["KUBE-SERVICES", "10.96.0.80"]);
        assert_eq!(node.saved(), saved);
    }
}

#[test]
fn root_iptables_commands_that_ask_the_running_portway_take_its_mode() {
    for node in Node::all() {
        node.place.write("web.yaml", &WEB.replace("ports: [{ port: 80 }]", NODE_PORT));
        for (option, loopback) in [("", "Untouched"), ("--iptables-localhost-nodeports", "OneOf")] {
            let mut running = node.start(option);
            running.wait_for("portway is in sync: 1 service ports");
            let clean = node.place.portway("diff").fine();
            assert!(clean.starts_with("No difference"), "{clean}");
            let text = node.place.portway("render").fine();
            assert!(text.contains(":KUBE-SERVICES"), "{text}");
            assert_eq!(text.contains("KUBE-FIREWALL"), !option.is_empty());
            // The last one is served by rules only.
            let ask = |what: &str| node.place.portway(&format!("explain {what} -o json")).json();
            assert_eq!(ask("10.244.0.9 10.96.0.80:81")["mode"], "iptables");
            assert_eq!(ask("127.0.0.2 127.0.0.2:30080")["fate"], loopback);
            // Who says which is obeyed.
            assert_eq!(ask("10.244.0.9 10.96.0.80:81 --mode nftables")["mode"], "nftables");
            running.terminate();
            let of_files = node.place.portway_from(&format!("diff {} {option}", node.mode())).fine();
            assert!(of_files.starts_with("No difference"), "{of_files}");
        }
    }
}

const NODE_PORT: &str = "type: NodePort\n  ports: [{ port: 80, nodePort: 30080 }]";

/// What kubelet has.
const OF_KUBELET: [&str; 4] = [
    "-N KUBE-FIREWALL",
    "-A INPUT -j KUBE-FIREWALL",
    "-t mangle -N KUBE-IPTABLES-HINT",
    "-t mangle -N KUBE-KUBELET-CANARY",
];

#[test]
fn root_iptables_cleanup_leaves_what_is_kubelets_and_others() {
    for node in Node::all_with_others() {
        for step in OF_KUBELET {
            drop(node.iptables(step));
        }
        node.iptables("-t nat -N KUBE-SVC-AAAAAAAAAAAAAAAA");
        let mut running = node.start("");
        running.wait_for("portway is in sync");
        assert!(!node.has("KUBE-SVC-AAAAAAAAAAAAAAAA"), "a stale chain goes");
        assert!(node.has("KUBE-SVC-") && node.has(":KUBE-FIREWALL"));
        node.place.portway("cleanup --mode iptables").refused(1, &["a portway runs", &running.pid()]);
        running.terminate();
        let said = node.place.portway("cleanup --mode iptables").fine();
        assert!(said.contains(&format!("iptables-{}, IPv4", node.variant)), "{said}");
        let saved = node.saved();
        let chains = saved.lines().filter_map(|line| line.strip_prefix(":KUBE-")?.split(' ').next());
        assert_eq!(chains.collect::<Vec<_>>(), ["IPTABLES-HINT", "KUBELET-CANARY", "FIREWALL"], "{saved}");
        let rules: Vec<&str> =
            saved.lines().filter(|line| line.starts_with('-') && line.contains("KUBE")).collect();
        assert_eq!(rules, ["-A INPUT -j KUBE-FIREWALL"]);
        node.iptables("-D INPUT -j KUBE-FIREWALL");
        node.assert_others_stay();
        let nothing = node.place.portway("cleanup --mode iptables").fine();
        assert!(nothing.starts_with("No chain of the iptables or userspace mode"), "{nothing}");
    }
}

#[test]
fn root_iptables_a_file_that_is_broken_at_the_start_takes_no_service_away() {
    let api = WEB.replace("web", "api").replace("10.96.0.80", "10.96.0.90").replace("10.244.0.", "10.244.9.");
    for node in Node::all() {
        node.place.write("api.yaml", &api);
        let mut running = node.start("");
        running.wait_for("portway is in sync: 2 service ports");
        running.terminate();
        node.place.write("api.yaml", "kind: [");
        let again = node.start("");
        again.wait_for("portway is in sync: 1 service ports, 0 operations");
        assert!(node.has("10.96.0.90") && node.has("10.244.9.1:8080"), "{}", node.saved());
        node.place.write("web.yaml", &WEB.replace("10.244.0.2", "10.244.0.77"));
        node.until("what changes is followed", || node.has("10.244.0.77:8080"));
        assert!(node.has("10.96.0.90"));
        node.place.write("api.yaml", &api.replace("10.96.0.90", "10.96.0.91"));
        node.until("the leftover is gone", || node.has("10.96.0.91") && !node.has("10.96.0.90"));
    }
}

#[test]
fn root_iptables_taking_over_changes_no_rule() {
    for node in Node::all() {
        let mut old = node.start("");
        old.wait_for("portway is in sync");
        let (saved, generation) = (node.saved(), node.place.generation());
        let new = node.start("--take-over");
        new.wait_for("portway is in sync: 1 service ports, 0 operations");
        assert_eq!((node.saved(), node.place.generation()), (saved, generation));
        old.wait_for_log("standing by");
        assert!(old.is_running());
        node.place.write("web.yaml", &WEB.replace("10.244.0.2", "10.244.0.77"));
        node.until("the new one writes", || node.has("10.244.0.77:8080"));
    }
}

#[test]
fn root_iptables_after_a_switch_of_our_own_modes_nobody_speaks_of_upstream_alone() {
    for node in Node::all() {
        let mut running = node.start("");
        running.wait_for("portway is in sync");
        running.terminate();
        let other = node.place.start();
        let line = other.wait_for_log("removed what another mode left");
        assert!(line.contains("chains of the iptables mode (upstream's or ours)"), "{line}");
        node.place.portway("status").ends_with(0).says(&["Took over:", "upstream's or ours"]);
    }
}

#[test]
fn root_iptables_options_of_another_mode_are_refused() {
    let Some(node) = Node::all().pop() else { return };
    for option in ["--iptables-localhost-nodeports", "--iptables-program nft"] {
        for command in ["run", "diff"] {
            let said = node.place.portway_from(&format!("{command} --mode nftables {option}"));
            let name = option.split(' ').next().unwrap();
            said.refused(2, &[name, "means nothing in mode `nftables`"]);
        }
    }
    let said = node.place.portway_from("render --mode nftables --iptables-localhost-nodeports");
    said.refused(2, &["means nothing in mode `nftables`"]);
}

#[test]
fn root_iptables_render_writes_nothing() {
    let Some(node) = Node::all().pop() else { return };
    node.place.portway_from("render --mode iptables").fine();
    assert!(!node.place.path("state").exists(), "addresses are kept by who uses them");
}

#[test]
fn root_iptables_rendered_text_is_accepted_by_both_programs() {
    for node in Node::all() {
        for example in ["mysql.yaml", "sticky.yaml", "nodes.yaml", "shop.yaml", "dns.yaml", "weighted.yaml"] {
            node.place.write_example(example);
        }
        node.place.write_example("load-balancer.yaml");
        for (family, program) in [("ipv4", "iptables"), ("ipv6", "ip6tables")] {
            let text = node.place.portway_from(&format!("render --mode iptables --family {family}")).fine();
            assert!(text.contains(":KUBE-SERVICES") && text.contains("COMMIT"), "{text}");
            node.place.write("../rendered.txt", &text);
            let restore = format!("{program}-{}-restore", node.variant);
            node.place.tool(&restore, "--noflush --test rendered.txt");
        }
        assert!(!node.has("KUBE"), "nothing was written");
    }
}

fn one_sentence(outcome: &Outcome) {
    assert_eq!(outcome.err.lines().count(), 1, "{outcome}");
}
