//! Which workloads there are, and how many Pods each is to have.

use super::*;
use crate::podunavailablebudget::guarded;

fn named(names: &[&str]) -> Value {
    names.iter().map(|name| json!({"name": name})).collect()
}

#[tokio::test]
async fn replicas_are_divided_scaled_and_put_back() {
    let shop = Shop::open("united-scaled").await;
    let united =
        United::create(&shop, "deploymentTemplate", named(&["a", "b", "c"]), json!({"replicas": 7})).await;
    let children = united.shares(&[("a", 2), ("b", 2), ("c", 3)]).await;
    let (_, stored) = united.stored.get().await;
    for (subset, child) in &children {
        let metadata = &child["metadata"];
        assert!(metadata["name"].as_str().unwrap().starts_with(&format!("web-{subset}-")), "{metadata:#}");
        assert_eq!(metadata["labels"]["app"], "web");
        assert_eq!(metadata["annotations"][PATCH], "");
        assert_eq!(child["spec"]["selector"]["matchLabels"], json!({"app": "web", SUBSET: subset}));
        assert_eq!(child["spec"]["template"]["metadata"]["labels"][REVISION], metadata["labels"][REVISION]);
        let owner = &metadata["ownerReferences"][0];
        assert_eq!(
            (&owner["uid"], &owner["controller"], &owner["blockOwnerDeletion"]),
            (&stored["metadata"]["uid"], &json!(true), &json!(true))
        );
    }
    united.reported("SuccessfulUpdateSubset", "Create 3 Subset (Deployment)").await;
    let (server, _) = shared().await;
    let words = ["scale", "uniteddeployment", "web", "--replicas=10", "--namespace", &shop.namespace];
    server.kubectl(words).await.success();
    let children = united.shares(&[("a", 3), ("b", 3), ("c", 4)]).await;
    united.child(&children["c"]).patch(&json!({"spec": {"replicas": 9}})).await;
    united.shares(&[("a", 3), ("b", 3), ("c", 4)]).await;
    let status = united
        .status("all to be told", |status| status["conditions"].as_array().is_some_and(|all| all.len() == 3))
        .await;
    let conditions: Vec<(&Value, &Value)> =
        status["conditions"].as_array().unwrap().iter().map(|one| (&one["type"], &one["status"])).collect();
    for kind in ["UnitedDeploymentUpdated", "SubsetProvisioned", "SubsetUpdated"] {
        assert!(conditions.contains(&(&json!(kind), &json!("True"))), "{conditions:?}");
    }
    let (_, stored) = united.stored.get().await;
    assert_eq!(stored["status"]["observedGeneration"], stored["metadata"]["generation"]);
    assert_eq!(stored["status"]["labelSelector"], "app=web");
}

#[tokio::test]
async fn shares_and_bounds_are_kept() {
    let shop = Shop::open("united-shares").await;
    let mixed = json!([{"name": "a", "replicas": 1}, {"name": "b", "replicas": "50%"}, {"name": "c"}]);
    let united = United::create(&shop, "cloneSetTemplate", mixed, json!({})).await;
    united.shares(&[("a", 1), ("b", 3), ("c", 2)]).await;
    let shop = Shop::open("united-bounds").await;
    let bounds = json!([{"name": "a", "minReplicas": 1, "maxReplicas": 3}, {"name": "b", "minReplicas": 2, "maxReplicas": 4}, {"name": "c"}]);
    let united = United::create(&shop, "advancedStatefulSetTemplate", bounds, json!({"replicas": 2})).await;
    for (total, a, b, c) in [(2, 1, 1, 0), (5, 3, 2, 0), (10, 3, 4, 3), (5, 3, 2, 0), (2, 1, 1, 0)] {
        united.edit(json!({"replicas": total})).await;
        united.shares(&[("a", a), ("b", b), ("c", c)]).await;
    }
}

