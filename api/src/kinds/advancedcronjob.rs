//! Starts a Job, a BroadcastJob or an ImageListPullJob at the times of a cron schedule.
//!
//! Embedded specs are carried as text: `broadcastJobTemplate.spec` reads as the
//! [`Spec`](super::broadcastjob::Spec) of a BroadcastJob, `imageListPullJobTemplate.spec` as the
//! [`Spec`](super::imagelistpulljob::Spec) of an ImageListPullJob.

use serde::{Deserialize, Serialize};

use super::shared::{ObjectReference, WorkloadTemplate};
use super::{Object, Time};
use crate::Raw;

/// Kind of an AdvancedCronJob.
pub const KIND: &str = "AdvancedCronJob";
/// Plural of an AdvancedCronJob in request paths.
pub const PLURAL: &str = "advancedcronjobs";
/// The group and version of these types.
pub const API_VERSION: &str = "apps.kruise.io/v1beta1";

/// An AdvancedCronJob.
pub type AdvancedCronJob = Object<Spec, Status>;

objects! {
    /// `spec`: when to run, what to run, and what to keep of it afterwards.
    pub struct Spec {
        /// What happens when a run is due while an earlier one is not finished. Allow starts it beside the
        /// other, Forbid skips it, Replace deletes the earlier one first. Default Allow, and Replace with an
        /// imageListPullJobTemplate.
        pub concurrency_policy: Option<ConcurrencyPolicy>,
        /// How many failed children are kept. Older ones are deleted. Default 1.
        pub failed_jobs_history_limit: Option<i32>,
        /// Start no new runs. Children that are already there continue. Default false.
        pub paused: bool,
        /// When to run, in cron form: minute, hour, day of month, month, day of week, for example `0 3 * *
        /// *`. Shorthands such as @hourly and @every 30m work too.
        required pub schedule: String,
        /// How many seconds late a run may still start. A run that is later than this is skipped. Unset means
        /// no limit.
        pub starting_deadline_seconds: Option<i64>,
        /// How many successfully finished children are kept. Older ones are deleted. Default 3.
        pub successful_jobs_history_limit: Option<i32>,
        /// What a run creates. Exactly one of the templates in it must be set.
        required pub template: Template,
        /// The zone in which the schedule is read, by its IANA name such as Europe/Berlin. Unset means the
        /// zone of the controller's process.
        pub time_zone: Option<String>,
    }

    /// `spec.template`: what a run creates. Exactly one of the templates in it must be set.
    pub struct Template {
        /// A BroadcastJob to create, which runs one Pod on every fitting node.
        pub broadcast_job_template: Option<WorkloadTemplate>,
        /// An ImageListPullJob to create, which pulls a list of images onto nodes.
        pub image_list_pull_job_template: Option<WorkloadTemplate>,
        /// A batch/v1 Job to create, as metadata and spec. Only the labels and annotations of its metadata
        /// are used.
        pub job_template: Option<Raw>,
    }

    /// `status`: what the controller last observed. Written by the controller only, through the status
    /// subresource.
    pub struct Status {
        /// The children that are not finished yet.
        pub active: Vec<ObjectReference>,
        /// The scheduled time of the latest run, whether its child still exists or not. Absent before the
        /// first run.
        pub last_schedule_time: Option<Time>,
        /// The kind of children that the template makes: Job, BroadcastJob or ImageListPullJob.
        #[serde(rename = "type")]
        pub kind: String,
    }
}

/// What happens when a run is due while an earlier one is not finished. Its default depends on the template.
#[derive(Clone, Debug, PartialEq, Eq, Deserialize, Serialize)]
pub enum ConcurrencyPolicy {
    /// Start it beside the other.
    Allow,
    /// Skip it.
    Forbid,
    /// Delete the earlier one first.
    Replace,
    /// A value unknown to this version, kept as it is.
    #[serde(untagged)]
    Other(String),
}
