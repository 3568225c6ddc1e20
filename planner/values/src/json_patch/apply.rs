//! Applying a patch to JSON text: what no operation touches stays byte for byte.

use api::raw_object::{RawNode, RawObject};
use serde_json::Value;
use serde_json::value::RawValue;
use thiserror::Error;

use super::{Operation, Patch, Pointer};

/// Why a patch does not apply.
#[derive(Debug, Error)]
pub enum ApplyError {
    /// The document or a value of the patch is not JSON.
    #[error("not JSON: {0}")]
    Json(#[from] serde_json::Error),
    /// An operation names a place that the document does not have.
    #[error("the document has no {0}")]
    NoSuchPlace(String),
    /// A value is another one than an operation tests for.
    #[error("another value at {0}")]
    OtherValue(String),
    /// A pointer that is neither empty nor starts with a slash.
    #[error("invalid JSON pointer {0}")]
    InvalidPointer(String),
}

/// The document after all operations of `patch`.
///
/// # Errors
/// The document or a value is not JSON, or an operation names a place that does not exist.
pub fn apply(document: &str, patch: &Patch) -> Result<String, ApplyError> {
    let mut root = RawNode::from_raw(serde_json::from_str::<&RawValue>(document)?);
    for operation in patch.operations() {
        match operation {
            Operation::Add(path, value) => edit(&mut root, path, Edit::Add(parse(value)?))?,
            Operation::Replace(path, value) => edit(&mut root, path, Edit::Replace(parse(value)?))?,
            Operation::Remove(path) => edit(&mut root, path, Edit::Remove)?,
            Operation::Test(path, value) => test(&root, path, value)?,
        }
    }
    Ok(root.to_string())
}

fn test(root: &RawNode<'_>, path: &Pointer, value: &str) -> Result<(), ApplyError> {
    let path = path.as_str();
    let document: Value = serde_json::from_str(&root.to_string())?;
    let found = document.pointer(path).ok_or_else(|| ApplyError::NoSuchPlace(path.to_owned()))?;
    let is_equal = *found == serde_json::from_str::<Value>(value)?;
    is_equal.then_some(()).ok_or_else(|| ApplyError::OtherValue(path.to_owned()))
}

enum Edit<'a> {
    Add(RawNode<'a>),
    Replace(RawNode<'a>),
    Remove,
}

fn parse(value: &str) -> Result<RawNode<'_>, serde_json::Error> {
    serde_json::from_str::<&RawValue>(value).map(RawNode::from_raw)
}

fn edit<'a>(root: &mut RawNode<'a>, path: &Pointer, edit: Edit<'a>) -> Result<(), ApplyError> {
    let missing = || ApplyError::NoSuchPlace(path.as_str().to_owned());
    let Some((parents, last)) = path.as_str().rsplit_once('/') else {
        return match edit {
            Edit::Add(value) | Edit::Replace(value) if path.as_str().is_empty() => {
                *root = value;
                Ok(())
            }
            Edit::Remove if path.as_str().is_empty() => Err(missing()),
            _ => Err(ApplyError::InvalidPointer(path.as_str().to_owned())),
        };
    };
    let mut node = root;
    let mut tokens = parents.split('/');
    if tokens.next().is_some_and(|before| !before.is_empty()) {
        return Err(ApplyError::InvalidPointer(path.as_str().to_owned()));
    }
    for token in tokens {
        node = child(node, token).ok_or_else(missing)?;
    }
    if is_array(node) {
        edit_array(node, last, edit).ok_or_else(missing)
    } else {
        let object = node.as_object_mut().ok_or_else(missing)?;
        edit_object(object, &unescaped(last), edit).ok_or_else(missing)
    }
}

fn is_array(node: &mut RawNode<'_>) -> bool {
    node.as_array_mut().is_some()
}

fn child<'n, 'a>(node: &'n mut RawNode<'a>, token: &str) -> Option<&'n mut RawNode<'a>> {
    if is_array(node) {
        node.as_array_mut()?.get_mut(index(token)?)
    } else {
        node.as_object_mut()?.get_mut(&unescaped(token))
    }
}

fn edit_array<'a>(node: &mut RawNode<'a>, token: &str, edit: Edit<'a>) -> Option<()> {
    let items = node.as_array_mut()?;
    match edit {
        Edit::Add(value) => {
            let position = if token == "-" { items.len() } else { index(token)? };
            if position > items.len() {
                return None;
            }
            items.insert(position, value);
        }
        Edit::Replace(value) => *items.get_mut(index(token)?)? = value,
        Edit::Remove => {
            let position = index(token)?;
            items.get(position)?;
            items.remove(position);
        }
    }
    Some(())
}

