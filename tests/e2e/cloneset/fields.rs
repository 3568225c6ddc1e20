//! No field is lost on the way from the template to Pods and revisions, and through updates
//! (docs/behaviour/revisions.md#data).

use serde_json::{Value, json};

use super::gates::site;
use super::{
    Fleet, LIFECYCLE_STATE, NEW, OLD, REVISION, image, in_place, label, name, named, uids, with_image,
};

/// Fields that no version of Kubernetes has.
fn invented(template: &Value) -> [&Value; 3] {
    let spec = &template["spec"];
    [&template["metadata"]["mood"], &spec["flavour"], &named(&spec["containers"], "main")["spin"]]
}

/// What nobody of us writes, of a Pod.
fn essence(pod: &Value) -> Value {
    let mut pod = pod.clone();
    let metadata = pod["metadata"].as_object_mut().unwrap();
    for field in ["resourceVersion", "generation", "managedFields"] {
        metadata.remove(field);
    }
    for key in [REVISION, "pod-template-hash", LIFECYCLE_STATE] {
        metadata["labels"].as_object_mut().unwrap().remove(key);
    }
    let ours = |key: &str| key.contains("kruise.io/") || key.contains("kutter.io/");
    metadata["annotations"].as_object_mut().unwrap().retain(|key, _| !ours(key));
    pod["spec"]["containers"][0]["image"] = Value::Null;
    pod["spec"]["containers"][0]["resources"] = Value::Null;
    pod.as_object_mut().unwrap().remove("status");
    pod
}

fn cpu(amount: &str) -> Value {
    json!({"limits": {"cpu": amount, "memory": "64Mi"}, "requests": {"cpu": "100m", "memory": "64Mi"}})
}

/// Pods keep what the API server takes of them, also what is newer than the Kubernetes we are like.
#[tokio::test]
async fn no_field_is_lost() {
    let flavour = json!({"strength": 11.50, "of": ["salt", null]});
    let fleet = Fleet::launch_on(site().await, "cloneset-fields", |set| {
        let set = set
            .having("spin", "up")
            .having("resources", cpu("200m"))
            .having(
                "volumeMounts",
                json!([{"name": "tmp", "mountPath": "/tmp", "recursiveReadOnly": "Disabled"}]),
            )
            .with("/spec/template/metadata/mood", "calm")
            .with("/spec/template/spec/flavour", flavour.clone())
            .with("/spec/template/spec/securityContext", json!({"supplementalGroupsPolicy": "Strict"}))
            .with("/spec/template/spec/volumes", json!([{"name": "tmp", "emptyDir": {}}]));
        in_place(set.replicas(2), json!({"partition": 1}))
    })
    .await;
    let kept = |template: &Value| {
        assert_eq!(invented(template), [&json!("calm"), &flavour, &json!("up")], "{template:#}");
    };
    kept(&fleet.set.object["spec"]["template"]);
    let mut before = fleet.pods().await;
    for pod in &before {
        assert_eq!(pod["spec"]["securityContext"]["supplementalGroupsPolicy"], "Strict");
        fleet.annotate(&name(pod), "example.com/foreign", "kept").await;
    }
    before = fleet.pods().await;

    // An image and resources, of one Pod of two; then a third Pod, which is made from the older revision.
    let mut containers = fleet.set.get().await.1["spec"]["template"]["spec"]["containers"].clone();
    containers[0]["image"] = json!(NEW);
    containers[0]["resources"] = cpu("300m");
    fleet.containers(containers.clone()).await;
    fleet.status("one to be updated", json!({"updatedReplicas": 1, "availableReplicas": 2})).await;
    fleet.change(json!({"replicas": 3, "updateStrategy": {"rollingUpdate": {"partition": 2}}})).await;
    fleet.status("a third Pod", json!({"replicas": 3, "updatedReplicas": 1, "availableReplicas": 3})).await;
    let middle = fleet.pods().await;
    assert_eq!(with_image(&middle, NEW), 1);
    for pod in &middle {
        assert_eq!(pod["spec"]["securityContext"]["supplementalGroupsPolicy"], "Strict");
        assert_eq!(pod["spec"]["containers"][0]["volumeMounts"][0]["recursiveReadOnly"], "Disabled");
        let limit = if image(pod) == NEW { "300m" } else { "200m" };
        assert_eq!(pod["spec"]["containers"][0]["resources"]["limits"]["cpu"], limit);
    }
    for old in &before {
        let now = middle.iter().find(|now| name(now) == name(old)).unwrap();
        assert_eq!(essence(now), essence(old));
    }

    // And back to the first revision.
    containers[0]["image"] = json!(OLD);
    containers[0]["resources"] = cpu("200m");
    fleet.containers_and(containers, json!({"updateStrategy": {"rollingUpdate": {"partition": 0}}})).await;
    fleet.complete().await;
    let after = fleet.pods().await;
    assert_eq!((uids(&after), with_image(&after, OLD)), (uids(&middle), 3));
    for old in &middle {
        let now = after.iter().find(|now| name(now) == name(old)).unwrap();
        assert_eq!(essence(now), essence(old));
        assert!(!label(now, REVISION).is_empty());
    }
    kept(&fleet.set.get().await.1["spec"]["template"]);
    let revisions = fleet.revisions().await;
    assert_eq!(revisions.len(), 2);
    for revision in &revisions {
        kept(&revision["data"]["spec"]["template"]);
    }
}
