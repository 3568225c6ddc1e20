//! The containers of a workload: images, environment, resources and the account that they run as
//! (docs/behaviour/kubectl-kruise.md#set).

use std::fmt::Write;

use serde_json::{Value, json};

use super::edit::bound;
use super::kinds::WorkloadKind;
use crate::text::json_patch::{Patch, Pointer, string};

/// The variable by which Pods are made anew.
const RESTARTED_AT: &str = "RESTARTED_AT";
/// The annotation of a Pod template by which Pods are made anew.
const RESTARTED_AT_ANNOTATION: &str = "kubectl.kubernetes.io/restartedAt";

/// Changes of environment variables.
#[derive(Debug, Default)]
pub struct EnvironmentChange {
    /// Variables with their values, as containers list them.
    pub set: Vec<Value>,
    /// Names of those that go.
    pub remove: Vec<String>,
    /// A variable that is there may get another value.
    pub overwrite: bool,
}

/// Changes of requests and limits: names of resources with their quantities.
#[derive(Debug, Default)]
pub struct ResourceChange {
    /// The limits.
    pub limits: Vec<(String, String)>,
    /// The requests.
    pub requests: Vec<(String, String)>,
}

/// Where the Pod specs of an object are: those of its templates, and of a SidecarSet its own spec.
fn pod_specs(kind: WorkloadKind, object: &Value) -> Vec<Pointer> {
    if kind == WorkloadKind::SidecarSet {
        return vec![Pointer::from_escaped("/spec")];
    }
    let templates = kind.pod_templates().iter().map(|template| Pointer::from_escaped(*template).key("spec"));
    templates.filter(|spec| object.pointer(spec.as_str()).is_some_and(Value::is_object)).collect()
}

/// The containers of an object: where they are, and themselves.
fn containers(kind: WorkloadKind, object: &Value, with_init: bool) -> Vec<(Pointer, &Value)> {
    let lists = if with_init { &["initContainers", "containers"][..] } else { &["containers"] };
    let mut found = Vec::new();
    for spec in pod_specs(kind, object) {
        for list in lists {
            let pointer = spec.key(list);
            let all = object.pointer(pointer.as_str()).and_then(Value::as_array);
            let all = all.into_iter().flatten().enumerate();
            found.extend(all.map(|(index, container)| (pointer.index(index), container)));
        }
    }
    found
}

fn name(value: &Value) -> &str {
    value.get("name").and_then(Value::as_str).unwrap_or_default()
}

/// The names of all containers of an object, each once.
pub fn container_names(kind: WorkloadKind, object: &Value) -> Vec<&str> {
    let mut names: Vec<&str> =
        containers(kind, object, true).into_iter().map(|(_, container)| name(container)).collect();
    names.sort_unstable();
    names.dedup();
    names
}

/// Whether a text is what a pattern means, in which `*` stands for anything.
pub fn matches(pattern: &str, text: &str) -> bool {
    let mut parts = pattern.split('*');
    let Some(mut rest) = parts.next().and_then(|first| text.strip_prefix(first)) else { return false };
    let Some(last) = parts.next_back() else { return rest.is_empty() };
    for part in parts {
        let Some(at) = rest.find(part) else { return false };
        rest = rest.get(at + part.len()..).unwrap_or_default();
    }
    rest.ends_with(last)
}

/// Sets images by the names of containers; `*` means all. `None` where nothing changes.
///
/// # Errors
/// What to say to the user.
pub fn set_images(
    kind: WorkloadKind,
    object: &Value,
    images: &[(String, String)],
) -> Result<Option<Patch>, String> {
    let all = containers(kind, object, true);
    let mut edits = Patch::default();
    for (wanted, image) in images {
        let meant: Vec<_> =
            all.iter().filter(|(_, container)| wanted == "*" || name(container) == wanted).collect();
        if meant.is_empty() {
            return Err(format!("unable to find container named {wanted:?}"));
        }
        for (pointer, container) in meant {
            if container.get("image").and_then(Value::as_str) != Some(image) {
                edits.add(pointer.key("image"), string(image));
            }
        }
    }
    Ok((!edits.is_empty()).then(|| bound(object, edits)))
}

/// Sets and removes environment variables of the containers whose names match. `None` where nothing changes.
///
/// # Errors
/// What to say to the user.
pub fn set_environment(
    kind: WorkloadKind,
    object: &Value,
    pattern: &str,
    change: &EnvironmentChange,
) -> Result<Option<Patch>, String> {
    let mut edits = Patch::default();
    for (pointer, container) in containers(kind, object, true) {
        if matches(pattern, name(container)) {
            change_environment(&mut edits, &pointer.key("env"), container.get("env"), change)?;
        }
    }
    Ok((!edits.is_empty()).then(|| bound(object, edits)))
}

