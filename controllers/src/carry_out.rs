//! Carries out what a plan changes in one Pod.
//!
//! Each write names the state of the Pod that it was planned on, or the one that the write before it
//! returned, and is refused where the Pod is in another state by now. What comes back goes into the
//! store at once: no plan is made on a Pod older than our own last write to it (spec 30 §14).

use cluster::write::{self, PatchKind};
use kube::Client;
use planner::observed_pod::ObservedPod;
use planner::pod_write::{PodWrite, Target};

use crate::ReconcileError;
use crate::pods::Pods;

/// What came of the writes.
#[derive(Debug, PartialEq)]
pub enum Outcome {
    /// All were carried out, and left the Pod like this.
    Written(Box<ObservedPod>),
    /// The Pod is gone, is another one, or has changed since it was read: a new plan has to be made.
    /// Writes that came before stay; plans continue from any state.
    Outdated,
}

/// Sends `writes` to `pod`, one after the other.
///
/// # Errors
/// The API server refuses for another reason than the Pod's state, or can't be reached.
pub async fn carry_out(
    client: &Client,
    pods: &Pods,
    pod: &ObservedPod,
    writes: &[PodWrite],
) -> Result<Outcome, ReconcileError> {
    let metadata = &pod.metadata;
    let path = format!("/api/v1/namespaces/{}/pods/{}", metadata.namespace, metadata.name);
    let mut last: Option<ObservedPod> = None;
    for write in writes.iter().filter(|write| !write.is_empty()) {
        let subresource = match write.target {
            Target::Pod => "",
            Target::Status => "/status",
            Target::Resize => "/resize",
        };
        let version = last.as_ref().map_or(&metadata.resource_version, |pod| &pod.metadata.resource_version);
        let body = write.to_json(&metadata.uid, version);
        let path = format!("{path}{subresource}");
        match write::patch(client, &path, PatchKind::StrategicMerge, body).await {
            Ok(text) => last = Some(pods.written(&text)?),
            Err(kube::Error::Api(status)) if matches!(status.code, 404 | 409) => {
                return Ok(Outcome::Outdated);
            }
            Err(error) => return Err(error.into()),
        }
    }
    Ok(Outcome::Written(Box::new(last.unwrap_or_else(|| pod.clone()))))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::fake;

    fn text(version: u32, image: &str) -> String {
        format!(
            r#"{{"metadata":{{"namespace":"n","name":"p","uid":"u","resourceVersion":"{version}",
            "annotations":{{"kruise.io/sidecarset-injected-list":"set"}}}},
            "spec":{{"containers":[{{"name":"c","image":"{image}"}}]}}}}"#
        )
    }

    fn writes() -> [PodWrite; 3] {
        let (mut first, mut second) = (PodWrite::default(), PodWrite::to(Target::Status));
        first.container("c").image = Some("new".to_owned());
        second.set_label("a", "b");
        [first, PodWrite::default(), second]
    }

    fn key() -> cluster::watched::Key {
        ("n".to_owned(), "p".to_owned())
    }

    fn stored(pods: &Pods) -> ObservedPod {
        use crate::store::follow::Sink;
        pods.list_begins();
        pods.see(serde_json::from_str(&text(1, "old")).unwrap());
        pods.list_ends();
        (*pods.get(&key()).unwrap()).clone()
    }

    #[tokio::test]
    async fn each_write_stands_on_the_one_before_and_the_store_knows_the_last() {
        let (client, requests) = fake::api_server(|request| match request.path {
            "/api/v1/namespaces/n/pods/p" => (200, text(5, "new")),
            _ => (200, text(6, "new")),
        });
        let pods = Pods::new(false);
        let pod = stored(&pods);
        let Outcome::Written(after) = carry_out(&client, &pods, &pod, &writes()).await.unwrap() else {
            panic!("the Pod is as it was")
        };
        assert_eq!(&*after.metadata.resource_version, "6");
        let [first, _, second] = writes();
        let path = "PATCH /api/v1/namespaces/n/pods/p";
        assert_eq!(
            *requests.lock().unwrap(),
            [
                format!("{path} {}", first.to_json("u", "1")),
                format!("{path}/status {}", second.to_json("u", "5"))
            ]
        );
        assert_eq!(&*pods.get(&key()).unwrap().metadata.resource_version, "6");
        assert_eq!(&*pods.injected_by("set")[0].spec.containers[0].image, "new");
    }

    #[tokio::test]
    async fn a_pod_that_is_gone_or_has_changed_needs_a_new_plan() {
        for code in [404, 409] {
            let (client, requests) = fake::api_server(move |_| (code, fake::status(code)));
            let pods = Pods::new(false);
            let pod = stored(&pods);
            assert_eq!(carry_out(&client, &pods, &pod, &writes()).await.unwrap(), Outcome::Outdated);
            assert_eq!(requests.lock().unwrap().len(), 1, "what comes after is not sent");
        }
    }

    #[tokio::test]
    async fn a_refusal_is_an_error() {
        let (client, _requests) = fake::api_server(|_| (403, fake::status(403)));
        let pods = Pods::new(false);
        let pod = stored(&pods);
        assert!(carry_out(&client, &pods, &pod, &writes()).await.is_err());
    }
}
