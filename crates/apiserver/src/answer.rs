//! Answers: what a status means, and a body as it comes in.

use std::time::Duration;

use http::header::RETRY_AFTER;
use http::{HeaderMap, Response, StatusCode};
use http_body_util::BodyExt as _;
use kube::client::Body;
use serde::Deserialize;
use serde::de::IgnoredAny;
use tokio::time::timeout;

use crate::door::chain;
use crate::failure::{Failure, Verb};
use crate::news::Watched;

/// A line of a watch, or the text of a refusal, may be so long: the largest object is about 1.5 MiB in the server's store.
const LINE_MAX: usize = 16 << 20;
/// A page of a list may be so long.
const PAGE_MAX: usize = 256 << 20;
/// So much of a refusal is shown.
const SHOWN: usize = 300;
/// So much is shown of what cannot be understood.
const BEGIN_SHOWN: usize = 60;

/// An object of the kind Status.
#[derive(Debug, Default, Deserialize)]
#[serde(default)]
pub(crate) struct Status {
    pub(crate) code: u16,
    pub(crate) message: String,
    details: Details,
}

#[derive(Debug, Default, Deserialize)]
#[serde(default, rename_all = "camelCase")]
struct Details {
    retry_after_seconds: Option<u64>,
}

/// A body that comes in piece by piece.
#[derive(Debug)]
pub(crate) struct Incoming {
    body: Body,
    /// It is given up when nothing came for so long.
    silence: Duration,
    buffer: Vec<u8>,
    is_over: bool,
}

/// The body of an answer that says yes, or what the server said instead.
pub(crate) async fn accepted(
    answer: Response<Body>,
    (verb, of): (Verb, Watched),
    silence: Duration,
) -> Result<Incoming, Failure> {
    let (head, body) = answer.into_parts();
    let incoming = Incoming { body, silence, buffer: Vec::new(), is_over: false };
    if head.status.is_success() {
        return Ok(incoming);
    }
    let retry_after = retry_after(&head.headers);
    Err(meaning(head.status, &incoming.status().await, retry_after, (verb, of)))
}

/// What the server says to something that was sent: code, message, and how long it wants us to wait.
pub(crate) async fn verdict(answer: Response<Body>, silence: Duration) -> (u16, String, Option<Duration>) {
    let (head, body) = answer.into_parts();
    let status = Incoming { body, silence, buffer: Vec::new(), is_over: false }.status().await;
    let wait = retry_after(&head.headers).or(status.details.retry_after_seconds);
    (head.status.as_u16(), shown(&status.message), wait.map(Duration::from_secs))
}

fn retry_after(headers: &HeaderMap) -> Option<u64> {
    headers.get(RETRY_AFTER).and_then(|value| value.to_str().ok()?.trim().parse().ok())
}

/// What a refusal means, whether it came as a status or as a line of a watch.
pub(crate) fn meaning(
    code: StatusCode,
    status: &Status,
    retry_after: Option<u64>,
    (verb, of): (Verb, Watched),
) -> Failure {
    let retry_after = retry_after.or(status.details.retry_after_seconds).map(Duration::from_secs);
    let (code, message) = (code.as_u16(), shown(&status.message));
    match code {
        401 => Failure::Unauthorized(message),
        403 => Failure::Forbidden { verb, of, message },
        404 => Failure::Absent(of),
        400 | 422 => Failure::Rejected { code, message },
        410 => Failure::Gone,
        429 => Failure::Busy { code, message, retry_after },
        _ => match too_large(&message) {
            Some((theirs, ours)) => Failure::Older { theirs, ours },
            None if retry_after.is_some() => Failure::Busy { code, message, retry_after },
            None => Failure::Refused { code, message },
        },
    }
}

/// Who asks to watch from a version that is not there yet hears 504 and this, since the server is behind:
/// `Too large resource version: 12, current: 10`.
fn too_large(message: &str) -> Option<(u64, u64)> {
    let (ours, theirs) = message.strip_prefix("Too large resource version: ")?.split_once(", current: ")?;
    Some((theirs.trim().parse().ok()?, ours.trim().parse().ok()?))
}

fn shown(text: &str) -> String {
    let text: String = text.chars().map(|c| if c.is_control() { ' ' } else { c }).take(SHOWN).collect();
    if text.trim().is_empty() { "it says nothing more".to_owned() } else { text.trim().to_owned() }
}

/// What came about this kind is not what the API says.
pub(crate) fn garbage(of: Watched, text: &[u8], error: &serde_json::Error) -> Failure {
    let begin: String = String::from_utf8_lossy(text).chars().take(BEGIN_SHOWN).collect();
    Failure::Garbage(format!(
        "its answer about {} is no Kubernetes list or watch: it begins with `{}` ({} bytes; {error})",
        of.plural(),
        begin.escape_debug(),
        text.len()
    ))
}

impl Incoming {
    /// The whole body.
    pub(crate) async fn page(self) -> Result<Vec<u8>, Failure> {
        self.all(PAGE_MAX).await
    }

    /// The object of the kind Status that it should be; if not, its text is the message.
    async fn status(self) -> Status {
        let text = self.all(LINE_MAX).await.unwrap_or_default();
        serde_json::from_slice(&text).unwrap_or_else(|_| Status {
            message: shown(&String::from_utf8_lossy(&text)),
            ..Status::default()
        })
    }

    async fn all(mut self, longest: usize) -> Result<Vec<u8>, Failure> {
        while !self.is_over {
            self.more(longest).await?;
        }
        Ok(self.buffer)
    }

    /// The next complete lines. `None` when the body is over.
    pub(crate) async fn lines(&mut self) -> Result<Option<Vec<u8>>, Failure> {
        loop {
            if let Some(end) = self.buffer.iter().rposition(|byte| *byte == b'\n') {
                let rest = self.buffer.split_off(end + 1);
                return Ok(Some(std::mem::replace(&mut self.buffer, rest)));
            }
            if self.is_over {
                return self.ended();
            }
            self.more(LINE_MAX).await?;
        }
    }

    /// Is nothing begun that has no end yet?
    pub(crate) fn is_between_lines(&self) -> bool {
        self.buffer.is_empty()
    }

    /// Does nothing come for so long? What comes is kept.
    pub(crate) async fn is_quiet(&mut self, time: Duration) -> Result<bool, Failure> {
        match timeout(time, self.more(LINE_MAX)).await {
            Ok(more) => more.map(|()| false),
            Err(_) => Ok(true),
        }
    }

    /// A last line may lack its end: if it is whole, or was no JSON from its begin, whoever reads it says so.
    fn ended(&mut self) -> Result<Option<Vec<u8>>, Failure> {
        if self.buffer.is_empty() {
            return Ok(None);
        }
        match serde_json::from_slice::<IgnoredAny>(&self.buffer) {
            Err(error) if error.is_eof() => Err(Failure::Cut("a line has no end".into())),
            _ => Ok(Some(std::mem::take(&mut self.buffer))),
        }
    }

    async fn more(&mut self, longest: usize) -> Result<(), Failure> {
        match timeout(self.silence, self.body.frame()).await {
            Err(_) => return Err(Failure::Silent(self.silence)),
            Ok(None) => self.is_over = true,
            Ok(Some(Err(error))) => return Err(Failure::Cut(chain(&error))),
            Ok(Some(Ok(frame))) => {
                if let Some(bytes) = frame.data_ref() {
                    self.buffer.extend_from_slice(bytes);
                }
            }
        }
        if self.buffer.len() > longest {
            return Err(Failure::Garbage(format!(
                "an object or a page is longer than {} MiB",
                longest >> 20
            )));
        }
        Ok(())
    }
}
