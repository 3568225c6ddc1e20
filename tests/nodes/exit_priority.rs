//! The order in which real containers end, as they report it themselves (docs/behaviour/exit-priority.md).

use kit::builders::{Object, pod};
use kit::{objects, wait_within};
use serde_json::{Value, json};

use crate::site::{NAMESPACE, Site, TIMEOUT};

const ORDER: &str = "kruise.io/container-exit-priority";
const GRACE: &str = "/spec/terminationGracePeriodSeconds";
const RESERVE: &str = "kruise.io/container-exit-reserve-seconds";
const MODE: &str = "kruise.io/container-exit-mode";
/// Keeps a Pod until its last state has been read.
const FINALIZER: &str = "example.com/read";
/// Notes a word and the time, which all containers of the machine share.
const SAY: &str = "say() { echo $1 $(cut -d' ' -f1 /proc/uptime) >> /dev/termination-log; };";

/// A Pod whose containers end in an order, kept until it has been read.
fn ordered(name: &str, order: &str) -> Object {
    let context =
        json!({"runAsNonRoot": true, "runAsUser": 1000, "seccompProfile": {"type": "RuntimeDefault"}});
    let pod = pod(name).annotation(ORDER, order).finalizer(FINALIZER).on_node("node-2");
    pod.with("/spec/securityContext", context).with(GRACE, 30)
}

/// Adds a container that runs this script of a shell.
fn running(object: Object, name: &str, script: &str) -> Object {
    let script = format!("{SAY} {script}");
    restricted(object.container(name, "busybox:1.36").having("command", json!(["sh", "-c", script])))
}

/// Gives the last container what the restricted level of the Pod security standards asks for.
fn restricted(object: Object) -> Object {
    let context = json!({"allowPrivilegeEscalation": false, "capabilities": {"drop": ["ALL"]}});
    object.having("securityContext", context)
}

/// Adds a container that takes so many seconds to end.
fn leaving(object: Object, name: &str, seconds: u32) -> Object {
    let script = format!("trap 'say term; sleep {seconds}; say end; exit 0' TERM; sleep infinity & wait");
    running(object, name, &script)
}

/// Gives the last container a preStop hook.
fn hooked(object: Object, hook: &Value) -> Object {
    object.having("lifecycle", json!({"preStop": hook}))
}

/// A hook that notes when it runs.
fn noting() -> Value {
    json!({"exec": {"command": ["sh", "-c", format!("{SAY} say hook")]}})
}

/// The last state of a container.
fn last<'p>(pod: &'p Value, container: &str) -> &'p Value {
    let lists = ["containerStatuses", "initContainerStatuses"].map(|list| pod["status"][list].as_array());
    let mut statuses = lists.into_iter().flatten().flatten();
    let status = statuses.find(|status| status["name"] == container);
    &status.unwrap_or_else(|| panic!("{container}: {pod:#}"))["state"]["terminated"]
}

/// When a container noted a word, in seconds.
fn said(pod: &Value, container: &str, word: &str) -> f64 {
    let message = last(pod, container)["message"].as_str().unwrap_or_default();
    let mut times = message.lines().filter_map(|line| line.strip_prefix(word)?.trim().parse().ok());
    times.next().unwrap_or_else(|| panic!("{container} has not said {word}: {pod:#}"))
}

/// Each of the moments is before the one behind it.
fn in_order(pod: &Value, moments: &[(&str, &str)]) {
    for pair in moments.windows(2) {
        let [before, after] = [pair[0], pair[1]].map(|(container, word)| said(pod, container, word));
        assert!(before <= after, "{pair:?}: {before} {after}: {pod:#}");
    }
}

/// The time of the machine's start to now, in seconds.
fn uptime() -> f64 {
    let text = std::fs::read_to_string("/proc/uptime").unwrap();
    text.split_once(' ').unwrap().0.parse().unwrap()
}

/// Pods of one namespace.
struct Stage<'s> {
    site: &'s Site,
    namespace: String,
}

