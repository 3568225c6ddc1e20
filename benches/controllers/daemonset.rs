//! What the controller of DaemonSets costs: on 1,000 and 5,000 Nodes Pods are created, and updated in place and recreated
//! with `maxUnavailable: 10%`; and kubelets report.

use serde_json::json;

use crate::rollout::{self, Change, Step, Subject};
use crate::stand::Stand;

/// A created Pod gets all its conditions in one write; one that is updated in place takes three; one that is recreated
/// is deleted besides.
const DAEMON_SET: Subject = Subject {
    name: "daemonset",
    kind: "DaemonSet",
    plural: "daemonsets",
    has_pod_per_node: true,
    refine: |set| {
        let rolling = json!({"rollingUpdateType": "InPlaceIfPossible", "maxUnavailable": "10%"});
        set.with("/spec/updateStrategy", json!({"rollingUpdate": rolling}))
    },
    steps: &[
        Step { name: "create", change: Change::Scale, writes: 1.0, time: None },
        Step { name: "roll", change: Change::Image, writes: 3.0, time: None },
        Step { name: "recreate", change: Change::Variable, writes: 2.0, time: None },
    ],
};

/// Measures with these numbers of Nodes, from small to large.
pub(crate) async fn measure(stand: &Stand, nodes: &[usize]) {
    let program = stand.program("daemonset").await;
    rollout::measure(stand, &program, &DAEMON_SET, nodes).await;
    program.stop();
}
