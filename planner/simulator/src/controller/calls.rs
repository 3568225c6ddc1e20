//! The calls that the controller makes, as the API server carries them out.

use api::annotations::CONTAINER_LAUNCH_PRIORITY;
use api::conditions::KRUISE_POD_READY;
use api::environment::{CONTAINER_BARRIER, CONTAINER_PRIORITY};
use api::kinds::{Object, ObjectMeta};
use api::meta::OwnerReference;
use serde::de::DeserializeOwned;
use serde::{Deserialize, Serialize};
use serde_json::value::RawValue;
use serde_json::{Map, Value};

use super::{Call, Errand};
use crate::Cluster;
use crate::kind::{Simulated, View};
use crate::server::{Kind, Precondition, Refusal};
use crate::timeline::Actor;
use kinds::workload::action::Action;
use kinds::workload::children::Claim;
use kinds::workload::object_version::ObjectVersion;
use pod::launch_priority::{barrier_key, barrier_name};
use pod::observed::{KeyReference, ObservedPod, ReadinessGate, Resources, Variable, VariableSource};
use pod::write::{PodWrite, Target};
use values::json_patch::{self, Patch, Pointer};

impl<W: Simulated> Cluster<'_, W> {
    /// Makes a call. It may not arrive, or its answer may be lost.
    pub(super) fn perform(&mut self, view: &View<W>, errand: &mut Errand, call: Call) -> Result<(), Refusal> {
        let rate = if self.is_calm { 0.0 } else { self.settings.fault_rate };
        if rate > 0.0 && self.chance(rate * 0.08) {
            self.record(Actor::Fault, format!("a call of the controller fails: {}", call.summary::<W>()));
            return Err(Refusal::Unavailable);
        }
        let is_lost = rate > 0.0 && self.chance(rate * 0.05);
        let (target, summary) = (call.target(), self.settings.record.then(|| call.summary::<W>()));
        let result = self.carry_out_call(view, errand, call);
        if is_lost {
            self.controller.is_unsure = true;
            return Err(Refusal::Unavailable);
        }
        // What the server answers is known at once, before any watch reports it.
        let news = self
            .server
            .news()
            .iter()
            .find(|news| news.kind == target.0 && *news.name == *target.1 && news.object.is_some());
        if let Some(news) = news.cloned() {
            self.controller.is_dirty |= self.controller.cache.written(news);
        }
        match result {
            // What is to go and is gone needs no further try.
            Err(Refusal::NotFound) if target.2 => Ok(()),
            Err(refusal) => {
                if let Some(summary) = summary {
                    self.record(Actor::Kutter, format!("is refused: {summary}: {refusal:?}"));
                }
                Err(refusal)
            }
            Ok(()) => Ok(()),
        }
    }

    fn carry_out_call(&mut self, view: &View<W>, errand: &mut Errand, call: Call) -> Result<(), Refusal> {
        let now = self.now();
        match call {
            Call::CreateRevision(revision) => {
                self.record(Actor::Kutter, format!("creates revision {}", revision.name));
                match self.server.create_revision(&revision.to_json(), now) {
                    Err(Refusal::AlreadyExists) => {
                        // The reconcile reads the one that has the name before it takes another.
                        let existing = self.server.revisions.get(revision.name.as_str()).cloned();
                        if let Some(next) = existing.and_then(|existing| revision.after_collision(&existing))
                        {
                            self.controller.collision_count = Some(next.collision_count);
                        }
                        self.controller.is_unsure = true;
                        Ok(())
                    }
                    result => result,
                }
            }
            Call::PatchRevision { revision, patch } => {
                self.record(Actor::Kutter, format!("makes revision {} the newest", revision.name));
                self.server.patch_revision(&revision.name, exactly(&revision), &patch)
            }
            Call::CreateClaim(claim) => match self.server.create_claim(&claim.json) {
                // One that exists already is as good as created.
                Ok(_) => Ok(()),
                Err(Refusal::AlreadyExists) => {
                    let known = self.server.claims.get(claim.name.as_str());
                    let ends = known.is_some_and(|known| known.metadata.deletion_timestamp.is_some());
                    if ends && W::HAS_ORDINALS { Err(Refusal::AlreadyExists) } else { Ok(()) }
                }
                Err(refusal) => Err(refusal),
            },
            Call::CreatePod { json, id, .. } => self.create(view, &json, &id),
            Call::DeletePod(pod) => {
                if self.server.refusing.contains(pod.uid.as_str()) {
                    return Err(Refusal::Denied);
                }
                let before = self.server.pods.get(pod.name.as_str()).cloned();
                self.server.delete_pod(&pod.name, exactly(&pod), now)?;
                let Some(before) = before else { return Ok(()) };
                let reason = match errand.action {
                    Some(Action::DeletePod { reason, .. }) => Some(reason),
                    _ => None,
                };
                self.ledger.judge_deletion(view, reason, &before, &self.server);
                self.deleted(Actor::Kutter, &before);
                Ok(())
            }
            Call::DeleteClaim(claim) => {
                let known = self.server.claims.get(claim.name.as_str()).cloned();
                self.server.delete_claim(&claim.name, exactly(&claim), now)?;
                if let Some(known) = known {
                    self.ledger.judge_claim(&known, &self.server);
                }
                Ok(())
            }
            Call::HandOver { claim, patch } => {
                let owners = owners_after(&patch)?;
                let annotations = annotations_of(&patch)?;
                let resources = resources_of(&patch)?;
                let change = |claim: &mut Claim| {
                    claim.spec.resources = resources.unwrap_or_else(|| claim.spec.resources.clone());
                    let metadata = &mut claim.metadata;
                    let kept =
                        metadata.owner_references.iter().filter(|owner| !owners.0.contains(&owner.uid));
                    metadata.owner_references = kept.chain(&owners.1).cloned().collect();
                    let others =
                        metadata.annotations.iter().filter(|(key, _)| !annotations.contains_key(*key));
                    let set =
                        annotations.iter().filter_map(|(key, value)| Some((key.as_str(), value.as_str()?)));
                    metadata.annotations = others.chain(set).collect();
                };
                self.server.change_claim(&claim.name, exactly(&claim), change).map(drop)
            }
            Call::WritePod { pod, write } => self.write(view, errand, &pod, &write),
            Call::Status(patch) => {
                let patch: Value = serde_json::from_str(&patch).map_err(|_| Refusal::Invalid)?;
                let status = merged(self.server.workload.status(), &patch)?;
                self.server.change_workload(|workload| workload.object_mut().status = status);
                Ok(())
            }
            Call::Owner(patch) => self.patch_workload(&patch),
            Call::DeleteRevision(revision) => self.server.delete_revision(&revision.name, exactly(&revision)),
            Call::DeleteWorkload(workload) => {
                self.record(Actor::Kutter, format!("deletes the {}", W::KIND));
                self.server.delete_workload(&workload.uid, now)?;
                // Kubernetes clears away what it owned.
                let pods: Vec<_> = self.own_pods().cloned().collect();
                pods.iter().for_each(|pod| self.delete(Actor::Node, pod));
                Ok(())
            }
        }
    }

    fn create(&mut self, view: &View<W>, json: &str, id: &str) -> Result<(), Refusal> {
        let mut pod = ObservedPod::read(json).map_err(|_| Refusal::Invalid)?;
        admit(&mut pod);
        let now = self.now();
        let pod = self.server.create_pod(pod, now)?;
        self.controller.refused.remove(id);
        self.ledger.judge_creation(view, &pod, &self.server);
        self.pod_appears(&pod);
        let revision = pod.label(api::labels::CONTROLLER_REVISION_HASH).unwrap_or_default();
        self.record(Actor::Kutter, format!("creates Pod {} at revision {revision}", pod.metadata.name));
        Ok(())
    }

    fn write(
        &mut self,
        view: &View<W>,
        errand: &mut Errand,
        pod: &ObjectVersion,
        write: &PodWrite,
    ) -> Result<(), Refusal> {
        let version = errand.version.as_deref().unwrap_or(&pod.resource_version);
        let precondition = Precondition { uid: &pod.uid, version };
        let before = self.server.pods.get(pod.name.as_str()).cloned().ok_or(Refusal::NotFound)?;
        // Where updates were refused they are rehearsed, before a Pod leaves its service for one.
        let rehearsed =
            self.controller.holds.any() && errand.action.as_ref().and_then(Action::updated_pod).is_some();
        if (rehearsed || write.target != Target::Status) && self.server.refusing.contains(pod.uid.as_str()) {
            return Err(Refusal::Denied);
        }
        let write = accepted(write);
        if !write.keeps_places(&before) {
            return Err(Refusal::Invalid);
        }
        let after = self.server.change_pod(&pod.name, precondition, |pod| write.apply(pod))?;
        errand.version = Some(after.metadata.resource_version.to_string());
        self.ledger.judge_write(view, errand.action.as_ref(), (&before, &after), &self.server);
        if before.metadata.resource_version != after.metadata.resource_version {
            self.settle(Actor::Kutter, &before, &after);
        }
        Ok(())
    }

    /// Carries out a JSON patch of the workload; of it, tests and replacements are understood.
    fn patch_workload(&mut self, patch: &str) -> Result<(), Refusal> {
        let spec = patched(self.server.workload.object(), patch)?;
        self.server.change_workload(|workload| workload.object_mut().spec = spec);
        Ok(())
    }
}

