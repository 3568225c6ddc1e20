//! Containers that agents restart, on real nodes (docs/behaviour/restarts.md and
//! docs/behaviour/in-place-update.md).

use kit::builders::{Object, object, pod, workload};
use kit::{objects, wait_within};
use serde_json::{Value, json};

use crate::site::{Site, TIMEOUT};

const META: &str = "apps.kruise.io/runtime-containers-meta";

/// Pods and requests of one namespace.
struct Yard<'s> {
    site: &'s Site,
    namespace: String,
}

impl<'s> Yard<'s> {
    async fn open(site: &'s Site, prefix: &str) -> Self {
        Self { site, namespace: site.server().namespace(prefix).await }
    }

    async fn create(&self, manifest: Object) {
        let manifest = manifest.in_namespace(&self.namespace);
        objects::create(&self.site.server().client(), manifest).await.unwrap();
    }

    async fn pod(&self, name: &str) -> Value {
        self.site.core(&self.namespace, &format!("pods/{name}")).await
    }

    /// Events that say that a container of this Pod is stopped.
    async fn stops(&self, pod: &str) -> Value {
        let about = format!("events?fieldSelector=involvedObject.name={pod},reason=Killing");
        self.site.core(&self.namespace, &about).await
    }

    async fn ready(&self, pod: &str) -> Value {
        let words = format!("wait pod/{pod} -n {} --for=condition=Ready --timeout=4m", self.namespace);
        self.site.kubectl(&words).await.success();
        self.pod(pod).await
    }

    /// Asks for these containers to be restarted.
    async fn ask(&self, name: &str, pod: &str, containers: &[&str], strategy: Value) {
        let containers: Vec<Value> = containers.iter().map(|name| json!({"name": name})).collect();
        let spec = json!({"podName": pod, "containers": containers, "strategy": strategy});
        let request = object("apps.kruise.io/v1beta1", "ContainerRecreateRequest", name);
        self.create(request.with("/spec", spec)).await;
    }

    /// Waits until a request has come that far.
    async fn phase(&self, request: &str, phase: &str) -> Value {
        wait_within(TIMEOUT, "the request", async || {
            let path = format!("containerrecreaterequests/{request}");
            let request = self.site.kruise(&self.namespace, &path).await;
            if request["status"]["phase"] == phase { Ok(request) } else { Err(format!("{request:#}")) }
        })
        .await
    }

    /// The request once it is over, with all its containers back.
    async fn succeeded(&self, request: &str) -> Value {
        let request = self.phase(request, "Completed").await;
        let states = request["status"]["containerRecreateStates"].as_array().unwrap();
        assert!(states.iter().all(|state| state["phase"] == "Succeeded"), "{request:#}");
        request
    }

    async fn log(&self, pod: &str, container: &str) -> String {
        self.site.log(&self.namespace, pod, container, false).await
    }
}

/// A container that runs this script of a shell.
fn running(object: Object, name: &str, script: &str) -> Object {
    object.container(name, "busybox:1.36").having("command", json!(["sh", "-c", script]))
}

fn status<'p>(pod: &'p Value, container: &str) -> &'p Value {
    let mut statuses = pod["status"]["containerStatuses"].as_array().unwrap().iter();
    statuses.find(|status| status["name"] == container).unwrap_or_else(|| panic!("{pod:#}"))
}

fn restarts(pod: &Value, container: &str) -> i64 {
    status(pod, container)["restartCount"].as_i64().unwrap()
}

/// The time at which a line with this text was written, in a form that sorts like the time.
fn moment(log: &str, text: &str) -> String {
    let line = log.lines().find(|line| line.contains(text)).unwrap_or_else(|| panic!("no {text} in {log}"));
    line.split(' ').next().unwrap().to_owned()
}

