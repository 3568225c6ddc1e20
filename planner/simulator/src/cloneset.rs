//! CloneSets in the simulation: `podsToDelete` as its users' edit, and the rules that hold for CloneSets alone.
//!
//! 1. *Partition.* An update, or a scale-in, leaves `partition` Pods at older revisions; a new Pod is made
//!    from the newest revision only if they are there.
//! 2. *Named first.* No Pod is chosen for deletion while one that is to be deleted is there; what is deleted as
//!    named is named.
//! 3. *Once.* A scale-in leaves `replicas` Pods; no two Pods share an instance id.
//! 4. *Held.* Nothing is updated while the CloneSet is paused or of type OnDelete.
//! 5. *Rest.* In the end every claim has its Pod, or waits for one, where claims are reused, since others took
//!    its Pod.

use std::collections::BTreeSet;
use std::sync::Arc;

use api::features::{Feature, FeatureGates};
use api::kinds::Object;
use api::kinds::cloneset::{CloneSet, Spec, Status};
use api::kinds::shared::{Lifecycle, PodUpdatePolicy, UpdateStrategyType};
use api::labels::{CLONESET_INSTANCE_ID, LIFECYCLE_STATE, SPECIFIED_DELETE};
use serde_json::Value;

use super::kind::{Bounds, Deed, End, Scene, Simulated, Violation, count, is_at, is_preparing_delete};
use super::user::{PodNumber, chosen};
use kinds::cloneset::counting::Limits;
use kinds::cloneset::defaulting;
use kinds::workload::action::{Action, DeleteReason, WriteReason};
use kinds::workload::plan::Plan;
use pod::node_fit::Nodes;
use pod::observed::ObservedPod;
use values::json_patch::Patch;
use values::verdict::Denial;

/// What users do to a CloneSet, beside giving it another spec.
#[derive(Clone, Debug)]
pub enum Edit {
    /// A Pod is named in `podsToDelete`; also lowers `replicas` by one where that is true.
    Name(PodNumber, bool),
}

impl Simulated for CloneSet {
    type Spec = Spec;
    type Edit = Edit;

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

    /// Names of Pods in `podsToDelete` stay.
    fn amend(&mut self, spec: Spec) {
        let names = std::mem::take(&mut self.spec.scale_strategy.pods_to_delete);
        self.spec = spec;
        self.spec.scale_strategy.pods_to_delete = names;
    }

    fn edit(&mut self, edit: &Edit, pods: &[Arc<ObservedPod>]) -> Option<String> {
        let Edit::Name(number, lowers) = edit;
        let name = chosen(pods, *number)?.metadata.name.to_string();
        let text = format!("names Pod {name} in podsToDelete");
        let names = &mut self.spec.scale_strategy.pods_to_delete;
        if !names.contains(&name) {
            names.push(name);
        }
        if *lowers {
            self.spec.replicas = self.spec.replicas.map(|replicas| (replicas - 1).max(0));
        }
        Some(text)
    }

    fn lifecycle(&self) -> &Lifecycle {
        &self.spec.lifecycle
    }

    fn bounds(&self, _nodes: &Nodes) -> Bounds {
        let Limits { replicas, max_unavailable, max_surge, .. } = Limits::of(&self.spec);
        let min_ready_seconds = self.spec.min_ready_seconds.unwrap_or(0);
        Bounds { replicas, max_unavailable, max_surge, min_ready_seconds }
    }

    fn update_policy(&self) -> Option<&PodUpdatePolicy> {
        self.spec.update_strategy.rolling_update.pod_update_policy.as_ref()
    }

    fn revision_history_limit(&self) -> usize {
        usize::try_from(self.spec.revision_history_limit.unwrap_or(10)).unwrap_or(0)
    }

    fn is_counted(&self, pod: &ObservedPod) -> bool {
        !(self.spec.scale_strategy.exclude_preparing_delete && is_preparing_delete(pod))
    }

    fn is_left(pod: &ObservedPod, scene: &Scene<'_, Self>) -> bool {
        let is_new = counts_as_new(pod, scene);
        if !goes_back(scene) {
            return !is_new;
        }
        // Those beyond replicas and maxSurge are scaled in by users, and only new Pods can go then.
        let total = scene.left(|_| true) + scene.taken(|_| true);
        is_new && total < scene.bounds().ceiling()
    }

