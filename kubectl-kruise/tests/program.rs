//! The program `kubectl-kruise` by itself; what it does is shown through kubectl, in `tests/e2e/plugin`.

use std::process::Command;

#[test]
fn it_says_its_version_and_refuses_what_it_does_not_know() {
    let run = |arguments: &[&str]| {
        let output = Command::new(env!("CARGO_BIN_EXE_kubectl-kruise")).args(arguments).output().unwrap();
        (
            output.status.success(),
            String::from_utf8(output.stdout).unwrap(),
            String::from_utf8(output.stderr).unwrap(),
        )
    };
    let (succeeded, said, _) = run(&["version", "--client"]);
    assert!(succeeded && said.contains(env!("CARGO_PKG_VERSION")), "{said}");
    let (succeeded, _, error) = run(&["rollout", "sideways"]);
    assert!(!succeeded && error.contains("sideways"), "{error}");
}
