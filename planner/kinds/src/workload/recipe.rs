//! What new Pods of a revision are made from: its template, and the claim templates that belong to it
//! (docs/behaviour/revisions.md#claim-templates).

use std::sync::Arc;

use api::Raw;
use api::raw_object::{RawNode, RawObject};

use super::children::Claim;
use super::kind::Workload;
use super::new_pod::{claim_templates, unmade_volumes};
use super::revision::StoredRevision;
use super::snapshot::Snapshot;
use pod::observed::ObservedPod;
use pod::revision_labels::RevisionLabels;

/// What new Pods of a revision are made from.
#[derive(Clone, Debug)]
pub(crate) struct Recipe<'a> {
    /// The revision's name.
    pub(crate) revision: &'a str,
    /// The Pod template.
    pub(crate) template: Raw,
    /// The claim templates.
    pub(crate) claims: Option<Raw>,
}

/// Where recipes come from.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Cookbook<'a> {
    /// The name of the workload.
    workload: &'a str,
    /// The name of the update revision.
    update: &'a str,
    /// The present `spec.template`.
    template: Option<&'a Raw>,
    /// The present `spec.volumeClaimTemplates`.
    claims: Option<&'a Raw>,
    labels: RevisionLabels,
    pods: &'a [Arc<ObservedPod>],
    stored: &'a [Arc<Claim>],
}

impl<'a> Cookbook<'a> {
    /// `present` are `spec.template` and `spec.volumeClaimTemplates`.
    pub(crate) fn new<W: Workload>(
        snapshot: &Snapshot<'a, W>,
        update: &'a str,
        present: (Option<&'a Raw>, Option<&'a Raw>),
        labels: RevisionLabels,
    ) -> Self {
        let (template, claims) = present;
        let workload = snapshot.workload.metadata().name.as_str();
        Self { workload, update, template, claims, labels, pods: snapshot.pods, stored: snapshot.claims }
    }

    /// The recipe of this revision: for Pods of the update revision what the workload says.
    ///
    /// # Errors
    /// Why no Pod of it can be made.
    pub(crate) fn recipe<'r>(&self, revision: &'r StoredRevision) -> Result<Recipe<'r>, String> {
        let name = revision.name();
        if name == self.update {
            let template = self.template.ok_or("spec.template is missing")?.clone();
            return Ok(Recipe { revision: name, template, claims: self.claims.cloned() });
        }
        let template = revision.template().map_err(|error| error.to_string())?;
        let known = self.claims_of(revision);
        if known.is_none()
            && let Some(volume) = self.lost_claim(template.get())
        {
            return Err(format!(
                "revision {name} mounts volume {volume:?}, and there is no such claim template any more: put it \
                 back, or take all Pods to the newest revision"
            ));
        }
        Ok(Recipe { revision: name, template, claims: known.or_else(|| self.claims.cloned()) })
    }

    /// The claim templates of this revision: the present ones, those that it records, or those that its Pods show. None
    /// where nothing decides.
    pub(crate) fn claims_of(&self, revision: &StoredRevision) -> Option<Raw> {
        if revision.name() == self.update {
            return self.claims.cloned();
        }
        revision.claim_templates().or_else(|| self.shown_by_pods(revision))
    }

    /// A volume that this template mounts, that its Pods would not have, and of which a stored claim shows that it came
    /// from a claim template. Another one may come from a webhook.
    fn lost_claim(&self, template: &str) -> Option<String> {
        let is_claim = |volume: &String| {
            let stem = format!("{volume}-{}", self.workload);
            let mut names = self.stored.iter().filter_map(|claim| claim.metadata.name.rsplit_once('-'));
            names.any(|(known, _)| known == stem)
        };
        unmade_volumes(template, self.claims).into_iter().find(is_claim)
    }

    /// What the newest Pod of this revision shows. A claim says nothing of what else its template said: that is taken from
    /// the present template of its name.
    fn shown_by_pods(&self, revision: &StoredRevision) -> Option<Raw> {
        let pods: Vec<&ObservedPod> = self
            .pods
            .iter()
            .map(|pod| &**pod)
            .filter(|pod| self.labels.is_at(pod, revision.name()))
            .collect();
        let newest = pods.iter().max_by_key(|pod| (pod.metadata.creation_timestamp, &pod.metadata.name))?;
        let present = claim_templates(self.claims).unwrap_or_default();
        let shown = claim_volumes(newest).map(|name| {
            let present = present.iter().find(|(known, _)| known == name);
            let present = present.map(|(_, template)| template.clone());
            let claim = pods.iter().find_map(|pod| {
                let wanted = claim_of(name, pod);
                self.stored.iter().find(|claim| *claim.metadata.name == *wanted)
            });
            if present.is_none() && claim.is_none() {
                return None;
            }
            let mut template = present.unwrap_or_default();
            template.edit_object("metadata", |metadata| metadata.insert("name", RawNode::string(name)));
            if let Some(claim) = claim {
                template.edit_object("spec", |spec| take_over(spec, claim));
            }
            Some(template.into())
        });
        let shown: Option<Vec<RawNode<'_>>> = shown.collect();
        Raw::parse(RawNode::array(shown?).to_string()).ok()
    }
}

/// What the claim was made with.
fn take_over(spec: &mut RawObject<'_>, claim: &Claim) {
    let shown = serde_json::to_value(&claim.spec).unwrap_or_default();
    for (field, value) in shown.as_object().into_iter().flatten() {
        if let Ok(value) = serde_json::value::to_raw_value(value) {
            spec.insert(field, RawNode::from_owned_raw(value));
        }
    }
}

/// The name of the claim that a Pod has for a claim template.
fn claim_of(template: &str, pod: &ObservedPod) -> String {
    format!("{template}-{}", pod.metadata.name)
}

/// The names of the claim templates for which the Pod has volumes.
pub(crate) fn claim_volumes(pod: &ObservedPod) -> impl Iterator<Item = &str> {
    let own = pod.spec.claims.iter().filter(|volume| *volume.claim == *claim_of(&volume.name, pod));
    own.map(|volume| &*volume.name)
}

/// The names of these claim templates; none of such as can't be read.
pub(crate) fn claim_names(claims: Option<&Raw>) -> Vec<String> {
    claim_templates(claims).unwrap_or_default().into_iter().map(|(name, _)| name).collect()
}

/// The names of the claim templates that this revision records. Without a record those that it may have had: its template
/// mounts such volumes, and neither it nor the `present` claim templates give them.
pub(crate) fn likely_claims(revision: &StoredRevision, present: Option<&Raw>) -> Vec<String> {
    let recorded = revision.claim_templates().map(|claims| claim_names(Some(&claims)));
    recorded.unwrap_or_else(|| {
        let template = revision.template();
        template.map(|template| unmade_volumes(template.get(), present)).unwrap_or_default()
    })
}
