//! What goes and what stays, on tables in memory.

use kernel::nft::{
    Chain, ChainKind, Family as NftFamily, Hook, HookPoint, Kernel, Listed, Operation, OtherRule, Policy,
    Rule, Statement, Transaction,
};
use kernel::xtables::{Legacy, Saved};
use kernel_sim::nft::Simulated as SimulatedNft;
use kernel_sim::xtables::Simulated;

use super::*;
use crate::registry::known_chains;

/// One Service in upstream's shape, kubelet's chains, and rules of others before, between and behind.
const NAT: &str = r#"*nat
:KUBE-SERVICES - [0:0]
:KUBE-NODEPORTS - [0:0]
:KUBE-POSTROUTING - [0:0]
:KUBE-MARK-MASQ - [0:0]
:KUBE-PROXY-CANARY - [0:0]
:KUBE-KUBELET-CANARY - [0:0]
:KUBE-SVC-XPGD46QRK7WJZT7O - [0:0]
:KUBE-EXT-XPGD46QRK7WJZT7O - [0:0]
:KUBE-SEP-SXIVWICOYRO3J4NJ - [0:0]
:MINE - [0:0]
-A PREROUTING -p tcp -j MINE
-A PREROUTING -m comment --comment "kubernetes service portals" -j KUBE-SERVICES
-A PREROUTING -m comment --comment "kubernetes service portals, \"mine\"" -j MINE
-A OUTPUT -m comment --comment "kubernetes service portals" -j KUBE-SERVICES
-A POSTROUTING -m comment --comment "kubernetes postrouting rules" -j KUBE-POSTROUTING
-A POSTROUTING -s 172.17.0.0/16 -j MASQUERADE
-A KUBE-SERVICES -d 10.96.0.1/32 -p tcp -j KUBE-SVC-XPGD46QRK7WJZT7O
-A KUBE-SERVICES -m addrtype --dst-type LOCAL -j KUBE-NODEPORTS
-A KUBE-NODEPORTS -p tcp --dport 30001 -j KUBE-EXT-XPGD46QRK7WJZT7O
-A KUBE-EXT-XPGD46QRK7WJZT7O -j KUBE-MARK-MASQ
-A KUBE-EXT-XPGD46QRK7WJZT7O -j KUBE-SVC-XPGD46QRK7WJZT7O
-A KUBE-SVC-XPGD46QRK7WJZT7O -j KUBE-SEP-SXIVWICOYRO3J4NJ
-A KUBE-SEP-SXIVWICOYRO3J4NJ -s 10.180.0.1/32 -j KUBE-MARK-MASQ
-A KUBE-SEP-SXIVWICOYRO3J4NJ -p tcp -j DNAT --to-destination 10.180.0.1:80
-A KUBE-MARK-MASQ -j MARK --set-xmark 0x4000/0x4000
COMMIT
"#;

const FILTER: &str = r#"*filter
:KUBE-SERVICES - [0:0]
:KUBE-FORWARD - [0:0]
:KUBE-FIREWALL - [0:0]
-A INPUT -j KUBE-FIREWALL
-A FORWARD -m conntrack --ctstate NEW -m comment --comment "kubernetes service portals" -j KUBE-SERVICES
-A FORWARD -m comment --comment "kubernetes forwarding rules" -j KUBE-FORWARD
-A FORWARD -i docker0 -j ACCEPT
-A KUBE-FORWARD -m mark --mark 0x4000/0x4000 -j ACCEPT
COMMIT
"#;

const MANGLE: &str = "*mangle\n:KUBE-PROXY-CANARY - [0:0]\n:KUBE-IPTABLES-HINT - [0:0]\nCOMMIT\n";

fn door(texts: &[&str]) -> Simulated {
    let mut door = Simulated::new(Variant::Legacy, Family::V4);
    for text in texts {
        door.restore(text).unwrap();
    }
    door.restored.clear();
    door
}

