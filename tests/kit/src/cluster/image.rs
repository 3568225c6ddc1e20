//! OCI images, made on the spot and put straight into the storage of the registry.

use std::collections::BTreeMap;
use std::fs;
use std::path::Path;
use std::process::Command;

use serde_json::json;
use sha2::{Digest, Sha256};

use crate::binaries;

/// Directories of the images with a shell; `/tmp` is for everyone.
const DIRECTORIES: [&str; 9] = ["bin", "etc", "home", "root", "run", "tmp", "usr/sbin", "var/log", "var/run"];

/// A container image on an empty base.
///
/// ```no_run
/// # use kit::Image;
/// # fn example(cluster: &kit::Cluster) {
/// let image = Image::new().file("manager", "target/kutter".as_ref()).entrypoint(["/manager"]).user("65532:65532");
/// cluster.push_image("kutter:dev", &image);
/// # }
/// ```
#[derive(Debug, Clone, Default)]
pub struct Image {
    /// Content and mode.
    files: BTreeMap<String, (Vec<u8>, u32)>,
    links: BTreeMap<String, String>,
    directories: Vec<&'static str>,
    entrypoint: Vec<String>,
    command: Vec<String>,
    user: String,
}

impl Image {
    /// An image without files.
    pub fn new() -> Self {
        Self::default()
    }

    /// An image with a shell: Debian's static busybox with links for all its commands.
    pub fn busybox() -> Self {
        let list = Command::new("busybox").arg("--list").output().expect("busybox runs");
        let commands = String::from_utf8_lossy(&list.stdout);
        let link = |name: &str| (format!("bin/{name}"), "/bin/busybox".to_owned());
        let image = Self {
            links: commands.lines().filter(|&name| name != "busybox").map(link).collect(),
            directories: DIRECTORIES.to_vec(),
            ..Self::default()
        };
        let program = ["/usr/bin/busybox", "/bin/busybox"].into_iter().find(|path| Path::new(path).exists());
        image
            .file("bin/busybox", Path::new(program.expect("busybox-static is installed")))
            .text("etc/passwd", "root:x:0:0:root:/root:/bin/sh\nnobody:x:65534:65534:nobody:/:/bin/false\n")
            .text("etc/group", "root:x:0:\nnogroup:x:65534:\n")
            .command(["sh"])
    }

    /// With a copy of a file, executable, at a path in the image.
    ///
    /// # Panics
    /// When the file can't be read.
    #[must_use]
    pub fn file(mut self, path: &str, source: &Path) -> Self {
        let content =
            fs::read(source).unwrap_or_else(|error| panic!("cannot read {}: {error}", source.display()));
        self.files.insert(path.trim_start_matches('/').to_owned(), (content, 0o755));
        self
    }

    /// With a file of this text.
    #[must_use]
    pub fn text(mut self, path: &str, text: &str) -> Self {
        self.files.insert(path.trim_start_matches('/').to_owned(), (text.into(), 0o644));
        self
    }

    /// What a container runs.
    #[must_use]
    pub fn entrypoint<const N: usize>(mut self, words: [&str; N]) -> Self {
        self.entrypoint = words.map(str::to_owned).to_vec();
        self
    }

    /// The arguments of the entrypoint, which a Pod's `args` replace.
    #[must_use]
    pub fn command<const N: usize>(mut self, words: [&str; N]) -> Self {
        self.command = words.map(str::to_owned).to_vec();
        self
    }

    /// Who runs it: a number, or `USER:GROUP`.
    #[must_use]
    pub fn user(mut self, user: &str) -> Self {
        user.clone_into(&mut self.user);
        self
    }

    /// Stores the image in the registry of the cluster in `directory`.
    pub(super) fn push(&self, directory: &Path, reference: &str) {
        let (repository, tag) = split_reference(reference);
        let repository = Repository::new(directory, &repository);
        let layer = repository.blob(&self.layer());
        let config = json!({
            "architecture": architecture(), "os": "linux",
            "config": {
                "Env": ["PATH=/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin"],
                "Entrypoint": self.entrypoint, "Cmd": self.command, "User": self.user, "WorkingDir": "/",
                // Gives each reference a digest of its own, as different versions have.
                "Labels": {"org.opencontainers.image.ref.name": reference},
            },
            "rootfs": {"type": "layers", "diff_ids": [layer.digest]},
        });
        let config = repository.blob(config.to_string().as_bytes());
        let descriptor = |kind: &str, blob: &Blob| json!({"mediaType": format!("application/vnd.oci.image.{kind}"), "digest": blob.digest, "size": blob.size});
        let manifest = json!({
            "schemaVersion": 2,
            "mediaType": "application/vnd.oci.image.manifest.v1+json",
            "config": descriptor("config.v1+json", &config),
            "layers": [descriptor("layer.v1.tar", &layer)],
        });
        repository.tag(&tag, manifest.to_string().as_bytes());
    }

