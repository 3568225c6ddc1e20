//! Objects from a few words: `create`, `expose`, `restart` and `image pull`.

use std::ffi::OsString;
use std::pin::pin;
use std::process::ExitCode;
use std::time::Duration;

use anyhow::{Context, anyhow, bail};
use clap::{Args, Subcommand};
use cluster::resource::{PODS, Resource, SERVICES};
use cluster::watched::WatchedObject;
use futures::StreamExt;
use kube::Api;
use kube::runtime::WatchStreamExt;
use kube::runtime::watcher::{self, Event, watcher};
use planner::plugin::creation::{Exposure, JobKind, RestartSettings, pull_job, restart_request};
use planner::plugin::kinds::WorkloadKind;
use planner::plugin::pods;
use serde_json::Value;

use super::connection::{Connection, Session};
use super::hand_over;
use super::target::{Named, WriteArguments, named};
use crate::explain::list_all;

const JOBS: Resource<'_> = Resource::new("batch/v1", "jobs", "Job");
const BROADCAST_JOBS: Resource<'_> = Resource::new("apps.kruise.io/v1beta1", "broadcastjobs", "BroadcastJob");
const RESTARTS: Resource<'_> =
    Resource::new("apps.kruise.io/v1beta1", "containerrecreaterequests", "ContainerRecreateRequest");
const PULLS: Resource<'_> = Resource::new("apps.kruise.io/v1beta1", "imagepulljobs", "ImagePullJob");

/// Arguments of `create`.
#[derive(Debug, Args)]
pub(super) struct CreateArguments {
    #[command(subcommand)]
    kind: Kind,
}

#[derive(Debug, Subcommand)]
enum Kind {
    /// Create a Job that runs an image, or one like those of an AdvancedCronJob
    Job(JobArguments),
    /// Create a BroadcastJob that runs an image, or one like those of an AdvancedCronJob
    #[command(name = "broadcastJob", aliases = ["broadcastjob", "bcj"])]
    BroadcastJob(JobArguments),
    /// Create a request to restart containers of a Pod
    #[command(name = "ContainerRecreateRequest", aliases = ["containerrecreaterequest", "crr"])]
    ContainerRecreateRequest(RequestArguments),
    #[command(external_subcommand)]
    Other(#[expect(dead_code, reason = "kubectl reads them")] Vec<OsString>),
}

#[derive(Debug, Args)]
struct JobArguments {
    name: String,
    /// Image to run
    #[arg(long)]
    image: Option<String>,
    /// acj/NAME of which the job is to be like
    #[arg(long)]
    from: Option<String>,
    /// The command
    #[arg(last = true)]
    command: Vec<String>,
    #[command(flatten)]
    write: WriteArguments,
}

#[derive(Debug, Args)]
struct RequestArguments {
    name: String,
    /// The Pod
    #[arg(short, long, required = true)]
    pod: String,
    /// The containers, with commas between them; all where none is given
    #[arg(long, value_delimiter = ',')]
    containers: Vec<String>,
    /// How long the Pod is not ready before, in seconds
    #[arg(
        short,
        long = "unreadyGracePeriodSeconds",
        alias = "unready-grace-period-seconds",
        default_value_t = 3
    )]
    unready_grace_period_seconds: i64,
    /// How long a container has to run to count as restarted, in seconds
    #[arg(short, long = "minStartedSeconds", alias = "min-started-seconds", default_value_t = 3)]
    min_started_seconds: i64,
    #[command(flatten)]
    write: WriteArguments,
}

