//! OCI images, made on the spot and put straight into the storage of the registry.

use std::collections::BTreeMap;
use std::fs;
use std::os::unix::fs::PermissionsExt;
use std::path::Path;
use std::process::Command;

use serde_json::{Value, json};
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
#[derive(Debug, Clone)]
pub struct Image {
    /// As Go names it.
    architecture: String,
    /// Content and mode.
    files: BTreeMap<String, (Vec<u8>, u32)>,
    links: BTreeMap<String, String>,
    directories: Vec<&'static str>,
    entrypoint: Vec<String>,
    command: Vec<String>,
    user: String,
}

impl Default for Image {
    fn default() -> Self {
        Self::new()
    }
}

impl Image {
    /// An image without files, for the architecture of this machine.
    pub fn new() -> Self {
        let architecture = match std::env::consts::ARCH {
            "x86_64" => "amd64",
            "aarch64" => "arm64",
            other => other,
        };
        Self::of(architecture)
    }

    /// An image without files, for an architecture as Go names it.
    pub fn of(architecture: &str) -> Self {
        Self {
            architecture: architecture.to_owned(),
            files: BTreeMap::new(),
            links: BTreeMap::new(),
            directories: Vec::new(),
            entrypoint: Vec::new(),
            command: Vec::new(),
            user: String::new(),
        }
    }

