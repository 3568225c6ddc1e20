//! Keeps across a conversion what the target version cannot hold.
//!
//! Nothing here knows a kind. The conversion is done by one rule and undone by the other; where the result
//! differs from the source, the source's value is noted together with its path. On the way back noted
//! values are put into the converted object and the rules judge them: a value stays only if the object,
//! converted back, differs from what is at hand in no way in which it did not differ before, and if the same
//! judgement will let what is at hand return.

use std::collections::{HashMap, HashSet};

use serde::{Deserialize, Serialize};
use serde_json::value::RawValue;

use super::{CONVERTED_FIELDS, Rule, metadata};
use crate::raw_object::{RawNode, RawObject};

/// Objects are compared to this depth; below it a difference is noted as a whole.
const MAX_DEPTH: usize = 24;
/// How often noted values are tried. Each try halves the values in doubt, so this is enough for several
/// edited fields, and it bounds what a forged annotation can cost.
const MAX_TRIES: usize = 48;
/// Lists of more items are noted as a whole.
const MAX_ITEMS: usize = 256;
/// An annotation with more values than this was not written for any object of use; it is dropped.
const MAX_FIELDS: usize = 1024;

/// One direction of a kind: its rule, the rule that leads back, and the versions at both ends.
pub(super) struct Direction {
    source_version: &'static str,
    there: Rule,
    target_version: &'static str,
    back: Rule,
}

impl Direction {
    pub(super) fn new(
        source_version: &'static str,
        there: Rule,
        target_version: &'static str,
        back: Rule,
    ) -> Self {
        Self { source_version, there, target_version, back }
    }
}

/// Converts `source`, puts back what was noted for the target version and notes what it cannot hold.
pub(super) fn convert_keeping<'a>(mut source: RawObject<'a>, course: &Direction) -> RawObject<'a> {
    let noted = take_noted(&mut source, course.target_version);
    let mut converted = source.clone();
    (course.there)(&mut converted);
    let plain = converted.clone();
    let mut returned = plain.clone();
    (course.back)(&mut returned);
    let mut lost = differences(&mut source, &mut returned);
    let mut pending = if noted.is_empty() { Vec::new() } else { vec![noted.as_slice()] };
    let mut tries = 0;
    while let Some(fields) = pending.pop() {
        if tries == MAX_TRIES {
            break;
        }
        tries += 1;
        let mut candidate = converted.clone();
        for field in fields {
            place(&mut candidate, &field.path, field.value.clone());
        }
        if let Some(remaining) = judge(&mut source, &candidate, &plain, &lost, course) {
            converted = candidate;
            lost = remaining;
        } else if fields.len() > 1 {
            let (first, second) = fields.split_at(fields.len() / 2);
            pending.extend([second, first]);
        }
    }
    note(&mut converted, course.source_version, lost);
    converted
}

/// What the candidate loses of the source, if it may replace it: it loses nothing that is not `lost`
/// already, and when it is converted back the same judgement will let the source return.
fn judge<'a>(
    source: &mut RawObject<'a>,
    candidate: &RawObject<'a>,
    plain: &RawObject<'a>,
    lost: &[Difference],
    course: &Direction,
) -> Option<Vec<Difference>> {
    let mut returned = candidate.clone();
    (course.back)(&mut returned);
    let mut again = returned.clone();
    let remaining = differences(source, &mut returned);
    if !none_is_new(&remaining, lost) {
        return None;
    }
    (course.there)(&mut again);
    let mut candidate = candidate.clone();
    let from_source = differences(&mut candidate, &mut plain.clone());
    let from_returned = differences(&mut candidate, &mut again);
    none_is_new(&from_source, &from_returned).then_some(remaining)
}

/// A value of the other version: its path and what it is; `None` where it has to be absent.
struct Field {
    path: Vec<String>,
    value: Option<RawNode<'static>>,
}

/// The content of the annotation.
#[derive(Serialize, Deserialize)]
struct Noted {
    version: String,
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    set: Vec<NotedValue>,
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    unset: Vec<Vec<String>>,
}

#[derive(Serialize, Deserialize)]
struct NotedValue {
    path: Vec<String>,
    value: Box<RawValue>,
}

/// A place where the source and the conversion's way back disagree.
struct Difference {
    path: Vec<String>,
    source: Option<String>,
    found: Option<String>,
}

/// Takes the annotation off and reads it; nothing comes of one that is malformed or for another version.
fn take_noted(object: &mut RawObject<'_>, version: &str) -> Vec<Field> {
    let Some(text) = metadata::annotation(object, CONVERTED_FIELDS) else {
        return Vec::new();
    };
    metadata::mirror_annotation(object, CONVERTED_FIELDS, None);
    let Ok(noted) = serde_json::from_str::<Noted>(&text) else {
        return Vec::new();
    };
    if noted.version != version || noted.set.len() + noted.unset.len() > MAX_FIELDS {
        return Vec::new();
    }
    let set = noted
        .set
        .into_iter()
        .map(|NotedValue { path, value }| Field { path, value: Some(RawNode::from_owned_raw(value)) });
    let unset = noted.unset.into_iter().map(|path| Field { path, value: None });
    set.chain(unset).filter(|field| may_be_restored(&field.path)).collect()
}

/// A conversion may touch the spec, the status, labels and annotations, and so may a note.
fn may_be_restored(path: &[String]) -> bool {
    let inside = match path {
        [root, section, ..] if root == "metadata" => section == "labels" || section == "annotations",
        [root, ..] => root == "spec" || root == "status",
        [] => false,
    };
    inside && path.len() <= MAX_DEPTH
}

