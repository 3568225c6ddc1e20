//! Which subset new Pods come into, what they cost, and what the status says.

use std::collections::BTreeSet;

use super::*;

#[tokio::test]
async fn scenarios_1_2_4_and_38_a_clone_set_over_two_subsets() {
    let field = Field::open("ws-cloneset").await;
    let set = field.create(field.web(CLONESET).replicas(0)).await;
    let spread = field.divide(field.spread(CLONESET, first(3))).await;
    set.patch(&json!({"spec": {"replicas": 5}})).await;
    field.placed(&[("a", 3), ("b", 2)]).await;
    field.totals(&spread, &[("a", 3, 0), ("b", 2, -1)]).await;
    let pods = field.ready(5).await;
    assert!(pods.iter().all(|pod| mark(pod)["name"] == "ws" && mark(pod)["uid"].is_null()));
    field.costs("a", &["200"; 3]).await;
    field.costs("b", &["100"; 2]).await;

    set.patch(&json!({"spec": {"replicas": 3}})).await;
    field.placed(&[("a", 3)]).await;

    // A smaller quota recreates no Pod.
    let before: BTreeSet<String> = field.pods().await.iter().map(|pod| name(pod).to_owned()).collect();
    spread.patch(&json!({"spec": {"subsets": first(1)}})).await;
    field.costs("a", &["200", "-100", "-100"]).await;
    field.totals(&spread, &[("a", 3, 0), ("b", 0, -1)]).await;
    let after: BTreeSet<String> = field.pods().await.iter().map(|pod| name(pod).to_owned()).collect();
    assert_eq!(before, after);

    // Pods of a subset that is called otherwise now count nowhere.
    let renamed = json!([{"name": "x", "maxReplicas": 4}, {"name": "b"}]);
    spread.patch(&json!({"spec": {"subsets": renamed}})).await;
    field.costs("a", &["-300"; 3]).await;
    field.totals(&spread, &[("x", 0, 4), ("b", 0, -1)]).await;
    let seen = field.pod_of(&set.object, "seen").build();
    field.wait_offered(&program().await, &seen, "x").await;
    set.patch(&json!({"spec": {"replicas": 5}})).await;
    field.placed(&[("a", 3), ("x", 2)]).await;
}

#[tokio::test]
async fn scenarios_5_and_6_a_rollout_of_a_deployment_has_a_full_quota() {
    let field = Field::open("ws-deployment").await;
    let target = ("apps/v1", "Deployment");
    let spread = field.divide(field.spread(target, first(2))).await;
    let deployment = field.create(field.web(target).replicas(4)).await;
    let old = field.ready(4).await;
    field.placed(&[("a", 2), ("b", 2)]).await;
    assert!(old.iter().all(|pod| mark(pod)["uid"].as_str().is_some_and(|uid| uid.len() == 36)), "{old:#?}");
    let hash = |pod: &Value| pod["metadata"]["labels"]["pod-template-hash"].as_str().unwrap().to_owned();
    let before = hash(&old[0]);
    let status = field
        .status(&spread, "the Pods to be seen", |status| versioned(status, &before)[0]["replicas"] == 2)
        .await;
    assert!(versioned(&status, &before)[0]["creatingPods"].is_null(), "{status:#}");
    field.costs("a", &["200"; 2]).await;
    field.costs("b", &["100"; 2]).await;

    // New Pods are held back before they are ready, so that both versions run.
    let template = json!({"metadata": {"annotations": {fake_nodes::READY_AFTER: "never"}},
        "spec": {"containers": [{"name": "main", "image": "nginx:1.26"}]}});
    deployment.patch(&json!({"spec": {"template": template, "strategy": {"rollingUpdate": {"maxSurge": 4, "maxUnavailable": 0}}}})).await;
    wait_for("both versions to be divided", async || {
        let pods = field.pods().await;
        let of = |old: bool, wanted: &str, price: &str| {
            pods.iter()
                .filter(|pod| (hash(pod) == before) == old && subset(pod) == wanted && cost(pod) == price)
                .count()
        };
        let divided =
            [of(false, "a", "200"), of(false, "b", "100"), of(true, "a", "100"), of(true, "b", "200")];
        if divided == [2; 4] { Ok(()) } else { Err(field.summary().await) }
    })
    .await;
    let status = spread.get().await.1["status"].clone();
    assert_eq!(status["versionedSubsetStatuses"].as_object().unwrap().len(), 2, "{status:#}");
    for pod in field.pods().await.iter().filter(|pod| hash(pod) != before) {
        field
            .pod(name(pod))
            .patch(&json!({"metadata": {"annotations": {fake_nodes::READY_AFTER: "0"}}}))
            .await;
    }
    field
        .status(&spread, "the old version to be gone", |status| {
            let versions = status["versionedSubsetStatuses"].as_object().unwrap();
            versions.len() == 1 && !versions.contains_key(&before)
        })
        .await;
}

