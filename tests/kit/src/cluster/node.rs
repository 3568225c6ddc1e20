//! One node: its network, its configuration files and its processes.

use std::ffi::OsStr;
use std::fs;
use std::os::unix::ffi::OsStrExt;
use std::os::unix::fs::MetadataExt;
use std::path::Path;
use std::process::Command;

use serde_json::json;

use super::network::Network;
use crate::binaries;
use crate::supervisor::Process;

pub(super) const PAUSE_IMAGE: &str = "registry.k8s.io/pause:3.10";

const CGROUPS: &str = "/sys/fs/cgroup";

/// Raises kernel limits that several kubelets exceed.
pub(super) fn prepare_machine() {
    for (name, wanted) in [("max_user_instances", 8192), ("max_user_watches", 524_288)] {
        let file = format!("/proc/sys/fs/inotify/{name}");
        let limit: u32 =
            fs::read_to_string(&file).ok().and_then(|text| text.trim().parse().ok()).unwrap_or(0);
        if limit < wanted {
            fs::write(&file, wanted.to_string()).expect("root may raise the inotify limits");
        }
    }
    // Frames between nodes are the bridge's, not those of the machine's firewall. Without the
    // module the file doesn't exist, and neither does the problem.
    drop(fs::write("/proc/sys/net/bridge/bridge-nf-call-iptables", "0"));
}

/// What the nodes of a cluster share.
pub(super) struct Site<'a> {
    /// The cluster's directory.
    pub(super) directory: &'a Path,
    /// Its addresses.
    pub(super) network: Network,
    /// The port of the registry, on the machine's address.
    pub(super) registry: u16,
    /// Access to the API server.
    pub(super) kubeconfig: &'a Path,
    /// How many nodes there are.
    pub(super) count: usize,
}

/// Starts node `number` of a cluster.
pub(super) fn start(site: &Site<'_>, number: usize) -> Process {
    let name = format!("node-{number}");
    let namespace = format!("kutter-{name}");
    let directory = site.directory.join(&name);
    site.network.connect(&namespace, number, site.count);
    make_cgroups(&name);
    write_configuration(site, &directory, &name, number);
    let kube_proxy = binaries::path("kube-proxy");
    let kubelet = binaries::path("kubelet");
    let arguments = [
        format!("--net=/run/netns/{namespace}").into(),
        "unshare".into(),
        // When the process that we started is killed, so are all that live in its namespaces.
        "--mount".into(),
        "--propagation=private".into(),
        "--pid".into(),
        "--fork".into(),
        "--kill-child".into(),
        "--mount-proc".into(),
        "sh".into(),
        "-c".into(),
        include_str!("node.sh").into(),
        name.clone().into(),
        directory.clone().into_os_string(),
        site.kubeconfig.into(),
        name.into(),
        site.network.node(number).into(),
        kube_proxy.into_os_string(),
        kubelet.into_os_string(),
        site.network.pods().into(),
    ];
    Process::start(Path::new("nsenter"), arguments, &directory.join("node.log"))
}

/// Kills the process of a node, on its network, that runs this program.
pub(super) fn kill(node: &str, program: &str) {
    let network = |path: &Path| fs::metadata(path).map(|file| (file.dev(), file.ino())).ok();
    let wanted = network(&Path::new("/run/netns").join(format!("kutter-{node}")));
    let runs = |process: &Path| {
        let line = fs::read(process.join("cmdline")).unwrap_or_default();
        let first = line.split(|byte| *byte == 0).next().unwrap_or_default();
        Path::new(OsStr::from_bytes(first)).file_name() == Some(program.as_ref())
    };
    let mut processes =
        fs::read_dir("/proc").expect("processes are listed").flatten().map(|entry| entry.path());
    let process = processes.find(|process| runs(process) && network(&process.join("ns/net")) == wanted);
    let process = process.unwrap_or_else(|| panic!("{program} does not run on {node}"));
    let number = process.file_name().expect("a process has a number");
    let status = Command::new("kill").arg("-KILL").arg(number).status();
    assert!(status.is_ok_and(|status| status.success()), "{program} can't be killed");
}

