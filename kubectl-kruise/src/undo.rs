//! `kubectl kruise rollout undo`.

use std::process::{Command, ExitCode};

use anyhow::{Context, anyhow, bail};
use clap::Args;
use plugin::kinds::WorkloadKind;
use plugin::template::described;
use plugin::{deployment, edit, history, staged};
use serde_json::Value;
use values::json_patch::Patch;

use super::connection::{Connection, Session};
use super::failures::{Failures, each};
use super::follow::follow_all;
use super::target::{Named, ObjectArguments};
use super::target::{kind_of_reference, revisions};
use super::written::{Change, WriteArguments};

/// Arguments of `rollout undo`.
#[derive(Debug, Args)]
pub(super) struct UndoArguments {
    #[command(flatten)]
    pub(super) objects: ObjectArguments,
    /// The revision to go back to; 0 is the one before the newest
    #[arg(long, default_value = "0", allow_negative_numbers = true)]
    to_revision: i64,
    /// Take a Rollout back to an earlier step without traffic
    #[arg(long)]
    fast: bool,
    #[command(flatten)]
    write: WriteArguments,
}

/// Rolls the objects back.
pub(super) async fn undo(
    arguments: &UndoArguments,
    session: &Session,
    all: &[Named],
    connection: &Connection,
) -> anyhow::Result<ExitCode> {
    let names: Vec<String> = all.iter().map(Named::word).collect();
    arguments.write.confirm(&format!("Roll back {}?", names.join(", ")))?;
    if arguments.fast {
        each(all, async |named| undo_fast(arguments, session, named).await).await?;
        return follow_all(session, all, arguments.write.following()).await;
    }
    let mut failures = Failures::default();
    let Targets { workloads, others } = targets(session, all, &mut failures).await;
    for (namespace, word) in &others {
        failures.keep(undo_by_kubectl(arguments, (namespace, word), connection));
    }
    let undone = each(&workloads, async |named| {
        session
            .change(named, &arguments.write, async |object| back(arguments, session, named, object).await)
            .await
    });
    failures.keep(undone.await);
    failures.end()?;
    follow_all(session, &workloads, arguments.write.following()).await
}

/// Takes a Rollout back to an earlier step.
async fn undo_fast(arguments: &UndoArguments, session: &Session, named: &Named) -> anyhow::Result<()> {
    if named.kind != WorkloadKind::Rollout {
        bail!("{} has no steps: --fast is for Rollouts", named.quoted());
    }
    session
        .change_status(named, &arguments.write, async |object| {
            let patch = staged::undo_fast(object).map_err(|reason| anyhow!("{} {reason}", named.quoted()))?;
            Ok(Change::new(Some(patch), "rolled back"))
        })
        .await
}

/// What is rolled back.
#[derive(Default)]
struct Targets {
    workloads: Vec<Named>,
    /// Namespace and `KIND/NAME` of workloads that kubectl rolls back.
    others: Vec<(String, String)>,
}

/// Replaces each Rollout by the workload it controls, without duplicates.
async fn targets(session: &Session, all: &[Named], failures: &mut Failures) -> Targets {
    let mut targets = Targets::default();
    for named in all {
        failures.keep(targets.add(session, named).await);
    }
    targets
}

impl Targets {
    async fn add(&mut self, session: &Session, named: &Named) -> anyhow::Result<()> {
        let namespace = named.namespace(session).to_owned();
        if named.kind != WorkloadKind::Rollout {
            self.add_workload(named.kind, &named.name, namespace);
            return Ok(());
        }
        let object = session.read(named).await?;
        let reference =
            staged::workload(&object).ok_or_else(|| anyhow!("{} names no workload", named.quoted()))?;
        let (_, kind, name) = &reference;
        match kind_of_reference(&reference) {
            Some(kind) => self.add_workload(kind, name, namespace),
            None => {
                let other = (namespace, format!("{kind}/{name}"));
                if !self.others.contains(&other) {
                    self.others.push(other);
                }
            }
        }
        Ok(())
    }

    fn add_workload(&mut self, kind: WorkloadKind, name: &str, namespace: String) {
        let namespace = Some(namespace).filter(|namespace| !namespace.is_empty());
        let workload = Named { kind, name: name.to_owned(), namespace };
        if !self.workloads.contains(&workload) {
            self.workloads.push(workload);
        }
    }
}

fn undo_by_kubectl(
    arguments: &UndoArguments,
    (namespace, word): (&str, &str),
    connection: &Connection,
) -> anyhow::Result<()> {
    let mut command = Command::new("kubectl");
    command.args(["rollout", "undo", word]).args(connection.flags()).args(["--namespace", namespace]);
    command.arg(format!("--to-revision={}", arguments.to_revision)).arg(arguments.write.dry_run_flag());
    let status = command.status().context("kubectl, which rolls this back, can't be started")?;
    anyhow::ensure!(status.success(), "{word} was not rolled back");
    Ok(())
}

/// The change by which a workload is rolled back.
async fn back(
    arguments: &UndoArguments,
    session: &Session,
    named: &Named,
    object: &Value,
) -> anyhow::Result<Change> {
    if named.kind == WorkloadKind::Deployment {
        let sets = session.replica_sets_of(named.namespace(session), object).await?;
        let back = deployment::undo(object, &sets, arguments.to_revision).map_err(anyhow::Error::msg)?;
        return Ok(arguments.rolled_back(back.patch, &back.template));
    }
    let history = revisions(session, named, object).await?;
    let revision =
        history::target(named.kind, &history, arguments.to_revision).map_err(anyhow::Error::msg)?;
    let patch = edit::undo(object, revision).map_err(anyhow::Error::msg)?;
    let template: Value = serde_json::from_str(revision.template()?.get())?;
    Ok(arguments.rolled_back(patch, &template))
}

impl UndoArguments {
    /// Combines the rollback patch with the message that is printed.
    fn rolled_back(&self, patch: Option<Patch>, template: &Value) -> Change {
        let operation = if patch.is_none() {
            let number = self.to_revision;
            format!("skipped rollback (current template already matches revision {number})")
        } else if self.write.sends_nothing() {
            format!("will roll back to {}", described(template).trim_end())
        } else {
            "rolled back".to_owned()
        };
        Change { patch, operation }
    }
}
