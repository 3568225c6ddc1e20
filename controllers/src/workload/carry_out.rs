//! Carries out what a plan changes in one Pod.
//!
//! Each write names the state of the Pod that it was planned on, or tests the values that the write before it
//! returned, and is refused where the Pod is in another state by now. What comes back is put into the store at
//! once: no plan is made on a Pod older than our own last write to it
//! (docs/behaviour/in-place-update.md#own-writes-and-retries). Where the store knows already that a write
//! would be refused, it is not sent.

use cluster::resource::PODS;
use cluster::write::{self, PatchKind};
use cluster::{ErrorReason, Retry};
use kube::Client;
use pod::observed::ObservedPod;
use pod::write::{PodWrite, Target};

use crate::ReconcileError;
use crate::workload::pods::Pods;
use crate::workload::store::Kept;

/// How often a write is sent that continues with another.
const TRIES: usize = 5;

/// What came of the writes.
#[derive(Debug, PartialEq)]
pub enum Carried {
    /// All were carried out, and left the Pod like this.
    Written(Box<ObservedPod>),
    /// The Pod is gone, is another one, or has changed since it was read: a new plan has to be made.
    /// Writes that came before stay; plans continue from any state.
    Outdated,
}

/// Sends `writes` to `pod`, one after the other.
///
/// Where only the status has changed since the write before, which kubelets do in answer to it, a write that was refused
/// is sent again: what it continues with must not be left half done, nor undone by the next plan.
///
/// # Errors
/// The API server refuses for another reason than the Pod's state, or can't be reached. Where no answer
/// came the Pod is read again, so that a write that was carried out is known.
pub async fn carry_out(
    client: &Client,
    pods: &Pods,
    pod: &ObservedPod,
    writes: &[PodWrite],
) -> Result<Carried, ReconcileError> {
    let metadata = &pod.metadata;
    let path = PODS.namespaced(&metadata.namespace).name(&metadata.name);
    let mut last: Option<ObservedPod> = None;
    for write in writes.iter().filter(|write| !write.is_empty()) {
        let Some(known) = pods.get(&pod.key()) else { return Ok(Carried::Outdated) };
        let before = last.as_ref().unwrap_or(pod);
        if known.metadata.resource_version != before.metadata.resource_version {
            if last.take_if(|before| differ_in_status_only(before, &known)).is_none() {
                return Ok(Carried::Outdated);
            }
            last = Some((*known).clone());
        }
        let target = path.subresource(match write.target {
            Target::Pod => "",
            Target::Status => "status",
            Target::Resize => "resize",
        });
        let mut tries = 0;
        loop {
            let before = last.as_ref().unwrap_or(pod);
            let version = &before.metadata.resource_version;
            // What continues with another write takes no offence at what the kubelet writes in answer to that one.
            let tested = last.as_ref().filter(|_| tries == 0).and_then(|before| write.to_tested_json(before));
            let is_tested = tested.is_some();
            let (kind, body) = match tested {
                Some(body) => (PatchKind::Json, body),
                None => (PatchKind::StrategicMerge, write.to_json(before)),
            };
            match write::patch(client, &target, kind, body).await {
                Ok(text) => {
                    last = Some(pods.written(&text)?);
                    break;
                }
                Err(error) if error.reason() == ErrorReason::NotFound => {
                    pods.deleted(&pod.key(), version);
                    return Ok(Carried::Outdated);
                }
                Err(error) if error.retry() == Retry::Now || is_tested && error.is_unprocessable() => {}
                Err(error) => {
                    // It may have been carried out all the same, and then the next plan must know.
                    let moved = error.may_have_acted() && has_moved(client, pods, pod, version).await;
                    return if moved { Ok(Carried::Outdated) } else { Err(error.into()) };
                }
            }
            tries += 1;
            let Some(before) = last.take_if(|_| tries < TRIES) else { return Ok(Carried::Outdated) };
            let Some(now) = pods.read(client, &pod.key()).await? else { return Ok(Carried::Outdated) };
            if !differ_in_status_only(&before, &now) {
                return Ok(Carried::Outdated);
            }
            last = Some(now);
        }
    }
    Ok(Carried::Written(Box::new(last.unwrap_or_else(|| pod.clone()))))
}

