//! The Pods and claims that a CloneSet creates (spec 31 §7.1), made from the raw template: fields that
//! nobody here knows are in them too.

use api::annotations::LIFECYCLE_TIMESTAMP;
use api::conditions::IN_PLACE_UPDATE_READY;
use api::kinds::cloneset::{API_VERSION, CloneSet, KIND};
use api::labels::{CLONESET_INSTANCE_ID, LIFECYCLE_STATE};
use api::raw_object::{RawNode, RawObject};
use thiserror::Error;

use crate::pod::revision_labels::RevisionLabels;
use crate::workload::new_pod::NewClaim;
use crate::workload::owner::Owner;

#[cfg(test)]
mod tests;

/// A Pod cannot be made from the template.
#[derive(Clone, Debug, Error, PartialEq, Eq)]
#[error("{part} is not a JSON object")]
pub(super) struct TemplateError {
    part: String,
}

fn no_object(part: impl Into<String>) -> TemplateError {
    TemplateError { part: part.into() }
}

/// A revision and its Pod template.
#[derive(Clone, Copy, Debug)]
pub(super) struct Blueprint<'a> {
    /// Full name of the revision.
    pub(super) revision: &'a str,
    /// JSON of the template.
    pub(super) template: &'a str,
    /// How Pods name the revision.
    pub(super) labels: RevisionLabels,
}

/// `spec.volumeClaimTemplates`, taken apart: name and template.
pub(super) fn claim_templates(set: &CloneSet) -> Result<Vec<(String, RawObject<'_>)>, TemplateError> {
    let Some(raw) = &set.spec.volume_claim_templates else { return Ok(Vec::new()) };
    let templates = RawNode::from_raw(raw.as_raw_value()).into_array().unwrap_or_default();
    templates
        .into_iter()
        .enumerate()
        .map(|(index, template)| {
            let mut template = template
                .into_object()
                .ok_or_else(|| no_object(format!("spec.volumeClaimTemplates[{index}]")))?;
            let name = template.object_mut("metadata").and_then(|metadata| metadata.string("name"));
            Ok((name.unwrap_or_default(), template))
        })
        .collect()
}

/// The name of the claim of one template and one Pod.
pub(super) fn claim_name(template: &str, set: &str, id: &str) -> String {
    format!("{template}-{set}-{id}")
}

/// The claims of the Pod with this id.
pub(super) fn claims(set: &CloneSet, id: &str) -> Result<Vec<NewClaim>, TemplateError> {
    let templates = claim_templates(set)?;
    Ok(templates
        .into_iter()
        .map(|(template_name, template)| {
            let name = claim_name(&template_name, &set.metadata.name, id);
            let json = claim(set, id, &name, template);
            NewClaim { name, json }
        })
        .collect())
}

fn claim(set: &CloneSet, id: &str, name: &str, mut template: RawObject<'_>) -> String {
    let mut metadata = template.remove("metadata").and_then(RawNode::into_object).unwrap_or_default();
    let mut wanted = RawObject::default();
    wanted.insert("name", RawNode::string(name));
    wanted.insert("namespace", RawNode::string(&set.metadata.namespace));
    let mut labels = metadata.remove("labels").and_then(RawNode::into_object).unwrap_or_default();
    for (key, value) in set.spec.selector.match_labels.iter().flatten() {
        labels.insert(key, RawNode::string(value));
    }
    labels.insert(CLONESET_INSTANCE_ID, RawNode::string(id));
    wanted.insert("labels", labels.into());
    for name in ["annotations", "finalizers"] {
        if let Some(value) = metadata.remove(name) {
            wanted.insert(name, value);
        }
    }
    wanted.insert("ownerReferences", Owner::of(API_VERSION, KIND, &set.metadata).references());
    let mut claim = RawObject::default();
    claim.insert("apiVersion", RawNode::string("v1"));
    claim.insert("kind", RawNode::string("PersistentVolumeClaim"));
    claim.insert("metadata", wanted.into());
    for name in ["apiVersion", "kind", "status"] {
        template.remove(name);
    }
    for (name, value) in template.iter_mut() {
        claim.insert(name, value.clone());
    }
    claim.to_string()
}

