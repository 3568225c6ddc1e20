use std::pin::pin;

use futures::poll;
use tokio::sync::Notify;

use super::*;

/// Takes so many writes and notes them.
#[derive(Clone, Default)]
struct Pipe {
    writes: Arc<Mutex<Vec<Vec<u8>>>>,
    full: bool,
}

impl Pipe {
    fn sizes(&self) -> Vec<usize> {
        self.writes.lock().unwrap().iter().map(Vec::len).collect()
    }
}

impl AsyncWrite for Pipe {
    fn poll_write(self: Pin<&mut Self>, _: &mut Context<'_>, bytes: &[u8]) -> Poll<io::Result<usize>> {
        if self.full {
            return Poll::Pending;
        }
        self.writes.lock().unwrap().push(bytes.to_vec());
        Poll::Ready(Ok(bytes.len()))
    }

    fn poll_flush(self: Pin<&mut Self>, _: &mut Context<'_>) -> Poll<io::Result<()>> {
        Poll::Ready(Ok(()))
    }

    fn poll_shutdown(self: Pin<&mut Self>, _: &mut Context<'_>) -> Poll<io::Result<()>> {
        Poll::Ready(Ok(()))
    }
}

/// A connection that takes these calls at once, and writes two bytes for each that is answered.
fn connection(
    stream: &Held<Pipe>,
    calls: &Calls,
    mut new: Vec<Call>,
    answered: Arc<Mutex<usize>>,
) -> impl Future<Output = ()> {
    let (mut stream, calls) = (stream.clone(), calls.clone());
    poll_fn(move |context| {
        for call in new.drain(..) {
            let answered = answered.clone();
            calls.execute(async move {
                call.await;
                *answered.lock().unwrap() += 1;
            });
        }
        for _ in 0..mem::take(&mut *answered.lock().unwrap()) {
            assert!(Pin::new(&mut stream).poll_write(context, b"ok").is_ready());
            assert!(Pin::new(&mut stream).poll_flush(context).is_ready());
        }
        Poll::Pending
    })
}

#[tokio::test]
async fn answers_of_one_round_are_sent_in_one_write() {
    let (pipe, calls, answered) = (Pipe::default(), Calls::new(Duration::MAX), Arc::default());
    let stream = Held::new(pipe.clone());
    let new: Vec<Call> = (0..5).map(|_| Box::pin(async {}) as Call).collect();
    let connection = pin!(connection(&stream, &calls, new, answered));
    assert!(poll!(pin!(drive(connection, &calls, &stream))).is_pending());
    assert_eq!(pipe.sizes(), [10]);
}

#[tokio::test]
async fn a_call_that_waits_does_not_keep_its_connection() {
    let (pipe, calls, answered) =
        (Pipe::default(), Calls::new(Duration::MAX), Arc::<Mutex<usize>>::default());
    let stream = Held::new(pipe.clone());
    let (go, gone) = (Arc::new(Notify::new()), Arc::new(Notify::new()));
    let (went, reached) = (go.clone(), gone.clone());
    let waiting = Box::pin(async move {
        went.notified().await;
        reached.notify_one();
    });
    let new: Vec<Call> = vec![waiting, Box::pin(async {})];
    let connection = pin!(connection(&stream, &calls, new, answered.clone()));
    let mut driven = pin!(drive(connection, &calls, &stream));
    assert!(poll!(driven.as_mut()).is_pending());
    assert_eq!(pipe.sizes(), [2]);
    // It continues while nobody reads the connection.
    go.notify_one();
    gone.notified().await;
    while *answered.lock().unwrap() == 0 {
        tokio::task::yield_now().await;
    }
    assert!(poll!(driven.as_mut()).is_pending());
    assert_eq!(pipe.sizes(), [2, 2]);
}

#[tokio::test(start_paused = true)]
async fn a_call_whose_answer_nobody_takes_is_given_up() {
    let (calls, answered) = (Calls::new(Duration::from_secs(60)), Arc::default());
    let stream = Held::new(Pipe::default());
    let (held, dropped) = tokio::sync::oneshot::channel::<()>();
    let never = Box::pin(async move {
        std::future::pending::<()>().await;
        drop(held);
    });
    let connection = pin!(connection(&stream, &calls, vec![never], answered));
    assert!(poll!(pin!(drive(connection, &calls, &stream))).is_pending());
    assert!(timeout(Duration::from_secs(61), dropped).await.unwrap().is_err());
}

#[tokio::test]
async fn a_panic_ends_its_own_call_only() {
    let (pipe, calls, answered) = (Pipe::default(), Calls::new(Duration::MAX), Arc::default());
    let stream = Held::new(pipe.clone());
    let new: Vec<Call> = vec![Box::pin(async { panic!("boom") }), Box::pin(async {})];
    let connection = pin!(connection(&stream, &calls, new, answered));
    assert!(poll!(pin!(drive(connection, &calls, &stream))).is_pending());
    assert_eq!(pipe.sizes(), [2]);
}

#[tokio::test]
async fn no_more_is_kept_than_is_full() {
    let mut stream = Held::new(Pipe { full: true, ..Pipe::default() });
    let piece = [b'x'; FULL / 2 + 1];
    let mut write =
        async || poll!(pin!(poll_fn(|context| Pin::new(&mut stream).poll_write(context, &piece))));
    assert!(matches!(write().await, Poll::Ready(Ok(taken)) if taken == piece.len()));
    assert!(matches!(write().await, Poll::Ready(Ok(taken)) if taken == FULL - piece.len()));
    assert!(write().await.is_pending());
}

#[tokio::test]
async fn the_end_of_a_connection_waits_for_what_is_kept() {
    let pipe = Pipe::default();
    let mut stream = Held::new(pipe.clone());
    let mut end = async |close: bool| {
        let mut stream = Pin::new(&mut stream);
        poll!(pin!(poll_fn(|context| match close {
            true => stream.as_mut().poll_shutdown(context).map_ok(|()| 0),
            false => stream.as_mut().poll_write(context, b"bye"),
        })))
    };
    assert!(end(false).await.is_ready());
    assert!(pipe.sizes().is_empty());
    assert!(end(true).await.is_ready());
    assert_eq!(pipe.sizes(), [3]);
}
