//! Which caches `/mutate-pod` waits for (docs/behaviour/pod-mutation.md#what-a-review-waits-for): those of
//! features that must not be missed.

use admission::world::{Watched, World};
use informers::files::Objects;
use informers::index::CacheState;
use informers::{Index, Lookup};

use crate::support::{ask, create_pod, with_index};

/// The code of an answer while the cache of `kind` is in `state`.
async fn code(flags: &str, kind: Watched, state: CacheState) -> u64 {
    let index = Index::awaiting(World::new(api::DEFAULT_NAMESPACE), [kind]);
    index.set_cache_state(kind, state);
    let admission = with_index(flags, index, Lookup::files(Objects::default()));
    let answer = ask(&admission, "/mutate-pod", &create_pod(1)).await;
    answer["status"]["code"].as_u64().unwrap()
}

#[tokio::test]
async fn pods_wait_for_markers_only_with_the_gate_and_while_the_kind_exists() {
    let (on, marker) = ("EnablePodProbeMarkerOnServerless=true", Watched::PodProbeMarker);
    let failing = CacheState::Failing("forbidden".to_owned());
    for (flags, state, expected) in [
        (on, CacheState::Pending, 503),
        (on, failing.clone(), 503),
        (on, CacheState::Absent, 200),
        (on, CacheState::Synced, 200),
        ("", failing, 200),
    ] {
        assert_eq!(code(flags, marker, state.clone()).await, expected, "{flags:?} {state:?}");
    }
}

#[tokio::test]
async fn pods_never_wait_for_budgets() {
    for state in [CacheState::Pending, CacheState::Failing("forbidden".to_owned()), CacheState::Absent] {
        assert_eq!(code("", Watched::PodUnavailableBudget, state).await, 200);
    }
}