    /// An image with a shell: Debian's static busybox with links for all its commands.
    pub fn busybox() -> Self {
        let list = Command::new("busybox").arg("--list").output().expect("busybox runs");
        let commands = String::from_utf8_lossy(&list.stdout);
        let link = |name: &str| (format!("bin/{name}"), "/bin/busybox".to_owned());
        let image = Self {
            links: commands.lines().filter(|&name| name != "busybox").map(link).collect(),
            directories: DIRECTORIES.to_vec(),
            ..Self::new()
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

    /// With a symbolic link at a path in the image.
    #[must_use]
    pub fn link(mut self, path: &str, target: &str) -> Self {
        self.links.insert(path.trim_start_matches('/').to_owned(), target.to_owned());
        self
    }

    /// Writes images of the same content, one for each architecture, as an OCI image layout, which other tools can push to
    /// a registry. Returns the digest of the whole.
    ///
    /// # Panics
    /// When the directory can't be written.
    pub fn write_layout(images: &[Self], directory: &Path, reference: &str) -> String {
        let blobs = directory.join("blobs/sha256");
        // What is there of an earlier image would never be asked for again.
        drop(fs::remove_dir_all(&blobs));
        let store = |content: &[u8]| {
            let blob = Blob::of(content);
            write(&blobs.join(blob.hash()), content);
            blob
        };
        let index = |manifests: Value| {
            json!({
                "schemaVersion": 2,
                "mediaType": "application/vnd.oci.image.index.v1+json",
                "manifests": manifests,
            })
            .to_string()
        };
        let manifest = |image: &Self| {
            let manifest = store(&image.manifest(reference, store));
            let mut descriptor = descriptor("manifest.v1+json", &manifest);
            descriptor["platform"] = json!({"architecture": image.architecture, "os": "linux"});
            descriptor
        };
        let whole = store(index(images.iter().map(manifest).collect()).as_bytes());
        let (_, tag) = split_reference(reference);
        let mut descriptor = descriptor("index.v1+json", &whole);
        descriptor["annotations"] = json!({"org.opencontainers.image.ref.name": tag});
        write(&directory.join("index.json"), index(json!([descriptor])).as_bytes());
        write(&directory.join("oci-layout"), json!({"imageLayoutVersion": "1.0.0"}).to_string().as_bytes());
        whole.digest
    }

    /// Stores the image in the registry of the cluster in `directory`, and returns the digest by which it is known.
    pub(super) fn push(&self, directory: &Path, reference: &str) -> String {
        let (repository, tag) = split_reference(reference);
        let repository = Repository::new(directory, &repository);
        let manifest = self.manifest(reference, |content| repository.blob(content));
        repository.tag(&tag, &manifest);
        Blob::of(&manifest).digest
    }

    /// The manifest, whose blobs are put into `store`.
    fn manifest(&self, reference: &str, store: impl Fn(&[u8]) -> Blob) -> Vec<u8> {
        let layer = store(&self.layer());
        let config = json!({
            "architecture": self.architecture, "os": "linux",
            "config": {
                "Env": ["PATH=/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin"],
                "Entrypoint": self.entrypoint, "Cmd": self.command, "User": self.user, "WorkingDir": "/",
                // Gives each reference a digest of its own, as different versions have.
                "Labels": {"org.opencontainers.image.ref.name": reference},
            },
            "rootfs": {"type": "layers", "diff_ids": [layer.digest]},
        });
        let config = store(config.to_string().as_bytes());
        let manifest = json!({
            "schemaVersion": 2,
            "mediaType": "application/vnd.oci.image.manifest.v1+json",
            "config": descriptor("config.v1+json", &config),
            "layers": [descriptor("layer.v1.tar", &layer)],
        });
        manifest.to_string().into_bytes()
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

impl Blob {
    fn of(content: &[u8]) -> Self {
        Self { digest: format!("sha256:{}", crate::hex(&Sha256::digest(content))), size: content.len() }
    }

    /// The digest without its algorithm.
    fn hash(&self) -> &str {
        self.digest.trim_start_matches("sha256:")
    }
}

fn descriptor(kind: &str, blob: &Blob) -> Value {
    json!({"mediaType": format!("application/vnd.oci.image.{kind}"), "digest": blob.digest, "size": blob.size})
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
        Blob::of(content)
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
    let directory = file.parent().expect("a path in a directory");
    fs::create_dir_all(directory).expect("the image's storage is writable");
    let new = tempfile::NamedTempFile::new_in(directory).expect("the image's storage is writable");
    fs::write(new.path(), content).expect("the image's storage is writable");
    let readable = fs::Permissions::from_mode(0o644);
    fs::set_permissions(new.path(), readable).expect("the image's storage is writable");
    new.persist(file).expect("the image's storage is writable");
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_layout_holds_every_blob_under_its_digest() {
        let directory = tempfile::tempdir().unwrap();
        let program = directory.path().join("program");
        fs::write(&program, "content").unwrap();
        let image = |architecture| {
            Image::of(architecture).file("/program", &program).link("/name", "/program").user("65534:65534")
        };
        let layout = directory.path().join("layout");
        let images = ["amd64", "arm64"].map(image);
        let digests = [(); 2].map(|()| Image::write_layout(&images, &layout, "kutter:1.0"));
        assert_eq!(digests[0], digests[1]);
        let read = |file: &Path| -> Value { serde_json::from_slice(&fs::read(file).unwrap()).unwrap() };
        let blob = |descriptor: &Value| {
            let digest = descriptor["digest"].as_str().unwrap();
            let file = layout.join("blobs/sha256").join(digest.trim_start_matches("sha256:"));
            let found = Blob::of(&fs::read(&file).unwrap());
            assert_eq!((found.digest.as_str(), json!(found.size)), (digest, descriptor["size"].clone()));
            file
        };
        let index = read(&layout.join("index.json"));
        assert_eq!(index["manifests"][0]["annotations"]["org.opencontainers.image.ref.name"], "1.0");
        assert_eq!(index["manifests"][0]["digest"], digests[0].as_str());
        let whole = read(&blob(&index["manifests"][0]));
        assert_eq!(whole["manifests"][1]["platform"]["architecture"], "arm64");
        let manifest = read(&blob(&whole["manifests"][1]));
        let config = read(&blob(&manifest["config"]));
        assert_eq!(
            (&config["config"]["User"], &config["architecture"]),
            (&json!("65534:65534"), &json!("arm64"))
        );
        assert_eq!(config["rootfs"]["diff_ids"][0], manifest["layers"][0]["digest"]);
        let layer = fs::read(blob(&manifest["layers"][0])).unwrap();
        let mut archive = tar::Archive::new(layer.as_slice());
        let names: Vec<_> = archive
            .entries()
            .unwrap()
            .map(|entry| entry.unwrap().path().unwrap().display().to_string())
            .collect();
        assert_eq!(names, ["program", "name"]);
        assert_eq!(fs::read_dir(layout.join("blobs/sha256")).unwrap().count(), 6);
    }

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
