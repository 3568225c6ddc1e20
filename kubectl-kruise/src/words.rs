//! Command lines, taken apart as far as the plugin has to know them before clap or kubectl reads them.

use std::ffi::OsString;

use anyhow::anyhow;
use clap::{Arg, ArgAction, Command, CommandFactory, FromArgMatches, Parser};

use super::connection::Connection;

/// Flags of kubectl with a value that come before a Pod; those about the connection come besides.
const WITH_VALUE: [&str; 19] = [
    "c",
    "container",
    "pod-running-timeout",
    "since",
    "since-time",
    "tail",
    "limit-bytes",
    "retries",
    "max-log-requests",
    "l",
    "selector",
    "field-selector",
    "L",
    "label-columns",
    "o",
    "output",
    "sort-by",
    "template",
    "chunk-size",
];
/// Flags of kubectl that name files; of `logs`, -f has no value.
const OF_FILES: [&str; 4] = ["f", "filename", "k", "kustomize"];
/// The flag that names a container of a SidecarSet.
const SIDECAR: [&str; 2] = ["S", "sidecar"];

/// The flags about the connection alone.
#[derive(Debug, Parser)]
#[command(name = "kubectl-kruise")]
struct ConnectionAlone {
    #[command(flatten)]
    connection: Connection,
}

/// The command with flags as kubectl has them: a boolean may be given as `--flag=false`, and of a flag that is repeated the
/// last one counts.
pub(super) fn as_of_kubectl(command: Command) -> Command {
    let command = command.args_override_self(true).mut_args(|argument| match argument.get_action() {
        ArgAction::SetTrue => {
            let is_true = argument.get_default_values().iter().any(|value| value == "true");
            argument
                .action(ArgAction::Set)
                .num_args(0..=1)
                .require_equals(true)
                .default_value(if is_true { "true" } else { "false" })
                .default_missing_value("true")
                .hide_default_value(!is_true)
                .value_name("BOOL")
                .value_parser(crate::arguments::boolean)
        }
        _ => argument,
    });
    command.mut_subcommands(as_of_kubectl)
}

/// The command that runs, as somebody typed it, without passwords.
pub(super) fn command_line() -> String {
    reported(std::env::args_os().skip(1).map(|word| word.to_string_lossy().into_owned()))
}

fn reported(words: impl Iterator<Item = String>) -> String {
    let mut reported = "kubectl kruise".to_owned();
    let mut is_secret = false;
    for word in words {
        let (name, value) = word.split_once('=').map_or((&*word, None), |(name, value)| (name, Some(value)));
        let hides = matches!(name, "--token" | "--password");
        let shown = match (is_secret, hides && value.is_some()) {
            (true, _) => "CLASSIFIED",
            (_, true) => &format!("{name}=CLASSIFIED"),
            _ => &*word,
        };
        reported.extend([" ", shown]);
        is_secret = hides && value.is_none() && !is_secret;
    }
    reported
}

/// Reads `_` in the names of flags as `-`, as kubectl does. What comes after `--` is for a container.
pub(super) fn with_hyphens(mut words: Vec<OsString>) -> Vec<OsString> {
    for word in words.iter_mut().skip(1).take_while(|word| *word != "--") {
        let Some(flag) = word.to_str().and_then(|text| text.strip_prefix("--")) else { continue };
        let (name, value) = flag.split_at(flag.find('=').unwrap_or(flag.len()));
        if name.contains('_') {
            let meant = name.replace('_', "-");
            eprintln!(
                "warning: using an underscore in a flag name is not supported. {name} has been converted to {meant}."
            );
            *word = format!("--{meant}{value}").into();
        }
    }
    words
}

/// Reads flags about the connection.
pub(super) fn connection_of<T: Into<OsString> + Clone>(flags: &[T]) -> anyhow::Result<Connection> {
    let words = std::iter::once(OsString::from("kubectl-kruise"));
    let words = words.chain(flags.iter().cloned().map(Into::into));
    let matches = as_of_kubectl(ConnectionAlone::command()).try_get_matches_from(words)?;
    Ok(ConnectionAlone::from_arg_matches(&matches)?.connection)
}

