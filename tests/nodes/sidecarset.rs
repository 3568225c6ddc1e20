//! Sidecars of running Pods on real nodes: which containers restart, and which never do
//! (docs/behaviour/sidecarset.md#updating-one-pod and docs/behaviour/sidecarset.md#hot-upgrade).

use std::time::Duration;

use kit::builders::{Object, deployment, object, pod, sidecar_set};
use kit::{objects, wait_within};
use serde_json::{Value, json};

use crate::site::Site;

const TIMEOUT: Duration = Duration::from_secs(120);
/// What the idle twin of a hot upgrade runs.
const EMPTY: &str = "busybox:latest";

/// Pods that get the sidecar `side` of one SidecarSet.
struct Fleet<'s> {
    site: &'s Site,
    namespace: String,
    set: String,
}

impl<'s> Fleet<'s> {
    /// Creates the SidecarSet for the Pods labelled `tier: side`, and waits until admission knows it.
    async fn open(site: &'s Site, prefix: &str, refine: impl FnOnce(Object) -> Object) -> Self {
        let namespace = site.server().namespace(prefix).await;
        let set = format!("set-{namespace}");
        let selector = json!({"matchLabels": {"kubernetes.io/metadata.name": namespace}});
        let manifest = sidecar_set(&set).matching("tier", "side").with("/spec/namespaceSelector", selector);
        objects::create(&site.server().client(), refine(manifest)).await.unwrap();
        let fleet = Self { site, namespace, set };
        site.wait_injected(&fleet.pod("trial").build()).await;
        fleet
    }

    fn pod(&self, name: &str) -> Object {
        pod(name)
            .in_namespace(&self.namespace)
            .label("tier", "side")
            .container("main", "nginx:1.25")
            .with("/spec/terminationGracePeriodSeconds", 0)
    }

    async fn create(&self, manifest: Object) {
        objects::create(&self.site.server().client(), manifest).await.unwrap();
    }

    async fn read(&self, name: &str) -> Value {
        self.site.core(&self.namespace, &format!("pods/{name}")).await
    }

    async fn read_set(&self) -> Value {
        self.site.get(&format!("/apis/apps.kruise.io/v1beta1/sidecarsets/{}", self.set)).await
    }

    async fn ready(&self, name: &str) -> Value {
        let words = format!("wait pod/{name} -n {} --for=condition=Ready --timeout=4m", self.namespace);
        self.site.kubectl(&words).await.success();
        self.read(name).await
    }

    /// Changes the image of the sidecar.
    async fn roll(&self, image: &str) {
        let patch =
            format!(r#"--patch=[{{"op":"replace","path":"/spec/containers/0/image","value":"{image}"}}]"#);
        let words = ["patch", "sidecarset", &self.set, "--type=json", &patch];
        self.site.server().kubectl(words).await.success();
    }

    /// Waits until that many Pods are updated and ready, and the newest spec was reconciled.
    async fn rolled(&self, pods: usize) {
        wait_within(TIMEOUT, "the SidecarSet to be rolled out", async || {
            let set = self.read_set().await;
            let status = set["status"].clone();
            let observed = status["observedGeneration"] == set["metadata"]["generation"];
            if observed && status["updatedReadyPods"] == pods { Ok(()) } else { Err(status) }
        })
        .await;
    }

    async fn close(self) {
        self.site.kubectl(&format!("delete pods --all -n {} --wait=false", self.namespace)).await.success();
        self.site.kubectl(&format!("delete sidecarset {}", self.set)).await.success();
    }
}

fn sleeping(set: Object, image: &str) -> Object {
    // Process 1 ignores SIGTERM unless it says otherwise.
    set.container("side", image)
        .having("command", json!(["sh", "-c", "trap 'exit 0' TERM; sleep 100000 & wait"]))
}

/// Restart count, container ID and image ID of a container.
fn life(pod: &Value, container: &str) -> (i64, String, String) {
    let lists = ["containerStatuses", "initContainerStatuses"];
    let mut statuses = lists.iter().flat_map(|list| pod["status"][list].as_array().into_iter().flatten());
    let status = statuses.find(|status| status["name"] == container).unwrap_or_else(|| panic!("{pod:#}"));
    let text = |key: &str| status[key].as_str().unwrap().to_owned();
    (status["restartCount"].as_i64().unwrap(), text("containerID"), text("imageID"))
}

fn image<'p>(pod: &'p Value, container: &str) -> &'p str {
    let mut containers = pod["spec"]["containers"].as_array().unwrap().iter();
    containers.find(|one| one["name"] == container).unwrap()["image"].as_str().unwrap()
}

/// Scenario 13 of docs/behaviour/sidecarset.md, as kubelets see it.
#[tokio::test]
async fn an_update_in_place_restarts_the_sidecar_alone() {
    let Some(site) = Site::installed().await else { return };
    let fleet = Fleet::open(&site, "inplace", |set| sleeping(set, "busybox:1.35")).await;
    let names = ["web-0", "web-1", "web-2"];
    for name in names {
        fleet.create(fleet.pod(name)).await;
    }
    let mut before = Vec::new();
    for name in names {
        before.push(fleet.ready(name).await);
    }
    fleet.rolled(3).await;
    fleet.roll("busybox:1.36").await;
    fleet.rolled(3).await;
    for (name, before) in names.iter().zip(&before) {
        let after = fleet.read(name).await;
        assert_eq!(image(&after, "side"), "busybox:1.36");
        assert_eq!(life(&after, "main"), life(before, "main"), "main never restarts");
        let ((old_restarts, old_id, old_image), (restarts, id, image)) =
            (life(before, "side"), life(&after, "side"));
        assert_eq!((old_restarts, restarts), (0, 1));
        assert!(id != old_id && image != old_image, "{id} {image}");
        assert_eq!(after["metadata"]["uid"], before["metadata"]["uid"]);
        let conditions = after["status"]["conditions"].as_array().unwrap();
        assert!(conditions.iter().any(|it| it["type"] == "SidecarSetUpgradable" && it["status"] == "True"));
    }
    fleet.close().await;
}

