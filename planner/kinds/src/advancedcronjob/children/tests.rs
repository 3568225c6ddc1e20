use serde_json::{Value, json};

use super::*;

fn object(status: &Value) -> Value {
    json!({"metadata": {"name": "report-60", "namespace": "shop", "uid": "c", "resourceVersion": "7",
        "annotations": {"apps.kruise.io/scheduled-at": "1970-01-01T01:01:00+01:00"},
        "ownerReferences": [{"apiVersion": "apps.kruise.io/v1alpha1", "kind": "AdvancedCronJob", "name": "report",
            "uid": "1", "controller": true}]}, "status": status})
}

fn read(kind: ChildKind, object: &Value) -> Option<Child> {
    Child::read(kind, &object.to_string()).unwrap()
}

#[test]
fn each_kind_says_in_its_own_way_that_it_is_over() {
    let condition = |kind: &str, status: &str| json!({"conditions": [{"type": kind, "status": status}]});
    let pulls = |succeeded: Value| json!({"completionTime": "2026-01-01T00:00:00Z", "desired": 2, "succeeded": succeeded});
    let jobs = [
        (json!(null), Progress::Active),
        (json!({"conditions": null, "active": 1}), Progress::Active),
        (condition("Complete", "True"), Progress::Successful),
        (condition("Failed", "True"), Progress::Failed),
        (condition("Failed", "False"), Progress::Active),
        (condition("Suspended", "True"), Progress::Active),
        // Lists of images are over by their time alone.
        (pulls(json!(2)), Progress::Active),
    ];
    for (status, expected) in jobs {
        for kind in [ChildKind::Job, ChildKind::BroadcastJob] {
            assert_eq!(read(kind, &object(&status.clone())).unwrap().progress, expected, "{kind:?} {status}");
        }
    }
    for (status, expected) in [
        (json!({"desired": 2}), Progress::Active),
        (pulls(json!(2)), Progress::Successful),
        (pulls(json!(1)), Progress::Failed),
        (pulls(json!(null)), Progress::Failed),
        (condition("Complete", "True"), Progress::Active),
    ] {
        let child = read(ChildKind::ImageListPullJob, &object(&status.clone())).unwrap();
        assert_eq!(child.progress, expected, "{status}");
    }
}

#[test]
fn children_are_those_of_any_version_of_the_owner_and_of_its_uid() {
    let child = read(ChildKind::Job, &object(&json!({}))).unwrap();
    assert_eq!((&*child.owner.0, &*child.owner.1), ("report", "1"));
    assert_eq!(child.scheduled_at, Some("1970-01-01T00:01:00Z".parse().unwrap()));
    let of = |uid: &str, namespace: &str| ObjectMeta {
        uid: uid.to_owned(),
        namespace: namespace.to_owned(),
        name: "report".to_owned(),
        ..ObjectMeta::default()
    };
    assert!(child.is_of(&of("1", "shop")));
    // One that was deleted and created again has other children.
    assert!(!child.is_of(&of("2", "shop")) && !child.is_of(&of("1", "other")));
}

#[test]
fn objects_of_others_are_no_children() {
    for (pointer, value) in [
        ("/metadata/ownerReferences/0/controller", json!(false)),
        ("/metadata/ownerReferences/0/kind", json!("CronJob")),
        ("/metadata/ownerReferences/0/apiVersion", json!("batch/v1")),
        ("/metadata/ownerReferences", json!(null)),
    ] {
        let mut object = object(&json!({}));
        *object.pointer_mut(pointer).unwrap() = value;
        assert_eq!(read(ChildKind::Job, &object), None, "{pointer}");
    }
    let mut unreadable = object(&json!({}));
    *unreadable.pointer_mut("/metadata/annotations").unwrap() =
        json!({"apps.kruise.io/scheduled-at": "soon"});
    assert_eq!(read(ChildKind::Job, &unreadable).unwrap().scheduled_at, None);
}
