//! The agent against a real API server and a runtime without containers.

use std::path::Path;
use std::sync::atomic::{AtomicUsize, Ordering};

use api::kinds::nodeimage::{NodeImage, TagStatus};
use base64::Engine;
use base64::engine::general_purpose::STANDARD;
use cluster::client::Connector;
use cluster::requests::Requests;
use cri::messages::PullImageRequest;
use cri::runtime::Calls;
use kit::fake_runtime::{FakeRuntime, Pull};
use kit::{wait_for, wait_until};
use kube::Api;
use kube::api::{DynamicObject, Patch, PatchParams};
use prometheus::{Registry, TextEncoder};
use serde_json::{Value, json};
use tempfile::TempDir;
use tokio::sync::OnceCell;

use super::*;
use crate::testing::{Way, connected, reported, server};

/// Registers the API server itself as the server: it has Secrets under the same paths.
async fn serve_secrets() {
    static REGISTERED: OnceCell<()> = OnceCell::const_new();
    REGISTERED.get_or_init(register).await;
}

async fn register() {
    let server = server().await;
    let entry = json!({
        "name": "secrets.example.com", "failurePolicy": "Ignore", "sideEffects": "None",
        "admissionReviewVersions": ["v1"],
        "clientConfig": {"url": format!("{}none", server.config().cluster_url), "caBundle": STANDARD.encode(server.authority())},
        "rules": [{"operations": ["CREATE"], "apiGroups": ["none.example.com"], "apiVersions": ["v1"],
            "resources": ["nones"]}],
    });
    let configuration = json!({
        "apiVersion": "admissionregistration.k8s.io/v1", "kind": "ValidatingWebhookConfiguration",
        "metadata": {"name": "kruise-validating-webhook-configuration"}, "webhooks": [entry],
    });
    kit::objects::create(&server.client(), configuration).await.unwrap();
}

/// The file of a token that the API server takes.
fn token(server: &kit::ApiServer, directory: &Path) -> PathBuf {
    let kubeconfig = server.kubeconfig();
    let kubeconfig: Value = serde_json::from_slice(&std::fs::read(kubeconfig).unwrap()).unwrap();
    let file = directory.join("token");
    std::fs::write(&file, kubeconfig["users"][0]["user"]["token"].as_str().unwrap()).unwrap();
    file
}

/// A node with its agent.
struct Site {
    runtime: FakeRuntime,
    images: Api<DynamicObject>,
    name: String,
    registry: Registry,
    directory: TempDir,
    agent: JoinSet<()>,
}

impl Site {
    /// An agent for a NodeImage with these images; no more than so many pulls continue at a time.
    async fn open(
        images: &Value,
        most: Option<usize>,
        script: impl Fn(&PullImageRequest) -> Pull + Send + Sync + 'static,
    ) -> Self {
        let directory = TempDir::new().unwrap();
        let runtime = FakeRuntime::start(directory.path(), script);
        Self::with(runtime, directory, images, most).await
    }

    async fn with(runtime: FakeRuntime, directory: TempDir, images: &Value, most: Option<usize>) -> Self {
        Self::by(server().await.config(), runtime, directory, images, most).await
    }

    /// An agent that reaches the API server in this way.
    async fn by(
        way: kube::Config,
        runtime: FakeRuntime,
        directory: TempDir,
        images: &Value,
        most: Option<usize>,
    ) -> Self {
        static NUMBER: AtomicUsize = AtomicUsize::new(0);
        let name = format!("node-{}", NUMBER.fetch_add(1, Ordering::Relaxed));
        let server = server().await;
        let manifest = json!({"apiVersion": API_VERSION, "kind": KIND, "metadata": {"name": name},
            "spec": {"images": images}});
        kit::objects::create(&server.client(), manifest).await.unwrap();
        let images = Api::all_with(server.client(), &NODE_IMAGES.api_resource());
        let (registry, agent) = (Registry::new(), JoinSet::new());
        let mut site = Self { runtime, images, name, registry, directory, agent };
        site.start(way, most).await;
        site
    }

