//! Metrics of CloneSets.

use api::kinds::cloneset::{CloneSet, RollingUpdate};
use api::kinds::shared::UpdateStrategyType;
use kinds::cloneset::counting::Limits;
use values::percent;

use super::samples::{
    Table, about, annotations, conditions, created, findings, generation, labels, number, observed, one_of,
    partition, partitions, strategies, word,
};

/// The types that a CloneSet of v1alpha1 has: there the way in which Pods are updated is one of them.
const TYPES: [&str; 4] = ["ReCreate", "InPlaceIfPossible", "InPlaceOnly", "OnDelete"];

pub(crate) static TABLE: Table<CloneSet> = Table {
    kind: "cloneset",
    about,
    rows: &[
        created("kruise_cloneset_created"),
        generation("kruise_cloneset_metadata_generation"),
        annotations("kruise_cloneset_annotations"),
        labels("kruise_cloneset_labels"),
        number("kruise_cloneset_spec_replicas", "Pods that are wanted.", |set| Some(wanted(set).into())),
        strategies("kruise_cloneset_spec_strategy_type", |set| one_of(&TYPES, &strategy(set))),
        partitions("kruise_cloneset_spec_strategy_partition", |set| {
            partition(rolling(set).partition.as_ref(), Limits::of(&set.spec).partition)
        }),
        number(
            "kruise_cloneset_spec_strategy_rollingupdate_max_unavailable",
            "Pods that may be unavailable during an update.",
            |set| Some(Limits::of(&set.spec).max_unavailable),
        ),
        number(
            "kruise_cloneset_spec_strategy_rollingupdate_max_surge",
            "Pods that there may be beyond those that are wanted, during an update.",
            |set| Some(percent::max_surge(rolling(set).max_surge.as_ref(), wanted(set)).into()),
        ),
        number("kruise_cloneset_status_replicas", "Pods that exist.", |set| Some(set.status.replicas.into())),
        number("kruise_cloneset_status_replicas_ready", "Pods that are ready.", |set| {
            Some(set.status.ready_replicas.into())
        }),
        number("kruise_cloneset_status_replicas_available", "Pods that are available.", |set| {
            Some(set.status.available_replicas.into())
        }),
        number(
            "kruise_cloneset_status_replicas_unavailable",
            "Pods that are wanted, less those that are available.",
            |set| Some(wanted(set).saturating_sub(set.status.available_replicas).max(0).into()),
        ),
        number("kruise_cloneset_status_replicas_updated", "Pods at the newest revision.", |set| {
            Some(set.status.updated_replicas.into())
        }),
        number(
            "kruise_cloneset_status_replicas_updated_ready",
            "Pods at the newest revision that are ready.",
            |set| Some(set.status.updated_ready_replicas.into()),
        ),
        observed("kruise_cloneset_status_observed_generation", |set| set.status.observed_generation),
        conditions("kruise_cloneset_status_condition", |set| {
            findings(set.status.conditions.iter().map(|condition| (&condition.kind, &condition.status)))
        }),
    ],
};

fn wanted(set: &CloneSet) -> i32 {
    set.spec.replicas.unwrap_or(1)
}

fn rolling(set: &CloneSet) -> &RollingUpdate {
    &set.spec.update_strategy.rolling_update
}

fn strategy(set: &CloneSet) -> String {
    match &set.spec.update_strategy.kind {
        kind @ Some(UpdateStrategyType::OnDelete) => word(kind.as_ref()),
        _ => word(rolling(set).pod_update_policy.as_ref()),
    }
}
