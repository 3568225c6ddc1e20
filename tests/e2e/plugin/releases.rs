//! The plugin with the definitions of releases before it, and no server of ours.

use kit::ApiServer;
use kit::builders::{deployment, object, workload};
use serde_json::json;

use super::undisturbed;
use crate::docs::Terminal;
use crate::product;
use crate::support::fleet::{NEW, OLD, uid};
use crate::support::{Shop, Stored};

/// Definitions that serve `v1beta1` of these kinds alone; of all others `v1alpha1`, where they have it.
pub async fn install(server: &ApiServer, newer: &[&str]) {
    product::install_with(server, |definition| {
        let is_newer = newer.contains(&definition["spec"]["names"]["plural"].as_str().unwrap());
        let versions = definition["spec"]["versions"].as_array_mut().unwrap();
        let version = if is_newer { "v1beta1" } else { "v1alpha1" };
        if !versions.iter().any(|one| one["name"] == version) {
            return;
        }
        for one in versions.iter_mut() {
            let is_meant = one["name"] == version;
            one["storage"] = is_meant.into();
            one["served"] = is_meant.into();
        }
        definition["spec"]["conversion"] = json!({"strategy": "None"});
    })
    .await;
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

/// Nobody but the plugin writes here, so that the resourceVersion says whether it wrote.
#[tokio::test]
async fn a_dry_run_and_a_skipped_rollback_write_nothing() {
    let server = undisturbed().await;
    let shop = Shop::open_on(&server, "undone").await;
    let terminal = Terminal::open(&server, &shop.namespace).await;
    for (kind, short) in [("CloneSet", "clone"), ("StatefulSet", "asts"), ("DaemonSet", "ads")] {
        let set = Stored::create(&shop.client, with_history(&shop, kind, short)).await;
        for (number, image) in (1..).zip(["nginx:1.24", OLD, NEW]) {
            let mut template = set.object["spec"]["template"].clone();
            template["spec"]["containers"][0]["image"] = image.into();
            let owner = json!([{"apiVersion": "apps.kruise.io/v1beta1", "kind": kind, "name": short, "uid": uid(&set.object), "controller": true}]);
            let revision = object("apps/v1", "ControllerRevision", &format!("{short}-{number}"))
                .in_namespace(&shop.namespace)
                .with("/metadata/ownerReferences", owner)
                .with("/metadata/annotations", json!({"kubernetes.io/change-cause": format!("to {image}")}))
                .with("/data", json!({"spec": {"template": template}}))
                .with("/revision", number);
            Stored::create(&shop.client, revision).await;
        }
        let prints = async |command: &str| {
            terminal.shell(&format!("kubectl kruise rollout {command}")).await.success()
        };
        let version = async || set.get().await.1["metadata"]["resourceVersion"].clone();
        let word = format!("{}.apps.kruise.io/{short}", kind.to_lowercase());
        let table = "REVISION  CHANGE-CAUSE\n1         to nginx:1.24\n2         to nginx:1.25\n3         to nginx:1.26\n\n";
        assert_eq!(prints(&format!("history {short}/{short}")).await, format!("{word} \n{table}"));
        let named = prints(&format!("history {short}/{short} --revision 2 -o name")).await;
        assert_eq!(named, format!("controllerrevision.apps/{short}-2\n"));

        let before = version().await;
        let shown = prints(&format!("undo {short}/{short} --dry-run=client")).await;
        assert!(shown.starts_with(&format!("{word} will roll back to Pod Template:\n")), "{shown}");
        assert!(shown.contains(OLD) && shown.ends_with("(dry run)\n"), "{shown}");
        let shown = prints(&format!("undo {short}/{short} --dry-run=server")).await;
        assert_eq!(shown, format!("{word} rolled back (server dry run)\n"));
        let skipped = prints(&format!("undo {short}/{short} --to-revision 3")).await;
        let reason = "skipped rollback (current template already matches revision 3)";
        assert_eq!(skipped, format!("{word} {reason}\n"));
        assert_eq!(version().await, before, "{kind}");

        // A restart changes one variable; what this build doesn't know stays as it is, to the byte.
        let unknown =
            format!("kubectl get {word} -o jsonpath='{{.spec.template.spec.containers[0].fieldOfTomorrow}}'");
        let untouched = terminal.shell(&unknown).await.success();
        assert!(untouched.contains("1.5"), "{untouched}");
        assert_eq!(prints(&format!("restart {short}/{short}")).await, format!("{word} restarted\n"));
        assert_eq!(terminal.shell(&unknown).await.success(), untouched);
        assert_eq!(
            prints(&format!("undo {short}/{short} --to-revision 1")).await,
            format!("{word} rolled back\n")
        );
        let live = set.get().await.1["spec"]["template"]["spec"]["containers"][0].clone();
        assert_eq!((&live["image"], &live["env"]), (&json!("nginx:1.24"), &json!(null)));
    }
}

/// A workload of this kind, at its newest revision.
fn with_history(shop: &Shop, kind: &str, name: &str) -> kit::builders::Object {
    workload("apps.kruise.io/v1beta1", kind, name)
        .in_namespace(&shop.namespace)
        .matching("app", name)
        .container("main", NEW)
        .with("/spec/template/spec/containers/0/fieldOfTomorrow", json!({"n": 1.50, "text": "1.50"}))
}
