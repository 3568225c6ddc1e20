//! How Pods and their claims come and go.

use kit::fake_nodes;
use kit::wait_for;
use serde_json::{Value, json};

use super::{
    Fleet, IN_PLACE_UPDATE_READY, INSTANCE_ID, LIFECYCLE_STATE, NEW, SPECIFIED_DELETE, condition, image,
    is_available, is_ready, label, name, rolling, time, uid, uids, with_claim,
};
use crate::chronicle::staying;
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

/// Scenario 5.
#[tokio::test]
async fn a_serving_pod_is_replaced_before_it_goes_where_the_budget_is_used_up() {
    let budget = json!({"maxUnavailable": 1, "maxSurge": 1});
    let fleet = Fleet::launch("cloneset-surge", |set| rolling(set.replicas(3), "ReCreate", budget)).await;
    let names = fleet.names().await;
    fleet.annotate(&names[0], fake_nodes::READY_AFTER, "never").await;
    fleet.status("one Pod to be unavailable", json!({"availableReplicas": 2})).await;
    // Pods when the named one was taken, and how many of them served.
    let delete = async |pod: &str| {
        let chronicle = fleet.chronicle().await;
        fleet.pod(pod).label(SPECIFIED_DELETE, "").await;
        fleet.pod(pod).gone().await;
        fleet.wait_pods("the Pod to be replaced", |pods| pods.len() == 3).await;
        let moments = chronicle.moments().await;
        let before = moments.iter().take_while(|moment| {
            moment.get(pod).is_some_and(|pod| pod["metadata"]["deletionTimestamp"].is_null())
        });
        let last = staying(before.last().unwrap()).into_iter().cloned().collect::<Vec<_>>();
        (last.len(), last.iter().filter(|pod| is_available(pod)).count())
    };
    assert_eq!(delete(&names[1]).await, (4, 3), "a new one serves before");

    fleet.status("three Pods", json!({"replicas": 3, "availableReplicas": 2})).await;
    fleet.change_rolling(json!({"maxUnavailable": 2})).await;
    fleet.settled().await;
    assert_eq!(delete(&names[2]).await, (3, 2), "the budget allows two");

    fleet.change_rolling(json!({"maxUnavailable": 1})).await;
    fleet.status("three Pods", json!({"replicas": 3, "availableReplicas": 2})).await;
    assert_eq!(delete(&names[0]).await, (3, 2), "it served nobody");
    fleet.complete().await;
}

/// Scenario 14.
#[tokio::test]
async fn on_delete_waits_for_the_user() {
    let fleet = Fleet::launch("cloneset-on-delete", |set| {
        set.replicas(2).with("/spec/updateStrategy", json!({"type": "OnDelete"}))
    })
    .await;
    let before = fleet.pods().await;
    fleet.roll(NEW).await;
    let status = fleet.settled().await;
    assert_ne!(status["updateRevision"], status["currentRevision"]);
    assert_eq!(uids(&fleet.pods().await), uids(&before));
    fleet.pod(&name(&before[0])).deleted().await;
    fleet
        .status(
            "the replacement to be new",
            json!({"replicas": 2, "updatedReplicas": 1, "availableReplicas": 2}),
        )
        .await;
    for pod in fleet.pods().await {
        assert_eq!(image(&pod) == NEW, uid(&pod) != uid(&before[1]));
    }
}

/// Scenario 15, with shorter times.
#[tokio::test]
async fn pods_come_one_after_the_other_where_scaling_up_is_limited() {
    let fleet = Fleet::open("cloneset-limited", |set| {
        let set = set.replicas(3).with("/spec/scaleStrategy", json!({"maxUnavailable": 1}));
        set.with("/spec/minReadySeconds", 2)
    })
    .await;
    let chronicle = fleet.chronicle().await;
    fleet.complete().await;
    let unready = |pods: &[&Value]| pods.iter().filter(|pod| !is_ready(pod)).count();
    assert!(chronicle.range(unready).await.1 <= 1);
    let pods = fleet.pods().await;
    let mut times: Vec<i64> =
        pods.iter().map(|pod| time(&pod["metadata"]["creationTimestamp"]).as_second()).collect();
    times.sort_unstable();
    assert!(times[1] - times[0] >= 2 && times[2] - times[1] >= 2, "{times:?}");
    let message = fleet.event("ScaleUpLimited").await;
    assert!(
        message.starts_with("scaleUp is limited because of scaleStrategy.maxUnavailable, limit: "),
        "{message}"
    );
}

/// Scenario 17.
#[tokio::test]
async fn a_reused_claim_keeps_its_name_and_identity() {
    let fleet = Fleet::launch("cloneset-reuse", |set| {
        with_claim(set.replicas(2)).with("/spec/scaleStrategy", json!({"enablePVCReuse": true}))
    })
    .await;
    let (pods, claims) = (fleet.pods().await, fleet.claims().await);
    fleet.pod(&name(&pods[0])).deleted().await;
    let now = fleet
        .wait_pods("the Pod to be replaced", |now| {
            now.len() == 2 && now.iter().all(is_available) && uids(now) != uids(&pods)
        })
        .await;
    assert_eq!((name(&now[0]), name(&now[1])), (name(&pods[0]), name(&pods[1])));
    assert_eq!(uids(&fleet.claims().await), uids(&claims));
}

/// Scenario 29. Its claim goes with the Pod, also where claims are reused.
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

/// Scenario 35, with a shorter time.
#[tokio::test]
async fn pods_become_available_by_time_alone() {
    const SECONDS: i64 = 6;
    let fleet =
        Fleet::open("cloneset-min-ready", |set| set.replicas(3).with("/spec/minReadySeconds", SECONDS)).await;
    fleet.status("all to be ready", json!({"readyReplicas": 3})).await;
    let pods = fleet.pods().await;
    fleet.complete().await;
    let now = jiff::Timestamp::now();
    let since = pods.iter().map(|pod| time(&condition(pod, "Ready")["lastTransitionTime"]));
    let waited = now.duration_since(since.max().unwrap()).as_millis();
    assert!((SECONDS * 1000..(SECONDS + 30) * 1000).contains(&i64::try_from(waited).unwrap()), "{waited} ms");
    let versions = |pods: &[Value]| -> Vec<Value> {
        pods.iter().map(|pod| pod["metadata"]["resourceVersion"].clone()).collect()
    };
    assert_eq!(versions(&fleet.pods().await), versions(&pods), "nothing told of it");
}
