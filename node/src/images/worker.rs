//! One pull, from its turn to its end (docs/behaviour/node-agent.md#one-pull). A worker that is stopped is dropped:
//! what it asked of the runtime is cancelled.

use std::sync::Arc;
use std::time::Duration;

use api::kinds::nodeimage::{Image, Tag};
use cluster::panics::contained;
use cri::messages::{AuthConfig, PodSandboxConfig};
use cri::{CriError, Runtime};
use planner::node::keyring::{Credentials, Keyring};
use planner::node::pull::{Next, Present, Terms, is_satisfied_by_present, reference, sandbox};
use planner::node::tasks::{Key, Report, Worker};
use tokio::sync::{Semaphore, mpsc};
use tokio::time::{Instant, sleep, timeout};
use tracing::{debug, error, info};

use super::providers::Providers;
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
    /// So many pulls may go on at a time; all of them where it is absent.
    pub turns: Option<Arc<Semaphore>>,
    /// One list of images is read at a time: it is the largest thing that the agent holds.
    pub looks: Arc<Semaphore>,
}

/// What a worker tells.
pub(super) struct Told {
    pub key: Key,
    pub worker: Worker,
    pub report: Report,
    /// How long the pull has taken, where it has ended.
    pub elapsed: Duration,
}

/// What is to be pulled, by whom, and who wants to hear of it.
pub(super) struct Work {
    pub worker: Worker,
    pub tell: mpsc::Sender<Told>,
    pub key: Key,
    pub image: Image,
    pub task: Tag,
}

impl Work {
    async fn tell(&self, report: Report, elapsed: Duration) {
        // The receiver lives as long as the workers.
        drop(self.tell.send(Told { key: self.key.clone(), worker: self.worker, report, elapsed }).await);
    }
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

/// Does one pull and tells of it, whatever happens.
pub(super) async fn serve(tools: Tools, work: Work) {
    let (end, elapsed) = match contained(pull(&tools, &work)).await {
        Ok(end) => end,
        Err(panicked) => {
            error!(message = panicked.message, place = panicked.place, "a pull panicked");
            (Report::Failed("the agent failed, see its log".to_owned()), Duration::ZERO)
        }
    };
    work.tell(end, elapsed).await;
}

/// Pulls. Gives the last report, and how long it took.
async fn pull(tools: &Tools, work: &Work) -> (Report, Duration) {
    // Nobody closes the semaphore.
    let _turn = match &tools.turns {
        Some(turns) => turns.acquire().await.ok(),
        None => None,
    };
    let _running = tools.metrics.begin();
    work.tell(Report::Began, Duration::ZERO).await;
    let (start, name) = (Instant::now(), reference(&work.key.image, &work.key.tag));
    let terms = Terms::new(&work.task.pull_policy);
    let (mut failed, mut rested, mut last) = (0_u32, true, String::new());
    let end = loop {
        match terms.next(failed, start.elapsed(), rested) {
            Next::Wait(pause) => {
                sleep(pause).await;
                rested = true;
            }
            Next::Try(limit) => {
                let late = || Err(format!("pulling image {name} is canceled"));
                match timeout(limit, attempt(tools, work, &name)).await.unwrap_or_else(|_| late()) {
                    Ok(id) => break Report::Succeeded(id),
                    Err(message) => {
                        (failed, rested) = (failed.saturating_add(1), false);
                        debug!(image = name, failed, message, "an attempt to pull failed");
                        if failed < terms.attempts {
                            let report = Report::Stumbled(format!("attempt {failed} failed: {message}"));
                            work.tell(report, Duration::ZERO).await;
                        }
                        last = message;
                    }
                }
            }
            Next::Exhausted => break Report::Failed(last),
            Next::Late => break Report::Failed("pulling exceeds the activeDeadlineSeconds".to_owned()),
        }
    };
    let elapsed = start.elapsed();
    let succeeded = matches!(end, Report::Succeeded(_));
    tools.metrics.end(succeeded, elapsed);
    info!(image = name, succeeded, ?elapsed, "a pull ended");
    (end, elapsed)
}

/// One attempt: a runtime that is away for a moment, such as one that is being restarted, is waited for.
async fn attempt(tools: &Tools, work: &Work, name: &str) -> Result<Option<String>, String> {
    loop {
        match ask(tools, work, name).await {
            Err(failure) if failure.away => sleep(AWAY).await,
            Err(failure) => return Err(failure.message),
            Ok(id) => return Ok(id),
        }
    }
}

/// Asks the runtime, as each of those whose credentials fit, or as nobody where none do.
async fn ask(tools: &Tools, work: &Work, name: &str) -> Result<Option<String>, Failure> {
    if is_satisfied_by_present(&work.task)
        && let Some(id) = present(tools, name).await?
    {
        return Ok(Some(id));
    }
    let (secrets, pull_secrets) = (&tools.secrets, &work.image.pull_secrets);
    let keyring = secrets.keyring(pull_secrets).await;
    let keyring = keyring.map_err(|message| Failure { message, away: false })?;
    let (labels, annotations) = sandbox(&work.image.sandbox_config);
    let sandbox = PodSandboxConfig {
        labels: labels.into_iter().collect(),
        annotations: annotations.into_iter().collect(),
    };
    let refused = match as_each(tools, name, &keyring, &sandbox).await? {
        Answer::Came(id) => return Ok(id),
        Answer::Refused(refused) => refused,
    };
    if refused.are_doubted {
        // The next attempt reads them anew.
        secrets.forget(pull_secrets);
    }
    // Programs take time: they are asked where the Secrets are not enough.
    let (keyring, complaints) = tools.providers.keyring(name).await;
    let again = match as_each(tools, name, &keyring, &sandbox).await? {
        Answer::Came(id) => return Ok(id),
        Answer::Refused(refused) => refused,
    };
    if again.are_doubted {
        tools.providers.forget(name).await;
    }
    let mut errors = [refused.errors, again.errors].concat();
    if errors.is_empty() {
        match tools.runtime.pull_image(name, None, sandbox).await {
            Ok(_) => return Ok(present(tools, name).await?),
            Err(error) if error.is_unreachable() => return Err(error.into()),
            Err(error) => errors.push(format!("Failed to pull image reference {name:?}: {error}")),
        }
    }
    errors.extend(complaints);
    Err(Failure { message: errors.join("; "), away: false })
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
    let found = images
        .into_iter()
        .find(|image| Present { tags: &image.repo_tags, digests: &image.repo_digests }.is(name));
    Ok(found.map(|image| image.id))
}
