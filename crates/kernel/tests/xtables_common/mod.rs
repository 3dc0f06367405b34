//! What the tests of iptables share: random rules, and the real programs in a network namespace of their own.
#![allow(dead_code, reason = "each test file uses a part of it")]
#![allow(unreachable_pub, reason = "the module is compiled into each test file")]

use std::collections::BTreeSet;
use std::net::IpAddr;

use ipnet::IpNet;
use kernel::IpProtocol;
use kernel::xtables::{
    ChainName, Family, Is, Match, Probability, Programs, Recent, Rule, Side, State, Table, Target, Variant,
    Xtables,
};
use playground::namespace::Namespace;

/// xorshift64*: the same numbers in each run.
pub struct Random(u64);

impl Random {
    pub fn new(seed: u64) -> Self {
        Self(seed.wrapping_mul(0x9E37_79B9_7F4A_7C15))
    }

    pub fn below(&mut self, limit: usize) -> usize {
        self.0 ^= self.0 >> 12;
        self.0 ^= self.0 << 25;
        self.0 ^= self.0 >> 27;
        usize::try_from(self.0.wrapping_mul(0x2545_F491_4F6C_DD1D) >> 33).unwrap() % limit.max(1)
    }

    fn flip(&mut self) -> bool {
        self.below(2) == 0
    }

    fn number(&mut self) -> u32 {
        u32::try_from(self.below(1 << 30)).unwrap()
    }

    fn is(&mut self) -> Is {
        if self.flip() { Is::Equal } else { Is::Not }
    }

    fn of<T: Clone>(&mut self, choices: &[T]) -> T {
        choices[self.below(choices.len())].clone()
    }
}

/// A rule that the programs take in a chain of our own that `KUBE-TARGET` stands beside.
pub fn random_rule(random: &mut Random, family: Family, table: Table) -> Rule {
    let protocol = random.of(&[IpProtocol::TCP, IpProtocol::UDP, IpProtocol::SCTP]);
    let mut parts = vec![Match::Protocol(protocol)];
    parts.extend(random_parts(random, family));
    for at in (1..parts.len()).rev() {
        let other = random.below(at + 1);
        parts.swap(at, other);
    }
    let mut has_protocol = true;
    let at = parts.iter().position(|part| matches!(part, Match::Protocol(_))).unwrap();
    match random.below(4) {
        0 => parts.insert(at + 1 + random.below(parts.len() - at), Match::DestinationPort(port(random))),
        1 => {
            parts.remove(at);
            has_protocol = false;
        }
        2 => parts[at] = Match::PlainProtocol(protocol),
        _ => {}
    }
    Rule::new(parts, random_target(random, family, table, has_protocol))
}

/// At most one of each kind, as programs take them.
fn random_parts(random: &mut Random, family: Family) -> Vec<Match> {
    let list = || "KUBE-SEP-LIST".to_owned();
    let mut parts = vec![
        Match::Comment(random.of(&["plain", "ns1/svc1:p80 cluster IP", r#"say "hi" \ it's"#, ""]).to_owned()),
        Match::Source(random.is(), net(random, family)),
        Match::Destination(random.is(), net(random, family)),
        Match::InInterface(random.is(), random.of(&["eth0", "br+", "lo"]).to_owned()),
        Match::OutInterface(random.is(), random.of(&["eth0", "br+", "lo"]).to_owned()),
        Match::Local(Side::Source, random.is()),
        Match::Local(Side::Destination, random.is()),
        mark(random),
        Match::State(random.is(), states(random)),
        Match::Random(Probability::new(1 + random.number() % 9, 10 + random.number() % 90)),
        if random.flip() {
            Match::Recent(Recent::Set { list: list() })
        } else {
            let (seconds, reap) = (1 + random.number() % 86_400, random.flip());
            Match::Recent(Recent::Check { list: list(), seconds, reap })
        },
    ];
    parts.retain(|_| random.below(4) == 0);
    parts
}

fn mark(random: &mut Random) -> Match {
    let mask = random.of(&[u32::MAX, 0x4000, 0xff]);
    Match::Mark { is: random.is(), value: random.number() & mask, mask }
}

fn states(random: &mut Random) -> BTreeSet<State> {
    let all = [
        State::Invalid,
        State::New,
        State::Related,
        State::Established,
        State::Untracked,
        State::Snat,
        State::Dnat,
    ];
    let mut states: BTreeSet<State> = all.into_iter().filter(|_| random.below(3) == 0).collect();
    states.insert(State::New);
    states
}

fn random_target(random: &mut Random, family: Family, table: Table, has_protocol: bool) -> Option<Target> {
    let mut targets = vec![
        None,
        Some(Target::Jump(ChainName::new("KUBE-TARGET").unwrap())),
        Some(Target::Accept),
        Some(Target::Drop),
        Some(Target::Return),
        Some(Target::OrMark(random.number())),
        Some(Target::XorMark(random.number())),
        Some(Target::SetMark(random.number())),
        Some(Target::Xmark { value: random.number(), mask: random.number() }),
    ];
    match table {
        Table::Nat => {
            // A port is translated only where the protocol is known to have one.
            let port = has_protocol.then(|| port(random));
            targets.extend([
                Some(Target::Masquerade { random_fully: random.flip() }),
                Some(Target::Dnat(address(random, family), port.filter(|_| random.flip()))),
                port.map(Target::Redirect),
            ]);
            // The nat table takes no drop: the programs say so.
            targets.retain(|target| *target != Some(Target::Drop));
        }
        Table::Filter => targets.push(Some(Target::Reject)),
        Table::Mangle => {}
    }
    random.of(&targets)
}

fn port(random: &mut Random) -> u16 {
    u16::try_from(1 + random.below(65_535)).unwrap()
}

fn address(random: &mut Random, family: Family) -> IpAddr {
    let last = u8::try_from(1 + random.below(250)).unwrap();
    match family {
        Family::V4 => [10, 1, 2, last].into(),
        Family::V6 => [0xfd00, 1, 0, 0, 0, 0, 2, last.into()].into(),
    }
}

fn net(random: &mut Random, family: Family) -> IpNet {
    let whole = if family == Family::V4 { 32 } else { 128 };
    let length = if random.flip() { whole } else { 8 + u8::try_from(random.below(20)).unwrap() };
    IpNet::new(address(random, family), length).unwrap()
}

/// Runs `work` with each installed program of one kind, each in a namespace of its own.
pub fn for_each_door(variant: Variant, mut work: impl FnMut(&mut Programs, Family) + Send) {
    let doors: Vec<_> =
        Programs::find().programs.into_iter().filter(|door| door.variant() == variant).collect();
    if doors.is_empty() {
        eprintln!("skipped: {variant} is not installed");
    }
    for mut door in doors {
        let namespace = match Namespace::create() {
            Ok(namespace) => namespace,
            Err(error) => return eprintln!("skipped: a network namespace of its own needs root: {error}"),
        };
        let family = door.family();
        namespace.run(|| work(&mut door, family)).unwrap();
    }
}

/// The lines of a save, without those for people.
pub fn saved_lines(text: &str) -> Vec<String> {
    text.lines().filter(|line| !line.starts_with('#')).map(str::to_owned).collect()
}