impl Call {
    /// Kind and name of the object that the answer holds, and whether the call is to remove it.
    fn target(&self) -> (Kind, String, bool) {
        match self {
            Self::CreateRevision(revision) => (Kind::Revision, revision.name.clone(), false),
            Self::PatchRevision { revision, .. } => (Kind::Revision, revision.name.clone(), false),
            Self::DeleteRevision(revision) => (Kind::Revision, revision.name.clone(), true),
            Self::CreateClaim(claim) => (Kind::Claim, claim.name.clone(), false),
            Self::DeleteClaim(claim) => (Kind::Claim, claim.name.clone(), true),
            Self::HandOver { claim, .. } => (Kind::Claim, claim.name.clone(), false),
            Self::CreatePod { name, .. } => (Kind::Pod, name.clone(), false),
            Self::DeletePod(pod) => (Kind::Pod, pod.name.clone(), true),
            Self::WritePod { pod, .. } => (Kind::Pod, pod.name.clone(), false),
            Self::Status(_) | Self::Owner(_) => (Kind::Workload, String::new(), false),
            Self::DeleteWorkload(_) => (Kind::Workload, String::new(), true),
        }
    }

    fn summary<W: Simulated>(&self) -> String {
        let verb = match self {
            Self::CreateRevision(_) | Self::CreateClaim(_) | Self::CreatePod { .. } => "create",
            Self::DeleteRevision(_) | Self::DeleteClaim(_) | Self::DeletePod(_) | Self::DeleteWorkload(_) => {
                "delete"
            }
            Self::PatchRevision { .. } | Self::HandOver { .. } | Self::WritePod { .. } => "patch",
            Self::Status(_) => "patch the status of",
            Self::Owner(_) => "patch",
        };
        let (kind, name, _) = self.target();
        format!("{verb} {} {name}", kind.name::<W>()).trim_end().to_owned()
    }
}

