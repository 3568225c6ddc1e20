//! `kubectl kruise`: what people do to workloads from the command line (docs/kubectl-kruise.md). What is about kinds of
//! Kubernetes, and what kubectl does as well, is left to kubectl.
//!
//! ```text
//!   connection  which cluster, namespace and user         target    the objects that are meant, and requests about them
//!   rollout     status, history, pause, restart, approve  undo      rolling back
//!   follow      a rollout, to its end                     written   how a write is done and printed
//!   set         images, variables, resources, accounts    scale     chosen Pods away, and from a Deployment to a CloneSet
//!   create      jobs, Services, restarts, pulls           pods      exec, logs, cp
//!   list        get all                                   version   of all that takes part
//!   describe    a Rollout as a page                       terminal  the standard output: text, blocks and colours
//!   complete    completion in shells                      generate  a ResourceDistribution for Kustomize
//!   words       command lines, taken apart                served    the versions of kinds that a server has
//!   failures    what went wrong, as kubectl says it       plan      how a rollout would go
//!   asked       what decisions of Rollouts ask for
//! ```

pub mod arguments;
mod asked;
mod complete;
mod connection;
mod create;
mod describe;
pub mod explain;
mod failures;
mod follow;
pub mod generate;
mod list;
mod plan;
mod pods;
pub mod review;
mod rollout;
mod scale;
mod served;
mod set;
pub mod simulate;
mod target;
mod terminal;
mod undo;
mod version;
mod words;
mod workloads;
mod written;

use std::ffi::OsString;
use std::io::{Read, Write};
use std::os::unix::process::{CommandExt, ExitStatusExt};
use std::process::{Child, Command, ExitCode, Stdio};
use std::sync::OnceLock;

use anyhow::{Context, anyhow};
use clap::error::ErrorKind;
use clap::{Args, CommandFactory, FromArgMatches, Parser, Subcommand};

use connection::Connection;
use terminal::OutputClosed;
use words::Line;

/// What shells say of a program whose output nobody reads: 128 and the number of SIGPIPE.
const OUTPUT_CLOSED: u8 = 141;

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
    Rollout(Box<rollout::RolloutArguments>),
    /// Set images, environment variables, requests and limits, accounts
    Set(Box<set::SetArguments>),
    /// Scale down by chosen Pods
    Scaledown(scale::ScaledownArguments),
    /// Move from a Deployment to a CloneSet
    Migrate(scale::MigrateArguments),
    /// Create jobs and requests to restart containers
    Create(create::CreateArguments),
    /// Make a Service for the Pods of a CloneSet
    Expose(Box<create::ExposeArguments>),
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
    #[command(disable_help_flag = true)]
    Logs(Passed),
    /// Copy files to and from a container; -S names that of a SidecarSet
    #[command(disable_help_flag = true)]
    Cp(Passed),
    /// Show why a workload is as it is, and what its controller would do next
    Explain(Box<explain::ExplainArguments>),
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

/// The commands and flags of the plugin.
fn command() -> clap::Command {
    words::as_of_kubectl(CommandLine::command())
}

/// Runs what is called by one of the names of the plugin and its generator; none by other names.
///
/// # Errors
/// The generator failed.
pub fn called(name: &str, arguments: &[OsString]) -> Option<anyhow::Result<ExitCode>> {
    match name {
        "kubectl-kruise" => Some(Ok(run(arguments.to_vec()))),
        "kubectl_complete-kruise" => Some(Ok(complete::candidates(arguments.get(1..).unwrap_or_default()))),
        "resourcedistributiongenerator" => Some(generate::run()),
        _ => None,
    }
}

/// Runs the plugin with these arguments, the first of which is its name, and prints what went wrong.
pub fn run(arguments: Vec<OsString>) -> ExitCode {
    match carried_out(words::with_hyphens(arguments)) {
        Ok(code) => code,
        Err(error) if error.is::<OutputClosed>() => ExitCode::from(OUTPUT_CLOSED),
        Err(error) => {
            eprintln!("{}", failures::printed(&error));
            ExitCode::FAILURE
        }
    }
}

