//! NodeImages, ImagePullJobs and ImageListPullJobs in admission (docs/behaviour/images.md).

use serde_json::{Value, json};

use crate::support::{admission, ask};

const JOBS: &str = "ImagePullJobGate=true";

fn write(operation: &str, resource: &str, object: &Value, old: &Value) -> Value {
    json!({"uid": "1", "operation": operation, "name": "a", "namespace": "shop",
        "resource": {"group": "apps.kruise.io", "version": "v1beta1", "resource": resource},
        "object": object, "oldObject": old})
}

fn object(kind: &str, spec: Value) -> Value {
    let mut object = json!({"apiVersion": "apps.kruise.io/v1beta1", "kind": kind, "metadata": {"name": "a"}});
    object["spec"] = spec;
    object
}

fn kinds() -> [(&'static str, &'static str, Value); 3] {
    let policy = json!({"type": "Always"});
    [
        ("nodeimages", "nodeimage", object("NodeImage", json!({}))),
        (
            "imagepulljobs",
            "imagepulljob",
            object("ImagePullJob", json!({"image": "nginx", "completionPolicy": policy})),
        ),
        (
            "imagelistpulljobs",
            "imagelistpulljob",
            object("ImageListPullJob", json!({"images": ["nginx"], "completionPolicy": policy})),
        ),
    ]
}

#[tokio::test]
async fn jobs_are_refused_while_their_gate_is_off() {
    for (resource, path, object) in kinds() {
        let path = format!("/validate-apps-kruise-io-{path}");
        let create = write("CREATE", resource, &object, &Value::Null);
        assert_eq!(ask(&admission(JOBS, ""), &path, &create).await["allowed"], true, "{resource}");
        let gate = if resource == "nodeimages" { "KruiseDaemon" } else { "ImagePullJobGate" };
        let off = admission(&format!("{gate}=false"), "");
        let refused = ask(&off, &path, &create).await;
        let message = format!("feature-gate {gate} is not enabled");
        assert_eq!(refused["status"], json!({"metadata": {}, "code": 403, "message": message}));
        let mut labelled = object.clone();
        labelled["metadata"]["labels"] = json!({"a": "b"});
        let update = write("UPDATE", resource, &labelled, &object);
        assert_eq!(ask(&off, &path, &update).await["allowed"], true, "{resource}");
    }
}

#[tokio::test]
async fn an_annotation_that_changes_alone_is_reviewed_too() {
    for (resource, path, stored) in kinds().into_iter().skip(1) {
        let path = format!("/validate-apps-kruise-io-{path}");
        let with = |when: &str| {
            let mut object = stored.clone();
            object["metadata"]["annotations"] = json!({"kutter.io/pull-when": when});
            object
        };
        let (good, bad) = (with("label:gpu,condition:GpuReady=True"), with("condition:GpuReady"));
        let server = admission(JOBS, "");
        for (new, old, allowed) in [
            (&good, &Value::Null, true),
            (&bad, &Value::Null, false),
            (&bad, &stored, false),
            (&bad, &good, false),
            (&good, &bad, true),
            (&bad, &bad, true),
        ] {
            let operation = if old.is_null() { "CREATE" } else { "UPDATE" };
            let answer = ask(&server, &path, &write(operation, resource, new, old)).await;
            assert_eq!(answer["allowed"], allowed, "{answer}");
            let message = answer["status"]["message"].as_str().unwrap_or_default();
            let path = "metadata.annotations[kutter.io/pull-when]: Invalid value: \"condition:GpuReady\": ";
            assert!(allowed || message.starts_with(path), "{message}");
        }
    }
}

#[tokio::test]
async fn what_is_complete_is_not_patched() {
    for (resource, path, object) in kinds() {
        let path = format!("/mutate-apps-kruise-io-{path}");
        let answer =
            ask(&admission(JOBS, ""), &path, &write("CREATE", resource, &object, &Value::Null)).await;
        assert_eq!(answer["allowed"], true, "{answer}");
        assert_eq!(answer.get("patch").is_some(), resource != "nodeimages", "{answer}");
    }
}

#[tokio::test]
async fn what_is_stored_can_lose_its_finalizers_whatever_is_wrong_with_it() {
    for (resource, path, mut stored) in kinds().into_iter().skip(1) {
        stored["spec"]["pullPolicy"] = json!({"backoffLimit": -1});
        stored["metadata"]["finalizers"] = json!(["apps.kruise.io/deletion-protection"]);
        let mut freed = stored.clone();
        freed["metadata"]["finalizers"] = json!([]);
        let server = admission(JOBS, "");
        for webhook in ["mutate", "validate"] {
            let path = format!("/{webhook}-apps-kruise-io-{path}");
            let answer = ask(&server, &path, &write("UPDATE", resource, &freed, &stored)).await;
            assert_eq!((&answer["allowed"], answer.get("patch")), (&json!(true), None), "{answer}");
        }
        let validate = format!("/validate-apps-kruise-io-{path}");
        freed["spec"]["parallelism"] = json!(2);
        let refused = ask(&server, &validate, &write("UPDATE", resource, &freed, &stored)).await;
        assert_eq!(refused["status"]["code"], 400, "{refused}");
    }
}
