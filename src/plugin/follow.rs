//! Following a rollout to its end.

use std::io::{IsTerminal, Write};
use std::pin::pin;
use std::process::ExitCode;
use std::time::Duration;

use anyhow::{anyhow, bail};
use cluster::resource::PODS;
use cluster::watched::WatchedObject;
use futures::StreamExt;
use kube::Api;
use kube::runtime::WatchStreamExt;
use kube::runtime::watcher::{self, Event, watcher};
use planner::plugin::kinds::WorkloadKind;
use planner::plugin::progress::{self, Progress};
use serde_json::Value;

use super::connection::Session;
use super::target::Named;
use crate::explain::list_all;

/// The time ran out.
const TIMED_OUT: u8 = 2;
/// The rollout failed.
const FAILED: u8 = 3;

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
    let watched = watch(session, named, following);
    if following.timeout.is_zero() {
        return watched.await;
    }
    match tokio::time::timeout(following.timeout, watched).await {
        Ok(done) => done,
        Err(_) => {
            eprintln!("error: timed out waiting for the condition");
            Ok(ExitCode::from(if following.exit_codes { TIMED_OUT } else { 1 }))
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

async fn watch(session: &Session, named: &Named, following: Following) -> anyhow::Result<ExitCode> {
    let first = session.read(named).await?;
    if progress::progress(named.kind, &first).is_none() {
        bail!("no status viewer has been implemented for {}", named.quoted());
    }
    let resource = named.resource().api_resource();
    let api: Api<WatchedObject> =
        Api::namespaced_with(session.client.clone(), named.namespace(session), &resource);
    let only = watcher::Config::default().fields(&format!("metadata.name={}", named.name));
    let mut events = pin!(watcher(api, only).default_backoff());
    let (mut told, mut held) = (String::new(), false);
    let on_terminal = std::io::stdout().is_terminal() && progress::bar(named.kind, &first).is_some();
    while let Some(event) = events.next().await {
        let object = match event {
            Ok(Event::Apply(object) | Event::InitApply(object)) => object,
            Ok(Event::Delete(_)) => bail!("object has been deleted"),
            // It goes on by itself after a disconnect.
            Ok(Event::Init | Event::InitDone) | Err(_) => continue,
        };
        let object: Value = serde_json::from_str(object.json())?;
        let Some(progress) = progress::progress(named.kind, &object) else { continue };
        let mut message = progress.message().to_owned();
        if following.detail && named.kind == WorkloadKind::CloneSet {
            message.push_str(&updated_pods(session, named, &object).await?);
        }
        match progress::bar(named.kind, &object).filter(|_| on_terminal) {
            // One line, drawn again.
            Some(bar) => print!("\r{bar}\u{1b}[K"),
            None if message != told => println!("{message}"),
            None => {}
        }
        std::io::stdout().flush()?;
        let is_over = !following.watches || !matches!(progress, Progress::Waiting(_));
        if on_terminal && is_over {
            println!("\n{message}");
        }
        told = message;
        match progress {
            Progress::Done(_) => return Ok(ExitCode::SUCCESS),
            Progress::Failed(message) => {
                eprintln!("error: {message}");
                return Ok(ExitCode::from(if following.exit_codes { FAILED } else { 1 }));
            }
            Progress::Waiting(_) if !following.watches => return Ok(ExitCode::SUCCESS),
            Progress::Waiting(_) => {}
        }
        if progress::is_paused(&object) && !std::mem::replace(&mut held, true) {
            eprintln!("{} is paused", named.quoted());
        }
    }
    Err(anyhow!("the watch ended"))
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
