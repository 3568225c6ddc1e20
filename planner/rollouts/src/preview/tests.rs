//! Previews of releases of workloads in a small cluster.

use api::annotations::IN_PROGRESSING;

use super::*;
use crate::script::Scripts;

fn rollout(kind: &str, strategy: &Value) -> Rollout {
    let api_version = if kind == "CloneSet" { "apps.kruise.io/v1alpha1" } else { "apps/v1" };
    let spec = json!({"workloadRef": {"apiVersion": api_version, "kind": kind, "name": "web"}, "strategy": strategy});
    serde_json::from_value(json!({"metadata": {"name": "release", "namespace": "shop"}, "spec": spec}))
        .unwrap()
}

fn cloneset(replicas: i64, image: &str) -> Value {
    json!({"apiVersion": "apps.kruise.io/v1alpha1", "kind": "CloneSet",
        "metadata": {"name": "web", "namespace": "shop", "uid": "w", "generation": 1},
        "spec": {"replicas": replicas, "selector": {"matchLabels": {"app": "web"}}, "template": {
            "metadata": {"labels": {"app": "web"}}, "spec": {"containers": [{"name": "main", "image": image}]}}},
        "status": {"replicas": replicas, "updatedReplicas": replicas, "updatedReadyReplicas": replicas,
            "currentRevision": "web-1", "updateRevision": "web-1", "observedGeneration": 1}})
}

fn deployment(replicas: i64) -> Value {
    let mut deployment = cloneset(replicas, "a");
    (deployment["apiVersion"], deployment["kind"]) = (json!("apps/v1"), json!("Deployment"));
    deployment
}

fn service() -> Value {
    json!({"kind": "Service", "metadata": {"name": "web", "namespace": "shop"}, "spec": {"selector": {"app": "web"}}})
}

/// The preview in a cluster with these objects. What was not read is read.
fn seen(rollout: &Rollout, submitted: Option<&Value>, cluster: &[Value], gates: &str) -> Preview {
    let (mut view, scripts) = (View::default(), Scripts::default());
    let gates = FeatureGates::parse(gates, "").unwrap();
    loop {
        let validation = validation::Context {
            others: &[],
            partition_percent_limit: validation::PARTITION_PERCENT_LIMIT,
            filter_workload_type: true,
            scripts: &scripts,
        };
        match preview(rollout, submitted, &Context { validation, gates: &gates, view: &view }) {
            Ok(preview) => return preview,
            Err(Unread::Object(name)) => {
                let named = |object: &&Value| object.text("/kind") == name.kind && object.name() == name.name;
                let found = cluster.iter().find(named).cloned();
                view.has_object(name, found);
            }
            Err(Unread::List(list)) => view.has_list(list, Vec::new()),
            Err(Unread::PodsOf { owner }) => view.has_pods(owner, Vec::new()),
        }
    }
}

fn steps(rollout: &Rollout, cluster: &[Value]) -> Vec<(i32, i32, String)> {
    let preview = seen(rollout, None, cluster, "");
    preview.steps.into_iter().map(|row| (row.new, row.old, row.traffic)).collect()
}

#[test]
fn a_preview_is_a_table_of_steps_and_a_list_of_objects() {
    let strategy = json!({"canary": {
        "steps": [
            {"replicas": "20%", "traffic": "5%"},
            {"replicas": 5, "matches": [{"headers": [{"name": "user", "value": "x"}]}], "pause": {"duration": 60}},
            {"replicas": "100%"}],
        "trafficRoutings": [{"service": "web", "gateway": {"httpRouteName": "shop"}}]}});
    let route = json!({"kind": "HTTPRoute", "metadata": {"name": "shop", "namespace": "shop"}, "spec": {"rules": []}});
    let cluster = [cloneset(10, "a"), service(), route];
    let expected = "\
Rollout shop/release releases CloneSet web with 10 Pods in batches

STEP  NEW  OLD  TRAFFIC        NEXT
1     2    8    5%             approval
2     5    5    header user=x  after 60s
3     10   0    -              at once
end   10   0    -              -

change  CloneSet      web
create  BatchRelease  release
change  Service       web
create  Service       web-canary
change  HTTPRoute     shop
";
    let rollout = rollout("CloneSet", &strategy);
    assert_eq!(seen(&rollout, Some(&cloneset(10, "b")), &cluster, "").to_string(), expected);
    assert_eq!(seen(&rollout, None, &cluster, "").to_string(), expected);
}

