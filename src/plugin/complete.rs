//! Completion of command lines: scripts for shells, and the candidates that kubectl asks for.

use std::ffi::OsString;
use std::process::{Command as Process, ExitCode};
use std::time::Duration;

use clap::{Args, Command, CommandFactory, Parser};
use clap_complete::Shell;
use cluster::resource::NAMESPACES;
use planner::plugin::containers::container_names;
use planner::plugin::kinds::WorkloadKind;

use super::CommandLine;
use super::connection::{Connection, Session};
use super::rollout::revisions;
use super::target::{Named, names};

/// How long to look for candidates: who waits longer has typed the word.
const PATIENCE: Duration = Duration::from_secs(2);
/// What kubectl reads behind the candidates: offer no files.
const NO_FILES: &str = ":4";

/// Arguments of `completion`.
#[derive(Debug, Args)]
pub(super) struct CompletionArguments {
    /// The shell
    #[arg(value_enum)]
    shell: Shell,
}

/// Prints the script for a shell.
pub(super) fn script(arguments: &CompletionArguments) -> ExitCode {
    clap_complete::generate(
        arguments.shell,
        &mut CommandLine::command(),
        "kubectl-kruise",
        &mut std::io::stdout(),
    );
    ExitCode::SUCCESS
}

/// The flags about the connection, wherever they are.
#[derive(Debug, Parser)]
#[command(ignore_errors = true, disable_help_flag = true)]
struct ConnectionAmong {
    #[command(flatten)]
    connection: Connection,
    #[arg(trailing_var_arg = false, allow_hyphen_values = true)]
    _words: Vec<String>,
}

/// Prints the candidates for the last of these words, as kubectl asks for them.
pub(crate) fn candidates(words: &[OsString]) -> ExitCode {
    let words: Vec<String> = words.iter().map(|word| word.to_string_lossy().into_owned()).collect();
    for candidate in found(&words).unwrap_or_default() {
        println!("{candidate}");
    }
    println!("{NO_FILES}");
    ExitCode::SUCCESS
}

/// What is before the word to complete.
struct Before<'w> {
    /// Words that are no flags.
    plain: Vec<&'w str>,
    /// The word just before.
    last: &'w str,
}

fn found(words: &[String]) -> anyhow::Result<Vec<String>> {
    let Some((word, given)) = words.split_last() else { return Ok(Vec::new()) };
    let root = CommandLine::command();
    let mut command = &root;
    let mut before = Before { plain: Vec::new(), last: given.last().map_or("", String::as_str) };
    let mut verbs = Vec::new();
    for word in given.iter().filter(|word| !word.starts_with('-')) {
        match command.find_subcommand(word) {
            Some(next) if before.plain.is_empty() => {
                command = next;
                verbs.push(next.get_name());
            }
            _ => before.plain.push(word),
        }
    }
    let starting = |all: Vec<String>| all.into_iter().filter(|one| one.starts_with(word.as_str())).collect();
    if word.starts_with("--") {
        let flags = command.get_arguments().filter_map(|argument| argument.get_long());
        return Ok(starting(flags.map(|flag| format!("--{flag}")).collect()));
    }
    if command.has_subcommands() && before.plain.is_empty() {
        let names = command.get_subcommands().map(|one| one.get_name().to_owned());
        return Ok(starting(names.chain(visible_aliases(command)).collect()));
    }
    let arguments = std::iter::once("x").chain(given.iter().map(String::as_str));
    let connection =
        ConnectionAmong::try_parse_from(arguments).map(|parsed| parsed.connection).unwrap_or_default();
    if before.last == "--context" {
        let output = Process::new("kubectl").args(["config", "get-contexts", "-o", "name"]).output()?;
        return Ok(starting(String::from_utf8_lossy(&output.stdout).lines().map(str::to_owned).collect()));
    }
    let all =
        connection.within(PATIENCE, async |session| from_cluster(session, &before, word, &verbs).await)?;
    Ok(starting(all))
}

fn visible_aliases(command: &Command) -> impl Iterator<Item = String> {
    command.get_subcommands().flat_map(Command::get_visible_aliases).map(str::to_owned)
}

