//! Images come to real nodes from a registry that has its moods (docs/behaviour/images.md and
//! docs/behaviour/node-agent.md).

use std::collections::BTreeSet;

use kit::builders::{Object, object, pod, workload};
use kit::cluster::{Asked, Behaviour, Registry};
use kit::{Image, objects, wait_for, wait_within};
use serde_json::{Value, json};

use crate::site::{Site, TIMEOUT};

const NODES: [&str; 2] = ["node-1", "node-2"];
/// `user:right` and `user:wrong` in base64, as HTTP sends them.
const RIGHT: &str = "Basic dXNlcjpyaWdodA==";
const WRONG: &str = "Basic dXNlcjp3cm9uZw==";

/// Jobs of one namespace, and where their images come from.
struct Depot<'s> {
    site: &'s Site,
    namespace: String,
    registry: Registry,
}

impl<'s> Depot<'s> {
    async fn open(
        site: &'s Site,
        prefix: &str,
        script: impl Fn(&Asked) -> Behaviour + Send + Sync + 'static,
    ) -> Self {
        wait_within(TIMEOUT, "the NodeImages", async || {
            let list = site.get("/apis/apps.kruise.io/v1beta1/nodeimages").await;
            if list["items"].as_array().unwrap().len() == NODES.len() { Ok(()) } else { Err(list) }
        })
        .await;
        let namespace = site.server().namespace(prefix).await;
        Self { site, namespace, registry: site.cluster().registry(script) }
    }

    /// An image that no node has yet, with content of this size, and its digest.
    fn push(&self, reference: &str, size: usize) -> (String, String) {
        let content = format!("{}/{reference}", self.namespace).repeat(size / 10 + 1);
        let image = Image::busybox().text("content", &content[..size]);
        let digest = self.site.cluster().push_image(reference, &image);
        (self.registry.image(reference), digest)
    }

    /// A job for both nodes at a time.
    fn job(&self, name: &str, image: &str) -> Object {
        self.of_kind("ImagePullJob", name).with("/spec/image", image)
    }

    fn of_kind(&self, kind: &str, name: &str) -> Object {
        let policy = json!({"timeoutSeconds": 30, "backoffLimit": 1});
        let spec = json!({"parallelism": 2, "pullPolicy": policy, "completionPolicy": {"ttlSecondsAfterFinished": 300}});
        object("apps.kruise.io/v1beta1", kind, name).in_namespace(&self.namespace).with("/spec", spec)
    }

    async fn create(&self, manifest: Object) {
        objects::create(&self.site.server().client(), manifest).await.unwrap();
    }

    /// The status of a job, such as `imagepulljobs/web`, that has completed.
    async fn completed(&self, job: &str) -> Value {
        self.completed_in(&self.namespace, job).await
    }

    async fn completed_in(&self, namespace: &str, job: &str) -> Value {
        wait_within(TIMEOUT, "the job to complete", async || {
            let status = self.site.kruise(namespace, job).await["status"].clone();
            if status["completionTime"].is_string() { Ok(status) } else { Err(status) }
        })
        .await
    }

    /// What a node says of a tag of an image.
    async fn reported(&self, node: &str, image: &str, tag: &str) -> Value {
        let object = self.site.get(&format!("/apis/apps.kruise.io/v1beta1/nodeimages/{node}")).await;
        let mut tags = object["status"]["imageStatuses"][image]["tags"].as_array().into_iter().flatten();
        tags.find(|status| status["tag"] == tag).cloned().unwrap_or_default()
    }

    /// Waits for an Event about an object of this kind, and returns its text.
    async fn event(&self, namespace: &str, kind: &str, reason: &str, about: &str) -> String {
        let events = format!("events?fieldSelector=involvedObject.kind={kind},reason={reason}");
        wait_within(TIMEOUT, "the Event", async || {
            let list = self.site.core(namespace, &events).await;
            let mut texts =
                list["items"].as_array().unwrap().iter().filter_map(|event| event["message"].as_str());
            let found = texts.find(|text| text.contains(about)).map(str::to_owned);
            found.ok_or_else(|| format!("{list:#}"))
        })
        .await
    }

    /// A Secret with this password for the registry.
    async fn secret(&self, name: &str, password: &str) {
        let address = self.registry.address();
        let auths = json!({"auths": {address: {"username": "user", "password": password}}});
        self.secret_in(&self.namespace, name, &auths).await;
    }