/// Writes the annotation, if there is anything to keep.
fn note(object: &mut RawObject<'_>, version: &str, lost: Vec<Difference>) {
    let mut noted = Noted { version: version.to_owned(), set: Vec::new(), unset: Vec::new() };
    for Difference { path, source, .. } in lost {
        match source.map(RawValue::from_string) {
            Some(Ok(value)) => noted.set.push(NotedValue { path, value }),
            Some(Err(_)) => {}
            None => noted.unset.push(path),
        }
    }
    if noted.set.is_empty() && noted.unset.is_empty() {
        return;
    }
    if let Ok(text) = serde_json::to_string(&noted) {
        metadata::mirror_annotation(object, CONVERTED_FIELDS, Some(&text));
    }
}

/// How `source` differs from `found`.
fn differences(source: &mut RawObject<'_>, found: &mut RawObject<'_>) -> Vec<Difference> {
    let mut differences = Vec::new();
    compare_objects(source, found, &mut Vec::new(), &mut differences);
    differences
}

/// Whether each of `remaining` was there `before`, or is a part of something that was missing `before`.
fn none_is_new(remaining: &[Difference], before: &[Difference]) -> bool {
    let known: HashSet<(&[String], Option<&str>)> =
        before.iter().map(|known| (known.path.as_slice(), known.found.as_deref())).collect();
    remaining.iter().all(|difference| {
        let path = difference.path.as_slice();
        match difference.found.as_deref() {
            Some(found) => known.contains(&(path, Some(found))),
            None => {
                (1..=path.len()).any(|end| path.get(..end).is_some_and(|part| known.contains(&(part, None))))
            }
        }
    })
}

fn compare_objects(
    source: &mut RawObject<'_>,
    found: &mut RawObject<'_>,
    path: &mut Vec<String>,
    out: &mut Vec<Difference>,
) {
    let mut others: HashMap<&str, &mut RawNode<'_>> = found.iter_mut().collect();
    for (key, node) in source.iter_mut() {
        path.push(key.to_owned());
        match others.remove(key) {
            Some(other) => compare(node, other, path, out),
            None => out.push(Difference { path: path.clone(), source: Some(node.to_string()), found: None }),
        }
        path.pop();
    }
    let mut added: Vec<_> = others.into_iter().collect();
    added.sort_unstable_by_key(|(key, _)| *key);
    for (key, node) in added {
        let mut path = path.clone();
        path.push(key.to_owned());
        out.push(Difference { path, source: None, found: Some(node.to_string()) });
    }
}

fn compare(
    source: &mut RawNode<'_>,
    found: &mut RawNode<'_>,
    path: &mut Vec<String>,
    out: &mut Vec<Difference>,
) {
    if source.has_text_of(found) {
        return;
    }
    if path.len() < MAX_DEPTH {
        if let (Some(source), Some(found)) = (source.as_object_mut(), found.as_object_mut()) {
            return compare_objects(source, found, path, out);
        }
        if let (Some(source), Some(found)) = (source.as_array_mut(), found.as_array_mut()) {
            let selectors = selectors(source);
            if source.len() <= MAX_ITEMS && selectors == self::selectors(found) {
                for ((selector, source), found) in selectors.into_iter().zip(source).zip(found) {
                    path.push(selector);
                    compare(source, found, path, out);
                    path.pop();
                }
                return;
            }
        } else if source.as_string().is_some_and(|text| found.as_string() == Some(text)) {
            return;
        }
    }
    let (source, found) = (source.to_string(), found.to_string());
    if source != found {
        out.push(Difference { path: path.clone(), source: Some(source), found: Some(found) });
    }
}

/// What names each item of a list in a path: its `name`, else its `type`, as far as all items have one and
/// it is unique; else the position.
fn selectors(items: &mut [RawNode<'_>]) -> Vec<String> {
    for key in ["name", "type"] {
        let names: HashSet<String> = items.iter_mut().filter_map(|item| selector(item, key)).collect();
        if names.len() == items.len() {
            return items.iter_mut().filter_map(|item| selector(item, key)).collect();
        }
    }
    (0..items.len()).map(|position| position.to_string()).collect()
}

fn selector(item: &mut RawNode<'_>, key: &str) -> Option<String> {
    let value = item.as_object_mut()?.string(key)?;
    Some(format!("{key}={value}"))
}

/// Puts a value at a path, or removes what is there. Nothing happens where the path does not lead any more;
/// only a map of labels or annotations that has gone is made again.
fn place<'a>(object: &mut RawObject<'a>, path: &[String], value: Option<RawNode<'a>>) {
    match (path, value) {
        ([], _) => {}
        ([key], Some(value)) => object.insert(key, value),
        ([key], None) => {
            object.remove(key);
        }
        ([root, section, key], Some(value)) if root == "metadata" => {
            object.edit_object(root, |metadata| metadata.edit_object(section, |map| map.insert(key, value)));
        }
        ([key, rest @ ..], value) => {
            if let Some(node) = object.get_mut(key) {
                place_below(node, rest, value);
            }
        }
    }
}

fn place_below<'a>(node: &mut RawNode<'a>, path: &[String], value: Option<RawNode<'a>>) {
    if let Some(object) = node.as_object_mut() {
        return place(object, path, value);
    }
    let (Some(items), [name, rest @ ..]) = (node.as_array_mut(), path) else {
        return;
    };
    if items.len() > MAX_ITEMS {
        return;
    }
    let position = selectors(items).iter().position(|selector| selector == name);
    if let Some(item) = position.and_then(|position| items.get_mut(position)) {
        match value {
            value if !rest.is_empty() => place_below(item, rest, value),
            Some(value) => *item = value,
            None => {}
        }
    }
}
