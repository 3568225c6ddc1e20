//! What a ControllerRevision of a UnitedDeployment records: the template of its workloads
//! (docs/behaviour/uniteddeployment.md#revisions).

use api::kinds::uniteddeployment::Template;
use serde_json::{Map, Value, json};

use super::children::ChildKind;
use crate::pod::template::comparison::{DIRECTIVE, canonical};
use crate::text::canonical::{CanonicalError, Numbers, Unknown, sorted_json};
use crate::workload::revision::{RevisionData, restored_template};

/// The data of the present template.
///
/// # Errors
/// The path and the problem, where a field of the Pod template does not decode into its Go type.
pub(super) fn data_of(template: &Template) -> Result<RevisionData, CanonicalError> {
    of_template(&serde_json::to_string(template)?)
}

fn of_template(template: &str) -> Result<RevisionData, CanonicalError> {
    let data = sorted_json(&format!(r#"{{"spec":{{"template":{}}}}}"#, replacing(template)), Numbers::Exact)?;
    let projection = projection(template)?;
    Ok(RevisionData::new(data, projection, of_data))
}

fn of_data(stored: &str) -> Result<RevisionData, CanonicalError> {
    of_template(restored_template(stored)?.get())
}

fn replacing(template: &str) -> String {
    let members = template.trim_start().strip_prefix('{').unwrap_or(template);
    let comma = if members.trim_start().starts_with('}') { "" } else { "," };
    format!(r#"{{"{DIRECTIVE}":"replace"{comma}{members}"#)
}

/// What OpenKruise's types know, and no more: Pod templates in their canonical form, all else without what says nothing.
/// The older shape of CloneSets is brought to the newer one.
fn projection(template: &str) -> Result<String, CanonicalError> {
    let mut template: Value = serde_json::from_str(template)?;
    for kind in ChildKind::ALL {
        let Some(child) = template.get_mut(kind.member()).filter(|child| !child.is_null()) else { continue };
        if kind == ChildKind::CloneSet {
            *child = in_hub_shape(child.take())?;
        }
        if let Some(pods) = child.pointer_mut("/spec/template").filter(|pods| !pods.is_null()) {
            *pods = serde_json::from_str(&canonical(&pods.to_string(), Unknown::Drop)?)?;
        }
    }
    prune(&mut template);
    sorted_json(&template.to_string(), Numbers::Double)
}

/// The template of a CloneSet as v1beta1 has it.
fn in_hub_shape(template: Value) -> Result<Value, CanonicalError> {
    let spec = json!({"template": {"cloneSetTemplate": template}});
    let object = json!({"apiVersion": "apps.kruise.io/v1alpha1", "kind": "UnitedDeployment", "spec": spec});
    let converted = api::conversion::convert(&object.to_string(), "apps.kruise.io/v1beta1");
    let Ok(text) = converted else { return Ok(template_of(object)) };
    Ok(template_of(serde_json::from_str(text.get())?))
}

fn template_of(mut object: Value) -> Value {
    object.pointer_mut("/spec/template/cloneSetTemplate").map(Value::take).unwrap_or_default()
}

/// Removes what says nothing.
fn prune(value: &mut Value) {
    match value {
        Value::Object(members) => {
            members.values_mut().for_each(prune);
            members.retain(|_, member| !says_nothing(member));
        }
        Value::Array(elements) => elements.iter_mut().for_each(prune),
        _ => {}
    }
}

fn says_nothing(value: &Value) -> bool {
    match value {
        Value::Null => true,
        Value::Object(members) => Map::is_empty(members),
        Value::Array(elements) => elements.is_empty(),
        _ => false,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn data(template: Value) -> RevisionData {
        of_template(&template.to_string()).unwrap()
    }

    fn clone_set(strategy: Value) -> Value {
        let pods = json!({"metadata": {"labels": {"app": "a"}}, "spec": {"containers": [{"name": "main", "image": "a"}]}});
        json!({"cloneSetTemplate": {"metadata": {"labels": {"app": "a"}},
            "spec": {"selector": {"matchLabels": {"app": "a"}}, "template": pods, "updateStrategy": strategy}}})
    }

    #[test]
    fn what_openkruise_adds_means_nothing() {
        let ours = data(clone_set(json!({})));
        let mut theirs = clone_set(json!({}));
        let template = &mut theirs["cloneSetTemplate"];
        template["metadata"]["creationTimestamp"] = Value::Null;
        template["spec"]["template"]["metadata"]["creationTimestamp"] = Value::Null;
        template["spec"]["template"]["spec"]["containers"][0]["resources"] = json!({});
        template["spec"]["scaleStrategy"] = json!({});
        assert_eq!(ours.projection(), data(theirs).projection());
    }

    #[test]
    fn fields_that_openkruise_does_not_know_make_a_revision_but_no_new_name() {
        let plain = clone_set(json!({}));
        let mut newer = plain.clone();
        newer["cloneSetTemplate"]["spec"]["template"]["spec"]["fieldOfTomorrow"] = json!(7);
        let (plain, newer) = (data(plain), data(newer));
        assert_eq!(plain.projection(), newer.projection());
        assert!(newer.data().contains("fieldOfTomorrow") && plain != newer);
    }

    #[test]
    fn both_shapes_of_clone_sets_mean_the_same() {
        let flat = data(clone_set(json!({"type": "InPlaceIfPossible", "maxUnavailable": 1})));
        let nested = json!({"type": "RollingUpdate", "rollingUpdate": {"podUpdatePolicy": "InPlaceIfPossible", "maxUnavailable": 1}});
        let nested = data(clone_set(nested));
        assert_eq!(flat.projection(), nested.projection());
        let other = data(clone_set(json!({"type": "InPlaceOnly", "maxUnavailable": 1})));
        assert_ne!(other.projection(), nested.projection());
    }

    #[test]
    fn data_replaces_the_whole_template() {
        let recorded = data(json!({"deploymentTemplate": {"spec": {"template": {}}}}));
        assert!(
            recorded.data().starts_with(r#"{"spec":{"template":{"$patch":"replace","deploymentTemplate""#)
        );
        assert_eq!(of_data(recorded.data()).unwrap(), recorded);
        assert!(data(json!({})).data().contains(r#"{"$patch":"replace"}"#));
    }
}
