//! Pages of the documentation, read as their readers do: manifests are applied and commands are typed, one
//! after the other, and the result of each section is checked. Fake and real nodes serve alike.

use std::collections::{BTreeMap, VecDeque};
use std::path::Path;
use std::process::Stdio;
use std::time::Duration;

use kit::{ApiServer, Output, wait_for};
use serde_json::Value;
use tempfile::TempDir;
use tokio::io::AsyncWriteExt;
use tokio::process::Command;

/// Longest time for one block.
const TIMEOUT: Duration = Duration::from_secs(240);
const RECORD: &str = "apps.kruise.io/inplace-update-state";

/// A shell in a namespace, with kubectl, the program, and the plugin under its names.
pub struct Terminal {
    /// The kubeconfig, which names the namespace, and the names of the plugin.
    folder: TempDir,
}

/// A reader who works through a page in a namespace of their own.
pub struct Reader {
    terminal: Terminal,
    /// Headings with what is under them, as far as there is something to do.
    sections: VecDeque<(String, Vec<Block>)>,
}

enum Block {
    Manifest(String),
    Commands(String),
}

/// What is of interest of a Pod with one or more containers.
#[derive(Clone, Debug, PartialEq)]
struct Life {
    uid: String,
    place: (String, String),
    containers: BTreeMap<String, Container>,
    record: Value,
}

#[derive(Clone, Debug, PartialEq)]
struct Container {
    wanted: String,
    restarts: i64,
    id: String,
    image_id: String,
    started: String,
}

impl Terminal {
    pub async fn open(server: &ApiServer, namespace: &str) -> Self {
        let terminal = Self { folder: tempfile::tempdir().unwrap() };
        for name in ["kubectl-kruise", "kubectl_complete-kruise", "resourcedistributiongenerator"] {
            std::os::unix::fs::symlink(env!("CARGO_BIN_EXE_kutter"), terminal.folder.path().join(name))
                .unwrap();
        }
        let kubeconfig = server.kubectl(["config", "view", "--raw", "--flatten"]).await.success();
        std::fs::write(terminal.folder.path().join("kubeconfig"), kubeconfig).unwrap();
        let context = format!("kubectl config set-context --current --namespace={namespace}");
        terminal.shell(&context).await.success();
        terminal
    }

    /// Runs commands as a user's shell does; one that fails ends them.
    pub async fn shell(&self, commands: &str) -> Output {
        self.shell_with_input(commands, "").await
    }

    /// [`shell`](Self::shell), with a standard input.
    pub async fn shell_with_input(&self, commands: &str, input: &str) -> Output {
        let kubectl = kit::binaries::path("kubectl");
        let folder = |program: &Path| program.parent().unwrap().display().to_string();
        let path = [
            self.folder.path().display().to_string(),
            folder(env!("CARGO_BIN_EXE_kutter").as_ref()),
            folder(&kubectl),
            std::env::var("PATH").unwrap_or_default(),
        ];
        let mut shell = Command::new("bash")
            .args(["-euc", commands])
            .env("KUBECONFIG", self.folder.path().join("kubeconfig"))
            .env("PATH", path.join(":"))
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .stderr(Stdio::piped())
            .kill_on_drop(true)
            .spawn()
            .unwrap();
        let mut stdin = shell.stdin.take().unwrap();
        // Commands may well end without reading their input.
        drop(stdin.write_all(input.as_bytes()).await);
        drop(stdin);
        let ended = tokio::time::timeout(TIMEOUT, shell.wait_with_output()).await;
        let Ok(output) = ended else {
            let state = "kubectl get clonesets,statefulsets.apps.kruise.io,pods,pvc -o wide; kubectl get events | tail -20; for set in \
                         $(kubectl get clonesets -o name); do kutter explain cloneset ${set#*/} || true; done";
            let state = Box::pin(self.shell_with_input(state, "")).await;
            panic!("not done in {TIMEOUT:?}: {commands}\n{}", state.stdout);
        };
        let output = output.unwrap();
        let text = |bytes: Vec<u8>| String::from_utf8(bytes).unwrap();
        Output { status: output.status, stdout: text(output.stdout), stderr: text(output.stderr) }
    }
}

