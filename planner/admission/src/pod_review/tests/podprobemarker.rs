use serde_json::{Value, json};

use crate::pod_review::Resolved;
use crate::pod_review::fixture::{Cluster, pod};
use crate::world::Watched;

fn on() -> Cluster {
    Cluster::new().gates("EnablePodProbeMarkerOnServerless=true")
}

fn marker(cluster: Cluster, name: &str, probes: Value) -> Cluster {
    selecting(cluster, name, json!({"matchLabels": {"app": "web"}}), probes)
}

fn selecting(cluster: Cluster, name: &str, selector: Value, probes: Value) -> Cluster {
    let mut object = json!({"metadata": {"name": name, "namespace": "shop"}});
    object["spec"]["selector"] = selector;
    object["spec"]["probes"] = probes;
    cluster.apply(Watched::PodProbeMarker, &object)
}

fn probe(container: &str, name: &str, condition: &str) -> Value {
    json!({"name": name, "containerName": container, "podConditionType": condition,
        "probe": {"periodSeconds": 5, "exec": {"command": ["check", name]}},
        "markerPolicy": [{"state": "Succeeded", "labels": {"a": "b"}}]})
}

fn probes(pod: &Value) -> Vec<String> {
    let list: Vec<Value> =
        serde_json::from_str(pod["metadata"]["annotations"]["kruise.io/podprobe"].as_str().unwrap()).unwrap();
    let text = |probe: &Value| {
        format!("{}/{}", probe["containerName"].as_str().unwrap(), probe["name"].as_str().unwrap())
    };
    list.iter().map(text).collect()
}

fn list(pod: &Value) -> &str {
    pod["metadata"]["annotations"]["kruise.io/podprobemarker-list"].as_str().unwrap()
}

fn main_only() -> Value {
    pod(json!([{"name": "m"}]))
}

#[test]
fn scenario_30_the_first_probe_of_a_condition_is_written() {
    let cluster = marker(on(), "b", json!([probe("m", "later", "game/idle")]));
    let cluster = marker(cluster, "a", json!([probe("m", "first", "game/idle")]));
    let admitted = cluster.admit(&main_only());
    assert_eq!(
        admitted["metadata"]["annotations"],
        json!({"kruise.io/podprobe": r#"[{"name":"first","containerName":"m","probe":{"exec":{"command":["check","first"]},"periodSeconds":5},"podConditionType":"game/idle"}]"#,
            "kruise.io/podprobemarker-list": "a"})
    );
    assert_eq!(cluster.admit(&admitted), admitted);
}

#[test]
fn without_the_gate_nothing_is_written() {
    let cluster = marker(Cluster::new(), "a", json!([probe("m", "p", "x/y")]));
    assert_eq!(cluster.admit(&main_only()), main_only());
}

#[test]
fn probes_need_a_condition_a_name_of_their_own_and_a_container() {
    let mut silent = probe("m", "silent", "");
    let own = json!([
        silent,
        probe("m", "p", "x/1"),
        probe("gone", "p", "x/2"),
        probe("m", "p", "x/3"),
        probe("n", "p", "x/4")
    ]);
    let cluster = marker(on(), "a", own);
    let admitted = cluster.admit(&pod(json!([{"name": "m"}, {"name": "n"}])));
    assert_eq!((probes(&admitted), list(&admitted)), (vec!["m/p".to_owned(), "n/p".to_owned()], "a"));
    silent.as_object_mut().unwrap().remove("podConditionType");
    let cluster = marker(on(), "a", json!([silent, probe("gone", "p", "x/1")]));
    assert_eq!(cluster.admit(&main_only()), main_only());
}

#[test]
fn injected_containers_and_native_sidecars_are_probed_and_init_containers_are_not() {
    let set = json!({"containers": [{"name": "agent"}],
        "initContainers": [{"name": "native", "restartPolicy": "Always"}, {"name": "setup"}]});
    let conditions = ["agent", "native", "setup", "own", "plain"]
        .map(|container| probe(container, "p", &format!("x/{container}")));
    let cluster = marker(on().set("s", set), "a", json!(conditions));
    let mut pod = main_only();
    pod["spec"]["initContainers"] = json!([{"name": "own", "restartPolicy": "Always"}, {"name": "plain"}]);
    let admitted = cluster.admit(&pod);
    assert_eq!(probes(&admitted), ["agent/p", "native/p", "own/p"]);
    assert_eq!(cluster.admit(&admitted), admitted);
}

#[test]
fn a_pod_may_name_its_markers() {
    let cluster = selecting(on(), "c", json!({}), json!([probe("m", "c", "x/c")]));
    let cluster = marker(cluster, "b", json!([probe("m", "b", "x/b")]));
    let cluster =
        selecting(cluster, "a", json!({"matchLabels": {"app": "db"}}), json!([probe("m", "a", "x/a")]));
    assert_eq!(list(&cluster.admit(&main_only())), "b");
    let mut naming = main_only();
    naming["metadata"]["annotations"] = json!({"kruise.io/podprobemarker-list": "c, gone,a"});
    let admitted = cluster.admit(&naming);
    assert_eq!((list(&admitted), probes(&admitted)), ("a,c", vec!["m/a".to_owned(), "m/c".to_owned()]));
    assert_eq!(cluster.admit(&admitted), admitted);
    naming["metadata"]["annotations"] = json!({"kruise.io/podprobemarker-list": ""});
    assert_eq!(list(&cluster.admit(&naming)), "b");
}

#[test]
fn every_marker_of_the_namespace_is_explained() {
    let cluster = marker(on(), "a", json!([probe("m", "p", "x/y")]));
    let cluster = marker(cluster, "b", json!([probe("m", "q", "x/y")]));
    let mut cluster = selecting(cluster, "c", json!({"matchLabels": {"app": "db"}}), json!([]));
    let broken = json!({"metadata": {"name": "d", "namespace": "shop"}, "spec": {"selector":
        {"matchExpressions": [{"key": "app", "operator": "In"}]}}});
    cluster.world.apply(Watched::PodProbeMarker, &broken.to_string()).unwrap_err();
    let reported = cluster.explain(&main_only(), &Resolved::default());
    let reported: Vec<String> = reported.iter().map(ToString::to_string).collect();
    assert_eq!(reported[0], "PodProbeMarker a: written on the Pod: m/p");
    assert!(reported[1].starts_with("PodProbeMarker b: meant for the Pod, but"), "{reported:?}");
    assert_eq!(
        reported[2],
        "PodProbeMarker c: not written: spec.selector does not match the labels of the Pod"
    );
    assert!(
        reported[3].starts_with("PodProbeMarker d: not written: spec.selector is invalid: "),
        "{reported:?}"
    );
}