fn take(door: Simulated) -> (TakeOver, Simulated) {
    let mut found = Found { programs: vec![door], legacy: vec![Family::V4.into()], ..Found::default() };
    let done = take_over(known_chains(), &mut found, &mut SimulatedNft::default(), None);
    (done, found.programs.remove(0))
}

/// All rules that are left, with the chains that have none.
fn left(door: &mut Simulated, table: Table) -> Vec<String> {
    let saved = Saved::parse(&door.save(table).unwrap().unwrap());
    let mut left = Vec::new();
    for chain in saved.chains {
        let is_own = table.own_chains().contains(&chain.name.as_str());
        left.extend((chain.rules.is_empty() && !is_own).then(|| chain.name.clone()));
        left.extend(chain.rules.iter().map(|rule| format!("{} {rule}", chain.name)));
    }
    left
}

#[test]
fn theirs_goes_and_everything_else_keeps_its_place() {
    let (done, mut door) = take(door(&[NAT, FILTER, MANGLE]));
    assert_eq!(done.problems, []);
    let words: Vec<String> = done.removed.iter().map(ToString::to_string).collect();
    let expected = "11 chains of the iptables mode (upstream's or ours) and 5 rules that led to them (iptables-legacy, IPv4)";
    assert_eq!(words, [expected]);
    assert_eq!(
        left(&mut door, Table::Nat),
        [
            "PREROUTING -p tcp -j MINE",
            "PREROUTING -m comment --comment \"kubernetes service portals, \\\"mine\\\"\" -j MINE",
            "POSTROUTING -s 172.17.0.0/16 -j MASQUERADE",
            "KUBE-KUBELET-CANARY",
            "MINE"
        ]
    );
    let expected = ["INPUT -j KUBE-FIREWALL", "FORWARD -i docker0 -j ACCEPT", "KUBE-FIREWALL"];
    assert_eq!(left(&mut door, Table::Filter), expected);
    assert_eq!(left(&mut door, Table::Mangle), ["KUBE-IPTABLES-HINT"]);
}

#[test]
fn nat_goes_first_and_each_table_at_once() {
    let (_, door) = take(door(&[NAT, FILTER, MANGLE]));
    let tables: Vec<_> = door.restored.iter().filter_map(|text| text.lines().next()).collect();
    assert_eq!(tables, ["*nat", "*filter", "*mangle"]);
}

/// Whether there is anything of theirs behind this door that could be removed.
fn has_any(door: &mut dyn Xtables) -> bool {
    TABLES.into_iter().any(|table| {
        let removal = look(known_chains(), door, table, Occasion::TakeOver(None)).unwrap();
        removal.is_some_and(|removal| !removal.texts.is_empty())
    })
}

#[test]
fn many_chains_go_in_pieces_after_one_cut() {
    let mut door = door(&[NAT]);
    let removal = removal(
        known_chains(),
        Table::Nat,
        &door.save(Table::Nat).unwrap().unwrap(),
        3,
        Occasion::TakeOver(None),
    )
    .unwrap();
    assert_eq!((removal.chains, removal.texts.len()), (8, 4));
    let cut = &removal.texts[0];
    assert!(cut.contains("-D OUTPUT") && cut.contains(":KUBE-SERVICES") && !cut.contains("-X"), "{cut}");
    removal
        .texts
        .iter()
        .for_each(|text| door.restore(text).unwrap_or_else(|error| panic!("{error}\n{text}")));
    assert!(!has_any(&mut door));
}

#[test]
fn a_second_time_finds_nothing() {
    let (_, mut door) = take(door(&[NAT, FILTER, MANGLE]));
    door.restored.clear();
    assert!(!has_any(&mut door));
    let (done, door) = take(door);
    assert_eq!((done, door.restored.len()), (TakeOver::default(), 0));
}

