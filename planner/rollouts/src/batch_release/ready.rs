//! What a batch still lacks before it counts as ready.

use api::kinds::batchrelease::BatchRelease;
use values::percent::{Rounding, scaled};

use super::labels::Labels;
use crate::workload::batch::Batch;
use crate::workload::{Style, Workload};

/// What a batch lacks.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Lack {
    /// New Pods.
    New {
        /// How many are new.
        present: i32,
        /// How many are to be new.
        wanted: i32,
    },
    /// New Pods that are ready.
    Ready {
        /// How many are ready.
        present: i32,
        /// How many are to be ready.
        wanted: i32,
    },
    /// Pods that say that they belong to the release.
    Labels {
        /// How many do.
        present: i32,
        /// How many are to.
        wanted: i32,
    },
}

/// What a batch lacks; `None` where it is ready.
pub(super) fn lack(
    release: &BatchRelease,
    workload: &Workload,
    batch: &Batch<'_>,
    labels: &Labels,
) -> Option<Lack> {
    let (updated, ready) = (workload.updated_replicas, workload.updated_ready_replicas);
    if updated < batch.updated {
        return Some(Lack::New { present: updated, wanted: batch.updated });
    }
    let needed = batch.updated - allowed(release, workload);
    let needed = if batch.updated > 0 { needed.max(1) } else { needed };
    if ready < needed {
        return Some(Lack::Ready { present: ready, wanted: batch.updated });
    }
    let is_labelled = labels.are_listed && labels.labelled < batch.planned;
    is_labelled.then_some(Lack::Labels { present: labels.labelled, wanted: batch.planned })
}

/// How many new Pods may be unready. A blue-green release sends all requests to them in the end, and allows none.
fn allowed(release: &BatchRelease, workload: &Workload) -> i32 {
    let threshold = release.spec.release_plan.failure_threshold.as_ref();
    let threshold = threshold.filter(|_| workload.style != Style::BlueGreen);
    let share = |value| scaled(value, workload.updated_replicas, Rounding::Up);
    threshold.and_then(share).unwrap_or(0).clamp(0, workload.updated_replicas.max(0))
}
