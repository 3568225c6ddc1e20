//! The guarantees of injection on random Pods and SidecarSets.

use proptest::prelude::*;
use proptest::sample::{select, subsequence};
use serde_json::{Value, json};

use super::containers;
use crate::pod_review::fixture::{Cluster, pod};

const NAMES: &[&str] = &["a", "b", "c", "d", "b-1", "e"];

fn env() -> impl Strategy<Value = Value> {
    subsequence(vec!["A", "B", "IS_INJECTED", "KRUISE_CONTAINER_PRIORITY", "SIDECARSET_VERSION"], 0..4).prop_map(|names| {
        names.into_iter().map(|name| json!({"name": name, "value": if name == "KRUISE_CONTAINER_PRIORITY" { "3" } else { "x" }})).collect()
    })
}

fn mounts() -> impl Strategy<Value = Value> {
    subsequence(vec!["/1", "/2", "/3"], 0..3).prop_map(|paths| {
        paths.into_iter().map(|path| json!({"name": format!("v{}", path.len()), "mountPath": path, "subPathExpr": "$(A)/$(B)"})).collect()
    })
}

fn devices() -> impl Strategy<Value = Value> {
    subsequence(vec!["/2", "/4"], 0..2)
        .prop_map(|paths| paths.into_iter().map(|path| json!({"name": "v2", "devicePath": path})).collect())
}

fn container(name: &'static str) -> impl Strategy<Value = Value> {
    (env(), mounts(), devices()).prop_map(move |(env, mounts, devices)| {
        json!({"name": name, "env": env, "volumeMounts": mounts, "volumeDevices": devices, "future": {"kept": name}})
    })
}

fn some_containers(range: std::ops::Range<usize>) -> impl Strategy<Value = Vec<Value>> {
    subsequence(NAMES.to_vec(), range)
        .prop_flat_map(|names| names.into_iter().map(container).collect::<Vec<_>>())
}

