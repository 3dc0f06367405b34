//! One connection, with a limit for everything: the size of a request, the time to send it, and the time to read the answer.

use std::convert::Infallible;
use std::net::IpAddr;
use std::pin::pin;
use std::sync::Arc;
use std::time::Duration;

use hyper::body::Incoming;
use hyper::server::conn::http1;
use hyper::service::service_fn;
use hyper::{Request, Response};
use hyper_util::rt::{TokioIo, TokioTimer};
use tokio::net::TcpStream;
use tokio::time::timeout;

use super::answer::{Answer, Asked, Page, Sent};
use super::crowd::Ticket;

/// No request is larger, nor what is kept of it.
const REQUEST_BYTES_MAX: usize = 8 << 10;
/// A client has so long for each request, counted from its connection or from the last answer: an idle one is closed then.
const ASKING: Duration = Duration::from_secs(10);
/// After so long a connection is closed when its answer is written, ...
const LIFE: Duration = Duration::from_secs(60);
/// ... and after so much longer in any case: a client that does not read its answer goes without the rest.
const LAST_ANSWER: Duration = Duration::from_secs(60);

/// Answers until the client has no more questions, or has had its time.
pub(super) async fn attend(stream: TcpStream, by: IpAddr, page: Arc<dyn Page>, ticket: Ticket) {
    let answer = |request: Request<Incoming>| {
        let busy = ticket.busy();
        let asked = Asked { path: request.uri().path(), by };
        let response = Answer::to(request.method(), &*page, &asked).into_response(busy);
        async move { Ok::<Response<Sent>, Infallible>(response) }
    };
    let connection = http1::Builder::new()
        .timer(TokioTimer::new())
        .header_read_timeout(ASKING)
        .max_buf_size(REQUEST_BYTES_MAX)
        // As Go writes them: scripts look for `X-Load-Balancing-Endpoint-Weight`.
        .title_case_headers(true)
        .serve_connection(TokioIo::new(stream), service_fn(answer));
    let mut connection = pin!(connection);
    // How a client went away is its own business.
    if timeout(LIFE, connection.as_mut()).await.is_err() {
        connection.as_mut().graceful_shutdown();
        let _ = timeout(LAST_ANSWER, connection).await;
    }
}
