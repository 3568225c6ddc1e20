//! Scenarios 12 to 22 and 39 of docs/behaviour/api-and-registration.md.

use kit::builders::{Object, workload};
use serde_json::{Value, json};

use super::{Sample, samples};
use crate::support::{Shop, Stored, direct_of, shared};

const ALPHA: &str = "apps.kruise.io/v1alpha1";
const BETA: &str = "apps.kruise.io/v1beta1";

/// Creates the object and gives it as seen in the other version.
async fn seen_in(shop: &Shop, version: &str, object: impl Into<Value>) -> Value {
    let stored = Stored::create(&shop.client, object).await;
    let (code, seen) = stored.in_version(version).get().await;
    assert_eq!(code, 200, "{seen:#}");
    seen
}

fn clone_set(shop: &Shop, api_version: &str, name: &str) -> Object {
    workload(api_version, "CloneSet", name)
        .in_namespace(&shop.namespace)
        .matching("app", "web")
        .container("main", "nginx:1.25")
}

/// The sample of this kind, to be changed.
fn sample(shop: &Shop, version: &str, kind: &str) -> Sample {
    samples(&shop.namespace, version).into_iter().find(|sample| sample.object["kind"] == kind).unwrap()
}

/// The sample with its status in the newer version. The controller would write its own status into one that is stored.
async fn in_beta(sample: Sample) -> Value {
    let (server, product) = shared().await;
    let direct = direct_of(server, product.port).await;
    let Sample { mut object, status } = sample;
    object["status"] = status;
    let review = json!({
        "apiVersion": "apiextensions.k8s.io/v1", "kind": "ConversionReview",
        "request": {"uid": "u-1", "desiredAPIVersion": BETA, "objects": [object]},
    });
    let (_, mut answer) = crate::support::call(&direct, "POST", "/convert", &review).await;
    answer["response"]["convertedObjects"][0].take()
}

/// Scenarios 12 to 14.
#[tokio::test(flavor = "multi_thread")]
async fn clone_sets_are_shown_in_the_terms_of_each_version() {
    let shop = Shop::open("clone").await;
    let timeout = "apps.kruise.io/image-predownload-timeout-seconds";
    let alpha = clone_set(&shop, ALPHA, "typed")
        .annotation(timeout, "77")
        .with("/spec/updateStrategy", json!({"type": "InPlaceOnly"}));
    let rolling = seen_in(&shop, "v1beta1", alpha).await["spec"]["updateStrategy"]["rollingUpdate"].take();
    assert_eq!(rolling["podUpdatePolicy"], "InPlaceOnly");
    assert_eq!(rolling["inPlaceUpdateStrategy"]["imagePreDownloadTimeoutSeconds"], 77);

    for reuse in [true, false] {
        let beta = clone_set(&shop, BETA, &format!("reuse-{reuse}"))
            .with("/spec/scaleStrategy", json!({"enablePVCReuse": reuse}));
        let seen = seen_in(&shop, "v1alpha1", beta).await;
        let disabled = seen["spec"]["scaleStrategy"]["disablePVCReuse"].as_bool();
        assert_eq!(disabled.unwrap_or(false), !reuse, "{seen:#}");
    }

    let label = "apps.kruise.io/cloneset-scaling-exclude-preparing-delete";
    let seen = seen_in(&shop, "v1beta1", clone_set(&shop, ALPHA, "labelled").label(label, "true")).await;
    assert_eq!(seen["spec"]["scaleStrategy"]["excludePreparingDelete"], true);
    assert_eq!(seen["metadata"]["labels"][label], "true");
}

/// Scenario 15.
#[tokio::test(flavor = "multi_thread")]
async fn a_sidecar_set_keeps_its_namespace_and_version() {
    let shop = Shop::open("sidecar").await;
    let label = "apps.kruise.io/sidecarset-custom-version";
    let alpha = Stored::create(&shop.client, sample(&shop, "v1alpha1", "SidecarSet").object).await;
    let (_, beta) = alpha.in_version("v1beta1").get().await;
    let selector = json!({"matchLabels": {"kubernetes.io/metadata.name": shop.namespace}});
    assert_eq!(beta["spec"]["namespaceSelector"], selector);
    assert_eq!(beta["spec"]["customVersion"], "v2");
    assert!(beta["metadata"]["labels"].get(label).is_none(), "{beta:#}");
    let (_, alpha) = alpha.get().await;
    assert_eq!(alpha["metadata"]["labels"][label], "v2");
    assert_eq!(alpha["spec"]["namespace"], json!(shop.namespace));
}

