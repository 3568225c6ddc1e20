//! Without a cluster: `kutter review`, and `kutter serve --objects`.

use std::path::Path;
use std::process::Stdio;

use base64::Engine;
use kit::{Output, wait_for};
use serde_json::{Value, json};
use tempfile::TempDir;

use crate::product::{program, run, run_with_input};
use crate::support::{call, direct, names, patched, pod_review, review};

const DEPLOYMENT: &str = "\
apiVersion: apps/v1
kind: Deployment
metadata: {name: front, namespace: shop}
spec:
  replicas: 2
  selector: {matchLabels: {app: web}}
  template:
    metadata: {labels: {app: web}}
    spec:
      containers:
      - {name: main, image: 'nginx:1.25'}
";

const SIDECAR_SET: &str = "\
apiVersion: apps.kruise.io/v1beta1
kind: SidecarSet
metadata: {name: log}
spec:
  selector: {matchLabels: {app: web}}
  containers:
  - {name: log, image: 'busybox:1.36', podInjectPolicy: AfterAppContainer}
";

const NAMESPACE: &str = "\
apiVersion: v1
kind: Namespace
metadata: {name: shop, labels: {policy.kruise.io/delete-protection: Always}}
";

/// A folder with manifests.
struct Folder(TempDir);

impl Folder {
    fn of(files: &[(&str, &str)]) -> Self {
        let folder = Self(tempfile::tempdir().unwrap());
        for (name, text) in files {
            let path = folder.0.path().join(name);
            std::fs::create_dir_all(path.parent().unwrap()).unwrap();
            std::fs::write(path, text).unwrap();
        }
        folder
    }

    fn path(&self, name: &str) -> String {
        self.0.path().join(name).display().to_string()
    }

    fn all(&self) -> String {
        self.0.path().display().to_string()
    }
}

fn code(output: &Output) -> i32 {
    output.status.code().unwrap()
}

/// The items of `--output json`.
fn items(output: Output) -> Vec<Value> {
    let list: Value = serde_json::from_str(&output.success()).unwrap();
    list["items"].as_array().unwrap().clone()
}

async fn reviewed(manifest: &str, set: &str) -> Vec<Value> {
    let folder = Folder::of(&[("workload.yaml", manifest), ("sets/set.yaml", set)]);
    items(
        run(&[
            "review",
            "-f",
            &folder.path("workload.yaml"),
            "--objects",
            &folder.path("sets"),
            "-o",
            "json",
        ])
        .await,
    )
}

fn containers(pod: &Value) -> Vec<&str> {
    assert_eq!(pod["kind"], "Pod");
    names(&pod["spec"]["containers"])
}

#[tokio::test]
async fn a_deployment_is_shown_as_its_pod_with_the_sidecar() {
    let pods = reviewed(DEPLOYMENT, SIDECAR_SET).await;
    assert_eq!(pods.len(), 1, "{pods:#?}");
    let pod = &pods[0];
    assert_eq!(containers(pod), ["main", "log"]);
    assert_eq!(
        (&pod["metadata"]["namespace"], &pod["metadata"]["generateName"]),
        (&json!("shop"), &json!("front-"))
    );
    assert_eq!(pod["metadata"]["annotations"]["kruise.io/sidecarset-injected-list"], "log");
    assert_eq!(pod["spec"]["containers"][1]["env"], json!([{"name": "IS_INJECTED", "value": "true"}]));
}

#[tokio::test]
async fn yaml_says_why_each_set_is_injected_or_not() {
    let other = SIDECAR_SET.replace("name: log", "name: other").replace("app: web", "app: db");
    let folder = Folder::of(&[
        ("front.yaml", DEPLOYMENT),
        ("sets/log.yaml", SIDECAR_SET),
        ("sets/other.yaml", &other),
    ]);
    let output =
        run(&["review", "-f", &folder.path("front.yaml"), "--objects", &folder.path("sets")]).await.success();
    assert!(output.contains("# SidecarSet log: injected: log\n"), "{output}");
    let reason = "# SidecarSet other: not injected: spec.selector does not match the labels of the Pod\n";
    assert!(output.contains(reason), "{output}");
    assert!(output.contains("kind: Pod\n") && output.contains("IS_INJECTED"), "{output}");
    // What is printed is a manifest again.
    let again = run_with_input(&["review", "-f", "-", "-o", "json"], &output).await;
    assert_eq!(containers(&items(again)[0]), ["main", "log"]);
}

