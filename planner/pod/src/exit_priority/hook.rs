//! Mode `Hook`: which containers wait in their preStop hook, and for whom
//! (docs/behaviour/exit-priority.md#mode-hook).

use std::collections::BTreeSet;
use std::time::Duration;

use api::raw_object::RawObject;
use serde::{Deserialize, Serialize};
use serde_json::{Map, Value, json};

use super::Settings;
use super::containers::{append, is_named, name, node, put, remove, take, value};
use super::plan::{Hooked, INIT_CONTAINER, MOUNT_PATH, PROGRAM, STATE_PATH, STATES, VOLUME, WAIT};
use super::request::Request;
use crate::review::draft::not_a_pod;
use values::json_patch::string;
use values::verdict::Denial;

const HANDLER: &str = "preStop";
/// The command of a preStop hook, below `lifecycle`.
const COMMAND: &str = "/preStop/exec/command";
const THEN_SLEEP: &str = "--then-sleep=";
const THEN_HTTP: &str = "--then-http=";

/// What the init container has of the resources of others.
const AMOUNTS: [&str; 2] = ["cpu", "memory"];

/// Takes out what an earlier review put in: the users' own hooks are in the arguments of ours. Gives the init container
/// that it put in.
pub(super) fn restore<'a>(spec: &mut RawObject<'a>) -> Result<Option<RawObject<'a>>, Denial> {
    let (mut ours, others): (Vec<_>, Vec<_>) =
        take(spec, "initContainers")?.into_iter().partition(is_installer);
    put(spec, "initContainers", others);
    let mut containers = take(spec, "containers")?;
    let mut is_ours = !ours.is_empty();
    for container in &mut containers {
        let lifecycle = value(container, "lifecycle");
        let Some(command) = lifecycle.pointer(COMMAND).and_then(words) else { continue };
        if !command.iter().map(String::as_str).take(WAIT.len()).eq(WAIT) {
            continue;
        }
        is_ours = true;
        let own = own_handler(&command).as_ref().map(node).transpose()?;
        container.edit_object("lifecycle", |lifecycle| match own {
            Some(own) => lifecycle.insert(HANDLER, own),
            None => drop(lifecycle.remove(HANDLER)),
        });
        container.remove_empty_object("lifecycle");
    }
    if is_ours {
        remove(spec, "volumes", VOLUME);
        for container in &mut containers {
            remove(container, "volumeMounts", VOLUME);
        }
    }
    put(spec, "containers", containers);
    Ok(ours.pop())
}

/// The init container that copies our program.
fn is_installer(container: &RawObject<'_>) -> bool {
    let command = words(&value(container, "command")).unwrap_or_default();
    is_named(container, INIT_CONTAINER) && command.iter().take(2).eq(&[PROGRAM, "install"])
}

fn words(list: &Value) -> Option<Vec<String>> {
    list.as_array()?.iter().map(|word| word.as_str().map(str::to_owned)).collect()
}

/// Whether somebody else uses a name or the path of ours.
pub(super) fn is_occupied(spec: &RawObject<'_>) -> bool {
    let [volumes, init_containers, containers] =
        ["volumes", "initContainers", "containers"].map(|list| value(spec, list));
    let elements = |list: &Value| list.as_array().cloned().unwrap_or_default();
    let all: Vec<Value> = elements(&init_containers).into_iter().chain(elements(&containers)).collect();
    let is_mounted = |container: &Value| {
        elements(&container["volumeMounts"]).iter().any(|mount| {
            mount["mountPath"]
                .as_str()
                .is_some_and(|path| [MOUNT_PATH, STATE_PATH].contains(&path.trim_end_matches('/')))
        })
    };
    elements(&volumes).iter().any(|volume| volume["name"] == VOLUME)
        || all.iter().any(|container| container["name"] == INIT_CONTAINER || is_mounted(container))
}

/// The containers that end after others; `grace` in seconds.
pub(super) fn plan(containers: &[String], request: &Request, grace: u64, settings: &Settings) -> Vec<Hooked> {
    let lowest = containers.iter().map(|name| request.of(name)).min().unwrap_or_default();
    let steps: BTreeSet<i32> =
        containers.iter().map(|name| request.of(name)).filter(|value| *value > lowest).collect();
    let hooked = containers.iter().filter(|name| request.of(name) > lowest).map(|name| {
        let own = request.of(name);
        let after = containers.iter().filter(|other| request.of(other) < own);
        // This step and those behind it.
        let left = steps.range(own..).map(|_| u64::from(request.reserve)).sum();
        Hooked {
            container: name.clone(),
            after: after.cloned().collect(),
            grace: Duration::from_secs(grace),
            tail: Duration::from_secs(left),
            window: settings.window,
        }
    });
    hooked.collect()
}

