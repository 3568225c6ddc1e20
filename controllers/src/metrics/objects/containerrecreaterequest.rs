//! Metrics of ContainerRecreateRequests.

use api::kinds::containerrecreaterequest::{ContainerRecreateRequest, Phase};

use super::samples::{Row, Table, about, annotations, created, labels, number};

pub(crate) static TABLE: Table<ContainerRecreateRequest> = Table {
    kind: "containerrecreaterequest",
    about,
    rows: &[
        created("kruise_containerrecreaterequest_created"),
        annotations("kruise_containerrecreaterequest_annotations"),
        labels("kruise_containerrecreaterequest_labels"),
        in_phase("kruise_containerrecreaterequest_pending", |request| is_in(request, &Phase::Pending)),
        in_phase("kruise_containerrecreaterequest_recreating", |request| is_in(request, &Phase::Recreating)),
        in_phase("kruise_containerrecreaterequest_completed", |request| is_in(request, &Phase::Completed)),
        containers("kruise_containerrecreaterequest_containers_pending", |request| {
            count(request, &Phase::Pending)
        }),
        containers("kruise_containerrecreaterequest_containers_recreating", |request| {
            count(request, &Phase::Recreating)
        }),
        containers("kruise_containerrecreaterequest_containers_succeeded", |request| {
            count(request, &Phase::Succeeded)
        }),
        containers("kruise_containerrecreaterequest_containers_failed", |request| {
            count(request, &Phase::Failed)
        }),
    ],
};

type Number = fn(&ContainerRecreateRequest) -> Option<i64>;

const fn in_phase(name: &'static str, is_in: Number) -> Row<ContainerRecreateRequest> {
    number(name, "1 for a request in this phase.", is_in)
}

const fn containers(name: &'static str, count: Number) -> Row<ContainerRecreateRequest> {
    number(name, "Containers of the request in this phase.", count)
}

fn is_in(request: &ContainerRecreateRequest, phase: &Phase) -> Option<i64> {
    Some((request.status.phase == *phase).into())
}

fn count(request: &ContainerRecreateRequest, phase: &Phase) -> Option<i64> {
    let states = request.status.container_recreate_states.iter();
    i64::try_from(states.filter(|state| state.phase == *phase).count()).ok()
}
