//! The containers of a workload: images, environment, resources and the account that they run as
//! (docs/behaviour/kubectl-kruise.md#set); and which Pod and which container `exec`, `logs` and `cp` enter
//! (docs/behaviour/kubectl-kruise.md#get-exec-logs-cp).

use std::collections::BTreeMap;

use api::annotations::SIDECARSET_WORKING_HOT_UPGRADE_CONTAINER;
use api::meta::LabelSelector;
use serde_json::{Map, Value, json};

use super::edit::{add_member, bound};
use super::kinds::WorkloadKind;
use super::pods::{is_ready, text};
use values::json_patch::{Patch, Pointer, string};
use values::quantity::Quantity;
use values::selector::Selector;

pub mod environment;

use environment::EnvironmentChange;

/// The variable whose change has the controller recreate the Pods.
const RESTARTED_AT: &str = "RESTARTED_AT";
/// The annotation of a Pod template whose change has the controller recreate the Pods.
const RESTARTED_AT_ANNOTATION: &str = "kubectl.kubernetes.io/restartedAt";

/// Changes of requests and limits: names of resources with their quantities.
#[derive(Debug, Default)]
pub struct ResourceChange {
    limits: Map<String, Value>,
    requests: Map<String, Value>,
}

impl ResourceChange {
    /// Reads limits and requests, each as `cpu=1,memory=1Gi`.
    ///
    /// # Errors
    /// What to say to the user.
    pub fn read(limits: &str, requests: &str) -> Result<Self, String> {
        let change = Self { limits: quantities(limits)?, requests: quantities(requests)? };
        if change.limits.is_empty() && change.requests.is_empty() {
            let error =
                "you must specify an update to requests or limits (in the form of --requests/--limits)";
            return Err(error.to_owned());
        }
        Ok(change)
    }

    /// Changes the quantities at `path`, which is `resources`, and nothing beside them.
    fn write(&self, edits: &mut Patch, path: &Pointer, resources: Option<&Value>) {
        let wanted = [("limits", &self.limits), ("requests", &self.requests)];
        let wanted = wanted.into_iter().filter(|(_, quantities)| !quantities.is_empty());
        let Some(resources) = resources.filter(|resources| resources.is_object()) else {
            let whole = wanted.map(|(member, quantities)| (member.to_owned(), quantities.clone().into()));
            edits.add(path.clone(), Value::Object(whole.collect()).to_string());
            return;
        };
        for (member, quantities) in wanted {
            let path = path.key(member);
            let Some(present) = resources.get(member).filter(|present| present.is_object()) else {
                edits.add(path, json!(quantities).to_string());
                continue;
            };
            for (resource, quantity) in quantities {
                if present.get(resource) != Some(quantity) {
                    edits.add(path.key(resource), quantity.to_string());
                }
            }
        }
    }
}

/// Reads `cpu=1,memory=1Gi`; of two quantities of one resource the last is meant.
fn quantities(text: &str) -> Result<Map<String, Value>, String> {
    let mut all = Map::new();
    for pair in text.split(',').filter(|_| !text.is_empty()) {
        let (resource, quantity) = pair
            .split_once('=')
            .filter(|(resource, _)| !resource.is_empty())
            .ok_or_else(|| format!("{pair:?} is not RESOURCE=QUANTITY, such as cpu=1"))?;
        quantity.parse::<Quantity>().map_err(|error| format!("{pair:?}: {error}"))?;
        all.insert(resource.to_owned(), quantity.into());
    }
    Ok(all)
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

/// An object without a Pod template has no containers and no account, and nothing of them can be set.
fn with_containers(kind: WorkloadKind, object: &Value) -> Result<(), String> {
    if pod_specs(kind, object).is_empty() { Err(without(object, kind, "containers")) } else { Ok(()) }
}

fn without(object: &Value, kind: WorkloadKind, field: &str) -> String {
    let name = text(object, "/metadata/name");
    format!("{}.{} {name:?} has no field {field}", kind.plural(), kind.group())
}

fn name(value: &Value) -> &str {
    text(value, "/name")
}

/// The names of all containers of an object, each once.
pub fn container_names(kind: WorkloadKind, object: &Value) -> Vec<&str> {
    let mut names: Vec<&str> =
        containers(kind, object, true).into_iter().map(|(_, container)| name(container)).collect();
    names.sort_unstable();
    names.dedup();
    names
}

/// Whether `text` matches `pattern`, where `*` matches any characters.
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
    with_containers(kind, object)?;
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
    with_containers(kind, object)?;
    let mut edits = Patch::default();
    let mut is_found = false;
    for (pointer, container) in containers(kind, object, false) {
        if matches(pattern, name(container)) {
            is_found = true;
            change.write(&mut edits, &pointer.key("resources"), container.get("resources"));
        }
    }
    if !is_found {
        return Err(format!("unable to find container named {pattern:?}"));
    }
    Ok((!edits.is_empty()).then(|| bound(object, edits)))
}

