//! What on a host stops packets of Services outside of our rules: real packets are lost, and the checks say why.

use std::process::Command;
use std::time::Duration;

use observe::doctor::FindingStatus;
use playground::{Family, patient};

use super::ALL;
use crate::manifest::Service;
use crate::stage::{Setting, Stage, until};
use crate::talk::PATIENCE;

/// A packet that is lost is waited for so long.
const LOST: Duration = Duration::from_millis(500);

/// Docker's rules on a host with one published container, as `iptables-save` prints them for Docker 27; the policy of FORWARD is
/// DROP where Docker itself turned forwarding on, and ACCEPT where it was on before.
const DOCKER: &str = "\
*filter
:INPUT ACCEPT [0:0]
:FORWARD POLICY [0:0]
:OUTPUT ACCEPT [0:0]
:DOCKER - [0:0]
:DOCKER-ISOLATION-STAGE-1 - [0:0]
:DOCKER-ISOLATION-STAGE-2 - [0:0]
:DOCKER-USER - [0:0]
-A FORWARD -j DOCKER-USER
-A FORWARD -j DOCKER-ISOLATION-STAGE-1
-A FORWARD -o docker0 -m conntrack --ctstate RELATED,ESTABLISHED -j ACCEPT
-A FORWARD -o docker0 -j DOCKER
-A FORWARD -i docker0 ! -o docker0 -j ACCEPT
-A FORWARD -i docker0 -o docker0 -j ACCEPT
-A DOCKER -d 172.17.0.2/32 ! -i docker0 -o docker0 -p tcp -m tcp --dport 80 -j ACCEPT
-A DOCKER-ISOLATION-STAGE-1 -i docker0 ! -o docker0 -j DOCKER-ISOLATION-STAGE-2
-A DOCKER-ISOLATION-STAGE-1 -j RETURN
-A DOCKER-ISOLATION-STAGE-2 -o docker0 -j DROP
-A DOCKER-ISOLATION-STAGE-2 -j RETURN
-A DOCKER-USER -j RETURN
COMMIT
";

/// `ip_forward=0`: clients time out, and `status`, `check`, `explain`, `doctor` and the log say why.
pub(crate) fn root_a_host_that_does_not_forward_is_named_wherever_one_asks(setting: &Setting) {
    let web = Service::new("web", 1).on(&ALL);
    let Some(mut stage) = setting.stage_without_portways(&[&web]) else { return };
    stage.place("a").set(&[("ipv4/ip_forward", "0"), ("ipv6/conf/all/forwarding", "0")]).unwrap();
    stage.start("a");
    stage.wait_for_sync("a");
    for family in Family::ALL {
        assert!(!is_answered(&stage, &web, family, LOST), "{family:?} is forwarded");
    }
    until("the running portway has found it in both families", || errors(&stage).len() >= 2);
    assert!(errors(&stage).iter().all(|found| found.check == "ip-forward"), "{:?}", errors(&stage));
    until("the log names it", || stage.said("a").contains("net.ipv4.ip_forward is 0"));
    let client = stage.place("client-a").address(Family::V4);
    let packet = [client.to_string(), web.cluster_ip(Family::V4).to_string()];
    let explained = stage.explain("a", &packet);
    assert!(explained.contains("this host loses it, by the check `ip-forward`"), "{explained}");
    for verb in ["status", "check", "doctor"] {
        let said = stage.ask_portway("a", verb);
        assert!(
            said.contains("ip-forward") && said.contains("net.ipv6.conf.all.forwarding"),
            "{verb}: {said}"
        );
    }
    stage.place("a").set(&[("ipv4/ip_forward", "1"), ("ipv6/conf/all/forwarding", "1")]).unwrap();
    for family in Family::ALL {
        assert!(is_answered(&stage, &web, family, PATIENCE), "{family:?} is not forwarded");
    }
    let said = stage.ask_portway("a", "doctor");
    assert!(said.contains("Nothing on this host stops traffic of Services"), "{said}");
}

/// Somebody starts on a plain machine, where nothing turns forwarding on.
pub(crate) fn root_set_ip_forward_has_a_plain_host_forward(setting: &Setting) {
    let web = Service::new("web", 1).on(&ALL);
    let Some(mut stage) = setting.with(&["--set-ip-forward"]).stage_without_portways(&[&web]) else { return };
    stage.place("a").set(&[("ipv4/ip_forward", "0"), ("ipv6/conf/all/forwarding", "0")]).unwrap();
    stage.start("a");
    stage.wait_for_sync("a");
    for family in Family::ALL {
        assert!(is_answered(&stage, &web, family, PATIENCE), "{family:?} is not forwarded");
    }
    let said = stage.said("a");
    assert!(said.contains("set net/ipv4/ip_forward = 1 (it was 0)"), "{said}");
    assert!(said.contains("set net/ipv6/conf/all/forwarding = 1 (it was 0)"), "{said}");
}

