//! What `kubectl kruise` makes, lists, enters and completes.

use kit::wait_for;
use serde_json::{Value, json};

use super::{Desk, clone_set};
use crate::support::fleet::name;
use crate::support::{Shop, Stored, call, shared};

/// Kinds that are not installed, or that may not be listed, are reported and passed over.
#[tokio::test]
async fn every_kind_that_is_installed_is_listed() {
    let desk = Desk::open(1, json!({})).await;
    let other = Shop::open("plugin-other").await;
    Stored::create(&other.client, clone_set(&other, "elsewhere", 0, json!({}))).await;
    let output = desk.terminal.shell("kubectl kruise get all").await;
    assert!(output.stderr.contains("rollouts.rollouts.kruise.io"), "{}", output.stderr);
    assert!(output.stdout.contains("cloneset.apps.kruise.io/web"), "{}", output.stdout);
    assert!(output.status.success());
    let names = desk.prints("kubectl kruise get all -o name").await;
    assert!(names.contains("cloneset.apps.kruise.io/web\n"), "{names}");
    assert!(!output.stderr.contains("game.kruise.io"), "{}", output.stderr);
    let namespace = &other.namespace;
    for words in
        [format!("-n {namespace} get all -o name"), format!("get all -o name --namespace={namespace}")]
    {
        let names = desk.prints(&format!("kubectl kruise {words}")).await;
        assert!(names.contains("/elsewhere\n") && !names.contains("/web\n"), "{names}");
    }
    desk.prints("kubectl create role lister --verb=list --resource=clonesets.apps.kruise.io").await;
    desk.prints("kubectl create rolebinding lister --role=lister --user=lister").await;
    let lister = "--as=lister --as-group=system:authenticated";
    desk.may(&format!("list clonesets.apps.kruise.io {lister}")).await;
    let output = desk.terminal.shell(&format!("kubectl kruise get all -o name {lister}")).await;
    assert!(output.status.success(), "{}", output.stderr);
    assert!(output.stdout.contains("/web\n"), "{}", output.stdout);
    let reported = output.stderr.lines().filter(|line| line.starts_with("not listed: "));
    assert!(reported.clone().any(|line| line.contains("statefulsets.apps.kruise.io")), "{}", output.stderr);
    assert!(!reported.clone().any(|line| line.contains("clonesets")), "{}", output.stderr);
    // It asks kubectl once for each kind: all of them end.
    let follow = "out=$(mktemp); trap 'rm $out' EXIT; setsid kubectl kruise get all -o name -w > $out & \
                  until grep -qx cloneset.apps.kruise.io/web $out; do kill -0 $!; sleep 0.1; done; kill -- -$!";
    desk.prints(follow).await;
    let pods = desk.prints("kubectl kruise get pods -o name").await;
    assert_eq!(pods.trim(), format!("pod/{}", desk.fleet.names().await[0]));
}

/// Verbs, kinds, names, containers and revisions.
#[tokio::test]
async fn words_are_completed() {
    let desk = Desk::open(1, json!({})).await;
    for (words, expected) in [
        ("rollout st", "status\n:4\n"),
        ("rollout status clone/", "clone/web\n:4\n"),
        ("rollout status cloneset ''", "web\n:4\n"),
        ("set image clone/web m", "main=\n:6\n"),
        ("rollout undo clone/web --to-revision ''", "1\n:4\n"),
        ("rollout status nothing/", ":4\n"),
        ("rollout approve ''", "rollouts\n:4\n"),
        ("rollout history d", "daemonsets.apps.kruise.io\n:4\n"),
        ("describe rollout x", ":4\n"),
    ] {
        // Nobody waits for long after a key: a slow answer is none.
        wait_for(words, async || match desk.prints(&format!("kubectl_complete-kruise {words}")).await {
            offered if offered == expected => Ok(()),
            offered => Err(offered),
        })
        .await;
    }
    let words = "kubectl __complete kruise rollout status clone/";
    wait_for(words, async || match desk.prints(words).await {
        offered if offered.contains("clone/web") => Ok(()),
        offered => Err(offered),
    })
    .await;
    for shell in ["bash", "zsh", "fish", "powershell"] {
        let script = desk.prints(&format!("kubectl kruise completion {shell}")).await;
        assert!(script.contains("kubectl-kruise"), "{shell}");
    }
}

