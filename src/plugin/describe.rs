//! `kubectl kruise describe rollout`; all else is described by kubectl.

use std::ffi::OsString;
use std::pin::pin;
use std::process::ExitCode;
use std::time::Duration;

use anyhow::bail;
use clap::{Args, Subcommand};
use cluster::resource::PODS;
use futures::StreamExt;
use jiff::Timestamp;
use planner::plugin::described::Page;
use planner::plugin::kinds::WorkloadKind;
use planner::plugin::{pods, staged};
use serde_json::Value;

use super::connection::{Connection, Session, seconds};
use super::follow::{Seen, within};
use super::hand_over;
use super::rollout::REPLICA_SETS;
use super::target::Named;
use super::terminal::ColourArguments;
use crate::explain::list_all;

/// Arguments of `describe`.
#[derive(Debug, Args)]
pub(super) struct DescribeArguments {
    #[command(subcommand)]
    what: What,
}

#[derive(Debug, Subcommand)]
enum What {
    /// Describe a Rollout, with its steps and the Pods of the current one
    #[command(name = "rollout", visible_aliases = ["rollouts", "ro"])]
    Rollout(PageArguments),
    #[command(external_subcommand)]
    Other(#[expect(dead_code, reason = "kubectl reads them")] Vec<OsString>),
}

#[derive(Debug, Args)]
struct PageArguments {
    /// The Rollout
    name: String,
    /// Describe it again at each change
    #[arg(short, long)]
    watch: bool,
    /// How long to watch, such as 90s; a number alone is seconds, and 0 is for ever
    #[arg(long, default_value = "0", value_parser = seconds)]
    timeout: Duration,
    /// Show the Pods of all steps
    #[arg(long)]
    all: bool,
    #[command(flatten)]
    colour: ColourArguments,
}

/// Describes what is meant.
pub(super) fn run(
    arguments: &DescribeArguments,
    connection: &Connection,
    given: &[OsString],
) -> anyhow::Result<ExitCode> {
    let What::Rollout(arguments) = &arguments.what else { return hand_over(given) };
    connection.with(async |session| {
        let named = Named::new(WorkloadKind::Rollout, &arguments.name);
        if !arguments.watch {
            print!("{}", page(arguments, session, &session.read(&named).await?).await?);
            return Ok(ExitCode::SUCCESS);
        }
        within(arguments.timeout, 1, watch(arguments, session, &named)).await
    })
}

async fn watch(arguments: &PageArguments, session: &Session, named: &Named) -> anyhow::Result<ExitCode> {
    session.read(named).await?;
    let mut events = pin!(super::follow::events(session, named));
    while let Some(event) = events.next().await {
        match event? {
            Seen::Object(rollout) => {
                let page = page(arguments, session, &rollout).await?;
                let before = if super::terminal::is_there() { "\u{1b}[2J\u{1b}[H" } else { "" };
                print!("{before}{page}");
            }
            Seen::Gone => bail!("object has been deleted"),
        }
    }
    bail!("the watch ended")
}

async fn page(arguments: &PageArguments, session: &Session, rollout: &Value) -> anyhow::Result<String> {
    let workload = match staged::workload(rollout) {
        Some(reference) => super::rollout::workload(session, &reference).await?,
        None => None,
    };
    let mut found: Vec<Value> = Vec::new();
    if let Some(workload) = &workload {
        let mut owners = vec![uid(workload)];
        list_all(&session.client, &REPLICA_SETS.namespaced(&session.namespace), |one: Value| {
            if pods::is_owned(&one, &uid(workload)) {
                owners.push(uid(&one));
            }
        })
        .await?;
        list_all(&session.client, &PODS.namespaced(&session.namespace), |pod: Value| {
            if owners.iter().any(|uid| pods::is_owned(&pod, uid)) {
                found.push(pod);
            }
        })
        .await?;
    }
    let page = Page {
        rollout,
        workload: workload.as_ref(),
        pods: &found,
        all: arguments.all,
        colour: arguments.colour.colours(),
        now: Timestamp::now(),
    };
    Ok(page.text())
}

fn uid(object: &Value) -> String {
    object.pointer("/metadata/uid").and_then(Value::as_str).unwrap_or_default().to_owned()
}
