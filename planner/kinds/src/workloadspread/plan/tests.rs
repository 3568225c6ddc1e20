use api::kinds::workloadspread::Status;
use serde_json::{Value, json};

use super::*;
use pod::node_fit::{Node, Taint};

const NOW: &str = "2026-07-02T09:00:00Z";

fn now() -> Timestamp {
    NOW.parse().unwrap()
}

fn ago(seconds: i64) -> String {
    values::moment::rfc3339(now() - SignedDuration::from_secs(seconds))
}

/// A WorkloadSpread and the Pods of its target.
struct Scene {
    object: Value,
    pods: Vec<Value>,
    nodes: BTreeMap<&'static str, (&'static str, Vec<Taint>)>,
    replicas: i32,
    latest: Option<&'static str>,
}

impl Scene {
    fn new(kind: &str, subsets: Value) -> Self {
        let group = if kind == "CloneSet" { "apps.kruise.io/v1beta1" } else { "apps/v1" };
        let mut object = json!({"metadata": {"name": "ws", "namespace": "shop", "resourceVersion": "7", "generation": 3, "creationTimestamp": ago(10)},
            "spec": {"targetRef": {"apiVersion": group, "kind": kind, "name": "web"}}, "status": {}});
        object["spec"]["subsets"] = subsets;
        let nodes = [("na", ("a", Vec::new())), ("nb", ("b", Vec::new()))].into_iter().collect();
        Self { object, pods: Vec::new(), nodes, replicas: 0, latest: Some("versionIgnored") }
    }

    /// A running Pod, of a subset unless that is empty.
    fn pod(mut self, name: &str, subset: &str, change: impl Fn(&mut Value)) -> Self {
        let mut pod = json!({"metadata": {"name": name, "namespace": "shop", "uid": format!("uid-{name}"), "creationTimestamp": ago(1000),
            "ownerReferences": [{"apiVersion": "apps.kruise.io/v1beta1", "kind": "CloneSet", "name": "web", "uid": "w", "controller": true}]},
            "spec": {"nodeName": "na", "containers": [{"name": "main"}]},
            "status": {"phase": "Running", "conditions": [{"type": "Ready", "status": "True", "lastTransitionTime": ago(500)}]}});
        if !subset.is_empty() {
            let mark = json!({"name": "ws", "subset": subset}).to_string();
            pod["metadata"]["annotations"] = json!({"apps.kruise.io/matched-workloadspread": mark});
        }
        change(&mut pod);
        self.pods.push(pod);
        self
    }

    fn status(mut self, status: Value) -> Self {
        self.object["status"] = status;
        self
    }

    fn spread(&self) -> Spread {
        Spread::read(&self.object.to_string()).unwrap()
    }

    fn plan(&self) -> Plan {
        let spread = self.spread();
        let texts: BTreeMap<Box<str>, String> = self
            .pods
            .iter()
            .map(|pod| (pod["metadata"]["name"].as_str().unwrap().into(), pod.to_string()))
            .collect();
        let pods: Vec<Arc<ObservedPod>> =
            self.pods.iter().map(|pod| Arc::new(ObservedPod::read(&pod.to_string()).unwrap())).collect();
        let candidates = unmarked(&spread, &pods, now()).map(|pod| {
            let (name, (zone, taints)) = self.nodes.get_key_value(&*pod.spec.node_name).unwrap();
            let node = Node { name, labels: [("zone", *zone)].into_iter().collect(), taints };
            (pod.metadata.name.clone(), Candidate { pod: &texts[&pod.metadata.name], node })
        });
        let candidates = candidates.collect();
        let versioned = VersionedKinds::default();
        let (replicas, latest) = (self.replicas, self.latest);
        let snapshot = Snapshot {
            spread: &spread,
            pods: &pods,
            replicas,
            latest,
            versioned: &versioned,
            candidates: &candidates,
        };
        plan(&snapshot, now())
    }