#[test]
fn a_chain_that_others_use_is_emptied_and_told() {
    let (done, mut door) = take(door(&[NAT, "*nat\n-A MINE -d 10.96.0.0/12 -g KUBE-SERVICES\nCOMMIT\n"]));
    assert_eq!((done.removed[0].chains, done.problems.len()), (7, 1));
    let words = done.problems[0].to_string();
    assert!(words.contains("chain KUBE-SERVICES of table nat is empty now but stays"), "{words}");
    let left = left(&mut door, Table::Nat);
    assert!(
        left.contains(&"KUBE-SERVICES".to_owned())
            && left.contains(&"MINE -d 10.96.0.0/12 -g KUBE-SERVICES".to_owned())
    );
    let (again, _) = take(door);
    assert_eq!(
        (again.removed.len(), &again.problems),
        (0, &done.problems),
        "what is done is not done again, and what stays is told"
    );
}

#[test]
fn the_mark_of_others_goes_on_to_be_set() {
    let (done, mut door) = take(door(&[NAT, "*nat\n-A MINE -j KUBE-MARK-MASQ\nCOMMIT\n"]));
    assert!(
        matches!(&done.problems[..], [Problem::Kept { kept: Kept { why: Why::UsedForItsMark, .. }, .. }]),
        "{done:?}"
    );
    assert!(
        left(&mut door, Table::Nat).contains(&"KUBE-MARK-MASQ -j MARK --set-xmark 0x4000/0x4000".to_owned())
    );
}

#[test]
fn what_lets_service_traffic_pass_stays_where_nothing_else_does() {
    for refusal in ["*filter\n:FORWARD DROP [0:0]\nCOMMIT\n", "*filter\n-A FORWARD -j REJECT\nCOMMIT\n"] {
        let (done, mut door) = take(door(&[FILTER, refusal]));
        let words = done.problems[0].to_string();
        assert!(words.contains("chain KUBE-FORWARD of table filter stays with its jump"), "{words}");
        let left = left(&mut door, Table::Filter);
        let jump = "FORWARD -m comment --comment \"kubernetes forwarding rules\" -j KUBE-FORWARD";
        assert!(left.contains(&jump.to_owned()), "{left:?}");
        assert!(left.contains(&"KUBE-FORWARD -m mark --mark 0x4000/0x4000 -j ACCEPT".to_owned()), "{left:?}");
        assert!(!left.iter().any(|line| line.contains("KUBE-SERVICES")), "{left:?}");
        // It is told again where it is all that is left: at the next start.
        let (again, _) = take(door);
        assert_eq!((again.removed.len(), &again.problems), (0, &done.problems));
    }
}

#[test]
fn a_cleanup_takes_also_what_lets_service_traffic_pass() {
    let mut door = door(&[FILTER, "*filter\n:FORWARD DROP [0:0]\nCOMMIT\n"]);
    clear_all(known_chains(), &mut door).unwrap();
    let left = left(&mut door, Table::Filter);
    assert_eq!(left, ["INPUT -j KUBE-FIREWALL", "FORWARD -i docker0 -j ACCEPT", "KUBE-FIREWALL"]);
}

#[test]
fn what_somebody_changed_meanwhile_is_looked_at_again() {
    let mut twin = door(&[NAT]);
    twin.restore_faults.push(Error::Refused { program: "it".to_owned(), line: None, stderr: String::new() });
    let (done, _) = take(twin);
    assert_eq!((done.removed[0].chains, done.problems.len()), (8, 0));
}

#[test]
fn after_a_failure_the_tables_behind_it_stay() {
    let mut twin = door(&[NAT, FILTER]);
    twin.restore_faults.push(Error::Locked { program: "it".to_owned(), stderr: String::new() });
    let (done, mut door) = take(twin);
    assert!(matches!(&done.problems[..], [Problem::Failed { table: Table::Nat, .. }]), "{done:?}");
    assert!(done.removed.is_empty() && done.problems[0].retry_helps());
    assert!(has_any(&mut door));
}

