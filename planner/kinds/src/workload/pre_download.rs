//! Pulling the images of a new revision ahead of its update in place: when, which, and as which ImagePullJobs
//! (docs/behaviour/in-place-update.md#image-pre-download). The caller asks only while the gates for it are on
//! and the API exists.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use api::annotations::{
    IMAGE_PREDOWNLOAD_MIN_UPDATED_READY_PODS, IMAGE_PREDOWNLOAD_PARALLELISM,
    IMAGE_PREDOWNLOAD_TIMEOUT_SECONDS,
};
use api::features::Feature;
use api::kinds::imagepulljob::{API_VERSION, KIND, Spec};
use api::kinds::shared::{
    CompletionPolicy, CompletionPolicyType, InPlaceUpdateStrategy, IntOrString, PullPolicy, SandboxConfig,
};
use api::labels::{
    CONTROLLER_HASH, CONTROLLER_REVISION_HASH, IMAGE_PREDOWNLOAD_IGNORED, PRE_PREDOWNLOAD_CREATED,
};
use api::meta::{LabelSelector, LabelSelectorRequirement};
use serde::{Deserialize, Serialize};

use crate::workload::action::{Action, CONTROLLER_REVISION, IMAGE_PULL_JOB};
use crate::workload::children::Child;
use crate::workload::kind::{Workload, WorkloadStatus};
use crate::workload::object_version::ObjectVersion;
use crate::workload::owner::Owner;
use crate::workload::revision::{RevisionData, StoredRevision};
use crate::workload::snapshot::Snapshot;
use pod::revision_labels::short_hash;
use values::canonical::CanonicalError;
use values::event::normal;
use values::percent::{Rounding, scaled};

#[cfg(test)]
mod tests;

/// Fewer Pods than this are not worth a job: by the time the images are there, the update is done.
const MIN_REPLICAS: i32 = 4;
const DEFAULT_PARALLELISM: i32 = 1;
/// What OpenKruise uses; its documentation says 600.
const DEFAULT_TIMEOUT_SECONDS: i32 = 300;
const BACKOFF_LIMIT: i32 = 1;
const TTL_SECONDS_AFTER_FINISHED: i32 = 600;

/// What the user set for the download.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct PreDownloadSettings {
    /// On how many nodes at a time.
    pub parallelism: IntOrString,
    /// Seconds for one attempt.
    pub timeout_seconds: i32,
    /// How many Pods must be updated and ready first.
    pub min_updated_ready_pods: i32,
}

impl PreDownloadSettings {
    /// Those of a CloneSet.
    pub fn of_strategy(strategy: &InPlaceUpdateStrategy) -> Self {
        let parallelism = strategy.image_pre_download_parallelism.clone();
        Self {
            parallelism: parallelism.unwrap_or(IntOrString::Int(DEFAULT_PARALLELISM)),
            timeout_seconds: strategy.image_pre_download_timeout_seconds.unwrap_or(DEFAULT_TIMEOUT_SECONDS),
            min_updated_ready_pods: strategy.image_pre_download_min_updated_ready_pods.unwrap_or(0),
        }
    }

    /// Those of a StatefulSet or DaemonSet with so many replicas: what its annotations say, else its strategy. What
    /// can't be read counts as not set.
    pub fn of_annotations(
        annotations: &BTreeMap<String, String>,
        strategy: &InPlaceUpdateStrategy,
        replicas: i32,
    ) -> Self {
        let number = |key: &str| annotations.get(key).and_then(|text| text.parse::<i32>().ok());
        let min_updated_ready_pods = annotations.get(IMAGE_PREDOWNLOAD_MIN_UPDATED_READY_PODS);
        let min_updated_ready_pods = min_updated_ready_pods.and_then(|text| match text.parse() {
            Ok(number) => Some(number),
            Err(_) => scaled(&IntOrString::String(text.clone()), replicas, Rounding::Up),
        });
        let of_strategy = Self::of_strategy(strategy);
        Self {
            parallelism: number(IMAGE_PREDOWNLOAD_PARALLELISM)
                .map_or(of_strategy.parallelism, IntOrString::Int),
            timeout_seconds: number(IMAGE_PREDOWNLOAD_TIMEOUT_SECONDS).unwrap_or(of_strategy.timeout_seconds),
            min_updated_ready_pods: min_updated_ready_pods.unwrap_or(of_strategy.min_updated_ready_pods),
        }
    }
}

/// The rollout of a revision.
#[derive(Clone, Debug)]
pub struct Rollout<'a> {
    /// The workload.
    pub owner: Owner<'a>,
    /// Its namespace.
    pub namespace: &'a str,
    /// Its selector.
    pub selector: &'a LabelSelector,
    /// The label that holds the short hash on revisions and jobs.
    pub hash_label: &'a str,
    /// The revisions that Pods come from; of a DaemonSet all old ones.
    pub old: &'a [&'a StoredRevision],
    /// The revision that they go to.
    pub update: &'a StoredRevision,
    /// What the user set.
    pub settings: &'a PreDownloadSettings,
    /// Updated Pods that are ready; 0 while status speaks of another update revision.
    pub updated_ready: i32,
    /// The download is worth its while: see [`is_worthwhile`].
    pub worthwhile: bool,
}

