//! `kutter explain` of an AdvancedCronJob: when it runs next, and why the last tick was not run.

use std::fmt::Write;
use std::process::ExitCode;

use anyhow::{Context, anyhow};
use api::kinds::advancedcronjob::{API_VERSION, AdvancedCronJob, KIND, PLURAL};
use clap::Args;
use cluster::list::list_all;
use cluster::resource::Resource;
use jiff::Timestamp;
use kinds::advancedcronjob::children::{Child, ChildKind};
use kinds::advancedcronjob::explanation::{Explanation, explain};
use kinds::advancedcronjob::schedule::zone;
use kube::Client;
use serde_json::json;
use serde_json::value::RawValue;

use super::{Format, Target, code, of_object, read};

#[derive(Debug, Args)]
pub(super) struct CronJobArguments {
    #[command(flatten)]
    pub(super) target: Target,
    /// The zone of the manager, which counts where the schedule names none
    #[arg(long, default_value = "UTC")]
    manager_time_zone: String,
}

/// Explains the AdvancedCronJob that is meant.
pub(super) async fn of_cron_job(
    client: &Client,
    namespace: &str,
    arguments: &CronJobArguments,
) -> anyhow::Result<(String, ExitCode)> {
    let name = &arguments.target.name;
    let process = zone(&arguments.manager_time_zone).context("--manager-time-zone")?;
    let path = Resource::new(API_VERSION, PLURAL, KIND).namespaced(namespace).name(name);
    let text = read(client, &path).await?;
    let text = text.ok_or_else(|| anyhow!("there is no {KIND} {name} in namespace {namespace}"))?;
    let cron_job: AdvancedCronJob =
        serde_json::from_str(&text).with_context(|| format!("the {KIND} is not understood"))?;
    let kind = ChildKind::of(&cron_job.spec.template);
    let mut children = Vec::new();
    let resource = Resource::new(kind.api_version(), kind.plural(), kind.kind());
    list_all(client, &resource.namespaced(namespace), |child: Box<RawValue>| {
        children.extend(Child::read(kind, child.get()).ok().flatten());
    })
    .await?;
    let children: Vec<&Child> = children.iter().collect();
    let found = explain(&cron_job, &children, &process, Timestamp::now());
    let complete = found.skipped.is_none() && found.problem.is_none();
    let text = match arguments.target.output {
        Format::Text => text_of(name, &found),
        Format::Json => format!("{}\n", of_object(KIND, name, complete, json!(found))),
    };
    Ok((text, code(complete)))
}

fn text_of(name: &str, found: &Explanation) -> String {
    let next = found.next.as_deref().unwrap_or("never");
    let last = found.last_run.as_deref().unwrap_or("never");
    let mut text = format!("{KIND} {name}: next tick {next}, last run {last}\n");
    // Writing to a String cannot fail.
    for active in &found.active {
        let _ = writeln!(text, "  {active} goes on");
    }
    for line in found.skipped.iter().chain(&found.problem) {
        let _ = writeln!(text, "  {line}");
    }
    text
}
