//! The plugin in front of a real kubelet (docs/behaviour/kubectl-kruise.md).

use kit::builders::{pod, workload};
use kit::objects;
use serde_json::{Value, json};

use crate::docs::Terminal;
use crate::site::Site;

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
    let restarted = site.core(&namespace, "pods/web").await;
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
        let pods = site.core(&namespace, "pods?labelSelector=app=web").await;
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
