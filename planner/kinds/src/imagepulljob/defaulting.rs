//! What the API server stores for an ImagePullJob (docs/behaviour/images.md#defaults-of-imagepulljobs).

use api::finalizers::DELETION_PROTECTION;
use api::kinds::imagepulljob::KIND;
use serde_json::Value;

use crate::workload::image_pull::{IMAGE_PULL_POLICY, default_spec};
use crate::workload::submitted::completed;
use values::json_patch::{Patch, string};
use values::verdict::Denial;

/// The operations that complete `object`. One that is created through v1alpha1 gets its finalizer at once; to others
/// the controller gives it.
///
/// # Errors
/// Code 400 for what is no object.
pub fn default(object: &str, version: &str, is_new: bool) -> Result<Patch, Denial> {
    completed(object, None, KIND, |job, patch| {
        if let Some(spec) = default_spec(job, patch) {
            spec.default_text("imagePullPolicy", IMAGE_PULL_POLICY, patch);
        }
        if !is_new || version != "v1alpha1" {
            return;
        }
        if let Some(metadata) = job.child_or_new("metadata", patch) {
            let known = metadata.get("finalizers").and_then(Value::as_array);
            if known.is_none_or(|known| !known.iter().any(|one| one == DELETION_PROTECTION)) {
                metadata.default_json("finalizers", "[]", patch);
                patch.add(metadata.pointer("finalizers").end(), string(DELETION_PROTECTION));
            }
        }
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::{from_str, json};
    use values::json_patch::apply;

    fn defaulted(object: &Value, version: &str, is_new: bool) -> Value {
        let text = object.to_string();
        from_str(&apply(&text, &default(&text, version, is_new).unwrap()).unwrap()).unwrap()
    }

    #[test]
    fn what_is_not_said_is_filled_in() {
        let job = json!({"metadata": {"name": "a"}, "spec": {"image": "nginx", "completionPolicy": {}}});
        let after = defaulted(&job, "v1beta1", true);
        let spec = json!({"image": "nginx", "completionPolicy": {"type": "Always"}, "imagePullPolicy": "IfNotPresent",
            "pullPolicy": {"timeoutSeconds": 600, "backoffLimit": 3}});
        assert_eq!((&after["spec"], &after["metadata"]), (&spec, &json!({"name": "a"})));
        assert_eq!(defaulted(&after, "v1beta1", false), after);
        let mut said = json!({"spec": {"image": "a", "imagePullPolicy": "Always",
            "completionPolicy": {"type": "Never"}, "pullPolicy": {"timeoutSeconds": 0, "backoffLimit": 1}}});
        said["metadata"] = json!({});
        assert_eq!(defaulted(&said, "v1beta1", true), said);
    }

    #[test]
    fn one_created_in_the_older_version_has_its_finalizer_at_once() {
        for (finalizers, expected) in [
            (Value::Null, json!([DELETION_PROTECTION])),
            (json!(["a"]), json!(["a", DELETION_PROTECTION])),
            (json!([DELETION_PROTECTION]), json!([DELETION_PROTECTION])),
        ] {
            let job = json!({"metadata": {"finalizers": finalizers}, "spec": {}});
            assert_eq!(defaulted(&job, "v1alpha1", true)["metadata"]["finalizers"], expected);
        }
        let job = json!({"metadata": {}, "spec": {}});
        assert_eq!(defaulted(&job, "v1alpha1", false)["metadata"], json!({}));
    }
}