/// Sets the account that Pods run as. `None` where nothing changes.
///
/// # Errors
/// What to say to the user.
pub fn set_service_account(
    kind: WorkloadKind,
    object: &Value,
    account: &str,
) -> Result<Option<Patch>, String> {
    // A SidecarSet has containers, and none of the other fields of Pods.
    let specs = if kind == WorkloadKind::SidecarSet { Vec::new() } else { pod_specs(kind, object) };
    if specs.is_empty() {
        return Err(without(object, kind, "serviceAccountName"));
    }
    let mut edits = Patch::default();
    for spec in specs {
        let path = spec.key("serviceAccountName");
        if object.pointer(path.as_str()).and_then(Value::as_str) != Some(account) {
            edits.add(path, string(account));
        }
    }
    Ok((!edits.is_empty()).then(|| bound(object, edits)))
}

/// The Pod to enter of those of a workload: one that is not terminating, that runs, that is ready, in this order.
pub fn preferred(pods: &[Value]) -> Option<&Value> {
    let phase = |pod: &Value| pod.pointer("/status/phase").and_then(Value::as_str) == Some("Running");
    pods.iter()
        .min_by_key(|pod| (pod.pointer("/metadata/deletionTimestamp").is_some(), !phase(pod), !is_ready(pod)))
}

/// Of Pods those that an object selects: a workload by its `matchLabels` and `matchExpressions`, a Service or a
/// ReplicationController by labels. `None` where it selects none at all.
pub fn selected(object: &Value, pods: Vec<Value>) -> Option<Vec<Value>> {
    let selector = object.pointer("/spec/selector").filter(|selector| selector.is_object())?;
    let is_plain = ["matchLabels", "matchExpressions"].into_iter().all(|form| selector.get(form).is_none());
    let selector = if is_plain { json!({"matchLabels": selector}) } else { selector.clone() };
    let selector: LabelSelector = serde_json::from_value(selector).ok()?;
    let selector = Selector::compile(&selector).ok().filter(|selector| !selector.is_empty())?;
    let is_selected = |pod: &Value| {
        let labels = pod.pointer("/metadata/labels").cloned().unwrap_or_default();
        let labels: BTreeMap<String, String> = serde_json::from_value(labels).unwrap_or_default();
        selector.matches(&labels)
    };
    Some(pods.into_iter().filter(is_selected).collect())
}

/// Returns the active container of a hot-upgraded sidecar.
///
/// # Errors
/// What to say to the user.
pub fn working_container(pod: &Value, sidecar: &str) -> Result<String, String> {
    let annotations = pod.pointer("/metadata/annotations");
    let text = annotations.and_then(|all| all.get(SIDECARSET_WORKING_HOT_UPGRADE_CONTAINER)?.as_str());
    let known: Map<String, Value> = serde_json::from_str(text.unwrap_or("{}")).unwrap_or_default();
    if let Some(name) = known.get(sidecar).and_then(Value::as_str) {
        return Ok(name.to_owned());
    }
    let known: Vec<&str> = known.keys().map(String::as_str).collect();
    Err(format!(
        "no container {sidecar:?} of a SidecarSet works in this Pod; there are: {}",
        known.join(", ")
    ))
}