/// Creates what is meant.
pub(super) fn create(
    arguments: &CreateArguments,
    connection: &Connection,
    given: &[OsString],
) -> anyhow::Result<ExitCode> {
    match &arguments.kind {
        Kind::Job(arguments) => job(JobKind::Job, JOBS, arguments, connection, given),
        Kind::BroadcastJob(arguments) => {
            job(JobKind::BroadcastJob, BROADCAST_JOBS, arguments, connection, given)
        }
        Kind::ContainerRecreateRequest(arguments) => connection.with(async |session| {
            let pod = read_pod(session, &arguments.pod).await?;
            let settings = RestartSettings {
                unready_grace_period_seconds: arguments.unready_grace_period_seconds,
                min_started_seconds: arguments.min_started_seconds,
            };
            let request = restart_request(Some(&arguments.name), &pod, &arguments.containers, settings);
            session.create(RESTARTS, request.map_err(anyhow::Error::msg)?, &arguments.write).await?;
            Ok(ExitCode::SUCCESS)
        }),
        Kind::Other(_) => hand_over(given),
    }
}

fn job(
    kind: JobKind,
    resource: Resource<'_>,
    arguments: &JobArguments,
    connection: &Connection,
    given: &[OsString],
) -> anyhow::Result<ExitCode> {
    let source = match (&arguments.image, &arguments.from) {
        (Some(image), None) => {
            let made = kind.of_image(&arguments.name, image, &arguments.command);
            return connection.with(async |session| {
                session.create(resource, made, &arguments.write).await?;
                Ok(ExitCode::SUCCESS)
            });
        }
        (None, Some(source)) => source,
        _ => bail!("either --image or --from must be specified"),
    };
    let found = named(std::slice::from_ref(source))?;
    let Some([source]) = found.as_deref() else {
        if kind == JobKind::Job {
            return hand_over(given);
        }
        bail!("from must be an AdvancedCronJob, such as acj/{}", arguments.name);
    };
    if source.kind != WorkloadKind::AdvancedCronJob {
        bail!("from must be an AdvancedCronJob, not {}", source.quoted());
    }
    connection.with(async |session| {
        let cron_job = session.read(source).await?;
        let made = kind.of_cron_job(&arguments.name, &cron_job).map_err(anyhow::Error::msg)?;
        session.create(resource, made, &arguments.write).await?;
        Ok(ExitCode::SUCCESS)
    })
}

async fn read_pod(session: &Session, name: &str) -> anyhow::Result<Value> {
    let pod = session.find(&PODS.namespaced(&session.namespace).name(name)).await?;
    pod.ok_or_else(|| anyhow!("Error from server (NotFound): pods {name:?} not found"))
}

/// Arguments of `expose`.
#[derive(Debug, Args)]
pub(super) struct ExposeArguments {
    /// TYPE NAME or TYPE/NAME
    #[arg(required = true)]
    words: Vec<String>,
    /// Port of the Service
    #[arg(long)]
    port: Option<u16>,
    /// Port of the Pods, by number or name
    #[arg(long)]
    target_port: Option<String>,
    /// TCP, UDP or SCTP
    #[arg(long, default_value = "TCP")]
    protocol: String,
    /// Name of the Service; that of the workload where none is given
    #[arg(long)]
    name: Option<String>,
    /// ClusterIP, NodePort or LoadBalancer
    #[arg(long = "type", default_value = "ClusterIP")]
    kind: String,
    #[command(flatten)]
    write: WriteArguments,
}

/// Makes a Service for the Pods of a CloneSet.
pub(super) fn expose(
    arguments: &ExposeArguments,
    connection: &Connection,
    given: &[OsString],
) -> anyhow::Result<ExitCode> {
    let Some(all) = named(&arguments.words)? else { return hand_over(given) };
    let [one] = &all[..] else { bail!("one object is exposed at a time") };
    if one.kind != WorkloadKind::CloneSet {
        bail!("cannot expose a {}", one.kind.kind());
    }
    let port = arguments.port.with_context(|| {
        format!(
            "couldn't find port via --port flag or introspection: cannot extract ports from {}",
            one.quoted()
        )
    })?;
    connection.with(async |session| {
        let exposure = Exposure {
            name: arguments.name.as_ref().unwrap_or(&one.name),
            port,
            target_port: arguments.target_port.as_deref(),
            protocol: &arguments.protocol,
            kind: &arguments.kind,
        };
        let service = exposure.service(&session.read(one).await?).map_err(anyhow::Error::msg)?;
        session.create(SERVICES, service, &arguments.write).await?;
        Ok(ExitCode::SUCCESS)
    })
}

