//! Jobs, and what OpenKruise and its agents have done of them.

use jiff::{Timestamp, ToSpan};
use kit::builders::{Object, object};
use kit::fake_nodes::EXIT;
use kit::wait_for;
use serde_json::{Value, json};

use super::forms::completed;
use super::place::{DAEMON_CONFIG, KRUISE_POD_READY, Place, Subject, THEN, newest};
use crate::support::Stored;
use crate::support::fleet::{name, uid};

const HOST: &str = "kubernetes.io/hostname";
const FINISHED_JOB: &str = "apps.kruise.io/deletion-protection";
/// Pulled by the job, by the list of images, and long ago.
pub const PULLED: [&str; 3] =
    ["registry.example.com/app", "registry.example.com/lib", "registry.example.com/done"];
/// Pulled for any user who edits the NodeImage.
pub const EXTRA: &str = "registry.example.com/extra";

/// Some seconds ago, in the form that objects have.
fn lately() -> String {
    Timestamp::now().checked_sub(20.seconds()).unwrap().strftime("%Y-%m-%dT%H:%M:%SZ").to_string()
}

fn job_template(app: &str) -> Value {
    let mut template = completed(app);
    template["spec"]["restartPolicy"] = "Never".into();
    template
}

fn complete() -> Value {
    let condition = json!({"type": "Complete", "status": "True", "reason": "Complete",
        "message": "Job completed, 1 pods succeeded, 0 pods failed", "lastProbeTime": THEN, "lastTransitionTime": THEN});
    json!({"conditions": [condition], "startTime": THEN, "completionTime": THEN, "active": 0, "succeeded": 1,
        "failed": 0, "desired": 1, "phase": "completed"})
}

impl Place {
    fn job_pod(&self, job: &Stored, name: &str) -> Object {
        let field = json!({"key": "metadata.name", "operator": "In", "values": [self.node(0)]});
        let required = json!({"nodeSelectorTerms": [{"matchFields": [field]}]});
        let job_name = job.object["metadata"]["name"].as_str().unwrap();
        self.pod(name)
            .label("app", job_name)
            .label("broadcastjob-name", job_name)
            .label("broadcastjob-controller-uid", &uid(&job.object))
            .with("/metadata/generateName", format!("{job_name}-"))
            .with("/metadata/ownerReferences", self.owner(job))
            .with("/spec/restartPolicy", "Never")
            .with(
                "/spec/affinity",
                json!({"nodeAffinity": {"requiredDuringSchedulingIgnoredDuringExecution": required}}),
            )
            .readiness_gate(KRUISE_POD_READY)
    }

    /// A job that has one of two Pods at a time, and one that is over, which must not run again.
    pub async fn broadcast_jobs(&self) -> Vec<Subject> {
        let spec = |app: &str| {
            json!({"template": job_template(app), "parallelism": 1, "completionPolicy": {"type": "Always"},
                "failurePolicy": {"type": "FailFast"}, "paused": false})
        };
        let running = self.create(self.object("BroadcastJob", "running", spec("running"))).await;
        self.run(self.job_pod(&running, "running-mnopq"), &[]).await;
        running
            .patch_status(&json!({"startTime": THEN, "active": 1, "succeeded": 0, "failed": 0, "desired": 2, "phase": "running"}))
            .await;
        let mut one_node = spec("over");
        one_node["template"]["spec"]["nodeSelector"] = json!({HOST: self.node(0)});
        let over = self.create(self.object("BroadcastJob", "over", one_node)).await;
        let pod = self.run(self.job_pod(&over, "over-rstuv"), &[]).await;
        pod.patch(&json!({"metadata": {"annotations": {EXIT: "main=0"}}})).await;
        wait_for("the Pod to end", async || {
            let now = pod.get().await.1;
            if now["status"]["phase"] == "Succeeded" { Ok(()) } else { Err(now["status"].clone()) }
        })
        .await;
        over.patch_status(&complete()).await;
        let controller = "broadcastjob-controller";
        let edit = json!({"spec": {"parallelism": 2}});
        let running = Subject::new(running, controller, edit, |job| job["status"]["active"] == 2);
        let edit = json!({"spec": {"completionPolicy": {"ttlSecondsAfterFinished": 1}}});
        let path = newest(&over);
        let over = Subject::new(over, controller, edit, |_| false).shown_by(path, |code, _| code == 404);
        vec![running, over]
    }