    /// Starts the agent, in place of the one that runs.
    async fn start(&mut self, way: kube::Config, most: Option<usize>) {
        self.agent.shutdown().await;
        self.registry = Registry::new();
        let directory = self.directory.path();
        let connector = Connector::new(way, Requests::register(&self.registry).unwrap());
        self.agent.spawn(run(Images {
            client: connector.connect("kruise-daemon").unwrap(),
            token: token(server().await, directory),
            providers: Providers::read(&directory.join("config.yaml"), directory).await,
            records: Records::open(&directory.join("state")).unwrap(),
            node: self.name.clone(),
            runtime: connected(directory, &Calls::default()).await,
            most: most.and_then(NonZeroUsize::new),
            metrics: Metrics::register(&self.registry).unwrap(),
            synced: Arc::default(),
        }));
    }

    /// Changes the images that are wanted.
    async fn want(&self, images: &Value) {
        self.patch("", &json!({"spec": {"images": images}})).await;
    }

    async fn patch(&self, part: &str, patch: &Value) {
        let (params, patch) = (PatchParams::default(), Patch::Merge(patch));
        match part {
            "status" => self.images.patch_status(&self.name, &params, &patch).await,
            _ => self.images.patch(&self.name, &params, &patch).await,
        }
        .unwrap();
    }

    /// The NodeImage when the first tag of an image is in this state.
    async fn until(&self, image: &str, what: &str, condition: impl Fn(&TagStatus) -> bool) -> NodeImage {
        let read = |object: &DynamicObject| -> NodeImage {
            serde_json::from_value(serde_json::to_value(object).unwrap()).unwrap()
        };
        let holds = |object: &DynamicObject| {
            read(object).status.image_statuses.get(image).is_some_and(|known| condition(&known.tags[0]))
        };
        read(&wait_until(&self.images, &self.name, what, holds).await)
    }

    async fn ended(&self, image: &str) -> (NodeImage, TagStatus) {
        let node = self.until(image, "has ended", |tag| tag.completion_time.is_some()).await;
        let tag = node.status.image_statuses[image].tags[0].clone();
        (node, tag)
    }
}

/// One image with one tag, whose pull continues under these terms.
fn wanted(image: &str, policy: &str, version: i64, terms: &Value) -> Value {
    let tag = json!({"tag": "1", "imagePullPolicy": policy, "version": version, "pullPolicy": terms,
        "createdAt": "2026-01-01T00:00:00Z"});
    json!({image: {"tags": [tag]}})
}

fn once() -> Value {
    json!({"backoffLimit": 0, "ttlSecondsAfterFinished": 300})
}

fn comes(_: &PullImageRequest) -> Pull {
    Pull::Comes
}

#[tokio::test]
async fn an_image_is_pulled_and_everybody_is_told() {
    let mut images = wanted("busybox", "IfNotPresent", 3, &once());
    images["busybox"]["sandboxConfig"] = json!({"annotations": {"a": "b"}, "labels": {"c": "d"}});
    let site = Site::open(&images, None, comes).await;
    let (node, tag) = site.ended("busybox").await;
    assert_eq!((tag.phase.as_str(), tag.image_id.as_str()), ("Succeeded", "busybox@sha256:1d"));
    assert_eq!((tag.progress, tag.version, tag.message.as_str()), (Some(100), Some(3), ""));
    assert_eq!((node.status.desired, node.status.succeeded, node.status.pulling), (1, Some(1), None));
    let request = site.runtime.pulls().remove(0);
    let sandbox = request.sandbox_config.unwrap();
    assert_eq!(sandbox.annotations["apps.kruise.io/pulling-image-by"], "kruise-daemon");
    assert_eq!((sandbox.annotations["a"].as_str(), sandbox.labels["c"].as_str()), ("b", "d"));
    assert_eq!((request.image.unwrap().image.as_str(), request.auth), ("busybox:1", None));
    let note = reported("default", KIND, &site.name, "PullImageSucceed").await;
    assert!(note.starts_with("Image busybox:1, ecalpsedTime "), "{note}");
}

#[tokio::test]
async fn an_image_that_is_there_is_pulled_only_where_always_is_asked_for() {
    let site = Site::open(&json!({}), None, comes).await;
    site.runtime.add_image("busybox:1", "sha256:2e");
    site.want(&wanted("busybox", "IfNotPresent", 0, &once())).await;
    assert_eq!(site.ended("busybox").await.1.image_id, "busybox@sha256:2e");
    assert!(site.runtime.pulls().is_empty());
    site.want(&wanted("busybox", "Always", 1, &once())).await;
    site.until("busybox", "has a second round", |tag| tag.version == Some(1) && tag.phase == "Succeeded")
        .await;
    assert_eq!(site.runtime.pulls().len(), 1);
}