/// Scenario 22 of docs/behaviour/sidecarset.md, as a kubelet sees it: S0, S1, S2, and back to the first twin.
#[tokio::test]
async fn a_hot_upgrade_always_leaves_one_twin_at_work() {
    let Some(site) = Site::installed().await else { return };
    let fleet = Fleet::open(&site, "hot", |set| {
        let strategy = json!({"upgradeType": "HotUpgrade", "hotUpgradeEmptyImage": EMPTY});
        sleeping(set, "busybox:1.35").having("upgradeStrategy", strategy)
    })
    .await;
    fleet.create(fleet.pod("web-0")).await;
    let s0 = fleet.ready("web-0").await;
    assert_eq!((image(&s0, "side-1"), image(&s0, "side-2")), ("busybox:1.35", EMPTY));
    for (next, twin, other) in [("busybox:1.36", "side-2", "side-1"), ("busybox:1.37", "side-1", "side-2")] {
        let before = fleet.read("web-0").await;
        fleet.roll(next).await;
        fleet.rolled(1).await;
        let after = fleet.read("web-0").await;
        assert_eq!((image(&after, twin), image(&after, other)), (next, EMPTY));
        assert_eq!(life(&after, "main"), life(&before, "main"), "main never restarts");
        for container in [twin, other] {
            let (old, new) = (life(&before, container), life(&after, container));
            assert_eq!(new.0, old.0 + 1, "{container} restarts once");
            assert_ne!((old.1, old.2), (new.1, new.2));
        }
        let working =
            after["metadata"]["annotations"]["kruise.io/sidecarset-working-hotupgrade-container"].clone();
        assert_eq!(working, format!("{{\"side\":\"{twin}\"}}"));
    }
    fleet.close().await;
}

/// Scenario 16 of docs/behaviour/pod-mutation.md, as a kubelet sees it.
#[tokio::test]
async fn a_native_sidecar_runs_beside_the_main_container() {
    let Some(site) = Site::installed().await else { return };
    let fleet = Fleet::open(&site, "native", |set| {
        set.init_container("proxy", "busybox:1.36")
            .having("restartPolicy", "Always")
            .having("command", json!(["sleep", "infinity"]))
            .with("/spec/updateStrategy/type", "NotUpdate")
    })
    .await;
    let front = deployment("front")
        .in_namespace(&fleet.namespace)
        .matching("app", "front")
        .replicas(2)
        .template_label("tier", "side")
        .container("main", "nginx:1.25");
    fleet.create(front).await;
    let words = format!("rollout status deployment/front -n {} --timeout=4m", fleet.namespace);
    site.kubectl(&words).await.success();
    let pods = site.core(&fleet.namespace, "pods").await;
    for pod in pods["items"].as_array().unwrap() {
        let status = &pod["status"]["initContainerStatuses"][0];
        assert!(status["name"] == "proxy" && status["state"]["running"].is_object(), "{status:#}");
        assert_eq!(life(pod, "main").0, 0);
    }
    wait_within(TIMEOUT, "the Pods to be counted", async || {
        let status = fleet.read_set().await["status"].clone();
        if status["readyPods"] == 2 && status["updatedPods"] == 2 { Ok(()) } else { Err(status) }
    })
    .await;
    site.kubectl(&format!("delete deployment front -n {}", fleet.namespace)).await.success();
    fleet.close().await;
}

/// Scenario 27 of docs/behaviour/sidecarset.md, as the agent of the node carries it out.
#[tokio::test]
async fn a_finished_job_ends_with_its_sidecar() {
    let Some(site) = Site::installed().await else { return };
    let fleet = Fleet::open(&site, "job", |set| {
        sleeping(set, "busybox:1.36")
            .having("env", json!([{"name": "KRUISE_TERMINATE_SIDECAR_WHEN_JOB_EXIT", "value": "true"}]))
    })
    .await;
    let template = json!({
        "metadata": {"labels": {"tier": "side"}},
        "spec": {
            "restartPolicy": "Never", "terminationGracePeriodSeconds": 0,
            "containers": [{"name": "main", "image": "busybox:1.36", "command": ["true"]}],
        },
    });
    let job = object("batch/v1", "Job", "once").in_namespace(&fleet.namespace);
    fleet.create(job.with("/spec", json!({"template": template, "backoffLimit": 0}))).await;
    let request = wait_within(TIMEOUT, "the request", async || {
        let list = site.kruise(&fleet.namespace, "containerrecreaterequests").await;
        list["items"][0].is_object().then(|| list["items"][0].clone()).ok_or(list)
    })
    .await;
    let pods = site.core(&fleet.namespace, "pods").await;
    let pod = &pods["items"][0];
    assert_eq!(
        request["metadata"]["name"],
        format!("sidecar-termination-{}", pod["metadata"]["uid"].as_str().unwrap())
    );
    assert_eq!(request["spec"]["podName"], pod["metadata"]["name"]);
    let [container] = &request["spec"]["containers"].as_array().unwrap()[..] else { panic!("{request:#}") };
    assert_eq!(container["name"], "side");
    // Admission has taken over which container it is.
    assert_eq!(container["statusContext"]["restartCount"], 0);
    let words = format!("wait job/once -n {} --for=condition=Complete --timeout=4m", fleet.namespace);
    site.kubectl(&words).await.success();
    site.kubectl(&format!("delete job once -n {}", fleet.namespace)).await.success();
    fleet.close().await;
}
