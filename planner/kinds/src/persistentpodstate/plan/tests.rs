use serde_json::{Value, json};

use super::*;
use pod::node_fit::NodeFacts;

/// A cluster with the Advanced StatefulSet `web`, its PersistentPodState, Pods, and the nodes `n1` to `n4`, of which the
/// first two are in zone `a`.
struct Site {
    state: Value,
    workload: Option<ResolvedWorkload>,
    pods: Vec<Arc<ObservedPod>>,
    nodes: Nodes,
    gates: FeatureGates,
}

impl Site {
    /// The workload with this spec.
    fn of(spec: &Value) -> Self {
        Self::of_group("apps.kruise.io", spec)
    }

    fn of_group(group: &str, spec: &Value) -> Self {
        let object = json!({"metadata": {"name": "web", "uid": "u"}, "spec": spec});
        let nodes = [("n1", "a"), ("n2", "a"), ("n3", "b"), ("n4", "b")].into_iter().map(|(name, zone)| {
            let labels = [("zone", zone), ("kubernetes.io/hostname", name), ("other", "x")];
            let labels = labels.into_iter().collect();
            (name.into(), Arc::new(NodeFacts { labels, ..NodeFacts::default() }))
        });
        Self {
            state: json!({
                "metadata": {"name": "pps", "uid": "p", "resourceVersion": "9", "generation": 4},
                "spec": {
                    "requiredPersistentTopology": {"keys": ["zone"]},
                    "preferredPersistentTopology": [{"weight": 5, "preference": {"keys": ["kubernetes.io/hostname", "rack"]}}],
                },
            }),
            workload: Some(ResolvedWorkload::read(group, "StatefulSet", &object.to_string()).unwrap()),
            pods: Vec::new(),
            nodes: nodes.collect(),
            gates: FeatureGates::default(),
        }
    }

    fn spec(mut self, key: &str, value: Value) -> Self {
        self.state["spec"][key] = value;
        self
    }

    /// What is remembered already, all of it on `n9`.
    fn remembering(mut self, names: &[&str]) -> Self {
        let record = json!({"nodeName": "n9", "nodeTopologyLabels": {"zone": "z", "rack": "r"}, "annotations": {"x": "y"}});
        let records: serde_json::Map<String, Value> =
            names.iter().map(|name| ((*name).to_owned(), record.clone())).collect();
        self.state["status"] = json!({"observedGeneration": 4, "podStates": records});
        self
    }

    fn pod(self, name: &str, node: &str) -> Self {
        self.pod_with(name, node, |_| ())
    }

    fn pod_with(mut self, name: &str, node: &str, change: impl Fn(&mut Value)) -> Self {
        let mut pod = json!({
            "metadata": {"name": name, "uid": name, "annotations": {"ip": "10.0.0.1"}},
            "spec": {"nodeName": node},
            "status": {"phase": "Running", "conditions": [{"type": "Ready", "status": "True"}]},
        });
        change(&mut pod);
        self.pods.push(Arc::new(ObservedPod::read(&pod.to_string()).unwrap()));
        self
    }

    fn plan(&self) -> Plan {
        let state = serde_json::from_value(self.state.clone()).unwrap();
        plan(&Snapshot {
            state: &state,
            workload: self.workload.as_ref(),
            pods: &self.pods,
            nodes: &self.nodes,
            gates: &self.gates,
        })
    }

    /// The status after the plan.
    fn status(&self) -> Value {
        let mut object = self.state.clone();
        if let Some(patch) = self.plan().status {
            json_patch::merge(&mut object, &serde_json::from_str(&patch).unwrap());
        }
        object["status"].clone()
    }

    /// What is remembered after the plan: names and nodes.
    fn remembered(&self) -> Vec<(String, String)> {
        let status: Status = serde_json::from_value(self.status()).unwrap();
        status.pod_states.into_iter().map(|(name, record)| (name, record.node_name)).collect()
    }

    /// The names of what is remembered after the plan.
    fn names(&self) -> Vec<String> {
        self.remembered().into_iter().map(|(name, _)| name).collect()
    }
}

