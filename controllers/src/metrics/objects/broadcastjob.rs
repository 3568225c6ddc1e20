//! Metrics of BroadcastJobs.

use api::kinds::broadcastjob::BroadcastJob;
use values::percent::{Rounding, scaled};

use super::samples::{
    Table, about, annotations, conditions, count, created, findings, generation, labels, number, only,
    strategies, word,
};

pub(crate) static TABLE: Table<BroadcastJob> = Table {
    kind: "broadcastjob",
    about,
    rows: &[
        created("kruise_broadcastjob_created"),
        generation("kruise_broadcastjob_metadata_generation"),
        annotations("kruise_broadcastjob_annotations"),
        labels("kruise_broadcastjob_labels"),
        number("kruise_broadcastjob_spec_parallelism", "Pods that may run at a time.", |job| {
            let desired = job.status.desired.unwrap_or(0);
            let limit = job.spec.parallelism.as_ref();
            limit.map_or(Some(i32::MAX), |limit| scaled(limit, desired, Rounding::Up)).map(i64::from)
        }),
        strategies("kruise_broadcastjob_spec_strategy_type", |job| {
            only(word(job.spec.completion_policy.kind.as_ref()))
        }),
        number(
            "kruise_broadcastjob_spec_strategy_activedeadline_seconds",
            "How long the job may take, where that is limited.",
            |job| job.spec.completion_policy.active_deadline_seconds,
        ),
        number(
            "kruise_broadcastjob_spec_strategy_ttl_seconds",
            "How long the job stays once it is over, where that is limited.",
            |job| job.spec.completion_policy.ttl_seconds_after_finished.map(i64::from),
        ),
        number("kruise_broadcastjob_status_desired", "Nodes that are to run a Pod.", |job| {
            count(job.status.desired)
        }),
        number("kruise_broadcastjob_status_active", "Pods that have not ended.", |job| {
            count(job.status.active)
        }),
        number("kruise_broadcastjob_status_succeeded", "Pods that ended well.", |job| {
            count(job.status.succeeded)
        }),
        number("kruise_broadcastjob_status_failed", "Pods that failed.", |job| count(job.status.failed)),
        conditions("kruise_broadcastjob_status_condition", |job| {
            findings(job.status.conditions.iter().map(|condition| (&condition.kind, &condition.status)))
        }),
    ],
};
