//! `kubectl kruise describe rollout`; all else is described by kubectl.

use std::ffi::OsString;
use std::pin::pin;
use std::process::ExitCode;
use std::time::Duration;

use anyhow::bail;
use clap::{Args, Subcommand};
use futures::StreamExt;
use jiff::Timestamp;
use plugin::described::Page;
use plugin::kinds::WorkloadKind;
use plugin::staged;
use serde_json::Value;

use super::Call;
use super::connection::{Session, seconds};
use super::follow::{events, within};
use super::target::Named;
use super::terminal::{ColourArguments, draws, print};

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
    /// How long to watch, such as 90s; a number alone is seconds, and 0 is forever
    #[arg(long, default_value = "0", value_parser = seconds)]
    timeout: Duration,
    /// Show the Pods of all steps
    #[arg(long)]
    all: bool,
    #[command(flatten)]
    colour: ColourArguments,
}

/// Describes what is meant.
pub(super) fn run(arguments: &DescribeArguments, call: Call<'_>) -> anyhow::Result<ExitCode> {
    let What::Rollout(arguments) = &arguments.what else { return call.hand_over() };
    call.connection.with(async |session| {
        let named = Named::new(WorkloadKind::Rollout, &arguments.name);
        if !arguments.watch {
            print(page(arguments, session, &session.read(&named).await?).await?)?;
            return Ok(ExitCode::SUCCESS);
        }
        within(arguments.timeout, || ExitCode::FAILURE, watch(arguments, session, &named)).await
    })
}

async fn watch(arguments: &PageArguments, session: &Session, named: &Named) -> anyhow::Result<ExitCode> {
    session.read(named).await?;
    let mut events = pin!(events(session, named.resource(session), named.namespace(session), &named.name));
    // A page takes the place of the one before, or comes behind an empty line.
    let between = if draws() { "\u{1b}[2J\u{1b}[H" } else { "\n" };
    let mut before = if draws() { between } else { "" };
    while let Some(rollout) = events.next().await {
        print(format_args!("{before}{}", page(arguments, session, &rollout?).await?))?;
        before = between;
    }
    bail!("the watch ended")
}

async fn page(arguments: &PageArguments, session: &Session, rollout: &Value) -> anyhow::Result<String> {
    let workload = match staged::workload(rollout) {
        Some(reference) => super::target::workload_of(session, &reference).await?,
        None => None,
    };
    let pods = match &workload {
        // Those of the new revision may be of another Deployment, which the Rollout has made for its canary.
        Some(workload) => session.selected_pods(&session.namespace, workload).await?,
        None => Vec::new(),
    };
    let page = Page {
        rollout,
        workload: workload.as_ref(),
        pods: &pods,
        all: arguments.all,
        colour: arguments.colour.colours(),
        now: Timestamp::now(),
    };
    Ok(page.text())
}
