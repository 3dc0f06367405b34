//! Gives Services their addresses and ports.
//!
//! In: what Services ask for, and who holds what. Out: for each want the value it got or a report, and the records that
//! make it so.
//!
//! The rules, in the order in which they are applied:
//!
//! 1. What a Service holds already stays with it.
//! 2. A value named in a manifest is granted when it is inside a range and nobody uses it. Among those who name one value
//!    the Service created earlier wins, then the smaller name. Who only *held* it, and is absent or has stopped using it,
//!    yields.
//! 3. A Service that names nothing gets a free value. When a range is full, the one whose holder is absent longest is given away.
//!
//! An address of this host is assigned only to a Service that names it. Where nothing can be written, only the first rule is
//! applied: Services that need something new wait.
//!
//! Nothing is given back otherwise: a Service that is missing for a while, for instance because its file is broken, finds
//! its address again. And what another process may rely upon is never taken from it. A dry run shows nothing as given that a Service of
//! other manifests has.

pub(crate) mod complete;
pub(crate) mod demand;
mod malformed;
mod refusal;

use std::cell::OnceCell;
use std::collections::{BTreeMap, BTreeSet};

use model::net::IpNet;
use model::{Report, ServiceName};

use self::demand::{Demand, Want};
pub(crate) use self::malformed::with_node_ports as malformed_values;
use super::ranges::{Pool, Ranges, Taken};
use super::store::{Record, Resource, Slot, Store, Turn};

/// What became of a want.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Answer {
    /// This is it.
    Granted(Resource),
    /// It got nothing, and why.
    Refused(Report),
    /// It gets something as soon as that can be written down. Until then it keeps what it had for the same purpose.
    Waiting { keeps: Option<Resource>, report: Report },
}

impl Answer {
    /// What was granted.
    pub(crate) fn granted(&self) -> Option<Resource> {
        match self {
            Answer::Granted(resource) => Some(*resource),
            Answer::Waiting { keeps, .. } => *keeps,
            Answer::Refused(_) => None,
        }
    }

    /// Why it is not what was asked for.
    pub(crate) fn report(&self) -> Option<&Report> {
        match self {
            Answer::Granted(_) => None,
            Answer::Refused(report) | Answer::Waiting { report, .. } => Some(report),
        }
    }

    /// Does it wait for the store?
    pub(crate) fn is_waiting(&self) -> bool {
        matches!(self, Answer::Waiting { .. })
    }
}

/// A Service that asks.
#[derive(Debug)]
pub(crate) struct Applicant<'a> {
    pub(crate) name: &'a ServiceName,
    pub(crate) demand: &'a Demand,
}

/// What the manifests of this process use and have used.
#[derive(Debug, Default)]
pub(crate) struct Usage {
    /// In use, by whom.
    pub(crate) in_use: BTreeMap<Resource, ServiceName>,
    /// Services that this process has ever seen. It knows what they use; of others it does not.
    pub(crate) known: BTreeSet<ServiceName>,
}

impl Usage {
    /// A Service uses nothing any more.
    pub(crate) fn drop_all(&mut self, service: &ServiceName, answers: &[Answer]) {
        for resource in answers.iter().filter_map(Answer::granted) {
            if self.in_use.get(&resource) == Some(service) {
                self.in_use.remove(&resource);
            }
        }
    }
}

/// One turn of giving.
#[derive(Debug)]
pub(crate) struct Allocation<'a> {
    pub(crate) ranges: &'a Ranges,
    /// Ranges of ServiceCIDR objects: wanted cluster IPs may lie there too.
    pub(crate) extra_ranges: &'a BTreeSet<IpNet>,
    pub(crate) usage: &'a mut Usage,
    pub(crate) store: &'a mut Store,
    pub(crate) turn: &'a Turn,
    pub(crate) batch: &'a mut Vec<Record>,
    /// Services that have another value than before, since the old one lies outside of the ranges now.
    pub(crate) moves: &'a mut Vec<(ServiceName, Report)>,
    /// Is no other process relying upon the store? Asked once, and only where it matters.
    pub(crate) is_alone: OnceCell<bool>,
    /// Addresses of this host: no Service is given one that it does not name.
    pub(crate) reserved: &'a BTreeSet<Resource>,
    /// Why nothing new can be written down now.
    pub(crate) unwritable: Option<&'a str>,
}

