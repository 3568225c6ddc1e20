//! Templates that the API server judges by its own rules (docs/behaviour/pod-template.md#what-the-cluster-judges).

use axum::http::Request;
use kit::builders::{Object, object, workload};
use kit::{ApiServer, wait_for};
use kube::client::Body;
use serde_json::{Value, json};

use crate::product::{self, NAMESPACE, Options, Product};
use crate::support::{Shop, Stored, collection, create, message};

const BETA: &str = "apps.kruise.io/v1beta1";

/// A workload of a namespace whose Pod template is at `/spec/template`.
fn plain(shop: &Shop, kind: &str) -> Object {
    let workload = workload(BETA, kind, "web").in_namespace(&shop.namespace).container("main", "nginx:1.25");
    match kind {
        "BroadcastJob" => workload.with("/spec/template/spec/restartPolicy", "Never"),
        _ => workload.matching("app", "web"),
    }
}

fn cron_job(shop: &Shop, member: &str) -> Object {
    let pod = json!({"restartPolicy": "Never", "containers": [{"name": "main", "image": "busybox:1.36"}]});
    let spec =
        json!({"schedule": "*/1 * * * *", "template": {member: {"spec": {"template": {"spec": pod}}}}});
    object(BETA, "AdvancedCronJob", "report").in_namespace(&shop.namespace).with("/spec", spec)
}

fn united(shop: &Shop) -> Object {
    let labels = json!({"labels": {"app": "web"}});
    let pods = json!({"metadata": labels, "spec": {"containers": [{"name": "main", "image": "nginx:1.25"}]}});
    let selector = json!({"matchLabels": {"app": "web"}});
    let template =
        json!({"deploymentTemplate": {"metadata": labels, "spec": {"selector": selector, "template": pods}}});
    let spec = json!({"replicas": 1, "selector": selector, "template": template, "topology": {"subsets": [{"name": "a"}]}});
    object(BETA, "UnitedDeployment", "web").in_namespace(&shop.namespace).with("/spec", spec)
}

fn sidecars(shop: &Shop) -> Object {
    let set =
        shop.sidecar_set("judged").container("log", "busybox:1.36").init_container("first", "busybox:1.36");
    set.with("/spec/volumes", json!([{"name": "spool"}]))
}

/// The text with which an object is refused, once the API server asks about its kind.
async fn refusal(shop: &Shop, manifest: Object) -> String {
    let manifest: Value = manifest.into();
    wait_for("a refusal", async || match create(&shop.client, manifest.clone(), "?dryRun=All").await {
        answer @ (400.., _) => Ok(message(&answer).to_owned()),
        (_, answer) => Err(answer),
    })
    .await
}

/// Creates an object and gives the warnings that come with it.
async fn warnings(shop: &Shop, manifest: &Value) -> String {
    let path = format!("{}?dryRun=All", collection(manifest));
    let request = Request::post(path).header("content-type", "application/json");
    let body = Body::from(serde_json::to_vec(manifest).unwrap());
    let answer = shop.client.send(request.body(body).unwrap()).await.unwrap();
    assert_eq!(answer.status(), 201);
    let headers = answer.headers().get_all("warning").iter();
    headers.map(|warning| warning.to_str().unwrap()).collect::<Vec<_>>().join("\n")
}