    /// The status after the plan.
    fn counted(&self) -> Value {
        let mut object = self.object.clone();
        if let Some(patch) = self.plan().status {
            json_patch::merge(&mut object, &serde_json::from_str(&patch).unwrap());
        }
        let status: Status = serde_json::from_value(object["status"].clone()).unwrap();
        assert_eq!(status.observed_generation, Some(3));
        object["status"].clone()
    }

    /// The metadata that each Pod gets.
    fn written(&self) -> BTreeMap<String, Value> {
        let plan = self.plan();
        let patches = plan.pods.iter().map(|patched| {
            let mut patch: Value = serde_json::from_str(&patched.patch).unwrap();
            assert_eq!(patch["metadata"]["uid"], *patched.pod.metadata.uid);
            (patched.pod.metadata.name.to_string(), patch["metadata"].take())
        });
        patches.collect()
    }

    fn costs(&self) -> BTreeMap<String, String> {
        let cost =
            |value: &Value| value["annotations"][POD_DELETION_COST].as_str().unwrap_or_default().to_owned();
        self.written().into_iter().map(|(name, metadata)| (name, cost(&metadata))).collect()
    }

    fn write_costs(&mut self) {
        let costs = self.costs();
        for pod in &mut self.pods {
            if let Some(cost) = costs.get(pod["metadata"]["name"].as_str().unwrap()) {
                pod["metadata"]["annotations"][POD_DELETION_COST] = json!(cost);
            }
        }
    }
}

/// A ReplicaSet of ten Pods, every other one in the first subset, whose costs are written.
fn halves() -> Scene {
    let mut scene = Scene::new(
        "ReplicaSet",
        json!([{"name": "a", "maxReplicas": "50%"}, {"name": "b", "maxReplicas": "50%"}]),
    );
    for number in 0..10 {
        scene = scene.pod(&format!("p{number}"), ["a", "b"][number % 2], as_is);
    }
    scene.replicas = 10;
    scene.write_costs();
    scene
}

fn costs(expected: &[(&str, &str)]) -> BTreeMap<String, String> {
    expected.iter().map(|(name, cost)| ((*name).to_owned(), (*cost).to_owned())).collect()
}

fn zones() -> Value {
    let zone =
        |zone: &str| json!({"matchExpressions": [{"key": "zone", "operator": "In", "values": [zone]}]});
    json!([{"name": "a", "maxReplicas": 1, "requiredNodeSelector": zone("a")}, {"name": "b", "requiredNodeSelector": zone("b")}])
}

fn item(name: &str, replicas: i32, missing: i32) -> Value {
    json!({"name": name, "replicas": replicas, "missingReplicas": missing})
}

fn as_is(_: &mut Value) {}

#[test]
fn scenario_2_costs_follow_the_order_of_the_subsets() {
    let scene = Scene::new("CloneSet", json!([{"name": "a", "maxReplicas": 3}, {"name": "b"}]));
    let scene = scene.pod("p1", "a", as_is).pod("p2", "b", as_is).pod("p3", "b", |pod| {
        pod["metadata"]["annotations"][POD_DELETION_COST] = json!("100");
    });
    assert_eq!(scene.costs(), costs(&[("p1", "200"), ("p2", "100")]), "one that is right is not written");
    assert_eq!(scene.counted()["subsetStatuses"], json!([item("a", 1, 2), item("b", 2, -1)]));
    assert_eq!(
        scene.counted()["versionedSubsetStatuses"],
        json!({"versionIgnored": [item("a", 1, 2), item("b", 2, -1)]})
    );
}

#[test]
fn scenario_4_the_worst_of_too_many_cost_least() {
    let scene = Scene::new("CloneSet", json!([{"name": "a", "maxReplicas": 1}, {"name": "b"}]));
    let scene = scene
        .pod("p1", "a", as_is)
        .pod("p2", "a", |pod| pod["status"]["conditions"][0]["status"] = json!("False"))
        .pod("p3", "a", |pod| pod["spec"]["nodeName"] = json!(""));
    assert_eq!(scene.costs(), costs(&[("p1", "200"), ("p2", "-100"), ("p3", "-100")]));
    assert_eq!(scene.counted()["subsetStatuses"][0], item("a", 3, 0));
}

