//! The plugin with the definitions of releases before it, and no server of ours.

use kit::ApiServer;
use kit::builders::{deployment, workload};
use serde_json::{Value, json};

use crate::docs::Terminal;
use crate::product;
use crate::support::fleet::{NEW, OLD, name, uid};
use crate::support::{Shop, Stored};

/// Definitions that serve `v1beta1` of these kinds alone; of all others `v1alpha1`, where they have it.
async fn install(server: &ApiServer, newer: &[&str]) {
    product::install(server).await;
    let list = server.kubectl(["get", "crds", "-o", "json"]).await.success();
    let mut list: Value = serde_json::from_str(&list).unwrap();
    for definition in list["items"].as_array_mut().unwrap() {
        let is_newer = newer.contains(&definition["spec"]["names"]["plural"].as_str().unwrap());
        let versions = definition["spec"]["versions"].as_array_mut().unwrap();
        let version = if is_newer { "v1beta1" } else { "v1alpha1" };
        if !versions.iter().any(|one| one["name"] == version) {
            continue;
        }
        for one in versions.iter_mut() {
            let is_meant = one["name"] == version;
            one["storage"] = is_meant.into();
            one["served"] = is_meant.into();
        }
        let patch = json!({"spec": {"versions": definition["spec"]["versions"], "conversion": {"strategy": "None", "webhook": null}}});
        let name = name(definition);
        server.kubectl(["patch", "crd", &name, "--type=merge", "-p", &patch.to_string()]).await.success();
    }
    server.wait_established().await;
}

/// Releases 1.6 to 1.8 of OpenKruise serve StatefulSets as `v1beta1`, and the other workloads as `v1alpha1`.
#[tokio::test]
async fn older_releases_are_served_in_their_version() {
    let server = ApiServer::start(kit::Options::default()).await;
    install(&server, &["statefulsets"]).await;
    let shop = Shop::open_on(&server, "older").await;
    let terminal = Terminal::open(&server, &shop.namespace).await;
    let prints = async |command: &str| terminal.shell(&format!("kubectl kruise {command}")).await.success();

    let strategy = json!({"type": "InPlaceIfPossible", "partition": "50%", "maxUnavailable": 1});
    let set = workload("apps.kruise.io/v1alpha1", "CloneSet", "web")
        .in_namespace(&shop.namespace)
        .matching("app", "web")
        .replicas(4)
        .container("main", OLD)
        .with("/spec/updateStrategy", strategy);
    let set = Stored::create(&shop.client, set).await;
    let status = json!({"observedGeneration": 1, "updatedReplicas": 1, "updatedReadyReplicas": 1, "replicas": 4,
        "readyReplicas": 4, "availableReplicas": 4, "updateRevision": "web-1"});
    set.patch_status(&status).await;
    assert_eq!(
        prints("rollout status clone/web --watch=false").await,
        "Waiting for partitioned roll out to finish: 1 out of 2 new pods have been updated...\n"
    );
    prints("rollout pause clone/web").await;
    assert_eq!(set.get().await.1["spec"]["updateStrategy"]["paused"], true);
    prints("set image clone/web main=nginx:1.26").await;
    assert_eq!(set.get().await.1["spec"]["template"]["spec"]["containers"][0]["image"], NEW);

    let pods = ["web-a", "web-b"];
    for pod in pods {
        let owner = json!([{"apiVersion": "apps.kruise.io/v1alpha1", "kind": "CloneSet", "name": "web", "uid": uid(&set.object), "controller": true}]);
        let pod = kit::builders::pod(pod)
            .in_namespace(&shop.namespace)
            .with("/metadata/ownerReferences", owner)
            .container("main", OLD);
        Stored::create(&shop.client, pod).await;
    }
    prints("scaledown clone/web --pods web-a,web-b").await;
    let spec = set.get().await.1["spec"].clone();
    assert_eq!((&spec["replicas"], &spec["scaleStrategy"]["podsToDelete"]), (&json!(2), &json!(pods)));

    prints("create broadcastJob now --image busybox -- true").await;
    assert_eq!(
        prints("get broadcastjobs.v1alpha1.apps.kruise.io/now -o name").await,
        "broadcastjob.apps.kruise.io/now\n"
    );
    prints("create ContainerRecreateRequest again --pod web-a").await;

    Stored::create(
        &shop.client,
        deployment("old")
            .in_namespace(&shop.namespace)
            .matching("app", "old")
            .replicas(2)
            .container("main", OLD),
    )
    .await;
    let migrate = "migrate CloneSet --from Deployment --src-name old --dst-name new --create --copy";
    prints(&format!("{migrate} -n {}", shop.namespace)).await;
    let made = prints(
        "get clonesets.v1alpha1.apps.kruise.io/new -o jsonpath='{.spec.replicas} {.spec.updateStrategy}'",
    )
    .await;
    assert!(made.starts_with("2 ") && !made.contains("rollingUpdate"), "{made}");

    let asts = workload("apps.kruise.io/v1beta1", "StatefulSet", "db")
        .in_namespace(&shop.namespace)
        .matching("app", "db")
        .replicas(1)
        .container("main", OLD);
    Stored::create(&shop.client, asts).await;
    let printed = prints("set image asts/db main=nginx:1.26").await;
    assert_eq!(printed, "statefulset.apps.kruise.io/db image updated\n");
    let absent = terminal.shell("kubectl kruise rollout pause clone/wbe").await;
    assert!(absent.stderr.contains(r#"did you mean "web"?"#), "{}", absent.stderr);
}