#[test]
fn scenario_1_ready_pods_are_remembered() {
    let site = Site::of(&json!({"replicas": 3}))
        .spec("persistentPodAnnotations", json!([{"key": "ip"}, {"key": "none"}]))
        .pod("web-0", "n1")
        .pod("web-1", "n3")
        .pod_with("web-2", "n4", |pod| pod["status"]["conditions"] = json!([]));
    let labels = |zone: &str, node: &str| json!({"zone": zone, "kubernetes.io/hostname": node});
    let expected = json!({"observedGeneration": 4, "podStates": {
        "web-0": {"nodeName": "n1", "nodeTopologyLabels": labels("a", "n1"), "annotations": {"ip": "10.0.0.1"}},
        "web-1": {"nodeName": "n3", "nodeTopologyLabels": labels("b", "n3"), "annotations": {"ip": "10.0.0.1"}},
    }});
    assert_eq!(site.status(), expected);
    let patch: Value = serde_json::from_str(&site.plan().status.unwrap()).unwrap();
    assert_eq!(patch["metadata"], json!({"uid": "p", "resourceVersion": "9"}));
    let mut again = site;
    again.state["status"] = expected;
    assert_eq!(again.plan(), Plan::default(), "nothing is written twice");
}

#[test]
fn scenario_4_the_record_follows_the_pod_that_runs() {
    let site = Site::of(&json!({"replicas": 2})).remembering(&["web-0", "web-1"]).pod("web-1", "n3");
    let owned = |pairs: &[(&str, &str)]| -> Vec<(String, String)> {
        pairs.iter().map(|(name, node)| ((*name).to_owned(), (*node).to_owned())).collect()
    };
    assert_eq!(site.remembered(), owned(&[("web-0", "n9"), ("web-1", "n3")]));
    // Labels and annotations that are not there any more go from the record.
    let expected =
        json!({"nodeName": "n3", "nodeTopologyLabels": {"zone": "b", "kubernetes.io/hostname": "n3"}});
    let status = site.status();
    assert_eq!(status["podStates"]["web-1"], expected);
}

#[test]
fn pods_that_do_not_run_ready_keep_their_record() {
    let site = Site::of(&json!({"replicas": 4}))
        .remembering(&["web-0", "web-1", "web-2", "web-3"])
        .pod_with("web-0", "n1", |pod| {
            pod["status"]["conditions"] = json!([{"type": "Ready", "status": "False"}]);
        })
        .pod_with("web-1", "n1", |pod| pod["metadata"]["deletionTimestamp"] = json!("2026-01-01T00:00:00Z"))
        .pod_with("web-2", "n1", |pod| pod["status"]["phase"] = json!("Failed"))
        .pod("web-3", "");
    assert_eq!(site.plan(), Plan::default());
}

#[test]
fn scenarios_5_and_7_records_go_with_the_pods_that_are_not_wanted() {
    let names = ["web-0", "web-1", "web-2"];
    let of = |replicas: i32| Site::of(&json!({"replicas": replicas})).remembering(&names);
    assert_eq!(of(3).names(), names);
    assert_eq!(of(2).names(), ["web-0", "web-1"]);
    assert_eq!(of(2).pod("web-2", "n1").names(), names, "not before the Pod is gone");
    assert_eq!(of(0).names(), [""; 0]);
    assert_eq!(of(0).pod("web-0", "n1").names(), [""; 0]);
    assert_eq!(of(0).status(), json!({"observedGeneration": 4}));
    let policy = |policy: &str| of(1).spec("persistentPodStateRetentionPolicy", json!(policy)).names();
    assert_eq!(policy("WhenDeleted"), names);
    for scaled in ["", "WhenScaled", "Foo"] {
        assert_eq!(policy(scaled), ["web-0"], "{scaled}");
    }
}

