//! AdvancedCronJobs on a real API server, without controllers of Kubernetes: how children end is up to the tests
//! (docs/behaviour/advancedcronjob.md#acceptance-scenarios).

mod admission;
mod restart;
mod runs;

use std::time::Duration;

use jiff::Timestamp;
use kit::builders::{Object, object};
use kit::wait_for;
use kube::Client;
use serde_json::{Value, json};

use crate::support::{Shop, Stored, call, create, message};

const BETA: &str = "apps.kruise.io/v1beta1";
const SCHEDULED_AT: &str = "apps.kruise.io/scheduled-at";

/// A template of Jobs whose labels and annotations their Jobs get.
fn job() -> Value {
    let pod = json!({"restartPolicy": "Never", "containers": [{"name": "main", "image": "busybox:1.36"}]});
    json!({"jobTemplate": {"metadata": {"labels": {"made": "by-hand"}, "annotations": {"note": "kept"}},
        "spec": {"template": {"spec": pod}}}})
}

fn broadcast_job() -> Value {
    let mut template = job();
    let job = template["jobTemplate"].take();
    json!({"broadcastJobTemplate": job})
}

fn list_of_images() -> Value {
    let spec = json!({"images": ["nginx:1.25"], "completionPolicy": {"type": "Always"}});
    json!({"imageListPullJobTemplate": {"metadata": {"labels": {"made": "by-hand"}}, "spec": spec}})
}

fn manifest(namespace: &str, schedule: &str, template: &Value) -> Object {
    let spec = json!({"schedule": schedule, "template": template});
    object(BETA, "AdvancedCronJob", "report").in_namespace(namespace).with("/spec", spec)
}

/// An AdvancedCronJob of a namespace, and its children.
struct CronJob {
    client: Client,
    namespace: String,
    stored: Stored,
    /// Where its children are.
    collection: String,
}

impl CronJob {
    async fn create(shop: &Shop, manifest: Object) -> Self {
        let stored = Stored::create(&shop.client, manifest).await;
        let template = stored.object["spec"]["template"].as_object().unwrap();
        let kind = template.keys().next().unwrap().trim_end_matches("Template");
        let group = if kind == "job" { "batch/v1" } else { BETA };
        let collection = format!("/apis/{group}/namespaces/{}/{}s", shop.namespace, kind.to_lowercase());
        Self { client: shop.client.clone(), namespace: shop.namespace.clone(), stored, collection }
    }

    fn name(&self) -> &str {
        self.stored.object["metadata"]["name"].as_str().unwrap()
    }

    fn created(&self) -> Timestamp {
        self.stored.object["metadata"]["creationTimestamp"].as_str().unwrap().parse().unwrap()
    }

    /// Its children that are not being deleted, by their ticks.
    async fn children(&self) -> Vec<Value> {
        let (_, list) = call(&self.client, "GET", &self.collection, &Value::Null).await;
        let mut children = list["items"].as_array().unwrap_or_else(|| panic!("{list:#}")).clone();
        children.retain(|child| {
            child["metadata"]["ownerReferences"][0]["uid"] == self.stored.object["metadata"]["uid"]
                && child["metadata"]["deletionTimestamp"].is_null()
        });
        children.sort_by_key(tick);
        children
    }

    /// Its children, once there are so many, or more.
    async fn children_of(&self, count: usize) -> Vec<Value> {
        wait_for("the children", async || {
            let children = self.children().await;
            if children.len() >= count { Ok(children) } else { Err((children, self.stored.get().await.1)) }
        })
        .await
    }

    /// Its status, once it holds.
    async fn status(&self, what: &str, holds: impl Fn(&Value) -> bool) -> Value {
        wait_for(what, async || {
            let mut stored = self.stored.get().await.1;
            if holds(&stored["status"]) { Ok(stored["status"].take()) } else { Err(stored) }
        })
        .await
    }

    async fn pause(&self, paused: bool) {
        self.stored.patch(&json!({"spec": {"paused": paused}})).await;
    }

