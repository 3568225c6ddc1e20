//! What to do about a UnitedDeployment (docs/behaviour/uniteddeployment.md#the-controller).

use std::collections::BTreeMap;
use std::time::Duration;

use api::kinds::uniteddeployment::{API_VERSION, KIND, Subset, UnitedDeployment};
use api::labels::{CONTROLLER_HASH, RESERVED_POD, SUBSET_NAME, UNITED_REVISION};
use serde_json::{Map, Value, json};

use super::Strategy;
use super::adaptive::{self, Judgement};
use super::allocation::{Shares, allocate};
use super::children::{Child, ChildKind};
use super::revision::{data_of, is_of_united};
use super::rollout::Rollout;
use super::scene::{Conditions, Judgements, Scene};
pub use super::snapshot::Snapshot;
use super::status::{Draft, record_revision, sum_up, updated_since};
use super::subset_workloads::{SubsetWorkload, SubsetWorkloads};
use super::template::{Allowance, Target, new_child};
use crate::workload::object_version::ObjectVersion;
use crate::workload::ordinal;
use crate::workload::owner::{Owner, adoption};
use crate::workload::revision::{self, Choice, HISTORY_LIMIT, Limit, RevisionStep, StoredRevision, Wanted};
use values::event::{Event, warning};
use values::moment::just_after;
use values::selector::Selector;

#[cfg(test)]
mod histories;
#[cfg(test)]
mod tests;
#[cfg(any(test, feature = "test-util"))]
pub mod world;

/// A write of an object.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct PatchOf {
    /// The object.
    pub observed: ObjectVersion,
    /// The merge patch, with its preconditions.
    pub patch: String,
}

/// A workload to create.
#[derive(Clone, Debug, PartialEq)]
pub struct Creation {
    /// The subset.
    pub subset: String,
    /// Its JSON, or why there is none.
    pub json: Result<String, String>,
}

/// What to do, in this order.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Plan {
    /// Write this revision, and plan anew.
    pub revision: Option<RevisionStep>,
    /// Revisions to delete.
    pub obsolete: Vec<ObjectVersion>,
    /// Workloads that nobody manages and that belong to it from now on.
    pub adoptions: Vec<(ChildKind, PatchOf)>,
    /// Labels of Pods.
    pub labels: Vec<PatchOf>,
    /// Workloads to create, by subset.
    pub creations: Vec<Creation>,
    /// Workloads to delete: of subsets that are gone, of another kind, and second ones of a subset. Not after a creation that
    /// failed.
    pub deletions: Vec<(ChildKind, ObjectVersion)>,
    /// Workloads to bring up to date, by subset. Not after a creation or deletion that failed.
    pub updates: Vec<(ObjectVersion, Target)>,
    /// Pods of StatefulSets that keep them from their update.
    pub stuck: Vec<ObjectVersion>,
    /// The status, but for what comes of all this; beside a revision the one to write where that can't be written.
    pub status: Option<Draft>,
    /// What to report.
    pub events: Vec<Event>,
    /// Why nothing can be done.
    pub problem: Option<String>,
    /// When to reconcile again, even if nothing changes.
    pub again: Option<Duration>,
    pub(super) shares: Shares,
    pub(super) judgements: Judgements,
}

/// Plans for a UnitedDeployment. One that is being deleted is left alone.
pub fn plan(snapshot: &Snapshot<'_>) -> Plan {
    let united = snapshot.united;
    if united.metadata.deletion_timestamp.is_some() {
        return Plan::default();
    }
    let history = history(snapshot);
    let (kind, choice) = match wanted(united, &history) {
        Ok(wanted) => wanted,
        Err(problem) => {
            let events = vec![warning("FailedRevisionProvision", problem.clone())];
            return Plan { events, problem: Some(problem), ..resting(snapshot, &history) };
        }
    };
    let (Some(newest), None) = (choice.stored, &choice.step) else {
        return Plan { revision: choice.step, ..resting(snapshot, &history) };
    };
    let stored = &united.status.current_revision;
    let current = revision::current(&history, stored).map_or(newest.name(), StoredRevision::name);
    let scene = Scene::of(snapshot, kind, (current, newest.name()), Some(newest));
    Plan { obsolete: obsolete(&scene, &history), ..act(&scene) }
}

