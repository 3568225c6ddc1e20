//! What the program is asked to do. Admission writes the arguments of `wait`, the agent of the node those of `mark`.

use std::ffi::OsString;
use std::path::PathBuf;
use std::time::Duration;

use serde::Deserialize;
use thiserror::Error;

/// The longest time for which a hook waits without a message from the agent.
const WINDOW: Duration = Duration::from_secs(10);
/// Such a hook waits for a third of the Pod's time at most: the user's own hook needs the rest.
const SHARE: u32 = 3;
/// What a container keeps for its own end, whatever it waits for.
const OWN: Duration = Duration::from_secs(1);

/// What to do.
#[derive(Debug, PartialEq, Eq)]
pub(crate) enum Command {
    /// Print the version.
    Version,
    /// Copy the program into this directory.
    Install(PathBuf),
    /// Tell a hook what to do.
    Mark(Mark),
    /// Wait, then run the user's own hook.
    Wait(Wait),
}

/// What a hook is ordered to do.
#[derive(Debug, PartialEq, Eq)]
pub(crate) struct Mark {
    /// The container of the hook.
    pub(crate) name: String,
    /// How long to wait from now on; `None` lets it go.
    pub(crate) hold: Option<Duration>,
}

/// What a hook does.
#[derive(Debug, PartialEq, Eq)]
pub(crate) struct Wait {
    /// The container of the hook.
    pub(crate) name: String,
    /// How long it waits without a message from the agent.
    pub(crate) window: Duration,
    /// It waits for nobody.
    pub(crate) is_over: bool,
    /// The user's own hook.
    pub(crate) chain: Chain,
}

/// The preStop hook of a user.
#[derive(Debug, PartialEq, Eq)]
pub(crate) enum Chain {
    /// None.
    Nothing,
    /// A program with its arguments.
    Exec(Vec<OsString>),
    /// A pause.
    Sleep(Duration),
    /// A request.
    Http(Box<Request>),
}

/// A request of a preStop hook.
#[derive(Debug, Default, PartialEq, Eq, Deserialize)]
#[serde(default)]
pub(crate) struct Request {
    /// `HTTPS`, or anything else for HTTP.
    pub(crate) scheme: String,
    /// Where to; empty: the Pod itself.
    pub(crate) host: String,
    /// The port.
    pub(crate) port: u16,
    /// The path.
    pub(crate) path: String,
    /// Names and values.
    pub(crate) headers: Vec<(String, String)>,
}

