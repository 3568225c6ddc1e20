//! The webhooks of SidecarSets (docs/behaviour/sidecarset.md#acceptance-scenarios).

use kit::builders::{Object, config_map, sidecar_set};
use kit::wait_for;
use kube::Client;
use serde_json::{Value, json};
use tokio::sync::OnceCell;

use crate::product::NAMESPACE;
use crate::support::{Shop, Stored, annotation, assert_holds, create, gated, message, shared};

const HASH: &str = "kruise.io/sidecarset-hash";
const HASH_WITHOUT_IMAGE: &str = "kruise.io/sidecarset-hash-without-image";
const CUSTOM_VERSION: &str = "apps.kruise.io/sidecarset-custom-version";
const WHITELIST: &str = "SidecarSet_PatchPodMetadata_WhiteList";

/// Lets SidecarSets labelled `may=patch` on the shared API server patch the annotations of the tests.
pub(crate) async fn allowing_annotations() {
    static ALLOWED: OnceCell<()> = OnceCell::const_new();
    ALLOWED
        .get_or_init(async || {
            let client = shared().await.0.client();
            let keys = json!(["^example\\.com/", "^apps\\.kruise\\.io/container-launch-priority$"]);
            let rules = json!({"rules": [{"selector": {"matchLabels": {"may": "patch"}}, "allowedAnnotationKeyExprs": keys}]});
            let list = config_map("kruise-configuration", WHITELIST, &rules.to_string()).in_namespace(NAMESPACE);
            Stored::create(&client, list).await;
            wait_for("the program to know the list", async || {
                match create(&client, patching("example.com/a").label("may", "patch"), "?dryRun=All").await {
                    (201, _) => Ok(()),
                    (_, answer) => Err(answer),
                }
            })
            .await;
        })
        .await;
}

fn patching(key: &str) -> Object {
    let set = sidecar_set("patching").matching("patching", "yes").container("patching", "busybox:1.36");
    set.with("/spec/patchPodMetadata", json!([{"annotations": {key: "value"}}]))
}

fn dns(set: Object) -> Object {
    set.container("dns-f", "dns:1.0")
}

/// The text with which a SidecarSet is refused.
async fn refusal(client: &Client, set: Object) -> String {
    let answer = create(client, set, "?dryRun=All").await;
    assert_eq!(answer.0, 500, "{answer:#?}");
    let text = message(&answer).strip_prefix("admission webhook \"vsidecarset.kb.io\" denied the request: ");
    text.unwrap_or_else(|| panic!("{answer:#?}")).to_owned()
}

async fn accepted(client: &Client, set: Object) {
    let (code, answer) = create(client, set, "?dryRun=All").await;
    assert_eq!(code, 201, "{answer:#}");
}

/// Scenarios 1 and 2; the hash is a test vector of docs/behaviour/pod-mutation.md#sidecarset-hash.
#[tokio::test]
async fn defaults_and_hashes_are_written_in_both_versions() {
    let shop = Shop::open("defaults").await;
    let mut hashes = Vec::new();
    for version in ["v1alpha1", "v1beta1"] {
        let set = sidecar_set(&shop.name(version)).api_version(&format!("apps.kruise.io/{version}"));
        let set = dns(set.matching("app", &shop.name(version))).annotation(HASH, "mine");
        let stored = Stored::create(&shop.client, set).await.in_version("v1beta1").get().await.1;
        assert_holds(
            &stored["spec"],
            &json!({
                "containers": [{
                    "name": "dns-f", "image": "dns:1.0", "terminationMessagePath": "/dev/termination-log",
                    "terminationMessagePolicy": "File", "imagePullPolicy": "IfNotPresent",
                    "podInjectPolicy": "BeforeAppContainer", "upgradeStrategy": {"upgradeType": "ColdUpgrade"},
                    "shareVolumePolicy": {"type": "disabled"},
                }],
                "updateStrategy": {"type": "RollingUpdate", "partition": 0, "maxUnavailable": 1},
                "revisionHistoryLimit": 10,
            }),
        );
        assert!(stored["spec"]["containers"][0].get("shareVolumeDevicePolicy").is_none());
        assert_eq!(
            annotation(&stored, HASH),
            "6wbd76bd7984x24fb4f44fv9222cw9v9bcf85x766744wddd4zwx927zzz2zb684"
        );
        hashes.push(annotation(&stored, HASH_WITHOUT_IMAGE).to_owned());
    }
    assert!(hashes[0] == hashes[1] && hashes[0].len() == 64, "{hashes:?}");
}

