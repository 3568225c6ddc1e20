//! What the agent reports about the containers of a Pod, from which the controllers know that an update in place has
//! reached them (docs/behaviour/in-place-update.md#how-the-node-agent-reports).

use api::annotations::{RUNTIME_CONTAINERS_META, SIDECARSET_HASH};
use api::conditions::IN_PLACE_UPDATE_READY;

use super::container::{Condition, RuntimeContainer, newest, split_id};
use pod::inplace::environment::{expected_hash, hash, names};
use pod::inplace::reported::{Hashes, Reported, ReportedContainer};
use pod::observed::{Container, ContainerId, ObservedPod};
use pod::write::{PodWrite, Target};

#[cfg(test)]
mod tests;

/// Whether anybody reads what is reported about a Pod: it belongs to a workload of ours, or has sidecars.
pub fn concerns(pod: &ObservedPod) -> bool {
    pod.controller().is_some_and(|owner| owner.group() == api::APPS_GROUP)
        || pod.annotation(SIDECARSET_HASH).is_some()
}

/// Whether there may be something to report about a Pod. `before` is the Pod before a change; there is none where the agent
/// sees it for the first time, such as when it starts.
pub fn is_due(before: Option<&ObservedPod>, pod: &ObservedPod, with_environment: bool) -> bool {
    let is_over = pod.metadata.deletion_timestamp.is_some() || pod.status.container_statuses.is_empty();
    if is_over || !concerns(pod) {
        return false;
    }
    if before.is_some_and(|before| before.spec.containers.len() != pod.spec.containers.len()) {
        return true;
    }
    let recorded = Reported::of(pod);
    let mut started = pod.status.container_statuses.iter().filter(|status| !status.container_id.is_empty());
    let is_known = |name: &str, id: &ContainerId| {
        recorded.containers.iter().any(|known| known.name == name && *id == *known.container_id)
    };
    if started.any(|status| {
        recorded.containers.len() != pod.status.container_statuses.len()
            || !is_known(&status.name, &status.container_id)
    }) {
        return true;
    }
    with_environment
        && pod.spec.containers.iter().any(|container| shows_another(before, pod, &recorded, container))
}

/// Whether the variables of a container should show something else than was reported, or than before.
fn shows_another(
    before: Option<&ObservedPod>,
    pod: &ObservedPod,
    recorded: &Reported,
    container: &Container,
) -> bool {
    let expected = expected(container, pod);
    let recorded = recorded.containers.iter().find(|known| *known.name == *container.name);
    recorded.is_some_and(|recorded| recorded.hashes.extracted_env_from_metadata_hash != expected)
        || before.is_some_and(|before| self::expected(container, before) != expected)
}

/// The hash of what the variables of a container should show.
fn expected(container: &Container, pod: &ObservedPod) -> u64 {
    expected_hash(container, pod).unwrap_or_else(|| hash(Vec::new())).into()
}

/// What is to be reported about a Pod.
#[derive(Clone, Debug)]
pub struct Report<'p> {
    pod: &'p ObservedPod,
    recorded: Reported,
    /// Containers whose variables have to be asked for before it is complete: [`Report::learn`].
    pub unknown: Vec<Unknown>,
}

/// A container whose variables are not known.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Unknown {
    /// The ID in the runtime.
    pub id: String,
    position: usize,
    names: Vec<String>,
}

/// The runtime that the containers of a Pod are in, where one has been started.
pub fn runtime(pod: &ObservedPod) -> Option<&str> {
    pod.status.container_statuses.iter().find_map(|status| status.container_id.runtime())
}

impl<'p> Report<'p> {
    /// A report of the containers of a Pod that are in this runtime, those of which nothing new is known as they were
    /// reported before.
    pub fn new(
        pod: &'p ObservedPod,
        runtime: &str,
        containers: &[RuntimeContainer],
        with_environment: bool,
    ) -> Self {
        let before = Reported::of(pod);
        let mut report = Self { pod, recorded: Reported::default(), unknown: Vec::new() };
        for status in &pod.status.container_statuses {
            let in_spec = |container: &&Container| *container.name == *status.name;
            let mut in_pod = pod.spec.containers.iter().chain(pod.spec.init_containers.iter());
            let Some(container) = in_pod.find(in_spec) else { continue };
            let Some(newest) = newest(containers, &status.name) else { continue };
            let id = format!("{runtime}://{}", newest.id);
            let known = before.containers.iter().find(|known| *known.name == *status.name);
            let entry = match known.filter(|known| known.container_id == id) {
                Some(known) => known.clone(),
                None => ReportedContainer {
                    name: status.name.to_string(),
                    container_id: id,
                    restart_count: newest.restart_count(),
                    hashes: Hashes { plain_hash: newest.plain_hash(), ..Hashes::default() },
                },
            };
            let lacks = entry.hashes.extracted_env_from_metadata_hash == 0;
            report.recorded.containers.push(entry);
            if with_environment && lacks && newest.condition == Condition::Running {
                report.ask(container, newest);
            }
        }
        report
    }

    /// A container without such variables is not asked.
    fn ask(&mut self, container: &Container, running: &RuntimeContainer) {
        let names: Vec<String> = names(container).map(str::to_owned).collect();
        let position = self.recorded.containers.len().saturating_sub(1);
        if !names.is_empty() {
            self.unknown.push(Unknown { id: running.id.clone(), position, names });
        } else if let Some(entry) = self.recorded.containers.get_mut(position) {
            entry.hashes.extracted_env_from_metadata_hash = hash(Vec::new()).into();
        }
    }

    /// Takes in what `env` prints in a container.
    pub fn learn(&mut self, container: &Unknown, printed: &str) {
        let value = |name: &String| {
            let mut lines = printed.lines().filter_map(|line| line.trim().split_once('='));
            lines.find(|(known, _)| known == name).map(|(_, value)| value)
        };
        let variables = container.names.iter().map(|name| (name.as_str(), value(name))).collect();
        if let Some(entry) = self.recorded.containers.get_mut(container.position) {
            entry.hashes.extracted_env_from_metadata_hash = hash(variables).into();
        }
    }

    /// The IDs of containers that show old labels or annotations although their Pod is updated in place. A change
    /// outside of an update restarts nothing.
    pub fn outdated(&self) -> Vec<&str> {
        let is_updated =
            self.pod.condition(IN_PLACE_UPDATE_READY).is_some_and(|ready| &*ready.status == "False");
        let is_outdated = |recorded: &&ReportedContainer| {
            let shown = recorded.hashes.extracted_env_from_metadata_hash;
            let container = self.pod.container(&recorded.name);
            shown > 0 && container.is_some_and(|container| expected(container, self.pod) != shown)
        };
        let recorded = self.recorded.containers.iter().filter(|_| is_updated).filter(is_outdated);
        recorded.filter_map(|recorded| split_id(&recorded.container_id).map(|(_, id)| id)).collect()
    }

    /// The write to the Pod; none where the Pod says it all.
    pub fn write(&self) -> Option<PodWrite> {
        if self.recorded == Reported::of(self.pod) {
            return None;
        }
        let mut write = PodWrite::to(Target::Status);
        // Texts and numbers only: writing them as JSON cannot fail.
        write.set_annotation(
            RUNTIME_CONTAINERS_META,
            serde_json::to_string(&self.recorded).unwrap_or_default(),
        );
        Some(write)
    }
}
