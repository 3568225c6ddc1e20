//! All steps together, on random Pods in random clusters.

use proptest::prelude::*;
use proptest::sample::{select, subsequence};
use serde_json::{Value, json};

use crate::pod_review::fixture::{Cluster, pod};
use crate::world::Watched;

const NAMES: &[&str] = &["a", "b", "c", "d"];
const GATES: &str =
    "EnhancedLivenessProbe=true,EnablePodProbeMarkerOnServerless=true,KruisePodReadinessGate=true";

fn container(name: &'static str) -> impl Strategy<Value = Value> {
    let probe = select(vec![
        Value::Null,
        json!({"periodSeconds": 3, "exec": {"command": ["x"]}}),
        json!({"httpGet": {"port": "http"}, "future": {"a": 1}}),
    ]);
    (probe, any::<bool>()).prop_map(move |(probe, native)| {
        let mut container = json!({"name": name, "livenessProbe": probe});
        if native {
            container["restartPolicy"] = json!("Always");
        }
        container
    })
}

fn containers(range: std::ops::Range<usize>) -> impl Strategy<Value = Vec<Value>> {
    subsequence(NAMES.to_vec(), range)
        .prop_flat_map(|names| names.into_iter().map(container).collect::<Vec<_>>())
}

fn any_pod() -> impl Strategy<Value = Value> {
    let note = |key: &'static str, values: &[&'static str]| {
        proptest::option::of(select(values.to_vec())).prop_map(move |value| value.map(|value| (key, value)))
    };
    let notes = (
        note("apps.kruise.io/using-enhanced-liveness", &["true", "false"]),
        note(
            "apps.kruise.io/container-probe-context",
            &["[{\"name\":\"a\",\"livenessProbe\":{}}]", "[7", "[]"],
        ),
        note("kruise.io/podprobemarker-list", &["m2,m0", "", "gone", "m1 ,m1"]),
        note("kruise.io/related-pub", &["mine"]),
        note("apps.kruise.io/container-launch-priority", &["Ordered"]),
    );
    let owner = select(vec![("apps/v1", "ReplicaSet"), ("apps.kruise.io/v1beta1", "CloneSet"), ("", "")]);
    (containers(1..4), containers(0..3), notes, owner).prop_map(|(containers, init, notes, owner)| {
        let mut pod = pod(Value::from(containers));
        pod["spec"]["initContainers"] = Value::from(init);
        pod["metadata"]["labels"]["pod-template-hash"] = json!("5d4f");
        if !owner.0.is_empty() {
            pod["metadata"]["ownerReferences"] =
                json!([{"apiVersion": owner.0, "kind": owner.1, "name": "web-5d4f", "controller": true}]);
        }
        for (key, value) in [notes.0, notes.1, notes.2, notes.3, notes.4].into_iter().flatten() {
            pod["metadata"]["annotations"][key] = json!(value);
        }
        pod
    })
}

fn set() -> impl Strategy<Value = Value> {
    (containers(0..3), containers(0..3), any::<bool>()).prop_map(|(mut containers, init, front)| {
        for container in &mut containers {
            container["podInjectPolicy"] =
                json!(if front { "BeforeAppContainer" } else { "AfterAppContainer" });
        }
        json!({"containers": containers, "initContainers": init})
    })
}

fn budget() -> impl Strategy<Value = Value> {
    select(vec![
        json!({"targetRef": {"apiVersion": "apps/v1", "kind": "Deployment", "name": "web"}}),
        json!({"targetRef": {"apiVersion": "apps.kruise.io/v1alpha1", "kind": "CloneSet", "name": "web-5d4f"}}),
        json!({"selector": {"matchLabels": {"app": "web"}}}),
        json!({"selector": {}}),
    ])
}

fn marker() -> impl Strategy<Value = Value> {
    let probe = (select(NAMES), select(vec!["p", "q"]), select(vec!["x/1", "x/2", ""])).prop_map(
        |(container, name, condition)| json!({"name": name, "containerName": container, "podConditionType": condition, "probe": {}}),
    );
    (proptest::collection::vec(probe, 0..4), any::<bool>()).prop_map(|(probes, matches)| {
        json!({"selector": {"matchLabels": {"app": if matches { "web" } else { "db" }}}, "probes": probes})
    })
}

fn any_cluster() -> impl Strategy<Value = Cluster> {
    use proptest::collection::vec;
    (vec(set(), 0..3), vec(budget(), 0..3), vec(marker(), 0..4)).prop_map(|(sets, budgets, markers)| {
        let mut cluster = Cluster::new().gates(GATES);
        for (position, set) in sets.into_iter().enumerate() {
            cluster = cluster.set(&format!("s{position}"), set);
        }
        for (kind, prefix, specs) in
            [(Watched::PodUnavailableBudget, "b", budgets), (Watched::PodProbeMarker, "m", markers)]
        {
            for (position, spec) in specs.into_iter().enumerate() {
                let metadata = json!({"name": format!("{prefix}{position}"), "namespace": "shop"});
                cluster = cluster.apply(kind, &json!({"metadata": metadata, "spec": spec}));
            }
        }
        cluster
    })
}

proptest! {
    #[test]
    fn a_second_review_changes_nothing(pod in any_pod(), cluster in any_cluster()) {
        let once = cluster.admit(&pod);
        prop_assert_eq!(cluster.admit(&once), once);
    }

    #[test]
    fn no_probe_is_lost(pod in any_pod(), cluster in any_cluster()) {
        let admitted = cluster.admit(&pod);
        let moved = admitted["metadata"]["annotations"]["apps.kruise.io/container-probe-context"].as_str();
        let moved: Vec<Value> = moved.and_then(|text| serde_json::from_str(text).ok()).unwrap_or_default();
        for container in pod["spec"]["containers"].as_array().unwrap() {
            let after = admitted["spec"]["containers"].as_array().unwrap();
            let after = after.iter().find(|after| after["name"] == container["name"]).unwrap();
            let injected = after.get("env").is_some_and(|env| env[0]["name"] == "IS_INJECTED");
            let entry = moved.iter().find(|entry| entry["name"] == container["name"]);
            prop_assert!(
                injected
                    || container["livenessProbe"].is_null()
                    || after["livenessProbe"] == container["livenessProbe"]
                    || entry.is_some_and(|entry| entry["livenessProbe"] == container["livenessProbe"]),
                "{:#} became {:#}", container, admitted
            );
        }
    }
}
