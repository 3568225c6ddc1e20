//! Every member that a schema requires is taken out of a whole object, of each kind that OpenKruise completes
//! (docs/behaviour/api-and-registration.md#required-members-that-are-left-out).

use std::collections::BTreeSet;

use api::schema::{Demand, demand_of_spec};
use base64::Engine;
use base64::engine::general_purpose::STANDARD;
use serde_json::{Value, json};

use crate::support::{CLUSTER, admission, ask};
use webhooks::Admission;

/// What comes of a member that is left out, by the end of its path; the first that fits. Empty for what passes.
const OUTCOMES: &[(&str, &str, &str)] = &[
    ("AdvancedCronJob", "spec.schedule", "spec.schedule: Invalid value: \"\": schedule cannot be empty"),
    ("AdvancedCronJob", "spec.template", "spec.template: Forbidden: spec must have one template"),
    ("ContainerRecreateRequest", "spec.podName", "podName can not be empty"),
    ("ContainerRecreateRequest", "spec.containers[].name", "container  not found in Pod"),
    ("ContainerRecreateRequest", "", "preStop, ports, statusContext in container are ready-only fields"),
    ("NodeImage", ".tags[].tag", "tag for image nginx can not be empty"),
    ("ImagePullJob", "spec.image", "image can not be empty"),
    ("", ".completionPolicy", ""),
    ("SidecarSet", "initContainers[].transferEnv[].sourceContainerNameFrom.fieldRef.fieldPath", ""),
    ("SidecarSet", ".fieldPath", "spec[0].transferEnv.fieldRef.fieldPath: Required value"),
    ("SidecarSet", ".resourcesExpr", "resourcesPolicy.resourcesExpr: Invalid value: {}: at least one"),
    ("UnitedDeployment", "subsets[].name", "spec.topology.subsets[0].name: Required value"),
    (
        "UnitedDeployment",
        "matchFields[].key",
        "matchFields[0].key: Invalid value: \"\": not a valid field selector key",
    ),
    (
        "UnitedDeployment",
        "matchFields[].operator",
        "matchFields[0].operator: Invalid value: \"\": not a valid",
    ),
    (
        "UnitedDeployment",
        "advancedStatefulSetTemplate.spec",
        "advancedStatefulSetTemplate.spec.selector: Required value",
    ),
    ("UnitedDeployment", "cloneSetTemplate.spec", "cloneSetTemplate.spec.selector: Required value"),
    ("", ".scatterStrategy[].value", ""),
    ("", ".weightPriority[].weight", ""),
    ("", ".scatterStrategy[].key", "scatterStrategy: Required value: key should not be empty"),
    ("", ".orderedKey", "priorityStrategy: Required value: order key can not be empty"),
    ("", ".matchSelector", "priorityStrategy: Required value: selector can not be empty"),
    (
        "",
        "matchExpressions[].key",
        "matchExpressions[0].key: Invalid value: \"\": name part must be non-empty",
    ),
    (
        "",
        "matchExpressions[].operator",
        "matchExpressions[0].operator: Invalid value: \"\": not a valid selector operator",
    ),
];

fn outcome(kind: &str, path: &str) -> &'static str {
    // The webhooks of the workloads of subsets check what UnitedDeployments leave to them.
    if kind == "UnitedDeployment" && path.contains("Template.spec.") {
        return "";
    }
    let fits = |(of, end, _): &&(&str, &str, &str)| (of.is_empty() || *of == kind) && path.ends_with(end);
    OUTCOMES.iter().find(fits).unwrap_or_else(|| panic!("{kind} {path} has no outcome")).2
}

fn term() -> Value {
    json!({"matchExpressions": [{"key": "app", "operator": "Exists"}]})
}

fn selector() -> Value {
    json!({"matchLabels": {"app": "web"}, "matchExpressions": [{"key": "app", "operator": "Exists"}]})
}

fn pods(restart_policy: &str) -> Value {
    json!({"metadata": {"labels": {"app": "web"}}, "spec": {"restartPolicy": restart_policy,
        "containers": [{"name": "main", "image": "nginx:1"}]}})
}

/// An order by weights, and one by keys.
fn orders() -> [Value; 2] {
    [
        json!({"weightPriority": [{"weight": 1, "matchSelector": term()}]}),
        json!({"orderPriority": [{"orderedKey": "app"}]}),
    ]
}

/// Both orders, and a spread.
fn strategies() -> [Value; 2] {
    orders()
        .map(|order| json!({"priorityStrategy": order, "scatterStrategy": [{"key": "app", "value": "web"}]}))
}

fn clone_set(strategy: &Value, version: &str) -> Value {
    let strategy = if version == "v1alpha1" { strategy.clone() } else { json!({"rollingUpdate": strategy}) };
    json!({"selector": selector(), "template": pods("Always"), "updateStrategy": strategy})
}

fn stateful_set(order: &Value) -> Value {
    json!({"selector": selector(), "template": pods("Always"), "podManagementPolicy": "Parallel",
        "updateStrategy": {"type": "RollingUpdate", "rollingUpdate": {"unorderedUpdate": {"priorityStrategy": order}}}})
}

