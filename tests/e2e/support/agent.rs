//! The agent of a node as a process: `kutter node`.

use std::path::Path;
use std::process::Stdio;

use kit::{ApiServer, wait_for};
use tokio::process::{Child, Command};

use crate::product::{get, program};

/// `kutter node` with these arguments.
pub fn command(arguments: &[String], node: Option<&str>) -> Command {
    let mut command = Command::new(program());
    command.arg("node").args(arguments).stdin(Stdio::null()).kill_on_drop(true).env_remove("NODE_NAME");
    if let Some(node) = node {
        command.env("NODE_NAME", node);
    }
    command
}

/// Arguments for an agent of this API server, and of the runtimes with sockets in a directory.
pub fn arguments(server: &ApiServer, sockets: &Path, port: u16) -> Vec<String> {
    vec![
        format!("--kubeconfig={}", server.kubeconfig().display()),
        format!("--socket-directory={}", sockets.display()),
        format!("--addr=127.0.0.1:{port}"),
        "--v=5".to_owned(),
    ]
}

/// Starts the agent of a node and waits until it knows the objects of its node.
pub async fn start(server: &ApiServer, node: &str, sockets: &Path, port: u16) -> Child {
    let child = command(&arguments(server, sockets, port), Some(node)).spawn().unwrap();
    wait_for("the agent to be well", async || match get(port, "/healthz").await {
        Ok((200, body)) if body == "ok" => Ok(()),
        answer => Err(answer),
    })
    .await;
    child
}