/// The gates for it are on, and the API exists.
pub fn is_enabled<W: Workload>(snapshot: &Snapshot<'_, W>) -> bool {
    let gates = [Feature::KruiseDaemon, W::PRE_DOWNLOAD];
    snapshot.environment.pull_jobs && gates.into_iter().all(|gate| snapshot.gates.enabled(gate))
}

/// Plans the download for a workload whose Pods come from one revision. `updated_ready` are the updated Pods that are
/// ready, by its status.
pub(crate) fn from_one_revision<W: Workload>(
    snapshot: &Snapshot<'_, W>,
    (current, update): (&StoredRevision, &StoredRevision),
    settings: &PreDownloadSettings,
    updated_ready: i32,
    worthwhile: impl FnOnce() -> bool,
) -> Vec<Action> {
    if !is_enabled(snapshot) {
        return Vec::new();
    }
    if current.name() == update.name() {
        return clear(snapshot.children);
    }
    let workload = snapshot.workload;
    let is_known = workload.status().update_revision() == update.name();
    let rollout = Rollout {
        owner: workload.owner(),
        namespace: &workload.metadata().namespace,
        selector: workload.selector(),
        hash_label: CONTROLLER_HASH,
        old: &[current],
        update,
        settings,
        updated_ready: if is_known { updated_ready } else { 0 },
        worthwhile: worthwhile(),
    };
    // A template that can't be read is reported where Pods are updated.
    plan(&rollout).unwrap_or_default()
}

/// Whether images are pulled ahead at all. `max_unavailable` is the number of Pods that are updated at a
/// time (a share rounded down), `in_place` that the change can be made in running Pods.
pub fn is_worthwhile(replicas: i32, partition: i32, max_unavailable: i32, in_place: bool) -> bool {
    let one_batch = partition == 0 && max_unavailable >= replicas;
    in_place && replicas >= MIN_REPLICAS && !one_batch
}

/// Plans the download for a rollout whose current and update revision differ: jobs to create, then the mark
/// of the update revision, which is put there even if a creation failed.
///
/// # Errors
/// Where a recorded template can't be read.
pub fn plan(rollout: &Rollout<'_>) -> Result<Vec<Action>, CanonicalError> {
    let labels = &rollout.update.metadata.labels;
    let decided =
        labels.contains_key(PRE_PREDOWNLOAD_CREATED) || labels.contains_key(IMAGE_PREDOWNLOAD_IGNORED);
    if decided || rollout.updated_ready < rollout.settings.min_updated_ready_pods {
        return Ok(Vec::new());
    }
    if !rollout.worthwhile {
        return Ok(vec![mark(rollout.update, IMAGE_PREDOWNLOAD_IGNORED)]);
    }
    let template = TemplateLens::of(rollout.update)?;
    let old: Vec<TemplateLens> =
        rollout.old.iter().map(|revision| TemplateLens::of(revision)).collect::<Result<_, _>>()?;
    let changed = template.spec.containers.iter().filter(|new| {
        let known = old.iter().flat_map(|old| &old.spec.containers);
        let known = known.filter(|old| old.name == new.name);
        let images: BTreeSet<&str> = known.map(|old| old.image.as_str()).collect();
        images != BTreeSet::from([new.image.as_str()])
    });
    let jobs = changed.map(|container| job(rollout, &template, container));
    Ok(jobs.chain([mark(rollout.update, PRE_PREDOWNLOAD_CREATED)]).collect())
}

/// Deletes the jobs of a rollout that is over.
pub fn clear(children: &[Arc<Child>]) -> Vec<Action> {
    let jobs = children.iter().filter(|child| child.kind == IMAGE_PULL_JOB);
    jobs.map(|job| Action::DeleteChild { kind: job.kind, child: job.observed.clone() }).collect()
}

