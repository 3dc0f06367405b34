//! Rows of who dials what and where that must end, checked over every family and protocol at once.
//!
//! A row is a fact of the case. The model must say the same of the packet, and the sockets must see it.

use std::collections::{BTreeMap, BTreeSet};
use std::fmt;
use std::net::SocketAddr;
use std::thread;
use std::time::Duration;

use model::fate::OneOf;
use model::{Fate, Protocol};
use playground::{Family, Outcome, Refusal, Reply, patient};

use crate::manifest::{Service, TARGET_PORT, node_of};
use crate::reference::{Verdict, verdict};
use crate::stage::Stage;
use crate::talk::{PATIENCE, SILENCE};

/// So often is asked until every endpoint has answered: even one with a share of a quarter is missed by chance only once
/// in 10²⁴ times.
const ASKED_MAX: usize = 200;
/// So often is asked at least.
const ASKED_MIN: usize = 5;
/// A refusal takes less. The first retransmission of a lost packet comes after a second.
const AT_ONCE: Duration = Duration::from_millis(300);
/// A machine may be busy elsewhere just then; a refusal that is slow in itself is slow each time.
const REFUSED_MAX: usize = 5;

/// What is dialled: an address of each family, and the node at which a packet for it is aimed.
pub(crate) struct Target {
    name: String,
    at: &'static str,
    address: Box<dyn Fn(Family) -> SocketAddr + Sync>,
}

impl Target {
    /// Any address.
    pub(crate) fn new(
        name: impl Into<String>,
        at: &'static str,
        address: impl Fn(Family) -> SocketAddr + Sync + 'static,
    ) -> Self {
        Self { name: name.into(), at, address: Box::new(address) }
    }

    /// The node at which a packet for it is aimed.
    pub(crate) fn at(&self) -> &'static str {
        self.at
    }

    /// Its address of one family.
    pub(crate) fn address(&self, family: Family) -> SocketAddr {
        (self.address)(family)
    }
}

/// Where a connection must end.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Want {
    /// At one of these, and each of them; does it see a node's address instead of the client's?
    Lands(BTreeMap<String, bool>),
    /// Refused, at once.
    Refused,
    /// Nobody says anything.
    Silent,
    /// The proxy leaves it alone, and nobody else answers.
    Untouched,
    /// The proxy leaves it alone: the place that was dialled answers, and sees the client's own address.
    Direct(&'static str),
}

impl Want {
    /// At each of these pods, which see the client.
    pub(crate) fn kept(pods: &[&str]) -> Self {
        Self::Lands(pods.iter().map(|pod| ((*pod).to_owned(), false)).collect())
    }

    /// At each of these pods, which see a node.
    pub(crate) fn masqueraded(pods: &[&str]) -> Self {
        Self::Lands(pods.iter().map(|pod| ((*pod).to_owned(), true)).collect())
    }

    /// Also at these.
    pub(crate) fn and(self, other: Self) -> Self {
        match (self, other) {
            (Self::Lands(mut pods), Self::Lands(more)) => {
                pods.extend(more);
                Self::Lands(pods)
            }
            (one, other) => panic!("{one:?} and {other:?} do not go together"),
        }
    }

    /// The same where the mode may be one that cannot keep a client's address.
    fn seen_by(self, keeps_source: bool) -> Self {
        match self {
            Self::Lands(pods) if !keeps_source => {
                Self::Lands(pods.into_keys().map(|pod| (pod, true)).collect())
            }
            other => other,
        }
    }

    /// What the model says, in these words.
    fn of(fate: &Fate, stage: &Stage) -> Self {
        match fate {
            Fate::OneOf(one_of) => Self::Lands(landings(one_of, stage)),
            Fate::Rejected => Self::Refused,
            Fate::Dropped => Self::Silent,
            Fate::Untouched => Self::Untouched,
        }
    }
}

impl From<model::fate::Refusal> for Want {
    fn from(refusal: model::fate::Refusal) -> Self {
        match refusal.fate() {
            Fate::Rejected => Self::Refused,
            Fate::Dropped => Self::Silent,
            _ => Self::Untouched,
        }
    }
}

fn landings(one_of: &OneOf, stage: &Stage) -> BTreeMap<String, bool> {
    let landings = one_of.landings.iter();
    landings.map(|landing| (stage.name_of(landing.address), landing.masqueraded)).collect()
}

