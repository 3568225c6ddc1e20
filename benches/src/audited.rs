//! An API server that writes down who asked it what.

use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;

use kit::{ApiServer, Options};
use serde_json::Value;

use crate::report::progress;

const INSTALL_NAMESPACE: &str = "kruise-system";
const SERVICE: &str = "kruise-webhook-service";
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

/// An API server with the program's kinds, whose Service leads to a port of this machine.
pub struct Audited {
    /// The API server.
    pub server: ApiServer,
    /// Where the program is to listen.
    pub port: u16,
    log: PathBuf,
}

impl Audited {
    /// Starts it; the log is written to `directory`.
    pub async fn start(kutter: &Path, directory: &Path) -> Self {
        progress("starting an API server");
        let (policy, log) = (directory.join("audit.yaml"), directory.join("audit.log"));
        fs::write(&policy, AUDIT_POLICY).expect("the policy can be written");
        let options = Options::default()
            .argument(&format!("--audit-policy-file={}", policy.display()))
            .argument(&format!("--audit-log-path={}", log.display()))
            // Megabytes, after which a log is begun anew.
            .argument("--audit-log-maxsize=10000");
        let server = ApiServer::start(options).await;
        let crds = Command::new(kutter).arg("crds").output().expect("kutter runs");
        assert!(crds.status.success(), "kutter crds failed");
        let crds = String::from_utf8(crds.stdout).expect("YAML");
        server.kubectl_with_input(["apply", "--server-side", "-f", "-"], &crds).await.success();
        server.kubectl(["create", "namespace", INSTALL_NAMESPACE]).await.success();
        let port = kit::api_server::free_port();
        server.route_service(INSTALL_NAMESPACE, SERVICE, port).await;
        Self { server, port, log }
    }

    /// What was asked so far by those whose names begin so: an audit event for each call.
    pub fn calls(&self, user_agent: &str) -> Vec<Value> {
        let log = fs::read_to_string(&self.log).expect("the audit log is there");
        let wanted = format!(r#""userAgent":"{user_agent}"#);
        let wanted = log.lines().filter(|line| line.contains(&wanted));
        wanted.filter_map(|line| serde_json::from_str(line).ok()).collect()
    }
}
