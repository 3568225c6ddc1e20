//! Leads a watch to where its objects are kept.

use futures::StreamExt;
use kube::runtime::utils::Backoff;
use kube::runtime::watcher::{Config, DefaultBackoff, Error, Event};
use kube::runtime::{WatchStreamExt, watcher};
use kube::{Api, Client};
use tracing::warn;

use crate::resource::Resource;
use crate::watch_failures::WatchFailures;
use crate::watch_pauses::ShortPauses;
use crate::watched::WatchedObject;

/// Objects per page of a list: each page is dropped as soon as it is taken in. Small, since the memory is used
/// most while a page is in it several times.
const PAGE: u32 = 50;

/// Where a watch leads to.
pub trait Sink: Sync {
    /// A list begins: it will show all that there is.
    fn list_begins(&self);

    /// An object, new, changed or listed.
    fn see(&self, object: WatchedObject);

    /// An object that was deleted, as it was at last.
    fn gone(&self, object: &WatchedObject);

    /// The list is complete.
    fn list_ends(&self);

    /// The watch failed, and will be tried again.
    fn failed(&self, _error: &Error) {}
}

/// Leads the watch of `api` to `sink`. Never returns.
pub async fn follow(api: Api<WatchedObject>, config: Config, sink: &impl Sink) {
    follow_pausing(ShortPauses::default(), api, config, sink).await;
}

/// [`follow`] for the agents of nodes, with pauses that grow to half a minute or more: there are thousands of them, which
/// an API server that comes back would not bear at once. Never returns.
pub async fn follow_patiently(api: Api<WatchedObject>, config: Config, sink: &impl Sink) {
    follow_pausing(DefaultBackoff::default(), api, config, sink).await;
}

async fn follow_pausing(pauses: impl Backoff, api: Api<WatchedObject>, config: Config, sink: &impl Sink) {
    let what = api.resource_url().to_owned();
    let mut failures = WatchFailures::default();
    let mut events = watcher(api, config.page_size(PAGE)).backoff(pauses).boxed();
    while let Some(event) = events.next().await {
        if !matches!(event, Ok(Event::Init) | Err(_)) {
            failures.succeeded();
        }
        match event {
            Ok(Event::Init) => sink.list_begins(),
            Ok(Event::InitApply(object) | Event::Apply(object)) => sink.see(object),
            Ok(Event::InitDone) => sink.list_ends(),
            Ok(Event::Delete(object)) => sink.gone(&object),
            Err(error) => {
                failures.failed(&what, &error);
                sink.failed(&error);
            }
        }
    }
}

/// Leads a watch of all objects of a kind to `sink`. Never returns.
pub async fn follow_all(client: &Client, kind: Resource<'_>, sink: &impl Sink) {
    follow(Api::all_with(client.clone(), &kind.api_resource()), Config::default(), sink).await;
}

/// What `read` makes of an object; one that can't be read is treated as if it were not there.
pub fn readable<T>(
    object: &WatchedObject,
    read: impl FnOnce(&str) -> Result<T, serde_json::Error>,
) -> Option<T> {
    read(object.json())
        .inspect_err(|error| {
            let (namespace, name) = object.key();
            warn!(namespace, name, %error, "an object is not understood and passed over");
        })
        .ok()
}
