//! Leader election: controllers run on one replica at a time, the holder of a Lease. What to do about the
//! Lease is decided by [`planner::server::election`].

use std::time::Duration;

use jiff::Timestamp;
use kube::Client;
use planner::server::election::{Lease, Observation, Step};
use serde_json::json;
use tokio::sync::watch;
use tokio::task::JoinHandle;
use tokio::time::{Instant, sleep, timeout, timeout_at};
use tracing::{debug, info, warn};

use crate::error::{ApiError, Retry};
use crate::resource::{LEASES, Path};
use crate::write::{self, PatchKind};

/// Where the Lease is and how long it holds (docs/behaviour/server.md#leader-election).
#[derive(Clone, Debug)]
pub struct Settings {
    /// Namespace of the Lease.
    pub namespace: String,
    /// Name of the Lease.
    pub name: String,
    /// Who we are; unique among the replicas.
    pub identity: String,
    /// How long a Lease holds without being renewed; whole seconds.
    pub lease_duration: Duration,
    /// How long after its last renewal a leader stops; shorter than the Lease holds.
    pub renew_deadline: Duration,
    /// Pause between two looks at the Lease, and before a renewal that failed is tried again.
    pub retry_period: Duration,
}

/// The election under way: true while this replica leads.
pub struct Election {
    /// Changes whenever leadership is won or lost.
    pub leading: watch::Receiver<bool>,
    task: JoinHandle<()>,
}

/// Longest time for giving the Lease up.
const RELEASE: Duration = Duration::from_secs(3);

impl Election {
    /// Gives the Lease up, so that another replica can take over at once.
    pub async fn resign(self) {
        drop(self.leading);
        if let Err(error) = self.task.await {
            warn!(%error, "the election did not end in order");
        }
    }
}

/// Takes part in the election until [`Election::resign`]. `client` should be used for nothing else: its
/// time limits decide how soon a leader that is cut off knows it.
pub fn run(client: Client, settings: Settings) -> Election {
    let (sender, leading) = watch::channel(false);
    let candidate = Candidate {
        client,
        settings,
        started: Instant::now(),
        observation: Observation::default(),
        held: None,
    };
    Election { leading, task: tokio::spawn(candidate.campaign(sender)) }
}

struct Candidate {
    client: Client,
    settings: Settings,
    started: Instant,
    observation: Observation,
    /// Our Lease, and until when it makes us the leader.
    held: Option<(Lease, Instant)>,
}

impl Candidate {
    /// A leader whose renewals fail leads until its deadline, counted from before the last one that came
    /// through was sent. That is before anybody else may take over.
    async fn campaign(mut self, leading: watch::Sender<bool>) {
        loop {
            let deadline = self.held.as_ref().map(|(_, until)| *until);
            let round = timeout_at(
                deadline.unwrap_or_else(|| Instant::now() + self.settings.renew_deadline),
                self.round(),
            );
            let result = tokio::select! {
                () = leading.closed() => break,
                result = round => result.unwrap_or(Err(Trouble::Slow)),
            };
            let is_answered = result.is_ok();
            if let Err(trouble) = result {
                warn!(%trouble, "the Lease can't be held, will be tried again");
            }
            let end = self.held.as_ref().map(|(_, until)| *until);
            if end.is_some_and(|until| until <= Instant::now()) {
                self.held = None;
            }
            let leads = self.held.is_some();
            if leading.send_if_modified(|led| std::mem::replace(led, leads) != leads) {
                info!(leads, identity = self.settings.identity, "the election was decided");
            }
            // Early enough for a renewal to be tried again, and seldom enough for a cluster at rest.
            let pause = match end {
                Some(_) if is_answered => self.settings.renew_deadline * 2 / 3,
                Some(until) => {
                    self.settings.retry_period.min(until.saturating_duration_since(Instant::now()))
                }
                None => self.settings.retry_period,
            };
            tokio::select! {
                () = leading.closed() => break,
                () = sleep(pause) => {}
            }
        }
        if let Some((lease, _)) = self.held.take() {
            self.release(&lease).await;
        }
    }

