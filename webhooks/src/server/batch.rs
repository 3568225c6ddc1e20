//! What came together over an HTTP/2 connection is answered together.
//!
//! A busy caller has many calls in progress on one connection. A task for each and a write for each answer
//! would cost more than most answers. So the connection's own task gives the answers that it can give at
//! once, and sends them when there is nothing more to read. A call that has to wait, for the rest of its
//! body or for the cluster, gets a task of its own. So does every call with a large body: it does not fit the
//! window of its stream, and so is never there at once.
//!
//! ```text
//!   .-> read --> call --answered at once--> answer kept --nothing more to read--> sent
//!   |             |                              ^
//!   |             '--has to wait--> own task ----'
//!   '--new calls--'
//! ```
//!
//! A connection holds back at most what it answers in one round, and no more than [`FULL`] bytes of it.

use std::future::{Future, poll_fn};
use std::io::{self, IoSlice};
use std::mem;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::pin::Pin;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::task::{Context, Poll, ready};
use std::time::Duration;

use hyper::rt::Executor;
use tokio::io::{AsyncRead, AsyncWrite, ReadBuf};
use tokio::time::timeout;
use tracing::error;

/// Bytes of answers that are sent without waiting for more: two of the largest TLS records.
const FULL: usize = 32 * 1024;

/// Drives `connection`, whose calls are `calls` and whose stream is `stream`, to its end.
///
/// # Errors
/// Answers could not be sent.
pub(super) async fn drive<C, I>(
    mut connection: Pin<&mut C>,
    calls: &Calls,
    stream: &Held<I>,
) -> io::Result<C::Output>
where
    C: Future,
    I: AsyncWrite + Unpin,
{
    poll_fn(|context| {
        loop {
            let end = connection.as_mut().poll(context);
            let any = calls.start(context);
            match end {
                Poll::Ready(end) => return Poll::Ready(Ok(end)),
                Poll::Pending if any => {}
                Poll::Pending => {
                    return match stream.lock().poll_send(context) {
                        Poll::Ready(Err(error)) => Poll::Ready(Err(error)),
                        Poll::Ready(Ok(())) | Poll::Pending => Poll::Pending,
                    };
                }
            }
        }
    })
    .await
}

type Call = Pin<Box<dyn Future<Output = ()> + Send>>;

/// The new calls of a connection.
#[derive(Clone)]
pub(super) struct Calls {
    new: Arc<Mutex<Vec<Call>>>,
    /// Time for one of them, its answer taken by the caller.
    limit: Duration,
}

impl<F: Future<Output = ()> + Send + 'static> Executor<F> for Calls {
    fn execute(&self, call: F) {
        self.lock().push(Box::pin(call));
    }
}

impl Calls {
    pub(super) fn new(limit: Duration) -> Self {
        Self { new: Arc::default(), limit }
    }

    fn lock(&self) -> MutexGuard<'_, Vec<Call>> {
        self.new.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Starts the new calls; false where there are none.
    fn start(&self, context: &mut Context<'_>) -> bool {
        let calls = mem::take(&mut *self.lock());
        let any = !calls.is_empty();
        for mut call in calls {
            // What a call breaks is its own: dropped, it resets its stream and no other.
            match catch_unwind(AssertUnwindSafe(|| call.as_mut().poll(context))) {
                Ok(Poll::Ready(())) => {}
                // Given up, it resets its stream.
                Ok(Poll::Pending) => drop(tokio::spawn(timeout(self.limit, call))),
                Err(_) => error!("a call panicked; its stream is reset"),
            }
        }
        any
    }
}

/// A stream that keeps what is written until [`drive`] sends it.
pub(super) struct Held<I>(Arc<Mutex<Output<I>>>);

struct Output<I> {
    stream: I,
    kept: Vec<u8>,
    /// Bytes of `kept` that are sent.
    sent: usize,
}

impl<I> Held<I> {
    pub(super) fn new(stream: I) -> Self {
        Self(Arc::new(Mutex::new(Output { stream, kept: Vec::new(), sent: 0 })))
    }

    fn lock(&self) -> MutexGuard<'_, Output<I>> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl<I> Clone for Held<I> {
    fn clone(&self) -> Self {
        Self(self.0.clone())
    }
}

impl<I: AsyncWrite + Unpin> Output<I> {
    /// Sends what is kept.
    fn poll_send(&mut self, context: &mut Context<'_>) -> Poll<io::Result<()>> {
        while let Some(rest) = self.kept.get(self.sent..).filter(|rest| !rest.is_empty()) {
            match ready!(Pin::new(&mut self.stream).poll_write(context, rest))? {
                0 => return Poll::Ready(Err(io::ErrorKind::WriteZero.into())),
                written => self.sent += written,
            }
        }
        // Idle connections keep no room.
        self.kept = Vec::new();
        self.sent = 0;
        Pin::new(&mut self.stream).poll_flush(context)
    }

    /// Keeps what there is room for, which is made where there is none.
    fn poll_keep(&mut self, context: &mut Context<'_>, bytes: &[IoSlice<'_>]) -> Poll<io::Result<usize>> {
        if self.kept.len() >= FULL {
            ready!(self.poll_send(context))?;
        }
        let before = self.kept.len();
        self.kept.reserve_exact(FULL - before);
        for bytes in bytes {
            let room = FULL - self.kept.len();
            self.kept.extend_from_slice(bytes.get(..room).unwrap_or(bytes));
        }
        Poll::Ready(Ok(self.kept.len() - before))
    }
}

impl<I: AsyncRead + Unpin> AsyncRead for Held<I> {
    fn poll_read(
        self: Pin<&mut Self>,
        context: &mut Context<'_>,
        buf: &mut ReadBuf<'_>,
    ) -> Poll<io::Result<()>> {
        Pin::new(&mut self.lock().stream).poll_read(context, buf)
    }
}

impl<I: AsyncWrite + Unpin> AsyncWrite for Held<I> {
    fn poll_write(self: Pin<&mut Self>, context: &mut Context<'_>, bytes: &[u8]) -> Poll<io::Result<usize>> {
        self.lock().poll_keep(context, &[IoSlice::new(bytes)])
    }

    fn poll_write_vectored(
        self: Pin<&mut Self>,
        context: &mut Context<'_>,
        bytes: &[IoSlice<'_>],
    ) -> Poll<io::Result<usize>> {
        self.lock().poll_keep(context, bytes)
    }

    fn is_write_vectored(&self) -> bool {
        true
    }

    /// The protocol wants each answer sent by itself; [`drive`] sends them together.
    fn poll_flush(self: Pin<&mut Self>, _: &mut Context<'_>) -> Poll<io::Result<()>> {
        Poll::Ready(Ok(()))
    }

    fn poll_shutdown(self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<io::Result<()>> {
        let mut output = self.lock();
        ready!(output.poll_send(context))?;
        Pin::new(&mut output.stream).poll_shutdown(context)
    }
}

#[cfg(test)]
mod tests;
