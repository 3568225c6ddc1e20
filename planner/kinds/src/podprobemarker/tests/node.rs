use super::*;
use crate::podprobemarker::node::{Node, Step, step};
use crate::podprobemarker::probed::probed;
use crate::workload::object_version::ObjectVersion;

const READY: Node = Node { is_virtual: false, is_ready: true, is_deleting: false };

fn empty() -> NodePodProbe {
    reported(json!([]))
}

fn step_of(known: &NodePodProbe, pods: &[Arc<ObservedPod>], markers: &[Arc<Marker>]) -> Step {
    step("n", Some(READY), Some(known), &probed(pods, markers, false))
}

/// What the NodePodProbe of these Pods says.
fn entries(pods: &[Arc<ObservedPod>], markers: &[Arc<Marker>]) -> Value {
    match step("n", Some(READY), None, &probed(pods, markers, false)) {
        Step::Create(object) => serde_json::from_str::<Value>(&object).unwrap()["spec"]["podProbes"].clone(),
        other => panic!("{other:?}"),
    }
}

#[test]
fn scenario_3_a_ready_machine_has_a_node_pod_probe() {
    let created = r#"{"apiVersion":"apps.kruise.io/v1alpha1","kind":"NodePodProbe","metadata":{"name":"n"},"spec":{"podProbes":[]}}"#;
    assert_eq!(step("n", Some(READY), None, &[]), Step::Create(created.to_owned()));
    for node in [
        None,
        Some(Node { is_ready: false, ..READY }),
        Some(Node { is_virtual: true, ..READY }),
        Some(Node { is_deleting: true, ..READY }),
    ] {
        assert_eq!(step("n", node, None, &[]), Step::Nothing, "{node:?}");
    }
    let known = empty();
    assert_eq!(step("n", Some(Node { is_ready: false, ..READY }), Some(&known), &[]), Step::Nothing);
    let delete = Step::Delete(ObjectVersion::object(&known.metadata));
    assert_eq!(step("n", None, Some(&known), &[]), delete);
    assert_eq!(step("n", Some(Node { is_deleting: true, ..READY }), Some(&known), &[]), delete);
    let mut going = known;
    going.metadata.deletion_timestamp = Some(api::kinds::Time("2026-01-01T00:00:00Z".to_owned()));
    assert_eq!(step("n", None, Some(&going), &[]), Step::Nothing);
}

#[test]
fn scenario_4_the_agent_gets_numbers_of_ports() {
    let probes = json!([
        {"name": "tcp", "containerName": "main", "probe": {"tcpSocket": {"port": "http"}, "periodSeconds": 5}},
        {"name": "text", "containerName": "main", "probe": {"tcpSocket": {"port": "9090"}}},
        {"name": "web", "containerName": "main", "probe": {"httpGet": {"port": "http", "path": "/"}}},
        {"name": "unknown", "containerName": "main", "probe": {"tcpSocket": {"port": "grpc"}}},
        {"name": "gone", "containerName": "other", "probe": {"exec": {"command": ["true"]}}},
        {"name": "side", "containerName": "side", "probe": {"tcpSocket": {"port": "admin"}}},
    ]);
    let native = pod("web", |pod| {
        pod["spec"]["initContainers"] = json!([{"name": "side", "restartPolicy": "Always",
            "ports": [{"name": "admin", "containerPort": 15000}]}]);
    });
    assert_eq!(
        entries(&[native], &[marker("game", probes)]),
        json!([{"IP": "10.0.0.7", "namespace": "shop", "name": "web", "uid": "uid-web", "probes": [
            {"name": "game#side", "containerName": "side", "probe": {"tcpSocket": {"port": 15000}}},
            {"name": "game#tcp", "containerName": "main", "probe": {"tcpSocket": {"port": 8080}, "periodSeconds": 5}},
            {"name": "game#text", "containerName": "main", "probe": {"tcpSocket": {"port": 9090}}},
            {"name": "game#web", "containerName": "main",
                "probe": {"httpGet": {"path": "/", "port": 8080, "scheme": "HTTP"}}},
        ]}])
    );
    let unknown = json!([{"name": "p", "containerName": "main", "probe": {"tcpSocket": {"port": "grpc"}}}]);
    assert_eq!(entries(&[pod("web", |_| {})], &[marker("game", unknown)]), json!([]));
}

