//! What is left of a request's body when the answer is there before the body was read: no such path, too
//! large, too many calls.
//!
//! A caller may still be sending then. Were its connection closed at once, or its stream reset with an error,
//! it could lose the answer, or its next call. So the rest is read beside the answer and thrown away, up to a
//! size and for a time. Where the rest is too large for that, an HTTP/1.1 answer says that the connection
//! closes, and over HTTP/2 the stream ends by a reset with `NO_ERROR`, as dropping the body does.

use std::task::Poll;
use std::time::Duration;

use bytes::Bytes;
use futures::poll;
use http::Version;
use http::header::{EXPECT, HeaderValue};
use http::request::Parts;
use http_body_util::BodyExt;
use hyper::body::{Body, Frame};
use tokio::time::timeout;

/// An HTTP/1.1 connection continues behind a rest up to this size.
const SMALL: u64 = 256 * 1024;
/// So many bytes are read at most.
const LIMIT: u64 = 16 << 20;
const CLOSE: HeaderValue = HeaderValue::from_static("close");
/// Time for the caller to send them.
const TIMEOUT: Duration = Duration::from_secs(5);

/// Sees to the rest of `body`, the request `head` of which is answered now. Gives the header `Connection` that
/// the answer needs.
pub(crate) async fn discard<B>(mut body: B, head: &Parts) -> Option<HeaderValue>
where
    B: Body<Data = Bytes> + Unpin + Send + 'static,
{
    let keeps = |body: &B| {
        head.version >= Version::HTTP_2 || body.size_hint().upper().is_some_and(|rest| rest <= SMALL)
    };
    if !keeps(&body) && head.headers.contains_key(EXPECT) {
        // Reading would invite the caller to send what it asks about.
        return Some(CLOSE);
    }
    let mut bytes = 0;
    while bytes <= SMALL && !body.is_end_stream() {
        match poll!(body.frame()) {
            Poll::Ready(Some(Ok(frame))) => bytes += length(&frame),
            Poll::Ready(_) => return None,
            Poll::Pending => break,
        }
    }
    if body.is_end_stream() {
        return None;
    }
    let connection = (!keeps(&body)).then_some(CLOSE);
    tokio::spawn(timeout(TIMEOUT, async move {
        while bytes <= LIMIT
            && let Some(Ok(frame)) = body.frame().await
        {
            bytes += length(&frame);
        }
    }));
    connection
}

fn length(frame: &Frame<Bytes>) -> u64 {
    frame.data_ref().map_or(0, |data| data.len() as u64)
}
