//! The Service of new Pods, and the stable one, which selects old Pods alone while there is another.

use api::annotations::LAST_APPLIED;
use api::labels::{CONTROLLER_REVISION_HASH, POD_TEMPLATE_HASH};
use serde_json::{Map, Value, json};
use values::merge_patch::difference;

use super::{Context, Error};
use crate::object::{Object as _, ObjectName};
use crate::view::View;
use crate::write::Write;

/// What the API server gives to one Service alone.
const OWN_TO_ONE_SERVICE: [&str; 7] = [
    "clusterIP",
    "clusterIPs",
    "externalIPs",
    "healthCheckNodePort",
    "ipFamilies",
    "ipFamilyPolicy",
    "loadBalancerIP",
];

fn name(context: &Context<'_>, service: &str) -> ObjectName {
    context.object("v1", "Service", service)
}

fn canary_name(context: &Context<'_>) -> ObjectName {
    name(context, &format!("{}-canary", context.routing.service))
}

/// The stable Service.
pub(super) fn stable<'v>(context: &Context<'_>, view: &'v View) -> Result<&'v Value, Error> {
    let service = &context.routing.service;
    let found = view.object(&name(context, service))?;
    found.ok_or_else(|| Error::Problem(format!("Service {service} does not exist")))
}

/// Has each of both Services select its Pods.
pub(super) fn route(context: &Context<'_>, view: &View) -> Result<Vec<Write>, Error> {
    let stable = stable(context, view)?;
    if context.disable_canary_service {
        return Ok(Vec::new());
    }
    let mut writes = Vec::from_iter(canary(context, stable, view)?);
    writes.extend(narrow(context, view)?);
    Ok(writes)
}

/// Makes the canary Service, or has it select new Pods.
fn canary(context: &Context<'_>, stable: &Value, view: &View) -> Result<Option<Write>, Error> {
    let name = canary_name(context);
    let selector = canary_selector(context, stable)?;
    let Some(found) = view.object(&name)? else {
        let object = copy(context, stable, &name.name, selector);
        return Ok(Some(Write::Create { name, object }));
    };
    available(context, found, "Service")?;
    let present = found.pointer("/spec/selector").unwrap_or(&Value::Null);
    let differs = *present != selector;
    Ok(differs
        .then(|| Write::patch(&name, found, json!({"spec": {"selector": difference(present, &selector)}}))))
}

/// An object of a name that we give is ours, and stays.
pub(super) fn available(context: &Context<'_>, object: &Value, kind: &str) -> Result<(), Error> {
    let name = object.name();
    if object.is_deleting() {
        return Err(Error::Problem(format!("{kind} {name} is still being deleted")));
    }
    if !context.owns(object) {
        return Err(Error::Problem(format!("{kind} {name} exists and belongs to somebody else")));
    }
    Ok(())
}

fn canary_selector(context: &Context<'_>, stable: &Value) -> Result<Value, Error> {
    let mut selector = selector(stable)?.clone();
    for (key, value) in context.patch_labels {
        if context.append_pod_selector || selector.contains_key(key) {
            selector.insert(key.clone(), value.as_str().into());
        }
    }
    let revision = known(context.canary_revision, "new")?;
    selector.insert(context.revision_label.to_owned(), revision.into());
    Ok(Value::Object(selector))
}

/// What a Service selects. One that selects nothing has its endpoints from somewhere else.
fn selector(service: &Value) -> Result<&Map<String, Value>, Error> {
    let selector = service.members("/spec/selector").filter(|selector| !selector.is_empty());
    selector.ok_or_else(|| Error::Problem(format!("Service {} selects no Pods", service.name())))
}

fn known<'a>(revision: &'a str, which: &str) -> Result<&'a str, Error> {
    let is_known = !revision.is_empty();
    is_known
        .then_some(revision)
        .ok_or_else(|| Error::Problem(format!("the {which} revision is not known yet")))
}