/// Scenarios 17 to 21 of docs/behaviour/node-agent.md#acceptance-scenarios-of-the-node-agent.
#[tokio::test]
async fn requests_restart_containers_in_order_after_their_hooks_and_in_time() {
    let Some(site) = Site::installed().await else { return };
    let yard = Yard::open(&site, "restart").await;
    let idle = "trap 'exit 0' TERM; sleep infinity & wait";
    let web = running(running(pod("web"), "first", idle), "second", idle);
    yard.create(web).await;
    let deaf = running(pod("deaf"), "main", "trap '' TERM; while true; do sleep 1; done");
    yard.create(deaf).await;
    let leaving =
        running(pod("leaving"), "main", "trap 'sleep 1; echo leaves; exit 0' TERM; sleep infinity & wait");
    let hook = json!({"preStop": {"httpGet": {"path": "/bye", "port": 8080}}});
    let leaving = leaving.having("lifecycle", hook);
    yard.create(running(leaving, "desk", "httpd -f -vv -p 8080 2>&1")).await;
    for pod in ["web", "deaf", "leaving"] {
        yard.ready(pod).await;
    }

    yard.ask("both", "web", &["first", "second"], json!({"orderedRecreate": true})).await;
    // Without force a container that has restarted meanwhile would do.
    yard.ask("later", "web", &["first"], json!({"forceRecreate": true})).await;
    yard.ask("deaf", "deaf", &["main"], json!({"terminationGracePeriodSeconds": 1})).await;
    yard.ask("leaving", "leaving", &["main"], json!({})).await;

    let both = yard.succeeded("both").await;
    let web = yard.pod("web").await;
    let second = status(&web, "second");
    let ended = second["lastState"]["terminated"]["finishedAt"].as_str().unwrap();
    wait_within(TIMEOUT, "the Event", async || {
        let events = yard.stops("web").await;
        if events.to_string().contains("by ContainerRecreateRequest both") { Ok(()) } else { Err(events) }
    })
    .await;
    let later = yard.succeeded("later").await;
    let over = |request: &Value| request["status"]["completionTime"].as_str().unwrap().to_owned();
    assert!(over(&both) <= over(&later), "one after the other");
    let web = yard.pod("web").await;
    assert_eq!((restarts(&web, "first"), restarts(&web, "second")), (2, 1));
    let started = status(&web, "first")["lastState"]["terminated"]["startedAt"].as_str().unwrap();
    assert!(started <= ended, "the second stops when the first is back: {started} {ended}");

    yard.succeeded("deaf").await;
    let deaf = wait_within(TIMEOUT, "the kubelet to tell how the container ended", async || {
        let deaf = yard.pod("deaf").await;
        if status(&deaf, "main")["lastState"]["terminated"].is_object() { Ok(deaf) } else { Err(deaf) }
    })
    .await;
    let ended = &status(&deaf, "main")["lastState"]["terminated"];
    assert_eq!((restarts(&deaf, "main"), &ended["exitCode"]), (1, &json!(137)));

    yard.succeeded("leaving").await;
    let asked = moment(&yard.log("leaving", "desk").await, "/bye");
    let left = moment(&site.log(&yard.namespace, "leaving", "main", true).await, "leaves");
    assert!(asked < left, "the hook comes first: {asked} {left}");
    site.kubectl(&format!("delete pods --all -n {} --wait=false --grace-period=1", yard.namespace))
        .await
        .success();
}

/// What a restart has begun the next agent ends, and nothing is restarted twice.
#[tokio::test]
async fn a_restart_goes_on_when_the_agent_is_killed() {
    let Some(site) = Site::alone().await else { return };
    let yard = Yard::open(&site, "halfway").await;
    let web = running(pod("web"), "main", "trap 'exit 0' TERM; sleep infinity & wait");
    let slow = json!({"preStop": {"exec": {"command": ["sleep", "4"]}}});
    yard.create(web.having("lifecycle", slow)).await;
    let node = yard.ready("web").await["spec"]["nodeName"].as_str().unwrap().to_owned();
    yard.ask("restart", "web", &["main"], json!({})).await;
    wait_within(TIMEOUT, "the stop to begin", async || {
        let list = yard.stops("web").await;
        if list["items"].as_array().is_some_and(|items| !items.is_empty()) { Ok(()) } else { Err(list) }
    })
    .await;
    site.cluster().kill(&node, "kruise-daemon");
    yard.succeeded("restart").await;
    assert_eq!(restarts(&yard.pod("web").await, "main"), 1);
    site.kubectl(&format!("delete pods --all -n {} --wait=false --grace-period=1", yard.namespace))
        .await
        .success();
}

