//! `kubectl kruise rollout`.

use std::ffi::OsString;
use std::process::ExitCode;
use std::time::Duration;

use anyhow::{anyhow, bail};
use clap::{Args, Subcommand, ValueEnum};
use cluster::resource::REVISIONS;
use jiff::Zoned;
use planner::plugin::kinds::WorkloadKind;
use planner::plugin::{containers, edit, history, progress, staged};
use planner::workload::revision::StoredRevision;
use serde_json::{Value, json};

use super::connection::{Connection, Session};
use super::follow::{Following, follow, follow_all};
use super::hand_over;
use super::target::{Change, Named, ObjectArguments, Output, WriteArguments, each};
use crate::explain::list_all;

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
    /// Let a rollout go on
    Resume(WrittenArguments),
    /// Make all Pods anew
    Restart(WrittenArguments),
    /// Let the paused step of a Rollout go on
    Approve(WrittenArguments),
    #[command(external_subcommand)]
    Other(#[expect(dead_code, reason = "kubectl reads them")] Vec<OsString>),
}

#[derive(Debug, Args)]
struct StatusArguments {
    #[command(flatten)]
    objects: ObjectArguments,
    /// Go on until the rollout is done
    #[arg(short, long, default_value = "true", num_args = 0..=1, default_missing_value = "true", require_equals = true, action = clap::ArgAction::Set)]
    watch: bool,
    /// How long to wait, such as 90s or 5m; 0s for ever
    #[arg(long, default_value = "0s", value_parser = crate::arguments::duration)]
    timeout: Duration,
    /// End with 2 when the time runs out and with 3 when the rollout fails, instead of 1
    #[arg(long)]
    exit_codes: bool,
    /// Tell which Pods of a CloneSet are updated
    #[arg(short, long)]
    detail: bool,
    /// The revision of a Deployment
    #[arg(long, default_value_t = 0, allow_negative_numbers = true)]
    revision: i64,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
enum HistoryOutput {
    /// With the names, images and roles of the revisions
    Wide,
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
    #[arg(long, default_value = "0")]
    revision: i64,
    /// How to show them
    #[arg(short, long, value_enum)]
    output: Option<HistoryOutput>,
}

#[derive(Debug, Args)]
struct UndoArguments {
    #[command(flatten)]
    objects: ObjectArguments,
    /// The revision to go back to; 0 is the one before the newest
    #[arg(long, default_value = "0")]
    to_revision: i64,
    /// Take a Rollout back to an earlier step without traffic
    #[arg(long)]
    fast: bool,
    #[command(flatten)]
    write: WriteArguments,
}

#[derive(Debug, Args)]
struct WrittenArguments {
    #[command(flatten)]
    objects: ObjectArguments,
    #[command(flatten)]
    write: WriteArguments,
}

/// Does what is meant.
pub(super) fn run(
    arguments: &RolloutArguments,
    connection: &Connection,
    given: &[OsString],
) -> anyhow::Result<ExitCode> {
    let objects = match &arguments.verb {
        Verb::Status(arguments) => &arguments.objects,
        Verb::History(arguments) => &arguments.objects,
        Verb::Undo(arguments) => &arguments.objects,
        Verb::Pause(arguments)
        | Verb::Resume(arguments)
        | Verb::Restart(arguments)
        | Verb::Approve(arguments) => &arguments.objects,
        Verb::Other(_) => return hand_over(given),
    };
    let Some(all) = objects.resolve(connection)? else { return hand_over(given) };
    connection.with(async |session| match &arguments.verb {
        Verb::Status(arguments) => status(arguments, session, &all).await,
        Verb::History(arguments) => show(arguments, session, &all).await,
        Verb::Undo(arguments) => undo(arguments, session, &all, connection).await,
        Verb::Pause(arguments) => pause(arguments, session, &all, true).await,
        Verb::Resume(arguments) => pause(arguments, session, &all, false).await,
        Verb::Restart(arguments) => restart(arguments, session, &all).await,
        Verb::Approve(arguments) => approve(arguments, session, &all).await,
        Verb::Other(_) => Ok(ExitCode::SUCCESS),
    })
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
    let following = Following {
        watches: arguments.watch,
        timeout: arguments.timeout,
        exit_codes: arguments.exit_codes,
        detail: arguments.detail,
    };
    follow(session, named, following).await
}

/// The revisions of a workload, oldest first.
pub(super) async fn revisions(
    session: &Session,
    named: &Named,
    object: &Value,
) -> anyhow::Result<Vec<StoredRevision>> {
    if !named.kind.has_revisions() {
        bail!("no history viewer has been implemented for {}", named.quoted());
    }
    let mut all = Vec::new();
    list_all(&session.client, &REVISIONS.namespaced(named.namespace(session)), |revision| all.push(revision))
        .await?;
    let uid = object.pointer("/metadata/uid").and_then(Value::as_str).unwrap_or_default();
    Ok(history::of_owner(all, uid))
}

async fn show(arguments: &HistoryArguments, session: &Session, all: &[Named]) -> anyhow::Result<ExitCode> {
    each(all, async |named| {
        let object = session.read(named).await?;
        let history = revisions(session, named, &object).await?;
        let program = match arguments.output {
            Some(HistoryOutput::Json) => Some(Output::Json),
            Some(HistoryOutput::Yaml) => Some(Output::Yaml),
            _ => None,
        };
        if arguments.revision == 0 {
            if let Some(output) = program {
                return output.print(&history::listed(&history, &object));
            }
            println!("{} ", named.word());
            let is_wide = arguments.output == Some(HistoryOutput::Wide);
            print!("{}", if is_wide { history::wide(&history, &object) } else { history::table(&history) });
            return Ok(());
        }
        let revision = history::target(&history, arguments.revision)
            .map_err(|_| anyhow!("unable to find the specified revision"))?;
        let template: Value = serde_json::from_str(revision.template()?.get())?;
        if let Some(output) = program {
            return output.print(
                &json!({"revision": revision.revision, "name": revision.name(), "template": template}),
            );
        }
        println!("{} with revision #{}", named.word(), arguments.revision);
        print!("{}", history::described(&template));
        Ok(())
    })
    .await?;
    Ok(ExitCode::SUCCESS)
}

async fn undo(
    arguments: &UndoArguments,
    session: &Session,
    all: &[Named],
    connection: &Connection,
) -> anyhow::Result<ExitCode> {
    let names: Vec<String> = all.iter().map(Named::word).collect();
    arguments.write.confirm(&format!("Roll back {}?", names.join(", ")))?;
    if arguments.fast {
        each(all, async |named| {
            if named.kind != WorkloadKind::Rollout {
                bail!("{} has no steps: --fast is for Rollouts", named.quoted());
            }
            let object = session.read(named).await?;
            let patch =
                staged::undo_fast(&object).map_err(|reason| anyhow!("{} {reason}", named.quoted()))?;
            session.change_status(named, &arguments.write, &patch, "rolled back").await
        })
        .await?;
        return Ok(ExitCode::SUCCESS);
    }
    let workloads = driven(session, all, connection).await?;
    each(&workloads, async |named| {
        session
            .change(named, &arguments.write, async |object| back(arguments, session, named, object).await)
            .await
    })
    .await?;
    follow_all(session, &workloads, arguments.write.following()).await
}

/// The workloads themselves: for a Rollout the one that it drives, each once.
async fn driven(session: &Session, all: &[Named], connection: &Connection) -> anyhow::Result<Vec<Named>> {
    let mut workloads: Vec<Named> = Vec::new();
    for named in all {
        let mut workload = named.clone();
        if named.kind == WorkloadKind::Rollout {
            let object = session.read(named).await?;
            let (group, kind, name) =
                staged::workload(&object).ok_or_else(|| anyhow!("{} names no workload", named.quoted()))?;
            let known = WorkloadKind::ALL.into_iter().find(|one| one.kind() == kind && one.group() == group);
            let Some(known) = known else {
                let flags: Vec<String> =
                    connection.flags().iter().map(|flag| flag.to_string_lossy().into_owned()).collect();
                bail!("{kind} {name} is for kubectl: kubectl rollout undo {kind}/{name} {}", flags.join(" "));
            };
            workload = Named { kind: known, name: name.to_owned(), namespace: named.namespace.clone() };
        }
        if !workloads.contains(&workload) {
            workloads.push(workload);
        }
    }
    Ok(workloads)
}

/// The change by which a workload goes back.
async fn back(
    arguments: &UndoArguments,
    session: &Session,
    named: &Named,
    object: &Value,
) -> anyhow::Result<Change> {
    let history = revisions(session, named, object).await?;
    let revision = history::target(&history, arguments.to_revision).map_err(anyhow::Error::msg)?;
    let Some(patch) = edit::undo(object, revision).map_err(anyhow::Error::msg)? else {
        let number = arguments.to_revision;
        let skipped = format!("skipped rollback (current template already matches revision {number})");
        return Ok(Change { patch: None, operation: skipped });
    };
    let operation = if arguments.write.sends_nothing() {
        let template: Value = serde_json::from_str(revision.template()?.get())?;
        format!("will roll back to {}", history::described(&template).trim_end())
    } else {
        "rolled back".to_owned()
    };
    Ok(Change { patch: Some(patch), operation })
}

async fn pause(
    arguments: &WrittenArguments,
    session: &Session,
    all: &[Named],
    flag: bool,
) -> anyhow::Result<ExitCode> {
    let (already, operation) =
        if flag { ("is already paused", "paused") } else { ("is not paused", "resumed") };
    each(all, async |named| {
        session
            .change(named, &arguments.write, async |object| {
                let failure = |reason: &str| anyhow!("{} {reason}", named.quoted());
                let pointer = progress::pause_pointer(named.kind, object).map_err(|reason| match flag {
                    false => failure(&reason.replace("pausing", "resuming")),
                    true => failure(reason),
                })?;
                if progress::is_set(object, pointer) == flag {
                    return Err(failure(already));
                }
                Ok(Change::new(Some(edit::set_flag(object, pointer, flag)), operation))
            })
            .await
    })
    .await?;
    Ok(ExitCode::SUCCESS)
}

async fn restart(arguments: &WrittenArguments, session: &Session, all: &[Named]) -> anyhow::Result<ExitCode> {
    let now = Zoned::now().strftime("%Y-%m-%dT%H:%M:%S%:z").to_string();
    each(all, async |named| {
        if !named.kind.has_revisions() && named.kind != WorkloadKind::UnitedDeployment {
            bail!("{} restarting is not supported", named.quoted());
        }
        session
            .change(named, &arguments.write, async |object| {
                Ok(Change::new(Some(containers::restart(named.kind, object, &now)), "restarted"))
            })
            .await
    })
    .await?;
    follow_all(session, all, arguments.write.following()).await
}

async fn approve(arguments: &WrittenArguments, session: &Session, all: &[Named]) -> anyhow::Result<ExitCode> {
    each(all, async |named| {
        let failure = |reason: &str| anyhow!("{} {reason}", named.quoted());
        if named.kind != WorkloadKind::Rollout {
            return Err(failure("approving is not supported"));
        }
        let object = session.read(named).await?;
        let patch = staged::approve(&object).map_err(|reason| failure(&reason))?;
        session.change_status(named, &arguments.write, &patch, "approved").await
    })
    .await?;
    follow_all(session, all, arguments.write.following()).await
}
