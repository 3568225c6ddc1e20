//! Kubernetes' strategic merge patch on JSON text: objects merge member by member, and so do lists whose
//! elements a key distinguishes. The tags of the Go types ([`Shape`]) say which lists do; what they don't know
//! merges as a JSON merge patch does. What the patch does not touch keeps its text.

use api::raw_object::{RawNode, RawObject};
use thiserror::Error;

use crate::canonical::{Kind, Merge, Shape};

/// How deep objects may nest in a patch.
const MAX_DEPTH: usize = 100;
const DIRECTIVE: &str = "$patch";
const RETAIN_KEYS: &str = "$retainKeys";
const ELEMENT_ORDER: &str = "$setElementOrder/";
const DELETED_VALUES: &str = "$deleteFromPrimitiveList/";

/// Why a patch can't be applied.
#[derive(Debug, Error)]
pub enum MergeError {
    /// One of both is no JSON object.
    #[error("{what} is not an object: {source}")]
    NotAnObject {
        /// The patch, or what it is for.
        what: &'static str,
        /// The parser's error.
        source: serde_json::Error,
    },
    /// A `$patch` other than `merge`, `replace` and `delete`.
    #[error("unknown patch type {0} in the patch")]
    UnknownDirective(String),
    /// A directive that takes a list has something else.
    #[error("{0} is not followed by a list")]
    NoList(String),
    /// An element of a list that merges does not say which one it is.
    #[error("an element of {list} does not contain declared merge key: {key}")]
    NoMergeKey {
        /// The list.
        list: String,
        /// The member that distinguishes elements.
        key: &'static str,
    },
    /// Objects nest beyond all reason.
    #[error("the patch nests too deeply")]
    TooDeep,
}

/// `target` with `patch` applied; `shape` is the type of both.
///
/// # Errors
/// A text that is no object, or a patch that contradicts the type.
pub fn merge(target: &str, patch: &str, shape: &'static Shape) -> Result<String, MergeError> {
    let object =
        |what, text| RawObject::parse(text).map_err(|source| MergeError::NotAnObject { what, source });
    let (target, patch) = (object("the target", target)?, object("the patch", patch)?);
    merge_objects(target, patch, Some(shape), 0).map(|merged| merged.to_string())
}

