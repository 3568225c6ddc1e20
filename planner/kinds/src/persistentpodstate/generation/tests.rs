use serde_json::json;

use super::*;

const AUTO: &str = "kruise.io/auto-generate-persistent-pod-state";
const REQUIRED: &str = "kruise.io/required-persistent-topology";
const PREFERRED: &str = "kruise.io/preferred-persistent-topology";
const REMEMBERED: &str = "kruise.io/persistent-pod-annotations";
const VERSION: &str = "apps.kruise.io/v1beta1";

fn set(annotations: &Value) -> ResolvedWorkload {
    let metadata = json!({"name": "web", "namespace": "shop", "uid": "u", "annotations": annotations});
    ResolvedWorkload::read("apps.kruise.io", "StatefulSet", &json!({"metadata": metadata}).to_string())
        .unwrap()
}

fn created(workload: &ResolvedWorkload) -> Value {
    match plan(workload, VERSION, &[]) {
        Step::Create(object) => serde_json::from_str(&object).unwrap(),
        step => panic!("{step:?}"),
    }
}

/// The object that a workload asks for, as it is stored.
fn stored(workload: &ResolvedWorkload, change: impl Fn(&mut Value)) -> Arc<PersistentPodState> {
    let mut object = created(workload);
    object["metadata"]["uid"] = json!("p");
    object["metadata"]["resourceVersion"] = json!("7");
    change(&mut object);
    Arc::new(serde_json::from_value(object).unwrap())
}

fn reported(step: &Step) -> &str {
    match step {
        Step::Tell(event) => &event.message,
        step => panic!("{step:?}"),
    }
}

fn asking() -> ResolvedWorkload {
    set(&json!({AUTO: "true", PREFERRED: "kubernetes.io/hostname"}))
}

#[test]
fn scenario_9_the_object_is_generated_and_owned() {
    let owner =
        json!({"apiVersion": VERSION, "kind": "StatefulSet", "name": "web", "uid": "u", "controller": true});
    let target = json!({"apiVersion": VERSION, "kind": "StatefulSet", "name": "web"});
    assert_eq!(
        created(&asking()),
        json!({"apiVersion": VERSION, "kind": "PersistentPodState",
            "metadata": {"name": "web", "namespace": "shop", "ownerReferences": [owner]},
            "spec": {"targetRef": target, "preferredPersistentTopology": [
                {"weight": 100, "preference": {"keys": ["kubernetes.io/hostname"]}}]}})
    );
    // Blanks and empty parts count for nothing.
    let all = set(&json!({AUTO: "true", REQUIRED: "zone, region,,", PREFERRED: " ", REMEMBERED: "a,b"}));
    let object = created(&all);
    let spec = &object["spec"];
    assert_eq!(spec["requiredPersistentTopology"], json!({"keys": ["zone", "region"]}));
    assert_eq!(spec["persistentPodAnnotations"], json!([{"key": "a"}, {"key": "b"}]));
    assert!(spec["preferredPersistentTopology"].is_null());
}

#[test]
fn scenarios_10_and_22_the_object_follows_the_annotations() {
    let own = stored(&asking(), |_| ());
    assert_eq!(plan(&asking(), VERSION, std::slice::from_ref(&own)), Step::Nothing);
    let more = set(&json!({AUTO: "true", PREFERRED: "kubernetes.io/hostname", REQUIRED: "zone"}));
    let change = |workload: &ResolvedWorkload, own: &Arc<PersistentPodState>| -> Value {
        match plan(workload, VERSION, std::slice::from_ref(own)) {
            Step::Change(patch) => serde_json::from_str(&patch).unwrap(),
            step => panic!("{step:?}"),
        }
    };
    let observed = json!({"uid": "p", "resourceVersion": "7"});
    assert_eq!(
        change(&more, &own),
        json!({"metadata": observed, "spec": {"requiredPersistentTopology": {"keys": ["zone"]}}})
    );
    let other = set(&json!({AUTO: "true", REQUIRED: "zone"}));
    assert_eq!(
        change(&other, &stored(&more, |_| ())),
        json!({"metadata": observed, "spec": {"preferredPersistentTopology": null}})
    );
    for off in [json!({}), json!({AUTO: "false", PREFERRED: "x"}), json!({AUTO: "True", PREFERRED: "x"})] {
        assert_eq!(plan(&set(&off), VERSION, std::slice::from_ref(&own)), Step::Delete(own.clone()), "{off}");
        assert_eq!(plan(&set(&off), VERSION, &[]), Step::Nothing);
    }
}

#[test]
fn scenario_11_without_labels_nothing_is_generated_and_what_is_there_stays() {
    let own = stored(&asking(), |_| ());
    for annotations in [json!({AUTO: "true"}), json!({AUTO: "true", REQUIRED: " , ", REMEMBERED: "a"})] {
        for known in [&[][..], std::slice::from_ref(&own)] {
            let step = plan(&set(&annotations), VERSION, known);
            assert!(reported(&step).ends_with("names a label"), "{step:?}");
        }
    }
}

#[test]
fn scenario_21_what_a_user_adds_stays() {
    let own = stored(&asking(), |object| {
        object["spec"]["persistentPodStateRetentionPolicy"] = json!("WhenDeleted");
    });
    assert_eq!(plan(&asking(), VERSION, std::slice::from_ref(&own)), Step::Nothing);
    let more = set(&json!({AUTO: "true", PREFERRED: "kubernetes.io/hostname", REQUIRED: "zone"}));
    let Step::Change(patch) = plan(&more, VERSION, &[own]) else { panic!("another annotation changes it") };
    let patch: Value = serde_json::from_str(&patch).unwrap();
    assert_eq!(patch["spec"], json!({"requiredPersistentTopology": {"keys": ["zone"]}}), "nothing else");
    // One that an older release has generated names another version.
    let older = stored(&asking(), |object| {
        object["spec"]["targetRef"]["apiVersion"] = json!("apps.kruise.io/v1alpha1");
    });
    assert_eq!(plan(&asking(), VERSION, &[older]), Step::Nothing);
}

#[test]
fn sharp_edge_5_objects_of_others_are_left_alone() {
    let by_hand = stored(&asking(), |object| drop(object["metadata"]["ownerReferences"].take()));
    let earlier =
        stored(&asking(), |object| object["metadata"]["ownerReferences"][0]["uid"] = json!("before"));
    for other in [by_hand, earlier] {
        let step = plan(&asking(), VERSION, std::slice::from_ref(&other));
        assert!(reported(&step).ends_with("is not controlled by this workload"), "{step:?}");
        assert_eq!(plan(&set(&json!({})), VERSION, &[other]), Step::Nothing);
    }
    let rival = stored(&asking(), |object| object["metadata"]["name"] = json!("rival"));
    let step = plan(&asking(), VERSION, &[rival]);
    assert!(reported(&step).starts_with("PersistentPodState rival has this workload"), "{step:?}");
    let moved = stored(&asking(), |object| object["spec"]["targetRef"]["name"] = json!("other"));
    let step = plan(&asking(), VERSION, &[moved]);
    assert!(reported(&step).contains("another spec.targetRef"), "{step:?}");
}

#[test]
fn sharp_edge_18_a_workload_that_goes_gets_nothing() {
    let mut leaving = asking();
    leaving.metadata.deletion_timestamp = Some(jiff::Timestamp::UNIX_EPOCH.into());
    assert_eq!(plan(&leaving, VERSION, &[]), Step::Nothing);
}
