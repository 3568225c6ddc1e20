//! The volume claims of a CloneSet's Pods (docs/behaviour/cloneset.md#volume-claims): which belong to a Pod,
//! which a new Pod can take over, and which have to go.

use std::collections::{BTreeMap, BTreeSet, HashSet};

use api::Raw;
use api::kinds::cloneset::CloneSet;
use api::labels::CLONESET_INSTANCE_ID;
use serde_json::{Map, json};

use super::pod::claim_name;
use crate::workload::action::Action;
use crate::workload::children::Claim;
use crate::workload::claims::{ClaimTemplate, templates};
use crate::workload::in_place::UpdateStep;
use crate::workload::member::Member;
use crate::workload::new_pod::{NewClaim, TemplateError};
use crate::workload::object_version::ObjectVersion;
use crate::workload::snapshot::Snapshot;
use pod::observed::{ObservedPod, PodMetadata};
use values::moment::Random;

#[cfg(test)]
mod tests;

/// On a claim that could be reused: the UID of the Pod that the CloneSet deletes, with which the claim is deleted. It
/// is written before the Pod is deleted: afterwards nobody could know who did that.
const DELETED_WITH: &str = "kutter.io/deleted-with";

fn deleted_with(claim: &Claim) -> Option<&str> {
    claim.metadata.annotations.get(DELETED_WITH)
}

/// Has the claim deleted with the Pod, by any client, or no more.
fn mark(claim: &Claim, pod: &str, uid: Option<&str>) -> Action {
    let claim = ObjectVersion::of(&claim.metadata);
    let patch = json!({"metadata": {
        "uid": claim.uid,
        "resourceVersion": claim.resource_version,
        "annotations": {DELETED_WITH: uid},
    }});
    let pod = uid.map_or("", |_| pod).to_owned();
    Action::HandOverClaim { claim, pod, patch: patch.to_string() }
}

/// The claims that the CloneSet owns and that are not being deleted, by instance id.
pub(super) struct Claims<'a>(BTreeMap<&'a str, Vec<&'a Claim>>);

impl<'a> Claims<'a> {
    pub(super) fn of(snapshot: &Snapshot<'a, CloneSet>) -> Self {
        let uid = &snapshot.workload.metadata.uid;
        let mut by_id: BTreeMap<&str, Vec<&Claim>> = BTreeMap::new();
        for claim in snapshot.claims {
            let owners = claim.metadata.owner_references.iter();
            let ours = owners.clone().any(|owner| owner.controller == Some(true) && owner.uid == *uid);
            let Some(id) = claim.instance_id().filter(|id| !id.is_empty()) else { continue };
            if ours && claim.metadata.deletion_timestamp.is_none() {
                by_id.entry(id).or_default().push(claim);
            }
        }
        for claims in by_id.values_mut() {
            claims.sort_by(|one, other| one.metadata.name.cmp(&other.metadata.name));
        }
        Self(by_id)
    }

    /// The claims of the Pod with this id.
    pub(super) fn of_pod(&self, id: Option<&str>) -> Vec<ObjectVersion> {
        let claims = id.and_then(|id| self.0.get(id)).into_iter().flatten();
        claims.map(|claim| ObjectVersion::of(&claim.metadata)).collect()
    }

    /// Whether the claim of this id and name exists.
    pub(super) fn has(&self, id: &str, name: &str) -> bool {
        self.0.get(id).into_iter().flatten().any(|claim| *claim.metadata.name == *name)
    }

