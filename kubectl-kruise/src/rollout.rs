//! `kubectl kruise rollout`.

use std::ffi::OsString;
use std::num::NonZeroUsize;
use std::process::ExitCode;
use std::time::Duration;

use anyhow::{anyhow, bail};
use clap::{Args, Subcommand, ValueEnum};
use jiff::Zoned;
use kinds::workload::revision::StoredRevision;
use plugin::kinds::WorkloadKind;
use plugin::template::described;
use plugin::{containers, edit, history, progress, staged};
use serde_json::{Value, json};

use super::Call;
use super::connection::{Connection, Session};
use super::create::{await_restart, request_restart};
use super::failures::each;
use super::follow::{Following, follow, follow_all};
use super::plan::{PlanArguments, plan};
use super::target::{Named, ObjectArguments, revisions};
use super::terminal::print;
use super::undo::{UndoArguments, undo};
use super::written::{Change, WriteArguments, print_value};

/// Arguments of `rollout`.
#[derive(Debug, Args)]
pub(super) struct RolloutArguments {
    #[command(subcommand)]
    verb: Verb,
}

#[derive(Debug, Subcommand)]
enum Verb {
    /// Watch a rollout until it is done
    Status(StatusArguments),
    /// List the revisions of a workload, or show one
    History(HistoryArguments),
    /// Go back to an earlier revision
    Undo(UndoArguments),
    /// Hold a rollout up
    Pause(WrittenArguments),
    /// Let a rollout continue
    Resume(WrittenArguments),
    /// Make all Pods anew, or restart their containers where they are
    Restart(RestartArguments),
    /// Let the paused step of a Rollout continue, or go to another one
    Approve(ApproveArguments),
    /// Show in which order Pods would be updated, in a simulated cluster; of a Rollout, what each step would bring
    Plan(PlanArguments),
    #[command(external_subcommand)]
    Other(#[expect(dead_code, reason = "kubectl reads them")] Vec<OsString>),
}

#[derive(Debug, Args)]
struct StatusArguments {
    #[command(flatten)]
    objects: ObjectArguments,
    #[command(flatten)]
    follow: FollowArguments,
    /// Tell which Pods of a CloneSet are updated
    #[arg(short, long)]
    detail: bool,
    /// The revision of a Deployment
    #[arg(long, default_value_t = 0, allow_negative_numbers = true)]
    revision: i64,
}

/// How long something is followed, and what the end says.
#[derive(Debug, Args)]
struct FollowArguments {
    /// Go on until the rollout is done
    #[arg(short, long, default_value = "true")]
    watch: bool,
    /// How long to wait, such as 90s or 5m; 0s forever
    #[arg(long, default_value = "0s", value_parser = crate::arguments::duration)]
    timeout: Duration,
    /// End with 2 when the time runs out, 3 when the rollout fails and 4 when it waits for a person, instead of 1
    #[arg(long)]
    exit_codes: bool,
}

impl FollowArguments {
    fn following(&self, detail: bool) -> Following {
        let Self { watch, timeout, exit_codes } = *self;
        Following { watches: watch, timeout, exit_codes, detail }
    }
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
enum HistoryOutput {
    /// With the names, images and roles of the revisions
    Wide,
    /// The names of the ControllerRevisions
    Name,
    /// For programs
    Json,
    /// For programs
    Yaml,
}

#[derive(Debug, Args)]
struct HistoryArguments {
    #[command(flatten)]
    objects: ObjectArguments,
    /// Show the Pod template of this revision
    #[arg(long, default_value = "0", allow_negative_numbers = true)]
    revision: i64,
    /// How to show them
    #[arg(short, long, value_enum)]
    output: Option<HistoryOutput>,
}

#[derive(Debug, Args)]
struct WrittenArguments {
    #[command(flatten)]
    objects: ObjectArguments,
    #[command(flatten)]
    write: WriteArguments,
}

#[derive(Debug, Args)]
struct RestartArguments {
    #[command(flatten)]
    objects: ObjectArguments,
    #[command(flatten)]
    write: WriteArguments,
    /// The containers, with commas between them; all where none is given
    #[arg(long, value_delimiter = ',')]
    containers: Vec<String>,
    /// Restart containers where they are, by a ContainerRecreateRequest for each Pod, instead of making Pods anew
    #[arg(long)]
    in_place: bool,
    /// With --in-place: how many Pods at a time
    #[arg(long, default_value = "1", requires = "in_place")]
    max_unavailable: NonZeroUsize,
}

#[derive(Debug, Args)]
struct ApproveArguments {
    #[command(flatten)]
    written: WrittenArguments,
    /// Continue at the step of this number instead, from 1, whatever the present one is doing
    #[arg(long)]
    step: Option<NonZeroUsize>,
}

/// Does what is meant.
pub(super) fn run(arguments: &RolloutArguments, call: Call<'_>) -> anyhow::Result<ExitCode> {
    let objects = match &arguments.verb {
        Verb::Status(arguments) => &arguments.objects,
        Verb::History(arguments) => &arguments.objects,
        Verb::Undo(arguments) => &arguments.objects,
        Verb::Pause(arguments) | Verb::Resume(arguments) => &arguments.objects,
        Verb::Approve(arguments) => &arguments.written.objects,
        Verb::Restart(arguments) => &arguments.objects,
        Verb::Plan(arguments) => &arguments.objects,
        Verb::Other(_) => return call.hand_over(),
    };
    // Deployments are rolled back here too: kubectl would drop the annotations of their Rollout.
    let kinds = match &arguments.verb {
        Verb::Undo(_) => WorkloadKind::WITH_DEPLOYMENTS,
        _ => WorkloadKind::ALL,
    };
    let Call { connection, .. } = call;
    let Some(all) = objects.resolve_among(connection, kinds)? else { return call.hand_over() };
    connection.with(async |session| match &arguments.verb {
        Verb::Status(arguments) => status(arguments, session, &all).await,
        Verb::History(arguments) => show(arguments, session, &all).await,
        Verb::Undo(arguments) => undo(arguments, session, &all, connection).await,
        Verb::Pause(arguments) => pause(arguments, session, &all, true).await,
        Verb::Resume(arguments) => pause(arguments, session, &all, false).await,
        Verb::Restart(arguments) => restart(arguments, session, &all).await,
        Verb::Approve(arguments) => approve(arguments, session, &all).await,
        Verb::Plan(arguments) => plan(arguments, session, &all).await,
        Verb::Other(_) => Ok(ExitCode::SUCCESS),
    })
}

/// Arguments of `sidecar`.
#[derive(Debug, Args)]
pub(super) struct SidecarArguments {
    #[command(subcommand)]
    verb: SidecarVerb,
}

#[derive(Debug, Subcommand)]
enum SidecarVerb {
    /// Watch the rollout of a SidecarSet until it is done
    Status(SidecarStatusArguments),
}

#[derive(Debug, Args)]
struct SidecarStatusArguments {
    /// The SidecarSet
    name: String,
    #[command(flatten)]
    follow: FollowArguments,
}

/// Follows a SidecarSet.
pub(super) fn sidecar(arguments: &SidecarArguments, connection: &Connection) -> anyhow::Result<ExitCode> {
    let SidecarVerb::Status(arguments) = &arguments.verb;
    let name = arguments.name.trim_start_matches("sidecarset/").trim_start_matches("sidecarsets/");
    let named = Named::new(WorkloadKind::SidecarSet, name);
    connection.with(async |session| follow(session, &named, arguments.follow.following(false)).await)
}

async fn status(arguments: &StatusArguments, session: &Session, all: &[Named]) -> anyhow::Result<ExitCode> {
    let [named] = all else {
        bail!(
            "rollout status is only supported on individual resources and resource collections - {} resources were found",
            all.len()
        );
    };
    if arguments.revision < 0 {
        bail!("revision must be a positive integer: {}", arguments.revision);
    }
    follow(session, named, arguments.follow.following(arguments.detail)).await
}

async fn show(arguments: &HistoryArguments, session: &Session, all: &[Named]) -> anyhow::Result<ExitCode> {
    if arguments.revision < 0 {
        bail!("revision must be a positive integer: {}", arguments.revision);
    }
    each(all, async |named| {
        let object = session.read(named).await?;
        let history = revisions(session, named, &object).await?;
        if arguments.revision == 0 {
            return show_all(arguments.output, named, &object, &history);
        }
        let revision = history::target(named.kind, &history, arguments.revision)
            .map_err(|_| anyhow!("unable to find the specified revision"))?;
        show_one(arguments.output, named, revision)
    })
    .await?;
    Ok(ExitCode::SUCCESS)
}

fn show_all(
    output: Option<HistoryOutput>,
    named: &Named,
    object: &Value,
    history: &[StoredRevision],
) -> anyhow::Result<()> {
    let text = match output {
        Some(HistoryOutput::Json) => return print_value(&history::listed(history, object), false),
        Some(HistoryOutput::Yaml) => return print_value(&history::listed(history, object), true),
        Some(HistoryOutput::Name) => {
            return history.iter().try_for_each(|revision| print(revision_word(revision)));
        }
        Some(HistoryOutput::Wide) => history::wide(history, object),
        None => history::table(history),
    };
    print(format_args!("{} \n{text}", named.word()))
}

fn show_one(output: Option<HistoryOutput>, named: &Named, revision: &StoredRevision) -> anyhow::Result<()> {
    let template: Value = serde_json::from_str(revision.template()?.get())?;
    let number = revision.revision;
    let shown = || json!({"revision": number, "name": revision.name(), "template": template});
    match output {
        Some(HistoryOutput::Json) => print_value(&shown(), false),
        Some(HistoryOutput::Yaml) => print_value(&shown(), true),
        Some(HistoryOutput::Name) => print(revision_word(revision)),
        Some(HistoryOutput::Wide) | None => {
            print(format_args!("{} with revision #{number}\n{}", named.word(), described(&template)))
        }
    }
}

/// The line by which kubectl names a revision.
fn revision_word(revision: &StoredRevision) -> String {
    format!("controllerrevision.apps/{}\n", revision.name())
}

async fn pause(
    arguments: &WrittenArguments,
    session: &Session,
    all: &[Named],
    flag: bool,
) -> anyhow::Result<ExitCode> {
    let (already, operation) =
        if flag { ("is already paused", "paused") } else { ("is not paused", "resumed") };
    let decide = async |named: &Named, object: &Value| {
        let failure = |reason: &str| anyhow!("{} {reason}", named.quoted());
        let pointer = progress::pause_pointer(named.kind, object).map_err(|reason| match flag {
            false => failure(&reason.replace("pausing", "resuming")),
            true => failure(reason),
        })?;
        if progress::is_set(object, pointer) == flag {
            return Err(failure(already));
        }
        Ok(Change::new(Some(edit::set_flag(object, pointer, flag)), operation))
    };
    session.change_all(all, &arguments.write, decide).await
}

async fn restart(arguments: &RestartArguments, session: &Session, all: &[Named]) -> anyhow::Result<ExitCode> {
    let now = Zoned::now().strftime("%Y-%m-%dT%H:%M:%S%:z").to_string();
    each(all, async |named| {
        if !named.kind.has_revisions() && named.kind != WorkloadKind::UnitedDeployment {
            bail!("{} restarting is not supported", named.quoted());
        }
        if arguments.in_place {
            return restart_in_place(arguments, session, named).await;
        }
        session
            .change(named, &arguments.write, async |object| {
                known_containers(arguments, named, object)?;
                let patch = containers::restart(named.kind, object, &arguments.containers, &now);
                Ok(Change::new(Some(patch), "restarted"))
            })
            .await
    })
    .await?;
    follow_all(session, all, arguments.write.following()).await
}

/// Refuses names of containers that are not restarted: unknown ones, and init containers.
fn known_containers(arguments: &RestartArguments, named: &Named, object: &Value) -> anyhow::Result<()> {
    let known = edit::restartable(named.kind, object);
    match arguments.containers.iter().find(|name| !known.contains(&name.as_str())) {
        Some(unknown) => {
            bail!("{} has no container {unknown:?} to restart; it has {}", named.quoted(), known.join(", "))
        }
        None => Ok(()),
    }
}

/// Restarts containers of the Pods of a workload, some Pods at a time, the next ones when those run again.
async fn restart_in_place(
    arguments: &RestartArguments,
    session: &Session,
    named: &Named,
) -> anyhow::Result<()> {
    /// How long the containers of a Pod may take.
    const TIMEOUT: Duration = Duration::from_secs(300);
    if !named.kind.has_revisions() {
        bail!("{} controls no Pods: restart its workloads with --in-place", named.quoted());
    }
    let session = &session.in_namespace(named.namespace(session));
    let object = session.read(named).await?;
    known_containers(arguments, named, &object)?;
    let mut pods = session.pods_of(&session.namespace, &object).await?;
    pods.retain(|pod| pod.pointer("/metadata/deletionTimestamp").is_none());
    for some in pods.chunks(arguments.max_unavailable.get()) {
        let mut requests = Vec::new();
        for pod in some {
            requests.push(request_restart(session, pod, &arguments.containers, &arguments.write).await?);
        }
        for request in &requests {
            let code = await_restart(session, request, TIMEOUT, &arguments.write).await?;
            anyhow::ensure!(
                code == ExitCode::SUCCESS,
                "{}: a restart failed, and the other Pods are left alone",
                named.quoted()
            );
        }
    }
    Ok(())
}

async fn approve(arguments: &ApproveArguments, session: &Session, all: &[Named]) -> anyhow::Result<ExitCode> {
    let ApproveArguments { written: WrittenArguments { write, .. }, step } = arguments;
    each(all, async |named| {
        let failure = |reason: &str| anyhow!("{} {reason}", named.quoted());
        if named.kind != WorkloadKind::Rollout {
            return Err(failure("approving is not supported"));
        }
        session
            .change_status(named, write, async |object| {
                let patch = match step {
                    Some(step) => staged::jump(object, step.get()),
                    None => staged::approve(object),
                };
                Ok(Change::new(Some(patch.map_err(|reason| failure(&reason))?), "approved"))
            })
            .await
    })
    .await?;
    follow_all(session, all, write.following()).await
}
