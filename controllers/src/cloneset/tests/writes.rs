//! How much is written for each Pod.

use super::*;

/// A CloneSet whose Pods have the readiness gate that admission adds.
fn gated(replicas: u32, policy: &str) -> Site {
    let gates = json!([{"conditionType": "KruisePodReady"}]);
    let spec = json!({
        "replicas": replicas, "template": {"spec": {"readinessGates": gates}},
        "updateStrategy": {"rollingUpdate": {"podUpdatePolicy": policy}},
    });
    Site::open(spec, fine)
}

/// Reconciles as often as it takes; gives the writes to Pods by method and path.
async fn settle(site: &Site) -> Vec<String> {
    site.requests.lock().unwrap().clear();
    for _ in 0..30 {
        site.reconcile().await.unwrap();
        site.kubelet();
    }
    let requests = site.requests.lock().unwrap();
    let of_pods = requests.iter().filter(|request| request.contains("/namespaces/shop/pods"));
    of_pods.map(|request| request.split(' ').take(2).collect::<Vec<_>>().join(" ")).collect()
}

fn number(writes: &[String], wanted: impl Fn(&str) -> bool) -> usize {
    writes.iter().filter(|write| wanted(write)).count()
}

#[tokio::test(start_paused = true)]
async fn a_new_pod_costs_one_write_beside_its_create_and_a_recreated_one_two_more() {
    let site = gated(3, "ReCreate");
    let writes = settle(&site).await;
    let created = |writes: &[String]| number(writes, |write| write.starts_with("POST"));
    let conditions = |writes: &[String]| number(writes, |write| write.ends_with("/status"));
    assert_eq!((created(&writes), conditions(&writes), writes.len()), (3, 3, 6), "{writes:#?}");
    for (_, pod) in site.pods() {
        let conditions = pod["status"]["conditions"].as_array().unwrap();
        for kind in ["InPlaceUpdateReady", "KruisePodReady"] {
            let is_true = |one: &Value| one["type"] == kind && one["status"] == "True";
            assert!(conditions.iter().any(is_true), "{kind} in {conditions:#?}");
        }
        assert_eq!(pod["metadata"]["labels"]["lifecycle.apps.kruise.io/state"], "Normal");
    }

    site.edit(json!({"template": {"metadata": {"labels": {"version": "2"}}}}));
    let writes = settle(&site).await;
    let deleted = number(&writes, |write| write.starts_with("DELETE"));
    assert_eq!((created(&writes), conditions(&writes), deleted), (3, 3, 3), "{writes:#?}");
    assert_eq!(writes.len(), 12, "each is marked for its deletion besides: {writes:#?}");
}

#[tokio::test(start_paused = true)]
async fn new_pods_do_not_wait_for_their_conditions_until_the_last_one_is_created() {
    let site = gated(2, "InPlaceIfPossible");
    site.reconcile().await.unwrap();
    site.kubelet();
    site.edit(json!({"replicas": 4}));
    site.requests.lock().unwrap().clear();
    site.reconcile().await.unwrap();
    assert_eq!((site.count(&format!("POST {PODS}")), site.count(&format!("PATCH {PODS}/"))), (2, 2));
}
