//! Rolling back a Deployment (docs/behaviour/kubectl-kruise.md#rollout-undo). kubectl would refuse those that are paused, as
//! they are while a Rollout takes them through its steps, and would drop the annotations of that Rollout.

use serde_json::{Map, Value};

use super::edit::bound;
use super::pods::{is_controlled_by, text};
use super::progress::IN_PROGRESSING;
use pod::template::comparison;
use values::json_patch::{Patch, Pointer};

/// The number of a ReplicaSet in the history of its Deployment.
const REVISION: &str = "deployment.kubernetes.io/revision";
/// The label by which a Deployment distinguishes its ReplicaSets.
const HASH: &str = "pod-template-hash";
/// What kubectl says of a Deployment that no Rollout pauses.
const PAUSED: &str =
    "cannot rollback a paused deployment; resume it first with 'kubectl rollout resume' and try again";
/// Annotations that stay those of the Deployment.
const OWN: [&str; 6] = [
    "kubectl.kubernetes.io/last-applied-configuration",
    REVISION,
    "deployment.kubernetes.io/revision-history",
    "deployment.kubernetes.io/desired-replicas",
    "deployment.kubernetes.io/max-replicas",
    "deprecated.deployment.rollback.to",
];

fn annotation<'a>(object: &'a Value, key: &str) -> Option<&'a str> {
    object.pointer("/metadata/annotations")?.get(key)?.as_str()
}

fn annotations(object: &Value) -> Map<String, Value> {
    object.pointer("/metadata/annotations").and_then(Value::as_object).cloned().unwrap_or_default()
}

fn is_own(key: &str) -> bool {
    OWN.contains(&key) || key.contains("rollouts.kruise.io/")
}

fn number(replica_set: &Value) -> Option<i64> {
    annotation(replica_set, REVISION)?.parse().ok()
}

/// The template of a ReplicaSet, as its Deployment had it.
fn template(replica_set: &Value) -> Value {
    let mut template = replica_set.pointer("/spec/template").cloned().unwrap_or_default();
    if let Some(labels) = template.pointer_mut("/metadata/labels").and_then(Value::as_object_mut) {
        labels.remove(HASH);
    }
    template
}

fn is_paused(deployment: &Value) -> bool {
    deployment.pointer("/spec/paused").and_then(Value::as_bool) == Some(true)
}

/// A Rollout holds the Deployment, whose template may have no ReplicaSet yet.
fn is_held(deployment: &Value) -> bool {
    is_paused(deployment) && annotation(deployment, IN_PROGRESSING).is_some()
}

/// The ReplicaSet to go back to.
fn target<'a>(
    deployment: &Value,
    live: &Value,
    replica_sets: &'a [Value],
    revision: i64,
) -> Result<&'a Value, String> {
    let text = |pointer: &str| text(deployment, pointer);
    let children = replica_sets.iter().filter(|one| is_controlled_by(one, text("/metadata/uid")));
    let mut history: Vec<(i64, &Value)> = children.filter_map(|one| Some((number(one)?, one))).collect();
    history.sort_by_key(|(number, _)| *number);
    if revision != 0 {
        let found = history.iter().find(|(number, _)| *number == revision);
        let found = found.map(|(_, one)| *one);
        return found.ok_or_else(|| format!("unable to find specified revision {revision} in history"));
    }
    let newest = history
        .last()
        .filter(|(_, newest)| is_held(deployment) && !comparison::is_same(live, &template(newest)));
    let before = history.len().checked_sub(2).and_then(|at| history.get(at));
    let found = newest.or(before).map(|(_, one)| *one);
    found.ok_or_else(|| format!("no rollout history found for deployment {:?}", text("/metadata/name")))
}

/// Where a Deployment returns to.
#[derive(Clone, Debug, PartialEq)]
pub struct WayBack {
    /// The template of then.
    pub template: Value,
    /// The change; `None` where the template says the same already.
    pub patch: Option<Patch>,
}

