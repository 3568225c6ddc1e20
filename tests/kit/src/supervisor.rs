//! Child processes that never outlive the process that started them.
//!
//! Each runs under a small shell that holds the read end of a pipe; the write end is ours. When we
//! drop it, or die by any signal, the pipe closes and the shell kills its command. (A parent death
//! signal would do less: it fires when the *thread* that started the child ends.)

use std::ffi::OsString;
use std::fs::File;
use std::os::unix::process::CommandExt;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};

/// Waits until our process ends, then removes the directory `$1`.
const JANITOR: &str = r#"read -r _; until rm -rf -- "$1"; do sleep 0.2; done"#;

/// A supervised child process. Dropping it kills the command and waits for its end.
#[derive(Debug)]
pub(crate) struct Process {
    name: String,
    child: Child,
    log: PathBuf,
}

impl Process {
    /// Starts `program` with `arguments`; both output streams go to the file `log`, appended.
    pub(crate) fn start<I, S>(program: &Path, arguments: I, log: &Path) -> Self
    where
        I: IntoIterator<Item = S>,
        S: Into<OsString>,
    {
        let name = program.file_name().unwrap_or(program.as_os_str()).to_string_lossy().into_owned();
        let command = [program.into()].into_iter().chain(arguments.into_iter().map(Into::into));
        Self::run_script(&name, include_str!("supervisor.sh"), command, Some(log))
    }

    /// A process that removes `directory` when it is dropped, or when our process ends.
    pub(crate) fn janitor(directory: &Path) -> Self {
        Self::run_script("janitor", JANITOR, [directory.into()], None)
    }

    /// Runs a shell script whose standard input closes when this is dropped or our process ends.
    pub(crate) fn run_script(
        name: &str,
        script: &str,
        arguments: impl IntoIterator<Item = OsString>,
        log: Option<&Path>,
    ) -> Self {
        let log = log.unwrap_or(Path::new("/dev/null"));
        let open = || File::options().create(true).append(true).open(log).expect("the log file opens");
        let child = Command::new("sh")
            .args(["-c", script, name])
            .args(arguments)
            .stdin(Stdio::piped())
            .stdout(open())
            .stderr(open())
            .process_group(0) // Ctrl-C at a terminal is for us to handle, in order
            .spawn()
            .unwrap_or_else(|error| panic!("cannot start {name}: {error}"));
        Self { name: name.to_owned(), child, log: log.to_owned() }
    }

    /// Panics with the end of the log if the process has ended.
    pub(crate) fn assert_running(&mut self) {
        if let Some(status) = self.child.try_wait().expect("the state of a child can be read") {
            panic!("{} ended ({status}); its log ends with:\n{}", self.name, self.log_tail());
        }
    }

    /// The last lines of the log.
    pub(crate) fn log_tail(&self) -> String {
        let log = std::fs::read(&self.log).unwrap_or_default();
        let log = String::from_utf8_lossy(&log);
        let lines: Vec<&str> = log.lines().collect();
        lines.iter().skip(lines.len().saturating_sub(20)).copied().collect::<Vec<_>>().join("\n")
    }
}

impl Drop for Process {
    fn drop(&mut self) {
        drop(self.child.stdin.take());
        drop(self.child.wait());
    }
}
