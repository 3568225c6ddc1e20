//! The order in which real containers start, as they report it themselves (docs/behaviour/launch-priority.md).

use std::time::Duration;

use kit::builders::{Object, deployment, pod, stateful_set};
use kit::{objects, wait_within};
use serde_json::{Value, json};

use crate::chronicle::Chronicle;
use crate::site::Site;

const TIMEOUT: Duration = Duration::from_secs(120);
const ORDERED: (&str, &str) = ("apps.kruise.io/container-launch-priority", "Ordered");
const COMPLETED: &str = "apps.kruise.io/container-launch-priority-completed";
/// Says when it starts, and a moment before it is ready.
const PROGRAM: &str =
    "echo started; sleep 1; echo ready; touch /tmp/ready; trap 'exit 0' TERM; sleep infinity & wait";

/// Adds containers that say when they start and when they are ready.
fn telling<const N: usize>(object: Object, names: [&str; N]) -> Object {
    let add = |object: Object, name: &&str| {
        let probe = json!({"exec": {"command": ["test", "-e", "/tmp/ready"]}, "periodSeconds": 1});
        let object = object.container(name, "busybox:1.36").having("readinessProbe", probe);
        object.having("command", json!(["sh", "-c", PROGRAM]))
    };
    names.iter().fold(object, add)
}

/// Pods of one namespace.
struct Street<'s> {
    site: &'s Site,
    namespace: String,
}

impl Street<'_> {
    async fn create(&self, manifest: Object) {
        let manifest = manifest.in_namespace(&self.namespace);
        objects::create(&self.site.server().client(), manifest).await.unwrap();
    }

    /// The Pod with label `app` of this value, once it is ready, marked as completed, and another one than that with
    /// the UID `not`.
    async fn ready(&self, app: &str, not: &str) -> Value {
        wait_within(TIMEOUT, "the Pod to be ready", async || {
            let list = self.site.core(&self.namespace, &format!("pods?labelSelector=app={app}")).await;
            let mut pods = list["items"].as_array().unwrap().iter();
            let found = pods.find(|pod| {
                let mut conditions = pod["status"]["conditions"].as_array().into_iter().flatten();
                let is_ready = conditions.any(|it| it["type"] == "Ready" && it["status"] == "True");
                is_ready
                    && pod["metadata"]["annotations"][COMPLETED] == "true"
                    && pod["metadata"]["uid"] != not
            });
            found.cloned().ok_or_else(|| format!("{list:#}"))
        })
        .await
    }

    /// When a container of a Pod said this word, in a form that sorts like the time.
    async fn said(&self, pod: &str, container: &str, word: &str) -> String {
        let log = self.site.log(&self.namespace, pod, container, false).await;
        let line = log.lines().find_map(|line| line.strip_suffix(&format!(" {word}")));
        line.unwrap_or_else(|| panic!("{container} did not say {word}: {log}")).to_owned()
    }

    /// Each container has started after the one before it was ready.
    async fn in_order(&self, pod: &Value, containers: &[&str]) {
        let pod = pod["metadata"]["name"].as_str().unwrap();
        for pair in containers.windows(2) {
            let (ready, started) =
                (self.said(pod, pair[0], "ready").await, self.said(pod, pair[1], "started").await);
            assert!(ready < started, "{pod}: {} {ready}, {} {started}", pair[0], pair[1]);
        }
    }

    /// The barrier of a Pod, owned by it, has these keys.
    async fn barrier(&self, pod: &Value, keys: &[&str]) {
        let name = pod["metadata"]["name"].as_str().unwrap();
        let barrier = self.site.core(&self.namespace, &format!("configmaps/{name}-barrier")).await;
        assert_eq!(barrier["metadata"]["ownerReferences"][0]["uid"], pod["metadata"]["uid"]);
        let data = barrier["data"].as_object().unwrap();
        let expected = keys.iter().map(|key| ((*key).to_owned(), json!("true")));
        assert_eq!(*data, expected.collect(), "{barrier:#}");
    }
}

/// The rules of docs/behaviour/launch-priority.md#release-of-the-containers, for each kind of Pod.
#[tokio::test]
async fn containers_of_all_kinds_of_pods_start_in_their_order() {
    let Some(site) = Site::installed().await else { return };
    let street = Street { site: &site, namespace: site.server().namespace("launch").await };
    let chronicle = Chronicle::begin(&site.server().client(), &street.namespace).await;
    let template_grace = "/spec/template/spec/terminationGracePeriodSeconds";
    let three = pod("three").label("app", "three").annotation(ORDERED.0, ORDERED.1);
    street.create(telling(three, ["a", "b", "c"])).await;
    let side = telling(pod("side").label("app", "side"), ["main", "side"]);
    street.create(side.env("KRUISE_CONTAINER_PRIORITY", "1")).await;
    let equal = telling(pod("equal"), ["main", "side"]).env("KRUISE_CONTAINER_PRIORITY", "0");
    street.create(equal).await;
    let front = deployment("front").matching("app", "front").replicas(1);
    let front = front.template_annotation(ORDERED.0, ORDERED.1).with(template_grace, 0);
    street.create(telling(front, ["a", "b"])).await;
    let db = stateful_set("db").matching("app", "db").replicas(1);
    let db = db.template_annotation(ORDERED.0, ORDERED.1).with(template_grace, 0);
    street.create(telling(db, ["a", "b"])).await;

    let three = street.ready("three", "").await;
    street.in_order(&three, &["a", "b", "c"]).await;
    street.barrier(&three, &["p_0", "p_-1", "p_-2"]).await;

    let side = street.ready("side", "").await;
    street.in_order(&side, &["side", "main"]).await;
    street.barrier(&side, &["p_0", "p_1"]).await;
    let waits = chronicle
        .course("side", |pod| {
            let mut statuses = pod["status"]["containerStatuses"].as_array().into_iter().flatten();
            let main = statuses.find(|status| status["name"] == "main");
            main.is_some_and(|main| main["state"]["waiting"]["reason"] == "CreateContainerConfigError")
        })
        .await;
    assert!(waits.contains(&true), "main did not wait");
    let equal = site.core(&street.namespace, "pods/equal").await;
    assert!(!equal.to_string().contains("KRUISE_CONTAINER_BARRIER"), "{equal:#}");

    // Another Pod, of another name and of the same.
    for (app, barrier_stays) in [("front", false), ("db", true)] {
        let first = street.ready(app, "").await;
        street.in_order(&first, &["a", "b"]).await;
        street.barrier(&first, &["p_0", "p_-1"]).await;
        let name = first["metadata"]["name"].as_str().unwrap();
        site.kubectl(&format!("delete pod {name} -n {}", street.namespace)).await.success();
        let second = street.ready(app, first["metadata"]["uid"].as_str().unwrap()).await;
        street.in_order(&second, &["a", "b"]).await;
        street.barrier(&second, &["p_0", "p_-1"]).await;
        assert_eq!(second["metadata"]["name"] == first["metadata"]["name"], barrier_stays);
        if !barrier_stays {
            let words =
                format!("wait --for=delete configmap/{name}-barrier -n {} --timeout=4m", street.namespace);
            site.kubectl(&words).await.success();
        }
    }
    site.kubectl(&format!("delete deployment,statefulset,pods --all -n {} --wait=false", street.namespace))
        .await
        .success();
}
