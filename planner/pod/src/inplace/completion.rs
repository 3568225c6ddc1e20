//! Whether the containers of a Pod run what was last written to them
//! (docs/behaviour/in-place-update.md#completion).

use std::collections::BTreeMap;

use super::environment::{expected_hash, go_string};
use super::reported::Reported;
use super::resize::ResizeProblem;
use super::rules::Rules;
use super::state::{LastStatus, State, StateError, in_grace};
use crate::observed::{Container, ContainerStatus, ObservedPod, Pairs};
use values::hash::deep_hash;
use values::quantity::Quantity;

/// What an update in place waits for.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum Incomplete {
    /// The grace period runs; containers are untouched.
    #[error("the grace period before the change of its containers is running")]
    Grace,
    /// Containers of a lower launch priority are still to be changed.
    #[error("containers {} are to be changed after those of higher launch priority", .0.join(", "))]
    LaterBatch(Vec<String>),
    /// A container that was changed is not ready, and others wait for it.
    #[error("container {0} is not ready, and containers of lower launch priority wait for it")]
    NotReady(String),
    /// The kubelet has not restarted the container with its new image.
    #[error("container {0} does not run its new image yet")]
    Image(String),
    /// The kubelet has not carried out the container's new requests and limits.
    #[error("container {0} does not have its new resources yet")]
    Resources(String),
    /// The kubelet can't carry them out.
    #[error("{0}")]
    Resize(ResizeProblem),
    /// The node agent has not restarted the container with its new environment, or not reported it.
    #[error("container {0} was not reported with its new environment yet; the node agent restarts it")]
    Environment(String),
    /// The progress is not known.
    #[error("{0}")]
    Unknown(StateError),
}

/// The Pod's last update in place is completed, or there was none
/// (docs/behaviour/in-place-update.md#completion).
///
/// # Errors
/// What it waits for.
pub fn completed(pod: &ObservedPod, rules: &Rules) -> Result<(), Incomplete> {
    if in_grace(pod) {
        return Err(Incomplete::Grace);
    }
    let Some(state) = State::of(pod).map_err(Incomplete::Unknown)? else { return Ok(()) };
    if state.has_next() {
        return Err(Incomplete::LaterBatch(later_containers(&state)));
    }
    batch_completed(pod, &state, rules)
}

fn later_containers(state: &State) -> Vec<String> {
    let images = state.next_container_images.keys();
    let metadata = state.next_container_ref_metadata.keys();
    let mut names: Vec<String> =
        images.chain(metadata).chain(state.next_container_resources.keys()).cloned().collect();
    names.sort();
    names.dedup();
    names
}

/// The containers changed so far run what they should.
pub(super) fn batch_completed(pod: &ObservedPod, state: &State, rules: &Rules) -> Result<(), Incomplete> {
    let reported = Reported::of(pod);
    if state.update_env_from_metadata {
        let stale = pod.spec.containers.iter().find(|container| {
            let expected = expected_hash(container, pod).map(u64::from);
            !reported.current(pod, container).is_some_and(|hashes| {
                // A container that shows no metadata has nothing to compare.
                expected.is_none_or(|expected| hashes.extracted_env_from_metadata_hash == expected)
            })
        });
        if let Some(container) = stale {
            return Err(Incomplete::Environment(container.name.to_string()));
        }
    }
    if state.update_resources && rules.vertical_scaling {
        // Older kubelets report nothing of native sidecars, which are not resized there.
        let reports = |sidecar: &&Container| {
            pod.container_status(&sidecar.name).is_some_and(|status| status.resources.is_some())
        };
        let mut resizable = pod.spec.containers.iter().chain(pod.native_sidecars().filter(reports));
        let pending = resizable.find(|container| !has_its_resources(pod, container));
        if let Some(container) = pending {
            let problem = ResizeProblem::of(pod).map(Incomplete::Resize);
            return Err(problem.unwrap_or_else(|| Incomplete::Resources(container.name.to_string())));
        }
    }
    let plain = |container: &Container| {
        let hash = Some(u64::from(plain_hash(container)));
        reported.current(pod, container).map(|hashes| hashes.plain_hash) == hash
    };
    let all_reported = !pod.spec.containers.is_empty() && pod.spec.containers.iter().all(plain);
    // The node agent does not report native sidecars.
    let is_reported = |name: &str| all_reported && !pod.native_sidecars().any(|known| *known.name == *name);
    let outdated = state.last_container_statuses.iter().find(|(name, last)| {
        let runs = |status| runs_new_image(pod, state, status, last);
        !is_reported(name) && !pod.container_status(name).is_some_and(runs)
    });
    outdated.map_or(Ok(()), |(name, _)| Err(Incomplete::Image(name.clone())))
}