fn change_environment(
    edits: &mut Patch,
    path: &Pointer,
    env: Option<&Value>,
    change: &EnvironmentChange,
) -> Result<(), String> {
    let present = env.and_then(Value::as_array);
    let at = |wanted: &str| present.and_then(|all| all.iter().position(|one| name(one) == wanted));
    let mut added = Vec::new();
    for variable in &change.set {
        let found = at(name(variable)).and_then(|index| Some((index, present?.get(index)?)));
        match found {
            Some((_, old)) if old == variable => {}
            Some((_, old)) if !change.overwrite => {
                let value = old.get("value").and_then(Value::as_str).unwrap_or_default();
                let name = name(variable);
                return Err(format!("'{name}' already has a value ({value}), and --overwrite is false"));
            }
            Some((index, _)) => edits.replace(path.index(index), variable.to_string()),
            None => added.push(variable),
        }
    }
    if present.is_none() && !added.is_empty() {
        edits.add(path.clone(), json!(added).to_string());
    } else {
        for variable in added {
            edits.add(path.end(), variable.to_string());
        }
    }
    let mut gone: Vec<usize> = change.remove.iter().filter_map(|name| at(name)).collect();
    gone.sort_unstable();
    gone.dedup();
    // From the end on, so that no index moves before its turn.
    for index in gone.into_iter().rev() {
        edits.remove(path.index(index));
    }
    Ok(())
}

/// The environment of the containers whose names match, in lines.
pub fn listed_environment(kind: WorkloadKind, object: &Value, pattern: &str) -> String {
    let mut text = String::new();
    let of = object.pointer("/metadata/name").and_then(Value::as_str).unwrap_or_default();
    for (_, container) in containers(kind, object, true) {
        if !matches(pattern, name(container)) {
            continue;
        }
        // Writing to a String cannot fail.
        let _ = writeln!(text, "# {} {of}, container {}", kind.kind(), name(container));
        for variable in container.get("env").and_then(Value::as_array).into_iter().flatten() {
            let _ = match variable.get("valueFrom") {
                Some(source) => writeln!(text, "# {} from {}", name(variable), told_source(source)),
                None => {
                    let value = variable.get("value").and_then(Value::as_str).unwrap_or_default();
                    writeln!(text, "{}={value}", name(variable))
                }
            };
        }
    }
    text
}

fn told_source(source: &Value) -> String {
    let word = |pointer: &str| source.pointer(pointer).and_then(Value::as_str).unwrap_or_default();
    if source.get("secretKeyRef").is_some() {
        return format!("secret {}, key {}", word("/secretKeyRef/name"), word("/secretKeyRef/key"));
    }
    if source.get("configMapKeyRef").is_some() {
        return format!("configmap {}, key {}", word("/configMapKeyRef/name"), word("/configMapKeyRef/key"));
    }
    if source.get("fieldRef").is_some() {
        return format!("field path {}", word("/fieldRef/fieldPath"));
    }
    format!("resource {}", word("/resourceFieldRef/resource"))
}

/// Sets requests and limits of the containers whose names match. `None` where nothing changes.
///
/// # Errors
/// What to say to the user.
pub fn set_resources(
    kind: WorkloadKind,
    object: &Value,
    pattern: &str,
    change: &ResourceChange,
) -> Result<Option<Patch>, String> {
    let mut edits = Patch::default();
    let mut is_found = false;
    for (pointer, container) in containers(kind, object, false) {
        if !matches(pattern, name(container)) {
            continue;
        }
        is_found = true;
        let mut wanted = container.get("resources").cloned().filter(Value::is_object).unwrap_or(json!({}));
        for (member, quantities) in [("limits", &change.limits), ("requests", &change.requests)] {
            for (resource, quantity) in quantities {
                if !wanted.get(member).is_some_and(Value::is_object) {
                    set_member(&mut wanted, member, json!({}));
                }
                if let Some(list) = wanted.get_mut(member) {
                    set_member(list, resource, quantity.as_str().into());
                }
            }
        }
        if container.get("resources") != Some(&wanted) {
            edits.add(pointer.key("resources"), wanted.to_string());
        }
    }
    if !is_found {
        return Err(format!("unable to find container named {pattern:?}"));
    }
    Ok((!edits.is_empty()).then(|| bound(object, edits)))
}

