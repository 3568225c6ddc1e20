//! A release of a CloneSet by the controllers of Rollouts and BatchReleases, with what it asks of the API server.

use api::kinds::rollout::WorkloadRef;

use super::*;
use crate::workload::store::Change;

const ROLLOUT: &str = "/apis/rollouts.kruise.io/v1beta1/namespaces/shop/rollouts/web";
const RELEASE: &str = "/apis/rollouts.kruise.io/v1beta1/namespaces/shop/batchreleases/web";
const SET: &str = "/apis/apps.kruise.io/v1alpha1/namespaces/shop/clonesets/web";
const PODS: &str = "/api/v1/namespaces/shop/pods";
const REPLICAS: usize = 5;

/// A Rollout at rest with steps of 1, 3 and 5 Pods, and its CloneSet.
struct Release {
    rollouts: Bench<Rollouts>,
    batches: Controller<BatchReleases>,
}

impl Release {
    async fn open() -> Self {
        let steps = ["20%", "60%", "100%"].map(|replicas| json!({"replicas": replicas}));
        let reference = json!({"apiVersion": "apps.kruise.io/v1alpha1", "kind": "CloneSet", "name": "web"});
        let rollout = json!({
            "apiVersion": "rollouts.kruise.io/v1beta1", "kind": "Rollout",
            "metadata": {"namespace": "shop", "name": "web", "uid": "rollout", "generation": 1},
            "spec": {"workloadRef": reference, "strategy": {"canary": {"steps": steps}}},
        });
        let template = |image: &str| json!({"spec": {"containers": [{"name": "main", "image": image}]}});
        let set = json!({
            "metadata": {"namespace": "shop", "name": "web", "uid": "set", "generation": 1},
            "spec": {"replicas": REPLICAS, "template": template("nginx:1"), "updateStrategy": {}},
            "status": {"observedGeneration": 1, "replicas": REPLICAS, "updatedReplicas": REPLICAS,
                "readyReplicas": REPLICAS, "updatedReadyReplicas": REPLICAS,
                "currentRevision": "web-old", "updateRevision": "web-old"},
        });
        let rollouts = Bench::<Rollouts>::open(&[(ROLLOUT, rollout), (SET, set)]).await;
        rollouts.known.stores.pods.list_ends();
        let batches = Controller::new(rollouts.known.clone(), event_sender("Release").0);
        let release = Self { rollouts, batches };
        for number in 0..REPLICAS {
            release.pod(number, "old");
        }
        let set = WorkloadRef {
            api_version: "apps.kruise.io/v1alpha1".to_owned(),
            kind: "CloneSet".to_owned(),
            name: "web".to_owned(),
        };
        release.rollouts.reconcile().await;
        while !release.rollouts.known.follow_workload(&set, "shop").await.unwrap() {
            tokio::task::yield_now().await;
        }
        release.rollouts.requests();
        release
    }

    fn get(&self, path: &str) -> Value {
        self.rollouts.server.get(path).unwrap_or_default()
    }

    /// The CloneSet changes, of which its watch tells.
    fn set(&self, change: impl FnOnce(&mut Value)) {
        let mut set = self.get(SET);
        change(&mut set);
        let name = ObjectName::new("apps.kruise.io/v1alpha1", "CloneSet", "shop", "web");
        self.rollouts.changed(&name, SET, set);
    }

