//! `testbed`: a Kubernetes with real nodes on this machine, for demonstrations and trials.
//!
//! ```text
//! testbed up --nodes 3                   stays in the foreground until Ctrl-C or `testbed down`
//! testbed up --once kubectl get nodes    runs one command in it, and takes it down again
//! testbed image --ref kutter:dev --binary target/release/kutter
//! testbed image --oci target/image --binary target/release/kutter      needs no cluster
//! testbed image --oci target/image --binary amd64=A/kutter --binary arm64=B/kutter
//! testbed prepare                        builds and installs what the others need
//! ```
#![allow(clippy::expect_used, reason = "test harness: a failure is a message to the person at the terminal")]

use std::path::{Path, PathBuf};
use std::process::{Command, ExitCode};
use std::time::{Duration, Instant};

use clap::{Args, Parser};
use kit::{Cluster, Image, Options, binaries, cluster};
use tokio::signal::unix::{SignalKind, signal};

/// Kubernetes with real nodes on this machine, for demonstrations and trials. Needs root.
#[derive(Debug, Parser)]
enum Testbed {
    /// Start a cluster and keep it until Ctrl-C or `testbed down`.
    Up(Up),
    /// Take down the cluster of a directory, or what is left of it.
    Down(Place),
    /// Make a container image and push it into the running cluster, or write it as an OCI layout.
    Image(ImageArguments),
    /// Build the programs of Kubernetes and install missing packages, so that nothing later has to.
    Prepare,
}

#[derive(Debug, Args)]
struct Place {
    /// The cluster's directory; it is removed with the cluster.
    #[arg(long, default_value = "/tmp/kutter-testbed")]
    dir: PathBuf,
}

#[derive(Debug, Args)]
struct Up {
    #[command(flatten)]
    place: Place,
    /// How many nodes.
    #[arg(long, default_value_t = 3)]
    nodes: usize,
    /// A feature gate, such as InPlacePodVerticalScaling=false; may be repeated.
    #[arg(long = "feature-gate", value_name = "NAME=BOOL", value_parser = parse_gate)]
    feature_gates: Vec<(String, bool)>,
    /// Run this command with KUBECONFIG set, and kubectl and helm in the PATH, then take the
    /// cluster down; ends with the command's exit code.
    #[arg(long, num_args = 1.., allow_hyphen_values = true, value_name = "COMMAND")]
    once: Vec<String>,
}

#[derive(Debug, Args)]
struct ImageArguments {
    #[command(flatten)]
    place: Place,
    /// Write an OCI image layout into this directory, with no cluster.
    #[arg(long, value_name = "DIRECTORY")]
    oci: Option<PathBuf>,
    /// The image's reference, such as kutter:dev.
    #[arg(long = "ref", default_value = "kutter/manager:latest")]
    reference: String,
    /// A statically linked program; with --oci one for each architecture.
    #[arg(long, value_name = "[ARCHITECTURE=]PATH", required = true)]
    binary: Vec<String>,
    /// Where it lies in the image; also the entrypoint.
    #[arg(long, default_value = "/manager")]
    path: String,
    /// A symbolic link to it; may be repeated.
    #[arg(long = "link", value_name = "PATH", default_values = ["/kutter", "/kruise-daemon"])]
    links: Vec<String>,
    /// The program of container exit priority, linked statically, for each architecture; it lies at /kruise-exit-hook.
    #[arg(long, value_name = "[ARCHITECTURE=]PATH")]
    exit_hook: Vec<String>,
    /// Who runs it.
    #[arg(long, default_value = "65534:65534")]
    user: String,
}

fn parse_gate(text: &str) -> Result<(String, bool), String> {
    let (name, value) = text.split_once('=').ok_or("expected NAME=true or NAME=false")?;
    Ok((name.to_owned(), value.parse().map_err(|error| format!("{value}: {error}"))?))
}

#[tokio::main]
async fn main() -> ExitCode {
    // The harness reports by panics; people get the message alone.
    std::panic::set_hook(Box::new(|panic| {
        eprintln!("testbed: {}", panic.payload_as_str().unwrap_or("failed"));
    }));
    match Testbed::parse() {
        Testbed::Up(arguments) => up(arguments).await,
        Testbed::Down(place) => down(&place.dir),
        Testbed::Image(arguments) => image(&arguments),
        Testbed::Prepare => prepare(),
    }
}

