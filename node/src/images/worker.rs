//! One pull, from its turn to its end (docs/behaviour/node-agent.md#one-pull). A worker that is stopped is dropped:
//! what it asked of the runtime is cancelled.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;
use std::time::Duration;

use agent::keyring::{Credentials, Keyring};
use agent::pull::{Next, Terms, is_satisfied_by_present, reference, sandbox};
use agent::pull_groups::{PullGroup, pull_groups};
use agent::tasks::{Key, Refusal, Report, Worker};
use api::kinds::nodeimage::{Image, Tag, TagPullPolicy};
use cluster::panics::contained;
use cri::messages::{AuthConfig, PodSandboxConfig};
use cri::{CriError, Runtime};
use kinds::workload::image_task::word;
use tokio::sync::{Semaphore, mpsc, watch};
use tokio::time::{Instant, sleep, timeout};
use tracing::{debug, error, info};

use super::providers::Providers;
use super::records::{Records, is_called};
use super::secrets::Secrets;
use crate::metrics::Metrics;

/// Pause before a runtime that is away is asked again.
const AWAY: Duration = Duration::from_secs(1);

/// What all workers share.
#[derive(Clone)]
pub(super) struct Tools {
    pub runtime: Runtime,
    pub secrets: Secrets,
    pub providers: Providers,
    pub metrics: Metrics,
    /// So many pulls may continue at a time; all of them where it is absent.
    pub turns: Option<Arc<Semaphore>>,
    /// One list of images is read at a time: it is the largest thing that the agent holds.
    pub looks: Arc<Semaphore>,
    /// The images that not everybody has.
    pub records: Arc<Records>,
}

/// What a worker reports.
pub(super) struct Outcome {
    pub key: Key,
    pub worker: Worker,
    pub report: Report,
    /// How long the pull has taken, where it has ended.
    pub elapsed: Duration,
}

/// What is to be pulled, by whom, and who wants to hear of it.
pub(super) struct Work {
    pub worker: Worker,
    pub outcomes: mpsc::Sender<Outcome>,
    pub key: Key,
    /// What is asked for now: owners and their Secrets may come while it is pulled.
    pub image: watch::Receiver<Image>,
    pub terms: TagPullPolicy,
    /// The round before used credentials, though it may not be known which.
    pub is_doubtful: bool,
}

impl Work {
    /// The image and its task as they are now.
    fn wanted(&self) -> (Image, Tag) {
        let image = self.image.borrow().clone();
        let task = image.tags.iter().find(|tag| tag.tag == self.key.tag).cloned();
        // A worker whose task has left is stopped.
        (image, task.unwrap_or_default())
    }

    async fn record(&self, report: Report, elapsed: Duration) {
        // The receiver lives as long as the workers.
        drop(
            self.outcomes.send(Outcome { key: self.key.clone(), worker: self.worker, report, elapsed }).await,
        );
    }
}

/// What a pull has come to so far.
#[derive(Default)]
struct Served {
    /// Those who have the image.
    owners: BTreeSet<String>,
    /// When each owner had its last turn.
    turns: BTreeMap<String, Instant>,
    /// Its ID.
    id: Option<String>,
    /// It came with credentials that not everybody has.
    is_private: bool,
}

impl Served {
    fn take_in(&mut self, pull_group: PullGroup, Came { id, is_private }: Came) {
        self.owners.extend(pull_group.owners);
        self.is_private |= is_private;
        self.id = id.or(self.id.take());
    }

    /// Those who have not got the image yet. The one with the last turn may have taken all the time of an attempt, and
    /// is last in the next.
    fn left(&self, mut pull_groups: Vec<PullGroup>) -> Vec<PullGroup> {
        pull_groups.retain(|pull_group| !pull_group.owners.iter().all(|owner| self.owners.contains(owner)));
        let turn = |pull_group: &PullGroup| {
            pull_group.owners.iter().filter_map(|owner| self.turns.get(owner)).max().copied()
        };
        pull_groups.sort_by_key(turn);
        pull_groups
    }

    /// Tells the others why they have not got it. All are named where it may be there with credentials: an agent that
    /// starts anew asks then for each of them.
    fn refusal(&self, work: &Work, error: String) -> Refusal {
        let names = work.wanted().1.owner_references.iter().map(word).collect::<BTreeSet<_>>();
        let some = work.is_doubtful || !self.owners.is_empty();
        let owners = names.difference(&self.owners).filter(|_| some).cloned().collect();
        Refusal { owners, error }
    }
}