#[test]
fn scenario_6_reserved_ordinals_are_skipped() {
    let names = ["web-0", "web-1", "web-2", "web-3", "web-4"];
    let site = Site::of(&json!({"replicas": 3, "reserveOrdinals": [1]})).remembering(&names);
    assert_eq!(site.names(), ["web-0", "web-2", "web-3"]);
    let ranges = Site::of(&json!({"replicas": 3, "reserveOrdinals": ["0-1"]})).remembering(&names);
    assert_eq!(ranges.names(), ["web-2", "web-3", "web-4"]);
    let native = Site::of_group("apps", &json!({"replicas": 3, "reserveOrdinals": [1]})).remembering(&names);
    assert_eq!(native.names(), ["web-0", "web-1", "web-2"]);
}

#[test]
fn sharp_edge_1_ordinals_count_from_the_start() {
    let names = ["web-0", "web-4", "web-5", "web-6"];
    let spec = json!({"replicas": 2, "ordinals": {"start": 4}});
    assert_eq!(Site::of_group("apps", &spec).remembering(&names).names(), ["web-4", "web-5"]);
    let mut site = Site::of(&spec).remembering(&names);
    assert_eq!(site.names(), ["web-0"], "without the gate the Pods are counted from 0");
    site.gates = FeatureGates::parse("StatefulSetStartOrdinal=true", "").unwrap();
    assert_eq!(site.names(), ["web-4", "web-5"]);
}

#[test]
fn names_without_a_number_and_unknown_numbers_of_pods_remove_nothing() {
    let site = Site::of(&json!({"replicas": 1})).remembering(&["web-x", "web", "web-0", "web-1"]);
    assert_eq!(site.names(), ["web", "web-0", "web-x"]);
    let unknown = Site::of(&json!({"size": 1})).remembering(&["web-0", "web-7"]).pod("web-1", "n1");
    assert_eq!(unknown.names(), ["web-0", "web-1", "web-7"]);
    let huge = Site::of(&json!({"replicas": i32::MAX})).remembering(&["web-2147483646"]);
    assert_eq!(huge.names(), ["web-2147483646"]);
}

#[test]
fn scenario_8_nothing_is_remembered_without_the_workload() {
    let gone = Site { workload: None, ..Site::of(&json!({})).remembering(&["web-0"]).pod("web-0", "n1") };
    assert_eq!(gone.status(), json!({"observedGeneration": 4}));
    let mut leaving = Site::of(&json!({"replicas": 1})).remembering(&["web-0"]);
    let workload = leaving.workload.as_mut().unwrap();
    workload.metadata.deletion_timestamp = Some(jiff::Timestamp::UNIX_EPOCH.into());
    assert_eq!(leaving.status(), json!({"observedGeneration": 4}));
}

#[test]
fn scenario_22_other_keys_rewrite_the_records_of_ready_pods() {
    let mut site = Site::of(&json!({"replicas": 2})).remembering(&["web-0", "web-1"]).pod("web-0", "n1");
    site.state["metadata"]["generation"] = json!(5);
    let site = site.spec("requiredPersistentTopology", Value::Null);
    let status = site.status();
    assert_eq!(status["observedGeneration"], 5);
    let labels = |name: &str| status["podStates"][name]["nodeTopologyLabels"].clone();
    assert_eq!(labels("web-0"), json!({"kubernetes.io/hostname": "n1"}));
    assert_eq!(labels("web-1"), json!({"zone": "z", "rack": "r"}), "not ready: it stays as it was");
}

#[test]
fn scenario_23_a_new_object_remembers_the_same() {
    let mut site = Site::of(&json!({"replicas": 2})).pod("web-0", "n1").pod("web-1", "n3");
    let before = site.status()["podStates"].clone();
    site.state["metadata"] = json!({"name": "pps", "uid": "q", "resourceVersion": "12", "generation": 1});
    site.state["status"] = Value::Null;
    assert_eq!((&site.status()["podStates"], site.names().len()), (&before, 2));
}

#[test]
fn sharp_edge_12_a_node_that_is_not_known_is_reported() {
    let site =
        Site::of(&json!({"replicas": 2})).remembering(&["web-1"]).pod("web-0", "n1").pod("web-1", "n7");
    assert_eq!(site.plan().unknown_node.as_deref(), Some("n7"));
    assert_eq!(site.names(), ["web-0", "web-1"], "the others are remembered");
    let status = site.status();
    assert_eq!(status["podStates"]["web-1"]["nodeName"], "n9");
}