#[test]
fn pods_that_are_not_probed_have_no_entry() {
    let changes: [(&str, Change); 6] = [
        ("other labels", |pod| pod["metadata"]["labels"] = json!({"app": "db"})),
        ("another namespace", |pod| pod["metadata"]["namespace"] = json!("mall")),
        ("not initialized", |pod| pod["status"]["conditions"] = json!([])),
        ("no node", |pod| pod["spec"]["nodeName"] = json!("")),
        ("ended", |pod| pod["status"]["phase"] = json!("Succeeded")),
        ("being deleted", |pod| pod["metadata"]["deletionTimestamp"] = json!("2026-01-01T00:00:00Z")),
    ];
    let markers = [marker("game", json!([exec("idle")]))];
    for (what, change) in changes {
        assert_eq!(entries(&[pod("web", change)], &markers), json!([]), "{what}");
    }
    assert_eq!(entries(&[pod("web", |_| {})], &markers)[0]["name"], "web");
}

#[test]
fn a_spec_is_written_where_it_differs_and_only_then() {
    let (pods, markers) = (
        [pod("b", |_| {}), pod("a", |_| {})],
        [marker("two", json!([exec("p")])), marker("one", json!([exec("p")]))],
    );
    let Step::Change(patch) = step_of(&empty(), &pods, &markers) else { panic!("no change") };
    let patch: Value = serde_json::from_str(&patch).unwrap();
    assert_eq!(patch["metadata"], json!({"uid": "uid-n", "resourceVersion": "9"}));
    let written = &patch["spec"]["podProbes"];
    assert_eq!((&written[0]["name"], &written[1]["name"]), (&json!("a"), &json!("b")));
    assert_eq!(written[0]["probes"][0]["name"], "one#p");

    // The API server and OpenKruise have another order, of keys too.
    let known = json!({"metadata": {"name": "n"}, "spec": {"podProbes": [written[1], {
        "uid": "uid-a", "IP": "10.0.0.7", "name": "a", "namespace": "shop",
        "probes": [written[0]["probes"][1], {"probe": {"periodSeconds": 0, "exec": {"command": ["check"]}},
            "name": "one#p", "containerName": "main"}]}]}});
    let known = read(&known);
    assert_eq!(step_of(&known, &pods, &markers), Step::Nothing);

    let moved = [pod("a", |pod| pod["status"]["podIP"] = json!("10.0.0.8")), pods[0].clone()];
    let Step::Change(patch) = step_of(&known, &moved, &markers) else { panic!("no change") };
    assert!(patch.contains("10.0.0.8"), "{patch}");
}

#[test]
fn scenarios_7_8_and_9_what_is_not_wanted_any_more_leaves() {
    let pods = [pod("web", |_| {}), pod("shop", |_| {})];
    let both = [marker("b", json!([exec("p"), exec("q")])), marker("a-b", json!([exec("p")]))];
    let all = entries(&pods, &both);
    let metadata = json!({"name": "n", "uid": "uid-n", "resourceVersion": "9"});
    let known = read(&json!({"metadata": metadata, "spec": {"podProbes": all}}));
    let names = |pods: &[Arc<ObservedPod>], markers: &[Arc<Marker>]| {
        let Step::Change(patch) = step_of(&known, pods, markers) else { panic!("no change") };
        let patch: Value = serde_json::from_str(&patch).unwrap();
        let pods = patch["spec"]["podProbes"].as_array().unwrap().clone();
        let of_pod = |pod: &Value| {
            let probes = pod["probes"].as_array().unwrap().iter();
            probes.map(|probe| probe["name"].as_str().unwrap().to_owned()).collect::<Vec<_>>()
        };
        pods.iter().map(of_pod).collect::<Vec<_>>()
    };
    let fewer = [marker("b", json!([exec("q")])), both[1].clone()];
    assert_eq!(names(&pods, &fewer), [["a-b#p", "b#q"], ["a-b#p", "b#q"]]);
    assert_eq!(names(&pods, &both[1..]), [["a-b#p"], ["a-b#p"]]);
    let mut deleted = (*both[0]).clone();
    deleted.object.metadata.deletion_timestamp = Some(api::kinds::Time("2026-01-01T00:00:00Z".to_owned()));
    assert_eq!(names(&pods, &[Arc::new(deleted), both[1].clone()]), [["a-b#p"], ["a-b#p"]]);
    assert_eq!(names(&pods[1..], &both), [["a-b#p", "b#p", "b#q"]]);
    assert_eq!(names(&[], &both), [[""; 0]; 0]);
}

#[test]
fn the_status_of_a_marker_is_written_where_it_changes() {
    let game = marker("game", json!([exec("idle")]));
    let patch: Value = serde_json::from_str(&game.with_status(3).unwrap()).unwrap();
    assert_eq!(patch["status"], json!({"observedGeneration": 2, "matchedPods": 3}));
    let mut known = (*game).clone();
    known.object.status.observed_generation = 2;
    known.object.status.matched_pods = Some(3);
    assert_eq!(known.with_status(3), None);
    assert!(known.with_status(0).is_some());
    assert_eq!(game.with_finalizer(false), None);
    assert!(game.with_finalizer(true).unwrap().contains("kruise.io/node-pod-probe-cleanup"));
}