impl Reader {
    /// Opens a page for a namespace.
    pub async fn open(server: &ApiServer, namespace: &str, page: &str) -> Self {
        let text = std::fs::read_to_string(format!("{}/docs/{page}", env!("CARGO_MANIFEST_DIR"))).unwrap();
        let sections = text.split("\n## ").skip(1).map(|section| {
            let (heading, body) = section.split_once('\n').unwrap();
            (heading.to_owned(), blocks(body))
        });
        Self {
            terminal: Terminal::open(server, namespace).await,
            sections: sections.filter(|(_, blocks)| !blocks.is_empty()).collect(),
        }
    }

    /// [`Reader::open`], for a page that begins with a workload.
    async fn open_with_defaults(server: &ApiServer, namespace: &str, page: &str) -> Self {
        let reader = Self::open(server, namespace, page).await;
        reader.defaults().await;
        reader
    }

    /// Waits until the program gives them their defaults.
    async fn defaults(&self) {
        let manifest = self.sections.iter().flat_map(|(_, blocks)| blocks).find_map(|block| match block {
            Block::Manifest(manifest) => Some(manifest),
            Block::Commands(_) => None,
        });
        wait_for("defaults to be filled in", async || {
            let words = "kubectl apply --dry-run=server --output=json --filename=-";
            let output = self.terminal.shell_with_input(words, manifest.unwrap()).await;
            let set: Value = serde_json::from_str(&output.stdout).unwrap_or_default();
            let is_filled = set["spec"]["revisionHistoryLimit"] == 10
                || set["spec"]["template"]["spec"]["dnsPolicy"] == "ClusterFirst";
            if is_filled { Ok(()) } else { Err(output.stderr) }
        })
        .await;
    }

    /// Changes the manifests of the page.
    fn rewrite(&mut self, change: impl Fn(&str) -> String) {
        for block in self.sections.iter_mut().flat_map(|(_, blocks)| blocks) {
            if let Block::Manifest(manifest) = block {
                *manifest = change(manifest);
            }
        }
    }

    /// Applies a manifest, and again where the program could not read in the time of a review what it has to, such as
    /// the new Namespace.
    async fn apply(&self, manifest: &str) -> Output {
        wait_for("the manifest to be judged", async || {
            let output = self.terminal.shell_with_input("kubectl apply --filename=-", manifest).await;
            let is_unread = ["try again", "no answer from the API server"]
                .iter()
                .any(|words| output.stderr.contains(words));
            if is_unread { Err(output) } else { Ok(output) }
        })
        .await
    }

    /// Does what the next section says, which has this heading. Gives what the commands printed.
    pub async fn read(&mut self, heading: &str) -> String {
        let (found, blocks) = self.sections.pop_front().expect("the page goes on");
        assert_eq!(found, heading);
        let mut printed = String::new();
        for block in blocks {
            let output = match block {
                Block::Manifest(manifest) => self.apply(&manifest).await,
                Block::Commands(commands) => self.shell(&commands).await,
            };
            printed.push_str(&output.success());
        }
        printed
    }

    /// [`Terminal::shell`].
    pub async fn shell(&self, commands: &str) -> Output {
        self.terminal.shell(commands).await
    }

    /// The Pods with this label `app` that are not being deleted, by name.
    async fn pods(&self, app: &str) -> BTreeMap<String, Life> {
        let text = self.shell(&format!("kubectl get pods -l app={app} -o json")).await.success();
        let list: Value = serde_json::from_str(&text).unwrap();
        let pods = list["items"].as_array().unwrap().iter();
        let staying = pods.filter(|pod| pod["metadata"]["deletionTimestamp"].is_null());
        staying.map(|pod| (text_at(pod, "/metadata/name"), life(pod))).collect()
    }

    /// Waits until the controller has reconciled the newest settings of a CloneSet, and done what it does then.
    async fn looked_at(&self, set: &str) {
        wait_for("the controller to look at the CloneSet", async || {
            let text = self.shell(&format!("kubectl get cloneset {set} -o json")).await.success();
            let set: Value = serde_json::from_str(&text).unwrap();
            let (seen, newest) = (&set["status"]["observedGeneration"], &set["metadata"]["generation"]);
            if seen == newest { Ok(()) } else { Err(format!("{seen} of {newest}")) }
        })
        .await;
    }

