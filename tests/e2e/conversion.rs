//! Versions of our kinds through the API server and the real `/convert`
//! (docs/behaviour/api-and-registration.md#conversion-stanzas), and what kubectl shows of them
//! (docs/behaviour/api-and-registration.md#printer-columns).

mod killed;
mod samples;
mod scenarios;

use kit::wait_for;
use serde_json::{Value, json};

use crate::support::{Shop, assert_holds, call};
pub use samples::{Sample, samples};

/// An object of every kind with two versions is converted to the other version and back, with a real edit there,
/// and loses nothing.
#[tokio::test(flavor = "multi_thread")]
async fn every_kind_survives_an_edit_in_its_other_version() {
    let shop = Shop::open("flip").await;
    for (version, other) in [("v1alpha1", "v1beta1"), ("v1beta1", "v1alpha1")] {
        let all = samples(&shop.namespace, version);
        let kinds = api::crds::ALL.iter().filter(|definition| definition.versions.len() == 2).count();
        assert_eq!(all.len(), kinds, "a sample of every kind");
        for sample in all {
            survives(&shop, &sample, other).await;
        }
    }
}

/// The kinds whose controllers count Pods, nodes and namespaces.
const COUNTED: [&str; 13] = [
    "AdvancedCronJob",
    "BroadcastJob",
    "CloneSet",
    "DaemonSet",
    "ImageListPullJob",
    "ImagePullJob",
    "PersistentPodState",
    "PodUnavailableBudget",
    "ResourceDistribution",
    "SidecarSet",
    "StatefulSet",
    "UnitedDeployment",
    "WorkloadSpread",
];
/// The label that the controller of ImageListPullJobs writes.
const HASH: &str = "controller-revision-hash";

async fn survives(shop: &Shop, sample: &Sample, other: &str) {
    let stored = sample.create(&shop.client).await;
    if !sample.status.is_null() {
        assert_holds(&stored.object["status"], &sample.status);
    }
    let (_, mut first) = stored.get().await;
    assert_holds(&first, &sample.object);
    let foreign = stored.in_version(other);
    let (code, mut seen) = foreign.get().await;
    assert_eq!(code, 200, "{seen:#}");
    assert!(seen["apiVersion"].as_str().unwrap().ends_with(other), "{seen:#}");
    seen["metadata"]["labels"]["touched"] = json!(other);
    for path in [foreign.path.clone(), format!("{}/status", foreign.path)] {
        // Controllers write meanwhile.
        let mut answer =
            wait_for("the write", async || match call(&shop.client, "PUT", &path, &seen).await {
                (409, answer) => {
                    seen["metadata"]["resourceVersion"] =
                        foreign.get().await.1["metadata"]["resourceVersion"].take();
                    Err(answer)
                }
                (code, answer) => {
                    assert_eq!(code, 200, "{answer:#}");
                    Ok(answer)
                }
            })
            .await;
        seen["metadata"]["resourceVersion"] = answer["metadata"]["resourceVersion"].take();
    }
    let (_, mut again) = stored.get().await;
    assert_eq!(again["metadata"]["labels"]["touched"], other);
    again["metadata"]["labels"].as_object_mut().unwrap().remove("touched");
    if COUNTED.iter().any(|kind| first["kind"] == *kind) {
        // In whatever version they were read.
        for object in [&mut again, &mut first] {
            object["status"] = Value::Null;
            object["metadata"]["labels"].as_object_mut().unwrap().remove(HASH);
            if let Some(annotations) = object["metadata"]["annotations"].as_object_mut() {
                annotations.remove("kutter.io/sidecarset-pods");
            }
        }
    }
    if first["kind"] == "StatefulSet" && other == "v1beta1" {
        // Its newer version says what becomes of claims where nobody does.
        let annotations = again["metadata"].as_object_mut().unwrap().remove("annotations").unwrap();
        let kept = annotations["kutter.io/converted-fields"].as_str().unwrap();
        assert!(kept.contains("persistentVolumeClaimRetentionPolicy"), "{kept}");
        first["metadata"].as_object_mut().unwrap().remove("annotations");
        again["metadata"]["generation"] = first["metadata"]["generation"].clone();
    }
    assert_eq!(content(again), content(first), "{} from {other}", stored.path);
    stored.deleted().await;
}

/// The object without what every write changes.
fn content(mut object: Value) -> Value {
    let metadata = object["metadata"].as_object_mut().unwrap();
    for field in ["managedFields", "resourceVersion"] {
        metadata.remove(field);
    }
    object
}