    /// Ids of claims that are not to be deleted with a Pod.
    fn ids(&self) -> impl Iterator<Item = &'a str> {
        let stays = |claims: &[&Claim]| claims.iter().all(|claim| deleted_with(claim).is_none());
        self.0.iter().filter(move |(_, claims)| stays(claims)).map(|(id, _)| *id)
    }

    /// The writes with which the claims of Pods at the update revision grow (docs/behaviour/cloneset.md#growing-claims).
    pub(super) fn grow(
        &self,
        snapshot: &Snapshot<'_, CloneSet>,
        members: &[Member<'_>],
        step: &mut UpdateStep,
    ) {
        let set = snapshot.workload;
        let templates = match templates(set.spec.volume_claim_templates.as_ref()) {
            Ok(templates) => templates,
            Err(problem) => {
                step.problem.get_or_insert(problem);
                return;
            }
        };
        let metadata = Map::default();
        for member in members.iter().filter(|member| member.is_updated && !member.is_leaving()) {
            let Some(id) = member.pod.label(CLONESET_INSTANCE_ID) else { continue };
            for claim in self.0.get(id).into_iter().flatten().filter(|claim| claim.has_volume()) {
                let is_its = |template: &&ClaimTemplate| {
                    *claim.metadata.name == *claim_name(&template.name, &set.metadata.name, id)
                };
                let Some(template) = templates.iter().find(is_its) else { continue };
                let classes = snapshot.storage_classes;
                match template.grow(claim, (member.name(), &metadata), classes, &mut step.events) {
                    Ok(write) => step.actions.extend(write),
                    Err(problem) => {
                        step.problem.get_or_insert(problem);
                    }
                }
            }
        }
    }

    /// What comes before the deletion of a Pod whose claims could be reused.
    pub(super) fn mark(&self, pod: &ObservedPod) -> Vec<Action> {
        let PodMetadata { name, uid, .. } = &pod.metadata;
        let claims = pod.label(CLONESET_INSTANCE_ID).and_then(|id| self.0.get(id));
        let unmarked = claims.into_iter().flatten().filter(|claim| deleted_with(claim) != Some(&**uid));
        unmarked.map(|claim| mark(claim, name, Some(&**uid))).collect()
    }

    /// Takes the marks back from claims of Pods that stay after all.
    pub(super) fn keep(&self, members: &[Member<'_>], scale: &[Action]) -> Vec<Action> {
        let marked: Vec<(&Claim, &str)> = self
            .0
            .values()
            .flatten()
            .filter_map(|claim| deleted_with(claim).map(|uid| (*claim, uid)))
            .collect();
        if marked.is_empty() {
            return Vec::new();
        }
        let going: HashSet<&str> = scale
            .iter()
            .filter_map(|action| match action {
                Action::DeletePod { pod, .. } => Some(pod.name.as_str()),
                Action::HandOverClaim { pod, .. } => Some(pod.as_str()),
                _ => None,
            })
            .collect();
        let stays = |member: &&Member<'_>| !member.is_leaving() && !going.contains(member.name());
        let staying: HashSet<&str> =
            members.iter().filter(stays).map(|member| &*member.pod.metadata.uid).collect();
        let kept = marked.into_iter().filter(|(_, uid)| staying.contains(uid));
        kept.map(|(claim, _)| mark(claim, "", None)).collect()
    }
}

/// The ids that Pods of the snapshot have.
pub(super) struct TakenIds<'a> {
    /// Of active Pods.
    active: HashSet<&'a str>,
    /// Of Pods that have ended or are being deleted.
    inactive: BTreeMap<&'a str, &'a ObservedPod>,
}

impl<'a> TakenIds<'a> {
    pub(super) fn of(snapshot: &Snapshot<'a, CloneSet>) -> Self {
        let mut taken = Self { active: HashSet::new(), inactive: BTreeMap::new() };
        for pod in snapshot.pods {
            let Some(id) = pod.label(CLONESET_INSTANCE_ID).filter(|id| !id.is_empty()) else { continue };
            if pod.is_active() {
                taken.active.insert(id);
            } else {
                taken.inactive.insert(id, pod);
            }
        }
        taken
    }

    fn has(&self, id: &str) -> bool {
        self.active.contains(id) || self.inactive.contains_key(id)
    }
}