/// The Pod with this id. `now` is the time as Kubernetes writes it.
pub(super) fn pod(
    set: &CloneSet,
    blueprint: Blueprint<'_>,
    id: &str,
    now: &str,
) -> Result<String, TemplateError> {
    let mut template = RawObject::parse(blueprint.template).map_err(|_| no_object("spec.template"))?;
    let mut given = template.remove("metadata").and_then(RawNode::into_object).unwrap_or_default();
    let mut spec = template
        .remove("spec")
        .and_then(RawNode::into_object)
        .ok_or_else(|| no_object("spec.template.spec"))?;
    let name = &set.metadata.name;
    let mut labels = given.remove("labels").and_then(RawNode::into_object).unwrap_or_default();
    let own = [(CLONESET_INSTANCE_ID, id), (LIFECYCLE_STATE, "PreparingNormal")];
    for (key, value) in blueprint.labels.labels(blueprint.revision).into_iter().chain(own) {
        labels.insert(key, RawNode::string(value));
    }
    let mut annotations = given.remove("annotations").and_then(RawNode::into_object).unwrap_or_default();
    annotations.insert(LIFECYCLE_TIMESTAMP, RawNode::string(now));
    let mut metadata = RawObject::default();
    metadata.insert("name", RawNode::string(&format!("{name}-{id}")));
    metadata.insert("generateName", RawNode::string(&format!("{name}-")));
    metadata.insert("namespace", RawNode::string(&set.metadata.namespace));
    metadata.insert("labels", labels.into());
    metadata.insert("annotations", annotations.into());
    if let Some(finalizers) = given.remove("finalizers") {
        metadata.insert("finalizers", finalizers);
    }
    metadata.insert("ownerReferences", Owner::of(API_VERSION, KIND, &set.metadata).references());
    add_volumes(set, &mut spec, id)?;
    add_readiness_gate(&mut spec);
    let mut pod = RawObject::default();
    pod.insert("apiVersion", RawNode::string("v1"));
    pod.insert("kind", RawNode::string("Pod"));
    pod.insert("metadata", metadata.into());
    pod.insert("spec", spec.into());
    Ok(pod.to_string())
}

/// One volume for each claim; a volume of the template with its name gives way.
fn add_volumes<'a>(set: &'a CloneSet, spec: &mut RawObject<'a>, id: &str) -> Result<(), TemplateError> {
    let templates = claim_templates(set)?;
    if templates.is_empty() {
        return Ok(());
    }
    let mut given = spec.remove("volumes").and_then(RawNode::into_array).unwrap_or_default();
    let mut volumes = Vec::with_capacity(templates.len() + given.len());
    let mut names = Vec::with_capacity(templates.len());
    for (name, _) in templates {
        let mut source = RawObject::default();
        source.insert("claimName", RawNode::string(&claim_name(&name, &set.metadata.name, id)));
        let mut volume = RawObject::default();
        volume.insert("name", RawNode::string(&name));
        volume.insert("persistentVolumeClaim", source.into());
        volumes.push(volume.into());
        names.push(name);
    }
    given.retain_mut(|volume| {
        let name = volume.as_object_mut().and_then(|volume| volume.string("name"));
        !name.is_some_and(|name| names.contains(&name))
    });
    volumes.append(&mut given);
    spec.insert("volumes", RawNode::array(volumes));
    Ok(())
}

fn add_readiness_gate(spec: &mut RawObject<'_>) {
    let mut gates = spec.remove("readinessGates").and_then(RawNode::into_array).unwrap_or_default();
    let known = gates.iter_mut().any(|gate| {
        let kind = gate.as_object_mut().and_then(|gate| gate.string("conditionType"));
        kind.as_deref() == Some(IN_PLACE_UPDATE_READY)
    });
    if !known {
        let mut gate = RawObject::default();
        gate.insert("conditionType", RawNode::string(IN_PLACE_UPDATE_READY));
        gates.push(gate.into());
    }
    spec.insert("readinessGates", RawNode::array(gates));
}
