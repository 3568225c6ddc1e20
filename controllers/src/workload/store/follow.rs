//! Keeps what is known of one kind current by a watch.

use cluster::watched::WatchedObject;
use futures::StreamExt;
use kube::Api;
use kube::runtime::watcher::{Config, Event};
use kube::runtime::{WatchStreamExt, watcher};
use tracing::{debug, warn};

use super::{Kept, Store};

/// Objects per page of a list: each page is dropped as soon as it is taken in. Small, since the memory is used
/// most while a page is in it several times.
const PAGE: u32 = 50;

/// Where a watch leads to.
pub(crate) trait Sink: Sync {
    /// A list begins: it will show all that there is.
    fn list_begins(&self);

    /// An object, new, changed or listed.
    fn see(&self, object: WatchedObject);

    /// An object that was deleted, as it was at last.
    fn gone(&self, object: &WatchedObject);

    /// The list is complete.
    fn list_ends(&self);
}

/// Leads the watch of `api` to `sink`. Ends never.
pub(crate) async fn follow(api: Api<WatchedObject>, config: Config, sink: &impl Sink) {
    let mut events = watcher(api, config.page_size(PAGE)).default_backoff().boxed();
    while let Some(event) = events.next().await {
        match event {
            Ok(Event::Init) => sink.list_begins(),
            Ok(Event::InitApply(object) | Event::Apply(object)) => sink.see(object),
            Ok(Event::InitDone) => sink.list_ends(),
            Ok(Event::Delete(object)) => sink.gone(&object),
            Err(error) => debug!(%error, "a watch failed, will be tried again"),
        }
    }
}

/// A store of what is read from each object.
pub(crate) trait Readable: Kept + Sized {
    /// Reads an object.
    ///
    /// # Errors
    /// The text is no such object.
    fn read(json: &str) -> Result<Self, serde_json::Error>;
}

impl<T: Readable> Sink for Store<T> {
    fn list_begins(&self) {
        Self::list_begins(self);
    }

    fn see(&self, object: WatchedObject) {
        match readable(&object, T::read) {
            Some(read) => self.apply(read),
            None => Sink::gone(self, &object),
        }
    }

    fn gone(&self, object: &WatchedObject) {
        self.delete(&object.key(), object.resource_version());
    }

    fn list_ends(&self) {
        Self::list_ends(self);
    }
}

/// What `read` makes of an object; one that can't be read is treated as if it were not there.
pub(crate) fn readable<T>(
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
