//! Asks the API server what it would say to a change of a Pod, before the Pod is taken out of service for it.

use cluster::Retry;
use cluster::resource::PODS;
use cluster::write::{self, PatchKind};
use kube::Client;
use pod::observed::ObservedPod;
use pod::write::{PodWrite, Target};

use crate::ReconcileError;

/// Rehearses the change of the Pod, where the Pod would have to leave its service for it first.
///
/// # Errors
/// The API server would refuse it.
pub(super) async fn rehearse(
    client: &Client,
    pod: &ObservedPod,
    writes: &[PodWrite],
) -> Result<(), ReconcileError> {
    let leaves_service = writes.first().is_some_and(|write| write.target == Target::Status);
    let change = writes.iter().find(|write| write.target == Target::Pod);
    let Some(change) = change.filter(|_| leaves_service) else { return Ok(()) };
    let metadata = &pod.metadata;
    let path = PODS.namespaced(&metadata.namespace).name(&metadata.name).query("dryRun=All");
    let body = change.to_json(pod);
    match write::patch(client, &path, PatchKind::StrategicMerge, body).await {
        // Some webhook can't be asked without effect: then only a try shows it. Anything but a refusal the
        // writes themselves will report.
        Err(error) if error.retry() == Retry::Later && !error.lacks_dry_run() => Err(error.into()),
        _ => Ok(()),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::fake;

    #[tokio::test]
    async fn the_change_is_rehearsed_only_where_the_pod_has_to_leave_its_service() {
        let json = r#"{"metadata":{"namespace":"n","name":"p","uid":"1","resourceVersion":"1"}}"#;
        let pod = ObservedPod::read(json).unwrap();
        let failure = |code: u16, message: &str| {
            format!(
                r#"{{"kind":"Status","apiVersion":"v1","status":"Failure","code":{code},"message":"{message}"}}"#
            )
        };
        let deaf = failure(400, "admission webhook a does not support dry run");
        let mut change = PodWrite::default();
        change.container("main").image = Some("b".to_owned());
        let mut gate = PodWrite::to(Target::Status);
        gate.set_label("a", "b");
        let answers = [
            (200, "{}".to_owned(), true),
            (422, failure(422, "no such image"), false),
            (409, failure(409, "modified"), true),
            (400, deaf, true),
        ];
        for (code, answer, allowed) in answers {
            let (client, requests) = fake::api_server(move |_| (code, answer.clone()));
            let writes = [gate.clone(), change.clone()];
            assert_eq!(rehearse(&client, &pod, &writes).await.is_ok(), allowed, "{code}");
            assert!(rehearse(&client, &pod, &writes[1..]).await.is_ok());
            let expected = format!("PATCH /api/v1/namespaces/n/pods/p?dryRun=All {}", change.to_json(&pod));
            assert_eq!(*requests.lock().unwrap(), [expected]);
        }
    }
}