/// Sets RESTARTED_AT to `now` in these containers (default: all), so that the controller recreates the Pods.
/// The templates of a UnitedDeployment get an annotation instead, as kubectl sets it.
pub fn restart(kind: WorkloadKind, object: &Value, names: &[String], now: &str) -> Patch {
    let mut edits = Patch::default();
    if kind == WorkloadKind::UnitedDeployment {
        let steps = ["metadata", "annotations", RESTARTED_AT_ANNOTATION];
        let present = |template: &&&str| object.pointer(template).is_some_and(Value::is_object);
        for template in kind.pod_templates().iter().filter(present) {
            add_member(&mut edits, object, Pointer::from_escaped(*template), &steps, string(now));
        }
        return bound(object, edits);
    }
    let variable = EnvironmentChange::of(RESTARTED_AT, now);
    for (pointer, container) in containers(kind, object, false) {
        if names.is_empty() || names.iter().any(|one| one == name(container)) {
            // What overwrites is never refused.
            let _ = variable.write(&mut edits, &pointer.key("env"), container.get("env"));
        }
    }
    bound(object, edits)
}

#[cfg(test)]
mod tests {
    use super::*;
    use values::json_patch::apply;

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
    fn variables_are_set_in_the_containers_whose_names_match() {
        let object = set();
        let change = EnvironmentChange::read(&["K=W".to_owned(), "N=1".to_owned()], "", true).unwrap();
        let of = |pattern| environment::set_environment(WorkloadKind::CloneSet, &object, pattern, &change);
        let after = applied(&object, &of("l*").unwrap().unwrap());
        let containers = &after["spec"]["template"]["spec"]["containers"];
        assert_eq!(containers[0], object["spec"]["template"]["spec"]["containers"][0]);
        assert_eq!(containers[1]["env"], json!([{"name": "K", "value": "W"}, {"name": "N", "value": "1"}]));
        assert_eq!(of("nosuch"), Ok(None));
    }

    #[test]
    fn single_quantities_are_set_and_nothing_beside_them() {
        let mut object = set();
        object["spec"]["template"]["spec"]["containers"][1]["resources"] =
            json!({"limits": {"memory": "1Gi", "example.com/gpu": 1}, "claims": []});
        let of = |object: &Value, pattern: &str| {
            let change = ResourceChange::read("cpu=2,cpu=1", "memory=1Gi").unwrap();
            set_resources(WorkloadKind::AdvancedDaemonSet, object, pattern, &change)
        };
        let patch = of(&object, "log").unwrap().unwrap();
        let paths: Vec<String> = serde_json::from_str::<Vec<Value>>(&patch.to_json())
            .unwrap()
            .iter()
            .map(|operation| operation["path"].as_str().unwrap().to_owned())
            .collect();
        let resources = "/spec/template/spec/containers/1/resources";
        let expected = [
            "/metadata/resourceVersion".to_owned(),
            format!("{resources}/limits/cpu"),
            format!("{resources}/requests"),
        ];
        assert_eq!(paths, expected);
        let after = applied(&object, &patch);
        let resources = &after["spec"]["template"]["spec"]["containers"][1]["resources"];
        let limits = json!({"memory": "1Gi", "example.com/gpu": 1, "cpu": "1"});
        assert_eq!(*resources, json!({"limits": limits, "claims": [], "requests": {"memory": "1Gi"}}));
        assert_eq!(of(&after, "log"), Ok(None));
        let after = applied(&object, &of(&object, "main").unwrap().unwrap());
        let resources = &after["spec"]["template"]["spec"]["containers"][0]["resources"];
        assert_eq!(*resources, json!({"limits": {"cpu": "1"}, "requests": {"memory": "1Gi"}}));
        assert!(of(&object, "x").is_err());
        for (limits, requests) in [("", ""), ("cpu", ""), ("=1", ""), ("cpu=much", ""), ("", "cpu=1,")] {
            assert!(ResourceChange::read(limits, requests).is_err(), "{limits} {requests}");
        }
    }

