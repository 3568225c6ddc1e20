//! Where the programs of Kubernetes come from.
//!
//! A program found in the directory `KUBEBUILDER_ASSETS` is used as it is. Every other is built once
//! from `tests/cluster` (minutes the first time, seconds with a warm Go cache, nothing while its
//! sources stay the same).

use std::fs::{self, File};
use std::io::{ErrorKind, Write};
use std::os::unix::fs::symlink;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::sync::OnceLock;

use sha2::{Digest, Sha256};

/// Says which versions are built.
const GO_MOD: &str = include_str!("../../cluster/go.mod");
/// The names that the one program `testcluster` answers to.
const COMPONENTS: [&str; 7] = [
    "etcd",
    "kube-apiserver",
    "kube-controller-manager",
    "kube-scheduler",
    "kubelet",
    "kube-proxy",
    "kubectl",
];
/// What the built programs depend on, inside `tests/cluster`.
const SOURCES: [&str; 4] = ["main.go", "workload/main.go", "go.mod", "go.sum"];

/// The path of a program: `etcd`, `kube-apiserver`, `kube-controller-manager`, `kube-scheduler`,
/// `kubelet`, `kube-proxy`, `kubectl`, `helm`, or `workload` (what runs in test containers).
///
/// # Panics
/// When it has to be built and that fails.
pub fn path(name: &str) -> PathBuf {
    std::env::var_os("KUBEBUILDER_ASSETS")
        .map(|assets| Path::new(&assets).join(name))
        .filter(|path| path.exists())
        .unwrap_or_else(|| built().join(name))
}

/// Tells the person in front of the terminal what is going on: unlike `eprintln!`, it is seen
/// while a test runs.
pub(crate) fn announce(message: &str) {
    drop(writeln!(std::io::stderr(), "kit: {message}"));
}

/// The directory of the built programs.
fn built() -> &'static Path {
    static DIRECTORY: OnceLock<PathBuf> = OnceLock::new();
    DIRECTORY.get_or_init(|| {
        let sources = Path::new(env!("CARGO_MANIFEST_DIR")).join("../cluster");
        build(&sources.canonicalize().expect("tests/cluster is there"))
    })
}

fn build(sources: &Path) -> PathBuf {
    let bin = sources.join("bin");
    fs::create_dir_all(&bin).expect("tests/cluster/bin can be created");
    // Test programs run in parallel: one builds, the others wait for it here.
    let lock = File::create(bin.join(".lock")).expect("the lock file can be created");
    lock.lock().expect("the lock file can be locked");

    let stamp = bin.join(".stamp");
    let linker_flags = linker_flags();
    let digest = digest(sources, &linker_flags);
    if fs::read_to_string(&stamp).is_ok_and(|previous| previous == digest) {
        return bin;
    }
    announce("building Kubernetes and helm from tests/cluster (about 10 minutes with a cold Go cache)");
    go_build(sources, &linker_flags);
    for component in COMPONENTS {
        let link = bin.join(component);
        match symlink("testcluster", &link) {
            Err(error) if error.kind() != ErrorKind::AlreadyExists => {
                panic!("cannot create {link:?}: {error}")
            }
            _ => {}
        }
    }
    fs::write(&stamp, digest).expect("the stamp can be written");
    bin
}

fn go_build(sources: &Path, linker_flags: &str) {
    let status = Command::new("go")
        .args(["build", "-buildvcs=false", "-trimpath", "-ldflags", linker_flags, "-o", "bin/"])
        .args([".", "./workload", "helm.sh/helm/v3/cmd/helm"])
        .current_dir(sources)
        .env("CGO_ENABLED", "0")
        .status()
        .unwrap_or_else(|error| panic!("cannot run go ({error}): install Go, or set KUBEBUILDER_ASSETS"));
    assert!(status.success(), "go build in tests/cluster failed ({status})");
}

/// The version of Kubernetes that is built, such as `v1.34.4`.
pub(crate) fn kubernetes_version() -> &'static str {
    module_version("k8s.io/kubernetes")
}

fn module_version(module: &str) -> &'static str {
    let words = GO_MOD.lines().map(|line| line.split_whitespace().collect::<Vec<_>>());
    let version =
        words.filter(|words| words.first() == Some(&module)).find_map(|words| words.get(1).copied());
    version.unwrap_or_else(|| panic!("go.mod doesn't require {module}"))
}

/// Tells the programs their versions, as their own releases do; helm judges by them whether
/// a chart's `kubeVersion` is met.
fn linker_flags() -> String {
    let kubernetes = kubernetes_version();
    let helm = module_version("helm.sh/helm/v3");
    let [major, minor, _] = kubernetes.trim_start_matches('v').split('.').collect::<Vec<_>>()[..] else {
        panic!("{kubernetes} is not a version");
    };
    let variables = [
        ("k8s.io/component-base/version.gitVersion", kubernetes),
        ("k8s.io/component-base/version.gitMajor", major),
        ("k8s.io/component-base/version.gitMinor", minor),
        ("helm.sh/helm/v3/internal/version.version", helm),
        ("helm.sh/helm/v3/pkg/chartutil.k8sVersionMajor", major),
        ("helm.sh/helm/v3/pkg/chartutil.k8sVersionMinor", minor),
        ("helm.sh/helm/v3/pkg/lint/rules.k8sVersionMajor", major),
        ("helm.sh/helm/v3/pkg/lint/rules.k8sVersionMinor", minor),
    ];
    variables.iter().fold("-s -w".to_owned(), |flags, (name, value)| format!("{flags} -X {name}={value}"))
}

fn digest(sources: &Path, linker_flags: &str) -> String {
    let mut hash = Sha256::new();
    hash.update(linker_flags);
    for name in SOURCES {
        hash.update(
            fs::read(sources.join(name)).unwrap_or_else(|error| panic!("cannot read {name}: {error}")),
        );
    }
    crate::hex(&hash.finalize())
}
