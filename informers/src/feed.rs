//! Watches that keep the [`Index`] current.
//!
//! One task owns the world: it applies every event that is at hand, then publishes once, so that a
//! burst costs one snapshot. A list that starts again removes what is gone.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use admission::world::{Watched, World};
use api::features::{Feature, FeatureGates};
use api::kinds::{persistentpodstate, podprobemarker, rollout, workloadspread};
use futures::stream::{BoxStream, SelectAll};
use futures::{FutureExt, StreamExt};
use kube::runtime::watcher::{self, Config};
use kube::runtime::{WatchStreamExt, watcher as watch};
use kube::{Api, Client};
use tokio::time::Instant;
use tracing::{debug, warn};
use values::segment::without_segments;

use crate::index::{CacheState, Index};
use cluster::resource::{BUDGETS, CONFIG_MAPS, NAMESPACES, REVISIONS, Resource, STORAGE_CLASSES};
use cluster::watch_failures::WatchFailures;
use cluster::watch_pauses::ShortPauses;
use cluster::watched::{Key, WatchedObject};

/// Page size of lists: each page is dropped as soon as it is applied. Small, since the peak of the memory
/// is reached while a page is in it several times, as it came and as it is read.
const PAGE: u32 = 50;

type Events = BoxStream<'static, (Watched, watcher::Result<watcher::Event<WatchedObject>>)>;

/// The kinds that admission reads from its index. What belongs to a feature that is off costs nothing.
fn kinds(gates: &FeatureGates) -> Vec<Watched> {
    let mut kinds = vec![
        Watched::SidecarSet,
        Watched::Namespace,
        Watched::ControllerRevision,
        Watched::ConfigMap,
        Watched::PersistentPodState,
    ];
    if gates.enabled(Feature::PodUnavailableBudgetDeleteGate)
        || gates.enabled(Feature::PodUnavailableBudgetUpdateGate)
    {
        kinds.push(Watched::PodUnavailableBudget);
    }
    if gates.enabled(Feature::EnablePodProbeMarkerOnServerless) {
        kinds.push(Watched::PodProbeMarker);
    }
    if gates.enabled(Feature::WorkloadSpread) {
        kinds.push(Watched::WorkloadSpread);
    }
    if gates.enabled(Feature::StatefulSetAutoResizePVCGate) {
        kinds.push(Watched::StorageClass);
    }
    if gates.enabled(Feature::Rollouts) {
        kinds.push(Watched::Rollout);
    }
    kinds
}

/// Where the objects of a kind are, and which of them matter.
fn place(kind: Watched, client: &Client, install_namespace: &str) -> (Api<WatchedObject>, Config) {
    let everywhere = |kind: Resource<'_>| Api::all_with(client.clone(), &kind.api_resource());
    let installed =
        |kind: Resource<'_>| Api::namespaced_with(client.clone(), install_namespace, &kind.api_resource());
    let config = Config::default().page_size(PAGE);
    let configuration = format!("metadata.name={}", api::CONFIGURATION_CONFIG_MAP);
    match kind {
        Watched::SidecarSet => {
            use api::sidecarset::{API_VERSION, KIND, PLURAL};
            (everywhere(Resource::new(API_VERSION, PLURAL, KIND)), config)
        }
        Watched::Namespace => (everywhere(NAMESPACES), config),
        Watched::ControllerRevision => (installed(REVISIONS), config.labels(api::labels::SIDECARSET_NAME)),
        Watched::ConfigMap => (installed(CONFIG_MAPS), config.fields(&configuration)),
        Watched::PodUnavailableBudget => (everywhere(BUDGETS), config),
        Watched::PodProbeMarker => {
            use podprobemarker::{API_VERSION, KIND, PLURAL};
            (everywhere(Resource::new(API_VERSION, PLURAL, KIND)), config)
        }
        Watched::WorkloadSpread => {
            use workloadspread::{API_VERSION, KIND, PLURAL};
            (everywhere(Resource::new(API_VERSION, PLURAL, KIND)), config)
        }
        Watched::PersistentPodState => {
            use persistentpodstate::{API_VERSION, KIND, PLURAL};
            (everywhere(Resource::new(API_VERSION, PLURAL, KIND)), config)
        }
        Watched::StorageClass => (everywhere(STORAGE_CLASSES), config),
        Watched::Rollout => {
            use rollout::{API_VERSION, KIND, PLURAL};
            (everywhere(Resource::new(API_VERSION, PLURAL, KIND)), config)
        }
    }
}

/// An index that [`run`] will fill with what admission reads under these gates.
pub fn awaiting(world: World, gates: &FeatureGates) -> Arc<Index> {
    Arc::new(Index::awaiting(world, kinds(gates)))
}

