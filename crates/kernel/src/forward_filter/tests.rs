//! Verdicts on rules that are written by hand: what is decided, and what stays unknown.

use std::collections::BTreeMap;
use std::sync::Arc;

use super::facts::{Facts, ct, meta};
use super::rule::Sets;
use super::walk::{Judged, Table, Walk, all};
use super::*;
use crate::nft::foreign::{Comparison, Member, Origin, Step};
use crate::nft::{Found, Policy, Register, Verdict as Decision};

const R: Register = Register(0);

/// A table in memory.
#[derive(Default)]
struct Written {
    chains: BTreeMap<String, Vec<Vec<Step>>>,
    elements: BTreeMap<Vec<u8>, Decision>,
}

impl Table for Written {
    fn name(&self) -> String {
        "inet t".to_owned()
    }

    fn rules(&mut self, chain: &str) -> Result<Arc<[Vec<Step>]>, String> {
        self.chains.get(chain).map(|rules| rules.as_slice().into()).ok_or_else(|| "no such chain".to_owned())
    }
}

impl Sets for Written {
    fn key_length(&mut self, _: &str) -> Option<usize> {
        self.elements.keys().next().map(Vec::len)
    }

    fn member(&mut self, _: &str, key: &[u8]) -> Member {
        let present = |verdict: &Decision| Member::Present { verdict: Some(verdict.clone()), data: None };
        self.elements.get(key).map_or(Member::Absent, present)
    }
}

fn packet() -> Packet {
    Packet {
        in_interface: Some("eth0".to_owned()),
        out_interface: Some("cni0".to_owned()),
        source: "192.0.2.7".parse().unwrap(),
        destination: "10.244.1.5".parse().unwrap(),
        protocol: IpProtocol::TCP,
        source_port: None,
        destination_port: Some(8080),
        is_destination_translated: true,
        mark: 0,
    }
}

/// One rule in a few words: conditions, then what it does. `?` is a match that is not understood.
fn rule(words: &str) -> Vec<Step> {
    let load = |from| Step::Load { to: R, from };
    let equal = |value: &[u8]| Step::Compare { register: R, how: Comparison::Equal, value: value.to_vec() };
    let differs =
        |value: &[u8]| Step::Compare { register: R, how: Comparison::NotEqual, value: value.to_vec() };
    let mut steps = Vec::new();
    for word in words.split(' ') {
        match word.split_once('=').unwrap_or((word, "")) {
            ("?", _) => steps.push(Step::Unknown { name: "limit".to_owned(), decides: false }),
            ("??", _) => steps.push(Step::Unknown { name: "queue".to_owned(), decides: true }),
            ("in", name) => steps.extend([load(Origin::Meta(meta::IN_NAME)), equal(name.as_bytes())]),
            ("sport", port) => {
                let port: u16 = port.parse().unwrap();
                steps.extend([load(Origin::Transport { offset: 0, size: 2 }), equal(&port.to_be_bytes())]);
            }
            ("state", bits) => {
                let mask = bits.parse::<u32>().unwrap().to_ne_bytes().to_vec();
                let masked = Step::Bitwise { from: R, to: R, mask, xor: vec![0; 4] };
                steps.extend([load(Origin::Ct(ct::STATE)), masked, differs(&[0; 4])]);
            }
            ("mark", value) => {
                let value = value.parse::<u32>().unwrap().to_ne_bytes();
                steps.extend([load(Origin::Meta(meta::MARK)), equal(&value)]);
            }
            ("set-mark", value) => {
                let value = value.parse::<u32>().unwrap().to_ne_bytes().to_vec();
                steps.extend([Step::Immediate { to: R, value }, Step::SetMark { from: R }]);
            }
            ("vmap", _) => {
                steps.extend([
                    load(Origin::Ct(ct::STATE)),
                    Step::Lookup { key: R, set: "m".into(), found: Found::Decide },
                ]);
            }
            ("accept", _) => steps.push(Step::Verdict(Decision::Accept)),
            ("drop", _) => steps.push(Step::Verdict(Decision::Drop)),
            ("return", _) => steps.push(Step::Verdict(Decision::Return)),
            ("reject", _) => steps.push(Step::Reject),
            ("jump", chain) => steps.push(Step::Verdict(Decision::Jump(chain.into()))),
            ("goto", chain) => steps.push(Step::Verdict(Decision::Goto(chain.into()))),
            (other, _) => panic!("no such word: {other}"),
        }
    }
    steps
}

/// `CHAIN: rule; rule | CHAIN: rule`; the first chain is the base chain.
fn written(text: &str) -> Written {
    let mut table = Written::default();
    for chain in text.split(" | ") {
        let (name, rules) = chain.split_once(':').unwrap();
        let rules = rules.split(';').map(str::trim).filter(|rule| !rule.is_empty()).map(rule).collect();
        table.chains.insert(name.to_owned(), rules);
    }
    for (state, verdict) in [(2_u32, Decision::Accept), (8, Decision::Drop)] {
        table.elements.insert(state.to_ne_bytes().to_vec(), verdict);
    }
    table
}

fn judged(text: &str, policy: Policy) -> Verdict {
    let packet = packet();
    let mut walk = Walk::new(Facts::new(&packet, &BTreeMap::new()));
    all([walk.base_chain(&mut written(text), "fw", policy)])
}

