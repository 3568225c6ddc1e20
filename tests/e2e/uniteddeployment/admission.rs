//! What may be said, and what is filled in.

use super::*;

#[tokio::test]
async fn what_is_not_said_is_filled_in() {
    let shop = Shop::open("united-defaults").await;
    let mut plain: Value = manifest(
        &shop.namespace,
        "cloneSetTemplate",
        &json!([{"name": "a", "maxReplicas": 2}, {"name": "b"}]),
        &json!({}),
    )
    .into();
    plain["spec"].as_object_mut().unwrap().remove("replicas");
    for version in ["v1alpha1", "v1beta1"] {
        plain["apiVersion"] = format!("apps.kruise.io/{version}").into();
        let (code, stored) = create(&shop.client, plain.clone(), "?dryRun=All").await;
        assert_eq!(code, 201, "{stored:#}");
        let spec = &stored["spec"];
        assert_eq!((&spec["replicas"], &spec["revisionHistoryLimit"]), (&json!(1), &json!(10)));
        assert_eq!(spec["updateStrategy"], json!({"type": "Manual", "manualUpdate": {}}));
        let least: Vec<&Value> = spec["topology"]["subsets"]
            .as_array()
            .unwrap()
            .iter()
            .map(|subset| &subset["minReplicas"])
            .collect();
        assert_eq!(least, [0, 0]);
    }
    let stateful = manifest(&shop.namespace, "statefulSetTemplate", &json!([{"name": "a"}]), &json!({}));
    let (_, stored) = create(&shop.client, stateful, "?dryRun=All").await;
    let pods = &stored["spec"]["template"]["statefulSetTemplate"]["spec"]["template"]["spec"];
    assert_eq!(pods["dnsPolicy"], "ClusterFirst", "{stored:#}");
}

#[tokio::test]
async fn what_can_not_be_is_refused() {
    let shop = Shop::open("united-refused").await;
    let refused = async |member: &str, subsets: Value, more: Value, text: &str| {
        let answer =
            create(&shop.client, manifest(&shop.namespace, member, &subsets, &more), "?dryRun=All").await;
        assert_eq!(answer.0, 422, "{text}: {:#}", answer.1);
        assert!(message(&answer).contains(text), "{text}: {}", message(&answer));
    };
    let one = || json!([{"name": "a"}]);
    let shares = |a: i32, b: i32| json!([{"name": "a", "replicas": a}, {"name": "b", "replicas": b}]);
    refused("cloneSetTemplate", shares(3, 2), json!({}), "should equal").await;
    refused("cloneSetTemplate", shares(4, 3), json!({}), "should not be greater").await;
    let mixed = json!([{"name": "a", "replicas": 1}, {"name": "b", "maxReplicas": 2}]);
    refused("cloneSetTemplate", mixed, json!({}), "mutually exclusive").await;
    let limited = json!([{"name": "a", "maxReplicas": 1}, {"name": "b", "maxReplicas": 2}]);
    refused("cloneSetTemplate", limited, json!({}), "at least one subset.maxReplicas must be empty").await;
    let mut both = template("statefulSetTemplate", "nginx:1.25");
    both["cloneSetTemplate"] = template("cloneSetTemplate", "nginx:1.25")["cloneSetTemplate"].take();
    refused("cloneSetTemplate", one(), json!({"template": both}), "should provide only one of").await;
    refused("cloneSetTemplate", one(), json!({"template": {}}), "should provide one of").await;
    let mut other = template("statefulSetTemplate", "nginx:1.25");
    other["statefulSetTemplate"]["metadata"]["labels"]["app"] = "other".into();
    refused(
        "statefulSetTemplate",
        one(),
        json!({"template": other}),
        "spec.template.statefulSetTemplate.metadata.labels",
    )
    .await;
    let mut counted = template("deploymentTemplate", "nginx:1.25");
    counted["deploymentTemplate"]["spec"]["replicas"] = 2.into();
    refused(
        "deploymentTemplate",
        one(),
        json!({"template": counted}),
        "replicas in deploymentTemplate will not be used",
    )
    .await;
    let adaptive =
        json!({"scheduleStrategy": {"type": "Adaptive"}, "subsets": [{"name": "a", "replicas": 1}]});
    refused(
        "cloneSetTemplate",
        one(),
        json!({"topology": adaptive}),
        "use minReplicas/maxReplicas to enable adaptive strategy",
    )
    .await;
    let strategy = json!({"type": "Adaptive", "adaptive": {"reserveUnschedulablePods": true}});
    let reserving = json!({"scheduleStrategy": strategy, "subsets": [{"name": "a"}]});
    refused("statefulSetTemplate", one(), json!({"topology": reserving}), "only stateless workloads").await;
}

