//! The agent of a node as a process, under jobs (docs/behaviour/node-agent.md). Its node is one that the played agents
//! leave alone.

use std::path::Path;
use std::process::{Output, Stdio};

use kit::fake_runtime::{FakeRuntime, Pull};
use tempfile::TempDir;
use tokio::process::{Child, Command};

use super::*;
use crate::product::{get, program};

/// `kutter node` with these arguments.
fn command(arguments: &[String], node: Option<&str>) -> Command {
    let mut command = Command::new(program());
    command.arg("node").args(arguments).stdin(Stdio::null()).kill_on_drop(true).env_remove("NODE_NAME");
    if let Some(node) = node {
        command.env("NODE_NAME", node);
    }
    command
}

async fn arguments(sockets: &Path, port: u16) -> Vec<String> {
    let kubeconfig = place().await.site.server.kubeconfig();
    vec![
        format!("--kubeconfig={}", kubeconfig.display()),
        format!("--socket-directory={}", sockets.display()),
        format!("--addr=127.0.0.1:{port}"),
        "--v=5".to_owned(),
    ]
}

/// Starts the agent of a node and waits until it knows the NodeImage.
async fn start(node: &str, sockets: &Path, port: u16) -> Child {
    let child = command(&arguments(sockets, port).await, Some(node)).spawn().unwrap();
    wait_for("the agent to be well", async || match get(port, "/healthz").await {
        Ok((200, body)) if body == "ok" => Ok(()),
        answer => Err(answer),
    })
    .await;
    child
}

#[tokio::test]
async fn a_job_is_carried_out_by_the_agent_of_the_node() {
    let town = Town::open("agent", &["silent"]).await;
    let directory = TempDir::new().unwrap();
    let runtime = FakeRuntime::start(directory.path(), |_| Pull::Hangs);
    let port = kit::api_server::free_port();
    let mut agent = start(&town.node("silent"), directory.path(), port).await;
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
    let mut agent = start(&town.node("silent"), directory.path(), port).await;
    shows(&job, &json!({"desired": 1, "succeeded": 1})).await;
    assert_eq!(runtime.pulls().len(), 2);
    let node = town.node_image("silent").await.get().await.1;
    let status = &node["status"]["imageStatuses"][image(&town)]["tags"][0];
    assert_eq!((&status["phase"], &status["progress"]), (&json!("Succeeded"), &json!(100)), "{status:#}");
    let metrics = get(port, "/metrics").await.unwrap().1;
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
    let sound = arguments(directory.path(), kit::api_server::free_port()).await;
    let no_socket = arguments(empty.path(), kit::api_server::free_port()).await;
    let mut wrong_socket = arguments(directory.path(), kit::api_server::free_port()).await;
    wrong_socket.push("--socket-file=crio.sock".to_owned());
    for (arguments, node, reason) in [
        (sound, None, "not found NODE_NAME in environments"),
        (no_socket, Some("n"), "not found container runtime sock"),
        (wrong_socket, Some("n"), "not found container runtime sock"),
    ] {
        let Output { status, stderr, .. } = command(&arguments, node).output().await.unwrap();
        let stderr = String::from_utf8(stderr).unwrap();
        assert!(!status.success() && stderr.contains(reason), "{reason}: {stderr}");
    }
}