    /// The page has nothing left to do.
    pub fn end(&self) {
        assert!(self.sections.is_empty(), "not read: {}", self.sections[0].0);
    }
}

fn blocks(text: &str) -> Vec<Block> {
    let fenced = text.split("```").skip(1).step_by(2);
    let block = fenced.filter_map(|block| {
        let (language, body) = block.split_once('\n').unwrap();
        match language {
            "yaml" => Some(Block::Manifest(body.to_owned())),
            "sh" => Some(Block::Commands(body.to_owned())),
            _ => None,
        }
    });
    block.collect()
}

fn text_at(object: &Value, pointer: &str) -> String {
    object.pointer(pointer).and_then(Value::as_str).unwrap_or_default().to_owned()
}

fn life(pod: &Value) -> Life {
    let statuses = pod["status"]["containerStatuses"].as_array().into_iter().flatten();
    let statuses: BTreeMap<String, &Value> =
        statuses.map(|status| (text_at(status, "/name"), status)).collect();
    let containers = pod["spec"]["containers"].as_array().unwrap().iter().map(|container| {
        let name = text_at(container, "/name");
        let status = statuses[&name];
        let container = Container {
            wanted: text_at(container, "/image"),
            restarts: status["restartCount"].as_i64().unwrap(),
            id: text_at(status, "/containerID"),
            image_id: text_at(status, "/imageID"),
            started: text_at(status, "/state/running/startedAt"),
        };
        (name, container)
    });
    let record = pod["metadata"]["annotations"][RECORD].as_str().unwrap_or("null");
    Life {
        uid: text_at(pod, "/metadata/uid"),
        place: (text_at(pod, "/spec/nodeName"), text_at(pod, "/status/podIP")),
        containers: containers.collect(),
        record: serde_json::from_str(record).unwrap(),
    }
}

/// The Pods whose container `main` is to have this image.
fn at(pods: &BTreeMap<String, Life>, image: &str) -> usize {
    pods.values().filter(|pod| pod.containers["main"].wanted == image).count()
}

/// The Pod is the same one; its container was replaced once by one with this image.
#[track_caller]
fn assert_updated_in_place(before: &Life, after: &Life, container: &str, image: &str) {
    assert!(!before.place.1.is_empty(), "{before:?}");
    assert_eq!((&after.uid, &after.place), (&before.uid, &before.place), "node and address are kept");
    let (old, new) = (&before.containers[container], &after.containers[container]);
    assert_eq!((new.wanted.as_str(), new.restarts), (image, old.restarts + 1));
    assert!(new.id != old.id && new.image_id != old.image_id, "{old:?} {new:?}");
}

/// Goes through `cloneset.md`.
pub async fn cloneset(server: &ApiServer, namespace: &str) {
    let mut page = Reader::open_with_defaults(server, namespace, "cloneset.md").await;
    let printed = page.read("Deploy").await;
    assert!(printed.contains(&format!("CloneSet {namespace}/web: complete")), "{printed}");
    let first = page.pods("web").await;
    assert_eq!((first.len(), at(&first, "nginx:1.24")), (3, 3));

    page.read("Scale up by three").await;
    let six = page.pods("web").await;
    assert_eq!(six.len(), 6);
    assert!(first.iter().all(|(name, pod)| six.get(name).is_some_and(|now| now.uid == pod.uid)));

    page.read("Scale down a Pod of your choice").await;
    let four = page.pods("web").await;
    assert_eq!(four.len(), 4);
    let mut named = six.keys();
    for name in [named.next().unwrap(), named.next().unwrap()] {
        assert!(!four.contains_key(name), "{name} was to go");
    }
    wait_for("the name to be taken out of the list", async || {
        let names = "kubectl get cloneset web -o jsonpath='{.spec.scaleStrategy.podsToDelete[*]}'";
        let names = page.shell(names).await.success();
        if names.is_empty() { Ok(()) } else { Err(names) }
    })
    .await;

    updates(&mut page, four).await;
    let waiting = page.read("Why does it wait?").await;
    for part in [
        ": waiting\n",
        "maxUnavailable 1 of 4 Pods and 0 surge Pods is used up; unavailable 1: web-",
        "; container main waits: ",
        "\"state\": \"waiting\"",
        ": complete\n",
    ] {
        assert!(waiting.contains(part), "{part}: {waiting}");
    }
    let cured = page.pods("web").await;
    assert_eq!((cured.len(), at(&cured, "nginx:1.24")), (4, 4));
    page.end();
    page.shell("kubectl delete cloneset web").await.success();
}

