//! `kutter explain`: why a workload is as it is, what would change that, and what its controller would do
//! next; which SidecarSets are in which Pods, and why; which Pods a PodUnavailableBudget counts; which
//! namespaces have the copy of a ResourceDistribution; which nodes an ImagePullJob waits for; when an
//! AdvancedCronJob runs next; and how the Pods of a UnitedDeployment are divided. It reads the objects from the API server, decides
//! as the controllers and admission do, and writes nothing.

mod budget;
mod cron_job;
mod distribution;
mod pull;
mod sidecars;
mod spread;
mod united;
mod workload;

use std::ffi::OsString;
use std::io::Write;
use std::process::ExitCode;

use anyhow::Context;
use api::features::FeatureGates;
use api::kinds::broadcastjob::BroadcastJob;
use api::kinds::cloneset::CloneSet;
use api::kinds::daemonset::DaemonSet;
use api::kinds::statefulset::StatefulSet;
use clap::{Args, CommandFactory, Parser, Subcommand, ValueEnum};
use cluster::write;
use kinds::workload::explanation::{Blocker, Explanation};
use kinds::workload::kind::Workload;
use kube::Client;
use serde_json::{Value, json};
use values::moment::rfc3339;

use crate::connection::Connection;

/// Exit code while the workload is not what it asks for; 1 is an error, as everywhere.
const INCOMPLETE: u8 = 2;

/// Arguments of `kutter explain`.
#[derive(Debug, Args)]
pub struct ExplainArguments {
    #[command(subcommand)]
    kind: Kind,
}

#[derive(Debug, Subcommand)]
enum Kind {
    /// Explain a CloneSet
    #[command(name = "cloneset", visible_alias = "clone")]
    CloneSet(WorkloadArguments),
    /// Explain an Advanced StatefulSet
    #[command(name = "statefulset", visible_alias = "asts")]
    StatefulSet(WorkloadArguments),
    /// Explain an Advanced DaemonSet
    #[command(name = "daemonset", visible_aliases = ["daemon", "ads"])]
    DaemonSet(WorkloadArguments),
    /// Explain a BroadcastJob
    #[command(name = "broadcastjob", visible_alias = "bcj")]
    BroadcastJob(WorkloadArguments),
    /// Explain which SidecarSets are in a Pod, and why others are not
    Pod(SidecarArguments),
    /// Explain which Pods have the sidecars of a SidecarSet, and why others have not
    #[command(name = "sidecarset")]
    SidecarSet(SidecarArguments),
    /// Explain which Pods a PodUnavailableBudget counts, who uses it up, and when it gives again
    #[command(name = "podunavailablebudget", visible_alias = "pub")]
    Budget(WorkloadArguments),
    /// Explain which namespaces have the copy of a ResourceDistribution, and what is wrong in the others
    #[command(name = "resourcedistribution", visible_alias = "distributor")]
    ResourceDistribution(Target),
    /// Explain which subset of a WorkloadSpread each Pod is in and why, and which one takes the next Pod
    #[command(name = "workloadspread", visible_alias = "ws")]
    Spread(SpreadArguments),
    /// Explain which nodes have not the image of an ImagePullJob, and why
    #[command(name = "imagepulljob")]
    ImagePullJob(Target),
    /// Explain when an AdvancedCronJob runs next, and why the last tick was not run
    #[command(name = "advancedcronjob", visible_alias = "acj")]
    AdvancedCronJob(cron_job::CronJobArguments),
    /// Explain how the Pods of a UnitedDeployment are divided, and which subsets have no room
    #[command(name = "uniteddeployment", visible_alias = "ud")]
    UnitedDeployment(Target),
    /// KIND/NAME in one word, as kubectl prints it
    #[command(external_subcommand)]
    Word(Vec<OsString>),
}

#[derive(Debug, Args)]
struct Target {
    /// The name of the object
    name: String,
    /// How to show it
    #[arg(short, long, value_enum, default_value_t = Format::Text)]
    output: Format,
    #[command(flatten)]
    connection: Connection,
}

#[derive(Debug, Args)]
struct WorkloadArguments {
    #[command(flatten)]
    target: Target,
    /// Feature gates of the controller: A=true,B=false
    #[arg(long, default_value = "")]
    feature_gates: String,
}

#[derive(Debug, Args)]
struct SpreadArguments {
    #[command(flatten)]
    target: Target,
}

#[derive(Debug, Args)]
struct SidecarArguments {
    #[command(flatten)]
    target: Target,
    /// The namespace that Kutter is installed in
    #[arg(long, default_value = api::DEFAULT_NAMESPACE)]
    install_namespace: String,
}

