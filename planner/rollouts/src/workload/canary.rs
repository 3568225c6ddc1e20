//! Releases with a second Deployment, which runs the new Pods until the first one is rolled by Kubernetes itself.

use api::kinds::batchrelease::{BatchRelease, FinalizingPolicy};
use api::kinds::shared::IntOrString;
use api::labels::{CANARY_DEPLOYMENT, STABLE_REVISION};
use api::{annotations, finalizers};
use pod::template::comparison;
use serde_json::{Value, json};
use values::percent::{Rounding, scaled};

use super::batch::Batch;
use super::kind::number;
use super::task::{End, Task, control_info, owner};
use crate::deployment::template_hash;
use crate::draft::{set, value};
use crate::object::{Object as _, ObjectName};
use crate::view::{ListName, Unread, View};
use crate::write::Write;

const API_VERSION: &str = "apps/v1";
/// How many letters the API server adds to a name that it makes up.
const DRAWN_LETTERS: usize = 5;

/// The second Deployments of a Deployment.
fn list(namespace: &str, stable: &str) -> ListName {
    ListName::new(API_VERSION, "Deployment", namespace, &format!("{CANARY_DEPLOYMENT}={stable}"))
}

/// Those of them that nobody deletes.
pub(super) fn all<'v>(namespace: &str, stable: &str, view: &'v View) -> Result<Vec<&'v Value>, Unread> {
    let listed = view.list(&list(namespace, stable))?;
    Ok(listed.iter().filter(|canary| !canary.is_deleting()).collect())
}

/// The second Deployment that runs the present template of the first one, of this owner where one is given; of several the
/// youngest.
pub(super) fn find<'v>(
    stable: &Value,
    view: &'v View,
    owner: Option<&str>,
) -> Result<Option<&'v Value>, Unread> {
    let canaries = all(stable.text("/metadata/namespace"), stable.name(), view)?.into_iter();
    let canaries = canaries.filter(|canary| owner.is_none() || canary.controller() == owner);
    let canaries = canaries.filter(|canary| has_template_of(stable, canary));
    Ok(canaries.max_by_key(|canary| (canary.text("/metadata/creationTimestamp"), canary.name())))
}

/// A second Deployment runs the present template of the first one. Its name says so; one that OpenKruise made has a drawn
/// name, and labels and annotations of the release in its template, and is known by the rest.
pub(super) fn has_template_of(stable: &Value, canary: &Value) -> bool {
    let is_drawn = |name: &str| {
        let suffix = name.strip_prefix(stable.name()).and_then(|rest| rest.strip_prefix('-'));
        suffix.is_some_and(|suffix| suffix.len() == DRAWN_LETTERS)
    };
    let spec = |object: &Value| json!({"spec": value(object, &["spec", "template", "spec"])});
    canary.name() == canary_name(stable)
        || is_drawn(canary.name()) && comparison::is_same(&spec(stable), &spec(canary))
}

fn canary_name(stable: &Value) -> String {
    format!("{}-{}", stable.name(), template_hash(&value(stable, &["spec", "template"]), 0))
}

/// Lets the second Deployment grow to the size of a batch; shrinks it only where it `closes`.
pub(super) fn open(task: &mut Task<'_>, batch: &Batch<'_>, closes: bool) -> Result<(), Unread> {
    let stable = &task.workload.object;
    let Some(canary) = find(stable, task.view, Some(&task.release.metadata.uid))? else {
        let canary = made(task.release, stable, batch.updated);
        task.writes.push(Write::Create { name: name_of(&canary), object: canary });
        return Ok(());
    };
    let present = number(canary, "/spec/replicas").unwrap_or(1);
    if present < batch.updated || closes && present != batch.updated {
        let patch = json!({"spec": {"replicas": batch.updated}});
        task.writes.push(Write::patch(&name_of(canary), canary, patch));
    }
    Ok(())
}

