//! The user's own preStop hook, which runs once the wait is over.

use std::io;
use std::os::unix::process::CommandExt;
use std::process::Command;
use std::thread::sleep;

use thiserror::Error;

use crate::arguments::Chain;
use crate::http::{self, HttpError};

/// The user's hook failed.
#[derive(Debug, Error)]
pub(crate) enum ChainError {
    /// The program can't be started.
    #[error("{program} can't be started: {error}")]
    Exec {
        /// Which.
        program: String,
        /// Why not.
        error: io::Error,
    },
    /// The request is not answered.
    #[error(transparent)]
    Http(#[from] HttpError),
}

/// Runs the hook as the kubelet would. A program takes the place of this one.
///
/// # Errors
/// It could not be run.
pub(crate) fn run(chain: &Chain) -> Result<(), ChainError> {
    match chain {
        Chain::Nothing => Ok(()),
        Chain::Sleep(time) => {
            sleep(*time);
            Ok(())
        }
        Chain::Http(request) => Ok(http::send(request)?),
        Chain::Exec(words) => match words.split_first() {
            None => Ok(()),
            Some((program, arguments)) => {
                let error = Command::new(program).args(arguments).exec();
                Err(ChainError::Exec { program: program.display().to_string(), error })
            }
        },
    }
}