fn image_jobs(images: &Value) -> Vec<Value> {
    let job = |selector: &str| {
        let mut job = json!({"completionPolicy": {"type": "Always"}, selector: term()});
        job.as_object_mut().unwrap().extend(images.as_object().unwrap().clone());
        job
    };
    vec![job("selector"), job("podSelector")]
}

fn sidecar_sets() -> Vec<Value> {
    let transfer = json!({"sourceContainerNameFrom": {"fieldRef": {"fieldPath": "metadata.labels['a']"}},
        "envName": "A"});
    let policy = json!({"targetContainersMode": "sum", "resourcesExpr": {"limits": {"cpu": "cpu"}}});
    let sidecar =
        json!({"name": "logs", "image": "logs:1", "transferEnv": [transfer], "resourcesPolicy": policy});
    let mut init = sidecar.clone();
    init["restartPolicy"] = json!("Always");
    let mut sets = vec![
        json!({"selector": selector(), "initContainers": [init], "updateStrategy": {"type": "NotUpdate"}}),
    ];
    for mut strategy in strategies() {
        strategy["selector"] = term();
        sets.push(json!({"selector": selector(), "namespaceSelector": term(), "containers": [sidecar],
            "updateStrategy": strategy}));
    }
    sets
}

fn united_deployments(version: &str) -> Vec<Value> {
    let labels = json!({"labels": {"app": "web"}});
    let mut templates = vec![
        json!({"deploymentTemplate": {"metadata": labels, "spec": {"template": pods("Always")}}}),
        json!({"statefulSetTemplate": {"metadata": labels, "spec": {"template": pods("Always")}}}),
    ];
    for order in orders() {
        let template = json!({"metadata": labels, "spec": stateful_set(&order)});
        templates.push(json!({"advancedStatefulSetTemplate": template}));
    }
    for strategy in strategies() {
        for shape in ["v1beta1", version] {
            let template = json!({"metadata": labels, "spec": clone_set(&strategy, shape)});
            templates.push(json!({"cloneSetTemplate": template}));
        }
    }
    let fields = json!([{"key": "metadata.name", "operator": "In", "values": ["a"]}]);
    let mut place = term();
    place["matchFields"] = fields;
    let topology = json!({"subsets": [{"name": "a", "nodeSelectorTerm": place}]});
    let united =
        |template: Value| json!({"selector": selector(), "template": template, "topology": topology});
    templates.into_iter().map(united).collect()
}

/// Whole specs of a kind, which hold together every member that is required anywhere.
pub(crate) fn specs(kind: &str, version: &str) -> Vec<Value> {
    match kind {
        "AdvancedCronJob" => {
            let lists = image_jobs(&json!({"images": ["nginx"]})).into_iter();
            let lists = lists.map(|spec| json!({"imageListPullJobTemplate": {"spec": spec}}));
            let job = json!({"broadcastJobTemplate": {"spec": {"template": pods("Never")}}});
            lists.chain([job]).map(|template| json!({"schedule": "@daily", "template": template})).collect()
        }
        "BroadcastJob" => vec![json!({"template": pods("Never")})],
        "CloneSet" => strategies().iter().map(|strategy| clone_set(strategy, version)).collect(),
        "ContainerRecreateRequest" => {
            let get = json!({"httpGet": {"port": 1, "httpHeaders": [{"name": "a", "value": "b"}]}});
            let socket = json!({"tcpSocket": {"port": 1}});
            let request = |container: Value| json!({"podName": "web", "containers": [container]});
            vec![
                request(json!({"name": "main"})),
                request(json!({"name": "main", "ports": [{"containerPort": 80}]})),
                request(
                    json!({"name": "main", "statusContext": {"containerID": "c://1", "restartCount": 1}}),
                ),
                request(json!({"name": "main", "preStop": get})),
                request(json!({"name": "main", "preStop": socket})),
            ]
        }
        "DaemonSet" => vec![json!({"selector": selector(), "template": pods("Always"),
            "updateStrategy": {"type": "RollingUpdate", "rollingUpdate": {"selector": term()}}})],
        "ImageListPullJob" => image_jobs(&json!({"images": ["nginx"]})),
        "ImagePullJob" => image_jobs(&json!({"image": "nginx"})),
        "NodeImage" => {
            let tag = json!({"tag": "1", "pullPolicy": {"ttlSecondsAfterFinished": 1}});
            vec![json!({"images": {"nginx": {"tags": [tag]}}})]
        }
        "SidecarSet" => sidecar_sets(),
        "StatefulSet" => orders().iter().map(stateful_set).collect(),
        _ => united_deployments(version),
    }
}

const KINDS: [&str; 11] = [
    "AdvancedCronJob",
    "BroadcastJob",
    "CloneSet",
    "ContainerRecreateRequest",
    "DaemonSet",
    "ImageListPullJob",
    "ImagePullJob",
    "NodeImage",
    "SidecarSet",
    "StatefulSet",
    "UnitedDeployment",
];

