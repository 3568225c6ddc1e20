//! The stand on which the controllers are measured: an API server that writes down who asked it what.

use std::fs;
use std::path::{Path, PathBuf};
use std::time::Duration;

use kit::builders::sidecar_set;
use kit::{ApiServer, wait_within};
use serde_json::Value;

use crate::program::Program;

pub(crate) const PATIENCE: Duration = Duration::from_secs(1800);
/// Cost per Pod may grow that much from one size to the next.
pub(crate) const GROWTH: f64 = 1.2;
const INSTALL_NAMESPACE: &str = "kruise-system";
/// Leases are renewed and watches end whatever there is to do.
const AUDIT_POLICY: &str = r#"
apiVersion: audit.k8s.io/v1
kind: Policy
omitStages: [RequestReceived]
rules:
- level: None
  resources: [{group: coordination.k8s.io, resources: [leases]}]
- level: Metadata
  verbs: [get, list, create, update, patch, delete, deletecollection]
"#;

/// An API server on which the program has registered itself.
pub(crate) struct Stand {
    pub(crate) server: ApiServer,
    port: u16,
    directory: tempfile::TempDir,
    kutter: PathBuf,
}

impl Stand {
    pub(crate) async fn start(kutter: &Path) -> Self {
        progress("starting an API server");
        let directory = tempfile::tempdir().expect("a temporary directory");
        let policy = directory.path().join("audit.yaml");
        fs::write(&policy, AUDIT_POLICY).expect("the policy can be written");
        let log = directory.path().join("audit.log");
        let options = kit::Options::default()
            .argument(&format!("--audit-policy-file={}", policy.display()))
            .argument(&format!("--audit-log-path={}", log.display()));
        let server = ApiServer::start(options).await;
        let crds = std::process::Command::new(kutter).arg("crds").output().expect("kutter runs");
        let crds = String::from_utf8(crds.stdout).expect("YAML");
        server.kubectl_with_input(["apply", "--server-side", "-f", "-"], &crds).await.success();
        server.kubectl(["create", "namespace", INSTALL_NAMESPACE]).await.success();
        let port = kit::api_server::free_port();
        server.route_service(INSTALL_NAMESPACE, "kruise-webhook-service", port).await;
        let stand = Self { server, port, directory, kutter: kutter.to_owned() };
        let program = stand.program("first").await;
        stand.wait_registered().await;
        program.stop();
        stand
    }

    /// The program, leading and with its caches filled.
    pub(crate) async fn program(&self, name: &str) -> Program {
        let log = self.directory.path().join(format!("{name}.log"));
        let program = Program::start(&self.kutter, self.port, self.server.kubeconfig(), &log);
        program.wait_leading().await;
        program.wait_quiet().await;
        program
    }

    async fn wait_registered(&self) {
        let set = sidecar_set("trial").matching("app", "trial").container("trial", "busybox:1").build();
        let client = self.server.client();
        wait_within(PATIENCE, "the webhooks to be called", async || {
            let created =
                kit::objects::create(&client, set.clone()).await.map_err(|error| error.to_string())?;
            let defaulted = created.metadata.annotations.is_some();
            self.server.kubectl(["delete", "sidecarset", "trial"]).await.success();
            if defaulted { Ok(()) } else { Err("not defaulted".to_owned()) }
        })
        .await;
    }

    /// Waits until the newest spec of an object was looked at, and `holds` accepts its spec and status.
    pub(crate) async fn wait_status(&self, object: &[&str], holds: impl Fn(&Value, &Value) -> bool) {
        let words: Vec<&str> = ["get", "--output=json"].iter().chain(object).copied().collect();
        wait_within(PATIENCE, "the object to come that far", async || {
            tokio::time::sleep(Duration::from_millis(200)).await;
            let text = self.server.kubectl(&words).await.success();
            let object: Value = serde_json::from_str(&text).expect("JSON");
            let (spec, status) = (&object["spec"], &object["status"]);
            let observed = status["observedGeneration"] == object["metadata"]["generation"];
            if observed && holds(spec, status) { Ok(()) } else { Err(status.clone()) }
        })
        .await;
    }

    /// What the controllers asked so far: an audit event for each call.
    pub(crate) fn calls(&self) -> Vec<Value> {
        let log =
            fs::read_to_string(self.directory.path().join("audit.log")).expect("the audit log is there");
        let ours = log.lines().filter(|line| line.contains(r#""userAgent":"kruise-manager/controllers"#));
        ours.filter_map(|line| serde_json::from_str(line).ok()).collect()
    }
}

/// Prints `figure NAME VALUE UNIT goal GOAL`; smaller is better. No goal prints as `-`.
pub(crate) fn figure(name: &str, value: f64, unit: &str, goal: Option<f64>) {
    let goal = goal.map_or("-".to_owned(), |goal| goal.to_string());
    println!("figure {name} {} {unit} goal {goal}", (value * 1000.0).round() / 1000.0);
}

/// Says what is going on, beside the figures.
pub(crate) fn progress(text: &str) {
    eprintln!("# {text}");
}
