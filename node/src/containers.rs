//! Containers of the runtimes, as the planner knows them.

use agent::container::{Condition, RuntimeContainer};
use cri::messages::{Container, ContainerState};
use cri::{CriError, Runtime};
use jiff::Timestamp;

/// The runtime of this name.
pub(crate) fn runtime<'r>(runtimes: &'r [Runtime], name: &str) -> Option<&'r Runtime> {
    runtimes.iter().find(|runtime| runtime.name() == name)
}

/// The containers of a Pod. A list does not contain when they were started: see [`learn_start`].
pub(crate) async fn of_pod(runtime: &Runtime, uid: &str) -> Result<Vec<RuntimeContainer>, CriError> {
    Ok(runtime.containers_of(uid).await?.into_iter().map(read).collect())
}

/// Asks when a container was started.
pub(crate) async fn learn_start(runtime: &Runtime, container: &mut RuntimeContainer) -> Result<(), CriError> {
    let started = runtime.started_at(&container.id).await?;
    container.started = (started > 0).then(|| time(started));
    Ok(())
}

/// A container as the runtime lists it.
pub(crate) fn read(container: Container) -> RuntimeContainer {
    let condition = match container.state() {
        ContainerState::Created => Condition::Created,
        ContainerState::Running => Condition::Running,
        ContainerState::Exited => Condition::Exited,
        ContainerState::Unknown => Condition::Unknown,
    };
    RuntimeContainer {
        condition,
        created: time(container.created_at),
        started: None,
        id: container.id,
        labels: container.labels.into_iter().collect(),
        annotations: container.annotations.into_iter().collect(),
    }
}

fn time(nanoseconds: i64) -> Timestamp {
    Timestamp::from_nanosecond(nanoseconds.into()).unwrap_or_default()
}
