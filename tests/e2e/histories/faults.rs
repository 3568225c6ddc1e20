//! What happens to the program while histories are played, at random moments.

use std::collections::BTreeMap;
use std::sync::Mutex;
use std::time::Duration;

use jiff::Timestamp;
use serde_json::json;
use tokio::time::sleep;

use super::Site;
use super::author::Dice;
use crate::support::call;

/// The Lease of the leader.
const LEASE: &str = "/apis/coordination.k8s.io/v1/namespaces/kruise-system/leases/kruise-manager";
/// Milliseconds between two faults, at least and how many more at most.
const BETWEEN: (u64, u64) = (1_000, 4_000);
/// Milliseconds for which writes fail, or the API server is away, at least and how many more at most.
const LASTING: (u64, u64) = (1_000, 14_000);

/// A fault.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Fault {
    /// `kill -9` of the leader; another one starts.
    KillLeader,
    /// `kill -9` of all replicas.
    KillAll,
    /// Somebody else holds the Lease, and does not renew it.
    StealLease,
    CutConnections,
    /// Every tenth write is answered by 409, by 500, or not at all after it was carried out.
    FailWrites,
    /// The API server can't be reached.
    HideServer,
}

const FAULTS: [Fault; 6] = [
    Fault::KillLeader,
    Fault::KillAll,
    Fault::StealLease,
    Fault::CutConnections,
    Fault::FailWrites,
    Fault::HideServer,
];

/// How often each fault happened.
pub type Counts = Mutex<BTreeMap<Fault, usize>>;

/// Lets faults happen, one after the other, until this is dropped.
pub async fn happen(site: &Site, seed: u64, counts: &Counts) {
    let mut dice = Dice::new(seed);
    let mut time = move |(least, more)| Duration::from_millis(least + dice.below(more));
    let mut order = Dice::new(seed);
    let proxy = site.proxy.as_ref().unwrap();
    loop {
        sleep(time(BETWEEN)).await;
        let fault = order.of(&FAULTS);
        *counts.lock().unwrap().entry(fault).or_default() += 1;
        match fault {
            Fault::KillLeader => site.restart(true).await,
            Fault::KillAll => site.restart(false).await,
            Fault::StealLease => {
                let spec =
                    json!({"holderIdentity": "thief", "renewTime": format!("{:.6}", Timestamp::now())});
                call(&site.server.client(), "PATCH", LEASE, &json!({"spec": spec})).await;
            }
            Fault::CutConnections => proxy.cut(),
            Fault::FailWrites => {
                proxy.fail_writes(true);
                sleep(time(LASTING)).await;
                proxy.fail_writes(false);
            }
            Fault::HideServer => {
                proxy.set_away(true);
                sleep(time(LASTING)).await;
                proxy.set_away(false);
            }
        }
    }
}