/// The canary Service: all that the stable one has, but for what there can be only once.
fn copy(context: &Context<'_>, stable: &Value, name: &str, selector: Value) -> Value {
    let mut spec = stable.members("/spec").cloned().unwrap_or_default();
    spec.retain(|field, _| !OWN_TO_ONE_SERVICE.contains(&field.as_str()));
    spec.insert("selector".to_owned(), selector);
    for port in spec.get_mut("ports").and_then(Value::as_array_mut).into_iter().flatten() {
        if let Some(port) = port.as_object_mut() {
            port.remove("nodePort");
        }
    }
    json!({"apiVersion": "v1", "kind": "Service", "metadata": metadata(context, stable, name), "spec": spec})
}

/// The metadata of an object that is made like another one.
pub(super) fn metadata(context: &Context<'_>, model: &Value, name: &str) -> Map<String, Value> {
    let labels = model.members("/metadata/labels").cloned().unwrap_or_default();
    Map::from_iter([
        ("name".to_owned(), name.into()),
        ("namespace".to_owned(), context.namespace.into()),
        ("labels".to_owned(), labels.into()),
        ("annotations".to_owned(), copied_annotations(model).into()),
        ("ownerReferences".to_owned(), json!([context.owner])),
    ])
}

/// The annotations of an object that hold for a copy of it too.
pub(super) fn copied_annotations(model: &Value) -> Map<String, Value> {
    let mut annotations = model.members("/metadata/annotations").cloned().unwrap_or_default();
    annotations.remove(LAST_APPLIED);
    annotations
}

/// Has the stable Service select old Pods alone.
pub(super) fn narrow(context: &Context<'_>, view: &View) -> Result<Vec<Write>, Error> {
    if context.disable_canary_service {
        return Ok(Vec::new());
    }
    let service = stable(context, view)?;
    let revision = known(context.stable_revision, "old")?;
    let present = selector(service)?.get(context.revision_label).and_then(Value::as_str);
    if present == Some(revision) {
        return Ok(Vec::new());
    }
    let patch = json!({"spec": {"selector": {context.revision_label: revision}}});
    Ok(vec![Write::patch(&name(context, &context.routing.service), service, patch)])
}

/// Has the stable Service select Pods of every revision. By which label it selected one is not known where the workload is
/// gone.
pub(super) fn widen(context: &Context<'_>, view: &View) -> Result<Vec<Write>, Error> {
    if !are_parted(context, view)? {
        return Ok(Vec::new());
    }
    let name = name(context, &context.routing.service);
    let Some(service) = view.object(&name)? else { return Ok(Vec::new()) };
    let labels = [context.revision_label, POD_TEMPLATE_HASH, CONTROLLER_REVISION_HASH];
    let selector = service.members("/spec/selector").into_iter().flat_map(Map::keys);
    let narrowing = selector.filter(|key| labels.contains(&key.as_str()));
    let removed: Map<String, Value> = narrowing.map(|key| (key.clone(), Value::Null)).collect();
    let patch = json!({"spec": {"selector": removed}});
    Ok(if removed.is_empty() { Vec::new() } else { vec![Write::patch(&name, service, patch)] })
}

/// The release may have a canary Service. One that was made stays ours, though its user wants none any more.
fn are_parted(context: &Context<'_>, view: &View) -> Result<bool, Error> {
    Ok(!context.disable_canary_service
        || view.object(&canary_name(context))?.is_some_and(|found| context.owns(found)))
}

/// Deletes the canary Service.
pub(super) fn remove(context: &Context<'_>, view: &View) -> Result<Vec<Write>, Error> {
    remove_owned(context, &canary_name(context), view)
}

/// Deletes an object that was made for the release.
pub(super) fn remove_owned(
    context: &Context<'_>,
    name: &ObjectName,
    view: &View,
) -> Result<Vec<Write>, Error> {
    let found = view.object(name)?.filter(|object| context.owns(object) && !object.is_deleting());
    Ok(found.map(|object| Write::delete(name, object)).into_iter().collect())
}
