//! What the controller of CloneSets costs: 0 to 500, 1,000 and 5,000 Pods, and all of them updated in place and
//! then recreated with `maxUnavailable: 10%`.

use benches::stand::Stand;
use serde_json::json;

use crate::rollout::{self, Change, Step, Subject, has_all_replicas, has_update_revision};

/// A created Pod gets all its conditions in one write; one that is updated in place takes three; one that is
/// recreated is marked and deleted besides. Recreating may take half of what OpenKruise took for 500 Pods on such a
/// stand.
const CLONE_SET: Subject = Subject {
    name: "cloneset",
    kind: "CloneSet",
    plural: "clonesets",
    has_pod_per_node: false,
    is_known: has_update_revision,
    is_done: has_all_replicas,
    refine: |set| {
        let rolling = json!({"podUpdatePolicy": "InPlaceIfPossible", "maxUnavailable": "10%"});
        set.with("/spec/updateStrategy", json!({"rollingUpdate": rolling}))
    },
    steps: &[
        Step { name: "scale", change: Change::Scale, writes: 1.0, time: None },
        Step { name: "roll", change: Change::Image, writes: 3.0, time: None },
        Step { name: "recreate", change: Change::Variable, writes: 3.0, time: Some(68.0) },
    ],
};

/// Measures with these numbers of Pods, from small to large.
pub(crate) async fn measure(stand: &Stand, pods: &[usize]) {
    let program = stand.program("cloneset").await;
    rollout::measure(stand, &program, &CLONE_SET, pods).await;
    program.stop();
}