/// Its revisions, oldest first, and those that another one of its name left behind: such record what only UnitedDeployments
/// record, and have the labels that it selects. OpenKruise gives those of CloneSets no labels.
fn history<'a>(snapshot: &Snapshot<'a>) -> Vec<&'a StoredRevision> {
    let united = snapshot.united;
    let selector = Selector::compile(&united.spec.selector).ok();
    let is_left_behind = |stored: &StoredRevision| {
        let hash = stored.name().strip_prefix(united.metadata.name.as_str());
        let is_named_so =
            hash.and_then(|hash| hash.strip_prefix('-')).is_some_and(|hash| !hash.contains('-'));
        let labels = &stored.metadata.labels;
        is_named_so
            && is_of_united(stored, |kind| {
                let is_unlabelled =
                    kind == ChildKind::CloneSet && labels.keys().all(|key| key == CONTROLLER_HASH);
                is_unlabelled || selector.as_ref().is_some_and(|selector| selector.matches(labels))
            })
    };
    let all = snapshot.revisions.iter().map(|stored| &**stored);
    let own = all.filter(|stored| stored.metadata.controller().is_some() || is_left_behind(stored));
    revision::sorted(own, &united.metadata.uid)
}

/// Revisions of its own that are beyond the limit.
fn obsolete(scene: &Scene<'_>, history: &[&StoredRevision]) -> Vec<ObjectVersion> {
    let own = history.iter().copied().filter(|stored| stored.metadata.controller().is_some());
    let limit = Limit::All(scene.united.spec.revision_history_limit.unwrap_or(HISTORY_LIMIT).max(0));
    let is_used = |known: &StoredRevision| [scene.updated, scene.current].contains(&known.name());
    revision::obsolete(&own.collect::<Vec<_>>(), is_used, limit)
}

/// The kind of the workloads, and the revision of their template.
fn wanted<'a>(
    united: &UnitedDeployment,
    history: &[&'a StoredRevision],
) -> Result<(ChildKind, Choice<'a>), String> {
    let spec = &united.spec;
    let kind = ChildKind::of(&spec.template).ok_or("spec.template has no workload")?;
    let data = data_of(&spec.template).map_err(|error| format!("spec.template can't be read: {error}"))?;
    let metadata = kind.template(&spec.template).and_then(|template| template.metadata.as_ref());
    let labels = metadata.and_then(|metadata| serde_json::from_str::<Value>(metadata.get()).ok());
    let labels = labels.and_then(|metadata| serde_json::from_value(metadata.get("labels")?.clone()).ok());
    let owner = Owner::of(API_VERSION, KIND, &united.metadata);
    let wanted = Wanted {
        data,
        owner,
        namespace: &united.metadata.namespace,
        labels: labels.or_else(|| spec.selector.match_labels.clone()).unwrap_or_default(),
        annotations: BTreeMap::new(),
        hash_label: CONTROLLER_HASH,
        collision_count: united.status.collision_count.unwrap_or(0),
        label_of_current: None,
        annotation_of_newest: None,
        claims: None,
        must_be_owned: true,
    };
    let mut choice = revision::choose(wanted, history);
    if let Some(known) = choice.stored.map(|stored| &stored.metadata)
        && known.controller().is_none()
    {
        let revision = ObjectVersion::object(known);
        let patch = adoption(&revision, &known.owner_references, &owner);
        choice.step = Some(RevisionStep::Patch { revision, patch });
    }
    Ok((kind, choice))
}

/// A plan by which nothing is done: its status says what there is.
fn resting(snapshot: &Snapshot<'_>, history: &[&StoredRevision]) -> Plan {
    let united = snapshot.united;
    let status = &united.status;
    let Some(kind) = ChildKind::of(&united.spec.template) else {
        return Plan { status: Some(Draft::unknown(united, snapshot.now)), ..Plan::default() };
    };
    let newest = revision::current(history, &status.updated_revision);
    let scene = Scene::of(snapshot, kind, (&status.current_revision, &status.updated_revision), newest);
    let conditions = scene.conditions();
    let judgements = scene.judge(&conditions, updated_since(status));
    unchanged(&scene, judgements, &conditions)
}

