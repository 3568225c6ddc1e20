//! Metrics of PersistentPodStates.

use api::kinds::persistentpodstate::PersistentPodState;

use super::samples::{Table, about, created, generation, number, observed};

pub(crate) static TABLE: Table<PersistentPodState> = Table {
    kind: "persistentpodstate",
    about,
    rows: &[
        created("kruise_persistentpodstate_created"),
        generation("kruise_persistentpodstate_metadata_generation"),
        number("kruise_persistentpodstate_status_pod_states", "Pods that are remembered.", |state| {
            i64::try_from(state.status.pod_states.len()).ok()
        }),
        observed("kruise_persistentpodstate_status_observed_generation", |state| {
            Some(state.status.observed_generation)
        }),
    ],
};