impl Allocation<'_> {
    /// Answers all applicants, who are given in order of precedence.
    pub(crate) fn answer(&mut self, applicants: &[Applicant<'_>]) -> Vec<Vec<Answer>> {
        let mut answers: Vec<Vec<Option<Answer>>> = applicants.iter().map(|a| self.keep(a)).collect();
        if let Some(reason) = self.unwritable {
            for (applicant, answers) in applicants.iter().zip(&mut answers) {
                self.each_open(applicant, answers, |this, applicant, want| {
                    Some(this.wait(applicant, want, reason))
                });
            }
        }
        for (applicant, answers) in applicants.iter().zip(&mut answers) {
            self.each_open(applicant, answers, Self::grant_wish);
        }
        for (applicant, answers) in applicants.iter().zip(&mut answers) {
            self.each_open(applicant, answers, |this, applicant, want| Some(this.give(applicant, want)));
        }
        answers.into_iter().map(|answers| answers.into_iter().flatten().collect()).collect()
    }

    fn each_open(
        &mut self,
        applicant: &Applicant<'_>,
        answers: &mut [Option<Answer>],
        decide: impl Fn(&mut Self, &Applicant<'_>, &Want) -> Option<Answer>,
    ) {
        for (want, answer) in applicant.demand.wants.iter().zip(answers) {
            if answer.is_none() {
                *answer = decide(self, applicant, want);
            }
        }
    }

    /// What the applicant holds already, and a refusal for what is out of range.
    fn keep(&mut self, applicant: &Applicant<'_>) -> Vec<Option<Answer>> {
        let mut answers = Vec::new();
        for want in &applicant.demand.wants {
            let answer = match &want.wish {
                Some(wish) if !self.is_in_range(want.slot, &wish.resource) => Some(Answer::Refused(
                    refusal::out_of_range(applicant, want.slot, wish, self.pool(want.slot).as_ref()),
                )),
                Some(wish) => self
                    .is_own_and_idle(applicant, &wish.resource)
                    .then_some(wish.resource)
                    .map(Answer::Granted),
                None => self.own_of_slot(applicant, want.slot).map(Answer::Granted),
            };
            if let Some(Answer::Granted(resource)) = answer {
                self.usage.in_use.insert(resource, applicant.name.clone());
            }
            answers.push(answer);
        }
        answers
    }

    fn is_own_and_idle(&self, applicant: &Applicant<'_>, resource: &Resource) -> bool {
        self.store.ledger().holder(resource) == Some(applicant.name)
            && !self.usage.in_use.contains_key(resource)
    }

    fn own_of_slot(&self, applicant: &Applicant<'_>, slot: Slot) -> Option<Resource> {
        let tenant = self.store.ledger().tenant(applicant.name)?;
        let own =
            tenant.holdings.iter().filter(|(held_for, _)| *held_for == slot).map(|(_, resource)| *resource);
        let is_wished = |resource: &Resource| {
            applicant
                .demand
                .wants
                .iter()
                .any(|w| w.wish.as_ref().is_some_and(|wish| wish.resource == *resource))
        };
        let mut usable = own.filter(|resource| {
            self.is_in_range(slot, resource)
                && !self.usage.in_use.contains_key(resource)
                && !is_wished(resource)
        });
        usable.next()
    }

    fn grant_wish(&mut self, applicant: &Applicant<'_>, want: &Want) -> Option<Answer> {
        let wish = want.wish.as_ref()?;
        let holder = self.store.ledger().holder(&wish.resource).cloned();
        let user = self.usage.in_use.get(&wish.resource).cloned();
        match (user, holder) {
            (Some(user), _) => Some(Answer::Refused(refusal::taken(applicant, wish, &user))),
            (None, Some(holder)) if !self.may_evict(&holder) => {
                let refuse = if self.store.is_dry() { refusal::reserved } else { refusal::relied_upon };
                Some(Answer::Refused(refuse(applicant, wish, &holder)))
            }
            _ => Some(self.hold(applicant, want.slot, wish.resource)),
        }
    }

    fn wait(&mut self, applicant: &Applicant<'_>, want: &Want, reason: &str) -> Answer {
        let keeps = self.own_of_slot(applicant, want.slot);
        if let Some(resource) = keeps {
            self.usage.in_use.insert(resource, applicant.name.clone());
        }
        Answer::Waiting { keeps, report: refusal::waiting(applicant, want, reason) }
    }

    fn give(&mut self, applicant: &Applicant<'_>, want: &Want) -> Answer {
        let pool = self.pool(want.slot);
        let taken = Taken { ledger: self.store.ledger(), reserved: self.reserved };
        let free = pool.as_ref().and_then(|pool| pool.choose(&seeker(applicant.name, want.slot), &taken));
        match free.or_else(|| self.longest_idle(pool.as_ref()?)) {
            Some(resource) => {
                self.note_move(applicant, want.slot, &resource);
                self.hold(applicant, want.slot, resource)
            }
            None => Answer::Refused(refusal::exhausted(applicant, want.slot, pool.as_ref())),
        }
    }

    /// Clients may still know the value that the applicant had before the ranges changed.
    fn note_move(&mut self, applicant: &Applicant<'_>, slot: Slot, new: &Resource) {
        let tenant = self.store.ledger().tenant(applicant.name);
        let held = tenant.into_iter().flat_map(|tenant| &tenant.holdings);
        let mut outside = held.filter(|(of, resource)| *of == slot && !self.is_in_range(slot, resource));
        if let Some((_, old)) = outside.next() {
            let report = refusal::moved(applicant, slot, old, new);
            self.moves.push((applicant.name.clone(), report));
        }
    }

    fn hold(&mut self, applicant: &Applicant<'_>, slot: Slot, resource: Resource) -> Answer {
        if self.store.ledger().holder(&resource).is_some() {
            self.store.note(Record::Free { resource }, self.batch);
        }
        let service = applicant.name.clone();
        self.usage.in_use.insert(resource, service.clone());
        self.store.note(Record::Hold { service, slot, resource }, self.batch);
        Answer::Granted(resource)
    }

    /// Of what nobody uses, the one whose holder is absent longest.
    fn longest_idle(&self, pool: &Pool) -> Option<Resource> {
        let ledger = self.store.ledger();
        let is_idle = |resource: &&Resource| {
            !self.usage.in_use.contains_key(resource) && !self.reserved.contains(resource)
        };
        let idle = pool.held(ledger).filter(is_idle);
        let evictable = idle.filter(|r| ledger.holder(r).is_some_and(|holder| self.may_evict(holder)));
        let absent_since = |resource: &Resource| {
            let tenant = ledger.holder(resource).and_then(|holder| ledger.tenant(holder));
            tenant.and_then(|tenant| tenant.absent_since).unwrap_or(i64::MAX)
        };
        evictable.min_by_key(|resource| (absent_since(resource), **resource)).copied()
    }

    /// May what this Service holds and we do not use be given away? We know what our own manifests use; anything else may
    /// be in use by another process. A dry run takes only what was left behind by Services that are known to be gone.
    fn may_evict(&self, holder: &ServiceName) -> bool {
        let is_gone =
            || self.store.ledger().tenant(holder).is_some_and(|tenant| tenant.absent_since.is_some());
        self.usage.known.contains(holder)
            || (self.store.is_dry() && is_gone())
            || *self.is_alone.get_or_init(|| self.store.is_alone(self.turn))
    }

    fn pool(&self, slot: Slot) -> Option<Pool> {
        match slot {
            Slot::ClusterIp(family) => self.ranges.service.get(family).map(Pool::Addresses),
            Slot::LoadBalancerIp(family) => self.ranges.load_balancer.get(family).map(Pool::Addresses),
            Slot::NodePort(protocol, _) => Some(Pool::Ports(protocol, self.ranges.node_ports.clone())),
            Slot::HealthCheck => Some(Pool::Ports(model::Protocol::Tcp, self.ranges.node_ports.clone())),
        }
    }

    fn is_in_range(&self, slot: Slot, resource: &Resource) -> bool {
        let is_in_extra = |range: &IpNet| Pool::Addresses(*range).contains(resource);
        self.pool(slot).is_some_and(|pool| pool.contains(resource))
            || (matches!(slot, Slot::ClusterIp(_)) && self.extra_ranges.iter().any(is_in_extra))
    }
}

/// Where the search for a free value begins. Protocols are left out, so that DNS tends to get one number for both.
pub(crate) fn seeker(service: &ServiceName, slot: Slot) -> String {
    match slot {
        Slot::NodePort(_, port) => format!("{service}:{port}"),
        Slot::HealthCheck => format!("{service}:health"),
        Slot::ClusterIp(_) | Slot::LoadBalancerIp(_) => service.to_string(),
    }
}
