//! Following a rollout to its end.

use std::io::Write;
use std::pin::pin;
use std::process::ExitCode;
use std::time::Duration;

use anyhow::{anyhow, bail};
use cluster::resource::{PODS, Resource};
use cluster::watched::WatchedObject;
use futures::{Stream, StreamExt};
use jiff::Timestamp;
use kube::Api;
use kube::runtime::WatchStreamExt;
use kube::runtime::watcher::{self, Event, watcher};
use planner::plugin::kinds::WorkloadKind;
use planner::plugin::pods;
use planner::plugin::progress::{self, Progress};
use serde_json::Value;

use super::connection::Session;
use super::target::Named;
use super::terminal::{self, Block};
use crate::explain::list_all;

/// The time ran out.
const TIMED_OUT: u8 = 2;
/// The rollout failed.
const FAILED: u8 = 3;

/// How often a terminal is drawn again.
const REDRAW: Duration = Duration::from_secs(2);
/// How many Pods a terminal shows.
const SLOWEST: usize = 5;
/// Events in the form in which all of them can be told apart by their type.
const CORE_EVENTS: Resource<'_> = Resource::new("v1", "events", "Event");

/// How a rollout is followed.
#[derive(Clone, Copy, Debug)]
pub(super) struct Following {
    /// Go on until it is done, instead of telling once.
    pub(super) watches: bool,
    /// How long: nothing is for ever.
    pub(super) timeout: Duration,
    /// The exit code tells what went wrong.
    pub(super) exit_codes: bool,
    /// Tell which Pods are updated.
    pub(super) detail: bool,
}

/// Tells how far the rollout is, each time that it says something else.
pub(super) async fn follow(
    session: &Session,
    named: &Named,
    following: Following,
) -> anyhow::Result<ExitCode> {
    let code = if following.exit_codes { TIMED_OUT } else { 1 };
    within(following.timeout, code, watch(session, named, following)).await
}

/// Does something for as long; no time is for ever.
pub(super) async fn within(
    timeout: Duration,
    code: u8,
    work: impl Future<Output = anyhow::Result<ExitCode>>,
) -> anyhow::Result<ExitCode> {
    if timeout.is_zero() {
        return work.await;
    }
    match tokio::time::timeout(timeout, work).await {
        Ok(done) => done,
        Err(_) => {
            eprintln!("error: timed out waiting for the condition");
            Ok(ExitCode::from(code))
        }
    }
}

/// Follows what was written, one object after the other.
pub(super) async fn follow_all(
    session: &Session,
    all: &[Named],
    timeout: Option<Duration>,
) -> anyhow::Result<ExitCode> {
    let Some(timeout) = timeout else { return Ok(ExitCode::SUCCESS) };
    let mut worst = ExitCode::SUCCESS;
    for named in all {
        let following = Following { watches: true, timeout, exit_codes: false, detail: false };
        let code = follow(session, named, following).await?;
        if code != ExitCode::SUCCESS {
            worst = code;
        }
    }
    Ok(worst)
}

/// What a watch of an object shows.
pub(super) enum Seen {
    /// The object as it is now.
    Object(Value),
    /// It is deleted.
    Gone,
}

/// The object, at each change. A watch that was cut goes on by itself.
pub(super) fn events(session: &Session, named: &Named) -> impl Stream<Item = anyhow::Result<Seen>> + use<> {
    let resource = named.resource(session).api_resource();
    let namespace = named.namespace(session);
    let api: Api<WatchedObject> = if named.kind.is_namespaced() {
        Api::namespaced_with(session.client.clone(), namespace, &resource)
    } else {
        Api::all_with(session.client.clone(), &resource)
    };
    let only = watcher::Config::default().fields(&format!("metadata.name={}", named.name));
    watcher(api, only).default_backoff().filter_map(|event| {
        let seen = match event {
            Ok(Event::Apply(object) | Event::InitApply(object)) => {
                Some(serde_json::from_str(object.json()).map(Seen::Object).map_err(anyhow::Error::from))
            }
            Ok(Event::Delete(_)) => Some(Ok(Seen::Gone)),
            Ok(Event::Init | Event::InitDone) | Err(_) => None,
        };
        std::future::ready(seen)
    })
}

