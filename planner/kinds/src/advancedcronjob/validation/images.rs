//! The template of lists of images: the rules of ImageListPullJobs, and a few of its own.

use api::kinds::imagelistpulljob::Spec;
use api::kinds::shared::CompletionPolicyType;

use crate::workload::image_pull::{
    TIMEOUT_SECONDS, check_images, check_nodes, check_parallelism, check_pull_policy, of_list,
};
use values::field::{FieldError, FieldPath};
use values::verdict::Denial;

const LONGEST_DEADLINE: i64 = 86_400;

/// The first thing that is wrong with a list.
pub(super) fn check(list: &Spec) -> Option<FieldError> {
    let job = of_list(list, "");
    let found = check_nodes(&job)
        .map_err(of_nodes)
        .and_then(|()| check_images(&list.images).map_err(|denial| ("images", denial.message)))
        .and_then(|()| {
            check_parallelism(job.parallelism.as_ref()).map_err(|denial| ("parallelism", denial.message))
        })
        .and_then(|()| check_pull_policy(&job).map_err(|denial| ("pullPolicy", denial.message)))
        .and_then(|()| check_completion(list));
    let (field, message) = found.err()?;
    let path = FieldPath::new("spec.template.imageListPullJobTemplate.spec").child(field);
    let spec = serde_json::to_value(list).unwrap_or_default();
    let value = spec.pointer(&format!("/{}", field.replace('.', "/"))).cloned().unwrap_or_default();
    Some(FieldError::invalid_value(path, value, message))
}

fn of_nodes(denial: Denial) -> (&'static str, String) {
    match denial.message.strip_prefix("invalid podSelector: ") {
        Some(problem) => ("podSelector", format!("invalid selector: {problem}")),
        None => ("selector", denial.message),
    }
}

/// Children go by the limits of history, so they have no time to live of their own.
fn check_completion(list: &Spec) -> Result<(), (&'static str, String)> {
    let policy = &list.completion_policy;
    if let Some(kind) = policy.kind.as_ref().filter(|kind| **kind != CompletionPolicyType::Always) {
        let word = serde_json::to_value(kind).unwrap_or_default();
        let word = word.as_str().unwrap_or_default();
        let message = format!("completionPolicy should be Always, but current value is: {word}");
        return Err(("completionPolicy.type", message));
    }
    if let Some(deadline) = policy.active_deadline_seconds {
        let field = "completionPolicy.activeDeadlineSeconds";
        let timeout = list.pull_policy.timeout_seconds.unwrap_or(TIMEOUT_SECONDS);
        if deadline > LONGEST_DEADLINE {
            let message = format!(
                "activeDeadlineSeconds must be less than {LONGEST_DEADLINE}, current value is: {deadline}"
            );
            return Err((field, message));
        }
        if deadline < timeout.into() {
            let message = format!(
                "completionPolicy.activeDeadlineSeconds must be greater than pullPolicy.timeoutSeconds({timeout})"
            );
            return Err((field, message));
        }
    }
    if policy.ttl_seconds_after_finished.is_some() {
        let message = "ttlSecondsAfterFinished is not supported in advancedCronJob".to_owned();
        return Err(("completionPolicy.ttlSecondsAfterFinished", message));
    }
    Ok(())
}
