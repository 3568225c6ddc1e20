//! Where Pods go that are created again.

use super::*;

#[tokio::test]
async fn scenarios_1_to_3_pods_of_an_advanced_set_go_back() {
    let field = Field::open("pps-advanced").await;
    let set = field.create(field.web(ADVANCED).replicas(3).template_annotation("ip", "10.0.0.1")).await;
    let annotations = json!([{"key": "ip"}, {"key": "none"}]);
    let state = field.state(ADVANCED).with("/spec/persistentPodAnnotations", annotations);
    let state = field.create(state).await;
    let pods = ["web-0", "web-1", "web-2"];
    let status = field.remembered(&state, &pods).await;
    for name in pods {
        let (pod, record) = (field.ready(name).await, &status["podStates"][name]);
        let node = &pod["spec"]["nodeName"];
        assert_eq!(record["nodeName"], *node);
        let labels = json!({"zone": field.zone(node), "kubernetes.io/hostname": node});
        assert_eq!(
            (&record["nodeTopologyLabels"], &record["annotations"]),
            (&labels, &json!({"ip": "10.0.0.1"}))
        );
        assert_eq!(injected(&pod), "", "it was created before the record");
    }

    field.known(&set, "web-1").await;
    let node = field.pod("web-1").get().await.1["spec"]["nodeName"].clone();
    let next = field.recreated("web-1").await;
    let selector = json!({"field": field.shop.namespace, "zone": field.zone(&node)});
    assert_eq!(next["spec"]["nodeSelector"], selector);
    assert_eq!(next.pointer(PREFERRED).unwrap(), &json!([hostname(30, &node)]));
    assert_eq!(injected(&next), "pps");
    assert_eq!(field.ready("web-1").await["spec"]["nodeName"], node);

    set.patch(&json!({"spec": {"replicas": 4}})).await;
    let new = field.ready("web-3").await;
    assert_eq!((injected(&new), &new["spec"]["affinity"]), ("", &Value::Null));
    assert_eq!(new["spec"]["nodeSelector"], json!({"field": field.shop.namespace}));
    field.remembered(&state, &["web-0", "web-1", "web-2", "web-3"]).await;
}

#[tokio::test]
async fn scenario_19_a_pod_waits_where_its_zone_has_no_room() {
    let field = Field::open("pps-full").await;
    let set = field.create(field.web(NATIVE).replicas(1)).await;
    let state = field.create(field.state(NATIVE)).await;
    field.remembered(&state, &["web-0"]).await;
    field.known(&set, "web-0").await;
    let before = field.ready("web-0").await;
    field.cordon(&before).await;
    field.recreated("web-0").await;
    let waiting = wait_for("the scheduler to find no node", async || {
        let pod = field.pod("web-0").get().await.1;
        let mut conditions = pod["status"]["conditions"].as_array().into_iter().flatten();
        let found = conditions.any(|one| one["type"] == "PodScheduled" && one["reason"] == "Unschedulable");
        if found { Ok(pod.clone()) } else { Err(pod["status"].clone()) }
    })
    .await;
    assert_eq!(waiting["status"]["phase"], "Pending");
    // What is remembered stays.
    let record = state.get().await.1["status"]["podStates"]["web-0"].clone();
    assert_eq!(record["nodeName"], before["spec"]["nodeName"]);
}
