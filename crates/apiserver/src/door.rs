//! The way to the server, shared by all followers, and made anew when it leads nowhere.

use std::time::Duration;

use kube::Client;
use kube::client::Body;
use tokio::sync::Mutex;
use tokio::time::timeout;

use crate::access::Access;
use crate::failure::Failure;

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

    /// Sends a request and waits until its answer begins. With it comes the number of the client that did it.
    pub(crate) async fn get(&self, path: &str) -> (u64, Result<http::Response<Body>, Failure>) {
        let (number, client) = match self.client().await {
            (number, Ok(client)) => (number, client),
            (number, Err(failure)) => return (number, Err(failure)),
        };
        let request = match http::Request::get(path)
            .header(http::header::ACCEPT, "application/json")
            .body(Body::empty())
        {
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
        if let Some(client) = &made.client {
            return (made.count, Ok(client.clone()));
        }
        made.count += 1;
        let client = self.make().await;
        made.client = client.as_ref().ok().cloned();
        (made.count, client)
    }

    /// An account may be a program that is run; it is given time, but not for ever.
    async fn make(&self) -> Result<Client, Failure> {
        let config = self.access.config().await?;
        let making = tokio::task::spawn_blocking(move || Client::try_from(config));
        match timeout(self.patience, making).await {
            Ok(Ok(Ok(client))) => Ok(client),
            Ok(Ok(Err(error))) => {
                Err(Failure::Access(format!("our account cannot be used: {}", chain(&error))))
            }
            Ok(Err(error)) => Err(Failure::Access(format!("our account cannot be used: {error}"))),
            Err(_) => Err(Failure::Access(format!(
                "our account cannot be used: what makes it has not ended after {} s",
                self.patience.as_secs()
            ))),
        }
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
