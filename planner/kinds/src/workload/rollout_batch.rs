//! The labels by which Pods say with which batch of a Rollout they came. A workload of ours writes them together with what
//! makes the Pod new, so that the release needs no further write of each Pod (docs/behaviour/rollouts.md#batches).

use api::annotations::ROLLOUT_BATCH;
use api::kinds::ObjectMeta;
use api::labels::{CONTROLLER_REVISION_HASH, ROLLOUT_BATCH_ID, ROLLOUT_ID};
use api::raw_object::{RawNode, RawObject};
use pod::template::names::label_value;

use super::action::Action;
use super::plan::Plan;

/// What a workload says of the batch that is going on: identity of the release, and number.
pub fn annotation(id: &str, number: i32) -> String {
    format!("{id}/{number}")
}

/// The plan, in which each Pod that comes to the update revision gets the labels.
pub(crate) fn labelled<S>(mut plan: Plan<S>, workload: &ObjectMeta, update: &str) -> Plan<S> {
    let Some(labels) = workload.annotations.get(ROLLOUT_BATCH).and_then(|batch| labels(batch)) else {
        return plan;
    };
    for action in plan.scale.iter_mut().chain(&mut plan.update) {
        match action {
            Action::CreatePod { revision, json, .. } if revision == update => {
                if let Some(labelled) = with_labels(json, &labels) {
                    *json = labelled;
                }
            }
            Action::WritePod { revision, writes, .. } if revision == update => {
                let updates =
                    writes.iter_mut().filter(|write| write.labels.contains_key(CONTROLLER_REVISION_HASH));
                for write in updates {
                    labels.iter().for_each(|(key, value)| write.set_label(*key, *value));
                }
            }
            _ => {}
        }
    }
    plan
}

/// The labels; `None` where the API server would refuse Pods that have them.
fn labels(batch: &str) -> Option<[(&'static str, &str); 2]> {
    let (id, number) = batch.split_once('/')?;
    let is_valid = !id.is_empty() && label_value(id).is_empty() && number.parse::<u32>().is_ok();
    is_valid.then_some([(ROLLOUT_ID, id), (ROLLOUT_BATCH_ID, number)])
}

fn with_labels(pod: &str, labels: &[(&str, &str)]) -> Option<String> {
    let mut pod = RawObject::parse(pod).ok()?;
    pod.edit_object("metadata", |metadata| {
        metadata.edit_object("labels", |all| {
            labels.iter().for_each(|(key, value)| all.insert(key, RawNode::string(value)));
        });
    });
    Some(pod.to_string())
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeMap;

    use serde_json::{Value, json};

    use super::*;
    use crate::workload::action::WriteReason;
    use crate::workload::object_version::ObjectVersion;
    use pod::write::PodWrite;

    fn create(revision: &str) -> Action {
        let json = r#"{"metadata":{"labels":{"app":"web"}},"spec":{"new":1.50}}"#.to_owned();
        let [name, instance_id] = ["web-a", "a"].map(str::to_owned);
        Action::CreatePod { name, instance_id, revision: revision.to_owned(), json, claims: Vec::new() }
    }

    fn write(revision: &str, label: &str) -> Action {
        let mut labels = PodWrite::default();
        labels.set_label(label, revision);
        let writes = vec![PodWrite::default(), labels];
        let (pod, reason) = (ObjectVersion::default(), WriteReason::UpdateInPlace);
        Action::WritePod { pod, writes, reason, revision: revision.to_owned() }
    }

    fn planned(batch: &str, actions: Vec<Action>) -> Vec<Action> {
        let annotations = BTreeMap::from([(ROLLOUT_BATCH.to_owned(), batch.to_owned())]);
        let workload = ObjectMeta { annotations, ..ObjectMeta::default() };
        labelled(Plan::<()> { update: actions, ..Plan::default() }, &workload, "web-2").update
    }

    #[test]
    fn pods_that_become_new_get_the_labels_of_the_batch() {
        let new = [create("web-2"), write("web-2", CONTROLLER_REVISION_HASH)];
        let [Action::CreatePod { json, .. }, Action::WritePod { writes, .. }] =
            &planned(&annotation("7d6f", 3), new.to_vec())[..]
        else {
            panic!("two actions")
        };
        let pod: Value = serde_json::from_str(json).unwrap();
        let expected = json!({"app": "web", ROLLOUT_ID: "7d6f", ROLLOUT_BATCH_ID: "3"});
        assert_eq!(pod["metadata"]["labels"], expected);
        assert!(json.contains("1.50"), "all else stays as it is: {json}");
        let labels: Vec<usize> = writes.iter().map(|write| write.labels.len()).collect();
        assert_eq!(labels, [0, 3], "only the write that makes the Pod new");
        assert_eq!(writes[1].labels[ROLLOUT_BATCH_ID].as_deref(), Some("3"));
    }

    #[test]
    fn other_pods_and_values_that_are_no_labels_change_nothing() {
        let others = vec![create("web-1"), write("web-1", CONTROLLER_REVISION_HASH), write("web-2", "app")];
        assert_eq!(planned("7d6f/3", others.clone()), others);
        let new = vec![create("web-2")];
        for batch in ["", "7d6f", "/3", "7d6f/", "7d6f/x", "7d 6f/3", "7d6f/-1", "a/b/3"] {
            assert_eq!(planned(batch, new.clone()), new, "{batch}");
        }
        let long = annotation(&"a".repeat(64), 3);
        assert_eq!(planned(&long, new.clone()), new);
    }
}
