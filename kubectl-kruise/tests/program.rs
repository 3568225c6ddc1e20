//! The program `kubectl-kruise` by itself; what it does is shown through kubectl, in `tests/e2e/plugin`.

use std::process::{Command, Output};

fn run(arguments: &[&str]) -> Output {
    Command::new(env!("CARGO_BIN_EXE_kubectl-kruise")).args(arguments).output().unwrap()
}

#[test]
fn it_says_its_version_and_refuses_what_it_does_not_know() {
    let version = run(&["version", "--client"]);
    assert!(
        version.status.success()
            && String::from_utf8_lossy(&version.stdout).contains(env!("CARGO_PKG_VERSION"))
    );
    let wrong = run(&["rollout", "sideways"]);
    assert!(!wrong.status.success() && String::from_utf8_lossy(&wrong.stderr).contains("sideways"));
}