/// The sections of `cloneset.md` that change images.
async fn updates(page: &mut Reader, before: BTreeMap<String, Life>) {
    page.read("Update the image in place").await;
    let all = page.pods("web").await;
    assert_eq!(all.len(), 4);
    for (name, before) in &before {
        assert_updated_in_place(before, &all[name], "main", "nginx:1.25");
    }

    let printed = page.read("Update one half").await;
    assert!(printed.contains("limit: partition 2: 2 Pods stay at older revisions"), "{printed}");
    let half = page.pods("web").await;
    assert_eq!((at(&half, "nginx:1.25"), at(&half, "nginx:1.26")), (2, 2));
    for (name, before) in &all {
        match half[name].containers["main"].wanted.as_str() {
            "nginx:1.25" => assert_eq!(half[name], *before),
            _ => assert_updated_in_place(before, &half[name], "main", "nginx:1.26"),
        }
    }

    let printed = page.read("Pause").await;
    assert!(printed.contains("limit: paused: 2 Pods are not updated"), "{printed}");
    assert!(printed.ends_with("not complete: code 2\n"), "{printed}");
    page.looked_at("web").await;
    assert_eq!(page.pods("web").await, half);

    page.read("Roll back").await;
    let back = page.pods("web").await;
    for (name, before) in &half {
        match before.containers["main"].wanted.as_str() {
            "nginx:1.25" => assert_eq!(back[name], *before, "it was there already"),
            _ => assert_updated_in_place(before, &back[name], "main", "nginx:1.25"),
        }
    }

    let printed = page.read("Pull images ahead").await;
    assert!(printed.lines().any(|line| line.starts_with("web-") && line.contains("-main ")), "{printed}");
    let ahead = page.pods("web").await;
    for (name, before) in &back {
        assert_updated_in_place(before, &ahead[name], "main", "nginx:1.24");
    }
    wait_for("the ImagePullJobs to be gone", async || {
        let jobs = page.shell("kubectl get imagepulljobs -o name").await.success();
        if jobs.is_empty() { Ok(()) } else { Err(jobs) }
    })
    .await;
}

/// Goes through `statefulset.md`: somebody serves the claims of StorageClass `expandable`.
pub async fn statefulset(server: &ApiServer, namespace: &str) {
    let mut page = Reader::open_with_defaults(server, namespace, "statefulset.md").await;
    let printed = page.read("Deploy").await;
    assert!(printed.contains(&format!("StatefulSet {namespace}/db: complete")), "{printed}");
    let names = |pods: &BTreeMap<String, Life>| pods.keys().cloned().collect::<Vec<_>>();
    assert_eq!(names(&page.pods("db").await), ["db-0", "db-1", "db-2"]);

    let printed = page.read("Scale").await;
    assert!(printed.contains("data-db-3"), "{printed}");
    assert_eq!(names(&page.pods("db").await), ["db-0", "db-1", "db-2"]);

    page.read("Reserve an ordinal").await;
    let before = page.pods("db").await;
    assert_eq!(names(&before), ["db-0", "db-2", "db-3"]);

    page.read("Update in place, one member first").await;
    let updated = page.pods("db").await;
    for (name, before) in &before {
        assert_updated_in_place(before, &updated[name], "main", "nginx:1.26");
    }

    let printed = page.read("Resize the disk").await;
    assert_eq!(
        printed.lines().filter(|line| line.starts_with("data-db-") && line.contains("2Gi")).count(),
        3
    );
    let resized = page.pods("db").await;
    assert_eq!(resized, updated, "Pods stay as they are");

    page.read("Move a member and keep its node").await;
    let moved = page.pods("db").await;
    assert_ne!(moved["db-2"].uid, resized["db-2"].uid);
    let preferred =
        page.shell("kubectl get pod db-2 -o jsonpath='{.spec.affinity.nodeAffinity}'").await.success();
    let node = &resized["db-2"].place.0;
    assert!(preferred.contains(node.as_str()), "it is led back to {node}: {preferred}");
    page.end();
    page.shell("kubectl delete statefulset.apps.kruise.io db").await.success();
}

