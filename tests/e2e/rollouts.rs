//! Releases on a real API server with Kubernetes' own controllers (docs/behaviour/rollouts.md#the-controller).

mod deployment;
mod kinds;
mod requests;
mod restart;
mod steps;
mod takeover;
mod traffic;
mod versions;

use kit::builders::{Object, object, workload};
use kit::fake_nodes;
use kit::objects::condition;
use kit::{ApiServer, Shared, wait_for};
use serde_json::{Value, json};
use std::sync::Arc;

use crate::chart;
use crate::product::{self, Product};
use crate::support::fleet::{Fleet, NEW, OLD, with_image};
use crate::support::{Shop, Site, Stored, call, collection, create, in_use};

const API_VERSION: &str = "rollouts.kruise.io/v1beta1";
/// A third version, after [`OLD`] and [`NEW`].
const NEWER: &str = "nginx:1.27";
/// The label by which a test's own Nodes are known: others share the API server.
const SITE: &str = "example.com/site";
const IN_PROGRESSING: &str = "rollouts.kruise.io/in-progressing";
const GATES: &str = "Rollouts=true,RolloutHistory=true";

/// An API server for all tests of Rollouts.
pub async fn site() -> Arc<Site> {
    static SITE: Shared<Site> = Shared::new();
    SITE.get(async || open(kit::Options::default().with_controller_manager()).await).await
}

/// An API server with the program on it, once it holds workloads of Rollouts back.
async fn open(options: kit::Options) -> Site {
    let server = product::server(options).await;
    define(&server).await;
    let product = Product::serve(&server, settings()).await;
    in_use(&server).await;
    let shop = Shop::open_on(&server, "ro-asked").await;
    let without_steps = rollout(&shop, ("apps/v1", "Deployment"), &json!({"canary": {}})).build();
    wait_for("Rollouts to be validated", async || {
        match create(&shop.client, without_steps.clone(), "?dryRun=All").await {
            (400.., answer)
                if answer["message"].as_str().is_some_and(|text| text.contains("vrollout.kb.io")) =>
            {
                Ok(())
            }
            (_, answer) => Err(answer),
        }
    })
    .await;
    Site { server, product }
}

/// The program with the rights that the chart gives it.
fn settings() -> product::Options {
    let user = format!("system:serviceaccount:{}:kruise-manager", product::NAMESPACE);
    product::Options::default().gates(GATES).user(&user)
}

/// Installs the kinds of Rollouts and the rights of the program, and kinds of others that lead traffic, as far as tests
/// need them.
async fn define(server: &ApiServer) {
    let own = product::run(&["crds", "--rollouts"]).await.success();
    let foreign = [
        ("gateway.networking.k8s.io", "v1", "HTTPRoute"),
        ("networking.istio.io", "v1beta1", "VirtualService"),
    ];
    let foreign = foreign.map(|(group, version, kind)| definition(group, version, kind).to_string());
    let rights = ["Namespace", "ServiceAccount", "ClusterRole", "ClusterRoleBinding", "Role", "RoleBinding"];
    let installed = chart::render(&[chart::ROLLOUTS]).into_iter();
    let rights = installed.filter(|object| rights.contains(&object["kind"].as_str().unwrap()));
    let rights: Vec<String> = rights.map(|object| object.to_string()).collect();
    let all = [&[own], &foreign[..], &rights[..]].concat().join("\n---\n");
    server.apply_yaml(&all).await;
}

/// A kind whose objects may have any fields.
fn definition(group: &str, version: &str, kind: &str) -> Value {
    let plural = format!("{}s", kind.to_lowercase());
    let schema = json!({"type": "object", "x-kubernetes-preserve-unknown-fields": true});
    json!({
        "apiVersion": "apiextensions.k8s.io/v1", "kind": "CustomResourceDefinition",
        "metadata": {"name": format!("{plural}.{group}"), "annotations": {
            "api-approved.kubernetes.io": "https://github.com/kubernetes-sigs/gateway-api/pull/1"}},
        "spec": {"group": group, "scope": "Namespaced", "names": {"kind": kind, "plural": plural},
            "versions": [{"name": version, "served": true, "storage": true, "schema": {"openAPIV3Schema": schema}}]},
    })
}