/// The steps of a plan, less the first one, which waits for nobody.
pub(super) fn steps(plan: &[Hooked]) -> usize {
    plan.iter().map(|hooked| hooked.after.len()).collect::<BTreeSet<_>>().len()
}

/// Puts the hooks of the plan into the Pod, and what they need. `earlier` is the init container of an earlier review.
pub(super) fn apply<'a>(
    spec: &mut RawObject<'a>,
    plan: &[Hooked],
    settings: &Settings,
    earlier: Option<RawObject<'a>>,
) -> Result<(), Denial> {
    let installer = match earlier {
        Some(earlier) => updated(earlier, resources(spec).as_ref())?.into(),
        None => node(&installer(spec, settings))?,
    };
    append(spec, "volumes", node(&json!({"name": VOLUME, "emptyDir": {"sizeLimit": "16Mi"}}))?);
    append(spec, "initContainers", installer);
    let mut containers = take(spec, "containers")?;
    for hooked in plan {
        let mut all = containers.iter_mut();
        let Some(container) = all.find(|container| is_named(container, &hooked.container)) else { continue };
        let Some(chain) = chain(container, hooked.grace)? else { continue };
        let mut command = hooked.command();
        command.extend(chain);
        let handler = node(&json!({"exec": {"command": command}}))?;
        container.edit_object("lifecycle", |lifecycle| lifecycle.insert(HANDLER, handler));
        // A container must not change the program that others run.
        for mount in [
            json!({"name": VOLUME, "mountPath": MOUNT_PATH, "readOnly": true}),
            json!({"name": VOLUME, "mountPath": STATE_PATH, "subPath": STATES}),
        ] {
            append(container, "volumeMounts", node(&mount)?);
        }
    }
    put(spec, "containers", containers);
    Ok(())
}

/// The init container of an earlier review. What others did to it since stays, such as another registry in its image, a
/// pull policy or further limits: the API server doesn't ask them again.
fn updated<'a>(mut installer: RawObject<'a>, resources: Option<&Value>) -> Result<RawObject<'a>, Denial> {
    installer.insert("command", node(&json!([PROGRAM, "install", MOUNT_PATH]))?);
    let mounts = value(&installer, "volumeMounts");
    if mounts.as_array().into_iter().flatten().all(|mount| mount["name"] != VOLUME) {
        append(&mut installer, "volumeMounts", node(&json!({"name": VOLUME, "mountPath": MOUNT_PATH}))?);
    }
    for kind in ["requests", "limits"] {
        for resource in AMOUNTS {
            let wanted = resources.and_then(|resources| resources.get(kind)?.get(resource));
            let Some(amount) = wanted.map(node).transpose()? else { continue };
            installer.edit_object("resources", |resources| {
                resources.edit_object(kind, |amounts| amounts.insert(resource, amount));
            });
        }
    }
    Ok(installer)
}

/// What the first container with requests or limits has of them. So the Pod keeps its class, the limits of the
/// namespace are kept, and the Pod needs no more than before, since init containers run before the others.
fn resources(spec: &RawObject<'_>) -> Option<Value> {
    let containers = value(spec, "containers");
    let of_container = |container: &Value| {
        let amounts = |kind: &str| {
            let amounts = AMOUNTS.into_iter().filter_map(|resource| {
                let amount = container.get("resources")?.get(kind)?.get(resource)?;
                Some((resource.to_owned(), amount.clone()))
            });
            let amounts: Map<String, Value> = amounts.collect();
            (!amounts.is_empty()).then(|| (kind.to_owned(), Value::from(amounts)))
        };
        let resources: Map<String, Value> = ["requests", "limits"].into_iter().filter_map(amounts).collect();
        (!resources.is_empty()).then(|| resources.into())
    };
    containers.as_array().into_iter().flatten().find_map(of_container)
}

fn installer(spec: &RawObject<'_>, settings: &Settings) -> Value {
    let mut context = json!({
        "runAsNonRoot": true, "allowPrivilegeEscalation": false, "readOnlyRootFilesystem": true,
        "capabilities": {"drop": ["ALL"]}, "seccompProfile": {"type": "RuntimeDefault"},
    });
    let mut container = json!({
        "name": INIT_CONTAINER, "image": settings.image, "imagePullPolicy": "IfNotPresent",
        "command": [PROGRAM, "install", MOUNT_PATH],
        "volumeMounts": [{"name": VOLUME, "mountPath": MOUNT_PATH}],
    });
    let is_root = value(spec, "securityContext").get("runAsUser").is_some_and(|user| *user == 0);
    match settings.run_as_user {
        0 if is_root => insert(&mut context, "runAsUser", Settings::default().run_as_user.into()),
        0 => {}
        user => insert(&mut context, "runAsUser", user.into()),
    }
    insert(&mut container, "securityContext", context);
    if let Some(resources) = resources(spec) {
        insert(&mut container, "resources", resources);
    }
    container
}