#[tokio::test]
async fn each_kind_is_refused_in_the_words_of_the_api_server() {
    let shop = Shop::open("templates-kinds").await;
    let word = "Unsupported value: \"X\"";
    for (manifest, template) in [
        (plain(&shop, "CloneSet"), "spec.template"),
        (plain(&shop, "DaemonSet"), "spec.template"),
        (plain(&shop, "BroadcastJob"), "spec.template"),
        (cron_job(&shop, "jobTemplate"), "spec.template.jobTemplate.spec.template"),
        (cron_job(&shop, "broadcastJobTemplate"), "spec.template.broadcastJobTemplate.spec.template"),
        (united(&shop), "spec.template.deploymentTemplate.spec.template"),
    ] {
        let pointer = format!("/{}/spec/dnsPolicy", template.replace('.', "/"));
        let text = refusal(&shop, manifest.with(&pointer, "X")).await;
        assert!(text.contains(&format!("{template}.spec.dnsPolicy: {word}")), "{text}");
    }
    let two = json!([{"name": "spool", "emptyDir": {}, "secret": {"secretName": "a"}}]);
    let text = refusal(&shop, sidecars(&shop).with("/spec/volumes", two)).await;
    assert!(
        text.contains("spec.volumes[0].secret: Forbidden: may not specify more than 1 volume type"),
        "{text}"
    );
    for list in ["containers", "initContainers"] {
        let unknown = json!([{"name": "A", "valueFrom": {}}]);
        let text = refusal(&shop, sidecars(&shop).with(&format!("/spec/{list}/0/env"), unknown)).await;
        assert!(text.contains(&format!("spec.{list}[0].env[0].valueFrom: Invalid value")), "{text}");
    }
}

#[tokio::test]
async fn all_parts_of_a_template_are_judged() {
    let shop = Shop::open("templates-parts").await;
    for (pointer, value, expected) in [
        (
            "containers/0/env",
            json!([{"name": "A", "valueFrom": {}}]),
            "containers[0].env[0].valueFrom: Invalid value: ",
        ),
        (
            "containers/0/livenessProbe",
            json!({"exec": {"command": ["a"]}, "tcpSocket": {"port": 80}}),
            "containers[0].livenessProbe.tcpSocket: Forbidden: may not specify more than 1 handler type",
        ),
        (
            "containers/0/lifecycle",
            json!({"preStop": {"sleep": {"seconds": 31}}}),
            "containers[0].lifecycle.preStop.sleep: Invalid value: 31: ",
        ),
        (
            "containers/0/resources",
            json!({"limits": {"disk": "1"}}),
            "containers[0].resources.limits[disk]: Invalid value: \"disk\": ",
        ),
        (
            "containers/0/securityContext",
            json!({"privileged": true, "allowPrivilegeEscalation": false}),
            "containers[0].securityContext: Invalid value: ",
        ),
        ("volumes", json!([{"name": "a", "secret": {}}]), "volumes[0].secret.secretName: Required value"),
        (
            "tolerations",
            json!([{"key": "a", "operator": "Like"}]),
            "tolerations[0].operator: Unsupported value: \"Like\"",
        ),
        (
            "topologySpreadConstraints",
            json!([{"topologyKey": "zone", "whenUnsatisfiable": "DoNotSchedule"}]),
            "topologySpreadConstraints[0].maxSkew: Invalid value: 0: must be greater than zero",
        ),
        ("serviceAccountName", json!("A"), "serviceAccountName: Invalid value: \"A\": "),
        ("ephemeralContainers", json!([{"name": "e", "image": "a"}]), "ephemeralContainers: Forbidden: "),
    ] {
        let set = plain(&shop, "CloneSet").with(&format!("/spec/template/spec/{pointer}"), value);
        let text = refusal(&shop, set).await;
        assert!(text.contains(&format!("spec.template.spec.{expected}")), "{text}");
    }
}

#[tokio::test]
async fn patches_of_subsets_are_judged_on_the_template_of_their_target() {
    let shop = Shop::open("templates-patches").await;
    Stored::create(&shop.client, plain(&shop, "CloneSet")).await;
    let spread = |patch: Value| {
        let target = json!({"apiVersion": BETA, "kind": "CloneSet", "name": "web"});
        let subsets = json!([{"name": "a"}, {"name": "b", "patch": patch}]);
        object(BETA, "WorkloadSpread", "web")
            .in_namespace(&shop.namespace)
            .with("/spec", json!({"targetRef": target, "subsets": subsets}))
    };
    let patch = |env: Value| json!({"spec": {"containers": [{"name": "main", "env": [env]}]}});
    let text = refusal(&shop, spread(patch(json!({"name": "A", "valueFrom": {}})))).await;
    let expected = "spec.subsets[1].patch.spec.containers[0].env[0].valueFrom: Invalid value";
    assert!(text.contains(expected), "{text}");
    let text = warnings(&shop, &spread(patch(json!({"name": "A", "value": "b"}))).build()).await;
    assert!(!text.contains("judged"), "{text}");
}

