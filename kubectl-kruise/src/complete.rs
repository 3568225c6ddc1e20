//! Completion of command lines: scripts for shells, and the candidates that kubectl asks for.

use std::ffi::OsString;
use std::process::ExitCode;
use std::time::Duration;

use clap::{Args, Command};
use clap_complete::Shell;
use cluster::resource::NAMESPACES;
use plugin::containers::container_names;
use plugin::kinds::WorkloadKind;

use super::command;
use super::connection::Session;
use super::target::{Named, revisions};

use super::terminal::print;
use super::words::Line;

/// The time limit of a completion request; a person has typed the word by then.
const TIMEOUT: Duration = Duration::from_secs(2);
/// What kubectl reads behind the candidates: offer no files.
const NO_FILES: &str = ":4";
/// As [`NO_FILES`], and put no space behind the candidate: its value follows.
const NO_SPACE: &str = ":6";

/// Arguments of `completion`.
#[derive(Debug, Args)]
pub(super) struct CompletionArguments {
    /// The shell
    #[arg(value_enum)]
    shell: Shell,
}

/// Prints the script for a shell.
pub(super) fn script(arguments: &CompletionArguments) -> anyhow::Result<ExitCode> {
    let mut script = Vec::new();
    clap_complete::generate(arguments.shell, &mut command(), "kubectl-kruise", &mut script);
    print(String::from_utf8_lossy(&script))?;
    Ok(ExitCode::SUCCESS)
}

/// Prints the candidates for the last of these words, as kubectl asks for them.
pub(crate) fn candidates(words: &[OsString]) -> ExitCode {
    let words: Vec<String> = words.iter().map(|word| word.to_string_lossy().into_owned()).collect();
    let found = found(&words).unwrap_or_default();
    // Errors are not printed between the words that somebody types.
    let _ = print(answer(&found));
    ExitCode::SUCCESS
}

/// What kubectl reads.
fn answer(found: &[String]) -> String {
    let awaits_value = !found.is_empty() && found.iter().all(|candidate| candidate.ends_with('='));
    let end = if awaits_value { NO_SPACE } else { NO_FILES };
    let lines = found.iter().map(String::as_str).chain([end]);
    lines.map(|line| format!("{line}\n")).collect()
}

fn found(words: &[String]) -> anyhow::Result<Vec<String>> {
    let Some((word, given)) = words.split_last() else { return Ok(Vec::new()) };
    let root = command();
    let line = Line::read(&root, given);
    let starting = |all: Vec<String>| all.into_iter().filter(|one| one.starts_with(word.as_str())).collect();
    if let Some(argument) = line.awaited {
        let values = argument.get_possible_values();
        if !values.is_empty() {
            return Ok(starting(values.iter().map(|value| value.get_name().to_owned()).collect()));
        }
        if argument.get_long() == Some("context") {
            return Ok(starting(line.connection()?.contexts()?));
        }
    } else if word.starts_with("--") {
        let flags =
            line.command.get_arguments().chain(root.get_arguments()).filter(|flag| !flag.is_hide_set());
        let mut flags: Vec<String> =
            flags.filter_map(|flag| flag.get_long()).map(|flag| format!("--{flag}")).collect();
        flags.sort_unstable();
        flags.dedup();
        return Ok(starting(flags));
    } else if line.command.has_subcommands() && line.words.is_empty() {
        let names = line.command.get_subcommands().map(|one| one.get_name().to_owned());
        return Ok(starting(names.chain(visible_aliases(line.command)).collect()));
    }
    let connection = line.connection()?;
    Ok(starting(connection.within(TIMEOUT, async |session| from_cluster(session, &line, word).await)?))
}

fn visible_aliases(command: &Command) -> impl Iterator<Item = String> {
    command.get_subcommands().flat_map(Command::get_visible_aliases).map(str::to_owned)
}

/// The values of flags, kinds, and names of objects and containers.
async fn from_cluster(session: &Session, line: &Line<'_, '_>, word: &str) -> anyhow::Result<Vec<String>> {
    let object = object_of(line);
    match (line.awaited.map(|flag| flag.get_long()), &object) {
        (Some(Some("namespace")), _) => return session.names(&NAMESPACES.all()).await,
        (Some(Some("to-revision" | "revision")), Some(object)) => {
            let found = session.read(object).await?;
            let all = revisions(session, object, &found).await?;
            return Ok(all.iter().map(|revision| revision.revision.to_string()).collect());
        }
        (Some(_), _) => return Ok(Vec::new()),
        (None, Some(object)) if line.verbs == ["set", "image"] => {
            let found = session.read(object).await?;
            return Ok(container_names(object.kind, &found).iter().map(|name| format!("{name}=")).collect());
        }
        (None, _) => {}
    }
    let of_kind = async |kind: WorkloadKind| session.names(&Named::new(kind, "").collection(session)).await;
    if let Some((kind, _)) = word.split_once('/') {
        let Some(known) = WorkloadKind::named(kind) else { return Ok(Vec::new()) };
        return Ok(of_kind(known).await?.into_iter().map(|name| format!("{kind}/{name}")).collect());
    }
    match line.words[..] {
        [kind] if !kind.contains('/') => match WorkloadKind::named(kind) {
            Some(kind) => of_kind(kind).await,
            None => Ok(Vec::new()),
        },
        [] if line.verbs == ["describe", "rollout"] => of_kind(WorkloadKind::Rollout).await,
        [] if line.verbs == ["sidecar", "status"] => of_kind(WorkloadKind::SidecarSet).await,
        [] => {
            let known = WorkloadKind::ALL.iter().copied().filter(|kind| is_for(*kind, &line.verbs));
            Ok(known.map(qualified).collect())
        }
        _ => Ok(Vec::new()),
    }
}

/// The first object that is named.
fn object_of(line: &Line<'_, '_>) -> Option<Named> {
    let (kind, name) = match line.words[..] {
        [kind, name, ..] if !kind.contains('/') => (kind, name),
        [first, ..] => first.split_once('/')?,
        [] => return None,
    };
    Some(Named::new(WorkloadKind::named(kind)?, name))
}

/// Whether these verbs do something with objects of the kind.
fn is_for(kind: WorkloadKind, verbs: &[&str]) -> bool {
    match verbs {
        ["rollout", "history"] => kind.has_revisions(),
        ["rollout", "undo" | "plan"] => kind.has_revisions() || kind == WorkloadKind::Rollout,
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
        assert_eq!(offered(&["-n", "shop", "roll"]), ["rollout"]);
        assert_eq!(offered(&["--context", "rollout", "ro", "--as=x", "un"]), ["undo"]);
        assert_eq!(offered(&["rollout", "history", "clone/web", "-o", "w"]), ["wide"]);
        assert_eq!(offered(&["rollout", "undo", "--names"]), ["--namespace"]);
        assert_eq!(offered(&["rollout", "undo", "--to-"]), ["--to-revision"]);
        assert_eq!(found(&[]).unwrap(), Vec::<String>::new());
    }

    #[test]
    fn a_name_whose_value_follows_has_no_space_behind_it() {
        assert_eq!(answer(&["main=".to_owned()]), "main=\n:6\n");
        assert_eq!(answer(&["web".to_owned()]), "web\n:4\n");
        assert_eq!(answer(&[]), ":4\n");
    }
}