/// As far as it goes without a kubelet.
#[tokio::test]
async fn the_container_of_a_sidecar_is_found() {
    let desk = Desk::open(1, json!({})).await;
    let pod = desk.fleet.names().await.remove(0);
    let working = r#"{"agent":"agent-2"}"#;
    desk.fleet.annotate(&pod, "kruise.io/sidecarset-working-hotupgrade-container", working).await;
    let output = desk.fails(&format!("kubectl kruise exec {pod} -S nosuch -- true")).await;
    assert!(output.stderr.contains("there are: agent"), "{}", output.stderr);
    desk.prints("kubectl kruise expose clone/web --port 80").await;
    for target in ["clone/web", "svc/web", &format!("po/{pod}")] {
        let output = desk.fails(&format!("kubectl kruise exec {target} -S agent -- true")).await;
        let entered = "Enter working container agent-2 of SidecarSet.\n";
        assert!(output.stderr.starts_with(entered), "{target}: {}", output.stderr);
    }
    let output = desk.fails("kubectl kruise exec deploy/nosuch -S agent -- true").await;
    assert!(output.stderr.contains("deploy/nosuch was not found"), "{}", output.stderr);
}

#[tokio::test]
async fn objects_are_made_of_a_few_words() {
    let desk = Desk::open(1, json!({})).await;
    let shop = &desk.fleet.shop;
    let stored = |plural: &str, name: &str| {
        let path = format!("/apis/apps.kruise.io/v1beta1/namespaces/{}/{plural}/{name}", shop.namespace);
        Stored::existing(&shop.client, path, Value::Null)
    };
    let pod = desk.fleet.names().await.remove(0);
    let printed = desk
        .prints(&format!("kubectl kruise create ContainerRecreateRequest again -p {pod} --containers main"))
        .await;
    assert_eq!(printed, "containerrecreaterequest.apps.kruise.io/again created\n");
    let request = stored("containerrecreaterequests", "again").get().await.1;
    assert_eq!(request["spec"]["containers"][0]["name"], "main");
    let output = desk.fails(&format!("kubectl kruise restart {pod} -c none")).await;
    assert!(output.stderr.contains(r#"container "none" not found in pod"#), "{}", output.stderr);

    let template = json!({"spec": {"template": {"spec": {"restartPolicy": "Never", "containers": [{"name": "main", "image": "busybox"}]}}}});
    let cron_job = json!({"apiVersion": "apps.kruise.io/v1beta1", "kind": "AdvancedCronJob",
        "metadata": {"name": "night", "namespace": shop.namespace},
        "spec": {"schedule": "0 0 30 2 *", "template": {"broadcastJobTemplate": template}}});
    Stored::create(&shop.client, cron_job).await;
    let printed = desk.prints("kubectl kruise create broadcastJob now --from acj/night").await;
    assert_eq!(printed, "broadcastjob.apps.kruise.io/now created\n");
    let job = stored("broadcastjobs", "now").get().await.1;
    assert_eq!(job["metadata"]["annotations"]["cronjob.kubernetes.io/instantiate"], "manual");
    assert_eq!(job["metadata"]["ownerReferences"][0]["name"], "night");
    let output = desk.fails("kubectl kruise create job now --from acj/night").await;
    assert!(output.stderr.contains("from must be a job template, but got BroadcastJob"), "{}", output.stderr);
    desk.prints("kubectl kruise create job once --image busybox -- true").await;
    for kind in ["job", "broadcastJob"] {
        let command = format!("kubectl kruise create {kind} other --from acj/night -- true");
        let output = desk.fails(&command).await;
        assert!(output.stderr.contains("cannot specify --from and command"), "{}", output.stderr);
    }

    let output = desk.fails("kubectl kruise expose clone/web").await;
    assert!(
        output.stderr.contains("couldn't find port via --port flag or introspection"),
        "{}",
        output.stderr
    );
    let printed = desk.prints("kubectl kruise expose clone/web --port 80,443 --dry-run=server").await;
    assert_eq!(printed, "service/web exposed (server dry run)\n");
    let printed = desk.prints("kubectl kruise expose clone/web --port 80 --target-port 8080").await;
    assert_eq!(printed, "service/web exposed\n");
    let port = desk
        .prints("kubectl get service web -o jsonpath='{.spec.selector.app} {.spec.ports[0].targetPort}'")
        .await;
    assert_eq!(port, "web 8080");
    desk.prints(
        "kubectl kruise expose clone/web --name inner --port 80 --record --save-config --field-manager deployer \
         --overrides '{\"spec\": {\"clusterIP\": \"None\"}}'",
    )
    .await;
    let path = format!("/api/v1/namespaces/{}/services/inner", shop.namespace);
    let (_, service) = call(&shop.client, "GET", &path, &Value::Null).await;
    assert_eq!(service["spec"]["clusterIP"], "None");
    assert_eq!(service["metadata"]["managedFields"][0]["manager"], "deployer");
    let annotations = &service["metadata"]["annotations"];
    let cause = annotations["kubernetes.io/change-cause"].as_str().unwrap();
    assert!(cause.starts_with("kubectl kruise expose clone/web --name inner"), "{cause}");
    let applied = annotations["kubectl.kubernetes.io/last-applied-configuration"].as_str().unwrap();
    let applied: Value = serde_json::from_str(applied).unwrap();
    assert_eq!(applied["spec"]["ports"][0]["port"], 80);
    let pulled = desk.prints("kubectl kruise image pull nginx:1.26 -l pool=none --patience 0s").await;
    assert!(pulled.starts_with("imagepulljob.apps.kruise.io/pull-"), "{pulled}");
    let versions = desk.prints("kubectl kruise version -o json").await;
    let versions: Value = serde_json::from_str(&versions).unwrap();
    assert_eq!(versions["clientVersion"], env!("CARGO_PKG_VERSION"));
    assert!(versions["serverVersion"].as_str().unwrap().starts_with('v'), "{versions}");
    let explained = desk.prints("kubectl kruise explain clone/web").await;
    assert!(explained.contains("complete"), "{explained}");
}

/// With binary data, with scalars without quotes, and with each valid combination of targets.
#[tokio::test]
async fn a_generated_distribution_is_accepted() {
    let (server, _) = shared().await;
    let desk = crate::docs::Terminal::open(server, "default").await;
    let config = json!({"apiVersion": "apps.kruise.io/v1alpha1", "kind": "ResourceDistributionGenerator",
        "metadata": {"name": format!("made-{}", std::process::id())},
        "resource": {"resourceKind": "ConfigMap", "resourceName": "made", "literals": ["K=V"], "files": ["logo.bin"]},
        "targets": {"includedNamespaces": ["no-such-namespace", 2024], "namespaceLabelSelector": {"matchLabels": {"no": "such"}}}});
    let list = json!({"apiVersion": "config.kubernetes.io/v1", "kind": "ResourceList", "functionConfig": config, "items": []});
    let commands = "cd \"$(mktemp -d)\"; head -c 100 /dev/zero | tr '\\0' '\\377' >logo.bin; resourcedistributiongenerator";
    let printed = desk.shell_with_input(commands, &list.to_string()).await.success();
    let list: Value = serde_saphyr::from_str(&printed).unwrap();
    let made = &list["items"][0];
    assert_eq!(made["spec"]["resource"]["data"], json!({"K": "V"}));
    assert_eq!(
        made["spec"]["targets"]["includedNamespaces"],
        json!({"list": [{"name": "no-such-namespace"}, {"name": "2024"}]})
    );
    let stored = Stored::create(&server.client(), made.clone()).await;
    let (_, now) = stored.get().await;
    assert_eq!(name(&now), name(made));
    assert_eq!(now["spec"]["resource"]["binaryData"], made["spec"]["resource"]["binaryData"]);
    stored.deleted().await;
}

/// What the plugin of OpenKruise sends is stored without the directive of its merge patch.
#[tokio::test]
async fn directives_of_merge_patches_do_not_stay_in_templates() {
    let desk = Desk::open(1, json!({})).await;
    let template = json!({"$patch": "replace", "metadata": {"labels": {"app": "web"}}});
    desk.fleet.change(json!({"template": template})).await;
    let set = desk.fleet.set.get().await.1;
    assert_eq!(set["spec"]["template"].get("$patch"), None);
    assert_eq!(set["metadata"]["generation"], 1);
    assert_eq!(desk.fleet.revisions().await.len(), 1);
}