    /// A Secret with this configuration.
    async fn secret_in(&self, namespace: &str, name: &str, auths: &Value) {
        let secret = object("v1", "Secret", name)
            .in_namespace(namespace)
            .with("/type", "kubernetes.io/dockerconfigjson")
            .with("/stringData", json!({".dockerconfigjson": auths.to_string()}));
        self.create(secret).await;
    }

    /// Ends what may still be going on.
    async fn close(self) {
        let words = format!("delete imagelistpulljobs,imagepulljobs --all -n {}", self.namespace);
        self.site.kubectl(&words).await.success();
    }
}

/// Counts of a status, in which a count of 0 may be left out.
fn counts<const N: usize>(status: &Value, fields: [&str; N]) -> [u64; N] {
    fields.map(|field| status[field].as_u64().unwrap_or(0))
}

/// A registry in which each repository is troubled in its own way.
fn moody(asked: &Asked) -> Behaviour {
    match (asked.repository.as_str(), asked.is_lookup) {
        ("moody/late", true) if asked.before == 0 => Behaviour::Refuses(500),
        ("moody/torn", _) if asked.is_blob && asked.before == 0 => Behaviour::Breaks,
        ("moody/gone", _) => Behaviour::Refuses(404),
        ("moody/busy", _) => Behaviour::Refuses(429),
        ("moody/private" | "moody/closed", _) if asked.credentials != RIGHT => Behaviour::Refuses(401),
        _ => Behaviour::Gives,
    }
}

/// Scenarios 4, 6, 11 and 13 of docs/behaviour/node-agent.md#acceptance-scenarios-of-the-node-agent and 11 and 23 of
/// docs/behaviour/images.md#acceptance-scenarios.
#[tokio::test]
async fn images_come_from_a_registry_that_has_its_moods() {
    // An agent that pulls much writes no Event for each image: that of one is looked for.
    let Some(site) = Site::alone().await else { return };
    let depot = Depot::open(&site, "moody", moody).await;
    let image = |name: &str| depot.push(&format!("moody/{name}:1"), 100_000).0;
    let images = ["calm", "late", "torn", "gone", "busy"].map(image);
    depot.create(depot.of_kind("ImageListPullJob", "list").with("/spec/images", json!(images))).await;

    // By its digest alone; with credentials of which the second are right; and with none.
    let digest = depot.push("moody/fixed:1", 1000).1;
    let fixed = depot.registry.image("moody/fixed");
    depot.create(depot.job("fixed", &format!("{fixed}@{digest}"))).await;
    let private = depot.push("moody/private:1", 1000).0;
    depot.secret("wrong", "wrong").await;
    depot.secret("right", "right").await;
    let secrets = json!(["wrong", "right"]);
    depot.create(depot.job("private", &private).with("/spec/pullSecrets", secrets)).await;
    let refused = depot.push("moody/closed:1", 1000).0;
    depot.create(depot.job("refused", &refused).with("/spec/pullPolicy/backoffLimit", 0)).await;
    let nowhere = depot.job("nowhere", "nowhere.example.com:5000/some/image:1");
    depot.create(nowhere.with("/spec/pullPolicy/timeoutSeconds", 2)).await;

    let status = depot.completed("imagelistpulljobs/list").await;
    assert_eq!(counts(&status, ["desired", "completed", "succeeded"]), [5, 5, 3], "{status:#}");
    let mut failed: Vec<&str> = status["failedImageStatuses"]
        .as_array()
        .unwrap()
        .iter()
        .map(|failed| failed["name"].as_str().unwrap_or_default())
        .collect();
    failed.sort_unstable();
    assert_eq!(failed, [&images[4], &images[3]], "{status:#}");
    let lookups = |name: &str| NODES.map(|node| depot.registry.lookups(node, &format!("moody/{name}")));
    assert_eq!(lookups("calm"), [1, 1]);
    assert_eq!(lookups("late"), [2, 2], "an attempt that failed, and one more");
    assert_eq!(lookups("gone"), [2, 2], "no more attempts than asked for");
    for node in NODES {
        let calm = depot.reported(node, &depot.registry.image("moody/calm"), "1").await;
        assert_eq!((&calm["phase"], &calm["progress"]), (&json!("Succeeded"), &json!(100)), "{calm:#}");
        let id = calm["imageID"].as_str().unwrap();
        assert!(id.starts_with(&format!("{}@sha256:", depot.registry.image("moody/calm"))), "{id}");
        let busy = depot.reported(node, &depot.registry.image("moody/busy"), "1").await;
        assert!(busy["message"].as_str().unwrap().contains("429 Too Many Requests"), "{busy:#}");
    }
    depot.event("default", "NodeImage", "PullImageSucceed", &images[0]).await;

    for (job, succeeded) in [("fixed", 2), ("private", 2), ("refused", 0), ("nowhere", 0)] {
        let status = depot.completed(&format!("imagepulljobs/{job}")).await;
        let counts = counts(&status, ["desired", "succeeded", "failed"]);
        assert_eq!(counts, [2, succeeded, 2 - succeeded], "{job}: {status:#}");
    }
    for node in NODES {
        let asked = depot.registry.asked();
        let private = asked.iter().filter(|it| it.node == node && it.repository == "moody/private");
        let reported: Vec<&str> =
            private.map(|it| it.credentials.as_str()).filter(|it| !it.is_empty()).collect();
        let (wrong, right) =
            (reported.iter().position(|it| *it == WRONG), reported.iter().position(|it| *it == RIGHT));
        assert!(wrong.is_some() && wrong < right, "one after the other: {reported:?}");
        let status = depot.reported(node, &fixed, &digest).await;
        assert_eq!(status["phase"], "Succeeded", "{status:#}");
    }
    let reported = depot.event(&depot.namespace, "ImagePullJob", "PullImageFailed", "nowhere").await;
    assert!(reported.contains("nowhere.example.com:5000/some/image:1"), "{reported}");
    depot.close().await;
}