    /// With a run that is over.
    pub async fn advanced_cron_job(&self) -> Subject {
        let job = json!({"template": job_template("cron"), "completionPolicy": {"type": "Always"}});
        let spec = json!({"schedule": "0 0 30 2 *", "template": {"broadcastJobTemplate": {"spec": job}}, "paused": false,
            "concurrencyPolicy": "Allow", "successfulJobsHistoryLimit": 3, "failedJobsHistoryLimit": 1});
        let cron = self.create(self.object("AdvancedCronJob", "cron", spec)).await;
        let mut spec = json!({"template": job_template("cron"), "parallelism": 2_147_483_647_i64,
            "completionPolicy": {"type": "Always"}, "failurePolicy": {"type": "FailFast"}, "paused": false});
        spec["template"]["spec"]["nodeSelector"] = json!({HOST: self.node(0)});
        let run = self
            .object("BroadcastJob", "cron-1782900000", spec)
            .annotation("apps.kruise.io/scheduled-at", THEN)
            .with("/metadata/ownerReferences", self.owner(&cron));
        let run = self.create_with(run, &complete()).await;
        cron.patch_status(&json!({"type": "BroadcastJob", "lastScheduleTime": THEN})).await;
        let edit = json!({"spec": {"successfulJobsHistoryLimit": 0}});
        Subject::new(cron, "advancedcronjob-controller", edit, |_| false)
            .shown_by(newest(&run), |code, _| code == 404)
    }