/// An image that came.
struct Came {
    id: Option<String>,
    is_private: bool,
}

/// Why an attempt failed.
struct Failure {
    message: String,
    /// The runtime does not answer, so that nothing was tried.
    away: bool,
}

impl From<CriError> for Failure {
    fn from(error: CriError) -> Self {
        Self { away: error.is_unreachable(), message: error.to_string() }
    }
}

/// Does one pull and reports it, whatever happens.
pub(super) async fn serve(tools: Tools, work: Work) {
    let (end, elapsed) = match contained(pull(&tools, &work)).await {
        Ok(end) => end,
        Err(panicked) => {
            error!(panicked.message, panicked.place, "a pull panicked");
            let error = "the agent failed, see its log".to_owned();
            (Report::Failed(Refusal { owners: Vec::new(), error }), Duration::ZERO)
        }
    };
    work.record(end, elapsed).await;
}

/// Pulls. Gives the last report, and how long it took.
async fn pull(tools: &Tools, work: &Work) -> (Report, Duration) {
    // Nobody closes the semaphore.
    let _turn = match &tools.turns {
        Some(turns) => turns.acquire().await.ok(),
        None => None,
    };
    let _running = tools.metrics.begin();
    work.record(Report::Began, Duration::ZERO).await;
    let (start, name) = (Instant::now(), reference(&work.key.image, &work.key.tag));
    let (terms, mut served) = (Terms::new(&work.terms), Served::default());
    let (mut failed, mut rested, mut last) = (0_u32, true, String::new());
    let end = loop {
        match terms.next(failed, start.elapsed(), rested) {
            Next::Wait(pause) => {
                sleep(pause).await;
                rested = true;
            }
            Next::Try(limit) => {
                let late = || Err(format!("pulling image {name} is canceled"));
                let asked = timeout(limit, attempt(tools, work, (&name, start), &mut served)).await;
                match asked.unwrap_or_else(|_| late()) {
                    Ok(()) => {
                        break Report::Succeeded { id: served.id, is_private: served.is_private };
                    }
                    Err(message) => {
                        (failed, rested) = (failed.saturating_add(1), false);
                        debug!(image = name, failed, error = message, "an attempt to pull failed");
                        if failed < terms.attempts {
                            let refusal = served.refusal(work, format!("attempt {failed} failed: {message}"));
                            work.record(Report::Stumbled(refusal), Duration::ZERO).await;
                        }
                        last = message;
                    }
                }
            }
            Next::Exhausted => break Report::Failed(served.refusal(work, last)),
            Next::Late => {
                let late = "pulling exceeds the activeDeadlineSeconds".to_owned();
                break Report::Failed(served.refusal(work, late));
            }
        }
    };
    let elapsed = start.elapsed();
    let succeeded = matches!(end, Report::Succeeded { .. });
    tools.metrics.end(succeeded, elapsed);
    info!(image = name, succeeded, ?elapsed, "a pull ended");
    (end, elapsed)
}

/// One attempt: a runtime that is away for a moment, such as one that is being restarted, is waited for.
async fn attempt(
    tools: &Tools,
    work: &Work,
    what: (&str, Instant),
    served: &mut Served,
) -> Result<(), String> {
    loop {
        match ask(tools, work, what, served).await {
            Err(failure) if failure.away => sleep(AWAY).await,
            Err(failure) => return Err(failure.message),
            Ok(()) => return Ok(()),
        }
    }
}

/// Pulls for each of those who have not got the image yet, with what they brought. One that fails stops no other.
async fn ask(
    tools: &Tools,
    work: &Work,
    (name, start): (&str, Instant),
    served: &mut Served,
) -> Result<(), Failure> {
    let (image, task) = work.wanted();
    let there = if is_satisfied_by_present(&task) { present(tools, name).await? } else { None };
    if let Some(id) = &there
        && !work.is_doubtful
        && !tools.records.knows(id)
    {
        served.id = there;
        return Ok(());
    }
    let passes = tools.secrets.passes(&image.pull_secrets, &task.owner_references, start).await;
    let mut errors = Vec::new();
    let mut left = served.left(pull_groups(&task.owner_references, &passes)).into_iter();
    while let Some(pull_group) = left.next() {
        served.turns.extend(pull_group.owners.iter().map(|owner| (owner.clone(), Instant::now())));
        let known = there.as_ref().filter(|id| tools.records.admits(id, &pull_group)).cloned();
        let came = match known {
            Some(id) => Ok(Came { id: Some(id), is_private: true }),
            None => as_party(tools, &image, name, &pull_group).await?,
        };
        match came {
            Ok(came) => {
                served.take_in(pull_group, came);
                if !left.as_slice().is_empty() {
                    let refusal = served.refusal(work, "it is still being pulled for them".to_owned());
                    work.record(Report::Stumbled(refusal), Duration::ZERO).await;
                }
            }
            Err(error) if errors.contains(&error) => {}
            Err(error) => errors.push(error),
        }
    }
    if errors.is_empty() { Ok(()) } else { Err(Failure { message: errors.join("; "), away: false }) }
}