/// Scenario 3.
#[tokio::test]
async fn namespace_and_custom_version_are_converted() {
    let shop = Shop::open("converted").await;
    let old = sidecar_set(&shop.name("old")).api_version("apps.kruise.io/v1alpha1").matching("app", "web");
    let old = dns(old).with("/spec/namespace", "ns1").label(CUSTOM_VERSION, "v2").label("other", "kept");
    let old = Stored::create(&shop.client, old).await;
    let new = old.in_version("v1beta1").get().await.1;
    assert_eq!(
        new["spec"]["namespaceSelector"],
        json!({"matchLabels": {"kubernetes.io/metadata.name": "ns1"}})
    );
    assert_eq!(new["spec"]["customVersion"], "v2");
    assert_eq!(new["metadata"]["labels"], json!({"other": "kept"}));
    let read = old.get().await.1;
    assert_eq!(read["metadata"]["labels"], json!({"other": "kept", CUSTOM_VERSION: "v2"}));
    // Nothing that was written is lost: it reads back as a namespace, not as the selector.
    assert_eq!(read["spec"]["namespace"], "ns1");
    assert!(read["spec"].get("namespaceSelector").is_none(), "{read:#}");
}

/// Scenario 4.
#[tokio::test]
async fn faults_are_named_in_the_words_of_the_reference() {
    let shop = Shop::open("faults").await;
    let base = || dns(shop.sidecar_set("bad"));
    let strategy = |value: Value| base().with("/spec/updateStrategy", value);
    let weight = json!({"weight": 101, "matchSelector": {"matchLabels": {"gpu": "true"}}});
    let priority = "spec.updateStrategy.priorityStrategy: Required value: ";
    let cases = [
        (
            base().with("/metadata/name", "a.b"),
            r#"metadata.name: Invalid value: "a.b": sidecarset name must consist of alphanumeric characters or '-' (e.g. 'example-com', regex used for validation is '^[a-zA-Z0-9\-]+$')"#.to_owned(),
        ),
        (base().with("/spec/selector", json!({})), "empty selector is not valid for sidecarset.".to_owned()),
        (
            dns(sidecar_set("bad")),
            "spec.selector: Required value: no selector defined for SidecarSet".to_owned(),
        ),
        (
            shop.sidecar_set("bad"),
            "spec: Required value: no initContainer or container defined for SidecarSet".to_owned(),
        ),
        (strategy(json!({"partition": "5"})), "spec.updateStrategy.partition: Invalid value: ".to_owned()),
        (strategy(json!({"partition": "5"})), "a valid percent string must be a numeric string followed by an ending '%'".to_owned()),
        (strategy(json!({"maxUnavailable": -1})), "spec.updateStrategy.maxUnavailable: Invalid value: -1: must be greater than or equal to 0".to_owned()),
        (
            strategy(json!({"priorityStrategy": {"weightPriority": [weight.clone()]}})),
            format!("{priority}weight must be valid number in the range 1-100"),
        ),
        (
            strategy(json!({"priorityStrategy": {"weightPriority": [weight], "orderPriority": [{"orderedKey": "k"}]}})),
            format!("{priority}only one of weightPriority and orderPriority can be used"),
        ),
        (
            strategy(json!({"scatterStrategy": [{"key": "k", "value": "v"}, {"key": "k", "value": "v"}]})),
            "spec.updateStrategy.scatterStrategy: Required value: duplicated key=k value=v".to_owned(),
        ),
        (
            base().with("/spec/injectionStrategy/revision", json!({"revisionName": "none"})),
            r#"Cannot find specific ControllerRevision, err: ControllerRevision.apps "none" not found"#.to_owned(),
        ),
        (
            base().with("/spec/injectionStrategy/revision", json!({"policy": "Partial"})),
            "revisionName and customVersion cannot be empty simultaneously".to_owned(),
        ),
        (
            strategy(json!({"selector": {"matchLabels": {"a": "b"}}, "partition": 1})),
            "Partition and Selector cannot be used together".to_owned(),
        ),
    ];
    for (set, expected) in cases {
        let text = refusal(&shop.client, set).await;
        assert!(text.contains(&expected), "{text} lacks {expected}");
    }
}

/// Scenario 5.
#[tokio::test]
async fn a_native_sidecar_needs_the_type_not_update() {
    let shop = Shop::open("native").await;
    let native =
        || shop.sidecar_set("mesh").init_container("proxy", "busybox:1.36").having("restartPolicy", "Always");
    assert_eq!(
        refusal(&shop.client, native()).await,
        "spec.updateStrategy: Required value: The initContainer in-place upgrade is not currently supported."
    );
    accepted(&shop.client, native().with("/spec/updateStrategy/type", "NotUpdate")).await;
}

