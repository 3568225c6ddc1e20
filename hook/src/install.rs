//! Copies the program into the volume of a Pod, where its containers find it.

use std::fs;
use std::io;
use std::os::unix::fs::PermissionsExt;
use std::path::Path;
use std::process::Command;

use thiserror::Error;

use crate::state::Directory;

/// The name of the program in the volume.
const NAME: &str = "hook";

/// The program is not there.
#[derive(Debug, Error)]
pub(crate) enum InstallError {
    /// It can't be copied.
    #[error("the exit hook can't be copied to {directory}: {error}")]
    Copy {
        /// Where to.
        directory: String,
        /// Why not.
        error: io::Error,
    },
    /// The volume is mounted without execution, or for another machine.
    #[error("the exit hook can't be executed in {directory}: {reason}")]
    Execute {
        /// Where.
        directory: String,
        /// Why not.
        reason: String,
    },
}

/// Puts the program and the directory of the states into `directory`, and proves that the program runs there: a Pod that
/// does not start is better than one whose own preStop hooks are lost.
///
/// # Errors
/// It is not there, or does not run.
pub(crate) fn install(directory: &Path) -> Result<(), InstallError> {
    let shown = || directory.display().to_string();
    copy(directory).map_err(|error| InstallError::Copy { directory: shown(), error })?;
    let failed = |reason: String| InstallError::Execute { directory: shown(), reason };
    let output = Command::new(directory.join(NAME)).arg("version").output();
    let output = output.map_err(|error| failed(error.to_string()))?;
    if output.status.success() { Ok(()) } else { Err(failed(output.status.to_string())) }
}

fn copy(directory: &Path) -> io::Result<()> {
    let new = directory.join(format!(".{NAME}.{}", std::process::id()));
    // An attempt that was interrupted may have left a file that can't be written.
    match fs::remove_file(&new) {
        Err(error) if error.kind() != io::ErrorKind::NotFound => return Err(error),
        _ => {}
    }
    fs::copy(std::env::current_exe()?, &new)?;
    fs::set_permissions(&new, fs::Permissions::from_mode(0o555))?;
    fs::rename(&new, directory.join(NAME))?;
    Directory::create(directory)
}
