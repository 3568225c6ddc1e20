//! Metrics of StatefulSets.

use std::collections::BTreeSet;

use api::kinds::shared::IntOrString;
use api::kinds::statefulset::StatefulSet;
use values::percent::{Rounding, scaled};

use super::samples::{
    Labelled, Table, about, annotations, conditions, created, findings, generation, labelled, labels, number,
    observed, only, partition, partitions, strategies, text, word,
};

pub(crate) static TABLE: Table<StatefulSet> = Table {
    kind: "statefulset",
    about,
    rows: &[
        created("kruise_statefulset_created"),
        generation("kruise_statefulset_metadata_generation"),
        annotations("kruise_statefulset_annotations"),
        labels("kruise_statefulset_labels"),
        number("kruise_statefulset_replicas", "Pods that are wanted.", |set| Some(wanted(set).into())),
        number("kruise_statefulset_spec_replicas", "Pods that are wanted.", |set| Some(wanted(set).into())),
        labelled(
            "kruise_statefulset_spec_reserveordinals",
            "Ordinals that no Pod may have, of a range the first.",
            &["ordinal"],
            |set| {
                let entries: BTreeSet<Labelled> =
                    set.spec.reserve_ordinals.iter().filter_map(reserved).collect();
                entries.into_iter().collect()
            },
        ),
        strategies("kruise_statefulset_spec_strategy_type", |set| {
            only(word(set.spec.update_strategy.kind.as_ref()))
        }),
        partitions("kruise_statefulset_spec_strategy_partition", |set| {
            let kept = set.spec.update_strategy.rolling_update.partition.unwrap_or(0);
            partition(Some(&IntOrString::Int(kept)), kept.clamp(0, wanted(set).max(0)).into())
        }),
        number(
            "kruise_statefulset_spec_strategy_rollingupdate_max_unavailable",
            "Pods that may be unavailable during an update.",
            |set| {
                let value = set.spec.update_strategy.rolling_update.max_unavailable.as_ref();
                let limit = |value| scaled(value, wanted(set), Rounding::Down).unwrap_or(0);
                Some(value.map_or(1, limit).max(1).into())
            },
        ),
        number("kruise_statefulset_status_replicas", "Pods that exist.", |set| {
            Some(set.status.replicas.into())
        }),
        number("kruise_statefulset_status_replicas_ready", "Pods that are ready.", |set| {
            Some(set.status.ready_replicas.into())
        }),
        number("kruise_statefulset_status_replicas_available", "Pods that are available.", |set| {
            Some(set.status.available_replicas.into())
        }),
        number(
            "kruise_statefulset_status_replicas_current",
            "Pods at the revision that was rolled out before.",
            |set| Some(set.status.current_replicas.into()),
        ),
        number("kruise_statefulset_status_replicas_updated", "Pods at the newest revision.", |set| {
            Some(set.status.updated_replicas.into())
        }),
        labelled(
            "kruise_statefulset_status_current_revision",
            "1 for the revision that was rolled out before.",
            &["revision"],
            |set| only(set.status.current_revision.clone()),
        ),
        labelled(
            "kruise_statefulset_status_update_revision",
            "1 for the newest revision.",
            &["revision"],
            |set| only(set.status.update_revision.clone()),
        ),
        observed("kruise_statefulset_status_observed_generation", |set| set.status.observed_generation),
        conditions("kruise_statefulset_status_condition", |set| {
            findings(set.status.conditions.iter().map(|condition| (&condition.kind, &condition.status)))
        }),
    ],
};

fn wanted(set: &StatefulSet) -> i32 {
    set.spec.replicas.unwrap_or(1)
}

/// An entry as it is written, and its first ordinal; none where there is no number in front.
fn reserved(entry: &IntOrString) -> Option<Labelled> {
    let text = text(entry);
    let first = text.split('-').next()?.parse().ok()?;
    Some((vec![text], first))
}
