//! The ResourceDistribution's own webhook.

use api::features::Feature;
use cluster::{ApiError, ErrorReason, Resource};
use kinds::resourcedistribution::validation::{DryRunCreation, DryRunResult, review};
use values::verdict::Verdict;

use super::resource::Write;

/// Checks a ResourceDistribution against itself and its former self, and tries out its resource.
pub(super) async fn validate(write: &Write<'_>) -> Verdict {
    let admission = write.admission;
    if let Some(answer) = write.early_answer(&[Feature::ResourceDistributionGate]) {
        return answer;
    }
    let world = admission.index.world();
    let mut review = match review(write.object, write.old, world.install_namespace()) {
        Ok(review) => review,
        Err(denial) => return denial.into(),
    };
    let rehearsed = match review.rehearsal.take() {
        Some(rehearsal) => rehearse(write, world.install_namespace(), rehearsal).await,
        None => DryRunResult::Accepted,
    };
    review.verdict(rehearsed)
}

/// Asks the API server whether it would take the resource.
async fn rehearse(write: &Write<'_>, namespace: &str, rehearsal: DryRunCreation) -> DryRunResult {
    let resource = Resource::new("v1", rehearsal.kind.plural(), rehearsal.kind.name());
    let creation = write.admission.lookup.try_creation(resource, namespace, rehearsal.object);
    match write.deadline.within("trying out spec.resource", creation).await {
        Ok(Ok(())) => DryRunResult::Accepted,
        Ok(Err(error)) => outcome(&error),
        Err(slow) => DryRunResult::Failed(slow.to_string()),
    }
}

fn outcome(error: &ApiError) -> DryRunResult {
    let text = error.to_string();
    match error.reason() {
        ErrorReason::AlreadyExists => DryRunResult::Accepted,
        // Some webhook can't be asked without effect.
        _ if error.lacks_dry_run() => DryRunResult::Unknown(text),
        _ if error.is_forbidden() => DryRunResult::Forbidden(text),
        ErrorReason::Refused => DryRunResult::Invalid(text),
        _ => DryRunResult::Failed(text),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn answered(code: u16, reason: &str, message: &str) -> DryRunResult {
        let status = serde_json::json!({
            "status": "Failure", "message": message, "reason": reason, "code": code,
        });
        outcome(&kube::Error::Api(Box::new(serde_json::from_value(status).unwrap())).into())
    }

    #[test]
    fn refusals_of_the_api_server_are_distinguished() {
        let text = || "no".to_owned();
        for (code, reason, expected) in [
            (409, "AlreadyExists", DryRunResult::Accepted),
            (422, "Invalid", DryRunResult::Invalid(text())),
            (400, "BadRequest", DryRunResult::Invalid(text())),
            (403, "Forbidden", DryRunResult::Forbidden(text())),
            (404, "NotFound", DryRunResult::Failed(text())),
            (500, "InternalError", DryRunResult::Failed(text())),
            (503, "ServiceUnavailable", DryRunResult::Failed(text())),
        ] {
            assert_eq!(answered(code, reason, "no"), expected, "{code} {reason}");
        }
        let deaf = "admission webhook \"a\" does not support dry run";
        assert_eq!(answered(400, "BadRequest", deaf), DryRunResult::Unknown(deaf.to_owned()));
    }
}
