//! The model's own answer, as a subject: [`ForwardingTable::fate`], narrowed by [`Memory`].

use std::net::IpAddr;

use model::affinity::Memory;
use model::fate::OneOf;
use model::{Answer, Delta, Fate, ForwardingTable, Packet, Promises};

use crate::step::{Landing, Outcome, Share};
use crate::subject::{Subject, Visit};

/// The model.
#[derive(Debug)]
pub(crate) struct Reference {
    table: ForwardingTable,
    promises: Promises,
    now_seconds: u64,
    worlds: Vec<World>,
}

/// One way in which everything so far may have come about.
#[derive(Clone, Debug, Default)]
pub(crate) struct World {
    memory: Memory,
    last: Option<(IpAddr, u16)>,
}

impl Default for Reference {
    fn default() -> Self {
        Self {
            table: ForwardingTable::default(),
            promises: Promises::default(),
            now_seconds: 0,
            worlds: vec![World::default()],
        }
    }
}

impl Subject for Reference {
    fn promises(&mut self, asked: &Promises) -> Promises {
        self.promises = *asked;
        *asked
    }

    fn apply(&mut self, table: &ForwardingTable, _delta: &Delta) -> Result<(), String> {
        self.table = table.clone();
        Ok(())
    }

    fn pass(&mut self, seconds: u64) {
        self.now_seconds += seconds;
    }

    fn ask(&mut self, packet: &Packet) -> Result<Vec<Visit>, String> {
        let answer = self.table.fate(packet, &self.promises);
        Ok(World::visit_all(&mut self.worlds, self.now_seconds, packet, &answer))
    }
}

impl World {
    /// Where the packet ends in each of these worlds; they become the worlds that follow from it.
    pub(crate) fn visit_all(
        worlds: &mut Vec<World>,
        now_seconds: u64,
        packet: &Packet,
        answer: &Answer,
    ) -> Vec<Visit> {
        let seen = worlds.iter().map(|world| world.visit(now_seconds, packet, answer));
        let (visits, next): (Vec<_>, Vec<_>) = seen.unzip();
        *worlds = next.into_iter().flatten().collect();
        visits
    }

    /// Where the packet ends here, and the worlds that follow from it.
    fn visit(&self, now_seconds: u64, packet: &Packet, answer: &Answer) -> (Visit, Vec<World>) {
        let (outcome, next) = match &answer.fate {
            Fate::Untouched => (Outcome::Untouched, vec![self.without_last()]),
            Fate::Rejected => (Outcome::Rejected, vec![self.without_last()]),
            Fate::Dropped => (Outcome::Dropped, vec![self.without_last()]),
            Fate::OneOf(one_of) => self.land(now_seconds, packet.source, one_of),
        };
        let why = answer.why.iter().map(ToString::to_string).collect();
        (Visit { previous: self.last, outcome, why }, next)
    }

    fn land(&self, now_seconds: u64, client: IpAddr, one_of: &OneOf) -> (Outcome, Vec<World>) {
        let landings = self.memory.narrow(now_seconds, client, one_of);
        let follow = |landing: &model::Landing| {
            let mut next = self.clone();
            next.memory.remember(now_seconds, client, one_of, landing);
            next.last = Some((landing.address, landing.port));
            next
        };
        // Without affinity nothing is remembered, so all the worlds would be the same one.
        let next = if one_of.affinity_seconds.is_some() || landings.len() == 1 {
            landings.iter().map(follow).collect()
        } else {
            vec![self.without_last()]
        };
        (outcome_of(&landings), next)
    }

    fn without_last(&self) -> World {
        World { last: None, ..self.clone() }
    }
}

/// In the words of scenarios.
pub(crate) fn outcome_of(landings: &[model::Landing]) -> Outcome {
    let whole = landings.iter().map(|l| u32::from(l.slots)).sum();
    let landing = |l: &model::Landing| Landing {
        endpoint: (l.address, l.port),
        share: Share::new(u32::from(l.slots), whole).expect("every landing has a slot"),
        masqueraded: l.masqueraded,
    };
    Outcome::OneOf(landings.iter().map(landing).collect())
}
