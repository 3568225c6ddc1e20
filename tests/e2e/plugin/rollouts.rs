//! `kubectl kruise rollout`.

use kit::builders::{Object, deployment, object};
use kit::{ApiServer, Output, wait_for};
use serde_json::json;

use super::{Desk, clone_set, undisturbed};
use crate::docs::Terminal;
use crate::support::fleet::{NEW, OLD, image, name, uid};
use crate::support::{Stored, reached};

/// The exit of a command with a short time limit that has printed this before the time was over.
pub async fn in_time(terminal: &Terminal, command: &str, reported: &str) -> Output {
    wait_for(command, async || {
        let output = terminal.shell(command).await;
        if output.stdout.contains(reported) { Ok(output) } else { Err(output) }
    })
    .await
}

#[tokio::test]
async fn a_rollout_is_followed_to_its_end() {
    let desk = Desk::open(4, json!({"maxUnavailable": 1})).await;
    desk.prints("kubectl kruise rollout pause clone/web").await;
    let printed = desk.prints("kubectl kruise set image clone/web main=nginx:1.26").await;
    assert_eq!(printed, "cloneset.apps.kruise.io/web image updated\n");
    desk.fleet.settled().await;
    let status = "kubectl kruise rollout status clone/web";
    let waiting = in_time(&desk.terminal, &format!("{status} --timeout 5s"), "Waiting").await;
    assert_eq!(waiting.status.code(), Some(1));
    let line = "Waiting for partitioned roll out to finish: 0 out of 4 new pods have been updated...\n";
    assert!(waiting.stdout.ends_with(line), "{}", waiting.stdout);
    assert!(waiting.stderr.starts_with("clonesets.apps.kruise.io \"web\" is paused\n"), "{}", waiting.stderr);
    for how in ["--timeout 5s", "--watch=false"] {
        let held = in_time(&desk.terminal, &format!("{status} {how} --exit-codes"), "Waiting").await;
        assert_eq!(held.status.code(), Some(4), "{how}");
    }
    desk.prints("kubectl kruise rollout resume clone/web").await;
    let printed = desk.prints("kubectl kruise rollout status clone/web").await;
    assert!(
        printed.ends_with("partitioned roll out complete: 4 new pods have been updated...\n"),
        "{printed}"
    );
    let set = desk.fleet.set.get().await.1;
    assert_eq!(set["status"]["updatedReadyReplicas"], 4);
    assert!(desk.fleet.pods().await.iter().all(|pod| image(pod) == NEW));
    let detail = desk.prints("kubectl kruise rollout status clone/web --detail").await;
    let names = desk.fleet.names().await;
    assert!(detail.contains(&format!("Updated ready pods: [{}]", names.join(" "))), "{detail}");
}

#[tokio::test]
async fn a_partition_is_the_end() {
    let desk = Desk::open(5, json!({"partition": "50%", "maxUnavailable": "100%"})).await;
    let printed = desk.prints("kubectl kruise set image clone/web main=nginx:1.26 --wait").await;
    assert!(
        printed.ends_with("partitioned roll out complete: 2 new pods have been updated...\n"),
        "{printed}"
    );
}