/// A control group for the node, in the one hierarchy of version 2 or in each of version 1.
fn make_cgroups(name: &str) {
    let root = Path::new(CGROUPS);
    if root.join("cgroup.controllers").exists() {
        for parent in [root.to_owned(), root.join("kutter")] {
            fs::create_dir_all(&parent).expect("root may make control groups");
            for controller in ["cpu", "cpuset", "memory", "pids", "io", "hugetlb"] {
                // A controller that this machine lacks, the kubelet doesn't miss.
                drop(fs::write(parent.join("cgroup.subtree_control"), format!("+{controller}")));
            }
        }
        fs::create_dir_all(root.join("kutter").join(name)).expect("root may make control groups");
        return;
    }
    let hierarchies = fs::read_dir(root).expect("control groups are mounted").flatten();
    for hierarchy in hierarchies.map(|entry| entry.path()).filter(|path| path.is_dir()) {
        let ours = hierarchy.join("kutter");
        let node = ours.join(name);
        fs::create_dir_all(&node).expect("root may make control groups");
        // New groups of version 1 have no processors and memory until these are set.
        for file in ["cpuset.cpus", "cpuset.mems"] {
            if let Ok(all) = fs::read(hierarchy.join(file)) {
                fs::write(ours.join(file), &all).expect("the processors of the machine");
                fs::write(node.join(file), &all).expect("the processors of the machine");
            }
        }
    }
}

fn write_configuration(site: &Site<'_>, directory: &Path, name: &str, number: usize) {
    let network = json!({
        "cniVersion": "0.4.0", "name": "kutter",
        "plugins": [{
            "type": "bridge", "bridge": "cni0", "isGateway": true, "hairpinMode": true,
            "ipam": {
                "type": "host-local", "dataDir": "/run/cni-addresses",
                "ranges": [[{"subnet": site.network.pods_of(number)}]], "routes": [{"dst": "0.0.0.0/0"}],
            },
        }],
    });
    let mut kubelet = json!({
        "apiVersion": "kubelet.config.k8s.io/v1beta1", "kind": "KubeletConfiguration",
        "authentication": {"anonymous": {"enabled": true}, "webhook": {"enabled": false}},
        "authorization": {"mode": "AlwaysAllow"},
        "containerRuntimeEndpoint": "unix:///run/containerd/containerd.sock",
        "cgroupDriver": "cgroupfs", "cgroupRoot": format!("/kutter/{name}"), "failCgroupV1": false,
        "enforceNodeAllocatable": [],
        "failSwapOn": false, "resolvConf": "",
        "clusterDNS": ["10.202.0.10"], "clusterDomain": "cluster.local",
        "evictionHard": {"memory.available": "100Mi", "nodefs.available": "1%", "imagefs.available": "1%"},
        "imageGCHighThresholdPercent": 100,
        "maxPods": 250, "syncFrequency": "20s", "shutdownGracePeriod": "0s",
    });
    // What newer kubelets do of themselves: they record which images they pulled with which Secrets.
    if (33..35).contains(&binaries::kubernetes_minor()) {
        kubelet["featureGates"] = json!({"KubeletEnsureSecretPulledImages": true});
    }
    let directory_text = directory.display();
    let containerd = format!(
        r#"version = 2
[plugins."io.containerd.grpc.v1.cri"]
  sandbox_image = "{PAUSE_IMAGE}"
  # Without CAP_SYS_RESOURCE no sandbox would start: its score may not be lowered.
  restrict_oom_score_adj = true
  [plugins."io.containerd.grpc.v1.cri".cni]
    bin_dir = "/usr/lib/cni"
    conf_dir = "{directory_text}/cni"
  [plugins."io.containerd.grpc.v1.cri".registry]
    config_path = "{directory_text}/registries"
  [plugins."io.containerd.grpc.v1.cri".containerd.runtimes.runc]
    runtime_type = "io.containerd.runc.v2"
"#
    );
    let (host, port) = (site.network.host(), site.registry);
    let mirror = format!("[host.\"http://{host}:{port}\"]\n  capabilities = [\"pull\", \"resolve\"]\n");
    let files = [
        ("cni/10-kutter.conflist", network.to_string()),
        ("registries/_default/hosts.toml", mirror),
        ("containerd.toml", containerd),
        ("kubelet.yaml", kubelet.to_string()),
    ];
    for (file, text) in files {
        let path = directory.join(file);
        fs::create_dir_all(path.parent().expect("a file in the node's directory"))
            .expect("the node's directory can be made");
        fs::write(path, text).expect("the node's directory is writable");
    }
}
