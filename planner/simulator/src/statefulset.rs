//! StatefulSets in the simulation: reserved ordinals as their users' edit, and the rules that hold for StatefulSets
//! alone.
//!
//! 1. *Slots.* Only Pods without a slot are scaled in; what is deleted as labelled, ended or to be recreated is so.
//! 2. *Partition.* No Pod that partition keeps is led to the newest revision, nor made from it.
//! 3. *Order.* Where Pods are managed one after another, a Pod is created only while all below it are available, or are
//!    ready and wait for a hook; one is scaled in at a time, the highest ordinal first; one that is available is updated
//!    only while all are.
//! 4. *Held.* Nothing is updated while the StatefulSet is paused or of type OnDelete.
//! 5. *Claims.* No claim is deleted; a claim is deleted with its Pod only where that has no slot and the policy says
//!    so.
//! 6. *Rest.* In the end the Pods are those of the slots, each with its claims.

use std::collections::BTreeSet;
use std::sync::Arc;

use api::features::FeatureGates;
use api::kinds::Object;
use api::kinds::shared::{IntOrString, Lifecycle, PodUpdatePolicy};
use api::kinds::statefulset::{Spec, StatefulSet, Status};
use api::labels::{LIFECYCLE_STATE, SPECIFIED_DELETE};

use super::kind::{Bounds, Deed, End, Scene, Simulated, Violation, is_at, is_ready};
use kinds::statefulset::defaulting;
use kinds::statefulset::identity::ordinal_of;
use kinds::statefulset::settings::Settings;
use kinds::workload::action::{Action, ClaimReason, DeleteReason, WriteReason};
use kinds::workload::plan::Plan;
use pod::node_fit::Nodes;
use pod::observed::ObservedPod;
use values::json_patch::Patch;
use values::verdict::Denial;

/// What users do to a StatefulSet, beside giving it another spec.
#[derive(Clone, Debug)]
pub enum Edit {
    /// This ordinal is reserved, or free again.
    Reserve(i32),
}

impl Simulated for StatefulSet {
    type Spec = Spec;
    type Edit = Edit;
    const SCALES_IN_WITHIN_BUDGET: bool = false;

    fn object(&self) -> &Object<Spec, Status> {
        self
    }

    fn object_mut(&mut self) -> &mut Object<Spec, Status> {
        self
    }

    fn defaults(
        object: &str,
        old: Option<&str>,
        version: &str,
        gates: &FeatureGates,
    ) -> Result<Patch, Denial> {
        defaulting::default(object, old, version, gates)
    }

    /// Reserved ordinals stay.
    fn amend(&mut self, spec: Spec) {
        let reserved = std::mem::take(&mut self.spec.reserve_ordinals);
        self.spec = spec;
        self.spec.reserve_ordinals = reserved;
    }

    fn edit(&mut self, Edit::Reserve(ordinal): &Edit, _pods: &[Arc<ObservedPod>]) -> Option<String> {
        let entry = IntOrString::Int(*ordinal);
        let reserved = &mut self.spec.reserve_ordinals;
        let before = reserved.len();
        reserved.retain(|known| *known != entry);
        if reserved.len() < before {
            return Some(format!("frees ordinal {ordinal}"));
        }
        reserved.push(entry);
        Some(format!("reserves ordinal {ordinal}"))
    }

    fn lifecycle(&self) -> &Lifecycle {
        &self.spec.lifecycle
    }

    fn bounds(&self, _nodes: &Nodes) -> Bounds {
        let Settings { replicas, max_unavailable, min_ready_seconds, .. } = settings(self);
        let max_unavailable = i64::try_from(max_unavailable).unwrap_or(i64::MAX);
        Bounds { replicas, max_unavailable, max_surge: 0, min_ready_seconds }
    }

    fn update_policy(&self) -> Option<&PodUpdatePolicy> {
        self.spec.update_strategy.rolling_update.pod_update_policy.as_ref()
    }

    fn revision_history_limit(&self) -> usize {
        usize::try_from(self.spec.revision_history_limit.unwrap_or(10)).unwrap_or(0)
    }

    /// Pods without a slot are on their way out.
    fn is_counted(&self, pod: &ObservedPod) -> bool {
        has_slot(self, &pod.metadata.name)
    }

    fn judge_plan(plan: &Plan<Status>, scene: &Scene<'_, Self>, broken: &mut Vec<Violation>) {
        review_creations(plan, scene, broken);
        review_deletions(plan, scene, broken);
        review_updates(plan, scene, broken);
        review_claims(plan, scene, broken);
        let begins = |action: &&Action| {
            let deletes = matches!(
                action,
                Action::DeletePod { reason: DeleteReason::Recreate | DeleteReason::Specified, .. }
            );
            action.updated_pod().is_some() || deletes
        };
        let settings = settings(scene.workload());
        if (settings.paused || settings.on_delete)
            && let Some(action) = plan.update.iter().find(begins)
        {
            broken.push(Violation::new("Held", action.to_string()));
        }
    }

