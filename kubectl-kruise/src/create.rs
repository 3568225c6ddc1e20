//! Objects from a few words: `create`, `expose`, `restart` and `image pull`.

use std::ffi::OsString;
use std::pin::pin;
use std::process::ExitCode;
use std::time::Duration;

use anyhow::{Context, anyhow, bail};
use clap::{Args, Subcommand};
use cluster::resource::{PODS, Resource, SERVICES};
use futures::StreamExt;
use plugin::creation::{
    Exposure, JobKind, RestartSettings, Stage, pull_job, pull_stage, restart_request, restart_stage,
};
use plugin::edit;
use plugin::kinds::WorkloadKind;
use plugin::pods::text;
use serde_json::Value;

use super::Call;
use super::connection::{Connection, Session};
use super::failures::not_found;
use super::follow::events;
use super::target::{Named, named};
use super::words::command_line;
use super::written::{Creation, WriteArguments, applied};

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
    /// Create the job from the template of this AdvancedCronJob: acj/NAME
    #[arg(long)]
    from: Option<String>,
    /// The command
    #[arg(last = true)]
    command: Vec<String>,
    /// Keep the object in the annotation with which kubectl apply compares
    #[arg(long)]
    save_config: bool,
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
    /// Seconds between marking the Pod not ready and restarting its containers
    #[arg(
        short,
        long = "unreadyGracePeriodSeconds",
        alias = "unready-grace-period-seconds",
        default_value_t = 3
    )]
    unready_grace_period_seconds: i64,
    /// Seconds that a container has to run to count as restarted
    #[arg(short, long = "minStartedSeconds", alias = "min-started-seconds", default_value_t = 3)]
    min_started_seconds: i64,
    /// Keep the object in the annotation with which kubectl apply compares
    #[arg(long)]
    save_config: bool,
    #[command(flatten)]
    write: WriteArguments,
}

/// Creates what is meant.
pub(super) fn create(arguments: &CreateArguments, call: Call<'_>) -> anyhow::Result<ExitCode> {
    match &arguments.kind {
        Kind::Job(arguments) => job(JobKind::Job, JOBS, arguments, call),
        Kind::BroadcastJob(arguments) => job(JobKind::BroadcastJob, BROADCAST_JOBS, arguments, call),
        Kind::ContainerRecreateRequest(arguments) => call.connection.with(async |session| {
            let pod = read_pod(session, &arguments.pod).await?;
            let settings = RestartSettings {
                unready_grace_period_seconds: arguments.unready_grace_period_seconds,
                min_started_seconds: arguments.min_started_seconds,
            };
            let request = restart_request(Some(&arguments.name), &pod, &arguments.containers, settings);
            let request = Creation::new(RESTARTS, request.map_err(anyhow::Error::msg)?);
            session.create(request.saving_config(arguments.save_config), &arguments.write).await?;
            Ok(ExitCode::SUCCESS)
        }),
        Kind::Other(_) => call.hand_over(),
    }
}

fn job(
    kind: JobKind,
    resource: Resource<'_>,
    arguments: &JobArguments,
    call: Call<'_>,
) -> anyhow::Result<ExitCode> {
    let create = async |session: &Session, made| {
        let made = Creation::new(resource, made).saving_config(arguments.save_config);
        session.create(made, &arguments.write).await?;
        Ok(ExitCode::SUCCESS)
    };
    let source = match (&arguments.image, &arguments.from) {
        (Some(image), None) => {
            let made = kind.of_image(&arguments.name, image, &arguments.command);
            return call.connection.with(async |session| create(session, made).await);
        }
        (None, Some(_)) if !arguments.command.is_empty() => bail!("cannot specify --from and command"),
        (None, Some(source)) => source,
        _ => bail!("either --image or --from must be specified"),
    };
    let found = named(std::slice::from_ref(source))?;
    let Some([source]) = found.as_deref() else {
        if kind == JobKind::Job {
            return call.hand_over();
        }
        bail!("from must be an AdvancedCronJob, such as acj/{}", arguments.name);
    };
    if source.kind != WorkloadKind::AdvancedCronJob {
        bail!("from must be an AdvancedCronJob, not {}", source.quoted());
    }
    call.connection.with(async |session| {
        let cron_job = session.read(source).await?;
        create(session, kind.of_cron_job(&arguments.name, &cron_job).map_err(anyhow::Error::msg)?).await
    })
}

/// The name of a Pod in `NAME` or `pod/NAME`; `None` for other types.
pub(super) fn pod_name(target: &str) -> Option<&str> {
    match target.split_once('/') {
        None => Some(target),
        Some((kind, name)) => matches!(kind, "pod" | "pods" | "po").then_some(name),
    }
}

/// A Pod of the namespace.
pub(super) async fn read_pod(session: &Session, name: &str) -> anyhow::Result<Value> {
    let pod = session.find(&PODS.namespaced(&session.namespace).name(name)).await?;
    pod.ok_or_else(|| not_found(format!("pods {name:?}")))
}

