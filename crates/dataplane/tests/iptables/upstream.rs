//! Upstream's chains are removed from the tables of the real iptables programs, in a network namespace of their own.

use dataplane::upstream::{Problem, TakeOver, Why, take_over};
use kernel::nft::Netlink;

use super::*;

/// More chains than iptables-nft deletes at a time.
const SERVICES: usize = 1_300;

const OTHERS: &str = "*nat\n:MINE - [0:0]\n-A PREROUTING -p tcp -m tcp --dport 22 -j MINE\n-A POSTROUTING -j MINE\nCOMMIT\n\
                      *filter\n:KUBE-FIREWALL - [0:0]\n-A INPUT -j KUBE-FIREWALL\nCOMMIT\n";

const FILTER: &str = "*filter\n:KUBE-FORWARD - [0:0]\n:KUBE-SERVICES - [0:0]\n\
    -I FORWARD -m conntrack --ctstate NEW -m comment --comment \"kubernetes service portals\" -j KUBE-SERVICES\n\
    -I FORWARD -m comment --comment \"kubernetes forwarding rules\" -j KUBE-FORWARD\n\
    -A KUBE-FORWARD -m comment --comment \"kubernetes forwarding rules\" -m mark --mark 0x4000/0x4000 -j ACCEPT\nCOMMIT\n";

/// Services of one endpoint each.
fn nat(services: usize) -> String {
    let mut chains = vec!["KUBE-SERVICES".to_owned(), "KUBE-MARK-MASQ".to_owned()];
    let mut rules = vec![
        "-I PREROUTING -m comment --comment \"kubernetes service portals\" -j KUBE-SERVICES".to_owned(),
        "-A KUBE-MARK-MASQ -j MARK --or-mark 0x4000".to_owned(),
    ];
    for number in 0..services {
        let hash: String = (0..16).map(|bit| if number >> bit & 1 == 0 { 'A' } else { 'B' }).collect();
        chains.extend([format!("KUBE-SVC-{hash}"), format!("KUBE-SEP-{hash}")]);
        rules.extend([
            format!("-A KUBE-SERVICES -p tcp -m tcp --dport {} -j KUBE-SVC-{hash}", number + 1),
            format!("-A KUBE-SVC-{hash} -j KUBE-SEP-{hash}"),
            format!("-A KUBE-SEP-{hash} -j KUBE-MARK-MASQ"),
        ]);
    }
    let declared: Vec<_> = chains.iter().map(|chain| format!(":{chain} - [0:0]")).collect();
    format!("*nat\n{}\n{}\nCOMMIT\n", declared.join("\n"), rules.join("\n"))
}

fn contents(door: &mut Programs) -> Vec<Saved> {
    [Table::Nat, Table::Filter].map(|table| Saved::parse(&door.save(table).unwrap().unwrap())).into()
}

/// With the programs of this machine, or without any, as in the image of the nftables mode.
#[derive(Clone, Copy)]
enum With {
    Programs,
    Nothing,
}

fn take_over_here(with: With) -> TakeOver {
    let mut found = match with {
        With::Programs => Programs::find(),
        With::Nothing => Programs::find_in(&[]).waiting_for_lock(),
    };
    take_over(known_chains(), &mut found, &mut Netlink::open().unwrap(), None)
}

mod needs_root {
    use std::io::Write as _;
    use std::process::{Command, Stdio};

    use super::*;

    fn removes_all(test: &str, variant: Variant, with: With) {
        with_door(test, variant, |mut door| {
            door.restore(OTHERS).unwrap();
            let before = contents(&mut door);
            door.restore(&nat(SERVICES)).unwrap();
            door.restore(FILTER).unwrap();
            let done = take_over_here(with);
            assert_eq!(done.problems, []);
            assert_eq!((done.removed[0].chains, done.removed[0].jumps), (2 * SERVICES + 4, 3));
            assert_eq!(contents(&mut door), before);
            assert_eq!(take_over_here(with), TakeOver::default(), "a second time finds nothing");
        });
    }

