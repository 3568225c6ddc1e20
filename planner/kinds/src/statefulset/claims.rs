//! The volume claims of the Pods of a StatefulSet: which there are, what becomes of them, and how they grow
//! (docs/behaviour/statefulset.md#volume-claims).

use std::collections::{BTreeSet, HashMap, HashSet};
use std::sync::Arc;

use api::annotations::OWNED_BY_ASTS;
use api::kinds::statefulset::{API_VERSION, KIND, StatefulSet};
use jiff::Timestamp;
use serde_json::{Map, Value, json};

use super::identity::claim_name;
use super::settings::Retention;
use crate::workload::action::{Action, ClaimReason};
use crate::workload::children::Claim;
use crate::workload::claims::{ClaimTemplate, Fit, write};
use crate::workload::recipe::{claim_names, claim_volumes, likely_claims};
use crate::workload::revision::StoredRevision;
use crate::workload::snapshot::Snapshot;
use pod::observed::ObservedPod;
use values::event::Event;

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
        self.of_ordinal(ordinal).filter_map(|(template, claim)| template.waits_for_new_pod(claim)).max()
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
        let annotations = json!({OWNED_BY_ASTS: self.set.metadata.name});
        let metadata = Map::from_iter([("annotations".to_owned(), annotations)]);
        let classes = snapshot.storage_classes;
        let mut actions = Vec::new();
        for (template, claim) in self.of_ordinal(ordinal) {
            actions.extend(template.grow(claim, (pod, &metadata), classes, events)?);
        }
        Ok(actions)
    }
}
