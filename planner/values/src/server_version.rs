//! What an API server can do, known from its version (docs/behaviour/in-place-update.md#resources).

/// The version of an API server, such as 1.32.1.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord)]
pub struct ServerVersion([u32; 3]);

impl ServerVersion {
    /// The oldest that is supported, as `kubeVersion` of the chart says.
    pub const OLDEST: Self = Self([1, 29, 0]);
    /// The oldest on which agents run: there policies hold them to their nodes.
    pub const OLDEST_OF_AGENTS: Self = Self([1, 30, 0]);
    /// One that can do everything.
    pub const NEWEST: Self = Self([u32::MAX; 3]);

    /// Reads `gitVersion`, such as `v1.32.1-eks-2d5f260`: the digits that begin each of its first three
    /// parts. A text that is no version is older than every version.
    pub fn parse(git_version: &str) -> Self {
        let parts: Vec<&str> = git_version.strip_prefix('v').unwrap_or(git_version).splitn(3, '.').collect();
        let number = |part: &str| {
            let end = part.find(|letter: char| !letter.is_ascii_digit()).unwrap_or(part.len());
            part.get(..end)?.parse().ok()
        };
        let [major, minor, patch] = parts.as_slice() else { return Self::default() };
        match (number(major), number(minor), number(patch)) {
            (Some(major), Some(minor), Some(patch)) => Self([major, minor, patch]),
            _ => Self::default(),
        }
    }

    /// Refuses an API server that is older than this. One whose version can't be read is not refused.
    ///
    /// # Errors
    /// What is needed, in words.
    pub fn refuse_older(self, git_version: &str) -> Result<(), String> {
        let version = Self::parse(git_version);
        if version == Self::default() || version >= self {
            return Ok(());
        }
        let [major, minor, _] = self.0;
        Err(format!("Kubernetes {git_version} is too old: {major}.{minor} or newer is needed"))
    }

    /// Requests and limits of running Pods are changed through `pods/resize`.
    pub fn has_resize(self) -> bool {
        self >= Self([1, 32, 0])
    }

    /// Kubelets of this version restart a native sidecar whose image changes.
    pub fn restarts_native_sidecars(self) -> bool {
        self >= Self([1, 32, 0])
    }

    /// Requests and limits of native sidecars are changed through `pods/resize` too.
    pub fn resizes_native_sidecars(self) -> bool {
        self >= Self([1, 33, 0])
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn versions_are_known_by_their_leading_digits() {
        for (text, expected) in [
            ("v1.32.0", true),
            ("1.33.1", true),
            ("v1.32.1-eks-2d5f260", true),
            ("v1.32.0+k3s1", true),
            ("v2.0.0", true),
            ("v1.31.9", false),
            ("v1.9.0", false),
            ("v1.32", false),
            ("", false),
            ("vx.y.z", false),
        ] {
            assert_eq!(ServerVersion::parse(text).has_resize(), expected, "{text}");
        }
    }

    #[test]
    fn native_sidecars_are_restarted_before_they_are_resized() {
        for (text, restarted, resized) in [
            ("v1.31.14", false, false),
            ("v1.32.0", true, false),
            ("v1.33.0", true, true),
            ("unknown", false, false),
        ] {
            let version = ServerVersion::parse(text);
            let can = (version.restarts_native_sidecars(), version.resizes_native_sidecars());
            assert_eq!(can, (restarted, resized), "{text}");
        }
        assert!(ServerVersion::NEWEST.resizes_native_sidecars());
    }

    #[test]
    fn versions_before_the_oldest_are_refused_by_name() {
        let refusal = "Kubernetes v1.28.15+k3s1 is too old: 1.29 or newer is needed";
        assert_eq!(ServerVersion::OLDEST.refuse_older("v1.28.15+k3s1"), Err(refusal.to_owned()));
        for version in ["v1.29.0-alpha.1", "v1.36.3", "unknown"] {
            assert_eq!(ServerVersion::OLDEST.refuse_older(version), Ok(()), "{version}");
        }
    }
}
