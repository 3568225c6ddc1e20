//! What the API server stores for an AdvancedCronJob where its author said nothing
//! (docs/behaviour/advancedcronjob.md#defaulting).

use api::features::{Feature, FeatureGates};
use api::kinds::advancedcronjob::KIND;
use serde_json::Value;

use crate::workload::image_pull::{IMAGE_PULL_POLICY, default_pull_policy};
use crate::workload::submitted::completed;
use pod::template::place::Place;
use pod::template::{comparison, default_template};
use values::json_patch::Patch;
use values::verdict::Denial;

/// The templates that hold a Pod template.
const OF_PODS: [&str; 2] = ["jobTemplate", "broadcastJobTemplate"];

/// The operations that complete `object`, an AdvancedCronJob of any version. `old` is the stored object of an update: a
/// Pod template that does not differ from its template stays as it is.
///
/// # Errors
/// Code 400 for what is no object.
pub fn default(object: &str, old: Option<&str>, gates: &FeatureGates) -> Result<Patch, Denial> {
    completed(object, old, KIND, |job, patch| {
        let Some(spec) = job.child("spec") else { return };
        let template = spec.child("template");
        let images = template.as_ref().and_then(|template| template.child("imageListPullJobTemplate"));
        let policy = if images.is_some() { "Replace" } else { "Allow" };
        spec.default_text("concurrencyPolicy", policy, patch);
        spec.default_json("paused", "false", patch);
        spec.default_json("successfulJobsHistoryLimit", "3", patch);
        spec.default_json("failedJobsHistoryLimit", "1", patch);
        if let Some(images) = images.and_then(|images| images.child("spec")) {
            default_pull(&images, patch);
        }
        if let Some(template) = template.filter(|_| !gates.enabled(Feature::TemplateNoDefaults)) {
            let old: Option<Value> = old.and_then(|old| serde_json::from_str(old).ok());
            let host_ports = gates.enabled(Feature::DefaultHostNetworkHostPortsInPodTemplates);
            for name in OF_PODS {
                let Some(spec) = template.child(name).and_then(|template| template.child("spec")) else {
                    continue;
                };
                let Some(pod) = spec.child("template") else { continue };
                let stored =
                    old.as_ref().and_then(|old| old.pointer(&format!("/spec/template/{name}/spec/template")));
                if stored.is_none_or(|stored| !comparison::is_same(stored, pod.value())) {
                    patch.extend(default_template(pod.value(), &spec.pointer("template"), host_ports));
                }
            }
        }
    })
}

/// Each on its own, as the child's own webhook has them.
fn default_pull(spec: &Place<'_>, patch: &mut Patch) {
    if let Some(policy) = spec.child_or_new("completionPolicy", patch) {
        policy.default_text("type", "Always", patch);
    }
    default_pull_policy(spec, patch);
    spec.default_text("imagePullPolicy", IMAGE_PULL_POLICY, patch);
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;
    use values::json_patch::apply;

    fn defaulted(object: &Value, old: Option<&Value>, gates: &str) -> Value {
        let (object, old) = (object.to_string(), old.map(Value::to_string));
        let patch = default(&object, old.as_deref(), &FeatureGates::parse(gates, "").unwrap()).unwrap();
        serde_json::from_str(&apply(&object, &patch).unwrap()).unwrap()
    }

    fn with_job() -> Value {
        let pod = json!({"spec": {"containers": [{"name": "main", "image": "a"}], "restartPolicy": "Never"}});
        json!({"spec": {"schedule": "@daily", "template": {"jobTemplate": {"spec": {"template": pod}}}}})
    }

    #[test]
    fn what_is_not_said_gets_its_default_and_what_is_said_stays() {
        let stored = defaulted(&with_job(), None, "");
        for (pointer, expected) in [
            ("/spec/concurrencyPolicy", json!("Allow")),
            ("/spec/paused", json!(false)),
            ("/spec/successfulJobsHistoryLimit", json!(3)),
            ("/spec/failedJobsHistoryLimit", json!(1)),
            ("/spec/template/jobTemplate/spec/template/spec/dnsPolicy", json!("ClusterFirst")),
            ("/spec/template/jobTemplate/spec/template/spec/restartPolicy", json!("Never")),
        ] {
            assert_eq!(stored.pointer(pointer), Some(&expected), "{pointer}");
        }
        assert_eq!(defaulted(&stored, None, ""), stored);
        let said = json!({"spec": {"concurrencyPolicy": "Forbid", "paused": true, "successfulJobsHistoryLimit": 0,
            "failedJobsHistoryLimit": 0}});
        assert_eq!(defaulted(&said, None, ""), said);
    }

    #[test]
    fn pod_templates_stay_as_they_are_stored_or_where_the_gate_says_so() {
        let plain = with_job();
        assert_eq!(
            defaulted(&plain, Some(&plain), "").pointer("/spec/template"),
            plain.pointer("/spec/template")
        );
        let gated = defaulted(&plain, None, "TemplateNoDefaults=true");
        assert_eq!(gated.pointer("/spec/template"), plain.pointer("/spec/template"));
        assert_eq!(gated.pointer("/spec/paused"), Some(&json!(false)));
    }

    #[test]
    fn lists_of_images_are_replaced_and_get_each_default_on_its_own() {
        let list = |spec: Value| json!({"spec": {"template": {"imageListPullJobTemplate": {"spec": spec}}}});
        let said = json!({"completionPolicy": {"type": "Always"}, "pullPolicy": {"backoffLimit": 5}});
        let stored = defaulted(&list(said), None, "");
        assert_eq!(stored.pointer("/spec/concurrencyPolicy"), Some(&json!("Replace")));
        let expected = json!({"completionPolicy": {"type": "Always"}, "imagePullPolicy": "IfNotPresent",
            "pullPolicy": {"backoffLimit": 5, "timeoutSeconds": 600}});
        assert_eq!(stored.pointer("/spec/template/imageListPullJobTemplate/spec"), Some(&expected));
        let bare = defaulted(&list(json!({"images": ["a"]})), None, "");
        let spec = bare.pointer("/spec/template/imageListPullJobTemplate/spec").unwrap();
        assert_eq!(spec.pointer("/completionPolicy/type"), Some(&json!("Always")));
    }

    #[test]
    fn what_is_no_object_is_refused() {
        assert_eq!(default("[]", None, &FeatureGates::default()).unwrap_err().code, 400);
        assert_eq!(default("{}", None, &FeatureGates::default()), Ok(Patch::default()));
    }
}
