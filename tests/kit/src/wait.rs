//! Waiting for conditions, with a deadline and a message that says what was observed last.

use std::fmt::Debug;
use std::time::{Duration, Instant};

use futures::StreamExt;
use kube::Api;
use kube::runtime::{WatchStreamExt, watcher};
use serde::de::DeserializeOwned;

/// How long the helpers without a `within` wait: far more than anything healthy takes, so that a
/// loaded machine doesn't fail a test.
pub const DEADLINE: Duration = Duration::from_secs(120);

const INTERVAL: Duration = Duration::from_millis(50);

/// Polls `probe` until it returns `Ok`, and returns its value. `Err` says what is still missing;
/// the last one is part of the failure message. `what` completes "waited 120s for …".
///
/// # Panics
/// When `DEADLINE` passes.
pub async fn wait_for<T, E: Debug>(what: &str, probe: impl AsyncFnMut() -> Result<T, E>) -> T {
    wait_within(DEADLINE, what, probe).await
}

/// [`wait_for`] with a deadline of its own.
///
/// # Panics
/// When the deadline passes.
pub async fn wait_within<T, E: Debug>(
    deadline: Duration,
    what: &str,
    mut probe: impl AsyncFnMut() -> Result<T, E>,
) -> T {
    let start = Instant::now();
    loop {
        match probe().await {
            Ok(value) => return value,
            Err(missing) if start.elapsed() > deadline => {
                panic!("waited {deadline:?} for {what}; at last: {missing:?}")
            }
            Err(_) => tokio::time::sleep(INTERVAL).await,
        }
    }
}

/// Watches the object `name` until `condition` holds for it, and returns it.
///
/// # Panics
/// When `DEADLINE` passes; the message shows the object as last observed.
pub async fn wait_until<K>(api: &Api<K>, name: &str, what: &str, condition: impl Fn(&K) -> bool) -> K
where
    K: kube::Resource + Clone + Debug + Send + DeserializeOwned + 'static,
{
    let mut last = None;
    let seen = async {
        let config = watcher::Config::default().fields(&format!("metadata.name={name}"));
        let mut events = watcher(api.clone(), config).default_backoff().applied_objects().boxed();
        // Errors are passed over: the watch continues after its backoff.
        while let Some(event) = events.next().await {
            match event {
                Ok(object) if condition(&object) => return object,
                Ok(object) => last = Some(object),
                Err(_) => {}
            }
        }
        unreachable!("a watch with backoff never ends")
    };
    match tokio::time::timeout(DEADLINE, seen).await {
        Ok(object) => object,
        Err(_) => panic!("waited {DEADLINE:?} until {name} {what}; at last: {last:#?}"),
    }
}