    #[test]
    fn kinds_without_a_field_say_so() {
        let object = json!({"metadata": {"name": "web"}, "spec": {"containers": [{"name": "main"}]}});
        let change = EnvironmentChange::of("K", "V");
        let no_containers = r#"rollouts.rollouts.kruise.io "web" has no field containers"#;
        let environment = environment::set_environment(WorkloadKind::Rollout, &object, "*", &change);
        assert_eq!(environment.unwrap_err(), no_containers);
        let quantities = ResourceChange::read("cpu=1", "").unwrap();
        let resources = set_resources(WorkloadKind::Rollout, &object, "*", &quantities);
        assert_eq!(resources.unwrap_err(), no_containers);
        let images = set_images(WorkloadKind::Rollout, &object, &[("*".to_owned(), "a".to_owned())]);
        assert_eq!(images.unwrap_err(), no_containers);
        for (kind, named) in
            [(WorkloadKind::SidecarSet, "sidecarsets.apps"), (WorkloadKind::Rollout, "rollouts.rollouts")]
        {
            let error = set_service_account(kind, &object, "robot").unwrap_err();
            assert_eq!(error, format!(r#"{named}.kruise.io "web" has no field serviceAccountName"#));
        }
        assert!(set_resources(WorkloadKind::SidecarSet, &object, "*", &quantities).unwrap().is_some());
    }

    #[test]
    fn accounts_are_set_in_every_template_that_is_there() {
        let united = json!({"spec": {"template": {"cloneSetTemplate": {"spec": {"template": {"spec": {"containers": []}}}}}}});
        let set =
            |object: &Value| set_service_account(WorkloadKind::UnitedDeployment, object, "robot").unwrap();
        let after = applied(&united, &set(&united).unwrap());
        let spec = &after["spec"]["template"]["cloneSetTemplate"]["spec"]["template"]["spec"];
        assert_eq!(spec["serviceAccountName"], "robot");
        assert_eq!(set(&after), None);
    }

    #[test]
    fn the_pod_that_serves_is_entered() {
        let pod = |name: &str, phase: &str, ready: &str, terminating: bool| {
            let mut pod = json!({"metadata": {"name": name, "labels": {"app": "web"}},
                "status": {"phase": phase, "conditions": [{"type": "Ready", "status": ready}]}});
            if terminating {
                pod["metadata"]["deletionTimestamp"] = "2026-01-01T00:00:00Z".into();
            }
            pod
        };
        let mut pods = vec![
            pod("terminating", "Running", "True", true),
            pod("pending", "Pending", "False", false),
            pod("unready", "Running", "False", false),
            pod("ready", "Running", "True", false),
            pod("other", "Running", "True", false),
        ];
        for expected in ["ready", "other", "unready", "pending", "terminating"] {
            let found = preferred(&pods).unwrap()["metadata"]["name"].clone();
            assert_eq!(found, expected);
            pods.retain(|pod| pod["metadata"]["name"] != found);
        }
        assert_eq!(preferred(&pods), None);
    }

    #[test]
    fn pods_are_those_that_an_object_selects() {
        let pods = || {
            vec![
                json!({"metadata": {"name": "a", "labels": {"app": "web"}}}),
                json!({"metadata": {"name": "b"}}),
            ]
        };
        let names = |selector: Value| {
            let found = selected(&json!({"spec": {"selector": selector}}), pods())?;
            Some(
                found
                    .iter()
                    .map(|pod| pod["metadata"]["name"].as_str().unwrap().to_owned())
                    .collect::<String>(),
            )
        };
        assert_eq!(names(json!({"app": "web"})).as_deref(), Some("a"));
        assert_eq!(names(json!({"matchLabels": {"app": "web"}})).as_deref(), Some("a"));
        let absent = json!({"matchExpressions": [{"key": "app", "operator": "DoesNotExist"}]});
        assert_eq!(names(absent).as_deref(), Some("b"));
        for none in [json!({}), Value::Null, json!({"matchLabels": {}}), json!({"app": 1})] {
            assert_eq!(names(none), None);
        }
    }

    #[test]
    fn a_sidecar_that_does_not_work_here_is_an_error() {
        let pod = json!({"metadata": {"annotations": {SIDECARSET_WORKING_HOT_UPGRADE_CONTAINER: r#"{"agent":"agent-2"}"#}}});
        assert_eq!(working_container(&pod, "agent").unwrap(), "agent-2");
        assert!(working_container(&pod, "nosuch").unwrap_err().ends_with("there are: agent"));
        assert!(working_container(&json!({}), "agent").is_err());
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