/// Whether the word is a flag, or several in one word.
fn is_flag(word: &str) -> bool {
    word.len() > 1 && word.starts_with('-')
}

/// A flag of a word.
#[derive(Debug)]
struct Flag<'w> {
    /// Its name, without hyphens: a letter, or more for the long form.
    name: &'w str,
    /// Its value, where the word has it.
    value: Option<&'w str>,
    /// Its value is the next word.
    awaits_value: bool,
}

/// The flags of a word, as pflag reads them: `-itS agent` has three. `takes_value` says by its name whether a flag has
/// a value.
fn flags<'w>(word: &'w str, takes_value: impl Fn(&str) -> bool) -> Vec<Flag<'w>> {
    if let Some(long) = word.strip_prefix("--") {
        let (name, value) = long.split_once('=').map_or((long, None), |(name, value)| (name, Some(value)));
        return vec![Flag { name, value, awaits_value: value.is_none() && takes_value(name) }];
    }
    let mut all = Vec::new();
    let mut letters = word.strip_prefix('-').unwrap_or(word);
    while let Some(letter) = letters.chars().next() {
        let (name, rest) = letters.split_at(letter.len_utf8());
        let value = rest.strip_prefix('=').or_else(|| takes_value(name).then_some(rest));
        let awaits_value = rest.is_empty() && takes_value(name);
        all.push(Flag { name, value: value.filter(|_| !rest.is_empty()), awaits_value });
        if value.is_some() {
            break;
        }
        letters = rest;
    }
    all
}

/// Whether a value comes with the flag: in its word, or in the next one.
fn takes_next(argument: &Arg) -> bool {
    argument.get_action().takes_values() && !argument.is_require_equals_set()
}

/// The flag of this name, which is a letter or longer.
fn find<'c>(command: &'c Command, name: &str) -> Option<&'c Arg> {
    command.get_arguments().find(|argument| {
        let mut letter = [0; 4];
        argument.get_long() == Some(name)
            || argument.get_short().is_some_and(|short| *short.encode_utf8(&mut letter) == *name)
    })
}

/// A command line of kubectl, taken apart.
#[derive(Debug, Default, PartialEq, Eq)]
pub(super) struct Words {
    /// The container of a SidecarSet.
    pub(super) sidecar: Option<String>,
    /// Where the Pod is named, among the rest.
    pub(super) target: Option<usize>,
    /// All but the sidecar.
    pub(super) rest: Vec<String>,
    connection: Vec<String>,
}

impl Words {
    /// Takes the words behind the name of the plugin apart. The first of them that is no flag is the verb.
    pub(super) fn read(words: &[String], verb: &str) -> anyhow::Result<Self> {
        let known = as_of_kubectl(ConnectionAlone::command());
        let takes_value = |name: &str| {
            SIDECAR.contains(&name)
                || WITH_VALUE.contains(&name)
                || (verb != "logs" && OF_FILES.contains(&name))
                || find(&known, name).is_some_and(takes_next)
        };
        let mut line = Self::default();
        let mut is_verb_read = false;
        let mut words = words.iter();
        while let Some(word) = words.next() {
            if word == "--" {
                line.rest.push(word.clone());
                line.rest.extend(words.cloned());
                break;
            }
            if !is_flag(word) {
                let may_be_target = is_verb_read && (verb != "cp" || word.contains(':'));
                if may_be_target && line.target.is_none() {
                    line.target = Some(line.rest.len());
                }
                is_verb_read = true;
                line.rest.push(word.clone());
                continue;
            }
            let flags = flags(word, takes_value);
            let next = if flags.iter().any(|flag| flag.awaits_value) { words.next() } else { None };
            line.take(word, &flags, next, &known)?;
        }
        Ok(line)
    }

