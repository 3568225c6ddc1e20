//! Several replicas: rolling, failing over, and coming back.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::time::Duration;

use kit::wait_within;
use kube::api::{Api, DynamicObject, PostParams};
use serde_json::Value;

use crate::site::{NAMESPACE, Site, TIMEOUT, injected, trial};

/// The path of what the server registers for defaults and sidecars.
const MUTATING: &str = "/apis/admissionregistration.k8s.io/v1/mutatingwebhookconfigurations/kruise-mutating-webhook-configuration";

/// Calls that go on until they are stopped.
struct Calls {
    stop: Arc<AtomicBool>,
    answered: Arc<AtomicUsize>,
    callers: Vec<tokio::task::JoinHandle<Vec<String>>>,
}

impl Calls {
    /// Creates Pods for a trial, over and over. Each caller has connections of its own.
    fn start(site: &Site, namespace: &str) -> Self {
        let (stop, answered) = (Arc::new(AtomicBool::new(false)), Arc::new(AtomicUsize::new(0)));
        let callers = (0..4).map(|_| {
            let pods: Api<DynamicObject> = kit::objects::namespaced(
                &site.server().client(),
                &kit::objects::kind("v1", "Pod"),
                namespace,
            );
            let pod: DynamicObject = serde_json::from_value(trial(namespace)).unwrap();
            let (stop, answered) = (stop.clone(), answered.clone());
            tokio::spawn(async move {
                let parameters = PostParams { dry_run: true, ..PostParams::default() };
                let mut failures = Vec::new();
                while !stop.load(Ordering::Relaxed) {
                    match pods.create(&parameters, &pod).await {
                        Ok(pod) if injected(&pod.data) => _ = answered.fetch_add(1, Ordering::Relaxed),
                        Ok(_) => failures.push("a Pod without its sidecar".to_owned()),
                        Err(error) => failures.push(error.to_string()),
                    }
                    tokio::time::sleep(Duration::from_millis(20)).await;
                }
                failures
            })
        });
        Self { callers: callers.collect(), stop, answered }
    }

    /// How many were answered, and what went wrong.
    async fn stop(self) -> (usize, Vec<String>) {
        self.stop.store(true, Ordering::Relaxed);
        let mut failures = Vec::new();
        for caller in self.callers {
            failures.extend(caller.await.unwrap());
        }
        (self.answered.load(Ordering::Relaxed), failures)
    }
}

async fn holder(site: &Site) -> String {
    let path = format!("/apis/coordination.k8s.io/v1/namespaces/{NAMESPACE}/leases/kruise-manager");
    let lease = site.get(&path).await;
    let identity = lease["spec"]["holderIdentity"].as_str().unwrap_or_default().to_owned();
    identity.split('_').next().unwrap_or_default().to_owned()
}

/// docs/behaviour/server.md#shutdown; and what the server owns stays (decision of the chart: entries are
/// not its own).
#[tokio::test]
async fn an_upgrade_loses_no_call_and_keeps_entries_and_certificate() {
    let Some(site) = Site::alone().await else { return };
    let namespace = site.namespace_with_sidecars("rolling").await;
    let secret = || site.core(NAMESPACE, "secrets/kruise-webhook-certs");
    let (before, entries) = (secret().await, site.entries().await);
    let old = site.replicas(NAMESPACE).await;

    let calls = Calls::start(&site, &namespace);
    site.upgrade(&["--set=webhookConfiguration.timeoutSeconds=20", "--set=manager.drainSeconds=8"])
        .await
        .success();
    assert_eq!(site.entries().await, entries);
    for pod in &old {
        let name = pod["metadata"]["name"].as_str().unwrap();
        let gone = format!("wait --for=delete pod/{name} -n {NAMESPACE} --timeout=4m");
        site.kubectl(&gone).await.success();
    }
    let (answered, failures) = calls.stop().await;
    assert!(failures.is_empty(), "{} of {answered} calls were lost: {failures:#?}", failures.len());
    assert!(answered > 100, "only {answered} calls were answered");

    let after = secret().await;
    assert_eq!((&after["data"], &after["metadata"]["uid"]), (&before["data"], &before["metadata"]["uid"]));
    wait_within(TIMEOUT, "the changed value to be registered", async || {
        let configuration = site.get(MUTATING).await;
        let entries = configuration["webhooks"].as_array().cloned().unwrap_or_default();
        if entries.iter().all(|entry| entry["timeoutSeconds"] == 20) { Ok(()) } else { Err(entries) }
    })
    .await;
}

/// Scenario 34 of docs/behaviour/server.md.
#[tokio::test]
async fn another_replica_leads_when_the_leader_is_killed() {
    let Some(site) = Site::alone().await else { return };
    let holds = async |before: &str| {
        let now = holder(&site).await;
        let replicas = site.replicas(NAMESPACE).await;
        let lives = replicas.iter().any(|pod| pod["metadata"]["name"] == now.as_str());
        if lives && now != before { Ok(now) } else { Err(now) }
    };
    let leader = wait_within(TIMEOUT, "a leader", async || holds("").await).await;
    site.kubectl(&format!("delete pod {leader} -n {NAMESPACE} --grace-period=0 --force")).await.success();
    wait_within(TIMEOUT, "another leader", async || holds(&leader).await).await;
    ready(&site).await;
}

/// docs/behaviour/server.md#start, test (b).
#[tokio::test]
async fn all_replicas_return_when_they_are_deleted_at_once() {
    let Some(site) = Site::alone().await else { return };
    let namespace = site.namespace_with_sidecars("outage").await;
    let configuration = site.get(MUTATING).await;
    assert!(
        configuration["webhooks"].as_array().unwrap().iter().any(|entry| entry["failurePolicy"] == "Fail")
    );
    let old = site.replicas(NAMESPACE).await;
    site.kubectl(&format!("delete pods --all -n {NAMESPACE} --grace-period=0 --force")).await.success();
    ready(&site).await;
    let new = site.replicas(NAMESPACE).await;
    let id = |pod: &Value| pod["metadata"]["uid"].clone();
    assert!(new.iter().all(|pod| !old.iter().any(|gone| id(gone) == id(pod))));
    wait_within(TIMEOUT, "injection to work again", async || {
        site.try_pod(&namespace).await.map(|pod| assert!(injected(&pod)))
    })
    .await;
}

/// Waits until two replicas are ready, on different nodes.
async fn ready(site: &Site) {
    let rollout = format!("rollout status deployment/kruise-controller-manager -n {NAMESPACE} --timeout=4m");
    site.kubectl(&rollout).await.success();
    wait_within(TIMEOUT, "two ready replicas", async || {
        let pods = site.replicas(NAMESPACE).await;
        let is_ready = |pod: &Value| pod["status"]["containerStatuses"][0]["ready"] == true;
        if pods.len() == 2 && pods.iter().all(is_ready) { Ok(()) } else { Err(pods.len()) }
    })
    .await;
}