    fn judge_plan(plan: &Plan<Status>, scene: &Scene<'_, Self>, broken: &mut Vec<Violation>) {
        review_rollback(plan, scene, broken);
        review_choices(plan, scene, broken);
        review_creations(plan, scene, broken);
        let begins = |action: &&Action| action.updated_pod().is_some();
        if is_held(scene.workload())
            && let Some(action) = plan.update.iter().find(begins)
        {
            broken.push(Violation::new("Held", action.to_string()));
        }
    }

    fn judge_deed(deed: &Deed<'_>, scene: &Scene<'_, Self>, broken: &mut Vec<Violation>) {
        match *deed {
            Deed::Create(pod) => broken.extend(twin(scene, pod)),
            Deed::Delete { pod, reason } => {
                let holds = match reason {
                    DeleteReason::ScaleIn => {
                        judge_scale_in(scene, pod, broken);
                        true
                    }
                    DeleteReason::Specified => names(scene.workload(), pod),
                    DeleteReason::Released => is_preparing_delete(pod),
                    DeleteReason::Ended | DeleteReason::Recreate | DeleteReason::Misplaced => false,
                };
                if !holds {
                    let name = &pod.metadata.name;
                    let text = format!("Pod {name} is deleted as {reason:?}, which it is not");
                    broken.push(Violation::new("Named first", text));
                }
            }
            Deed::Write { pod, reason, revision } => match reason {
                WriteReason::UpdateInPlace | WriteReason::Recreate if revision == scene.update_revision() => {
                    let is_new = |pod: &ObservedPod| is_at(pod, scene.update_revision());
                    broken.extend(partition(scene, is_new, &format!("updates Pod {}", pod.metadata.name)));
                }
                WriteReason::PrepareDelete if !leaves(scene.workload(), pod) => {
                    judge_scale_in(scene, pod, broken);
                }
                _ => {}
            },
        }
    }

    fn unrest(end: &End<'_, Self>) -> Vec<String> {
        let CloneSet { metadata, spec, status } = end.workload;
        let Limits { partition, max_unavailable, max_surge, .. } = Limits::of(spec);
        let mut unrest = Vec::new();
        let mut expect = |holds: bool, text: String| {
            if !holds {
                unrest.push(text);
            }
        };
        let old = end.count(|pod| !is_at(pod, &end.update_revision));
        if !is_held(end.workload) {
            expect(
                old <= partition,
                format!("{old} Pods are at older revisions, with partition {partition}"),
            );
            // Pods at the newest revision go back where the partition is raised.
            let goes_back = status.current_revision != status.update_revision
                && end.gates.enabled(Feature::CloneSetPartitionRollback);
            expect(
                !goes_back || old >= partition,
                format!("{old} Pods are at older revisions, with partition {partition} and rollback"),
            );
        }
        // What serves can't go where neither budget nor surge allow it.
        if max_unavailable > 0 || max_surge > 0 {
            let named = end.count(|pod| leaves(end.workload, pod));
            expect(named == 0, format!("{named} Pods are still to be deleted"));
        }
        let exists = |name: &String| end.pods.iter().any(|pod| *pod.metadata.name == **name);
        let gone = spec.scale_strategy.pods_to_delete.iter().find(|name| !exists(name));
        expect(gone.is_none(), format!("podsToDelete still names {}", gone.map_or("", String::as_str)));
        let total = end.count(|_| true);
        let counts = [status.replicas, status.available_replicas, status.updated_replicas].map(i64::from);
        let real = [total, end.available, total - old];
        expect(
            counts == real
                && status.update_revision == end.update_revision
                && status.observed_generation == metadata.generation,
            format!("the status says {counts:?} of {real:?}"),
        );
        unrest.extend(stray_claims(end));
        unrest
    }
}

/// The Pod is to be deleted by name or by its label.
fn names(set: &CloneSet, pod: &ObservedPod) -> bool {
    pod.label(SPECIFIED_DELETE).is_some()
        || set.spec.scale_strategy.pods_to_delete.iter().any(|name| **name == *pod.metadata.name)
}