impl<'s> Stage<'s> {
    async fn open(site: &'s Site, prefix: &str) -> Self {
        Self { site, namespace: site.server().namespace(prefix).await }
    }

    async fn create(&self, manifest: Object) {
        let manifest = manifest.in_namespace(&self.namespace);
        objects::create(&self.site.server().client(), manifest).await.unwrap();
    }

    async fn ready(&self, pods: &str) {
        let words = format!("wait pods {pods} -n {} --for=condition=Ready --timeout=4m", self.namespace);
        self.site.kubectl(&words).await.success();
    }

    async fn delete(&self, pods: &str) {
        let words = format!("delete pods {pods} -n {} --wait=false", self.namespace);
        self.site.kubectl(&words).await.success();
    }

    /// Deletes a Pod, and waits until the agent has told the hooks of these containers to wait: a hook that is told
    /// nothing continues after 10 s.
    async fn hold(&self, pod: &str, containers: &[&str]) {
        self.delete(pod).await;
        for container in containers {
            let file = format!("/.kruise-exit/state/{container}");
            let words = format!("exec {pod} -c {container} -n {} -- cat {file}", self.namespace);
            wait_within(TIMEOUT, "the agent to hold the hook back", async || {
                let said = self.site.kubectl(&words).await;
                if said.stdout.is_empty() { Err(said.stderr) } else { Ok(()) }
            })
            .await;
        }
    }

    /// A Pod when all its containers have ended; it may go then.
    async fn ended(&self, name: &str) -> Value {
        let pod = wait_within(TIMEOUT, "the containers to end", async || {
            let pod = self.site.core(&self.namespace, &format!("pods/{name}")).await;
            let lists = ["containerStatuses", "initContainerStatuses"];
            let mut statuses = lists.iter().filter_map(|list| pod["status"][list].as_array()).flatten();
            let are_over = statuses.all(|status| status["state"]["terminated"].is_object());
            if are_over { Ok(pod) } else { Err(format!("{pod:#}")) }
        })
        .await;
        let patch = r#"--patch={"metadata":{"finalizers":null}}"#;
        let words = ["patch", "pod", name, "-n", &self.namespace, "--type=merge", patch];
        self.site.server().kubectl(words).await.success();
        pod
    }

    /// Texts of the Events about a Pod with this reason.
    async fn reported(&self, pod: &str, reason: &str) -> Vec<String> {
        let about = format!("events?fieldSelector=involvedObject.name={pod},reason={reason}");
        let list = self.site.core(&self.namespace, &about).await;
        let events = list["items"].as_array().unwrap().iter();
        events.map(|event| event["message"].as_str().unwrap_or_default().to_owned()).collect()
    }

    /// Waits until an Event about a Pod with this reason says this.
    async fn tells(&self, pod: &str, reason: &str, text: &str) {
        wait_within(TIMEOUT, "the Event", async || {
            let all = self.reported(pod, reason).await;
            if all.iter().any(|one| one == text) { Ok(()) } else { Err(all) }
        })
        .await;
    }
}