/// `kutter explain` by itself, to read a word that was taken apart.
#[derive(Debug, Parser)]
#[command(name = "kutter explain", args_override_self = true)]
struct Alone {
    #[command(flatten)]
    arguments: ExplainArguments,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
enum Format {
    /// Lines to read
    Text,
    /// One JSON object
    Json,
}

/// Prints the explanation of an object.
///
/// # Errors
/// The object can't be read or explained.
pub fn run(arguments: &ExplainArguments) -> anyhow::Result<ExitCode> {
    run_with(arguments, &[])
}

/// Prints the explanation of an object. `flags` about the connection, which were given before KIND/NAME, count there too.
pub(crate) fn run_with(arguments: &ExplainArguments, flags: &[OsString]) -> anyhow::Result<ExitCode> {
    let (text, code) = match &arguments.kind {
        Kind::CloneSet(arguments) => workload::<CloneSet>(arguments)?,
        Kind::StatefulSet(arguments) => workload::<StatefulSet>(arguments)?,
        Kind::DaemonSet(arguments) => workload::<DaemonSet>(arguments)?,
        Kind::BroadcastJob(arguments) => workload::<BroadcastJob>(arguments)?,
        Kind::Pod(arguments) => arguments.target.with_cluster(async |client, namespace| {
            sidecars::of_pod(client, &arguments.install_namespace, namespace, &arguments.target).await
        })?,
        Kind::SidecarSet(arguments) => arguments.target.with_cluster(async |client, _| {
            sidecars::of_sidecar_set(client, &arguments.install_namespace, &arguments.target).await
        })?,
        Kind::Budget(arguments) => {
            let gates = FeatureGates::parse(&arguments.feature_gates, "")?;
            arguments.target.with_cluster(async |client, namespace| {
                budget::of_budget(client, namespace, &arguments.target, &gates).await
            })?
        }
        Kind::ResourceDistribution(target) => {
            target.with_cluster(async |client, _| distribution::of_distribution(client, target).await)?
        }
        Kind::Spread(arguments) => arguments.target.with_cluster(async |client, namespace| {
            spread::of_spread(client, namespace, &arguments.target).await
        })?,
        Kind::ImagePullJob(target) => {
            target.with_cluster(async |client, namespace| pull::of_job(client, namespace, target).await)?
        }
        Kind::AdvancedCronJob(arguments) => arguments.target.with_cluster(async |client, namespace| {
            cron_job::of_cron_job(client, namespace, arguments).await
        })?,
        Kind::UnitedDeployment(target) => target
            .with_cluster(async |client, namespace| united::of_united(client, namespace, target).await)?,
        Kind::Word(words) => return run(&taken_apart(words, flags)?.arguments),
    };
    std::io::stdout().lock().write_all(text.as_bytes())?;
    Ok(code)
}

/// Reads `pod/web-0 -n shop` as `pod web-0 -n shop`, with the flags before the rest.
fn taken_apart(words: &[OsString], flags: &[OsString]) -> anyhow::Result<Alone> {
    let (word, rest) = words.split_first().context("what is to be explained?")?;
    let word = word.to_string_lossy();
    let (kind, name) = word.split_once('/').unwrap_or((&word, ""));
    let is_known = Alone::command().find_subcommand(kind).is_some();
    anyhow::ensure!(is_known && !name.is_empty(), "{word:?} can't be explained: see kutter explain --help");
    let words = ["kutter explain", kind, name].into_iter().map(OsString::from);
    Ok(Alone::parse_from(words.chain(flags.iter().chain(rest).cloned())))
}

impl Target {
    /// Does something with a client of the cluster and the namespace that is meant.
    fn with_cluster<T>(
        &self,
        work: impl AsyncFnOnce(&Client, &str) -> anyhow::Result<T>,
    ) -> anyhow::Result<T> {
        self.connection.with(async |session| work(&session.client, &session.namespace).await)
    }
}

/// Explains a workload of kind `W`.
fn workload<W: Workload>(arguments: &WorkloadArguments) -> anyhow::Result<(String, ExitCode)> {
    let gates = FeatureGates::parse(&arguments.feature_gates, "")?;
    workload::explain::<W>(&arguments.target, &gates)
}

/// What stands in the way, for programs.
fn blockers(explanation: &Explanation) -> Vec<Value> {
    let blockers = explanation.blockers.iter().map(|blocker| {
        let Blocker { pod, reason, message, remedy, since } = blocker;
        json!({"pod": pod, "reason": reason, "message": message, "remedy": remedy, "since": since.map(rfc3339)})
    });
    blockers.collect()
}

fn code(complete: bool) -> ExitCode {
    if complete { ExitCode::SUCCESS } else { ExitCode::from(INCOMPLETE) }
}

async fn read(client: &Client, path: &str) -> anyhow::Result<Option<String>> {
    let answer = write::get(client, path).await;
    answer.with_context(|| format!("{path} can't be read"))
}

/// The query for objects whose labels are as `selector` says. Of what a selector holds only spaces have to be
/// escaped.
pub(crate) fn labelled(selector: &str) -> String {
    format!("labelSelector={}", selector.replace(' ', "%20"))
}

/// An explanation for programs, with the object that it is about.
fn of_object(kind: &str, name: &str, is_complete: bool, found: Value) -> Value {
    let Value::Object(mut members) = found else { return found };
    members.extend([
        ("kind".to_owned(), kind.into()),
        ("name".to_owned(), name.into()),
        ("complete".to_owned(), is_complete.into()),
    ]);
    members.into()
}

#[cfg(test)]
mod tests {
    use super::*;
    use kinds::workload::status::selector_text;

    #[test]
    fn selectors_are_asked_for_as_they_are_written() {
        let selector = json!({"matchLabels": {"app": "web"}, "matchExpressions": [
            {"key": "example.com/tier", "operator": "NotIn", "values": ["b", "a"]}]});
        let selector = selector_text(&serde_json::from_value(selector).unwrap());
        assert_eq!(labelled(&selector), "labelSelector=app=web,example.com/tier%20notin%20(a,b)");
    }
}