fn insert(object: &mut Value, key: &str, value: Value) {
    if let Some(object) = object.as_object_mut() {
        object.insert(key.to_owned(), value);
    }
}

/// A request that our hook makes, as its argument says it.
#[derive(Deserialize, Serialize)]
struct HttpRequest {
    scheme: String,
    host: String,
    port: u64,
    path: String,
    headers: Vec<(String, String)>,
}

/// The arguments that make our hook do what the container's own hook does; `None` for one that the API server refuses,
/// which has to see it.
fn chain(container: &RawObject<'_>, grace: Duration) -> Result<Option<Vec<String>>, Denial> {
    let handler = value(container, "lifecycle").get(HANDLER).cloned().unwrap_or_default();
    let Some(handler) = handler.as_object() else {
        return Ok(handler.is_null().then(Vec::new));
    };
    let mut handlers = handler.iter().filter(|(_, handler)| !handler.is_null());
    let (Some((kind, handler)), None) = (handlers.next(), handlers.next()) else { return Ok(None) };
    match kind.as_str() {
        "exec" => {
            let command = words(&handler["command"]).filter(|command| !command.is_empty());
            Ok(command.map(|command| std::iter::once("--".to_owned()).chain(command).collect()))
        }
        "sleep" => {
            let seconds = handler["seconds"].as_u64().filter(|seconds| *seconds <= grace.as_secs());
            Ok(seconds.map(|seconds| vec![format!("{THEN_SLEEP}{seconds}")]))
        }
        "httpGet" => request(container, handler),
        // The kubelet does nothing for it.
        "tcpSocket" => Ok(Some(Vec::new())),
        _ => Ok(None),
    }
}

fn request(container: &RawObject<'_>, get: &Value) -> Result<Option<Vec<String>>, Denial> {
    let text = |object: &Value, key: &str| object[key].as_str().unwrap_or_default().to_owned();
    let headers = get["httpHeaders"].as_array().into_iter().flatten();
    let scheme = Some(text(get, "scheme")).filter(|scheme| !scheme.is_empty());
    let request = HttpRequest {
        scheme: scheme.unwrap_or_else(|| "HTTP".to_owned()),
        host: text(get, "host"),
        port: port(container, &get["port"])?,
        path: text(get, "path"),
        headers: headers.map(|header| (text(header, "name"), text(header, "value"))).collect(),
    };
    let is_accepted = ["HTTP", "HTTPS"].contains(&request.scheme.as_str())
        && (1..=u64::from(u16::MAX)).contains(&request.port);
    let request = serde_json::to_string(&request).map_err(|error| not_a_pod(&error))?;
    Ok(is_accepted.then(|| vec![format!("{THEN_HTTP}{request}")]))
}

/// The number of a port.
fn port(container: &RawObject<'_>, port: &Value) -> Result<u64, Denial> {
    let wanted = port.as_str().unwrap_or_default();
    let ports = value(container, "ports");
    let mut ports = ports.as_array().into_iter().flatten();
    let named = || ports.find(|port| port["name"] == wanted).and_then(|port| port["containerPort"].as_u64());
    let number = port.as_u64().or_else(|| wanted.parse().ok()).or_else(named);
    number.ok_or_else(|| Denial {
        code: 400,
        message: format!(
            "spec.containers[{}].lifecycle.preStop.httpGet.port: Invalid value: {}: the container has no such port",
            name(container),
            string(wanted)
        ),
    })
}

/// The handler that the arguments of our hook describe.
fn own_handler(command: &[String]) -> Option<Value> {
    for (position, word) in command.iter().enumerate() {
        if word == "--" {
            let own = command.get(position + 1..).filter(|own| !own.is_empty())?;
            return Some(json!({"exec": {"command": own}}));
        }
        if let Some(seconds) = word.strip_prefix(THEN_SLEEP) {
            return seconds.parse::<u64>().ok().map(|seconds| json!({"sleep": {"seconds": seconds}}));
        }
        if let Some(request) = word.strip_prefix(THEN_HTTP) {
            let request = serde_json::from_str(request).ok();
            return request.map(|request| json!({"httpGet": http_get(request)}));
        }
    }
    None
}

fn http_get(request: HttpRequest) -> Value {
    let HttpRequest { scheme, host, port, path, headers } = request;
    let mut get = json!({"port": port, "scheme": scheme});
    for (key, text) in [("path", path), ("host", host)] {
        if !text.is_empty() {
            insert(&mut get, key, text.into());
        }
    }
    let headers = headers.into_iter().map(|(name, value)| json!({"name": name, "value": value}));
    let headers: Vec<Value> = headers.collect();
    if !headers.is_empty() {
        insert(&mut get, "httpHeaders", headers.into());
    }
    get
}