#[tokio::test]
async fn a_pull_that_fails_is_tried_again_and_its_owners_are_told() {
    let mut images = wanted("nowhere/app", "IfNotPresent", 0, &json!({"backoffLimit": 1}));
    images["nowhere/app"]["tags"][0]["ownerReferences"] = json!([{"apiVersion": API_VERSION,
        "kind": "ImagePullJob", "namespace": "default", "name": "job-of-nowhere", "uid": "u-1"}]);
    let site = Site::open(&images, None, |_| Pull::Fails("no such host".to_owned())).await;
    let (node, tag) = site.ended("nowhere/app").await;
    let message = r#"Failed to pull image reference "nowhere/app:1": no such host"#;
    assert_eq!((tag.phase.as_str(), tag.message.as_str()), ("Failed", message));
    assert_eq!((node.status.failed, site.runtime.pulls().len()), (Some(1), 2));
    for (kind, name) in [(KIND, site.name.as_str()), ("ImagePullJob", "job-of-nowhere")] {
        let note = reported("default", kind, name, "PullImageFailed").await;
        assert_eq!(note, format!("Image nowhere/app:1 {message}"));
    }
}

#[tokio::test]
async fn a_full_disk_is_reported_and_the_image_comes_once_there_is_room() {
    let full = "failed to extract layer: write /var/lib/containerd/blob: no space left on device";
    let terms = json!({"backoffLimit": 9});
    let site = Site::open(&wanted("busybox", "", 0, &terms), None, |_| Pull::Fails(full.to_owned())).await;
    let is_reported = |tag: &TagStatus| {
        tag.phase == "Pulling" && tag.message.starts_with("attempt ") && tag.message.ends_with(full)
    };
    site.until("busybox", "is told of", is_reported).await;
    site.runtime.behave(comes);
    let (node, tag) = site.ended("busybox").await;
    assert_eq!((tag.phase.as_str(), tag.message.as_str()), ("Succeeded", ""));
    assert_eq!((node.status.succeeded, node.status.failed), (Some(1), None));
}

#[tokio::test]
async fn a_pull_that_hangs_is_visible_and_ends_with_its_deadline() {
    let terms = json!({"activeDeadlineSeconds": 10});
    let site = Site::open(&wanted("busybox", "", 0, &terms), None, |_| Pull::Hangs).await;
    let pulling = site.until("busybox", "is pulled", |tag| tag.phase == "Pulling").await;
    assert!(pulling.status.image_statuses["busybox"].tags[0].start_time.is_some());
    let (_, tag) = site.ended("busybox").await;
    assert_eq!(
        (tag.phase.as_str(), tag.message.as_str()),
        ("Failed", "pulling exceeds the activeDeadlineSeconds")
    );
    wait_for("the pull to be cancelled", async || match site.runtime.open() {
        0 => Ok(()),
        open => Err(open),
    })
    .await;
}

#[tokio::test]
async fn a_new_round_cancels_the_old_one_and_a_task_that_leaves_its_pull() {
    let site = Site::open(&wanted("busybox", "", 0, &once()), None, |_| Pull::Hangs).await;
    site.until("busybox", "is pulled", |tag| tag.phase == "Pulling").await;
    site.want(&wanted("busybox", "", 1, &once())).await;
    site.until("busybox", "is pulled anew", |tag| tag.phase == "Pulling" && tag.version == Some(1)).await;
    wait_for("the first pull to be cancelled", async || {
        match (site.runtime.open(), site.runtime.pulls().len()) {
            (1, 2) => Ok(()),
            pulls => Err(pulls),
        }
    })
    .await;
    site.want(&json!({"busybox": null})).await;
    wait_for("the pull to be cancelled", async || match site.runtime.open() {
        0 => Ok(()),
        open => Err(open),
    })
    .await;
}