/// Goes back to the ReplicaSet with this number; with 0 to the one before the newest, or to the newest where a Rollout
/// holds a template that has no ReplicaSet. `replica_sets` are those of the namespace.
///
/// # Errors
/// What to say to the user.
pub fn undo(deployment: &Value, replica_sets: &[Value], revision: i64) -> Result<WayBack, String> {
    let live = deployment.pointer("/spec/template").cloned().unwrap_or_default();
    let target = target(deployment, &live, replica_sets, revision)?;
    if is_paused(deployment) && annotation(deployment, IN_PROGRESSING).is_none() {
        return Err(PAUSED.to_owned());
    }
    let wanted = template(target);
    if comparison::is_same(&live, &wanted) {
        return Ok(WayBack { template: wanted, patch: None });
    }
    let mut kept: Map<String, Value> =
        annotations(target).into_iter().filter(|(key, _)| !is_own(key)).collect();
    kept.extend(annotations(deployment).into_iter().filter(|(key, _)| is_own(key)));
    let mut edits = Patch::default();
    edits.add(Pointer::from_escaped("/spec/template"), wanted.to_string());
    edits.add(Pointer::from_escaped("/metadata/annotations"), Value::Object(kept).to_string());
    Ok(WayBack { template: wanted, patch: Some(bound(deployment, edits)) })
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;
    use values::json_patch::apply;

    fn replica_set(number: &str, image: &str) -> Value {
        json!({"metadata": {"name": format!("web-{number}"), "ownerReferences": [{"uid": "d", "controller": true}],
                "annotations": {REVISION: number, "note": number, "deployment.kubernetes.io/desired-replicas": "3"}},
            "spec": {"template": {"metadata": {"labels": {"app": "web", HASH: number}}, "spec": {"containers": [{"name": "main", "image": image}]}}}})
    }

    fn deployment(image: &str, annotations: &Value, is_paused: bool) -> Value {
        json!({"metadata": {"name": "web", "uid": "d", "resourceVersion": "7", "annotations": annotations},
            "spec": {"paused": is_paused, "template": {"metadata": {"labels": {"app": "web"}}, "spec": {"containers": [{"name": "main", "image": image}]}}}})
    }

    fn after(deployment: &Value, sets: &[Value], revision: i64) -> Value {
        let patch = undo(deployment, sets, revision).unwrap().patch.unwrap();
        serde_json::from_str(&apply(&deployment.to_string(), &patch).unwrap()).unwrap()
    }

    #[test]
    fn a_deployment_goes_back_with_its_own_annotations() {
        let own = json!({REVISION: "2", "rollouts.kruise.io/in-progressing": "x", "note": "2", "new": "1"});
        let live = deployment("b", &own, false);
        let mut stranger = replica_set("3", "c");
        stranger["metadata"]["ownerReferences"][0]["uid"] = "other".into();
        let sets = [replica_set("2", "b"), replica_set("1", "a"), stranger];
        let back = after(&live, &sets, 0);
        assert_eq!(back["spec"]["template"], deployment("a", &json!({}), false)["spec"]["template"]);
        let expected = json!({REVISION: "2", "rollouts.kruise.io/in-progressing": "x", "note": "1"});
        assert_eq!(back["metadata"]["annotations"], expected);
        assert_eq!(undo(&live, &sets, 2).unwrap().patch, None);
        assert_eq!(undo(&live, &sets, 9).unwrap_err(), "unable to find specified revision 9 in history");
        assert_eq!(
            undo(&live, &sets[..1], 0).unwrap_err(),
            r#"no rollout history found for deployment "web""#
        );
        assert_eq!(undo(&deployment("b", &json!({}), true), &sets, 0).unwrap_err(), PAUSED);
    }

    #[test]
    fn a_held_template_without_a_replica_set_goes_back_to_the_newest() {
        let held = json!({"rollouts.kruise.io/in-progressing": "x"});
        let sets = [replica_set("1", "a"), replica_set("2", "b")];
        let image = |object: &Value| object["spec"]["template"]["spec"]["containers"][0]["image"].clone();
        assert_eq!(image(&after(&deployment("c", &held, true), &sets, 0)), "b");
        assert_eq!(image(&after(&deployment("b", &held, true), &sets, 0)), "a");
        assert_eq!(image(&after(&deployment("c", &json!({}), false), &sets, 0)), "a");
        // Before its first batch, and with it.
        let in_batches =
            json!({"rollouts.kruise.io/in-progressing": "x", "rollouts.kruise.io/deployment-strategy": "x"});
        assert_eq!(image(&after(&deployment("c", &in_batches, true), &sets, 0)), "b");
        assert_eq!(image(&after(&deployment("b", &in_batches, true), &sets, 0)), "a");
    }
}
