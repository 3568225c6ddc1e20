//! `kubectl kruise set`, `scaledown` and `migrate`.

use std::time::Duration;

use kit::builders::{deployment, workload};
use kit::wait_for;
use serde_json::{Value, json};

use super::{Desk, clone_set};
use crate::conversion::samples;
use crate::daemonset::daemon_set;
use crate::docs::Terminal;
use crate::support::fleet::{name, staying};
use crate::support::{Shop, Stored, shared};

/// An object without what controllers write.
async fn wished(stored: &Stored) -> Value {
    let mut object = stored.get().await.1;
    object.as_object_mut().unwrap().remove("status");
    let metadata = object["metadata"].as_object_mut().unwrap();
    metadata.retain(|name, _| !matches!(name.as_str(), "resourceVersion" | "managedFields"));
    if let Some(annotations) = metadata.get_mut("annotations").and_then(Value::as_object_mut) {
        annotations.remove("kutter.io/sidecarset-pods");
    }
    object
}

/// Each kind, each verb, each dry run.
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
        let before = wished(&stored).await;
        let mut verbs =
            vec!["set image WORD *=nginx:dry", "set env WORD DRY=run", "set resources WORD --limits=cpu=7"];
        if kind != "SidecarSet" {
            verbs.push("set serviceaccount WORD dry");
        }
        for verb in verbs {
            // The jobs of an AdvancedCronJob are settled: nothing but a dry run of the client gets so far.
            let ways = [("client", "(dry run)\n"), ("server", "(server dry run)\n")];
            let ways = if kind == "AdvancedCronJob" { &ways[..1] } else { &ways };
            for (how, reported) in ways {
                let command =
                    format!("set -f; kubectl kruise {} --dry-run={how}", verb.replace("WORD", &word));
                let output = terminal.shell(&command).await;
                assert!(output.stdout.ends_with(*reported), "{command}: {} {}", output.stdout, output.stderr);
                assert_eq!(wished(&stored).await, before, "{command}");
            }
        }
        let command = format!(
            "set -f; kubectl kruise set image {word} *=nginx:dry --dry-run=client --diff -o name 2>&1"
        );
        let shown = terminal.shell(&command).await.success();
        assert!(shown.contains("nginx:dry") && shown.contains("--- stored"), "{shown}");
        assert_eq!(wished(&stored).await, before, "{command}");
        if kind == "SidecarSet" {
            let refused = terminal.shell(&format!("kubectl kruise set sa {word} dry")).await;
            assert!(refused.stderr.contains("has no field serviceAccountName"), "{}", refused.stderr);
        }
        stored.deleted().await;
    }
}

/// What changes the number of replicas stores nothing either, and reports no success.
#[tokio::test]
async fn a_dry_run_deletes_and_moves_nothing() {
    let desk = Desk::open(2, json!({})).await;
    let shop = &desk.fleet.shop;
    let deployed = deployment("old").in_namespace(&shop.namespace).matching("app", "old").replicas(6);
    let deployed = Stored::create(&shop.client, deployed.container("main", "nginx:1.25")).await;
    let pod = desk.fleet.names().await.remove(0);
    let migrate =
        format!("kubectl kruise migrate CloneSet --from Deployment -n {} --src-name old", shop.namespace);
    let before = (wished(&desk.fleet.set).await, wished(&deployed).await);
    for (how, reported) in [("client", "(dry run)\n"), ("server", "(server dry run)\n")] {
        for command in [
            format!("kubectl kruise scaledown clone/web --pods {pod}"),
            format!("{migrate} --dst-name web --max-surge 2"),
            format!("{migrate} --dst-name fresh --create"),
        ] {
            let output = desk.terminal.shell(&format!("{command} --dry-run={how}")).await;
            let printed = format!("{}{}", output.stdout, output.stderr);
            assert!(output.status.success() && printed.ends_with(reported), "{command}: {printed}");
            assert!(!printed.to_lowercase().contains("successfully"), "{command}: {printed}");
            let after = (wished(&desk.fleet.set).await, wished(&deployed).await);
            assert_eq!(after, before, "{command}");
        }
    }
    let plan = desk.terminal.shell(&format!("{migrate} --dst-name web --dry-run=client")).await.stderr;
    let expected = "would move 6 replicas from Deployment/old to CloneSet/web, with at most 1 more meanwhile";
    assert_eq!(plan, format!("{expected} (dry run)\n"));
    let absent = desk.fails("kubectl get cloneset fresh").await;
    assert!(absent.stderr.contains("NotFound"), "{}", absent.stderr);
}