#[test]
fn old_pods_stay_where_others_come_beside_them() {
    let steps_of = |canary: Value| json!([{"replicas": "30%", "traffic": "10%"}, {"replicas": "100%", "traffic": canary}]);
    let canary = json!({"canary": {"enableExtraWorkloadForCanary": true, "steps": steps_of(json!("100%"))}});
    let expected =
        |last: &str| vec![(2, 4, "10%".to_owned()), (4, 4, last.to_owned()), (4, 0, String::new())];
    assert_eq!(steps(&rollout("Deployment", &canary), &[deployment(4)]), expected("100%"));
    let blue_green = json!({"blueGreen": {"steps": steps_of(json!("50%"))}});
    let rollout = rollout("Deployment", &blue_green);
    assert_eq!(steps(&rollout, &[deployment(4)]), expected("50%"));
    // A person lets a blue-green release go on after its last step too.
    assert_eq!(seen(&rollout, None, &[deployment(4)], "").steps[1].then, "approval");
}

#[test]
fn the_objects_of_each_style_are_listed() {
    let objects = |strategy: &Value, gates: &str| {
        let preview = seen(&rollout("Deployment", strategy), None, &[deployment(4), service()], gates);
        preview.objects.into_iter().map(|cells| cells.join(" ")).collect::<Vec<_>>()
    };
    let steps = json!([{"replicas": 1}]);
    let partition = json!({"canary": {"steps": steps, "trafficRoutingRef": "chain"}});
    assert_eq!(
        objects(&partition, "RolloutHistory=true"),
        [
            "change Deployment web",
            "create BatchRelease release",
            "create ReplicaSet web-*",
            "change TrafficRouting chain",
            "create RolloutHistory release-*"
        ]
    );
    let canary = json!({"canary": {"enableExtraWorkloadForCanary": true, "steps": steps}});
    assert_eq!(objects(&canary, "")[2], "create Deployment web-*");
    let blue_green = json!({"blueGreen": {"disableGenerateCanaryService": true,
        "steps": [{"replicas": 1, "traffic": "0%"}],
        "trafficRoutings": [{"service": "web", "ingress": {"name": "front"},
            "customNetworkRefs": [{"apiVersion": "x/v1", "kind": "Mesh", "name": "m"}]}]}});
    assert_eq!(
        objects(&blue_green, "")[2..],
        [
            "create ReplicaSet web-*",
            "change HorizontalPodAutoscaler of web, where there is one",
            "create Ingress front-canary",
            "change Mesh m"
        ]
    );
}

#[test]
fn what_would_keep_a_release_from_happening_is_said() {
    let strategy = json!({"canary": {"steps": [{"replicas": 1}]}});
    let refusals = |rollout: &Rollout, submitted: Option<&Value>, cluster: &[Value]| {
        seen(rollout, submitted, cluster, "").refusals.join("; ")
    };
    let rollouts = rollout("CloneSet", &strategy);
    let live = [cloneset(3, "a")];
    assert_eq!(refusals(&rollouts, None, &live), "");
    assert_eq!(refusals(&rollouts, Some(&cloneset(3, "b")), &live), "");
    let untouched = "this change of CloneSet web begins no release, and takes effect at once";
    assert_eq!(refusals(&rollouts, Some(&cloneset(5, "a")), &live), untouched);
    assert_eq!(refusals(&rollouts, Some(&cloneset(0, "b")), &live), untouched);
    assert_eq!(
        refusals(&rollouts, None, &[cloneset(0, "a")]),
        "CloneSet web has no Pods, and changes at once"
    );
    assert_eq!(refusals(&rollouts, None, &[]), "CloneSet web is not there");
    let mut disabled = rollouts;
    disabled.spec.disabled = true;
    assert_eq!(refusals(&disabled, None, &live), "the Rollout is disabled");
    let unknown = refusals(&rollout("Job", &strategy), None, &[]);
    assert!(unknown.contains("WorkloadRef kind is not supported"), "{unknown}");
    let routed = json!({"canary": {"steps": [{"replicas": 1, "traffic": "5%"}],
        "trafficRoutings": [{"service": "web", "ingress": {"name": "front"}}]}});
    assert_eq!(refusals(&rollout("CloneSet", &routed), None, &live), "Service web does not exist");
}

#[test]
fn a_running_blue_green_release_takes_no_other_version() {
    let rollout = rollout("CloneSet", &json!({"blueGreen": {"steps": [{"replicas": "100%"}]}}));
    let mut live = cloneset(3, "b");
    live["metadata"]["annotations"] = json!({IN_PROGRESSING: r#"{"rolloutName":"release"}"#});
    let refusals = seen(&rollout, Some(&cloneset(3, "c")), &[live.clone()], "").refusals;
    assert_eq!(
        refusals,
        ["a blue-green release of CloneSet web is running, which must be rolled back first"]
    );
    assert_eq!(seen(&rollout, None, &[live], "").refusals, [""; 0]);
}

#[test]
fn a_workload_that_is_scaled_too_has_its_new_size() {
    let rollout = rollout("CloneSet", &json!({"canary": {"steps": [{"replicas": "50%"}]}}));
    let preview = seen(&rollout, Some(&cloneset(8, "b")), &[cloneset(4, "a")], "");
    assert_eq!((preview.steps[0].new, preview.steps[0].old), (4, 4));
}
