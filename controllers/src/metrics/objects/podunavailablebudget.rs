//! Metrics of PodUnavailableBudgets.

use api::kinds::podunavailablebudget::PodUnavailableBudget;

use super::samples::{Table, about, created, generation, number, observed};

pub(crate) static TABLE: Table<PodUnavailableBudget> = Table {
    kind: "podunavailablebudget",
    about,
    rows: &[
        created("kruise_podunavailablebudget_created"),
        generation("kruise_podunavailablebudget_metadata_generation"),
        number(
            "kruise_podunavailablebudget_status_total_replicas",
            "Pods that are counted from.",
            |budget| Some(budget.status.total_replicas.into()),
        ),
        number(
            "kruise_podunavailablebudget_status_desired_available",
            "Pods that must be available.",
            |budget| Some(budget.status.desired_available.into()),
        ),
        number(
            "kruise_podunavailablebudget_status_current_available",
            "Pods that are available.",
            |budget| Some(budget.status.current_available.into()),
        ),
        number(
            "kruise_podunavailablebudget_status_unavailable_allowed",
            "Pods that may become unavailable now.",
            |budget| Some(budget.status.unavailable_allowed.into()),
        ),
        observed("kruise_podunavailablebudget_status_observed_generation", |budget| {
            budget.status.observed_generation
        }),
    ],
};