/// Arguments of `restart`.
#[derive(Debug, Args)]
pub(super) struct RestartArguments {
    /// The Pod
    pod: String,
    /// The containers, with commas between them; all where none is given
    #[arg(short, long, value_delimiter = ',')]
    containers: Vec<String>,
    /// How long to wait for the containers, such as 90s; 0s not at all
    #[arg(long, default_value = "300s", value_parser = crate::arguments::duration)]
    patience: Duration,
    #[command(flatten)]
    write: WriteArguments,
}

/// Restarts containers of a Pod, and waits until they run.
pub(super) fn restart(arguments: &RestartArguments, connection: &Connection) -> anyhow::Result<ExitCode> {
    connection.with(async |session| {
        let name = arguments.pod.trim_start_matches("pod/").trim_start_matches("pods/");
        let pod = read_pod(session, name).await?;
        let made = request_restart(session, &pod, &arguments.containers, &arguments.write).await?;
        await_restart(session, &made, arguments.patience, &arguments.write).await
    })
}

/// Asks for a restart of containers of a Pod: of these, or of all where none is named.
pub(super) async fn request_restart(
    session: &Session,
    pod: &Value,
    containers: &[String],
    write: &WriteArguments,
) -> anyhow::Result<Value> {
    let settings = RestartSettings { unready_grace_period_seconds: 3, min_started_seconds: 3 };
    let request = restart_request(None, pod, containers, settings).map_err(anyhow::Error::msg)?;
    session.create(RESTARTS, request, write).await
}

/// Waits until the containers of a request run again.
pub(super) async fn await_restart(
    session: &Session,
    made: &Value,
    patience: Duration,
    write: &WriteArguments,
) -> anyhow::Result<ExitCode> {
    wait(session, RESTARTS, made, patience, write, |object| {
        let text = |pointer: &str| object.pointer(pointer).and_then(Value::as_str).unwrap_or_default();
        let states = object.pointer("/status/containerRecreateStates").and_then(Value::as_array);
        let states: Vec<(&str, &str)> = states
            .into_iter()
            .flatten()
            .filter_map(|state| Some((state.get("name")?.as_str()?, state.get("phase")?.as_str()?)))
            .collect();
        let told: Vec<String> = states.iter().map(|(name, phase)| format!("{name}: {phase}")).collect();
        let is_over = matches!(text("/status/phase"), "Completed" | "Succeeded" | "Failed");
        let succeeded =
            states.iter().all(|(_, phase)| *phase == "Succeeded") && text("/status/message").is_empty();
        let message = [told.join(", "), text("/status/message").to_owned()].join(" ").trim().to_owned();
        Stage { message, end: is_over.then_some(succeeded) }
    })
    .await
}

/// Arguments of `image`.
#[derive(Debug, Args)]
pub(super) struct ImageArguments {
    #[command(subcommand)]
    verb: ImageVerb,
}

#[derive(Debug, Subcommand)]
enum ImageVerb {
    /// Pull an image to Nodes, and tell how far that is
    Pull(PullArguments),
}

#[derive(Debug, Args)]
struct PullArguments {
    image: String,
    /// Labels of the Nodes, such as pool=shop; all Nodes where none is given
    #[arg(short = 'l', long)]
    selector: Option<String>,
    /// How long to wait for the pulls, such as 10m; 0s not at all
    #[arg(long, default_value = "1h", value_parser = crate::arguments::duration)]
    patience: Duration,
    #[command(flatten)]
    write: WriteArguments,
}

