//! Claim templates belong to a revision (docs/behaviour/revisions.md#claim-templates).

use serde_json::json;

use super::{asked, launch, named, parallel, rolling};
use crate::support::call;
use crate::support::fleet::{claim_volumes, mounting, name};

/// Pods below the partition are made with two claims, though the new revision has one of them.
#[tokio::test]
async fn pods_below_the_partition_have_the_claims_of_their_revision() {
    let fleet = launch(asked().await, "statefulset-older-claims", |set| {
        let set = rolling(parallel(set.replicas(1)), json!({"partition": 3}));
        mounting(&["one", "two"]).into_iter().fold(set, |set, (pointer, value)| set.with(pointer, value))
    })
    .await;
    let mut changed = fleet.set.get().await.1;
    for (pointer, value) in mounting(&["one"]) {
        *changed.pointer_mut(pointer).unwrap() = value;
    }
    changed["spec"]["replicas"] = 4.into();
    let (code, answer) = call(&fleet.shop.client, "PUT", &fleet.set.path, &changed).await;
    assert_eq!(code, 200, "{answer:#}");
    fleet.status("four Pods", json!({"replicas": 4, "availableReplicas": 4, "updatedReplicas": 1})).await;
    let pods = named(&fleet, &["web-0", "web-1", "web-2", "web-3"]).await;
    let volumes: Vec<usize> = pods.iter().map(|pod| claim_volumes(pod).len()).collect();
    assert_eq!(volumes, [2, 2, 2, 1]);
    let claims: Vec<String> = fleet.claims().await.iter().map(name).collect();
    let old = ["one-web-0", "one-web-1", "one-web-2", "one-web-3", "two-web-0", "two-web-1", "two-web-2"];
    assert_eq!(claims, old);
}
