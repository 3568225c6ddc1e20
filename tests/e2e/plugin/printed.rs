//! What the plugin prints, and what it changes in files alone.

use serde_json::{Value, json};

use super::rollouts::in_time;
use super::{Desk, clone_set};
use crate::support::Stored;
use crate::support::fleet::{NEW, OLD};

/// The forms of `-o` that kubectl knows, and the cause of a change.
#[tokio::test]
async fn what_is_written_is_printed_as_kubectl_prints_it() {
    let desk = Desk::open(1, json!({"maxUnavailable": 1})).await;
    let image = "{.spec.template.spec.containers[0].image}";
    let set = "kubectl kruise set image clone/web main=nginx:1.26 --record";
    let printed = desk.prints(&format!("{set} --dry-run=client -o jsonpath='{image}'")).await;
    assert_eq!(printed, NEW);
    let template = "{{.metadata.name}} {{.metadata.absent}}";
    let printed =
        desk.prints(&format!("{set} --dry-run=server -o go-template --template '{template}'")).await;
    assert_eq!(printed, "web <no value>");
    let printed = desk.prints(&format!("{set} --dry-run=client --template '{{{{.kind}}}}'")).await;
    assert_eq!(printed, "CloneSet");
    let strict =
        format!("{set} --dry-run=client --template '{template}' --allow-missing-template-keys=false");
    desk.fails(&strict).await;
    let flags = "-v 6 --cache-dir /nonexistent --request-timeout 30s --match-server-version";
    desk.prints(&format!("{set} --dry-run=client {flags}")).await;
    let output = desk.terminal.shell(&format!("{set} -o columns")).await;
    assert!(
        !output.status.success() && output.stderr.contains("write name, json, yaml"),
        "{}",
        output.stderr
    );

    let printed = desk.prints(&format!("{set} -o json")).await;
    let written: Value = serde_json::from_str(&printed).unwrap();
    assert_eq!(written["metadata"]["managedFields"], Value::Null);
    let cause = &written["metadata"]["annotations"]["kubernetes.io/change-cause"];
    assert_eq!(*cause, format!("{set} -o json"));
    let printed = desk.prints("kubectl kruise set env clone/web A=b -o yaml --show-managed-fields").await;
    assert!(printed.contains("managedFields:"), "{printed}");
}

/// Objects of files are changed without an API server.
#[tokio::test]
async fn files_are_changed_without_a_server() {
    let desk = Desk::open(1, json!({"maxUnavailable": 1})).await;
    let local = "kubectl kruise --server https://127.0.0.1:1";
    let set = format!("kubectl get cloneset web -o yaml | {local} set image -f - --local main=nginx:1.26");
    assert_eq!(desk.prints(&set).await, "cloneset.apps.kruise.io/web image updated\n");
    let printed = desk.prints(&format!("{set} -o yaml")).await;
    assert!(printed.contains(NEW) && printed.contains("fieldOfTomorrow"), "{printed}");
    let environment =
        format!("{local} set env -f - --local A=b -o yaml | {local} set env -f - --local --list");
    let printed = desk.prints(&format!("{set} -o yaml | {environment}")).await;
    assert!(printed.ends_with("A=b\n"), "{printed}");
    let server = desk.fails(&format!("{set} --dry-run=server")).await;
    let expected = "error: cannot specify --local and --dry-run=server - did you mean --dry-run=client?\n";
    assert!(server.stderr.ends_with(expected), "{}", server.stderr);
    let mixed = "kubectl create deployment d --image a --dry-run=client -o yaml; echo ---; kubectl get cloneset web -o yaml";
    let mixed = desk.fails(&format!("({mixed}) | {local} set image -f - --local main=a")).await;
    assert!(mixed.stderr.contains("kubectl handles these objects"), "{}", mixed.stderr);
    let live = desk.fleet.set.get().await.1;
    assert_eq!(live["spec"]["template"]["spec"]["containers"][0]["image"], OLD);
}

