//! A Rollout leads the workload.

use api::features::FeatureGates;
use api::kinds::shared::PodUpdatePolicy;
use kinds::workload::kind::Workload;
use serde_json::{Value, json};
use values::json_patch;

use super::scenarios::{cluster, set};
use super::*;

/// A Rollout of five Pods: one new Pod until somebody approves, then three for five seconds, then all.
fn rollout() -> Value {
    let steps = json!([
        {"replicas": 1},
        {"replicas": "60%", "pause": {"duration": 5}},
        {"replicas": "100%", "pause": {"duration": 1}},
    ]);
    let workload = json!({"apiVersion": "apps.kruise.io/v1beta1", "kind": "CloneSet", "name": "web"});
    json!({
        "apiVersion": "rollouts.kruise.io/v1beta1", "kind": "Rollout",
        "metadata": {"name": "web", "namespace": "default"},
        "spec": {"workloadRef": workload, "strategy": {"canary": {"steps": steps}}},
    })
}

/// Five Pods with this image, as admission completes them.
fn five(image: &str) -> CloneSet {
    let mut object = serde_json::to_value(set(5, image)).unwrap();
    (object["apiVersion"], object["kind"]) = (CloneSet::API_VERSION.into(), CloneSet::KIND.into());
    let text = object.to_string();
    let defaults = CloneSet::defaults(&text, None, "v1beta1", &FeatureGates::default()).unwrap();
    serde_json::from_str(&json_patch::apply(&text, &defaults).unwrap()).unwrap()
}

fn released(
    rollout: Value,
    objects: Vec<Value>,
    approval: Option<Milliseconds>,
) -> Cluster<'static, CloneSet> {
    let mut cluster = cluster(five("app:v1"));
    cluster.release_by(rollout, objects, approval);
    assert_eq!(cluster.settle_down(LIMIT), Rest::Converged);
    cluster
}

/// A user gives the workload another image, and leaves all else as it is.
fn applied(cluster: &Cluster<'_, CloneSet>, image: &str) -> Step<CloneSet> {
    let mut workload = cluster.workload().clone();
    workload.spec.template = five(image).spec.template;
    Step::Update(Box::new(workload))
}

/// How many Pods were new whenever something was told, each number once.
fn new_pods(cluster: &Cluster<'_, CloneSet>, from: usize) -> Vec<i64> {
    let mut numbers: Vec<i64> =
        cluster.timeline().entries.iter().skip(from).map(|entry| entry.counts.new).collect();
    numbers.dedup();
    numbers
}

#[test]
fn pods_are_updated_as_far_as_each_step_says() {
    let mut cluster = released(rollout(), Vec::new(), Some(60_000));
    let (told, begun) = (cluster.timeline().entries.len(), cluster.elapsed());
    cluster.add(0, applied(&cluster, "app:v2"));
    assert_eq!(cluster.settle_down(LIMIT), Rest::Converged);
    let took = cluster.timeline().entries.last().unwrap().time - begun;
    assert!((65_000..200_000).contains(&took), "one step waits for somebody, one for its time: {took}");
    assert_eq!(cluster.rollout().unwrap()["status"]["phase"], "Healthy");
    let numbers = new_pods(&cluster, told);
    assert!(numbers.ends_with(&[0, 1, 2, 3, 4, 5]), "{numbers:?}");
    let entries = &cluster.timeline().entries;
    let paused = |entry: &&timeline::Entry| entry.text.ends_with(": StepPaused");
    let paused: Vec<i64> = entries.iter().filter(paused).map(|entry| entry.counts.new).collect();
    assert_eq!(paused, [1, 3], "nothing waits behind the last step");
    assert_eq!(cluster.timeline().tracks.len(), 5, "Pods are updated in place, as without a Rollout");
}

#[test]
fn a_step_that_nobody_approves_holds_the_rest_up() {
    let mut cluster = released(rollout(), Vec::new(), None);
    cluster.add(0, applied(&cluster, "app:v2"));
    let Rest::Unfinished(reasons) = cluster.settle_down(LIMIT) else { panic!("the first step waits") };
    assert!(reasons.iter().any(|reason| reason.contains("StepPaused")), "{reasons:#?}");
    let counts = cluster.counts();
    assert_eq!((counts.old, counts.new, counts.available), (4, 1, 5));
}

#[test]
fn what_is_applied_again_during_a_release_opens_nothing() {
    let mut cluster = released(rollout(), Vec::new(), None);
    cluster.add(0, applied(&cluster, "app:v2"));
    cluster.settle_down(LIMIT);
    cluster.add(0, applied(&cluster, "app:v2"));
    assert!(matches!(cluster.settle_down(LIMIT), Rest::Unfinished(_)));
    assert_eq!(cluster.counts().new, 1);
    cluster.add(0, applied(&cluster, "app:v3"));
    assert!(matches!(cluster.settle_down(LIMIT), Rest::Unfinished(_)));
    assert_eq!(cluster.counts().new, 1, "another version begins at the first step");
}

