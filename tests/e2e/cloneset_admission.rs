//! The webhooks of CloneSets (scenarios 11, 12 and 30 to 33 of docs/behaviour/cloneset.md, and
//! docs/behaviour/cloneset.md#validation).

mod templates;

use kit::builders::{Object, pod, workload};
use kit::wait_for;
use kube::Client;
use serde_json::{Value, json};
use tokio::sync::OnceCell;

use crate::support::{Shop, Stored, assert_holds, call, create, denied, gated, message};

const PROTECTION: &str = "policy.kruise.io/delete-protection";
const VERSIONS: [&str; 2] = ["v1alpha1", "v1beta1"];

/// A namespace, once the API server asks about CloneSets, whose entries may come last.
async fn open(prefix: &str) -> Shop {
    static REVIEWED: OnceCell<()> = OnceCell::const_new();
    let shop = Shop::open(prefix).await;
    REVIEWED.get_or_init(async || reviewed(&shop).await).await;
    shop
}

async fn reviewed(shop: &Shop) {
    let unselective = set(shop, "v1beta1", "asked").with("/spec/selector/matchLabels", json!({})).build();
    let whole = set(shop, "v1beta1", "asked").build();
    wait_for("CloneSets to be reviewed", async || {
        let (code, answer) = create(&shop.client, unselective.clone(), "?dryRun=All").await;
        if code != 422 {
            return Err(answer);
        }
        match create(&shop.client, whole.clone(), "?dryRun=All").await {
            (201, set) if set["spec"]["revisionHistoryLimit"] == 10 => Ok(()),
            (_, answer) => Err(answer),
        }
    })
    .await;
}

fn set(shop: &Shop, version: &str, name: &str) -> Object {
    workload(&format!("apps.kruise.io/{version}"), "CloneSet", name)
        .in_namespace(&shop.namespace)
        .matching("app", "web")
        .container("main", "nginx:1.25")
}

/// Strategy settings where the version has them.
fn with_strategy(set: Object, version: &str, policy: &str, settings: &Value) -> Object {
    let mut settings = settings.clone();
    if version == "v1alpha1" {
        settings["type"] = policy.into();
        return set.with("/spec/updateStrategy", settings);
    }
    settings["podUpdatePolicy"] = policy.into();
    set.with("/spec/updateStrategy", json!({"type": "RollingUpdate", "rollingUpdate": settings}))
}

/// The text with which a new CloneSet is refused.
async fn refusal(client: &Client, set: Object) -> String {
    stripped(&create(client, set, "?dryRun=All").await)
}

fn stripped(answer: &(u16, Value)) -> String {
    assert_eq!(answer.0, 422, "{answer:#?}");
    // Clients get the text alone, as OpenKruise answers.
    assert!(answer.1.get("reason").is_none(), "{answer:#?}");
    let text = message(answer).strip_prefix("admission webhook \"vcloneset.kb.io\" denied the request: ");
    text.unwrap_or_else(|| panic!("{answer:#?}")).to_owned()
}

async fn accepted(client: &Client, set: Object) -> Value {
    let (code, answer) = create(client, set, "?dryRun=All").await;
    assert_eq!(code, 201, "{answer:#}");
    answer
}

/// docs/behaviour/cloneset.md#defaulting.
#[tokio::test]
async fn defaults_are_those_of_the_version() {
    let shop = open("cloneset-defaults").await;
    let rolling = json!({"partition": 0, "maxUnavailable": "20%", "maxSurge": 0});
    for version in VERSIONS {
        let stored = accepted(&shop.client, set(&shop, version, "web")).await;
        let expected = with_strategy(set(&shop, version, "web"), version, "ReCreate", &rolling).build();
        assert_holds(&stored["spec"]["updateStrategy"], &expected["spec"]["updateStrategy"]);
        assert_holds(
            &stored["spec"],
            &json!({"replicas": 1, "revisionHistoryLimit": 10, "template": {"spec": {
                "restartPolicy": "Always", "dnsPolicy": "ClusterFirst", "schedulerName": "default-scheduler",
                "terminationGracePeriodSeconds": 30, "securityContext": {},
                "containers": [{"name": "main", "image": "nginx:1.25", "imagePullPolicy": "Always",
                    "terminationMessagePath": "/dev/termination-log", "terminationMessagePolicy": "File"}]}}}),
        );
    }
    let on_delete = set(&shop, "v1beta1", "web").with("/spec/updateStrategy", json!({"type": "OnDelete"}));
    let stored = accepted(&shop.client, on_delete).await;
    assert_eq!(stored["spec"]["updateStrategy"], json!({"type": "OnDelete"}));
}

