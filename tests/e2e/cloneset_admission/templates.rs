//! Templates of CloneSets: what is filled in, and what is refused (scenarios 23 to 26 and
//! 29 to 32 of docs/behaviour/pod-template.md).

use kit::ApiServer;
use kit::builders::Object;
use serde_json::{Value, json};

use super::{VERSIONS, accepted, open, refusal, reviewed, set, with_strategy};
use crate::product::{self, Options, Product};
use crate::support::{Shop, Stored, assert_holds, create, in_use};

const HOST_PORTS: &str = "DefaultHostNetworkHostPortsInPodTemplates=true";

fn on_host_network(set: Object, port: &Value) -> Object {
    set.with("/spec/template/spec/hostNetwork", true).having("ports", json!([port]))
}

fn privileged(set: Object) -> Object {
    set.having("securityContext", json!({"privileged": true}))
}

/// Scenario 23.
#[tokio::test]
async fn images_of_init_containers_are_pulled_where_they_are_missing() {
    let shop = open("template-defaults").await;
    for version in VERSIONS {
        let stored =
            accepted(&shop.client, set(&shop, version, "web").init_container("first", "nginx:1.25")).await;
        let containers = json!({
            "containers": [{"imagePullPolicy": "Always", "terminationMessagePath": "/dev/termination-log"}],
            "initContainers": [{"imagePullPolicy": "IfNotPresent", "terminationMessagePath": "/dev/termination-log"}],
        });
        assert_holds(&stored["spec"]["template"]["spec"], &containers);
    }
}

/// Scenario 26.
#[tokio::test]
async fn quantities_are_rounded_up_and_claims_begin_as_pending() {
    let shop = open("template-quantities").await;
    let claim = json!([{"metadata": {"name": "data"}, "spec": {"accessModes": ["ReadWriteOnce"],
        "resources": {"requests": {"storage": "1Gi"}}}}]);
    for version in VERSIONS {
        let set = set(&shop, version, "web").having("resources", json!({"limits": {"cpu": "0.0001"}}));
        let stored = accepted(&shop.client, set.with("/spec/volumeClaimTemplates", claim.clone())).await;
        let container = &stored["spec"]["template"]["spec"]["containers"][0];
        assert_eq!(container["resources"]["limits"]["cpu"], "1m");
        let claim = &stored["spec"]["volumeClaimTemplates"][0];
        assert_eq!(claim["status"]["phase"], "Pending");
        assert!(claim["spec"].get("volumeMode").is_none(), "{claim:#}");
    }
}

/// A UnitedDeployment of one subset whose workload is this CloneSet.
fn united(set: Object, version: &str) -> Value {
    let set: Value = set.into();
    let labels = json!({"labels": set["spec"]["template"]["metadata"]["labels"]});
    json!({"apiVersion": format!("apps.kruise.io/{version}"), "kind": "UnitedDeployment", "metadata": set["metadata"],
        "spec": {"selector": set["spec"]["selector"], "topology": {"subsets": [{"name": "a"}]},
            "template": {"cloneSetTemplate": {"metadata": labels, "spec": set["spec"]}}}})
}

/// docs/behaviour/api-and-registration.md#required-members-that-are-left-out.
#[tokio::test]
async fn what_is_left_out_is_stored_as_the_empty_value() {
    let shop = open("template-required").await;
    let weights = |term: Value| json!({"weightPriority": [term]});
    let match_selector = json!({"matchLabels": {"gpu": "true"}});
    let sent = json!({"scatterStrategy": [{"key": "zone"}],
        "priorityStrategy": weights(json!({"matchSelector": match_selector}))});
    let stored = json!({"scatterStrategy": [{"key": "zone", "value": ""}],
        "priorityStrategy": weights(json!({"matchSelector": match_selector, "weight": 0}))});
    for version in VERSIONS {
        let nested = |strategy: Value| match version {
            "v1alpha1" => json!({"updateStrategy": strategy}),
            _ => json!({"updateStrategy": {"rollingUpdate": strategy}}),
        };
        let set = with_strategy(set(&shop, version, "web"), version, "ReCreate", &sent)
            .with("/spec/lifecycle/preDelete", json!({"finalizersHandler": [null]}));
        let answer = accepted(&shop.client, set.clone()).await;
        assert_holds(&answer["spec"], &nested(stored.clone()));
        assert_eq!(answer["spec"]["lifecycle"]["preDelete"]["finalizersHandler"], json!([""]));

        let (code, answer) = create(&shop.client, united(set, version), "?dryRun=All").await;
        assert_eq!(code, 201, "{answer:#}");
        assert_holds(&answer["spec"]["template"]["cloneSetTemplate"]["spec"], &nested(stored.clone()));

        let sidecars = shop.sidecar_set("scatter").container("log", "busybox:1.36");
        let mut sidecars: Value = sidecars.with("/spec/updateStrategy", sent.clone()).into();
        sidecars["apiVersion"] = format!("apps.kruise.io/{version}").into();
        let (code, answer) = create(&shop.client, sidecars, "?dryRun=All").await;
        assert_eq!(code, 201, "{answer:#}");
        assert_holds(&answer["spec"], &json!({"updateStrategy": stored}));
    }
}

