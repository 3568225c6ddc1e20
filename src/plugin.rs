//! `kubectl kruise`: what people do to workloads from the command line (docs/kubectl-kruise.md). What is about kinds of
//! Kubernetes, and what kubectl does as well, is left to kubectl.
//!
//! ```text
//!   connection  which cluster, namespace and user         target    the objects that are meant, and requests about them
//!   rollout     status, history, undo, pause, restart     follow    a rollout, to its end
//!   set         images, variables, resources, accounts    scale     chosen Pods away, and from a Deployment to a CloneSet
//!   create      jobs, Services, restarts, pulls           pods      exec, logs, cp
//!   list        get all                                   version   of all that takes part
//!   describe    a Rollout as a page                           terminal  blocks and colours
//!   complete    completion in shells                      generate  a ResourceDistribution for Kustomize
//!   words       command lines that kubectl reads             served    the versions of kinds that a server has
//! ```

pub(crate) mod complete;
mod connection;
mod create;
mod describe;
mod follow;
pub(crate) mod generate;
mod list;
mod pods;
mod rollout;
mod scale;
mod served;
mod set;
mod target;
mod terminal;
mod version;
mod words;

use std::ffi::OsString;
use std::os::unix::process::CommandExt;
use std::process::{Command, ExitCode};

use anyhow::anyhow;
use clap::error::ErrorKind;
use clap::{Args, Parser, Subcommand};

use crate::{explain, review, simulate};
use connection::Connection;

/// Work with the workloads of Kruise.
///
/// Commands that are not listed here, and kinds of Kubernetes, are handed to kubectl.
#[derive(Debug, Parser)]
#[command(name = "kubectl-kruise", bin_name = "kubectl kruise", version, disable_help_subcommand = true)]
struct CommandLine {
    #[command(subcommand)]
    verb: Verb,
    #[command(flatten)]
    connection: Connection,
}

#[derive(Debug, Subcommand)]
enum Verb {
    /// Watch a rollout, list revisions, go back, pause, resume, restart, approve
    #[command(visible_alias = "ro")]
    Rollout(rollout::RolloutArguments),
    /// Set images, environment variables, requests and limits, accounts
    Set(Box<set::SetArguments>),
    /// Scale down by chosen Pods
    Scaledown(scale::ScaledownArguments),
    /// Move from a Deployment to a CloneSet
    Migrate(scale::MigrateArguments),
    /// Create jobs and requests to restart containers
    Create(create::CreateArguments),
    /// Make a Service for the Pods of a CloneSet
    Expose(create::ExposeArguments),
    /// Restart containers of a Pod
    Restart(create::RestartArguments),
    /// Pull an image to Nodes
    Image(create::ImageArguments),
    /// Describe a Rollout; all else is described by kubectl
    Describe(describe::DescribeArguments),
    /// Follow the SidecarSets
    Sidecar(rollout::SidecarArguments),
    /// List objects; `all` means every kind of Kruise
    #[command(disable_help_flag = true)]
    Get(Passed),
    /// Run a command in a container; -S names that of a SidecarSet
    #[command(disable_help_flag = true)]
    Exec(Passed),
    /// Print the log of a container; -S names that of a SidecarSet
    #[command(disable_help_flag = true, visible_alias = "log")]
    Logs(Passed),
    /// Copy files to and from a container; -S names that of a SidecarSet
    #[command(disable_help_flag = true)]
    Cp(Passed),
    /// Show why a workload is as it is, and what its controller would do next
    Explain(explain::ExplainArguments),
    /// Show how a workload is created and rolled out, in a simulated cluster
    Simulate(simulate::SimulateArguments),
    /// Show what admission would answer for manifests, without a cluster
    Review(review::ReviewArguments),
    /// Show the versions of the plugin, the API server and the manager
    Version(version::VersionArguments),
    /// Print the script for a shell
    Completion(complete::CompletionArguments),
    #[command(external_subcommand)]
    Other(#[expect(dead_code, reason = "kubectl reads them")] Vec<OsString>),
}

/// Words that kubectl reads.
#[derive(Debug, Args)]
struct Passed {
    #[arg(trailing_var_arg = true, allow_hyphen_values = true)]
    words: Vec<OsString>,
}

/// Runs the plugin with these arguments, the first of which is its name.
pub(crate) fn run(arguments: Vec<OsString>) -> anyhow::Result<ExitCode> {
    let given = arguments.get(1..).unwrap_or_default().to_vec();
    let line = match CommandLine::try_parse_from(arguments) {
        Ok(line) => line,
        Err(error) => return misread(&error, &given),
    };
    let connection = &line.connection;
    match line.verb {
        Verb::Rollout(arguments) => rollout::run(&arguments, connection, &given),
        Verb::Set(mut arguments) => set::run(&mut arguments, connection, &given),
        Verb::Scaledown(arguments) => scale::scale_down(&arguments, connection),
        Verb::Migrate(arguments) => scale::migrate(&arguments, connection),
        Verb::Create(arguments) => create::create(&arguments, connection, &given),
        Verb::Expose(arguments) => create::expose(&arguments, connection, &given),
        Verb::Restart(arguments) => create::restart(&arguments, connection),
        Verb::Image(arguments) => create::image(&arguments, connection),
        Verb::Describe(arguments) => describe::run(&arguments, connection, &given),
        Verb::Sidecar(arguments) => rollout::sidecar(&arguments, connection),
        Verb::Get(_) => list::run(&given),
        Verb::Exec(_) => pods::run(&given, "exec"),
        Verb::Logs(_) => pods::run(&given, "logs"),
        Verb::Cp(_) => pods::run(&given, "cp"),
        Verb::Explain(arguments) => explain::run(&arguments),
        Verb::Simulate(arguments) => simulate::run(&arguments),
        Verb::Review(arguments) => review::run(&arguments),
        Verb::Version(arguments) => version::run(&arguments, connection),
        Verb::Completion(arguments) => Ok(complete::script(&arguments)),
        Verb::Other(_) => hand_over(&given),
    }
}

/// Arguments that were not understood: of kinds of Kubernetes kubectl may know more.
fn misread(error: &clap::Error, given: &[OsString]) -> anyhow::Result<ExitCode> {
    let is_help = matches!(error.kind(), ErrorKind::DisplayHelp | ErrorKind::DisplayVersion);
    let shared = ["rollout", "set", "create", "expose", "describe"];
    let is_shared = given.iter().any(|word| shared.iter().any(|verb| word == verb));
    if !is_help && is_shared && given.len() > 2 && !target::name_ours(given) {
        return hand_over(given);
    }
    error.print()?;
    Ok(if is_help { ExitCode::SUCCESS } else { ExitCode::FAILURE })
}

/// Becomes kubectl with the same arguments.
fn hand_over(arguments: &[OsString]) -> anyhow::Result<ExitCode> {
    let error = Command::new("kubectl").args(arguments).exec();
    Err(anyhow!("this is for kubectl, which can't be started: {error}"))
}

#[cfg(test)]
mod tests {
    use clap::CommandFactory;

    use super::*;

    #[test]
    fn the_command_line_is_consistent() {
        CommandLine::command().debug_assert();
    }
}
