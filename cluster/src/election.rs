//! Leader election: controllers run on one replica at a time, the holder of a Lease. What to do about the
//! Lease is decided by [`values::election`].

use std::time::Duration;

use jiff::Timestamp;
use kube::Client;
use serde_json::json;
use tokio::sync::watch;
use tokio::task::JoinHandle;
use tokio::time::{Instant, sleep, timeout, timeout_at};
use tracing::{debug, error, info, warn};
use values::election::{Lease, Observation, Step};

use crate::error::{ApiError, ErrorReason, Retry};
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
    /// Pause between two reads of the Lease, and before a renewal that failed is tried again.
    pub retry_period: Duration,
}

/// The election in progress: true while this replica leads.
pub struct Election {
    /// Changes whenever leadership is won or lost.
    pub leading: watch::Receiver<bool>,
    task: JoinHandle<End>,
}

/// Why an election ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum End {
    /// It was given up, or failed.
    Resigned,
    /// The Lease went back to an earlier state: etcd was restored from a backup. What else was observed in the cluster
    /// may be of a later state too, and watches do not show it.
    Restored {
        /// As far as this replica knows it led until then.
        led: bool,
    },
}

/// Longest time for giving the Lease up, and before that for the answer that says whether it is held.
const RELEASE: Duration = Duration::from_secs(3);

impl Election {
    /// Gives the Lease up, so that another replica can take over at once.
    pub async fn resign(self) -> End {
        drop(self.leading);
        self.task.await.unwrap_or_else(|error| {
            warn!(%error, "the election did not end in order");
            End::Resigned
        })
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
        newest: 0,
        held: None,
        led: false,
    };
    Election { leading, task: tokio::spawn(candidate.campaign(sender)) }
}

struct Candidate {
    client: Client,
    settings: Settings,
    started: Instant,
    observation: Observation,
    /// The newest version of the Lease that was observed.
    newest: u64,
    /// Our Lease, and until when it makes us the leader.
    held: Option<(Lease, Instant)>,
    /// Nobody is known to have held the Lease after us.
    led: bool,
}