    /// Looks at the Lease and does what is to be done. Without an answer we are what we were.
    async fn round(&mut self) -> Result<(), Trouble> {
        // Nobody else writes to our Lease as long as we renew it: it need not be read.
        if let Some((lease, _)) = &self.held {
            let known = lease.clone();
            match self.write(&known, Step::Renew).await {
                Err(Trouble::Api(error)) if error.retry() == Retry::Now => self.held = None,
                result => return result,
            }
        }
        let Some(text) = write::get(&self.client, &self.path()).await? else {
            return self.create().await;
        };
        let lease: Lease = serde_json::from_str(&text)?;
        let Settings { identity, lease_duration, .. } = &self.settings;
        match self.observation.decide(&lease, identity, *lease_duration, self.started.elapsed()) {
            Step::Wait => {
                debug!(holder = lease.spec.holder_identity, "another replica leads");
                self.held = None;
                Ok(())
            }
            step => self.write(&lease, step).await,
        }
    }

    async fn create(&mut self) -> Result<(), Trouble> {
        let Settings { namespace, name, .. } = &self.settings;
        let body = json!({
            "apiVersion": "coordination.k8s.io/v1",
            "kind": "Lease",
            "metadata": {"name": name, "namespace": namespace},
            "spec": self.spec(&Lease::default(), Step::TakeOver),
        });
        let sent = Instant::now();
        let text = write::create(&self.client, &LEASES.namespaced(namespace), body.to_string()).await?;
        self.won(&text, sent)
    }

    /// Writes the Lease in the state that was read.
    async fn write(&mut self, lease: &Lease, step: Step) -> Result<(), Trouble> {
        let body = json!({
            "metadata": {"resourceVersion": lease.metadata.resource_version},
            "spec": self.spec(lease, step),
        });
        let sent = Instant::now();
        let text = write::patch(&self.client, &self.path(), PatchKind::Merge, body.to_string()).await?;
        self.won(&text, sent)
    }

    fn won(&mut self, text: &str, sent: Instant) -> Result<(), Trouble> {
        self.held = Some((serde_json::from_str(text)?, sent + self.settings.renew_deadline));
        Ok(())
    }

    fn spec(&self, lease: &Lease, step: Step) -> serde_json::Value {
        let now = format!("{:.6}", Timestamp::now());
        let taken = step == Step::TakeOver;
        let transitions = lease.spec.lease_transitions;
        json!({
            "holderIdentity": self.settings.identity,
            "leaseDurationSeconds": self.settings.lease_duration.as_secs().max(1),
            "renewTime": now,
            "acquireTime": if taken { Some(&now) } else { lease.spec.acquire_time.as_ref() },
            "leaseTransitions":
                if taken { Some(transitions.map_or(0, |count| count.saturating_add(1))) } else { transitions },
        })
    }

    async fn release(&self, lease: &Lease) {
        let body = json!({
            "metadata": {"resourceVersion": lease.metadata.resource_version},
            "spec": {"holderIdentity": "", "leaseDurationSeconds": 1, "renewTime": format!("{:.6}", Timestamp::now())},
        });
        let path = self.path();
        let release = write::patch(&self.client, &path, PatchKind::Merge, body.to_string());
        match timeout(RELEASE, release).await {
            Ok(Ok(_)) => {}
            Ok(Err(error)) => warn!(%error, "the Lease was not given up"),
            Err(_) => warn!("the Lease was not given up in time"),
        }
    }

    fn path(&self) -> Path {
        LEASES.namespaced(&self.settings.namespace).name(&self.settings.name)
    }
}

/// Why nothing could be done about the Lease.
#[derive(Debug, thiserror::Error)]
enum Trouble {
    #[error(transparent)]
    Api(#[from] ApiError),
    #[error("the Lease can't be read: {0}")]
    Unreadable(#[from] serde_json::Error),
    #[error("no answer in time")]
    Slow,
}
