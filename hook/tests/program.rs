//! The program itself, as containers run it.
#![cfg(test)]

use std::fs;
use std::io::Read;
use std::path::PathBuf;
use std::process::{Child, Command, Stdio};
use std::time::{Duration, Instant};

use tempfile::TempDir;

/// A volume with the program.
struct Volume(TempDir);

impl Volume {
    fn new() -> Self {
        let volume = Self(tempfile::tempdir().unwrap());
        let installed = Command::new(env!("CARGO_BIN_EXE_kruise-exit-hook"))
            .arg("install")
            .arg(volume.0.path())
            .status()
            .unwrap();
        assert!(installed.success());
        volume
    }

    fn hook(&self) -> PathBuf {
        self.0.path().join("hook")
    }

    fn mark(&self, words: &[&str]) {
        let status = Command::new(self.hook()).args(["mark", "--name=envoy"]).args(words).status().unwrap();
        assert!(status.success(), "{words:?}");
    }

    fn wait(&self, words: &[&str]) -> Child {
        let mut command = Command::new(self.hook());
        command.args(["wait", "--name=envoy"]).args(words).stdout(Stdio::piped());
        command.spawn().unwrap()
    }
}

/// Waits until a process has its own action for SIGTERM.
fn catches_sigterm(child: &Child) {
    let file = format!("/proc/{}/status", child.id());
    let begun = Instant::now();
    loop {
        let status = fs::read_to_string(&file).unwrap();
        let caught = status.lines().find_map(|line| line.strip_prefix("SigCgt:")).unwrap();
        if u64::from_str_radix(caught.trim(), 16).unwrap() & (1 << 14) != 0 {
            return;
        }
        assert!(begun.elapsed() < Duration::from_secs(60), "{status}");
        std::thread::sleep(Duration::from_millis(20));
    }
}

fn ended(mut child: Child) -> String {
    let mut output = String::new();
    child.stdout.take().unwrap().read_to_string(&mut output).unwrap();
    assert!(child.wait().unwrap().success(), "{output}");
    output
}

const GRACE: [&str; 3] = ["--after=main", "--grace=600", "--tail=2"];

#[test]
fn a_hook_that_is_held_runs_the_users_own_when_it_is_let_go() {
    let volume = Volume::new();
    volume.mark(&["--state=hold", "--remaining-ms=600000"]);
    let mut child = volume.wait(&[&GRACE[..], &["--", "echo", "--name=x", "a b"]].concat());
    // Nothing ends it while it is held, not even a signal.
    catches_sigterm(&child);
    let signalled = Command::new("kill").args(["-TERM", &child.id().to_string()]).status().unwrap();
    assert!(signalled.success());
    let begun = Instant::now();
    while begun.elapsed() < Duration::from_secs(4) {
        assert!(child.try_wait().unwrap().is_none(), "it did not wait");
        std::thread::sleep(Duration::from_millis(100));
    }
    volume.mark(&["--state=release"]);
    assert_eq!(ended(child), "--name=x a b\n");
    volume.mark(&["--state=hold", "--remaining-ms=600000"]);
    assert_eq!(ended(volume.wait(&GRACE)), "", "it was let go for good");
}

#[test]
fn a_hook_that_nobody_tells_anything_goes_on() {
    let volume = Volume::new();
    let begun = Instant::now();
    assert_eq!(ended(volume.wait(&["--window=1"])), "");
    assert!(begun.elapsed() >= Duration::from_secs(1));
    // The time of a hold ends too.
    let begun = Instant::now();
    volume.mark(&["--state=hold", "--remaining-ms=1500"]);
    assert_eq!(ended(volume.wait(&["--window=600", "--then-sleep=0"])), "");
    assert!(begun.elapsed() >= Duration::from_secs(1));
    volume.mark(&["--state=hold", "--remaining-ms=600000"]);
    assert_eq!(ended(volume.wait(&["--no-wait", "--", "echo", "at once"])), "at once\n");
}

#[test]
fn what_goes_wrong_is_reported() {
    let directory = tempfile::tempdir().unwrap();
    let missing = directory.path().join("missing");
    let output =
        Command::new(env!("CARGO_BIN_EXE_kruise-exit-hook")).arg("install").arg(&missing).output().unwrap();
    let reported = String::from_utf8(output.stderr).unwrap();
    assert_eq!(output.status.code(), Some(1));
    assert!(
        reported.starts_with("the exit hook can't be copied to") && reported.lines().count() == 1,
        "{reported}"
    );

    let volume = Volume::new();
    let output = Command::new(volume.hook())
        .args(["wait", "--name=envoy", "--no-wait", "--", "/no/such/program"])
        .output()
        .unwrap();
    assert_eq!(output.status.code(), Some(1));
    assert!(String::from_utf8(output.stderr).unwrap().contains("/no/such/program can't be started"));
}

#[test]
fn the_program_can_be_installed_again_and_nobody_can_change_it() {
    use std::os::unix::fs::PermissionsExt;
    let volume = Volume::new();
    let again =
        Command::new(env!("CARGO_BIN_EXE_kruise-exit-hook")).arg("install").arg(volume.0.path()).status();
    assert!(again.unwrap().success());
    assert_eq!(fs::metadata(volume.hook()).unwrap().permissions().mode() & 0o777, 0o555);
    let names = fs::read_dir(volume.0.path()).unwrap().map(|entry| entry.unwrap().file_name());
    let mut names: Vec<_> = names.collect();
    names.sort();
    assert_eq!(names, ["hook", "state"]);
}
