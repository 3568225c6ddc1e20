//! Ingresses. A second one, the canary Ingress, takes requests to new Pods; what serves both reads from its annotations which
//! ones. The first one stays as it is.

use api::annotations::RELEASED_NETWORK;
use std::collections::BTreeSet;

use api::kinds::rollout::{HttpRouteMatch, IngressRef, Step, TrafficRoutingRef};
use serde_json::{Map, Value, json};
use values::merge_patch::difference;

use super::covers::covers;
use super::memory::{Memories, Memory};
use super::service::{available, copied_annotations, metadata, remove_owned};
use super::share::Share;
use super::{Context, Error};
use crate::object::{Object as _, ObjectName};
use crate::script::{Script, Scripts};
use crate::view::View;
use crate::write::Write;

const API_VERSION: &str = "networking.k8s.io/v1";
/// A header of this name stands for a cookie.
const COOKIE: &str = "canary-by-cookie";

fn name(context: &Context<'_>, name: &str) -> ObjectName {
    context.object(API_VERSION, "Ingress", name)
}

/// The Ingress of the user.
pub(super) fn stable<'v>(
    context: &Context<'_>,
    reference: &IngressRef,
    view: &'v View,
) -> Result<&'v Value, Error> {
    let found = view.object(&name(context, &reference.name))?;
    found.ok_or_else(|| Error::Problem(format!("Ingress {} does not exist", reference.name)))
}

fn canary_name(context: &Context<'_>, reference: &IngressRef) -> ObjectName {
    name(context, &format!("{}-canary", reference.name))
}

/// Makes the canary Ingress, or has it take the requests of a share.
pub(super) fn route(
    context: &Context<'_>,
    reference: &IngressRef,
    share: &Share,
    view: &View,
) -> Result<Option<Write>, Error> {
    let stable = stable(context, reference, view)?;
    let script = context.scripts.ingress(reference.class())?;
    let spec = canary_spec(context, stable)?;
    let name = canary_name(context, reference);
    let Some(found) = view.object(&name)? else {
        // Until all that serves it knows it, it takes no request.
        let annotations = annotations(context, &script, stable, &Share::none())?;
        return Ok(Some(create(context, stable, name, annotations, &spec)));
    };
    available(context, found, "Ingress")?;
    let annotations = annotations(context, &script, stable, share)?;
    update(context, &name, found, &annotations, &spec)
}

fn create(
    context: &Context<'_>,
    stable: &Value,
    name: ObjectName,
    mut annotations: Map<String, Value>,
    spec: &Value,
) -> Write {
    let memory = Memory { original: None, applied: json!({"annotations": annotations, "spec": spec}) };
    let memories = Memories::default();
    annotations.insert(RELEASED_NETWORK.to_owned(), memories.with(&context.holder(), Some(memory)));
    let mut metadata = metadata(context, stable, &name.name);
    metadata.insert("annotations".to_owned(), annotations.into());
    let object = json!({"apiVersion": API_VERSION, "kind": "Ingress", "metadata": metadata, "spec": spec});
    Write::Create { name, object }
}

/// Changes what we once wrote, and leaves what others wrote beside it.
fn update(
    context: &Context<'_>,
    name: &ObjectName,
    found: &Value,
    annotations: &Map<String, Value>,
    spec: &Value,
) -> Result<Option<Write>, Error> {
    let holder = context.holder();
    let memories = Memories::of(found)?;
    let known = memories.get(&holder);
    let present = found.members("/metadata/annotations").cloned().unwrap_or_default();
    // Of a canary Ingress that OpenKruise made, all annotations count as ours.
    let ours = known.map_or(Some(&present), |known| known.applied.members("/annotations"));
    let gone = ours.into_iter().flat_map(Map::keys).filter(|key| {
        present.contains_key(*key) && !annotations.contains_key(*key) && *key != RELEASED_NETWORK
    });
    let mut changes: Map<String, Value> = gone.map(|key| (key.clone(), Value::Null)).collect();
    let differing = annotations.iter().filter(|(key, value)| present.get(*key) != Some(value));
    changes.extend(differing.map(|(key, value)| (key.clone(), value.clone())));
    let memory = Memory { original: None, applied: json!({"annotations": annotations, "spec": spec}) };
    let present_spec = found.get("spec").unwrap_or(&Value::Null);
    let is_same_spec =
        known.and_then(|known| known.applied.get("spec")) == Some(spec) && covers(present_spec, spec);
    if known == Some(&memory) && changes.is_empty() && is_same_spec {
        return Ok(None);
    }
    changes.insert(RELEASED_NETWORK.to_owned(), memories.with(&holder, Some(memory)));
    let spec = if is_same_spec { json!({}) } else { difference(present_spec, spec) };
    let patch = json!({"metadata": {"annotations": changes}, "spec": spec});
    Ok(Some(Write::patch(name, found, patch)))
}