/// Arguments that can't be understood.
#[derive(Debug, Error)]
pub(crate) enum ArgumentError {
    /// There is no such subcommand.
    #[error("the first argument must be install, mark, wait or version")]
    Command,
    /// It is not UTF-8.
    #[error("argument {0:?} is no text")]
    NoText(OsString),
    /// The subcommand has no such argument.
    #[error("unknown argument {0:?}")]
    Unknown(String),
    /// It has another value than the subcommand takes.
    #[error("argument {name} can't be {value:?}")]
    Value {
        /// Which.
        name: &'static str,
        /// What it says.
        value: String,
    },
    /// It is not there.
    #[error("argument {0} is missing")]
    Missing(&'static str),
}

impl Command {
    /// Reads the arguments after the name of the program.
    ///
    /// # Errors
    /// They can't be understood.
    pub(crate) fn parse(arguments: impl IntoIterator<Item = OsString>) -> Result<Self, ArgumentError> {
        let mut arguments = arguments.into_iter();
        let command = arguments.next().map(text).transpose()?.ok_or(ArgumentError::Command)?;
        match command.as_str() {
            "version" => Ok(Self::Version),
            "install" => {
                arguments.next().map(|path| Self::Install(path.into())).ok_or(ArgumentError::Missing("<dir>"))
            }
            "mark" => mark(arguments).map(Self::Mark),
            "wait" => wait(arguments).map(Self::Wait),
            _ => Err(ArgumentError::Command),
        }
    }
}

fn text(argument: OsString) -> Result<String, ArgumentError> {
    argument.into_string().map_err(ArgumentError::NoText)
}

fn mark(arguments: impl Iterator<Item = OsString>) -> Result<Mark, ArgumentError> {
    let (mut name, mut state, mut remaining) = (None, None, Duration::ZERO);
    for argument in arguments {
        let argument = text(argument)?;
        match argument.split_once('=') {
            Some(("--name", value)) => name = Some(container(value)?),
            Some(("--state", value)) => state = Some(value.to_owned()),
            Some(("--remaining-ms", value)) => {
                remaining = Duration::from_millis(number("--remaining-ms", value)?);
            }
            _ => return Err(ArgumentError::Unknown(argument)),
        }
    }
    let name = name.ok_or(ArgumentError::Missing("--name"))?;
    let hold = match state.as_deref() {
        Some("hold") => Some(remaining),
        Some("release") => None,
        Some(other) => return Err(ArgumentError::Value { name: "--state", value: other.to_owned() }),
        None => return Err(ArgumentError::Missing("--state")),
    };
    Ok(Mark { name, hold })
}

fn wait(mut arguments: impl Iterator<Item = OsString>) -> Result<Wait, ArgumentError> {
    let (mut name, mut is_over, mut chain) = (None, false, Chain::Nothing);
    let (mut window, mut grace, mut tail) = (WINDOW, Duration::MAX, Duration::ZERO);
    let seconds = |name, value: &str| number(name, value).map(Duration::from_secs);
    while let Some(argument) = arguments.next() {
        // What follows is the user's, and is passed on as it is.
        if argument == "--" {
            chain = Chain::Exec(arguments.by_ref().collect());
            break;
        }
        let argument = text(argument)?;
        match argument.split_once('=') {
            None if argument == "--no-wait" => is_over = true,
            Some(("--name", value)) => name = Some(container(value)?),
            // Whom it waits for, which the agent reads.
            Some(("--after", _)) => {}
            Some(("--grace", value)) => grace = seconds("--grace", value)?,
            Some(("--tail", value)) => tail = seconds("--tail", value)?,
            Some(("--window", value)) => window = seconds("--window", value)?,
            Some(("--then-sleep", value)) => chain = Chain::Sleep(seconds("--then-sleep", value)?),
            Some(("--then-http", value)) => chain = Chain::Http(Box::new(request(value)?)),
            _ => return Err(ArgumentError::Unknown(argument)),
        }
    }
    let name = name.ok_or(ArgumentError::Missing("--name"))?;
    let left = grace.saturating_sub(OWN).saturating_sub(tail);
    Ok(Wait { name, window: window.min(grace / SHARE).min(left), is_over, chain })
}

fn number(name: &'static str, value: &str) -> Result<u64, ArgumentError> {
    value.parse().map_err(|_| ArgumentError::Value { name, value: value.to_owned() })
}

/// The name of a container, which becomes the name of a file.
fn container(name: &str) -> Result<String, ArgumentError> {
    let is_label = |byte: u8| byte.is_ascii_lowercase() || byte.is_ascii_digit() || byte == b'-';
    let is_name = (1..=63).contains(&name.len()) && name.bytes().all(is_label);
    let wrong = || ArgumentError::Value { name: "--name", value: name.to_owned() };
    if is_name { Ok(name.to_owned()) } else { Err(wrong()) }
}

fn request(value: &str) -> Result<Request, ArgumentError> {
    let wrong = |_| ArgumentError::Value { name: "--then-http", value: value.to_owned() };
    serde_json::from_str(value).map_err(wrong)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn parsed(line: &[&str]) -> Result<Command, String> {
        Command::parse(line.iter().map(OsString::from)).map_err(|error| error.to_string())
    }

    fn waits(line: &[&str]) -> Wait {
        match parsed(&[&["wait", "--name=envoy"], line].concat()) {
            Ok(Command::Wait(wait)) => wait,
            other => panic!("{other:?}"),
        }
    }

    #[test]
    fn the_window_leaves_time_for_the_end() {
        let window = |line: &[&str]| waits(line).window.as_secs();
        assert_eq!(window(&["--after=main,log", "--grace=30", "--tail=2"]), 10);
        assert_eq!(window(&["--grace=10", "--tail=2", "--window=10"]), 3, "its own hook needs the rest");
        assert_eq!(window(&["--grace=10", "--tail=8"]), 1);
        assert_eq!(window(&["--grace=2", "--tail=4"]), 0);
        assert_eq!(window(&["--grace=30", "--tail=2", "--window=9"]), 9);
        assert_eq!(window(&["--grace=30", "--tail=2", "--window=25"]), 10);
        assert_eq!(window(&[]), 10);
    }

    #[test]
    fn what_follows_is_the_users_own() {
        let own = |line: &[&str]| waits(line).chain;
        assert_eq!(own(&[]), Chain::Nothing);
        let exec = own(&["--grace=30", "--", "sh", "-c", "--name=x", "--", ""]);
        assert_eq!(exec, Chain::Exec(["sh", "-c", "--name=x", "--", ""].map(OsString::from).into()));
        assert_eq!(own(&["--then-sleep=4"]), Chain::Sleep(Duration::from_secs(4)));
        let http = own(&[r#"--then-http={"port":80,"path":"/a=b","headers":[["A","b"]]}"#]);
        let headers = vec![("A".to_owned(), "b".to_owned())];
        let request = Request { port: 80, path: "/a=b".to_owned(), headers, ..Request::default() };
        assert_eq!(http, Chain::Http(Box::new(request)));
        assert!(waits(&["--no-wait"]).is_over && !waits(&[]).is_over);
    }

    #[test]
    fn marks_hold_or_release() {
        let mark = |line: &[&str]| parsed(&[&["mark", "--name=c"], line].concat());
        let reported = |hold| Ok(Command::Mark(Mark { name: "c".to_owned(), hold }));
        assert_eq!(mark(&["--state=hold", "--remaining-ms=25000"]), reported(Some(Duration::from_secs(25))));
        assert_eq!(mark(&["--state=hold"]), reported(Some(Duration::ZERO)));
        assert_eq!(mark(&["--state=release"]), reported(None));
        assert_eq!(mark(&[]), Err("argument --state is missing".to_owned()));
        assert_eq!(mark(&["--state=x"]), Err("argument --state can't be \"x\"".to_owned()));
    }

    #[test]
    fn what_is_not_understood_is_refused() {
        for (line, error) in [
            (&[][..], "the first argument must be install, mark, wait or version"),
            (&["run"], "the first argument must be install, mark, wait or version"),
            (&["install"], "argument <dir> is missing"),
            (&["wait"], "argument --name is missing"),
            (&["wait", "--name=../x"], "argument --name can't be \"../x\""),
            (&["wait", "--name="], "argument --name can't be \"\""),
            (&["wait", "--grace=-1"], "argument --grace can't be \"-1\""),
            (&["wait", "--then-http={"], "argument --then-http can't be \"{\""),
            (&["wait", "--shell"], "unknown argument \"--shell\""),
        ] {
            assert_eq!(parsed(line), Err(error.to_owned()), "{line:?}");
        }
    }
}
