//! What the controllers of DaemonSets and BroadcastJobs cost: on 1,000 and 5,000 Nodes Pods are created, and updated in place
//! and recreated with `maxUnavailable: 10%`; a job runs on all of them; and kubelets report.

use benches::stand::Stand;
use kit::fake_nodes::EXIT;
use serde_json::json;

use crate::rollout::{self, Change, Step, Subject, has_update_revision};

/// A created Pod gets all its conditions in one write; one that is updated in place takes three; one that is recreated
/// is deleted besides.
const DAEMON_SET: Subject = Subject {
    name: "daemonset",
    kind: "DaemonSet",
    plural: "daemonsets",
    has_pod_per_node: true,
    is_known: has_update_revision,
    is_done: |_, status, count| {
        status["updatedNumberScheduled"] == count && status["numberAvailable"] == count
    },
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

/// Its Pods end at once, and stay.
const BROADCAST_JOB: Subject = Subject {
    name: "broadcastjob",
    kind: "BroadcastJob",
    plural: "broadcastjobs",
    has_pod_per_node: true,
    is_known: |status| !status["phase"].is_null(),
    is_done: |_, status, count| status["phase"] == "completed" && status["succeeded"] == count,
    refine: |job| {
        let exits = "checkout=0,log=0";
        job.template_annotation(EXIT, exits).with("/spec/template/spec/restartPolicy", "Never")
    },
    steps: &[Step { name: "run", change: Change::Scale, writes: 1.0, time: None }],
};

/// Measures with these numbers of Nodes, from small to large.
pub(crate) async fn measure(stand: &Stand, nodes: &[usize]) {
    let program = stand.program("daemonset").await;
    rollout::measure(stand, &program, &DAEMON_SET, nodes).await;
    program.stop();
    let program = stand.program("broadcastjob").await;
    rollout::measure(stand, &program, &BROADCAST_JOB, nodes).await;
    program.stop();
}