    /// Takes the flags of a word, and the word behind them where that is the value of the last one.
    fn take(
        &mut self,
        word: &str,
        flags: &[Flag<'_>],
        next: Option<&String>,
        known: &Command,
    ) -> anyhow::Result<()> {
        let Some((last, before)) = flags.split_last() else { return Ok(()) };
        let value = last.value.or(next.map(String::as_str));
        if SIDECAR.contains(&last.name) {
            let value = value.ok_or_else(|| anyhow!("flag needs an argument: {word}"))?;
            self.sidecar = Some(value.to_owned());
            let others: String = before.iter().map(|flag| flag.name).collect();
            self.rest.extend((!others.is_empty()).then(|| format!("-{others}")));
            return Ok(());
        }
        self.rest.push(word.to_owned());
        self.rest.extend(next.cloned());
        if let Some(long) = find(known, last.name).and_then(Arg::get_long) {
            let value = value.map(|value| format!("={value}")).unwrap_or_default();
            self.connection.push(format!("--{long}{value}"));
        }
        Ok(())
    }

    /// The flags about the connection.
    pub(super) fn connection(&self) -> anyhow::Result<Connection> {
        connection_of(&self.connection)
    }
}

/// A command line of the plugin, as far as its own flags say which words are their values.
pub(super) struct Line<'c, 'w> {
    /// The command that the verbs lead to.
    pub(super) command: &'c Command,
    /// The names of the commands on the way to it.
    pub(super) verbs: Vec<&'c str>,
    /// The words behind the verbs that are neither flags nor values of flags.
    pub(super) words: Vec<&'w str>,
    /// The last flag, where its value is still to come.
    pub(super) awaited: Option<&'c Arg>,
    names: Vec<&'w str>,
    connection: Vec<String>,
}

impl<'c, 'w> Line<'c, 'w> {
    /// Reads the words behind the name of the plugin, whose command is `root`.
    pub(super) fn read(root: &'c Command, words: &'w [String]) -> Self {
        let mut line = Self {
            command: root,
            verbs: Vec::new(),
            words: Vec::new(),
            awaited: None,
            names: Vec::new(),
            connection: Vec::new(),
        };
        let mut words = words.iter();
        while let Some(word) = words.next().filter(|word| *word != "--") {
            if !is_flag(word) {
                line.take(word);
                continue;
            }
            let command = line.command;
            let known = |name: &str| find(command, name).or_else(|| find(root, name));
            for flag in flags(word, |name| known(name).is_some_and(takes_next)) {
                let argument = known(flag.name);
                let next = if flag.awaits_value { words.next() } else { None };
                line.awaited = argument.filter(|_| flag.awaits_value && next.is_none());
                line.names.push(flag.name);
                let of_connection = find(root, flag.name).filter(|_| line.awaited.is_none());
                if let Some(long) = of_connection.and_then(Arg::get_long) {
                    let value = flag.value.or(next.map(String::as_str)).map(|value| format!("={value}"));
                    line.connection.push(format!("--{long}{}", value.unwrap_or_default()));
                }
            }
        }
        line
    }

    fn take(&mut self, word: &'w str) {
        match self.command.find_subcommand(word).filter(|_| self.words.is_empty()) {
            Some(next) => {
                self.command = next;
                self.verbs.push(next.get_name());
            }
            None => self.words.push(word),
        }
    }

    /// Files are named.
    pub(super) fn has_files(&self) -> bool {
        self.names.iter().any(|name| OF_FILES.contains(name))
    }