/// On a terminal a rollout is one block, drawn again and again, with what Pods wait for.
#[tokio::test]
async fn a_terminal_shows_which_pods_take_long() {
    let desk = Desk::open(2, json!({"maxUnavailable": 1})).await;
    desk.prints("kubectl kruise set image clone/web main=nginx:missing").await;
    let drawn = "out=$(mktemp); trap 'rm $out' EXIT; \
                 script -qefc 'kubectl kruise rollout status clone/web --timeout 120s' /dev/null > $out & \
                 until [ $(grep -c 'ImagePullBackOff: ' $out) -ge 3 ]; do kill -0 $!; sleep 0.1; done; kill $!; cat $out";
    let printed = desk.terminal.shell(drawn).await.success();
    assert!(printed.contains("] 0/2 updated, ") || printed.contains("] 1/2 updated, "), "{printed}");
    assert!(printed.contains("\u{1b}[J") && printed.contains("A\r"), "{printed}");
    for plain in ["NO_COLOR=1", "TERM=dumb"] {
        let drawn = "script -qec 'kubectl kruise rollout status clone/web --timeout 10s' /dev/null";
        let output = in_time(&desk.terminal, &format!("{plain} {drawn}"), "Waiting for ").await;
        assert!(!output.status.success() && !output.stdout.contains('\u{1b}'), "{plain}");
    }
}

/// Several objects are a stream of YAML documents, and what changes is printed beside them.
#[tokio::test]
async fn several_objects_are_several_documents() {
    let desk = Desk::open(1, json!({})).await;
    let shop = &desk.fleet.shop;
    Stored::create(&shop.client, clone_set(shop, "other", 1, json!({}))).await;
    let set = "kubectl kruise set env clone/web clone/other A=b --dry-run=client -o yaml --diff";
    let output = desk.terminal.shell(set).await;
    assert!(output.stderr.contains("--- stored"), "{}", output.stderr);
    let printed = output.success();
    assert_eq!(printed.matches("---\n").count(), 1, "{printed}");
    let documents: Vec<&str> = printed.split("---\n").collect();
    assert!(documents[0].contains("name: web") && documents[1].contains("name: other"), "{printed}");
}

/// A rollout is planned by simulation, before it begins and while it continues.
#[tokio::test]
async fn rollouts_are_planned() {
    let desk = Desk::open(3, json!({"maxUnavailable": 1})).await;
    let before = desk.generation().await;
    let plan = "kubectl kruise rollout plan clone/web";
    let printed = desk.prints(&format!("{plan} --set main=nginx:1.26")).await;
    assert!(printed.contains("\nconverged after "), "{printed}");
    assert_eq!(printed.matches("enters state Updating").count(), 3, "{printed}");
    assert_eq!(desk.generation().await, before);
    let idle = desk.fails(plan).await;
    assert!(idle.stderr.contains("has no rollout in progress"), "{}", idle.stderr);
    desk.prints("kubectl kruise rollout pause clone/web").await;
    desk.prints("kubectl kruise set image clone/web main=nginx:1.26").await;
    desk.fleet
        .observed("the new revision", |set| {
            set["status"]["updateRevision"] != set["status"]["currentRevision"]
        })
        .await;
    let printed = desk.prints(plan).await;
    assert!(printed.contains("limit: paused: 3 Pods are not updated"), "{printed}");
    let refused = desk.fails("kubectl kruise rollout plan ud/web --set main=a").await;
    assert!(refused.stderr.contains("uniteddeployments.apps.kruise.io"), "{}", refused.stderr);
}

/// Containers that are named are restarted, and no others; a SidecarSet is followed to its end.
#[tokio::test]
async fn restarts_name_containers_and_sidecars_are_followed() {
    let desk = Desk::open(1, json!({"maxUnavailable": 1})).await;
    let refused = desk.fails("kubectl kruise rollout restart clone/web --containers nosuch").await;
    assert!(
        refused.stderr.contains(r#"has no container "nosuch" to restart; it has main"#),
        "{}",
        refused.stderr
    );
    let printed = desk.prints("kubectl kruise rollout restart clone/web --containers main").await;
    assert_eq!(printed, "cloneset.apps.kruise.io/web restarted\n");
    let label = desk.fleet.shop.namespace.clone();
    let set = json!({"apiVersion": "apps.kruise.io/v1beta1", "kind": "SidecarSet", "metadata": {"name": label},
        "spec": {"namespaceSelector": {"matchLabels": {"kubernetes.io/metadata.name": label}},
            "selector": {"matchLabels": {"app": "nosuch"}},
            "containers": [{"name": "agent", "image": "agent:1"}]}});
    Stored::create(&desk.fleet.shop.client, set).await;
    let printed = desk.prints(&format!("kubectl kruise sidecar status {label}")).await;
    assert!(printed.ends_with(&format!("sidecarset {label:?} successfully rolled out\n")), "{printed}");
    let printed = desk.prints(&format!("kubectl kruise rollout status sidecarset/{label}")).await;
    assert!(printed.ends_with("successfully rolled out\n"), "{printed}");
}