/// Asks the runtime, as each of those whose credentials fit, or as nobody where none do.
async fn as_party(
    tools: &Tools,
    image: &Image,
    name: &str,
    pull_group: &PullGroup,
) -> Result<Result<Came, String>, Failure> {
    let keyring = match pull_group.keyring() {
        Ok(keyring) => keyring,
        Err(error) => return Ok(Err(error)),
    };
    let (labels, annotations) = sandbox(&image.sandbox_config);
    let sandbox = PodSandboxConfig {
        labels: labels.into_iter().collect(),
        annotations: annotations.into_iter().collect(),
    };
    let mut refused = Refused::default();
    if !keyring.candidates(name).is_empty() {
        let begun = match tools.records.begin(name).await {
            Ok(begun) => begun,
            Err(error) => return Ok(Err(error)),
        };
        match as_each(tools, name, &keyring, &sandbox).await? {
            Answer::Came(id) => {
                let recorded = begun.came(id.as_deref(), pull_group).await;
                return Ok(recorded.map(|()| Came { id, is_private: true }));
            }
            Answer::Refused(those) => refused = those,
        }
        begun.failed();
    }
    if refused.are_doubted {
        // The next attempt reads them anew.
        tools.secrets.forget(&pull_group.secrets());
    }
    // Programs take time: they are asked where the Secrets are not enough.
    let (keyring, complaints) = tools.providers.keyring(name).await;
    let again = match as_each(tools, name, &keyring, &sandbox).await? {
        Answer::Came(id) => return Ok(Ok(public(tools, id))),
        Answer::Refused(refused) => refused,
    };
    if again.are_doubted {
        tools.providers.forget(name).await;
    }
    let mut errors = [refused.errors, again.errors].concat();
    if errors.is_empty() {
        match tools.runtime.pull_image(name, None, sandbox).await {
            Ok(_) => return Ok(Ok(public(tools, present(tools, name).await?))),
            Err(error) if error.is_unreachable() => return Err(error.into()),
            Err(error) => errors.push(format!("Failed to pull image reference {name:?}: {error}")),
        }
    }
    errors.extend(complaints);
    Ok(Err(errors.join("; ")))
}

/// An image that came without Secrets: everybody on the node can have it.
fn public(tools: &Tools, id: Option<String>) -> Came {
    id.iter().for_each(|id| tools.records.is_public(id));
    Came { id, is_private: false }
}

/// What came of the credentials of a keyring.
enum Answer {
    /// The image came.
    Came(Option<String>),
    /// None of those that fit was enough.
    Refused(Refused),
}

/// Credentials that were not enough.
#[derive(Default)]
struct Refused {
    /// An error for each of them.
    errors: Vec<String>,
    /// The registry does not believe one of them.
    are_doubted: bool,
}

/// Asks the runtime as each of those whose credentials fit.
async fn as_each(
    tools: &Tools,
    name: &str,
    keyring: &Keyring,
    sandbox: &PodSandboxConfig,
) -> Result<Answer, CriError> {
    let mut refused = Refused::default();
    for Credentials { username, password } in keyring.candidates(name).into_iter().cloned() {
        let auth = AuthConfig { username, password };
        match tools.runtime.pull_image(name, Some(auth), sandbox.clone()).await {
            Ok(_) => return Ok(Answer::Came(present(tools, name).await?)),
            Err(error) if error.is_unreachable() => return Err(error),
            Err(error) => {
                refused.are_doubted |= error.is_authentication();
                refused.errors.push(error.to_string());
            }
        }
    }
    Ok(Answer::Refused(refused))
}

/// The ID of an image that is on the node.
async fn present(tools: &Tools, name: &str) -> Result<Option<String>, CriError> {
    // Nobody closes the semaphore.
    let _look = tools.looks.acquire().await.ok();
    let images = tools.runtime.list_images(None).await?;
    tools.records.see(&images);
    Ok(images.into_iter().find(|image| is_called(image, name)).map(|image| image.id))
}
