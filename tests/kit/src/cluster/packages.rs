//! The programs that real nodes need, by the Debian package they come in.

use std::path::Path;
use std::process::Command;

use crate::binaries::announce;

/// Files and the packages that have them.
const NEEDED: [(&str, &str); 9] = [
    ("/usr/bin/containerd", "containerd"),
    ("/usr/sbin/runc", "runc"),
    ("/usr/lib/cni/bridge", "containernetworking-plugins"),
    ("/usr/sbin/ip", "iproute2"),
    ("/usr/sbin/iptables", "iptables"),
    ("/usr/sbin/conntrack", "conntrack"),
    ("/usr/bin/docker-registry", "docker-registry"),
    ("/usr/bin/busybox", "busybox-static"),
    ("/usr/bin/openssl", "openssl"),
];

/// Installs what is missing, with apt-get.
pub(super) fn require() {
    let exists =
        |file: &str| ["", "/usr"].iter().any(|root| Path::new(&file.replacen("/usr", root, 1)).exists());
    let missing: Vec<&str> =
        NEEDED.iter().filter(|(file, _)| !exists(file)).map(|&(_, package)| package).collect();
    if missing.is_empty() {
        return;
    }
    announce(&format!("installing {}", missing.join(" ")));
    let status = Command::new("apt-get")
        .args(["install", "--yes", "--no-install-recommends"])
        .args(&missing)
        .env("DEBIAN_FRONTEND", "noninteractive")
        .status();
    let installed = status.is_ok_and(|status| status.success());
    assert!(installed, "real nodes need {}: please install it", missing.join(" "));
}