#[tokio::test]
async fn subsets_say_where_and_how_their_pods_run() {
    let shop = Shop::open("united-subsets").await;
    let zone = json!({"key": "zone", "operator": "In", "values": ["a"]});
    let patch = json!({"spec": {"containers": [{"name": "main", "env": [{"name": "K", "value": "V"}]}]}});
    let subsets = json!([{"name": "a", "nodeSelectorTerm": {"matchExpressions": [zone]}, "patch": patch}, {"name": "b"}]);
    let mut template = template("cloneSetTemplate", "nginx:1.25");
    let terms = json!([{"matchExpressions": [{"key": "x", "operator": "Exists"}]}, {"matchExpressions": [{"key": "y", "operator": "Exists"}]}]);
    template["cloneSetTemplate"]["spec"]["template"]["spec"]["affinity"] = json!({"nodeAffinity": {"requiredDuringSchedulingIgnoredDuringExecution": {"nodeSelectorTerms": terms}}});
    let united = United::create(&shop, "cloneSetTemplate", subsets, json!({"template": template})).await;
    let children = united.shares(&[("a", 3), ("b", 3)]).await;
    let pod = &children["a"]["spec"]["template"]["spec"];
    let terms = pod["affinity"]["nodeAffinity"]["requiredDuringSchedulingIgnoredDuringExecution"]["nodeSelectorTerms"].as_array().unwrap();
    assert!(
        terms.len() == 2
            && terms.iter().all(|term| term["matchExpressions"].as_array().unwrap().contains(&zone)),
        "{pod:#}"
    );
    assert_eq!(pod["containers"][0]["env"], json!([{"name": "K", "value": "V"}]));
    let written = children["a"]["metadata"]["annotations"][PATCH].as_str().unwrap();
    assert_eq!(serde_json::from_str::<Value>(written).unwrap(), patch);
    let revision = &children["b"]["metadata"]["labels"][REVISION];
    // A patch concerns its own workload, and is no revision.
    let more = json!({"metadata": {"annotations": {"note": "b"}}});
    let (_, stored) = united.stored.get().await;
    let first = &stored["spec"]["topology"]["subsets"][0];
    united.edit(json!({"topology": {"subsets": [first, {"name": "b", "patch": more}]}})).await;
    wait_for("the patch to be there", async || {
        let all = united.all(&united.collection).await;
        let note = &all["b"]["spec"]["template"]["metadata"]["annotations"]["note"];
        let same = all["a"]["metadata"]["generation"] == children["a"]["metadata"]["generation"];
        if note == "b" && same && all["b"]["metadata"]["labels"][REVISION] == *revision {
            Ok(())
        } else {
            Err(all)
        }
    })
    .await;
}

#[tokio::test]
async fn a_wrong_patch_stops_no_other_subset() {
    let shop = Shop::open("united-wrong").await;
    let wrong = json!({"spec": {"containers": [{"image": "nginx:1.26"}]}});
    let subsets = json!([{"name": "a"}, {"name": "b", "patch": wrong}, {"name": "c"}]);
    let united = United::create(&shop, "cloneSetTemplate", subsets, json!({})).await;
    united.reported("FailedUpdateSubset", "Error updating PodSet (CloneSet) b when updating").await;
    united.shares(&[("a", 2), ("c", 2)]).await;
    united.edit(json!({"topology": {"subsets": [{"name": "a"}, {"name": "b"}, {"name": "c"}]}})).await;
    united.shares(&[("a", 2), ("b", 2), ("c", 2)]).await;
}

#[tokio::test]
async fn another_kind_of_workload_takes_the_place_of_the_first() {
    let shop = Shop::open("united-kinds").await;
    let united = United::create(&shop, "statefulSetTemplate", named(&["a", "b"]), json!({})).await;
    united.shares(&[("a", 3), ("b", 3)]).await;
    let mut template = template("cloneSetTemplate", "nginx:1.25");
    template["statefulSetTemplate"] = Value::Null;
    // What serves stays until all that takes its place is there.
    let wrong = json!({"spec": {"containers": [{"image": "nginx:1.26"}]}});
    let subsets = json!([{"name": "a"}, {"name": "b", "patch": wrong}]);
    united.edit(json!({"template": template, "topology": {"subsets": subsets}})).await;
    united.reported("FailedUpdateSubset", "Error updating PodSet (CloneSet) b when updating").await;
    united.shares(&[("a", 3), ("b", 3)]).await;
    united.edit(json!({"topology": {"subsets": named(&["a", "b"])}})).await;
    wait_for("CloneSets to take the place of StatefulSets", async || {
        let old = united.all(&united.collection).await;
        let new = united.all(&collection_of(&shop.namespace, "cloneSetTemplate")).await;
        if old.is_empty() && new.len() == 2 { Ok(()) } else { Err((old, new)) }
    })
    .await;
}

