//! What went wrong, as kubectl says it.

use std::error::Error as _;
use std::fmt;

use anyhow::{Error, anyhow};
use cluster::ApiError;

use super::terminal::OutputClosed;

/// What an error starts with that says by itself what went wrong.
const PLAIN: [&str; 2] = ["Error from server", "Unable to connect to the server"];

/// Failures at several objects, each of which is printed in lines of its own.
#[derive(Debug, Default)]
pub(super) struct Failures(Vec<Error>);

impl fmt::Display for Failures {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        let lines: Vec<String> = self.0.iter().map(printed).collect();
        formatter.write_str(&lines.join("\n"))
    }
}

impl std::error::Error for Failures {}

impl Failures {
    /// Keeps what failed, and gives back what did not.
    pub(super) fn keep<T>(&mut self, result: anyhow::Result<T>) -> Option<T> {
        match result {
            Ok(done) => return Some(done),
            Err(error) => match error.downcast::<Self>() {
                Ok(several) => self.0.extend(several.0),
                Err(error) => self.0.push(error),
            },
        }
        None
    }

    /// Everything went well, or an error with all that failed.
    pub(super) fn end(self) -> anyhow::Result<()> {
        if self.0.is_empty() { Ok(()) } else { Err(self.into()) }
    }
}

/// The lines that are printed of an error.
pub(super) fn printed(error: &Error) -> String {
    if let Some(several) = error.downcast_ref::<Failures>() {
        return several.to_string();
    }
    let text = format!("{error:#}");
    let is_plain = PLAIN.iter().any(|start| text.starts_with(start));
    if is_plain { text } else { format!("error: {text}") }
}

/// What the API server said.
pub(super) fn refused(error: &ApiError) -> Error {
    match status(error) {
        Some(status) => from_server(&status.reason, error),
        None => anyhow!("Unable to connect to the server: {error}"),
    }
}

/// A refusal of the API server with its reason, where it named one.
pub(super) fn from_server(reason: &str, message: impl fmt::Display) -> Error {
    match reason {
        "" => anyhow!("Error from server: {message}"),
        _ => anyhow!("Error from server ({reason}): {message}"),
    }
}

/// There is no object `what`.
pub(super) fn not_found(what: impl fmt::Display) -> Error {
    from_server("NotFound", format!("{what} not found"))
}

/// The answer of the API server, where there was one.
fn status(error: &ApiError) -> Option<&kube::core::Status> {
    let source = error.source()?;
    let source =
        source.downcast_ref::<kube::Error>().or_else(|| Some(source.downcast_ref::<Box<kube::Error>>()?));
    match source? {
        kube::Error::Api(status) => Some(status),
        _ => None,
    }
}

/// Does something with each object; what fails at one stops no other.
pub(super) async fn each<T>(
    all: &[T],
    mut work: impl AsyncFnMut(&T) -> anyhow::Result<()>,
) -> anyhow::Result<()> {
    let mut failures = Failures::default();
    for named in all {
        match work(named).await {
            Err(error) if error.is::<OutputClosed>() => return Err(error),
            result => failures.keep(result),
        };
    }
    failures.end()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_failure_has_its_lines() {
        let mut inner = Failures::default();
        inner.keep::<()>(Err(not_found("pods \"a\"")));
        inner.keep::<()>(Err(anyhow!("b").context("a")));
        let mut all = Failures::default();
        assert_eq!(all.keep(Ok(1)), Some(1));
        all.keep(inner.end());
        all.keep::<()>(Err(from_server("", "c")));
        let expected =
            "Error from server (NotFound): pods \"a\" not found\nerror: a: b\nError from server: c";
        assert_eq!(printed(&all.end().unwrap_err()), expected);
        assert!(Failures::default().end().is_ok());
    }

    #[test]
    fn the_reason_is_that_of_the_api_server() {
        let status =
            serde_json::json!({"status": "Failure", "message": "no", "reason": "Forbidden", "code": 403});
        let error = kube::Error::Api(Box::new(serde_json::from_value(status).unwrap())).into();
        assert_eq!(refused(&error).to_string(), "Error from server (Forbidden): no");
        let error = kube::Error::Service("cut off".into()).into();
        assert!(refused(&error).to_string().starts_with("Unable to connect to the server: "));
    }
}
