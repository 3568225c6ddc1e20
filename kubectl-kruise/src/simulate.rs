//! `kutter simulate`: how a workload is created and rolled out, in a simulated cluster, with the planner that
//! its controller uses; and which ticks of an AdvancedCronJob would be run. It talks to no cluster, and equal arguments give equal answers.

mod release;
mod ticks;

use std::io::Write;
use std::path::{Path, PathBuf};
use std::process::ExitCode;

use anyhow::{Context, anyhow, bail};
use api::features::FeatureGates;
use api::kinds::advancedcronjob;
use clap::Args;
use informers::files::{Object, Objects};
use jiff::Timestamp;
use kinds::workload::submitted::in_hub_version;
use serde_json::Value;
use simulator::{Cluster, Milliseconds, Rest, Settings, Simulated, Step, chart};

use crate::workloads::{self, KINDS, Offline};
use release::Release;

/// Exit code where the workload does not come to what it asks for; 1 is an error, as everywhere.
pub(crate) const NOT_CONVERGED: u8 = 4;
/// How long the workload may take before that is given up.
const TIMEOUT: Milliseconds = 4 * 3_600_000;
/// How long chance acts.
const DISTURBANCE: Milliseconds = 120_000;

/// Arguments of `kutter simulate`.
#[derive(Debug, Args)]
pub struct SimulateArguments {
    /// The workload to create, with its Rollout and what leads traffic where it has some; or an AdvancedCronJob: a file, or
    /// - for standard input
    #[arg(short, long = "filename", value_name = "FILE")]
    filename: PathBuf,
    /// The workload after an edit, applied once it has been created; may be given several times
    #[arg(long, value_name = "FILE")]
    edit: Vec<PathBuf>,
    /// Seconds after which somebody approves a step of the Rollout that waits for it; - for never
    #[arg(long, default_value = "10", value_name = "SECONDS", value_parser = pause)]
    approve: Pause,
    /// Of an AdvancedCronJob: show the ticks after this moment
    #[arg(long, value_name = "TIME", requires = "until")]
    from: Option<Timestamp>,
    /// Of an AdvancedCronJob: show the ticks up to this moment
    #[arg(long, value_name = "TIME", requires = "from")]
    until: Option<Timestamp>,
    #[command(flatten)]
    course: CourseArguments,
}

/// What a course depends on, and where it is drawn.
#[derive(Debug, Args)]
pub(crate) struct CourseArguments {
    /// Where all that is random starts: another seed gives another course
    #[arg(long, default_value_t = 1)]
    seed: u64,
    /// How often something goes wrong, from 0 to 1: calls fail, containers die, nodes fall silent, changes of
    /// Pods are refused, the controller crashes
    #[arg(long, default_value_t = 0.0, value_parser = rate)]
    fault_rate: f64,
    /// Seconds after which a lifecycle hook lets a Pod continue; - for never
    #[arg(long, default_value = "5", value_name = "SECONDS", value_parser = pause)]
    hook: Pause,
    /// Draw the course to this file
    #[arg(long, value_name = "FILE")]
    svg: Option<PathBuf>,
    /// Feature gates of the controller: A=true,B=false
    #[arg(long, default_value = "")]
    pub(crate) feature_gates: String,
}

/// How long something is waited for; forever where there is nothing.
#[derive(Clone, Copy, Debug)]
struct Pause(Option<Milliseconds>);

/// Simulates and prints the course.
///
/// # Errors
/// The manifests can't be read, or nothing of the kind can be simulated.
pub fn run(arguments: &SimulateArguments) -> anyhow::Result<ExitCode> {
    if let Some((from, until)) = arguments.from.zip(arguments.until) {
        let objects = Objects::read(std::slice::from_ref(&arguments.filename))?;
        return ticks::run(&only(&objects, &arguments.filename, &[advancedcronjob::KIND])?, from, until);
    }
    let objects = Objects::read(std::slice::from_ref(&arguments.filename))?;
    let object = only(&objects, &arguments.filename, &KINDS)?;
    let edits = arguments.edit.iter().map(|path| {
        let objects = Objects::read(std::slice::from_ref(path))?;
        only(&objects, path, &[object.kind.as_str()])
    });
    let edits = edits.collect::<anyhow::Result<Vec<_>>>()?;
    let release = Release::find(&objects, &object, arguments.approve.0)?;
    released_course(&arguments.course, &object, &edits, release)
}

/// Simulates a workload that is created and then edited, and prints the course.
pub(crate) fn course(
    arguments: &CourseArguments,
    object: &Object,
    edits: &[Object],
) -> anyhow::Result<ExitCode> {
    released_course(arguments, object, edits, None)
}

fn released_course(
    arguments: &CourseArguments,
    object: &Object,
    edits: &[Object],
    release: Option<Release>,
) -> anyhow::Result<ExitCode> {
    let task = Simulation { arguments, object, edits, release };
    workloads::with_kind(&object.kind, task).context("workloads of this kind can't be simulated")?
}

