//! One probe, from one run to the next (docs/behaviour/node-agent.md#one-run). A worker that is stopped is dropped: what
//! it asked for is cancelled.

use std::sync::Arc;
use std::time::Duration;

use agent::probes::{Finding, Handler, Key, Outcome, Work};
use agent::tasks::Worker;
use cluster::https;
use cluster::panics::contained;
use cri::Runtime;
use jiff::Timestamp;
use tokio::net::TcpStream;
use tokio::sync::mpsc;
use tokio::time::{Instant, sleep_until, timeout};
use tracing::{debug, error};

use super::looks::Looks;
use super::metrics::{Counted, Metrics};
use crate::http::{Get, HttpError, get};

/// So much of an output is read.
const OUTPUT: usize = 10 << 10;
/// What rounds a time to whole seconds.
const HALF: Duration = Duration::from_millis(500);

/// What all workers share.
#[derive(Clone)]
pub(super) struct Tools {
    pub(super) runtime: Runtime,
    pub(super) looks: Looks,
    pub(super) metrics: Metrics,
    /// When the agent began.
    pub(super) began: Instant,
    pub(super) results: mpsc::Sender<ProbeReport>,
}

/// What a worker reports.
pub(super) struct ProbeReport {
    pub(super) work: Arc<Work>,
    pub(super) worker: Worker,
    pub(super) finding: Finding,
}

impl ProbeReport {
    /// Which probe it is about.
    pub(super) fn key(&self) -> Key {
        self.work.key()
    }
}

/// Runs a probe again and again, first when the agent has run for the time `first`, and says what it finds.
pub(super) async fn serve(tools: Tools, worker: Worker, work: Arc<Work>, first: Duration) {
    sleep_until(tools.began + first).await;
    // Runs are at whole seconds of the agent, so that many of them wake it at once.
    let mut next = tools.began + Duration::from_secs((tools.began.elapsed() + HALF).as_secs());
    loop {
        match contained(run(&tools, &work)).await {
            Ok(Some(finding)) => {
                // The receiver lives as long as the workers.
                drop(tools.results.send(ProbeReport { work: work.clone(), worker, finding }).await);
            }
            Ok(None) => {}
            Err(panicked) => {
                error!(panicked.message, panicked.place, "a probe panicked");
            }
        }
        // A run that took longer than the period leaves others out.
        while next <= Instant::now() {
            next += work.terms.period;
        }
        sleep_until(next).await;
    }
}

/// Runs a probe; `None` where there is no container.
async fn run(tools: &Tools, work: &Work) -> Option<Finding> {
    let Work { namespace, pod, name, .. } = work;
    let looked = tools.looks.at(&work.uid, &work.container).await;
    let looked =
        looked.inspect_err(|error| debug!(%error, "the container runtime does not tell of containers"));
    let container = looked.ok()??;
    let outcome = match work.without_run(&container, Timestamp::now()) {
        Some(outcome) => outcome,
        None => {
            let (counted, outcome) = match check(&tools.runtime, work, &container.id).await {
                Ok((true, message)) => (Counted::Succeeded, Outcome::Ended { succeeded: true, message }),
                Ok((false, message)) => (Counted::Failed, Outcome::Ended { succeeded: false, message }),
                Err(error) => {
                    debug!(namespace, pod, probe = name, error, "a probe can't be run");
                    (Counted::Error, Outcome::Nothing)
                }
            };
            tools.metrics.ran(work.handler.word(), counted);
            outcome
        }
    };
    Some(Finding { container: container.id, started: container.started, outcome })
}

/// Whether a check succeeds and what it says; an error where it can't be done.
async fn check(runtime: &Runtime, work: &Work, id: &str) -> Result<(bool, String), String> {
    let limit = work.terms.timeout;
    match &work.handler {
        Handler::Exec(command) => match runtime.exec(id, command.clone(), limit).await {
            Ok(answer) if answer.exit_code == 0 => Ok((true, text(&answer.stdout))),
            Ok(answer) => Ok((false, text(&answer.stderr))),
            Err(error) if error.is_late() => {
                let command = command.join(" ");
                Ok((false, format!("command timed out: {command:?} timed out after {limit:?}")))
            }
            Err(error) => Err(error.to_string()),
        },
        Handler::Http { host, port, path, tls, headers } => {
            let request = Get {
                host: host.clone(),
                port: *port,
                path: path.clone(),
                tls: *tls,
                headers: headers.clone(),
            };
            match get(&request, limit).await {
                Ok(answer) if answer.status().is_success() => Ok((true, text(answer.body()))),
                Ok(answer) if answer.status().is_redirection() => {
                    Ok((true, format!("Probe terminated redirects, Response body: {}", text(answer.body()))))
                }
                Ok(answer) => {
                    Ok((false, format!("HTTP probe failed with statuscode: {}", answer.status().as_u16())))
                }
                Err(HttpError::Unanswered(https::HttpError::Request(error))) => Err(error.to_string()),
                Err(error) => Ok((false, format!("Get {path:?}: {error}"))),
            }
        }
        Handler::Tcp { host, port } => {
            let connected = timeout(limit, TcpStream::connect((host.as_str(), *port))).await;
            match connected.map_err(|_| "i/o timeout".to_owned()) {
                Ok(Ok(_)) => Ok((true, String::new())),
                Ok(Err(error)) => Ok((false, format!("dial tcp {host}:{port}: {error}"))),
                Err(error) => Ok((false, format!("dial tcp {host}:{port}: {error}"))),
            }
        }
        Handler::Impossible(why) => Err((*why).to_owned()),
    }
}

/// The beginning of an output.
fn text(bytes: &[u8]) -> String {
    String::from_utf8_lossy(bytes.get(..OUTPUT).unwrap_or(bytes)).into_owned()
}
