use std::collections::BTreeMap;
use std::sync::Arc;

use api::annotations::{SIDECARSET_HASH, SIDECARSET_HASH_WITHOUT_IMAGE, SIDECARSET_REPLACED_CONTAINERS};
use serde_json::Value;

use super::fixture::*;
use crate::sidecarset::rollout::{ExclusionReason, Hold, RolloutSet, Snapshot, Step, plan};
use pod::observed::ObservedPod;
use pod::write::Target;
use values::hash::sidecarset_hashes;

const LOGSHIP: &str = r#"{"selector":{"matchLabels":{"tier":"web"}},"namespaceSelector":{"matchLabels":{"kubernetes.io/metadata.name":"shop"}},
  "initContainers":[{"name":"prep-logs","image":"registry.example.com/prep:2.0"}],
  "containers":[{"name":"shipper","image":"registry.example.com/shipper:1.5.0","env":[{"name":"LEVEL","value":"info"}],
    "volumeMounts":[{"name":"spool","mountPath":"/var/spool"}],"terminationMessagePath":"/dev/termination-log","terminationMessagePolicy":"File",
    "imagePullPolicy":"IfNotPresent","podInjectPolicy":"AfterAppContainer","upgradeStrategy":{"upgradeType":"ColdUpgrade"},
    "shareVolumePolicy":{"type":"enabled"},"transferEnv":[{"sourceContainerName":"shop","envName":"SHOP_REGION"}]}]}"#;

fn logship() -> RolloutSet {
    let hashes = sidecarset_hashes(LOGSHIP).unwrap();
    RolloutSet::read(&format!(
        r#"{{"metadata":{{"name":"logship","annotations":{{"{SIDECARSET_HASH}":"{}","{SIDECARSET_HASH_WITHOUT_IMAGE}":"{}"}}}},"spec":{LOGSHIP}}}"#,
        hashes.hash, hashes.hash_without_image
    ))
    .unwrap()
}

const WEB_7: &str = r#"{"metadata":{"namespace":"shop","name":"web-7","uid":"u","resourceVersion":"5","labels":{"tier":"web"},"annotations":{
    "kruise.io/sidecarset-hash":"{\"logship\":{\"updateTimestamp\":\"2026-07-02T09:00:00Z\",\"hash\":\"bcxfw7cfx89vzd8v9d4z78946992xw946xwdvz8944d4496zdzx6xczbvv25xfx2\",\"sidecarSetName\":\"logship\",\"sidecarList\":[\"shipper\"],\"controllerRevision\":\"logship-64769cc7c5\"}}",
    "kruise.io/sidecarset-hash-without-image":"{\"logship\":{\"updateTimestamp\":\"2026-07-02T09:00:00Z\",\"hash\":\"7f4z7d4wwb6v2b7bxx64db6w24cz7b4wx45658d9zwf25w5dcd45242f54x5dxcd\",\"sidecarSetName\":\"logship\",\"sidecarList\":[\"shipper\"]}}",
    "kruise.io/sidecarset-injected-list":"logship"}},
  "spec":{"nodeName":"n","containers":[{"name":"shop","image":"shop:3"},{"name":"shipper","image":"registry.example.com/shipper:1.4.0"}]},
  "status":{"phase":"Running","conditions":[{"type":"Ready","status":"True"}],"containerStatuses":[
    {"name":"shipper","ready":true,"image":"registry.example.com/shipper:1.4.0","imageID":"registry.example.com/shipper@sha256:11..","containerID":"containerd://a"},
    {"name":"shop","ready":true,"image":"shop:3","imageID":"x"}]}}"#;

