use proptest::prelude::*;
use serde_json::{Value, json};

use super::fixture::{Cluster, create, names, pod};
use super::*;
use crate::world::{Watched, read_namespace};
use kinds::sidecarset::explanation::Reason;

mod enhanced_liveness;
mod persistentpodstate;
mod podprobemarker;
mod podunavailablebudget;
mod sidecarset;
mod steps;
mod workloadspread;

fn with_agent() -> Cluster {
    Cluster::new()
        .set("s", json!({"containers": [{"name": "agent", "podInjectPolicy": "AfterAppContainer"}]}))
}

fn decide(request: PodReview<'_>) -> Verdict {
    with_agent().answer(request, &Resolved::default())
}

fn decide_text(pod: &str) -> Verdict {
    with_agent().decide_text(pod, &Resolved::default())
}

#[test]
fn scenario_1_kruise_pods_get_the_readiness_gate_once() {
    let owned = |api_version: &str| {
        let mut pod = pod(json!([{"name": "m"}]));
        pod["metadata"]["ownerReferences"] =
            json!([{"apiVersion": "v1", "kind": "Node"}, {"apiVersion": api_version, "controller": true}]);
        pod
    };
    let gate = json!([{"conditionType": "KruisePodReady"}]);
    let cluster = Cluster::new();
    let once = cluster.admit(&owned("apps.kruise.io/v1alpha1"));
    assert_eq!(once["spec"]["readinessGates"], gate);
    assert_eq!(cluster.admit(&once), once);
    assert_eq!(cluster.admit(&owned("apps/v1")), owned("apps/v1"));
    let widened = cluster.gates("KruisePodReadinessGate=true");
    assert_eq!(widened.admit(&owned("apps/v1"))["spec"]["readinessGates"], gate);
    let mut gated = pod(json!([]));
    gated["spec"]["readinessGates"] = json!([{"conditionType": "x"}]);
    let gates = &widened.admit(&gated)["spec"]["readinessGates"];
    assert_eq!(*gates, json!([{"conditionType": "x"}, {"conditionType": "KruisePodReady"}]));
}

#[test]
fn scenario_23_ordered_containers_get_falling_keys() {
    let mut ordered =
        pod(json!([{"name": "a", "env": [{"name": "X", "value": "1"}]}, {"name": "b"}, {"name": "c"}]));
    ordered["metadata"]["annotations"] = json!({"apps.kruise.io/container-launch-priority": "Ordered"});
    let cluster = Cluster::new();
    let admitted = cluster.admit(&ordered);
    assert_eq!(barrier_keys(&admitted), ["p_0", "p_-1", "p_-2"]);
    assert_eq!(admitted["spec"]["containers"][0]["env"][0], json!({"name": "X", "value": "1"}));
    assert_eq!(cluster.admit(&admitted), admitted);
}

#[test]
fn scenario_23_an_injected_sidecar_counts_as_a_container() {
    let mut ordered = pod(json!([{"name": "a"}]));
    ordered["metadata"]["annotations"] = json!({"apps.kruise.io/container-launch-priority": "Ordered"});
    assert_eq!(Cluster::new().admit(&ordered), ordered);
    let cluster = Cluster::new().set("s", json!({"containers": [{"name": "agent"}]}));
    assert_eq!(barrier_keys(&cluster.admit(&ordered)), ["p_0", "p_-1"]);
}

#[test]
fn scenario_23_equal_priorities_need_no_barrier() {
    let five = json!([{"name": "KRUISE_CONTAINER_PRIORITY", "value": "5"}]);
    let equal = pod(json!([{"name": "a", "env": five}, {"name": "b", "env": five}]));
    assert_eq!(Cluster::new().admit(&equal), equal);
}

