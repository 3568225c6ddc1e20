//! `kutter review`: what admission would answer, from files, with the code that the server runs.
//!
//! ```text
//!   -f files ----> objects --pods_of--> requests --Admission::admit--> answers --> yaml, json, diff, patch
//!   --objects ---> world (SidecarSets converted and defaulted, Namespaces, ...)
//! ```

mod answers;
mod output;
mod pods;

use std::path::PathBuf;
use std::process::ExitCode;
use std::sync::Arc;

use anyhow::Context;
use api::features::{Feature, FeatureGates};
use clap::{Args, ValueEnum};
use cluster::reservation::Reservations;
use informers::files::Objects;
use informers::{Index, Lookup};
use kinds::podunavailablebudget::reserve::Rules;
use kinds::workloadspread::slots::Slots;
use pod::exit_priority;
use values::moment::Moment;
use webhooks::{Admission, AdmissionFlags, Metrics, ProtectionLog};

/// Exit code for a denial; 1 is an error, as everywhere.
const DENIED: u8 = 3;

/// Arguments of `kutter review`.
#[derive(Debug, Args)]
pub struct ReviewArguments {
    /// Manifests to review: a file, a folder, or - for standard input; may be given several times
    #[arg(short, long = "filename", value_name = "FILE", required = true)]
    filename: Vec<PathBuf>,
    /// SidecarSets, Namespaces and other objects that the rules read, and for updates the objects as they are now: a file
    /// or a folder
    #[arg(long, value_name = "DIR")]
    objects: Vec<PathBuf>,
    /// The operation to review
    #[arg(long, value_enum, ignore_case = true, default_value_t = ReviewedOperation::Create)]
    operation: ReviewedOperation,
    /// How to show what comes out
    #[arg(short, long, value_enum, default_value_t = Format::Yaml)]
    output: Format,
    /// Namespace of manifests that name none
    #[arg(short, long, default_value = "default")]
    namespace: String,
    /// Feature gates: A=true,B=false; ResourcesDeletionProtection and Rollouts are on unless switched off here
    #[arg(long, default_value = "")]
    feature_gates: String,
    /// Image with the program of the exit hook, as `kutter serve` is given it
    #[arg(long, default_value = "kutter")]
    exit_hook_image: String,
}

/// Operations that can be reviewed.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub(crate) enum ReviewedOperation {
    /// The objects are created; workloads are shown as the Pods that would result
    Create,
    /// The objects are updated to what the manifests say
    Update,
    /// The objects are deleted
    Delete,
}

impl ReviewedOperation {
    /// The operation as reviews name it.
    fn name(self) -> &'static str {
        match self {
            Self::Create => "CREATE",
            Self::Update => "UPDATE",
            Self::Delete => "DELETE",
        }
    }
}

/// How answers are shown.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub(crate) enum Format {
    /// The objects as they would be stored
    Yaml,
    /// The same as JSON, byte for byte
    Json,
    /// What changes, line by line
    Diff,
    /// The JSON Patches
    Patch,
}

/// Reviews the manifests and prints the answers.
///
/// # Errors
/// The manifests can't be read.
pub fn run(arguments: &ReviewArguments) -> anyhow::Result<ExitCode> {
    let reviewed = Objects::read(&arguments.filename)?;
    anyhow::ensure!(!reviewed.is_empty(), "no objects found in the files given");
    let present = Objects::read(&arguments.objects)?;
    let admission = admission(arguments, &reviewed, &present)?;
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build()?;
    let answers = runtime.block_on(answers::collect(
        &admission,
        (&reviewed, &present),
        arguments.operation,
        &arguments.namespace,
    ))?;
    output::print(&answers, arguments.output)?;
    let denied = answers.iter().any(|answer| answer.denial.is_some());
    Ok(if denied { ExitCode::from(DENIED) } else { ExitCode::SUCCESS })
}

/// Admission over the files; what is reviewed counts as applied, so that a SidecarSet and a Deployment
/// can be reviewed together.
fn admission(
    arguments: &ReviewArguments,
    reviewed: &Objects,
    present: &Objects,
) -> anyhow::Result<Admission> {
    let on = [Feature::ResourcesDeletionProtection, Feature::Rollouts].map(|gate| format!("{gate}=true"));
    let gates = FeatureGates::parse(&format!("{},{}", on.join(","), arguments.feature_gates), "")
        .context("--feature-gates")?;
    let mut objects = present.clone();
    objects.extend(reviewed.clone());
    let world = objects.world(&arguments.namespace, api::DEFAULT_NAMESPACE);
    let budgets = Reservations::new(None, Rules::new(&gates));
    Ok(Admission {
        gates,
        index: Arc::new(Index::fixed(world)),
        lookup: Lookup::files(objects),
        flags: AdmissionFlags {
            exit_priority: exit_priority::Settings {
                image: arguments.exit_hook_image.clone(),
                ..exit_priority::Settings::default()
            },
            ..AdmissionFlags::default()
        },
        metrics: Metrics::new()?,
        protection_log: ProtectionLog::disabled(),
        budgets,
        spreads: Reservations::new(None, Slots),
        refusals: None,
        clock: Arc::new(|| Moment { now: jiff::Timestamp::now(), seed: 0 }),
    })
}

#[cfg(test)]
mod tests;
