//! Sends letters, or gives up: Events are worth a few tries, and no more.

use std::io;
use std::time::{Duration, Instant};

use http::Method;
use jiff::Timestamp;
use serde_json::Value;
use tokio::time::{sleep, timeout};

use super::ledger::{Ledger, Moment};
use super::letter::Letter;
use super::{Announcement, Sending};
use crate::answer::verdict;
use crate::door::Door;
use crate::failure::Failure;
use crate::pace::spread;
use crate::run::Settings;

/// So often a letter is tried, once the server was there: before, there is nobody who could have heard what we have to say first.
const TRIES: usize = 8;
/// So often a letter is refused before that is believed: a server that is only starting knows nobody's permissions yet.
const REFUSALS: usize = 4;
/// A server that asks for a longer wait than this is not worth waiting for.
const WAIT_MAX: Duration = Duration::from_secs(60);

/// What became of a letter.
#[derive(Debug, PartialEq, Eq)]
enum Fate {
    /// The server has it.
    Taken,
    /// The Event that it is about is no longer there.
    Gone,
    /// It will never be taken, for this reason.
    Refused(String),
    /// It may be taken later.
    Later(Failure),
}

impl Sending {
    /// Sends what is said, until nobody can say anything any more. `tell` is told what a person should know, each thing once.
    pub fn serve(mut self, tell: &mut dyn FnMut(&str)) -> io::Result<()> {
        let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build()?;
        runtime.block_on(self.send_all(tell));
        runtime.shutdown_background();
        Ok(())
    }

    async fn send_all(&mut self, tell: &mut dyn FnMut(&str)) {
        let begun = Instant::now();
        let now = || Moment { elapsed: begun.elapsed(), wall: Timestamp::now() };
        let mut post = Post::new(&self.settings, tell);
        let mut ledger = Ledger::default();
        loop {
            let wait = ledger.next().map_or(Duration::MAX, |at| at.saturating_sub(begun.elapsed()));
            let letters = match timeout(wait, self.queue.recv()).await {
                Ok(None) => return,
                Ok(Some(said)) => ledger.said(said, now()).into_iter().collect(),
                Err(_) => ledger.due(begun.elapsed()),
            };
            if ledger.begins_to_leave_out() {
                post.tell("there are too many different Events: some of them are not sent");
            }
            for letter in letters {
                if !post.deliver(&letter).await {
                    ledger.lost(&letter);
                }
            }
        }
    }
}

/// Says one thing before the process ends. It is tried once, for so long at most; whether the server took it.
pub fn announce_now(settings: &Settings, said: Announcement, patience: Duration) -> bool {
    let Ok(runtime) = tokio::runtime::Builder::new_current_thread().enable_all().build() else {
        return false;
    };
    let mut silent = |_: &str| {};
    let post = Post::new(settings, &mut silent);
    let stamp = Timestamp::now();
    let letter = Letter { said, stamp: stamp.as_nanosecond(), first: stamp, series: None };
    let fate = runtime.block_on(async { timeout(patience, post.post(&letter)).await });
    runtime.shutdown_background();
    matches!(fate, Ok(Fate::Taken))
}

/// The way to the server, and what was told of it.
struct Post<'a> {
    settings: &'a Settings,
    door: Door,
    tell: &'a mut dyn FnMut(&str),
    told: Option<String>,
    /// The server has taken a letter, or refused one for good.
    was_there: bool,
    /// A refusal was believed, and nothing was taken since.
    is_refused: bool,
}

impl<'a> Post<'a> {
    fn new(settings: &'a Settings, tell: &'a mut dyn FnMut(&str)) -> Self {
        let door = Door::new(settings.access.clone(), settings.pace.answer);
        Self { settings, door, tell, told: None, was_there: false, is_refused: false }
    }

    /// Whether the server has it.
    async fn deliver(&mut self, letter: &Letter) -> bool {
        let mut back_off = self.settings.pace.back_off();
        let (mut tries, mut refusals) = (0, 0);
        while tries < TRIES {
            let retry_after = match self.try_to_deliver(letter).await {
                Fate::Taken => {
                    (self.told, self.was_there, self.is_refused) = (None, true, false);
                    return true;
                }
                Fate::Gone => return false,
                Fate::Refused(_) if !self.is_refused && refusals + 1 < REFUSALS => {
                    refusals += 1;
                    None
                }
                Fate::Refused(reason) => {
                    (self.was_there, self.is_refused) = (true, true);
                    self.tell(&format!("Events are not sent: {reason}"));
                    return false;
                }
                // That the server is away is told by those who need it more.
                Fate::Later(failure) => {
                    tries += usize::from(self.was_there);
                    failure.retry_after()
                }
            };
            sleep(spread(back_off.failed(), retry_after).min(WAIT_MAX)).await;
        }
        false
    }

    /// An Event that is gone, as they are after an hour, is made anew.
    async fn try_to_deliver(&self, letter: &Letter) -> Fate {
        let Some(patch) = letter.patch() else { return self.post(letter).await };
        match self.patch(letter, &patch).await {
            Fate::Gone => self.post(letter).await,
            other => other,
        }
    }

    async fn post(&self, letter: &Letter) -> Fate {
        let event = letter.event(&self.settings.node_name);
        self.ask(Method::POST, &letter.path(), "application/json", &event).await
    }

    async fn patch(&self, letter: &Letter, patch: &Value) -> Fate {
        let place = letter.own_path(&self.settings.node_name);
        self.ask(Method::PATCH, &place, "application/merge-patch+json", patch).await
    }

    async fn ask(&self, method: Method, path: &str, content: &str, body: &Value) -> Fate {
        let (client, answer) = self.door.send(method, path, Some((content, body.to_string()))).await;
        let failure = match answer {
            Ok(answer) => match verdict(answer, self.settings.pace.answer).await {
                (200..=299 | 409, ..) => return Fate::Taken,
                (404, ..) => return Fate::Gone,
                (403, message, _) => return Fate::Refused(forbidden(&message)),
                (401, message, _) => Failure::Unauthorized(message),
                (code @ (429 | 500..), message, retry_after) => Failure::Busy { code, message, retry_after },
                (code, message, _) => return Fate::Refused(format!("the API server says {code}: {message}")),
            },
            Err(failure) => failure,
        };
        if failure.is_about_access() {
            self.door.renew(client).await;
        }
        Fate::Later(failure)
    }

    /// The same is told once, until an Event was taken.
    fn tell(&mut self, sentence: &str) {
        if self.told.as_deref() != Some(sentence) {
            (self.tell)(sentence);
            self.told = Some(sentence.to_owned());
        }
    }
}

/// One sentence for all of them: the server's own names the namespace, and would be another one each time.
fn forbidden(message: &str) -> String {
    if message.contains("because it is being terminated") {
        return "a namespace is being removed, and takes none".to_owned();
    }
    "the API server does not let us (403). Add to our ClusterRole: apiGroups: [\"events.k8s.io\"], resources: [\"events\"], \
     verbs: [\"create\", \"patch\"]. Everything else goes on"
        .to_owned()
}
