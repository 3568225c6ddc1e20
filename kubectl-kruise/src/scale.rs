//! Replicas: `scaledown` by chosen Pods, and `migrate` from a Deployment to a CloneSet.

use std::pin::pin;
use std::process::ExitCode;
use std::time::Duration;

use anyhow::{Context, anyhow, bail};
use clap::{Args, ValueEnum};
use cluster::ErrorReason;
use cluster::resource::{PODS, Path, Resource};
use cluster::write::{self, PatchKind};
use futures::{StreamExt, stream};
use plugin::kinds::WorkloadKind;
use plugin::migration::{self, Amount, Migration, Request, Step};
use plugin::removal::Removal;
use serde_json::Value;
use values::json_patch::Patch;

use super::connection::{Connection, Session};
use super::failures::{not_found, refused};
use super::follow::{events, follow_all};
use super::target::{Named, named};
use super::written::{Change, Creation, WriteArguments};

/// How often the plan is computed anew because somebody else changed the CloneSet.
const ATTEMPTS: usize = 5;
const DEPLOYMENTS: Resource<'_> = Resource::new("apps/v1", "deployments", "Deployment");

/// Arguments of `scaledown`.
#[derive(Debug, Args)]
pub(super) struct ScaledownArguments {
    /// TYPE NAME or TYPE/NAME: a CloneSet, or an Advanced StatefulSet
    #[arg(required = true)]
    words: Vec<String>,
    /// Names of Pods, or ordinals of an Advanced StatefulSet, with commas between them
    #[arg(long, visible_alias = "ordinals", default_value = "")]
    pods: String,
    /// Keep the number of replicas: other Pods take their place
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
    let removal = Removal::read(named.kind, &named.name, &arguments.pods, arguments.keep_replicas);
    let removal = removal.map_err(anyhow::Error::msg)?;
    let reported = removal.names.iter().map(String::as_str).collect::<Vec<_>>().join(" ");
    arguments.write.confirm(&format!("Delete Pods {reported}?"))?;
    connection.with(async |session| {
        let decide = async |workload: &Value| {
            let pods: Vec<Value> = session.list(&PODS.namespaced(named.namespace(session))).await?;
            let patch = removal.patch(named.kind, workload, &pods).map_err(anyhow::Error::msg)?;
            Ok(Change::new(Some(patch), "selective pod deletion"))
        };
        session.change(named, &arguments.write, decide).await?;
        if arguments.write.writes() {
            eprintln!("# {} delete pods [{reported}] successfully", named.name);
        }
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
    /// How many replicas move; -1 for all, as without this flag
    #[arg(long, allow_negative_numbers = true)]
    replicas: Option<i64>,
    /// How many replicas more there may be meanwhile; less than 1 means 1
    #[arg(long, default_value_t = 1, allow_negative_numbers = true)]
    max_surge: i64,
    /// How long to continue; -1 forever
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
    let replicas = arguments.replicas.map(Amount::read).transpose().map_err(anyhow::Error::msg)?;
    let request = Request { replicas, surge: arguments.max_surge };
    let destination = arguments.dst_name.as_ref().unwrap_or(&arguments.src_name);
    let destination = Named::new(WorkloadKind::CloneSet, destination);
    connection.with(async |session| {
        if arguments.create {
            return create_clone_set(session, arguments, &destination).await;
        }
        let question =
            format!("Move replicas from Deployment/{} to CloneSet/{}?", arguments.src_name, destination.name);
        arguments.write.confirm(&question)?;
        let Some(plan) = begun(session, arguments, request, &destination).await? else {
            return Ok(ExitCode::SUCCESS);
        };
        let (surge, write) = (arguments.max_surge, &arguments.write);
        let moving = Moving { session, plan: &plan, surge, destination: &destination, write };
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

/// The Deployment to move from.
async fn read_deployment(session: &Session, name: &str) -> anyhow::Result<Value> {
    let found = session.find(&DEPLOYMENTS.namespaced(&session.namespace).name(name)).await?;
    found.ok_or_else(|| not_found(format!("deployments.apps {name:?}")))
}

/// Creates a CloneSet like the Deployment.
async fn create_clone_set(
    session: &Session,
    arguments: &MigrateArguments,
    destination: &Named,
) -> anyhow::Result<ExitCode> {
    let (source, name) = (&arguments.src_name, &destination.name);
    let deployment = read_deployment(session, source).await?;
    if session.find(&destination.path(session)).await?.is_some() {
        bail!("cloneset {}/{name} already exists", session.namespace);
    }
    let made = migration::clone_set_of(&deployment, name, arguments.copy);
    session.create(Creation::new(destination.resource(session), made), &arguments.write).await?;
    if arguments.write.writes() {
        eprintln!("Successfully created from Deployment/{source} to CloneSet/{name}");
    }
    Ok(ExitCode::SUCCESS)
}

/// The plan, once the CloneSet keeps it. `None` where there is nothing to do but to report that.
async fn begun(
    session: &Session,
    arguments: &MigrateArguments,
    request: Request,
    destination: &Named,
) -> anyhow::Result<Option<Migration>> {
    let (source, name) = (&arguments.src_name, &destination.name);
    for _ in 0..ATTEMPTS {
        let deployment = read_deployment(session, source).await?;
        let clone_set = session.read(destination).await?;
        let plan = Migration::planned(&deployment, &clone_set, request).map_err(anyhow::Error::msg)?;
        let Some(plan) = plan else {
            eprintln!("Deployment/{source} has no replicas: nothing is left to move to CloneSet/{name}");
            return Ok(None);
        };
        if !arguments.write.writes() {
            let how = if arguments.write.sends_nothing() { "dry run" } else { "server dry run" };
            eprintln!("{} ({how})", plan.reported(name, request.surge));
            return Ok(None);
        }
        let is_kept = Migration::of(&clone_set).ok().flatten().as_ref() == Some(&plan);
        let path = arguments.write.query(destination.path(session));
        if is_kept || patch(session, &path, &plan.noted(&clone_set)).await? {
            return Ok(Some(plan));
        }
    }
    bail!("CloneSet/{name} changes all the time, so that the plan can't be written on it: try again")
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
    destination: &'a Named,
    write: &'a WriteArguments,
}

impl Moving<'_> {
    /// Moves replica by replica, at each change of either object.
    async fn run(&self) -> anyhow::Result<()> {
        let events = |resource, name| events(self.session, resource, &self.session.namespace, name);
        let source = events(DEPLOYMENTS, &self.plan.source).map(|event| (true, event));
        let destination = events(self.destination.resource(self.session), &self.destination.name);
        let mut events = pin!(stream::select(source, destination.map(|event| (false, event))));
        let (mut deployment, mut clone_set) = (None, None);
        let mut reported = String::new();
        while let Some((is_source, event)) = events.next().await {
            *(if is_source { &mut deployment } else { &mut clone_set }) = Some(event?);
            let (Some(deployment), Some(clone_set)) = (&deployment, &clone_set) else { continue };
            let (moved, added) = self.plan.progress(deployment, clone_set);
            let progress = format!(
                "Migration progress: Deployment/{} scale in {moved}, CloneSet/{} scale out {added}",
                self.plan.source, self.destination.name
            );
            if progress != reported {
                eprintln!("{progress}");
                reported = progress;
            }
            if self.act(deployment, clone_set).await? {
                return Ok(());
            }
        }
        Err(anyhow!("the watch ended")).context("the move has not ended; the same command goes on")
    }

    /// Takes the next step; true at the end.
    async fn act(&self, deployment: &Value, clone_set: &Value) -> anyhow::Result<bool> {
        let destination = self.write.query(self.destination.path(self.session));
        match self.plan.step(deployment, clone_set, self.surge) {
            Step::Grow(replicas) => {
                patch(self.session, &destination, &migration::scaled(clone_set, replicas)).await?;
            }
            Step::Shrink(replicas) => {
                let source = DEPLOYMENTS.namespaced(&self.session.namespace).name(&self.plan.source);
                patch(self.session, &self.write.query(source), &migration::scaled(deployment, replicas))
                    .await?;
            }
            Step::Wait => {}
            Step::Stop(message) => bail!(message),
            // A change in between brings another event.
            Step::Done if !patch(self.session, &destination, &migration::forgotten(clone_set)).await? => {}
            Step::Done => {
                let (_, added) = self.plan.progress(deployment, clone_set);
                let (source, name) = (&self.plan.source, &self.destination.name);
                eprintln!(
                    "Successfully migrated {added} replicas from Deployment/{source} to CloneSet/{name}"
                );
                return Ok(true);
            }
        }
        Ok(false)
    }
}
