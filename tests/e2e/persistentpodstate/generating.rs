//! PersistentPodStates that workloads ask for.

use super::*;

const AUTO: &str = "kruise.io/auto-generate-persistent-pod-state";
const REQUIRED: &str = "kruise.io/required-persistent-topology";
const WISHED: &str = "kruise.io/preferred-persistent-topology";

/// The workload asks for that its Pods go back to their nodes.
fn asking(web: Object) -> Object {
    web.annotation(AUTO, "true").annotation(WISHED, "kubernetes.io/hostname")
}

async fn annotate(set: &Stored, annotations: Value) {
    set.patch(&json!({"metadata": {"annotations": annotations}})).await;
}

/// The spec of the generated object, once `holds` accepts it.
async fn spec(field: &Field, what: &str, holds: impl Fn(&Value) -> bool) -> Value {
    wait_for(what, async || match field.stored_state("web").get().await {
        (200, state) if holds(&state["spec"]) => Ok(state["spec"].clone()),
        (_, answer) => Err(answer),
    })
    .await
}

#[tokio::test]
async fn scenarios_9_and_10_the_object_follows_the_annotations() {
    for (prefix, target) in [("pps-auto", NATIVE), ("pps-auto-asts", ADVANCED)] {
        let field = Field::open(prefix).await;
        let set = field.create(asking(field.web(target).replicas(0))).await;
        let generated = spec(&field, "the object", |_| true).await;
        let expected = json!({
            "targetRef": {"apiVersion": target.0, "kind": target.1, "name": "web"},
            "preferredPersistentTopology": [{"weight": 100, "preference": {"keys": ["kubernetes.io/hostname"]}}],
        });
        assert_eq!(generated, expected);
        let state = field.stored_state("web").get().await.1;
        let owner = json!({"apiVersion": target.0, "kind": target.1, "name": "web",
            "uid": set.object["metadata"]["uid"], "controller": true});
        assert_eq!(state["metadata"]["ownerReferences"], json!([owner]));

        annotate(&set, json!({REQUIRED: "zone, region"})).await;
        let keys = json!(["zone", "region"]);
        spec(&field, "the required keys", |spec| spec["requiredPersistentTopology"]["keys"] == keys).await;
        annotate(&set, json!({AUTO: "false"})).await;
        field.stored_state("web").gone().await;
        annotate(&set, json!({AUTO: "true"})).await;
        spec(&field, "the object again", |_| true).await;
        annotate(&set, json!({AUTO: null})).await;
        field.stored_state("web").gone().await;
    }
}

#[tokio::test]
async fn scenario_8_a_generated_object_goes_with_its_workload() {
    let field = Field::open("pps-auto-gone").await;
    let set = field.create(asking(field.web(ADVANCED).replicas(0))).await;
    spec(&field, "the object", |_| true).await;
    set.deleted().await;
    field.stored_state("web").gone().await;
}

/// docs/behaviour/persistentpodstate.md#generated-objects: what a user has made is neither changed nor deleted.
#[tokio::test]
async fn objects_that_the_workload_does_not_control_are_left_alone() {
    let field = Field::open("pps-by-hand").await;
    let by_hand = field.create(field.state(NATIVE).with("/metadata/name", "web")).await;
    let set = field.create(asking(field.web(NATIVE).replicas(0))).await;
    let said = field.event("PersistentPodStateNotGenerated").await;
    assert!(said.contains("is not controlled by this workload"), "{said}");
    annotate(&set, json!({AUTO: null})).await;
    assert_eq!(by_hand.get().await.1["spec"], by_hand.object["spec"]);
    // It comes once nothing is in its way.
    annotate(&set, json!({AUTO: "true"})).await;
    by_hand.deleted().await;
    spec(&field, "the object", |spec| spec["requiredPersistentTopology"].is_null()).await;
}