fn set_member(object: &mut Value, name: &str, value: Value) {
    if let Some(members) = object.as_object_mut() {
        members.insert(name.to_owned(), value);
    }
}

/// Sets the account that Pods run as. `None` where nothing changes.
pub fn set_service_account(kind: WorkloadKind, object: &Value, account: &str) -> Option<Patch> {
    let mut edits = Patch::default();
    for spec in pod_specs(kind, object) {
        let path = spec.key("serviceAccountName");
        if object.pointer(path.as_str()).and_then(Value::as_str) != Some(account) {
            edits.add(path, string(account));
        }
    }
    (!edits.is_empty()).then(|| bound(object, edits))
}

/// Says something new in these containers, or in all where none is named, so that Pods are made anew; `now` is what it says.
/// Templates of a UnitedDeployment say it in an annotation, as kubectl does.
pub fn restart(kind: WorkloadKind, object: &Value, names: &[String], now: &str) -> Patch {
    let mut edits = Patch::default();
    if kind == WorkloadKind::UnitedDeployment {
        for template in kind.pod_templates() {
            annotate_template(&mut edits, object, template, now);
        }
        return bound(object, edits);
    }
    let variable = EnvironmentChange {
        set: vec![json!({"name": RESTARTED_AT, "value": now})],
        overwrite: true,
        ..Default::default()
    };
    for (pointer, container) in containers(kind, object, false) {
        let name = container.get("name").and_then(Value::as_str).unwrap_or_default();
        if !names.is_empty() && !names.iter().any(|one| one == name) {
            continue;
        }
        // What overwrites is never refused.
        let _ = change_environment(&mut edits, &pointer.key("env"), container.get("env"), &variable);
    }
    bound(object, edits)
}