impl Stage {
    /// The cluster IP of a Service.
    pub(crate) fn cluster_ip(&self, service: &Service) -> Target {
        let owned = service.clone();
        Target::new(format!("the cluster IP of {}", service.name()), self.gateway, move |family| {
            owned.cluster_ip(family)
        })
    }

    /// The load balancer's address of a Service.
    pub(crate) fn load_balancer_ip(&self, service: &Service) -> Target {
        let owned = service.clone();
        Target::new(format!("the load balancer IP of {}", service.name()), self.gateway, move |family| {
            owned.load_balancer_ip(family)
        })
    }

    /// The external IP of a Service.
    pub(crate) fn external_ip(&self, service: &Service) -> Target {
        let owned = service.clone();
        Target::new(format!("the external IP of {}", service.name()), self.gateway, move |family| {
            owned.external_ip(family)
        })
    }

    /// The server of a place, dialled at its own address and port: no Service has to do with it.
    pub(crate) fn direct(&self, name: &'static str) -> Target {
        let addresses = self.place(name).addresses();
        let at = if name.contains('-') { node_of(name) } else { self.gateway };
        Target::new(format!("{name} itself"), at, move |family| {
            SocketAddr::new(addresses.of(family), TARGET_PORT)
        })
    }

    /// The node port of a Service on a node.
    pub(crate) fn node_port(&self, node: &'static str, service: &Service) -> Target {
        let (addresses, port) = (self.place(node).addresses(), service.node_port());
        let name = format!("the node port of {} on {node}", service.name());
        Target::new(name, node, move |family| SocketAddr::new(addresses.of(family), port))
    }

    /// Checks each row, over every family and protocol.
    pub(crate) fn check(&self, rows: &[(&str, Target, Want)]) {
        self.check_of(&Family::ALL, rows);
    }

    /// Checks each row, over these families and every protocol.
    pub(crate) fn check_of(&self, families: &[Family], rows: &[(&str, Target, Want)]) {
        thread::scope(|scope| {
            let kinds = self.way().every_kind().filter(|(family, _)| families.contains(family));
            for (family, protocol) in kinds {
                scope.spawn(move || {
                    for row in rows {
                        Row::new(self, row, family, protocol).check();
                    }
                });
            }
        });
    }
}

/// One row, of one family and protocol.
struct Row<'a> {
    stage: &'a Stage,
    from: &'a str,
    target: &'a Target,
    want: Want,
    protocol: Protocol,
    to: SocketAddr,
    verdict: Verdict,
}

impl<'a> Row<'a> {
    fn new(
        stage: &'a Stage,
        (from, target, want): &'a (&str, Target, Want),
        family: Family,
        protocol: Protocol,
    ) -> Self {
        let to = target.address(family);
        let verdict = verdict(stage, from, protocol, to, target.at);
        let want = want.clone().seen_by(stage.mode().semantics().keeps_source);
        Self { stage, from, target, want, protocol, to, verdict }
    }

    fn check(&self) {
        let said = Want::of(&self.verdict.fate, self.stage);
        let is_left_alone = matches!(self.want, Want::Direct(_)) && said == Want::Untouched;
        self.demand(said == self.want || is_left_alone, format_args!("the model says {said:?}"));
        match &self.want {
            Want::Lands(pods) => self.check_landings(pods),
            Want::Refused
                if self.is_own_datagram() && self.stage.way().behaviour().refuses_own_packets_in_two_ways =>
            {
                self.check_outcome(
                    PATIENCE,
                    |outcome| matches!(outcome, Outcome::Refused { elapsed, .. } if is_soon(*elapsed)),
                );
            }
            Want::Refused | Want::Silent if self.is_own_datagram() => self.check_own_datagram(),
            Want::Refused if self.may_hear_late() => self.check_late_refusal(),
            Want::Refused => self.check_refusal(),
            Want::Silent => self.check_outcome(SILENCE, Outcome::is_timed_out),
            Want::Untouched => self.check_outcome(SILENCE, |outcome| !outcome.is_answered()),
            Want::Direct(place) => self.check_direct(place),
        }
    }

