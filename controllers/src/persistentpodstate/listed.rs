//! Watches of the kinds that the administrator lists, each as long as it is listed
//! (docs/behaviour/persistentpodstate.md#workloads).

use std::collections::{BTreeMap, BTreeSet};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use cluster::discovery::Discovery;
use cluster::resource::Resource;
use cluster::triggers::forward;
use kinds::persistentpodstate::workloads::ListedKind;
use kinds::workload::resolved::ResolvedWorkload;
use kinds::workload::target::Workload;
use tokio::sync::mpsc::UnboundedSender;
use tokio::task::{AbortHandle, JoinSet};
use tokio::time::sleep;
use tracing::{info, warn};
use values::served::Served;

use super::{Controller, Item};
use crate::workload::store::Store;
use crate::workload::store::follow::{follow_all, readable};

/// How often the list is read.
const LOOK: Duration = Duration::from_secs(1);

/// Group and kind.
type Name = (String, String);

/// The listed kinds that are watched.
#[derive(Default)]
pub(super) struct ListedKinds(Mutex<BTreeMap<Name, Arc<Kind>>>);

/// What is known of a workload.
pub(super) enum Listed {
    /// Its kind is watched: this is it, or there is none.
    Known(Option<Arc<ResolvedWorkload>>),
    /// Its kind is not watched, or not listed yet by the API server.
    Unknown,
}

/// A kind that is watched.
struct Kind {
    name: Name,
    api_version: String,
    stored: Store<ResolvedWorkload>,
}

impl ListedKinds {
    /// A workload of a listed kind.
    pub(super) fn get(&self, namespace: &str, workload: &Workload<'_>) -> Listed {
        match self.kind(workload).filter(|kind| kind.stored.is_synced()) {
            Some(kind) => Listed::Known(kind.stored.get(&(namespace.to_owned(), workload.name.to_string()))),
            None => Listed::Unknown,
        }
    }

    /// The API version in which objects of this workload's kind are read; `None` where they are not watched.
    pub(super) fn api_version(&self, workload: &Workload<'_>) -> Option<String> {
        self.kind(workload).map(|kind| kind.api_version.clone())
    }

    fn kind(&self, workload: &Workload<'_>) -> Option<Arc<Kind>> {
        self.lock().get(&(workload.group.to_string(), workload.kind.to_string())).cloned()
    }

    // Held for single operations only, never over an await.
    fn lock(&self) -> MutexGuard<'_, BTreeMap<Name, Arc<Kind>>> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// Watches the kinds that are listed, and sends what their changes concern. While the list can't be read, what is
/// watched stays so. Never returns.
pub(super) async fn follow(controller: &Arc<Controller>, items: &UnboundedSender<Item>) {
    let discovery = Discovery::default();
    // All end with this.
    let mut watches = JoinSet::new();
    let mut handles: BTreeMap<Name, AbortHandle> = BTreeMap::new();
    let mut missing: BTreeSet<Name> = BTreeSet::new();
    loop {
        if let Some(wanted) = wanted(controller) {
            handles.retain(|name, handle| {
                let stays = wanted.contains_key(name);
                if !stays {
                    handle.abort();
                    controller.listed.lock().remove(name);
                }
                stays
            });
            for (name, listed) in wanted {
                if handles.contains_key(&name) {
                    continue;
                }
                match discovery.served(&controller.client, &listed.api_version(), &listed.kind).await {
                    Ok(served) if served.namespaced => {
                        info!(group = listed.group, kind = listed.kind, "Pods of this kind are remembered");
                        missing.remove(&name);
                        let Served { api_version, plural, .. } = served;
                        let kind = Kind { name: name.clone(), api_version, stored: Store::default() };
                        let kind = Arc::new(kind);
                        controller.listed.lock().insert(name.clone(), kind.clone());
                        let watch = watch(controller.clone(), items.clone(), kind, plural);
                        handles.insert(name, watches.spawn(watch));
                    }
                    // Once for each: it may be installed at any time.
                    _ if !missing.insert(name) => {}
                    Ok(_) => warn!(kind = listed.kind, "a listed kind has no namespaces and is passed over"),
                    Err(error) => warn!(kind = listed.kind, %error, "a listed kind is not found yet"),
                }
            }
        }
        // Those that were stopped.
        while watches.try_join_next().is_some() {}
        sleep(LOOK).await;
    }
}

/// The kinds that are listed and not watched anyway; `None` while the list can't be read.
fn wanted(controller: &Controller) -> Option<BTreeMap<Name, ListedKind>> {
    let world = controller.context.index.world();
    let listed = world.pod_states().listed().ok()?;
    let others = listed.others().map(|listed| ((listed.group.clone(), listed.kind.clone()), listed.clone()));
    Some(others.collect())
}

/// Watches a kind. Never returns.
async fn watch(controller: Arc<Controller>, items: UnboundedSender<Item>, kind: Arc<Kind>, plural: String) {
    let resource = Resource::new(&kind.api_version, &plural, &kind.name.1);
    let (group, name) = &kind.name;
    let objects =
        kind.stored.sifted(|object| readable(object, |json| ResolvedWorkload::read(group, name, json)));
    let changes = kind.stored.subscribe();
    tokio::join!(
        follow_all(&controller.client, resource, &objects),
        forward(changes, items, |change| controller.of_workload(change)),
    );
}
