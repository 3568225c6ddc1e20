use tokio::sync::mpsc;

use super::*;
use crate::fake::{self, Requests};
use crate::workload::store::follow::Sink;
use cluster::event_sender::PendingEvent;
use cluster::events::Recorder;
use serde_json::json;

const KILLED: &str = "KRUISE_TERMINATE_SIDECAR_WHEN_JOB_EXIT";
const BY_IMAGE: &str = "KRUISE_TERMINATE_SIDECAR_WHEN_JOB_EXIT_WITH_IMAGE";

/// A terminator of a Pod whose main container is done and whose sidecar, which has this variable, runs.
fn open(variable: &str, code: u16) -> (Site, Requests) {
    let (client, requests) = fake::api_server(move |request| match (request.method, request.path) {
        ("GET", "/api/v1/nodes/n") => (200, r#"{"metadata":{"labels":{}}}"#.to_owned()),
        ("POST", path) if path.contains("containerrecreaterequests") => (code, fake::status(code)),
        _ => (201, request.body.to_owned()),
    });
    let pods = Pods::new(true);
    pods.list_begins();
    see(&pods, variable, 1);
    pods.list_ends();
    let (event_sender, reported) = cluster::event_sender::event_sender("Terminate");
    let recorder = Recorder::new(client.clone(), NAME, None);
    let site = Site { terminator: Terminator::new(client, Arc::new(pods), event_sender), reported, recorder };
    (site, requests)
}

struct Site {
    terminator: Terminator,
    reported: mpsc::Receiver<PendingEvent>,
    recorder: Recorder,
}

impl Site {
    /// One reconcile, and what it reports.
    async fn reconcile(&mut self, key: &Key) -> Result<Next, ReconcileError> {
        let next = self.terminator.reconcile(key).await;
        while let Ok(reported) = self.reported.try_recv() {
            reported.write(&self.recorder).await;
        }
        next
    }
}

fn see(pods: &Pods, variable: &str, version: u32) {
    let pod = json!({
        "metadata": {"namespace": "jobs", "name": "p", "uid": "u", "resourceVersion": version.to_string()},
        "spec": {
            "nodeName": "n", "restartPolicy": "Never",
            "containers": [
                {"name": "main", "image": "main:1"},
                {"name": "side", "image": "side:1", "env": [{"name": variable, "value": "true"}]},
            ],
        },
        "status": {
            "phase": "Running",
            "containerStatuses": [
                {"name": "main", "state": {"terminated": {"exitCode": 0}}},
                {"name": "side", "state": {"running": {}}},
            ],
        },
    });
    pods.see(serde_json::from_value(pod).unwrap());
}

fn key() -> Key {
    ("jobs".to_owned(), "p".to_owned())
}

#[tokio::test]
async fn a_pod_that_stays_due_is_reconciled_again() {
    for code in [201, 409] {
        let (mut terminator, requests) = open(KILLED, code);
        assert_eq!(terminator.reconcile(&key()).await.unwrap(), Next::After(SAFETY_NET));
        let reported = requests.lock().unwrap().iter().filter(|request| request.contains("/events")).count();
        assert_eq!(reported, usize::from(code == 201), "a request that exists is nothing to tell of");
    }
    let (mut terminator, _) = open(KILLED, 503);
    assert!(terminator.reconcile(&key()).await.is_err());
    let other = ("jobs".to_owned(), "other".to_owned());
    assert_eq!(terminator.reconcile(&other).await.unwrap(), Next::Done);
}

#[tokio::test]
async fn a_warning_is_reported_once_for_a_pod() {
    let (mut terminator, requests) = open(BY_IMAGE, 201);
    for version in 2..5 {
        terminator.reconcile(&key()).await.unwrap();
        see(&terminator.terminator.pods, BY_IMAGE, version);
    }
    let requests = requests.lock().unwrap();
    let reported: Vec<&String> = requests.iter().filter(|request| request.contains("/events")).collect();
    assert!(
        reported.len() == 1 && reported[0].contains("sidecar [side] can't be terminated"),
        "{reported:#?}"
    );
    assert!(!reported[0].contains("resourceVersion"), "{reported:#?}");
}
