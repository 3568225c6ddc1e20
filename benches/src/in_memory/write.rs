//! What a create, an update, a patch and a delete make of an object.

use jiff::{SignedDuration, Timestamp};
use kit::merge::strategic_merge;
use serde_json::{Map, Value, json};

use super::Shared;
use super::request::Request;
use super::store::{Key, Next};

/// Seconds that a Pod has for its end where it does not say.
const GRACE: i64 = 30;

/// Why a request is refused.
#[derive(Debug)]
pub(super) struct Refusal {
    pub(super) code: u16,
    reason: &'static str,
    message: String,
}

impl Refusal {
    pub(super) fn not_found((namespace, name): &Key) -> Self {
        Self { code: 404, reason: "NotFound", message: format!("{namespace}/{name} not found") }
    }

    pub(super) fn bad(message: impl Into<String>) -> Self {
        Self { code: 400, reason: "BadRequest", message: message.into() }
    }

    pub(super) fn expired() -> Self {
        Self { code: 410, reason: "Expired", message: "too old resource version".to_owned() }
    }

    fn conflict(message: impl Into<String>) -> Self {
        Self { code: 409, reason: "Conflict", message: message.into() }
    }

    fn invalid(message: impl Into<String>) -> Self {
        Self { code: 422, reason: "Invalid", message: message.into() }
    }

    pub(super) fn status(&self) -> Value {
        let Self { code, reason, message } = self;
        json!({"kind": "Status", "apiVersion": "v1", "metadata": {}, "status": "Failure", "message": message,
            "reason": reason, "code": code})
    }
}

impl Shared {
    pub(super) fn create(&self, request: &Request, mut object: Value) -> Result<Value, Refusal> {
        let Some(metadata) = object["metadata"].as_object_mut() else {
            return Err(Refusal::bad("metadata is missing"));
        };
        let uid = self.uid();
        if let (None, Some(prefix)) = (metadata.get("name"), metadata.get("generateName")) {
            let name = format!("{}{}", prefix.as_str().unwrap_or_default(), &uid[uid.len() - 5..]);
            metadata.insert("name".to_owned(), json!(name));
        }
        let Some(name) = metadata.get("name").and_then(Value::as_str).map(str::to_owned) else {
            return Err(Refusal::invalid("a name is missing"));
        };
        if !request.namespace.is_empty() {
            metadata.insert("namespace".to_owned(), json!(request.namespace));
        }
        metadata.insert("uid".to_owned(), json!(uid));
        metadata.insert("creationTimestamp".to_owned(), json!(now()));
        metadata.insert("generation".to_owned(), json!(1));
        match request.kind.plural.as_str() {
            "pods" => object["status"] = json!({"phase": "Pending", "qosClass": "Burstable"}),
            "namespaces" => {
                object["metadata"]["labels"]["kubernetes.io/metadata.name"] = json!(name);
                object["status"] = json!({"phase": "Active"});
            }
            _ if request.kind.group.ends_with(".kruise.io") => set(&mut object, "status", None),
            _ => {}
        }
        if request.is_dry_run() {
            return Ok(object);
        }
        self.store.change(&request.kind, &(request.namespace.clone(), name.clone()), |known| match known {
            None => Ok(Next::Stored(object)),
            Some(_) => Err(Refusal {
                code: 409,
                reason: "AlreadyExists",
                message: format!("{} {name} already exists", request.kind.plural),
            }),
        })
    }

    /// Carries out a change of one object.
    pub(super) fn write(&self, request: &Request, content_type: &str, body: &[u8]) -> Result<Value, Refusal> {
        let name = request.name.clone().ok_or_else(|| Refusal::bad("a name is missing"))?;
        let key = (request.namespace.clone(), name);
        let body: Value = match body {
            [] => json!({}),
            body => serde_json::from_slice(body).map_err(|error| Refusal::bad(error.to_string()))?,
        };
        let applies = content_type == "application/apply-patch+yaml";
        if applies && self.store.get(&request.kind, &key).is_none() {
            return self.create(request, body);
        }
        self.store.change(&request.kind, &key, |known| {
            let old = known.ok_or_else(|| Refusal::not_found(&key))?;
            let next = match (request.verb, request.subresource.as_deref()) {
                ("delete", _) => deleted(request, old, &body)?,
                ("create", Some("binding")) => Next::Stored(bound(old, &body)),
                ("create", _) => return Err(Refusal::not_found(&key)),
                ("update", _) => {
                    expect(&body["metadata"], &old)?;
                    changed(request, old, body)
                }
                _ => {
                    let new = patched(content_type, old.clone(), body)?;
                    changed(request, old, new)
                }
            };
            Ok(match next {
                Next::Stored(object) | Next::Gone(object) if request.is_dry_run() => Next::Same(object),
                next => next,
            })
        })
    }
}