#[test]
fn scenario_5_old_versions_leave_the_first_subset_first() {
    let of = |hash: &'static str| {
        move |pod: &mut Value| {
            pod["metadata"]["labels"] = json!({"pod-template-hash": hash});
            pod["metadata"]["ownerReferences"][0]["kind"] = json!("ReplicaSet");
        }
    };
    let mut scene = Scene::new("Deployment", json!([{"name": "a", "maxReplicas": 2}, {"name": "b"}]))
        .pod("o1", "a", of("old"))
        .pod("o2", "b", of("old"))
        .pod("n1", "a", of("new"))
        .pod("n2", "b", of("new"));
    scene.latest = Some("new");
    assert_eq!(scene.costs(), costs(&[("o1", "100"), ("o2", "200"), ("n1", "200"), ("n2", "100")]));
    let versions = &scene.counted()["versionedSubsetStatuses"];
    assert_eq!((&versions["old"][0], &versions["new"][0]), (&item("a", 1, 1), &item("a", 1, 1)));
    scene.latest = None;
    assert_eq!(scene.costs()["o1"], "200", "while the latest is not known, all are treated alike");
    scene.pods.remove(0);
    scene.pods.remove(0);
    let scene =
        scene.status(json!({"versionedSubsetStatuses": {"old": [item("a", 1, 1), item("b", 1, -1)]}}));
    assert_eq!(
        scene.counted()["versionedSubsetStatuses"].as_object().unwrap().keys().collect::<Vec<_>>(),
        ["new"]
    );
}

#[test]
fn a_pod_that_goes_changes_the_cost_of_one_other_at_most() {
    let written =
        |pod: &Value| pod["metadata"]["annotations"][POD_DELETION_COST].as_str().unwrap().to_owned();
    for gone in 0..10 {
        let mut scene = halves();
        assert_eq!(scene.costs(), costs(&[]), "what is written stays");
        let (subset, worst, least) = [("a", "p0", "999991"), ("b", "p1", "999990")][gone % 2];
        let cost = written(&scene.pods.remove(gone));
        let expected = if cost == least { costs(&[]) } else { costs(&[(worst, &cost)]) };
        assert_eq!(scene.costs(), expected, "without p{gone}");
        scene.write_costs();
        let mut scene = scene.pod("new", subset, as_is);
        assert_eq!(scene.costs(), costs(&[("new", least)]), "instead of p{gone}");
        scene.write_costs();
        let all: std::collections::BTreeSet<String> = scene.pods.iter().map(written).collect();
        assert_eq!(all.len(), 10, "each has a cost of its own: {all:?}");
    }
}

#[test]
fn costs_are_given_out_by_rank_and_kept_whatever_the_rank() {
    let not_ready = |pod: &mut Value| pod["status"]["conditions"][0]["status"] = json!("False");
    let mut scene = halves();
    not_ready(&mut scene.pods[8]);
    assert_eq!(scene.costs(), costs(&[]));
    scene.pods.drain(0..4);
    let scene = scene.pod("n1", "a", as_is).pod("n2", "a", not_ready);
    assert_eq!(scene.costs(), costs(&[("n1", "999993"), ("n2", "999991")]));
}

#[test]
fn jobs_and_others_get_no_cost() {
    let mut scene = Scene::new("Job", json!([{"name": "a", "maxReplicas": 1}])).pod("p1", "a", as_is);
    scene.object["spec"]["targetRef"]["apiVersion"] = json!("batch/v1");
    assert!(scene.written().is_empty());
}

