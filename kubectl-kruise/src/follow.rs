//! Following a rollout to its end.

use std::cell::Cell;
use std::pin::pin;
use std::process::ExitCode;
use std::time::Duration;

use anyhow::{anyhow, bail};
use cluster::resource::Resource;
use cluster::watched::WatchedObject;
use futures::{Stream, StreamExt};
use jiff::Timestamp;
use kube::Api;
use kube::runtime::WatchStreamExt;
use kube::runtime::watcher::{self, Event, watcher};
use plugin::kinds::WorkloadKind;
use plugin::progress::{self, Progress};
use plugin::{pods, staged};
use serde_json::Value;
use tokio::time::MissedTickBehavior;

use super::connection::Session;
use super::failures::{each, from_server};
use super::target::Named;
use super::terminal::{self, Block, print};

/// The time ran out.
const TIMED_OUT: u8 = 2;
/// The rollout failed.
const FAILED: u8 = 3;
/// The rollout waits for a person.
const HELD: u8 = 4;

/// How often a terminal is drawn again.
const REDRAW: Duration = Duration::from_secs(2);
/// How many Pods a terminal shows.
const SLOWEST: usize = 5;
/// Events in the form in which their types distinguish all of them.
const CORE_EVENTS: Resource<'_> = Resource::new("v1", "events", "Event");

/// How a rollout is followed.
#[derive(Clone, Copy, Debug)]
pub(super) struct Following {
    /// Go on until it is done, instead of printing the state once.
    pub(super) watches: bool,
    /// The time limit: zero has none.
    pub(super) timeout: Duration,
    /// The exit code says what went wrong.
    pub(super) exit_codes: bool,
    /// Tell which Pods are updated.
    pub(super) detail: bool,
}

impl Following {
    /// The exit code of an end that is no success.
    fn code(self, code: u8) -> ExitCode {
        if self.exit_codes { ExitCode::from(code) } else { ExitCode::FAILURE }
    }
}

/// Says how far the rollout is, each time that it says something else.
pub(super) async fn follow(
    session: &Session,
    named: &Named,
    following: Following,
) -> anyhow::Result<ExitCode> {
    let is_held = Cell::new(false);
    let late = || following.code(if is_held.get() { HELD } else { TIMED_OUT });
    let viewer = Viewer {
        session,
        named,
        following,
        draws: terminal::draws() && following.watches,
        block: Block::default(),
        reported: String::new(),
        is_pause_reported: false,
        is_held: &is_held,
    };
    within(following.timeout, late, watch(viewer)).await
}

/// Runs `work` with a time limit (zero: none) and returns what `late` says when it expires.
pub(super) async fn within(
    timeout: Duration,
    late: impl FnOnce() -> ExitCode,
    work: impl Future<Output = anyhow::Result<ExitCode>>,
) -> anyhow::Result<ExitCode> {
    if timeout.is_zero() {
        return work.await;
    }
    match tokio::time::timeout(timeout, work).await {
        Ok(done) => done,
        Err(_) => {
            eprintln!("error: timed out waiting for the condition");
            Ok(late())
        }
    }
}

/// Follows what was written, one object after the other; `None` does not follow.
pub(super) async fn follow_all(
    session: &Session,
    all: &[Named],
    following: Option<Following>,
) -> anyhow::Result<ExitCode> {
    let Some(following) = following else { return Ok(ExitCode::SUCCESS) };
    let mut worst = ExitCode::SUCCESS;
    each(all, async |named| {
        let code = follow(session, named, following).await?;
        if code != ExitCode::SUCCESS {
            worst = code;
        }
        Ok(())
    })
    .await?;
    Ok(worst)
}

/// The object of this name, at each change; `namespace` is empty for a kind of the cluster. A watch that was cut continues by
/// itself; an object that is deleted is an error, and so is a watch that is not allowed.
pub(super) fn events(
    session: &Session,
    resource: Resource<'_>,
    namespace: &str,
    name: &str,
) -> impl Stream<Item = anyhow::Result<Value>> + use<> {
    let kind = resource.api_resource();
    let mut what = format!("{}.{}", kind.plural, kind.group).trim_end_matches('.').to_owned();
    let api: Api<WatchedObject> = if namespace.is_empty() {
        Api::all_with(session.client.clone(), &kind)
    } else {
        what.push_str(&format!(" in namespace {namespace:?}"));
        Api::namespaced_with(session.client.clone(), namespace, &kind)
    };
    let only = watcher::Config::default().fields(&format!("metadata.name={name}"));
    let mut is_absent = false;
    watcher(api, only).default_backoff().filter_map(move |event| {
        let observed = match event {
            Ok(event) => observed(event, &mut is_absent),
            Err(error) => denied(error, &what).map(Err),
        };
        std::future::ready(observed)
    })
}

