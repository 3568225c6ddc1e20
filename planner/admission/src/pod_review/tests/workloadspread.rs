use serde_json::{Value, json};

use super::*;
use crate::pod_review::fixture::{Cluster, create, names, pod};
use crate::world::Watched;
use api::meta::OwnerReference;
use kinds::workloadspread::custom::WHITE_LIST;
use kinds::workloadspread::slots::{Claim, PodEvent};
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

/// The placement that `subset` has a slot for, or that is known anyway; with the claim on the slot.
fn placement(cluster: &Cluster, pod: &Value, subset: Option<&str>) -> (Resolved, Option<Claim>) {
    let pod = pod.to_string();
    let review = cluster.begin(&pod);
    assert!(review.awaits(&cluster.world));
    let (placement, claim) = match review.choose(&cluster.world, &Owners::default()) {
        Choice::Known(placement) => (placement, None),
        Choice::Slot(slot) => {
            let claim = slot.claim(Some(4));
            (Some(slot.placement(subset.map(str::to_owned))), Some(claim))
        }
        Choice::Owner(owner) => panic!("{owner:?}"),
    };
    (Resolved { placement, ..Resolved::default() }, claim)
}

/// The Pod after a review in which it is placed.
fn placed(cluster: &Cluster, pod: &Value, subset: Option<&str>) -> Value {
    cluster.review_with(pod, &placement(cluster, pod, subset).0).0
}

fn mark(pod: &Value) -> Value {
    let text = pod["metadata"]["annotations"]["apps.kruise.io/matched-workloadspread"].as_str();
    text.map_or(Value::Null, |text| serde_json::from_str(text).unwrap())
}

#[test]
fn a_slot_is_asked_for_and_the_pod_is_changed_by_its_subset() {
    let cluster = spread(Cluster::new(), WEB, limited());
    let event = PodEvent::Creation { id: "web-7".to_owned() };
    let claim = Claim { version: "versionIgnored".to_owned(), replicas: Some(4), event };
    assert_eq!(placement(&cluster, &of_web(), None).1, Some(claim));
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
    let claim = placement(&cluster, &pod, None).1.unwrap();
    assert_eq!(claim.version, "5d4f");
    let uid = mark(&placed(&cluster, &pod, Some("a")))["uid"].as_str().unwrap().to_owned();
    assert_eq!(claim.event, PodEvent::Creation { id: uid });
}

#[test]
fn scenario_19_a_single_subset_without_limit_asks_nobody() {
    let cluster = spread(Cluster::new(), WEB, json!([{"name": "a"}]));
    let pod = placed(&cluster, &of_web(), None);
    assert_eq!(placement(&cluster, &of_web(), None).1, None);
    assert_eq!(mark(&pod), json!({"name": "ws", "subset": "a"}));
    assert_eq!(placed(&cluster, &pod, None), pod, "a second review changes nothing");
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
    let text = pod.to_string();
    let review = cluster.begin(&text);
    let Choice::Owner(owner) = review.choose(&cluster.world, &Owners::default()) else {
        panic!("not asked for")
    };
    assert_eq!((owner.kind.as_str(), owner.name.as_str(), owner.uid.as_str()), ("Group", "workers", "u"));
    let mut owners = Owners::default();
    let job = OwnerReference {
        api_version: "kubeflow.org/v1".to_owned(),
        kind: "TFJob".to_owned(),
        name: "train".to_owned(),
        ..OwnerReference::default()
    };
    owners.add(owner, Some(job));
    let Choice::Known(placement @ Some(_)) = review.choose(&cluster.world, &owners) else {
        panic!("not known")
    };
    let resolved = Resolved { placement, ..Resolved::default() };
    assert_eq!(mark(&cluster.review_with(&pod, &resolved).0), json!({"name": "ws", "subset": "a"}));
    let other = owned("apps/v1", "DaemonSet", "agents");
    assert_eq!(placed(&cluster, &other, None), other, "a kind that nobody lists");
}