/// Scenarios 17 to 20, 22 to 24 and 28 to 30.
#[tokio::test]
async fn containers_end_in_their_order() {
    let Some(site) = Site::alone().await else { return };
    let stage = Stage::open(&site, "exit").await;
    let level =
        "pod-security.kubernetes.io/enforce=restricted pod-security.kubernetes.io/enforce-version=latest";
    site.kubectl(&format!("label namespace {} {level}", stage.namespace)).await.success();
    let two = r#"{"log":1,"envoy":2}"#;

    // Listed in another order than they end; each of the later ones has a hook of its own.
    let order = hooked(leaving(ordered("order", two), "envoy", 0), &noting());
    let order = leaving(order, "main", 40);
    let order = hooked(leaving(order, "log", 0), &json!({"sleep": {"seconds": 2}}));
    stage.create(order.with(GRACE, 90)).await;
    let equal = leaving(ordered("equal", r#"{"a":1,"b":1,"c":2}"#), "main", 10);
    let equal = leaving(leaving(leaving(equal, "a", 10), "b", 10), "c", 1);
    stage.create(equal.with(GRACE, 60)).await;
    let page = "trap 'say term; exit 0' TERM; httpd -f -vv -p 8080 2>> /dev/termination-log & wait";
    let asked = running(leaving(ordered("asked", r#"{"web":1}"#), "main", 1), "web", page);
    let asked = asked.having("ports", json!([{"name": "http", "containerPort": 8080}]));
    stage.create(hooked(asked, &json!({"httpGet": {"path": "/bye", "port": "http"}}))).await;
    let deaf = running(ordered("deaf", two), "main", "trap '' TERM; while true; do sleep 1; done");
    let deaf = leaving(leaving(deaf, "log", 0), "envoy", 0);
    stage.create(deaf.with(GRACE, 40)).await;
    let short = ordered("short", r#"{"log":1}"#).annotation(RESERVE, "10").with(GRACE, 60);
    stage.create(leaving(leaving(short, "main", 60), "log", 0)).await;
    // It stays for longer than its hook waits without a message.
    let finished = leaving(running(ordered("finished", r#"{"log":1}"#), "main", "say end"), "log", 8);
    stage.create(finished.with("/spec/restartPolicy", "Never")).await;
    let killed = leaving(leaving(ordered("killed", r#"{"log":1}"#).on_node("node-1"), "main", 40), "log", 0);
    stage.create(killed.with(GRACE, 90)).await;

    let free = Stage::open(&site, "exit-host").await;
    // Longer than a hook waits without a message.
    let host = leaving(leaving(ordered("host", r#"{"log":1}"#), "main", 40), "log", 0);
    free.create(host.with("/spec/hostNetwork", true).with(GRACE, 90)).await;
    // It has no shell, and is killed at last.
    let bare = leaving(ordered("bare", r#"{"idle":1}"#), "main", 1).container("idle", "kutter/manager:test");
    let idle = json!(["/kruise-exit-hook", "wait", "--name=idle", "--window=600"]);
    free.create(bare.having("command", idle).with(GRACE, 25)).await;

    stage.ready("order equal asked deaf short killed").await;
    free.ready("host bare").await;
    let words = format!("wait pod/finished -n {}", stage.namespace);
    let is_over = "--for=jsonpath={.status.containerStatuses[?(@.name==\"main\")].state.terminated.exitCode}=0 --timeout=4m";
    site.kubectl(&format!("{words} {is_over}")).await.success();

    // The order of these depends on what the agent says first: one after the other they do not hold it up.
    stage.hold("killed", &["log"]).await;
    site.cluster().kill("node-1", "kruise-daemon");
    stage.hold("order", &["log", "envoy"]).await;
    free.hold("host", &["log"]).await;
    stage.hold("equal", &["a", "b", "c"]).await;
    stage.hold("deaf", &["log", "envoy"]).await;
    stage.delete("asked finished").await;
    stage.delete("short --grace-period=20").await;
    let deleted = uptime();
    free.delete("bare").await;

    let order = stage.ended("order").await;
    in_order(&order, &[("main", "term"), ("main", "end"), ("log", "term"), ("log", "end")]);
    in_order(&order, &[("log", "end"), ("envoy", "hook"), ("envoy", "term")]);
    assert!(
        said(&order, "log", "term") - said(&order, "main", "end") >= 1.5,
        "its own hook sleeps: {order:#}"
    );
    stage.tells("order", "ContainerExitReleased", "Container envoy released after main, log exited").await;

    let equal = stage.ended("equal").await;
    for name in ["a", "b"] {
        in_order(&equal, &[("main", "end"), (name, "term"), (name, "end"), ("c", "term")]);
    }
    assert!(said(&equal, "a", "term") < said(&equal, "b", "end"), "both end together: {equal:#}");
    assert!(said(&equal, "b", "term") < said(&equal, "a", "end"), "both end together: {equal:#}");

    let asked = stage.ended("asked").await;
    in_order(&asked, &[("main", "end"), ("web", "term")]);
    let log = last(&asked, "web")["message"].as_str().unwrap();
    let (before, _) = log.split_once("term ").unwrap();
    assert!(before.contains("/bye"), "the request comes before the signal: {log}");

    let deaf = stage.ended("deaf").await;
    in_order(&deaf, &[("log", "term"), ("envoy", "term")]);
    assert_eq!(last(&deaf, "main")["exitCode"], 137, "{deaf:#}");
    stage.tells("deaf", "ContainerExitOrderTimeout", "Container log was let go while main still run").await;

    let short = stage.ended("short").await;
    assert_eq!(last(&short, "main")["exitCode"], 137, "{short:#}");
    assert_eq!(last(&short, "log")["exitCode"], 0, "{short:#}");
    // The kubelet would give up after 20 s: the hook went on by itself, in the time of the deletion.
    assert!(said(&short, "log", "term") < deleted + 18.0, "{deleted}: {short:#}");

    let finished = stage.ended("finished").await;
    assert!(
        said(&finished, "log", "term") < deleted + 20.0,
        "its time to wait is 27 s: {deleted} {finished:#}"
    );
    stage.tells("finished", "ContainerExitReleased", "Container log released after main exited").await;

    let killed = stage.ended("killed").await;
    in_order(&killed, &[("main", "end"), ("log", "term")]);
    assert!(
        said(&killed, "log", "term") < said(&killed, "main", "end") + 40.0,
        "a new agent lets it go, long before its time to wait of 87 s is over: {killed:#}"
    );

    in_order(&free.ended("host").await, &[("main", "end"), ("log", "term")]);
    free.ended("bare").await;
    free.tells("bare", "ContainerExitReleased", "Container idle released after main exited").await;
}

/// Scenarios 21 and 35: without an agent hooks give up after a while, and native sidecars end in order.
#[tokio::test]
async fn without_an_agent_containers_end_and_native_sidecars_in_order() {
    let Some(site) = Site::alone().await else { return };
    let stage = Stage::open(&site, "exit-alone").await;
    let alone = leaving(ordered("alone", r#"{"log":1}"#), "main", 20);
    stage.create(hooked(leaving(alone, "log", 0), &noting())).await;
    let native = ordered("native", r#"{"log":1,"envoy":2}"#).annotation(MODE, "NativeSidecar");
    let native = leaving(leaving(leaving(native, "main", 2), "log", 1), "envoy", 0);
    stage.create(native).await;
    stage.ready("alone native").await;
    let agents = async |selector: Value| {
        let patch =
            json!({"spec": {"template": {"spec": {"nodeSelector": {"example.com/agents": selector}}}}});
        let patch = format!("--patch={patch}");
        let words = ["patch", "daemonset", "kruise-daemon", "-n", NAMESPACE, &patch];
        site.server().kubectl(words).await.success();
    };
    agents(json!("none")).await;
    let gone = format!("wait --for=delete pods -n {NAMESPACE} -l control-plane=daemon --timeout=4m");
    site.kubectl(&gone).await.success();

    stage.delete("alone native").await;
    let alone = stage.ended("alone").await;
    in_order(&alone, &[("log", "hook"), ("log", "term"), ("log", "end"), ("main", "end")]);
    assert_eq!(stage.reported("alone", "FailedPreStopHook").await, [""; 0]);
    let native = stage.ended("native").await;
    in_order(&native, &[("main", "end"), ("log", "term"), ("log", "end"), ("envoy", "term")]);
    let moved = native["spec"]["initContainers"].as_array().unwrap().iter();
    let moved: Vec<&str> = moved.map(|container| container["name"].as_str().unwrap()).collect();
    assert_eq!(moved, ["envoy", "log"]);

    agents(Value::Null).await;
    for node in ["node-1", "node-2"] {
        site.agent(node).await;
    }
}