/// What an event shows. A list that is complete without the object (`is_absent`) shows that it is gone.
fn observed(event: Event<WatchedObject>, is_absent: &mut bool) -> Option<anyhow::Result<Value>> {
    let read =
        |object: &WatchedObject| Some(serde_json::from_str(object.json()).map_err(anyhow::Error::from));
    let gone = || Err(anyhow!("object has been deleted"));
    match event {
        Event::Init => {
            *is_absent = true;
            None
        }
        Event::InitApply(object) => {
            *is_absent = false;
            read(&object)
        }
        Event::Apply(object) => read(&object),
        Event::InitDone => is_absent.then(gone),
        Event::Delete(_) => Some(gone()),
    }
}

/// The error of a watch that would be refused again and again.
fn denied(error: watcher::Error, what: &str) -> Option<anyhow::Error> {
    let (verb, status) = match error {
        watcher::Error::InitialListFailed(kube::Error::Api(status)) => ("list", status),
        watcher::Error::WatchStartFailed(kube::Error::Api(status))
        | watcher::Error::WatchFailed(kube::Error::Api(status))
        | watcher::Error::WatchError(status) => ("watch", status),
        _ => return None,
    };
    matches!(status.code, 401 | 403 | 404)
        .then(|| from_server(&status.reason, format!("cannot {verb} {what}: {}", status.message)))
}

/// A viewer of a rollout.
struct Viewer<'a> {
    session: &'a Session,
    named: &'a Named,
    following: Following,
    /// One block is drawn again and again, instead of lines.
    draws: bool,
    block: Block,
    /// The message that was printed last.
    reported: String,
    is_pause_reported: bool,
    /// The rollout waited for a person when it was read last.
    is_held: &'a Cell<bool>,
}

async fn watch(mut viewer: Viewer<'_>) -> anyhow::Result<ExitCode> {
    let (session, named) = (viewer.session, viewer.named);
    let mut object = session.read(named).await?;
    if let Some(code) = viewer.observe(&object).await? {
        return Ok(code);
    }
    let mut events = pin!(events(session, named.resource(session), named.namespace(session), &named.name));
    let mut redraw = tokio::time::interval(REDRAW);
    redraw.set_missed_tick_behavior(MissedTickBehavior::Delay);
    loop {
        tokio::select! {
            event = events.next() => {
                object = event.ok_or_else(|| anyhow!("the watch ended"))??;
            }
            // Pods change where the workload says nothing new.
            _ = redraw.tick(), if viewer.draws => {}
        }
        if let Some(code) = viewer.observe(&object).await? {
            return Ok(code);
        }
    }
}