/// Scenario 6.
#[tokio::test]
async fn an_update_may_remove_containers_but_not_add_any() {
    let shop = Shop::open("updates").await;
    let set = dns(shop.sidecar_set("set")).container("second", "busybox:1.36");
    let set = Stored::create(&shop.client, set).await;
    let containers = |list: Value| json!({"spec": {"containers": list}});
    let refused = async |list: Value| message(&set.try_patch(&containers(list)).await).to_owned();
    let container = |name: &str| json!({"name": name, "image": "busybox:1.36"});
    let text = refused(json!([container("dns-f"), container("second"), container("b")])).await;
    assert!(text.contains("spec.containers.name") && text.contains("container b is not found"), "{text}");
    let mut hot = container("dns-f");
    hot["upgradeStrategy"] = json!({"upgradeType": "HotUpgrade", "hotUpgradeEmptyImage": "busybox:empty"});
    let text = refused(json!([hot, container("second")])).await;
    assert!(
        text.contains("spec.containers.upgradeStrategy.upgradeType")
            && text.contains("container dns-f upgradeType is immutable"),
        "{text}"
    );
    let left = set.patch(&containers(json!([container("dns-f")]))).await;
    assert_ne!(annotation(&left, HASH), annotation(&set.object, HASH));
}

/// Scenario 7.
#[tokio::test]
async fn sets_that_meet_the_same_pods_share_no_container_name() {
    let shop = Shop::open("conflicts").await;
    shop.stock([dns(shop.sidecar_set("x"))]).await;
    let second = || dns(shop.sidecar_set("y"));
    assert_eq!(
        refusal(&shop.client, second()).await,
        format!(
            r#"spec.containers: Invalid value: "dns-f": container dns-f already exist in {}"#,
            shop.name("x")
        )
    );
    accepted(&shop.client, second().matching("app", "db")).await;
    let elsewhere = json!({"kubernetes.io/metadata.name": "elsewhere"});
    accepted(&shop.client, second().with("/spec/namespaceSelector/matchLabels", elsewhere)).await;
}

/// Scenario 8.
#[tokio::test]
async fn annotations_are_patched_only_as_the_list_allows() {
    let site = gated().await;
    assert_eq!(
        refusal(&site.server.client(), patching("example.com/a")).await,
        "spec.patchPodMetadata: Required value: SidecarSet patch metadata whitelist not found"
    );
    allowing_annotations().await;
    let client = shared().await.0.client();
    accepted(&client, patching("example.com/a").label("may", "patch")).await;
    assert_eq!(
        refusal(&client, patching("example.org/a").label("may", "patch")).await,
        "spec.patchPodMetadata: Required value: sidecarSet patch metadata annotation(example.org/a) is not allowed"
    );
    assert_eq!(
        refusal(&client, patching("example.com/a")).await,
        "spec.patchPodMetadata: Required value: sidecarSet patch metadata annotation is not allowed"
    );
}

/// Scenario 25.
#[tokio::test]
async fn a_canary_is_bound_to_its_base_and_never_updated() {
    let shop = Shop::open("canary").await;
    let base = dns(shop.sidecar_set("s1"));
    shop.stock([base, dns(shop.sidecar_set("s0")).matching("app", "db")]).await;
    let canary = |name: &str, base: &str| {
        dns(shop.sidecar_set(name))
            .annotation("apps.kruise.io/sidecarset-canary", "true")
            .annotation("apps.kruise.io/sidecarset-base", &shop.name(base))
            .with("/spec/updateStrategy/type", "NotUpdate")
    };
    let text =
        refusal(&shop.client, canary("s2", "s1").with("/spec/updateStrategy/type", "RollingUpdate")).await;
    assert!(text.contains("RollingUpdate is not supported for canary sidecarSet"), "{text}");
    let text = refusal(&shop.client, canary("s2", "s2")).await;
    assert!(text.contains("base sidecarSet cannot be itself"), "{text}");
    let text = refusal(&shop.client, canary("s2", "none")).await;
    assert!(text.contains(&format!("fetch base sidecarSet[{}] failed", shop.name("none"))), "{text}");
    let stored = Stored::create(&shop.client, canary("s2", "s1")).await;
    let rebased = json!({"metadata": {"annotations": {"apps.kruise.io/sidecarset-base": shop.name("s0")}}});
    let answer = stored.try_patch(&rebased).await;
    assert!(
        message(&answer).contains("annotations[apps.kruise.io/sidecarset-base] is immutable"),
        "{answer:?}"
    );
}