fn image(arguments: &ImageArguments) -> ExitCode {
    let programs = |texts: &[String]| -> Vec<(Option<String>, PathBuf)> {
        let program = |text: &String| match text.split_once('=') {
            Some((architecture, path)) => (Some(architecture.to_owned()), path.into()),
            None => (None, text.into()),
        };
        texts.iter().map(program).collect()
    };
    let hooks = programs(&arguments.exit_hook);
    let image = |(architecture, program): (Option<String>, PathBuf)| {
        let image = architecture.as_deref().map_or_else(Image::new, Image::of);
        let image = image.file(&arguments.path, &program).entrypoint([&arguments.path]).user(&arguments.user);
        let image = arguments.links.iter().fold(image, |image, link| image.link(link, &arguments.path));
        match hooks.iter().find(|hook| hook.0 == architecture) {
            Some((_, hook)) => image.file("/kruise-exit-hook", hook),
            None => image,
        }
    };
    let images: Vec<Image> = programs(&arguments.binary).into_iter().map(image).collect();
    if let Some(directory) = &arguments.oci {
        println!("{}", Image::write_layout(&images, directory, &arguments.reference));
    } else if let [image] = images.as_slice() {
        cluster::push_image(&arguments.place.dir, &arguments.reference, image);
        println!("{} is available in the cluster", arguments.reference);
    } else {
        eprintln!("testbed: the nodes of a cluster have one architecture");
        return ExitCode::FAILURE;
    }
    ExitCode::SUCCESS
}

fn prepare() -> ExitCode {
    if cluster::can_run() {
        cluster::install_packages();
    }
    println!("Kubernetes and helm are in {}", tools().display());
    ExitCode::SUCCESS
}

async fn up(arguments: Up) -> ExitCode {
    let options = arguments
        .feature_gates
        .iter()
        .fold(Options::default(), |options, (name, enabled)| options.feature_gate(name, *enabled));
    let mut interrupt = signal(SignalKind::interrupt()).expect("signals can be handled");
    let mut terminate = signal(SignalKind::terminate()).expect("signals can be handled");
    let start = Cluster::start_in(&arguments.place.dir, arguments.nodes, options);
    // Interrupted in the middle, the start is dropped, and with it what it has made.
    let cluster = tokio::select! {
        cluster = start => cluster,
        _ = interrupt.recv() => return ExitCode::FAILURE,
        _ = terminate.recv() => return ExitCode::FAILURE,
    };
    if let Some((program, rest)) = arguments.once.split_first() {
        let mut command = tokio::process::Command::from(environment(program, &cluster));
        let status = command.args(rest).kill_on_drop(true).status();
        return tokio::select! {
            status = status => exit_code(program, status),
            _ = interrupt.recv() => ExitCode::FAILURE,
            _ = terminate.recv() => ExitCode::FAILURE,
        };
    }
    println!(
        "export KUBECONFIG={} PATH={}:$PATH",
        cluster.server().kubeconfig().display(),
        tools().display()
    );
    println!(
        "The cluster runs until Ctrl-C or `testbed down`; logs are in {}.",
        cluster.directory().display()
    );
    tokio::select! { _ = interrupt.recv() => {}, _ = terminate.recv() => {} }
    println!("taking the cluster down");
    ExitCode::SUCCESS
}

/// The directory with kubectl and helm.
fn tools() -> PathBuf {
    binaries::path("kubectl").parent().map(Path::to_owned).unwrap_or_default()
}

fn environment(program: &str, cluster: &Cluster) -> Command {
    let others = std::env::var_os("PATH").unwrap_or_default();
    let path = std::env::join_paths([tools()].into_iter().chain(std::env::split_paths(&others)));
    let path = path.expect("the PATH can be extended");
    // The new PATH counts for the search of the program too.
    let mut command = Command::new("env");
    command.arg(program).env("PATH", path).env("KUBECONFIG", cluster.server().kubeconfig());
    command
}

fn exit_code(program: &str, status: std::io::Result<std::process::ExitStatus>) -> ExitCode {
    match status {
        Ok(status) => {
            status.code().and_then(|code| u8::try_from(code).ok()).map_or(ExitCode::FAILURE, ExitCode::from)
        }
        Err(error) => {
            eprintln!("testbed: cannot run {program}: {error}");
            ExitCode::FAILURE
        }
    }
}

fn down(directory: &Path) -> ExitCode {
    if let Some(process) = cluster::owner(directory) {
        let killed = Command::new("kill").arg(process.to_string()).status();
        assert!(killed.is_ok_and(|status| status.success()), "process {process} can't be ended");
        let start = Instant::now();
        while cluster::owner(directory).is_some() {
            assert!(start.elapsed() < Duration::from_secs(60), "process {process} doesn't end");
            std::thread::sleep(Duration::from_millis(100));
        }
    }
    cluster::remove_leftovers(directory);
    println!("nothing of the cluster is left");
    ExitCode::SUCCESS
}
