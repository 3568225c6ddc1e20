//! The program `kubectl-kruise`. As `kubectl_complete-kruise` it completes commands, and as
//! `resourcedistributiongenerator` it is a function of Kustomize.

use std::ffi::{OsStr, OsString};
use std::path::Path;
use std::process::ExitCode;

fn main() -> ExitCode {
    let arguments: Vec<OsString> = std::env::args_os().collect();
    let name = arguments.first().map(Path::new).and_then(Path::file_name).and_then(OsStr::to_str);
    let called = kubectl_kruise::called(name.unwrap_or_default(), &arguments);
    // It may be installed under any name.
    called.unwrap_or_else(|| Ok(kubectl_kruise::run(arguments))).unwrap_or_else(|error| {
        eprintln!("error: {error:#}");
        ExitCode::FAILURE
    })
}