/// Scenario 11.
#[tokio::test]
async fn budgets_are_checked() {
    let shop = open("cloneset-budgets").await;
    for version in VERSIONS {
        let refused = async |settings: Value| {
            let set = with_strategy(set(&shop, version, "web"), version, "ReCreate", &settings);
            refusal(&shop.client, set).await
        };
        let none = refused(json!({"maxUnavailable": 0, "maxSurge": 0})).await;
        assert!(none.ends_with("maxUnavailable and maxSurge should not both be less than 1"), "{none}");
        let text = refused(json!({"maxUnavailable": "5"})).await;
        assert!(text.contains("string is not a percentage"), "{text}");
        assert!(refused(json!({"partition": -1})).await.contains("partition"));
    }
}

/// Scenario 12, docs/behaviour/cloneset.md#validation: in both versions.
#[tokio::test]
async fn in_place_only_takes_no_change_that_needs_a_new_pod() {
    let shop = open("cloneset-in-place").await;
    for version in VERSIONS {
        let in_place =
            |settings: Value| with_strategy(set(&shop, version, version), version, "InPlaceOnly", &settings);
        let surge = refusal(&shop.client, in_place(json!({"maxSurge": 1}))).await;
        assert!(surge.contains("can not use maxSurge with"), "{surge}");
        let stored = Stored::create(&shop.client, in_place(json!({}))).await;
        let containers =
            |container: Value| json!({"spec": {"template": {"spec": {"containers": [container]}}}});
        let env = json!({"name": "main", "image": "nginx:1.25", "env": [{"name": "A", "value": "b"}]});
        assert_eq!(
            stripped(&stored.try_patch(&containers(env)).await),
            "spec: Forbidden: only allowed to update images in spec for InPlaceOnly, but found add /containers/0/env"
        );
        stored.patch(&containers(json!({"name": "main", "image": "nginx:1.26"}))).await;
        stored.patch(&json!({"spec": {"template": {"metadata": {"labels": {"more": "labels"}}}}})).await;
    }
}

/// Scenario 30, with what both webhooks add on the way.
#[tokio::test]
async fn an_old_object_reads_the_same_after_a_round_trip() {
    const PARALLELISM: &str = "apps.kruise.io/image-predownload-parallelism";
    let shop = open("cloneset-versions").await;
    let alpha = set(&shop, "v1alpha1", "web")
        .annotation(PARALLELISM, "5")
        .with("/spec/scaleStrategy", json!({"disablePVCReuse": true}))
        .with("/spec/updateStrategy", json!({"type": "InPlaceIfPossible"}));
    let stored = Stored::create(&shop.client, alpha).await;
    let (_, beta) = stored.in_version("v1beta1").get().await;
    assert_holds(
        &beta["spec"],
        &json!({"scaleStrategy": {"enablePVCReuse": false}, "updateStrategy": {"type": "RollingUpdate",
            "rollingUpdate": {"podUpdatePolicy": "InPlaceIfPossible",
                "inPlaceUpdateStrategy": {"imagePreDownloadParallelism": 5}}}}),
    );
    let (_, alpha) = stored.get().await;
    assert_eq!(alpha["spec"]["updateStrategy"]["type"], "InPlaceIfPossible");
    assert_eq!(alpha["spec"]["scaleStrategy"]["disablePVCReuse"], true);
    assert_eq!(alpha["metadata"]["annotations"][PARALLELISM], "5");
    // An update in the other version is accepted: defaults of one are no errors of the other.
    stored.in_version("v1beta1").patch(&json!({"spec": {"replicas": 3}})).await;
    stored.patch(&json!({"spec": {"replicas": 2}})).await;
}

