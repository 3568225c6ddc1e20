//! Kinds that the administrator lists.

use super::*;

const DATABASE: (&str, &str) = ("kubeflow.org/v1", "Database");

fn database(field: &Field, replicas: u32) -> Object {
    object(DATABASE.0, DATABASE.1, "web").in_namespace(&field.shop.namespace).replicas(replicas)
}

#[tokio::test]
async fn scenario_17_pods_of_a_listed_kind_go_back() {
    let field = Field::open("pps-listed").await;
    let db = field.create(database(&field, 2)).await;
    let state = field.create(field.state(DATABASE)).await;
    for name in ["db-0", "db-1"] {
        field.create(field.pod_of(&db.object, name)).await;
    }
    field.remembered(&state, &["db-0", "db-1"]).await;
    field.known(&db, "db-1").await;
    let node = field.ready("db-1").await["spec"]["nodeName"].clone();
    field.pod("db-1").deleted().await;
    field.pod("db-1").gone().await;
    let next = field.create(field.pod_of(&db.object, "db-1")).await.object;
    assert_eq!(injected(&next), "pps");
    assert_eq!(next.pointer(PREFERRED).unwrap(), &json!([hostname(30, &node)]));
    field.ready("db-1").await;

    field.pod("db-1").deleted().await;
    field.pod("db-1").gone().await;
    field.remembered(&state, &["db-0", "db-1"]).await;
    db.patch(&json!({"spec": {"replicas": 1}})).await;
    field.remembered(&state, &["db-0"]).await;
    db.deleted().await;
    field.remembered(&state, &[]).await;
}

#[tokio::test]
async fn a_listed_kind_asks_for_an_object_by_annotations() {
    let field = Field::open("pps-listed-auto").await;
    let auto = "kruise.io/auto-generate-persistent-pod-state";
    let asking = database(&field, 0).annotation(auto, "true");
    let db = field.create(asking.annotation("kruise.io/required-persistent-topology", "zone")).await;
    let state = wait_for("the object", async || match field.stored_state("web").get().await {
        (200, state) => Ok(state),
        (_, answer) => Err(answer),
    })
    .await;
    let target = json!({"apiVersion": DATABASE.0, "kind": DATABASE.1, "name": "web"});
    assert_eq!(state["spec"]["targetRef"], target);
    db.patch(&json!({"metadata": {"annotations": {auto: "false"}}})).await;
    field.stored_state("web").gone().await;
}

/// A broken list does not concern the kinds that are always known, and leaves Pods of others alone. It has an API
/// server of its own: all kinds of others would be gone.
#[tokio::test]
async fn a_list_may_be_broken_and_may_change() {
    let server = product::server(kit::Options::default()).await;
    define(&server, "Database").await;
    let client = server.client();
    let key = "PPS_Watch_Custom_Workload_WhiteList";
    let map = object("v1", "ConfigMap", "kruise-configuration").in_namespace(NAMESPACE);
    let map = Stored::create(&client, map.with("/data", json!({key: "broken"}))).await;
    let _product = Product::serve(&server, product::Options::default()).await;
    in_use(&server).await;
    let shop = Shop::open_on(&server, "pps-broken").await;
    let state = |target: (&str, &str)| {
        object("apps.kruise.io/v1beta1", "PersistentPodState", "pps")
            .in_namespace(&shop.namespace)
            .with("/spec/targetRef", json!({"apiVersion": target.0, "kind": target.1, "name": "web"}))
            .with("/spec/requiredPersistentTopology/keys", json!(["zone"]))
    };
    assert_eq!(create(&client, state(NATIVE), "?dryRun=All").await.0, 201);
    let refused = create(&client, state(DATABASE), "?dryRun=All").await;
    assert!(message(&refused).contains("failed to get persistent pod state config white list"));
    let owner =
        json!({"apiVersion": DATABASE.0, "kind": DATABASE.1, "metadata": {"name": "web", "uid": "u"}});
    let owned = shop.admit(shop.pod("web-0").controlled_by(&owner)).await;
    assert_eq!(injected(&owned), "");

    map.patch(&json!({"data": {key: WHITE_LIST}})).await;
    wait_for("the new list to be known", async || {
        match create(&client, state(DATABASE), "?dryRun=All").await {
            (201, _) => Ok(()),
            (_, answer) => Err(answer),
        }
    })
    .await;
    // The kind is watched from now on.
    let auto = "kruise.io/auto-generate-persistent-pod-state";
    let db = object(DATABASE.0, DATABASE.1, "web").in_namespace(&shop.namespace).annotation(auto, "true");
    Stored::create(&client, db.annotation("kruise.io/preferred-persistent-topology", "zone")).await;
    let path = format!("/apis/apps.kruise.io/v1beta1/namespaces/{}/persistentpodstates/web", shop.namespace);
    wait_for("the object", async || match call(&client, "GET", &path, &Value::Null).await {
        (200, _) => Ok(()),
        (_, answer) => Err(answer),
    })
    .await;
}