/// A jump to a chain, with the words of the userspace mode's.
fn jump(from: &str, comment: &str, to: &str) -> Operation {
    Operation::AddRule(Rule { comment: Some(comment.into()), ..Rule::new(from, [Statement::jump(to)]) })
}

/// What the userspace mode leaves in table `nat` of iptables-nft, beside a rule and a chain of others.
fn nat_of_userspace() -> SimulatedNft {
    let words = "handle ClusterIPs; NOTE: this must be before the NodePort rules";
    let mut made = Transaction::new(NftFamily::V4, "nat");
    made.replace_table(None);
    let hook =
        Hook { kind: ChainKind::Nat, point: HookPoint::Prerouting, priority: -100, policy: Policy::Accept };
    made.push(Operation::AddChain(Chain::base("PREROUTING", hook)));
    let chains = ["KUBE-PORTALS-CONTAINER", "KUBE-POLICY-XPGD46QRK7WJZT7O", "MINE"];
    made.extend(chains.map(|name| Operation::AddChain(Chain::new(name))));
    made.push(jump("PREROUTING", "mine", "MINE"));
    made.push(jump("PREROUTING", words, "KUBE-PORTALS-CONTAINER"));
    made.push(jump("KUBE-PORTALS-CONTAINER", "default/web:", "KUBE-POLICY-XPGD46QRK7WJZT7O"));
    let mut nft = SimulatedNft::default();
    nft.run(&made).unwrap();
    nft
}

/// What is left of table `nat`: chains, and rules as text.
fn left_in_nft(nft: &mut SimulatedNft) -> (Vec<String>, Vec<String>) {
    let chains = nft.other_chains(NftFamily::V4, "nat").unwrap().unwrap();
    let rules = nft.other_rules(NftFamily::V4, "nat").unwrap();
    let rules = rules.iter().map(|rule| format!("{} {}", rule.chain, rule.text));
    (chains.iter().map(|chain| chain.name.to_string()).collect(), rules.collect())
}

#[test]
fn without_a_program_chains_go_from_nf_tables_and_are_told_as_ours() {
    let mut nft = nat_of_userspace();
    let done = take_over(known_chains(), &mut Found::<Simulated>::default(), &mut nft, None);
    assert_eq!(done.problems, []);
    let words: Vec<_> = done.removed.iter().map(ToString::to_string).collect();
    assert_eq!(words, ["2 chains of our userspace mode and 1 rules that led to them (iptables-nft, IPv4)"]);
    let (chains, rules) = left_in_nft(&mut nft);
    assert_eq!(chains, ["MINE", "PREROUTING"]);
    assert_eq!(rules, ["PREROUTING -m comment --comment \"mine\" -j MINE"]);
    assert_eq!(
        take_over(known_chains(), &mut Found::<Simulated>::default(), &mut nft, None),
        TakeOver::default()
    );
}

#[test]
fn without_a_program_what_somebody_changed_meanwhile_is_looked_at_again() {
    for (refusals, are_gone) in [(1, true), (2, false)] {
        let mut nft = nat_of_userspace();
        nft.refuse_next(refusals, 16);
        let done = take_over(known_chains(), &mut Found::<Simulated>::default(), &mut nft, None);
        assert_eq!(done.problems.is_empty(), are_gone, "{done:?}");
        assert_eq!(left_in_nft(&mut nft).0.len() == 2, are_gone, "all of it or nothing");
        let words: Vec<_> = done.problems.iter().map(ToString::to_string).collect();
        assert!(
            words.iter().all(|words| words.starts_with("chains of our userspace mode stay in table nat")),
            "{words:?}"
        );
        assert!(done.problems.iter().all(Problem::retry_helps), "{words:?}");
    }
}

