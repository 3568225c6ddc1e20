//! `kubectl kruise`, through the real kubectl (docs/behaviour/kubectl-kruise.md).

use kit::builders::{Object, workload};
use kit::{ApiServer, Output, Shared, fake_nodes, wait_for};
use serde_json::{Value, json};
use std::sync::Arc;

use crate::docs::Terminal;
use crate::support::fleet::{Fleet, OLD};
use crate::support::{Shop, shared};

mod created;
mod printed;
mod releases;
mod rollouts;
mod written;

/// An API server that knows the kinds of workloads, and Rollouts, on which nobody but the plugin writes.
async fn undisturbed() -> Arc<ApiServer> {
    static SERVER: Shared<ApiServer> = Shared::new();
    SERVER
        .get(async || {
            let server = ApiServer::start(kit::Options::default()).await;
            releases::install(&server, &["clonesets", "statefulsets", "daemonsets"]).await;
            rollouts::define_rollouts(&server).await;
            server
        })
        .await
}

/// A workload, and somebody in front of a terminal.
struct Desk {
    fleet: Fleet,
    terminal: Terminal,
}

impl Desk {
    /// A CloneSet that is updated in place, complete.
    async fn open(replicas: u32, settings: Value) -> Self {
        let (server, _) = shared().await;
        let options = fake_nodes::Options::nodes(2).binding_pods();
        let fleet =
            Fleet::found(server, "plugin", options, |shop| clone_set(shop, "web", replicas, settings)).await;
        fleet.complete().await;
        let terminal = Terminal::open(server, &fleet.shop.namespace).await;
        Self { fleet, terminal }
    }

    /// What a command prints that succeeds.
    async fn prints(&self, command: &str) -> String {
        let printed = self.terminal.shell(command).await.success();
        assert!(!printed.contains('\u{1b}'), "{printed}");
        printed
    }

    /// A command that fails with 1.
    async fn fails(&self, command: &str) -> Output {
        let output = self.terminal.shell(command).await;
        assert_eq!(output.status.code(), Some(1), "{} {}", output.stdout, output.stderr);
        output
    }

    /// Waits until somebody may do this, such as `get pods --as=reader`: roles are known a moment later.
    async fn may(&self, words: &str) {
        wait_for(words, async || {
            let output = self.terminal.shell(&format!("kubectl auth can-i {words}")).await;
            if output.status.success() { Ok(()) } else { Err(output) }
        })
        .await;
    }

    /// Each change of the spec makes a new one.
    async fn generation(&self) -> Value {
        self.fleet.set.get().await.1["metadata"]["generation"].clone()
    }
}

fn clone_set(shop: &Shop, name: &str, replicas: u32, mut settings: Value) -> Object {
    settings["podUpdatePolicy"] = "InPlaceIfPossible".into();
    workload("apps.kruise.io/v1beta1", "CloneSet", name)
        .in_namespace(&shop.namespace)
        .matching("app", name)
        .replicas(replicas)
        .container("main", OLD)
        .with("/spec/template/spec/containers/0/fieldOfTomorrow", json!({"n": 1}))
        .with("/spec/updateStrategy", json!({"type": "RollingUpdate", "rollingUpdate": settings}))
}
