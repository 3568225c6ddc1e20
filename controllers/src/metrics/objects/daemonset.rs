//! Metrics of DaemonSets.

use api::kinds::daemonset::DaemonSet;
use values::percent::{Rounding, max_surge, scaled};

use super::samples::{
    Table, about, annotations, conditions, count, created, findings, generation, labels, number, observed,
    only, partition, partitions, strategies, word,
};

pub(crate) static TABLE: Table<DaemonSet> = Table {
    kind: "daemonset",
    about,
    rows: &[
        created("kruise_daemonset_created"),
        generation("kruise_daemonset_metadata_generation"),
        annotations("kruise_daemonset_annotations"),
        labels("kruise_daemonset_labels"),
        strategies("kruise_daemonset_spec_strategy_type", |set| {
            only(word(set.spec.update_strategy.kind.as_ref()))
        }),
        partitions("kruise_daemonset_spec_strategy_partition", |set| {
            let value = set.spec.update_strategy.rolling_update.partition.as_ref();
            let kept = value.and_then(|value| scaled(value, desired(set), Rounding::Down));
            partition(value, kept.unwrap_or(0).max(0).into())
        }),
        number(
            "kruise_daemonset_spec_strategy_rollingupdate_max_surge",
            "Nodes that may have an old and a new Pod during an update.",
            |set| {
                let value = set.spec.update_strategy.rolling_update.max_surge.as_ref();
                Some(max_surge(value, desired(set)).into())
            },
        ),
        number("kruise_daemonset_status_desired_number_scheduled", "Nodes that are to have a Pod.", |set| {
            Some(desired(set).into())
        }),
        number("kruise_daemonset_status_current_number_scheduled", "Of these, those that have one.", |set| {
            Some(set.status.current_number_scheduled.into())
        }),
        number(
            "kruise_daemonset_status_updated_number_scheduled",
            "Nodes whose Pod is at the newest revision.",
            |set| Some(set.status.updated_number_scheduled.into()),
        ),
        number(
            "kruise_daemonset_status_number_misscheduled",
            "Nodes that have a Pod although they are to have none.",
            |set| Some(set.status.number_misscheduled.into()),
        ),
        number("kruise_daemonset_status_number_ready", "Nodes whose Pod is ready.", |set| {
            Some(set.status.number_ready.into())
        }),
        number("kruise_daemonset_status_number_available", "Nodes whose Pod is available.", |set| {
            count(set.status.number_available)
        }),
        number(
            "kruise_daemonset_status_number_unavailable",
            "Nodes that are to have a Pod and have none that is available.",
            |set| count(set.status.number_unavailable),
        ),
        observed("kruise_daemonset_status_observed_generation", |set| set.status.observed_generation),
        conditions("kruise_daemonset_status_condition", |set| {
            findings(set.status.conditions.iter().map(|condition| (&condition.kind, &condition.status)))
        }),
    ],
};

fn desired(set: &DaemonSet) -> i32 {
    set.status.desired_number_scheduled
}
