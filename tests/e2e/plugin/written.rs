//! `kubectl kruise set`, `scaledown` and `migrate`.

use kit::builders::deployment;
use kit::wait_for;
use serde_json::{Value, json};

use super::{Desk, clone_set};
use crate::conversion::samples;
use crate::docs::Terminal;
use crate::support::fleet::{name, staying};
use crate::support::{Shop, Stored, shared};

/// Scenario 13: each kind, each verb, each dry run.
#[tokio::test]
async fn a_dry_run_stores_nothing() {
    let (server, _) = shared().await;
    let shop = Shop::open("plugin-dry").await;
    let terminal = Terminal::open(server, &shop.namespace).await;
    let kinds = [
        "CloneSet",
        "StatefulSet",
        "DaemonSet",
        "UnitedDeployment",
        "BroadcastJob",
        "AdvancedCronJob",
        "SidecarSet",
    ];
    let mut samples = samples(&shop.namespace, "v1beta1");
    samples.retain(|sample| kinds.map(Value::from).contains(&sample.object["kind"]));
    assert_eq!(samples.len(), kinds.len());
    for sample in &mut samples {
        if sample.object["kind"] == "AdvancedCronJob" {
            let pods = json!({"spec": {"restartPolicy": "Never", "containers": [{"name": "main", "image": "busybox"}]}});
            sample.object["spec"]["template"] = json!({"jobTemplate": {"spec": {"template": pods}}});
        }
        let stored = Stored::create(&shop.client, sample.object.clone()).await;
        let kind = sample.object["kind"].as_str().unwrap();
        let word = format!("{}s.apps.kruise.io/{}", kind.to_lowercase(), name(&sample.object));
        let mut verbs =
            vec!["set image WORD *=nginx:dry", "set env WORD DRY=run", "set resources WORD --limits=cpu=7"];
        if kind != "SidecarSet" {
            verbs.push("set serviceaccount WORD dry");
        }
        for verb in verbs {
            // The jobs of an AdvancedCronJob are settled: nothing but a dry run of the client gets so far.
            let ways = [("client", "(dry run)\n"), ("server", "(server dry run)\n")];
            let ways = if kind == "AdvancedCronJob" { &ways[..1] } else { &ways };
            for (how, told) in ways {
                let before = stored.get().await.1["spec"].clone();
                let command =
                    format!("set -f; kubectl kruise {} --dry-run={how}", verb.replace("WORD", &word));
                let output = terminal.shell(&command).await;
                assert!(output.stdout.ends_with(*told), "{command}: {} {}", output.stdout, output.stderr);
                assert_eq!(stored.get().await.1["spec"], before, "{command}");
            }
        }
        let command =
            format!("set -f; kubectl kruise set image {word} *=nginx:dry --dry-run=client --diff -o name");
        let shown = terminal.shell(&command).await.success();
        assert!(shown.contains("nginx:dry") && shown.contains("--- stored"), "{shown}");
        stored.deleted().await;
    }
}

/// Scenarios 14 to 16.
#[tokio::test]
async fn variables_and_quantities_are_set_and_nothing_else() {
    let desk = Desk::open(1, json!({})).await;
    let shop = &desk.fleet.shop;
    let other = Stored::create(&shop.client, clone_set(shop, "other", 0, json!({}))).await;
    let container =
        async |set: &Stored| set.get().await.1["spec"]["template"]["spec"]["containers"][0].clone();
    let before = container(&desk.fleet.set).await;
    let printed = desk.prints("kubectl kruise set env clone/web clone/other K=V").await;
    assert_eq!(
        printed,
        "cloneset.apps.kruise.io/web env updated\ncloneset.apps.kruise.io/other env updated\n"
    );
    for set in [&desk.fleet.set, &other] {
        assert_eq!(container(set).await["env"], json!([{"name": "K", "value": "V"}]));
    }
    let generation = desk.generation().await;
    let listed = desk.prints("kubectl kruise set env clone/web --list").await;
    assert_eq!(listed, "# CloneSet web, container main\nK=V\n");
    let output = desk.fails("kubectl kruise set env clone/web K=W --overwrite=false").await;
    assert!(
        output.stderr.contains("'K' already has a value (V), and --overwrite is false"),
        "{}",
        output.stderr
    );
    assert_eq!(desk.generation().await, generation);
    desk.prints("kubectl kruise set env clone web K-").await;
    let mut after = container(&desk.fleet.set).await;
    assert_eq!(after.as_object_mut().unwrap().remove("env"), Some(json!([])));
    assert_eq!(after, before);

    desk.prints("kubectl create configmap conf --from-literal=some-key=1").await;
    desk.prints("kubectl kruise set env clone/web --from=configmap/conf --prefix=P_").await;
    let taken = json!([{"name": "P_SOME_KEY", "valueFrom": {"configMapKeyRef": {"name": "conf", "key": "some-key"}}}]);
    assert_eq!(container(&desk.fleet.set).await["env"], taken);
    desk.prints("kubectl kruise set resources clone/web --limits=cpu=1").await;
    assert_eq!(container(&desk.fleet.set).await["resources"], json!({"limits": {"cpu": "1"}}));
    assert_eq!(container(&desk.fleet.set).await["fieldOfTomorrow"], json!({"n": 1}));
    desk.prints("kubectl kruise set sa clone/web robot").await;
    let spec = desk.fleet.set.get().await.1["spec"]["template"]["spec"].clone();
    assert_eq!(spec["serviceAccountName"], "robot");
    // Objects are found as kubectl finds them.
    let printed = desk.prints("kubectl kruise set image clone --all main=nginx:1.26").await;
    assert_eq!(printed.lines().count(), 2, "{printed}");
    let printed =
        desk.prints("kubectl get cloneset web -o yaml | kubectl kruise rollout pause -f - -o name").await;
    assert_eq!(printed, "cloneset.apps.kruise.io/web\n");
}

