//! A whole Kubernetes with real nodes on one Linux machine, as root.
//!
//! Each node has a network, mount and process namespace of its own, in which containerd, kubelet and
//! kube-proxy find the paths of an ordinary machine. A bridge connects the nodes with the control
//! plane and an image registry on the machine itself, in address ranges and at ports that are free. No
//! image comes from outside: see [`Image`].
//! The cluster has no DNS; Pods reach the API server and Services by address.
//!
//! The kernel's names (bridge `kutter0`, namespaces `kutter-node-N`, cgroup `kutter`) exist once, so
//! one cluster at a time runs on a machine.

mod image;
mod network;
mod node;
mod packages;
mod registry;

use std::fs::{self, File, TryLockError};
use std::io::Write;
use std::net::{Ipv4Addr, SocketAddr, TcpStream};
use std::path::{Path, PathBuf};
use std::process::Command;
use std::time::{Duration, Instant};

use k8s_openapi::api::core::v1::Node;
use kube::api::{Api, ListParams};

pub use image::Image;
pub use registry::{Asked, Behaviour, Registry};

use crate::binaries::announce;
use crate::supervisor::Process;
use crate::{ApiServer, Options, wait_within};

/// The usual ports of the registry and the API server; where something else listens there, the next free one.
const PORTS: (u16, u16) = (5000, 6443);
const READY_DEADLINE: Duration = Duration::from_secs(180);
/// Held by the process whose cluster exists.
const LOCK: &str = "/run/kutter-cluster.lock";
/// Held by a janitor until it has removed everything, also when the process is gone whose cluster it was.
const JANITOR_LOCK: &str = "/run/kutter-cluster-janitor.lock";

/// A running cluster. Dropping it removes everything.
#[derive(Debug)]
pub struct Cluster {
    // Dropped in order: nodes first, then the servers, then what they left in kernel and files.
    _nodes: Vec<Process>,
    _registry: Process,
    server: ApiServer,
    directory: PathBuf,
    names: Vec<String>,
    network: network::Network,
    registry_port: u16,
    _janitor: Process,
    _lock: File,
}

impl Cluster {
    /// Starts a cluster with that many nodes (`node-1`, …) in a temporary directory and waits until
    /// they are ready (10 to 20 s).
    ///
    /// # Panics
    /// Without root, when another cluster runs on this machine, and when a part doesn't start.
    pub async fn start(nodes: usize) -> Self {
        Self::start_in(&std::env::temp_dir().join("kutter-cluster"), nodes, Options::default()).await
    }

    /// [`start`](Self::start) in a given directory, which must not exist or be left over from an
    /// earlier cluster, with options for the control plane.
    ///
    /// # Panics
    /// As [`start`](Self::start).
    pub async fn start_in(directory: &Path, nodes: usize, options: Options) -> Self {
        assert!(can_run(), "real nodes need root");
        packages::require();
        let directory = std::path::absolute(directory).expect("a path of this machine");
        let lock = lock(&directory);
        claim(&directory);
        clean(&directory);
        claim(&directory);
        let script = cleanup_script("exec 3>\"$2\"; flock 3; read -r _");
        let arguments = [directory.clone().into(), JANITOR_LOCK.into()];
        let janitor = Process::run_script("janitor", &script, arguments, None);

        announce(&format!("starting a cluster in {}", directory.display()));
        let network = network::Network::free();
        network.bridge();
        node::prepare_machine();
        let (host, port) = (network.host(), network.free_port(PORTS.0));
        let registry = start_registry(&directory, host, port).await;
        image::push_standard_images(&directory);
        let control_plane = directory.join("control-plane");
        fs::create_dir(&control_plane).expect("a directory for the control plane can be made");
        let options =
            options.with_controller_manager().with_scheduler().advertise(host, network.free_port(PORTS.1));
        let server = ApiServer::start_in(&control_plane, options).await;
        announce(&format!("the API server is ready; kubeconfig: {}", server.kubeconfig().display()));

        let names: Vec<String> = (1..=nodes).map(|number| format!("node-{number}")).collect();
        let site = node::Site {
            directory: &directory,
            network,
            registry: port,
            kubeconfig: server.kubeconfig(),
            count: nodes,
        };
        let mut processes: Vec<Process> = (1..=nodes).map(|number| node::start(&site, number)).collect();
        wait_for_nodes(&server, &names, &mut processes).await;
        announce(&format!("{nodes} nodes are ready"));
        Self {
            _nodes: processes,
            _registry: registry,
            server,
            directory,
            names,
            network,
            registry_port: port,
            _janitor: janitor,
            _lock: lock,
        }
    }

    /// The control plane, with controller manager and scheduler.
    pub fn server(&self) -> &ApiServer {
        &self.server
    }

    /// The names of the nodes.
    pub fn nodes(&self) -> &[String] {
        &self.names
    }

    /// The cluster's directory, with the logs of each node in a subdirectory of its name.
    pub fn directory(&self) -> &Path {
        &self.directory
    }

    /// Makes an image available under a reference such as `kutter:1.0`. A reference pushed again
    /// reaches only containers that are pulled again. Returns the digest by which it is known.
    pub fn push_image(&self, reference: &str, image: &Image) -> String {
        image.push(&self.directory, reference)
    }

    /// A registry with the images of this cluster that takes requests as `script` says.
    pub fn registry(&self, script: impl Fn(&Asked) -> Behaviour + Send + Sync + 'static) -> Registry {
        let nodes: Vec<PathBuf> = self.names.iter().map(|name| self.directory.join(name)).collect();
        let upstream = SocketAddr::from((self.network.host(), self.registry_port));
        Registry::start(self.network.listen(self.registry_port + 1), upstream, &nodes, script)
    }