/// Scenario 16.
#[tokio::test(flavor = "multi_thread")]
async fn a_daemon_set_of_old_is_shown_with_its_new_names() {
    let shop = Shop::open("daemon").await;
    let alpha = sample(&shop, "v1alpha1", "DaemonSet");
    let beta = seen_in(&shop, "v1beta1", alpha.object.clone()).await;
    assert_eq!(beta["spec"]["scaleStrategy"]["partitionedScaling"], true);
    assert_eq!(beta["spec"]["updateStrategy"]["rollingUpdate"]["rollingUpdateType"], "Standard");
    assert_eq!(in_beta(alpha).await["status"]["updateRevision"], "h");
}

/// Scenario 17.
#[tokio::test(flavor = "multi_thread")]
async fn scaling_in_the_old_version_loses_nothing() {
    let shop = Shop::open("scale").await;
    let beta = sample(&shop, "v1beta1", "StatefulSet").create(&shop.client).await;
    let (_, before) = beta.get().await;
    let (_, alpha) = beta.in_version("v1alpha1").get().await;
    assert!(alpha["spec"].get("reserveOrdinals").is_none(), "{alpha:#}");
    let scale =
        Stored::existing(&shop.client, format!("{}/scale", beta.in_version("v1alpha1").path), Value::Null);
    assert_eq!(scale.patch(&json!({"spec": {"replicas": 7}})).await["spec"]["replicas"], 7);
    let (_, after) = beta.get().await;
    assert_eq!(after["spec"]["replicas"], 7);
    let mut expected = before["spec"].clone();
    expected["replicas"] = json!(7);
    assert_eq!(after["spec"], expected);

    let name =
        format!("statefulset.v1alpha1.apps.kruise.io/{}", beta.object["metadata"]["name"].as_str().unwrap());
    let server = shared().await.0;
    server.kubectl(["scale", &name, "--replicas=2", "-n", &shop.namespace]).await.success();
    let (_, after) = beta.get().await;
    assert_eq!((&after["spec"]["replicas"], &after["spec"]["reserveOrdinals"]), (&json!(2), &json!([1])));
}

/// Scenarios 18 and 19.
#[tokio::test(flavor = "multi_thread")]
async fn status_conditions_are_shown_in_the_terms_of_each_version() {
    let shop = Shop::open("status").await;
    let request = sample(&shop, "v1beta1", "ContainerRecreateRequest").create(&shop.client).await;
    let (_, alpha) = request.in_version("v1alpha1").get().await;
    let acquired = &alpha["metadata"]["annotations"]["crr.apps.kruise.io/unready-acquired"];
    assert_eq!(acquired, "2024-05-06T07:08:09Z");

    let beta = in_beta(sample(&shop, "v1alpha1", "WorkloadSpread")).await;
    let subset = &beta["spec"]["subsets"][0];
    assert_eq!(subset["requiredNodeSelector"]["matchExpressions"][0]["key"], "zone");
    assert!(subset.get("requiredNodeSelectorTerm").is_none(), "{subset:#}");
    assert_eq!(beta["status"]["subsetStatuses"][0]["conditions"][0]["reason"], "Unknown");
}

/// Scenario 20, as decided: a patch in the old version keeps what it does not know.
#[tokio::test(flavor = "multi_thread")]
async fn a_cron_job_of_image_lists_survives_a_patch_in_the_old_version() {
    let shop = Shop::open("cron").await;
    let beta = sample(&shop, "v1beta1", "AdvancedCronJob").create(&shop.client).await;
    let (_, before) = beta.get().await;
    beta.in_version("v1alpha1").patch(&json!({"spec": {"paused": true}})).await;
    let (_, after) = beta.get().await;
    assert_eq!(after["spec"]["paused"], true);
    assert_eq!(after["spec"]["template"], before["spec"]["template"]);
}

/// Validation refuses such a budget (docs/behaviour/podunavailablebudget.md#validation). What is stored so all the same
/// must not stop the lists of its kind.
#[tokio::test(flavor = "multi_thread")]
async fn a_budget_with_an_unknown_operation_can_still_be_read_in_both_versions() {
    let (server, product) = shared().await;
    let direct = direct_of(server, product.port).await;
    let mut object = json!({
        "apiVersion": "policy.kruise.io/v1alpha1", "kind": "PodUnavailableBudget",
        "metadata": {"name": "web", "annotations": {"kruise.io/pub-protect-operations": "FOO"}},
        "spec": {"selector": {"matchLabels": {"app": "web"}}, "maxUnavailable": 1},
    });
    for version in ["policy.kruise.io/v1beta1", "policy.kruise.io/v1alpha1"] {
        let review = json!({
            "apiVersion": "apiextensions.k8s.io/v1", "kind": "ConversionReview",
            "request": {"uid": "u-1", "desiredAPIVersion": version, "objects": [object]},
        });
        let (code, mut answer) = crate::support::call(&direct, "POST", "/convert", &review).await;
        assert_eq!((code, &answer["response"]["result"]["status"]), (200, &json!("Success")));
        object = answer["response"]["convertedObjects"][0].take();
        let annotation = &object["metadata"]["annotations"]["kruise.io/pub-protect-operations"];
        assert_eq!(annotation, "FOO", "{version}: {object}");
    }
}