/// The simulation of a workload.
struct Simulation<'a> {
    arguments: &'a CourseArguments,
    /// The workload to create.
    object: &'a Object,
    /// The workload after each edit.
    edits: &'a [Object],
    /// What leads its updates.
    release: Option<Release>,
}

impl workloads::Task for Simulation<'_> {
    type Outcome = anyhow::Result<ExitCode>;

    fn run<W: Offline>(self) -> Self::Outcome {
        simulate::<W>(self)
    }
}

fn simulate<W: Offline>(simulation: Simulation<'_>) -> anyhow::Result<ExitCode> {
    let Simulation { arguments, object, edits, release } = simulation;
    let gates = FeatureGates::parse(&arguments.feature_gates, "").context("--feature-gates")?;
    let mut stored = store::<W>(object, None, &gates)?;
    let workload: W = serde_json::from_str(&stored)?;
    let title = format!("{} {}", W::KIND, workload.metadata().name);
    let settings = Settings {
        seed: arguments.seed,
        fault_rate: arguments.fault_rate,
        hook: arguments.hook.0,
        gates: gates.clone(),
        record: true,
        ..Settings::default()
    };
    let mut cluster = Cluster::new(workload, settings, &W::plan);
    if let Some(Release { rollout, objects, approval }) = release {
        cluster.release_by(rollout, objects, approval);
    }
    if edits.is_empty() {
        cluster.disturb(DISTURBANCE);
    }
    let mut rest = live(&mut cluster, edits.is_empty());
    let mut manifest = in_stored_version::<W>(object)?;
    for (index, edit) in edits.iter().enumerate() {
        if !cluster.violations().is_empty() {
            break;
        }
        let before = std::mem::replace(&mut manifest, in_stored_version::<W>(edit)?);
        let step = if cluster.rollout().is_some() {
            let live = cluster.shown();
            let json = release::applied(&before, &manifest, &live).to_string();
            let applied = Object { json, api_version: W::API_VERSION.to_owned(), ..edit.clone() };
            let written = store::<W>(&applied, Some(&live.to_string()), &gates)?;
            Step::Update(Box::new(serde_json::from_str(&written)?))
        } else {
            stored = store::<W>(edit, Some(&stored), &gates)?;
            let edited: W = serde_json::from_str(&stored)?;
            Step::Apply(Box::new(edited.object().spec.clone()))
        };
        let is_last = index + 1 == edits.len();
        cluster.add(1_000, step);
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

/// Lets the workload live until it has settled; through the faults first where there are any.
fn live<W: Simulated>(cluster: &mut Cluster<'_, W>, is_disturbed: bool) -> Rest {
    if is_disturbed && !cluster.is_calm() {
        cluster.run_until(cluster.elapsed() + DISTURBANCE);
    }
    cluster.settle_down(TIMEOUT)
}

/// The one object of one of these kinds in a file.
fn only(objects: &Objects, path: &Path, kinds: &[&str]) -> anyhow::Result<Object> {
    let is_meant =
        |object: &Object| object.group() == api::APPS_GROUP && kinds.contains(&object.kind.as_str());
    let mut objects = objects.iter().filter(|object| is_meant(object));
    match (objects.next(), objects.next()) {
        (Some(object), None) => Ok(object.clone()),
        _ => bail!("{} must hold one {}, and only one", path.display(), kinds.join(" or ")),
    }
}

/// A manifest in the version in which its kind is stored.
fn in_stored_version<W: Offline>(manifest: &Object) -> anyhow::Result<Value> {
    let json = in_hub_version(&manifest.json, W::API_VERSION).map_err(|denial| anyhow!(denial.message));
    Ok(serde_json::from_str(&json.with_context(|| manifest.source.clone())?)?)
}

/// An object as the API server would store it: checked, defaulted and converted. `old` is what is stored
/// before.
fn store<W: Offline>(object: &Object, old: Option<&str>, gates: &FeatureGates) -> anyhow::Result<String> {
    let stored = || {
        let is_stored_version = object.api_version == W::API_VERSION;
        // What is stored is compared with in the version that was sent.
        let old = match old {
            Some(old) if !is_stored_version => {
                Some(api::conversion::convert(old, &object.api_version)?.get().to_owned())
            }
            old => old.map(str::to_owned),
        };
        let admitted = W::admit(object, old.as_deref(), gates)?;
        if is_stored_version {
            return anyhow::Ok(admitted);
        }
        Ok(api::conversion::convert(&admitted, W::API_VERSION)?.get().to_owned())
    };
    stored().with_context(|| object.source.clone())
}

/// The course, and where it ends.
fn report<W: Simulated>(cluster: &Cluster<'_, W>, rest: &Rest) -> String {
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

fn pause(text: &str) -> Result<Pause, String> {
    if text == "-" {
        return Ok(Pause(None));
    }
    let seconds: Option<u64> = text.parse().ok();
    let pause = seconds.and_then(|seconds| seconds.checked_mul(1_000));
    pause.map(|pause| Pause(Some(pause))).ok_or_else(|| "write whole seconds, or -".to_owned())
}