/// A firewall whose forward chain drops: the chain is named, and the command that `doctor` prints lets packets pass.
pub(crate) fn root_a_firewall_that_drops_is_named_and_the_printed_command_helps(setting: &Setting) {
    let web = Service::new("web", 1).on(&ALL);
    let Some(stage) = setting.stage(&[&web]) else { return };
    let chain = "add chain inet firewall forward { type filter hook forward priority 0; policy drop; }";
    stage.shell("a", &format!("nft 'add table inet firewall; {chain}'"));
    for family in Family::ALL {
        assert!(!is_answered(&stage, &web, family, LOST), "{family:?} passes");
    }
    let said = stage.ask_portway("a", "doctor");
    assert!(said.contains("error: forward-filter"), "{said}");
    assert!(said.contains("table inet firewall, chain forward"), "{said}");
    let fix =
        said.lines().find_map(|line| line.trim().strip_prefix("fix:")).map(str::trim).unwrap_or_default();
    stage.shell("a", fix);
    for family in Family::ALL {
        assert!(is_answered(&stage, &web, family, PATIENCE), "{family:?} is dropped after `{fix}`");
    }
    let said = stage.ask_portway("a", "doctor");
    assert!(!said.contains("error: "), "{said}");
}

/// Docker's usual rules: no error while packets pass, and one that is true when Docker's policy drops them.
pub(crate) fn root_dockers_rules_give_no_false_error(setting: &Setting) {
    let web = Service::new("web", 1).on(&ALL);
    let Some(stage) = setting.stage(&[&web]) else { return };
    for (policy, passes) in [("ACCEPT", true), ("DROP", false)] {
        load_dockers_rules(&stage, policy);
        let limit = if passes { PATIENCE } else { LOST };
        for family in Family::ALL {
            assert_eq!(is_answered(&stage, &web, family, limit), passes, "policy {policy}, {family:?}");
        }
        let said = stage.ask_portway("a", "doctor");
        assert_eq!(said.contains("error: "), !passes, "policy {policy}: {said}");
        for program in ["iptables -t filter -I FORWARD", "ip6tables -t filter -I FORWARD"] {
            assert_eq!(said.contains(program), !passes, "policy {policy}: {said}");
        }
    }
}

/// Of both families, as Docker 27 writes them by default.
fn load_dockers_rules(stage: &Stage, policy: &str) {
    let rules = DOCKER.replace("POLICY", policy);
    let of_ipv6 = rules.replace("172.17.0.2/32", "fd00:172:17::2/128");
    for (program, rules) in [("iptables", &rules), ("ip6tables", &of_ipv6)] {
        let name = format!("portway-docker-{}-{:?}", std::process::id(), std::thread::current().id());
        let file = std::env::temp_dir().join(name);
        std::fs::write(&file, rules).unwrap();
        let said = stage.shell("a", &format!("{program}-nft-restore --noflush '{}'", file.display()));
        std::fs::remove_file(&file).unwrap();
        assert_eq!(said, "", "{program} refused the rules");
    }
}

/// Two pods of one bridge, and bridged packets that pass no rule: the answer is not translated back.
pub(crate) fn root_pods_on_one_bridge_without_bridge_netfilter_are_named(setting: &Setting) {
    let web = Service::new("web", 1).on(&ALL[..2]);
    let Some(stage) = setting.bridged().stage(&[&web]) else { return };
    let settings = [("bridge/bridge-nf-call-iptables", "0"), ("bridge/bridge-nf-call-ip6tables", "0")];
    // Without the module there are no such settings, which is the same to packets.
    let _ = stage.place("a").set(&settings);
    for family in Family::ALL {
        assert!(!is_answered(&stage, &web, family, LOST), "{family:?} is translated back");
    }
    let said = stage.ask_portway("a", "doctor");
    assert!(said.contains("error: bridge-netfilter") && said.contains("bridge-nf-call-ip6tables"), "{said}");
    if stage.place("a").set(&settings.map(|(name, _)| (name, "1"))).is_ok() {
        for family in Family::ALL {
            assert!(is_answered(&stage, &web, family, PATIENCE), "{family:?}");
        }
        let said = stage.ask_portway("a", "doctor");
        assert!(!said.contains("bridge-netfilter\n"), "{said}");
    }
}