/// Reads the Pod and takes it in; true if it is gone or in another state than that of `version`.
async fn has_moved(client: &Client, pods: &Pods, pod: &ObservedPod, version: &str) -> bool {
    let as_before = |now: &ObservedPod| {
        now.metadata.uid == pod.metadata.uid && *now.metadata.resource_version == *version
    };
    pods.read(client, &pod.key()).await.is_ok_and(|now| now.as_ref().is_none_or(|now| !as_before(now)))
}

fn differ_in_status_only(before: &ObservedPod, now: &ObservedPod) -> bool {
    let mut metadata = before.metadata.clone();
    metadata.resource_version.clone_from(&now.metadata.resource_version);
    metadata == now.metadata && before.spec == now.spec
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::fake;
    use std::sync::Arc;

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
        use crate::workload::store::follow::Sink;
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
        let Carried::Written(after) = carry_out(&client, &pods, &pod, &writes()).await.unwrap() else {
            panic!("the Pod is as it was")
        };
        assert_eq!(&*after.metadata.resource_version, "6");
        let [first, _, second] = writes();
        let path = "PATCH /api/v1/namespaces/n/pods/p";
        assert_eq!(
            *requests.lock().unwrap(),
            [
                format!("{path} {}", first.to_json(&pod)),
                format!("{path}/status {}", second.to_json(&ObservedPod::read(&text(5, "new")).unwrap()))
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
            assert_eq!(carry_out(&client, &pods, &pod, &writes()).await.unwrap(), Carried::Outdated);
            assert_eq!(requests.lock().unwrap().len(), 1, "what comes after is not sent");
        }
    }

    #[tokio::test]
    async fn a_kubelet_that_answers_the_first_write_does_not_stop_the_second() {
        for (meanwhile, expected) in [("new", 4), ("newer", 3)] {
            let (client, requests) = fake::api_server(move |request| match (request.method, request.path) {
                ("GET", _) => (200, text(7, meanwhile)),
                (_, "/api/v1/namespaces/n/pods/p") => (200, text(5, "new")),
                _ if request.body.contains("\"7\"") => (200, text(8, "new")),
                _ => (409, fake::status(409)),
            });
            let pods = Pods::new(false);
            let pod = stored(&pods);
            let outcome = carry_out(&client, &pods, &pod, &writes()).await.unwrap();
            assert_eq!(outcome == Carried::Outdated, meanwhile == "newer");
            assert_eq!(requests.lock().unwrap().len(), expected, "{:?}", requests.lock().unwrap());
        }
    }

    #[tokio::test]
    async fn a_change_of_the_spec_after_the_first_write_tests_what_it_replaces() {
        let mut started = PodWrite::to(Target::Status);
        started.set_label("a", "b");
        let mut update = PodWrite::default();
        update.container("c").image = Some("new".to_owned());
        let writes = [started, update];
        for (is_refused, expected) in [(false, 2), (true, 4)] {
            let (client, requests) = fake::api_server(move |request| match (request.method, request.path) {
                ("GET", _) => (200, text(7, "old")),
                (_, path) if path.ends_with("/status") => (200, text(5, "old")),
                _ if is_refused && request.body.starts_with('[') => (422, fake::status(422)),
                _ => (200, text(8, "new")),
            });
            let pods = Pods::new(false);
            let pod = stored(&pods);
            let Carried::Written(after) = carry_out(&client, &pods, &pod, &writes).await.unwrap() else {
                panic!("only the status has changed")
            };
            assert_eq!(&*after.metadata.resource_version, "8");
            let requests = requests.lock().unwrap();
            assert_eq!(requests.len(), expected, "{requests:?}");
            let tested = writes[1].to_tested_json(&ObservedPod::read(&text(5, "old")).unwrap()).unwrap();
            assert_eq!(requests[1], format!("PATCH /api/v1/namespaces/n/pods/p {tested}"));
            if is_refused {
                assert_eq!(
                    requests[3],
                    format!("PATCH /api/v1/namespaces/n/pods/p {}", writes[1].to_json(&pod_at(7)))
                );
            }
        }
    }

    fn pod_at(version: u32) -> ObservedPod {
        ObservedPod::read(&text(version, "old")).unwrap()
    }

    #[tokio::test]
    async fn a_write_that_would_be_refused_is_not_sent() {
        use crate::workload::store::follow::Sink;
        let (client, requests) = fake::api_server(|_| (200, text(9, "new")));
        let pods = Pods::new(false);
        let pod = stored(&pods);
        pods.see(serde_json::from_str(&text(4, "old")).unwrap());
        assert_eq!(carry_out(&client, &pods, &pod, &writes()).await.unwrap(), Carried::Outdated);
        pods.deleted(&key(), "4");
        assert_eq!(carry_out(&client, &pods, &pod, &writes()).await.unwrap(), Carried::Outdated);
        assert!(requests.lock().unwrap().is_empty());
    }

    #[tokio::test]
    async fn what_the_watch_reports_between_two_writes_needs_no_request() {
        use crate::workload::store::follow::Sink;
        for (meanwhile, expected) in [("new", 2), ("newer", 1)] {
            let pods = Arc::new(Pods::new(false));
            let seen = pods.clone();
            let (client, requests) = fake::api_server(move |request| match request.path {
                "/api/v1/namespaces/n/pods/p" => {
                    // The watch is faster than the answer.
                    seen.see(serde_json::from_str(&text(7, meanwhile)).unwrap());
                    (200, text(5, "new"))
                }
                _ if request.body.contains("\"7\"") => (200, text(8, "new")),
                _ => (409, fake::status(409)),
            });
            let pod = stored(&pods);
            let outcome = carry_out(&client, &pods, &pod, &writes()).await.unwrap();
            assert_eq!(outcome == Carried::Outdated, meanwhile == "newer");
            assert_eq!(requests.lock().unwrap().len(), expected, "{:?}", requests.lock().unwrap());
        }
    }

    #[tokio::test]
    async fn a_refusal_is_an_error() {
        for (code, requests_made, is_of_this_write) in
            [(403, 1, true), (422, 1, true), (500, 2, true), (429, 1, false), (503, 2, false)]
        {
            let (client, requests) = fake::api_server(move |_| (code, fake::status(code)));
            let pods = Pods::new(false);
            let pod = stored(&pods);
            let error = carry_out(&client, &pods, &pod, &writes()).await.unwrap_err();
            assert_eq!(error.is_refusal(), is_of_this_write, "{code}");
            assert_eq!(requests.lock().unwrap().len(), requests_made, "{code}");
        }
    }

    #[tokio::test]
    async fn a_write_whose_answer_did_not_come_is_known_before_the_next_plan() {
        for (now, known) in [(Some(7), Some("7")), (Some(1), Some("1")), (None, None)] {
            let (client, _requests) = fake::api_server(move |request| match (request.method, now) {
                ("GET", Some(version)) => (200, text(version, "new")),
                ("GET", None) => (404, fake::status(404)),
                _ => (504, fake::status(504)),
            });
            let pods = Pods::new(false);
            let pod = stored(&pods);
            let outcome = carry_out(&client, &pods, &pod, &writes()).await;
            assert_eq!(outcome.ok(), (now != Some(1)).then_some(Carried::Outdated), "{now:?}");
            let kept = pods.get(&key());
            assert_eq!(kept.as_ref().map(|pod| &*pod.metadata.resource_version), known);
        }
    }
}
