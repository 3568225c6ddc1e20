//! The subcommands, and the names under which the program is called.

use std::ffi::{OsStr, OsString};
use std::path::Path;
use std::process::ExitCode;

use clap::{Parser, Subcommand};

use crate::arguments::ServeArguments;
use crate::{crds, finalizer, manifests, node, serve};
use kubectl_kruise::review::ReviewArguments;
use kubectl_kruise::{explain, generate, review, simulate};

/// Admission and workload system for Kubernetes, compatible with OpenKruise.
#[derive(Debug, Parser)]
#[command(name = "kutter", version, about)]
struct CommandLine {
    #[command(subcommand)]
    command: Command,
}

#[derive(Debug, Subcommand)]
enum Command {
    /// Serve admission webhooks and, on the leader, run the controllers
    Serve(Box<ServeArguments>),
    /// Serve one node: pull the images that jobs ask for
    Node(Box<node::NodeArguments>),
    /// Show what admission would answer for manifests, without a cluster
    ///
    /// Exit code 0: allowed, 1: error, 3: denied.
    Review(ReviewArguments),
    /// Show why a workload is as it is, and what its controller would do next
    ///
    /// Exit code 0: complete, 1: error, 2: waiting or moving.
    Explain(Box<explain::ExplainArguments>),
    /// Show how a workload is created and rolled out, in a simulated cluster
    ///
    /// Exit code 0: it came to what it asks for, 1: error, 4: it did not.
    Simulate(simulate::SimulateArguments),
    /// Print the CustomResourceDefinitions
    Crds(crds::CrdsArguments),
    /// Print what the chart installs, for kubectl apply --server-side -f -
    Manifests(manifests::ManifestsArguments),
    /// Read a ResourceList and append the ResourceDistribution of its functionConfig, for Kustomize
    GenerateResourcedistribution,
    /// Exit with 1 while workloads exist that an uninstall would take along
    Finalizer(finalizer::FinalizerArguments),
}

/// Runs the program with these arguments, the first of which is its name.
pub(crate) fn run(arguments: impl IntoIterator<Item = OsString>) -> anyhow::Result<ExitCode> {
    let arguments: Vec<OsString> = arguments.into_iter().collect();
    if let Some(outcome) = called_as(&arguments).and_then(|name| kubectl_kruise::called(name, &arguments)) {
        return outcome;
    }
    let arguments = expand(arguments);
    match CommandLine::parse_from(arguments).command {
        Command::Serve(arguments) => serve::run(&arguments),
        Command::Node(arguments) => node::run(&arguments),
        Command::Review(arguments) => review::run(&arguments),
        Command::Explain(arguments) => explain::run(&arguments),
        Command::Simulate(arguments) => simulate::run(&arguments),
        Command::Crds(arguments) => crds::print(&arguments),
        Command::Manifests(arguments) => manifests::print(&arguments),
        Command::GenerateResourcedistribution => generate::run(),
        Command::Finalizer(arguments) => finalizer::run(&arguments),
    }
}

/// The name of the program.
fn called_as(arguments: &[OsString]) -> Option<&str> {
    arguments.first().map(Path::new).and_then(Path::file_name).and_then(OsStr::to_str)
}

/// `/manager --flag` becomes `kutter serve --flag`, and `/kruise-daemon` becomes `kutter node`. Go's `-v=5` becomes
/// `--v=5`, and klog's `--log_dir` becomes `--log-dir`.
fn expand(mut arguments: Vec<OsString>) -> Vec<OsString> {
    match called_as(&arguments) {
        Some("manager") => arguments.insert(1, "serve".into()),
        Some("kruise-daemon") => arguments.insert(1, "node".into()),
        _ => {}
    }
    if arguments.get(1).is_some_and(|command| command == "serve" || command == "node") {
        for argument in arguments.iter_mut().skip(2) {
            let Some(text) = argument.to_str().filter(|text| text.len() > 1 && *text != "-h") else {
                continue;
            };
            let Some(name) = text.strip_prefix("--").or_else(|| text.strip_prefix('-')) else { continue };
            // A negative number is the value of the argument before it.
            if name.starts_with(|letter: char| letter.is_ascii_digit()) {
                continue;
            }
            let (name, value) = name.split_at(name.find('=').unwrap_or(name.len()));
            *argument = format!("--{}{value}", name.replace('_', "-")).into();
        }
    }
    arguments
}

#[cfg(test)]
mod tests {
    use super::*;
    use clap::CommandFactory;

    fn expanded(arguments: &[&str]) -> Vec<String> {
        let arguments = arguments.iter().map(OsString::from).collect();
        expand(arguments).into_iter().map(|argument| argument.into_string().unwrap()).collect()
    }

    #[test]
    fn the_command_line_is_consistent() {
        CommandLine::command().debug_assert();
    }

    #[test]
    fn manager_means_serve_and_go_flags_parse() {
        assert_eq!(expanded(&["/manager", "-v=5"]), ["/manager", "serve", "--v=5"]);
        assert_eq!(expanded(&["kutter", "review", "-f", "x"]), ["kutter", "review", "-f", "x"]);
        for flags in [
            &["-v=5", "--enable-leader-election", "--metrics-addr=:0", "--logtostderr=true"][..],
            &["--log_dir=/log", "--log_file_max_size=1", "--skip_headers", "--sync-period", "10h"],
            &["--log-text-split-stream", "--log-text-info-buffer-size=1Mi", "--log-json-split-stream=true"],
            &["--log-json-info-buffer-size", "0", "--log-flush-frequency=5s", "--logging-format=json"],
            &["--add_dir_header=true", "--one_output", "--log_backtrace_at=:0", "--enable-leader-election=1"],
            &["--allow-privileged=F", "--cloneset-workers=5", "--rate-limiter-qps=10", "-v", "4"],
        ] {
            let arguments = expanded(&[&["/manager"], flags].concat());
            let parsed = CommandLine::try_parse_from(&arguments);
            assert!(parsed.is_ok(), "{arguments:?}: {}", parsed.unwrap_err());
        }
        let flags = [
            "/kruise-daemon",
            "--logtostderr=true",
            "-v=4",
            "--addr=:1",
            "--feature-gates=",
            "--enable-pprof",
        ];
        let more =
            ["--pprof-addr=localhost:10222", "--socket-file=a/b.sock", "--max-workers-for-pull-image=-1"];
        let parsed = CommandLine::try_parse_from(expanded(&[&flags[..], &more].concat()));
        assert!(parsed.is_ok(), "{}", parsed.unwrap_err());
    }
}
