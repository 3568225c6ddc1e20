//! What a ControllerRevision of a UnitedDeployment records: the template of its workloads
//! (docs/behaviour/uniteddeployment.md#revisions).

use api::kinds::uniteddeployment::Template;
use serde_json::{Value, json};

use super::children::ChildKind;
use super::normal::{normal_claims, normal_members, prune, without_zeros};
use crate::workload::revision::{RevisionData, StoredRevision, restored_template};
use pod::template::comparison::{DIRECTIVE, canonical};
use values::canonical::{CanonicalError, Numbers, Unknown, sorted_json};

/// The data of the present template.
///
/// # Errors
/// The path and the problem, where a field of the Pod template does not decode into its Go type.
pub(super) fn data_of(template: &Template) -> Result<RevisionData, CanonicalError> {
    of_template(&serde_json::to_string(template)?)
}

/// Whether a revision records the template of a UnitedDeployment, of a kind that `is_meant`.
pub(super) fn is_of_united(stored: &StoredRevision, is_meant: impl Fn(ChildKind) -> bool) -> bool {
    let template = stored.template().ok();
    let template = template.and_then(|template| serde_json::from_str::<Template>(template.get()).ok());
    template.as_ref().and_then(ChildKind::of).is_some_and(is_meant)
}

fn of_template(template: &str) -> Result<RevisionData, CanonicalError> {
    let recorded = replacing(&normal(template, Unknown::Keep)?.to_string());
    let data = sorted_json(&format!(r#"{{"spec":{{"template":{recorded}}}}}"#), Numbers::Exact)?;
    let projection = sorted_json(&normal(template, Unknown::Drop)?.to_string(), Numbers::Double)?;
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

/// The template without what says nothing, Pod templates and claims in their canonical form. Without what OpenKruise's types
/// don't know it serves to recognise its revisions: those may have CloneSets in their older shape, of which the reuse of
/// claims are not known.
fn normal(template: &str, unknown: Unknown) -> Result<Value, CanonicalError> {
    let mut template: Value = serde_json::from_str(template)?;
    for kind in ChildKind::ALL {
        let Some(child) = template.get_mut(kind.member()).filter(|child| !child.is_null()) else { continue };
        if kind == ChildKind::CloneSet && unknown == Unknown::Drop {
            *child = in_hub_shape(child)?;
            let scale = child.pointer_mut("/spec/scaleStrategy").and_then(Value::as_object_mut);
            scale.map(|scale| scale.remove("enablePVCReuse"));
        }
        let pods = child.pointer_mut("/spec/template").filter(|pods| !pods.is_null()).map(Value::take);
        if let Some(spec) = child.get_mut("spec") {
            without_zeros(spec);
            normal_claims(spec, unknown)?;
        }
        normal_members(kind, child, unknown).map_err(|error| error.within(kind.member()))?;
        prune(child);
        if let (Some(pods), Some(child)) = (pods, child.as_object_mut()) {
            let pods = serde_json::from_str(&canonical(&pods.to_string(), unknown)?)?;
            let spec = child.entry("spec").or_insert_with(|| json!({}));
            spec.as_object_mut().map(|spec| spec.insert("template".to_owned(), pods));
        }
    }
    Ok(template)
}

/// The template of a CloneSet as v1beta1 has it.
fn in_hub_shape(template: &Value) -> Result<Value, CanonicalError> {
    let spec = json!({"template": {"cloneSetTemplate": template}});
    let object = json!({"apiVersion": "apps.kruise.io/v1alpha1", "kind": "UnitedDeployment", "spec": spec});
    let converted = api::conversion::convert(&object.to_string(), "apps.kruise.io/v1beta1");
    let Ok(text) = converted else { return Ok(template_of(object)) };
    Ok(template_of(serde_json::from_str(text.get())?))
}

fn template_of(mut object: Value) -> Value {
    object.pointer_mut("/spec/template/cloneSetTemplate").map(Value::take).unwrap_or_default()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn data(template: &Value) -> RevisionData {
        of_template(&template.to_string()).unwrap()
    }

    fn clone_set(strategy: &Value) -> Value {
        let pods = json!({"metadata": {"labels": {"app": "a"}}, "spec": {"containers": [{"name": "main", "image": "a"}]}});
        json!({"cloneSetTemplate": {"metadata": {"labels": {"app": "a"}},
            "spec": {"selector": {"matchLabels": {"app": "a"}}, "template": pods, "updateStrategy": strategy}}})
    }

    #[test]
    fn what_openkruise_adds_means_nothing() {
        let ours = data(&clone_set(&json!({})));
        let mut theirs = clone_set(&json!({}));
        let template = &mut theirs["cloneSetTemplate"];
        template["metadata"]["creationTimestamp"] = Value::Null;
        template["spec"]["template"]["metadata"]["creationTimestamp"] = Value::Null;
        template["spec"]["template"]["spec"]["containers"][0]["resources"] = json!({});
        template["spec"]["scaleStrategy"] = json!({});
        assert_eq!(ours.projection(), data(&theirs).projection());
    }

    #[test]
    fn what_defaults_and_typed_clients_add_means_nothing() {
        let ours = data(&clone_set(&json!({"rollingUpdate": {"maxUnavailable": 1}})));
        let mut theirs =
            clone_set(&json!({"rollingUpdate": {"maxUnavailable": 1, "paused": false}, "type": ""}));
        let template = &mut theirs["cloneSetTemplate"];
        template["metadata"]["creationTimestamp"] = Value::Null;
        template["spec"]["scaleStrategy"] = json!({"enablePVCReuse": false});
        template["spec"]["minReadySeconds"] = json!(0);
        template["spec"]["template"]["spec"]["containers"][0]["resources"] = json!({});
        assert_eq!(ours, data(&theirs.clone()));
        theirs["cloneSetTemplate"]["spec"]["scaleStrategy"]["enablePVCReuse"] = json!(true);
        assert_ne!(ours, data(&theirs.clone()), "it is an edit");
        assert_eq!(ours.projection(), data(&theirs).projection(), "a revision of OpenKruise may not tell it");
        let claims = |storage: &str| {
            let claim = json!({"metadata": {"name": "data"}, "spec": {"resources": {"requests": {"storage": storage}}}});
            data(&json!({"statefulSetTemplate": {"spec": {"volumeClaimTemplates": [claim]}}}))
        };
        assert_eq!(claims("1024Mi"), claims("1Gi"));
        let empty = json!({"deploymentTemplate": {"spec": {"template": {"spec": {"volumes": [{"name": "tmp", "emptyDir": {}}]}}}}});
        assert!(data(&empty).data().contains(r#""emptyDir":{}"#));
    }

    /// Explicit zero values are dropped by OpenKruise's types: the same manifest, applied again, changes nothing.
    #[test]
    fn zero_values_that_a_manifest_spells_out_mean_nothing() {
        let with = |kind: ChildKind, more: Value| {
            let mut spec = json!({"template": {"spec": {"containers": [{"name": "main", "image": "a"}]}}});
            spec.as_object_mut().unwrap().extend(more.as_object().unwrap().clone());
            let mut template = json!({});
            template[kind.member()] = json!({"spec": spec});
            data(&template)
        };
        let hook = |more: Value| {
            let mut hook = json!({"labelsHandler": {"a": "b"}});
            hook.as_object_mut().unwrap().extend(more.as_object().unwrap().clone());
            json!({"preDelete": hook, "inPlaceUpdate": hook, "preNormal": hook})
        };
        let rolling = |strategy: Value| json!({"rollingUpdate": {"maxUnavailable": 1, "inPlaceUpdateStrategy": strategy}});
        let pairs = [
            (
                json!({"lifecycle": hook(json!({}))}),
                json!({"lifecycle": hook(json!({"markPodNotReady": false}))}),
            ),
            (
                json!({"updateStrategy": rolling(json!({}))}),
                json!({"updateStrategy": rolling(json!({"gracePeriodSeconds": 0}))}),
            ),
            (json!({}), json!({"volumeClaimUpdateStrategy": {"type": ""}})),
            (
                json!({}),
                json!({"persistentVolumeClaimRetentionPolicy": {"whenDeleted": "", "whenScaled": ""}}),
            ),
            (json!({}), json!({"ordinals": {"start": 0}})),
        ];
        for (dropped, written) in pairs {
            let kind = ChildKind::AdvancedStatefulSet;
            let (theirs, ours) = (with(kind, dropped), with(kind, written.clone()));
            assert_eq!(theirs, ours, "{written}");
        }
        let waits = with(
            ChildKind::AdvancedStatefulSet,
            json!({"updateStrategy": rolling(json!({"gracePeriodSeconds": 5}))}),
        );
        assert_ne!(
            waits,
            with(ChildKind::AdvancedStatefulSet, json!({"updateStrategy": rolling(json!({}))}))
        );
    }

    #[test]
    fn free_form_members_that_openkruise_does_not_know_make_no_new_name() {
        let with = |kind: ChildKind, metadata: Value, more: Value| {
            let mut spec = json!({"template": {}, "minReadySeconds": 5});
            spec.as_object_mut().unwrap().extend(more.as_object().unwrap().clone());
            let mut template = json!({});
            template[kind.member()] = json!({"metadata": metadata, "spec": spec});
            data(&template)
        };
        for kind in [ChildKind::Deployment, ChildKind::StatefulSet] {
            let strategy = kind.strategy();
            let plain = with(
                kind,
                json!({"labels": {"a": "b"}}),
                json!({strategy: {"rollingUpdate": {"maxUnavailable": 1}}}),
            );
            let metadata = json!({"labels": {"a": "b"}, "annotations": {}, "name": "", "fieldOfTomorrow": 1});
            let more = json!({"fieldOfTomorrow": {"n": 1}, strategy: {"rollingUpdate": {"maxUnavailable": 1, "fieldOfTomorrow": 2}}});
            let newer = with(kind, metadata, more);
            assert_eq!(plain.projection(), newer.projection(), "{kind:?}");
            assert!(
                newer.data().matches("fieldOfTomorrow").count() == 3 && plain != newer,
                "{}",
                newer.data()
            );
            let other = with(
                kind,
                json!({"labels": {"a": "b"}}),
                json!({strategy: {"rollingUpdate": {"maxUnavailable": 2}}}),
            );
            assert_ne!(plain.projection(), other.projection());
        }
        let wrong = json!({"deploymentTemplate": {"spec": {"minReadySeconds": "5", "template": {}}}});
        let problem = of_template(&wrong.to_string()).unwrap_err().to_string();
        assert!(problem.starts_with("deploymentTemplate.spec.minReadySeconds: "), "{problem}");
    }

    #[test]
    fn fields_that_openkruise_does_not_know_make_a_revision_but_no_new_name() {
        let plain = clone_set(&json!({}));
        let mut newer = plain.clone();
        newer["cloneSetTemplate"]["spec"]["template"]["spec"]["fieldOfTomorrow"] = json!(7);
        let (plain, newer) = (data(&plain), data(&newer));
        assert_eq!(plain.projection(), newer.projection());
        assert!(newer.data().contains("fieldOfTomorrow") && plain != newer);
    }

    #[test]
    fn both_shapes_of_clone_sets_mean_the_same() {
        let flat = data(&clone_set(&json!({"type": "InPlaceIfPossible", "maxUnavailable": 1})));
        let nested = json!({"type": "RollingUpdate", "rollingUpdate": {"podUpdatePolicy": "InPlaceIfPossible", "maxUnavailable": 1}});
        let nested = data(&clone_set(&nested));
        assert_eq!(flat.projection(), nested.projection());
        let other = data(&clone_set(&json!({"type": "InPlaceOnly", "maxUnavailable": 1})));
        assert_ne!(other.projection(), nested.projection());
    }

    #[test]
    fn data_replaces_the_whole_template() {
        let recorded = data(&json!({"deploymentTemplate": {"spec": {"template": {}}}}));
        assert!(
            recorded.data().starts_with(r#"{"spec":{"template":{"$patch":"replace","deploymentTemplate""#)
        );
        assert_eq!(of_data(recorded.data()).unwrap(), recorded);
        assert!(data(&json!({})).data().contains(r#"{"$patch":"replace"}"#));
    }
}