/// docs/behaviour/api-and-registration.md#what-schemas-leave-to-webhooks.
#[tokio::test]
async fn numbers_have_the_bounds_of_their_format() {
    let shop = open("template-bounds").await;
    for version in VERSIONS {
        for (number, expected) in [(2_147_483_647_i64, 201), (2_147_483_648, 422), (-2_147_483_649, 422)] {
            let set = set(&shop, version, "web").with("/spec/minReadySeconds", number);
            let united = united(set.clone(), version);
            for object in [set.into(), united] {
                let (code, answer) = create(&shop.client, object, "?dryRun=All").await;
                assert_eq!(code, expected, "{number}: {answer:#}");
            }
        }
    }
}

/// Scenario 29.
#[tokio::test]
async fn containers_have_names_of_their_own() {
    let shop = open("template-names").await;
    for version in VERSIONS {
        let text = refusal(&shop.client, set(&shop, version, "web").container("main", "nginx:1.25")).await;
        assert!(text.contains("spec.template.spec.containers[1].name: Duplicate value"), "{text}");
        let advanced = set(&shop, version, "web").with("/kind", "StatefulSet");
        let advanced = advanced.container("main", "nginx:1.25").with("/spec/serviceName", "web");
        let (code, answer) = create(&shop.client, advanced, "?dryRun=All").await;
        assert_eq!(code, 201, "{answer:#}");
    }
}

/// Scenario 30.
#[tokio::test]
async fn a_selector_that_does_not_match_is_reported_at_the_labels() {
    let shop = open("template-labels").await;
    for version in VERSIONS {
        let other = set(&shop, version, "web").with("/spec/selector/matchLabels", json!({"tier": "db"}));
        let text = refusal(&shop.client, other).await;
        assert!(text.starts_with("spec.template.metadata.labels: Invalid value"), "{text}");
    }
}

/// Scenario 31, without its gate.
#[tokio::test]
async fn ports_of_the_host_are_those_of_the_container() {
    let shop = open("template-ports").await;
    for version in VERSIONS {
        let unset = on_host_network(set(&shop, version, "web"), &json!({"containerPort": 80}));
        let stored = accepted(&shop.client, unset).await;
        let port = &stored["spec"]["template"]["spec"]["containers"][0]["ports"][0];
        assert_eq!(*port, json!({"containerPort": 80, "protocol": "TCP"}));
        let other = json!({"containerPort": 80, "hostPort": 81});
        let text = refusal(&shop.client, on_host_network(set(&shop, version, "web"), &other)).await;
        assert!(text.starts_with("spec.template.spec.containers[0].ports[0].hostPort: "), "{text}");
        // What scenario 32 refuses is allowed by default.
        accepted(&shop.client, privileged(set(&shop, version, "web"))).await;
    }
}

/// Scenarios 24, 25, 31 and 32: settings of the program decide, and only what is changed afterwards follows
/// them.
#[tokio::test]
async fn templates_follow_the_settings_of_the_program_when_they_are_changed() {
    let server = product::server(kit::Options::default()).await;
    let strict = Options::default().gates("TemplateNoDefaults=true").argument("--allow-privileged=false");
    let product = Product::serve(&server, strict).await;
    in_use(&server).await;
    let shop = Shop::open_on(&server, "templates").await;
    reviewed(&shop).await;

    let mut plain = Vec::new();
    for version in VERSIONS {
        let refused = refusal(&shop.client, privileged(set(&shop, version, "web"))).await;
        let path = "spec.template.spec.containers[0].securityContext.privileged: Forbidden";
        assert!(refused.starts_with(path), "{refused}");
        let manifest = set(&shop, version, version).build();
        let stored = Stored::create(&shop.client, manifest.clone()).await;
        assert_eq!(stored.object["spec"]["template"], manifest["spec"]["template"]);
        assert_eq!(stored.object["spec"]["replicas"], 1);
        plain.push((stored, manifest["spec"]["template"].clone()));
    }
    let _product = relaxed(&server, &shop, product).await;

    for (stored, template) in plain {
        let scaled = stored.patch(&json!({"spec": {"replicas": 2}})).await;
        assert_eq!((&scaled["spec"]["replicas"], &scaled["spec"]["template"]), (&json!(2), &template));
        let mut containers = template["spec"]["containers"].clone();
        containers[0]["image"] = "nginx:1.26".into();
        let changed =
            stored.patch(&json!({"spec": {"template": {"spec": {"containers": containers}}}})).await;
        assert_holds(
            &changed["spec"]["template"]["spec"],
            &json!({"restartPolicy": "Always", "dnsPolicy": "ClusterFirst", "containers": [
                {"name": "main", "image": "nginx:1.26", "imagePullPolicy": "Always"}]}),
        );
    }
    for version in VERSIONS {
        let hosted = on_host_network(set(&shop, version, "hosted"), &json!({"containerPort": 80}));
        let hosted = accepted(&shop.client, hosted).await;
        let ports = &hosted["spec"]["template"]["spec"]["containers"][0]["ports"];
        assert_eq!(*ports, json!([{"containerPort": 80, "hostPort": 80, "protocol": "TCP"}]));
    }
}

/// The program comes back at its place without those settings, and with [`HOST_PORTS`].
async fn relaxed(server: &ApiServer, shop: &Shop, product: Product) -> Product {
    let port = product.port;
    assert!(product.stop().await.success());
    let options = Options::default().gates(HOST_PORTS).port(port);
    let mut product = Product::start(server, options).await;
    product.wait_ready().await;
    reviewed(shop).await;
    accepted(&shop.client, privileged(set(shop, "v1beta1", "web"))).await;
    product
}
