//! The volume claims of the Pods of a StatefulSet: which there are, what becomes of them, and how they grow
//! (docs/behaviour/statefulset.md#volume-claims).

use std::collections::{BTreeSet, HashMap, HashSet};
use std::sync::Arc;

use api::Raw;
use api::annotations::OWNED_BY_ASTS;
use api::kinds::statefulset::{API_VERSION, KIND, StatefulSet};
use jiff::Timestamp;
use serde::Deserialize;
use serde_json::{Map, Value, json};

use super::identity::claim_name;
use super::settings::Retention;
use crate::workload::action::{Action, ClaimReason};
use crate::workload::children::{Claim, ClaimSpec};
use crate::workload::object_version::ObjectVersion;
use crate::workload::recipe::{claim_names, claim_volumes, likely_claims};
use crate::workload::revision::StoredRevision;
use crate::workload::snapshot::Snapshot;
use pod::observed::{ObservedPod, Pairs};
use values::event::{Event, warning};
use values::quantity::{Format, Quantity};

/// The condition of a claim whose volume has grown, and whose file system grows with the next Pod.
const FILE_SYSTEM_RESIZE_PENDING: &str = "FileSystemResizePending";
const STORAGE: &str = "storage";

/// An entry of `spec.volumeClaimTemplates`, as much of it as is compared.
#[derive(Clone, Debug)]
pub(super) struct ClaimTemplate {
    pub(super) name: String,
    spec: ClaimSpec,
    /// `spec.resources`, whole.
    resources: Option<Raw>,
}

/// The templates.
///
/// # Errors
/// What of them can't be read.
pub(super) fn templates(set: &StatefulSet) -> Result<Vec<ClaimTemplate>, String> {
    #[derive(Default, Deserialize)]
    #[serde(default)]
    struct Template {
        metadata: Named,
        spec: ClaimSpec,
    }
    #[derive(Default, Deserialize)]
    #[serde(default)]
    struct Named {
        name: String,
    }
    #[derive(Deserialize)]
    struct Whole {
        spec: Option<Resources>,
    }
    #[derive(Deserialize)]
    struct Resources {
        resources: Option<Raw>,
    }
    let Some(raw) = &set.spec.volume_claim_templates else { return Ok(Vec::new()) };
    let unreadable = |error| format!("spec.volumeClaimTemplates can't be read: {error}");
    let read: Option<Vec<Template>> = serde_json::from_str(raw.get()).map_err(unreadable)?;
    let whole: Option<Vec<Whole>> = serde_json::from_str(raw.get()).map_err(unreadable)?;
    let resources = whole.into_iter().flatten().map(|whole| whole.spec.and_then(|spec| spec.resources));
    Ok(read
        .into_iter()
        .flatten()
        .zip(resources)
        .map(|(template, resources)| ClaimTemplate {
            name: template.metadata.name,
            spec: template.spec,
            resources,
        })
        .collect())
}

/// How a claim compares to its template. A claim that is missing or is being deleted is as it should be.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Fit {
    /// Class and access modes are those of the template.
    pub(super) same_shape: bool,
    /// It asks for at least as much as its template.
    pub(super) compatible: bool,
    /// It has as much as it asks for.
    pub(super) ready: bool,
    /// What is left to do needs a new Pod at most.
    pub(super) completed: bool,
}

impl ClaimTemplate {
    /// How this claim compares.
    pub(super) fn fit(&self, claim: &Claim) -> Fit {
        let (wanted, given) = (&self.spec, &claim.spec);
        let same_class = match (&wanted.storage_class_name, &given.storage_class_name) {
            (Some(wanted), Some(given)) => wanted == given,
            _ => true,
        };
        let modes = |spec: &ClaimSpec| spec.access_modes.clone().unwrap_or_default();
        let same_shape = same_class && modes(wanted) == modes(given);
        let asked = size(&given.resources.requests);
        let compatible = same_shape && asked >= size(&wanted.resources.requests);
        let ready = same_shape && size(&claim.status.capacity) >= asked;
        let completed = compatible && (ready || claim.condition(FILE_SYSTEM_RESIZE_PENDING).is_some());
        Fit { same_shape, compatible, ready, completed }
    }
}

/// The storage of a list of resources; one that is missing or can't be read counts as none.
fn size(resources: &Pairs) -> Quantity {
    let known = resources.get(STORAGE).and_then(|text| text.parse().ok());
    known.unwrap_or_else(|| Quantity::from_units(0, Format::BinarySi))
}

/// The names of the present claim templates, of those that revisions had, and of those that Pods show.
pub(super) fn names(
    set: &StatefulSet,
    pods: &[Arc<ObservedPod>],
    revisions: &[Arc<StoredRevision>],
) -> BTreeSet<String> {
    let present = set.spec.volume_claim_templates.as_ref();
    let earlier = revisions.iter().flat_map(|revision| likely_claims(revision, present));
    let shown = pods.iter().flat_map(|pod| claim_volumes(pod)).map(str::to_owned);
    claim_names(present).into_iter().chain(earlier).chain(shown).collect()
}

