//! A UnitedDeployment over real nodes, one of which takes no more Pods (docs/behaviour/uniteddeployment.md#subsets-without-room),
//! and the plugin in front of a real kubelet.

use kit::builders::{object, pod, workload};
use kit::{objects, wait_within};
use serde_json::{Value, json};

use crate::docs::Terminal;
use crate::site::{PATIENCE, Site};

/// The label by which subsets tell nodes.
const ZONE: &str = "example.com/united-zone";
const SUBSET: &str = "apps.kruise.io/subset-name";

async fn placed(site: &Site, namespace: &str, expected: [usize; 2]) {
    wait_within(PATIENCE, "the Pods to be ready in their subsets", async || {
        let pods = site.get(&format!("pods -n {namespace}")).await;
        let mut counts = [0, 0];
        for pod in pods["items"].as_array().unwrap() {
            let mut conditions = pod["status"]["conditions"].as_array().into_iter().flatten();
            if conditions.any(|condition| condition["type"] == "Ready" && condition["status"] == "True") {
                counts[usize::from(pod["metadata"]["labels"][SUBSET] == "b")] += 1;
            }
        }
        if counts == expected {
            Ok(())
        } else {
            Err((counts, site.get(&format!("ud web -n {namespace}")).await))
        }
    })
    .await;
}

#[tokio::test]
async fn pods_without_room_come_up_in_the_next_subset() {
    let Some(site) = Site::installed().await else { return };
    let namespace = site.server().namespace("united").await;
    let nodes = site.get("nodes").await;
    let name = |position: usize| nodes["items"][position]["metadata"]["name"].as_str().unwrap().to_owned();
    let names = [name(0), name(1)];
    for (node, zone) in names.iter().zip(["a", "b"]) {
        site.label(node, ZONE, zone).await;
    }
    let subset = |name: &str| json!({"name": name, "nodeSelectorTerm": {"matchExpressions": [{"key": ZONE, "operator": "In", "values": [name]}]}});
    let labels = json!({"app": "web"});
    let containers = json!([{"name": "main", "image": "nginx:1.25"}]);
    let child = json!({"metadata": {"labels": labels}, "spec": {"selector": {"matchLabels": labels},
        "template": {"metadata": {"labels": labels}, "spec": {"containers": containers, "terminationGracePeriodSeconds": 1}}}});
    let adaptive = json!({"rescheduleCriticalSeconds": 3, "unschedulableDuration": 40});
    let spec = json!({"replicas": 2, "selector": {"matchLabels": labels}, "template": {"cloneSetTemplate": child},
        "topology": {"subsets": [subset("a"), subset("b")], "scheduleStrategy": {"type": "Adaptive", "adaptive": adaptive}}});
    let united = object("apps.kruise.io/v1beta1", "UnitedDeployment", "web").in_namespace(&namespace);
    objects::create(&site.server().client(), united.with("/spec", spec)).await.unwrap();
    placed(&site, &namespace, [2, 0]).await;

    site.cordon(&names[0]).await;
    let scale = async |replicas: u32| {
        site.kubectl(&format!("scale ud web -n {namespace} --replicas={replicas}")).await.success();
    };
    scale(4).await;
    placed(&site, &namespace, [2, 2]).await;

    // The subset is trusted again after a while.
    site.uncordon(&names[0]).await;
    wait_within(PATIENCE, "the subset to have room again", async || {
        let united = site.get(&format!("ud web -n {namespace}")).await;
        let condition = &united["status"]["subsetStatuses"][0]["conditions"][0];
        if condition["status"] == "True" { Ok(()) } else { Err(united["status"].clone()) }
    })
    .await;
    scale(5).await;
    placed(&site, &namespace, [3, 2]).await;
    site.kubectl(&format!("delete ud web -n {namespace}")).await.success();
    for node in &names {
        site.kubectl(&format!("label node {node} {ZONE}-")).await.success();
    }
}