#[test]
fn scenario_24_a_priority_that_is_no_number_is_denied() {
    let with = |variable: Value| pod(json!([{"name": "a", "env": [variable]}, {"name": "b"}]));
    let text = with(json!({"name": "KRUISE_CONTAINER_PRIORITY", "value": "abc"}));
    assert_eq!(
        Cluster::new().refuse(&text),
        (500, r#"strconv.Atoi: parsing "abc": invalid syntax"#.to_owned())
    );
    let from = with(json!({"name": "KRUISE_CONTAINER_PRIORITY", "valueFrom": {}}));
    assert_eq!(Cluster::new().refuse(&from).1, r#"strconv.Atoi: parsing "": invalid syntax"#);
}

#[test]
fn example_12_5_the_generated_name_is_fixed() {
    let job = json!({"metadata": {"generateName": "job-"}, "spec": {"containers": [
        {"name": "main"}, {"name": "sc", "env": [{"name": "KRUISE_CONTAINER_PRIORITY", "value": "1"}]}]}});
    let admitted = Cluster::new().admit(&job);
    let name = admitted["metadata"]["name"].as_str().unwrap();
    assert!(name.len() == 9 && name.starts_with("job-"), "{name}");
    let barrier = |key: &str| {
        json!({"name": "KRUISE_CONTAINER_BARRIER", "valueFrom": {"configMapKeyRef":
        {"name": format!("{name}-barrier"), "key": key}}})
    };
    assert_eq!(admitted["spec"]["containers"][0]["env"], json!([barrier("p_0")]));
    assert_eq!(admitted["spec"]["containers"][1]["env"][1], barrier("p_1"));
}

#[test]
fn a_pod_copied_from_a_live_one_gets_its_own_barrier() {
    let stale = json!({"name": "KRUISE_CONTAINER_BARRIER", "valueFrom": {"configMapKeyRef": {"name": "old", "key": "p_9"}}});
    let mut ordered = pod(json!([{"name": "a", "env": [stale, {"name": "X", "value": "1"}]}, {"name": "b"}]));
    ordered["metadata"]["annotations"] = json!({"apps.kruise.io/container-launch-priority": "Ordered"});
    let admitted = Cluster::new().admit(&ordered);
    assert_eq!(barrier_keys(&admitted), ["p_0", "p_-1"]);
    assert_eq!(names(&admitted["spec"]["containers"][0]["env"]), ["KRUISE_CONTAINER_BARRIER", "X"]);
}

fn barrier_keys(pod: &Value) -> Vec<String> {
    let containers = pod["spec"]["containers"].as_array().unwrap();
    let env =
        containers.iter().flat_map(|container| container["env"].as_array().cloned().unwrap_or_default());
    let barriers = env.filter(|variable| variable["name"] == "KRUISE_CONTAINER_BARRIER");
    barriers
        .map(|barrier| barrier["valueFrom"]["configMapKeyRef"]["key"].as_str().unwrap().to_owned())
        .collect()
}

#[test]
fn scenario_31_updates_and_subresources_pass_unchanged() {
    let pod = pod(json!([{"name": "m"}])).to_string();
    for review in [
        PodReview { operation: Operation::Update, ..create(&pod) },
        PodReview { operation: Operation::Update, subresource: "status", ..create(&pod) },
        PodReview { subresource: "status", ..create(&pod) },
    ] {
        assert_eq!(decide(review), Verdict::allow());
    }
    assert_ne!(decide(create(&pod)), Verdict::allow());
    assert_eq!(decide(PodReview { dry_run: true, ..create(&pod) }), decide(create(&pod)));
}

#[test]
fn scenario_31_what_is_no_pod_is_denied_with_400() {
    for object in [
        r#""text""#,
        "[]",
        "7",
        "null",
        "",
        "{",
        r#"["v1","Pod",{},{}]"#,
        r#"{"metadata":[]}"#,
        r#"{"spec":{"containers":{}}}"#,
        r#"{"spec":{"containers":[["a"]]}}"#,
        r#"{"metadata":{"labels":["a"]}}"#,
        r#"{"kind":"Service","apiVersion":"v1"}"#,
        r#"{"kind":"Pod","apiVersion":"v2"}"#,
    ] {
        match decide_text(object) {
            Verdict::Deny(denial) => assert_eq!(denial.code, 400, "{object}"),
            verdict => panic!("{object}: {verdict:?}"),
        }
    }
    for object in ["{}", r#"{"kind":"Pod","apiVersion":"v1"}"#, r#"{"kind":"","spec":{"containers":null}}"#] {
        assert_eq!(decide_text(object), Verdict::allow(), "{object}");
    }
}

#[test]
fn a_wrong_type_that_no_rule_reads_is_not_ours_to_judge() {
    let mut odd =
        pod(json!([{"name": "m", "image": 7, "ports": "none", "env": {"a": 1}, "volumeMounts": 3}]));
    odd["spec"]["hostNetwork"] = json!([1]);
    assert_eq!(
        names(
            &Cluster::new().set("s", json!({"containers": [{"name": "agent"}]})).admit(&odd)["spec"]["containers"]
        ),
        ["agent", "m"]
    );
}

#[test]
fn what_nobody_edits_stays_byte_for_byte() {
    let text = r#"{ "metadata":{"labels":{"app":"web"}, "future":1.50},"spec":{"containers":[{"name":"m","future": 12345678901234567890123}]}}"#;
    let Verdict::Allow { edits, .. } = decide_text(text) else { panic!() };
    for operation in edits.operations() {
        use values::json_patch::Operation::{Add, Remove, Replace, Test};
        match operation {
            Add(path, _) => assert!(
                path.as_str() == "/spec/containers/-" || path.as_str() == "/metadata/annotations",
                "{operation:?}"
            ),
            Replace(..) | Remove(_) | Test(..) => panic!("{operation:?}"),
        }
    }
}

#[test]
fn a_status_in_the_request_does_not_switch_injection_off() {
    let mut failed = pod(json!([{"name": "m"}]));
    failed["status"] = json!({"phase": "Failed"});
    failed["metadata"]["deletionTimestamp"] = json!("2026-01-01T00:00:00Z");
    let cluster = Cluster::new()
        .set("s", json!({"containers": [{"name": "agent", "podInjectPolicy": "AfterAppContainer"}]}));
    assert_eq!(names(&cluster.admit(&failed)["spec"]["containers"]), ["m", "agent"]);
}

#[test]
fn a_namespace_that_is_not_known_is_asked_for_once_it_matters() {
    let spec =
        json!({"containers": [{"name": "agent"}], "namespaceSelector": {"matchLabels": {"team": "a"}}});
    let cluster = Cluster::new().set("s", spec);
    let awaits = |cluster: &Cluster, namespace: &str| {
        let request = PodReview { namespace, ..create("{}") };
        Review::begin(request, &cluster.gates, cluster.moment()).unwrap().awaits(&cluster.world)
    };
    assert!(awaits(&cluster, "new") && !awaits(&cluster, "shop") && !awaits(&with_agent(), "new"));
    let labelled = pod(json!([{"name": "m"}])).to_string();
    let decide = |object: &str, namespace| {
        let request = PodReview { namespace: "new", ..create(object) };
        cluster.answer(request, &Resolved { namespace, placement: None })
    };
    let team = read_namespace(r#"{"metadata":{"name":"new","labels":{"team":"a"}}}"#).unwrap();
    assert_ne!(decide(&labelled, Ok(Some(Arc::new(team)))), Verdict::allow());
    assert_eq!(decide(&labelled, Ok(Some(Arc::default()))), Verdict::allow());
    assert_eq!(decide(&labelled, Ok(None)), Verdict::allow(), "it does not exist");
    let unreadable = || Err(Denial::failed("no answer"));
    assert_eq!(decide(&labelled, unreadable()), Denial::failed("no answer").into());
    let other = r#"{"metadata":{"labels":{"app":"db"}}}"#;
    assert_eq!(decide(other, unreadable()), Verdict::allow(), "its labels decide");
}

#[test]
fn explain_says_every_reason_and_decides_as_mutate_does() {
    let agent = json!([{"name": "agent"}]);
    let cluster = Cluster::new()
        .set("base", json!({"containers": agent}))
        .set_with("canary", json!({"containers": agent}), json!({"apps.kruise.io/sidecarset-canary": "true", "apps.kruise.io/sidecarset-base": "base"}))
        .set("empty", json!({"containers": agent, "selector": {}}))
        .set("labels", json!({"containers": agent, "selector": {"matchLabels": {"app": "db"}}}))
        .set("namespace", json!({"containers": agent, "namespaceSelector": {"matchLabels": {"kubernetes.io/metadata.name": "other"}}}))
        .set("note", json!({"patchPodMetadata": [{"annotations": {"k": "v"}}]}))
        .set("paused", json!({"containers": agent, "injectionStrategy": {"paused": true}}));
    let mut explanations = cluster.explain(&pod(json!([{"name": "m"}])), &Resolved::default());
    explanations.sort_by_key(ToString::to_string);
    let reported: Vec<_> = explanations
        .into_iter()
        .map(|explanation| match explanation {
            Explanation::SidecarSet { name, reason } => (name, reason),
            other => panic!("{other}"),
        })
        .collect();
    let expected = [
        ("base", Reason::ReplacedByCanary { canary: "canary".to_owned() }),
        (
            "canary",
            Reason::Injected { containers: vec!["agent".to_owned()], revision: "canary-1".to_owned() },
        ),
        ("empty", Reason::EmptySelector),
        ("labels", Reason::OtherLabels),
        ("namespace", Reason::OtherNamespace),
        ("note", Reason::OnlyAnnotations),
        ("paused", Reason::Paused),
    ];
    assert_eq!(reported, expected.map(|(name, reason)| (name.to_owned(), reason)));
}

#[test]
fn ten_thousand_containers_are_handled() {
    let mount = |index: usize| json!({"name": "v", "mountPath": format!("/m{index}"), "subPathExpr": "$(E)"});
    let containers = (0..10_000).map(|index| {
        json!({"name": format!("c{index}"), "env": [{"name": "E", "value": "1"}], "volumeMounts": [mount(index)]})
    });
    let sharing = json!({"name": "agent", "shareVolumePolicy": {"type": "enabled"}, "podInjectPolicy": "BeforeAppContainer",
        "transferEnv": [{"sourceContainerName": "c9999", "envNames": ["E"]}]});
    let cluster = Cluster::new().set("s", json!({"containers": [sharing]}));
    let admitted = cluster.admit(&pod(containers.collect()));
    assert_eq!(admitted["spec"]["containers"][0]["volumeMounts"].as_array().unwrap().len(), 10_000);
    assert_eq!(admitted["spec"]["containers"].as_array().unwrap().len(), 10_001);
}

/// Any JSON, with the keys that rules read more often than others.
fn any_json() -> impl Strategy<Value = Value> {
    let leaf = prop_oneof![
        Just(Value::Null),
        any::<bool>().prop_map(Value::from),
        any::<i64>().prop_map(Value::from),
        "[a-z$()/.\\\\\"-]{0,8}".prop_map(Value::from),
        Just(json!("web")),
        Just(json!("apps.kruise.io/v1beta1")),
    ];
    let key = prop_oneof![
        prop::sample::select(vec![
            "metadata",
            "spec",
            "labels",
            "annotations",
            "name",
            "generateName",
            "containers",
            "initContainers",
            "env",
            "value",
            "volumes",
            "volumeMounts",
            "volumeDevices",
            "mountPath",
            "subPathExpr",
            "imagePullSecrets",
            "readinessGates",
            "ownerReferences",
            "apiVersion",
            "controller",
            "resources",
            "limits",
            "cpu",
            "app",
            "selector",
            "matchLabels",
            "matchExpressions",
            "namespaceSelector",
            "transferEnv",
            "patchPodMetadata",
            "upgradeStrategy",
            "resourcesPolicy",
            "injectionStrategy",
            "revision",
        ])
        .prop_map(str::to_owned),
        "[a-z]{1,4}",
    ];
    leaf.prop_recursive(6, 64, 6, move |inner| {
        prop_oneof![
            prop::collection::vec(inner.clone(), 0..4).prop_map(Value::from),
            prop::collection::vec((key.clone(), inner), 0..6)
                .prop_map(|members| Value::Object(members.into_iter().collect())),
        ]
    })
}

proptest! {
    #[test]
    fn arbitrary_pods_never_panic_and_patches_always_apply(metadata in any_json(), spec in any_json()) {
        let mut pod = json!({"metadata": metadata, "spec": spec});
        if let Some(metadata) = pod["metadata"].as_object_mut() {
            metadata.insert("labels".to_owned(), json!({"app": "web"}));
        }
        let cluster = Cluster::new().set("s", json!({
            "containers": [{"name": "name", "shareVolumePolicy": {"type": "enabled"}, "shareVolumeDevicePolicy": {"type": "enabled"},
                "transferEnv": [{"sourceContainerName": "web", "envName": "web"}]}],
            "initContainers": [{"name": "web"}],
            "imagePullSecrets": [{"name": "web"}],
            "patchPodMetadata": [{"annotations": {"name": "{\"a\":1}"}, "patchPolicy": "MergePatchJson"}],
        }));
        if cluster.decide(&pod).is_allowed() {
            cluster.review(&pod);
        }
    }

    #[test]
    fn arbitrary_objects_never_panic_in_the_world(object in any_json(), spec in any_json()) {
        let mut cluster = Cluster::new();
        let set = json!({"metadata": {"name": "s"}, "spec": spec});
        for kind in [
            Watched::SidecarSet,
            Watched::Namespace,
            Watched::ControllerRevision,
            Watched::ConfigMap,
            Watched::PodUnavailableBudget,
            Watched::PodProbeMarker,
        ] {
            let _ = cluster.world.apply(kind, &object.to_string());
            let _ = cluster.world.apply(kind, &set.to_string());
        }
        let _ = cluster.decide(&pod(json!([{"name": "m"}])));
    }

    #[test]
    fn arbitrary_text_is_answered(text in ".*") {
        decide_text(&text);
    }
}