/// Scenarios 17 and 18.
#[tokio::test]
async fn chosen_pods_go_and_no_others() {
    let desk = Desk::open(5, json!({})).await;
    let mut names = desk.fleet.names().await;
    names.sort();
    let stranger = desk.fleet.shop.pod("stranger").label("app", "stranger");
    Stored::create(&desk.fleet.shop.client, stranger).await;
    let generation = desk.generation().await;
    let output =
        desk.fails(&format!("kubectl kruise scaledown clone/web --pods {},stranger", names[0])).await;
    assert!(output.stderr.contains(r#"pod "stranger" is not controlled by "web""#), "{}", output.stderr);
    assert_eq!(desk.generation().await, generation);
    let command = format!("kubectl kruise scaledown clone/web --pods '{}, {}'", names[1], names[3]);
    let printed = desk.prints(&command).await;
    assert_eq!(printed, "cloneset.apps.kruise.io/web selective pod deletion\n");
    let rest = [&names[0], &names[2], &names[4]];
    desk.fleet
        .wait_pods("three Pods to stay", |pods| {
            let mut left: Vec<String> =
                pods.iter().filter(|pod| pod["metadata"]["labels"]["app"] == "web").map(name).collect();
            left.sort();
            left.iter().collect::<Vec<_>>() == rest
        })
        .await;
    desk.fleet
        .observed("the names to be cleared", |set| {
            set["spec"]["replicas"] == 3
                && set["spec"]["scaleStrategy"]["podsToDelete"].as_array().is_none_or(Vec::is_empty)
        })
        .await;
    assert_eq!(
        staying(desk.fleet.pods().await)
            .iter()
            .filter(|pod| pod["metadata"]["labels"]["app"] == "web")
            .count(),
        3
    );
}

/// Scenarios 19 and 20. Nobody works on Deployments here: what their controller tells is written by hand.
#[tokio::test]
async fn replicas_move_from_a_deployment_to_a_cloneset() {
    let desk = Desk::open(1, json!({})).await;
    let shop = &desk.fleet.shop;
    let deployed = deployment("old")
        .in_namespace(&shop.namespace)
        .matching("app", "old")
        .replicas(6)
        .container("main", "nginx:1.25")
        .with("/metadata/finalizers", json!(["example.com/kept"]))
        .with("/metadata/annotations", json!({"deployment.kubernetes.io/revision": "4", "team": "t"}));
    let deployed = Stored::create(&shop.client, deployed).await;
    let namespace = &shop.namespace;
    let migrate = format!("kubectl kruise migrate CloneSet --from Deployment -n {namespace} --src-name old");
    desk.prints(&format!("{migrate} --dst-name copied --create --copy")).await;
    desk.prints(&format!("{migrate} --dst-name new --create")).await;
    let stored = |name: &str| {
        let path = format!("/apis/apps.kruise.io/v1beta1/namespaces/{namespace}/clonesets/{name}");
        Stored::existing(&shop.client, path, Value::Null)
    };
    assert_eq!(stored("copied").get().await.1["spec"]["replicas"], 6);
    let made = stored("new").get().await.1;
    assert_eq!(made["spec"]["replicas"], 0);
    assert_eq!(made["metadata"]["finalizers"], Value::Null);
    assert_eq!(made["metadata"]["annotations"], json!({"team": "t"}));
    stored("copied").deleted().await;

    let told = async || {
        loop {
            let (now, new) = tokio::join!(deployed.get(), async { stored("new").get().await });
            let replicas = |object: &Value| object["spec"]["replicas"].as_i64().unwrap();
            let sum = replicas(&now.1) + replicas(&new.1);
            assert!((6..=8).contains(&sum), "{sum} replicas");
            if now.1["status"]["observedGeneration"] != now.1["metadata"]["generation"] {
                deployed.patch_status(&json!({"observedGeneration": now.1["metadata"]["generation"]})).await;
            }
            tokio::task::yield_now().await;
        }
    };
    // One that is interrupted leaves its plan, by which the next one goes on.
    let interrupted =
        desk.fails(&format!("{migrate} --dst-name new --max-surge 2 --timeout-seconds 0")).await;
    assert!(interrupted.stderr.contains("the same command goes on"), "{}", interrupted.stderr);
    let plan = stored("new").get().await.1["metadata"]["annotations"]["kutter.io/migration"].clone();
    assert!(plan.as_str().unwrap().contains(r#""replicas":6"#), "{plan}");
    let command = format!("{migrate} --dst-name new --max-surge 2");
    let printed = tokio::select! {
        output = desk.terminal.shell(&command) => output,
        () = told() => unreachable!(),
    };
    assert!(
        printed.stderr.ends_with("Successfully migrated 6 replicas from Deployment/old to CloneSet/new\n"),
        "{}",
        printed.stderr
    );
    assert_eq!(deployed.get().await.1["spec"]["replicas"], 0);
    let made = stored("new").get().await.1;
    assert_eq!(
        (&made["spec"]["replicas"], &made["metadata"]["annotations"]["kutter.io/migration"]),
        (&json!(6), &Value::Null)
    );
    deployed.patch(&json!({"metadata": {"finalizers": null}})).await;
    wait_for("the Pods to be available", async || {
        let status = stored("new").get().await.1["status"].clone();
        if status["availableReplicas"] == 6 { Ok(()) } else { Err(status) }
    })
    .await;
}