/// A plan by which all subsets stay as they are.
fn unchanged(scene: &Scene<'_>, judgements: Judgements, conditions: &Conditions) -> Plan {
    let united = scene.united;
    let known = united.status.subset_statuses.iter();
    let subsets = &united.spec.topology.subsets;
    let reported = known
        .filter(|known| subsets.iter().any(|subset| subset.name == known.name))
        .filter_map(|known| Some((known.name.clone(), known.replicas?)));
    let present = scene.found.places.iter().map(|(name, place)| ((*name).to_owned(), place.child.replicas));
    let shares: Shares = reported.chain(present).collect();
    let mut status = united.status.clone();
    sum_up(&mut status, scene, &shares, &judgements, conditions);
    let status = Draft { status, provisions: false, complaint: complaint(&scene.found), now: scene.now };
    Plan { status: Some(status), shares, judgements, ..Plan::default() }
}

/// What is wrong with workloads that are left alone.
fn complaint(found: &SubsetWorkloads<'_>) -> Option<String> {
    let names: Vec<String> =
        found.nameless.iter().map(|child| format!("{} {}", child.kind.display_name(), child.name)).collect();
    let message = format!("no subset is known of {}: label {SUBSET_NAME} is missing", names.join(", "));
    (!names.is_empty()).then_some(message)
}

/// Divides the Pods, and brings the workloads there.
fn act(scene: &Scene<'_>) -> Plan {
    let (united, now) = (scene.united, scene.now);
    let mut status = united.status.clone();
    record_revision(&mut status, scene.current, scene.updated, now);
    let mut conditions = scene.conditions();
    let mut judgements = scene.judge(&conditions, updated_since(&status));
    let shares = match allocate(&united.spec, &scene.present(&judgements, &conditions)) {
        Ok(shares) => shares,
        Err(problem) => {
            let message = format!("Specified subset replicas is ineffective: {problem}");
            let events = vec![warning("Failed SpecifySubsetReplicas", message.clone())];
            let plan = unchanged(scene, judgements, &conditions);
            return Plan { events, problem: Some(message), ..plan };
        }
    };
    settle(scene, &shares, &mut judgements, &mut conditions);
    let mut plan = Plan::default();
    let labels = judgements.values().flat_map(|judgement| &judgement.labels);
    plan.labels = labels.map(|(observed, reserved)| reservation(observed, *reserved)).collect();
    change(&mut plan, scene, targets(scene, &shares, &judgements));
    plan.stuck = stuck(scene, &plan.updates);
    let again = judgements.values().filter_map(|judgement| judgement.again).min();
    plan.again = again.map(|again| just_after(again, now));
    sum_up(&mut status, scene, &shares, &judgements, &conditions);
    let provisions = !plan.creations.is_empty() || !plan.deletions.is_empty();
    let complaint = complaint(&scene.found);
    plan.events.extend(complaint.clone().map(|complaint| warning("FailedFindSubsets", complaint)));
    plan.status = Some(Draft { status, provisions, complaint, now });
    Plan { shares, judgements, ..plan }
}

/// The conditions of subsets, now that their shares are known.
fn settle(scene: &Scene<'_>, shares: &Shares, judgements: &mut Judgements, conditions: &mut Conditions) {
    for (name, judgement) in judgements {
        let place = scene.found.places.get(name.as_str());
        let grows =
            place.is_some_and(|place| shares.get(name).is_some_and(|share| *share > place.child.replicas));
        if scene.strategy == Strategy::Reserving
            && judgement.was_marked
            && !judgement.is_unschedulable
            && grows
        {
            let known = judgement.condition.as_ref();
            judgement.condition = Some(adaptive::of_grown_subset(known, scene.now));
        }
        if let Some(condition) = judgement.condition.clone() {
            conditions.insert(name.clone(), condition);
        }
    }
}

/// What the workload of each subset is to be, by name.
fn targets(scene: &Scene<'_>, shares: &Shares, judgements: &Judgements) -> BTreeMap<String, Target> {
    let Scene { united, kind, .. } = *scene;
    let rollout = rollout_of_waiting(scene);
    let target = |subset: &Subset| {
        let replicas = shares.get(&subset.name).copied().unwrap_or(0);
        let place = scene.found.places.get(subset.name.as_str());
        let allowance = place.zip(judgements.get(&subset.name)).zip(rollout.as_ref());
        Target {
            kind,
            subset: subset.clone(),
            replicas,
            partition: scene.partition_of(&subset.name).min(replicas),
            revision: scene.updated.to_owned(),
            allowance: allowance.and_then(|((place, judgement), rollout)| {
                let own = rollout.max_unavailable(kind, replicas)?;
                let old =
                    place.active().filter(|pod| pod.label(UNITED_REVISION) != Some(scene.updated)).count();
                let is_rolling = i32::try_from(old).is_ok_and(|old| old > scene.kept_in(&subset.name));
                is_rolling.then(|| Allowance { own, lacking: lacking(place, judgement, own) })
            }),
        }
    };
    united.spec.topology.subsets.iter().map(|subset| (subset.name.clone(), target(subset))).collect()
}