/// The second Deployment: a copy of the first one's spec, with labels and annotations of the release in its template.
fn made(release: &BatchRelease, stable: &Value, replicas: i32) -> Value {
    let mut spec = stable.get("spec").cloned().unwrap_or_default();
    set(&mut spec, &["replicas"], replicas.into());
    set(&mut spec, &["paused"], false.into());
    if let Some(given) = &release.spec.release_plan.patch_pod_template_metadata {
        for (member, pairs) in [("labels", &given.labels), ("annotations", &given.annotations)] {
            for (key, value) in pairs {
                set(&mut spec, &["template", "metadata", member, key], value.as_str().into());
            }
        }
    }
    json!({
        "apiVersion": API_VERSION,
        "kind": "Deployment",
        "metadata": {
            "name": canary_name(stable),
            "namespace": stable.text("/metadata/namespace"),
            "labels": {CANARY_DEPLOYMENT: stable.name()},
            "annotations": {annotations::BATCH_RELEASE_CONTROL: control_info(release)},
            "finalizers": [finalizers::CANARY_DEPLOYMENT],
            "ownerReferences": [owner(release)],
        },
        "spec": spec,
    })
}

/// Rolls the first Deployment, unless another release follows, and removes the second one.
pub(super) fn end(task: &mut Task<'_>, end: End) -> Result<Option<String>, Unread> {
    let workload = task.workload;
    if end != End::Continue {
        task.draft.resume(&["spec", "paused"]);
        task.draft.remove_label(STABLE_REVISION);
    }
    let waits = task.release.spec.release_plan.finalizing_policy == Some(FinalizingPolicy::WaitResume);
    if waits && end == End::HandBack {
        let is_rolling = task.draft.is_changed() || !workload.is_observed();
        let stable = Rolled::of(&workload.object, workload.replicas);
        if is_rolling || !stable.is_done(workload.replicas) {
            return Ok(Some(stable.words(&workload.name.name, workload.replicas)));
        }
    }
    task.writes.extend(removals(task.release, &workload.name.name, task.view)?);
    Ok(None)
}

/// How far Kubernetes has rolled a Deployment.
struct Rolled {
    updated: i32,
    available: i32,
    max_unavailable: i32,
}

impl Rolled {
    fn of(deployment: &Value, replicas: i32) -> Self {
        let count = |pointer: &str| number(deployment, pointer).unwrap_or(0);
        let path = ["spec", "strategy", "rollingUpdate", "maxUnavailable"];
        let share: Option<IntOrString> = serde_json::from_value(value(deployment, &path)).ok();
        Self {
            updated: count("/status/updatedReplicas"),
            available: count("/status/availableReplicas"),
            max_unavailable: share.and_then(|share| scaled(&share, replicas, Rounding::Down)).unwrap_or(0),
        }
    }

    fn is_done(&self, replicas: i32) -> bool {
        self.updated >= replicas && self.available >= replicas - self.max_unavailable
    }

    fn words(&self, name: &str, replicas: i32) -> String {
        let Self { updated, available, .. } = self;
        format!("Deployment `{name}` rolls: {updated} of {replicas} pods new, {available} available")
    }
}

/// Removes the second Deployments of a release.
pub(super) fn removals(release: &BatchRelease, stable: &str, view: &View) -> Result<Vec<Write>, Unread> {
    let listed = view.list(&list(&release.metadata.namespace, stable))?;
    let own = listed.iter().filter(|canary| canary.controller() == Some(release.metadata.uid.as_str()));
    Ok(own.flat_map(removal).collect())
}

/// Deletes a Deployment, which goes once its finalizer is gone.
fn removal(canary: &Value) -> Vec<Write> {
    let name = name_of(canary);
    let mut writes = Vec::new();
    if canary.has_finalizer(finalizers::CANARY_DEPLOYMENT) {
        let others = canary.items("/metadata/finalizers").iter();
        let others = others.filter(|held| held.as_str() != Some(finalizers::CANARY_DEPLOYMENT));
        let others: Vec<Value> = others.cloned().collect();
        writes.push(Write::patch(&name, canary, json!({"metadata": {"finalizers": others}})));
    }
    if !canary.is_deleting() {
        writes.push(Write::delete(&name, canary));
    }
    writes
}

fn name_of(canary: &Value) -> ObjectName {
    ObjectName::new(API_VERSION, "Deployment", canary.text("/metadata/namespace"), canary.name())
}