    fn check_direct(&self, place: &str) {
        let client = self.stage.place(self.from);
        let (source, outcome) = self.stage.talk.ask_from_own_address(client, self.protocol, self.to);
        let Some(reply) = outcome.reply() else { self.fail(format_args!("{outcome}")) };
        let is_same_port = source.port() == 0 || source.port() == reply.saw.port();
        let is_seen = reply.saw.ip() == source.ip() && is_same_port;
        self.demand(reply.server == place && is_seen, format_args!("{reply}"));
    }

    fn check_landings(&self, pods: &BTreeMap<String, bool>) {
        let mut seen = BTreeSet::new();
        for asked in 0..ASKED_MAX {
            if asked >= ASKED_MIN && seen.len() == pods.len() {
                break;
            }
            let outcome = self.ask(PATIENCE);
            let Some(reply) = outcome.reply() else { self.fail(format_args!("{outcome}")) };
            self.check_reply(reply, pods);
            seen.insert(reply.server.clone());
        }
        self.demand(seen.iter().eq(pods.keys()), format_args!("only {seen:?} answered"));
    }

    fn check_reply(&self, reply: &Reply, pods: &BTreeMap<String, bool>) {
        let Some(masqueraded) = pods.get(&reply.server) else { self.fail(format_args!("{reply}")) };
        let saw = reply.saw.ip();
        let client = self.stage.place(self.from).address(Family::of(saw));
        let is_right = if *masqueraded { self.verdict.table.node().is_own(saw) } else { saw == client };
        self.demand(is_right, format_args!("{reply}"));
    }

    fn check_refusal(&self) {
        let mut outcome = self.ask(PATIENCE);
        for _ in 1..REFUSED_MAX {
            if is_at_once(&outcome) {
                return;
            }
            self.demand(outcome.is_refused(), format_args!("{outcome}"));
            outcome = self.ask(PATIENCE);
        }
        self.demand(is_at_once(&outcome), format_args!("{outcome}, which is late"));
    }

    /// On wires as fast as these, an ICMP error comes while the socket is still busy sending its SYN. The kernel then puts it aside
    /// until the first retransmission, a second later; over IPv4 it wakes the client all the same.
    fn may_hear_late(&self) -> bool {
        self.protocol == Protocol::Tcp && self.to.is_ipv6() && !self.stage.way().behaviour().refuses_by_reset
    }

    /// Whether refusals are sent at once is seen by those who hear them at once: IPv4, and datagrams.
    fn check_late_refusal(&self) {
        self.check_outcome(PATIENCE, |outcome| {
            matches!(outcome, Outcome::Refused { refusal: Refusal::Port, .. })
        });
    }

    /// A datagram that a host sends, and its own rules do not let out, be it with or without an answer.
    fn is_own_datagram(&self) -> bool {
        self.from == self.verdict.node && self.protocol != Protocol::Tcp
    }

    /// The kernel tells the sender at once, as an error of `send` (EPERM).
    fn check_own_datagram(&self) {
        self.check_outcome(PATIENCE, |outcome| {
            matches!(outcome, Outcome::Refused { refusal: Refusal::Unreachable, elapsed } if is_soon(*elapsed))
        });
    }

    fn check_outcome(&self, limit: Duration, is_right: impl Fn(&Outcome) -> bool) {
        let outcome = self.ask(limit);
        self.demand(is_right(&outcome), format_args!("{outcome}"));
    }

    fn ask(&self, limit: Duration) -> Outcome {
        self.stage.talk.ask(self.stage.place(self.from), self.protocol, self.to, limit)
    }

    fn demand(&self, is_right: bool, found: fmt::Arguments<'_>) {
        if !is_right {
            self.fail(found);
        }
    }

    fn fail(&self, found: fmt::Arguments<'_>) -> ! {
        let Self { from, target, want, protocol, to, verdict, .. } = self;
        panic!(
            "{from} -> {} ({to}, {protocol}): wanted {want:?}, but {found}\nexplain on {}: {}",
            target.name,
            verdict.node,
            self.stage.explain(verdict.node, &verdict.question()),
        );
    }
}

fn is_at_once(outcome: &Outcome) -> bool {
    outcome.is_refused() && matches!(outcome, Outcome::Refused { elapsed, .. } if is_soon(*elapsed))
}

/// Soon enough for a refusal, on this machine.
pub(crate) fn is_soon(elapsed: Duration) -> bool {
    elapsed < patient(AT_ONCE)
}
