//! A WorkloadSpread over real nodes, of which one is drained (docs/behaviour/workloadspread.md#rescheduling).

use kit::builders::{object, workload};
use kit::{objects, wait_within};
use serde_json::{Value, json};

use crate::site::{Site, TIMEOUT};

const MARK: &str = "apps.kruise.io/matched-workloadspread";
/// The label by which subsets select nodes.
const ZONE: &str = "example.com/zone";

fn zone(name: &str) -> Value {
    json!({"matchExpressions": [{"key": ZONE, "operator": "In", "values": [name]}]})
}

/// The CloneSet `web`, divided over subset `a`, up to two Pods, and subset `b`: a node each.
struct Divided<'s> {
    site: &'s Site,
    namespace: String,
    nodes: &'static [String],
}

impl<'s> Divided<'s> {
    async fn open(site: &'s Site) -> Self {
        let namespace = site.server().namespace("spread").await;
        let nodes = site.cluster().nodes();
        for (node, zone) in nodes.iter().zip(["a", "b"]) {
            site.label(node, ZONE, zone).await;
        }
        let divided = Self { site, namespace, nodes };
        divided.create_known("web").await;
        let set = workload("apps.kruise.io/v1beta1", "CloneSet", "web")
            .in_namespace(&divided.namespace)
            .matching("app", "web")
            .replicas(3)
            .container("main", "nginx:1.25")
            .with("/spec/template/spec/terminationGracePeriodSeconds", 1);
        objects::create(&site.server().client(), set).await.unwrap();
        divided
    }

    /// Creates a WorkloadSpread for the CloneSet of its name, and waits until both replicas know it: they refuse a
    /// second one for the same CloneSet. What was written to others before, they know then too.
    async fn create_known(&self, name: &str) {
        objects::create(&self.site.server().client(), self.spread(name, name)).await.unwrap();
        self.site.wait_known_spread(&self.spread("second", name)).await;
    }

    fn spread(&self, name: &str, set: &str) -> Value {
        let target = json!({"apiVersion": "apps.kruise.io/v1beta1", "kind": "CloneSet", "name": set});
        let subsets = json!([
            {"name": "a", "maxReplicas": 2, "requiredNodeSelector": zone("a")},
            {"name": "b", "requiredNodeSelector": zone("b")}
        ]);
        object("apps.kruise.io/v1beta1", "WorkloadSpread", name)
            .in_namespace(&self.namespace)
            .with("/spec", json!({"targetRef": target, "subsets": subsets, "scheduleStrategy": adaptive()}))
            .build()
    }

    async fn patch(&self, object: &str, patch: &Value) {
        let patch = format!("--patch={patch}");
        let words = ["patch", object, "web", "--type=merge", "--namespace", &self.namespace, &patch];
        self.site.server().kubectl(words).await.success();
    }

    /// Waits until each subset has that many ready Pods, all of them on its node.
    async fn placed(&self, expected: [usize; 2]) {
        wait_within(TIMEOUT, "the Pods to be ready in their subsets", async || {
            let pods = self.site.core(&self.namespace, "pods").await;
            let pods = pods["items"].as_array().unwrap();
            let mut counts = [0, 0];
            for pod in pods.iter().filter(|pod| is_ready(pod)) {
                let position = usize::from(subset(pod) == "b");
                assert_eq!(pod["spec"]["nodeName"], json!(self.nodes[position]), "{pod:#}");
                counts[position] += 1;
            }
            if counts == expected && pods.len() == counts.iter().sum::<usize>() {
                Ok(())
            } else {
                Err(counts)
            }
        })
        .await;
    }

    /// Waits until subset `a` has a condition with this status, or none.
    async fn schedulable(&self, expected: &Value) {
        wait_within(TIMEOUT, "the condition of subset a", async || {
            let spread = self.site.kruise(&self.namespace, "workloadspreads/web").await;
            let subset = &spread["status"]["subsetStatuses"][0];
            if subset["conditions"][0]["status"] == *expected { Ok(()) } else { Err(subset.clone()) }
        })
        .await;
    }

    async fn close(self) {
        self.site
            .kubectl(&format!("delete cloneset,workloadspread --all -n {}", self.namespace))
            .await
            .success();
        for node in self.nodes {
            self.site.kubectl(&format!("label node {node} {ZONE}-")).await.success();
        }
    }
}

fn adaptive() -> Value {
    json!({"type": "Adaptive", "adaptive": {"rescheduleCriticalSeconds": 3}})
}

fn subset(pod: &Value) -> String {
    let mark = pod["metadata"]["annotations"][MARK].as_str().unwrap_or("null");
    let mark: Value = serde_json::from_str(mark).unwrap();
    mark["subset"].as_str().unwrap_or_default().to_owned()
}

fn is_ready(pod: &Value) -> bool {
    objects::is_ready(pod) && pod["metadata"]["deletionTimestamp"].is_null()
}

#[tokio::test]
async fn pods_of_a_drained_node_come_up_in_the_next_subset_of_their_spread() {
    let Some(site) = Site::alone().await else { return };
    let divided = Divided::open(&site).await;
    divided.placed([2, 1]).await;
    divided.schedulable(&json!("True")).await;

    // The replacements have their places in `a`, where no node takes them.
    let node = &divided.nodes[0];
    site.cordon(node).await;
    let drain = format!("drain {node} --pod-selector=app=web --ignore-daemonsets --timeout=4m");
    site.kubectl(&drain).await.success();
    divided.placed([0, 3]).await;
    divided.schedulable(&json!("False")).await;

    // A subset that was left out stays so for five minutes, unless somebody who knows better begins anew.
    site.uncordon(node).await;
    divided
        .patch("workloadspread", &json!({"spec": {"scheduleStrategy": {"type": "Fixed", "adaptive": null}}}))
        .await;
    divided.schedulable(&Value::Null).await;
    divided.patch("workloadspread", &json!({"spec": {"scheduleStrategy": adaptive()}})).await;
    divided.schedulable(&json!("True")).await;
    divided.create_known("last").await;
    divided.patch("cloneset", &json!({"spec": {"replicas": 5}})).await;
    divided.placed([2, 3]).await;
    divided.close().await;
}
