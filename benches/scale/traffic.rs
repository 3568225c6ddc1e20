//! What goes on in a large cluster without any concern of ours: kubelets renew their Leases every 10 s and report their
//! nodes every 5 minutes, and 300 times a second the status of a Pod changes in what decides nothing. Every other one of
//! these Pods belongs to a workload of ours.

use std::iter::Cycle;
use std::sync::Arc;
use std::time::Duration;
use std::vec;

use benches::in_memory::{ApiServer, Key, Kind, Store};
use serde_json::{Value, json};
use tokio::task::JoinHandle;

/// How often some of it happens.
const TICK: Duration = Duration::from_millis(100);
/// Changes of Pods per second.
const PODS: f64 = 300.0;
/// Seconds between two renewals of a Lease, and between two reports of a node.
const PERIODS: (f64, f64) = (10.0, 300.0);

/// The traffic, until it is dropped.
pub(crate) struct Traffic(JoinHandle<()>);

/// Objects that change in turn.
struct Turn {
    kind: Kind,
    keys: Cycle<vec::IntoIter<Key>>,
    per_tick: f64,
    due: f64,
    edit: fn(&mut Value, u64),
}

impl Traffic {
    /// Begins with the objects that are there.
    pub(crate) fn start(server: &ApiServer) -> Self {
        let store = server.store().clone();
        let (foreign, own) = store
            .keys(&Kind::new("", "pods"))
            .into_iter()
            .partition::<Vec<Key>, _>(|(_, name)| name.contains("-front-"));
        let nodes = store.keys(&Kind::new("", "nodes"));
        let leases = store.keys(&Kind::new("coordination.k8s.io", "leases"));
        let leases: Vec<Key> =
            leases.into_iter().filter(|(namespace, _)| namespace == "kube-node-lease").collect();
        let (renewals, reports) = (leases.len() as f64 / PERIODS.0, nodes.len() as f64 / PERIODS.1);
        let turn = |group: &str, plural: &str, keys: Vec<Key>, per_second: f64, edit| Turn {
            kind: Kind::new(group, plural),
            keys: keys.into_iter().cycle(),
            per_tick: per_second * TICK.as_secs_f64(),
            due: 0.0,
            edit,
        };
        let turns = vec![
            turn("", "pods", foreign, PODS / 2.0, probe_containers),
            turn("", "pods", own, PODS / 2.0, probe_containers),
            turn("coordination.k8s.io", "leases", leases, renewals, |lease, number| {
                lease["spec"]["renewTime"] = json!(time(number));
            }),
            turn("", "nodes", nodes, reports, |node, number| {
                for condition in node["status"]["conditions"].as_array_mut().into_iter().flatten() {
                    condition["lastHeartbeatTime"] = json!(time(number));
                }
            }),
        ];
        Self(tokio::spawn(run(store, turns)))
    }
}

impl Drop for Traffic {
    fn drop(&mut self) {
        self.0.abort();
    }
}

async fn run(store: Arc<Store>, mut turns: Vec<Turn>) {
    let mut ticks = tokio::time::interval(TICK);
    for number in 0.. {
        ticks.tick().await;
        for turn in &mut turns {
            turn.due += turn.per_tick;
            while turn.due >= 1.0 {
                turn.due -= 1.0;
                let Some(key) = turn.keys.next() else { break };
                store.edit(&turn.kind, &key, |object| (turn.edit)(object, number));
            }
        }
    }
}

fn probe_containers(pod: &mut Value, number: u64) {
    for condition in pod["status"]["conditions"].as_array_mut().into_iter().flatten() {
        condition["lastProbeTime"] = json!(time(number));
    }
}

/// Another time for each number.
fn time(number: u64) -> String {
    format!("2030-01-01T{:02}:{:02}:{:02}Z", number / 3600 % 24, number / 60 % 60, number % 60)
}
