//! Which version of a workload is stable, which is new, and how many Pods the new one has.

use api::annotations::DAEMONSET_REVISION;
use api::labels::{POD_TEMPLATE_HASH, STABLE_REVISION};
use pod::revision_labels::{RevisionLabels, short_hash};
use serde_json::Value;

use super::kind::number;
use super::{
    Style, Workload, WorkloadKind, canary, controller_revisions, given_rollout_id, new_pods, revision_hash,
};
use crate::deployment::{replica_sets, same_template, template_hash};
use crate::draft::value;
use crate::object::Object as _;
use crate::view::{Unread, View};

/// Reads the versions of a workload, of which the rest was read.
pub(super) fn read(workload: &mut Workload, view: &View) -> Result<(), Unread> {
    match (workload.kind, workload.style) {
        (WorkloadKind::Deployment, Style::Canary) => with_canary(workload, view),
        (WorkloadKind::Deployment, _) => deployment(workload, view),
        (WorkloadKind::AdvancedDaemonSet | WorkloadKind::DaemonSet, _) => daemonset(workload, view),
        (WorkloadKind::CloneSet, _) => set(workload, short_hash, view),
        _ => set(workload, |revision| revision, view),
    }
}

/// A CloneSet or StatefulSet names both versions in its status. The old one stays the current one until all Pods are new.
fn set(workload: &mut Workload, label: fn(&str) -> &str, view: &View) -> Result<(), Unread> {
    workload.stable_revision = label(workload.object.text("/status/currentRevision")).to_owned();
    workload.update_revision = label(workload.object.text("/status/updateRevision")).to_owned();
    workload.pod_template_hash.clone_from(&workload.update_revision);
    let is_at_stable = workload.stable_revision == workload.update_revision;
    workload.is_rolled_back = is_at_stable && workload.updated_replicas != workload.status_replicas;
    workload.updated_ready_replicas = updated_ready(workload, view)?;
    Ok(())
}

/// How many new Pods are ready: as the status says. Where it does not, and does not follow from the rest, Pods are counted.
fn updated_ready(workload: &Workload, view: &View) -> Result<i32, Unread> {
    if let Some(told) = number(&workload.object, "/status/updatedReadyReplicas") {
        return Ok(told);
    }
    if workload.updated_replicas == 0 || workload.ready_replicas >= workload.status_replicas {
        return Ok(workload.updated_replicas);
    }
    let pods = new_pods(workload.kind, workload.object.uid(), &workload.update_revision, view)?;
    Ok(i32::try_from(pods.iter().filter(|pod| pod.is_ready()).count()).unwrap_or(i32::MAX))
}

/// The status of a DaemonSet does not name the old version: it is the one that the first release of several noted, or the
/// newest before the new one; of these the first that Pods have.
fn daemonset(workload: &mut Workload, view: &View) -> Result<(), Unread> {
    let object = &workload.object;
    let revisions = controller_revisions(object, view)?;
    let hashes: Vec<&str> = revisions.into_iter().map(revision_hash).collect();
    let told = ["/status/daemonSetHash", "/status/updateRevision"].map(|pointer| object.text(pointer));
    let told = told.into_iter().find(|hash| !hash.is_empty()).map(short_hash);
    let new = told.or(hashes.last().copied()).unwrap_or_default();
    let noted = workload.in_progressing.as_ref().and_then(|_| noted_stable_revision(object));
    workload.is_rolled_back = noted.as_deref() == Some(new);
    let others = hashes.iter().rev().copied().filter(|hash| *hash != new);
    let candidates: Vec<&str> = noted.as_deref().into_iter().chain(others).collect();
    let mut stable = candidates.first().copied().unwrap_or(new);
    if workload.in_progressing.is_some() && !workload.is_rolled_back {
        let pods = view.pods_of(object.uid())?;
        let runs = |hash: &&str| pods.iter().any(|pod| RevisionLabels::Hash.is_at(pod, hash));
        stable = candidates.iter().copied().find(runs).unwrap_or(stable);
    }
    let (new, stable) = (new.to_owned(), stable.to_owned());
    (workload.update_revision, workload.pod_template_hash) = (new.clone(), new);
    workload.stable_revision = stable;
    workload.updated_ready_replicas = updated_ready(workload, view)?;
    Ok(())
}

