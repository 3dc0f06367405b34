//! What comes in from an API server: facts, and how it stands with the server.
//!
//! Nothing is written before all Services and all slices were told, and the question for our Node was answered somehow: else
//! the first rules would be of a node without zone and addresses. The answer about ServiceCIDRs is waited for, too, but for a moment
//! only: without it the first rules after a restart would take back what depends on them, and the second would add it again. From
//! then on the picture is followed; while the server is away it stays as it was, and the status says how old it is.

use std::collections::BTreeMap;
use std::time::Duration;

use apiserver::{News, Trouble, Watched};
use model::Report;

use super::super::effect::{Effect, Line};
use super::super::event::Now;
use super::super::status::{ServerStatus, ServerTrouble, milliseconds};
use super::Loop;

/// What the picture is made of. ServiceCIDRs are there on newer servers alone.
const NEEDED: [Watched; 3] = [Watched::Services, Watched::EndpointSlices, Watched::Node];

/// So long ServiceCIDRs are waited for once all else is there.
const CIDRS_WAIT: Duration = Duration::from_secs(3);
/// Trouble that stays is told again so often.
const AGAIN: Duration = Duration::from_secs(600);

/// How it stands with the API server.
#[derive(Debug)]
pub(super) struct Server {
    address: String,
    kinds: BTreeMap<Watched, Standing>,
    /// Since when all is there but ServiceCIDRs, of which nobody knows.
    rest_since: Option<Duration>,
}

/// How it stands with one kind.
#[derive(Debug, Default)]
struct Standing {
    /// All of it was told once.
    is_complete: bool,
    /// The server does not have it.
    is_absent: bool,
    /// The server said no, or it failed when everything else was there: it is not waited for any longer.
    is_given_up: bool,
    /// When the server last said something about it.
    heard_at: Option<Duration>,
    trouble: Option<Troubled>,
}

#[derive(Debug)]
struct Troubled {
    reason: String,
    since: Duration,
    told_at: Duration,
    retry_at: Duration,
}

impl Server {
    /// One of which nothing was heard yet.
    pub(super) fn at(address: String) -> Self {
        Self { address, kinds: BTreeMap::new(), rest_since: None }
    }

    fn of(&mut self, of: Watched) -> &mut Standing {
        self.kinds.entry(of).or_default()
    }

    fn is_complete(&self, of: Watched) -> bool {
        self.kinds.get(&of).is_some_and(|standing| standing.is_complete)
    }

    /// Is enough known to write rules?
    fn is_enough(&mut self, now: Now) -> bool {
        if !(self.has_services() && self.is_settled(Watched::Node)) {
            return false;
        }
        let since = *self.rest_since.get_or_insert(now.elapsed);
        self.is_settled(Watched::ServiceCidrs) || now.elapsed >= since + CIDRS_WAIT
    }

    /// Until when ServiceCIDRs are waited for, where nothing else is.
    pub(super) fn waits_until(&self) -> Option<Duration> {
        self.rest_since.map(|since| since + CIDRS_WAIT)
    }

    /// Was the question for it answered somehow?
    fn is_settled(&self, of: Watched) -> bool {
        let is_settled = |of: &Standing| of.is_complete || of.is_absent || of.is_given_up;
        self.kinds.get(&of).is_some_and(is_settled)
    }

    fn has_services(&self) -> bool {
        self.is_complete(Watched::Services) && self.is_complete(Watched::EndpointSlices)
    }

    /// The server answers. Whether that ends some trouble.
    fn answered(&mut self, of: Watched) -> bool {
        self.of(of).trouble.take().is_some()
    }

    /// It does not work. Whether that is news.
    fn troubled(&mut self, trouble: &Trouble, now: Now) -> bool {
        let is_last = self.has_services();
        let standing = self.of(trouble.of);
        standing.is_given_up = is_last || trouble.is_refusal;
        let before = standing.trouble.take();
        let is_news = before.as_ref().is_none_or(|before| {
            !is_alike(&before.reason, &trouble.reason) || now.elapsed >= before.told_at + AGAIN
        });
        let (since, told_at) =
            before.map_or((now.elapsed, now.elapsed), |before| (before.since, before.told_at));
        let told_at = if is_news { now.elapsed } else { told_at };
        let retry_at = now.elapsed + trouble.retry_in;
        standing.trouble = Some(Troubled { reason: trouble.reason.clone(), since, told_at, retry_at });
        is_news
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
                .is_some_and(|standing| !standing.is_absent),
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
                self.stands(of, |standing| standing.is_complete = true);
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
                self.stands(of, |standing| standing.is_absent = true);
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