fn annotate_template(edits: &mut Patch, object: &Value, template: &str, now: &str) {
    if !object.pointer(template).is_some_and(Value::is_object) {
        return;
    }
    let mut path = Pointer::from_escaped(template);
    for member in ["metadata", "annotations"] {
        path = path.key(member);
        if !object.pointer(path.as_str()).is_some_and(Value::is_object) {
            edits.add(path.clone(), "{}");
        }
    }
    edits.add(path.key(RESTARTED_AT_ANNOTATION), string(now));
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::text::json_patch::apply;

    fn set() -> Value {
        json!({"metadata": {"name": "web", "resourceVersion": "7"}, "spec": {"template": {"metadata": {"labels": {"app": "web"}},
            "spec": {"initContainers": [{"name": "init", "image": "a"}],
                "containers": [{"name": "main", "image": "a", "fieldOfTomorrow": {"n": 1.50}}, {"name": "log", "image": "b", "env": [{"name": "K", "value": "V"}]}]}}}})
    }

    fn applied(object: &Value, patch: &Patch) -> Value {
        serde_json::from_str(&apply(&object.to_string(), patch).unwrap()).unwrap()
    }

    #[test]
    fn patterns_match_as_in_a_shell() {
        for (pattern, text, expected) in [
            ("*", "main", true),
            ("", "", true),
            ("main", "main", true),
            ("main", "main2", false),
            ("m*n", "main", true),
            ("a*a", "a", false),
            ("*a*b*", "xaxbx", true),
            ("*b*a*", "xaxbx", false),
        ] {
            assert_eq!(matches(pattern, text), expected, "{pattern} {text}");
        }
    }

    #[test]
    fn images_are_set_by_name_and_nothing_else_changes() {
        let object = set();
        let pair = |name: &str, image: &str| (name.to_owned(), image.to_owned());
        let patch = set_images(WorkloadKind::CloneSet, &object, &[pair("main", "c"), pair("init", "d")])
            .unwrap()
            .unwrap();
        let after = applied(&object, &patch);
        let mut expected = object.clone();
        expected["spec"]["template"]["spec"]["containers"][0]["image"] = "c".into();
        expected["spec"]["template"]["spec"]["initContainers"][0]["image"] = "d".into();
        assert_eq!(after, expected);
        assert_eq!(set_images(WorkloadKind::CloneSet, &object, &[pair("main", "a")]), Ok(None));
        let error = set_images(WorkloadKind::CloneSet, &object, &[pair("x", "a")]).unwrap_err();
        assert_eq!(error, r#"unable to find container named "x""#);
        let all = set_images(WorkloadKind::CloneSet, &object, &[pair("*", "z")]).unwrap().unwrap();
        assert_eq!(all.operations().len(), 4);
    }

    #[test]
    fn variables_are_set_and_removed() {
        let object = set();
        let change = EnvironmentChange {
            set: vec![json!({"name": "K", "value": "W"}), json!({"name": "N", "value": "1"})],
            remove: vec![],
            overwrite: true,
        };
        let patch = set_environment(WorkloadKind::CloneSet, &object, "l*", &change).unwrap().unwrap();
        let after = applied(&object, &patch);
        let containers = &after["spec"]["template"]["spec"]["containers"];
        assert_eq!(containers[0], object["spec"]["template"]["spec"]["containers"][0]);
        assert_eq!(containers[1]["env"], json!([{"name": "K", "value": "W"}, {"name": "N", "value": "1"}]));
        let text = listed_environment(WorkloadKind::CloneSet, &after, "log");
        assert_eq!(text, "# CloneSet web, container log\nK=W\nN=1\n");
        let none = EnvironmentChange { overwrite: false, ..change };
        let error = set_environment(WorkloadKind::CloneSet, &object, "*", &none).unwrap_err();
        assert_eq!(error, "'K' already has a value (V), and --overwrite is false");
        let gone =
            EnvironmentChange { remove: vec!["N".into(), "K".into(), "X".into()], ..Default::default() };
        let patch = set_environment(WorkloadKind::CloneSet, &after, "log", &gone).unwrap().unwrap();
        assert_eq!(applied(&after, &patch)["spec"]["template"]["spec"]["containers"][1]["env"], json!([]));
        assert_eq!(set_environment(WorkloadKind::CloneSet, &after, "main", &gone), Ok(None));
    }

    #[test]
    fn quantities_are_set_beside_others() {
        let mut object = set();
        object["spec"]["template"]["spec"]["containers"][1]["resources"] =
            json!({"limits": {"memory": "1Gi"}, "claims": []});
        let change = ResourceChange { limits: vec![("cpu".into(), "1".into())], requests: vec![] };
        let patch = set_resources(WorkloadKind::AdvancedDaemonSet, &object, "log", &change).unwrap().unwrap();
        let after = applied(&object, &patch);
        let resources = &after["spec"]["template"]["spec"]["containers"][1]["resources"];
        assert_eq!(*resources, json!({"limits": {"memory": "1Gi", "cpu": "1"}, "claims": []}));
        assert_eq!(set_resources(WorkloadKind::AdvancedDaemonSet, &after, "log", &change), Ok(None));
        assert!(set_resources(WorkloadKind::AdvancedDaemonSet, &after, "x", &change).is_err());
    }

    #[test]
    fn accounts_are_set_in_every_template_that_is_there() {
        let united = json!({"spec": {"template": {"cloneSetTemplate": {"spec": {"template": {"spec": {"containers": []}}}}}}});
        let patch = set_service_account(WorkloadKind::UnitedDeployment, &united, "robot").unwrap();
        let after = applied(&united, &patch);
        let spec = &after["spec"]["template"]["cloneSetTemplate"]["spec"]["template"]["spec"];
        assert_eq!(spec["serviceAccountName"], "robot");
        assert_eq!(set_service_account(WorkloadKind::UnitedDeployment, &after, "robot"), None);
    }

    #[test]
    fn a_restart_is_said_once() {
        let object = set();
        let after = applied(&object, &restart(WorkloadKind::CloneSet, &object, &[], "now"));
        let containers = &after["spec"]["template"]["spec"]["containers"];
        let variable = json!({"name": "RESTARTED_AT", "value": "now"});
        assert_eq!(containers[0]["env"], json!([variable]));
        assert_eq!(containers[1]["env"], json!([{"name": "K", "value": "V"}, variable]));
        let again = applied(&after, &restart(WorkloadKind::CloneSet, &after, &[], "later"));
        assert_eq!(again["spec"]["template"]["spec"]["containers"][0]["env"][0]["value"], "later");
        assert_eq!(
            again["spec"]["template"]["spec"]["initContainers"],
            object["spec"]["template"]["spec"]["initContainers"]
        );
        let united =
            json!({"spec": {"template": {"deploymentTemplate": {"spec": {"template": {"spec": {}}}}}}});
        let after = applied(&united, &restart(WorkloadKind::UnitedDeployment, &united, &[], "now"));
        let template = &after["spec"]["template"]["deploymentTemplate"]["spec"]["template"];
        assert_eq!(template["metadata"]["annotations"], json!({"kubectl.kubernetes.io/restartedAt": "now"}));
    }
}
