//! The agent of a node as a process, under jobs (docs/behaviour/node-agent.md). Its node is one that the played agents
//! leave alone.

use std::process::Output;

use kit::fake_runtime::{FakeRuntime, Pull};
use tempfile::TempDir;

use super::*;
use crate::product::get;
use crate::support::agent::{arguments, command, start};

#[tokio::test]
async fn a_job_is_carried_out_by_the_agent_of_the_node() {
    let town = Town::open("agent", &["silent"]).await;
    let directory = TempDir::new().unwrap();
    let runtime = FakeRuntime::start(directory.path(), |_| Pull::Hangs);
    let port = kit::api_server::free_port();
    let server = &place().await.site.server;
    let mut agent = start(server, &town.node("silent"), directory.path(), port).await;
    let job = town.create(town.job("job", json!({"image": format!("{}:1", image(&town))}))).await;
    shows(&job, &json!({"desired": 1, "active": 1})).await;
    wait_for("the pull", async || match runtime.pulls().len() {
        0 => Err(()),
        _ => Ok(()),
    })
    .await;

    // An agent that is killed in the middle leaves a pull that the next one repeats.
    agent.kill().await.unwrap();
    runtime.behave(|_| Pull::Comes);
    let mut agent = start(server, &town.node("silent"), directory.path(), port).await;
    shows(&job, &json!({"desired": 1, "succeeded": 1})).await;
    assert_eq!(runtime.pulls().len(), 2);
    let node = town.node_image("silent").await.get().await.1;
    let status = &node["status"]["imageStatuses"][image(&town)]["tags"][0];
    assert_eq!((&status["phase"], &status["progress"]), (&json!("Succeeded"), &json!(100)), "{status:#}");
    let metrics = wait_for("the metrics", async || get(port, "/metrics").await).await.1;
    for line in [
        "kruise_daemon_image_pull_total{result=\"succeeded\"} 1",
        "kruise_daemon_image_pulls_running 0",
        "kruise_daemon_cri_requests_total{code=\"OK\",method=\"PullImage\"} 1",
    ] {
        assert!(metrics.contains(line), "{line} is not in\n{metrics}");
    }
    agent.kill().await.unwrap();
    job.deleted().await;
}

#[tokio::test]
async fn an_agent_that_lacks_something_says_so_and_ends() {
    let directory = TempDir::new().unwrap();
    let _runtime = FakeRuntime::start(directory.path(), |_| Pull::Hangs);
    let empty = TempDir::new().unwrap();
    let server = &place().await.site.server;
    let sound = arguments(server, directory.path(), kit::api_server::free_port());
    let no_socket = arguments(server, empty.path(), kit::api_server::free_port());
    let mut wrong_socket = arguments(server, directory.path(), kit::api_server::free_port());
    wrong_socket.push("--socket-file=crio.sock".to_owned());
    for (arguments, node, reason) in [
        (sound, None, "not found NODE_NAME in environments"),
        (no_socket, Some("n"), "not found container runtime sock"),
        (wrong_socket, Some("n"), "has none of crio.sock"),
    ] {
        let Output { status, stderr, .. } = command(&arguments, node).output().await.unwrap();
        let stderr = String::from_utf8(stderr).unwrap();
        assert!(!status.success() && stderr.contains(reason), "{reason}: {stderr}");
    }
}

#[tokio::test]
async fn an_agent_is_well_once_it_knows_the_objects_of_its_node() {
    let directory = TempDir::new().unwrap();
    let _runtime = FakeRuntime::start(directory.path(), |_| Pull::Hangs);
    let server = &place().await.site.server;
    // Its user may not read anything yet.
    let mut kubeconfig: Value = serde_json::from_slice(&std::fs::read(server.kubeconfig()).unwrap()).unwrap();
    kubeconfig["users"][0]["user"]["as"] = json!("newcomer");
    let file = directory.path().join("kubeconfig");
    std::fs::write(&file, kubeconfig.to_string()).unwrap();
    let port = kit::api_server::free_port();
    let mut arguments = arguments(server, directory.path(), port);
    arguments[0] = format!("--kubeconfig={}", file.display());
    let _agent = command(&arguments, Some("nowhere")).spawn().unwrap();
    let waiting = "check nodeImageInformerSynced failed, err: not synced".to_owned();
    wait_for("the agent to answer", async || match get(port, "/healthz").await {
        Ok(answer) if answer == (500, waiting.clone()) => Ok(()),
        answer => Err(answer),
    })
    .await;
    let words =
        ["create", "clusterrolebinding", "newcomer", "--clusterrole=cluster-admin", "--user=newcomer"];
    server.kubectl(words).await.success();
    wait_for("the agent to be well", async || match get(port, "/healthz").await {
        Ok((200, _)) => Ok(()),
        answer => Err(answer),
    })
    .await;
}
