//! What the controller of StatefulSets costs: 0 to 200 Pods one after another, 0 to 1,000 and 5,000 in parallel, and
//! all of these updated in place with `maxUnavailable: 10%`.

use benches::stand::Stand;
use serde_json::json;

use crate::rollout::{self, Change, Step, Subject, has_all_replicas, has_update_revision};

/// Pods of the StatefulSet that creates one after another.
const ORDERED_PODS: usize = 200;

/// A created Pod gets all its conditions in one write.
const SCALE: Step = Step { name: "scale", change: Change::Scale, writes: 1.0, time: None };

const ORDERED: Subject = Subject {
    name: "statefulset-ordered",
    kind: "StatefulSet",
    plural: "statefulsets",
    has_pod_per_node: false,
    is_known: has_update_revision,
    is_done: has_all_replicas,
    refine: |set| set.readiness_gate("InPlaceUpdateReady"),
    steps: &[SCALE],
};

/// A Pod that is updated in place takes three writes.
const PARALLEL: Subject = Subject {
    name: "statefulset",
    kind: "StatefulSet",
    plural: "statefulsets",
    has_pod_per_node: false,
    is_known: has_update_revision,
    is_done: has_all_replicas,
    refine: |set| {
        let rolling = json!({"podUpdatePolicy": "InPlaceIfPossible", "maxUnavailable": "10%"});
        set.readiness_gate("InPlaceUpdateReady")
            .with("/spec/podManagementPolicy", "Parallel")
            .with("/spec/updateStrategy", json!({"rollingUpdate": rolling}))
    },
    steps: &[SCALE, Step { name: "roll", change: Change::Image, writes: 3.0, time: None }],
};

/// Measures with these numbers of Pods, from small to large; one after another no more than the least of them.
pub(crate) async fn measure(stand: &Stand, pods: &[usize]) {
    let program = stand.program("statefulset").await;
    let ordered = pods.iter().copied().min().unwrap_or(ORDERED_PODS).min(ORDERED_PODS);
    rollout::measure(stand, &program, &ORDERED, &[ordered]).await;
    rollout::measure(stand, &program, &PARALLEL, pods).await;
    program.stop();
}
