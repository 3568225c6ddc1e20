//! `kruise-exit-hook`: the preStop hook of containers that end after others of their Pod
//! (docs/behaviour/exit-priority.md#the-hook).
//!
//! ```text
//!   install   an init container copies this program into the volume of the Pod
//!   mark      the agent of the node runs it in a container, to hold its end back or to let it go
//!   wait      the preStop hook: waits to be let go, then does what the user's own hook does
//! ```
//!
//! It runs in containers of others: it is one static file, asks nobody over the network, and needs no right.

use std::process::ExitCode;

use arguments::Command;

mod arguments;
mod chain;
mod http;
mod install;
mod state;
mod wait;

fn main() -> ExitCode {
    let command = match Command::parse(std::env::args_os().skip(1)) {
        Ok(command) => command,
        Err(error) => return failed(&error),
    };
    match command {
        Command::Version => {
            println!("{}", env!("CARGO_PKG_VERSION"));
            ExitCode::SUCCESS
        }
        Command::Install(directory) => ended(install::install(&directory)),
        Command::Mark(mark) => ended(state::Directory::own().and_then(|states| states.mark(&mark))),
        Command::Wait(wait) => {
            wait::wait(&wait);
            ended(chain::run(&wait.chain))
        }
    }
}

fn ended<E: std::fmt::Display>(result: Result<(), E>) -> ExitCode {
    match result {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => failed(&error),
    }
}

fn failed(error: &impl std::fmt::Display) -> ExitCode {
    eprintln!("{error}");
    ExitCode::FAILURE
}
