//! Metrics of ResourceDistributions. When they were created is not kept of them.

use kinds::resourcedistribution::Distribution;

use super::samples::{About, Table, conditions, count, findings, generation, number, observed};

pub(crate) static TABLE: Table<Distribution> = Table {
    kind: "resourcedistribution",
    about: |distribution| About {
        namespace: "",
        name: &distribution.name,
        created: None,
        generation: distribution.generation,
    },
    rows: &[
        generation("kruise_resourcedistribution_metadata_generation"),
        number(
            "kruise_resourcedistribution_status_desired",
            "Namespaces that are to have a copy.",
            |distribution| count(distribution.status.desired),
        ),
        number(
            "kruise_resourcedistribution_status_succeeded",
            "Namespaces that have the right copy.",
            |distribution| count(distribution.status.succeeded),
        ),
        number(
            "kruise_resourcedistribution_status_failed",
            "Namespaces that are to have a copy and have not the right one.",
            |distribution| count(distribution.status.failed),
        ),
        observed("kruise_resourcedistribution_status_observed_generation", |distribution| {
            distribution.status.observed_generation
        }),
        conditions("kruise_resourcedistribution_status_condition", |distribution| {
            let conditions = distribution.status.conditions.iter();
            findings(conditions.map(|condition| (&condition.kind, &condition.status)))
        }),
    ],
};