/// docs/behaviour/node-agent.md#whose-credentials: two tenants and two accounts, of which each may read one repository.
#[tokio::test]
async fn credentials_serve_those_alone_who_brought_them() {
    let Some(site) = Site::installed().await else { return };
    // `user:right` may read the one, `user:wrong` the other.
    let tenants = |asked: &Asked| match asked.repository.as_str() {
        "tenants/first" if asked.credentials != RIGHT => Behaviour::Refuses(401),
        "tenants/second" if asked.credentials != WRONG => Behaviour::Refuses(401),
        _ => Behaviour::Gives,
    };
    let depot = Depot::open(&site, "tenant", tenants).await;
    let other = site.server().namespace("tenant-b").await;
    let first = ["1", "2", "3"].map(|tag| depot.push(&format!("tenants/first:{tag}"), 1000).0);
    let second = depot.push("tenants/second:1", 1000).0;
    depot.secret("pull", "right").await;
    let address = depot.registry.address();
    let auths = json!({"auths": {address: {"username": "user", "password": "wrong"}}});
    depot.secret_in(&other, "pull", &auths).await;
    depot.secret_in(&other, "broken", &json!({"auths": 1})).await;
    let job = |name: &str, image: &str, secret: &str| {
        let secrets: Vec<&str> = Some(secret).filter(|secret| !secret.is_empty()).into_iter().collect();
        depot
            .job(name, image)
            .with("/spec/pullSecrets", json!(secrets))
            .with("/spec/pullPolicy/backoffLimit", 0)
    };
    let ended = async |namespace: &str, name: &str| {
        let status = depot.completed_in(namespace, &format!("imagepulljobs/{name}")).await;
        counts(&status, ["succeeded", "failed"])
    };
    depot.create(job("own", &first[0], "pull")).await;
    depot.create(job("bare", &first[1], "")).await;
    depot.create(job("foreign", &first[1], "pull").in_namespace(&other)).await;
    depot.create(job("broken", &first[2], "broken").in_namespace(&other)).await;
    depot.create(job("theirs", &second, "pull").in_namespace(&other)).await;
    assert_eq!(ended(&depot.namespace, "own").await, [2, 0]);
    for (namespace, name) in [(&depot.namespace, "bare"), (&other, "foreign"), (&other, "broken")] {
        assert_eq!(ended(namespace, name).await, [0, 2], "{name}");
    }
    assert_eq!(ended(&other, "theirs").await, [2, 0]);
    // What is there for one is not there for the others, and stays there for the one.
    depot.create(job("late", &first[0], "pull").in_namespace(&other)).await;
    assert_eq!(ended(&other, "late").await, [0, 2]);
    depot.create(job("again", &first[0], "pull")).await;
    assert_eq!(ended(&depot.namespace, "again").await, [2, 0]);
    site.kubectl(&format!("delete imagepulljobs --all -n {other}")).await.success();
    depot.close().await;
}