/// A Rollout of the workload `web`.
fn rollout(shop: &Shop, (api_version, kind): (&str, &str), strategy: &Value) -> Object {
    object(API_VERSION, "Rollout", "web").in_namespace(&shop.namespace).with(
        "/spec",
        json!({"workloadRef": {"apiVersion": api_version, "kind": kind, "name": "web"}, "strategy": strategy}),
    )
}

/// A workload named `web` of this kind.
fn web(shop: &Shop, api_version: &str, kind: &str) -> Object {
    workload(api_version, kind, "web")
        .in_namespace(&shop.namespace)
        .matching("app", "web")
        .container("main", OLD)
}

/// Steps in which so many Pods are new, each of which a person approves.
fn steps(sizes: &[Value]) -> Value {
    sizes.iter().map(|size| json!({"replicas": size})).collect()
}

/// A workload, and the Rollout that releases its new versions.
struct Release {
    fleet: Fleet,
    rollout: Stored,
    /// Where in the status the release is described.
    block: &'static str,
}

impl Release {
    /// A workload all of whose Pods are available, on the shared API server.
    async fn open(prefix: &str, set: impl FnOnce(&Shop) -> Object, strategy: Value) -> Self {
        Self::open_on(&site().await.server, prefix, set, strategy).await
    }

    async fn open_on(
        server: &ApiServer,
        prefix: &str,
        set: impl FnOnce(&Shop) -> Object,
        strategy: Value,
    ) -> Self {
        let release = Self::begin(complete_fleet(server, prefix, set).await, strategy).await;
        release.reaches("the Rollout to be healthy", |status| status["phase"] == "Healthy").await;
        release
    }

    /// A Rollout that nobody has looked at yet.
    async fn begin(fleet: Fleet, strategy: Value) -> Self {
        let text = |member: &str| fleet.set.object[member].as_str().unwrap().to_owned();
        let manifest = rollout(&fleet.shop, (&text("apiVersion"), &text("kind")), &strategy);
        let rollout = Stored::create(&fleet.shop.client, manifest).await;
        let block = if strategy["blueGreen"].is_null() { "canaryStatus" } else { "blueGreenStatus" };
        Self { fleet, rollout, block }
    }

    /// The Rollout, once its status is like that.
    async fn reaches(&self, what: &str, holds: impl Fn(&Value) -> bool) -> Value {
        wait_for(what, async || {
            let (_, rollout) = self.rollout.get().await;
            if holds(&rollout["status"]) {
                Ok(rollout)
            } else {
                Err((rollout["status"].clone(), self.fleet.summary().await))
            }
        })
        .await
    }

    /// Waits until a step waits for its approval, or for its time.
    async fn paused(&self, step: u32) -> Value {
        let is_paused = |status: &Value| {
            let release = &status[self.block];
            status["phase"] == "Progressing"
                && release["currentStepIndex"] == step
                && release["currentStepState"] == "StepPaused"
        };
        self.reaches(&format!("step {step} to be done"), is_paused).await["status"][self.block].clone()
    }

    /// Approves the step.
    async fn approve(&self) {
        self.rollout.patch_status(&json!({self.block: {"currentStepState": "StepReady"}})).await;
    }

    /// Gives the container `main` this image; gives the workload as it was stored by that.
    async fn roll(&self, image: &str) -> Value {
        self.roll_with(image, json!({})).await
    }

    /// [`roll`](Self::roll), together with changes of its metadata.
    async fn roll_with(&self, image: &str, metadata: Value) -> Value {
        let mut containers = self.workload().await["spec"]["template"]["spec"]["containers"].clone();
        containers[0]["image"] = image.into();
        let template = json!({"spec": {"containers": containers}});
        self.fleet.set.patch(&json!({"metadata": metadata, "spec": {"template": template}})).await
    }

    async fn workload(&self) -> Value {
        self.fleet.set.get().await.1
    }

