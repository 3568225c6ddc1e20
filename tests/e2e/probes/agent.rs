//! The agent of a node as a process, whose runtime has no containers.

use cri::messages::ExecSyncResponse;
use kit::fake_runtime::{Asked, FakeRuntime, Pull};
use tempfile::TempDir;
use tokio::process::Child;

use super::*;
use crate::support::agent;

/// A node with its agent.
struct Machine {
    site: Site,
    runtime: FakeRuntime,
    /// Keeps the agent alive.
    _agent: Child,
    _sockets: TempDir,
}

impl Machine {
    async fn open(prefix: &str) -> Self {
        let site = Site::open(prefix).await;
        let sockets = TempDir::new().unwrap();
        let runtime = FakeRuntime::start(sockets.path(), |_| Pull::Hangs);
        let server = &place().await.server;
        let agent = agent::start(server, &site.node, sockets.path(), kit::api_server::free_port()).await;
        Self { site, runtime, _agent: agent, _sockets: sockets }
    }

    /// From now on every command ends with this code and says this.
    fn commands_end(&self, exit_code: i32, said: &'static str) {
        let said = said.as_bytes().to_vec();
        let answer = ExecSyncResponse { stdout: said.clone(), stderr: said, exit_code };
        self.runtime.answer_commands(move |_| answer.clone());
    }

    /// Runs container `main` of a Pod.
    fn runs(&self, pod: &Stored) {
        let metadata = &pod.object["metadata"];
        let name = ["namespace", "name", "uid"].map(|field| metadata[field].as_str().unwrap());
        self.runtime.run_container(name, "main", 0, &[]);
    }
}

#[tokio::test]
async fn what_the_agent_finds_is_marked_on_the_pod() {
    let machine = Machine::open("agent").await;
    machine.commands_end(0, "nobody here");
    let pod = machine.site.running("web").await;
    machine.runs(&pod);
    let mut idle = exec("idle");
    idle["probe"]["periodSeconds"] = json!(1);
    idle["markerPolicy"] = json!([
        {"state": "Succeeded", "labels": {"idle": "true"}},
        {"state": "Failed", "labels": {"idle": "false"}},
    ]);
    machine.site.create(machine.site.marker("game", json!([idle]))).await;
    let marked = until("the label", &pod, |pod| pod["metadata"]["labels"]["idle"] == "true").await;
    let written = condition(&marked, "game.example.com/idle");
    assert_eq!((&written["status"], &written["message"]), (&json!("True"), &json!("nobody here")));
    machine.commands_end(1, "two players");
    let marked = until("the label", &pod, |pod| pod["metadata"]["labels"]["idle"] == "false").await;
    let written = condition(&marked, "game.example.com/idle");
    assert_eq!((&written["status"], &written["message"]), (&json!("False"), &json!("two players")));
}

#[tokio::test]
async fn a_container_that_fails_its_liveness_probe_is_stopped() {
    let machine = Machine::open("alive").await;
    machine.commands_end(1, "no answer");
    let probe = json!({"exec": {"command": ["check"]}, "periodSeconds": 1});
    let pod = machine.site.start(machine.site.with_moved_liveness_probe("web", probe)).await;
    let id = format!("main-0-of-{}", pod.object["metadata"]["uid"].as_str().unwrap());
    pod.patch_status(&json!({"containerStatuses": [running(&format!("containerd://{id}"))]})).await;
    machine.runs(&pod);
    let request = machine.site.request().await;
    assert_eq!(request["spec"]["containers"][0]["name"], "main");
    wait_for("the container to be stopped", async || {
        let asked = machine.runtime.asked();
        let is_stopped = asked.iter().any(|asked| matches!(asked, Asked::Stop(stopped, _) if *stopped == id));
        if is_stopped { Ok(()) } else { Err(asked) }
    })
    .await;
}