async fn watch(session: &Session, named: &Named, following: Following) -> anyhow::Result<ExitCode> {
    let mut object = session.read(named).await?;
    if progress::progress(named.kind, &object).is_none() {
        bail!("no status viewer has been implemented for {}", named.quoted());
    }
    let mut events = pin!(events(session, named));
    let mut redraw = tokio::time::interval(REDRAW);
    let (mut told, mut held, mut block) = (String::new(), false, Block::default());
    let draws = terminal::is_there() && following.watches;
    loop {
        let is_new = tokio::select! {
            event = events.next() => {
                object = match event.ok_or_else(|| anyhow!("the watch ended"))?? {
                    Seen::Object(object) => object,
                    Seen::Gone => bail!("object has been deleted"),
                };
                true
            }
            // Pods change where the workload says nothing new.
            _ = redraw.tick(), if draws => false,
        };
        let Some(progress) = progress::progress(named.kind, &object) else { continue };
        let mut message = progress.message().to_owned();
        if following.detail && named.kind == WorkloadKind::CloneSet {
            message.push_str(&updated_pods(session, named, &object).await?);
        }
        if draws {
            block.draw(&lines(session, named, &object, &message).await?)?;
        } else if message != told {
            println!("{message}");
            std::io::stdout().flush()?;
        }
        told = message;
        // What was read before the watch began may be older than the change that is followed.
        if !is_new {
            continue;
        }
        match progress {
            Progress::Done(_) => return Ok(ExitCode::SUCCESS),
            Progress::Failed(message) => {
                eprintln!("error: {message}");
                return Ok(ExitCode::from(if following.exit_codes { FAILED } else { 1 }));
            }
            Progress::Waiting(_) if !following.watches => return Ok(ExitCode::SUCCESS),
            Progress::Waiting(_) => {}
        }
        if progress::is_paused(&object) && !draws && !std::mem::replace(&mut held, true) {
            eprintln!("{} is paused", named.quoted());
        }
    }
}

/// What a terminal shows of a rollout: how far it is, the Pods that take longest, and the newest warning.
async fn lines(
    session: &Session,
    named: &Named,
    object: &Value,
    message: &str,
) -> anyhow::Result<Vec<String>> {
    let mut lines = Vec::from_iter(progress::bar(named.kind, object));
    lines.extend(message.lines().map(str::to_owned));
    if progress::is_paused(object) {
        lines.push("It is paused.".to_owned());
    }
    let uid = object.pointer("/metadata/uid").and_then(Value::as_str).unwrap_or_default();
    let (mut all, mut events): (Vec<Value>, Vec<Value>) = (Vec::new(), Vec::new());
    let namespace = named.namespace(session);
    list_all(&session.client, &PODS.namespaced(namespace), |pod| {
        if pods::is_owned(&pod, uid) {
            all.push(pod);
        }
    })
    .await?;
    let warnings = CORE_EVENTS.namespaced(namespace).query("fieldSelector=type=Warning");
    // Who may not read Events sees the rest.
    let _ = list_all(&session.client, &warnings, |event| events.push(event)).await;
    let now = Timestamp::now();
    lines.extend(pods::slowest(&all, SLOWEST, now).into_iter().map(|pod| format!("  {pod}")));
    lines.extend(pods::newest_warning(&events, uid, &all, now).map(|warning| format!("Warning {warning}")));
    Ok(lines)
}

/// Two lines with the updated Pods of a CloneSet.
async fn updated_pods(session: &Session, named: &Named, set: &Value) -> anyhow::Result<String> {
    let mut pods: Vec<Value> = Vec::new();
    list_all(&session.client, &PODS.namespaced(named.namespace(session)), |pod| pods.push(pod)).await?;
    let (ready, not_ready) = progress::updated_pods(set, &pods);
    Ok(format!(
        "\nUpdated ready pods: [{}]\nUpdated not ready pods: [{}]",
        ready.join(" "),
        not_ready.join(" ")
    ))
}