/// docs/behaviour/exit-priority.md#kutter-review
#[tokio::test]
async fn yaml_says_in_which_order_containers_end() {
    let pod = kit::builders::pod("web").annotation("kruise.io/container-exit-priority", r#"{"log":1}"#);
    let pod = pod.container("main", "nginx:1.25").container("log", "busybox:1.36").build().to_string();
    let output = run_with_input(&["review", "-f", "-"], &pod).await.success();
    assert!(output.contains("# containers end in this order (mode Hook): main, then log\n"), "{output}");
}

#[tokio::test]
async fn diff_and_patch_show_only_what_changes() {
    let folder = Folder::of(&[("front.yaml", DEPLOYMENT), ("log.yaml", SIDECAR_SET)]);
    let (front, log) = (folder.path("front.yaml"), folder.path("log.yaml"));
    let diff = run(&["review", "-f", &front, "--objects", &log, "--output", "diff"]).await.success();
    let changed = |sign: &str| {
        diff.lines().filter(|line| line.starts_with(sign) && !line.starts_with(&sign.repeat(3))).count()
    };
    assert!(diff.starts_with("--- ") && changed("+") > 0, "{diff}");
    assert_eq!(changed("-"), 0, "{diff}");
    assert!(diff.lines().any(|line| line.starts_with('+') && line.contains("IS_INJECTED")), "{diff}");

    let patch = run(&["review", "-f", &front, "--objects", &log, "--output", "patch"]).await.success();
    let operations: Vec<Value> = patch
        .lines()
        .filter(|line| !line.starts_with('#'))
        .flat_map(|line| serde_json::from_str::<Vec<Value>>(line).unwrap())
        .collect();
    assert!(!operations.is_empty() && operations.iter().all(|operation| operation["op"] == "add"), "{patch}");
}

#[tokio::test]
async fn every_workload_is_shown_by_its_template() {
    let template = json!({
        "metadata": {"labels": {"app": "web"}}, "spec": {"containers": [{"name": "main", "image": "nginx:1.25"}]},
    });
    let selector = json!({"matchLabels": {"app": "web"}});
    let plain = json!({"selector": selector, "template": template});
    for (api_version, kind, spec) in [
        (
            "batch/v1",
            "CronJob",
            json!({"schedule": "* * * * *", "jobTemplate": {"spec": {"template": template}}}),
        ),
        ("batch/v1", "Job", json!({"template": template})),
        ("apps/v1", "StatefulSet", plain.clone()),
        ("apps/v1", "DaemonSet", plain.clone()),
        ("apps.kruise.io/v1alpha1", "CloneSet", plain.clone()),
        ("apps.kruise.io/v1beta1", "StatefulSet", plain),
    ] {
        let workload =
            json!({"apiVersion": api_version, "kind": kind, "metadata": {"name": "web"}, "spec": spec});
        let mut pods = reviewed(&workload.to_string(), SIDECAR_SET).await;
        // What a webhook completes is shown too.
        pods.retain(|object| object["kind"] == "Pod");
        assert_eq!(pods.len(), 1, "{kind}: {pods:#?}");
        assert_eq!(containers(&pods[0]), ["main", "log"], "{kind}");
        assert_eq!(pods[0]["metadata"]["namespace"], "default", "{kind}");
        let kruise = api_version.starts_with("apps.kruise.io");
        assert_eq!(pods[0]["spec"]["readinessGates"].is_array(), kruise, "{kind}");
    }
}

#[tokio::test]
async fn a_set_of_the_old_version_means_its_namespace() {
    let old = SIDECAR_SET.replace("v1beta1", "v1alpha1").replace("spec:\n", "spec:\n  namespace: shop\n");
    assert_eq!(containers(&reviewed(DEPLOYMENT, &old).await[0]), ["main", "log"]);
    let elsewhere = DEPLOYMENT.replace("namespace: shop", "namespace: other");
    assert_eq!(containers(&reviewed(&elsewhere, &old).await[0]), ["main"]);
}

#[tokio::test]
async fn standard_input_and_folders_are_read() {
    let both = format!("{SIDECAR_SET}---\n{DEPLOYMENT}");
    let from_input = items(run_with_input(&["review", "-f", "-", "-o", "json"], &both).await);
    let folder = Folder::of(&[
        ("a/front.yaml", DEPLOYMENT),
        ("log.yml", SIDECAR_SET),
        ("notes.txt", "not a manifest: ["),
    ]);
    let from_folder = items(run(&["review", "-f", &folder.all(), "-o", "json"]).await);
    for items in [from_input, from_folder] {
        let kinds: Vec<&str> = items.iter().map(|item| item["kind"].as_str().unwrap()).collect();
        assert!(kinds.contains(&"SidecarSet") && kinds.contains(&"Pod"), "{kinds:?}");
        let pod = items.iter().find(|item| item["kind"] == "Pod").unwrap();
        assert_eq!(containers(pod), ["main", "log"]);
        // The set is shown as it would be stored.
        let set = items.iter().find(|item| item["kind"] == "SidecarSet").unwrap();
        assert_eq!(set["spec"]["updateStrategy"]["type"], "RollingUpdate");
    }
}

#[tokio::test]
async fn a_protected_namespace_is_refused_as_kubectl_would_print_it() {
    let folder = Folder::of(&[("shop.yaml", NAMESPACE)]);
    let file = folder.path("shop.yaml");
    let output = run(&["review", "-f", &file, "--operation", "delete"]).await;
    assert_eq!(code(&output), 3, "{output:?}");
    let text = "admission webhook \"vnamespace.kb.io\" denied the request: forbidden by ResourcesProtectionDeletion for policy.kruise.io/delete-protection=Always";
    assert!(
        output.stderr.starts_with("Error from server: ") && output.stderr.contains(text),
        "{}",
        output.stderr
    );
    let free = [
        "review",
        "-f",
        &file,
        "--operation",
        "delete",
        "--feature-gates",
        "ResourcesDeletionProtection=false",
    ];
    assert_eq!(code(&run(&free).await), 0);
}

#[tokio::test]
async fn cascading_counts_the_objects_given() {
    let namespace = NAMESPACE.replace("Always", "Cascading");
    let pod = "apiVersion: v1\nkind: Pod\nmetadata: {name: web, namespace: shop}\nspec: {containers: [{name: main}]}\n";
    let folder = Folder::of(&[("shop.yaml", &namespace), ("cluster/web.yaml", pod)]);
    let (file, cluster) = (folder.path("shop.yaml"), folder.path("cluster"));
    let kept = run(&["review", "-f", &file, "--operation", "delete", "--objects", &cluster]).await;
    assert_eq!(code(&kept), 3, "{kept:?}");
    assert!(kept.stderr.contains("Cascading and active pods 1>0"), "{}", kept.stderr);
    assert_eq!(code(&run(&["review", "-f", &file, "--operation", "delete"]).await), 0);
}

#[tokio::test]
async fn an_invalid_set_is_denied_with_code_3() {
    let invalid = SIDECAR_SET.replace("{matchLabels: {app: web}}", "{}");
    let output = run_with_input(&["review", "-f", "-"], &invalid).await;
    assert_eq!(code(&output), 3, "{output:?}");
    assert!(
        output.stderr.contains("admission webhook \"vsidecarset.kb.io\" denied the request: "),
        "{}",
        output.stderr
    );
    assert!(output.stderr.contains("empty selector is not valid for sidecarset."), "{}", output.stderr);
}

#[tokio::test]
async fn what_cannot_be_read_is_named_with_code_1() {
    let folder = Folder::of(&[("broken.yaml", "kind: [Pod\n"), ("empty.yaml", "a: b\n")]);
    for name in ["broken.yaml", "empty.yaml", "absent.yaml"] {
        let output = run(&["review", "-f", &folder.path(name)]).await;
        assert_eq!(code(&output), 1, "{output:?}");
        assert!(output.stderr.contains(name), "{}", output.stderr);
        assert_eq!(output.stdout, "");
    }
}

#[tokio::test]
async fn fields_and_numbers_pass_unchanged() {
    let manifest =
        DEPLOYMENT.replace("image: 'nginx:1.25'}", "image: 'nginx:1.25', fromTheFuture: {a: [1]}}");
    let pod = reviewed(&manifest, SIDECAR_SET).await.remove(0);
    assert_eq!(pod["spec"]["containers"][0]["fromTheFuture"], json!({"a": [1]}));
}

#[tokio::test]
async fn reviews_are_answered_over_https_from_files() {
    let folder = Folder::of(&[("objects/log.yaml", SIDECAR_SET), ("objects/shop.yaml", NAMESPACE)]);
    let port = kit::api_server::free_port();
    let mut child = tokio::process::Command::new(program())
        .args(["serve", "--objects", &folder.path("objects"), "--metrics-addr=0", "--health-probe-addr=0"])
        .arg(format!("--protection-log-path={}", folder.path("log")))
        .arg("--feature-gates=ResourcesDeletionProtection=true")
        .env("WEBHOOK_PORT", port.to_string())
        .env("WEBHOOK_CERT_DIR", folder.path("certificates"))
        .stdin(Stdio::null())
        .stdout(Stdio::null())
        .stderr(Stdio::null())
        .kill_on_drop(true)
        .spawn()
        .unwrap();
    let authority = folder.path("certificates/ca-cert.pem");
    let authority = wait_for("the program to listen", async || {
        if std::net::TcpStream::connect(("127.0.0.1", port)).is_err() {
            return Err("nobody listens".to_owned());
        }
        std::fs::read(Path::new(&authority)).map_err(|error| error.to_string())
    })
    .await;
    let authority = base64::engine::general_purpose::STANDARD.encode(authority);
    let program = direct(port, &authority).await;
    let pod = kit::builders::pod("web").label("app", "web").container("main", "nginx:1.25").build();
    let response = review(&program, &pod_review("shop", "CREATE", "", &pod)).await;
    assert_eq!(containers(&patched(&pod, &response)), ["main", "log"]);

    let mut delete = pod_review("shop", "DELETE", "", &Value::Null);
    let request = &mut delete["request"];
    request["kind"] = json!({"group": "", "version": "v1", "kind": "Namespace"});
    request["resource"] = json!({"group": "", "version": "v1", "resource": "namespaces"});
    let labels = json!({"policy.kruise.io/delete-protection": "Always"});
    request["oldObject"] =
        json!({"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": "shop", "labels": labels}});
    let (_, answer) = call(&program, "POST", "/validate-namespace", &delete).await;
    assert_eq!(
        (&answer["response"]["allowed"], &answer["response"]["status"]["code"]),
        (&json!(false), &json!(403))
    );

    let id = child.id().unwrap().to_string();
    assert!(std::process::Command::new("kill").arg(id).status().unwrap().success());
    assert!(child.wait().await.unwrap().success());
}
