//! The way to the server, shared by all followers, and made anew when it leads nowhere.

use std::time::{Duration, Instant};

use http::Method;
use http::header::{ACCEPT, CONTENT_TYPE};
use jiff::Timestamp;
use kube::Client;
use kube::client::Body;
use tokio::sync::{Mutex, watch};
use tokio::time::timeout;

use crate::access::Access;
use crate::failure::Failure;
use crate::plugin;
use crate::tls;
use crate::wording::of_connection;

/// An account that could not be used is not tried again for so long: whoever waited for that try, or comes right after it, hears its outcome.
/// It may be a program that takes its time, and every kind asks.
const FAILURE_SHARED: Duration = Duration::from_secs(1);

/// The way to the server.
#[derive(Debug)]
pub(crate) struct Door {
    access: Access,
    patience: Duration,
    made: Mutex<Made>,
    /// How often somebody for whom the server was away has found it again.
    found: watch::Sender<u64>,
}

#[derive(Default)]
struct Made {
    client: Option<Client>,
    /// What it shows the server is good until then.
    until: Option<Timestamp>,
    /// The URL that it leads to.
    server: String,
    /// How many there were.
    count: u64,
    /// When and why the last one could not be made.
    failed: Option<(Instant, Failure)>,
}

impl std::fmt::Debug for Made {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "client {}", self.count)
    }
}

impl Door {
    pub(crate) fn new(access: Access, patience: Duration) -> Self {
        Self { access, patience, made: Mutex::default(), found: watch::Sender::default() }
    }

    /// The server was away, and answers again: whoever waits may try at once.
    pub(crate) fn has_found_it(&self) {
        self.found.send_modify(|count| *count += 1);
    }

    /// Hears of that.
    pub(crate) fn findings(&self) -> watch::Receiver<u64> {
        self.found.subscribe()
    }

    /// Asks for a path.
    pub(crate) async fn get(&self, path: &str) -> (u64, Result<http::Response<Body>, Failure>) {
        self.send(Method::GET, path, None).await
    }

    /// Sends a request, with a body and what that is, and waits until its answer begins. With it comes the number of the client that
    /// did it.
    pub(crate) async fn send(
        &self,
        method: Method,
        path: &str,
        body: Option<(&str, String)>,
    ) -> (u64, Result<http::Response<Body>, Failure>) {
        let (number, client, server) = match self.client().await {
            (number, Ok((client, server))) => (number, client, server),
            (number, Err(failure)) => return (number, Err(failure)),
        };
        let request = http::Request::builder().method(method).uri(path).header(ACCEPT, "application/json");
        let request = match body {
            None => request.body(Body::empty()),
            Some((kind, body)) => request.header(CONTENT_TYPE, kind).body(Body::from(body.into_bytes())),
        };
        let request = match request {
            Ok(request) => request,
            Err(error) => return (number, Err(Failure::Access(format!("cannot ask for `{path}`: {error}")))),
        };
        let answer = match timeout(self.patience, client.send(request)).await {
            Ok(answer) => answer.map_err(|error| self.unreachable(server, &error)),
            Err(_) => Err(Failure::Silent(self.patience)),
        };
        (number, answer)
    }

    async fn client(&self) -> (u64, Result<(Client, String), Failure>) {
        let mut made = self.made.lock().await;
        let is_good = made.until.is_none_or(|until| Timestamp::now() < until);
        if let Some(client) = made.client.as_ref().filter(|_| is_good) {
            return (made.count, Ok((client.clone(), made.server.clone())));
        }
        if let Some((_, failure)) = made.failed.as_ref().filter(|(at, _)| at.elapsed() < FAILURE_SHARED) {
            return (made.count, Err(failure.clone()));
        }
        let count = made.count + 1;
        match self.make().await {
            Ok((client, server, until)) => {
                let answer = (client.clone(), server.clone());
                *made = Made { client: Some(client), until, server, count, failed: None };
                (count, Ok(answer))
            }
            Err(failure) => {
                let failed = Some((Instant::now(), failure.clone()));
                *made = Made { count, failed, ..Made::default() };
                (count, Err(failure))
            }
        }
    }

    /// An account may be a program that is run: it is given time, but not for ever.
    async fn make(&self) -> Result<(Client, String, Option<Timestamp>), Failure> {
        let unusable =
            |error: &dyn std::fmt::Display| Failure::Access(format!("our account cannot be used: {error}"));
        let (mut config, patience) = (self.access.config().await?, self.patience);
        let running =
            tokio::task::spawn_blocking(move || plugin::run(&mut config, patience).map(|at| (config, at)));
        let (config, until) = running.await.map_err(|error| unusable(&error))??;
        let server = config.cluster_url.to_string();
        // A client makes its tasks where it is made.
        let client = tls::client(config)
            .map_err(|error| unusable(&of_connection(chain(&*error), &self.access.trusted())))?;
        Ok((client, server, until))
    }

    /// The next request goes a new way, unless another follower has seen to that already.
    pub(crate) async fn renew(&self, number: u64) {
        let mut made = self.made.lock().await;
        if made.count == number {
            made.client = None;
        }
    }

    /// An account is read while a request is made ready, too.
    fn unreachable(&self, server: String, error: &kube::Error) -> Failure {
        match error {
            kube::Error::Auth(error) => {
                Failure::Access(format!("our account cannot be used: {}", chain(error)))
            }
            other => {
                Failure::Unreachable { server, reason: of_connection(chain(other), &self.access.trusted()) }
            }
        }
    }
}

/// An error with what caused it, each said once.
pub(crate) fn chain(error: &dyn std::error::Error) -> String {
    let mut said = error.to_string();
    let mut source = error.source();
    while let Some(cause) = source {
        let text = cause.to_string();
        // Libraries explain themselves to programmers.
        let text = text.split(": https://docs.rs").next().unwrap_or_default();
        if !said.contains(text) {
            said = format!("{said}: {text}");
        }
        source = cause.source();
    }
    said
}