#[tokio::test]
async fn no_more_pulls_go_on_at_a_time_than_may() {
    let names = ["a", "b", "c", "d"];
    let all: serde_json::Map<String, Value> = names
        .iter()
        .map(|name| (*name).to_owned())
        .map(|name| {
            let image = wanted(&name, "", 0, &once())[&name].clone();
            (name, image)
        })
        .collect();
    let site = Site::open(&Value::Object(all), Some(1), comes).await;
    for name in names {
        site.ended(name).await;
    }
    assert_eq!((site.runtime.pulls().len(), site.runtime.most_open()), (4, 1));
}

#[tokio::test]
async fn credentials_are_tried_in_order_and_read_again_where_they_are_not_believed() {
    let secret = |name: &str, password: &str| {
        let auths = json!({"auths": {"reg:5000": {"username": "u", "password": password}}});
        json!({"apiVersion": "v1", "kind": "Secret", "metadata": {"name": name, "namespace": "default"},
            "type": "kubernetes.io/dockerconfigjson", "stringData": {".dockerconfigjson": auths.to_string()}})
    };
    serve_secrets().await;
    let client = server().await.client();
    kit::objects::create(&client, secret("pull-old", "old")).await.unwrap();
    kit::objects::create(&client, secret("pull-wrong", "wrong")).await.unwrap();
    let mut images = wanted("reg:5000/app", "", 0, &json!({"backoffLimit": 9}));
    let names = ["pull-missing", "pull-old", "pull-wrong"];
    let names: Vec<Value> = names.map(|name| json!({"namespace": "default", "name": name})).into();
    images["reg:5000/app"]["pullSecrets"] = json!(names);
    let site = Site::open(&images, None, |request| match request.auth.as_ref() {
        Some(auth) if auth.password == "right" => Pull::Comes,
        _ => Pull::Fails("401 Unauthorized".to_owned()),
    })
    .await;
    wait_for("both to be tried", async || match site.runtime.pulls().len() {
        0 | 1 => Err(()),
        _ => Ok(()),
    })
    .await;
    let passwords = |from: usize| -> Vec<String> {
        site.runtime.pulls().split_off(from).into_iter().map(|pull| pull.auth.unwrap().password).collect()
    };
    assert_eq!(passwords(0)[..2], ["old", "wrong"], "and nobody asks without a name");
    let right = secret("pull-wrong", "right").to_string();
    server().await.kubectl_with_input(["replace", "-f", "-"], &right).await.success();
    assert_eq!(site.ended("reg:5000/app").await.1.phase, "Succeeded");
    assert_eq!(passwords(0).last().unwrap(), "right");
}

/// A Secret that is a copy for these jobs, with this content for `reg:5000`.
fn copy(name: &str, users: &str, content: &Value) -> Value {
    let annotations = json!({"imagepulljobs.kruise.io/source-key": "default/pull", "imagepulljobs.kruise.io/references": users});
    json!({"apiVersion": "v1", "kind": "Secret", "type": "kubernetes.io/dockercfg",
        "metadata": {"name": name, "namespace": "default", "annotations": annotations},
        "stringData": {".dockercfg": json!({"reg:5000": content}).to_string()}})
}

fn owner(name: &str) -> Value {
    json!({"apiVersion": API_VERSION, "kind": "ImagePullJob", "namespace": "default", "name": name, "uid": name})
}

/// A registry that believes one password.
fn guarded(request: &PullImageRequest) -> Pull {
    match request.auth.as_ref() {
        Some(auth) if auth.password == "right" => Pull::Comes,
        _ => Pull::Fails("401 Unauthorized".to_owned()),
    }
}

