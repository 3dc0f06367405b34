//! What comes in from an API server: facts, and how it stands with the server.
//!
//! Nothing is written before all Services and all slices were told, and the question for our Node was answered somehow: else
//! the first rules would be of a node without zone and addresses. The answer about ServiceCIDRs is waited for, too, but for a moment
//! only: without it the first rules after a restart would take back what depends on them, and the second would add it again. From
//! then on the picture is followed; while the server is away it stays as it was, and the status says how old it is.

use std::collections::BTreeMap;
use std::time::Duration;

use apiserver::{News, Trouble, Watched};
use model::{Event, Report};
use observe::status::{ServerStatus, ServerTrouble};

use super::Loop;
use super::effect::{Effect, Line};
use super::event::Now;
use super::figures::milliseconds;

/// What the picture is made of. ServiceCIDRs are there on newer servers alone.
const NEEDED: [Watched; 3] = [Watched::Services, Watched::EndpointSlices, Watched::Node];

/// So long ServiceCIDRs are waited for once all else is there.
const CIDRS_WAIT: Duration = Duration::from_secs(3);
/// So long what the server refuses is waited for, once all else is there: one that is only starting refuses everything for a moment.
const REFUSED_WAIT: Duration = Duration::from_secs(1);
/// Trouble that stays is told again so often.
const AGAIN: Duration = Duration::from_secs(600);
/// Trouble that comes and goes is told so often.
const COMES_AND_GOES: Duration = Duration::from_secs(60);
/// Unless it stays for so long this time.
const STAYS: Duration = Duration::from_secs(10);

/// How it stands with the API server.
#[derive(Debug)]
pub(super) struct Server {
    address: String,
    kinds: BTreeMap<Watched, Standing>,
    /// Since when all Services and slices are there.
    services_since: Option<Duration>,
    /// Since when all is there but ServiceCIDRs, of which nobody knows.
    rest_since: Option<Duration>,
}

/// What was answered to the question for all of a kind.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
enum Known {
    #[default]
    Nothing,
    /// The server says no.
    Refused,
    /// It failed when everything else was there: it is not waited for any longer.
    GivenUp,
    /// The server does not have it.
    Absent,
    /// All of it was told once.
    Complete,
}

/// How it stands with one kind.
#[derive(Debug, Default)]
struct Standing {
    known: Known,
    /// When the server last said something about it.
    heard_at: Option<Duration>,
    trouble: Option<Troubled>,
    /// The last trouble that ended.
    past: Option<Troubled>,
}

#[derive(Debug)]
struct Troubled {
    reason: String,
    since: Duration,
    retry_at: Duration,
    /// When one like it was last told.
    told_at: Duration,
    /// It was told since it began.
    is_told: bool,
}

impl Troubled {
    /// It begins now; `past` is the one before.
    fn begins(trouble: &Trouble, past: Option<&Troubled>, now: Duration) -> Self {
        let known = past.filter(|past| is_alike(&past.reason, &trouble.reason));
        let told_at = known.map(|past| past.told_at).filter(|told_at| now < *told_at + COMES_AND_GOES);
        Self {
            reason: trouble.reason.clone(),
            since: now,
            retry_at: now + trouble.retry_in,
            told_at: told_at.unwrap_or(now),
            is_told: told_at.is_none(),
        }
    }

    /// It goes on. Whether that is news.
    fn goes_on(&mut self, trouble: &Trouble, now: Duration) -> bool {
        let is_due = if self.is_told { now >= self.told_at + AGAIN } else { now >= self.since + STAYS };
        let is_news = is_due || !is_alike(&self.reason, &trouble.reason);
        (self.reason, self.retry_at) = (trouble.reason.clone(), now + trouble.retry_in);
        if is_news {
            (self.is_told, self.told_at) = (true, now);
        }
        is_news
    }
}

impl Server {
    /// One of which nothing was heard yet.
    pub(super) fn at(address: String) -> Self {
        Self { address, kinds: BTreeMap::new(), services_since: None, rest_since: None }
    }

    fn of(&mut self, of: Watched) -> &mut Standing {
        self.kinds.entry(of).or_default()
    }

    fn known(&self, of: Watched) -> Known {
        self.kinds.get(&of).map(|standing| standing.known).unwrap_or_default()
    }