/// The Pod leaves, or is to leave.
fn leaves(set: &CloneSet, pod: &ObservedPod) -> bool {
    is_preparing_delete(pod) || names(set, pod)
}

fn is_held(set: &CloneSet) -> bool {
    let strategy = &set.spec.update_strategy;
    strategy.rolling_update.paused || strategy.kind == Some(UpdateStrategyType::OnDelete)
}

/// The Pod is at the newest revision as scaling sees it: with gate `PreparingUpdateAsUpdate` it takes Pods that
/// wait for their update for new ones.
fn counts_as_new(pod: &ObservedPod, scene: &Scene<'_, CloneSet>) -> bool {
    is_at(pod, scene.update_revision())
        || (scene.gates().enabled(Feature::PreparingUpdateAsUpdate)
            && pod.label(LIFECYCLE_STATE) == Some("PreparingUpdate"))
}

/// Pods go back to the current revision: a partition keeps old ones, and there are more new ones beyond their share than
/// old ones, or the partition keeps all.
fn goes_back(scene: &Scene<'_, CloneSet>) -> bool {
    let current = &scene.workload().status.current_revision;
    let differs = !current.is_empty() && *current != scene.update_revision();
    let Limits { replicas, partition, .. } = Limits::of(&scene.workload().spec);
    let stays = |pod: &ObservedPod| !is_preparing_delete(pod);
    let new = count(scene.observed(), |pod| stays(pod) && counts_as_new(pod, scene));
    let old = count(scene.observed(), |pod| stays(pod) && !counts_as_new(pod, scene));
    differs
        && partition > 0
        && scene.gates().enabled(Feature::CloneSetPartitionRollback)
        && (new - (replicas - partition) > old - partition || partition >= replicas)
}

/// Rule 3: another Pod with the instance id of `pod`.
fn twin(scene: &Scene<'_, CloneSet>, pod: &ObservedPod) -> Option<Violation> {
    let id = pod.label(CLONESET_INSTANCE_ID);
    let twin = scene.pods().find(|other| {
        other.is_active() && other.metadata.uid != pod.metadata.uid && other.label(CLONESET_INSTANCE_ID) == id
    })?;
    let (name, twin) = (&pod.metadata.name, &twin.metadata.name);
    Some(Violation::new("Once", format!("Pods {name} and {twin} have the same instance id")))
}

/// Rule 1, after a Pod that is not new was taken away or led to the newest revision.
fn partition(
    scene: &Scene<'_, CloneSet>,
    is_new: impl Fn(&ObservedPod) -> bool,
    what: &str,
) -> Option<Violation> {
    let stays = |pod: &ObservedPod| !is_new(pod) && !leaves(scene.workload(), pod);
    let (left, taken) = (scene.left(stays), scene.taken(stays));
    let partition = Limits::of(&scene.workload().spec).partition;
    (left + taken < partition).then(|| {
        let text = format!(
            "{what}: {left} Pods stay at older revisions, and {taken} more but for others; {partition} should"
        );
        Violation::new("Partition", text)
    })
}

/// Rules 1 and 3, after a Pod was chosen since there were too many.
fn judge_scale_in(scene: &Scene<'_, CloneSet>, pod: &ObservedPod, broken: &mut Vec<Violation>) {
    let name = &pod.metadata.name;
    let stays = |pod: &ObservedPod| !is_preparing_delete(pod);
    let (left, taken) = (scene.left(stays), scene.taken(stays));
    let replicas = scene.bounds().replicas;
    if left + taken < replicas {
        let text = format!(
            "Pod {name} is one too many to go: {left} are left, and {taken} more but for others, of {replicas}"
        );
        broken.push(Violation::new("Once", text));
    }
    let is_new = |pod: &ObservedPod| counts_as_new(pod, scene);
    if !is_new(pod) {
        broken.extend(partition(scene, is_new, &format!("scales in Pod {name}")));
    }
}