    /// A job that pulls on one node at a time with a secret, a list of images, and the NodeImages of both nodes.
    pub async fn pull_jobs(&self) -> Vec<Subject> {
        let namespace = &self.shop.namespace;
        let (start, first) = (lately(), self.node(0));
        let kind = "kubernetes.io/dockerconfigjson";
        let secret = |name: &str| {
            object("v1", "Secret", name)
                .with("/type", kind)
                .with("/data", json!({".dockerconfigjson": "e30="}))
        };
        self.create(secret("registry").in_namespace(namespace)).await;
        let policy = json!({"timeoutSeconds": 600, "backoffLimit": 3});
        let common = json!({"parallelism": 1, "pullPolicy": policy, "completionPolicy": {"type": "Always"}, "imagePullPolicy": "IfNotPresent"});
        let mut spec = common.clone();
        spec["image"] = format!("{}:1", PULLED[0]).into();
        spec["pullSecrets"] = json!(["registry"]);
        spec["selector"] = json!({"names": self.nodes.names()});
        let job = self.create(self.object("ImagePullJob", "pull", spec).finalizer(FINISHED_JOB)).await;
        let status = |desired: u8| json!({"startTime": start, "desired": desired, "active": 1, "message": "job is running, progress 0.0%"});
        job.patch_status(&status(2)).await;
        let copy = secret("registry-a1b2c3")
            .in_namespace(DAEMON_CONFIG)
            .annotation("imagepulljobs.kruise.io/source-key", &format!("{namespace}/registry"))
            .annotation("imagepulljobs.kruise.io/references", &format!("{namespace}/pull"));
        let copy = if self.is_old() {
            copy.label("imagepulljobs.kruise.io/source-uid", &uid(&job.object))
        } else {
            copy.annotation("imagepulljobs.kruise.io/mode", "batch")
        };
        self.create(copy).await;

        let mut spec = common.clone();
        spec["images"] = json!([format!("{}:1", PULLED[1])]);
        spec["selector"] = json!({"names": [first]});
        let hash = "6c8f94d7b5";
        let list =
            self.object("ImageListPullJob", "list", spec.clone()).label("controller-revision-hash", hash);
        let list = self.create(list).await;
        list.patch_status(&json!({"startTime": start, "desired": 1, "active": 1})).await;
        spec.as_object_mut().unwrap().remove("images");
        spec["image"] = format!("{}:1", PULLED[1]).into();
        let child = self
            .object("ImagePullJob", "list-wxyz2", spec)
            .with("/metadata/generateName", "list-")
            .label("controller-revision-hash", hash)
            .finalizer(FINISHED_JOB)
            .with("/metadata/ownerReferences", self.owner(&list));
        let child = self.create_with(child, &status(1)).await;

        let task = |owner: Option<&Stored>| {
            let mut task = json!({"tag": "1", "createdAt": start, "version": 0, "imagePullPolicy": "IfNotPresent",
                "pullPolicy": {"timeoutSeconds": 600, "backoffLimit": 3, "ttlSecondsAfterFinished": 2222}});
            if let Some(owner) = owner {
                task["ownerReferences"] = json!([{"apiVersion": self.api_version(), "kind": "ImagePullJob", "namespace": namespace,
                    "name": name(&owner.object), "uid": uid(&owner.object)}]);
            }
            json!([task])
        };
        let mut reference = json!({"namespace": DAEMON_CONFIG, "name": "registry-a1b2c3"});
        if !self.is_old() {
            reference["mode"] = "batch".into();
        }
        let images = json!({PULLED[0]: {"pullSecrets": [reference], "tags": task(Some(&job))},
            PULLED[1]: {"tags": task(Some(&child))}, PULLED[2]: {"tags": task(None)}});
        let pulling = |progress: u8| json!({"tags": [{"tag": "1", "phase": "Pulling", "progress": progress, "startTime": start, "version": 0}]});
        let done = json!({"tags": [{"tag": "1", "phase": "Succeeded", "progress": 100, "startTime": start,
            "completionTime": start, "version": 0, "imageID": "sha256:0000000000000000000000000000000000000000000000000000000000000000"}]});
        let status = json!({"desired": 3, "succeeded": 1, "failed": 0, "pulling": 2, "waiting": 0,
            "imageStatuses": {PULLED[0]: pulling(40), PULLED[1]: pulling(0), PULLED[2]: done}});
        let node_image = self.node_image(0, json!({"images": images}), &status).await;
        let empty = json!({"desired": 0, "succeeded": 0, "failed": 0, "pulling": 0, "waiting": 0});
        let other = self.node_image(1, json!({}), &empty).await;

        let edit = json!({"spec": {"images": {EXTRA: {"tags": [{"tag": "1", "pullPolicy": {"ttlSecondsAfterFinished": 2222}}]}}}});
        let added = |object: &Value| !object["spec"]["images"][EXTRA]["tags"][0]["createdAt"].is_null();
        let controller = "nodeimage-controller";
        let mut subjects = vec![
            Subject::new(node_image, controller, edit.clone(), added),
            Subject::new(other, controller, edit, added),
        ];
        let edit = json!({"spec": {"parallelism": 2}});
        subjects.push(Subject::new(job, "imagepulljob-controller", edit, |job| job["status"]["active"] == 2));
        let edit = json!({"spec": {"images": [format!("{}:1", PULLED[1]), format!("{}:2", PULLED[1])]}});
        subjects.push(Subject::new(list, "imagelistpulljob-controller", edit, |list| {
            (&list["status"]["desired"], &list["status"]["active"]) == (&json!(2), &json!(2))
        }));
        subjects
    }

    async fn node_image(&self, index: usize, spec: Value, status: &Value) -> Stored {
        let node = self.node(index);
        let path = format!("/api/v1/nodes/{node}");
        let labels =
            Stored::existing(&self.shop.client, path, Value::Null).get().await.1["metadata"]["labels"].take();
        let manifest = object(&self.api_version(), "NodeImage", node)
            .with("/metadata/labels", labels)
            .with("/spec", spec);
        self.create_with(manifest, status).await
    }