    /// A test for each program, with it and without any.
    macro_rules! each {
        ($($test:ident: $work:ident, $variant:ident, $with:ident;)*) => {
            $(#[test]
            fn $test() {
                $work(stringify!($test), Variant::$variant, With::$with);
            })*
        };
    }

    each! {
        root_many_chains_go_from_iptables_nft: removes_all, Nft, Programs;
        root_many_chains_go_from_iptables_nft_without_a_program: removes_all, Nft, Nothing;
        root_many_chains_go_from_iptables_legacy: removes_all, Legacy, Programs;
        root_many_chains_go_from_iptables_legacy_without_a_program: removes_all, Legacy, Nothing;
        root_chains_that_others_use_stay_in_iptables_nft: keeps_what_is_used, Nft, Programs;
        root_chains_that_others_use_stay_in_iptables_nft_without_a_program: keeps_what_is_used, Nft, Nothing;
        root_chains_that_others_use_stay_in_iptables_legacy: keeps_what_is_used, Legacy, Programs;
        root_chains_that_others_use_stay_in_iptables_legacy_without_a_program: keeps_what_is_used, Legacy, Nothing;
        root_rules_of_others_keep_their_counters_in_legacy_tables_without_a_program: keeps_counters, Legacy, Nothing;
    }

    fn keeps_what_is_used(test: &str, variant: Variant, with: With) {
        with_door(test, variant, |mut door| {
            let used = "*nat\n-A MINE -p udp -j KUBE-SERVICES\n-A MINE -j KUBE-MARK-MASQ\nCOMMIT\n*filter\n:FORWARD DROP [0:0]\nCOMMIT\n";
            for text in [OTHERS, &nat(2), FILTER, used] {
                door.restore(text).unwrap();
            }
            let done = take_over_here(with);
            let why = |problem: &Problem| match problem {
                Problem::Kept { kept, .. } => Some(kept.why),
                _ => None,
            };
            let kept: Vec<_> = done.problems.iter().filter_map(why).collect();
            let expected = [Why::UsedForItsMark, Why::UsedEmpty, Why::LetsServiceTrafficPass];
            assert_eq!(kept, expected, "{:?}", done.problems);
            let [nat, filter] = contents(&mut door).try_into().unwrap();
            assert_eq!(nat.chain("KUBE-SERVICES").unwrap().rules.len(), 0);
            assert_eq!(nat.chain("KUBE-MARK-MASQ").unwrap().rules.len(), 1);
            assert_eq!(filter.chain("FORWARD").unwrap().rules.len(), 1);
            assert_eq!(filter.chain("KUBE-FORWARD").unwrap().rules.len(), 1);
            // What is done is not done again, and what stays is told again.
            assert_eq!(take_over_here(with), TakeOver { removed: Vec::new(), ..done });
        });
    }

    /// Rules of others, and what packets did to them.
    const COUNTED: &str =
        "[7:420] -A PREROUTING -p tcp -m tcp --dport 22 -j ACCEPT\n[3:180] -A PREROUTING -p udp -j ACCEPT\n";

    /// What packets did to the rules of others is still counted.
    fn keeps_counters(test: &str, variant: Variant, with: With) {
        with_door(test, variant, |mut door| {
            let mut restore = Command::new("iptables-legacy-restore");
            let mut child = restore.args(["--counters", "-w"]).stdin(Stdio::piped()).spawn().unwrap();
            write!(child.stdin.take().unwrap(), "*nat\n{COUNTED}COMMIT\n").unwrap();
            assert!(child.wait().unwrap().success());
            door.restore(&nat(3)).unwrap();
            let listed = || {
                let output = Command::new("iptables-legacy-save").args(["-c", "-t", "nat"]).output().unwrap();
                String::from_utf8_lossy(&output.stdout).into_owned()
            };
            let before = listed();
            assert!(before.contains(COUNTED) && before.contains("KUBE-"), "{before}");
            assert_eq!(take_over_here(with).problems, []);
            let after = listed();
            assert!(after.contains(COUNTED) && !after.contains("KUBE-"), "{after}");
        });
    }
}
