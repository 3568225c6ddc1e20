//! `kutter explain`: why a workload is as it is, what would change that, and what its controller would do
//! next; which SidecarSets are in which Pods, and why; which Pods a PodUnavailableBudget counts; which
//! namespaces have the copy of a ResourceDistribution; which nodes an ImagePullJob waits for; when an
//! AdvancedCronJob runs next; how the Pods of a UnitedDeployment are divided; and where the release of a Rollout stands. It reads the objects from the API server, decides
//! as the controllers and admission do, and writes nothing.

mod budget;
mod cron_job;
mod distribution;
mod pull;
mod rollout;
mod sidecars;
mod spread;
mod united;
mod workload;

use std::ffi::OsString;
use std::fmt::Display;
use std::io::Write;
use std::process::ExitCode;
use std::sync::Arc;

use anyhow::Context;
use api::features::FeatureGates;
use api::kinds::broadcastjob::BroadcastJob;
use api::kinds::cloneset::CloneSet;
use api::kinds::daemonset::DaemonSet;
use api::kinds::statefulset::StatefulSet;
use clap::{Args, CommandFactory, Parser, Subcommand, ValueEnum};
use cluster::list::list_all;
use cluster::resource::{NODES, Resource};
use cluster::write;
use kinds::workload::explanation::{Blocker, Explanation};
use kinds::workload::kind::Workload;
use kube::Client;
use pod::node_fit::{Nodes, ObservedNode};
use serde::Deserialize;
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
    Spread(Target),
    /// Explain which nodes have not the image of an ImagePullJob, and why
    #[command(name = "imagepulljob")]
    ImagePullJob(Target),
    /// Explain when an AdvancedCronJob runs next, and why the last tick was not run
    #[command(name = "advancedcronjob", visible_alias = "acj")]
    AdvancedCronJob(cron_job::CronJobArguments),
    /// Explain how the Pods of a UnitedDeployment are divided, and which subsets have no capacity
    #[command(name = "uniteddeployment", visible_alias = "ud")]
    UnitedDeployment(Target),
    /// Explain where the release of a Rollout stands, what it waits for, and what comes next
    #[command(name = "rollout", visible_alias = "ro")]
    Rollout(Target),
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
        Kind::Pod(SidecarArguments { target, install_namespace }) => {
            target.explain(async |site| sidecars::of_pod(site, install_namespace).await)?
        }
        Kind::SidecarSet(SidecarArguments { target, install_namespace }) => {
            target.explain(async |site| sidecars::of_sidecar_set(site, install_namespace).await)?
        }
        Kind::Budget(arguments) => {
            let gates = FeatureGates::parse(&arguments.feature_gates, "")?;
            arguments.target.explain(async |site| budget::of_budget(site, &gates).await)?
        }
        Kind::ResourceDistribution(target) => target.explain(distribution::of_distribution)?,
        Kind::Spread(target) => target.explain(spread::of_spread)?,
        Kind::ImagePullJob(target) => target.explain(pull::of_job)?,
        Kind::AdvancedCronJob(arguments) => {
            let zone = &arguments.manager_time_zone;
            arguments.target.explain(async |site| cron_job::of_cron_job(site, zone).await)?
        }
        Kind::UnitedDeployment(target) => target.explain(united::of_united)?,
        Kind::Rollout(target) => target.explain(rollout::of_rollout)?,
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

/// What is printed, and how the program ends.
type Shown = (String, ExitCode);

/// The object that is meant, and the cluster that it is in.
struct Site<'a> {
    client: &'a Client,
    namespace: &'a str,
    name: &'a str,
    output: Format,
}

impl Target {
    fn explain(&self, work: impl AsyncFnOnce(&Site<'_>) -> anyhow::Result<Shown>) -> anyhow::Result<Shown> {
        let Self { name, output, connection } = self;
        connection.with(async |session| {
            let (client, namespace) = (&session.client, session.namespace.as_str());
            work(&Site { client, namespace, name, output: *output }).await
        })
    }
}

impl Site<'_> {
    /// The object of this kind, read by `understand`. Kinds of the whole cluster have no namespace.
    async fn object<T, E: std::error::Error + Send + Sync + 'static>(
        &self,
        resource: Resource<'_>,
        namespace: &str,
        understand: impl FnOnce(&str) -> Result<T, E>,
    ) -> anyhow::Result<T> {
        let (kind, name) = (resource.kind, self.name);
        let text = self.read(&resource.namespaced(namespace).name(name)).await?;
        let text = text.with_context(|| match namespace {
            "" => format!("there is no {kind} {name}"),
            _ => format!("there is no {kind} {name} in namespace {namespace}"),
        })?;
        understand(&text).with_context(|| format!("the {kind} is not understood"))
    }

    async fn read(&self, path: &str) -> anyhow::Result<Option<String>> {
        let answer = write::get(self.client, path).await;
        answer.with_context(|| format!("{path} can't be read"))
    }

    /// What `take` makes of the objects at this path.
    async fn list<T: for<'de> Deserialize<'de>, U>(
        &self,
        path: &str,
        mut take: impl FnMut(T) -> Option<U>,
    ) -> anyhow::Result<Vec<U>> {
        let mut all = Vec::new();
        list_all(self.client, path, |object| all.extend(take(object))).await?;
        Ok(all)
    }

    /// All Nodes.
    async fn nodes(&self) -> anyhow::Result<Nodes> {
        let facts = |node: ObservedNode| {
            let (name, facts) = node.into_facts();
            Some((name, Arc::new(facts)))
        };
        Ok(self.list(&NODES.all(), facts).await?.into_iter().collect())
    }

    /// Ends well where all is as it should be.
    fn shown(&self, is_complete: bool, text: impl FnOnce() -> String, json: impl Display) -> Shown {
        let text = match self.output {
            Format::Text => text(),
            Format::Json => format!("{json}\n"),
        };
        (text, if is_complete { ExitCode::SUCCESS } else { ExitCode::from(INCOMPLETE) })
    }
}

/// Explains a workload of kind `W`.
fn workload<W: Workload>(arguments: &WorkloadArguments) -> anyhow::Result<Shown> {
    let gates = FeatureGates::parse(&arguments.feature_gates, "")?;
    arguments.target.explain(async |site| workload::of_workload::<W>(site, &gates).await)
}

/// What blocks progress, for programs.
fn blockers(explanation: &Explanation) -> Vec<Value> {
    let blockers = explanation.blockers.iter().map(|blocker| {
        let Blocker { pod, reason, message, remedy, since } = blocker;
        json!({"pod": pod, "reason": reason, "message": message, "remedy": remedy, "since": since.map(rfc3339)})
    });
    blockers.collect()
}

/// The query for objects whose labels are as `selector` says. Of what a selector holds only spaces have to be
/// escaped.
pub(crate) fn labelled(selector: &str) -> String {
    format!("labelSelector={}", selector.replace(' ', "%20"))
}

/// Lines below a heading.
fn lines(heading: String, lines: impl IntoIterator<Item = String>) -> String {
    lines.into_iter().fold(heading, |text, line| text + "\n" + &line) + "\n"
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