/// Scenario 22.
#[tokio::test(flavor = "multi_thread")]
async fn one_object_that_cannot_be_converted_fails_the_review() {
    let (server, product) = shared().await;
    let direct = direct_of(server, product.port).await;
    let object =
        |kind: &str| json!({"apiVersion": ALPHA, "kind": kind, "metadata": {"name": "a"}, "spec": {}});
    let review = json!({
        "apiVersion": "apiextensions.k8s.io/v1", "kind": "ConversionReview",
        "request": {"uid": "u-1", "desiredAPIVersion": BETA, "objects": [object("CloneSet"), object("Frob")]},
    });
    let (code, answer) = crate::support::call(&direct, "POST", "/convert", &review).await;
    assert_eq!(code, 200);
    assert_eq!(answer["response"]["uid"], "u-1");
    assert_eq!(answer["response"]["result"]["status"], "Failure");
    assert_eq!(answer["response"]["convertedObjects"], Value::Null);
}

/// Scenario 39.
#[tokio::test(flavor = "multi_thread")]
async fn kubectl_knows_short_names_and_columns() {
    let shop = Shop::open("columns").await;
    for sample in samples(&shop.namespace, "v1beta1") {
        sample.create(&shop.client).await;
    }
    let job = json!({
        "apiVersion": ALPHA, "kind": "EphemeralJob", "metadata": {"name": "job", "namespace": shop.namespace},
        "spec": {"selector": {"matchLabels": {"app": "a"}}, "template": {"ephemeralContainers": [{"name": "e", "image": "busybox"}]}},
    });
    Stored::create(&shop.client, job).await;
    let server = shared().await.0;
    for (short_name, columns) in [
        (
            "clone",
            "NAME DESIRED UPDATED UPDATED_READY UPDATED_AVAILABLE READY TOTAL AGE CONTAINERS IMAGES SELECTOR",
        ),
        ("asts", "NAME DESIRED CURRENT UPDATED READY AGE CONTAINERS IMAGES"),
        ("ads", "NAME DESIRED CURRENT READY UP-TO-DATE AVAILABLE AGE CONTAINERS IMAGES"),
        ("daemon", "NAME DESIRED CURRENT READY UP-TO-DATE AVAILABLE AGE CONTAINERS IMAGES"),
        ("ud", "NAME DESIRED CURRENT UPDATED READY AGE"),
        ("ws", "NAME WORKLOADNAME WORKLOADKIND ADAPTIVE AGE"),
        ("pub", "NAME ALLOWED CURRENT DESIRED TOTAL"),
        ("acj", "NAME SCHEDULE TYPE LASTSCHEDULETIME AGE"),
        ("bcj", "NAME DESIRED ACTIVE SUCCEEDED FAILED AGE"),
        ("crr", "NAME PHASE POD NODE AGE"),
        ("ejob", "NAME STATUS MATCH SUCCEED FAILED RUNNING WAITING AGE"),
        ("distributor", "NAME TOTAL SUCCEED FAILED"),
        ("imagepulljobs", "NAME TOTAL ACTIVE SUCCEED FAILED AGE"),
        ("imagepulljobs.v1alpha1.apps.kruise.io", "NAME TOTAL ACTIVE SUCCEED FAILED AGE MESSAGE"),
        ("imagelistpulljobs", "NAME TOTAL SUCCEEDED COMPLETED AGE"),
        ("nodeimages", "NAME DESIRED PULLING SUCCEED FAILED AGE"),
        ("persistentpodstates", "NAME AGE"),
        ("sidecarsets", "NAME MATCHED UPDATED READY AGE"),
    ] {
        let shown = server.kubectl(["get", short_name, "-o", "wide", "-n", &shop.namespace]).await.success();
        let head: Vec<&str> = shown.lines().next().unwrap_or_default().split_whitespace().collect();
        assert_eq!(head.join(" "), columns, "{short_name}");
    }
    let all = "clone,asts,ads,ud,ws,pub,acj,bcj,crr,ejob,distributor";
    let shown = server.kubectl(["get", all, "-o", "name", "-n", &shop.namespace]).await.success();
    let mut kinds: Vec<&str> = shown.lines().filter_map(|line| line.split('/').next()).collect();
    kinds.dedup();
    let expected = [
        "cloneset.apps",
        "statefulset.apps",
        "daemonset.apps",
        "uniteddeployment.apps",
        "workloadspread.apps",
        "podunavailablebudget.policy",
        "advancedcronjob.apps",
        "broadcastjob.apps",
        "containerrecreaterequest.apps",
        "ephemeraljob.apps",
        "resourcedistribution.apps",
    ];
    assert_eq!(kinds, expected.map(|kind| format!("{kind}.kruise.io")));
}