/// A value, taken apart.
enum Form<'a> {
    Object(RawObject<'a>),
    List(Vec<RawNode<'a>>),
    Plain(RawNode<'a>),
}

impl<'a> From<RawNode<'a>> for Form<'a> {
    fn from(mut node: RawNode<'a>) -> Self {
        if let Some(object) = node.as_object_mut() {
            return Self::Object(std::mem::take(object));
        }
        match node.as_array_mut() {
            Some(items) => Self::List(std::mem::take(items)),
            None => Self::Plain(node),
        }
    }
}

fn merge_objects<'a>(
    mut target: RawObject<'a>,
    mut patch: RawObject<'a>,
    shape: Option<&'static Shape>,
    depth: usize,
) -> Result<RawObject<'a>, MergeError> {
    if depth > MAX_DEPTH {
        return Err(MergeError::TooDeep);
    }
    match directive(&mut patch)? {
        Directive::Merge => {}
        Directive::Replace => return Ok(patch),
        Directive::Delete => return Ok(RawObject::default()),
    }
    if let Some(kept) = list(&mut patch, RETAIN_KEYS)? {
        let kept: Vec<String> = kept.iter().filter_map(RawNode::as_string).collect();
        let dropped: Vec<String> =
            target.keys().filter(|key| !kept.iter().any(|kept| kept == key)).map(str::to_owned).collect();
        for key in dropped {
            target.remove(&key);
        }
    }
    for key in names(&patch, DELETED_VALUES) {
        let values = list(&mut patch, &format!("{DELETED_VALUES}{key}"))?.unwrap_or_default();
        if let Some(present) = target.array_mut(&key) {
            present.retain(|item| !values.iter().any(|value| identity(value) == identity(item)));
        }
    }
    let mut orders = Vec::new();
    for key in names(&patch, ELEMENT_ORDER) {
        let order = list(&mut patch, &format!("{ELEMENT_ORDER}{key}"))?;
        orders.push((key, order));
    }
    for (key, order) in &orders {
        if patch.get(key).is_none() && target.get(key).is_some() {
            patch.insert(key, RawNode::array(Vec::new()));
        }
        if order.is_none() {
            return Err(MergeError::NoList(format!("{ELEMENT_ORDER}{key}")));
        }
    }
    let keys: Vec<String> = patch.keys().map(str::to_owned).collect();
    for key in keys {
        let Some(value) = patch.remove(&key) else { continue };
        if value.is_literal("null") {
            target.remove(&key);
            continue;
        }
        let field = shape.and_then(|shape| shape.0.iter().find(|field| field.name == key));
        let present = target.get_mut(&key).map(|node| std::mem::replace(node, RawNode::boolean(false)));
        let merged = match (present.map(Form::from), Form::from(value)) {
            (Some(Form::Object(present)), Form::Object(value)) => {
                let shape = field.and_then(|field| shape_of(&field.kind));
                merge_objects(present, value, shape, depth + 1)?.into()
            }
            (Some(Form::List(present)), Form::List(value)) => {
                let order =
                    orders.iter().find(|(name, _)| *name == key).and_then(|(_, order)| order.as_deref());
                let lists = Lists { name: &key, present, patch: value, order };
                let merge = field.and_then(|field| field.merge);
                let merge = merge.filter(|merge| merge.strategy.split(',').any(|part| part == "merge"));
                let element = field.and_then(|field| match field.kind {
                    Kind::List(element) => shape_of(element),
                    _ => None,
                });
                RawNode::array(lists.merge(merge, element, depth + 1)?)
            }
            (_, Form::Object(value)) => clean(value.into(), depth + 1)?,
            (_, Form::List(value)) => clean(RawNode::array(value), depth + 1)?,
            (_, Form::Plain(value)) => value,
        };
        target.insert(&key, merged);
    }
    Ok(target)
}

fn shape_of(kind: &Kind) -> Option<&'static Shape> {
    if let Kind::Struct(shape) = kind { Some(shape) } else { None }
}

/// What is new comes without directives and without deletions.
fn clean(node: RawNode<'_>, depth: usize) -> Result<RawNode<'_>, MergeError> {
    if depth > MAX_DEPTH {
        return Err(MergeError::TooDeep);
    }
    match Form::from(node) {
        Form::Object(object) => merge_objects(RawObject::default(), object, None, depth).map(RawNode::from),
        Form::List(items) => {
            let mut kept = Vec::with_capacity(items.len());
            for mut item in items {
                let marked = item.as_object_mut().is_some_and(|object| object.get(DIRECTIVE).is_some());
                if !marked {
                    kept.push(clean(item, depth + 1)?);
                }
            }
            Ok(RawNode::array(kept))
        }
        Form::Plain(node) => Ok(node),
    }
}

#[derive(Clone, Copy, PartialEq, Eq)]
enum Directive {
    Merge,
    Replace,
    Delete,
}

/// Takes `$patch` out.
fn directive(object: &mut RawObject<'_>) -> Result<Directive, MergeError> {
    let Some(word) = object.remove(DIRECTIVE) else { return Ok(Directive::Merge) };
    match word.as_string().as_deref() {
        Some("merge") => Ok(Directive::Merge),
        Some("replace") => Ok(Directive::Replace),
        Some("delete") => Ok(Directive::Delete),
        _ => Err(MergeError::UnknownDirective(word.to_string())),
    }
}

/// Takes the list of a directive out.
fn list<'a>(object: &mut RawObject<'a>, key: &str) -> Result<Option<Vec<RawNode<'a>>>, MergeError> {
    let node = object.remove(key).map(RawNode::into_array);
    node.map(|items| items.ok_or_else(|| MergeError::NoList(key.to_owned()))).transpose()
}