/// docs/images.md#who-may-use-it-then: the kubelet has no record of what the agent pulled, and asks for credentials only
/// once it has one.
#[tokio::test]
async fn the_kubelet_asks_nobody_for_what_the_agent_pulled() {
    let Some(site) = Site::installed().await else { return };
    let private = |asked: &Asked| match asked.credentials == RIGHT {
        true => Behaviour::Gives,
        false => Behaviour::Refuses(401),
    };
    let depot = Depot::open(&site, "record", private).await;
    let image = depot.push("record/private:1", 1000).0;
    depot.secret("pull", "right").await;
    depot.create(depot.job("ahead", &image).with("/spec/pullSecrets", json!(["pull"]))).await;
    let status = depot.completed("imagepulljobs/ahead").await;
    assert_eq!(counts(&status, ["succeeded", "failed"]), [2, 0], "{status:#}");
    let node = NODES[0];
    let pulls = || depot.registry.lookups(node, "record/private");
    let before = pulls();
    let on_node = |name: &str| {
        pod(name)
            .in_namespace(&depot.namespace)
            .on_node(node)
            .container("main", &image)
            .having("command", json!(["sleep", "infinity"]))
            .with("/spec/terminationGracePeriodSeconds", 0)
    };
    let runs = async |name: &str| {
        wait_within(TIMEOUT, "the Pod to run", async || {
            let status = site.core(&depot.namespace, &format!("pods/{name}")).await["status"].clone();
            if status["phase"] == "Running" { Ok(()) } else { Err(status) }
        })
        .await;
    };
    // Without the Secret, on a node that has it.
    depot.create(on_node("guest").having("imagePullPolicy", "IfNotPresent")).await;
    runs("guest").await;
    let text = depot.event(&depot.namespace, "Pod", "Pulled", &image).await;
    assert!(text.contains("already present on machine"), "{text}");
    assert_eq!(pulls(), before, "the kubelet has asked the registry");

    // A kubelet that keeps records has one now.
    let owner = on_node("owner").having("imagePullPolicy", "Always");
    depot.create(owner.with("/spec/imagePullSecrets", json!([{"name": "pull"}]))).await;
    runs("owner").await;
    assert!(pulls() > before, "the kubelet has not pulled");
    let version = site.get("/version").await;
    let minor: u32 = version["minor"].as_str().unwrap().parse().unwrap();
    if minor >= 33 {
        depot.create(on_node("late").having("imagePullPolicy", "IfNotPresent")).await;
        wait_within(TIMEOUT, "the Pod to be refused the image", async || {
            let pod = site.core(&depot.namespace, "pods/late").await;
            let reason = pod["status"]["containerStatuses"][0]["state"]["waiting"]["reason"].clone();
            match reason.as_str() {
                Some("ErrImagePull" | "ImagePullBackOff") => Ok(()),
                _ => Err(pod["status"].clone()),
            }
        })
        .await;
    }
    site.kubectl(&format!("delete pods --all -n {}", depot.namespace)).await.success();
    depot.close().await;
}

/// Scenario 28 of docs/behaviour/node-agent.md#acceptance-scenarios-of-the-node-agent: on one node the agent is killed
/// while an image comes, on the other the runtime.
#[tokio::test]
async fn a_pull_goes_on_when_the_agent_or_the_runtime_is_killed() {
    let Some(site) = Site::alone().await else { return };
    // The first answer takes longer than the test: it must be broken off.
    let crawls = |asked: &Asked| match asked.is_blob && asked.before == 0 {
        true => Behaviour::Crawls(1000),
        false => Behaviour::Gives,
    };
    let depot = Depot::open(&site, "killed", crawls).await;
    let image = Image::new().text("content", &depot.namespace.repeat(500_000 / depot.namespace.len()));
    site.cluster().push_image("crawling/web:1", &image);
    let name = depot.registry.image("crawling/web");
    let agents = [site.agent(NODES[0]).await, site.agent(NODES[1]).await];
    let job = depot.job("web", &format!("{name}:1"));
    depot.create(job.with("/spec/pullPolicy/backoffLimit", 3)).await;
    // The runtime asks for the configuration first, which is over soon, and then for the content.
    wait_within(TIMEOUT, "the image to come to both nodes", async || {
        let asked = depot.registry.asked();
        let comes = |node: &&str| {
            let blobs = asked.iter().filter(|it| it.node == **node && it.is_blob);
            blobs.map(|it| &it.reference).collect::<BTreeSet<_>>().len() == 2
        };
        if NODES.iter().all(comes) { Ok(()) } else { Err(asked) }
    })
    .await;
    site.cluster().kill(NODES[0], "kruise-daemon");
    site.cluster().kill(NODES[1], "containerd");

    let status = depot.completed("imagepulljobs/web").await;
    assert_eq!(counts(&status, ["succeeded", "failed"]), [2, 0], "{status:#}");
    for node in NODES {
        let reported = depot.reported(node, &name, "1").await;
        assert_eq!(
            (&reported["phase"], &reported["version"]),
            (&json!("Succeeded"), &json!(0)),
            "{reported:#}"
        );
        // More than twice where the runtime still holds what it was pulling for the agent that was killed.
        let lookups = depot.registry.lookups(node, "crawling/web");
        assert!((2..=5).contains(&lookups), "{node} has begun {lookups} times");
    }
    let restarts = |agent: &Value| agent["status"]["containerStatuses"][0]["restartCount"].as_i64().unwrap();
    let [first, second] = agents.each_ref().map(restarts);
    wait_within(TIMEOUT, "the agent that was killed to be counted", async || {
        let now = restarts(&site.agent(NODES[0]).await);
        if now == first + 1 { Ok(()) } else { Err(now) }
    })
    .await;
    assert_eq!(restarts(&site.agent(NODES[1]).await), second, "the agent has outlived the runtime");
    depot.close().await;
}