    /// The user changes the template, and admission holds the CloneSet.
    fn roll(&self) {
        self.set(|set| {
            set["metadata"]["generation"] = json!(2);
            set["metadata"]["annotations"]["rollouts.kruise.io/in-progressing"] =
                json!(r#"{"rolloutName":"web"}"#);
            set["spec"]["template"]["spec"]["containers"][0]["image"] = json!("nginx:2");
            set["spec"]["updateStrategy"]["partition"] = json!("100%");
            set["status"]["observedGeneration"] = json!(2);
            set["status"]["updateRevision"] = json!("web-new");
            for count in ["updatedReplicas", "updatedReadyReplicas"] {
                set["status"][count] = json!(0);
            }
        });
    }

    fn pod(&self, number: usize, revision: &str) {
        let path = format!("{PODS}/web-{number}");
        let owner = json!({"apiVersion": "apps.kruise.io/v1alpha1", "kind": "CloneSet", "name": "web", "uid": "set", "controller": true});
        let pod = json!({
            "metadata": {"namespace": "shop", "name": format!("web-{number}"), "ownerReferences": [owner],
                "uid": format!("00000000-0000-0000-0000-00000000000{number}"),
                "labels": {"controller-revision-hash": format!("web-{revision}"), "pod-template-hash": revision}},
            "spec": {"containers": [{"name": "main", "image": "nginx"}]},
            "status": {"phase": "Running", "conditions": [{"type": "Ready", "status": "True"}]},
        });
        let pod = self.rollouts.server.put(&path, pod);
        self.rollouts.known.stores.pods.see(serde_json::from_value(pod).unwrap());
    }

    /// The controller of CloneSets replaces Pods as far as it may.
    fn work(&self) {
        let set = self.get(SET);
        let partition = &set["spec"]["updateStrategy"]["partition"];
        let kept = match partition.as_str().and_then(|share| share.strip_suffix('%')) {
            Some(share) => (share.parse::<usize>().unwrap() * REPLICAS).div_ceil(100),
            None => partition.as_u64().unwrap_or(0) as usize,
        };
        let new = REPLICAS - kept;
        let is_seen = set["status"]["observedGeneration"] == set["metadata"]["generation"];
        if is_seen && set["status"]["updatedReplicas"] == new {
            return;
        }
        (0..new).filter(|number| !self.is_new(*number)).for_each(|number| self.pod(number, "new"));
        self.set(|set| {
            set["status"]["observedGeneration"] = set["metadata"]["generation"].clone();
            for count in ["updatedReplicas", "updatedReadyReplicas"] {
                set["status"][count] = json!(new);
            }
            if new == REPLICAS {
                set["status"]["currentRevision"] = json!("web-new");
            }
        });
    }

    fn is_new(&self, number: usize) -> bool {
        self.get(&format!("{PODS}/web-{number}"))["metadata"]["labels"]["pod-template-hash"] == "new"
    }

    fn new_pods(&self) -> usize {
        (0..REPLICAS).filter(|number| self.is_new(*number)).count()
    }

    /// Goes on until the status of the Rollout is like that; gives what was asked of the API server.
    async fn until(&self, what: &str, holds: impl Fn(&Value) -> bool) -> Vec<String> {
        for _ in 0..100 {
            self.rollouts.reconcile().await;
            self.batches.reconcile(&key()).await.unwrap();
            self.work();
            if holds(&self.get(ROLLOUT)["status"]) {
                return self.rollouts.requests();
            }
            // Some waits have an end.
            tokio::time::sleep(std::time::Duration::from_millis(100)).await;
        }
        panic!("{what}: {:#}, {:#}, {:#}", self.get(ROLLOUT), self.get(RELEASE), self.get(SET));
    }

    fn approve(&self) {
        let mut rollout = self.get(ROLLOUT);
        rollout["status"]["canaryStatus"]["currentStepState"] = json!("StepReady");
        self.rollouts.changed(&named(ROLLOUT), ROLLOUT, rollout);
    }
}

fn is_paused(step: i32) -> impl Fn(&Value) -> bool {
    move |status| {
        let release = &status["canaryStatus"];
        release["currentStepIndex"] == step && release["currentStepState"] == "StepPaused"
    }
}

#[tokio::test]
async fn a_rollout_at_rest_asks_nothing_and_is_not_woken_by_counts() {
    let mut release = Release::open().await;
    assert_eq!(release.rollouts.status(ROLLOUT)["phase"], "Healthy");
    for _ in 0..3 {
        assert_eq!(release.rollouts.reconcile().await, Next::Done);
    }
    assert_eq!(release.rollouts.requests(), [""; 0]);
    release.rollouts.concerned().await;
    release.set(|set| set["status"]["readyReplicas"] = json!(3));
    assert_eq!(release.rollouts.concerned().await, 0);
    release.roll();
    assert_eq!(release.rollouts.concerned().await, 1);
}

#[tokio::test]
async fn a_step_costs_few_requests() {
    let release = Release::open().await;
    release.roll();
    release.until("step 1", is_paused(1)).await;
    assert_eq!(release.new_pods(), 1);
    release.approve();
    let requests = release.until("step 2", is_paused(2)).await;
    assert_eq!(release.new_pods(), 3);
    let beside_pods: Vec<&String> = requests.iter().filter(|line| !line.contains(PODS)).collect();
    assert!(beside_pods.len() <= 6, "{beside_pods:#?}");
    assert!(beside_pods.iter().all(|line| line.starts_with("PATCH")), "{beside_pods:#?}");
    release.approve();
    release.until("the end", |status| status["phase"] == "Healthy").await;
    assert_eq!(release.new_pods(), REPLICAS);
    assert_eq!(release.rollouts.server.get(RELEASE), None);
    let Releases { ended, steps } = &release.rollouts.known.metrics.releases;
    let measured = |state| steps.with_label_values(&[state]).get_sample_count();
    // The last step of a canary strategy passes without an approval.
    assert_eq!((measured("StepPaused"), measured("StepUpgrade")), (2, 3));
    assert_eq!(ended.with_label_values(&["succeeded"]).get(), 1);
    let set = release.get(SET);
    assert_eq!(set["metadata"]["annotations"], json!({}), "{set:#}");
}

#[tokio::test]
async fn a_workload_that_changes_concerns_its_rollout_and_its_batch_release_in_any_version() {
    let release = Release::open().await;
    release.roll();
    release.until("step 1", is_paused(1)).await;
    let known = &release.rollouts.known;
    for (api_version, expected) in [("apps.kruise.io/v1beta1", 1), ("apps/v1", 0)] {
        let list = ListName {
            api_version: api_version.to_owned(),
            kind: "CloneSet".to_owned(),
            namespace: String::new(),
            selector: String::new(),
        };
        let held = Arc::new(held::Held::new(&release.get(SET)));
        let news = News { list: Arc::new(list), change: Change { old: None, new: Some(held) } };
        assert_eq!(Rollouts::concerned(known, &news).len(), expected, "{api_version}");
        assert_eq!(BatchReleases::concerned(known, &news).len(), expected, "{api_version}");
    }
}