/// How the template replaces Pods, where waiting ones keep their place meanwhile.
fn rollout_of_waiting(scene: &Scene<'_>) -> Option<Rollout> {
    if scene.strategy != Strategy::Reserving || !scene.kind.is_stateless() {
        return None;
    }
    let template = scene.kind.template(&scene.united.spec.template)?;
    Rollout::read(template.spec.as_ref()?.get()).ok()
}

/// How many Pods more than its template says a workload may have unavailable, for those that will not be ready soon. What it
/// has stays while the scheduler has not tried all of them.
fn lacking(place: &SubsetWorkload<'_>, judgement: &Judgement, own: i32) -> i32 {
    let child = place.child;
    let known = child.rollout.max_unavailable(child.kind, child.replicas).unwrap_or(own);
    known.saturating_sub(own).clamp(judgement.stuck, judgement.unplaced)
}

/// What is to be created, adopted, deleted and brought up to date.
fn change(plan: &mut Plan, scene: &Scene<'_>, targets: BTreeMap<String, Target>) {
    let found = &scene.found;
    for child in &found.orphans {
        let owner = Owner::of(API_VERSION, KIND, &scene.united.metadata);
        let observed = child.observed();
        plan.adoptions
            .push((child.kind, PatchOf { patch: adoption(&observed, &child.others, &owner), observed }));
    }
    let gone = found.places.iter().filter(|(name, _)| !targets.contains_key(**name));
    let gone = gone.map(|(_, place)| place.child).chain(found.surplus.iter().copied());
    plan.deletions.extend(gone.map(|child| (child.kind, child.observed())));
    for (name, target) in targets {
        match found.places.get(name.as_str()) {
            None => {
                plan.creations.push(Creation { json: new_child(scene.united, &target), subset: name });
            }
            Some(place) if place.child.owner.is_some() && differs(place.child, &target) => {
                plan.updates.push((place.child.observed(), target));
            }
            Some(_) => {}
        }
    }
}

/// Whether a workload is to be brought up to date. What others have changed in it stays until then.
fn differs(child: &Child, target: &Target) -> bool {
    let rollout = &child.rollout;
    let has_partition =
        child.kind.has_partition() && !(rollout.is_on_delete() && child.kind != ChildKind::CloneSet);
    let limit = rollout.max_unavailable(child.kind, child.replicas);
    child.labels.get(SUBSET_NAME) != Some(&target.subset.name)
        || child.revision() != target.revision
        || child.replicas != target.replicas
        || *child.patch != *target.patch()
        || (has_partition && rollout.partition(child.replicas) != target.partition)
        || target.allowance.is_some_and(|allowance| limit.is_some_and(|limit| limit != allowance.sum()))
}

fn reservation(observed: &ObjectVersion, reserved: bool) -> PatchOf {
    let mut labels = Map::new();
    labels.insert(RESERVED_POD.to_owned(), reserved.to_string().into());
    let patch = json!({"metadata": {"uid": observed.uid, "labels": labels}}).to_string();
    PatchOf { observed: observed.clone(), patch }
}

/// Pods that a StatefulSet would wait for forever: they are to be updated, and are not ready at an older revision.
fn stuck(scene: &Scene<'_>, updates: &[(ObjectVersion, Target)]) -> Vec<ObjectVersion> {
    let settled = scene.found.places.values().filter(|place| {
        let child = place.child;
        let is_up_to_date = !updates.iter().any(|(observed, _)| *observed.uid == *child.uid);
        child.kind == ChildKind::StatefulSet
            && !child.rollout.is_on_delete()
            && child.revision() == scene.updated
            && is_up_to_date
    });
    let stuck = settled.flat_map(|place| {
        let partition = place.child.rollout.partition(place.child.replicas);
        place.pods.iter().filter(move |pod| {
            let is_due = ordinal::split(&pod.metadata.name).is_some_and(|(_, number)| number >= partition);
            let is_old = pod.label(UNITED_REVISION) != Some(scene.updated);
            is_due && is_old && !pod.is_ready() && pod.metadata.deletion_timestamp.is_none()
        })
    });
    stuck.map(|pod| ObjectVersion::pod(pod)).collect()
}