/// Rule 1, of Pods that go back to an older revision: no more than are to be there.
fn review_rollback(plan: &Plan<Status>, scene: &Scene<'_, CloneSet>, broken: &mut Vec<Violation>) {
    let goes_back = |action: &&Action| {
        matches!(action, Action::WritePod { reason: WriteReason::UpdateInPlace | WriteReason::Recreate, revision, .. }
            if *revision != scene.update_revision())
    };
    let back = i64::try_from(plan.update.iter().filter(goes_back).count()).unwrap_or(i64::MAX);
    let stays = |pod: &ObservedPod| !leaves(scene.workload(), pod) && !is_at(pod, scene.update_revision());
    let old = count(scene.observed(), stays);
    let partition = Limits::of(&scene.workload().spec).partition;
    if back > 0 && old + back > partition {
        let text = format!("{back} Pods go back though {old} of {partition} are at older revisions");
        broken.push(Violation::new("Partition", text));
    }
}

/// Rule 2.
fn review_choices(plan: &Plan<Status>, scene: &Scene<'_, CloneSet>, broken: &mut Vec<Violation>) {
    let leaves = |pod: &ObservedPod| leaves(scene.workload(), pod);
    let mut chosen = plan.scale.iter().filter(|action| match action {
        Action::DeletePod { reason, .. } => *reason == DeleteReason::ScaleIn,
        Action::WritePod { reason: WriteReason::PrepareDelete, pod, .. } => {
            !scene.observed().any(|own| *own.metadata.uid == *pod.uid && leaves(own))
        }
        _ => false,
    });
    if let (Some(action), Some(leaving)) = (chosen.next(), scene.observed().find(|pod| leaves(pod))) {
        let text = format!("{action}, while {} is to go", leaving.metadata.name);
        broken.push(Violation::new("Named first", text));
    }
}

/// Rule 1, of Pods that are created.
fn review_creations(plan: &Plan<Status>, scene: &Scene<'_, CloneSet>, broken: &mut Vec<Violation>) {
    let (mut old, mut new) = (0, 0);
    for action in &plan.scale {
        if let Action::CreatePod { revision, .. } = action {
            if *revision == scene.update_revision() { new += 1 } else { old += 1 }
        }
    }
    if old + new == 0 {
        return;
    }
    let set = scene.workload();
    let Limits { partition, max_surge, .. } = Limits::of(&set.spec);
    let at_old = count(scene.observed(), |pod| set.is_counted(pod) && !counts_as_new(pod, scene)) + old;
    let current = &set.status.current_revision;
    let differs = !current.is_empty() && *current != scene.update_revision();
    if differs && new > 0 && at_old < partition {
        let text =
            format!("{new} Pods are created at the newest revision while {at_old} of {partition} are older");
        broken.push(Violation::new("Partition", text));
    }
    if old > 0 && at_old > partition + max_surge {
        let text = format!("with {old} new ones, {at_old} of {partition} Pods are older");
        broken.push(Violation::new("Partition", text));
    }
}

/// Rule 5.
fn stray_claims(end: &End<'_, CloneSet>) -> Vec<String> {
    let CloneSet { metadata, spec, .. } = end.workload;
    let templates = spec.volume_claim_templates.as_ref().map_or("[]", |templates| templates.get());
    let templates: Vec<Value> = serde_json::from_str(templates).unwrap_or_default();
    let ids: BTreeSet<&str> = end.pods.iter().filter_map(|pod| pod.label(CLONESET_INSTANCE_ID)).collect();
    let mut strays = Vec::new();
    let ours = end
        .claims
        .iter()
        .filter(|claim| claim.metadata.owner_references.iter().any(|owner| owner.uid == metadata.uid));
    for claim in ours {
        let (name, id) = (&claim.metadata.name, claim.instance_id().unwrap_or_default());
        let is_deleted = claim.metadata.deletion_timestamp.is_some();
        let was_deleted = end.deleted.iter().any(|pod| pod.label(CLONESET_INSTANCE_ID) == Some(id));
        if ids.contains(id) {
            if is_deleted {
                strays.push(format!("claim {name} is being deleted under its Pod"));
            }
        } else if !is_deleted && (!spec.scale_strategy.enable_pvc_reuse || was_deleted) {
            strays.push(format!("claim {name} has no Pod"));
        }
    }
    for id in ids {
        let found = end.claims.iter().filter(|claim| claim.instance_id() == Some(id)).count();
        if found < templates.len() {
            strays.push(format!("the Pod with id {id} has {found} of {} claims", templates.len()));
        }
    }
    strays
}