#[test]
fn without_a_program_a_chain_that_others_use_is_emptied_and_stays() {
    let mut nft = nat_of_userspace();
    let mut more = Transaction::new(NftFamily::V4, "nat");
    more.push(jump("MINE", "mine", "KUBE-PORTALS-CONTAINER"));
    nft.run(&more).unwrap();
    let done = take_over(known_chains(), &mut Found::<Simulated>::default(), &mut nft, None);
    let words: Vec<_> = done.problems.iter().map(ToString::to_string).collect();
    assert!(
        matches!(&words[..], [kept] if kept.contains("chain KUBE-PORTALS-CONTAINER of table nat is empty now but stays, because rules of other programs")),
        "{words:?}"
    );
    let (chains, rules) = left_in_nft(&mut nft);
    assert_eq!(chains, ["KUBE-PORTALS-CONTAINER", "MINE", "PREROUTING"]);
    assert_eq!(rules.len(), 2, "those of others: {rules:?}");
}

#[test]
fn legacy_tables_without_chains_of_theirs_are_nobodys_business() {
    let with =
        |chain: &str| Legacy { family: Family::V4, chains: Some(vec![(Table::Nat, chain.to_owned())]) };
    let problems = |legacy| {
        let mut found = Found::<Simulated> { legacy: vec![legacy], ..Found::default() };
        take_over(known_chains(), &mut found, &mut SimulatedNft::default(), None).problems
    };
    assert_eq!(problems(with("DOCKER")), []);
    for (legacy, words) in [
        (
            with("KUBE-PORTALS-HOST"),
            "chains of the userspace mode (upstream's or ours) are in legacy tables (iptables-legacy, IPv4), and there is no program",
        ),
        (with("PORTWAY-SERVICES"), "chains of our ipvs mode are in legacy tables"),
        (
            Family::V4.into(),
            "chains of kube-proxy (upstream's or ours) may be in legacy tables (iptables-legacy, IPv4), and there is no program",
        ),
    ] {
        let problems = problems(legacy);
        assert_eq!(problems.len(), 1, "{problems:?}");
        for told in [problems[0].to_string(), problems[0].after_cleanup()] {
            assert!(told.contains(words), "{told}");
        }
    }
}

#[test]
fn a_machine_without_any_of_it_is_silent() {
    let mut nft = SimulatedNft::default();
    let mut transaction = Transaction::new(NftFamily::V4, "nat");
    transaction.replace_table(None);
    transaction.push(Operation::AddChain(Chain::new("prerouting")));
    nft.run(&transaction).unwrap();
    assert_eq!(
        take_over(known_chains(), &mut Found::<Simulated>::default(), &mut nft, None),
        TakeOver::default()
    );
}

/// What upstream 1.25 left of its userspace mode.
const OLD_NAT: &str = r#"*nat
:KUBE-PORTALS-CONTAINER - [0:0]
:KUBE-PORTALS-HOST - [0:0]
:KUBE-NODEPORT-CONTAINER - [0:0]
:KUBE-NODEPORT-HOST - [0:0]
-A PREROUTING -m comment --comment "handle ClusterIPs; NOTE: this must be before the NodePort rules" -j KUBE-PORTALS-CONTAINER
-A PREROUTING -s 172.17.0.0/16 -j ACCEPT
-A PREROUTING -m addrtype --dst-type LOCAL -m comment --comment "handle service NodePorts; NOTE: this must be the last rule in the chain" -j KUBE-NODEPORT-CONTAINER
-A OUTPUT -m comment --comment "handle ClusterIPs; NOTE: this must be before the NodePort rules" -j KUBE-PORTALS-HOST
-A OUTPUT -m addrtype --dst-type LOCAL -m comment --comment "handle service NodePorts; NOTE: this must be the last rule in the chain" -j KUBE-NODEPORT-HOST
-A KUBE-PORTALS-CONTAINER -d 10.254.0.1/32 -p tcp -m comment --comment "default/kubernetes:" -m tcp --dport 443 -j REDIRECT --to-ports 53940
COMMIT
"#;