/// Arguments of `expose`.
#[derive(Debug, Args)]
pub(super) struct ExposeArguments {
    /// TYPE NAME or TYPE/NAME
    #[arg(required = true)]
    words: Vec<String>,
    /// Port of the Service, or several with commas between them
    #[arg(long)]
    port: Option<String>,
    /// Port of the Pods, by number or name
    #[arg(long, default_value = "")]
    target_port: String,
    /// TCP, UDP or SCTP; what the containers say of the port where none is given
    #[arg(long, default_value = "")]
    protocol: String,
    /// Name of the Service; that of the workload where none is given
    #[arg(long, default_value = "")]
    name: String,
    /// ClusterIP, NodePort or LoadBalancer
    #[arg(long = "type", default_value = "ClusterIP")]
    kind: String,
    /// Labels of the Pods, such as app=web; those of the workload's selector where none are given
    #[arg(long, default_value = "")]
    selector: String,
    /// Labels of the Service, such as app=web; those of the workload where none are given
    #[arg(short, long, default_value = "")]
    labels: String,
    /// Address of the Service in the cluster; None for none
    #[arg(long, default_value = "")]
    cluster_ip: String,
    /// Address outside the cluster at which the Service answers too
    #[arg(long, default_value = "")]
    external_ip: String,
    /// Address of the load balancer
    #[arg(long, default_value = "")]
    load_balancer_ip: String,
    /// None or ClientIP
    #[arg(long, default_value = "")]
    session_affinity: String,
    /// A JSON merge patch of the Service
    #[arg(long, default_value = "")]
    overrides: String,
    /// service/v1 names a single port default, service/v2 does not
    #[arg(long, default_value = "service/v2", value_parser = ["service/v1", "service/v2"])]
    generator: String,
    /// Keep the command in annotation kubernetes.io/change-cause
    #[arg(long)]
    record: bool,
    /// Keep the object in the annotation with which kubectl apply compares
    #[arg(long)]
    save_config: bool,
    #[command(flatten)]
    write: WriteArguments,
}

/// Makes a Service for the Pods of a CloneSet.
pub(super) fn expose(arguments: &ExposeArguments, call: Call<'_>) -> anyhow::Result<ExitCode> {
    let Some(all) = named(&arguments.words)? else { return call.hand_over() };
    let [one] = &all[..] else { bail!("one object is exposed at a time") };
    if one.kind != WorkloadKind::CloneSet {
        bail!("cannot expose a {}", one.kind.kind());
    }
    let ports = arguments.port.as_deref().with_context(|| {
        format!(
            "couldn't find port via --port flag or introspection: cannot extract ports from {}",
            one.quoted()
        )
    })?;
    let exposure = Exposure {
        name: &arguments.name,
        ports,
        target_port: &arguments.target_port,
        protocol: &arguments.protocol,
        kind: &arguments.kind,
        selector: &arguments.selector,
        labels: &arguments.labels,
        cluster_ip: &arguments.cluster_ip,
        external_ip: &arguments.external_ip,
        load_balancer_ip: &arguments.load_balancer_ip,
        session_affinity: &arguments.session_affinity,
        overrides: &arguments.overrides,
        port_name: if arguments.generator == "service/v1" { Some("default") } else { None },
    };
    call.connection.with(async |session| {
        let mut service = exposure.service(&session.read(one).await?).map_err(anyhow::Error::msg)?;
        if arguments.record {
            service = applied(&service, &edit::cause(&service, &command_line()))?;
        }
        let service = Creation::new(SERVICES, service).with_operation("exposed");
        session.create(service.saving_config(arguments.save_config), &arguments.write).await?;
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
        let name = pod_name(&arguments.pod);
        let name = name.with_context(|| format!("only a Pod is restarted, not {:?}", arguments.pod))?;
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
    session.create(Creation::new(RESTARTS, request), write).await
}

/// Waits until the containers of a request run again.
pub(super) async fn await_restart(
    session: &Session,
    made: &Value,
    timeout: Duration,
    write: &WriteArguments,
) -> anyhow::Result<ExitCode> {
    wait(session, RESTARTS, made, timeout, write, restart_stage).await
}

/// Arguments of `image`.
#[derive(Debug, Args)]
pub(super) struct ImageArguments {
    #[command(subcommand)]
    verb: ImageVerb,
}

#[derive(Debug, Subcommand)]
enum ImageVerb {
    /// Pull an image to Nodes, and show the progress
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
        let made = session.create(Creation::new(PULLS, job), &arguments.write).await?;
        wait(session, PULLS, &made, arguments.patience, &arguments.write, pull_stage).await
    })
}

/// Prints the progress of a restart or a pull, until it is over.
async fn wait(
    session: &Session,
    resource: Resource<'_>,
    made: &Value,
    timeout: Duration,
    write: &WriteArguments,
    stage: impl Fn(&Value) -> Stage,
) -> anyhow::Result<ExitCode> {
    if timeout.is_zero() || !write.writes() {
        return Ok(ExitCode::SUCCESS);
    }
    let name = text(made, "/metadata/name");
    let served = session.served.newest(resource);
    let followed = async {
        let mut events = pin!(events(session, served, &session.namespace, name));
        let mut reported = String::new();
        while let Some(object) = events.next().await {
            let stage = stage(&object?);
            if stage.message != reported {
                eprintln!("{}", stage.message);
                reported = stage.message;
            }
            if let Some(succeeded) = stage.end {
                return Ok(if succeeded { ExitCode::SUCCESS } else { ExitCode::FAILURE });
            }
        }
        Err(anyhow!("the watch ended"))
    };
    match tokio::time::timeout(timeout, followed).await {
        Ok(done) => done,
        Err(_) => bail!("timed out waiting for {} {name}, which goes on", resource.kind),
    }
}

/// The Pods that a workload controls.
pub(super) async fn workload_pods(session: &Session, workload: &Named) -> anyhow::Result<Vec<Value>> {
    let object = session.read(workload).await?;
    session.pods_of(workload.namespace(session), &object).await
}