/// Follows the cluster until the task is dropped. `world` is the (empty) world that `index` shows.
pub async fn run(client: Client, install_namespace: &str, mut world: World, index: Arc<Index>) {
    let mut events = SelectAll::<Events>::new();
    for kind in index.kinds() {
        let (api, config) = place(kind, &client, install_namespace);
        let watched = watch(api, config).backoff(ShortPauses::default());
        events.push(watched.map(move |event| (kind, event)).boxed());
    }
    let mut follower = Follower::default();
    while let Some((kind, event)) = events.next().await {
        follower.follow(&mut world, &index, kind, event);
        while let Some(Some((kind, event))) = events.next().now_or_never() {
            follower.follow(&mut world, &index, kind, event);
        }
        index.publish(world.clone());
        for kind in follower.synced.drain(..) {
            index.set_cache_state(kind, CacheState::Synced);
        }
    }
}

/// Names known per kind, to find what a new list lacks, and how its watch fails.
#[derive(Default)]
struct Follower {
    failures: BTreeMap<Watched, WatchFailures>,
    known: BTreeMap<Watched, BTreeSet<Key>>,
    listing: BTreeMap<Watched, BTreeSet<Key>>,
    synced: Vec<Watched>,
}

impl Follower {
    fn follow(
        &mut self,
        world: &mut World,
        index: &Index,
        kind: Watched,
        event: watcher::Result<watcher::Event<WatchedObject>>,
    ) {
        let failures = self.failures.entry(kind).or_default();
        if !matches!(event, Ok(watcher::Event::Init) | Err(_)) {
            failures.succeeded();
        }
        match event {
            Ok(watcher::Event::Init) => {
                self.listing.insert(kind, BTreeSet::new());
            }
            Ok(watcher::Event::InitApply(object)) => {
                self.listing.entry(kind).or_default().insert(object.key());
                apply(world, kind, &object);
            }
            Ok(watcher::Event::InitDone) => {
                let listed = self.listing.remove(&kind).unwrap_or_default();
                let known = self.known.entry(kind).or_default();
                for (namespace, name) in known.difference(&listed) {
                    world.remove(kind, namespace, name);
                }
                *known = listed;
                self.synced.push(kind);
            }
            Ok(watcher::Event::Apply(object)) => {
                self.known.entry(kind).or_default().insert(object.key());
                apply(world, kind, &object);
            }
            Ok(watcher::Event::Delete(object)) => {
                let key = object.key();
                world.remove(kind, &key.0, &key.1);
                self.known.entry(kind).or_default().remove(&key);
            }
            Err(error) => fail(index, kind, &error, failures),
        }
    }
}

fn apply(world: &mut World, kind: Watched, object: &WatchedObject) {
    if let Err(error) = world.apply(kind, object.json()) {
        let (namespace, name) = object.key();
        warn!(?kind, namespace, name, %error, "an object is not usable and is kept as such");
    }
}

/// A watch that fails after its first list keeps answering from what is known, which is reported where it continues
/// to fail: only a cache that was never filled changes its state.
fn fail(index: &Index, kind: Watched, error: &watcher::Error, failures: &mut WatchFailures) {
    let known = index.cache_state(kind);
    if known == CacheState::Synced {
        failures.failed(&kind, error);
    } else {
        let error = without_segments(&error.to_string());
        debug!(?kind, error, "watch failed, will be tried again");
    }
    let watcher::Error::InitialListFailed(cause) = error else { return };
    let state = match (known.clone(), cause) {
        (CacheState::Synced, _) => return,
        (_, kube::Error::Api(status)) if status.code == 404 => CacheState::Absent,
        // The time counts from the first such failure, whatever came in between.
        (CacheState::AwaitingConversion(since), _) => CacheState::AwaitingConversion(since),
        (_, cause) if is_conversion(cause) => CacheState::AwaitingConversion(Instant::now()),
        (_, cause) => CacheState::Failing(cluster::client::message(cause)),
    };
    if state != known {
        warn!(%kind, ?state, "objects are not loaded");
    }
    index.set_cache_state(kind, state);
}

/// The API server's words for a conversion webhook that does not answer.
fn is_conversion(error: &kube::Error) -> bool {
    matches!(error, kube::Error::Api(status) if status.message.contains("conversion webhook for"))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn features_that_are_off_cost_no_watch() {
        let kinds = |flags: &str| kinds(&FeatureGates::parse(flags, "").unwrap());
        let (budget, marker) = (Watched::PodUnavailableBudget, Watched::PodProbeMarker);
        let spread = Watched::WorkloadSpread;
        assert!(kinds("").contains(&spread) && !kinds("WorkloadSpread=false").contains(&spread));
        assert!(kinds("").contains(&budget) && !kinds("").contains(&marker));
        assert!(!kinds("PodUnavailableBudgetDeleteGate=false").contains(&budget));
        let updates = "PodUnavailableBudgetDeleteGate=false,PodUnavailableBudgetUpdateGate=true";
        assert!(kinds(updates).contains(&budget));
        assert!(kinds("EnablePodProbeMarkerOnServerless=true").contains(&marker));
        let rollout = Watched::Rollout;
        assert!(!kinds("").contains(&rollout) && kinds("Rollouts=true").contains(&rollout));
        assert_eq!(kinds("PodWebhook=false,EnablePodProbeMarkerOnServerless=true").len(), 5);
    }
}