/// Puts a label `true` on the update revision, whichever version of it is stored, so that the question is not
/// asked again.
fn mark(revision: &StoredRevision, label: &str) -> Action {
    let child = ObjectVersion::object(&revision.metadata);
    let uid = values::json_patch::string(&child.uid);
    let patch = format!(r#"{{"metadata":{{"uid":{uid},"labels":{{"{label}":"true"}}}}}}"#);
    Action::PatchChild { kind: CONTROLLER_REVISION, child, patch }
}

fn job(rollout: &Rollout<'_>, template: &TemplateLens, container: &ContainerLens) -> Action {
    #[derive(Serialize)]
    #[serde(rename_all = "camelCase")]
    struct Job<'a> {
        api_version: &'static str,
        kind: &'static str,
        metadata: Metadata<'a>,
        spec: Spec,
    }
    #[derive(Serialize)]
    #[serde(rename_all = "camelCase")]
    struct Metadata<'a> {
        name: &'a str,
        namespace: &'a str,
        labels: &'a BTreeMap<String, String>,
        owner_references: [Owner<'a>; 1],
    }
    let revision = rollout.update.name();
    let name = format!("{revision}-{}", container.name);
    let mut labels = template.metadata.labels.clone();
    labels.insert(rollout.hash_label.to_owned(), short_hash(revision).to_owned());
    let mut pod_selector = rollout.selector.clone();
    pod_selector.match_expressions.get_or_insert_default().push(LabelSelectorRequirement {
        key: CONTROLLER_REVISION_HASH.to_owned(),
        operator: "NotIn".to_owned(),
        values: Some(vec![revision.to_owned(), short_hash(revision).to_owned()]),
    });
    let spec = Spec {
        image: container.image.clone(),
        pull_secrets: template.spec.image_pull_secrets.iter().map(|secret| secret.name.clone()).collect(),
        pod_selector: Some(pod_selector),
        parallelism: Some(rollout.settings.parallelism.clone()),
        pull_policy: PullPolicy {
            backoff_limit: Some(BACKOFF_LIMIT),
            timeout_seconds: Some(rollout.settings.timeout_seconds),
        },
        completion_policy: CompletionPolicy {
            kind: Some(CompletionPolicyType::Always),
            ttl_seconds_after_finished: Some(TTL_SECONDS_AFTER_FINISHED),
            ..CompletionPolicy::default()
        },
        sandbox_config: SandboxConfig {
            annotations: template.metadata.annotations.clone(),
            labels: labels.clone(),
        },
        ..Spec::default()
    };
    let metadata = Metadata {
        name: &name,
        namespace: rollout.namespace,
        labels: &labels,
        owner_references: [rollout.owner],
    };
    let job = Job { api_version: API_VERSION, kind: KIND, metadata, spec };
    // Texts and numbers in maps with text keys only: writing them as JSON cannot fail.
    let json = serde_json::to_string(&job).unwrap_or_default();
    Action::CreateChild {
        kind: IMAGE_PULL_JOB,
        json,
        created: normal(
            "CreatedImagePullJob",
            format!("created ImagePullJob {name} for image: {}", container.image),
        ),
        // An ordinary Event, as clients of OpenKruise know it.
        failed: normal("FailedCreateImagePullJob", format!("failed to create ImagePullJob {name}")),
        name,
    }
}

/// The parts of a template that a job is made from.
#[derive(Debug, Default, Deserialize)]
#[serde(default)]
struct TemplateLens {
    metadata: MetadataLens,
    spec: SpecLens,
}

#[derive(Debug, Default, Deserialize)]
#[serde(default)]
struct MetadataLens {
    labels: BTreeMap<String, String>,
    annotations: BTreeMap<String, String>,
}

#[derive(Debug, Default, Deserialize)]
#[serde(rename_all = "camelCase", default)]
struct SpecLens {
    init_containers: Vec<ContainerLens>,
    /// What has an image: the containers, native sidecars, and then the volumes that are images.
    containers: Vec<ContainerLens>,
    volumes: Vec<VolumeLens>,
    image_pull_secrets: Vec<SecretLens>,
}

#[derive(Debug, Default, Deserialize)]
#[serde(rename_all = "camelCase", default)]
struct ContainerLens {
    name: String,
    image: String,
    restart_policy: String,
}

#[derive(Debug, Default, Deserialize)]
#[serde(default)]
struct VolumeLens {
    name: String,
    image: Option<ImageLens>,
}

#[derive(Debug, Default, Deserialize)]
#[serde(default)]
struct ImageLens {
    reference: String,
}

#[derive(Debug, Default, Deserialize)]
#[serde(default)]
struct SecretLens {
    name: String,
}

impl TemplateLens {
    /// Reads what a revision recorded, in its canonical form, where no list or map is `null`.
    fn of(revision: &StoredRevision) -> Result<Self, CanonicalError> {
        #[derive(Deserialize)]
        struct Data {
            spec: Template,
        }
        #[derive(Deserialize)]
        struct Template {
            template: TemplateLens,
        }
        let revision = RevisionData::of_data(revision.data.get())?;
        let mut template = serde_json::from_str::<Data>(revision.projection())?.spec.template;
        let SpecLens { init_containers, volumes, containers, .. } = &mut template.spec;
        let is_sidecar = |container: &ContainerLens| container.restart_policy == "Always";
        let sidecars = std::mem::take(init_containers).into_iter().filter(is_sidecar);
        let images = std::mem::take(volumes).into_iter().filter_map(|volume| {
            let image = volume.image?.reference;
            // No container has a name like this.
            let name = format!("volume.{}", volume.name);
            (!image.is_empty()).then(|| ContainerLens { name, image, ..ContainerLens::default() })
        });
        containers.extend(sidecars.chain(images));
        Ok(template)
    }
}