/// docs/behaviour/in-place-update.md#image-pre-download.
#[tokio::test]
async fn the_images_of_an_update_are_there_before_it() {
    let Some(site) = Site::installed().await else { return };
    let depot = Depot::open(&site, "ahead", |_| Behaviour::Gives).await;
    let (old, new) = (depot.push("ahead/web:1", 1000).0, depot.push("ahead/next:1", 1000).0);
    let set = workload("apps.kruise.io/v1beta1", "CloneSet", "web")
        .in_namespace(&depot.namespace)
        .matching("app", "web")
        .replicas(4)
        .container("main", &old)
        .having("command", json!(["sleep", "infinity"]))
        .having("imagePullPolicy", "IfNotPresent")
        .with("/spec/template/spec/terminationGracePeriodSeconds", 0)
        .with(
            "/spec/updateStrategy",
            json!({"type": "RollingUpdate", "rollingUpdate": {
                "podUpdatePolicy": "InPlaceIfPossible", "partition": "100%", "maxUnavailable": "100%",
                "inPlaceUpdateStrategy": {"imagePreDownloadParallelism": 2},
            }}),
        );
    depot.create(set).await;
    let shows = async |counts: Value| {
        wait_for("the CloneSet", async || {
            let set = site.kruise(&depot.namespace, "clonesets/web").await;
            let status = &set["status"];
            let observed = status["observedGeneration"] == set["metadata"]["generation"];
            let mut wanted = counts.as_object().unwrap().iter();
            let all = wanted.all(|(field, count)| status[field] == *count);
            if observed && all { Ok(()) } else { Err(status.clone()) }
        })
        .await;
    };
    let patch = async |patch: Value| {
        let patch = format!("--patch={patch}");
        let words = ["patch", "cloneset", "web", "-n", &depot.namespace, "--type=json", &patch];
        site.server().kubectl(words).await.success();
    };
    shows(json!({"readyReplicas": 4})).await;
    patch(json!([{"op": "replace", "path": "/spec/template/spec/containers/0/image", "value": new}])).await;
    let job = wait_for("the job", async || {
        let list = site.kruise(&depot.namespace, "imagepulljobs").await;
        list["items"][0]["metadata"]["name"].as_str().map(str::to_owned).ok_or(list.clone())
    })
    .await;
    let status = depot.completed(&format!("imagepulljobs/{job}")).await;
    assert_eq!(status["succeeded"], status["desired"], "{status:#}");
    shows(json!({"readyReplicas": 4, "updatedReplicas": 0})).await;
    let before = NODES.map(|node| depot.registry.lookups(node, "ahead/next"));
    assert_eq!(before.iter().sum::<usize>(), status["desired"].as_u64().unwrap() as usize);

    patch(json!([{"op": "replace", "path": "/spec/updateStrategy/rollingUpdate/partition", "value": 0}]))
        .await;
    shows(json!({"updatedReadyReplicas": 4})).await;
    let after = NODES.map(|node| depot.registry.lookups(node, "ahead/next"));
    assert_eq!(after, before, "no kubelet had to pull");
    site.kubectl(&format!("delete cloneset web -n {}", depot.namespace)).await.success();
    depot.close().await;
}