fn exactly(observed: &ObjectVersion) -> Precondition<'_> {
    Precondition { uid: &observed.uid, version: &observed.resource_version }
}

/// What of a write the API server takes at the place that it is sent to.
fn accepted(write: &PodWrite) -> PodWrite {
    let mut write = write.clone();
    match write.target {
        Target::Pod => {
            write.conditions.clear();
            write.phase = None;
        }
        Target::Status => {
            write.containers.clear();
            write.finalizers.clear();
            write.removed_finalizers.clear();
            write.owners.clear();
        }
        Target::Resize => {
            write = PodWrite { containers: write.containers, ..PodWrite::to(Target::Resize) };
            write.containers.iter_mut().for_each(|container| container.image = None);
        }
    }
    write
}

/// Owners that a patch of a claim removes, by UID, and those that it adds.
fn owners_after(patch: &str) -> Result<(Vec<String>, Vec<OwnerReference>), Refusal> {
    let patch: Value = serde_json::from_str(patch).map_err(|_| Refusal::Invalid)?;
    let owners = patch.pointer("/metadata/ownerReferences").and_then(Value::as_array);
    let (mut removed, mut added) = (Vec::new(), Vec::new());
    for owner in owners.into_iter().flatten() {
        let reference: OwnerReference =
            serde_json::from_value(owner.clone()).map_err(|_| Refusal::Invalid)?;
        if owner.get("$patch").is_some() { removed.push(reference.uid) } else { added.push(reference) }
    }
    Ok((removed, added))
}

/// Annotations that a patch of a claim sets, or removes where there is no value.
fn annotations_of(patch: &str) -> Result<Map<String, Value>, Refusal> {
    let patch: Value = serde_json::from_str(patch).map_err(|_| Refusal::Invalid)?;
    Ok(patch.pointer("/metadata/annotations").and_then(Value::as_object).cloned().unwrap_or_default())
}

