//! What an ImageListPullJob may say (docs/behaviour/images.md#validation-of-imagelistpulljobs).

use api::kinds::imagelistpulljob::{API_VERSION, ImageListPullJob};

use crate::workload::image_pull::{
    check_completion, check_images, check_nodes, check_parallelism, check_pull_policy, of_list,
};
use crate::workload::submitted::read;
use values::verdict::{Denial, Verdict};

/// Answers a CREATE or UPDATE request. The first fault ends.
pub fn review(object: &str) -> Verdict {
    check(object).map_or_else(Verdict::from, |()| Verdict::allow())
}

fn check(object: &str) -> Result<(), Denial> {
    let list: ImageListPullJob = read(object, API_VERSION)?;
    let (images, spec) = (&list.spec.images, of_list(&list.spec, ""));
    check_nodes(&spec)?;
    check_parallelism(spec.parallelism.as_ref())?;
    check_pull_policy(&spec)?;
    check_images(images)?;
    check_completion(&spec, false)
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::{Value, json};

    #[test]
    fn each_fault_has_its_message() {
        let many =
            |count: usize| -> Vec<String> { (0..count).map(|number| format!("image-{number}")).collect() };
        for (spec, expected) in [
            (json!({}), None),
            (json!({"images": many(255)}), None),
            (json!({"completionPolicy": {"activeDeadlineSeconds": 1}}), None),
            (json!({"images": []}), Some("image can not be empty")),
            (json!({"images": ["a", "b", "a"]}), Some("images cannot have duplicate values")),
            (json!({"images": many(256)}), Some("the maximum number of images cannot > 255")),
            (json!({"images": ["a", "b:"]}), Some("invalid image b:: invalid reference format")),
            (json!({"parallelism": "1%"}), Some("parallelism does not support percentage value")),
            (json!({"selector": {"names": ["a", "a"]}}), Some("duplicated name in selector names")),
            (
                json!({"completionPolicy": {"type": "Never", "ttlSecondsAfterFinished": 1}}),
                Some(
                    "activeDeadlineSeconds and ttlSecondsAfterFinished can only work with Always \
                     CompletionPolicyType",
                ),
            ),
            (json!({"completionPolicy": {"type": "x"}}), Some("unknown type of completionPolicy: x")),
        ] {
            let mut object =
                json!({"apiVersion": API_VERSION, "spec": {"images": ["nginx"], "completionPolicy": {}}});
            let members: serde_json::Map<String, Value> = spec.as_object().unwrap().clone();
            object["spec"].as_object_mut().unwrap().extend(members);
            let denial = review(&object.to_string()).denial().cloned();
            assert_eq!(denial.as_ref().map(|denial| denial.message.as_str()), expected, "{spec}");
            assert!(denial.is_none_or(|denial| denial.code == 400));
        }
    }
}
