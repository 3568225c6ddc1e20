//! Pods that find no capacity.

use super::*;

fn topology(adaptive: &Value, subsets: &Value) -> Value {
    json!({"replicas": 3, "topology": {"scheduleStrategy": {"type": "Adaptive", "adaptive": adaptive}, "subsets": subsets}})
}

fn condition(status: &Value, subset: usize) -> (&Value, &Value) {
    let condition = &status["subsetStatuses"][subset]["conditions"][0];
    (&condition["status"], &condition["reason"])
}

#[tokio::test]
async fn reserved_pods_wait_beside_temporary_ones() {
    const RESERVED: &str = "apps.kruise.io/united-deployment-reserved-pod";
    let shop = Shop::open("united-reserved").await;
    let adaptive =
        json!({"rescheduleCriticalSeconds": 2, "unschedulableDuration": 4, "reserveUnschedulablePods": true});
    let more = topology(&adaptive, &json!([{"name": "a"}, {"name": "b"}]));
    let united = United::create(&shop, "cloneSetTemplate", json!([]), more).await;
    let pods = united.pods("a", 3).await;
    for (pod, has_room) in pods.iter().zip([true, false, false]) {
        place(pod, has_room).await;
    }
    united.shares(&[("a", 3), ("b", 2)]).await;
    let status = united.status("two Pods to be reserved", |status| status["reservedPods"] == 2).await;
    assert_eq!(status["labelSelector"], format!("app=web,{RESERVED}=false"));
    for pod in united.pods("b", 2).await {
        place(&pod, true).await;
    }
    let status = united.status("the others to be ready", |status| status["readyReplicas"] == 3).await;
    assert_eq!(
        (&status["replicas"], condition(&status, 0)),
        (&json!(3), (&json!("False"), &json!("reschedule")))
    );
    let mut labels = Vec::new();
    for pod in &pods {
        labels.push(pod.get().await.1["metadata"]["labels"][RESERVED].take());
    }
    assert_eq!(labels, ["false", "true", "true"]);
    for pod in &pods[1..] {
        place(pod, true).await;
    }
    united.shares(&[("a", 3), ("b", 0)]).await;
    for pod in united.pods("a", 3).await {
        wait_for("no Pod to be reserved", async || {
            let label = pod.get().await.1["metadata"]["labels"][RESERVED].take();
            if label == "false" { Ok(()) } else { Err(label) }
        })
        .await;
    }
    // A subset that comes later is not trusted before its Pods have been ready for a while.
    let (_, stored) = united.stored.get().await;
    let mut topology = stored["spec"]["topology"].clone();
    topology["subsets"] = json!([{"name": "c"}, {"name": "a"}, {"name": "b"}]);
    united.edit(json!({"topology": topology})).await;
    united.shares(&[("c", 3), ("a", 3), ("b", 0)]).await;
    let first = united.pods("c", 3).await.remove(0);
    wait_for("its first Pods to be reserved", async || {
        let label = first.get().await.1["metadata"]["labels"][RESERVED].take();
        if label == "true" { Ok(()) } else { Err((label, united.stored.get().await.1["status"].take())) }
    })
    .await;
    // Those of the others stay until then.
    for pod in &pods {
        let (code, pod) = pod.get().await;
        assert!(code == 200 && pod["metadata"]["deletionTimestamp"].is_null(), "{pod:#}");
    }
}