/// The resources that a patch of a claim sets.
fn resources_of(patch: &str) -> Result<Option<Resources>, Refusal> {
    let mut patch: Value = serde_json::from_str(patch).map_err(|_| Refusal::Invalid)?;
    let resources = patch.pointer_mut("/spec/resources").map(Value::take);
    resources.map(serde_json::from_value).transpose().map_err(|_| Refusal::Invalid)
}

/// The spec of an object after a JSON patch.
fn patched<Spec, Status>(object: &Object<Spec, Status>, patch: &str) -> Result<Spec, Refusal>
where
    Spec: Serialize + DeserializeOwned,
{
    #[derive(Deserialize)]
    struct Operation {
        op: String,
        path: String,
        value: Box<RawValue>,
    }
    #[derive(Deserialize, Serialize)]
    struct Document<'a, Spec> {
        #[serde(skip_deserializing)]
        metadata: Option<&'a ObjectMeta>,
        spec: Spec,
    }
    let invalid = |_| Refusal::Invalid;
    let operations: Vec<Operation> = serde_json::from_str(patch).map_err(invalid)?;
    let document = Document { metadata: Some(&object.metadata), spec: &object.spec };
    let document = serde_json::to_string(&document).map_err(invalid)?;
    let known: Value = serde_json::from_str(&document).map_err(invalid)?;
    let mut patch = Patch::default();
    for Operation { op, path, value } in operations {
        match op.as_str() {
            "test" => {
                let value: Value = serde_json::from_str(value.get()).map_err(invalid)?;
                if known.pointer(&path) != Some(&value) {
                    return Err(Refusal::Conflict);
                }
            }
            "replace" => patch.replace(Pointer::from_escaped(path), value.get()),
            _ => return Err(Refusal::Invalid),
        }
    }
    let document = json_patch::apply(&document, &patch).map_err(|_| Refusal::Invalid)?;
    let document: Document<'_, Spec> = serde_json::from_str(&document).map_err(invalid)?;
    Ok(document.spec)
}

/// The status after a merge patch.
fn merged<Status>(status: &Status, patch: &Value) -> Result<Status, Refusal>
where
    Status: Serialize + DeserializeOwned,
{
    let mut value = serde_json::to_value(status).map_err(|_| Refusal::Invalid)?;
    let members = patch.get("status").and_then(Value::as_object);
    for (name, member) in members.into_iter().flatten() {
        if let Some(object) = value.as_object_mut() {
            object.insert(name.clone(), member.clone());
        }
    }
    serde_json::from_value(value).map_err(|_| Refusal::Invalid)
}

/// What Kutter's webhook adds to a new Pod of a workload: its readiness gate, and the barriers of an ordered
/// launch.
fn admit(pod: &mut ObservedPod) {
    if !pod.has_readiness_gate(KRUISE_POD_READY) {
        let gate = ReadinessGate { condition_type: KRUISE_POD_READY.into() };
        pod.spec.readiness_gates = pod.spec.readiness_gates.iter().cloned().chain([gate]).collect();
    }
    let ordered = pod.annotation(CONTAINER_LAUNCH_PRIORITY) == Some("Ordered");
    let containers = pod.spec.containers.iter().enumerate();
    let priorities: Vec<i64> = containers
        .map(|(index, container)| {
            let value = container.variable(CONTAINER_PRIORITY).map_or("", |variable| &variable.value);
            if ordered { -i64::try_from(index).unwrap_or(0) } else { value.parse().unwrap_or(0) }
        })
        .collect();
    if priorities.iter().all(|priority| priorities.first() == Some(priority)) {
        return;
    }
    let barrier = barrier_name(&pod.metadata.name);
    for (container, priority) in pod.spec.containers.iter_mut().zip(priorities) {
        let key = KeyReference { name: barrier.as_str().into(), key: barrier_key(priority).into() };
        let source = VariableSource { field_ref: None, config_map_key_ref: Some(key) };
        let variable =
            Variable { name: CONTAINER_BARRIER.into(), value: "".into(), value_from: Some(Box::new(source)) };
        let env = std::mem::take(&mut container.env).into_vec();
        container.env = env.into_iter().chain([variable]).collect();
    }
}