/// Scenario 31, docs/behaviour/cloneset.md#validation: in both versions.
#[tokio::test]
async fn named_pods_must_be_pods_of_the_set() {
    let shop = open("cloneset-named").await;
    let foreign = pod("foreign").in_namespace(&shop.namespace).container("main", "nginx:1.25");
    Stored::create(&shop.client, foreign).await;
    for version in VERSIONS {
        let stored = Stored::create(&shop.client, set(&shop, version, version)).await;
        let own = pod_of(&shop, &stored.object).await;
        let named = async |names: &Value| {
            stored.try_patch(&json!({"spec": {"scaleStrategy": {"podsToDelete": names}}})).await
        };
        for (names, expected) in [
            (json!(["foreign"]), "find pod foreign owner is not this CloneSet"),
            (json!(["none"]), r#"find pod none failed: Pod "none" not found"#),
            (json!([own, own]), "duplicated items"),
        ] {
            let text = stripped(&named(&names).await);
            assert!(text.contains(expected), "{names}: {text}");
        }
        let (code, answer) = named(&json!([own])).await;
        assert_eq!(code, 200, "{answer:#}");
    }
}

/// The name of a Pod that the set has made.
async fn pod_of(shop: &Shop, set: &Value) -> String {
    let path = format!("/api/v1/namespaces/{}/pods", shop.namespace);
    wait_for("the CloneSet to make its Pod", async || {
        let (_, list) = call(&shop.client, "GET", &path, &Value::Null).await;
        let pods = list["items"].as_array().into_iter().flatten();
        let mut own =
            pods.filter(|pod| pod["metadata"]["ownerReferences"][0]["uid"] == set["metadata"]["uid"]);
        own.next().and_then(|pod| pod["metadata"]["name"].as_str().map(str::to_owned)).ok_or(list.clone())
    })
    .await
}

/// Scenario 32.
#[tokio::test]
async fn the_selector_stays() {
    let shop = open("cloneset-selector").await;
    for version in VERSIONS {
        let stored = Stored::create(&shop.client, set(&shop, version, version)).await;
        let other = json!({"tier": "db"});
        let change = json!({"spec": {"selector": {"matchLabels": other}, "template": {"metadata": {"labels": other}}}});
        let text = stripped(&stored.try_patch(&change).await);
        assert!(text.contains("updates to cloneset spec for fields other than"), "{text}");
    }
}

/// Scenario 33; the entry sees every delete, labelled or not.
#[tokio::test]
async fn deletes_are_protected_by_label_and_gate() {
    let site = gated().await;
    let shop = Shop::open_on(&site.server, "cloneset-kept").await;
    reviewed(&shop).await;
    for version in VERSIONS {
        let kept = set(&shop, version, version).label(PROTECTION, "Cascading").replicas(2);
        let kept = Stored::create(&shop.client, kept).await;
        let text =
            format!("forbidden by ResourcesProtectionDeletion for {PROTECTION}=Cascading and replicas 2>0");
        assert_eq!(kept.delete().await, denied("vcloneset.kb.io", 403, &text));
        kept.patch(&json!({"spec": {"replicas": 0}})).await;
        kept.deleted().await;
        let plain = Stored::create(&shop.client, set(&shop, version, "plain")).await;
        plain.deleted().await;
        plain.gone().await;
    }
}

/// docs/behaviour/cloneset.md#validation: what is meant is accepted, and stays editable in the other
/// version.
#[tokio::test]
async fn slips_of_the_reference_are_not_made() {
    let shop = open("cloneset-edges").await;
    let cases = [
        ("v1alpha1", json!({"type": "OnDelete"})),
        ("v1beta1", json!({"type": "OnDelete"})),
        ("v1beta1", json!({"type": "OnDelete", "rollingUpdate": {"partition": 1}})),
        ("v1beta1", json!({"type": "RollingUpdate", "rollingUpdate": {"maxUnavailable": 0, "maxSurge": 1}})),
        ("v1alpha1", json!({"type": "ReCreate", "maxUnavailable": 0, "maxSurge": 1})),
    ];
    for (index, (version, strategy)) in cases.into_iter().enumerate() {
        let object =
            set(&shop, version, &format!("edge-{index}")).with("/spec/updateStrategy", strategy.clone());
        let stored = Stored::create(&shop.client, object).await;
        for version in VERSIONS {
            let label = json!({"metadata": {"labels": {"touched": version}}});
            let (code, answer) = stored.in_version(version).try_patch(&label).await;
            assert_eq!(code, 200, "{strategy} in {version}: {answer:#}");
        }
    }
    for version in VERSIONS {
        let late = set(&shop, version, "late").with("/spec/progressDeadlineSeconds", 5);
        let text = refusal(&shop.client, late.with("/spec/minReadySeconds", 5)).await;
        assert!(text.ends_with("must be greater than minReadySeconds"), "{text}");
    }
}

/// docs/behaviour/cloneset.md#validation: the table's other rules reach the user.
#[tokio::test]
async fn templates_and_strategies_are_checked() {
    let shop = open("cloneset-rules").await;
    for (version, pointer, value, expected) in [
        ("v1beta1", "/spec/template/spec/restartPolicy", json!("Never"), r#"supported values: "Always""#),
        (
            "v1beta1",
            "/spec/template/spec/activeDeadlineSeconds",
            json!(3),
            "activeDeadlineSeconds in cloneset is not Supported",
        ),
        (
            "v1beta1",
            "/spec/template/spec/containers",
            json!([]),
            "spec.template.spec.containers: Required value",
        ),
        (
            "v1beta1",
            "/spec/selector/matchLabels",
            json!({"tier": "x"}),
            "`selector` does not match template `labels`",
        ),
        ("v1beta1", "/spec/updateStrategy/type", json!("ReCreate"), "must be 'RollingUpdate' or 'OnDelete'"),
        (
            "v1alpha1",
            "/spec/updateStrategy/type",
            json!("Odd"),
            "must be 'ReCreate', InPlaceIfPossible or 'InPlaceOnly'",
        ),
        (
            "v1alpha1",
            "/spec/updateStrategy/scatterStrategy",
            json!([{"key": "", "value": "v"}]),
            "key should not be empty",
        ),
    ] {
        let text = refusal(&shop.client, set(&shop, version, "web").with(pointer, value)).await;
        assert!(text.contains(expected), "{pointer}: {text}");
    }
    let (code, answer) =
        create(&shop.client, set(&shop, "v1beta1", "web").with("/spec/replicas", -1), "").await;
    assert!(code == 422 && answer["message"].as_str().unwrap().contains("-1"), "{answer:#}");
}