#[tokio::test]
async fn scenarios_15_to_19_pods_get_what_their_subset_says() {
    let field = Field::open("ws-inject").await;
    let class = format!("low-{}", field.shop.namespace);
    let priority = object("scheduling.k8s.io/v1", "PriorityClass", &class).with("/value", 77);
    field.create(priority).await;
    let set = field.create(field.web(CLONESET).replicas(0)).await;
    let patch = json!({"metadata": {"labels": {"subset": "a"}}, "spec": {"priorityClassName": class, "tolerations": [{"key": "patched", "operator": "Exists"}],
        "containers": [{"name": "main", "env": [{"name": "SUBSET", "value": "a"}]}]}});
    let subset =
        json!([{"name": "a", "patch": patch, "tolerations": [{"key": "gpu", "operator": "Exists"}]}]);
    let spread = field.divide(field.spread(CLONESET, subset)).await;
    set.patch(&json!({"spec": {"replicas": 1}})).await;
    let pod = &field.ready(1).await[0];
    assert_eq!(pod["metadata"]["labels"]["subset"], "a");
    assert_eq!(pod["spec"]["affinity"], json!({"nodeAffinity": {}}));
    assert_eq!((&pod["spec"]["priorityClassName"], &pod["spec"]["priority"]), (&json!(class), &json!(77)));
    let tolerated =
        |key: &str| pod["spec"]["tolerations"].as_array().unwrap().iter().any(|one| one["key"] == key);
    assert!(tolerated("patched") && !tolerated("gpu"));
    let env = &pod["spec"]["containers"][0]["env"];
    assert!(env.as_array().unwrap().contains(&json!({"name": "SUBSET", "value": "a"})), "{env}");
    let status = spread.get().await.1["status"].clone();
    assert!(
        versioned(&status, IGNORED)[0]["creatingPods"].is_null(),
        "one subset without limit keeps no records"
    );

    // There is room beside the Pod that runs.
    let whole = first(10);
    let (mut a, term) = (whole[0].clone(), zone("a"));
    a["requiredNodeSelector"] = term.clone();
    spread.patch(&json!({"spec": {"subsets": [a, whole[1]]}})).await;
    field.observed(&spread).await;
    let terms = json!([{"matchExpressions": [{"key": "field", "operator": "Exists"}]}, {"matchExpressions": [{"key": "zone", "operator": "Exists"}]}]);
    let own = json!({"nodeAffinity": {"requiredDuringSchedulingIgnoredDuringExecution": {"nodeSelectorTerms": terms}}});
    let pod = field.pod_of(&set.object, "with-terms").with("/spec/affinity", own);
    wait_for("the new subsets to be known", async || {
        let stored = Stored::create(&field.shop.client, pod.clone()).await;
        let terms = &stored.object["spec"]["affinity"]["nodeAffinity"]["requiredDuringSchedulingIgnoredDuringExecution"]["nodeSelectorTerms"];
        let extended = terms.as_array().unwrap().iter().filter(|one| one["matchExpressions"].as_array().unwrap().contains(&term["matchExpressions"][0])).count();
        stored.delete_with(&json!({"gracePeriodSeconds": 0})).await;
        stored.gone().await;
        if extended == 2 && terms.as_array().unwrap().len() == 2 { Ok(()) } else { Err(stored.object) }
    })
    .await;
}

