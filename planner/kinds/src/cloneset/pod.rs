//! Names and labels of the Pods and claims that a CloneSet creates.

use api::Raw;
use api::annotations::LIFECYCLE_TIMESTAMP;
use api::kinds::cloneset::CloneSet;
use api::labels::{CLONESET_INSTANCE_ID, LIFECYCLE_STATE};

use crate::workload::kind::Workload;
use crate::workload::new_pod::{self, NewClaim, NewMetadata, NewSpec, TemplateError, claim_templates};
use pod::revision_labels::RevisionLabels;

#[cfg(test)]
mod tests;

/// A revision and its Pod template.
#[derive(Clone, Copy, Debug)]
pub(super) struct Blueprint<'a> {
    /// Full name of the revision.
    pub(super) revision: &'a str,
    /// JSON of the template.
    pub(super) template: &'a str,
    /// Its claim templates.
    pub(super) claims: Option<&'a Raw>,
    /// How Pods name the revision.
    pub(super) labels: RevisionLabels,
}

/// The name of the claim of one template and one Pod.
pub(super) fn claim_name(template: &str, set: &str, id: &str) -> String {
    format!("{template}-{set}-{id}")
}

/// The claims of these templates for the Pod with this id.
pub(super) fn claims(
    set: &CloneSet,
    templates: Option<&Raw>,
    id: &str,
) -> Result<Vec<NewClaim>, TemplateError> {
    let name = |template: &str| claim_name(template, &set.metadata.name, id);
    let workload = (&*set.metadata.namespace, &set.spec.selector);
    new_pod::claims(workload, templates, &[(CLONESET_INSTANCE_ID, id)], Some(set.owner()), name)
}

/// The Pod with this id. `now` is the time as Kubernetes writes it.
pub(super) fn pod(
    set: &CloneSet,
    blueprint: Blueprint<'_>,
    id: &str,
    now: &str,
) -> Result<String, TemplateError> {
    let name = &set.metadata.name;
    let own = [(CLONESET_INSTANCE_ID, id), (LIFECYCLE_STATE, "PreparingNormal")];
    let metadata = NewMetadata {
        name: &format!("{name}-{id}"),
        generate_name: Some(&format!("{name}-")),
        namespace: &set.metadata.namespace,
        labels: blueprint.labels.labels(blueprint.revision).into_iter().chain(own).collect(),
        annotations: vec![(LIFECYCLE_TIMESTAMP, now)],
        owner: Some(set.owner()),
    };
    let templates = claim_templates(blueprint.claims)?;
    let claims = templates.into_iter().map(|(template, _)| {
        let claim = claim_name(&template, name, id);
        (template, claim)
    });
    let additions = NewSpec { claims: claims.collect(), has_readiness_gate: true, ..NewSpec::default() };
    new_pod::pod(blueprint.template, &metadata, &additions)
}