/// The words of a command line, and the connection that they name.
#[derive(Clone, Copy)]
struct Call<'a> {
    connection: &'a Connection,
    given: &'a [OsString],
}

impl Call<'_> {
    /// Becomes kubectl with the same words.
    fn hand_over(self) -> anyhow::Result<ExitCode> {
        hand_over(self.given)
    }
}

fn carried_out(arguments: Vec<OsString>) -> anyhow::Result<ExitCode> {
    let given = arguments.get(1..).unwrap_or_default().to_vec();
    let matches = command().try_get_matches_from(arguments);
    let line = match matches.and_then(|matches| CommandLine::from_arg_matches(&matches)) {
        Ok(line) => line,
        Err(error) => return misread(&error, &given),
    };
    let connection = &line.connection;
    let call = Call { connection, given: &given };
    match line.verb {
        Verb::Rollout(arguments) => rollout::run(&arguments, call),
        Verb::Set(mut arguments) => set::run(&mut arguments, call),
        Verb::Scaledown(arguments) => scale::scale_down(&arguments, connection),
        Verb::Migrate(arguments) => scale::migrate(&arguments, connection),
        Verb::Create(arguments) => create::create(&arguments, call),
        Verb::Expose(arguments) => create::expose(&arguments, call),
        Verb::Restart(arguments) => create::restart(&arguments, connection),
        Verb::Image(arguments) => create::image(&arguments, connection),
        Verb::Describe(arguments) => describe::run(&arguments, call),
        Verb::Sidecar(arguments) => rollout::sidecar(&arguments, connection),
        Verb::Get(_) => list::run(&given),
        Verb::Exec(_) => pods::run(&given, "exec"),
        Verb::Logs(_) => pods::run(&given, "logs"),
        Verb::Cp(_) => pods::run(&given, "cp"),
        Verb::Explain(arguments) => explain::run_with(&arguments, &connection.flags()),
        Verb::Simulate(arguments) => simulate::run(&arguments),
        Verb::Review(arguments) => review::run(&arguments),
        Verb::Version(arguments) => version::run(&arguments, connection),
        Verb::Completion(arguments) => complete::script(&arguments),
        Verb::Other(_) => call.hand_over(),
    }
}

/// Arguments that were not understood: kubectl may know more about commands that it has too.
fn misread(error: &clap::Error, given: &[OsString]) -> anyhow::Result<ExitCode> {
    let is_help = matches!(error.kind(), ErrorKind::DisplayHelp | ErrorKind::DisplayVersion);
    if !is_help && may_be_for_kubectl(given) {
        return hand_over(given);
    }
    let text = error.render();
    if error.use_stderr() {
        eprint!("{text}");
    } else {
        terminal::print(text)?;
    }
    Ok(if is_help { ExitCode::SUCCESS } else { ExitCode::FAILURE })
}

/// Whether kubectl has the command too, and no kind of Kruise is named.
fn may_be_for_kubectl(given: &[OsString]) -> bool {
    let words: Option<Vec<String>> = given.iter().map(|word| word.to_str().map(str::to_owned)).collect();
    let (root, words) = (command(), words.unwrap_or_default());
    let line = Line::read(&root, &words);
    match line.verbs[..] {
        ["create", ..] if line.has_files() => true,
        ["create", "job"] => true,
        ["create" | "describe" | "set" | "rollout"] => !line.words.is_empty() || line.has_files(),
        ["expose"]
        | ["rollout", "status" | "history" | "undo" | "pause" | "resume" | "restart"]
        | ["set", "image" | "env" | "resources" | "serviceaccount"] => {
            (!line.words.is_empty() || line.has_files()) && !target::name_ours(&line.words)
        }
        _ => false,
    }
}