#[tokio::test]
async fn what_pods_can_have_is_accepted() {
    let shop = Shop::open("templates-sound").await;
    refusal(&shop, plain(&shop, "CloneSet").with("/spec/template/spec/dnsPolicy", "X")).await;
    let claim = json!([{"metadata": {"name": "data"}, "spec": {"accessModes": ["ReadWriteOnce"],
        "resources": {"requests": {"storage": "1Gi"}}}}]);
    let mount = json!([{"name": "data", "mountPath": "/data"}]);
    let claiming =
        plain(&shop, "CloneSet").having("volumeMounts", mount).with("/spec/volumeClaimTemplates", claim);
    let text = warnings(&shop, &claiming.build()).await;
    assert!(!text.contains("spec.template"), "{text}");
    let cost =
        plain(&shop, "CloneSet").template_annotation("controller.kubernetes.io/pod-deletion-cost", "much");
    let text = warnings(&shop, &cost.build()).await;
    assert!(
        text.contains("spec.template.annotations[controller.kubernetes.io/pod-deletion-cost]: "),
        "{text}"
    );
    // What a sidecar alone can't show is left to the Pods that it comes to.
    let hooked =
        sidecars(&shop).with("/spec/containers/0/lifecycle", json!({"preStop": {"sleep": {"seconds": 600}}}));
    let probed = hooked.with("/spec/containers/0/startupProbe", json!({"httpGet": {"port": 80}}));
    let ported = probed.with("/spec/containers/0/ports", json!([{"containerPort": 80, "hostPort": 81}]));
    let host = json!({"windowsOptions": {"hostProcess": true}});
    for set in [ported.clone(), ported.with("/spec/containers/0/securityContext", host)] {
        let text = warnings(&shop, &set.build()).await;
        assert!(!text.contains("judged"), "{text}");
    }
    let mut init_alone: Value = sidecars(&shop).into();
    init_alone["spec"].as_object_mut().unwrap().remove("containers");
    let text = warnings(&shop, &init_alone).await;
    assert!(!text.contains("judged"), "{text}");
}

/// The program has the rights that the chart gives it, but for this one.
#[tokio::test]
async fn without_the_right_to_try_a_write_passes_with_a_warning() {
    let server = ApiServer::start(kit::Options::default()).await;
    let manifests = product::run(&["manifests", "--crds"]).await.success();
    let right = "- apiGroups: [\"\"]\n  resources: [podtemplates]\n  verbs: [create]\n";
    assert!(manifests.contains(right));
    let manifests = manifests.replace(right, "");
    server.apply_yaml(&manifests).await;
    let user = format!("system:serviceaccount:{NAMESPACE}:kruise-manager");
    let options = Options::default().user(&user).environment("WEBHOOK_HOST", "127.0.0.1");
    let mut product = Product::start(&server, options.argument("--webhooks-only")).await;
    product.wait_ready().await;
    let shop = Shop::open_on(&server, "templates-unjudged").await;
    let wrong = plain(&shop, "CloneSet").with("/spec/template/spec/dnsPolicy", "X");
    let manifest = wrong.clone().build();
    wait_for("a warning", async || {
        let text = warnings(&shop, &manifest).await;
        let is_forbidden = text.contains("cannot create resource") && text.contains("podtemplates");
        if text.contains("spec.template is not judged by the API server") && is_forbidden {
            Ok(())
        } else {
            Err(text)
        }
    })
    .await;
    let stored = Stored::create(&shop.client, wrong).await;
    stored.patch(&json!({"spec": {"replicas": 2}})).await;
}
