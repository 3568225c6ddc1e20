//! The objects that runs have created, as much of them as the rules read
//! (docs/behaviour/advancedcronjob.md#children).

use api::annotations::SCHEDULED_AT;
use api::kinds::advancedcronjob::{self, Template};
use api::kinds::shared::{JobCondition, ObjectReference};
use api::kinds::{ObjectMeta, Time, broadcastjob, imagelistpulljob};
use jiff::Timestamp;
use serde::Deserialize;

use crate::workload::object_version::ObjectVersion;

#[cfg(test)]
mod tests;

/// What an AdvancedCronJob creates.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum ChildKind {
    /// Jobs of Kubernetes.
    Job,
    /// BroadcastJobs.
    BroadcastJob,
    /// ImageListPullJobs.
    ImageListPullJob,
}

impl ChildKind {
    /// All of them.
    pub const ALL: [Self; 3] = [Self::Job, Self::BroadcastJob, Self::ImageListPullJob];

    /// What this template creates.
    pub fn of(template: &Template) -> Self {
        if template.job_template.is_some() {
            Self::Job
        } else if template.image_list_pull_job_template.is_some() {
            Self::ImageListPullJob
        } else {
            Self::BroadcastJob
        }
    }

    /// Its name in objects.
    pub fn kind(self) -> &'static str {
        match self {
            Self::Job => "Job",
            Self::BroadcastJob => broadcastjob::KIND,
            Self::ImageListPullJob => imagelistpulljob::KIND,
        }
    }

    /// Its name in paths.
    pub fn plural(self) -> &'static str {
        match self {
            Self::Job => "jobs",
            Self::BroadcastJob => broadcastjob::PLURAL,
            Self::ImageListPullJob => imagelistpulljob::PLURAL,
        }
    }

    /// Its group and version.
    pub fn api_version(self) -> &'static str {
        match self {
            Self::Job => "batch/v1",
            Self::BroadcastJob => broadcastjob::API_VERSION,
            Self::ImageListPullJob => imagelistpulljob::API_VERSION,
        }
    }
}

/// How far a child is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Progress {
    /// It continues.
    Active,
    /// It is over, and did what it was to do.
    Successful,
    /// It is over, and did not.
    Failed,
}

/// A child.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Child {
    /// Its namespace.
    pub namespace: Box<str>,
    /// Its name.
    pub name: Box<str>,
    /// Its identity.
    pub uid: Box<str>,
    /// The version of this state.
    pub resource_version: Box<str>,
    /// Name and UID of its AdvancedCronJob.
    pub owner: (Box<str>, Box<str>),
    /// The tick that it was created for; `None` where that is not known.
    pub scheduled_at: Option<Timestamp>,
    /// When it began.
    pub started: Option<Timestamp>,
    /// How far it is.
    pub progress: Progress,
    /// It is being deleted.
    pub deleting: bool,
}

#[derive(Default, Deserialize)]
#[serde(default)]
struct Object {
    metadata: ObjectMeta,
    status: Option<Status>,
}

#[derive(Default, Deserialize)]
#[serde(rename_all = "camelCase", default)]
struct Status {
    start_time: Option<Time>,
    completion_time: Option<Time>,
    conditions: Option<Vec<JobCondition>>,
    desired: Option<i32>,
    succeeded: Option<i32>,
}

impl Child {
    /// Reads an object of this kind; `None` for one that no AdvancedCronJob created.
    ///
    /// # Errors
    /// The text is no such object.
    pub fn read(kind: ChildKind, json: &str) -> Result<Option<Self>, serde_json::Error> {
        let Object { metadata, status } = serde_json::from_str(json)?;
        let owner = metadata.controller();
        let owner =
            owner.filter(|owner| owner.kind == advancedcronjob::KIND && owner.group() == api::APPS_GROUP);
        let Some(owner) = owner.map(|owner| (owner.name.as_str().into(), owner.uid.as_str().into())) else {
            return Ok(None);
        };
        let status = status.unwrap_or_default();
        Ok(Some(Self {
            owner,
            scheduled_at: metadata.annotations.get(SCHEDULED_AT).and_then(|time| time.parse().ok()),
            started: status.start_time.as_ref().and_then(Time::timestamp),
            progress: status.progress(kind),
            deleting: metadata.deletion_timestamp.is_some(),
            namespace: metadata.namespace.into(),
            name: metadata.name.into(),
            uid: metadata.uid.into(),
            resource_version: metadata.resource_version.into(),
        }))
    }

    /// Whether the object of this name and UID created it.
    pub fn is_of(&self, metadata: &ObjectMeta) -> bool {
        *self.namespace == *metadata.namespace && *self.owner.1 == *metadata.uid
    }

    /// Whether it continues.
    pub fn is_active(&self) -> bool {
        self.progress == Progress::Active
    }

    /// The state that was observed.
    pub(super) fn observed(&self) -> ObjectVersion {
        ObjectVersion {
            name: self.name.to_string(),
            uid: self.uid.to_string(),
            resource_version: self.resource_version.to_string(),
        }
    }

    /// As `status.active` names it.
    pub(super) fn reference(&self, kind: ChildKind) -> ObjectReference {
        ObjectReference {
            api_version: kind.api_version().to_owned(),
            kind: kind.kind().to_owned(),
            namespace: self.namespace.to_string(),
            name: self.name.to_string(),
            resource_version: self.resource_version.to_string(),
            uid: self.uid.to_string(),
            ..ObjectReference::default()
        }
    }
}

impl Status {
    fn progress(&self, kind: ChildKind) -> Progress {
        use api::kinds::shared::ConditionStatus::True;
        if kind == ChildKind::ImageListPullJob {
            return match &self.completion_time {
                None => Progress::Active,
                Some(_) if self.succeeded.unwrap_or(0) == self.desired.unwrap_or(0) => Progress::Successful,
                Some(_) => Progress::Failed,
            };
        }
        let mut conditions = self.conditions.iter().flatten().filter(|condition| condition.status == True);
        let ends = conditions.find_map(|condition| match condition.kind.as_str() {
            "Complete" => Some(Progress::Successful),
            "Failed" => Some(Progress::Failed),
            _ => None,
        });
        ends.unwrap_or(Progress::Active)
    }
}
