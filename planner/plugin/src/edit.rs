//! Patches of workloads: JSON Patches that touch what they change and nothing else, for the version that was read.

use api::annotations::LAST_APPLIED;
use serde_json::Value;

use super::history::CAUSE;
use super::kinds::WorkloadKind;
use kinds::workload::revision::StoredRevision;
use pod::template::comparison;
use values::json_patch::{Patch, Pointer, string};

/// The patch, bound to the version that was read.
pub(super) fn bound(object: &Value, edits: Patch) -> Patch {
    let mut patch = Patch::default();
    if let Some(version) = object.pointer("/metadata/resourceVersion").and_then(Value::as_str) {
        patch.add(Pointer::from_escaped("/metadata/resourceVersion"), string(version));
    }
    patch.extend(edits);
    patch
}

/// Sets a flag, whose parents may be missing.
pub fn set_flag(object: &Value, pointer: &str, flag: bool) -> Patch {
    let steps: Vec<&str> = pointer.trim_start_matches('/').split('/').collect();
    let mut edits = Patch::default();
    add_member(&mut edits, object, Pointer::root(), &steps, flag.to_string());
    bound(object, edits)
}

/// Adds the member to which these steps lead from `path`. Objects on the way that are missing are made.
pub(super) fn add_member(
    edits: &mut Patch,
    object: &Value,
    mut path: Pointer,
    steps: &[&str],
    value: String,
) {
    let Some((last, parents)) = steps.split_last() else { return };
    for parent in parents {
        path = path.key(parent);
        if !object.pointer(path.as_str()).is_some_and(Value::is_object) {
            edits.add(path.clone(), "{}");
        }
    }
    edits.add(path.key(last), value);
}

/// Keeps why the object was changed, as part of another change.
pub fn cause(object: &Value, cause: &str) -> Patch {
    annotated(object, CAUSE, cause)
}

/// Keeps the whole object in the annotation with which `kubectl apply` compares.
pub fn last_applied(object: &Value) -> Patch {
    annotated(object, LAST_APPLIED, &format!("{object}\n"))
}

fn annotated(object: &Value, key: &str, value: &str) -> Patch {
    let mut edits = Patch::default();
    add_member(&mut edits, object, Pointer::root(), &["metadata", "annotations", key], string(value));
    edits
}

/// What Go's types write of fields without a value is left out.
fn without_nulls(value: Value) -> Value {
    match value {
        Value::Object(members) => {
            let members = members.into_iter().filter(|(_, member)| !member.is_null());
            members.map(|(name, member)| (name, without_nulls(member))).collect()
        }
        Value::Array(elements) => elements.into_iter().map(without_nulls).collect(),
        value => value,
    }
}

/// Goes back to a revision: the whole template is that of the revision. `None` where it says the same already.
///
/// # Errors
/// What to say to the user.
pub fn undo(object: &Value, revision: &StoredRevision) -> Result<Option<Patch>, String> {
    let template = revision
        .template()
        .map_err(|error| format!("revision {} can't be read: {error}", revision.revision))?;
    let live = object.pointer("/spec/template").cloned().unwrap_or_default();
    let wanted: Value = serde_json::from_str(template.get()).map_err(|error| error.to_string())?;
    if comparison::is_same(&live, &wanted) {
        return Ok(None);
    }
    let mut edits = Patch::default();
    edits.add(Pointer::from_escaped("/spec/template"), without_nulls(wanted).to_string());
    Ok(Some(bound(object, edits)))
}

/// The names of the containers of the Pod templates, but for init containers.
pub fn restartable(kind: WorkloadKind, object: &Value) -> Vec<&str> {
    let lists =
        kind.pod_templates().iter().map(|template| object.pointer(&format!("{template}/spec/containers")));
    let containers = lists.filter_map(|list| list?.as_array()).flatten();
    containers.filter_map(|container| container.get("name")?.as_str()).collect()
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;
    use values::json_patch::apply;

    fn set() -> Value {
        json!({"metadata": {"name": "web", "resourceVersion": "7"}, "spec": {"template": {"metadata": {"labels": {"app": "web", "bad": "1"}},
            "spec": {"initContainers": [{"name": "init", "image": "a"}],
                "containers": [{"name": "main", "image": "a", "fieldOfTomorrow": {"n": 1.50}}, {"name": "log", "image": "b", "env": [{"name": "K", "value": "V"}]}]}}}})
    }

    fn applied(object: &Value, patch: &Patch) -> Value {
        serde_json::from_str(&apply(&object.to_string(), patch).unwrap()).unwrap()
    }

    #[test]
    fn flags_are_set_where_their_parents_are_missing() {
        let object = set();
        let after = applied(&object, &set_flag(&object, "/spec/updateStrategy/rollingUpdate/paused", true));
        assert_eq!(after["spec"]["updateStrategy"], json!({"rollingUpdate": {"paused": true}}));
        assert_eq!(after["metadata"]["resourceVersion"], "7");
    }

    #[test]
    fn init_containers_are_not_restarted() {
        assert_eq!(restartable(WorkloadKind::CloneSet, &set()), ["main", "log"]);
        assert!(restartable(WorkloadKind::Rollout, &set()).is_empty());
    }

    #[test]
    fn a_cause_is_kept_where_there_are_no_annotations() {
        let object = set();
        let once = applied(&object, &cause(&object, "a"));
        assert_eq!(once["metadata"]["annotations"], json!({CAUSE: "a"}));
        assert_eq!(applied(&once, &cause(&once, "b"))["metadata"]["annotations"], json!({CAUSE: "b"}));
    }

    #[test]
    fn an_older_template_takes_the_place_of_the_whole() {
        let object = set();
        let template = json!({"$patch": "replace", "metadata": {"labels": {"app": "web"}}, "spec": {"containers": [{"name": "main", "image": "old"}]}});
        let revision =
            json!({"metadata": {"name": "web-1"}, "data": {"spec": {"template": template}}, "revision": 1});
        let revision = StoredRevision::read(&revision.to_string()).unwrap();
        let after = applied(&object, &undo(&object, &revision).unwrap().unwrap());
        let expected = json!({"metadata": {"labels": {"app": "web"}}, "spec": {"containers": [{"name": "main", "image": "old"}]}});
        assert_eq!(after["spec"]["template"], expected);
        assert_eq!(undo(&after, &revision), Ok(None));
    }
}
