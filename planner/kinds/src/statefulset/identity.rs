//! Names, labels and volumes by which Pods and claims of a StatefulSet are known
//! (docs/behaviour/statefulset.md#identity).

use api::Raw;
use api::annotations::LIFECYCLE_TIMESTAMP;
use api::features::{Feature, FeatureGates};
use api::kinds::statefulset::StatefulSet;
use api::labels::{LIFECYCLE_STATE, POD_INDEX, STATEFULSET_POD_NAME};
use jiff::Timestamp;
use serde::Deserialize;

use crate::workload::kind::Workload;
use crate::workload::new_pod::{self, NewClaim, NewMetadata, NewSpec, TemplateError, claim_templates};
use crate::workload::ordinal;
use crate::workload::recipe::Recipe;
use pod::inplace::Rules;
use pod::lifecycle::all_hooked;
use pod::observed::{ObservedPod, PodMetadata};
use pod::write::PodWrite;
use values::moment::rfc3339;

/// The ordinal of a Pod of this name, if it can be one of the StatefulSet.
pub fn ordinal_of(set: &str, pod: &str) -> Option<i32> {
    ordinal::split(pod).filter(|(stem, _)| *stem == set).map(|(_, ordinal)| ordinal)
}

/// The name of the Pod with this ordinal.
pub(super) fn pod_name(set: &str, ordinal: i32) -> String {
    format!("{set}-{ordinal}")
}

/// What the names of the claims of a template begin with.
pub(super) fn claim_stem(template: &str, set: &str) -> String {
    format!("{template}-{set}")
}

/// The name of a claim.
pub(super) fn claim_name(template: &str, set: &str, ordinal: i32) -> String {
    format!("{template}-{set}-{ordinal}")
}

/// The claims of these templates for the Pod with this ordinal.
pub(super) fn claims(
    set: &StatefulSet,
    templates: Option<&Raw>,
    ordinal: i32,
) -> Result<Vec<NewClaim>, TemplateError> {
    let name = |template: &str| claim_name(template, &set.metadata.name, ordinal);
    new_pod::claims((&set.metadata.namespace, &set.spec.selector), templates, &[], None, name)
}

/// The Pod with this ordinal.
pub(super) fn pod(
    set: &StatefulSet,
    ordinal: i32,
    recipe: &Recipe<'_>,
    rules: &Rules,
    gates: &FeatureGates,
    now: Timestamp,
) -> Result<String, TemplateError> {
    let set_name = &set.metadata.name;
    let template = recipe.template.get();
    let (name, index, time) = (pod_name(set_name, ordinal), ordinal.to_string(), rfc3339(now));
    let state = first_state(set, template);
    let mut labels = rules.labels.labels(recipe.revision);
    labels.extend([(STATEFULSET_POD_NAME, name.as_str()), (LIFECYCLE_STATE, state)]);
    if gates.enabled(Feature::PodIndexLabel) {
        labels.push((POD_INDEX, &index));
    }
    let metadata = NewMetadata {
        name: &name,
        generate_name: Some(&format!("{set_name}-")),
        namespace: &set.metadata.namespace,
        labels,
        annotations: vec![(LIFECYCLE_TIMESTAMP, &time)],
        owner: Some(set.owner()),
    };
    let templates = claim_templates(recipe.claims.as_ref())?;
    let claims = templates.into_iter().map(|(template, _)| {
        let claim = claim_name(&template, set_name, ordinal);
        (template, claim)
    });
    let additions = NewSpec {
        claims: claims.collect(),
        texts: vec![("hostname", &name), ("subdomain", &set.spec.service_name)],
        ..NewSpec::default()
    };
    new_pod::pod(template, &metadata, &additions)
}

/// The lifecycle state of a new Pod: hook `preNormal` holds one whose template lacks any of it.
fn first_state(set: &StatefulSet, template: &str) -> &'static str {
    #[derive(Default, Deserialize)]
    #[serde(default)]
    struct Template {
        metadata: Option<PodMetadata>,
    }
    let Some(hook) = &set.spec.lifecycle.pre_normal else { return "Normal" };
    let template: Template = serde_json::from_str(template).unwrap_or_default();
    let is_hooked = all_hooked(Some(hook), &template.metadata.unwrap_or_default());
    if is_hooked { "Normal" } else { "PreparingNormal" }
}

/// The write that gives a Pod back what it is known by; none where it has that.
pub(super) fn repair(pod: &ObservedPod, ordinal: i32, gates: &FeatureGates) -> Option<PodWrite> {
    let name = &pod.metadata.name;
    if pod.label(STATEFULSET_POD_NAME) == Some(&**name) {
        return None;
    }
    let mut write = PodWrite::default();
    write.set_label(STATEFULSET_POD_NAME, &**name);
    if gates.enabled(Feature::PodIndexLabel) {
        write.set_label(POD_INDEX, ordinal.to_string());
    }
    Some(write)
}