/// What follows `prefix` in the keys that begin with it.
fn names(object: &RawObject<'_>, prefix: &str) -> Vec<String> {
    object.keys().filter_map(|key| key.strip_prefix(prefix)).map(str::to_owned).collect()
}

/// What makes a plain value the same as another one.
fn identity(node: &RawNode<'_>) -> String {
    node.as_string().map_or_else(|| node.to_string(), |text| format!("\"{text}"))
}

/// A list, what a patch says of it, and the order that the patch asks for.
struct Lists<'a, 'n> {
    name: &'n str,
    present: Vec<RawNode<'a>>,
    patch: Vec<RawNode<'a>>,
    order: Option<&'n [RawNode<'a>]>,
}

/// An element and what distinguishes it.
type Element<'a> = (Option<String>, RawNode<'a>);

impl<'a> Lists<'a, '_> {
    fn merge(
        self,
        merge: Option<Merge>,
        element: Option<&'static Shape>,
        depth: usize,
    ) -> Result<Vec<RawNode<'a>>, MergeError> {
        let Some(Merge { key, .. }) = merge else {
            return Ok(clean(RawNode::array(self.patch), depth)?.into_array().unwrap_or_default());
        };
        let mut elements: Vec<Element<'a>> =
            self.present.into_iter().map(|node| identified(node, key)).collect();
        let original: Vec<Option<String>> = elements.iter().map(|(id, _)| id.clone()).collect();
        let mut patched = Vec::new();
        let mut replaced = false;
        for mut node in self.patch {
            let directive = match node.as_object_mut() {
                Some(object) if !key.is_empty() && object.get(DIRECTIVE).is_some() => {
                    Some(directive(object)?)
                }
                _ => None,
            };
            let (id, node) = identified(node, key);
            match directive {
                Some(Directive::Replace) => replaced = true,
                Some(Directive::Delete) => elements.retain(|(known, _)| *known != id),
                Some(Directive::Merge) => {}
                None if id.is_none() && !replaced => {
                    return Err(MergeError::NoMergeKey { list: self.name.to_owned(), key });
                }
                None => patched.push((id, node)),
            }
        }
        if replaced {
            return patched.into_iter().map(|(_, node)| clean(node, depth)).collect();
        }
        let mut order: Vec<Option<String>> = patched.iter().map(|(id, _)| id.clone()).collect();
        for (id, node) in patched {
            match elements.iter_mut().find(|(known, _)| *known == id) {
                Some((_, present)) => {
                    let taken = std::mem::replace(present, RawNode::boolean(false));
                    *present = match (Form::from(taken), Form::from(node)) {
                        (Form::Object(present), Form::Object(patch)) => {
                            merge_objects(present, patch, element, depth + 1)?.into()
                        }
                        (Form::Plain(present), _) => present,
                        (_, Form::Object(patch)) => patch.into(),
                        (_, Form::List(patch)) => RawNode::array(patch),
                        (_, Form::Plain(patch)) => patch,
                    };
                }
                None => elements.push((id, clean(node, depth)?)),
            }
        }
        if let Some(wanted) = self.order {
            order = wanted.iter().map(|node| identified(node.clone(), key).0).collect();
        }
        Ok(ordered(elements, &order, &original))
    }
}

/// The element beside what distinguishes it: the member `key`, or itself where there is none.
fn identified<'a>(mut node: RawNode<'a>, key: &str) -> Element<'a> {
    if key.is_empty() {
        return (Some(identity(&node)), node);
    }
    (node.as_object_mut().and_then(|object| object.get(key)).map(identity), node)
}