    fn judge_deed(deed: &Deed<'_>, scene: &Scene<'_, Self>, broken: &mut Vec<Violation>) {
        match *deed {
            Deed::Create(_) => {}
            Deed::Delete { pod, reason } => {
                let name = &pod.metadata.name;
                let holds = match reason {
                    DeleteReason::ScaleIn => !has_slot(scene.workload(), name),
                    DeleteReason::Specified => pod.label(SPECIFIED_DELETE).is_some(),
                    DeleteReason::Ended => matches!(&*pod.status.phase, "Failed" | "Succeeded"),
                    DeleteReason::Recreate => {
                        broken.extend(partition(scene, pod));
                        !is_at(pod, scene.update_revision())
                    }
                    DeleteReason::Released | DeleteReason::Misplaced => false,
                };
                if !holds {
                    let text = format!("Pod {name} is deleted as {reason:?}, which it is not");
                    broken.push(Violation::new("Slots", text));
                }
            }
            Deed::Write { pod, reason: WriteReason::UpdateInPlace, .. } => {
                broken.extend(partition(scene, pod));
            }
            Deed::Write { .. } => {}
        }
    }

    fn unrest(end: &End<'_, Self>) -> Vec<String> {
        let StatefulSet { metadata, spec, status } = end.workload;
        let settings = settings(end.workload);
        let mut unrest = Vec::new();
        let mut expect = |holds: bool, text: String| {
            if !holds {
                unrest.push(text);
            }
        };
        let slots: BTreeSet<i32> = settings.ordinals.iter().collect();
        let pods: BTreeSet<i32> =
            end.pods.iter().filter_map(|pod| ordinal_of(&metadata.name, &pod.metadata.name)).collect();
        expect(pods == slots, format!("the Pods have ordinals {pods:?}, the slots {slots:?}"));
        let old = end.count(|pod| !is_at(pod, &end.update_revision));
        if !settings.paused && !settings.on_delete {
            let partition = settings.partition;
            expect(
                old <= partition,
                format!("{old} Pods are at older revisions, with partition {partition}"),
            );
            let marked = end.count(|pod| pod.label(SPECIFIED_DELETE).is_some());
            expect(marked == 0, format!("{marked} Pods are still to be deleted"));
        }
        let total = end.count(|_| true);
        let counts = [status.replicas, status.available_replicas, status.updated_replicas].map(i64::from);
        let real = [total, end.available, total - old];
        expect(
            counts == real
                && status.update_revision == end.update_revision
                && status.observed_generation == metadata.generation,
            format!("the status says {counts:?} of {real:?}"),
        );
        let templates = spec.volume_claim_templates.as_ref().map_or("[]", |templates| templates.get());
        let templates = templates.matches(r#""metadata""#).count();
        for pod in &end.pods {
            let name = &*pod.metadata.name;
            let claims = end.claims.iter().filter(|claim| claim.metadata.name.ends_with(&format!("-{name}")));
            let whole = claims.filter(|claim| claim.metadata.deletion_timestamp.is_none()).count();
            expect(whole == templates, format!("Pod {name} has {whole} of {templates} claims"));
        }
        unrest
    }
}

/// What the StatefulSet asks for. Histories have no gates that change it.
fn settings(set: &StatefulSet) -> Settings {
    Settings::of(&set.spec, &FeatureGates::default())
}

fn has_slot(set: &StatefulSet, pod: &str) -> bool {
    ordinal_of(&set.metadata.name, pod).is_some_and(|ordinal| settings(set).ordinals.contains(ordinal))
}

fn is_in_order(set: &StatefulSet) -> bool {
    set.spec.update_strategy.rolling_update.unordered_update.is_none()
}

/// Rule 2, of a Pod that is led to the newest revision.
fn partition(scene: &Scene<'_, StatefulSet>, pod: &ObservedPod) -> Option<Violation> {
    let set = scene.workload();
    let settings = settings(set);
    let name = &pod.metadata.name;
    if is_in_order(set) {
        let ordinal = ordinal_of(&set.metadata.name, name)?;
        return settings
            .is_partitioned(ordinal)
            .then(|| Violation::new("Partition", format!("Pod {name} is updated, which partition keeps")));
    }
    let stays = |other: &ObservedPod| {
        !is_at(other, scene.update_revision()) && other.metadata.uid != pod.metadata.uid
    };
    let (left, taken) = (scene.left(stays), scene.taken(stays));
    let wanted = settings.partition.min(settings.replicas);
    (left + taken < wanted && scene.left(|_| true) + scene.taken(|_| true) >= settings.replicas).then(|| {
        let text = format!("after Pod {name} {left} Pods stay at older revisions; {wanted} should");
        Violation::new("Partition", text)
    })
}

/// Rules 2 and 3, of Pods that are created.
fn review_creations(plan: &Plan<Status>, scene: &Scene<'_, StatefulSet>, broken: &mut Vec<Violation>) {
    let set = scene.workload();
    let settings = settings(set);
    let created: Vec<(i32, &str, &str)> = plan
        .scale
        .iter()
        .filter_map(|action| match action {
            Action::CreatePod { name, revision, .. } => {
                Some((ordinal_of(&set.metadata.name, name)?, name.as_str(), revision.as_str()))
            }
            _ => None,
        })
        .collect();
    let current = &set.status.current_revision;
    let differs = !current.is_empty() && *current != scene.update_revision();
    for (ordinal, name, revision) in &created {
        if !settings.ordinals.contains(*ordinal) {
            broken.push(Violation::new("Slots", format!("Pod {name} is created without a slot")));
        }
        let is_kept = differs && !settings.on_delete && is_in_order(set) && settings.is_partitioned(*ordinal);
        let exists = scene.revision(|stored| stored == current).is_some();
        if is_kept && exists && *revision == scene.update_revision() {
            let text = format!("Pod {name} is created at the newest revision, which partition keeps");
            broken.push(Violation::new("Partition", text));
        }
    }
    if !settings.monotonic {
        return;
    }
    if created.len() > 1 {
        broken.push(Violation::new("Order", format!("{} Pods are created at once", created.len())));
    }
    if let Some((ordinal, name, _)) = created.first() {
        let below = settings.ordinals.iter().take_while(|below| below < ordinal);
        let is_up = |below: &i32| {
            scene.observed().any(|pod| {
                ordinal_of(&set.metadata.name, &pod.metadata.name) == Some(*below)
                    && (scene.is_available(pod) || is_ready(pod) && waits_for_hook(pod))
            })
        };
        if let Some(missing) = below.into_iter().find(|below| !is_up(below)) {
            let text = format!("Pod {name} is created while that of ordinal {missing} is not available");
            broken.push(Violation::new("Order", text));
        }
    }
}

fn waits_for_hook(pod: &ObservedPod) -> bool {
    matches!(pod.label(LIFECYCLE_STATE), Some("PreparingUpdate" | "PreparingDelete"))
}

/// Rule 3, of Pods that are scaled in.
fn review_deletions(plan: &Plan<Status>, scene: &Scene<'_, StatefulSet>, broken: &mut Vec<Violation>) {
    let set = scene.workload();
    if !settings(set).monotonic {
        return;
    }
    let deleted: Vec<i32> = plan
        .update
        .iter()
        .filter_map(|action| match action {
            Action::DeletePod { pod, reason: DeleteReason::ScaleIn, .. } => {
                ordinal_of(&set.metadata.name, &pod.name)
            }
            _ => None,
        })
        .collect();
    if deleted.len() > 1 {
        broken.push(Violation::new("Order", format!("{} Pods are scaled in at once", deleted.len())));
    }
    let condemned = scene.observed().filter(|pod| !has_slot(set, &pod.metadata.name));
    let highest = condemned.filter_map(|pod| ordinal_of(&set.metadata.name, &pod.metadata.name)).max();
    if let Some(ordinal) = deleted.first().filter(|ordinal| Some(**ordinal) < highest) {
        let text = format!("ordinal {ordinal} is scaled in before {highest:?}");
        broken.push(Violation::new("Order", text));
    }
}

/// Rule 3, of Pods that are updated.
fn review_updates(plan: &Plan<Status>, scene: &Scene<'_, StatefulSet>, broken: &mut Vec<Violation>) {
    let set = scene.workload();
    let settings = settings(set);
    if !settings.monotonic {
        return;
    }
    let available: BTreeSet<i32> = scene
        .observed()
        .filter(|pod| scene.is_available(pod))
        .filter_map(|pod| ordinal_of(&set.metadata.name, &pod.metadata.name))
        .collect();
    let updated = plan.update.iter().filter_map(Action::updated_pod);
    let ordinals = updated.filter_map(|pod| ordinal_of(&set.metadata.name, &pod.name));
    let Some(taken) = ordinals.into_iter().find(|ordinal| available.contains(ordinal)) else { return };
    if let Some(missing) = settings.ordinals.iter().find(|slot| !available.contains(slot)) {
        let text = format!("ordinal {taken} is updated while that of ordinal {missing} is not available");
        broken.push(Violation::new("Order", text));
    }
}

/// Rule 5.
fn review_claims(plan: &Plan<Status>, scene: &Scene<'_, StatefulSet>, broken: &mut Vec<Violation>) {
    let set = scene.workload();
    let goes_with_pods = settings(set).retention.is_some_and(|retention| retention.with_pod);
    for action in plan.actions() {
        let wrong = match action {
            Action::DeleteClaim(_) => true,
            Action::DeletePod { claims, .. } => !claims.is_empty(),
            Action::WriteClaim { pod, patch, reason: ClaimReason::Owners, .. } => {
                patch.contains(r#""kind":"Pod""#) && (has_slot(set, pod) || !goes_with_pods)
            }
            _ => false,
        };
        if wrong {
            broken.push(Violation::new("Claims", action.to_string()));
        }
    }
}