const OLD_FILTER: &str = r#"*filter
:KUBE-NODEPORT-NON-LOCAL - [0:0]
-A INPUT -m comment --comment "Ensure that non-local NodePort traffic can flow" -j KUBE-NODEPORT-NON-LOCAL
-A KUBE-NODEPORT-NON-LOCAL -p tcp -m comment --comment "default/ssh-service1:" -m tcp --dport 36463 -m state --state NEW -j ACCEPT
COMMIT
"#;

#[test]
fn what_the_old_userspace_mode_left_goes_too() {
    let (done, mut door) = take(door(&[OLD_NAT, OLD_FILTER]));
    assert_eq!(done.problems, []);
    assert_eq!((done.removed[0].chains, done.removed[0].jumps), (5, 5));
    assert_eq!(left(&mut door, Table::Nat), ["PREROUTING -s 172.17.0.0/16 -j ACCEPT"]);
    assert_eq!(left(&mut door, Table::Filter), Vec::<String>::new());
}

#[test]
fn beside_the_mode_that_is_in_force_only_those_of_the_other_go() {
    for (rules, stays, goes) in [
        (crate::iptables::MODE, "KUBE-SVC-XPGD46QRK7WJZT7O", "KUBE-PORTALS-CONTAINER"),
        (crate::userspace::MODE, "KUBE-PORTALS-CONTAINER", "KUBE-SVC-XPGD46QRK7WJZT7O"),
    ] {
        let both = door(&[NAT, FILTER, MANGLE, OLD_NAT, OLD_FILTER]);
        let mut found = Found { programs: vec![both], legacy: vec![Family::V4.into()], ..Found::default() };
        let ours = Ours { variant: Variant::Legacy, chains: rules.chains().unwrap() };
        let done = take_over(known_chains(), &mut found, &mut SimulatedNft::default(), Some(ours));
        assert_eq!(done.problems, []);
        let mut door = found.programs.remove(0);
        let (nat, filter) =
            (left(&mut door, Table::Nat).join("\n"), left(&mut door, Table::Filter).join("\n"));
        assert!(nat.contains(stays) && !nat.contains(goes), "{nat}");
        assert!(nat.contains("KUBE-PROXY-CANARY") && filter.contains("KUBE-SERVICES"), "{filter}");
        assert_eq!(filter.contains("KUBE-FORWARD"), rules == crate::iptables::MODE);
        assert_eq!(filter.contains("NON-LOCAL"), rules == crate::userspace::MODE);
        let mut found = Found { programs: vec![door], legacy: vec![Family::V4.into()], ..Found::default() };
        assert_eq!(
            take_over(known_chains(), &mut found, &mut SimulatedNft::default(), Some(ours)),
            TakeOver::default()
        );
    }
}

/// The legacy programs of one family, for a process without `CAP_NET_RAW`.
struct Shut(Family);

impl Xtables for Shut {
    fn variant(&self) -> Variant {
        Variant::Legacy
    }

    fn family(&self) -> Family {
        self.0
    }

    fn save(&mut self, _: Table) -> Result<Option<String>, Error> {
        Err(Error::NotPermitted { program: "it".to_owned(), stderr: String::new() })
    }

    fn restore(&mut self, _: &str) -> Result<(), Error> {
        unreachable!("nobody writes where they may not look")
    }
}

#[test]
fn hidden_chains_that_were_seen_are_told_from_those_that_may_be_there() {
    let seen = |family, chain: &str| Legacy { family, chains: Some(vec![(Table::Nat, chain.to_owned())]) };
    for (legacy, is_seen) in [
        (vec![seen(Family::V4, "DOCKER")], None),
        (vec![Family::V4.into()], Some(false)),
        (vec![seen(Family::V4, "KUBE-SERVICES")], Some(true)),
        (vec![seen(Family::V4, "KUBE-SERVICES"), Family::V6.into()], Some(true)),
        (vec![Family::V4.into(), seen(Family::V6, "KUBE-SERVICES")], Some(true)),
    ] {
        let programs = vec![Shut(Family::V4), Shut(Family::V6)];
        let mut found = Found { programs, legacy, ..Found::default() };
        assert_eq!(
            hidden(known_chains(), &mut found).map(|hidden| hidden.is_seen),
            is_seen,
            "{:?}",
            found.legacy
        );
    }
}