#[tokio::test]
async fn places_of_subsets_stay_and_subsets_come_and_go() {
    let shop = Shop::open("united-changed").await;
    let term = json!({"matchExpressions": [{"key": "zone", "operator": "In", "values": ["a"]}]});
    let subsets = json!([{"name": "a", "nodeSelectorTerm": term}, {"name": "b"}]);
    let united = United::create(&shop, "deploymentTemplate", subsets, json!({})).await;
    united.shares(&[("a", 3), ("b", 3)]).await;
    for (subset, field) in [
        (json!({"name": "a"}), "subsets[0].nodeSelectorTerm"),
        (
            json!({"name": "a", "nodeSelectorTerm": term, "tolerations": [{"operator": "Exists"}]}),
            "subsets[0].tolerations",
        ),
    ] {
        let answer = united
            .stored
            .try_patch(&json!({"spec": {"topology": {"subsets": [subset, {"name": "b"}]}}}))
            .await;
        assert!(answer.0 == 422 && message(&answer).contains(field), "{answer:?}");
    }
    let answer =
        united.stored.try_patch(&json!({"spec": {"selector": {"matchLabels": {"app": "other"}}}})).await;
    assert!(answer.0 == 422 && message(&answer).contains("spec.selector"), "{answer:?}");
    united.edit(json!({"topology": {"subsets": [{"name": "d"}, {"name": "b"}]}})).await;
    united.shares(&[("b", 3), ("d", 3)]).await;
    united.reported("SuccessfulUpdateSubset", "Delete 1 Subset (Deployment)").await;
    united
        .status("subset a to be forgotten", |status| {
            let names = status["subsetStatuses"].as_array().unwrap().iter().map(|subset| &subset["name"]);
            names.eq(["b", "d"])
        })
        .await;
}

#[tokio::test]
async fn both_versions_say_the_same() {
    let shop = Shop::open("united-versions").await;
    let mut flat: Value =
        manifest(&shop.namespace, "cloneSetTemplate", &json!([{"name": "a"}]), &json!({"replicas": 1}))
            .into();
    flat["apiVersion"] = "apps.kruise.io/v1alpha1".into();
    flat["spec"]["template"]["cloneSetTemplate"]["spec"]["updateStrategy"] =
        json!({"type": "InPlaceIfPossible", "maxUnavailable": 1});
    let stored = Stored::create(&shop.client, flat).await;
    let collection = collection_of(&shop.namespace, "cloneSetTemplate");
    let united =
        United { client: shop.client.clone(), namespace: shop.namespace.clone(), stored, collection };
    let children = united.shares(&[("a", 1)]).await;
    let rolling = &children["a"]["spec"]["updateStrategy"]["rollingUpdate"];
    assert_eq!(
        (&rolling["podUpdatePolicy"], &rolling["maxUnavailable"]),
        (&json!("InPlaceIfPossible"), &json!(1))
    );
    let old = united.status("the status to be told", |status| status["subsetReplicas"]["a"] == 1).await;
    let (_, new) = united.stored.in_version("v1beta1").get().await;
    assert_eq!(new["status"]["subsetStatuses"][0]["replicas"], 1);
    assert_eq!(new["status"]["updatedRevision"], old["updateStatus"]["updatedRevision"]);
    assert_eq!(old["updateStatus"]["currentPartitions"], json!({"a": 0}));
}