fn edit_object<'a>(object: &mut RawObject<'a>, key: &str, edit: Edit<'a>) -> Option<()> {
    match edit {
        Edit::Add(value) => object.insert(key, value),
        Edit::Replace(value) => *object.get_mut(key)? = value,
        Edit::Remove => drop(object.remove(key)?),
    }
    Some(())
}

/// A list index: digits without a leading zero.
fn index(token: &str) -> Option<usize> {
    let canonical = token == "0" || !token.starts_with('0');
    if canonical && token.bytes().all(|byte| byte.is_ascii_digit()) { token.parse().ok() } else { None }
}

fn unescaped(token: &str) -> String {
    token.replace("~1", "/").replace("~0", "~")
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;
    use serde_json::json;

    #[test]
    fn what_is_not_touched_keeps_its_bytes() {
        let document = r#"{ "a": 1.50, "b" : [1e3, {"x" : 12345678901234567890123}], "c~/": {} }"#;
        let mut patch = Patch::default();
        patch.add(Pointer::root().key("b").index(1).key("y"), "2.0");
        patch.replace(Pointer::root().key("c~/"), "[1.0]");
        assert_eq!(
            apply(document, &patch).unwrap(),
            r#"{"a":1.50,"b":[1e3,{"x":12345678901234567890123,"y":2.0}],"c~/":[1.0]}"#
        );
        assert_eq!(apply(document, &Patch::default()).unwrap(), document);
    }

    #[test]
    fn places_that_do_not_exist_are_refused() {
        for path in ["/x/y", "/b/9", "/b/-", "/b/00", "/a/0", "", "x"] {
            let mut patch = Patch::default();
            patch.remove(Pointer::from_escaped(path));
            assert!(apply(r#"{"a":1,"b":[1]}"#, &patch).is_err(), "{path}");
        }
    }

    #[test]
    fn a_patch_holds_where_its_tests_do() {
        let document = r#"{"a":{"b~/":[1,"x"]}}"#;
        let tested = |value: &str| {
            let mut patch = Patch::default();
            patch.test(Pointer::root().key("a").key("b~/"), value);
            patch.remove(Pointer::root().key("a"));
            apply(document, &patch)
        };
        assert_eq!(tested(r#"[1, "x"]"#).unwrap(), "{}");
        assert!(matches!(tested("[1]"), Err(ApplyError::OtherValue(_))));
    }

    fn document() -> impl Strategy<Value = Value> {
        let leaf = prop_oneof![
            Just(json!(null)),
            any::<i32>().prop_map(|n| json!(n)),
            "[a-c]{0,2}".prop_map(|s| json!(s))
        ];
        leaf.prop_recursive(4, 24, 4, |inner| {
            prop_oneof![
                prop::collection::vec(inner.clone(), 0..4).prop_map(Value::Array),
                prop::collection::btree_map("[ab~/]{1,2}", inner, 0..4)
                    .prop_map(|entries| Value::Object(entries.into_iter().collect())),
            ]
        })
    }

    fn operations() -> impl Strategy<Value = Vec<(u8, String, Value)>> {
        let token = prop_oneof!["[0-3]", Just("-".to_owned()), "(a|b|~0|~1){1,2}"];
        let path = prop::collection::vec(token, 0..4)
            .prop_map(|tokens| tokens.into_iter().map(|token| format!("/{token}")).collect::<String>());
        prop::collection::vec((0_u8..4, path, document()), 1..4)
    }

    proptest! {
        #[test]
        fn it_agrees_with_the_json_patch_crate(before in document(), operations in operations()) {
            let mut patch = Patch::default();
            for (kind, path, value) in operations {
                // Where the two differ in what they make of the root, the root is left alone.
                prop_assume!(!path.is_empty());
                let path = Pointer::from_escaped(path);
                match kind {
                    0 => patch.add(path, value.to_string()),
                    1 => patch.replace(path, value.to_string()),
                    2 => patch.remove(path),
                    _ => patch.test(path, value.to_string()),
                }
            }
            let theirs: json_patch::Patch = serde_json::from_str(&patch.to_json()).unwrap();
            let mut expected = before.clone();
            let outcome = json_patch::patch(&mut expected, &theirs);
            let ours = apply(&before.to_string(), &patch);
            prop_assert_eq!(outcome.is_ok(), ours.is_ok(), "{:?} {:?}", outcome, ours);
            if let Ok(text) = ours {
                prop_assert_eq!(serde_json::from_str::<Value>(&text).unwrap(), expected);
            }
        }
    }
}