fn short(verdict: &Verdict) -> String {
    match verdict {
        Verdict::Accepted => "accepted".to_owned(),
        Verdict::Dropped { by } => format!("dropped: {}", by.rule.as_deref().unwrap_or("policy")),
        Verdict::Unknown { because } => {
            format!("unknown: {}", because.rsplit(": ").next().unwrap_or_default())
        }
    }
}

#[test]
fn what_is_not_understood_matters_only_where_it_could_change_the_outcome() {
    let cases = [
        ("fw:", Policy::Accept, "accepted"),
        ("fw:", Policy::Drop, "dropped: policy"),
        ("fw: in=eth0 drop", Policy::Accept, "dropped: iifname \"eth0*\" drop"),
        ("fw: in=eth1 drop", Policy::Accept, "accepted"),
        ("fw: state=6 accept", Policy::Drop, "dropped: policy"),
        ("fw: state=8 accept", Policy::Drop, "accepted"),
        ("fw: reject", Policy::Accept, "dropped: reject"),
        // An accept that may not apply, before a drop.
        ("fw: ? accept", Policy::Drop, "unknown: limit accept"),
        ("fw: ? accept; drop", Policy::Accept, "unknown: limit accept"),
        ("fw: ? drop", Policy::Accept, "unknown: limit drop"),
        // Whether it applies makes no difference.
        ("fw: ? accept", Policy::Accept, "accepted"),
        ("fw: ? drop", Policy::Drop, "dropped: limit drop"),
        ("fw: ? in=eth1 accept", Policy::Drop, "dropped: policy"),
        ("fw: in=eth1 ? accept", Policy::Drop, "dropped: policy"),
        ("fw: ? set-mark=1", Policy::Drop, "dropped: policy"),
        ("fw: ? return; accept", Policy::Drop, "unknown: limit return"),
        ("fw: ? jump=a; accept | a: state=6 drop", Policy::Drop, "accepted"),
        ("fw: ? jump=a; accept | a: drop", Policy::Drop, "unknown: limit jump a"),
        ("fw: jump=a; accept | a: ? drop", Policy::Drop, "unknown: limit drop"),
        ("fw: jump=a; drop | a: ? return; accept", Policy::Accept, "unknown: limit return"),
        ("fw: jump=a; drop | a: return; accept", Policy::Accept, "dropped: drop"),
        ("fw: goto=a; drop | a: return", Policy::Accept, "accepted"),
        ("fw: ? goto=a; drop | a: return", Policy::Accept, "unknown: limit goto a"),
        ("fw: ??", Policy::Accept, "unknown: queue"),
        ("fw: ??; drop", Policy::Accept, "unknown: queue"),
        ("fw: in=eth1 ??", Policy::Accept, "accepted"),
        // The client's port is any.
        ("fw: sport=1 drop", Policy::Accept, "unknown: th sport 1 drop"),
        // Marks.
        ("fw: set-mark=5; mark=5 drop", Policy::Accept, "dropped: meta mark 0x5 drop"),
        ("fw: ? set-mark=5; mark=5 drop", Policy::Accept, "unknown: meta mark 0x5 drop"),
        ("fw: ? set-mark=5; mark=4 drop", Policy::Accept, "unknown: meta mark 0x4 drop"),
        ("fw: ? set-mark=5; mark=2 drop", Policy::Accept, "accepted"),
        ("fw: ? jump=a; mark=5 drop | a: set-mark=5", Policy::Accept, "unknown: meta mark 0x5 drop"),
        ("fw: jump=a; mark=5 drop | a: ? return; set-mark=5", Policy::Accept, "unknown: meta mark 0x5 drop"),
        ("fw: vmap; accept", Policy::Accept, "dropped: ct state vmap @m"),
        ("fw: jump=nowhere", Policy::Accept, "unknown: no such chain"),
        ("fw: jump=fw", Policy::Accept, "unknown: its chains are nested too deeply"),
    ];
    for (text, policy, expected) in cases {
        assert_eq!(short(&judged(text, policy)), expected, "{text}, policy {policy:?}");
    }
}

#[test]
fn a_packet_that_one_base_chain_drops_is_lost_whatever_the_others_do() {
    let place = Place { table: "ip t".to_owned(), chain: "c".to_owned(), rule: None };
    let unknown = || Judged::Unknown("a limit".to_owned());
    let drops = || Judged::Drops(place.clone());
    assert_eq!(all([unknown(), drops()]), Verdict::Dropped { by: place.clone() });
    assert_eq!(all([Judged::Accepts, unknown()]), Verdict::Unknown { because: "a limit".to_owned() });
    assert_eq!(all([Judged::Accepts]), Verdict::Accepted);
    assert_eq!(place.to_string(), "table ip t, chain c: policy drop");
}

#[test]
fn a_maze_of_chains_ends() {
    let chains: Vec<_> = (0..60).map(|n| format!("c{n}: ? jump=c{m}; ? jump=c{m}", m = n + 1)).collect();
    let text = format!("fw: jump=c0 | {} | c60: ? drop", chains.join(" | "));
    assert!(short(&judged(&text, Policy::Accept)).starts_with("unknown: "));
}
