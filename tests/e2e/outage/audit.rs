//! What the program asks of the API server, by the audit log.

use std::path::PathBuf;
use std::time::Duration;

use kit::wait_for;
use serde_json::Value;
use tempfile::TempDir;

/// The program does what a start brings with it until nothing was asked for this long: longer than the pause
/// between two writes of an account.
const QUIET: Duration = Duration::from_secs(6);
const POLICY: &str = "apiVersion: audit.k8s.io/v1\nkind: Policy\nomitStages: [RequestReceived, ResponseStarted]\nrules: [{level: Metadata}]\n";

/// An audit log of requests.
pub(super) struct Audit(TempDir);

/// A request of the program.
#[derive(Debug)]
pub(super) struct Call {
    pub(super) verb: String,
    pub(super) resource: String,
    pub(super) succeeded: bool,
}

impl Call {
    pub(super) fn is_write(&self) -> bool {
        !["get", "list", "watch"].contains(&self.verb.as_str())
    }
}

impl Audit {
    pub(super) fn new() -> Self {
        let directory = tempfile::tempdir().unwrap();
        std::fs::write(directory.path().join("policy.yaml"), POLICY).unwrap();
        Self(directory)
    }

    /// Arguments of an API server that keeps this log.
    pub(super) fn arguments(&self) -> [String; 2] {
        let policy = self.0.path().join("policy.yaml");
        [
            format!("--audit-policy-file={}", policy.display()),
            format!("--audit-log-path={}", self.log().display()),
        ]
    }

    fn log(&self) -> PathBuf {
        self.0.path().join("audit.log")
    }

    /// The present.
    pub(super) fn mark(&self) -> usize {
        std::fs::metadata(self.log()).map_or(0, |file| usize::try_from(file.len()).unwrap())
    }

    /// The requests of the program that ended after `mark`.
    pub(super) fn since(&self, mark: usize) -> Vec<Call> {
        let text = std::fs::read_to_string(self.log()).unwrap();
        let end = text.rfind('\n').map_or(0, |newline| newline + 1);
        let whole_lines = text.get(mark..end).unwrap_or_default();
        let events = whole_lines.lines().filter_map(|line| serde_json::from_str::<Value>(line).ok());
        let ours = events.filter(|event| {
            event["userAgent"].as_str().is_some_and(|agent| agent.starts_with("kruise-manager"))
        });
        let text = |value: &Value| value.as_str().unwrap_or_default().to_owned();
        ours.map(|event| Call {
            verb: text(&event["verb"]),
            resource: text(&event["objectRef"]["resource"]),
            succeeded: event["responseStatus"]["code"].as_u64().is_some_and(|code| code < 300),
        })
        .collect()
    }

    /// Waits until the program asks for nothing but its Lease.
    pub(super) async fn quiet(&self) {
        wait_for("the program to be at rest", async || {
            let mark = self.mark();
            tokio::time::sleep(QUIET).await;
            let calls = self.since(mark);
            if calls.iter().all(|call| call.resource == "leases") { Ok(()) } else { Err(calls) }
        })
        .await;
    }
}