/// Scenarios 14 and 16 of docs/behaviour/node-agent.md#acceptance-scenarios-of-the-node-agent: variables follow
/// metadata where an update says so, and nowhere else.
#[tokio::test]
async fn a_container_restarts_once_where_an_update_changes_what_its_variables_show() {
    let Some(site) = Site::installed().await else { return };
    let yard = Yard::open(&site, "shown").await;
    let template = json!({
        "metadata": {"labels": {"app": "web", "shown": "one"}},
        "spec": {"terminationGracePeriodSeconds": 1, "containers": [{
            "name": "main", "image": "busybox:1.36",
            "command": ["sh", "-c", "echo shown $SHOWN; trap 'exit 0' TERM; sleep infinity & wait"],
            "env": [{"name": "SHOWN", "valueFrom": {"fieldRef": {"fieldPath": "metadata.labels['shown']"}}}],
        }]},
    });
    let set = workload("apps.kruise.io/v1beta1", "CloneSet", "web").matching("app", "web").replicas(1);
    let set = set.with("/spec/template", template);
    yard.create(set.with("/spec/updateStrategy/rollingUpdate/podUpdatePolicy", "InPlaceIfPossible")).await;
    let newest = async |wanted: i64| {
        wait_within(TIMEOUT, "the Pod", async || {
            let list = site.core(&yard.namespace, "pods?labelSelector=app=web").await;
            let pod = &list["items"][0];
            let reported = pod["metadata"]["annotations"][META].as_str().unwrap_or("null");
            let reported: Value = serde_json::from_str(reported).unwrap();
            let status = &pod["status"]["containerStatuses"][0];
            let agrees = reported["containers"][0]["containerID"] == status["containerID"];
            let is_there = status["restartCount"] == wanted && status["ready"] == true && agrees;
            if is_there { Ok(pod.clone()) } else { Err(format!("{pod:#}")) }
        })
        .await
    };
    let before = newest(0).await;
    let patch = r#"--patch={"spec":{"template":{"metadata":{"labels":{"shown":"two"}}}}}"#;
    let words = ["patch", "cloneset", "web", "--type=merge", "-n", &yard.namespace, patch];
    site.server().kubectl(words).await.success();
    let after = newest(1).await;
    assert_eq!(after["metadata"]["uid"], before["metadata"]["uid"]);
    let name = after["metadata"]["name"].as_str().unwrap();
    wait_within(TIMEOUT, "what the variable shows", async || {
        let log = yard.log(name, "main").await;
        if log.contains("shown two") { Ok(()) } else { Err(log) }
    })
    .await;
    let updated = "wait cloneset/web --for=jsonpath={.status.updatedReadyReplicas}=1 --timeout=4m";
    site.kubectl(&format!("{updated} -n {}", yard.namespace)).await.success();

    // Beside it a Pod of nobody, of which nothing is reported, and a change by hand.
    yard.create(running(pod("bare"), "main", "sleep infinity")).await;
    yard.ready("bare").await;
    site.kubectl(&format!("label pod {name} shown=three --overwrite -n {}", yard.namespace)).await.success();
    yard.ask("probe", "bare", &["main"], json!({"terminationGracePeriodSeconds": 1})).await;
    yard.succeeded("probe").await;
    let bare = yard.pod("bare").await;
    assert!(bare["metadata"]["annotations"][META].is_null(), "{bare:#}");
    assert_eq!(restarts(&newest(1).await, "main"), 1, "a label by hand restarts nothing");
    site.kubectl(&format!("delete cloneset web -n {}", yard.namespace)).await.success();
    site.kubectl(&format!("delete pods --all -n {} --wait=false --grace-period=1", yard.namespace))
        .await
        .success();
}

/// Scenario 33 of docs/behaviour/restarts.md#acceptance-scenarios, as kubelets see it.
#[tokio::test]
async fn an_ephemeral_job_looks_into_one_pod_after_the_other() {
    let Some(site) = Site::installed().await else { return };
    let yard = Yard::open(&site, "ephemeral").await;
    for name in ["web-0", "web-1"] {
        let web = running(pod(name).label("app", "web"), "main", "trap 'exit 0' TERM; sleep infinity & wait");
        yard.create(web).await;
    }
    for name in ["web-0", "web-1"] {
        yard.ready(name).await;
    }
    let look = json!([{"name": "look", "image": "busybox:1.36", "command": ["sh", "-c", "echo $KRUISE_EJOB_ID; sleep 1"]}]);
    let job = object("apps.kruise.io/v1alpha1", "EphemeralJob", "look").with("/spec", json!({
        "selector": {"matchLabels": {"app": "web"}}, "parallelism": 1, "template": {"ephemeralContainers": look},
    }));
    yard.create(job).await;
    let words = "wait ejob/look --for=jsonpath={.status.phase}=Succeeded --timeout=4m";
    site.kubectl(&format!("{words} -n {}", yard.namespace)).await.success();
    let path = format!("/apis/apps.kruise.io/v1alpha1/namespaces/{}/ephemeraljobs/look", yard.namespace);
    let job = site.get(&path).await;
    assert_eq!((&job["status"]["match"], &job["status"]["succeeded"]), (&json!(2), &json!(2)), "{job:#}");
    let mut spans = Vec::new();
    for name in ["web-0", "web-1"] {
        let log = yard.log(name, "look").await;
        assert!(log.contains(job["metadata"]["uid"].as_str().unwrap()), "{log}");
        let pod = yard.pod(name).await;
        let ended = pod["status"]["ephemeralContainerStatuses"][0]["state"]["terminated"].clone();
        let time = |field: &str| ended[field].as_str().unwrap().to_owned();
        spans.push((time("startedAt"), time("finishedAt")));
    }
    spans.sort();
    assert!(spans[0].1 <= spans[1].0, "one after the other: {spans:?}");
    site.kubectl(&format!("delete ejob,pods --all -n {} --wait=false --grace-period=1", yard.namespace))
        .await
        .success();
}
