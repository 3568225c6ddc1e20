//! Metrics of WorkloadSpreads.

use api::kinds::workloadspread::{SubsetStatus, WorkloadSpread};

use super::samples::{
    Labelled, Table, about, annotations, created, generation, labelled, labels, only, strategies, word,
};

pub(crate) static TABLE: Table<WorkloadSpread> = Table {
    kind: "workloadspread",
    about,
    rows: &[
        created("kruise_workloadspread_created"),
        generation("kruise_workloadspread_metadata_generation"),
        annotations("kruise_workloadspread_annotations"),
        labels("kruise_workloadspread_labels"),
        strategies("kruise_workloadspread_spec_strategy_type", |spread| {
            only(word(spread.spec.schedule_strategy.kind.as_ref()))
        }),
        labelled(
            "kruise_workloadspread_status_subset_replicas",
            "Pods in each subset.",
            &["replicas", "subset"],
            |spread| by_subset(spread, |subset| subset.replicas),
        ),
        labelled(
            "kruise_workloadspread_status_subset_replicas_missing",
            "Free places in each subset, -1 where it has no limit.",
            &["missingreplicas", "subset"],
            |spread| by_subset(spread, |subset| subset.missing_replicas),
        ),
    ],
};

fn by_subset(spread: &WorkloadSpread, number: fn(&SubsetStatus) -> i32) -> Vec<Labelled> {
    let subsets = spread.status.subset_statuses.iter();
    let samples = subsets.map(|subset| (number(subset), subset.name.clone()));
    samples.map(|(number, name)| (vec![number.to_string(), name], number.into())).collect()
}
