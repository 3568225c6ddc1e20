//! `kutter simulate`: how a CloneSet is created and rolled out, in a simulated cluster, with the planner that
//! the controller uses. It talks to no cluster, and equal arguments give equal answers.

use std::io::Write;
use std::path::{Path, PathBuf};
use std::process::ExitCode;

use anyhow::{Context, anyhow, bail};
use api::features::FeatureGates;
use api::kinds::cloneset::{API_VERSION, CloneSet, KIND};
use clap::Args;
use cluster::files::{Object, Objects};
use planner::kinds::cloneset::defaulting;
use planner::kinds::cloneset::validation::{self, NamedPod};
use planner::simulation::{Cluster, Milliseconds, Rest, Settings, Step, chart};
use planner::text::json_patch;
use planner::text::verdict::Verdict;
use planner::workload::kind::Workload;

/// Exit code where the CloneSet does not come to what it asks for; 1 is an error, as everywhere.
const NOT_CONVERGED: u8 = 4;
/// How long the CloneSet may take before that is given up.
const PATIENCE: Milliseconds = 4 * 3_600_000;
/// How long chance acts.
const DISTURBANCE: Milliseconds = 120_000;

/// Arguments of `kutter simulate`.
#[derive(Debug, Args)]
pub(crate) struct SimulateArguments {
    /// The CloneSet to create: a file, or - for standard input
    #[arg(short, long = "filename", value_name = "FILE")]
    filename: PathBuf,
    /// The CloneSet after an edit, applied once it has been created; may be given several times
    #[arg(long, value_name = "FILE")]
    edit: Vec<PathBuf>,
    /// Where all that is random starts: another seed gives another course
    #[arg(long, default_value_t = 1)]
    seed: u64,
    /// How often something goes wrong, from 0 to 1: calls fail, containers die, nodes fall silent, changes of
    /// Pods are refused, the controller crashes
    #[arg(long, default_value_t = 0.0, value_parser = rate)]
    fault_rate: f64,
    /// Seconds after which a lifecycle hook lets a Pod go on; - for never
    #[arg(long, default_value = "5", value_name = "SECONDS", value_parser = hook)]
    hook: Hook,
    /// Draw the course to this file
    #[arg(long, value_name = "FILE")]
    svg: Option<PathBuf>,
    /// Feature gates of the controller: A=true,B=false
    #[arg(long, default_value = "")]
    feature_gates: String,
}

/// How long a hook holds a Pod.
#[derive(Clone, Copy, Debug)]
struct Hook(Option<Milliseconds>);

/// Simulates and prints the course.
pub(crate) fn run(arguments: &SimulateArguments) -> anyhow::Result<ExitCode> {
    let gates = FeatureGates::parse(&arguments.feature_gates, "").context("--feature-gates")?;
    let mut stored = read(&arguments.filename, None, &gates)?;
    let set: CloneSet = serde_json::from_str(&stored)?;
    let title = format!("CloneSet {}", set.metadata.name);
    let settings = Settings {
        seed: arguments.seed,
        fault_rate: arguments.fault_rate,
        hook: arguments.hook.0,
        gates: gates.clone(),
        record: true,
        ..Settings::default()
    };
    let mut cluster = Cluster::new(set, settings, &CloneSet::plan);
    if arguments.edit.is_empty() {
        cluster.disturb(DISTURBANCE);
    }
    let mut rest = live(&mut cluster, arguments.edit.is_empty());
    for (index, path) in arguments.edit.iter().enumerate() {
        if !cluster.violations().is_empty() {
            break;
        }
        stored = read(path, Some(&stored), &gates)?;
        let edited: CloneSet = serde_json::from_str(&stored)?;
        let is_last = index + 1 == arguments.edit.len();
        cluster.add(1_000, Step::Apply(Box::new(edited.spec)));
        if is_last {
            cluster.disturb(DISTURBANCE);
        }
        rest = live(&mut cluster, is_last);
    }
    let mut output = std::io::stdout().lock();
    output.write_all(report(&cluster, &rest).as_bytes())?;
    if let Some(path) = &arguments.svg {
        std::fs::write(path, chart::svg(cluster.timeline(), &title))
            .with_context(|| format!("{} can't be written", path.display()))?;
    }
    let is_sound = rest == Rest::Converged && cluster.violations().is_empty();
    Ok(if is_sound { ExitCode::SUCCESS } else { ExitCode::from(NOT_CONVERGED) })
}