#[tokio::test]
async fn scenario_20_a_stateful_set_is_divided_by_ordinals() {
    let field = Field::open("ws-statefulset").await;
    let target = ("apps/v1", "StatefulSet");
    let subsets = json!([{"name": "a", "maxReplicas": 2}, {"name": "b", "maxReplicas": 1}, {"name": "c"}]);
    let spread = field.divide(field.spread(target, subsets)).await;
    field.create(field.web(target).replicas(5).with("/spec/serviceName", "web")).await;
    let pods = field.ready(5).await;
    let mut placed: Vec<(String, String)> =
        pods.iter().map(|pod| (name(pod).to_owned(), subset(pod))).collect();
    placed.sort();
    let subsets: Vec<&str> = placed.iter().map(|(_, subset)| subset.as_str()).collect();
    assert_eq!(subsets, ["a", "a", "b", "c", "c"]);
    field.totals(&spread, &[("a", 2, 0), ("b", 1, 0), ("c", 2, -1)]).await;
    assert!(pods.iter().all(|pod| cost(pod).is_empty()));
}

#[tokio::test]
async fn scenario_31_a_pod_without_a_slot_is_left_alone() {
    let field = Field::open("ws-full").await;
    let set = field.create(field.web(CLONESET).replicas(0)).await;
    let full = json!([{"name": "a", "maxReplicas": 1}, {"name": "b", "maxReplicas": 1}]);
    let spread = field.divide(field.spread(CLONESET, full)).await;
    set.patch(&json!({"spec": {"replicas": 2}})).await;
    let placed = field.ready(2).await;
    field.totals(&spread, &[("a", 1, 0), ("b", 1, 0)]).await;
    field.second_after(&spread).await;
    set.patch(&json!({"spec": {"replicas": 3}})).await;
    // As it was created: the controller leaves it alone for some seconds only.
    let third = &wait_for("the third Pod", async || {
        let is_new = |pod: &Value| placed.iter().all(|other| name(other) != name(pod));
        field.pods().await.into_iter().find(is_new).ok_or("there are two")
    })
    .await;
    assert_eq!((&*subset(third), cost(third)), ("", ""));
    field.ready(3).await;
    // With the next edit of the WorkloadSpread a subset takes it, which has too many then.
    let mut edits = 0;
    wait_for("the third Pod to be adopted", async || {
        edits += 1;
        spread.patch(&json!({"metadata": {"annotations": {"edits": edits.to_string()}}})).await;
        let pod = field.pod(name(third)).get().await.1;
        if subset(&pod) == "a" { Ok(()) } else { Err(field.summary().await) }
    })
    .await;
    field.costs("a", &["200", "-100"]).await;
    field.totals(&spread, &[("a", 2, 0), ("b", 1, 0)]).await;
    // Of Pods that were created within one second either may be the worse one.
    let pods = field.pods().await;
    let worst = pods.iter().find(|pod| cost(pod) == "-100").unwrap();
    set.patch(&json!({"spec": {"replicas": 2}})).await;
    field.pod(name(worst)).gone().await;
    field.placed(&[("a", 1), ("b", 1)]).await;
}

#[tokio::test]
async fn scenario_32_finished_pods_of_a_job_free_their_slot() {
    let field = Field::open("ws-job").await;
    let target = ("batch/v1", "Job");
    let spread = field.divide(field.spread(target, first(2))).await;
    let mut job = field
        .web(target)
        .with("/spec/parallelism", 4)
        .with("/spec/completions", 4)
        .with("/spec/template/spec/restartPolicy", "Never")
        .build();
    // Jobs choose their selector themselves.
    job["spec"].as_object_mut().unwrap().remove("selector");
    let job = Stored::create(&field.shop.client, job).await;
    field.placed(&[("a", 2), ("b", 2)]).await;
    let pods = field.ready(4).await;
    field.totals(&spread, &[("a", 2, 0), ("b", 2, -1)]).await;
    let one = pods.iter().find(|pod| subset(pod) == "a").unwrap();
    field.pod(name(one)).patch(&json!({"metadata": {"annotations": {fake_nodes::EXIT: "main=0"}}})).await;
    wait_for("the Pod to have ended", async || match field.pod(name(one)).get().await.1 {
        pod if pod["status"]["phase"] == "Succeeded" => Ok(()),
        pod => Err(pod["status"].clone()),
    })
    .await;
    field.totals(&spread, &[("a", 1, 1), ("b", 2, -1)]).await;
    field.wait_offered(&program().await, &field.pod_of(&job.object, "next").build(), "a").await;
    assert!(field.pods().await.iter().all(|pod| cost(pod).is_empty()));
}