    pub(super) fn is_complete(&self, of: Watched) -> bool {
        self.known(of) == Known::Complete
    }

    /// Is enough known to write rules?
    fn is_enough(&mut self, now: Now) -> bool {
        if !self.has_services() {
            return false;
        }
        let since = *self.services_since.get_or_insert(now.elapsed);
        if !(self.is_settled(Watched::Node) || self.is_refused(Watched::Node, since, now)) {
            return false;
        }
        let since = *self.rest_since.get_or_insert(now.elapsed);
        let is_over = now.elapsed >= since + CIDRS_WAIT || self.is_refused(Watched::ServiceCidrs, since, now);
        is_over || self.is_settled(Watched::ServiceCidrs)
    }

    /// When to ask again whether it is enough, where nothing comes.
    pub(super) fn waits_until(&self, now: Duration) -> Option<Duration> {
        let since = [self.services_since, self.rest_since].into_iter().flatten();
        since.flat_map(|since| [since + REFUSED_WAIT, since + CIDRS_WAIT]).filter(|at| *at > now).min()
    }

    /// Does the server refuse it, and nobody waits for it any more?
    fn is_refused(&self, of: Watched, since: Duration, now: Now) -> bool {
        self.known(of) == Known::Refused && now.elapsed >= since + REFUSED_WAIT
    }

    /// Was the question for it answered somehow?
    fn is_settled(&self, of: Watched) -> bool {
        matches!(self.known(of), Known::GivenUp | Known::Absent | Known::Complete)
    }

    fn has_services(&self) -> bool {
        self.is_complete(Watched::Services) && self.is_complete(Watched::EndpointSlices)
    }

    /// The server answers. Whether that ends some trouble that was told.
    fn answered(&mut self, of: Watched) -> bool {
        let standing = self.of(of);
        let Some(ended) = standing.trouble.take() else { return false };
        if standing.known == Known::Refused {
            standing.known = Known::Nothing;
        }
        standing.past.insert(ended).is_told
    }

    /// It does not work. Whether that is news.
    fn troubled(&mut self, trouble: &Trouble, now: Now) -> bool {
        let is_last = self.has_services();
        let standing = self.of(trouble.of);
        standing.known = match standing.known {
            answered @ (Known::Absent | Known::Complete) => answered,
            _ if is_last => Known::GivenUp,
            _ if trouble.is_refusal => Known::Refused,
            _ => Known::Nothing,
        };
        if let Some(goes_on) = &mut standing.trouble {
            return goes_on.goes_on(trouble, now.elapsed);
        }
        let begins = Troubled::begins(trouble, standing.past.as_ref(), now.elapsed);
        standing.trouble.insert(begins).is_told
    }

    /// When it last said something about the part of the picture of which it has said nothing for longest.
    pub(super) fn heard_at(&self) -> Option<Duration> {
        // `None` is the least of all.
        NEEDED.iter().map(|of| self.kinds.get(of).and_then(|standing| standing.heard_at)).min().flatten()
    }

    /// For people.
    pub(super) fn status(&self, now: Now) -> ServerStatus {
        let ago = |then: Duration| now.elapsed.saturating_sub(then).as_secs();
        let troubles = self.kinds.iter().filter_map(|(of, standing)| Some((of, standing.trouble.as_ref()?)));
        ServerStatus {
            address: self.address.clone(),
            heard_seconds_ago: self.heard_at().map(ago),
            incomplete: NEEDED
                .iter()
                .filter(|of| !self.is_complete(**of))
                .map(|of| of.plural().to_owned())
                .collect(),
            has_service_cidrs: self
                .kinds
                .get(&Watched::ServiceCidrs)
                .is_some_and(|standing| standing.known != Known::Absent),
            troubles: troubles
                .map(|(of, trouble)| {
                    let told = ServerTrouble {
                        reason: trouble.reason.clone(),
                        for_seconds: ago(trouble.since),
                        retry_in_ms: milliseconds(trouble.retry_at.saturating_sub(now.elapsed)),
                    };
                    (of.plural().to_owned(), told)
                })
                .collect(),
        }
    }
}

