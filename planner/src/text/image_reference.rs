//! References to container images, compared by what they name rather than by how they are spelt: runtimes
//! report `docker.io/library/busybox:1.36` where the Pod says `busybox:1.36`.

/// The registry of images that name none.
const DEFAULT_REGISTRY: &str = "docker.io";
/// Where that registry keeps images whose name has one part.
const OFFICIAL: &str = "library";
/// The tag of images that name neither tag nor digest.
const DEFAULT_TAG: &str = "latest";

/// An image reference, split; nothing is copied.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct ImageReference<'i> {
    registry: &'i str,
    official: bool,
    path: &'i str,
    tag: Option<&'i str>,
    digest: Option<&'i str>,
}

impl<'i> ImageReference<'i> {
    /// Splits a reference; one that no runtime would take is split as well as it goes.
    pub fn new(image: &'i str) -> Self {
        let (name, digest) =
            image.split_once('@').map_or((image, None), |(name, digest)| (name, Some(digest)));
        let path_start = name.rfind('/').map_or(0, |slash| slash.saturating_add(1));
        let last = name.get(path_start..).unwrap_or_default();
        let (name, tag) = match last.rfind(':') {
            Some(colon) => {
                let (name, tag) = name.split_at(path_start.saturating_add(colon));
                (name, tag.strip_prefix(':'))
            }
            None => (name, None),
        };
        let (registry, path) = match name.split_once('/') {
            Some((first, rest)) if first.contains(['.', ':']) || first == "localhost" => (first, rest),
            _ => (DEFAULT_REGISTRY, name),
        };
        let registry = if registry == "index.docker.io" { DEFAULT_REGISTRY } else { registry };
        Self { registry, official: registry == DEFAULT_REGISTRY && !path.contains('/'), path, tag, digest }
    }

    /// The digest, `sha256:...`, where the reference has one.
    pub fn digest(&self) -> Option<&'i str> {
        self.digest
    }

    /// True if both name the same repository, whatever the tags and digests.
    pub fn same_repository(&self, other: &Self) -> bool {
        let prefix = format!("{OFFICIAL}/");
        let path =
            |one: &Self| if one.official { format!("{prefix}{}", one.path) } else { one.path.to_owned() };
        self.registry == other.registry && (self.path == other.path || path(self) == path(other))
    }

    /// True if both name the same image: repository and digest, or repository and tag where neither has a
    /// digest.
    pub fn same_image(&self, other: &Self) -> bool {
        let tag = |one: &Self| one.tag.unwrap_or(DEFAULT_TAG).to_owned();
        let same_version = match (self.digest, other.digest) {
            (None, None) => tag(self) == tag(other),
            (one, another) => one == another,
        };
        same_version && self.same_repository(other)
    }
}

/// True if both texts name the same image.
pub fn same_image(one: &str, other: &str) -> bool {
    one == other || ImageReference::new(one).same_image(&ImageReference::new(other))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn spellings_of_one_image_are_equal() {
        for (one, other) in [
            ("busybox", "docker.io/library/busybox:latest"),
            ("busybox:1.36", "library/busybox:1.36"),
            ("index.docker.io/library/busybox:1.36", "busybox:1.36"),
            ("team/app:v1", "docker.io/team/app:v1"),
            ("localhost/app:v1", "localhost/app:v1"),
            ("localhost:5000/app", "localhost:5000/app:latest"),
            ("busybox@sha256:11", "docker.io/library/busybox@sha256:11"),
            ("busybox:1.36@sha256:11", "docker.io/library/busybox@sha256:11"),
        ] {
            assert!(same_image(one, other) && same_image(other, one), "{one} {other}");
        }
    }

    #[test]
    fn different_images_differ() {
        for (one, other) in [
            ("busybox:1.36", "busybox:1.37"),
            ("busybox", "busybox@sha256:11"),
            ("busybox@sha256:11", "busybox@sha256:22"),
            ("team/busybox", "busybox"),
            ("registry.example.com/busybox", "busybox"),
            ("localhost:5000/app", "app:5000"),
            ("sha256:0a", "busybox"),
            ("", "busybox"),
        ] {
            assert!(!same_image(one, other), "{one} {other}");
        }
    }
}