/// The container runs the image that the Pod asks for, or will not run again.
///
/// The name of the image says so. Else the container must be another one than before, by its content or, for
/// another tag of the same content, by its restarts. One that restarted with the old image is another one
/// too: so this holds only where the kubelet knows of the new one, as far as it reports that.
fn runs_new_image(pod: &ObservedPod, state: &State, status: &ContainerStatus, last: &LastStatus) -> bool {
    let image = pod.container(&status.name).map_or("", |container| &container.image);
    if normalised(&status.image) == normalised(image) || pod.has_ended_for_good(status) {
        return true;
    }
    let restarted = || {
        let before = state.recorded_restarts(pod).get(&*status.name).copied();
        status.ready && before.is_some_and(|before| before != status.restart_count)
    };
    pod.spec_is_observed() && (*status.image_id != *last.image_id || restarted())
}

fn has_its_resources(pod: &ObservedPod, container: &Container) -> bool {
    let Some(status) = pod.container_status(&container.name) else { return false };
    let reported = status.resources.clone().unwrap_or_default();
    amounts(&reported.limits) == amounts(&container.resources.limits)
        && amounts(&reported.requests) == amounts(&container.resources.requests)
}

/// What can be resized: kubelets do not report all other resources.
fn amounts(pairs: &Pairs) -> BTreeMap<&str, Option<Quantity>> {
    let resizable = pairs.iter().filter(|(name, _)| matches!(*name, "cpu" | "memory"));
    resizable.map(|(name, text)| (name, text.parse().ok())).collect()
}

/// The kubelet's hash of a container since 1.31. Older kubelets hash the whole container; there the image
/// reports.
fn plain_hash(container: &Container) -> u32 {
    deep_hash(&format!(
        r#"{{"image":{},"name":{}}}"#,
        go_string(&container.image),
        go_string(&container.name)
    ))
}

/// An image's name as runtimes report it: with registry, and with a tag or a digest.
pub(super) fn normalised(image: &str) -> String {
    let (name, digest) = match image.split_once('@') {
        Some((name, digest)) => (name, Some(digest)),
        None => (image, None),
    };
    let is_tag = |tag: &str| !tag.contains('/');
    let (name, tag) = match name.rsplit_once(':').filter(|(_, tag)| is_tag(tag)) {
        Some((name, tag)) => (name, tag),
        None => (name, "latest"),
    };
    let is_registry = |first: &str| first.contains(['.', ':']) || first == "localhost";
    let path = match name.split_once('/') {
        Some(("index.docker.io", path)) => format!("docker.io/{path}"),
        Some((first, _)) if is_registry(first) => name.to_owned(),
        Some(_) => format!("docker.io/{name}"),
        None => format!("docker.io/library/{name}"),
    };
    // With a digest the tag is a comment.
    digest.map_or_else(|| format!("{path}:{tag}"), |digest| format!("{path}@{digest}"))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_of_images_are_compared_as_runtimes_write_them() {
        for (image, expected) in [
            ("nginx", "docker.io/library/nginx:latest"),
            ("nginx:1.2", "docker.io/library/nginx:1.2"),
            ("team/app:v1", "docker.io/team/app:v1"),
            ("docker.io/library/nginx:1.2", "docker.io/library/nginx:1.2"),
            ("index.docker.io/library/nginx:1.2", "docker.io/library/nginx:1.2"),
            ("host:5000/app", "host:5000/app:latest"),
            ("localhost/app:v1", "localhost/app:v1"),
            ("registry.example.com/app:v1@sha256:aa", "registry.example.com/app@sha256:aa"),
        ] {
            assert_eq!(normalised(image), expected);
        }
    }

    #[test]
    fn hashes_of_containers_are_those_of_the_kubelet() {
        let container =
            Container { name: "test_container".into(), image: "foo/image:v1".into(), ..Container::default() };
        assert_eq!(plain_hash(&container), 0x8e45_cbd0);
        assert_eq!(deep_hash("null"), 86_995_377);
        assert_eq!(deep_hash(r#"[{"name":"APP_CONFIG","value":"v1"}]"#), 4_274_367_333);
    }
}