/// Variables and quantities change alone; fields that this build does not know stay.
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
    assert_eq!(container(&desk.fleet.set).await, before);
    let refused = desk.fails("kubectl kruise set env clone/web K=1 K-").await;
    let expected = "can not both modify and remove the same environment variable in the same command";
    assert!(refused.stderr.contains(expected), "{}", refused.stderr);
    desk.prints("printf 'A=1 # why\nnothing\n' | kubectl kruise set env clone/web -").await;
    assert_eq!(container(&desk.fleet.set).await["env"], json!([{"name": "A", "value": "1 "}]));
    desk.prints("kubectl kruise set env clone/web -e A-").await;

    desk.prints("kubectl create configmap conf --from-literal=some-key=1").await;
    desk.prints("kubectl kruise set env clone/web --from=configmap/conf --prefix=P_").await;
    let taken = json!([{"name": "P_SOME_KEY", "valueFrom": {"configMapKeyRef": {"name": "conf", "key": "some-key"}}}]);
    assert_eq!(container(&desk.fleet.set).await["env"], taken);
    let resolved = desk.prints("kubectl kruise set env clone/web --list --resolve").await;
    assert_eq!(resolved, "# CloneSet web, container main\nP_SOME_KEY=1\n");
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

/// Of an Advanced DaemonSet one quantity changes, and nothing else of it.
#[tokio::test]
async fn one_quantity_of_a_daemon_is_set() {
    let desk = Desk::open(0, json!({})).await;
    let shop = &desk.fleet.shop;
    let resources = json!({"limits": {"memory": "1Gi"}, "requests": {"cpu": "10m"}});
    let daemon = daemon_set(shop, "v1beta1")
        .with("/metadata/name", "x")
        .with("/spec/template/spec/containers/0/resources", resources);
    let daemon = Stored::create(&shop.client, daemon).await;
    let mut expected = daemon.get().await.1["spec"].clone();
    let printed = desk.prints("kubectl kruise set resources ads/x --limits=cpu=1").await;
    assert_eq!(printed, "daemonset.apps.kruise.io/x resource requirements updated\n");
    expected["template"]["spec"]["containers"][0]["resources"]["limits"]["cpu"] = "1".into();
    assert_eq!(daemon.get().await.1["spec"], expected);
}

/// Pods of others and Pods that are not named stay.
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
    let web = staying(desk.fleet.pods().await);
    assert_eq!(web.iter().filter(|pod| pod["metadata"]["labels"]["app"] == "web").count(), 3);
    // Another Pod takes the place of this one.
    let command = format!("kubectl kruise scaledown clone/web --pods {} --keep-replicas", rest[0]);
    desk.prints(&command).await;
    let set = desk
        .fleet
        .observed("the names to be cleared again", |set| {
            set["spec"]["scaleStrategy"]["podsToDelete"].as_array().is_none_or(Vec::is_empty)
        })
        .await;
    assert_eq!(set["spec"]["replicas"], 3);
    desk.fleet
        .wait_pods("another Pod", |pods| {
            let web = pods.iter().filter(|pod| pod["metadata"]["labels"]["app"] == "web");
            let names: Vec<String> = web.map(name).collect();
            names.len() == 3 && !names.contains(rest[0])
        })
        .await;
}