/// Pulls an image to Nodes.
pub(super) fn image(arguments: &ImageArguments, connection: &Connection) -> anyhow::Result<ExitCode> {
    let ImageVerb::Pull(arguments) = &arguments.verb;
    let job = pull_job(&arguments.image, arguments.selector.as_deref()).map_err(anyhow::Error::msg)?;
    connection.with(async |session| {
        let made = session.create(PULLS, job, &arguments.write).await?;
        wait(session, PULLS, &made, arguments.patience, &arguments.write, |object| {
            let number =
                |name: &str| object.pointer(&format!("/status/{name}")).and_then(Value::as_i64).unwrap_or(0);
            let message = format!(
                "{} of {} nodes have it, {} failed",
                number("succeeded"),
                number("desired"),
                number("failed")
            );
            let is_over = object.pointer("/status/completionTime").is_some_and(|time| !time.is_null());
            Stage { message, end: is_over.then(|| number("failed") == 0) }
        })
        .await
    })
}

/// How far what was asked for is.
struct Stage {
    message: String,
    /// Over, and whether it succeeded.
    end: Option<bool>,
}

/// Follows an object until it is over.
async fn wait(
    session: &Session,
    resource: Resource<'_>,
    made: &Value,
    patience: Duration,
    write: &WriteArguments,
    stage: impl Fn(&Value) -> Stage,
) -> anyhow::Result<ExitCode> {
    if patience.is_zero() || !write.writes() {
        return Ok(ExitCode::SUCCESS);
    }
    let name = made.pointer("/metadata/name").and_then(Value::as_str).unwrap_or_default();
    let api: Api<WatchedObject> = Api::namespaced_with(
        session.client.clone(),
        &session.namespace,
        &session.served.newest(resource).api_resource(),
    );
    let only = watcher::Config::default().fields(&format!("metadata.name={name}"));
    let followed = async {
        let mut events = pin!(watcher(api, only).default_backoff());
        let mut told = String::new();
        while let Some(event) = events.next().await {
            let object = match event {
                Ok(Event::Apply(object) | Event::InitApply(object)) => object,
                Ok(Event::Delete(_)) => bail!("object has been deleted"),
                Ok(Event::Init | Event::InitDone) | Err(_) => continue,
            };
            let stage = stage(&serde_json::from_str(object.json())?);
            if stage.message != told {
                eprintln!("{}", stage.message);
                told = stage.message;
            }
            if let Some(succeeded) = stage.end {
                return Ok(if succeeded { ExitCode::SUCCESS } else { ExitCode::FAILURE });
            }
        }
        Err(anyhow!("the watch ended"))
    };
    match tokio::time::timeout(patience, followed).await {
        Ok(done) => done,
        Err(_) => bail!("timed out waiting for {} {name}, which goes on", resource.kind),
    }
}

/// A name of a workload's Pod: the Pod itself, or the first of a workload of ours.
pub(super) async fn pod_of(session: &Session, target: &str) -> anyhow::Result<Value> {
    let found = match target.split_once('/') {
        Some((kind, name)) => WorkloadKind::named(kind).map(|kind| Named::new(kind, name)),
        None => None,
    };
    let Some(workload) = found else {
        return read_pod(session, target.trim_start_matches("pod/").trim_start_matches("pods/")).await;
    };
    let mut pods = workload_pods(session, &workload).await?;
    // Those that run come first.
    pods.sort_by_key(|pod| pod.pointer("/status/phase").and_then(Value::as_str) != Some("Running"));
    pods.into_iter().next().ok_or_else(|| anyhow!("{} has no Pods", workload.quoted()))
}

/// The Pods that a workload owns.
pub(super) async fn workload_pods(session: &Session, workload: &Named) -> anyhow::Result<Vec<Value>> {
    let object = session.read(workload).await?;
    let uid = object.pointer("/metadata/uid").and_then(Value::as_str).unwrap_or_default();
    let mut all = Vec::new();
    list_all(&session.client, &PODS.namespaced(workload.namespace(session)), |pod: Value| {
        if pods::is_owned(&pod, uid) {
            all.push(pod);
        }
    })
    .await?;
    Ok(all)
}