/// The claims of a StatefulSet, found by name.
pub(super) struct Claims<'a> {
    set: &'a StatefulSet,
    templates: Vec<ClaimTemplate>,
    /// The names of all templates, those of older revisions included.
    names: BTreeSet<String>,
    by_name: HashMap<&'a str, &'a Claim>,
}

impl<'a> Claims<'a> {
    pub(super) fn of(snapshot: &Snapshot<'a, StatefulSet>, templates: Vec<ClaimTemplate>) -> Self {
        let named = snapshot.claims.iter().map(|claim| (&*claim.metadata.name, &**claim));
        let set = snapshot.workload;
        let names = names(set, snapshot.pods, snapshot.revisions);
        Self { set, templates, names, by_name: named.collect() }
    }

    pub(super) fn templates(&self) -> &[ClaimTemplate] {
        &self.templates
    }

    /// The claim of this name, also one that is being deleted.
    pub(super) fn named(&self, name: &str) -> Option<&'a Claim> {
        self.by_name.get(name).copied()
    }

    /// The claims of the Pod with this ordinal that are there to stay, and their templates.
    pub(super) fn of_ordinal(&self, ordinal: i32) -> impl Iterator<Item = (&ClaimTemplate, &'a Claim)> {
        self.templates.iter().filter_map(move |template| {
            let claim = self.named(&claim_name(&template.name, &self.set.metadata.name, ordinal))?;
            claim.metadata.deletion_timestamp.is_none().then_some((template, claim))
        })
    }

    /// The claims of the Pod with this ordinal that are there to stay, whatever revision asks for them.
    fn all_of_ordinal(&self, ordinal: i32) -> impl Iterator<Item = &'a Claim> {
        let named = self
            .names
            .iter()
            .filter_map(move |template| self.named(&claim_name(template, &self.set.metadata.name, ordinal)));
        named.filter(|claim| claim.metadata.deletion_timestamp.is_none())
    }

    /// How the claims of the Pod with this ordinal compare to their templates, all together.
    pub(super) fn fit(&self, ordinal: i32) -> Fit {
        let whole = Fit { same_shape: true, compatible: true, ready: true, completed: true };
        self.of_ordinal(ordinal).fold(whole, |all, (template, claim)| {
            let fit = template.fit(claim);
            Fit {
                same_shape: all.same_shape && fit.same_shape,
                compatible: all.compatible && fit.compatible,
                ready: all.ready && fit.ready,
                completed: all.completed && fit.completed,
            }
        })
    }

    /// Since when the file system of a claim of this ordinal waits for a new Pod.
    pub(super) fn waits_for_new_pod(&self, ordinal: i32) -> Option<Option<Timestamp>> {
        let pending = self.of_ordinal(ordinal).filter_map(|(template, claim)| {
            let fit = template.fit(claim);
            let condition = claim.condition(FILE_SYSTEM_RESIZE_PENDING)?;
            (fit.completed && !fit.ready).then(|| condition.since())
        });
        pending.max()
    }

    /// A claim of this ordinal is left from a Pod that was scaled in, and is deleted with that
    /// (docs/behaviour/statefulset.md#retention-of-claims).
    pub(super) fn is_left_over(&self, ordinal: i32, pod: &str) -> bool {
        self.all_of_ordinal(ordinal).any(|claim| {
            let mut owners = claim.metadata.owner_references.iter();
            owners.any(|owner| owner.kind == "Pod" && owner.group().is_empty() && owner.name == pod)
        })
    }

    /// The writes that give the claims of this Pod the owners that the policy asks for. `is_out` says that the Pod
    /// has no slot.
    pub(super) fn correct_owners(
        &self,
        (pod, ordinal): (&ObservedPod, i32),
        is_out: bool,
        retention: Retention,
    ) -> Vec<Action> {
        let metadata = &self.set.metadata;
        let pod_uid: &str = &pod.metadata.uid;
        let pod_owns = is_out && retention.with_pod;
        let set_owns = retention.with_set && !pod_owns;
        let set = (API_VERSION, KIND, metadata.name.as_str(), metadata.uid.as_str());
        let owner = ("v1", "Pod", &*pod.metadata.name, pod_uid);
        // What an earlier revision left behind has no owner.
        let is_used = |claim: &Claim| {
            let present = self.templates.iter().map(|template| &*template.name);
            let mut names = present.chain(claim_volumes(pod));
            names.any(|name| *claim.metadata.name == *claim_name(name, &metadata.name, ordinal))
        };
        let corrections = self.all_of_ordinal(ordinal).filter_map(|claim| {
            let known = |uid: &str| claim.metadata.owner_references.iter().any(|owner| owner.uid == uid);
            let changes = [(set, set_owns), (owner, pod_owns)].into_iter().filter_map(|(owner, owns)| {
                let (api_version, kind, name, uid) = owner;
                match (owns, known(uid)) {
                    (true, false) if is_used(claim) => {
                        Some(json!({"apiVersion": api_version, "kind": kind, "name": name, "uid": uid}))
                    }
                    (false, true) => Some(json!({"$patch": "delete", "uid": uid})),
                    _ => None,
                }
            });
            // One of an earlier Pod of this name would take the claim away with it.
            let stale = claim.metadata.owner_references.iter().filter(|known| {
                known.kind == "Pod"
                    && known.group().is_empty()
                    && *known.name == *pod.metadata.name
                    && known.uid != pod_uid
            });
            let stale = stale.map(|known| json!({"$patch": "delete", "uid": known.uid}));
            let changes: Vec<Value> = changes.chain(stale).collect();
            if changes.is_empty() {
                return None;
            }
            let patch = Map::from_iter([("ownerReferences".to_owned(), Value::Array(changes))]);
            Some(write(claim, &pod.metadata.name, patch, None, ClaimReason::Owners))
        });
        corrections.collect()
    }

    /// The writes that keep the claims of this ordinal, which were to go with a Pod of this name that is gone.
    pub(super) fn keep(&self, ordinal: i32, pod: &str) -> Vec<Action> {
        let kept = self.all_of_ordinal(ordinal).filter_map(|claim| {
            let owners = claim.metadata.owner_references.iter();
            let stale = owners.filter(|owner| owner.kind == "Pod" && owner.name == pod);
            let stale: Vec<Value> =
                stale.map(|owner| json!({"$patch": "delete", "uid": owner.uid})).collect();
            if stale.is_empty() {
                return None;
            }
            let metadata = Map::from_iter([("ownerReferences".to_owned(), Value::Array(stale))]);
            Some(write(claim, pod, metadata, None, ClaimReason::Owners))
        });
        kept.collect()
    }

    /// A write to a claim of this ordinal is planned already.
    pub(super) fn is_written(&self, ordinal: i32, busy: &HashSet<&str>) -> bool {
        self.all_of_ordinal(ordinal).any(|claim| busy.contains(&*claim.metadata.name))
    }

    /// The writes with which the claims of this ordinal grow, or why one can't.
    ///
    /// # Errors
    /// A claim of another shape, which an Event reports, or of a StorageClass that allows no expansion.
    pub(super) fn grow(
        &self,
        snapshot: &Snapshot<'_, StatefulSet>,
        ordinal: i32,
        pod: &str,
        events: &mut Vec<Event>,
    ) -> Result<Vec<Action>, String> {
        let mut actions = Vec::new();
        for (template, claim) in self.of_ordinal(ordinal) {
            let fit = template.fit(claim);
            if fit.compatible {
                continue;
            }
            let name = &claim.metadata.name;
            if !fit.same_shape {
                let problem =
                    format!("pvc {name}: contains diff other than spec resource, wait pvc to be deleted");
                events.push(warning("FailedUpdatePVC", format!("failed to update {problem}")));
                return Err(format!("can not patch {problem}"));
            }
            if let Some(class) = &claim.spec.storage_class_name {
                match snapshot.storage_classes.named(class) {
                    None => {
                        return Err(format!(
                            "could not get sc {class} for {pod} when checking PVC spec: it does not exist"
                        ));
                    }
                    Some(known) if !known.allows_expansion => {
                        return Err(format!(
                            "storage class {class} for {pod} does not support volume expansion"
                        ));
                    }
                    Some(_) => {}
                }
            }
            let annotations = json!({OWNED_BY_ASTS: self.set.metadata.name});
            let metadata = Map::from_iter([("annotations".to_owned(), annotations)]);
            actions.push(write(claim, pod, metadata, template.resources.as_ref(), ClaimReason::Resize));
        }
        Ok(actions)
    }
}

/// The write of this metadata, and of these resources.
fn write(
    claim: &Claim,
    pod: &str,
    mut metadata: Map<String, Value>,
    resources: Option<&Raw>,
    reason: ClaimReason,
) -> Action {
    let claim = ObjectVersion::of(&claim.metadata);
    metadata.insert("uid".to_owned(), json!(claim.uid));
    metadata.insert("resourceVersion".to_owned(), json!(claim.resource_version));
    let patch = match resources {
        // As it is written: nothing of it is lost.
        Some(resources) => {
            let metadata = Value::Object(metadata);
            format!(r#"{{"metadata":{metadata},"spec":{{"resources":{}}}}}"#, resources.get())
        }
        None => json!({"metadata": metadata}).to_string(),
    };
    Action::WriteClaim { claim, pod: pod.to_owned(), patch, reason }
}