#[test]
fn scenario_25_pods_that_were_there_before_are_adopted_by_their_zone() {
    let scene = Scene::new("CloneSet", zones())
        .pod("a1", "", as_is)
        .pod("a2", "", |pod| pod["status"]["conditions"][0]["status"] = json!("False"))
        .pod("b1", "", |pod| pod["spec"]["nodeName"] = json!("nb"))
        .pod("u1", "", |pod| pod["spec"]["nodeName"] = json!(""));
    assert_eq!(scene.costs(), costs(&[("a1", "200"), ("a2", "-100"), ("b1", "100"), ("u1", "-300")]));
    let written = scene.written();
    let mark = |name: &str| written[name]["annotations"]["apps.kruise.io/matched-workloadspread"].clone();
    assert_eq!(
        (mark("a2"), mark("b1")),
        (json!(r#"{"name":"ws","subset":"a"}"#), json!(r#"{"name":"ws","subset":"b"}"#))
    );
    assert!(mark("u1").is_null());
    assert_eq!(scene.counted()["subsetStatuses"], json!([item("a", 2, 0), item("b", 1, -1)]));
}

#[test]
fn scenario_26_metadata_of_the_patch_comes_onto_adopted_pods_unless_ignored() {
    let mut subsets = zones();
    subsets[0]["patch"] = json!({"metadata": {"labels": {"subset": "a"}, "annotations": {"k": "v"}}, "spec": {"hostname": "h"}});
    let mut scene = Scene::new("CloneSet", subsets).pod("a1", "", as_is);
    let patched = &scene.written()["a1"];
    assert_eq!((&patched["labels"], &patched["annotations"]["k"]), (&json!({"subset": "a"}), &json!("v")));
    scene.object["metadata"]["annotations"] =
        json!({"workloadspread.kruise.io/ignore-patch-existing-pods-metadata": "True"});
    let patched = &scene.written()["a1"];
    assert!(patched["labels"].is_null() && patched["annotations"]["k"].is_null());
    assert!(!patched["annotations"]["apps.kruise.io/matched-workloadspread"].is_null());
}

#[test]
fn scenario_27_weights_choose_among_subsets_then_patches_then_slots() {
    let preferring = |weight: i32| json!([{"weight": weight, "preference": {"matchExpressions": [{"key": "zone", "operator": "Exists"}]}}]);
    let adopted = |subsets: Value| {
        let scene = Scene::new("CloneSet", subsets).pod("p", "", as_is);
        let mark = scene.written()["p"]["annotations"]["apps.kruise.io/matched-workloadspread"].clone();
        serde_json::from_str::<Value>(mark.as_str().unwrap()).unwrap()["subset"].as_str().unwrap().to_owned()
    };
    let (a, b) = (
        json!({"name": "a", "preferredNodeSelector": preferring(10)}),
        json!({"name": "b", "preferredNodeSelector": preferring(90)}),
    );
    assert_eq!(adopted(json!([a, b])), "b");
    assert_eq!(adopted(json!([{"name": "a"}, {"name": "b"}])), "a");
    assert_eq!(adopted(json!([{"name": "a", "maxReplicas": 0}, {"name": "b"}])), "b");
    assert_eq!(adopted(json!([{"name": "a", "patch": {"spec": {"hostname": "h"}}}, {"name": "b"}])), "b");
    let annotation = json!({"metadata": {"annotations": {"k": "v"}}});
    assert_eq!(adopted(json!([{"name": "a", "patch": annotation}, {"name": "b"}])), "a");
}

#[test]
fn taints_keep_a_pod_out_of_subsets_that_do_not_tolerate_them() {
    let taint = |key: &str, effect: &str| Taint { key: key.into(), value: "".into(), effect: effect.into() };
    let tolerant =
        json!([{"name": "a"}, {"name": "b", "tolerations": [{"key": "gpu", "operator": "Exists"}]}]);
    let adopted = |taints: Vec<Taint>| {
        let mut scene = Scene::new("CloneSet", tolerant.clone()).pod("p", "", as_is);
        scene.nodes.insert("na", ("a", taints));
        scene.costs()["p"].clone()
    };
    assert_eq!(adopted(vec![taint("gpu", "NoSchedule")]), "100");
    assert_eq!(adopted(vec![taint("other", "NoExecute")]), "-300");
    assert_eq!(adopted(vec![taint("other", "PreferNoSchedule")]), "200");
    assert_eq!(
        adopted(vec![taint("node.kubernetes.io/unschedulable", "NoSchedule")]),
        "200",
        "a cordon moves nobody"
    );
}

#[test]
fn scenario_31_a_pod_that_got_no_slot_is_left_alone_at_first() {
    let created =
        |seconds: i64| move |pod: &mut Value| pod["metadata"]["creationTimestamp"] = json!(ago(seconds));
    let scene = || Scene::new("CloneSet", json!([{"name": "a", "maxReplicas": 1}]));
    assert!(scene().pod("p", "", created(1)).written().is_empty());
    assert_eq!(scene().pod("p", "", created(8)).costs(), costs(&[("p", "100")]), "later it is adopted");
    let mut younger = scene().pod("p", "", created(1));
    younger.object["metadata"]["creationTimestamp"] = json!(ago(0));
    assert_eq!(younger.costs(), costs(&[("p", "100")]), "the WorkloadSpread came after it");
}

#[test]
fn scenario_38_pods_of_a_subset_that_is_gone_count_nowhere() {
    let scene = Scene::new("CloneSet", json!([{"name": "x", "maxReplicas": 3}, {"name": "b"}]));
    let scene = scene
        .pod("p1", "a", as_is)
        .status(json!({"versionedSubsetStatuses": {"versionIgnored": [item("a", 1, 2), item("b", 0, -1)]}}));
    assert_eq!(scene.costs(), costs(&[("p1", "-300")]));
    assert_eq!(
        scene.counted()["versionedSubsetStatuses"]["versionIgnored"],
        json!([item("x", 0, 3), item("b", 0, -1)])
    );
}

fn with_records(creating: Value, deleting: Value) -> Value {
    let mut a = item("a", 0, 0);
    a["creatingPods"] = creating;
    a["deletingPods"] = deleting;
    json!({"versionedSubsetStatuses": {"versionIgnored": [a]}})
}

#[test]
fn scenario_24_a_pod_that_never_came_frees_its_slot_after_30_seconds() {
    let scene = |seconds: i64| {
        let status = with_records(json!({"p1": ago(seconds), "uid-2": ago(1)}), json!({}));
        let scene = Scene::new("CloneSet", json!([{"name": "a", "maxReplicas": 3}])).status(status);
        scene.pod("p2", "a", |pod| {
            let mark = r#"{"name":"ws","subset":"a","uid":"uid-2"}"#;
            pod["metadata"]["annotations"]["apps.kruise.io/matched-workloadspread"] = json!(mark);
        })
    };
    let waiting = scene(20);
    let mut expected = item("a", 1, 1);
    expected["creatingPods"] = json!({"p1": ago(20)});
    assert_eq!(
        waiting.counted()["versionedSubsetStatuses"]["versionIgnored"][0],
        expected,
        "the other one is there"
    );
    assert_eq!(waiting.counted()["subsetStatuses"][0], item("a", 1, 2), "records are in the versions alone");
    assert_eq!(waiting.plan().next, Some(SignedDuration::from_secs(10)));
    let over = scene(31);
    assert_eq!(over.counted()["versionedSubsetStatuses"]["versionIgnored"][0], item("a", 1, 2));
    let reported =
        warning("CreatePodFailed", "Pod shop/p1 was expected to be created but it wasn't".to_owned());
    assert_eq!(over.plan().events, [reported], "once");
}

#[test]
fn scenario_22_a_pod_that_stays_takes_its_slot_back_after_15_seconds() {
    let scene = |seconds: i64| {
        let status = with_records(json!({}), json!({"p1": ago(seconds), "gone": ago(seconds)}));
        Scene::new("CloneSet", json!([{"name": "a", "maxReplicas": 1}])).status(status).pod("p1", "a", as_is)
    };
    let mut expected = item("a", 1, 1);
    expected["deletingPods"] = json!({"p1": ago(10)});
    assert_eq!(scene(10).counted()["versionedSubsetStatuses"]["versionIgnored"][0], expected);
    assert_eq!(scene(10).plan().next, Some(SignedDuration::from_secs(5)));
    assert_eq!(scene(16).counted()["versionedSubsetStatuses"]["versionIgnored"][0], item("a", 1, 0));
    let reported =
        warning("DeletePodFailed", "Pod shop/p1 was expected to be deleted but it wasn't".to_owned());
    assert_eq!(scene(16).plan().events, [reported]);
}

#[test]
fn a_status_that_is_right_is_not_written_and_numbers_are_there_without_pods() {
    let mut scene = Scene::new("CloneSet", json!([{"name": "a", "maxReplicas": "50%"}, {"name": "b"}]));
    scene.replicas = 5;
    assert_eq!(scene.counted()["subsetStatuses"], json!([item("a", 0, 3), item("b", 0, -1)]));
    let status = scene.counted();
    assert_eq!(scene.status(status).plan(), Plan::default());
}

fn adaptive(status: Value) -> Scene {
    let mut scene =
        Scene::new("CloneSet", json!([{"name": "a", "maxReplicas": 2}, {"name": "b"}])).status(status);
    scene.object["spec"]["scheduleStrategy"] =
        json!({"type": "Adaptive", "adaptive": {"rescheduleCriticalSeconds": 30}});
    scene
}

fn pending(seconds: i64) -> impl Fn(&mut Value) {
    move |pod: &mut Value| {
        pod["metadata"]["creationTimestamp"] = json!(ago(seconds));
        pod["spec"]["nodeName"] = json!("");
        pod["status"] = json!({"phase": "Pending", "conditions": [{"type": "PodScheduled", "status": "False", "reason": "Unschedulable"}]});
    }
}

fn condition(status: &Value, position: usize) -> (String, String, String) {
    let condition = &status["subsetStatuses"][position]["conditions"][0];
    let text = |key: &str| condition[key].as_str().unwrap_or_default().to_owned();
    (text("status"), text("reason"), text("lastTransitionTime"))
}

#[test]
fn scenario_28_pods_without_a_node_are_replaced_in_the_next_subset() {
    let early = adaptive(json!({})).pod("p1", "a", pending(20));
    assert_eq!(early.plan().next, Some(SignedDuration::from_secs(10)));
    assert!(early.plan().stuck.is_empty());
    assert_eq!(condition(&early.counted(), 0), ("True".into(), "Sufficient".into(), NOW.into()));
    let late = adaptive(json!({})).pod("p1", "a", pending(31)).pod("p2", "b", pending(31));
    let stuck: Vec<String> =
        late.plan().stuck.iter().map(|stuck| stuck.pod.metadata.name.to_string()).collect();
    assert_eq!(stuck, ["p1"], "those of the last subset wait");
    assert_eq!(condition(&late.counted(), 0), ("False".into(), "PodUnschedulable".into(), NOW.into()));
    assert_eq!(condition(&late.counted(), 1), ("True".into(), "Sufficient".into(), NOW.into()));
    let versioned =
        &late.counted()["versionedSubsetStatuses"]["versionIgnored"][0]["conditions"][0]["status"];
    assert_eq!(versioned, "False", "which admission reads");
    let words = "Failed to delete unschedulabe Pod shop/p1 in Subset a of WorkloadSpread shop/ws";
    assert_eq!(late.plan().stuck[0].on_failure, warning("DeletePodFailed", words.to_owned()));
}

/// A subset `a` without Pods, whose Pods became unschedulable so many seconds ago.
fn unschedulable(seconds: i64) -> Scene {
    let condition = json!([{"type": "Schedulable", "status": "False", "reason": "PodUnschedulable", "message": "", "lastTransitionTime": ago(seconds)}]);
    let mut a = item("a", 0, 2);
    a["conditions"] = condition;
    adaptive(json!({"subsetStatuses": [a.clone()], "versionedSubsetStatuses": {"versionIgnored": [a]}}))
}

#[test]
fn scenario_28_a_subset_is_left_out_though_all_of_its_pods_are_gone() {
    let of_version = |scene: Scene| scene.counted()["versionedSubsetStatuses"]["versionIgnored"].clone();
    let kept = of_version(unschedulable(10));
    assert_eq!(kept[0]["conditions"][0]["status"], "False", "the next Pod passes it by: {kept:#}");
    assert_eq!(of_version(unschedulable(301)), Value::Null, "in the end nothing is left of the version");
    let mut fixed = unschedulable(10);
    fixed.object["spec"]["scheduleStrategy"] = json!({"type": "Fixed"});
    assert_eq!(of_version(fixed), Value::Null);
}

#[test]
fn scenario_29_a_subset_recovers_after_five_minutes() {
    let since = |seconds: i64| unschedulable(seconds).pod("p1", "b", as_is);
    let of_version = |seconds: i64| {
        let condition =
            since(seconds).counted()["versionedSubsetStatuses"]["versionIgnored"][0]["conditions"][0].clone();
        (condition["status"].clone(), condition["lastTransitionTime"].clone())
    };
    assert_eq!(of_version(290), (json!("False"), json!(ago(290))), "which admission reads");
    assert_eq!(of_version(301), (json!("True"), json!(NOW)));
    assert_eq!(condition(&since(290).counted(), 0), ("False".into(), "PodUnschedulable".into(), ago(290)));
    assert_eq!(since(290).plan().next, Some(SignedDuration::from_secs(10)));
    assert_eq!(condition(&since(301).counted(), 0), ("True".into(), "Sufficient".into(), NOW.into()));
    let reported = "Subset a of WorkloadSpread shop/ws is recovered from unschedulable to schedulable";
    assert_eq!(since(301).plan().events, [values::event::normal("RecoverSchedulable", reported.to_owned())]);
}

#[test]
fn scenario_47_a_subset_is_left_out_until_a_pod_has_tried_all_others() {
    for (critical, subsets, recovery) in
        [(30, 3, 300), (147, 3, 300), (148, 3, 301), (600, 2, 605), (3600, 4, 10_805)]
    {
        let left_out = |seconds: i64| {
            let mut scene = unschedulable(seconds);
            let names = ["a", "b", "c", "d"].into_iter().take(subsets);
            scene.object["spec"]["subsets"] = names.map(|name| json!({"name": name})).collect();
            scene.object["spec"]["scheduleStrategy"]["adaptive"]["rescheduleCriticalSeconds"] =
                json!(critical);
            condition(&scene.counted(), 0).0 == "False"
        };
        assert!(left_out(recovery), "{critical} {subsets}");
        assert!(!left_out(recovery + 1), "{critical} {subsets}");
        // Until the last subset gets the Pod, which the ones before had for so long each, none has recovered.
        assert!(recovery > critical * (i64::try_from(subsets).unwrap() - 2));
    }
}

#[test]
fn scenario_30_without_the_adaptive_strategy_nobody_is_replaced() {
    for strategy in [
        json!({}),
        json!({"type": "Fixed"}),
        json!({"type": "Adaptive"}),
        json!({"type": "Adaptive", "adaptive": {"rescheduleCriticalSeconds": 0}}),
    ] {
        let mut scene = adaptive(json!({"subsetStatuses": []})).pod("p1", "a", pending(400));
        scene.object["spec"]["scheduleStrategy"] = strategy;
        assert!(scene.plan().stuck.is_empty());
        assert_eq!(scene.counted()["subsetStatuses"][0], item("a", 1, 1));
    }
}

#[test]
fn scenario_32_finished_pods_free_their_slot() {
    let scene = Scene::new("CloneSet", json!([{"name": "a", "maxReplicas": 2}]));
    let scene = scene.pod("p1", "a", |pod| pod["status"]["phase"] = json!("Succeeded")).pod("p2", "a", as_is);
    assert_eq!(scene.counted()["subsetStatuses"][0], item("a", 1, 1));
}