/// Versions, ports and times in a sentence are different each time, and tell nothing new.
fn is_alike(one: &str, other: &str) -> bool {
    let words = |text: &str| {
        text.split(|c: char| c.is_ascii_digit())
            .filter(|part| !part.is_empty())
            .map(str::to_owned)
            .collect::<Vec<_>>()
    };
    words(one) == words(other)
}

/// With what modes have to say about an object.
fn reviewed(event: Event) -> Event {
    match event {
        Event::Apply(fact) => Event::Apply(dataplane::registry::review_fact(fact)),
        other => other,
    }
}

impl Loop {
    pub(super) fn follow_server(&mut self, news: News, now: Now, effects: &mut Vec<Effect>) {
        let knew_node = self.server.as_ref().is_some_and(|server| server.is_complete(Watched::Node));
        let before = self.is_node_eligible();
        self.take_news(news, now, effects);
        if knew_node && self.is_node_eligible() != before {
            let name = self.table().node().name.clone();
            effects.push(Effect::Log(Line::NodeTakesClients { name, is_so: !before }));
        }
        self.load_from_server(now, effects);
    }

    fn take_news(&mut self, news: News, now: Now, effects: &mut Vec<Effect>) {
        match news {
            News::Changed { of, events, .. } => {
                let events: Vec<Event> = events.into_iter().map(reviewed).collect();
                // What was wrong before is told as one number.
                if self.source.is_loaded {
                    let lines = self.complaints.follow(&events, now.elapsed);
                    effects.extend(lines.into_iter().map(Effect::Log));
                }
                let delta = self.picture.take(events);
                self.remember(delta, now);
                if of == Watched::Node {
                    self.describe_node(now);
                }
                self.heard_of(of, now, effects);
            }
            News::Complete { of, unreadable } => {
                let lines = unreadable.iter().filter_map(|report| self.unusable(report, now));
                effects.extend(lines.map(Effect::Log).collect::<Vec<_>>());
                self.picture.set_unreadable(of, unreadable);
                let is_first = self.server.as_ref().is_some_and(|server| !server.is_complete(of));
                self.stands(of, |standing| standing.known = Known::Complete);
                if of == Watched::Node && is_first && self.has_no_node() {
                    effects.push(Effect::Log(Line::NoNode(self.table().node().name.clone())));
                }
                self.heard_of(of, now, effects);
            }
            News::Unreadable { of, report } => {
                effects.extend(self.unusable(&report, now).map(Effect::Log));
                self.picture.add_unreadable(of, report);
                self.heard_of(of, now, effects);
            }
            News::Absent(of) => {
                self.stands(of, |standing| standing.known = Known::Absent);
                self.heard_of(of, now, effects);
            }
            News::Answered(of) => self.answered(of, effects),
            News::Heard(of) => self.heard_of(of, now, effects),
            News::Trouble(trouble) => self.troubled(trouble, now, effects),
        }
    }

    fn unusable(&mut self, report: &Report, now: Now) -> Option<Line> {
        self.complaints.came(std::slice::from_ref(report), now.elapsed)
    }

    fn stands(&mut self, of: Watched, change: impl FnOnce(&mut Standing)) {
        if let Some(server) = &mut self.server {
            change(server.of(of));
        }
    }

    fn heard_of(&mut self, of: Watched, now: Now, effects: &mut Vec<Effect>) {
        self.stands(of, |standing| standing.heard_at = Some(now.elapsed));
        self.answered(of, effects);
    }

    /// A server that answers may still say nothing: how old the picture is does not change.
    fn answered(&mut self, of: Watched, effects: &mut Vec<Effect>) {
        if self.server.as_mut().is_some_and(|server| server.answered(of)) {
            effects.push(Effect::Log(Line::ServerAnswers { of: of.plural() }));
        }
    }

    fn troubled(&mut self, trouble: Trouble, now: Now, effects: &mut Vec<Effect>) {
        if self.server.as_mut().is_some_and(|server| server.troubled(&trouble, now)) {
            let Trouble { of, reason, retry_in, .. } = trouble;
            effects.push(Effect::Log(Line::ServerTrouble { of: of.plural(), reason, retry_in }));
        }
    }

    pub(super) fn load_from_server(&mut self, now: Now, effects: &mut Vec<Effect>) {
        if self.server.as_mut().is_some_and(|server| server.is_enough(now)) {
            self.source.can_read_all = true;
            self.loaded(effects);
        }
    }
}