impl Viewer<'_> {
    /// Says how far the rollout is, if that is new; gives the exit code at its end.
    async fn observe(&mut self, object: &Value) -> anyhow::Result<Option<ExitCode>> {
        let kind = self.named.kind;
        let progress = self.progress(object).await?;
        let is_held = matches!(progress, Progress::Waiting(_)) && progress::is_held(kind, object);
        self.is_held.set(is_held);
        if let Progress::Failed(message) = &progress {
            eprintln!("error: {message}");
            return Ok(Some(self.following.code(FAILED)));
        }
        let mut message = progress.message().to_owned();
        if self.following.detail && kind == WorkloadKind::CloneSet {
            message.push_str(&self.updated_pods(object).await?);
        }
        if self.draws {
            let lines = self.lines(object, &message).await;
            self.block.draw(&lines)?;
        } else if message != self.reported {
            print(format_args!("{message}\n"))?;
        }
        self.reported = message;
        if matches!(progress, Progress::Done(_)) {
            return Ok(Some(ExitCode::SUCCESS));
        }
        let is_paused = progress::is_paused(kind, object);
        if is_paused && !self.draws && !std::mem::replace(&mut self.is_pause_reported, true) {
            eprintln!("{} is paused", self.named.quoted());
        }
        let once =
            if is_held && self.following.exit_codes { self.following.code(HELD) } else { ExitCode::SUCCESS };
        Ok((!self.following.watches).then_some(once))
    }

    /// How far the rollout is. A Rollout that is over may not have observed the newest version of its workload.
    async fn progress(&self, object: &Value) -> anyhow::Result<Progress> {
        let Some(progress) = progress::progress(self.named.kind, object) else {
            bail!("no status viewer has been implemented for {}", self.named.quoted());
        };
        let is_over = !matches!(progress, Progress::Waiting(_));
        let reference =
            staged::workload(object).filter(|_| is_over && self.named.kind == WorkloadKind::Rollout);
        let Some(reference) = reference else { return Ok(progress) };
        let session = self.session.in_namespace(self.named.namespace(self.session));
        let workload = super::target::workload_of(&session, &reference).await?;
        Ok(workload.and_then(|workload| progress::awaits_workload(object, &workload)).unwrap_or(progress))
    }

    /// What a terminal shows of a rollout: how far it is, the Pods that take longest, and the newest warning. Who may not
    /// read Pods or Events sees the rest.
    async fn lines(&self, object: &Value, message: &str) -> Vec<String> {
        let kind = self.named.kind;
        let mut lines = Vec::from_iter(progress::bar(kind, object));
        if kind == WorkloadKind::Rollout {
            lines.extend(staged::step_lines(object));
            lines.extend(pods::text(object, "/status/message").lines().map(str::to_owned));
        }
        lines.extend(message.lines().map(str::to_owned));
        if progress::is_paused(kind, object) {
            lines.push("It is paused.".to_owned());
        }
        let uid = pods::text(object, "/metadata/uid");
        let namespace = self.named.namespace(self.session);
        let has_pods = !matches!(kind, WorkloadKind::SidecarSet | WorkloadKind::Rollout);
        let all = if has_pods { self.session.pods_of(namespace, object).await } else { Ok(Vec::new()) };
        let all = all.unwrap_or_default();
        let warnings = CORE_EVENTS.namespaced(namespace).query("fieldSelector=type=Warning");
        let events: Vec<Value> = self.session.list(&warnings).await.unwrap_or_default();
        let now = Timestamp::now();
        lines.extend(pods::slowest(&all, SLOWEST, now).into_iter().map(|pod| format!("  {pod}")));
        let warning = pods::newest_warning(&events, uid, &all, now);
        lines.extend(warning.map(|warning| format!("Warning {warning}")));
        lines
    }

    /// Two lines with the updated Pods of a CloneSet.
    async fn updated_pods(&self, set: &Value) -> anyhow::Result<String> {
        let pods = self.session.pods_of(self.named.namespace(self.session), set).await?;
        let (ready, not_ready) = progress::updated_pods(set, &pods);
        Ok(format!(
            "\nUpdated ready pods: [{}]\nUpdated not ready pods: [{}]",
            ready.join(" "),
            not_ready.join(" ")
        ))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn status(code: u16, reason: &str) -> Box<kube::core::Status> {
        let status =
            serde_json::json!({"status": "Failure", "message": "no", "reason": reason, "code": code});
        Box::new(serde_json::from_value(status).unwrap())
    }

    #[test]
    fn a_list_without_the_object_shows_that_it_is_gone() {
        let object = || serde_json::from_str::<WatchedObject>(r#"{"metadata": {"name": "web"}}"#).unwrap();
        let mut is_absent = false;
        let mut kinds = |event| match observed(event, &mut is_absent) {
            None => "nothing",
            Some(Ok(_)) => "object",
            Some(Err(error)) if error.to_string() == "object has been deleted" => "gone",
            Some(Err(_)) => "error",
        };
        assert_eq!(kinds(Event::Init), "nothing");
        assert_eq!(kinds(Event::InitApply(object())), "object");
        assert_eq!(kinds(Event::InitDone), "nothing");
        assert_eq!(kinds(Event::Apply(object())), "object");
        // The watch was cut, and the object went meanwhile.
        assert_eq!(kinds(Event::Init), "nothing");
        assert_eq!(kinds(Event::InitDone), "gone");
        assert_eq!(kinds(Event::Delete(object())), "gone");
    }

    #[test]
    fn a_watch_that_is_not_allowed_ends() {
        let what = "clonesets.apps.kruise.io in namespace \"shop\"";
        let error = watcher::Error::InitialListFailed(kube::Error::Api(status(403, "Forbidden")));
        let text = denied(error, what).unwrap().to_string();
        assert_eq!(text, format!("Error from server (Forbidden): cannot list {what}: no"));
        let error = watcher::Error::WatchError(status(401, "Unauthorized"));
        assert!(denied(error, what).unwrap().to_string().contains("cannot watch"));
        for (code, reason) in [(410, "Expired"), (429, "TooManyRequests"), (500, "InternalError")] {
            assert!(denied(watcher::Error::WatchError(status(code, reason)), what).is_none(), "{reason}");
        }
        assert!(denied(watcher::Error::NoResourceVersion, what).is_none());
    }
}
