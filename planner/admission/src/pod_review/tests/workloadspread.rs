use serde_json::{Value, json};

use super::*;
use crate::pod_review::fixture::{Cluster, create, names, pod};
use crate::pod_review::{Known, Outcome, explain, mutate};
use crate::world::Watched;
use api::meta::OwnerReference;
use kinds::workloadspread::custom::WHITE_LIST;
use kinds::workloadspread::places::{Claim, PodEvent};
use pod::review::PodReview;
use values::verdict::Verdict;

fn spread(cluster: Cluster, target: (&str, &str, &str), subsets: Value) -> Cluster {
    let (api_version, kind, name) = target;
    let mut object = json!({"metadata": {"name": "ws", "namespace": "shop", "resourceVersion": "1"},
        "spec": {"targetRef": {"apiVersion": api_version, "kind": kind, "name": name}}});
    object["spec"]["subsets"] = subsets;
    cluster.apply(Watched::WorkloadSpread, &object)
}

const WEB: (&str, &str, &str) = ("apps.kruise.io/v1beta1", "CloneSet", "web");

fn owned(api_version: &str, kind: &str, name: &str) -> Value {
    let mut pod = pod(json!([{"name": "m"}]));
    pod["metadata"]["ownerReferences"] =
        json!([{"apiVersion": api_version, "kind": kind, "name": name, "uid": "u", "controller": true}]);
    pod
}

fn of_web() -> Value {
    owned("apps.kruise.io/v1alpha1", "CloneSet", "web")
}

fn limited() -> Value {
    json!([{"name": "a", "maxReplicas": 1, "patch": {"metadata": {"labels": {"pool": "a"}}}}, {"name": "b"}])
}

fn decided(cluster: &Cluster, pod: &Value, findings: &Findings) -> Outcome {
    let known = Known { spread: Some(findings), namespace: None };
    mutate(&create(&pod.to_string()), &cluster.world, known, &cluster.gates, cluster.moment())
}

/// The Pod after a review in which it gets a place.
fn placed(cluster: &Cluster, pod: &Value, subset: Option<&str>) -> Value {
    let findings =
        Findings { place: Some(("ws".to_owned(), subset.map(str::to_owned))), ..Findings::default() };
    match decided(cluster, pod, &findings) {
        Outcome::Decided(Verdict::Allow { edits, .. }) => {
            let mut pod = pod.clone();
            let patch: ::json_patch::Patch = serde_json::from_str(&edits.to_json()).unwrap();
            ::json_patch::patch(&mut pod, &patch).unwrap();
            pod
        }
        outcome => panic!("{outcome:?}"),
    }
}

fn mark(pod: &Value) -> Value {
    let text = pod["metadata"]["annotations"]["apps.kruise.io/matched-workloadspread"].as_str();
    text.map_or(Value::Null, |text| serde_json::from_str(text).unwrap())
}

#[test]
fn a_place_is_asked_for_and_the_pod_is_changed_by_its_subset() {
    let cluster = spread(Cluster::new(), WEB, limited());
    let Outcome::NeedsForSpread(need) = cluster.decide(&of_web()) else { panic!("no need") };
    let Need::Place(wanted) = *need else { panic!("{need:?}") };
    let event = PodEvent::Creation { id: "web-7".to_owned() };
    assert_eq!(
        wanted.claim(Some(4)),
        Claim { version: "versionIgnored".to_owned(), replicas: Some(4), event }
    );
    let pod = placed(&cluster, &of_web(), Some("a"));
    assert_eq!(mark(&pod), json!({"name": "ws", "subset": "a"}));
    assert_eq!(pod["metadata"]["labels"], json!({"app": "web", "pool": "a"}));
    let gate = json!([{"conditionType": "KruisePodReady"}]);
    assert_eq!(pod["spec"]["readinessGates"], gate, "what came before the step stays");
    assert_eq!(mark(&placed(&cluster, &of_web(), None)), Value::Null);
    assert_eq!(mark(&placed(&cluster, &of_web(), Some("gone"))), Value::Null);
}

#[test]
fn sidecar_sets_see_the_labels_of_the_subset() {
    let selecting = json!({"containers": [{"name": "agent"}], "selector": {"matchLabels": {"pool": "a"}}});
    let cluster = spread(Cluster::new().set("s", selecting), WEB, limited());
    let containers = |subset: &str| {
        let pod = placed(&cluster, &of_web(), Some(subset));
        names(&pod["spec"]["containers"]).into_iter().map(str::to_owned).collect::<Vec<_>>()
    };
    assert_eq!(containers("a"), ["agent", "m"]);
    assert_eq!(containers("b"), ["m"]);
}

#[test]
fn scenario_6_a_pod_without_a_name_is_known_by_a_uuid() {
    let cluster = spread(Cluster::new(), ("apps/v1", "Deployment", "web"), limited());
    let mut pod = owned("apps/v1", "ReplicaSet", "web-5d4f");
    pod["metadata"].as_object_mut().unwrap().remove("name");
    pod["metadata"]["generateName"] = json!("web-5d4f-");
    pod["metadata"]["labels"]["pod-template-hash"] = json!("5d4f");
    let Outcome::NeedsForSpread(need) = cluster.decide(&pod) else { panic!("no need") };
    let Need::Place(wanted) = *need else { panic!("{need:?}") };
    let claim = wanted.claim(None);
    assert_eq!(claim.version, "5d4f");
    let uid = mark(&placed(&cluster, &pod, Some("a")))["uid"].as_str().unwrap().to_owned();
    assert_eq!(claim.event, PodEvent::Creation { id: uid });
}

