//! `protection.log`: one JSON line per refused delete
//! (docs/behaviour/deletion-protection.md#the-protection-log).
//!
//! Lines are written by a thread of their own through a bounded queue: a slow disk delays no answer. The file
//! is opened anew when it was renamed or removed, so that it can be rotated. That it cannot be opened is a
//! warning, not a failure of the process (docs/behaviour/deletion-protection.md#the-protection-log).

use std::fs::{self, File, OpenOptions};
use std::io::{self, Write};
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};
use std::sync::mpsc::{Receiver, SyncSender, sync_channel};
use std::thread::{self, JoinHandle};
use std::time::Duration;

use tracing::{info, warn};
use values::json_patch::write_string;
use values::short::{NAME, shortened};

/// Lines that may wait for the disk.
const QUEUE: usize = 1024;
const FILE_NAME: &str = "protection.log";
/// How long lines are gathered before they are written.
const GATHER: Duration = Duration::from_millis(10);

/// One refusal. The keys are written in this order.
#[derive(Clone, Copy, Debug)]
pub struct Entry<'a> {
    /// `DeletionProtection`, or `PodUnavailableBudget`.
    pub event: &'a str,
    /// Kind of the object.
    pub kind: &'a str,
    /// Its namespace; empty for cluster-scoped kinds.
    pub namespace: &'a str,
    /// Its name.
    pub name: &'a str,
    /// Who wanted to delete it; the key is `UserAgent` all the same.
    pub user: &'a str,
}

impl Entry<'_> {
    fn to_line(self) -> String {
        let mut line = String::with_capacity(160);
        let fields = [
            ("{\"Event\":", self.event),
            (",\"Kind\":", self.kind),
            (",\"Namespace\":", self.namespace),
            (",\"Name\":", self.name),
            (",\"UserAgent\":", self.user),
        ];
        for (key, value) in fields {
            line.push_str(key);
            write_string(&mut line, shortened(value, NAME));
        }
        line.push_str("}\n");
        line
    }
}

/// The handle to the log. Dropping it writes what is queued and ends the thread.
#[derive(Debug)]
pub struct ProtectionLog {
    queue: Option<SyncSender<String>>,
    writer: Option<JoinHandle<()>>,
}

impl ProtectionLog {
    /// A log in the folder `directory`, which is made if need be.
    pub fn open(directory: &Path) -> Self {
        let (queue, lines) = sync_channel(QUEUE);
        let mut target = Target::new(directory.join(FILE_NAME));
        if let Err(error) = fs::create_dir_all(directory).and_then(|()| target.reopen_if_moved()) {
            target.complain(&error);
        }
        match thread::Builder::new()
            .name("protection-log".to_owned())
            .spawn(move || write_lines(target, &lines))
        {
            Ok(writer) => Self { queue: Some(queue), writer: Some(writer) },
            Err(error) => {
                warn!(%error, "no thread for the protection log; it stays empty");
                Self::disabled()
            }
        }
    }

    /// A log that takes nothing: for runs without a cluster.
    pub fn disabled() -> Self {
        Self { queue: None, writer: None }
    }

    /// Queues a line; false where the queue is full and the line is lost. Never waits.
    #[must_use]
    pub fn record(&self, entry: &Entry<'_>) -> bool {
        self.queue.as_ref().is_none_or(|queue| queue.try_send(entry.to_line()).is_ok())
    }
}

impl Drop for ProtectionLog {
    fn drop(&mut self) {
        drop(self.queue.take());
        if let Some(writer) = self.writer.take() {
            drop(writer.join());
        }
    }
}

fn write_lines(mut target: Target, lines: &Receiver<String>) {
    while let Ok(mut batch) = lines.recv() {
        // What has come in meanwhile is written with it in one write.
        thread::sleep(GATHER);
        lines.try_iter().take(QUEUE).for_each(|line| batch.push_str(&line));
        match target.write(&batch) {
            Ok(()) => target.recovered(),
            Err(error) => target.complain(&error),
        }
    }
}

/// The file, and whether it works.
struct Target {
    path: PathBuf,
    file: Option<File>,
    failing: bool,
}

impl Target {
    fn new(path: PathBuf) -> Self {
        Self { path, file: None, failing: false }
    }

    fn write(&mut self, line: &str) -> io::Result<()> {
        self.reopen_if_moved()?;
        match &mut self.file {
            Some(file) => file.write_all(line.as_bytes()),
            None => Err(io::ErrorKind::NotFound.into()),
        }
    }

    /// Compares the file that is open with the one that has its name now.
    fn reopen_if_moved(&mut self) -> io::Result<()> {
        let open = self.file.as_ref().and_then(|file| file.metadata().ok());
        let named = fs::metadata(&self.path).ok();
        let identity = |metadata: fs::Metadata| (metadata.dev(), metadata.ino());
        if open.is_none() || open.map(identity) != named.map(identity) {
            self.file = None;
            self.file = Some(OpenOptions::new().create(true).append(true).open(&self.path)?);
        }
        Ok(())
    }

    /// Says once that lines are lost, not once per line.
    fn complain(&mut self, error: &io::Error) {
        if !self.failing {
            warn!(path = %self.path.display(), %error, "the protection log can't be written; refusals are not logged");
        }
        self.failing = true;
    }

    fn recovered(&mut self) {
        if self.failing {
            info!(path = %self.path.display(), "the protection log is written again");
        }
        self.failing = false;
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn entry(name: &str) -> Entry<'_> {
        Entry { event: "DeletionProtection", kind: "Deployment", namespace: "web", name, user: "alice" }
    }

    fn write(log: &ProtectionLog, name: &str) {
        assert!(log.record(&entry(name)));
    }

    #[test]
    fn lines_have_the_documented_shape() {
        assert_eq!(
            entry("shop").to_line(),
            "{\"Event\":\"DeletionProtection\",\"Kind\":\"Deployment\",\"Namespace\":\"web\",\"Name\":\"shop\",\"UserAgent\":\"alice\"}\n"
        );
    }

    #[test]
    fn lines_are_bounded() {
        let long = "a".repeat(50_000);
        let all =
            Entry { event: "DeletionProtection", kind: &long, namespace: &long, name: &long, user: &long };
        assert!(all.to_line().len() < 5 * NAME);
    }

    #[test]
    fn a_log_is_appended_to_over_restarts_and_makes_its_folder() {
        let folder = tempfile::tempdir().unwrap();
        let directory = folder.path().join("a/b");
        for name in ["one", "two"] {
            write(&ProtectionLog::open(&directory), name);
        }
        let text = fs::read_to_string(directory.join(FILE_NAME)).unwrap();
        assert_eq!(text, entry("one").to_line() + &entry("two").to_line());
    }

    #[test]
    fn a_renamed_or_removed_file_is_opened_anew() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join(FILE_NAME);
        let mut target = Target::new(path.clone());
        target.write("one\n").unwrap();
        fs::rename(&path, folder.path().join("rotated")).unwrap();
        target.write("two\n").unwrap();
        fs::remove_file(&path).unwrap();
        target.write("three\n").unwrap();
        target.write("four\n").unwrap();
        assert_eq!(fs::read_to_string(&path).unwrap(), "three\nfour\n");
        assert_eq!(fs::read_to_string(folder.path().join("rotated")).unwrap(), "one\n");
    }

    #[test]
    fn sharp_edge_23_a_folder_that_cannot_be_made_stops_nobody() {
        let folder = tempfile::tempdir().unwrap();
        let file = folder.path().join("file");
        fs::write(&file, "").unwrap();
        write(&ProtectionLog::open(&file.join("below")), "shop");
    }
}