    /// Kills a process of a node that is on the node's network: its containerd, which is started again at once
    /// while its containers go on, or a container of a Pod with `hostNetwork`.
    ///
    /// # Panics
    /// When it does not run.
    pub fn kill(&self, node: &str, program: &str) {
        node::kill(node, program);
    }
}

/// Whether real nodes are possible here: they need root.
pub fn can_run() -> bool {
    let status = fs::read_to_string("/proc/self/status").unwrap_or_default();
    status.lines().any(|line| line.starts_with("Uid:\t0\t0\t"))
}

/// Installs the Debian packages that nodes need, where they are missing and that is possible.
///
/// # Panics
/// When something is missing and can't be installed.
pub fn install_packages() {
    packages::require();
}

/// Pushes an image into the running cluster of a directory, from another process.
///
/// # Panics
/// When there is no cluster.
pub fn push_image(directory: &Path, reference: &str, image: &Image) {
    assert!(directory.join("registry").is_dir(), "no cluster runs in {}", directory.display());
    image.push(directory, reference);
}

/// The process that runs the cluster of a directory.
///
/// # Panics
/// When the cluster that runs is that of another directory.
pub fn owner(directory: &Path) -> Option<u32> {
    let file = File::open(LOCK).ok()?;
    if !matches!(file.try_lock(), Err(TryLockError::WouldBlock)) {
        return None;
    }
    let text = fs::read_to_string(LOCK).ok()?;
    let (process, place) = text.trim().split_once(' ')?;
    assert!(
        Path::new(place) == std::path::absolute(directory).ok()?,
        "the cluster that runs here is in {place}"
    );
    process.parse().ok()
}

/// Removes what a cluster left behind whose process was killed in the middle.
///
/// # Panics
/// When a cluster is running.
pub fn remove_leftovers(directory: &Path) {
    let _lock = lock(directory);
    clean(directory);
}

fn lock(directory: &Path) -> File {
    let mut file = File::options()
        .create(true)
        .truncate(false)
        .read(true)
        .write(true)
        .open(LOCK)
        .expect("/run is writable");
    match file.try_lock() {
        Ok(()) => {}
        Err(TryLockError::WouldBlock) => {
            let holder = fs::read_to_string(LOCK).unwrap_or_default();
            panic!(
                "another cluster runs on this machine (process and directory: {}), and only one can",
                holder.trim()
            );
        }
        Err(TryLockError::Error(error)) => panic!("cannot lock {LOCK}: {error}"),
    }
    file.set_len(0)
        .and_then(|()| writeln!(file, "{} {}", std::process::id(), directory.display()))
        .expect("the lock file is writable");
    await_janitor();
    file
}

/// Waits until the janitor of an earlier cluster is done: it would remove parts of the next one too.
fn await_janitor() {
    let file = File::create(JANITOR_LOCK).expect("/run is writable");
    let start = Instant::now();
    while file.try_lock().is_err() {
        assert!(start.elapsed() < READY_DEADLINE, "what an earlier cluster left is not removed");
        std::thread::sleep(Duration::from_millis(100));
    }
}

/// Makes the directory ours, and refuses one with other people's files: it will be removed.
fn claim(directory: &Path) {
    let mark = directory.join(".kutter-cluster");
    let strange = fs::read_dir(directory).is_ok_and(|mut entries| entries.next().is_some()) && !mark.exists();
    assert!(
        !strange,
        "{} holds other files; choose a directory that is empty or absent",
        directory.display()
    );
    fs::create_dir_all(directory).expect("the cluster's directory can be made");
    fs::write(mark, "").expect("the cluster's directory is writable");
}

fn cleanup_script(first: &str) -> String {
    format!("{first}\n{}", include_str!("cluster/cleanup.sh"))
}

fn clean(directory: &Path) {
    let script = cleanup_script("");
    let status =
        Command::new("sh").args(["-c", &script, "cleanup"]).arg(directory).status().expect("sh runs");
    assert!(status.success(), "what an earlier cluster left can't be removed ({status})");
}

/// Starts the registry and waits until it listens.
async fn start_registry(directory: &Path, host: Ipv4Addr, port: u16) -> Process {
    let config = directory.join("registry.yaml");
    let storage = directory.join("registry");
    fs::create_dir(&storage).expect("a directory for the registry can be made");
    let text = serde_json::json!({
        "version": "0.1",
        "log": {"level": "warn"},
        "storage": {"filesystem": {"rootdirectory": storage}},
        "http": {"addr": format!("{host}:{port}")},
    });
    fs::write(&config, text.to_string()).expect("the registry's configuration can be written");
    let arguments = ["serve".into(), config.into_os_string()];
    let mut registry =
        Process::start(Path::new("docker-registry"), arguments, &directory.join("registry.log"));
    wait_within(READY_DEADLINE, "the registry to listen", async || {
        registry.assert_running();
        TcpStream::connect((host, port)).map(drop)
    })
    .await;
    registry
}

async fn wait_for_nodes(server: &ApiServer, names: &[String], processes: &mut [Process]) {
    let nodes = Api::<Node>::all(server.client());
    wait_within(READY_DEADLINE, "the nodes to be ready", async || {
        processes.iter_mut().for_each(Process::assert_running);
        let list = nodes.list(&ListParams::default()).await.map_err(|error| error.to_string())?;
        let ready: Vec<_> =
            list.items.iter().filter(|node| is_ready(node)).map(|node| node.metadata.name.clone()).collect();
        if ready.len() == names.len() { Ok(()) } else { Err(format!("only {ready:?} are ready")) }
    })
    .await;
}

fn is_ready(node: &Node) -> bool {
    let conditions = node.status.iter().flat_map(|status| status.conditions.iter().flatten());
    conditions.into_iter().any(|condition| condition.type_ == "Ready" && condition.status == "True")
}