#[test]
fn the_example_of_the_spec() {
    let (set, pods) = (logship(), [Arc::new(ObservedPod::read(WEB_7).unwrap())]);
    let snapshot = Snapshot {
        set: &set,
        pods: &pods,
        revisions: &[],
        latest_revision: "logship-6cf6fbbbcb",
        collision_count: 0,
    };
    let plan = plan(&snapshot, "2026-07-02T10:00:00Z".parse().unwrap());
    let [update] = &plan.pods[..] else { panic!("{plan:?}") };
    let [pod, status] = &update.writes[..] else { panic!("{update:?}") };
    let hash = "52xf72bc4zz694c7v7w84x26cfxf7xv6bb99z6dd82755d8w47782845v77b46f4";
    let annotation = |key: &str| pod.annotations.get(key).cloned().flatten().unwrap();
    assert_eq!(
        annotation("kruise.io/sidecarset-hash"),
        format!(
            r#"{{"logship":{{"updateTimestamp":"2026-07-02T10:00:00Z","hash":"{hash}","sidecarSetName":"logship","sidecarList":["shipper"],"controllerRevision":"logship-6cf6fbbbcb"}}}}"#
        )
    );
    assert_eq!(
        annotation("kruise.io/sidecarset-inplace-update-state"),
        format!(
            r#"{{"logship":{{"revision":"{hash}","updateTimestamp":"2026-07-02T10:00:00Z","lastContainerStatuses":{{"shipper":{{"imageID":"registry.example.com/shipper@sha256:11.."}}}}}}}}"#
        )
    );
    assert_eq!(
        annotation(SIDECARSET_REPLACED_CONTAINERS),
        r#"{"shipper":{"image":"registry.example.com/shipper:1.5.0","containerID":"containerd://a"}}"#
    );
    assert_eq!(pod.annotations.len(), 3, "the hash without images stays as it is");
    assert_eq!(pod.containers.len(), 1);
    assert_eq!(pod.containers[0].image.as_deref(), Some("registry.example.com/shipper:1.5.0"));
    let condition = &status.conditions[0];
    assert_eq!(
        (status.target, &*condition.status, &*condition.message),
        (Target::Status, "True", r#"{"logship":true}"#)
    );
    assert_eq!((&*condition.kind, &*condition.reason), ("SidecarSetUpgradable", "AllSidecarsetUpgradable"));
}

#[test]
fn namespaces_are_selected_by_label() {
    let set = logship();
    let labels = |name: &str| BTreeMap::from([("kubernetes.io/metadata.name".to_owned(), name.to_owned())]);
    assert!(set.selects_namespace(Some(&labels("shop"))));
    assert!(!set.selects_namespace(Some(&labels("other"))));
    assert!(!set.selects_namespace(None::<&BTreeMap<String, String>>));
    assert!(Wanted::cold("log:1").set().selects_namespace(None::<&BTreeMap<String, String>>));
    let empty = Wanted::cold("log:1").more(r#","namespaceSelector":{}"#).set();
    assert!(!empty.selects_namespace(Some(&labels("shop"))));
}

#[test]
fn pods_that_do_not_belong_are_not_counted_and_it_is_said_why() {
    let set = Wanted::cold("log:1").set();
    let pod = injected_pod(&set, "a");
    assert_eq!(set.belongs(&pod), Ok(()));
    let changed = |change: &dyn Fn(&mut ObservedPod)| {
        let mut pod = pod.clone();
        change(&mut pod);
        set.belongs(&pod).unwrap_err()
    };
    assert_eq!(changed(&|pod| pod.metadata.labels = Default::default()), ExclusionReason::OtherLabels);
    assert_eq!(changed(&|pod| pod.status.phase = "Failed".into()), ExclusionReason::Inactive);
    assert_eq!(
        changed(&|pod| pod.metadata.deletion_timestamp = Some(at(0).into())),
        ExclusionReason::Inactive
    );
    assert_eq!(changed(&|pod| pod.metadata.annotations = Default::default()), ExclusionReason::NotInjected);
    assert_eq!(
        changed(&|pod| pod.spec.containers[1].name = "other".into()),
        ExclusionReason::Lacks("log".into())
    );
    let no_selector = RolloutSet::read(r#"{"metadata":{"name":"side"},"spec":{"selector":{}}}"#).unwrap();
    assert_eq!(no_selector.belongs(&pod), Err(ExclusionReason::OtherLabels));
    let hot = Wanted::hot("mesh:1").set();
    assert_eq!(hot.belongs(&pod), Err(ExclusionReason::Lacks("mesh".into())));
    let mut twins = injected_pod(&hot, "b");
    assert_eq!(hot.belongs(&twins), Ok(()));
    twins.spec.containers[2].name = "other".into();
    assert_eq!(hot.belongs(&twins), Err(ExclusionReason::Lacks("mesh-2".into())));
}

fn status(plan: &crate::sidecarset::rollout::Plan) -> Value {
    serde_json::from_str::<Value>(plan.status.as_deref().unwrap()).unwrap()["status"].clone()
}

#[test]
fn status_counts_and_is_written_only_where_it_differs() {
    let mut wanted = Wanted::cold("log:1");
    let set = wanted.set();
    let mut cluster = fleet(&set, 3);
    let mut earlier = injected_pod(&set, "before");
    earlier.metadata.annotations = Default::default();
    cluster.pods.push(Arc::new(earlier));
    let first = status(&cluster.plan(&set));
    let expected = r#"{"observedGeneration":1,"matchedPods":3,"updatedPods":3,"readyPods":3,"updatedReadyPods":3,"latestRevision":"side-2","collisionCount":0}"#;
    assert_eq!(first, serde_json::from_str::<Value>(expected).unwrap());
    wanted.status = expected.to_owned();
    assert!(cluster.plan(&wanted.set()).is_empty());
    cluster.change("p00", |pod| set_ready(pod, false, 9));
    assert_eq!(
        cluster.plan(&wanted.set()).status.as_deref(),
        Some(r#"{"status":{"matchedPods":3,"updatedPods":3,"readyPods":2,"updatedReadyPods":2}}"#)
    );
    let newer = Wanted { generation: 2, status: wanted.status.clone(), ..Wanted::cold("log:2") };
    let paused = newer.strategy(r#"{"paused":true}"#);
    assert_eq!(
        cluster.plan(&paused.set()).status.as_deref(),
        Some(
            r#"{"status":{"observedGeneration":2,"matchedPods":3,"updatedPods":0,"readyPods":2,"updatedReadyPods":null}}"#
        )
    );
    // What an earlier SidecarSet of the name left in the status is not believed.
    let anew = Wanted { status: r#"{"observedGeneration":7}"#.to_owned(), ..wanted };
    assert_eq!(status(&cluster.plan(&anew.set()))["observedGeneration"], 1);
}

#[test]
fn an_empty_sidecarset_gets_all_counts() {
    let set = Wanted::cold("log:1").set();
    let snapshot = Snapshot { set: &set, pods: &[], revisions: &[], latest_revision: "", collision_count: 2 };
    assert_eq!(
        plan(&snapshot, at(0)).status.as_deref(),
        Some(
            r#"{"status":{"observedGeneration":1,"matchedPods":0,"updatedPods":0,"readyPods":0,"collisionCount":2}}"#
        )
    );
}

#[test]
fn not_update_and_pause_and_deletion_write_no_pod() {
    let mut cluster = fleet(&Wanted::cold("log:1").set(), 2);
    cluster.round(&Wanted::cold("log:1").set());
    for (strategy, hold) in
        [(r#"{"type":"NotUpdate"}"#, Hold::NeverUpdated), (r#"{"paused":true}"#, Hold::Paused)]
    {
        let plan = cluster.plan(&Wanted::cold("log:2").strategy(strategy).set());
        assert!(plan.pods.is_empty());
        assert_eq!(status(&plan)["updatedPods"], 0);
        assert_eq!(plan.waiting.iter().filter(|waiting| waiting.hold == hold).count(), 2);
    }
    let mut leaving = Wanted::cold("log:2").set();
    leaving.deleting = true;
    assert!(cluster.plan(&leaving).is_empty());
}

#[test]
fn annotations_are_patched_together_with_an_image_only() {
    let patches = |value: &str| {
        format!(
            r#","patchPodMetadata":[{{"patchPolicy":"Overwrite","annotations":{{"o":"{value}"}}}},{{"annotations":{{"r":"{value}"}}}},
               {{"patchPolicy":"MergePatchJson","annotations":{{"m":"{{\"{value}\":1}}"}}}},{{"patchPolicy":"Other","annotations":{{"x":"1"}}}}]"#
        )
    };
    let mut cluster = fleet(&Wanted::cold("log:1").set(), 1);
    cluster.round(&Wanted::cold("log:2").more(&patches("v1")).set());
    let annotation = |cluster: &Cluster, key: &str| cluster.pod("p00").annotation(key).map(str::to_owned);
    for (key, value) in [("o", Some("v1")), ("r", Some("v1")), ("m", Some(r#"{"v1":1}"#)), ("x", None)] {
        assert_eq!(annotation(&cluster, key).as_deref(), value, "{key}");
    }
    cluster.kubelets();
    let alone = Wanted::cold("log:2").more(&patches("v2")).set();
    assert!(cluster.plan(&alone).pods.is_empty(), "patches alone trigger nothing");
    cluster.round(&Wanted::cold("log:3").more(&patches("v2")).set());
    for (key, value) in [("o", "v2"), ("r", "v1"), ("m", r#"{"v1":1,"v2":1}"#)] {
        assert_eq!(annotation(&cluster, key).as_deref(), Some(value), "{key}");
    }
}

#[test]
fn a_pod_whose_annotation_cannot_be_merged_does_not_stop_the_others() {
    let mut cluster = fleet(&Wanted::cold("log:1").set(), 3);
    cluster.change("p00", |pod| {
        pod.metadata.annotations = pod.metadata.annotations.iter().chain([("m", "oops")]).collect();
    });
    let patch = r#","patchPodMetadata":[{"patchPolicy":"MergePatchJson","annotations":{"m":"{\"a\":1}"}}]"#;
    let plan = cluster.plan(&Wanted::cold("log:2").more(patch).set());
    assert_eq!(names(&plan, Step::Upgrade), ["p01"]);
    let broken = plan.waiting.iter().find(|waiting| &*waiting.pod.metadata.name == "p00").unwrap();
    assert!(
        matches!(&broken.hold, Hold::Annotation(problem) if problem.contains("annotation m")),
        "{broken:?}"
    );
}

#[test]
fn hashes_of_the_old_form_are_read_and_rewritten() {
    let set = Wanted::cold("log:1").set();
    let mut cluster = fleet(&set, 1);
    cluster.change("p00", |pod| {
        let old = |hash: &str| format!(r#"{{"other":"h0","side":"{hash}"}}"#);
        let plain = [
            (SIDECARSET_HASH, old(&set.hash)),
            (SIDECARSET_HASH_WITHOUT_IMAGE, old(&set.hash_without_image)),
        ];
        let annotations: Vec<(String, String)> =
            pod.metadata.annotations.iter().map(|(key, value)| (key.to_owned(), value.to_owned())).collect();
        pod.metadata.annotations =
            annotations.into_iter().chain(plain.map(|(key, value)| (key.to_owned(), value))).collect();
    });
    assert!(cluster.plan(&set).pods.is_empty(), "the old form counts");
    let newer = Wanted::cold("log:2").set();
    cluster.round(&newer);
    let entries =
        |key: &str| serde_json::from_str::<Value>(cluster.pod("p00").annotation(key).unwrap()).unwrap();
    let hashes = entries(SIDECARSET_HASH);
    assert_eq!(hashes["side"]["hash"], &*newer.hash);
    for entry in [&hashes["other"], &entries(SIDECARSET_HASH_WITHOUT_IMAGE)["other"]] {
        assert_eq!((&entry["hash"], &entry["sidecarSetName"]), (&"h0".into(), &"side".into()));
        assert!(entry["updateTimestamp"].is_string() && entry["sidecarList"].is_null());
    }
    assert_eq!(entries(SIDECARSET_HASH_WITHOUT_IMAGE)["side"]["hash"], &*newer.hash_without_image);
}

#[test]
fn entries_of_other_sidecarsets_stay_to_the_byte() {
    let set = Wanted::cold("log:1").set();
    let mut cluster = fleet(&set, 1);
    let theirs = r#""other":{"hash":"h","n":1.50}"#;
    cluster.change("p00", |pod| {
        let key = "kruise.io/sidecarset-inplace-update-state";
        let text = format!("{{{theirs}}}");
        pod.metadata.annotations = pod.metadata.annotations.iter().chain([(key, text.as_str())]).collect();
    });
    cluster.round(&Wanted::cold("log:2").set());
    let state = cluster.pod("p00").annotation("kruise.io/sidecarset-inplace-update-state").unwrap();
    assert!(state.starts_with(&format!("{{{theirs},\"side\":")), "{state}");
}