#[tokio::test]
async fn second_workloads_go_and_those_of_others_stay() {
    let shop = Shop::open("united-second").await;
    let (server, _) = shared().await;
    let elsewhere = server.namespace("united-elsewhere").await;
    let stranger = |namespace: &str, labels: Value| {
        let mut object: Value = object("apps/v1", "Deployment", "stranger").in_namespace(namespace).into();
        object["metadata"]["labels"] = labels;
        let pods =
            template("deploymentTemplate", "nginx:1.25")["deploymentTemplate"]["spec"]["template"].take();
        object["spec"] =
            json!({"replicas": 1, "selector": {"matchLabels": {"app": "web"}}, "template": pods});
        object
    };
    let far = Stored::create(&shop.client, stranger(&elsewhere, json!({"app": "web", SUBSET: "a"}))).await;
    let near = Stored::create(&shop.client, stranger(&shop.namespace, json!({"app": "web"}))).await;
    let united = United::create(&shop, "deploymentTemplate", named(&["a", "b"]), json!({})).await;
    let children = united.shares(&[("a", 3), ("b", 3)]).await;
    let mut second = children["a"].clone();
    let metadata = second["metadata"].as_object_mut().unwrap();
    for field in
        ["uid", "resourceVersion", "creationTimestamp", "managedFields", "generation", "generateName"]
    {
        metadata.remove(field);
    }
    // Of two that were created in the same second the first by name stays.
    (second["metadata"]["name"], second["apiVersion"], second["kind"]) =
        ("web-a-zzzzzz".into(), "apps/v1".into(), "Deployment".into());
    let second = Stored::create(&shop.client, second).await;
    second.gone().await;
    assert_eq!(united.child(&children["a"]).get().await.0, 200);
    // One that somebody left behind belongs to its subset again.
    united.child(&children["b"]).patch(&json!({"metadata": {"ownerReferences": null}})).await;
    let again = united.shares(&[("a", 3), ("b", 3)]).await;
    assert_eq!(again["b"]["metadata"]["uid"], children["b"]["metadata"]["uid"]);
    // One whose label somebody has removed gets it back.
    united.child(&children["b"]).patch(&json!({"metadata": {"labels": {SUBSET: null}}})).await;
    wait_for("the label to be there again", async || {
        let (code, child) = united.child(&children["b"]).get().await;
        let label = &child["metadata"]["labels"][SUBSET];
        if code == 200 && label == "b" { Ok(()) } else { Err(child) }
    })
    .await;
    for stranger in [far, near] {
        let (_, now) = stranger.get().await;
        assert_eq!(now["metadata"]["resourceVersion"], stranger.object["metadata"]["resourceVersion"]);
    }
}

/// Collecting garbage is the work of the controller manager.
#[tokio::test]
async fn its_workloads_and_revisions_go_with_it_unless_they_are_orphaned() {
    let server = &guarded().await.server;
    // The garbage collector releases only what its watch has reported, and collects the rest. It watches CloneSets once
    // the first ones go here, and knows of the workload in between when what was created later is deleted.
    goes_with_all_it_owned(&Shop::open_on(server, "collected").await).await;
    let shop = Shop::open_on(server, "orphaned").await;
    let united = United::create(&shop, "cloneSetTemplate", named(&["a"]), json!({"replicas": 2})).await;
    let orphan = united.child(&united.shares(&[("a", 2)]).await["a"]);
    goes_with_all_it_owned(&Shop::open_on(server, "collected-after").await).await;
    united.stored.delete_with(&json!({"propagationPolicy": "Orphan"})).await;
    united.stored.gone().await;
    // Meanwhile more garbage is collected.
    goes_with_all_it_owned(&Shop::open_on(server, "collected-later").await).await;
    let (code, now) = orphan.get().await;
    assert_eq!((code, &now["metadata"]["ownerReferences"]), (200, &Value::Null), "{now:#}");
    assert_eq!(now["metadata"]["uid"], orphan.object["metadata"]["uid"]);
}

/// Creates a UnitedDeployment, deletes it, and waits until all is gone that it owned.
async fn goes_with_all_it_owned(shop: &Shop) {
    let united = United::create(shop, "cloneSetTemplate", named(&["a", "b"]), json!({})).await;
    united.shares(&[("a", 3), ("b", 3)]).await;
    let revisions = format!("/apis/apps/v1/namespaces/{}/controllerrevisions", shop.namespace);
    let pods = format!("/api/v1/namespaces/{}/pods", shop.namespace);
    let count = async |collection: &str| {
        call(&shop.client, "GET", collection, &Value::Null).await.1["items"].as_array().unwrap().len()
    };
    // One revision is its own, one is that of each CloneSet.
    wait_for("revisions and Pods", async || match (count(&revisions).await, count(&pods).await) {
        (3, 6) => Ok(()),
        found => Err(found),
    })
    .await;
    united.stored.deleted().await;
    wait_for("all that it owned to be gone", async || {
        let left = (count(&united.collection).await, count(&revisions).await, count(&pods).await);
        if left == (0, 0, 0) { Ok(()) } else { Err(left) }
    })
    .await;
}
