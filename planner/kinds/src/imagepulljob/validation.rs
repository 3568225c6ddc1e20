//! What an ImagePullJob may say (docs/behaviour/images.md#validation-of-imagepulljobs).

use api::kinds::imagepulljob::{API_VERSION, ImagePullJob};

use crate::workload::image_pull::{
    check_completion, check_image, check_nodes, check_parallelism, check_pull_policy,
};
use crate::workload::submitted::read;
use values::verdict::{Denial, Verdict, refused};

/// Answers a CREATE or, with `old`, an UPDATE request. The first fault ends.
pub fn review(new: &str, old: Option<&str>) -> Verdict {
    check(new, old).map_or_else(Verdict::from, |()| Verdict::allow())
}

fn check(new: &str, old: Option<&str>) -> Result<(), Denial> {
    let ImagePullJob { spec, .. } = read(new, API_VERSION)?;
    if let Some(old) = old
        && read::<ImagePullJob>(old, API_VERSION)?.spec.pull_secrets != spec.pull_secrets
    {
        return Err(Denial { code: 403, message: "spec.pullSecrets is immutable".to_owned() });
    }
    check_nodes(&spec)?;
    if spec.image.is_empty() {
        return Err(refused("image can not be empty"));
    }
    check_image(&spec.image)?;
    check_parallelism(spec.parallelism.as_ref())?;
    check_pull_policy(&spec)?;
    check_completion(&spec, true)
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::{Value, json};

    fn job(spec: &Value) -> String {
        let mut object = json!({"apiVersion": API_VERSION, "kind": "ImagePullJob",
            "spec": {"image": "nginx", "completionPolicy": {}}});
        let members = spec.as_object().unwrap().clone();
        object["spec"].as_object_mut().unwrap().extend(members);
        object.to_string()
    }

    fn message(spec: &Value) -> Option<String> {
        review(&job(spec), None).denial().map(|denial| {
            assert_eq!(denial.code, 400);
            denial.message.clone()
        })
    }

    #[test]
    fn each_fault_has_its_message() {
        let labels = json!({"a": "b"});
        let near = json!([{"key": "a", "operator": "Near"}]);
        for (spec, expected) in [
            (
                json!({"selector": {"matchLabels": labels, "names": ["a"]}}),
                "can not set both names and labelSelector in this spec.selector",
            ),
            (
                json!({"selector": {"matchExpressions": near}}),
                "invalid selector: matchExpressions[0].operator: Invalid value: \"Near\": not a valid selector operator",
            ),
            (json!({"selector": {"names": ["a", "a"]}}), "duplicated name in selector names"),
            (json!({"selector": {}, "podSelector": {}}), "can not set both selector and podSelector"),
            (
                json!({"podSelector": {"matchExpressions": near}}),
                "invalid podSelector: matchExpressions[0].operator: Invalid value: \"Near\": not a valid selector operator",
            ),
            (json!({"image": ""}), "image can not be empty"),
            (
                json!({"image": "Nginx"}),
                "invalid image Nginx: invalid reference format: repository name must be lowercase",
            ),
            (json!({"parallelism": "50%"}), "parallelism does not support percentage value"),
            (
                json!({"parallelism": "x"}),
                "parallelism must be a valid integer: strconv.Atoi: parsing \"x\": invalid syntax",
            ),
            (json!({"parallelism": "-1"}), "parallelism must be non-negative"),
            (json!({"parallelism": -1}), "parallelism must be non-negative"),
            (json!({"pullPolicy": {"timeoutSeconds": -1}}), "pullPolicy.timeoutSeconds must be non-negative"),
            (json!({"pullPolicy": {"backoffLimit": -1}}), "pullPolicy.backoffLimit must be non-negative"),
            (
                json!({"completionPolicy": {"activeDeadlineSeconds": 599}}),
                "completionPolicy.activeDeadlineSeconds must be greater than pullPolicy.timeoutSeconds(default 600)",
            ),
            (
                json!({"completionPolicy": {"type": "Never", "activeDeadlineSeconds": 700}}),
                "activeDeadlineSeconds and ttlSecondsAfterFinished can only work with Always CompletionPolicyType",
            ),
            (
                json!({"completionPolicy": {"type": "Never", "ttlSecondsAfterFinished": 7}}),
                "activeDeadlineSeconds and ttlSecondsAfterFinished can only work with Always CompletionPolicyType",
            ),
            (json!({"completionPolicy": {"type": "Ever"}}), "unknown type of completionPolicy: Ever"),
        ] {
            assert_eq!(message(&spec).as_deref(), Some(expected), "{spec}");
        }
        let broken = message(&json!({"selector": {"matchLabels": {"a b": "c"}}})).unwrap();
        assert!(broken.starts_with("invalid selector: matchLabels: Invalid value: \"a b\""), "{broken}");
    }

    #[test]
    fn what_is_sound_passes() {
        for spec in [
            json!({}),
            json!({"selector": {}}),
            json!({"selector": {"names": ["a"]}, "parallelism": "3"}),
            json!({"podSelector": {}, "parallelism": 0}),
            json!({"completionPolicy": {"activeDeadlineSeconds": 600}}),
            json!({"completionPolicy": {"type": "Never"}, "pullPolicy": {"timeoutSeconds": 9, "backoffLimit": 0}}),
        ] {
            assert_eq!(message(&spec), None, "{spec}");
        }
    }

    #[test]
    fn pull_secrets_stay_as_they_are() {
        let secrets = |names: &[&str]| job(&json!({"pullSecrets": names}));
        assert!(review(&secrets(&["a", "b"]), Some(&secrets(&["a", "b"]))).is_allowed());
        let denial = review(&secrets(&["b", "a"]), Some(&secrets(&["a", "b"]))).denial().cloned().unwrap();
        assert_eq!((denial.code, &*denial.message), (403, "spec.pullSecrets is immutable"));
    }
}
