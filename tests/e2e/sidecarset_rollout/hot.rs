//! Hot upgrade: two twins, of which one works and the other one waits
//! (docs/behaviour/sidecarset.md#hot-upgrade).

use kit::builders::Object;
use kit::fake_nodes;
use kit::wait_for;
use serde_json::{Value, json};

use super::{Fleet, image_of, restarts};
use crate::support::{annotation, named, names};

const EMPTY: &str = "busybox:empty";
const V1: &str = super::OLD;
const V2: &str = super::NEW;
const V3: &str = "busybox:v3";

fn hot(set: Object) -> Object {
    set.having("upgradeStrategy", json!({"upgradeType": "HotUpgrade", "hotUpgradeEmptyImage": EMPTY}))
}

/// Images, working twin, versions and versions of the other.
#[derive(Debug, PartialEq)]
struct Twins<'p> {
    images: [&'p str; 2],
    working: String,
    version: [&'p str; 2],
    other: [&'p str; 2],
}

fn twins(pod: &Value) -> Twins<'_> {
    let both = |prefix: &str| ["log-1", "log-2"].map(|twin| annotation(pod, &format!("{prefix}{twin}")));
    let working = annotation(pod, "kruise.io/sidecarset-working-hotupgrade-container");
    let working: Value = serde_json::from_str(working).unwrap();
    Twins {
        images: ["log-1", "log-2"].map(|twin| image_of(pod, twin)),
        working: working["log"].as_str().unwrap().to_owned(),
        version: both("version.sidecarset.kruise.io/"),
        other: both("versionalt.sidecarset.kruise.io/"),
    }
}

/// Waits for a Pod whose twins have these images.
async fn wait_images(fleet: &Fleet, pod: &str, images: [&str; 2]) -> Value {
    wait_for(&format!("{pod} with {images:?}"), async || {
        let pod = fleet.pod(pod).get().await.1;
        if twins(&pod).images == images { Ok(pod) } else { Err(twins(&pod).images.map(str::to_owned)) }
    })
    .await
}

/// docs/behaviour/in-place-update.md#order-of-containers: cold sidecars in front and behind, and a hot one, change in one
/// edit.
#[tokio::test]
async fn all_sidecars_change_in_one_edit() {
    let fleet = Fleet::open("order", |set| {
        let set = hot(set).container("zz", V1).having("podInjectPolicy", "BeforeAppContainer");
        set.container("bb", V1).having("podInjectPolicy", "AfterAppContainer")
    })
    .await;
    fleet.shop.admit(fleet.shop.pod("web-0").in_company()).await;
    fleet.wait_status("the Pod to be ready", json!({"readyPods": 1, "updatedPods": 1})).await;
    let before = fleet.pod("web-0").get().await.1;
    let order = |pod: &Value| names(&pod["spec"]["containers"]).join(" ");
    assert!(!names(&before["spec"]["containers"]).is_sorted(), "{}", order(&before));
    let mut sidecars = fleet.set.get().await.1["spec"]["containers"].clone();
    sidecars.as_array_mut().unwrap().iter_mut().for_each(|sidecar| sidecar["image"] = json!(V2));
    fleet.set.patch(&json!({"spec": {"containers": sidecars}})).await;
    let updated = json!({"updatedPods": 1, "updatedReadyPods": 1, "readyPods": 1});
    fleet.wait_status("the Pod to be updated", updated).await;
    let after = wait_images(&fleet, "web-0", [EMPTY, V2]).await;
    assert_eq!((order(&after), &after["metadata"]["uid"]), (order(&before), &before["metadata"]["uid"]));
    assert_eq!([image_of(&after, "zz"), image_of(&after, "bb")], [V2; 2]);
}

/// One twin is ready that is not the empty one.
fn serves(pod: &Value) -> bool {
    ["log-1", "log-2"].into_iter().any(|twin| {
        let status = named(&pod["status"]["containerStatuses"], twin);
        status["ready"] == true && status["image"] != EMPTY
    })
}

async fn ready_after(fleet: &Fleet, pod: &str, time: &str) {
    fleet.pod(pod).patch(&json!({"metadata": {"annotations": {fake_nodes::READY_AFTER: time}}})).await;
}

/// Scenario 22, the table of docs/behaviour/sidecarset.md#states-of-the-twins.
#[tokio::test]
async fn a_hot_upgrade_goes_from_one_twin_to_the_other_and_back() {
    let fleet = Fleet::launch("hot", 1, hot).await;
    let chronicle = fleet.chronicle().await;
    let pod = fleet.pod("web-0").get().await.1;
    let injected =
        Twins { images: [V1, EMPTY], working: "log-1".to_owned(), version: ["1", "0"], other: ["0", "1"] };
    assert_eq!(twins(&pod), injected);

    ready_after(&fleet, "web-0", "never").await;
    fleet.wait_status("the Pod to be held", json!({"readyPods": 0})).await;
    fleet.roll(V2, json!({})).await;
    let pod = wait_images(&fleet, "web-0", [V1, V2]).await;
    let upgraded = twins(&pod);
    let version = upgraded.version[1].to_owned();
    assert!(version.parse::<u64>().unwrap() > 1, "the version of the SidecarSet: {version}");
    assert_eq!(upgraded.working, "log-2");
    assert_eq!((upgraded.version, upgraded.other), (["1", version.as_str()], [version.as_str(), "1"]));
    fleet.wait_status("an upgraded Pod not to be ready", json!({"updatedPods": 1, "readyPods": 0})).await;

    // From now on a container that starts is not ready at once.
    ready_after(&fleet, "web-0", "200").await;
    let pod = wait_images(&fleet, "web-0", [EMPTY, V2]).await;
    let reset = twins(&pod);
    assert_eq!(reset.working, "log-2");
    assert_eq!((reset.version, reset.other), (["0", version.as_str()], [version.as_str(), "0"]));
    let note = fleet.event(&fleet.shop.namespace, "web-0", "ResetContainerSucceed").await;
    assert_eq!(note, "reset sidecar container image empty successfully");
    fleet.wait_status("the Pod to be ready", json!({"updatedReadyPods": 1})).await;

    let second = fleet.chronicle().await;
    fleet.roll(V3, json!({})).await;
    wait_images(&fleet, "web-0", [V3, EMPTY]).await;
    fleet.wait_status("the Pod to be ready again", json!({"updatedReadyPods": 1})).await;
    let pod = fleet.pod("web-0").get().await.1;
    assert_eq!(twins(&pod).working, "log-1");
    assert_eq!(restarts(&pod, "main"), 0);
    let images = chronicle.course("web-0", |pod| twins(pod).images.map(str::to_owned)).await;
    let expected = [[V1, EMPTY], [V1, V2], [EMPTY, V2], [V3, V2], [V3, EMPTY]];
    assert_eq!(images, expected.map(|images| images.map(str::to_owned)));
    // Where its containers become ready by themselves, one twin is at work at any time.
    assert_eq!(second.course("web-0", serves).await, [true]);
}
