//! What is answered, as HTTP.

use std::convert::Infallible;
use std::net::IpAddr;
use std::pin::Pin;
use std::task::{Context, Poll};

use hyper::body::{Body, Bytes, Frame, SizeHint};
use hyper::header::{self, HeaderName, HeaderValue};
use hyper::{Method, Response, StatusCode};
use tokio::sync::mpsc::Receiver;

use super::crowd::Busy;

/// Who asks, and for what.
#[derive(Debug)]
pub(super) struct Asked<'a> {
    pub(super) path: &'a str,
    pub(super) by: IpAddr,
}

/// Somebody who answers.
pub(super) trait Page: Send + Sync {
    fn answer(&self, asked: &Asked<'_>) -> Answer;
}

/// An answer.
#[derive(Debug)]
pub(super) struct Answer {
    pub(super) status: StatusCode,
    pub(super) content_type: &'static str,
    pub(super) headers: Vec<(HeaderName, String)>,
    pub(super) content: Content,
}

/// Its body.
#[derive(Debug)]
pub(super) enum Content {
    Whole(String),
    /// Piece by piece, as they come.
    Pieces(Receiver<Bytes>),
}

pub(super) const JSON: &str = "application/json";
const TEXT: &str = "text/plain; charset=utf-8";

impl Answer {
    pub(super) fn new(status: StatusCode, content_type: &'static str, text: String) -> Self {
        Self { status, content_type, headers: Vec::new(), content: Content::Whole(text) }
    }

    pub(super) fn text(text: impl Into<String>) -> Self {
        Self::new(StatusCode::OK, TEXT, text.into())
    }

    pub(super) fn refusal(status: StatusCode, sentence: impl Into<String>) -> Self {
        Self::new(status, TEXT, format!("{}\n", sentence.into()))
    }

    pub(super) fn not_found(known: &[&str]) -> Self {
        Self::refusal(StatusCode::NOT_FOUND, format!("404: there is nothing here; try {}", known.join(", ")))
    }

    /// Nothing can be changed here, so only reading means something.
    pub(super) fn to(method: &Method, page: &dyn Page, asked: &Asked<'_>) -> Self {
        if matches!(*method, Method::GET | Method::HEAD) {
            return page.answer(asked);
        }
        let mut refusal =
            Self::refusal(StatusCode::METHOD_NOT_ALLOWED, "405: only GET and HEAD mean something here");
        refusal.headers.push((header::ALLOW, "GET, HEAD".to_owned()));
        refusal
    }

    /// The same for hyper. The connection is busy until all of it is written.
    pub(super) fn into_response(self, busy: Busy) -> Response<Sent> {
        let mut response = Response::new(Sent { content: self.content, _busy: busy });
        *response.status_mut() = self.status;
        let headers = response.headers_mut();
        headers.insert(header::CONTENT_TYPE, HeaderValue::from_static(self.content_type));
        headers.insert(header::X_CONTENT_TYPE_OPTIONS, HeaderValue::from_static("nosniff"));
        for (name, value) in self.headers {
            // All values are words of ours, and none of them has a line's end.
            headers.extend(HeaderValue::try_from(value).ok().map(|value| (Some(name), value)));
        }
        response
    }
}

/// A body on its way.
#[derive(Debug)]
pub(super) struct Sent {
    content: Content,
    _busy: Busy,
}

impl Body for Sent {
    type Data = Bytes;
    type Error = Infallible;

    fn poll_frame(
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
    ) -> Poll<Option<Result<Frame<Bytes>, Infallible>>> {
        match &mut self.content {
            Content::Whole(text) if text.is_empty() => Poll::Ready(None),
            Content::Whole(text) => Poll::Ready(Some(Ok(Frame::data(std::mem::take(text).into())))),
            Content::Pieces(pieces) => {
                pieces.poll_recv(context).map(|piece| piece.map(|piece| Ok(Frame::data(piece))))
            }
        }
    }

    fn size_hint(&self) -> SizeHint {
        match &self.content {
            Content::Whole(text) => SizeHint::with_exact(text.len() as u64),
            Content::Pieces(_) => SizeHint::default(),
        }
    }
}