/// Elements that the patch names have its order, the others in that of the list. Between the two groups,
/// those of the list go first only while they did so before
/// (docs/behaviour/workloadspread.md#strategic-merge).
fn ordered<'a>(
    elements: Vec<Element<'a>>,
    patched: &[Option<String>],
    original: &[Option<String>],
) -> Vec<RawNode<'a>> {
    let place = |order: &[Option<String>], id: &Option<String>| order.iter().position(|known| known == id);
    let (mut named, others): (Vec<Element<'a>>, Vec<Element<'a>>) =
        elements.into_iter().partition(|(id, _)| place(patched, id).is_some());
    named.sort_by_key(|(id, _)| place(patched, id));
    let mut merged = Vec::with_capacity(named.len() + others.len());
    let (mut named, mut others) = (named.into_iter().peekable(), others.into_iter().peekable());
    while let (Some((other, _)), Some((name, _))) = (others.peek(), named.peek()) {
        let before = match (place(original, other), place(original, name)) {
            (Some(other), Some(name)) => other < name,
            _ => false,
        };
        merged.extend(if before { others.next() } else { named.next() });
    }
    merged.extend(named);
    merged.extend(others);
    merged.into_iter().map(|(_, node)| node).collect()
}

#[cfg(test)]
mod tests {
    use serde_json::{Value, json};

    use super::*;
    use crate::canonical::table;

    fn spec(target: Value, patch: Value) -> Value {
        let [target, patch] = [target, patch].map(|value| value.to_string());
        serde_json::from_str(&merge(&target, &patch, &table::POD_SPEC).unwrap()).unwrap()
    }

    fn refused(patch: Value) -> String {
        let target = json!({"containers": [{"name": "main"}]});
        let [target, patch] = [target, patch].map(|value| value.to_string());
        merge(&target, &patch, &table::POD_SPEC).unwrap_err().to_string()
    }

    #[test]
    fn lists_merge_by_their_key_and_others_are_replaced() {
        let target = json!({
            "containers": [{"name": "main", "image": "a", "args": ["1"], "env": [{"name": "A", "value": "1"}, {"name": "B", "value": "2"}]}],
            "tolerations": [{"key": "x"}], "hostAliases": [{"ip": "1.1.1.1", "hostnames": ["a"]}]});
        let patch = json!({
            "containers": [{"name": "main", "args": ["2", "3"], "env": [{"name": "B", "value": "9"}, {"name": "C", "value": "3"}]}],
            "tolerations": [{"key": "y"}], "hostAliases": [{"ip": "1.1.1.1", "hostnames": ["b"]}]});
        let expected = json!({
            "containers": [{"name": "main", "image": "a", "args": ["2", "3"], "env":
                [{"name": "A", "value": "1"}, {"name": "B", "value": "9"}, {"name": "C", "value": "3"}]}],
            "tolerations": [{"key": "y"}], "hostAliases": [{"ip": "1.1.1.1", "hostnames": ["b"]}]});
        assert_eq!(spec(target, patch), expected);
    }

    #[test]
    fn null_deletes_and_comes_into_no_new_object() {
        let target = json!({"nodeSelector": {"a": "1", "b": "2"}, "hostname": "h"});
        let patch = json!({"nodeSelector": {"a": null, "c": "3"}, "hostname": null, "affinity": {"nodeAffinity": {}, "podAffinity": null}});
        assert_eq!(
            spec(target, patch),
            json!({"nodeSelector": {"b": "2", "c": "3"}, "affinity": {"nodeAffinity": {}}})
        );
    }