/// The standard input, once the plugin has read it: kubectl gets the same bytes.
static INPUT: OnceLock<Vec<u8>> = OnceLock::new();

/// The standard input, which is read once.
fn standard_input() -> anyhow::Result<&'static [u8]> {
    if let Some(input) = INPUT.get() {
        return Ok(input);
    }
    let mut input = Vec::new();
    std::io::stdin().lock().read_to_end(&mut input).context("the standard input can't be read")?;
    Ok(INPUT.get_or_init(|| input))
}

/// Writes the standard input of a process that has a pipe for it, and closes the pipe.
fn feed(process: &mut Child, input: &[u8]) {
    if let Some(mut pipe) = process.stdin.take() {
        // A process that ends before it has read everything says why.
        let _ = pipe.write_all(input);
    }
}

/// Becomes kubectl with the same arguments. Where the standard input was read, kubectl gets it by a pipe.
fn hand_over(arguments: &[OsString]) -> anyhow::Result<ExitCode> {
    let absent = |error| anyhow!("this is for kubectl, which can't be started: {error}");
    let mut kubectl = Command::new("kubectl");
    kubectl.args(arguments);
    let Some(input) = INPUT.get() else { return Err(absent(kubectl.exec())) };
    let mut process = kubectl.stdin(Stdio::piped()).spawn().map_err(absent)?;
    feed(&mut process, input);
    let status = process.wait()?;
    let code = status.code().or_else(|| status.signal()?.checked_add(128));
    Ok(code.and_then(|code| u8::try_from(code).ok()).map_or(ExitCode::FAILURE, ExitCode::from))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn is_for_kubectl(line: &str) -> bool {
        may_be_for_kubectl(&line.split(' ').map(OsString::from).collect::<Vec<_>>())
    }

    #[test]
    fn the_command_line_is_consistent() {
        command().debug_assert();
    }

    #[test]
    fn what_kubectl_may_know_is_handed_over() {
        for line in [
            "rollout status deployment/web --kubectl-only",
            "ro history sts/web --kubectl-only",
            "-n rollout rollout restart deployment web --kubectl-only",
            "rollout undo daemonset web --to-revision=2 --kubectl-only clone",
            "set image deployment/web clone=a --kubectl-only",
            "create -f clonesets/web.yaml",
            "create -kclonesets",
            "create job now --image a --kubectl-only",
            "expose deployment clone --kubectl-only",
            "describe --kubectl-only deployment web",
        ] {
            assert!(is_for_kubectl(line), "{line}");
        }
        for line in [
            "rollout status clone/web --nosuch",
            "ro history clone web --nosuch",
            "rollout approve deployment/web --nosuch",
            "set env deployment,clonesets K=V --nosuch",
            "expose cloneset web --nosuch",
            "describe rollout web --nosuch",
            "rollout --nosuch",
            "scaledown --nosuch",
            "rollout status",
        ] {
            assert!(!is_for_kubectl(line), "{line}");
        }
    }

    #[test]
    fn booleans_take_a_value_and_the_last_flag_counts() {
        let parse = |line: &str| {
            let words = std::iter::once("kubectl-kruise").chain(line.split(' '));
            command().try_get_matches_from(words).and_then(|found| CommandLine::from_arg_matches(&found))
        };
        for line in [
            "rollout undo clone/web --fast=false --dry-run=client --dry-run=server --wait=T -y=true",
            "set image clone/web main=a --all=false --diff=true -l a=b -l c=d",
            "rollout restart clone/web --in-place --max-unavailable 2 --max-unavailable=3",
            "explain cloneset web --context a -n shop",
        ] {
            assert!(parse(line).is_ok(), "{line}: {}", parse(line).unwrap_err());
        }
        assert!(parse("rollout restart clone/web --max-unavailable 2").is_err());
        assert!(parse("rollout undo clone/web --fast=maybe").is_err());
    }
}