    /// What an Event of this reason says, once there is one.
    async fn reported(&self, reason: &str) -> String {
        self.reported_such(reason, |_| true).await
    }

    /// [`reported`](Self::reported), where the Event has to say something certain.
    async fn reported_such(&self, reason: &str, is: impl Fn(&str) -> bool) -> String {
        let path = format!("/apis/events.k8s.io/v1/namespaces/{}/events", self.namespace);
        wait_for("the Event", async || {
            let (_, list) = call(&self.client, "GET", &path, &Value::Null).await;
            let events = list["items"].as_array().unwrap().iter().filter(|event| {
                event["reason"] == reason
                    && event["regarding"]["uid"] == self.stored.object["metadata"]["uid"]
            });
            let mut notes = events.map(|event| event["note"].as_str().unwrap());
            notes.find(|note| is(note)).map(str::to_owned).ok_or(list.clone())
        })
        .await
    }

    /// Ends a child, as the controllers of Kubernetes do.
    async fn end(&self, child: &Value, succeeded: bool) {
        let now = Timestamp::now().strftime("%Y-%m-%dT%H:%M:%SZ").to_string();
        let condition = |kind: &str| {
            json!({"type": kind, "status": "True", "lastProbeTime": now, "lastTransitionTime": now,
                "reason": "Test", "message": ""})
        };
        let status = match child["kind"].as_str().unwrap_or("Job") {
            "ImageListPullJob" => json!({"startTime": now, "completionTime": now, "desired": 1,
                "succeeded": i32::from(succeeded)}),
            "BroadcastJob" => {
                let kind = if succeeded { "Complete" } else { "Failed" };
                json!({"startTime": now, "conditions": [condition(kind)]})
            }
            _ if succeeded => json!({"startTime": now, "completionTime": now, "succeeded": 1,
                "conditions": [condition("SuccessCriteriaMet"), condition("Complete")]}),
            _ => json!({"startTime": now, "failed": 1,
                "conditions": [condition("FailureTarget"), condition("Failed")]}),
        };
        let name = child["metadata"]["name"].as_str().unwrap();
        let path = format!("{}/{name}", self.collection);
        Stored::existing(&self.client, path, Value::Null).patch_status(&status).await;
    }

    /// A child that somebody else has made for a tick, of this version of the owner.
    async fn add_child(&self, tick: Timestamp, name: &str, version: &str) -> Value {
        let cron_job = &self.stored.object;
        let (field, _) = cron_job["spec"]["template"].as_object().unwrap().iter().next().unwrap();
        let (api_version, kind) = match field.as_str() {
            "jobTemplate" => ("batch/v1", "Job"),
            "broadcastJobTemplate" => (BETA, "BroadcastJob"),
            _ => (BETA, "ImageListPullJob"),
        };
        let mut owner = cron_job.clone();
        owner["apiVersion"] = json!(format!("apps.kruise.io/{version}"));
        owner["kind"] = json!("AdvancedCronJob");
        let child = object(api_version, kind, name)
            .in_namespace(&self.namespace)
            .annotation(SCHEDULED_AT, &tick.to_string())
            .controlled_by(&owner)
            .with("/spec", cron_job["spec"]["template"][field]["spec"].clone());
        let mut object = Stored::create(&self.client, child).await.object;
        object["kind"] = json!(kind);
        object
    }
}

/// The tick of a child.
fn tick(child: &Value) -> Timestamp {
    child["metadata"]["annotations"][SCHEDULED_AT].as_str().unwrap().parse().unwrap()
}

/// When a child was created.
fn created(child: &Value) -> Timestamp {
    child["metadata"]["creationTimestamp"].as_str().unwrap().parse().unwrap()
}

/// Waits until the clock shows this moment.
async fn clock(moment: Timestamp) {
    let left = moment.duration_since(Timestamp::now());
    tokio::time::sleep(Duration::try_from(left).unwrap_or_default()).await;
}

fn seconds(count: i64) -> jiff::SignedDuration {
    jiff::SignedDuration::from_secs(count)
}
