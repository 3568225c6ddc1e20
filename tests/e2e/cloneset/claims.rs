//! Claim templates belong to a revision (docs/behaviour/revisions.md#claim-templates).

use kit::wait_for;
use serde_json::{Value, json};

use super::{Fleet, name, rolling};
use crate::support::fleet::{CLAIM_TEMPLATES, claim_volumes, mounting};
use crate::support::{Stored, call};

/// Pods that a partition keeps at the old revision are made with two claims, though the new one has one of them.
#[tokio::test]
async fn pods_of_an_older_revision_have_its_claims() {
    for is_recorded in [true, false] {
        let fleet = Fleet::launch("cloneset-older-claims", |set| {
            let set = rolling(set.replicas(1), "ReCreate", json!({"partition": 3}));
            mounting(&["one", "two"]).into_iter().fold(set, |set, (pointer, value)| set.with(pointer, value))
        })
        .await;
        let revision = fleet.revisions().await.remove(0);
        let recorded: Value =
            serde_json::from_str(revision["metadata"]["annotations"][CLAIM_TEMPLATES].as_str().unwrap())
                .unwrap();
        assert_eq!(recorded, fleet.set.get().await.1["spec"]["volumeClaimTemplates"]);
        if !is_recorded {
            let collection = format!("/apis/apps/v1/namespaces/{}/controllerrevisions", fleet.shop.namespace);
            let path = format!("{collection}/{}", name(&revision));
            let stored = Stored::existing(&fleet.shop.client, path, revision.clone());
            stored.patch(&json!({"metadata": {"annotations": {CLAIM_TEMPLATES: null}}})).await;
        }
        let mut changed = fleet.set.get().await.1;
        for (pointer, value) in mounting(&["one"]) {
            *changed.pointer_mut(pointer).unwrap() = value;
        }
        changed["spec"]["replicas"] = 3.into();
        let (code, answer) = call(&fleet.shop.client, "PUT", &fleet.set.path, &changed).await;
        assert_eq!(code, 200, "{answer:#}");
        let three = json!({"replicas": 3, "availableReplicas": 3, "updatedReplicas": 0});
        fleet.status("three Pods of the old revision", three).await;
        let pods = fleet.pods().await;
        assert!(pods.iter().all(|pod| claim_volumes(pod) == ["one", "two"]), "{pods:#?}");
        assert_eq!((fleet.claims().await.len(), fleet.revisions().await.len()), (6, 2));
        fleet.change_rolling(json!({"partition": 0})).await;
        fleet.complete().await;
        wait_for("the second claims to go", async || {
            let claims: Vec<String> = fleet.claims().await.iter().map(name).collect();
            if claims.len() == 3 && claims.iter().all(|claim| claim.starts_with("one-")) {
                Ok(())
            } else {
                Err(claims)
            }
        })
        .await;
    }
}