#[test]
fn scenarios_23_and_36_dry_runs_and_the_gate_leave_pods_alone() {
    let cluster = spread(Cluster::new(), WEB, json!([{"name": "a"}]));
    let object = of_web().to_string();
    let dry_run = PodReview { dry_run: true, ..create(&object) };
    let dry_run = Review::begin(dry_run, &cluster.gates, cluster.moment()).unwrap();
    let off = cluster.clone().gates("WorkloadSpread=false");
    for review in [dry_run, off.begin(&object)] {
        assert!(!review.awaits(&cluster.world));
        assert!(matches!(review.choose(&cluster.world, &Owners::default()), Choice::Known(None)));
    }
}

#[test]
fn a_pod_that_is_refused_before_takes_no_slot() {
    let cluster = spread(Cluster::new(), WEB, limited());
    let mut pod = of_web();
    pod["spec"]["readinessGates"] = json!("none");
    let pod = pod.to_string();
    let refused = Review::begin(create(&pod), &cluster.gates, cluster.moment()).unwrap_err();
    assert_eq!(refused.denial().map(|denial| denial.code), Some(400));
}

#[test]
fn a_spread_that_goes_while_a_slot_is_claimed_leaves_the_pod_alone() {
    let cluster = spread(Cluster::new(), WEB, limited());
    let (resolved, _) = placement(&cluster, &of_web(), Some("a"));
    assert_eq!(mark(&Cluster::new().review_with(&of_web(), &resolved).0), Value::Null);
}

#[test]
fn a_patch_that_does_not_fit_refuses_the_pod() {
    let patch = json!({"spec": {"containers": [{"image": "x"}]}});
    let cluster = spread(Cluster::new(), WEB, json!([{"name": "a", "patch": patch}]));
    let verdict = cluster.decide_text(&of_web().to_string(), &placement(&cluster, &of_web(), None).0);
    let Verdict::Deny(Denial { code: 500, message }) = verdict else { panic!("{verdict:?}") };
    assert!(message.starts_with("failed to merge patch of subset \"a\""), "{message}");
}

#[test]
fn a_pod_that_needs_a_subset_is_not_let_through_without() {
    let mut object = json!({"metadata": {"name": "ws", "namespace": "shop", "resourceVersion": "1", "annotations": {"kutter.io/require-subset": "true"}},
        "spec": {"targetRef": {"apiVersion": WEB.0, "kind": WEB.1, "name": WEB.2}}});
    object["spec"]["subsets"] = limited();
    let cluster = Cluster::new().apply(Watched::WorkloadSpread, &object);
    assert_eq!(mark(&placed(&cluster, &of_web(), Some("a")))["subset"], "a");
    for subset in [None, Some("gone")] {
        let resolved = placement(&cluster, &of_web(), subset).0;
        let Verdict::Deny(denial) = cluster.decide_text(&of_web().to_string(), &resolved) else {
            panic!("let through")
        };
        assert_eq!(denial.code, 403);
        let expected = "no subset of WorkloadSpread ws takes the Pod, which its annotation kutter.io/require-subset asks for";
        assert_eq!(denial.message, expected);
    }
    let other = owned("apps.kruise.io/v1beta1", "CloneSet", "other");
    assert_eq!(mark(&placed(&cluster, &other, None)), Value::Null, "Pods of others need none");
}

#[test]
fn every_spread_of_the_namespace_is_explained() {
    let cluster = spread(Cluster::new(), WEB, json!([{"name": "a"}]));
    let other = json!({"metadata": {"name": "other", "namespace": "shop"}, "spec": {"subsets": [{"name": "a"}],
        "targetRef": {"apiVersion": "apps/v1", "kind": "ReplicaSet", "name": "x"}}});
    let cluster = cluster.apply(Watched::WorkloadSpread, &other);
    let reported = cluster.explain(&of_web(), &placement(&cluster, &of_web(), None).0);
    let reported: Vec<String> = reported.iter().map(ToString::to_string).collect();
    let expected = [
        "WorkloadSpread other: does not divide the Pods of its workload: spec.targetRef is another one",
        "WorkloadSpread ws: puts the Pod into subset a",
    ];
    assert_eq!(reported, expected);
}