#[test]
fn scenario_19_a_single_subset_without_limit_asks_nobody() {
    let cluster = spread(Cluster::new(), WEB, json!([{"name": "a"}]));
    let pod = cluster.admit(&of_web());
    assert_eq!(mark(&pod), json!({"name": "ws", "subset": "a"}));
    assert_eq!(cluster.admit(&pod), pod, "a second review changes nothing");
}

#[test]
fn owners_are_asked_for_only_where_a_target_may_be_above() {
    let list = r#"{"workloads":[{"group":"kubeflow.org","kind":"TFJob","subResources":[{"group":"kubeflow.org","kind":"Group"}]}]}"#;
    let mut map =
        json!({"metadata": {"name": "kruise-configuration", "namespace": "kruise-system"}, "data": {}});
    map["data"][WHITE_LIST] = json!(list);
    let cluster = Cluster::new().apply(Watched::ConfigMap, &map);
    let cluster = spread(cluster, ("kubeflow.org/v1", "TFJob", "train"), json!([{"name": "a"}]));
    let pod = owned("kubeflow.org/v1", "Group", "workers");
    let Outcome::NeedsForSpread(need) = cluster.decide(&pod) else { panic!("no need") };
    let Need::Owner(owner) = *need else { panic!("{need:?}") };
    assert_eq!((owner.kind.as_str(), owner.name.as_str(), owner.uid.as_str()), ("Group", "workers", "u"));
    let mut findings = Findings::default();
    let job = OwnerReference {
        api_version: "kubeflow.org/v1".to_owned(),
        kind: "TFJob".to_owned(),
        name: "train".to_owned(),
        ..OwnerReference::default()
    };
    findings.owners.add(owner, Some(job));
    let Outcome::Decided(Verdict::Allow { edits, .. }) = decided(&cluster, &pod, &findings) else {
        panic!("not decided")
    };
    assert!(!edits.is_empty());
    let other = owned("apps/v1", "DaemonSet", "agents");
    assert_eq!(cluster.decide(&other), Outcome::Decided(Verdict::allow()), "a kind that nobody lists");
}

#[test]
fn scenarios_23_and_36_dry_runs_and_the_gate_leave_pods_alone() {
    let cluster = spread(Cluster::new(), WEB, json!([{"name": "a"}]));
    let object = of_web().to_string();
    let dry = PodReview { dry_run: true, ..create(&object) };
    let outcome = mutate(&dry, &cluster.world, Known::default(), &cluster.gates, cluster.moment());
    let Outcome::Decided(Verdict::Allow { edits, .. }) = outcome else { panic!("{outcome:?}") };
    assert!(!edits.to_json().contains("matched-workloadspread"));
    let off = cluster.gates("WorkloadSpread=false");
    assert_eq!(mark(&off.admit(&of_web())), Value::Null);
}

#[test]
fn a_patch_that_does_not_fit_refuses_the_pod() {
    let patch = json!({"spec": {"containers": [{"image": "x"}]}});
    let cluster = spread(Cluster::new(), WEB, json!([{"name": "a", "patch": patch}]));
    let (code, message) = cluster.refuse(&of_web());
    assert_eq!(code, 500);
    assert!(message.starts_with("failed to merge patch of subset \"a\""), "{message}");
}

#[test]
fn a_pod_that_needs_a_subset_is_not_let_through_without() {
    let mut object = json!({"metadata": {"name": "ws", "namespace": "shop", "resourceVersion": "1", "annotations": {"kutter.io/require-subset": "true"}},
        "spec": {"targetRef": {"apiVersion": WEB.0, "kind": WEB.1, "name": WEB.2}}});
    object["spec"]["subsets"] = limited();
    let cluster = Cluster::new().apply(Watched::WorkloadSpread, &object);
    assert_eq!(mark(&placed(&cluster, &of_web(), Some("a")))["subset"], "a");
    for subset in [None, Some("gone".to_owned())] {
        let findings = Findings { place: Some(("ws".to_owned(), subset)), ..Findings::default() };
        let Outcome::Decided(Verdict::Deny(denial)) = decided(&cluster, &of_web(), &findings) else {
            panic!("let through")
        };
        assert_eq!(denial.code, 403);
        let expected = "no subset of WorkloadSpread ws takes the Pod, which its annotation kutter.io/require-subset asks for";
        assert_eq!(denial.message, expected);
    }
    let other = owned("apps.kruise.io/v1beta1", "CloneSet", "other");
    assert_eq!(mark(&cluster.admit(&other)), Value::Null, "Pods of others need none");
}

#[test]
fn every_spread_of_the_namespace_is_explained() {
    let cluster = spread(Cluster::new(), WEB, json!([{"name": "a"}]));
    let other = json!({"metadata": {"name": "other", "namespace": "shop"}, "spec": {"subsets": [{"name": "a"}],
        "targetRef": {"apiVersion": "apps/v1", "kind": "ReplicaSet", "name": "x"}}});
    let cluster = cluster.apply(Watched::WorkloadSpread, &other);
    let object = of_web().to_string();
    let (_, told) =
        explain(&create(&object), &cluster.world, Known::default(), &cluster.gates, cluster.moment());
    let told: Vec<String> = told.iter().map(ToString::to_string).collect();
    let expected = [
        "WorkloadSpread other: does not divide the Pods of its workload: spec.targetRef is another one",
        "WorkloadSpread ws: puts the Pod into subset a",
    ];
    assert_eq!(told, expected);
}
