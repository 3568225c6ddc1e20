//! Rules 5 and 6: updates in place.

use api::annotations::IN_PLACE_UPDATE_STATE;
use api::environment::CONTAINER_BARRIER;
use api::kinds::shared::PodUpdatePolicy;
use serde_json::Value;

use crate::kind::{Scene, Simulated, Violation, is_at};
use pod::observed::{Container, ObservedPod};

/// Rule 5, after a Pod was marked to be recreated for `revision`.
pub(super) fn judge_recreation<W: Simulated>(
    scene: &Scene<'_, W>,
    pod: &ObservedPod,
    revision: &str,
) -> Option<Violation> {
    let name = &pod.metadata.name;
    let text = match scene.workload().update_policy()? {
        PodUpdatePolicy::InPlaceOnly => format!("Pod {name} is recreated though the policy is InPlaceOnly"),
        PodUpdatePolicy::InPlaceIfPossible => {
            let template = |data: &str| {
                let mut data: Value = serde_json::from_str(data).ok()?;
                fixed_part(data.pointer_mut("/spec/template")?);
                Some(data)
            };
            let old = scene.revision(|stored| is_at(pod, stored)).and_then(template)?;
            let new = scene.revision(|stored| stored == revision).and_then(template)?;
            if old != new {
                return None;
            }
            format!("Pod {name} is recreated for {revision} without need")
        }
        PodUpdatePolicy::ReCreate | PodUpdatePolicy::Other(_) => return None,
    };
    Some(Violation::new("In place", text))
}

/// Rule 6, after a write to a Pod.
pub(super) fn judge_order(before: &ObservedPod, after: &ObservedPod, broken: &mut Vec<Violation>) {
    let image = |pod: &ObservedPod, container: &Container| {
        pod.container(&container.name).map(|container| container.image.clone())
    };
    let changed: Vec<&Container> = after
        .running_containers()
        .filter(|container| image(before, container) != Some(container.image.clone()))
        .collect();
    let recorded = after.annotation(IN_PLACE_UPDATE_STATE).unwrap_or_default();
    for container in &changed {
        let Some(own) = priority(container) else { continue };
        let first =
            after.spec.containers.iter().filter(|other| priority(other).is_some_and(|rank| rank > own));
        for other in first {
            let status = after.container_status(&other.name);
            let runs = status.is_some_and(|status| status.image == other.image && status.ready);
            let is_part = changed.iter().any(|changed| changed.name == other.name);
            let was_part = recorded.contains(&format!("\"{}\":{{\"imageID\"", other.name));
            if is_part || (was_part && !runs) {
                let text = format!(
                    "container {} of Pod {} changes before {}, which has the higher priority, runs",
                    container.name, after.metadata.name, other.name
                );
                broken.push(Violation::new("Order", text));
            }
        }
    }
}

/// The launch priority of the container's barrier.
fn priority(container: &Container) -> Option<i64> {
    let source = container.variable(CONTAINER_BARRIER)?.value_from.as_ref()?;
    source.config_map_key_ref.as_ref()?.key.strip_prefix("p_")?.parse().ok()
}

/// Leaves of a template what a running Pod cannot take.
fn fixed_part(template: &mut Value) {
    if let Some(template) = template.as_object_mut() {
        template.remove("metadata");
    }
    for list in ["/spec/containers", "/spec/initContainers"] {
        let containers = template.pointer_mut(list).and_then(Value::as_array_mut);
        for container in containers.into_iter().flatten().filter_map(Value::as_object_mut) {
            if list == "/spec/containers" || container.get("restartPolicy") == Some(&"Always".into()) {
                container.remove("image");
            }
        }
    }
}