/// Goes through `broadcastjob.md`. Fake nodes run nothing: an annotation, which real ones pass over, ends their Pods.
pub async fn broadcastjob(server: &ApiServer, namespace: &str) {
    let mut page = Reader::open_with_defaults(server, namespace, "broadcastjob.md").await;
    let ending = "  template:\n    metadata:\n      annotations: {fake-node/exit: main=0}\n    spec:";
    page.rewrite(|manifest| manifest.replace("  template:\n    spec:", ending));
    let printed = page.read("Run something on every Node").await;
    assert!(printed.contains("the job is completed"), "{printed}");
    let printed = page.read("Serve Nodes that join later").await;
    assert!(printed.contains(&format!("BroadcastJob {namespace}/prepare: complete")), "{printed}");
    page.end();
    page.shell("kubectl delete broadcastjobs --all").await.success();
}

/// Goes through `daemonset.md`, with a Pod on each of several Nodes.
pub async fn daemonset(server: &ApiServer, namespace: &str) {
    let mut page = Reader::open_with_defaults(server, namespace, "daemonset.md").await;
    let printed = page.read("Deploy").await;
    assert!(printed.contains(&format!("DaemonSet {namespace}/agent: complete")), "{printed}");
    let before = page.pods("agent").await;
    assert!(before.len() > 1, "{before:?}");

    page.read("Update one Node first").await;
    let updated = page.pods("agent").await;
    for (name, before) in &before {
        assert_updated_in_place(before, &updated[name], "main", "nginx:1.26");
    }

    page.read("Start the new Pod first").await;
    let recreated = page.pods("agent").await;
    assert_eq!(recreated.len(), before.len());
    assert!(recreated.keys().all(|name| !before.contains_key(name)));

    let printed = page.read("Why has a Node no Pod").await;
    assert!(printed.contains("\"state\""), "{printed}");
    page.read("New Nodes step by step").await;
    assert_eq!(page.pods("agent").await, recreated);
    page.end();
    page.shell("kubectl delete daemonset.apps.kruise.io agent").await.success();
}

/// Goes through `in-place-update.md`.
pub async fn in_place_update(server: &ApiServer, namespace: &str) {
    let mut page = Reader::open_with_defaults(server, namespace, "in-place-update.md").await;
    page.read("Grace period").await;
    let pods = page.pods("graceful").await;
    let pod = pods.values().next().unwrap();
    assert_eq!((pods.len(), at(&pods, "nginx:1.26"), pod.containers["main"].restarts), (1, 1, 1));
    let time = |value: &Value| -> jiff::Timestamp { value.as_str().unwrap().parse().unwrap() };
    let begun = time(&pod.record["updateTimestamp"]);
    let changed = time(&pod.record["containerBatchesRecord"][0]["timestamp"]);
    assert!(changed.duration_since(begun).as_secs() >= 5, "{}", pod.record);

    page.read("Launch order").await;
    let pods = page.pods("ordered").await;
    let pod = pods.values().next().unwrap();
    let batches = pod.record["containerBatchesRecord"].as_array().unwrap().iter();
    let batches: Vec<String> = batches.map(|batch| batch["containers"].to_string()).collect();
    assert_eq!(batches, [r#"["proxy"]"#, r#"["main"]"#]);
    let (main, proxy) = (&pod.containers["main"], &pod.containers["proxy"]);
    assert_eq!((main.restarts, proxy.restarts), (1, 1));
    assert_eq!((main.wanted.as_str(), proxy.wanted.as_str()), ("nginx:1.26", "nginx:1.26"));
    // RFC 3339 in UTC and whole seconds: as texts they are in order.
    assert!(proxy.started <= main.started, "{pod:?}");

    let printed = page.read("Lifecycle hooks").await;
    assert!(printed.contains("remove finalizer example.com/drain from it"), "{printed}");
    assert!(printed.contains("not complete: code 2\n"), "{printed}");
    assert!(page.pods("hooked").await.is_empty());
    page.end();
    page.shell("kubectl delete clonesets --all").await.success();
}