#[tokio::test]
async fn credentials_belong_to_the_task_that_brought_them() {
    serve_secrets().await;
    let client = server().await.client();
    let right = json!({"username": "u", "password": "right"});
    kit::objects::create(&client, copy("own-right", "default/own-a", &right)).await.unwrap();
    kit::objects::create(&client, copy("own-broken", "default/own-b", &json!(1))).await.unwrap();
    let tag = |tag: &str, owner: Value| json!({"tag": tag, "pullPolicy": once(), "createdAt": "2026-01-01T00:00:00Z", "ownerReferences": [owner]});
    let secrets = ["own-broken", "own-right"].map(|name| json!({"namespace": "default", "name": name}));
    let tags = json!([tag("1", owner("own-a")), tag("2", owner("own-b")), tag("3", owner("own-c"))]);
    let images = json!({"reg:5000/own": {"tags": tags, "pullSecrets": secrets}});
    let site = Site::open(&images, None, guarded).await;
    let ended = |object: &DynamicObject| {
        let status = &object.data["status"];
        status["succeeded"] == 1 && status["failed"] == 2
    };
    let node = wait_until(&site.images, &site.name, "has ended", ended).await;
    let tags = &node.data["status"]["imageStatuses"]["reg:5000/own"]["tags"];
    let said = [0, 1, 2].map(|place| [&tags[place]["phase"], &tags[place]["message"]].map(|it| it.as_str()));
    let refused = r#"Failed to pull image reference "reg:5000/own:3": 401 Unauthorized"#;
    let broken = "Secret default/own-broken can't be used: it is no configuration of registries";
    let expected = [["Succeeded", "pulled with pull Secrets"], ["Failed", broken], ["Failed", refused]]
        .map(|it| it.map(Some));
    assert_eq!(said, expected);
    let asked = site.runtime.pulls().into_iter().map(|it| (it.image.unwrap().image, it.auth.is_some()));
    let expected = [("reg:5000/own:1".to_owned(), true), ("reg:5000/own:3".to_owned(), false)];
    assert_eq!(asked.collect::<std::collections::BTreeSet<_>>(), expected.into());
}

#[tokio::test]
async fn an_image_that_came_with_credentials_is_there_for_no_other() {
    serve_secrets().await;
    let right = json!({"username": "u", "password": "right"});
    let secret = copy("shared-right", "default/shared-a", &right);
    kit::objects::create(&server().await.client(), secret).await.unwrap();
    let images = |version: i64, owners: Value| {
        let mut images = wanted("reg:5000/shared", "IfNotPresent", version, &once());
        let image = &mut images["reg:5000/shared"];
        image["tags"][0]["ownerReferences"] = owners;
        image["pullSecrets"] = json!([{"namespace": "default", "name": "shared-right"}]);
        images
    };
    let site = Site::open(&images(0, json!([owner("shared-a")])), None, guarded).await;
    assert_eq!(site.ended("reg:5000/shared").await.1.phase, "Succeeded");
    // Another job joins: the first one has the image, also without asking again.
    site.want(&images(1, json!([owner("shared-a"), owner("shared-b")]))).await;
    let second = |tag: &TagStatus| tag.version == Some(1) && tag.completion_time.is_some();
    let node = site.until("reg:5000/shared", "has a second round", second).await;
    let tag = &node.status.image_statuses["reg:5000/shared"].tags[0];
    let refused = r#"Failed to pull image reference "reg:5000/shared:1": 401 Unauthorized"#;
    assert_eq!((&*tag.phase, &*tag.message), ("Failed", &*format!("not for default/shared-b: {refused}")));
    let asked: Vec<bool> = site.runtime.pulls().iter().map(|pull| pull.auth.is_some()).collect();
    assert_eq!(asked, [true, false]);
    let note = reported("default", "ImagePullJob", "shared-b", "PullImageFailed").await;
    assert_eq!(note, format!("Image reg:5000/shared:1 {refused}"));
    // An agent that does not know with which credentials it came asks as each.
    site.want(&images(2, json!([owner("shared-b")]))).await;
    let third = |tag: &TagStatus| tag.version == Some(2) && tag.completion_time.is_some();
    let node = site.until("reg:5000/shared", "has a third round", third).await;
    let reported = &node.status.image_statuses["reg:5000/shared"].tags[0].message;
    assert_eq!(*reported, format!("not for default/shared-b: {refused}"), "and the next agent knows it too");
}

