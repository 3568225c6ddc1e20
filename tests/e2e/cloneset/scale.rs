//! How Pods and their claims come and go.

use kit::wait_for;
use serde_json::{Value, json};

use super::{
    Fleet, IN_PLACE_UPDATE_READY, INSTANCE_ID, LIFECYCLE_STATE, label, name, rolling, uid, with_claim,
};
use crate::support::call;

/// Scenarios 1 and 2.
#[tokio::test]
async fn pods_and_claims_come_and_go_together() {
    let fleet = Fleet::launch("cloneset-scale", |set| with_claim(set.replicas(3))).await;
    let (pods, claims) = (fleet.pods().await, fleet.claims().await);
    assert_eq!((pods.len(), claims.len()), (3, 3));
    for (pod, claim) in pods.iter().zip(&claims) {
        let id = label(pod, INSTANCE_ID);
        assert_eq!((id.len(), name(pod), name(claim)), (5, format!("web-{id}"), format!("data-web-{id}")));
        assert_eq!((label(claim, INSTANCE_ID), label(claim, "app")), (id, "web"));
        assert_eq!(label(pod, LIFECYCLE_STATE), "Normal");
        let gates = pod["spec"]["readinessGates"].as_array().unwrap();
        assert!(gates.contains(&json!({"conditionType": IN_PLACE_UPDATE_READY})), "{gates:?}");
        assert_eq!(pod["spec"]["volumes"][0]["persistentVolumeClaim"]["claimName"], *name(claim));
        for object in [pod, claim] {
            let owner = &object["metadata"]["ownerReferences"][0];
            assert_eq!(
                (owner["kind"].as_str(), owner["uid"].as_str()),
                (Some("CloneSet"), Some(&*uid(&fleet.set.object)))
            );
        }
    }
    fleet.event("SuccessfulCreate").await;

    fleet.scale(5).await;
    fleet.complete().await;
    assert_eq!((fleet.pods().await.len(), fleet.claims().await.len()), (5, 5));
    fleet.scale(2).await;
    fleet.complete().await;
    fleet.event("SuccessfulDelete").await;
    let claims = wait_for("the claims to follow", async || {
        let claims = fleet.claims().await;
        if claims.len() == 2 { Ok(claims) } else { Err(claims.len()) }
    })
    .await;
    let ids = |objects: &[Value]| {
        objects.iter().map(|object| label(object, INSTANCE_ID).to_owned()).collect::<Vec<_>>()
    };
    assert_eq!(ids(&claims), ids(&fleet.pods().await));
    let (_, scale) =
        call(&fleet.shop.client, "GET", &format!("{}/scale", fleet.set.path), &Value::Null).await;
    assert_eq!(scale["status"], json!({"replicas": 2, "selector": "app=web"}));
}

/// Scenarios 3 and 4.
#[tokio::test]
async fn named_pods_are_the_ones_that_go() {
    let fleet = Fleet::launch("cloneset-named", |set| {
        rolling(set.replicas(3), "ReCreate", json!({"maxUnavailable": 1}))
    })
    .await;
    let names = fleet.names().await;
    let emptied =
        |set: &Value| set["spec"]["scaleStrategy"]["podsToDelete"].as_array().is_none_or(Vec::is_empty);

    fleet.change(json!({"scaleStrategy": {"podsToDelete": [names[0]]}})).await;
    fleet.observed("the name to be taken out", emptied).await;
    fleet.complete().await;
    let now = fleet.names().await;
    assert!(
        now.len() == 3 && !now.contains(&names[0]) && now.contains(&names[1]) && now.contains(&names[2]),
        "{now:?}"
    );

    fleet.change(json!({"replicas": 2, "scaleStrategy": {"podsToDelete": [names[1]]}})).await;
    fleet.observed("the name to be taken out", emptied).await;
    fleet.complete().await;
    let left: Vec<String> = now.into_iter().filter(|name| *name != names[1]).collect();
    assert_eq!(fleet.names().await, left);
}

/// Scenario 29. Its claim is deleted with the Pod, also where claims are reused.
#[tokio::test]
async fn a_pod_that_is_not_selected_any_more_is_released_and_replaced() {
    let fleet = Fleet::launch("cloneset-release", |set| {
        with_claim(set.replicas(2)).with("/spec/scaleStrategy", json!({"enablePVCReuse": true}))
    })
    .await;
    let (before, claims) = (fleet.pods().await, fleet.claims().await);
    fleet.pod(&name(&before[0])).label("app", "debug").await;
    let now = fleet
        .wait_pods("the Pod to be released and replaced", |pods| {
            let owned = pods.iter().filter(|pod| !pod["metadata"]["ownerReferences"].is_null()).count();
            pods.len() == 3 && owned == 2
        })
        .await;
    let free = now.iter().find(|pod| uid(pod) == uid(&before[0])).unwrap();
    assert!(free["metadata"]["ownerReferences"].is_null(), "{free:#}");
    fleet.complete().await;
    let left = fleet.claims().await;
    assert_eq!(left.len(), 3);
    let claim = left.iter().find(|claim| uid(claim) == uid(&claims[0])).unwrap();
    assert_eq!(claim["metadata"]["ownerReferences"][0]["uid"], json!(uid(&before[0])));
}