/// Deletes the canary Ingress.
pub(super) fn restore(
    context: &Context<'_>,
    reference: &IngressRef,
    view: &View,
) -> Result<Vec<Write>, Error> {
    remove_owned(context, &canary_name(context, reference), view)
}

/// What the script makes of the annotations of the user's Ingress.
fn annotations(
    context: &Context<'_>,
    script: &Script<'_>,
    stable: &Value,
    share: &Share,
) -> Result<Map<String, Value>, Error> {
    let mut input = Map::new();
    input.insert("annotations".to_owned(), copied_annotations(stable).into());
    let weight = share.weight.map_or("-1".to_owned(), |weight| weight.to_string());
    input.insert("weight".to_owned(), weight.into());
    input.insert("canaryService".to_owned(), context.canary_service().into());
    share.describe(&mut input);
    match script.run(&input.into())? {
        Value::Object(annotations) if annotations.values().all(Value::is_string) => Ok(annotations),
        _ => Err(Error::Problem(format!("script {} returns no annotations", script.name()))),
    }
}

/// The rules that lead to the stable Service, leading to the canary one. Rules without paths and backends that are no
/// Services stay with the user's Ingress.
fn canary_spec(context: &Context<'_>, stable: &Value) -> Result<Value, Error> {
    let canary = context.canary_service();
    let service = &context.routing.service;
    let mut spec = stable.members("/spec").cloned().unwrap_or_default();
    spec.remove("defaultBackend");
    let rules: Vec<Value> = stable
        .items("/spec/rules")
        .iter()
        .filter_map(|rule| {
            let mut rule = rule.clone();
            let paths = rule.pointer_mut("/http/paths")?.as_array_mut()?;
            paths.retain(|path| path.text("/backend/service/name") == service);
            for name in paths.iter_mut().filter_map(|path| path.pointer_mut("/backend/service/name")) {
                *name = canary.as_str().into();
            }
            let leads_there = !paths.is_empty();
            leads_there.then_some(rule)
        })
        .collect();
    if rules.is_empty() {
        return Err(Error::Problem(format!(
            "no rule of Ingress {} leads to Service {service}",
            stable.name()
        )));
    }
    spec.insert("rules".to_owned(), rules.into());
    Ok(Value::Object(spec))
}

/// Why the class of the Ingress can't express the conditions of a step; `None` where it can, and where a script of the user
/// serves the class.
pub fn unsupported(routing: &TrafficRoutingRef, step: &Step, scripts: &Scripts) -> Option<String> {
    let class = routing.ingress.as_ref()?.class();
    let knows_queries = match class {
        "nginx" | "aliyun-alb" => false,
        "mse" | "higress" => true,
        _ => return None,
    };
    if scripts.has_ingress(class) {
        return None;
    }
    let mut seen = BTreeSet::new();
    step.matches.iter().enumerate().find_map(|(position, condition)| {
        let problem = match kinds(condition).as_slice() {
            ["path"] => "can't match a path".to_owned(),
            ["query parameter"] if !knows_queries => "can't match a query parameter".to_owned(),
            [kind] if !seen.insert(*kind) => format!("can't match a second {kind}"),
            [_] => return None,
            _ => "match one header or cookie at a time".to_owned(),
        };
        Some(format!("Ingresses of class {class} {problem}: matches[{position}]"))
    })
}

/// What a condition looks at.
fn kinds(condition: &HttpRouteMatch) -> Vec<&'static str> {
    let headers =
        condition.headers.iter().map(|header| if header.name == COOKIE { "cookie" } else { "header" });
    let parameters = condition.query_params.iter().map(|_| "query parameter");
    headers.chain(parameters).chain(condition.path.iter().map(|_| "path")).collect()
}