fn any_pod() -> impl Strategy<Value = Value> {
    (some_containers(1..4), proptest::option::of(some_containers(0..3)), any::<bool>(), any::<bool>())
        .prop_map(|(containers, init, ordered, noted)| {
            let mut pod = pod(Value::from(containers));
            if let Some(init) = init {
                pod["spec"]["initContainers"] = Value::from(init);
            }
            if noted {
                pod["metadata"]["annotations"] = json!({"k": r#"{"own": 1}"#});
                pod["spec"]["volumes"] = json!([{"name": "v2", "hostPath": {"path": "/"}}]);
                pod["spec"]["imagePullSecrets"] = json!([{"name": "p"}]);
            }
            if ordered {
                pod["metadata"]["annotations"]["apps.kruise.io/container-launch-priority"] = json!("Ordered");
            }
            pod
        })
}

fn sidecar() -> impl Strategy<Value = Value> {
    (
        select(NAMES).prop_flat_map(container),
        select(vec!["BeforeAppContainer", "AfterAppContainer", ""]),
        select(vec!["HotUpgrade", "ColdUpgrade"]),
        any::<[bool; 4]>(),
        select(NAMES),
    )
        .prop_map(|(mut sidecar, side, upgrade, [mounts, devices, native, sized], source)| {
            let on = |enabled: bool| json!({"type": if enabled { "enabled" } else { "disabled" }});
            sidecar["podInjectPolicy"] = json!(side);
            sidecar["upgradeStrategy"] = json!({"upgradeType": upgrade, "hotUpgradeEmptyImage": "empty"});
            sidecar["shareVolumePolicy"] = on(mounts);
            sidecar["shareVolumeDevicePolicy"] = on(devices);
            sidecar["transferEnv"] =
                json!([{"sourceContainerName": source, "envNames": ["A", "IS_INJECTED"]}]);
            if native {
                sidecar["restartPolicy"] = json!("Always");
            }
            if sized {
                sidecar["resources"] = json!({"limits": {"cpu": 1}});
            }
            sidecar
        })
}

fn unique(sidecars: Vec<Value>) -> Value {
    let mut known = std::collections::HashSet::new();
    sidecars.into_iter().filter(|sidecar| known.insert(sidecar["name"].to_string())).collect()
}

fn sets() -> impl Strategy<Value = Vec<Value>> {
    let set = (
        proptest::collection::vec(sidecar(), 0..4),
        proptest::collection::vec(sidecar(), 0..3),
        select(vec!["Retain", "Overwrite", "MergePatchJson"]),
        select(vec![r#"{"own":2}"#, r#"{"other": {"x": 1}}"#]),
        any::<bool>(),
    );
    let set = set.prop_map(|(containers, init, policy, patch, scoped)| {
        let mut spec = json!({"containers": unique(containers), "initContainers": unique(init),
            "volumes": [{"name": "v2", "emptyDir": {}}], "imagePullSecrets": [{"name": "p"}, {"name": "q"}],
            "patchPodMetadata": [{"annotations": {"k": patch}, "patchPolicy": policy}]});
        if scoped {
            spec["namespaceSelector"] = json!({"matchLabels": {"kubernetes.io/metadata.name": "shop"}});
        }
        spec
    });
    proptest::collection::vec(set, 1..6)
}

fn cluster(sets: &[Value], order: impl Iterator<Item = usize>) -> Cluster {
    order.fold(Cluster::new(), |cluster, position| {
        cluster.set(&format!("s{position}"), sets[position].clone())
    })
}

proptest! {
    #[test]
    fn a_second_review_changes_nothing(pod in any_pod(), sets in sets()) {
        let cluster = cluster(&sets, 0..sets.len());
        let once = cluster.admit(&pod);
        prop_assert_eq!(cluster.admit(&once), once);
    }

    #[test]
    fn the_order_in_which_sets_arrive_does_not_matter(pod in any_pod(), sets in sets()) {
        let forwards = cluster(&sets, 0..sets.len());
        let backwards = cluster(&sets, (0..sets.len()).rev());
        prop_assert_eq!(forwards.review(&pod), backwards.review(&pod));
    }

    #[test]
    fn nothing_of_the_users_is_lost(pod in any_pod(), sets in sets()) {
        let (admitted, warnings) = cluster(&sets, 0..sets.len()).review(&pod);
        for list in ["containers", "initContainers"] {
            let after = admitted["spec"][list].as_array().cloned().unwrap_or_default();
            for own in pod["spec"][list].as_array().into_iter().flatten() {
                let mut found = after.iter().find(|container| container["name"] == own["name"]).unwrap().clone();
                let injected = own["env"].as_array().unwrap().iter().any(|variable| variable["name"] == "IS_INJECTED");
                let reported = warnings.iter().any(|warning| warning.starts_with(&format!("container {} of the Pod", own["name"])));
                if let Some(env) = found["env"].as_array_mut() {
                    env.retain(|variable| variable["name"] != "KRUISE_CONTAINER_BARRIER");
                }
                prop_assert!(reported || injected || found == *own, "{} became {}", own, found);
            }
        }
        let mut names = containers(&admitted);
        let count = names.len();
        names.sort_unstable();
        names.dedup();
        prop_assert_eq!(names.len(), count);
        for volume in pod["spec"]["volumes"].as_array().into_iter().flatten() {
            prop_assert!(admitted["spec"]["volumes"].as_array().unwrap().contains(volume));
        }
    }

    #[test]
    fn another_injector_in_between_does_not_change_our_containers(pod in any_pod(), sets in sets()) {
        let cluster = cluster(&sets, 0..sets.len());
        let first = cluster.admit(&pod);
        let mut foreign = first.clone();
        foreign["spec"]["containers"].as_array_mut().unwrap().push(json!({"name": "foreign"}));
        let second = cluster.admit(&foreign);
        let ours = |pod: &Value| containers(pod).into_iter().filter(|name| *name != "foreign").map(str::to_owned).collect::<Vec<_>>();
        prop_assert_eq!(ours(&second), ours(&first));
    }
}
