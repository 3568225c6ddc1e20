//! Metrics of UnitedDeployments.

use api::kinds::uniteddeployment::UnitedDeployment;

use super::samples::{Table, about, conditions, count, created, findings, generation, number, observed};

pub(crate) static TABLE: Table<UnitedDeployment> = Table {
    kind: "uniteddeployment",
    about,
    rows: &[
        created("kruise_uniteddeployment_created"),
        generation("kruise_uniteddeployment_metadata_generation"),
        number("kruise_uniteddeployment_spec_replicas", "Pods that are wanted.", |united| {
            Some(united.spec.replicas.unwrap_or(1).into())
        }),
        number("kruise_uniteddeployment_status_replicas", "Pods that exist.", |united| {
            Some(united.status.replicas.into())
        }),
        number("kruise_uniteddeployment_status_replicas_ready", "Pods that are ready.", |united| {
            count(united.status.ready_replicas)
        }),
        number("kruise_uniteddeployment_status_replicas_updated", "Pods at the newest revision.", |united| {
            Some(united.status.updated_replicas.into())
        }),
        number(
            "kruise_uniteddeployment_status_replicas_updated_ready",
            "Pods at the newest revision that are ready.",
            |united| count(united.status.updated_ready_replicas),
        ),
        observed("kruise_uniteddeployment_status_observed_generation", |united| {
            united.status.observed_generation
        }),
        conditions("kruise_uniteddeployment_status_condition", |united| {
            let conditions = united.status.conditions.iter();
            findings(conditions.filter_map(|one| Some((&one.kind, one.status.as_ref()?))))
        }),
    ],
};