/// Scenario 21 of docs/behaviour/kubectl-kruise.md#get-exec-logs-cp.
#[tokio::test]
async fn the_plugin_enters_the_container_of_a_sidecar_that_works() {
    let Some(site) = Site::installed().await else { return };
    let namespace = site.server().namespace("plugin").await;
    let working = r#"{"agent":"agent-2"}"#;
    let web = pod("web")
        .in_namespace(&namespace)
        .annotation("kruise.io/sidecarset-working-hotupgrade-container", working)
        .container("main", "nginx:1.25")
        .container("agent-1", "busybox:1.36")
        .having("command", json!(["sleep", "infinity"]))
        .container("agent-2", "busybox:1.36")
        .having("command", json!(["sleep", "infinity"]))
        .env("SERVE_PORT", "81");
    objects::create(&site.server().client(), web).await.unwrap();
    site.kubectl(&format!("wait pod web -n {namespace} --for=condition=Ready --timeout=4m")).await.success();
    let terminal = Terminal::open(site.server(), &namespace).await;
    let entered =
        terminal.shell("kubectl kruise exec web -S agent -- sh -c 'echo $SERVE_PORT; exit 7'").await;
    assert_eq!((entered.status.code(), entered.stdout.as_str()), (Some(7), "81\n"), "{}", entered.stderr);
    let refused = terminal.shell("kubectl kruise exec web -S nosuch -- true").await;
    assert!(refused.stderr.contains("there are: agent"), "{}", refused.stderr);
    let printed = terminal.shell("kubectl kruise restart web -c main").await;
    assert_eq!(printed.status.code(), Some(0), "{} {}", printed.stdout, printed.stderr);
    let restarted = site.get(&format!("pod web -n {namespace}")).await;
    let counts: Vec<&Value> = restarted["status"]["containerStatuses"]
        .as_array()
        .unwrap()
        .iter()
        .filter(|container| container["name"] == "main")
        .map(|container| &container["restartCount"])
        .collect();
    assert_eq!(counts, [1]);
    site.kubectl(&format!("delete pod web -n {namespace} --wait=false")).await.success();
}

/// Containers of a workload are restarted where they are, one Pod after the other.
#[tokio::test]
async fn a_workload_is_restarted_in_place() {
    let Some(site) = Site::installed().await else { return };
    let namespace = site.server().namespace("plugin-restart").await;
    let set = workload("apps.kruise.io/v1beta1", "CloneSet", "web")
        .in_namespace(&namespace)
        .matching("app", "web")
        .replicas(2)
        .container("main", "nginx:1.25")
        .container("side", "busybox:1.36")
        .having("command", json!(["sleep", "infinity"]));
    objects::create(&site.server().client(), set).await.unwrap();
    let terminal = Terminal::open(site.server(), &namespace).await;
    terminal.shell("kubectl kruise rollout status clone/web --timeout 180s").await.success();
    let state = async || {
        let pods = site.get(&format!("pods -n {namespace} -l app=web")).await;
        let mut all: Vec<(Value, Value, Value)> = Vec::new();
        for pod in pods["items"].as_array().unwrap() {
            let restarts = |name: &str| {
                let all = pod["status"]["containerStatuses"].as_array().unwrap();
                all.iter().find(|status| status["name"] == name).unwrap()["restartCount"].clone()
            };
            all.push((pod["metadata"]["uid"].clone(), restarts("main"), restarts("side")));
        }
        all
    };
    let before = state().await;
    let printed =
        terminal.shell("kubectl kruise rollout restart clone/web --in-place --containers main").await;
    assert_eq!(printed.status.code(), Some(0), "{} {}", printed.stdout, printed.stderr);
    assert_eq!(printed.stdout.matches(" created\n").count(), 2, "{}", printed.stdout);
    let expected: Vec<(Value, Value, Value)> =
        before.into_iter().map(|(uid, ..)| (uid, json!(1), json!(0))).collect();
    assert_eq!(state().await, expected);
    site.kubectl(&format!("delete cloneset web -n {namespace} --wait=false")).await.success();
}