/// A pod on a bridge that does not send a packet back to where it came from.
pub(crate) fn root_a_pod_that_cannot_reach_itself_over_its_bridge_is_named(setting: &Setting) {
    let web = Service::new("web", 1).on(&["web-a-0"]);
    let Some(stage) = setting.bridged().stage(&[&web]) else { return };
    let settings = [("bridge/bridge-nf-call-iptables", "1"), ("bridge/bridge-nf-call-ip6tables", "1")];
    if let Err(error) = stage.place("a").set(&settings) {
        // Without the module bridged packets pass no rule, and the host sends them back.
        return skip(&format!("this kernel has no br_netfilter ({error})"));
    }
    let set_hairpin = |how: &str| {
        let ports = stage.shell("a", &format!("ip -o link show master {}", playground::node::BRIDGE));
        for port in ports.lines().filter_map(|line| line.split([':', '@']).nth(1)) {
            stage.shell("a", &format!("ip link set {} type bridge_slave hairpin {how}", port.trim()));
        }
    };
    let reaches_itself = |family, limit| {
        let from = stage.place("web-a-0");
        stage.talk.ask(from, model::Protocol::Tcp, web.cluster_ip(family), patient(limit)).is_answered()
    };
    set_hairpin("off");
    for family in Family::ALL {
        assert!(!reaches_itself(family, LOST), "{family:?} is sent back");
    }
    let said = stage.ask_portway("a", "doctor");
    assert!(said.contains("error: bridge-hairpin"), "{said}");
    set_hairpin("on");
    for family in Family::ALL {
        assert!(reaches_itself(family, PATIENCE), "{family:?}");
    }
    let said = stage.ask_portway("a", "doctor");
    assert!(!said.contains("error: "), "{said}");
}

#[expect(clippy::print_stderr, reason = "the summary counts tests that print this as skipped")]
fn skip(why: &str) {
    eprintln!("skipped: {why}");
}

/// A client whose packets come in by one link while the route back leads by another.
pub(crate) fn root_a_client_that_the_reverse_path_filter_drops_is_told_why(setting: &Setting) {
    let web = Service::new("web", 1).on(&ALL);
    let Some(stage) = setting.stage(&[&web]) else { return };
    let client = stage.place("outside").address(Family::V4);
    let to = stage.place("a").at(Family::V4, web.held_node_port());
    let ask = |limit| stage.talk.ask(stage.place("outside"), model::Protocol::Tcp, to, patient(limit));
    // The neighbour is known from now on. The filter drops questions for an address too, and does not count those.
    let outcome = ask(PATIENCE);
    assert!(outcome.is_answered(), "{outcome}");
    let back = stage.interface_of("client-a");
    stage.place("a").set(&[("ipv4/conf/all/rp_filter", "0"), ("ipv4/conf/eth0/rp_filter", "1")]).unwrap();
    stage.place("a").ip([format!("route add {client}/32 dev {back}")]).unwrap();
    let before = dropped_by_filter(&stage);
    let outcome = ask(LOST);
    assert!(!outcome.is_answered(), "{outcome}");
    let packet = [client.to_string(), to.to_string(), "--interface".to_owned(), "eth0".to_owned()];
    let explained = stage.explain("a", &packet);
    assert!(explained.contains("this host loses it, by the check `rp-filter`"), "{explained}");
    assert!(explained.contains(&format!("the route back leads by {back}")), "{explained}");
    assert!(dropped_by_filter(&stage) > before, "something else lost the packet");
}

/// Packets that the reverse path filter of node a has dropped.
fn dropped_by_filter(stage: &Stage) -> u64 {
    let text = stage.shell("a", "cat /proc/thread-self/net/netstat");
    let rows: Vec<Vec<&str>> = text.lines().map(|line| line.split_whitespace().collect()).collect();
    let (names, values) = (&rows[0], &rows[1]);
    let column = names.iter().position(|name| *name == "IPReversePathFilter").unwrap();
    values[column].parse().unwrap()
}

fn is_answered(stage: &Stage, web: &Service, family: Family, limit: Duration) -> bool {
    let from = stage.place("client-a");
    stage.talk.ask(from, model::Protocol::Tcp, web.cluster_ip(family), patient(limit)).is_answered()
}

fn errors(stage: &Stage) -> Vec<FindingStatus> {
    stage.status("a").findings.into_iter().filter(FindingStatus::is_error).collect()
}

impl Stage {
    /// What a command of portway says on a node, asking the running one.
    fn ask_portway(&self, node: &str, verb: &str) -> String {
        self.output(node, self.command(node, verb))
    }

    /// What a line of shell says on a node.
    pub(super) fn shell(&self, node: &str, line: &str) -> String {
        let mut command = Command::new("sh");
        command.args(["-c", line]);
        self.output(node, command)
    }
}