/// Kinds, and names of objects, containers, revisions and namespaces.
async fn from_cluster(
    session: &Session,
    before: &Before<'_>,
    word: &str,
    verbs: &[&str],
) -> anyhow::Result<Vec<String>> {
    if matches!(before.last, "-n" | "--namespace") {
        return names(&session.client, &NAMESPACES.all()).await;
    }
    let object = match before.plain[..] {
        [kind, name, ..] if !kind.contains('/') => {
            WorkloadKind::named(kind).map(|kind| Named::new(kind, name))
        }
        [first, ..] => {
            first.split_once('/').and_then(|(kind, name)| Some(Named::new(WorkloadKind::named(kind)?, name)))
        }
        [] => None,
    };
    if let Some(object) = &object {
        if before.last == "--to-revision" || before.last == "--revision" {
            let found = session.read(object).await?;
            let all = revisions(session, object, &found).await?;
            return Ok(all.iter().map(|revision| revision.revision.to_string()).collect());
        }
        if verbs == ["set", "image"] {
            let found = session.read(object).await?;
            return Ok(container_names(object.kind, &found).iter().map(|name| format!("{name}=")).collect());
        }
    }
    let of_kind = async |kind: WorkloadKind| {
        let namespace = if kind.is_namespaced() { session.namespace.as_str() } else { "" };
        names(&session.client, &Named::new(kind, "").resource(session).namespaced(namespace)).await
    };
    if let Some((kind, _)) = word.split_once('/') {
        let Some(known) = WorkloadKind::named(kind) else { return Ok(Vec::new()) };
        return Ok(of_kind(known).await?.into_iter().map(|name| format!("{kind}/{name}")).collect());
    }
    match before.plain[..] {
        [kind] if !kind.contains('/') => match WorkloadKind::named(kind) {
            Some(kind) => of_kind(kind).await,
            None => Ok(Vec::new()),
        },
        [] if verbs == ["describe", "rollout"] => of_kind(WorkloadKind::Rollout).await,
        [] if verbs == ["sidecar", "status"] => of_kind(WorkloadKind::SidecarSet).await,
        [] => {
            let known = WorkloadKind::ALL.into_iter().filter(|kind| is_for(*kind, verbs));
            Ok(known.map(qualified).collect())
        }
        _ => Ok(Vec::new()),
    }
}

/// Whether these verbs do something with objects of the kind.
fn is_for(kind: WorkloadKind, verbs: &[&str]) -> bool {
    match verbs {
        ["rollout", "history" | "plan"] => kind.has_revisions(),
        ["rollout", "undo"] => kind.has_revisions() || kind == WorkloadKind::Rollout,
        ["rollout", "restart"] => kind.has_revisions() || kind == WorkloadKind::UnitedDeployment,
        ["rollout", "approve"] => kind == WorkloadKind::Rollout,
        ["rollout", "pause" | "resume"] => {
            !matches!(kind, WorkloadKind::UnitedDeployment | WorkloadKind::SidecarSet)
        }
        ["rollout", "status"] => !matches!(kind, WorkloadKind::BroadcastJob | WorkloadKind::AdvancedCronJob),
        ["set", "serviceaccount"] => !kind.pod_templates().is_empty(),
        ["set", ..] => kind != WorkloadKind::Rollout,
        ["scaledown"] => matches!(kind, WorkloadKind::CloneSet | WorkloadKind::AdvancedStatefulSet),
        ["expose"] => kind == WorkloadKind::CloneSet,
        _ => true,
    }
}

/// A name that no kind of Kubernetes has.
fn qualified(kind: WorkloadKind) -> String {
    match kind {
        WorkloadKind::AdvancedStatefulSet | WorkloadKind::AdvancedDaemonSet => {
            format!("{}.{}", kind.plural(), kind.group())
        }
        _ => kind.plural().to_owned(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn offered(words: &[&str]) -> Vec<String> {
        found(&words.iter().map(|word| (*word).to_owned()).collect::<Vec<_>>()).unwrap()
    }

    #[test]
    fn verbs_and_flags_are_offered_without_a_cluster() {
        assert!(offered(&["roll"]).contains(&"rollout".to_owned()));
        assert_eq!(offered(&["rollout", "un"]), ["undo"]);
        assert_eq!(offered(&["rollout", "undo", "--to"]), ["--to-revision"]);
        assert_eq!(found(&[]).unwrap(), Vec::<String>::new());
    }
}