    /// How many Pods have the new image.
    async fn new_pods(&self) -> usize {
        with_image(&self.fleet.pods().await, NEW)
    }

    /// Waits until the release is over, and looks whether everything of it is gone.
    async fn over(&self, succeeded: &str) {
        let rollout = self.reaches("the release to be over", |status| {
            let succeeded = condition_of(status, "Succeeded")["status"] == succeeded;
            status["phase"] == "Healthy" && succeeded
        });
        let rollout = rollout.await;
        let progressing = condition(&rollout, "Progressing");
        assert_eq!((&progressing["status"], &progressing["reason"]), (&json!("False"), &json!("Completed")));
        self.left().await;
    }

    /// Nothing of a release is left on the workload, and no BatchRelease.
    async fn left(&self) {
        let workload = self.workload().await;
        let annotations = &workload["metadata"]["annotations"];
        let own = [
            "in-progressing",
            "deployment-strategy",
            "deployment-extra-status",
            "original-deployment-strategy",
        ];
        for key in own.map(|key| format!("rollouts.kruise.io/{key}")) {
            assert_eq!(annotations[&key], Value::Null, "{key}");
        }
        assert_eq!(annotations["batchrelease.rollouts.kruise.io/control-info"], Value::Null);
        assert_eq!(self.named("batchreleases", "web").await.0, 404);
    }

    /// What an Event about the Rollout says.
    async fn event(&self, reason: &str) -> String {
        let path = format!("/apis/events.k8s.io/v1/namespaces/{}/events", self.fleet.shop.namespace);
        wait_for(&format!("the Event {reason}"), async || {
            let list = call(&self.fleet.shop.client, "GET", &path, &Value::Null).await.1;
            let events = list["items"].as_array().unwrap();
            let mut about = events
                .iter()
                .filter(|event| event["regarding"]["kind"] == "Rollout" && event["reason"] == reason);
            about.next().map(|event| event["note"].as_str().unwrap().to_owned()).ok_or(events.len())
        })
        .await
    }

    /// An object of a kind of Rollouts.
    async fn named(&self, plural: &str, name: &str) -> (u16, Value) {
        let path = format!("/apis/{API_VERSION}/namespaces/{}/{plural}/{name}", self.fleet.shop.namespace);
        call(&self.fleet.shop.client, "GET", &path, &Value::Null).await
    }

    /// Creates an object beside the workload.
    async fn with(&self, object: Object) -> Stored {
        beside(&self.fleet.shop, object).await
    }

    /// An object of any kind, which may not be there.
    fn object(&self, api_version: &str, kind: &str, name: &str) -> Stored {
        let manifest = object(api_version, kind, name).in_namespace(&self.fleet.shop.namespace).build();
        let path = format!("{}/{name}", collection(&manifest));
        Stored::existing(&self.fleet.shop.client, path, manifest)
    }

    /// Waits until all Pods have this image, and all are available.
    async fn settled(&self, image: &str) {
        self.fleet.complete().await;
        let pods = self.fleet.pods().await;
        assert_eq!(with_image(&pods, image), pods.len(), "{:?}", self.fleet.summary().await);
    }
}

/// A workload all of whose Pods are available, on two Nodes of its own.
async fn complete_fleet(server: &ApiServer, prefix: &str, set: impl FnOnce(&Shop) -> Object) -> Fleet {
    let nodes = fake_nodes::Options::nodes(2).label(0, SITE, prefix).label(1, SITE, prefix);
    let fleet = Fleet::found(server, prefix, nodes.binding_pods(), set).await;
    fleet.complete().await;
    fleet
}

async fn beside(shop: &Shop, object: Object) -> Stored {
    Stored::create(&shop.client, object.in_namespace(&shop.namespace)).await
}

/// A condition of a status.
fn condition_of<'v>(status: &'v Value, kind: &str) -> &'v Value {
    let mut conditions = status["conditions"].as_array().into_iter().flatten();
    conditions.find(|condition| condition["type"] == kind).unwrap_or(&Value::Null)
}