/// The stable version that a release noted on its DaemonSet.
pub(super) fn noted_stable_revision(daemonset: &Value) -> Option<String> {
    let noted: Value = serde_json::from_str(daemonset.annotation(DAEMONSET_REVISION)?).ok()?;
    Some(noted.text("/stable-revision").to_owned()).filter(|revision| !revision.is_empty())
}

/// The new version of a Deployment is that of the ReplicaSet with its template. Before there is one, it has a name already.
fn deployment(workload: &mut Workload, view: &View) -> Result<(), Unread> {
    let object = &workload.object;
    let sets = replica_sets(object, view)?;
    let new = sets.iter().copied().find(|set| same_template(object, set));
    let new_hash = new.and_then(hash).unwrap_or_default();
    let in_use: Vec<&str> = sets.iter().filter(|set| is_in_use(set)).filter_map(|set| hash(set)).collect();
    let labelled = object.label(STABLE_REVISION).filter(|label| !label.is_empty());
    let labelled = labelled.or(in_use.first().copied()).unwrap_or_default();
    let third = in_use.iter().copied().find(|hash| ![labelled, new_hash].contains(hash));
    workload.has_other_version = third.is_some();
    // A version that no Pod has any more is not what a newer one replaces.
    let is_gone = labelled != new_hash && !in_use.contains(&labelled);
    let stable = third.filter(|_| is_gone).unwrap_or(labelled).to_owned();
    workload.update_revision = template_hash(&value(object, &["spec", "template"]), 0);
    workload.pod_template_hash = new_hash.to_owned();
    workload.new_pods_owner = new.map(|new| new.uid().to_owned()).unwrap_or_default();
    workload.updated_replicas = new.and_then(|new| number(new, "/status/replicas")).unwrap_or(0);
    workload.updated_ready_replicas = new.and_then(|new| number(new, "/status/readyReplicas")).unwrap_or(0);
    // With an identity of its own a release may be one of the same template.
    let is_whole = workload.updated_replicas == workload.status_replicas;
    let is_wanted = is_whole && given_rollout_id(object).is_some();
    workload.is_rolled_back = !stable.is_empty() && new_hash == stable && !is_wanted;
    workload.stable_revision = stable;
    Ok(())
}

/// With a second Deployment the first one keeps its old Pods, and the second one's are new.
fn with_canary(workload: &mut Workload, view: &View) -> Result<(), Unread> {
    let object = &workload.object;
    let sets = replica_sets(object, view)?;
    let stable = oldest_in_use(&sets);
    workload.stable_revision = stable.and_then(hash).unwrap_or_default().to_owned();
    workload.is_rolled_back = stable.is_some_and(|stable| same_template(object, stable));
    workload.update_revision = template_hash(&value(object, &["spec", "template"]), 0);
    let canary = canary::find(object, view, None)?;
    let others = canary::all(object.text("/metadata/namespace"), object.name(), view)?;
    workload.has_other_version = others.iter().any(|other| !canary::has_template_of(object, other));
    let count = |pointer: &str| canary.and_then(|canary| number(canary, pointer)).unwrap_or(0);
    workload.updated_replicas = count("/status/updatedReplicas");
    workload.updated_ready_replicas = count("/status/availableReplicas");
    let new = match canary {
        Some(canary) => replica_sets(canary, view)?.into_iter().find(|set| same_template(canary, set)),
        None => None,
    };
    workload.pod_template_hash = new.and_then(hash).unwrap_or_default().to_owned();
    workload.new_pods_owner = new.map(|new| new.uid().to_owned()).unwrap_or_default();
    Ok(())
}

/// The oldest ReplicaSet with Pods, of those that are sorted by age.
fn oldest_in_use<'v>(sets: &[&'v Value]) -> Option<&'v Value> {
    sets.iter().copied().find(|set| is_in_use(set))
}

fn is_in_use(set: &Value) -> bool {
    number(set, "/spec/replicas").unwrap_or(1) > 0
}

fn hash(set: &Value) -> Option<&str> {
    set.label(POD_TEMPLATE_HASH)
}
