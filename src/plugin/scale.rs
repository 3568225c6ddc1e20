//! Replicas: `scaledown` by chosen Pods, and `migrate` from a Deployment to a CloneSet.

use std::pin::pin;
use std::process::ExitCode;
use std::time::Duration;

use anyhow::{Context, anyhow, bail};
use clap::{Args, ValueEnum};
use cluster::ErrorReason;
use cluster::resource::{PODS, Path, Resource};
use cluster::watched::WatchedObject;
use cluster::write::{self, PatchKind};
use futures::{StreamExt, stream};
use kube::Api;
use kube::runtime::WatchStreamExt;
use kube::runtime::watcher::{self, Event, watcher};
use planner::plugin::kinds::WorkloadKind;
use planner::plugin::migration::{self, Migration, Step};
use planner::plugin::removal::Removal;
use planner::text::json_patch::Patch;
use serde_json::Value;

use super::connection::{Connection, Session};
use super::follow::follow_all;
use super::target::{Change, Named, WriteArguments, named, refused};
use crate::explain::list_all;

const DEPLOYMENTS: Resource<'_> = Resource::new("apps/v1", "deployments", "Deployment");

/// Arguments of `scaledown`.
#[derive(Debug, Args)]
pub(super) struct ScaledownArguments {
    /// TYPE NAME or TYPE/NAME: a CloneSet, or an Advanced StatefulSet
    #[arg(required = true)]
    words: Vec<String>,
    /// Names of Pods, with commas between them
    #[arg(long, visible_alias = "ordinals", default_value = "")]
    pods: String,
    /// Others take their place: the number of replicas stays
    #[arg(long)]
    keep_replicas: bool,
    #[command(flatten)]
    write: WriteArguments,
}

/// Scales down by chosen Pods.
pub(super) fn scale_down(
    arguments: &ScaledownArguments,
    connection: &Connection,
) -> anyhow::Result<ExitCode> {
    let all = named(&arguments.words)?.unwrap_or_default();
    let [named] = &all[..] else { bail!("currently only supported CloneSet selective pods deletion") };
    // Ordinals stand for the Pods that have them.
    let is_stateful = named.kind == WorkloadKind::AdvancedStatefulSet;
    let names: Vec<String> = arguments.pods.split(',').map(str::trim).map(str::to_owned).collect();
    let names = names.into_iter().map(|name| {
        let is_ordinal = is_stateful && !name.is_empty() && name.bytes().all(|byte| byte.is_ascii_digit());
        if is_ordinal { format!("{}-{name}", named.name) } else { name }
    });
    let names = names.collect::<Vec<_>>().join(",");
    let removal = Removal::read(&names, arguments.keep_replicas).map_err(anyhow::Error::msg)?;
    let told = removal.names.iter().copied().collect::<Vec<_>>().join(" ");
    arguments.write.confirm(&format!("Delete Pods {told}?"))?;
    connection.with(async |session| {
        let decide = async |workload: &Value| {
            let mut pods: Vec<Value> = Vec::new();
            let path = PODS.namespaced(named.namespace(session));
            list_all(&session.client, &path, |pod| pods.push(pod)).await?;
            let patch = removal.patch(named.kind, workload, &pods).map_err(anyhow::Error::msg)?;
            Ok(Change::new(Some(patch), "selective pod deletion"))
        };
        session.change(named, &arguments.write, decide).await?;
        eprintln!("# {} delete pods [{told}] successfully", named.name);
        follow_all(session, &all, arguments.write.following()).await
    })
}

#[derive(Clone, Copy, Debug, ValueEnum)]
enum Source {
    #[value(alias = "Deployment")]
    Deployment,
}

#[derive(Clone, Copy, Debug, ValueEnum)]
enum Destination {
    #[value(name = "CloneSet", aliases = ["cloneset", "clone"])]
    CloneSet,
}

/// Arguments of `migrate`.
#[derive(Debug, Args)]
pub(super) struct MigrateArguments {
    /// What to move to
    #[arg(value_enum)]
    to: Destination,
    /// What to move from
    #[arg(long, value_enum, required = true)]
    from: Source,
    /// The Deployment
    #[arg(long, required = true)]
    src_name: String,
    /// The CloneSet; the name of the Deployment where it is created
    #[arg(long)]
    dst_name: Option<String>,
    /// Create the CloneSet like the Deployment, and move nothing
    #[arg(long)]
    create: bool,
    /// Create it with as many replicas
    #[arg(long, requires = "create")]
    copy: bool,
    /// How many replicas move; -1 for all
    #[arg(long, default_value_t = -1, allow_negative_numbers = true)]
    replicas: i64,
    /// How many replicas more there may be meanwhile
    #[arg(long, default_value_t = 1)]
    max_surge: i64,
    /// How long to go on; -1 for ever
    #[arg(long, default_value_t = -1, allow_negative_numbers = true)]
    timeout_seconds: i64,
    #[command(flatten)]
    write: WriteArguments,
}

