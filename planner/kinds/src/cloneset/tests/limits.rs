//! What may go, and how much is done at once.

use serde_json::json;

use super::super::fixture::Fleet;
use super::{created, deleted, specify};

#[test]
fn one_plan_creates_a_burst_of_pods_and_not_all_of_a_hundred_thousand() {
    let mut fleet = Fleet::new(json!({"replicas": 1_200}));
    for expected in [500, 500, 200] {
        assert_eq!(created(&fleet.step()), expected);
    }
    assert_eq!(fleet.pods.len(), 1_200);
}

#[test]
fn a_named_pod_that_is_not_available_yet_does_not_wait_until_it_is() {
    let mut fleet = Fleet::running(3, Fleet::rolling("ReCreate", json!({"maxUnavailable": 1})));
    fleet.edit(json!({"spec": {"minReadySeconds": 600}}));
    fleet.later(1_000);
    fleet.image("nginx:2");
    for _ in 0..8 {
        fleet.step();
        fleet.kubelet();
    }
    assert_eq!((fleet.available(), fleet.with_image("nginx:2")), (2, 1));
    fleet.later(30);
    // The new Pod serves, and the template is rolled back.
    fleet.image("nginx:1");
    fleet.step();
    let marked = |pod: &&std::sync::Arc<::pod::observed::ObservedPod>| {
        pod.label("apps.kruise.io/specified-delete").is_some()
    };
    let name = fleet.pods.iter().find(marked).expect("a marked Pod").metadata.name.to_string();
    assert_eq!(deleted(&fleet.step()), [name]);
    // One that is available does have to wait beside it.
    fleet.settle();
    fleet.later(1_000);
    fleet.break_pod(0);
    specify(&mut fleet, 1);
    assert!(deleted(&fleet.step()).is_empty());
}
