//! Network objects of any kind, which a script changes. The script always gets the object as it was before the release.

use api::annotations::{ORIGINAL_SPEC_CONFIGURATION, RELEASED_NETWORK};
use api::kinds::rollout::CustomNetworkRef;
use serde_json::{Map, Value, json};
use values::merge_patch::difference;

use super::covers::covers;
use super::memory::{Memories, Memory, read};
use super::share::Share;
use super::{Context, Error, three_way};
use crate::object::{Object as _, ObjectName, group};
use crate::script::Script;
use crate::view::View;
use crate::write::Write;

fn name(context: &Context<'_>, reference: &CustomNetworkRef) -> ObjectName {
    context.object(&reference.api_version, &reference.kind, &reference.name)
}

/// An object that is there.
pub(super) fn object<'v>(
    context: &Context<'_>,
    reference: &CustomNetworkRef,
    view: &'v View,
) -> Result<(ObjectName, &'v Value), Error> {
    let name = name(context, reference);
    let Some(object) = view.object(&name)? else {
        return Err(Error::Problem(format!("{} {} does not exist", name.kind, name.name)));
    };
    Ok((name, object))
}

/// The script for an object.
pub(super) fn script<'a>(context: &Context<'a>, reference: &CustomNetworkRef) -> Result<Script<'a>, Error> {
    Ok(context.scripts.custom(group(&reference.api_version), &reference.kind)?)
}

/// Has the object send its requests by a share.
pub(super) fn route(
    context: &Context<'_>,
    reference: &CustomNetworkRef,
    share: &Share,
    view: &View,
) -> Result<Option<Write>, Error> {
    let (name, object) = object(context, reference, view)?;
    let script = script(context, reference)?;
    let holder = context.holder();
    let known = Known::of(object)?;
    if let Some(other) = known.other(&holder) {
        return Err(Error::Problem(format!("{} {} is changed by {other}", name.kind, name.name)));
    }
    let original = known.before_release(&holder);
    let wanted = changed(context, &script, &original, share)?;
    let memory = Memory { original: None, applied: wanted };
    if known.original.as_ref() == Some(&original)
        && known.memories.get(&holder) == Some(&memory)
        && covers(&known.present, &memory.applied)
    {
        return Ok(None);
    }
    let patch = known.patch(&memory.applied, original.to_string().into(), &holder, Some(memory.clone()));
    Ok(Some(Write::patch(&name, object, patch)))
}

/// Puts the object back as it was, with the changes that users made since.
pub(super) fn restore(
    context: &Context<'_>,
    reference: &CustomNetworkRef,
    view: &View,
) -> Result<Option<Write>, Error> {
    let name = name(context, reference);
    let Some(object) = view.object(&name)? else { return Ok(None) };
    let holder = context.holder();
    let known = Known::of(object)?;
    if known.original.is_none() || known.other(&holder).is_some() {
        return Ok(None);
    }
    let patch = known.patch(&known.before_release(&holder), Value::Null, &holder, None);
    Ok(Some(Write::patch(&name, object, patch)))
}

/// An object, and what is known of it.
struct Known {
    /// Its spec, labels and annotations.
    present: Value,
    /// The same before the release.
    original: Option<Value>,
    memories: Memories,
}

impl Known {
    fn of(object: &Value) -> Result<Self, Error> {
        let labels = object.members("/metadata/labels").cloned().unwrap_or_default();
        let mut annotations = object.members("/metadata/annotations").cloned().unwrap_or_default();
        annotations.remove(RELEASED_NETWORK);
        annotations.remove(ORIGINAL_SPEC_CONFIGURATION);
        let spec = object.get("spec").cloned().unwrap_or_else(|| json!({}));
        let original = object.annotation(ORIGINAL_SPEC_CONFIGURATION);
        let original: Option<Value> =
            original.map(|text| read(object, ORIGINAL_SPEC_CONFIGURATION, text)).transpose()?;
        Ok(Self {
            present: json!({"spec": spec, "labels": labels, "annotations": annotations}),
            original: original.as_ref().map(in_full),
            memories: Memories::of(object)?,
        })
    }

    /// Another release that has changed the object. The original can be kept but once: it goes first.
    fn other(&self, holder: &str) -> Option<&str> {
        self.memories.other(holder).filter(|_| self.original.is_some())
    }

    /// What the object would be without the release. What OpenKruise has made of it nobody remembers: then no change since
    /// counts as a user's.
    fn before_release(&self, holder: &str) -> Value {
        let Some(original) = &self.original else { return self.present.clone() };
        let merged = self
            .memories
            .get(holder)
            .and_then(|memory| three_way::merge(Some(&memory.applied), Some(&self.present), Some(original)));
        merged.unwrap_or_else(|| original.clone())
    }

    /// The patch that makes the object `wanted` and remembers the rest.
    fn patch(&self, wanted: &Value, original: Value, holder: &str, memory: Option<Memory>) -> Value {
        let mut changes = match difference(&self.present, wanted) {
            Value::Object(changes) => changes,
            _ => Map::new(),
        };
        let mut annotations = match changes.remove("annotations") {
            Some(Value::Object(annotations)) => annotations,
            _ => Map::new(),
        };
        annotations.insert(ORIGINAL_SPEC_CONFIGURATION.to_owned(), original);
        annotations.insert(RELEASED_NETWORK.to_owned(), self.memories.with(holder, memory));
        let labels = changes.remove("labels").unwrap_or_else(|| json!({}));
        changes.insert("metadata".to_owned(), json!({"labels": labels, "annotations": annotations}));
        Value::Object(changes)
    }
}

/// Spec, labels and annotations; what is empty may be missing.
fn in_full(parts: &Value) -> Value {
    let part =
        |name: &str| parts.get(name).filter(|part| !part.is_null()).cloned().unwrap_or_else(|| json!({}));
    json!({"spec": part("spec"), "labels": part("labels"), "annotations": part("annotations")})
}

/// What the script makes of an object. A part that it doesn't return stays as it is.
fn changed(
    context: &Context<'_>,
    script: &Script<'_>,
    original: &Value,
    share: &Share,
) -> Result<Value, Error> {
    let weight = share.weight.map_or(-1, i64::from);
    let mut input = Map::new();
    input.insert("data".to_owned(), original.clone());
    input.insert("canaryWeight".to_owned(), weight.into());
    input.insert("stableWeight".to_owned(), 100_i64.saturating_sub(weight).into());
    input.insert("canaryService".to_owned(), context.canary_service().into());
    input.insert("stableService".to_owned(), context.routing.service.as_str().into());
    share.describe(&mut input);
    let returned = script.run(&input.into())?;
    let mut changed = original.clone();
    for (name, part) in changed.as_object_mut().into_iter().flatten() {
        if let Some(returned) = returned.get(name) {
            part.clone_from(returned);
        }
    }
    let are_texts =
        |pointer| changed.members(pointer).is_some_and(|texts| texts.values().all(Value::is_string));
    let is_sound = changed.members("/spec").is_some() && are_texts("/labels") && are_texts("/annotations");
    is_sound.then_some(changed).ok_or_else(|| {
        Error::Problem(format!("script {} returns no spec, labels and annotations", script.name()))
    })
}