/// `nf_tables` of which nothing can be listed, for this reason.
struct Unlisted(nft::Error);

impl Kernel for Unlisted {
    fn run(&mut self, _: &Transaction) -> nft::Result<()> {
        unreachable!("nobody writes what they could not read")
    }

    fn check(&mut self, _: &Transaction) -> nft::Result<()> {
        Err(self.0.clone())
    }

    fn list(&mut self, _: NftFamily, _: &str) -> nft::Result<Option<Listed>> {
        Err(self.0.clone())
    }

    fn tables(&mut self, _: NftFamily) -> nft::Result<Vec<nft::Table>> {
        Err(self.0.clone())
    }

    fn generation(&mut self) -> nft::Result<u32> {
        Err(self.0.clone())
    }
}

impl OtherTables for Unlisted {
    fn other_chains(&mut self, _: NftFamily, _: &str) -> nft::Result<Option<Vec<Chain>>> {
        Err(self.0.clone())
    }

    fn other_rules(&mut self, _: NftFamily, _: &str) -> nft::Result<Vec<OtherRule>> {
        Err(self.0.clone())
    }
}

#[test]
fn without_a_program_tables_that_cannot_be_listed_are_told() {
    for (error, is_tried_again) in [
        (nft::Error::Missing, None),
        (nft::Error::NotPermitted, Some(false)),
        (nft::Error::Raced, Some(true)),
    ] {
        let words = error.to_string();
        let done = take_over(known_chains(), &mut Found::<Simulated>::default(), &mut Unlisted(error), None);
        let told: Vec<_> = done.problems.iter().map(ToString::to_string).collect();
        assert_eq!(told.len(), if is_tried_again.is_some() { 2 } else { 0 }, "one for each family: {told:?}");
        let are_told = told.iter().all(|told| {
            told.starts_with(
                "chains of kube-proxy (upstream's or ours) may be in nf_tables (iptables-nft, IPv",
            ) && told.contains(&words)
        });
        assert!(are_told, "{told:?}");
        assert!(
            done.problems.iter().all(|problem| Some(problem.retry_helps()) == is_tried_again),
            "{told:?}"
        );
    }
}

/// A table `filter` that is not written to without the host.
struct OnTheHostAlone;

impl Xtables for OnTheHostAlone {
    fn variant(&self) -> Variant {
        Variant::Legacy
    }

    fn family(&self) -> Family {
        Family::V4
    }

    fn save(&mut self, table: Table) -> Result<Option<String>, Error> {
        Ok((table == Table::Filter)
            .then(|| "*filter\n:FORWARD ACCEPT [0:0]\n:KUBE-FORWARD - [0:0]\nCOMMIT\n".to_owned()))
    }

    fn restore(&mut self, _: &str) -> Result<(), Error> {
        Err(Error::ForTheHost { table: Table::Filter, option: "-m cgroup --path" })
    }
}

#[test]
fn a_table_for_the_host_alone_stays_for_good_and_the_way_out_is_told() {
    let legacy =
        Legacy { family: Family::V4, chains: Some(vec![(Table::Filter, "KUBE-FORWARD".to_owned())]) };
    let mut found = Found { programs: vec![OnTheHostAlone], legacy: vec![legacy], ..Found::default() };
    let done = take_over(known_chains(), &mut found, &mut SimulatedNft::default(), None);
    let [problem] = &done.problems[..] else { panic!("{done:?}") };
    assert!(!problem.retry_helps());
    let words = problem.to_string();
    for part in ["stay in table filter", "`-m cgroup --path`", "portway cleanup --mode iptables --force"] {
        assert!(words.contains(part), "{words}");
    }
    assert!(!words.contains("meanwhile"), "{words}");
}