impl Candidate {
    /// A leader whose renewals fail leads until its deadline, counted from before the last one that came
    /// through was sent. That is before anybody else may take over.
    async fn campaign(mut self, leading: watch::Sender<bool>) -> End {
        loop {
            let deadline = self.held.as_ref().map(|(_, until)| *until);
            let deadline = deadline.unwrap_or_else(|| Instant::now() + self.settings.renew_deadline);
            let result = {
                let mut round = std::pin::pin!(timeout_at(deadline, self.round()));
                tokio::select! {
                    result = &mut round => Some(result.unwrap_or(Err(LeaseError::Slow))),
                    // What it has sent may win the Lease: that is known only when it has the answer.
                    () = leading.closed() => {
                        drop(timeout(RELEASE, round).await);
                        None
                    }
                }
            };
            let Some(result) = result else { break };
            let is_answered = result.is_ok();
            if let Err(error) = result {
                if matches!(error, LeaseError::Restored { .. }) {
                    error!(%error, "the election ends");
                    return End::Restored { led: self.led };
                }
                warn!(%error, "the Lease can't be held, will be tried again");
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
        End::Resigned
    }

    /// Looks at the Lease and does what is to be done. Without an answer we are what we were.
    async fn round(&mut self) -> Result<(), LeaseError> {
        // Nobody else writes to our Lease as long as we renew it: it need not be read.
        if let Some((lease, _)) = &self.held {
            let known = lease.clone();
            match self.write(&known, Step::Renew).await {
                Err(LeaseError::Api(error)) if error.retry() == Retry::Now => self.held = None,
                result => return result,
            }
        }
        let Some(text) = write::get(&self.client, &self.path()).await? else {
            return self.create().await;
        };
        let lease = self.read(&text)?;
        let Settings { identity, lease_duration, .. } = &self.settings;
        match self.observation.decide(&lease, identity, *lease_duration, self.started.elapsed()) {
            Step::Wait => {
                debug!(holder = lease.spec.holder_identity, "another replica leads");
                self.held = None;
                self.led = false;
                Ok(())
            }
            step => self.write(&lease, step).await,
        }
    }

    async fn create(&mut self) -> Result<(), LeaseError> {
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
    async fn write(&mut self, lease: &Lease, step: Step) -> Result<(), LeaseError> {
        let body = json!({
            "metadata": {"resourceVersion": lease.metadata.resource_version},
            "spec": self.spec(lease, step),
        });
        let sent = Instant::now();
        let text = write::patch(&self.client, &self.path(), PatchKind::Merge, body.to_string()).await?;
        self.won(&text, sent)
    }

    fn won(&mut self, text: &str, sent: Instant) -> Result<(), LeaseError> {
        self.held = Some((self.read(text)?, sent + self.settings.renew_deadline));
        self.led = true;
        Ok(())
    }

    /// The Lease of an answer. Versions of an object only grow.
    fn read(&mut self, text: &str) -> Result<Lease, LeaseError> {
        let lease: Lease = serde_json::from_str(text)?;
        if let Ok(version) = lease.metadata.resource_version.parse() {
            if version < self.newest {
                return Err(LeaseError::Restored { version, observed: self.newest });
            }
            self.newest = version;
        }
        Ok(lease)
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
        match timeout(RELEASE, self.give_up(lease)).await {
            Ok(Ok(())) => {}
            Ok(Err(error)) => warn!(%error, "the Lease was not given up"),
            Err(_) => warn!("the Lease was not given up in time"),
        }
    }

    /// A renewal that was broken off may have been carried out all the same: the Lease is ours in another state then.
    async fn give_up(&self, lease: &Lease) -> Result<(), LeaseError> {
        match self.vacate(lease).await {
            Err(error) if error.reason() == ErrorReason::Conflict => {}
            answer => return answer.map_err(LeaseError::from),
        }
        let Some(text) = write::get(&self.client, &self.path()).await? else { return Ok(()) };
        let lease: Lease = serde_json::from_str(&text)?;
        if lease.spec.holder_identity.as_ref() == Some(&self.settings.identity) {
            self.vacate(&lease).await?;
        }
        Ok(())
    }

    /// Names no holder any more, in the state that was read.
    async fn vacate(&self, lease: &Lease) -> Result<(), ApiError> {
        let now = format!("{:.6}", Timestamp::now());
        let body = json!({
            "metadata": {"resourceVersion": lease.metadata.resource_version},
            "spec": {"holderIdentity": "", "leaseDurationSeconds": 1, "renewTime": now},
        });
        write::patch(&self.client, &self.path(), PatchKind::Merge, body.to_string()).await.map(drop)
    }

    fn path(&self) -> Path {
        LEASES.namespaced(&self.settings.namespace).name(&self.settings.name)
    }
}

/// Why nothing could be done about the Lease.
#[derive(Debug, thiserror::Error)]
enum LeaseError {
    #[error(transparent)]
    Api(#[from] ApiError),
    #[error("the Lease can't be read: {0}")]
    Unreadable(#[from] serde_json::Error),
    #[error("no answer in time")]
    Slow,
    #[error("etcd was restored from a backup: the Lease has version {version} after {observed}")]
    Restored { version: u64, observed: u64 },
}

#[cfg(test)]
mod tests {
    use std::sync::{Arc, Mutex};

    use http::{Method, Request, Response};
    use kube::client::Body;
    use serde_json::Value;

    use super::*;

    const IDENTITY: &str = "us";

    fn settings() -> Settings {
        Settings {
            namespace: "kruise-system".to_owned(),
            name: "kruise-manager".to_owned(),
            identity: IDENTITY.to_owned(),
            lease_duration: Duration::from_secs(15),
            renew_deadline: Duration::from_secs(10),
            retry_period: Duration::from_secs(2),
        }
    }

    fn state(version: &str, holder: &str) -> Value {
        json!({"metadata": {"resourceVersion": version}, "spec": {"holderIdentity": holder}})
    }

    /// The versions of the Lease that are named when it is given up in version 7 while it has version 8 and this holder.
    async fn named(holder: &'static str) -> Vec<Value> {
        let versions = Arc::new(Mutex::new(Vec::new()));
        let log = Arc::clone(&versions);
        let service = tower::service_fn(move |request: Request<Body>| {
            let log = Arc::clone(&log);
            async move {
                let mut answer = (200, state("8", holder));
                if *request.method() == Method::PATCH {
                    let body = request.into_body().collect_bytes().await.unwrap();
                    let version =
                        serde_json::from_slice::<Value>(&body).unwrap()["metadata"]["resourceVersion"].take();
                    if version != "8" {
                        answer = (
                            409,
                            json!({"kind": "Status", "code": 409, "reason": "Conflict", "message": ""}),
                        );
                    }
                    log.lock().unwrap().push(version);
                }
                let (code, body) = answer;
                let answer = Response::builder().status(code).body(Body::from(body.to_string().into_bytes()));
                Ok::<_, std::convert::Infallible>(answer.unwrap())
            }
        });
        let candidate = Candidate {
            client: Client::new(service, "default"),
            settings: settings(),
            started: Instant::now(),
            observation: Observation::default(),
            newest: 0,
            held: None,
            led: false,
        };
        candidate.release(&serde_json::from_value(state("7", IDENTITY)).unwrap()).await;
        drop(candidate);
        std::mem::take(&mut versions.lock().unwrap())
    }

    #[tokio::test]
    async fn a_lease_is_given_up_after_a_renewal_that_was_broken_off() {
        assert_eq!(named(IDENTITY).await, ["7", "8"]);
        assert_eq!(named("another").await, ["7"]);
    }

    #[tokio::test]
    async fn a_lease_that_is_won_while_the_replica_resigns_is_given_up() {
        let (written, mut holders) = tokio::sync::mpsc::unbounded_channel();
        let (answer, answered) = watch::channel(false);
        let service = tower::service_fn(move |request: Request<Body>| {
            let (written, mut answered) = (written.clone(), answered.clone());
            async move {
                let mut holder = Value::from("");
                if *request.method() == Method::PATCH {
                    let body = request.into_body().collect_bytes().await.unwrap();
                    holder = serde_json::from_slice::<Value>(&body).unwrap()["spec"]["holderIdentity"].take();
                    written.send(holder.clone()).unwrap();
                    drop(answered.wait_for(|answered| *answered).await);
                }
                let body = state("8", holder.as_str().unwrap()).to_string().into_bytes();
                Ok::<_, std::convert::Infallible>(Response::new(Body::from(body)))
            }
        });
        let election = run(Client::new(service, "default"), settings());
        assert_eq!(holders.recv().await.unwrap(), IDENTITY);
        let resigned = tokio::spawn(election.resign());
        // The election learns of it first.
        for _ in 0..10 {
            tokio::task::yield_now().await;
        }
        answer.send_replace(true);
        assert_eq!(resigned.await.unwrap(), End::Resigned);
        assert_eq!(holders.recv().await.unwrap(), "");
    }

    /// How the election ends where the Lease has this holder and these versions, one after the other.
    async fn end(holder: &'static str, versions: [&'static str; 3]) -> End {
        let mut versions = versions.into_iter();
        let (observed, mut is_over) = watch::channel(false);
        let service = tower::service_fn(move |_: Request<Body>| {
            let version = versions.next();
            observed.send_replace(version.is_none());
            let body = state(version.unwrap_or("99"), holder).to_string();
            std::future::ready(Ok::<_, std::convert::Infallible>(Response::new(Body::from(
                body.into_bytes(),
            ))))
        });
        let mut election = run(Client::new(service, "default"), settings());
        tokio::select! {
            () = async { while election.leading.changed().await.is_ok() {} } => {}
            // Otherwise the server went with the election.
            Ok(_) = is_over.wait_for(|over| *over) => {}
        }
        election.resign().await
    }

    #[tokio::test(start_paused = true)]
    async fn a_lease_that_goes_back_ends_the_election() {
        assert_eq!(end("another", ["7", "8", "8"]).await, End::Resigned);
        assert_eq!(end("another", ["9", "10", "9"]).await, End::Restored { led: false });
        assert_eq!(end("", ["9", "10", "8"]).await, End::Restored { led: true });
    }
}