/// Pulls with Secrets begin in one agent and end, or do not, before the next one starts.
#[tokio::test]
async fn the_next_agent_knows_which_images_came_with_credentials() {
    serve_secrets().await;
    let client = server().await.client();
    let secret = copy("lasting", "default/lasting-a", &json!({"username": "u", "password": "right"}));
    kit::objects::create(&client, secret).await.unwrap();
    let images = |image: &str, owner_name: &str| {
        let mut images = wanted(image, "IfNotPresent", 0, &once());
        images[image]["tags"][0]["ownerReferences"] = json!([owner(owner_name)]);
        images[image]["pullSecrets"] = json!([{"namespace": "default", "name": "lasting"}]);
        images
    };
    let script = |request: &PullImageRequest| match request.image.as_ref().unwrap().image.as_str() {
        "reg:5000/cut:1" if request.auth.is_some() => Pull::Hangs,
        _ => guarded(request),
    };
    let mut site = Site::open(&images("reg:5000/whole", "lasting-a"), None, script).await;
    assert_eq!(site.ended("reg:5000/whole").await.1.phase, "Succeeded");
    site.want(
        &json!({"reg:5000/whole": null, "reg:5000/cut": images("reg:5000/cut", "lasting-a")["reg:5000/cut"]}),
    )
    .await;
    wait_for("the pull that is cut off", async || match site.runtime.open() {
        1 => Ok(()),
        open => Err(open),
    })
    .await;
    // Nobody wants either image any more, and so the status says nothing of them. The runtime finishes the pull.
    site.agent.shutdown().await;
    site.want(&json!({"reg:5000/cut": null})).await;
    site.patch("status", &json!({"status": {"imageStatuses": null}})).await;
    site.runtime.add_image("reg:5000/cut:1", "sha256:cut");
    site.runtime.add_image("reg:5000/loaded:1", "sha256:loaded");
    site.start(server().await.config(), None).await;
    for (image, phase) in
        [("reg:5000/whole", "Failed"), ("reg:5000/cut", "Failed"), ("reg:5000/loaded", "Succeeded")]
    {
        site.want(&images(image, "lasting-b")).await;
        assert_eq!(site.ended(image).await.1.phase, phase, "{image}");
    }
}

#[tokio::test]
async fn a_registry_that_hangs_for_one_owner_keeps_no_other_from_the_image() {
    serve_secrets().await;
    let client = server().await.client();
    for (name, password) in [("turn-a", "right"), ("turn-b", "slow")] {
        let secret = copy(name, &format!("default/{name}"), &json!({"username": "u", "password": password}));
        kit::objects::create(&client, secret).await.unwrap();
    }
    let images = |image: &str, terms: Value, owners: [&str; 2]| {
        let mut images = wanted(image, "Always", 0, &terms);
        images[image]["tags"][0]["ownerReferences"] = json!(owners.map(owner));
        images[image]["pullSecrets"] =
            json!(["turn-a", "turn-b"].map(|name| json!({"namespace": "default", "name": name})));
        images
    };
    let slow = |request: &PullImageRequest| match request.auth.as_ref() {
        Some(auth) if auth.password == "slow" => Pull::Hangs,
        _ => guarded(request),
    };
    let came =
        |tag: &TagStatus| tag.phase == "Pulling" && tag.message.starts_with("not for default/turn-b: ");
    let terms = json!({"timeoutSeconds": 2, "backoffLimit": 9});
    let site = Site::open(&images("reg:5000/first", terms, ["turn-b", "turn-a"]), None, slow).await;
    site.until("reg:5000/first", "is there for the one that does not hang", came).await;
    // The one that has the image hears of it while the other one's pull continues.
    site.want(&images("reg:5000/second", once(), ["turn-a", "turn-b"])).await;
    site.until("reg:5000/second", "is there for the first", came).await;
}

