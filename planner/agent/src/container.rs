//! A container as the runtime knows it. What the kubelet wrote on it is read here; what is missing or broken counts
//! as absent.

use std::collections::BTreeMap;
use std::time::Duration;

use api::Raw;
use jiff::Timestamp;

use super::stop::{Hook, hook};

const NAME: &str = "io.kubernetes.container.name";
const HASH: &str = "io.kubernetes.container.hash";
const RESTARTS: &str = "io.kubernetes.container.restartCount";
const PRE_STOP: &str = "io.kubernetes.container.preStopHandler";
const PORTS: &str = "io.kubernetes.container.ports";
const DELETION_GRACE: &str = "io.kubernetes.pod.deletionGracePeriod";
const GRACE: &str = "io.kubernetes.pod.terminationGracePeriod";
const POD_NAME: &str = "io.kubernetes.pod.name";
const POD_NAMESPACE: &str = "io.kubernetes.pod.namespace";
const POD_UID: &str = "io.kubernetes.pod.uid";

/// What a container does.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Condition {
    /// It was made and does not run yet.
    Created,
    /// It runs.
    Running,
    /// It has ended.
    Exited,
    /// The runtime does not know.
    #[default]
    Unknown,
}

/// A container of a Pod.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct RuntimeContainer {
    /// Its ID, without the name of the runtime.
    pub id: String,
    /// What it does.
    pub condition: Condition,
    /// When it was made.
    pub created: Timestamp,
    /// When it was started, where that is known.
    pub started: Option<Timestamp>,
    /// The kubelet's labels.
    pub labels: BTreeMap<String, String>,
    /// The kubelet's annotations.
    pub annotations: BTreeMap<String, String>,
}

impl RuntimeContainer {
    /// The name that the Pod gives it.
    pub fn name(&self) -> &str {
        self.labels.get(NAME).map_or("", String::as_str)
    }

    /// Namespace, name and UID of its Pod.
    pub fn pod(&self) -> [&str; 3] {
        [POD_NAMESPACE, POD_NAME, POD_UID].map(|label| self.labels.get(label).map_or("", String::as_str))
    }

    /// How long it has to stop, by what the kubelet knew when it made it.
    pub fn grace(&self) -> Option<Duration> {
        let grace = |key| self.annotations.get(key).and_then(|seconds| seconds.parse().ok());
        grace(DELETION_GRACE).or_else(|| grace(GRACE)).map(Duration::from_secs)
    }

    /// What runs before it is stopped.
    pub fn hook(&self) -> Option<Hook> {
        let ports =
            self.annotations.get(PORTS).and_then(|ports| serde_json::from_str::<Vec<Raw>>(ports).ok());
        let handler = Raw::parse(self.annotations.get(PRE_STOP)?).ok()?;
        hook(&handler, &ports.unwrap_or_default())
    }

    /// How often the kubelet has started containers of this name before.
    pub fn restart_count(&self) -> i32 {
        self.annotations.get(RESTARTS).and_then(|count| count.parse().ok()).unwrap_or_default()
    }

    /// The kubelet's hash of what it was made of.
    pub fn plain_hash(&self) -> u64 {
        self.annotations.get(HASH).and_then(|hash| u64::from_str_radix(hash, 16).ok()).unwrap_or_default()
    }
}

/// The newest container of this name.
pub fn newest<'c>(containers: &'c [RuntimeContainer], name: &str) -> Option<&'c RuntimeContainer> {
    containers.iter().filter(|container| container.name() == name).max_by_key(|container| container.created)
}

/// The runtime and the ID in `containerd://0f...`.
pub fn split_id(full: &str) -> Option<(&str, &str)> {
    full.split_once("://").filter(|(runtime, id)| !runtime.is_empty() && !id.is_empty())
}

#[cfg(test)]
mod tests {
    use super::*;

    fn container(id: &str, created: i64, pairs: &[(&str, &str)]) -> RuntimeContainer {
        RuntimeContainer {
            id: id.to_owned(),
            created: Timestamp::from_second(created).unwrap(),
            labels: [(NAME.to_owned(), "main".to_owned())].into(),
            annotations: pairs.iter().map(|(key, value)| ((*key).to_owned(), (*value).to_owned())).collect(),
            ..RuntimeContainer::default()
        }
    }

    #[test]
    fn what_the_kubelet_wrote_is_read_and_what_is_broken_is_absent() {
        let sound = container("1", 5, &[(HASH, "8e45cbd0"), (RESTARTS, "3")]);
        assert_eq!((sound.name(), sound.plain_hash(), sound.restart_count()), ("main", 2_386_938_832, 3));
        let broken = container("2", 7, &[(HASH, "x"), (RESTARTS, "many")]);
        assert_eq!((broken.plain_hash(), broken.restart_count()), (0, 0));
        let both = [broken.clone(), sound];
        assert_eq!(newest(&both, "main"), Some(&broken));
        assert_eq!(newest(&both, "other"), None);
        assert_eq!(split_id("containerd://0f"), Some(("containerd", "0f")));
        assert_eq!((split_id("0f"), split_id("://0f"), split_id("docker://")), (None, None, None));
    }
}