/// The paths of what is required, with the demands.
fn required<'d>(demand: &'d Demand, path: &str, found: &mut Vec<(String, &'d Demand)>) {
    for (name, below) in &demand.members {
        let path = format!("{path}.{name}");
        if below.is_required {
            found.push((path.clone(), below));
        }
        required(below, &path, found);
    }
    if let Some(each) = &demand.each {
        required(each, &format!("{path}[]"), found);
    }
}

/// Takes out the member at a path, where it is there.
fn take(value: &mut Value, path: &str) -> bool {
    let (parents, name) = path.rsplit_once('.').unwrap();
    let mut place = value;
    for step in parents.split('.') {
        let Some(below) = place.get_mut(step.trim_end_matches("[]")) else { return false };
        place = below;
        if step.ends_with("[]") {
            let each = match place {
                Value::Array(elements) => elements.first_mut(),
                Value::Object(members) => members.values_mut().next(),
                _ => None,
            };
            let Some(each) = each else { return false };
            place = each;
        }
    }
    place.as_object_mut().is_some_and(|members| members.remove(name).is_some())
}

/// The first member that the API server still misses.
fn missing(value: &Value, demand: &Demand, path: &str) -> Option<String> {
    let below = |name: &str, demand: &Demand| {
        let path = format!("{path}.{name}");
        match value.get(name) {
            Some(value) => missing(value, demand, &path),
            None => (demand.is_required && value.is_object()).then_some(path),
        }
    };
    let each = |demand: &Demand| match value {
        Value::Array(elements) => {
            elements.iter().find_map(|value| missing(value, demand, &format!("{path}[0]")))
        }
        Value::Object(members) => members.values().find_map(|value| missing(value, demand, path)),
        _ => None,
    };
    let members = demand.members.iter().find_map(|(name, demand)| below(name, demand));
    members.or_else(|| demand.each.as_deref().and_then(each))
}

/// The object as it would be stored, or why it is refused.
pub(crate) async fn admitted(
    on: &Admission,
    kind: &str,
    object: &Value,
    demand: &Demand,
) -> Result<Value, String> {
    let lower = kind.to_lowercase();
    let version = object["apiVersion"].as_str().unwrap().rsplit('/').next().unwrap();
    let send = async |verb: &str, object: &Value| {
        let request = json!({"uid": "1", "operation": "CREATE", "name": "web", "namespace": "shop",
            "kind": {"group": "apps.kruise.io", "version": version, "kind": kind},
            "resource": {"group": "apps.kruise.io", "version": version, "resource": format!("{lower}s")},
            "object": object, "oldObject": null});
        let answer = ask(on, &format!("/{verb}-apps-kruise-io-{lower}"), &request).await;
        if answer["allowed"] == true {
            return Ok(answer["patch"].as_str().map(|patch| STANDARD.decode(patch).unwrap()));
        }
        Err(answer["status"]["message"].as_str().unwrap().to_owned())
    };
    let mut object = object.clone();
    if let Some(patch) = send("mutate", &object).await? {
        json_patch::patch(&mut object, &serde_json::from_slice::<json_patch::Patch>(&patch).unwrap())
            .unwrap();
    }
    if let Some(path) = missing(&object["spec"], demand, "spec") {
        return Err(format!("{path}: Required value"));
    }
    if kind != "ContainerRecreateRequest" {
        send("validate", &object).await?;
    }
    Ok(object)
}

#[tokio::test]
async fn what_is_left_out_is_filled_in_or_refused_with_its_path() {
    let on = admission("ImagePullJobGate=true", CLUSTER);
    for kind in KINDS {
        for version in ["v1alpha1", "v1beta1"] {
            let api_version = format!("apps.kruise.io/{version}");
            let demand = demand_of_spec(kind, &api_version).unwrap();
            let mut members = Vec::new();
            required(demand, "spec", &mut members);
            let mut seen = BTreeSet::new();
            for spec in specs(kind, version) {
                let object = json!({"apiVersion": api_version, "kind": kind, "metadata": {"name": "web", "namespace": "shop"},
                    "spec": spec});
                let whole = admitted(&on, kind, &object, demand).await.err();
                let is_sound = whole.as_ref().is_none_or(|why| why.contains("ready-only fields"));
                assert!(is_sound, "{kind} {version}: {whole:?}");
                for (path, demand_of_member) in &members {
                    let mut without = object.clone();
                    if !take(&mut without, path) || !seen.insert(path.as_str()) {
                        continue;
                    }
                    let answer = admitted(&on, kind, &without, demand).await;
                    let context = format!("{kind} {version} {path}: {answer:?}");
                    let text = answer.err().unwrap_or_default();
                    if demand_of_member.empty.is_none() {
                        // Nothing can be filled in: the schema refuses it, unless the webhook does so before.
                        let is_refused = text.ends_with(": Required value")
                            || kind == "ContainerRecreateRequest" && !text.is_empty();
                        assert!(is_refused, "{context}");
                    } else {
                        let expected = outcome(kind, path);
                        assert!(
                            text.is_empty() == expected.is_empty() && text.contains(expected),
                            "{context}"
                        );
                    }
                }
            }
            let all: BTreeSet<&str> = members.iter().map(|(path, _)| path.as_str()).collect();
            assert_eq!(seen, all, "{kind} {version}");
        }
    }
}