#[tokio::test]
async fn a_credential_provider_is_asked_where_the_secrets_are_not_enough() {
    let directory = TempDir::new().unwrap();
    providers::tests::configure(&directory, providers::tests::SCRIPT);
    let runtime = FakeRuntime::start(directory.path(), |request| match request.auth.as_ref() {
        Some(auth) if auth.password == "secret" => Pull::Comes,
        _ => Pull::Fails("401 Unauthorized".to_owned()),
    });
    let site = Site::with(runtime, directory, &wanted("reg:5000/app", "", 0, &once()), None).await;
    assert_eq!(site.ended("reg:5000/app").await.1.phase, "Succeeded");
    assert_eq!(site.runtime.pulls().len(), 1, "nobody asks without a name");
    // It is not asked for others.
    site.want(&wanted("elsewhere/app", "", 0, &once())).await;
    let message = site.ended("elsewhere/app").await.1.message;
    assert_eq!(message, r#"Failed to pull image reference "elsewhere/app:1": 401 Unauthorized"#);
}

#[tokio::test]
async fn a_credential_provider_that_fails_is_named_where_the_pull_fails() {
    let directory = TempDir::new().unwrap();
    providers::tests::configure(&directory, "echo secret >&2; exit 3");
    let runtime = FakeRuntime::start(directory.path(), |_| Pull::Fails("no".to_owned()));
    let site = Site::with(runtime, directory, &wanted("reg:5000/app", "", 0, &once()), None).await;
    let message = site.ended("reg:5000/app").await.1.message;
    let refused = r#"Failed to pull image reference "reg:5000/app:1": no"#;
    assert_eq!(message, format!("{refused}; credential provider plugin: exit status: 3"));
}

#[tokio::test]
async fn a_status_that_others_have_spoilt_is_set_right() {
    let site = Site::open(&wanted("busybox", "", 0, &once()), None, comes).await;
    site.ended("busybox").await;
    site.patch("status", &json!({"status": {"desired": 9, "succeeded": 7}})).await;
    let right = |object: &DynamicObject| {
        let status = &object.data["status"];
        status["desired"] == 1 && status["succeeded"] == 1
    };
    wait_until(&site.images, &site.name, "is right again", right).await;
    assert_eq!(site.runtime.pulls().len(), 1);
}

#[tokio::test]
async fn a_runtime_that_starts_again_is_waited_for() {
    let mut site = Site::open(&json!({}), None, comes).await;
    site.runtime.go_away().await;
    site.want(&wanted("busybox", "", 0, &once())).await;
    site.until("busybox", "is pulled", |tag| tag.phase == "Pulling").await;
    site.runtime.listen();
    assert_eq!(site.ended("busybox").await.1.phase, "Succeeded", "it costs no attempt");
    // A pull that is cut off in the middle is repeated too.
    site.runtime.behave(|_| Pull::Hangs);
    site.want(&wanted("busybox", "Always", 1, &once())).await;
    site.until("busybox", "is pulled anew", |tag| tag.version == Some(1) && tag.phase == "Pulling").await;
    site.runtime.go_away().await;
    site.runtime.behave(comes);
    site.runtime.listen();
    assert_eq!(site.ended("busybox").await.1.version, Some(1));
}

#[tokio::test]
async fn pulls_go_on_while_the_api_server_is_away() {
    let (way, directory) = (Way::open().await, TempDir::new().unwrap());
    let runtime = FakeRuntime::start(directory.path(), |_| Pull::Hangs);
    let images = wanted("busybox", "", 0, &json!({"timeoutSeconds": 1, "backoffLimit": 9}));
    let site = Site::by(way.config.clone(), runtime, directory, &images, None).await;
    site.until("busybox", "is pulled", |tag| tag.phase == "Pulling").await;
    way.close(true);
    site.runtime.behave(comes);
    let counted = || TextEncoder::new().encode_to_string(&site.registry.gather()).unwrap();
    wait_for("the pull to end", async || {
        let metrics = counted();
        let line = "kruise_daemon_image_pull_total{result=\"succeeded\"} 1";
        if metrics.contains(line) { Ok(()) } else { Err(metrics) }
    })
    .await;
    let pulls = site.runtime.pulls().len();
    let known = site.images.get(&site.name).await.unwrap();
    let tag = &known.data["status"]["imageStatuses"]["busybox"]["tags"][0];
    assert_eq!(tag["phase"], "Pulling", "nobody can be told yet");
    way.close(false);
    assert_eq!(site.ended("busybox").await.1.phase, "Succeeded");
    assert_eq!(site.runtime.pulls().len(), pulls, "nothing is pulled again");
}

#[tokio::test]
async fn many_images_cost_few_writes() {
    let site = Site::open(&json!({}), None, comes).await;
    let mut all = serde_json::Map::new();
    for number in 0..20 {
        let name = format!("image-{number}");
        site.runtime.add_image(&format!("{name}:1"), "sha256:3f");
        all.insert(name.clone(), wanted(&name, "", 0, &once())[&name].clone());
    }
    site.want(&Value::Object(all)).await;
    let done = |object: &DynamicObject| object.data["status"]["succeeded"] == 20;
    wait_until(&site.images, &site.name, "has all images", done).await;
    let text = TextEncoder::new().encode_to_string(&site.registry.gather()).unwrap();
    let line = text.lines().find(|line| line.contains("nodeimages/status")).unwrap();
    let writes: u32 = line.rsplit(' ').next().unwrap().parse().unwrap();
    assert!(writes <= 5, "{line}");
}
