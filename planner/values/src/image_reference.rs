//! References to container images, compared by what they name rather than by how they are spelt: runtimes
//! report `docker.io/library/busybox:1.36` where the Pod says `busybox:1.36`.

use thiserror::Error;

/// The registry of images that name none.
const DEFAULT_REGISTRY: &str = "docker.io";
/// Where that registry keeps images whose name has one part.
const OFFICIAL: &str = "library";
/// The tag of images that name neither tag nor digest.
const DEFAULT_TAG: &str = "latest";

/// The longest name of an image, with its registry.
const LONGEST_NAME: usize = 255;

/// The name and the tag under which an image is asked for, however it is spelt: `nginx` and
/// `docker.io/library/nginx:latest` are both `nginx` and `latest`.
#[derive(Clone, Debug, Default, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct NamedImage {
    /// The name, without the registry where it is the usual one.
    pub name: String,
    /// The tag; the digest where there is one.
    pub tag: String,
}

/// Why a text is no image reference.
#[derive(Clone, Copy, Debug, Error, PartialEq, Eq)]
pub enum ImageError {
    /// It breaks the grammar.
    #[error("invalid reference format")]
    Format,
    /// It would be one in lower case.
    #[error("invalid reference format: repository name must be lowercase")]
    UpperCase,
    /// The name is too long.
    #[error("repository name must not be more than 255 characters")]
    TooLong,
    /// The name could be taken for an ID.
    #[error("invalid repository name, cannot specify 64-byte hexadecimal strings")]
    Id,
}

impl NamedImage {
    /// Reads an image reference, as strictly as container runtimes do.
    ///
    /// # Errors
    /// The text is none.
    pub fn parse(image: &str) -> Result<Self, ImageError> {
        let is_hex = |text: &str| text.bytes().all(|byte| matches!(byte, b'0'..=b'9' | b'a'..=b'f'));
        if image.len() == 64 && is_hex(image) {
            return Err(ImageError::Id);
        }
        let ImageReference { registry, path, tag, digest, .. } = ImageReference::new(image);
        if path.to_lowercase() != path {
            return Err(ImageError::UpperCase);
        }
        let is_sound = is_registry(registry)
            && path.split('/').all(is_path_component)
            && tag.is_none_or(is_tag)
            && digest.is_none_or(is_digest);
        if !is_sound {
            return Err(ImageError::Format);
        }
        let name = match registry {
            DEFAULT_REGISTRY => {
                let short = path.strip_prefix(OFFICIAL).and_then(|rest| rest.strip_prefix('/'));
                short.filter(|short| !short.contains('/')).unwrap_or(path).to_owned()
            }
            _ => format!("{registry}/{path}"),
        };
        if name.len() > LONGEST_NAME {
            return Err(ImageError::TooLong);
        }
        Ok(Self { name, tag: digest.or(tag).unwrap_or(DEFAULT_TAG).to_owned() })
    }
}

fn is_registry(registry: &str) -> bool {
    let (host, port) = registry.split_once(':').map_or((registry, None), |(host, port)| (host, Some(port)));
    let is_part = |part: &str| {
        let is_plain = |byte: u8| byte.is_ascii_alphanumeric() || byte == b'-';
        !part.is_empty() && part.bytes().all(is_plain) && !part.starts_with('-') && !part.ends_with('-')
    };
    host.split('.').all(is_part)
        && port.is_none_or(|port| !port.is_empty() && port.bytes().all(|byte| byte.is_ascii_digit()))
}

/// Letters and digits, with a full stop, one or two underscores or any number of hyphens between them.
fn is_path_component(component: &str) -> bool {
    let is_word = |byte: u8| byte.is_ascii_lowercase() || byte.is_ascii_digit();
    let separators = component.split(|letter: char| u8::try_from(letter).is_ok_and(is_word));
    let are_sound = separators
        .filter(|separator| !separator.is_empty())
        .all(|separator| matches!(separator, "." | "_" | "__") || separator.bytes().all(|byte| byte == b'-'));
    are_sound
        && [component.bytes().next(), component.bytes().last()].iter().all(|end| end.is_some_and(is_word))
}

fn is_tag(tag: &str) -> bool {
    let is_word = |byte: u8| byte.is_ascii_alphanumeric() || byte == b'_';
    let first = tag.bytes().next().is_some_and(is_word);
    first && tag.len() <= 128 && tag.bytes().all(|byte| is_word(byte) || matches!(byte, b'.' | b'-'))
}

fn is_digest(digest: &str) -> bool {
    let Some((algorithm, hash)) = digest.split_once(':') else { return false };
    let mut parts = algorithm.split(['-', '_', '+', '.']);
    let is_part = |part: &str| {
        part.bytes().next().is_some_and(|byte| byte.is_ascii_alphabetic())
            && part.bytes().all(|byte| byte.is_ascii_alphanumeric())
    };
    parts.all(is_part) && hash.len() >= 32 && hash.bytes().all(|byte| byte.is_ascii_hexdigit())
}

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
    /// Splits a reference; one that no runtime would take is split as well as possible.
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

    /// Registry and path, in full: `docker.io/library/nginx` of `nginx:1`.
    pub fn repository(&self) -> String {
        if self.official {
            return format!("{}/{OFFICIAL}/{}", self.registry, self.path);
        }
        format!("{}/{}", self.registry, self.path)
    }

    /// Whether it names no other registry than the usual one.
    pub fn is_of_usual_registry(&self) -> bool {
        self.registry == DEFAULT_REGISTRY
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
    fn names_are_short_where_the_registry_is_the_usual_one() {
        let digest = format!("sha256:{}", "0a".repeat(32));
        for (image, name, tag) in [
            ("nginx", "nginx", "latest"),
            ("docker.io/library/nginx:1", "nginx", "1"),
            ("index.docker.io/nginx", "nginx", "latest"),
            ("library/nginx", "nginx", "latest"),
            ("docker.io/a/b:1", "a/b", "1"),
            ("library/a/b", "library/a/b", "latest"),
            ("reg:5000/x/y", "reg:5000/x/y", "latest"),
            ("Reg.example.com/x__y/z---1.0:V1", "Reg.example.com/x__y/z---1.0", "V1"),
            (&format!("busybox:1.36@{digest}"), "busybox", &digest),
        ] {
            let expected = NamedImage { name: name.to_owned(), tag: tag.to_owned() };
            assert_eq!(NamedImage::parse(image), Ok(expected), "{image}");
        }
    }

    #[test]
    fn what_no_runtime_takes_is_refused() {
        let too_long = format!("reg:5000/{}", "a".repeat(250));
        for (image, error) in [
            ("", ImageError::Format),
            ("nginx:", ImageError::Format),
            ("nginx:a b", ImageError::Format),
            ("a//b", ImageError::Format),
            ("-nginx", ImageError::Format),
            ("a___b", ImageError::Format),
            ("a.-b", ImageError::Format),
            ("reg:port/a", ImageError::Format),
            ("nginx@sha256:11", ImageError::Format),
            ("nginx@", ImageError::Format),
            ("Nginx", ImageError::UpperCase),
            (&"ab".repeat(32), ImageError::Id),
            (&too_long, ImageError::TooLong),
        ] {
            assert_eq!(NamedImage::parse(image), Err(error), "{image}");
        }
    }

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
