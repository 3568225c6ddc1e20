//! Where the programs of Kubernetes come from.
//!
//! A program found in the directory `KUBEBUILDER_ASSETS` is used as it is. Every other is built once
//! from `tests/cluster` (minutes the first time, seconds with a warm Go cache, nothing while its
//! sources stay the same), of the Kubernetes that its `go.mod` requires, or of the version that
//! `KUTTER_KUBERNETES` names, such as `v1.30.14`.

use std::fs::{self, File};
use std::io::{ErrorKind, Write};
use std::os::unix::fs::symlink;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::sync::OnceLock;

use sha2::{Digest, Sha256};

/// Says which versions are built.
const GO_MOD: &str = include_str!("../../cluster/go.mod");
/// The names that the one program `testcluster` answers to, beside etcd's.
const COMPONENTS: [&str; 6] =
    ["kube-apiserver", "kube-controller-manager", "kube-scheduler", "kubelet", "kube-proxy", "kubectl"];
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

/// Shows the person at the terminal the progress: unlike `eprintln!`, it is visible
/// while a test runs.
pub(crate) fn announce(message: &str) {
    drop(writeln!(std::io::stderr(), "kit: {message}"));
}

/// The directory of the built programs.
fn built() -> &'static Path {
    static DIRECTORY: OnceLock<PathBuf> = OnceLock::new();
    DIRECTORY.get_or_init(|| {
        let sources = Path::new(env!("CARGO_MANIFEST_DIR")).join("../cluster");
        let sources = sources.canonicalize().expect("tests/cluster is there");
        let own = module_version("k8s.io/kubernetes");
        let bin = sources.join("bin");
        let packages = [".", "./workload", "helm.sh/helm/v3/cmd/helm"];
        build(&sources, &bin, own, |go| go.args(packages));
        COMPONENTS.into_iter().chain(["etcd"]).for_each(|name| link(&bin.join(name), "testcluster"));
        let wanted = kubernetes_version();
        if wanted == own {
            return bin;
        }
        let other = bin.join(wanted);
        build(&sources, &other, wanted, |go| {
            let file = other.join("go.mod");
            fs::write(&file, go_mod(wanted)).expect("go.mod can be written");
            go.args(["-mod=mod", "-modfile"]).arg(file).arg(".")
        });
        COMPONENTS.iter().for_each(|name| link(&other.join(name), "testcluster"));
        // These are of no version of Kubernetes. Older etcds can't listen on files.
        ["etcd", "helm", "workload"].iter().for_each(|name| link(&other.join(name), &format!("../{name}")));
        other
    })
}

/// Builds into `bin` what `select` names to the go command, unless it is there already.
fn build(sources: &Path, bin: &Path, kubernetes: &str, select: impl FnOnce(&mut Command) -> &mut Command) {
    fs::create_dir_all(bin).expect("tests/cluster/bin can be created");
    // Test programs run in parallel: one builds, the others wait for it here.
    let lock = File::create(bin.join(".lock")).expect("the lock file can be created");
    lock.lock().expect("the lock file can be locked");

    let stamp = bin.join(".stamp");
    let linker_flags = linker_flags(kubernetes);
    let digest = digest(sources, &linker_flags);
    if fs::read_to_string(&stamp).is_ok_and(|previous| previous == digest) {
        return;
    }
    announce(&format!(
        "building Kubernetes {kubernetes} from tests/cluster (about 10 minutes with a cold Go cache)"
    ));
    let mut go = Command::new("go");
    go.args([
        "build",
        "-buildvcs=false",
        "-trimpath",
        "-gcflags=all=-dwarf=false",
        "-ldflags",
        &linker_flags,
        "-o",
    ])
    .arg(bin.join(""))
    // A quarter of the time would go into collecting garbage of the compiler.
    .envs([("CGO_ENABLED", "0"), ("GOGC", "400")]);
    let status = select(go.current_dir(sources))
        .status()
        .unwrap_or_else(|error| panic!("cannot run go ({error}): install Go, or set KUBEBUILDER_ASSETS"));
    assert!(status.success(), "go build in tests/cluster failed ({status})");
    fs::write(&stamp, digest).expect("the stamp can be written");
}

fn link(link: &Path, target: &str) {
    match symlink(target, link) {
        Err(error) if error.kind() != ErrorKind::AlreadyExists => panic!("cannot create {link:?}: {error}"),
        _ => {}
    }
}

/// Requires one version of Kubernetes, its parts of the same version, and of all others what it requires.
fn go_mod(kubernetes: &str) -> String {
    let module = format!("k8s.io/kubernetes@{kubernetes}");
    let output = Command::new("go").args(["mod", "download", "-json", &module]).output().expect("go runs");
    let answer: serde_json::Value = serde_json::from_slice(&output.stdout).expect("go prints JSON");
    let file = answer["GoMod"].as_str().unwrap_or_else(|| panic!("there is no {module}: {answer}"));
    let part = kubernetes.replacen("v1.", "v0.", 1);
    let theirs = fs::read_to_string(file).expect("go has downloaded it");
    let lines = theirs.lines().map(str::trim).filter_map(|line| match line.split_once(' ')? {
        ("go", _) => Some(line.to_owned()),
        (module, "v0.0.0" | "v0.0.0 // indirect") => Some(format!("replace {module} => {module} {part}")),
        _ => None,
    });
    let head = ["module testcluster".to_owned(), format!("require k8s.io/kubernetes {kubernetes}")];
    head.into_iter().chain(lines).collect::<Vec<_>>().join("\n")
}

/// The version of Kubernetes that runs, such as `v1.34.4`.
pub(crate) fn kubernetes_version() -> &'static str {
    static VERSION: OnceLock<String> = OnceLock::new();
    VERSION.get_or_init(|| {
        std::env::var("KUTTER_KUBERNETES").unwrap_or_else(|_| module_version("k8s.io/kubernetes").to_owned())
    })
}

/// Its minor version, such as 34.
pub(crate) fn kubernetes_minor() -> u32 {
    minor(kubernetes_version()).parse().expect("a version has numbers")
}

fn minor(kubernetes: &str) -> &str {
    kubernetes.split('.').nth(1).unwrap_or_else(|| panic!("{kubernetes} is not a version"))
}

fn module_version(module: &str) -> &'static str {
    let words = GO_MOD.lines().map(|line| line.split_whitespace().collect::<Vec<_>>());
    let version =
        words.filter(|words| words.first() == Some(&module)).find_map(|words| words.get(1).copied());
    version.unwrap_or_else(|| panic!("go.mod doesn't require {module}"))
}

/// Tells the programs their versions, as their own releases do; helm judges by them whether
/// a chart's `kubeVersion` is met.
fn linker_flags(kubernetes: &str) -> String {
    let helm = module_version("helm.sh/helm/v3");
    let (major, minor) = ("1", minor(kubernetes));
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