#[test]
fn traffic_follows_the_steps_and_is_as_before_in_the_end() {
    let mut rollout = rollout();
    let canary = &mut rollout["spec"]["strategy"]["canary"];
    canary["steps"][0]["traffic"] = "20%".into();
    canary["trafficRoutings"] = json!([{"service": "web", "ingress": {"classType": "nginx", "name": "web"}}]);
    let backend = json!({"service": {"name": "web", "port": {"number": 80}}});
    let paths = json!([{"path": "/", "pathType": "Prefix", "backend": backend}]);
    let object = |api_version: &str, kind: &str, spec: Value| {
        json!({"apiVersion": api_version, "kind": kind, "metadata": {"name": "web", "namespace": "default"},
            "spec": spec})
    };
    let objects = vec![
        object("v1", "Service", json!({"selector": {"app": "web"}, "ports": [{"port": 80}]})),
        object(
            "networking.k8s.io/v1",
            "Ingress",
            json!({"ingressClassName": "nginx",
            "rules": [{"host": "shop.example.com", "http": {"paths": paths}}]}),
        ),
    ];
    let mut cluster = released(rollout, objects, Some(0));
    cluster.add(0, applied(&cluster, "app:v2"));
    assert_eq!(cluster.settle_down(LIMIT), Rest::Converged);
    let texts: Vec<&str> = cluster.timeline().entries.iter().map(|entry| entry.text.as_str()).collect();
    for text in ["creates Service web-canary", "creates Ingress web-canary", "deletes Ingress web-canary"] {
        assert!(texts.contains(&text), "{text}: {texts:#?}");
    }
    assert!(texts.contains(&"deletes Service web-canary"), "{texts:#?}");
}

#[test]
fn a_pause_longer_than_anybody_looks_is_named_and_goes_on_later() {
    let mut rollout = rollout();
    rollout["spec"]["strategy"]["canary"]["steps"][0]["pause"]["duration"] = 100_000.into();
    let mut cluster = released(rollout, Vec::new(), None);
    cluster.add(0, applied(&cluster, "app:v2"));
    let Rest::Unfinished(reasons) = cluster.settle_down(LIMIT) else { panic!("the first step waits") };
    assert!(reasons.iter().any(|reason| reason.contains("StepPaused")), "{reasons:#?}");
    assert_eq!(cluster.settle_down(100_000_000), Rest::Converged);
}

#[test]
fn a_service_that_is_missing_is_named() {
    let mut rollout = rollout();
    let canary = &mut rollout["spec"]["strategy"]["canary"];
    canary["steps"][0]["traffic"] = "20%".into();
    canary["trafficRoutings"] = json!([{"service": "web", "ingress": {"classType": "nginx", "name": "web"}}]);
    let mut cluster = released(rollout, Vec::new(), None);
    cluster.add(0, applied(&cluster, "app:v2"));
    let Rest::Unfinished(reasons) = cluster.settle_down(LIMIT) else { panic!("there is no Service") };
    assert!(reasons.iter().any(|reason| reason.contains("Service web")), "{reasons:#?}");
}

#[test]
fn blue_green_keeps_the_old_pods_until_its_last_step_is_over() {
    let mut rollout = rollout();
    let steps = json!([{"replicas": "50%", "pause": {"duration": 1}}, {"replicas": "100%"}]);
    rollout["spec"]["strategy"] = json!({"blueGreen": {"steps": steps}});
    let mut workload = five("app:v1");
    workload.spec.update_strategy.rolling_update.pod_update_policy = Some(PodUpdatePolicy::ReCreate);
    let mut cluster = cluster(workload);
    cluster.release_by(rollout, Vec::new(), Some(60_000));
    assert_eq!(cluster.settle_down(LIMIT), Rest::Converged);
    let (told, before) = (cluster.timeline().entries.len(), cluster.workload().spec.clone());
    cluster.add(0, applied(&cluster, "app:v2"));
    assert_eq!(cluster.settle_down(LIMIT), Rest::Converged);
    assert_eq!(cluster.rollout().unwrap()["status"]["phase"], "Healthy");
    let entries = &cluster.timeline().entries[told..];
    let paused = |entry: &&timeline::Entry| entry.text.ends_with(": StepPaused");
    let paused: Vec<(i64, i64)> =
        entries.iter().filter(paused).map(|entry| (entry.counts.old, entry.counts.new)).collect();
    assert_eq!(paused, [(5, 3), (5, 5)], "the second step waits for an approval");
    let counts = cluster.counts();
    assert_eq!((counts.old, counts.new, counts.available), (0, 5, 5));
    let mut after = cluster.workload().spec.clone();
    after.template = before.template.clone();
    assert_eq!(after, before, "the settings are as before");
}

#[test]
fn a_rollout_that_is_disabled_leads_nothing() {
    let mut rollout = rollout();
    rollout["spec"]["disabled"] = true.into();
    let mut cluster = released(rollout, Vec::new(), None);
    cluster.add(0, applied(&cluster, "app:v2"));
    assert_eq!(cluster.settle_down(LIMIT), Rest::Converged);
}

#[test]
fn a_release_that_fails_rolls_itself_back_and_says_so() {
    let mut rollout = rollout();
    rollout["metadata"]["annotations"] = json!({"kutter.io/rollback-after-seconds": "60"});
    let mut cluster = released(rollout, Vec::new(), None);
    cluster.add(0, applied(&cluster, "bad:v2"));
    assert_eq!(cluster.settle_down(LIMIT), Rest::Converged);
    let texts: Vec<&str> = cluster.timeline().entries.iter().map(|entry| entry.text.as_str()).collect();
    assert!(texts.iter().any(|text| text.starts_with("reports RolledBack: ")), "{texts:#?}");
    let counts = cluster.counts();
    assert_eq!((counts.old, counts.new, counts.available), (0, 5, 5));
}
