//! The messages of the node's agent to the hooks of a Pod: two files for each container, beside the program. One says
//! until when the container waits. The other lets it go: whichever is written last, a release is final. The volume
//! outlives a restart of the node, so what was written before it counts for nothing.

use std::fs;
use std::io;
use std::os::unix::fs::PermissionsExt;
use std::path::{Path, PathBuf};
use std::time::Duration;

use rustix::time::{ClockId, clock_gettime};

use crate::arguments::Mark;

/// The file that says which start of the machine this is.
const BOOT: &str = "/proc/sys/kernel/random/boot_id";
/// Below the directory of the program.
const STATES: &str = "state";
/// The end of the file's name that lets a container go. No name of a container has a dot.
const RELEASED: &str = ".released";

/// The last message to a hook.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum State {
    /// To wait until this time of [`now`].
    Hold(Duration),
    /// To continue.
    Release,
}

/// Where the files are.
pub(crate) struct Directory {
    path: PathBuf,
    boot: String,
}

/// The time since the machine has started. It continues while the machine sleeps.
pub(crate) fn now() -> Duration {
    let time = clock_gettime(ClockId::Boottime);
    let (seconds, nanos) = (u64::try_from(time.tv_sec), u32::try_from(time.tv_nsec));
    Duration::new(seconds.unwrap_or_default(), nanos.unwrap_or_default())
}

impl Directory {
    /// Makes the directory: each container writes into it as its own user.
    pub(crate) fn create(program: &Path) -> io::Result<()> {
        let path = program.join(STATES);
        fs::create_dir_all(&path)?;
        fs::set_permissions(&path, fs::Permissions::from_mode(0o1777))
    }

    /// The directory of the program that runs.
    pub(crate) fn own() -> io::Result<Self> {
        let program = std::env::current_exe()?;
        let beside = program.parent().ok_or(io::ErrorKind::NotFound)?;
        Ok(Self { path: beside.join(STATES), boot: fs::read_to_string(BOOT)?.trim().to_owned() })
    }

    /// The last message to the hook of a container since the machine has started.
    pub(crate) fn read(&self, name: &str) -> Option<State> {
        if self.line(&released(name)).is_some() {
            return Some(State::Release);
        }
        let until = self.line(name)?.parse().ok()?;
        Some(State::Hold(Duration::from_millis(until)))
    }

    /// What a file says, if it was written since the machine has started.
    fn line(&self, file: &str) -> Option<String> {
        let text = fs::read_to_string(self.path.join(file)).ok()?;
        let (boot, line) = text.strip_suffix('\n')?.split_once(' ')?;
        (boot == self.boot).then(|| line.to_owned())
    }

    /// Tells the hook of a container what to do.
    pub(crate) fn mark(&self, Mark { name, hold }: &Mark) -> io::Result<()> {
        let (file, line) = match hold {
            Some(rest) => (name.clone(), (now() + *rest).as_millis().to_string()),
            None => (released(name), String::new()),
        };
        // A reader sees the old line or the new one.
        let new = self.path.join(format!(".{name}.{}", std::process::id()));
        fs::write(&new, format!("{} {line}\n", self.boot))?;
        fs::rename(&new, self.path.join(file))
    }
}

/// The file that lets a container go.
fn released(name: &str) -> String {
    format!("{name}{RELEASED}")
}

#[cfg(test)]
mod tests {
    use super::*;

    fn directory() -> (tempfile::TempDir, Directory) {
        let folder = tempfile::tempdir().unwrap();
        Directory::create(folder.path()).unwrap();
        let path = folder.path().join(STATES);
        (folder, Directory { path, boot: "this".to_owned() })
    }

    fn mark(hold: Option<u64>) -> Mark {
        Mark { name: "c".to_owned(), hold: hold.map(Duration::from_secs) }
    }

    #[test]
    fn a_later_hold_counts_and_a_release_is_final() {
        let (_folder, states) = directory();
        assert_eq!(states.read("c"), None);
        for seconds in [10, 5] {
            let (before, rest) = (now(), Duration::from_secs(seconds));
            states.mark(&mark(Some(seconds))).unwrap();
            let after = now();
            let Some(State::Hold(until)) = states.read("c") else { panic!("{:?}", states.read("c")) };
            // The file has whole milliseconds.
            let earliest = before + rest - Duration::from_millis(1);
            assert!(earliest <= until && until <= after + rest, "{before:?} {until:?} {after:?}");
        }
        states.mark(&mark(None)).unwrap();
        states.mark(&mark(Some(9))).unwrap();
        assert_eq!(states.read("c"), Some(State::Release));
        assert_eq!(states.read("other"), None);
        assert_eq!(fs::read_dir(&states.path).unwrap().count(), 2, "nothing else is left");
    }

    #[test]
    fn what_was_told_before_the_machine_started_counts_for_nothing() {
        let (_folder, states) = directory();
        for line in ["other 99999999999\n", "this\n", "this \n", "this x\n", "this 7", "", "\0"] {
            fs::write(states.path.join("c"), line).unwrap();
            assert_eq!(states.read("c"), None, "{line:?}");
        }
        for line in ["other \n", "this\n", ""] {
            fs::write(states.path.join("c.released"), line).unwrap();
            assert_eq!(states.read("c"), None, "{line:?}");
        }
        fs::write(states.path.join("c"), "this 7000\n").unwrap();
        assert_eq!(states.read("c"), Some(State::Hold(Duration::from_secs(7))));
    }

    #[test]
    fn every_user_can_write() {
        let (folder, states) = directory();
        let mode = fs::metadata(&states.path).unwrap().permissions().mode();
        assert_eq!(mode & 0o7777, 0o1777);
        Directory::create(folder.path()).unwrap();
    }
}