/// The state that a write names must be the present one.
fn expect(named: &Value, old: &Value) -> Result<(), Refusal> {
    for field in ["uid", "resourceVersion"] {
        if !named[field].is_null() && named[field] != old["metadata"][field] {
            return Err(Refusal::conflict(format!("the object has been modified: another {field}")));
        }
    }
    Ok(())
}

fn patched(content_type: &str, mut object: Value, patch: Value) -> Result<Value, Refusal> {
    if content_type == "application/json-patch+json" {
        let patch: json_patch::Patch =
            serde_json::from_value(patch).map_err(|error| Refusal::bad(error.to_string()))?;
        json_patch::patch(&mut object, &patch).map_err(|error| Refusal::invalid(error.to_string()))?;
        return Ok(object);
    }
    expect(&patch["metadata"], &object)?;
    match content_type {
        "application/strategic-merge-patch+json" => strategic_merge(&mut object, patch),
        "application/merge-patch+json" | "application/apply-patch+yaml" => {
            json_patch::merge(&mut object, &patch);
        }
        other => return Err(Refusal::bad(format!("{other} is not supported"))),
    }
    Ok(object)
}

/// What is stored of a new state: the part that the subresource may change.
fn changed(request: &Request, mut old: Value, mut new: Value) -> Next {
    for field in ["uid", "creationTimestamp", "generation", "deletionTimestamp", "resourceVersion"] {
        let kept = old["metadata"].get(field).cloned();
        set(&mut new["metadata"], field, kept);
    }
    let is_pod = request.kind.plural == "pods";
    if request.subresource.as_deref() == Some("status") {
        if is_pod {
            set(&mut new, "spec", old.get("spec").cloned());
        } else {
            let status = new.get("status").cloned();
            new = old.clone();
            set(&mut new, "status", status);
        }
    } else {
        set(&mut new, "status", old.get("status").cloned());
    }
    if new == old {
        return Next::Same(old);
    }
    if new["spec"] != old["spec"] {
        raise_generation(&mut new);
    }
    let is_free = new["metadata"]["finalizers"].as_array().is_none_or(Vec::is_empty);
    let is_over = |grace: &Value| !is_pod || grace.as_i64() == Some(0);
    if is_free
        && !new["metadata"]["deletionTimestamp"].is_null()
        && is_over(&old["metadata"].take()["deletionGracePeriodSeconds"])
    {
        return Next::Gone(new);
    }
    Next::Stored(new)
}

fn bound(mut pod: Value, binding: &Value) -> Value {
    pod["spec"]["nodeName"] = binding["target"]["name"].clone();
    let condition = json!({"type": "PodScheduled", "status": "True", "lastTransitionTime": now()});
    strategic_merge(&mut pod, json!({"status": {"conditions": [condition]}}));
    pod
}

/// A Pod on a node stays until its node lets it go, and any object until its finalizers have gone.
fn deleted(request: &Request, mut object: Value, options: &Value) -> Result<Next, Refusal> {
    expect(&options["preconditions"], &object)?;
    let is_running = request.kind.plural == "pods" && !object["spec"]["nodeName"].is_null();
    let asked = options["gracePeriodSeconds"].as_i64();
    let own = || object["spec"]["terminationGracePeriodSeconds"].as_i64();
    let grace = if is_running { asked.or_else(own).unwrap_or(GRACE) } else { 0 };
    let is_held = object["metadata"]["finalizers"].as_array().is_some_and(|all| !all.is_empty());
    if grace == 0 && !is_held {
        return Ok(Next::Gone(object));
    }
    let metadata = &mut object["metadata"];
    if !metadata["deletionTimestamp"].is_null() && metadata["deletionGracePeriodSeconds"] == grace {
        return Ok(Next::Same(object));
    }
    let end = Timestamp::now() + SignedDuration::from_secs(grace);
    metadata["deletionTimestamp"] = json!(shown(end));
    metadata["deletionGracePeriodSeconds"] = json!(grace);
    raise_generation(&mut object);
    Ok(Next::Stored(object))
}

fn raise_generation(object: &mut Value) {
    let generation = object["metadata"]["generation"].as_i64().unwrap_or_default();
    object["metadata"]["generation"] = json!(generation + 1);
}

/// Sets a field, or takes it away.
fn set(object: &mut Value, field: &str, value: Option<Value>) {
    if !object.is_object() {
        *object = Value::Object(Map::new());
    }
    let members = object.as_object_mut().expect("it was just made one");
    match value {
        Some(value) => drop(members.insert(field.to_owned(), value)),
        None => drop(members.shift_remove(field)),
    }
}

/// The present time as the API server keeps it: in whole seconds.
pub(super) fn now() -> String {
    shown(Timestamp::now())
}

fn shown(time: Timestamp) -> String {
    format!("{time:.0}")
}