    /// In a Pod that has the container already.
    pub async fn ephemeral_job(&self) -> Subject {
        let pod = self.run(self.pod("debugged").label("app", "debugged"), &[]).await;
        let container = json!({"name": "debug", "image": "busybox:1.36", "imagePullPolicy": "IfNotPresent",
            "terminationMessagePolicy": "File"});
        let spec = json!({"selector": {"matchLabels": {"app": "debugged"}}, "parallelism": 1,
            "template": {"ephemeralContainers": [container]}});
        let job = self
            .object("EphemeralJob", "debug", spec)
            .api_version("apps.kruise.io/v1alpha1")
            .finalizer("apps.kruise.io/ephemeralcontainers-cleanup");
        let job = self.create(job).await;
        let mut added = container;
        added["env"] = json!([{"name": "KRUISE_EJOB_ID", "value": uid(&job.object)}]);
        let answer = pod
            .try_patch_part("ephemeralcontainers", &json!({"spec": {"ephemeralContainers": [added]}}))
            .await;
        assert_eq!(answer.0, 200, "{:#}", answer.1);
        wait_for("the container to run", async || {
            let now = pod.get().await.1["status"]["ephemeralContainerStatuses"].take();
            if now[0]["state"]["running"].is_null() { Err(now) } else { Ok(()) }
        })
        .await;
        let condition = json!({"type": "Initialized", "status": "True", "reason": "Initialized",
            "lastProbeTime": THEN, "lastTransitionTime": THEN});
        job.patch_status(&json!({"conditions": [condition], "startTime": THEN, "phase": "Running", "match": 1, "running": 1,
            "succeeded": 0, "failed": 0, "waiting": 0}))
            .await;
        let edit = json!({"spec": {"paused": true}});
        Subject::new(job, "ephemeraljob-controller", edit, |job| job["status"]["phase"] == "Paused")
    }

    /// Under way: the agent has restarted the container, which is not back for long enough. Its spec can't be edited:
    /// the agent continues.
    pub async fn container_recreate_request(&self) -> Subject {
        let pod = self.run(self.pod("restarted").label("app", "restarted").on_node(self.node(1)), &[]).await;
        let now = pod.get().await.1["status"]["containerStatuses"][0].take();
        let container = json!({"name": "main", "statusContext": {"containerID": "containerd://before", "restartCount": 0}});
        let spec = json!({"podName": "restarted", "containers": [container],
            "strategy": {"failurePolicy": "Fail", "terminationGracePeriodSeconds": 30, "minStartedSeconds": 600}});
        let snapshot = json!([{"name": "main", "ready": true, "restartCount": now["restartCount"], "containerID": now["containerID"]}]);
        let mut request = self
            .object("ContainerRecreateRequest", "restart", spec)
            .label("crr.apps.kruise.io/active", "true")
            .label("crr.apps.kruise.io/node-name", self.node(1))
            .label("crr.apps.kruise.io/pod-uid", &uid(&pod.object));
        let state = json!({"name": "main", "phase": "Recreating", "isKilled": true});
        let mut status = json!({"phase": "Recreating", "containerRecreateStates": [state]});
        if self.is_old() {
            request = request.annotation("crr.apps.kruise.io/sync-container-statuses", &snapshot.to_string());
        } else {
            status["containerStatusSnapshot"] = snapshot;
        }
        let request = self.create_with(request, &status).await;
        let edit = json!({"status": {"phase": "Completed", "completionTime": lately(),
            "containerRecreateStates": [{"name": "main", "phase": "Succeeded", "isKilled": true}]}});
        let is_over = |request: &Value| request["metadata"]["labels"]["crr.apps.kruise.io/active"].is_null();
        Subject::new(request, "containerrecreaterequest-controller", edit, is_over).by_its_agent()
    }
}
