//! What can go wrong with a request, and the sentence for it.

use std::time::Duration;

use crate::news::Watched;

/// What a request wants to do.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Verb {
    List,
    Watch,
}

impl Verb {
    pub(crate) fn word(self) -> &'static str {
        match self {
            Verb::List => "list",
            Verb::Watch => "watch",
        }
    }
}

/// Why a request failed. Every one of them is tried again.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub(crate) enum Failure {
    /// Our own account, or the way to the server, cannot be read. It is read anew at the next try.
    #[error("{0}. It is read again at every try")]
    Access(String),
    /// No connection, or not with this certificate.
    #[error("the API server {server} cannot be reached: {reason}")]
    Unreachable { server: String, reason: String },
    /// 401.
    #[error(
        "the API server does not know us (401: {0}): our token or certificate is missing, wrong or expired. It is read anew at \
         every try, so renew it where it lies"
    )]
    Unauthorized(String),
    /// 403.
    #[error(
        "the API server does not let us {} {} (403: {message}). Add to our ClusterRole: apiGroups: [\"{}\"], resources: [\"{}\"], \
         verbs: [\"list\", \"watch\"]",
        verb.word(), of.plural(), of.group(), of.plural()
    )]
    Forbidden { verb: Verb, of: Watched, message: String },
    /// 404: the server does not have this kind.
    #[error("the API server does not know {}", .0.plural())]
    Absent(Watched),
    /// 400 or 422: the server does not offer what we asked for.
    #[error("the API server does not accept our request ({code}: {message})")]
    Rejected { code: u16, message: String },
    /// 410: everything is to be listed anew.
    #[error("the API server no longer knows what happened since our picture (410): everything is read anew")]
    Gone,
    /// 429, or any other with `Retry-After`.
    #[error("the API server is busy ({code}: {message}){}", asks(*.retry_after))]
    Busy { code: u16, message: String, retry_after: Option<Duration> },
    /// Any other status.
    #[error("the API server failed ({code}: {message})")]
    Refused { code: u16, message: String },
    /// No answer, or no more of it, and nothing about this kind for so long.
    #[error("the API server has been silent for {:.1} s: asking again", .0.as_secs_f32())]
    Silent(Duration),
    /// The connection ended in the middle.
    #[error("the connection to the API server ended in the middle of an answer: {0}")]
    Cut(String),
    /// What came is not what the API says.
    #[error(
        "what the API server said cannot be understood: {0}. Is it an API server, or a proxy in front of it? Everything is read anew"
    )]
    Garbage(String),
    /// An older picture than ours.
    #[error(
        "the API server has only an older picture (version {theirs}) than ours ({ours}): ours stays until it has caught up. If it \
         stays so, as after a backup was restored, it is believed after a while"
    )]
    Older { theirs: u64, ours: u64 },
}

impl Failure {
    /// How long the server wants us to wait.
    pub(crate) fn retry_after(&self) -> Option<Duration> {
        match self {
            Failure::Busy { retry_after, .. } => *retry_after,
            _ => None,
        }
    }

    /// Who we are, and where the server is, may be different by now.
    pub(crate) fn is_about_access(&self) -> bool {
        matches!(self, Failure::Access(_) | Failure::Unreachable { .. } | Failure::Unauthorized(_))
    }

    /// If another kind hears from the server again, this one may, too.
    pub(crate) fn is_about_the_way(&self) -> bool {
        self.is_about_access() || matches!(self, Failure::Silent(_) | Failure::Cut(_))
    }

    /// The server has understood us, and says no.
    pub(crate) fn is_refusal(&self) -> bool {
        matches!(self, Failure::Forbidden { .. })
    }

    /// The sentence for a 401 or 403 that may pass by itself: a server that starts has not read all accounts and roles yet. `None` for any
    /// other failure.
    pub(crate) fn as_temporary(&self) -> Option<String> {
        const MAY_PASS: &str = "This is normal for a short time while it starts. We ask again";
        match self {
            Failure::Unauthorized(message) => {
                Some(format!("the API server does not know us now (401: {message}). {MAY_PASS}"))
            }
            Failure::Forbidden { verb, of, message } => Some(format!(
                "the API server does not let us {} {} now (403: {message}). {MAY_PASS}",
                verb.word(),
                of.plural()
            )),
            _ => None,
        }
    }
}

fn asks(retry_after: Option<Duration>) -> String {
    retry_after.map(|wait| format!(" and asks us to wait {} s", wait.as_secs())).unwrap_or_default()
}