#[tokio::test]
async fn a_rollout_that_hangs_fails_or_runs_out_of_time() {
    let desk = Desk::open(2, json!({"maxUnavailable": 1})).await;
    desk.prints("kubectl kruise set image clone/web main=nginx:missing").await;
    let output = desk.fails("kubectl kruise rollout status clone/web --timeout 1s").await;
    assert_eq!(output.stderr, "error: timed out waiting for the condition\n");
    let output =
        desk.terminal.shell("kubectl kruise rollout status clone/web --timeout 1s --exit-codes").await;
    assert_eq!(output.status.code(), Some(2));
    desk.fleet.change(json!({"progressDeadlineSeconds": 6})).await;
    let output = desk.fails("kubectl kruise rollout status clone/web").await;
    assert!(output.stderr.contains(r#"cloneset "web" exceeded its progress deadline"#), "{}", output.stderr);
    let once = desk.fails("kubectl kruise rollout status clone/web --watch=false").await;
    assert_eq!(once.stdout, "");
    assert_eq!(once.stderr, "error: cloneset \"web\" exceeded its progress deadline\n");
    let output = desk.terminal.shell("kubectl kruise rollout status clone/web --exit-codes").await;
    assert_eq!(output.status.code(), Some(3));
}

/// A user who may read a workload and not list its kind gets a message; a workload that goes away ends the watch.
#[tokio::test]
async fn a_watch_that_is_refused_or_loses_its_object_ends() {
    let desk = Desk::open(1, json!({"paused": true})).await;
    desk.prints("kubectl kruise set image clone/web main=nginx:1.26").await;
    let namespace = &desk.fleet.shop.namespace;
    let reader = format!("{namespace}-reader");
    let role = "kubectl create role reader --verb=get --resource=clonesets.apps.kruise.io";
    desk.prints(&format!("{role}; kubectl create rolebinding reader --role=reader --user={reader}")).await;
    desk.may(&format!("get clonesets.apps.kruise.io --as={reader}")).await;
    let refused = desk.fails(&format!("kubectl kruise rollout status clone/web --as {reader}")).await;
    let expected = format!(
        "Error from server (Forbidden): cannot list clonesets.apps.kruise.io in namespace {namespace:?}: "
    );
    assert!(refused.stderr.contains(&expected), "{}", refused.stderr);

    let shop = &desk.fleet.shop;
    let other = clone_set(shop, "other", 1, json!({"paused": true}));
    Stored::create(&shop.client, other).await;
    desk.prints("kubectl kruise rollout status clone/other").await;
    let wait = "kubectl kruise set image clone/other main=nginx:1.26 --wait --timeout 5s --exit-codes";
    assert_eq!(in_time(&desk.terminal, wait, "Waiting").await.status.code(), Some(4));
    let follow = "out=$(mktemp); trap 'rm $out' EXIT; kubectl kruise rollout status clone/other > $out & \
                  until grep -q 0.out.of.1 $out; do kill -0 $!; sleep 0.1; done; \
                  kubectl delete cloneset other; wait $!";
    let gone = desk.fails(follow).await;
    assert!(gone.stderr.ends_with("error: object has been deleted\n"), "{}", gone.stderr);
}

/// Nobody reads the output any more: the command ends without a word.
#[tokio::test]
async fn a_closed_pipe_ends_a_command() {
    let desk = Desk::open(1, json!({})).await;
    let output = desk.terminal.shell("kubectl kruise rollout history clone/web -o json | true").await;
    assert_eq!((output.status.code(), output.stderr.as_str()), (Some(0), ""));
}

#[tokio::test]
async fn a_template_goes_back_to_an_earlier_revision() {
    let desk = Desk::open(2, json!({"maxUnavailable": "100%"})).await;
    desk.prints("kubectl annotate cloneset web kubernetes.io/change-cause=second").await;
    let first = desk.fleet.set.get().await.1["spec"]["template"].clone();
    let containers = json!([{"name": "main", "image": NEW}]);
    let bad = json!({"template": {"metadata": {"labels": {"bad": "1"}}, "spec": {"containers": containers}}});
    desk.fleet.change(bad).await;
    desk.fleet.complete().await;

    let printed = desk.prints("kubectl kruise rollout history clone/web").await;
    let expected =
        "cloneset.apps.kruise.io/web \nREVISION  CHANGE-CAUSE\n1         <none>\n2         second\n\n";
    assert_eq!(printed, expected);
    let printed = desk.prints("kubectl kruise rollout history clone/web --revision 1").await;
    assert!(printed.contains("with revision #1") && printed.contains(OLD), "{printed}");
    let listed = desk.prints("kubectl kruise rollout history clone/web -o json").await;
    let listed: serde_json::Value = serde_json::from_str(&listed).unwrap();
    assert_eq!(listed[1]["images"], json!([NEW]));
    assert_eq!(listed[1]["update"], true);

    let generation = desk.generation().await;
    let printed = desk.prints("kubectl kruise rollout undo clone/web --dry-run=client").await;
    assert!(printed.contains("will roll back to") && printed.contains(OLD), "{printed}");
    assert!(printed.ends_with("(dry run)\n"), "{printed}");
    assert_eq!(desk.generation().await, generation);
    let output = desk.fails("kubectl kruise rollout undo clone/web --to-revision 99").await;
    assert_eq!(output.stderr, "error: unable to find specified revision 99 in history\n");
    let printed = desk.prints("kubectl kruise rollout undo clone/web --to-revision 2").await;
    assert_eq!(
        printed,
        "cloneset.apps.kruise.io/web skipped rollback (current template already matches revision 2)\n"
    );
    let printed = desk.prints("kubectl kruise rollout undo clone/web").await;
    assert_eq!(printed, "cloneset.apps.kruise.io/web rolled back\n");
    let mut now = desk.fleet.set.get().await.1["spec"]["template"].clone();
    // What Go's types write of a field without a value.
    assert_eq!(now["spec"]["containers"][0].as_object_mut().unwrap().remove("resources"), Some(json!({})));
    assert_eq!(now, first);
}

#[tokio::test]
async fn rollouts_are_paused_resumed_and_restarted() {
    let desk = Desk::open(1, json!({})).await;
    let shop = &desk.fleet.shop;
    let other = Stored::create(&shop.client, clone_set(shop, "other", 1, json!({}))).await;
    assert_eq!(
        desk.prints("kubectl kruise rollout pause clone/web").await,
        "cloneset.apps.kruise.io/web paused\n"
    );
    let output = desk.fails("kubectl kruise rollout pause clone/web").await;
    assert_eq!(output.stderr, "error: clonesets.apps.kruise.io \"web\" is already paused\n");
    desk.prints("kubectl kruise rollout resume clone/web").await;
    assert_eq!(desk.fleet.set.get().await.1["spec"]["updateStrategy"]["rollingUpdate"]["paused"], false);

    let before = desk.fleet.set.get().await.1["spec"]["template"].clone();
    let printed = desk.prints("kubectl kruise rollout restart clone/web clone/other").await;
    assert_eq!(printed, "cloneset.apps.kruise.io/web restarted\ncloneset.apps.kruise.io/other restarted\n");
    for set in [&desk.fleet.set, &other] {
        let mut after = set.get().await.1["spec"]["template"].clone();
        let env = after["spec"]["containers"][0].as_object_mut().unwrap().remove("env").unwrap();
        assert_eq!(env[0]["name"], "RESTARTED_AT");
        assert_eq!(after["spec"]["containers"], before["spec"]["containers"], "{after:#}");
    }
    let output = desk.fails("kubectl kruise rollout restart clone/absent").await;
    assert!(
        output
            .stderr
            .starts_with(r#"Error from server (NotFound): clonesets.apps.kruise.io "absent" not found"#),
        "{}",
        output.stderr
    );
    let output = desk.fails("kubectl kruise rollout restart clone/wbe").await;
    assert!(output.stderr.contains(r#"did you mean "web"?"#), "{}", output.stderr);
    for (words, message) in [
        ("clone/", "arguments in resource/name form must have a single resource and name"),
        ("clone/web/status", "arguments in resource/name form must have a single resource and name"),
        ("sidecarset/a --in-place", "restarting is not supported"),
        ("ud/a --in-place", "controls no Pods"),
    ] {
        let output = desk.fails(&format!("kubectl kruise rollout restart {words}")).await;
        assert!(output.stderr.contains(message), "{words}: {}", output.stderr);
    }
    // Kinds of Kubernetes are for kubectl, which says so in its own words.
    let output = desk.fails("kubectl kruise rollout restart deployment/absent").await;
    assert!(output.stderr.contains(r#"deployments.apps "absent" not found"#), "{}", output.stderr);
}

/// The kind of Rollouts, which is of another project.
pub async fn define_rollouts(server: &ApiServer) {
    let schema = json!({"type": "object", "x-kubernetes-preserve-unknown-fields": true});
    let definition = json!({
        "apiVersion": "apiextensions.k8s.io/v1", "kind": "CustomResourceDefinition",
        "metadata": {"name": "rollouts.rollouts.kruise.io"},
        "spec": {"group": "rollouts.kruise.io", "scope": "Namespaced",
            "names": {"plural": "rollouts", "singular": "rollout", "kind": "Rollout", "listKind": "RolloutList"},
            "versions": [{"name": "v1beta1", "served": true, "storage": true, "subresources": {"status": {}},
                "schema": {"openAPIV3Schema": schema}}]}
    });
    let definition = Stored::create(&server.client(), definition).await;
    reached(&definition).await;
    server.wait_established().await;
}

#[tokio::test]
async fn steps_of_rollouts_are_approved_and_undone() {
    let server = undisturbed().await;
    let namespace = server.namespace("rollouts").await;
    let terminal = Terminal::open(&server, &namespace).await;
    let steps = json!([{"replicas": "100%", "traffic": "0%"}, {"replicas": "100%", "traffic": "50%"}, {"replicas": "100%", "traffic": "100%"}]);
    let mut all = Vec::new();
    for (name, step) in [("one", 3), ("two", 1)] {
        let rollout = json!({"apiVersion": "rollouts.kruise.io/v1beta1", "kind": "Rollout",
            "metadata": {"name": name, "namespace": namespace},
            "spec": {"strategy": {"blueGreen": {"steps": steps}}}});
        let rollout = Stored::create(&server.client(), rollout).await;
        let status =
            json!({"currentStepIndex": step, "blueGreenStatus": {"currentStepState": "StepUpgrade"}});
        rollout.patch_status(&status).await;
        all.push(rollout);
    }
    let refused = terminal.shell("kubectl kruise rollout approve rollout/one").await;
    assert_eq!(refused.status.code(), Some(1));
    assert!(
        refused
            .stderr
            .contains("does not allow to approve, because current blue-green state is not 'StepPaused'"),
        "{}",
        refused.stderr
    );
    all[0].patch_status(&json!({"blueGreenStatus": {"currentStepState": "StepPaused"}})).await;
    let held = terminal.shell("kubectl kruise rollout status rollout/one --watch=false --exit-codes").await;
    assert_eq!(held.status.code(), Some(4));
    let shown = terminal.shell("kubectl kruise rollout approve rollout/one --dry-run=client --diff").await;
    let shown = shown.success();
    assert!(shown.contains("currentStepState: StepReady\n"), "{shown}");
    let printed = terminal.shell("kubectl kruise rollout approve rollout/one").await.success();
    assert_eq!(printed, "rollout.rollouts.kruise.io/one approved\n");
    let status = all[0].get().await.1["status"]["blueGreenStatus"].clone();
    assert_eq!(status["currentStepState"], "StepReady");
    let output = terminal.shell("kubectl kruise rollout undo rollout/one rollout/two --fast").await;
    assert!(
        output.stderr.contains(r#"rollouts.rollouts.kruise.io "two" already at the first step"#),
        "{}",
        output.stderr
    );
    assert_eq!(all[0].get().await.1["status"]["blueGreenStatus"]["nextStepIndex"], 1);
    assert_eq!(all[1].get().await.1["status"]["blueGreenStatus"]["nextStepIndex"], json!(null));
    terminal.shell("kubectl kruise rollout pause rollout/two").await.success();
    assert_eq!(all[1].get().await.1["spec"]["strategy"]["paused"], true);
}

/// A Pod of a step of a Rollout, at the revision of the same number.
fn pod_of_step(namespace: &str, name: &str, number: &str) -> Object {
    kit::builders::pod(name)
        .in_namespace(namespace)
        .container("main", OLD)
        .with("/metadata/labels", json!({"app": "web", "pod-template-hash": number}))
        .label("rollouts.kruise.io/rollout-batch-id", number)
}

/// A Rollout is described with the Pods of its step, and taken back with the Deployment that it holds.
#[tokio::test]
async fn rollouts_are_described_and_take_their_deployment_back() {
    let server = undisturbed().await;
    let namespace = server.namespace("described").await;
    let terminal = Terminal::open(&server, &namespace).await;
    let held = json!({"rollouts.kruise.io/in-progressing": "{}", "note": "new"});
    let deployed = deployment("web")
        .in_namespace(&namespace)
        .matching("app", "web")
        .replicas(1)
        .container("main", "nginx:3")
        .with("/spec/paused", true)
        .with("/metadata/annotations", held);
    let deployed = Stored::create(&server.client(), deployed).await;
    let owned_by = |kind: &str, owner: &Stored| json!([{"apiVersion": "apps/v1", "kind": kind, "name": name(&owner.object), "uid": uid(&owner.object), "controller": true}]);
    for number in ["1", "2"] {
        let labels = json!({"app": "web", "pod-template-hash": number});
        let template = json!({"metadata": {"labels": labels}, "spec": {"containers": [{"name": "main", "image": format!("nginx:{number}")}]}});
        let set = object("apps/v1", "ReplicaSet", &format!("web-{number}"))
            .in_namespace(&namespace)
            .with("/metadata/labels", labels.clone())
            .with(
                "/metadata/annotations",
                json!({"deployment.kubernetes.io/revision": number, "note": number}),
            )
            .with("/metadata/ownerReferences", owned_by("Deployment", &deployed))
            .with("/spec", json!({"replicas": 0, "selector": {"matchLabels": labels}, "template": template}));
        let set = Stored::create(&server.client(), set).await;
        let pod = pod_of_step(&namespace, &format!("web-{number}-x"), number);
        let pod = pod.with("/metadata/ownerReferences", owned_by("ReplicaSet", &set));
        Stored::create(&server.client(), pod).await;
    }
    // That of a Deployment which the Rollout has made beside this one.
    Stored::create(&server.client(), pod_of_step(&namespace, "canary-2-x", "2")).await;
    let reference = json!({"apiVersion": "apps/v1", "kind": "Deployment", "name": "web"});
    let rollout = json!({"apiVersion": "rollouts.kruise.io/v1beta1", "kind": "Rollout",
        "metadata": {"name": "web", "namespace": namespace},
        "spec": {"workloadRef": reference, "strategy": {"canary": {"steps": [{"replicas": 1}, {"replicas": "100%", "traffic": "50%"}]}}}});
    let rollout = Stored::create(&server.client(), rollout).await;
    let before = terminal.shell("kubectl kruise describe rollout web").await.success();
    assert!(
        before.contains(" Step:             0/2\n") && before.ends_with("Pods:              none\n"),
        "{before}"
    );
    rollout
        .patch_status(&json!({"observedGeneration": 1, "phase": "Progressing", "message": "wait", "canaryStatus":
            {"currentStepIndex": 2, "currentStepState": "StepPaused", "podTemplateHash": "2", "stableRevision": "1"}}))
        .await;
    let page = terminal.shell("kubectl kruise describe rollout web").await.success();
    for line in [
        "Status:            ⚠ Progressing",
        "Images:            nginx:3",
        "     State:        StepPaused",
        " Desired:          1",
    ] {
        assert!(page.lines().any(|one| one == line), "{line} in {page}");
    }
    assert!(page.contains("web-2-x") && !page.contains("web-1-x") && !page.contains('\u{1b}'), "{page}");
    assert!(page.contains("canary-2-x"), "{page}");
    let page = terminal.shell("kubectl kruise describe ro web --all --color always").await.success();
    assert!(page.contains("web-1-x") && page.contains("\u{1b}[32m"), "{page}");
    let page = terminal
        .shell("NO_COLOR=1 script -qec 'kubectl kruise describe rollout web' /dev/null")
        .await
        .success();
    assert!(page.contains("web-2-x") && !page.contains('\u{1b}'), "{page}");
    let watched =
        in_time(&terminal, "kubectl kruise describe rollout web --watch --timeout 8", "web-2-x").await;
    assert_eq!(watched.stderr, "error: timed out waiting for the condition\n");

    let image = async || {
        let live = deployed.get().await.1;
        (
            live["spec"]["template"]["spec"]["containers"][0]["image"].clone(),
            live["metadata"]["annotations"].clone(),
        )
    };
    let shown = terminal.shell("kubectl kruise rollout undo rollout/web --dry-run=client").await.success();
    assert!(shown.contains("will roll back to") && shown.contains("nginx:2"), "{shown}");
    assert_eq!(image().await.0, "nginx:3");
    let printed = terminal.shell("kubectl kruise rollout undo rollout/web rollout/web").await.success();
    assert_eq!(printed, "deployment.apps/web rolled back\n");
    let (now, annotations) = image().await;
    assert_eq!((now, &annotations["note"]), (json!("nginx:2"), &json!("2")));
    assert_eq!(annotations["rollouts.kruise.io/in-progressing"], "{}");
    // By its own name it keeps the annotations of its Rollout too.
    let printed = terminal.shell("kubectl kruise rollout undo deploy/web rollout/web").await.success();
    let (now, annotations) = image().await;
    assert_eq!((printed.as_str(), now), ("deployment.apps/web rolled back\n", json!("nginx:1")));
    assert_eq!(annotations["rollouts.kruise.io/in-progressing"], "{}");
    let some = terminal.shell("kubectl kruise rollout undo rollout/absent rollout/web").await;
    assert_eq!((some.status.code(), some.stdout.as_str()), (Some(1), "deployment.apps/web rolled back\n"));
    let absent = r#"Error from server (NotFound): rollouts.rollouts.kruise.io "absent" not found"#;
    assert!(some.stderr.starts_with(absent), "{}", some.stderr);
    let reference = json!({"spec": {"workloadRef": {"kind": "StatefulSet"}}});
    rollout.patch(&reference).await;
    let absent = terminal.shell("kubectl kruise rollout undo rollout/web").await;
    assert!(absent.stderr.contains(r#"statefulsets.apps "web" not found"#), "{}", absent.stderr);
}