    #[test]
    fn directives_replace_and_delete() {
        let target = || {
            json!({"containers": [{"name": "a", "image": "1"}, {"name": "b"}], "securityContext": {"fsGroup": 1, "runAsUser": 2},
                "volumes": [{"name": "v", "emptyDir": {}}], "nodeSelector": {"x": "1"}})
        };
        let deleted = spec(
            target(),
            json!({"containers": [{"name": "a", "$patch": "delete"}], "nodeSelector": {"$patch": "delete"}}),
        );
        assert_eq!((&deleted["containers"], &deleted["nodeSelector"]), (&json!([{"name": "b"}]), &json!({})));
        let replaced = spec(
            target(),
            json!({"containers": [{"$patch": "replace"}, {"name": "c"}], "securityContext": {"$patch": "replace", "runAsUser": 3}}),
        );
        assert_eq!(
            (&replaced["containers"], &replaced["securityContext"]),
            (&json!([{"name": "c"}]), &json!({"runAsUser": 3}))
        );
        let retained = spec(
            target(),
            json!({"volumes": [{"name": "v", "$retainKeys": ["name", "hostPath"], "hostPath": {"path": "/p"}}]}),
        );
        assert_eq!(retained["volumes"], json!([{"name": "v", "hostPath": {"path": "/p"}}]));
        assert_eq!(
            spec(target(), json!({"nodeSelector": {"$patch": "merge", "y": "2"}}))["nodeSelector"],
            json!({"x": "1", "y": "2"})
        );
    }

    #[test]
    fn plain_values_unite_and_are_taken_out() {
        let metadata = |patch: Value| -> Value {
            let target = r#"{"finalizers":["a","b"],"size":1.50}"#;
            let text = merge(target, &patch.to_string(), &table::OBJECT_META).unwrap();
            assert!(text.contains(r#""size":1.50"#), "{text}");
            serde_json::from_str::<Value>(&text).unwrap()["finalizers"].clone()
        };
        assert_eq!(metadata(json!({"finalizers": ["b", "c"]})), json!(["a", "b", "c"]));
        assert_eq!(metadata(json!({"$deleteFromPrimitiveList/finalizers": ["a"]})), json!(["b"]));
        assert_eq!(metadata(json!({"$setElementOrder/finalizers": ["b", "a"]})), json!(["b", "a"]));
    }

    #[test]
    fn the_order_of_the_patch_counts() {
        let target = || json!({"containers": [{"name": "a"}, {"name": "b"}]});
        let names = |patch: Value| -> Vec<String> {
            let merged = spec(target(), patch);
            let names = merged["containers"].as_array().unwrap().iter();
            names.map(|element| element["name"].as_str().unwrap().to_owned()).collect()
        };
        assert_eq!(names(json!({"containers": [{"name": "new"}]})), ["new", "a", "b"]);
        assert_eq!(names(json!({"containers": [{"name": "b"}, {"name": "new"}]})), ["a", "b", "new"]);
        let order = json!([{"name": "b"}, {"name": "new"}, {"name": "a"}]);
        assert_eq!(
            names(json!({"containers": [{"name": "new"}], "$setElementOrder/containers": order})),
            ["b", "new", "a"]
        );
    }

    #[test]
    fn what_contradicts_itself_is_refused() {
        assert!(
            refused(json!({"containers": [{"image": "x"}]}))
                .contains("does not contain declared merge key: name")
        );
        assert!(refused(json!({"$patch": "twist"})).contains("unknown patch type"));
        assert!(refused(json!({"$retainKeys": 1})).contains("is not followed by a list"));
        assert!(
            merge("[]", "{}", &table::POD_SPEC).is_err() && merge("{}", "oops", &table::POD_SPEC).is_err()
        );
        let deep = format!("{}1{}", r#"{"a":"#.repeat(5000), "}".repeat(5000));
        assert!(merge("{}", &deep, &table::POD_SPEC).is_err());
    }

    #[test]
    fn fields_that_are_newer_than_the_table_merge_as_json() {
        let target = json!({"future": {"a": 1, "list": [1, 2]}});
        assert_eq!(
            spec(target, json!({"future": {"b": 2, "list": [3]}})),
            json!({"future": {"a": 1, "b": 2, "list": [3]}})
        );
    }
}