    /// The flags about the connection.
    pub(super) fn connection(&self) -> anyhow::Result<Connection> {
        connection_of(&self.connection)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn split(text: &str) -> Vec<String> {
        text.split(' ').map(str::to_owned).collect()
    }

    fn read(text: &str) -> Words {
        let words = split(text);
        let verb = words.iter().find(|word| ["exec", "logs", "cp"].contains(&word.as_str())).unwrap();
        Words::read(&words, verb).unwrap()
    }

    #[test]
    fn the_pod_and_the_sidecar_are_found_among_flags() {
        let line = read("-n shop exec -it -S agent web-1 -- sh -S x");
        assert_eq!(line.sidecar.as_deref(), Some("agent"));
        assert_eq!(line.rest.join(" "), "-n shop exec -it web-1 -- sh -S x");
        assert_eq!(line.rest[line.target.unwrap()], "web-1");
        assert_eq!(line.connection, ["--namespace=shop"]);
        let line = read("logs --tail 5 clone/web --sidecar=agent --namespace=shop");
        assert_eq!(line.rest[line.target.unwrap()], "clone/web");
        assert_eq!(line.connection, ["--namespace=shop"]);
        let line = read("cp here shop/web:/tmp/there -S agent");
        assert_eq!(line.rest[line.target.unwrap()], "shop/web:/tmp/there");
        let line = read("--insecure-skip-tls-verify -s a --request-timeout 5s logs -l app=web -o wide all");
        assert_eq!(line.rest[line.target.unwrap()], "all");
        assert_eq!(line.connection, ["--insecure-skip-tls-verify", "--server=a", "--request-timeout=5s"]);
        assert_eq!(read("exec").target, None);
    }

    #[test]
    fn short_flags_share_a_word_and_carry_their_value() {
        let line = read("-nshop exec -itS agent web-1 -- true");
        assert_eq!(
            (line.sidecar.as_deref(), line.connection.join(" ").as_str()),
            (Some("agent"), "--namespace=shop")
        );
        assert_eq!(line.rest.join(" "), "-nshop exec -it web-1 -- true");
        let line = read("exec -Sagent -n=shop web-1");
        assert_eq!(
            (line.sidecar.as_deref(), line.rest.join(" ").as_str()),
            (Some("agent"), "exec -n=shop web-1")
        );
        assert_eq!(line.connection, ["--namespace=shop"]);
        let line = read("exec -itcmain web-1");
        assert_eq!(line.rest[line.target.unwrap()], "web-1");
        // A Pod may have the name of the verb; of logs, -f has no value.
        assert_eq!(read("logs -f logs").target, Some(2));
        assert!(Words::read(&split("exec web-1 -S"), "exec").is_err());
    }

    #[test]
    fn values_of_flags_are_no_words() {
        let root = as_of_kubectl(crate::CommandLine::command());
        let words =
            split("-nshop ro --context a history -o wide clone/web --revision 2 web --unknown x --as");
        let line = Line::read(&root, &words);
        assert_eq!(
            (line.verbs.as_slice(), line.command.get_name()),
            (&["rollout", "history"][..], "history")
        );
        assert_eq!(line.words, ["clone/web", "web", "x"]);
        assert_eq!(line.connection, ["--namespace=shop", "--context=a"]);
        assert_eq!(line.awaited.and_then(Arg::get_long), Some("as"));
        assert!(!line.has_files());
        let words = split("create -kfolder");
        assert!(Line::read(&root, &words).has_files());
    }

    #[test]
    fn a_command_is_reported_without_passwords() {
        let words = ["set", "image", "--token", "a", "--password=b=c", "--token=", "x=y"];
        let line = reported(words.into_iter().map(str::to_owned));
        assert_eq!(
            line,
            "kubectl kruise set image --token CLASSIFIED --password=CLASSIFIED --token=CLASSIFIED x=y"
        );
    }

    #[test]
    fn flags_are_read_as_kubectl_reads_them() {
        let flags = connection_of(&["--insecure-skip-tls-verify=false", "-n", "a", "-n", "b"]).unwrap();
        assert_eq!(flags.namespace.as_deref(), Some("b"));
        let words = ["kubectl-kruise", "set", "--dry_run=a_b", "--", "--x_y"];
        let words = with_hyphens(words.into_iter().map(OsString::from).collect());
        assert_eq!(words, ["kubectl-kruise", "set", "--dry-run=a_b", "--", "--x_y"]);
    }
}