/// What happens to claims whose Pod is gone, where they are not reused or were to go with it.
pub(super) fn cleanup(
    snapshot: &Snapshot<'_, CloneSet>,
    claims: &Claims<'_>,
    taken: &TakenIds<'_>,
    misses_pods: bool,
) -> Vec<Action> {
    let set = snapshot.workload;
    let reuse = set.spec.scale_strategy.enable_pvc_reuse;
    let mut actions = Vec::new();
    for (id, claims) in &claims.0 {
        // A claim whose Pod could not be created yet waits for the next try
        // (docs/behaviour/cloneset.md#volume-claims).
        if taken.active.contains(id) || (misses_pods && snapshot.refused.contains(*id)) {
            continue;
        }
        for claim in claims.iter().filter(|claim| !reuse || deleted_with(claim).is_some()) {
            let observed = ObjectVersion::of(&claim.metadata);
            actions.push(match taken.inactive.get(id) {
                None => Action::DeleteClaim(observed),
                Some(pod) => hand_over(observed, pod, &set.metadata.uid),
            });
        }
    }
    actions
}

/// Lets the claim go with the Pod. Other owners stay: lists of owners are merged by UID. Nobody waits for the
/// claim: to hold the Pod's deletion up would need the right to its finalizers on some clusters.
pub(super) fn hand_over(claim: ObjectVersion, pod: &ObservedPod, set_uid: &str) -> Action {
    let owner = json!({
        "apiVersion": "v1", "kind": "Pod", "name": pod.metadata.name, "uid": pod.metadata.uid,
        "controller": true,
    });
    let patch = json!({"metadata": {
        "uid": claim.uid,
        "resourceVersion": claim.resource_version,
        "ownerReferences": [{"$patch": "delete", "uid": set_uid}, owner],
    }});
    Action::HandOverClaim { claim, pod: pod.metadata.name.to_string(), patch: patch.to_string() }
}

/// The ids that new Pods get.
pub(super) struct InstanceIds {
    /// Sorted.
    pub(super) ids: Vec<String>,
    /// How many Pods can't be created now: their claims are kept, and the Pods that had them have not
    /// ended yet.
    pub(super) waiting: usize,
}

/// Ids for `count` new Pods: those of claims that no Pod has first, then new ones. A claim to be reused
/// keeps its Pod's name, which is free only when that Pod is gone; one that has ended but stays keeps its
/// claims.
pub(super) fn instance_ids(
    snapshot: &Snapshot<'_, CloneSet>,
    claims: &Claims<'_>,
    taken: &TakenIds<'_>,
    count: usize,
    random: &mut Random,
) -> InstanceIds {
    let reuse = snapshot.workload.spec.scale_strategy.enable_pvc_reuse;
    let kept = |id: &&str| reuse || snapshot.refused.contains(*id);
    let mut ids: BTreeSet<String> =
        claims.ids().filter(kept).filter(|id| !taken.has(id)).take(count).map(str::to_owned).collect();
    let ending = claims.ids().filter(|id| {
        let pod = taken.inactive.get(id).filter(|_| reuse && !taken.active.contains(id));
        pod.is_some_and(|pod| pod.metadata.deletion_timestamp.is_some())
    });
    let waiting = ending.count().min(count - ids.len());
    while ids.len() < count - waiting {
        let id = random.name_suffix(5);
        if !taken.has(&id) && !claims.0.contains_key(id.as_str()) {
            ids.insert(id);
        }
    }
    InstanceIds { ids: ids.into_iter().collect(), waiting }
}

/// The claims of these templates to create for the Pod with this id.
pub(super) fn missing(
    snapshot: &Snapshot<'_, CloneSet>,
    claims: &Claims<'_>,
    templates: Option<&Raw>,
    id: &str,
) -> Result<Vec<NewClaim>, TemplateError> {
    let mut wanted = super::pod::claims(snapshot.workload, templates, id)?;
    wanted.retain(|claim| !claims.has(id, &claim.name));
    Ok(wanted)
}
