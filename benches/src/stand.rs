//! The stand on which the controllers are measured: an API server that writes down who asked it what.

use std::path::{Path, PathBuf};
use std::time::Duration;

use crate::audited::Audited;
use futures::{StreamExt, stream};
use kit::builders::sidecar_set;
use kit::{ApiServer, wait_within};
use kube::Client;
use serde_json::Value;

use crate::calls::{Call, Calls};
use crate::program::Program;

const WRITERS: usize = 32;
/// Longest time for whatever is waited for.
pub const TIMEOUT: Duration = Duration::from_secs(1800);
/// Cost per Pod may grow that much from one size to the next.
pub const GROWTH: f64 = 1.2;

/// An API server on which the program has registered itself.
pub struct Stand {
    audited: Audited,
    directory: tempfile::TempDir,
    kutter: PathBuf,
}

impl Stand {
    /// Starts it, and has the program register itself.
    pub async fn start(kutter: &Path) -> Self {
        let directory = tempfile::tempdir().expect("a temporary directory");
        let audited = Audited::start(kutter, directory.path()).await;
        let stand = Self { audited, directory, kutter: kutter.to_owned() };
        let program = stand.program("first").await;
        stand.wait_registered().await;
        program.stop();
        stand
    }

    /// Another name of the program, by which it does something else.
    pub fn named(&self, name: &str) -> PathBuf {
        let path = self.directory.path().join(name);
        // A name that is there already is the same.
        let program = self.kutter.canonicalize().expect("the program is there");
        drop(std::os::unix::fs::symlink(program, &path));
        path
    }

    /// The program, leading and with its caches filled.
    pub async fn program(&self, name: &str) -> Program {
        self.program_with(name, &[]).await
    }

    /// [`program`](Self::program) with further arguments.
    pub async fn program_with(&self, name: &str, further: &[&str]) -> Program {
        let log = self.directory.path().join(format!("{name}.log"));
        let server = self.server().kubeconfig();
        let program = Program::start(&self.kutter, self.audited.port, server, &log, further);
        program.wait_leading().await;
        program.wait_quiet().await;
        program
    }

    /// The agent of a node whose runtime has its socket in the directory `sockets`.
    pub async fn agent(&self, node: &str, sockets: &Path) -> Program {
        let log = self.directory.path().join(format!("{node}.log"));
        let agent = Program::agent(&self.kutter, node, sockets, self.server().kubeconfig(), &log);
        agent.wait_answering().await;
        agent.wait_quiet().await;
        agent
    }

    async fn wait_registered(&self) {
        let set = sidecar_set("trial").matching("app", "trial").container("trial", "busybox:1").build();
        let client = self.server().client();
        wait_within(TIMEOUT, "the webhooks to be called", async || {
            let created =
                kit::objects::create(&client, set.clone()).await.map_err(|error| error.to_string())?;
            let defaulted = created.metadata.annotations.is_some();
            self.server().kubectl(["delete", "sidecarset", "trial"]).await.success();
            if defaulted { Ok(()) } else { Err("not defaulted".to_owned()) }
        })
        .await;
    }

    /// Creates objects, many at a time.
    pub async fn create(&self, objects: impl IntoIterator<Item = impl Into<Value>>) {
        create(&self.server().client(), objects).await;
    }

    /// Waits until the newest spec of an object was looked at, where its status tells that, and `holds` accepts its spec and status.
    pub async fn wait_status(&self, object: &[&str], holds: impl Fn(&Value, &Value) -> bool) {
        let words: Vec<&str> = ["get", "--output=json"].iter().chain(object).copied().collect();
        wait_within(TIMEOUT, "the object to come that far", async || {
            tokio::time::sleep(Duration::from_millis(200)).await;
            let text = self.server().kubectl(&words).await.success();
            let object: Value = serde_json::from_str(&text).expect("JSON");
            let (spec, status) = (&object["spec"], &object["status"]);
            let observed = status.get("observedGeneration");
            let observed = observed.is_none_or(|observed| *observed == object["metadata"]["generation"]);
            if observed && holds(spec, status) { Ok(()) } else { Err(status.clone()) }
        })
        .await;
    }

    /// What the controllers asked so far: an audit event for each call.
    pub fn calls(&self) -> Vec<Value> {
        self.audited.calls("kruise-manager/controllers")
    }

    /// What the agents of nodes asked so far.
    pub fn calls_of_agents(&self) -> Vec<Value> {
        self.audited.calls("kruise-daemon")
    }

    /// What admission asked so far.
    pub fn calls_of_reviews(&self) -> Vec<Value> {
        self.audited.calls("kruise-manager\"")
    }

    /// What admission and the controllers asked so far, in turn.
    pub fn calls_of_all(&self) -> Vec<Value> {
        self.audited.calls("kruise-manager")
    }

    /// [`calls_of_all`](Self::calls_of_all), counted.
    pub fn all_calls(&self) -> Calls {
        let mut calls = Calls::new();
        for event in self.calls_of_all() {
            *calls.entry(Call::of(&event)).or_default() += 1;
        }
        calls
    }

    /// Where the program is to listen.
    pub fn port(&self) -> u16 {
        self.audited.port
    }

    /// The API server.
    pub fn server(&self) -> &ApiServer {
        &self.audited.server
    }
}

/// Creates objects, many at a time.
pub async fn create(client: &Client, objects: impl IntoIterator<Item = impl Into<Value>>) {
    stream::iter(objects)
        .for_each_concurrent(WRITERS, |object| async move {
            drop(kit::objects::create(client, object).await.expect("an object can be created"));
        })
        .await;
}

/// What a call was for: `patch pods/status`.
pub fn kind_of(call: &Value) -> String {
    let Call { verb, resource, .. } = Call::of(call);
    format!("{verb} {resource}")
}