    fn layer(&self) -> Vec<u8> {
        let mut archive = tar::Builder::new(Vec::new());
        let header = |kind: tar::EntryType, mode: u32, size: usize| {
            let mut header = tar::Header::new_gnu();
            header.set_entry_type(kind);
            header.set_mode(mode);
            header.set_size(size as u64);
            header
        };
        for directory in &self.directories {
            let mode = if *directory == "tmp" { 0o1777 } else { 0o755 };
            let mut entry = header(tar::EntryType::Directory, mode, 0);
            archive.append_data(&mut entry, directory, std::io::empty()).expect("an archive in memory");
        }
        for (path, (content, mode)) in &self.files {
            let mut entry = header(tar::EntryType::Regular, *mode, content.len());
            archive.append_data(&mut entry, path, content.as_slice()).expect("an archive in memory");
        }
        for (path, target) in &self.links {
            let mut entry = header(tar::EntryType::Symlink, 0o777, 0);
            archive.append_link(&mut entry, path, target).expect("an archive in memory");
        }
        archive.into_inner().expect("an archive in memory")
    }
}

/// The images that every cluster has: `busybox` with a shell, `nginx` (a small web server that
/// answers with the Pod's name and ends on SIGTERM, with a shell too) and the pause container.
pub(super) fn push_standard_images(directory: &Path) {
    let program = binaries::path("workload");
    Image::new().file("pause", &program).entrypoint(["/pause"]).push(directory, super::node::PAUSE_IMAGE);
    let busybox = Image::busybox();
    for tag in ["1.35", "1.36", "1.37", "latest"] {
        busybox.push(directory, &format!("busybox:{tag}"));
    }
    let nginx = busybox.file("usr/sbin/nginx", &program).entrypoint(["/usr/sbin/nginx"]).command([]);
    for tag in ["1.24", "1.25", "1.26", "latest"] {
        nginx.push(directory, &format!("nginx:{tag}"));
    }
}

fn architecture() -> &'static str {
    match std::env::consts::ARCH {
        "x86_64" => "amd64",
        "aarch64" => "arm64",
        other => other,
    }
}

/// The repository, as containerd asks a mirror for it (without the host), and the tag.
fn split_reference(reference: &str) -> (String, String) {
    let (name, tag) = match reference.rsplit_once(':') {
        Some((name, tag)) if !tag.contains('/') => (name, tag),
        _ => (reference, "latest"),
    };
    let repository = match name.split_once('/') {
        Some((host, path)) if host.contains(['.', ':']) || host == "localhost" => path.to_owned(),
        Some(_) => name.to_owned(),
        None => format!("library/{name}"),
    };
    (repository, tag.to_owned())
}

struct Blob {
    digest: String,
    size: usize,
}

/// A repository in the registry's file storage, whose layout is documented and stable: blobs by
/// digest, and small files named `link` that hold a digest.
struct Repository {
    root: std::path::PathBuf,
    name: String,
}

impl Repository {
    fn new(directory: &Path, name: &str) -> Self {
        Self { root: directory.join("registry/docker/registry/v2"), name: name.to_owned() }
    }

    fn blob(&self, content: &[u8]) -> Blob {
        let hash = self.store(content);
        self.link(&format!("_layers/sha256/{hash}"), &hash);
        Blob { digest: format!("sha256:{hash}"), size: content.len() }
    }

    fn tag(&self, tag: &str, manifest: &[u8]) {
        let hash = self.store(manifest);
        self.link(&format!("_manifests/revisions/sha256/{hash}"), &hash);
        self.link(&format!("_manifests/tags/{tag}/index/sha256/{hash}"), &hash);
        self.link(&format!("_manifests/tags/{tag}/current"), &hash);
    }

    fn store(&self, content: &[u8]) -> String {
        let hash = crate::hex(&Sha256::digest(content));
        let file = self.root.join("blobs/sha256").join(&hash[..2]).join(&hash).join("data");
        if !file.exists() {
            write(&file, content);
        }
        hash
    }

    fn link(&self, place: &str, hash: &str) {
        let file = self.root.join("repositories").join(&self.name).join(place).join("link");
        write(&file, format!("sha256:{hash}").as_bytes());
    }
}

/// Writes a file that a reader sees complete or not at all.
fn write(file: &Path, content: &[u8]) {
    let directory = file.parent().expect("a path below the registry");
    fs::create_dir_all(directory).expect("the registry's storage is writable");
    let new = tempfile::NamedTempFile::new_in(directory).expect("the registry's storage is writable");
    fs::write(new.path(), content).expect("the registry's storage is writable");
    new.persist(file).expect("the registry's storage is writable");
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn references_become_the_paths_that_containerd_asks_for() {
        let cases = [
            ("nginx:1.25", "library/nginx", "1.25"),
            ("nginx", "library/nginx", "latest"),
            ("openkruise/manager:v1", "openkruise/manager", "v1"),
            ("registry.k8s.io/pause:3.10", "pause", "3.10"),
            ("localhost:5000/a/b", "a/b", "latest"),
        ];
        for (reference, repository, tag) in cases {
            assert_eq!(split_reference(reference), (repository.to_owned(), tag.to_owned()), "{reference}");
        }
    }
}
