//! Mode `NativeSidecar`: containers that end later become init containers that run beside the others
//! (docs/behaviour/exit-priority.md#mode-nativesidecar).

use std::cmp::Reverse;

use api::annotations::CONTAINER_EXIT_MOVED;
use api::conditions::IN_PLACE_UPDATE_READY;
use api::environment::{CONTAINER_BARRIER, CONTAINER_PRIORITY};
use api::raw_object::{RawNode, RawObject};
use serde_json::Value;

use super::containers::{is_native, name, put, remove, take, value};
use super::request::Request;
use values::json_patch::string;
use values::verdict::Denial;

/// Moves the containers back that an earlier review moved.
pub(super) fn restore(annotations: &mut RawObject<'_>, spec: &mut RawObject<'_>) -> Result<(), Denial> {
    let Some(moved) = annotations.string(CONTAINER_EXIT_MOVED) else { return Ok(()) };
    annotations.remove(CONTAINER_EXIT_MOVED);
    let is_moved = |container: &RawObject<'_>| {
        let name = name(container);
        is_native(container) && moved.split(',').any(|moved| moved == name)
    };
    let init_containers = take(spec, "initContainers")?;
    let (back, stay): (Vec<_>, Vec<_>) = init_containers.into_iter().partition(is_moved);
    put(spec, "initContainers", stay);
    let mut containers = take(spec, "containers")?;
    containers.extend(back.into_iter().map(|mut container| {
        container.remove("restartPolicy");
        container
    }));
    put(spec, "containers", containers);
    Ok(())
}

/// Why the containers that end later can't be moved.
pub(super) fn impossible(spec: &RawObject<'_>, request: &Request) -> Option<String> {
    let gates = value(spec, "readinessGates");
    if gates.as_array().into_iter().flatten().any(|gate| gate["conditionType"] == IN_PLACE_UPDATE_READY) {
        return Some(format!(
            "the Pod has the readiness gate {IN_PLACE_UPDATE_READY}: variables of native sidecars do not change in place"
        ));
    }
    let containers = value(spec, "containers");
    let exit = |container: &Value| request.of(container["name"].as_str().unwrap_or_default());
    let all = || containers.as_array().into_iter().flatten();
    let lowest = all().map(exit).min()?;
    if let Some(own) = all().find(|it| exit(it) > lowest && !it["restartPolicy"].is_null()) {
        let name = string(own["name"].as_str().unwrap_or_default());
        return Some(format!(
            "container {name} has a restartPolicy of its own, and native sidecars always restart"
        ));
    }
    let containers = all().map(|container| {
        let name = container["name"].as_str().unwrap_or_default();
        (name, exit(container), launch(container))
    });
    let containers: Vec<(&str, i32, i64)> = containers.collect();
    let staying = containers.iter().filter(|(_, exit, _)| *exit == lowest);
    let (first, earliest) =
        staying.map(|(name, _, launch)| (*name, *launch)).max_by_key(|(_, launch)| *launch)?;
    let late =
        containers.iter().find(|(_, exit, launch)| *exit > lowest && (*launch < 0 || *launch < earliest));
    late.map(|(name, ..)| {
        let [late, first] = [*name, first].map(string);
        format!("container {late} would start before {first}, which their launch priorities forbid")
    })
}

/// The launch priority of a container. That of Pods whose containers start as they are listed is in its barrier.
fn launch(container: &Value) -> i64 {
    let variables = || container["env"].as_array().into_iter().flatten().rev();
    let of_barrier = variables().find(|variable| variable["name"] == CONTAINER_BARRIER).and_then(|barrier| {
        barrier.pointer("/valueFrom/configMapKeyRef/key")?.as_str()?.strip_prefix("p_")?.parse().ok()
    });
    let own = || {
        let variable = variables().find(|variable| variable["name"] == CONTAINER_PRIORITY)?;
        variable["value"].as_str()?.parse().ok()
    };
    of_barrier.or_else(own).unwrap_or_default()
}

/// Moves the containers that end later behind the init containers: the kubelet ends those in reverse order.
pub(super) fn apply(
    annotations: &mut RawObject<'_>,
    spec: &mut RawObject<'_>,
    request: &Request,
) -> Result<(), Denial> {
    let containers = take(spec, "containers")?;
    let lowest = containers.iter().map(|container| request.of(&name(container))).min().unwrap_or_default();
    let (mut moved, stay): (Vec<_>, Vec<_>) =
        containers.into_iter().partition(|container| request.of(&name(container)) > lowest);
    put(spec, "containers", stay);
    moved.sort_by_key(|container| Reverse(request.of(&name(container))));
    let names: Vec<String> = moved.iter().map(name).collect();
    annotations.insert(CONTAINER_EXIT_MOVED, RawNode::string(&names.join(",")));
    let mut init_containers = take(spec, "initContainers")?;
    init_containers.extend(moved.into_iter().map(|mut container| {
        // Only regular containers are released in the order of launch: this one would wait forever.
        remove(&mut container, "env", CONTAINER_BARRIER);
        container.insert("restartPolicy", RawNode::string("Always"));
        container
    }));
    put(spec, "initContainers", init_containers);
    Ok(())
}
