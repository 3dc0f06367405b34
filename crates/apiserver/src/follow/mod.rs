//! Follows one kind: lists it, watches it, and begins anew wherever that breaks.
//!
//! | file | what it is for |
//! |---|---|
//! | this one | what is asked next, and where news go |
//! | `list` | lists, in pages or as a stream |
//! | `watch` | lines of a watch |
//! | `recover` | what follows from a failure |

mod list;
mod recover;
mod watch;

use std::cell::RefCell;
use std::convert::Infallible;
use std::time::Instant;

use model::Event;
use model::rate::BackOff;
use tokio::sync::watch::Receiver;

use crate::answer::{Incoming, accepted};
use crate::door::Door;
use crate::failure::{Failure, Verb};
use crate::known::Known;
use crate::news::News;
use crate::pace::Pace;
use crate::request::Wish;
use recover::Refusals;

/// Where news go. It says whether anybody still listens.
pub(crate) type Teller<'t> = RefCell<&'t mut dyn FnMut(News) -> bool>;

/// Why a round ended.
#[derive(Debug)]
pub(crate) enum Stop {
    /// Nobody listens any more.
    Unheard,
    /// It did not work.
    Failed(Failure),
}

impl From<Failure> for Stop {
    fn from(failure: Failure) -> Self {
        Stop::Failed(failure)
    }
}

/// How it stands with the way to the server.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Way {
    Found,
    /// It failed, and was not found since.
    Lost,
    /// And a wait of this row of failures ended because another follower had found it.
    LostThoughWoken,
}

/// Follows one kind.
pub(crate) struct Follower<'a, 't> {
    pub(crate) wish: Wish,
    pub(crate) door: &'a Door,
    pub(crate) tell: &'a Teller<'t>,
    pub(crate) pace: Pace,
    known: Known,
    /// From where to watch; `None` when everything is to be listed.
    at: Option<String>,
    /// The server offers streaming lists, as far as we know.
    streams: bool,
    back_off: BackOff,
    /// Waits after 410 are a row of their own: however long the server was away before, one that says this is there.
    gone_back_off: BackOff,
    /// Under how many names in a row it was not there.
    absent: u32,
    /// Since when it watches without failure.
    watches_since: Option<Instant>,
    /// How many watches in a row said nothing at all.
    silent: u32,
    /// Since when the server has only an older picture than ours.
    older_since: Option<Instant>,
    /// The number of the client that did the last request.
    client: u64,
    /// Something was understood since the last failure.
    went_well: bool,
    /// When the waits last began anew for that.
    begun_anew_at: Option<Instant>,
    refusals: Refusals,
    way: Way,
    /// When something was last understood, or we began.
    heard_at: Instant,
    /// Tells that another follower, for whom the server was away, has found it again.
    findings: Receiver<u64>,
}

impl<'a, 't> Follower<'a, 't> {
    pub(crate) fn new(wish: Wish, door: &'a Door, tell: &'a Teller<'t>, pace: Pace) -> Self {
        let known = Known::new(wish.of);
        Self {
            wish,
            door,
            tell,
            pace,
            known,
            at: None,
            streams: true,
            back_off: pace.back_off(),
            gone_back_off: pace.back_off(),
            absent: 0,
            watches_since: None,
            silent: 0,
            older_since: None,
            client: 0,
            went_well: false,
            begun_anew_at: None,
            refusals: Refusals::default(),
            way: Way::Found,
            heard_at: Instant::now(),
            findings: door.findings(),
        }
    }

    /// Follows until nobody listens any more.
    pub(crate) async fn run(mut self) -> Result<Infallible, Stop> {
        loop {
            match self.round().await {
                Ok(()) => {}
                Err(Stop::Failed(failure)) => self.recover(failure).await?,
                Err(Stop::Unheard) => return Err(Stop::Unheard),
            }
        }
    }

    /// One request, or one list of pages, to its end.
    async fn round(&mut self) -> Result<(), Stop> {
        match self.at.clone() {
            Some(at) => {
                if self.way != Way::Found {
                    self.refuse_an_older_server().await?;
                }
                let mut lines = self.ask(Verb::Watch, &self.wish.watch(&at)).await?;
                let begun = Instant::now();
                // Garbage comes at once, and a server that has nothing to say says nothing.
                if lines.is_quiet(self.pace.at_once).await? {
                    self.found();
                    self.say(News::Answered(self.wish.of))?;
                }
                self.follow(lines, begun).await
            }
            None if self.streams => {
                let mut lines = self.ask(Verb::Watch, &self.wish.streaming_list()).await?;
                self.list_by_stream(&mut lines).await?;
                self.follow(lines, Instant::now()).await
            }
            None => self.list_by_pages().await,
        }
    }

    async fn ask(&mut self, verb: Verb, path: &str) -> Result<Incoming, Failure> {
        self.findings.mark_unchanged();
        let (client, answer) = self.door.get(path).await;
        self.client = client;
        accepted(answer?, (verb, self.wish.of), self.pace.silence).await
    }

    /// Something that the server said was understood.
    fn understood(&mut self) {
        (self.went_well, self.heard_at) = (true, Instant::now());
    }

    /// The server is there, since a list came to its end or a watch was not cut at once: whoever waits for it hears of that, if it was
    /// not there before.
    fn found(&mut self) {
        self.refusals = Refusals::default();
        if std::mem::replace(&mut self.way, Way::Found) != Way::Found {
            self.door.has_found_it();
        }
    }

    fn say_changed(&mut self, events: Vec<Event>) -> Result<(), Stop> {
        let (of, triggers) = (self.wish.of, self.known.take_triggers());
        if events.is_empty() { Ok(()) } else { self.say(News::Changed { of, events, triggers }) }
    }

    fn say(&self, news: News) -> Result<(), Stop> {
        if (self.tell.borrow_mut())(news) { Ok(()) } else { Err(Stop::Unheard) }
    }
}

fn nonempty(text: &[u8]) -> impl Iterator<Item = &[u8]> {
    text.split(|byte| *byte == b'\n').filter(|line| !line.is_empty())
}
