//! `kutter explain` of an AdvancedCronJob: when it runs next, and why the last tick was not run.

use anyhow::Context;
use api::kinds::advancedcronjob::{API_VERSION, AdvancedCronJob, KIND, PLURAL};
use clap::Args;
use cluster::resource::Resource;
use jiff::Timestamp;
use kinds::advancedcronjob::children::{Child, ChildKind};
use kinds::advancedcronjob::explanation::{Explanation, explain};
use kinds::advancedcronjob::schedule::zone;
use serde_json::json;
use serde_json::value::RawValue;

use super::{Shown, Site, Target, lines, of_object};

#[derive(Debug, Args)]
pub(super) struct CronJobArguments {
    #[command(flatten)]
    pub(super) target: Target,
    /// The zone of the manager, which counts where the schedule names none
    #[arg(long, default_value = "UTC")]
    pub(super) manager_time_zone: String,
}

/// Explains the AdvancedCronJob that is meant.
pub(super) async fn of_cron_job(site: &Site<'_>, manager_time_zone: &str) -> anyhow::Result<Shown> {
    let process = zone(manager_time_zone).context("--manager-time-zone")?;
    let resource = Resource::new(API_VERSION, PLURAL, KIND);
    let cron_job: AdvancedCronJob =
        site.object(resource, site.namespace, |text| serde_json::from_str(text)).await?;
    let kind = ChildKind::of(&cron_job.spec.template);
    let resource = Resource::new(kind.api_version(), kind.plural(), kind.kind());
    let take = |child: Box<RawValue>| Child::read(kind, child.get()).ok().flatten();
    let children = site.list(&resource.namespaced(site.namespace), take).await?;
    let children: Vec<&Child> = children.iter().collect();
    let found = explain(&cron_job, &children, &process, Timestamp::now());
    let complete = found.skipped.is_none() && found.problem.is_none();
    let json = of_object(KIND, site.name, complete, json!(found));
    Ok(site.shown(complete, || text_of(site.name, &found), json))
}

fn text_of(name: &str, found: &Explanation) -> String {
    let next = found.next.as_deref().unwrap_or("never");
    let last = found.last_run.as_deref().unwrap_or("never");
    let active = found.active.iter().map(|active| format!("  {active} goes on"));
    let why = found.skipped.iter().chain(&found.problem).map(|line| format!("  {line}"));
    lines(format!("{KIND} {name}: next tick {next}, last run {last}"), active.chain(why))
}