/// Pods of an Advanced StatefulSet go by their ordinals, and the others keep theirs.
#[tokio::test]
async fn chosen_ordinals_go_and_no_others() {
    let desk = Desk::open(0, json!({})).await;
    let shop = &desk.fleet.shop;
    let set = workload("apps.kruise.io/v1beta1", "StatefulSet", "db")
        .in_namespace(&shop.namespace)
        .matching("app", "db")
        .replicas(3)
        .container("main", "nginx:1.25")
        .with("/spec/serviceName", "db")
        .with("/spec/podManagementPolicy", "Parallel");
    let set = Stored::create(&shop.client, set).await;
    let are = |expected: &'static [&str]| {
        move |pods: &[Value]| {
            let mut names: Vec<String> = pods.iter().map(name).collect();
            names.sort();
            names == expected
        }
    };
    desk.fleet.wait_pods("three Pods", are(&["db-0", "db-1", "db-2"])).await;
    desk.prints("kubectl kruise scaledown asts/db --ordinals 1").await;
    let spec = set.get().await.1["spec"].clone();
    assert_eq!((&spec["replicas"], &spec["reserveOrdinals"]), (&json!(2), &json!([1])));
    desk.fleet.wait_pods("the others to stay", are(&["db-0", "db-2"])).await;
}

/// Nobody works on Deployments here: what their controller reports is written by hand.
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

    // Plays the controller of Deployments until the Deployment has at most so many replicas.
    let controls_until = async |fewest: i64| {
        loop {
            // The Deployment first: when it has shrunk, the move waits for its controller.
            let now = deployed.get().await.1;
            let new = stored("new").get().await.1;
            let replicas = |object: &Value| object["spec"]["replicas"].as_i64().unwrap();
            let (source, destination) = (replicas(&now), replicas(&new));
            assert!((6..=8).contains(&(source + destination)), "{source} and {destination} replicas");
            if now["status"]["observedGeneration"] != now["metadata"]["generation"] {
                deployed.patch_status(&json!({"observedGeneration": now["metadata"]["generation"]})).await;
            }
            if source <= fewest {
                return source;
            }
            tokio::time::sleep(Duration::from_millis(20)).await;
        }
    };
    for (replicas, error) in [(0, "invalid replicas 0"), (-3, "invalid replicas -3")] {
        let refused = desk.fails(&format!("{migrate} --dst-name new --replicas {replicas}")).await;
        assert!(refused.stderr.contains(error), "{}", refused.stderr);
    }
    // One that is killed leaves its plan, by which the next one continues.
    let command = format!("{migrate} --dst-name new --max-surge 2");
    let left = tokio::select! {
        output = desk.terminal.shell(&command) => panic!("{} {}", output.stdout, output.stderr),
        left = controls_until(4) => left,
    };
    assert!(left > 0);
    let plan = stored("new").get().await.1["metadata"]["annotations"]["kutter.io/migration"].clone();
    assert!(plan.as_str().unwrap().contains(r#""replicas":6"#), "{plan}");
    let other = desk.fails(&format!("{command} --replicas 2")).await;
    assert!(other.stderr.contains("annotation kutter.io/migration"), "{}", other.stderr);
    let late = desk.fails(&format!("{command} --timeout-seconds 0")).await;
    assert!(late.stderr.contains("the same command goes on"), "{}", late.stderr);
    let printed = tokio::select! {
        output = desk.terminal.shell(&command) => output,
        left = controls_until(-1) => unreachable!("{left}"),
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
    let again = desk.terminal.shell(&command).await;
    assert!(again.status.success() && again.stderr.contains("nothing is left to move"), "{}", again.stderr);
    deployed.patch(&json!({"metadata": {"finalizers": null}})).await;
    wait_for("the Pods to be available", async || {
        let status = stored("new").get().await.1["status"].clone();
        if status["availableReplicas"] == 6 { Ok(()) } else { Err(status) }
    })
    .await;
}
