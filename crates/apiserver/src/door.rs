//! The way to the server, shared by all followers, and made anew when it leads nowhere.

use std::time::Duration;

use http::Method;
use http::header::{ACCEPT, CONTENT_TYPE};
use jiff::Timestamp;
use kube::Client;
use kube::client::Body;
use tokio::sync::Mutex;
use tokio::time::timeout;

use crate::access::Access;
use crate::failure::Failure;
use crate::plugin;

/// The way to the server.
#[derive(Debug)]
pub(crate) struct Door {
    access: Access,
    patience: Duration,
    made: Mutex<Made>,
}

#[derive(Default)]
struct Made {
    client: Option<Client>,
    /// What it shows the server is good until then.
    until: Option<Timestamp>,
    /// How many there were.
    count: u64,
}

impl std::fmt::Debug for Made {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "client {}", self.count)
    }
}

impl Door {
    pub(crate) fn new(access: Access, patience: Duration) -> Self {
        Self { access, patience, made: Mutex::default() }
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
        let (number, client) = match self.client().await {
            (number, Ok(client)) => (number, client),
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
            Ok(answer) => answer.map_err(|error| unreachable(&error)),
            Err(_) => Err(Failure::Silent(self.patience)),
        };
        (number, answer)
    }

    async fn client(&self) -> (u64, Result<Client, Failure>) {
        let mut made = self.made.lock().await;
        let is_good = made.until.is_none_or(|until| Timestamp::now() < until);
        if let Some(client) = made.client.as_ref().filter(|_| is_good) {
            return (made.count, Ok(client.clone()));
        }
        made.count += 1;
        let (client, until) = match self.make().await {
            Ok((client, until)) => (Ok(client), until),
            Err(failure) => (Err(failure), None),
        };
        (made.client, made.until) = (client.as_ref().ok().cloned(), until);
        (made.count, client)
    }

    /// An account may be a program that is run: it is given time, but not for ever.
    async fn make(&self) -> Result<(Client, Option<Timestamp>), Failure> {
        let unusable =
            |error: &dyn std::fmt::Display| Failure::Access(format!("our account cannot be used: {error}"));
        let (mut config, patience) = (self.access.config().await?, self.patience);
        let running =
            tokio::task::spawn_blocking(move || plugin::run(&mut config, patience).map(|at| (config, at)));
        let (config, until) = running.await.map_err(|error| unusable(&error))??;
        // A client makes its tasks where it is made.
        let client = Client::try_from(config).map_err(|error| unusable(&chain(&error)))?;
        Ok((client, until))
    }

    /// The next request goes a new way, unless another follower has seen to that already.
    pub(crate) async fn renew(&self, number: u64) {
        let mut made = self.made.lock().await;
        if made.count == number {
            made.client = None;
        }
    }
}

/// An account is read while a request is made ready, too.
fn unreachable(error: &kube::Error) -> Failure {
    match error {
        kube::Error::Auth(error) => Failure::Access(format!("our account cannot be used: {}", chain(error))),
        other => Failure::Unreachable(chain(other)),
    }
}

/// An error with what caused it, each said once.
pub(crate) fn chain(error: &dyn std::error::Error) -> String {
    let mut said = error.to_string();
    let mut source = error.source();
    while let Some(cause) = source {
        let text = cause.to_string();
        if !said.contains(&text) {
            said = format!("{said}: {text}");
        }
        source = cause.source();
    }
    said
}
