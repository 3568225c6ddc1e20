//! Conditions and the statuses of containers. What they say is mostly the same for all Pods of a workload; only times
//! and identities are a Pod's own.

use std::ops::{Deref, DerefMut};
use std::sync::Arc;

use jiff::Timestamp;
use serde::Deserialize;

use super::{ContainerId, Part, Resources, Second, or_default, second};

/// A condition of a Pod. What it says is read and changed as if it were its own.
#[derive(Clone, Debug, Default, PartialEq, Deserialize)]
#[serde(from = "read::PodCondition")]
pub struct PodCondition {
    /// What it says.
    pub text: Part<ConditionText>,
    /// When the status changed last.
    pub last_transition_time: Option<Second>,
}

/// What a condition says.
#[derive(Clone, Debug, Default, PartialEq, Eq, Hash)]
pub struct ConditionText {
    /// The condition's type.
    pub kind: Box<str>,
    /// `True`, `False` or `Unknown`.
    pub status: Box<str>,
    /// A word that tells why.
    pub reason: Box<str>,
    /// A sentence that tells why.
    pub message: Box<str>,
}

impl PodCondition {
    /// When the status changed last.
    pub fn since(&self) -> Option<Timestamp> {
        self.last_transition_time.map(Timestamp::from)
    }
}

impl Deref for PodCondition {
    type Target = ConditionText;

    fn deref(&self) -> &ConditionText {
        &self.text
    }
}

impl DerefMut for PodCondition {
    fn deref_mut(&mut self) -> &mut ConditionText {
        &mut self.text
    }
}

/// The status of a container. What it reports is read and changed as if it were its own.
#[derive(Clone, Debug, Default, PartialEq, Eq, Hash, Deserialize)]
#[serde(from = "read::ContainerStatus")]
pub struct ContainerStatus {
    /// What it reports.
    pub report: Part<ContainerReport>,
    /// The identity of the running container.
    pub container_id: ContainerId,
    /// Since when it runs, if it does.
    pub running: Option<Running>,
}

/// What is reported of a container, except which one runs since when.
#[derive(Clone, Debug, Default, PartialEq, Eq, Hash)]
pub struct ContainerReport {
    /// The container's name.
    pub name: Box<str>,
    /// The image that runs, as the runtime names it.
    pub image: Arc<str>,
    /// The identity of the image that runs.
    pub image_id: Box<str>,
    /// The container passes its readiness probe.
    pub ready: bool,
    /// How often the container was restarted.
    pub restart_count: i32,
    /// Why it does not run, if it does not.
    pub state: ContainerState,
    /// Requests and limits as the kubelet carries them out.
    pub resources: Option<Resources>,
}

impl From<ContainerReport> for ContainerStatus {
    fn from(report: ContainerReport) -> Self {
        Self { report: report.into(), ..Self::default() }
    }
}

impl Deref for ContainerStatus {
    type Target = ContainerReport;

    fn deref(&self) -> &ContainerReport {
        &self.report
    }
}

impl DerefMut for ContainerStatus {
    fn deref_mut(&mut self) -> &mut ContainerReport {
        &mut self.report
    }
}

/// Why a container does not run.
#[derive(Clone, Debug, Default, PartialEq, Eq, Hash)]
pub struct ContainerState {
    /// It has ended.
    pub terminated: Option<Terminated>,
    /// It has not started.
    pub waiting: Option<Waiting>,
}

/// Since when a container runs.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub struct Running {
    /// When it started, if that is known.
    #[serde(deserialize_with = "second")]
    pub started_at: Option<Second>,
}

/// How a container ended.
#[derive(Clone, Debug, Default, PartialEq, Eq, Hash, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub struct Terminated {
    /// The exit code of its first process.
    #[serde(deserialize_with = "or_default")]
    pub exit_code: i32,
}

/// Why a container has not started.
#[derive(Clone, Debug, Default, PartialEq, Eq, Hash, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub struct Waiting {
    /// A word that tells why, such as `ImagePullBackOff`.
    #[serde(deserialize_with = "or_default")]
    pub reason: Box<str>,
}

/// The same as the API server writes it.
mod read {
    use std::sync::Arc;

    use serde::Deserialize;

    use super::{ConditionText, ContainerId, ContainerReport, ContainerState, Resources, Running, Second};
    use super::{Terminated, Waiting, or_default, second};

    #[derive(Default, Deserialize)]
    #[serde(rename_all = "camelCase", default)]
    pub(super) struct PodCondition {
        #[serde(rename = "type", deserialize_with = "or_default")]
        kind: Box<str>,
        #[serde(deserialize_with = "or_default")]
        status: Box<str>,
        #[serde(deserialize_with = "or_default")]
        reason: Box<str>,
        #[serde(deserialize_with = "or_default")]
        message: Box<str>,
        #[serde(deserialize_with = "second")]
        last_transition_time: Option<Second>,
    }

    impl From<PodCondition> for super::PodCondition {
        fn from(read: PodCondition) -> Self {
            let PodCondition { kind, status, reason, message, last_transition_time } = read;
            Self { text: ConditionText { kind, status, reason, message }.into(), last_transition_time }
        }
    }

    #[derive(Default, Deserialize)]
    #[serde(rename_all = "camelCase", default)]
    pub(super) struct ContainerStatus {
        #[serde(deserialize_with = "or_default")]
        name: Box<str>,
        #[serde(deserialize_with = "or_default")]
        image: Arc<str>,
        #[serde(rename = "imageID", deserialize_with = "or_default")]
        image_id: Box<str>,
        #[serde(rename = "containerID", deserialize_with = "or_default")]
        container_id: ContainerId,
        #[serde(deserialize_with = "or_default")]
        ready: bool,
        #[serde(deserialize_with = "or_default")]
        restart_count: i32,
        #[serde(deserialize_with = "or_default")]
        state: State,
        resources: Option<Resources>,
    }

    #[derive(Default, Deserialize)]
    #[serde(default)]
    struct State {
        running: Option<Running>,
        terminated: Option<Terminated>,
        waiting: Option<Waiting>,
    }

    impl From<ContainerStatus> for super::ContainerStatus {
        fn from(read: ContainerStatus) -> Self {
            let ContainerStatus { name, image, image_id, container_id, ready, restart_count, .. } = read;
            let State { running, terminated, waiting } = read.state;
            let (state, resources) = (ContainerState { terminated, waiting }, read.resources);
            let report = ContainerReport { name, image, image_id, ready, restart_count, state, resources };
            Self { report: report.into(), container_id, running }
        }
    }
}
