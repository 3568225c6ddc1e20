//! The `kutter` program. It also answers to the names under which OpenKruise's images start it:
//! `/manager` is `kutter serve`, `/kruise-daemon` is `kutter node`; and under that of its kubectl plugin, `kubectl-kruise`.

mod arguments;
mod commands;
mod crds;
mod finalizer;
mod logging;
mod manifests;
mod node;
mod serve;

use std::process::ExitCode;

#[global_allocator]
static ALLOCATOR: mimalloc::MiMalloc = mimalloc::MiMalloc;

fn main() -> ExitCode {
    match commands::run(std::env::args_os()) {
        Ok(code) => code,
        Err(error) => {
            eprintln!("error: {error:#}");
            ExitCode::FAILURE
        }
    }
}