/// Lets the CloneSet live until it has come to rest; through the faults first where there are any.
fn live(cluster: &mut Cluster<'_>, is_disturbed: bool) -> Rest {
    if is_disturbed && !cluster.is_calm() {
        cluster.run_until(cluster.elapsed() + DISTURBANCE);
    }
    cluster.settle_down(PATIENCE)
}

/// The one CloneSet in a file, as the API server would store it in v1beta1: checked and defaulted. `old` is
/// what is stored before.
fn read(path: &Path, old: Option<&str>, gates: &FeatureGates) -> anyhow::Result<String> {
    let objects = Objects::read(&[path.to_owned()])?;
    let mut sets = objects.iter().filter(|object| object.group() == api::APPS_GROUP && object.kind == KIND);
    let (Some(object), None) = (sets.next(), sets.next()) else {
        bail!("{} must hold one CloneSet, and only one", path.display());
    };
    store(object, old, gates).with_context(|| object.source.clone())
}

fn store(object: &Object, old: Option<&str>, gates: &FeatureGates) -> anyhow::Result<String> {
    let version = object.api_version.rsplit('/').next().unwrap_or_default();
    // What is stored is compared with in the version that was sent.
    let old = match old {
        Some(old) if object.api_version != API_VERSION => {
            Some(api::conversion::convert(old, &object.api_version)?.get().to_owned())
        }
        old => old.map(str::to_owned),
    };
    let defaults = defaulting::default(&object.json, old.as_deref(), version, gates)
        .map_err(|denial| anyhow!(denial.message))?;
    let defaulted = json_patch::apply(&object.json, &defaults)?;
    let pod = |_: &str| NamedPod::Missing;
    let context = validation::Context { gates, allow_privileged: true, pod: &pod };
    if let Verdict::Deny(denial) = validation::review(&defaulted, old.as_deref(), &context) {
        bail!(denial.message);
    }
    if object.api_version == API_VERSION {
        return Ok(defaulted);
    }
    Ok(api::conversion::convert(&defaulted, API_VERSION)?.get().to_owned())
}

/// The course, and where it ends.
fn report(cluster: &Cluster<'_>, rest: &Rest) -> String {
    let mut text =
        format!("{:>9}  {:<10} {:>4} {:>4} {:>9}  WHAT\n", "TIME", "WHO", "OLD", "NEW", "AVAILABLE");
    for entry in &cluster.timeline().entries {
        let counts = entry.counts;
        text.push_str(&format!(
            "{:>8}s  {:<10} {:>4} {:>4} {:>9}  {}\n",
            seconds(entry.time),
            entry.actor,
            counts.old,
            counts.new,
            counts.available,
            entry.text
        ));
    }
    let end = seconds(cluster.timeline().entries.last().map_or(0, |entry| entry.time));
    match rest {
        Rest::Converged => text.push_str(&format!("\nconverged after {end} s\n")),
        Rest::Unfinished(reasons) => {
            text.push_str(&format!("\nnot converged; nothing happens any more after {end} s\n"));
            for reason in reasons {
                text.push_str(&format!("  {reason}\n"));
            }
        }
        Rest::Restless(_) => text.push_str("\nnot converged\n"),
    }
    for line in cluster.blockers() {
        text.push_str(&format!("  {line}\n"));
    }
    for violation in cluster.violations() {
        text.push_str(&format!("  a rule was broken: {violation}\n"));
    }
    text
}

fn seconds(time: Milliseconds) -> String {
    format!("{}.{:03}", time / 1_000, time % 1_000)
}

fn rate(text: &str) -> Result<f64, String> {
    let rate = text.parse().ok().filter(|rate| (0.0..=1.0).contains(rate));
    rate.ok_or_else(|| "write a number from 0 to 1".to_owned())
}

fn hook(text: &str) -> Result<Hook, String> {
    if text == "-" {
        return Ok(Hook(None));
    }
    let seconds: Option<u64> = text.parse().ok();
    let pause = seconds.and_then(|seconds| seconds.checked_mul(1_000));
    pause.map(|pause| Hook(Some(pause))).ok_or_else(|| "write whole seconds, or -".to_owned())
}