/// Creates a CloneSet like a Deployment, or moves replicas from one to the other.
pub(super) fn migrate(arguments: &MigrateArguments, connection: &Connection) -> anyhow::Result<ExitCode> {
    if connection.namespace.is_none() {
        bail!("must specify namespace by -n or --namespace");
    }
    if arguments.dst_name.is_none() && !arguments.create {
        bail!("must specify the CloneSet by --dst-name, or --create");
    }
    if arguments.replicas == 0 {
        bail!("invalid replicas 0");
    }
    let destination = arguments.dst_name.as_ref().unwrap_or(&arguments.src_name);
    connection.with(async |session| {
        let path = DEPLOYMENTS.namespaced(&session.namespace).name(&arguments.src_name);
        let deployment = session.find(&path).await?.ok_or_else(|| {
            anyhow!("Error from server (NotFound): deployments.apps {:?} not found", arguments.src_name)
        })?;
        let named = Named::new(WorkloadKind::CloneSet, destination);
        if arguments.create {
            if session.find(&named.path(session)).await?.is_some() {
                bail!("cloneset {}/{destination} already exists", session.namespace);
            }
            let made = migration::clone_set_of(&deployment, destination, arguments.copy);
            session.create(named.resource(session), made, &arguments.write).await?;
            eprintln!(
                "Successfully created from Deployment/{} to CloneSet/{destination}",
                arguments.src_name
            );
            return Ok(ExitCode::SUCCESS);
        }
        let question =
            format!("Move replicas from Deployment/{} to CloneSet/{destination}?", arguments.src_name);
        arguments.write.confirm(&question)?;
        let clone_set = session.read(&named).await?;
        let plan = planned(arguments, &deployment, &clone_set)?;
        if arguments.write.sends_nothing() {
            eprintln!("would move {} replicas (dry run)", plan.replicas);
            return Ok(ExitCode::SUCCESS);
        }
        if Migration::of(&clone_set).is_none() {
            patch(session, &named.path(session), &plan.noted(&clone_set)).await?;
        }
        let moving =
            Moving { session, plan: &plan, surge: arguments.max_surge, source: path, destination: &named };
        match u64::try_from(arguments.timeout_seconds).ok().map(Duration::from_secs) {
            None => moving.run().await?,
            Some(limit) => match tokio::time::timeout(limit, moving.run()).await {
                Ok(done) => done?,
                Err(_) => bail!("timed out; the same command goes on where this one was"),
            },
        }
        Ok(ExitCode::SUCCESS)
    })
}

/// The plan that was begun, or a new one.
fn planned(arguments: &MigrateArguments, deployment: &Value, clone_set: &Value) -> anyhow::Result<Migration> {
    let wanted = Some(arguments.replicas).filter(|replicas| *replicas >= 0);
    match Migration::of(clone_set) {
        Some(plan) if plan.source != arguments.src_name => {
            bail!("a move from Deployment/{} to this CloneSet has not ended", plan.source)
        }
        Some(plan) => Ok(plan),
        None => Migration::new(deployment, clone_set, wanted).map_err(anyhow::Error::msg),
    }
}

/// A patch of one object. Somebody else's change in between is for the next event.
async fn patch(session: &Session, path: &Path, patch: &Patch) -> anyhow::Result<bool> {
    match write::patch(&session.client, path, PatchKind::Json, patch.to_json()).await {
        Ok(_) => Ok(true),
        Err(error) if error.reason() == ErrorReason::Conflict => Ok(false),
        Err(error) => Err(refused(&error)),
    }
}

/// A move from a Deployment to a CloneSet.
struct Moving<'a> {
    session: &'a Session,
    plan: &'a Migration,
    surge: i64,
    source: Path,
    destination: &'a Named,
}

impl Moving<'_> {
    fn events(
        &self,
        resource: Resource<'_>,
        name: &str,
        is_source: bool,
    ) -> impl futures::Stream<Item = (bool, Value)> + use<> {
        let resource = resource.api_resource();
        let api: Api<WatchedObject> =
            Api::namespaced_with(self.session.client.clone(), &self.session.namespace, &resource);
        let only = watcher::Config::default().fields(&format!("metadata.name={name}"));
        watcher(api, only).default_backoff().filter_map(move |event| {
            let object = match event {
                Ok(Event::Apply(object) | Event::InitApply(object)) => {
                    serde_json::from_str(object.json()).ok()
                }
                Ok(Event::Delete(_)) => Some(Value::Null),
                Ok(Event::Init | Event::InitDone) | Err(_) => None,
            };
            std::future::ready(object.map(|object| (is_source, object)))
        })
    }

    /// Moves replica by replica, at each change of either object.
    async fn run(&self) -> anyhow::Result<()> {
        let source = self.events(DEPLOYMENTS, &self.plan.source, true);
        let destination = self.events(self.destination.resource(self.session), &self.destination.name, false);
        let mut events = pin!(stream::select(source, destination));
        let (mut deployment, mut clone_set) = (None, None);
        let mut told = String::new();
        while let Some((is_source, object)) = events.next().await {
            if object.is_null() {
                bail!("object has been deleted");
            }
            *(if is_source { &mut deployment } else { &mut clone_set }) = Some(object);
            let (Some(deployment), Some(clone_set)) = (&deployment, &clone_set) else { continue };
            let (moved, added) = self.plan.progress(deployment, clone_set);
            let names = (&self.plan.source, &self.destination.name);
            let progress = format!(
                "Migration progress: Deployment/{} scale in {moved}, CloneSet/{} scale out {added}",
                names.0, names.1
            );
            if progress != told {
                eprintln!("{progress}");
                told = progress;
            }
            let path = self.destination.path(self.session);
            match self.plan.step(deployment, clone_set, self.surge) {
                Step::Grow(replicas) => {
                    patch(self.session, &path, &migration::scaled(clone_set, replicas)).await?;
                }
                Step::Shrink(replicas) => {
                    patch(self.session, &self.source, &migration::scaled(deployment, replicas)).await?;
                }
                Step::Wait => {}
                Step::Done => {
                    // A change in between brings another event.
                    if patch(self.session, &path, &migration::forgotten(clone_set)).await? {
                        eprintln!(
                            "Successfully migrated {added} replicas from Deployment/{} to CloneSet/{}",
                            names.0, names.1
                        );
                        return Ok(());
                    }
                }
            }
        }
        Err(anyhow!("the watch ended")).context("the move has not ended; the same command goes on")
    }
}
