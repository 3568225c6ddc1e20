//! `kubectl drain` of a real node under a PodUnavailableBudget
//! (docs/behaviour/podunavailablebudget.md#refusals).

use kit::builders::{deployment, object};
use kit::{Output, objects, wait_for, wait_within};
use serde_json::json;

use crate::site::{NAMESPACE, Site, TIMEOUT};

/// Two Pods of a Deployment on one node, of which one may be away.
struct Drained<'s> {
    site: &'s Site,
    namespace: String,
    node: &'static str,
}

impl<'s> Drained<'s> {
    async fn open(site: &'s Site) -> Self {
        let namespace = site.server().namespace("drain").await;
        let [node, other] = site.cluster().nodes() else { panic!("two nodes are needed") };
        site.cordon(other).await;
        let web = deployment("web").in_namespace(&namespace).matching("app", "drained").replicas(2);
        // What replaces the deleted Pod is not ready yet when the other one is to be deleted.
        let probe = json!({"exec": {"command": ["true"]}, "initialDelaySeconds": 15, "periodSeconds": 1});
        let web = web
            .container("main", "nginx:1.25")
            .having("readinessProbe", probe)
            .with("/spec/template/spec/terminationGracePeriodSeconds", 1);
        objects::create(&site.server().client(), web).await.unwrap();
        let budget =
            object("policy.kruise.io/v1beta1", "PodUnavailableBudget", "web").in_namespace(&namespace);
        let target = json!({"apiVersion": "apps/v1", "kind": "Deployment", "name": "web"});
        let budget = budget.with("/spec", json!({"targetRef": target, "maxUnavailable": 1}));
        objects::create(&site.server().client(), budget).await.unwrap();
        let drained = Self { site, namespace, node };
        drained.whole().await;
        site.uncordon(other).await;
        drained
    }

    /// Waits until both Pods are counted.
    async fn whole(&self) {
        wait_within(TIMEOUT, "both Pods to be available", async || {
            let path = format!(
                "/apis/policy.kruise.io/v1beta1/namespaces/{}/podunavailablebudgets/web",
                self.namespace
            );
            let budget = self.site.get(&path).await;
            let status = &budget["status"];
            if status["unavailableAllowed"] == 1 && status["currentAvailable"] == 2 {
                Ok(())
            } else {
                Err(status.clone())
            }
        })
        .await;
    }

    /// Drains the node; the scheduler already places nothing there.
    async fn drain(&self) -> Output {
        self.site.cordon(self.node).await;
        let words =
            format!("drain {} --pod-selector=app=drained --ignore-daemonsets --timeout=4m", self.node);
        self.site.kubectl(&words).await
    }

    async fn on_node(&self) -> usize {
        let on_node = format!("pods?fieldSelector=spec.nodeName={}", self.node);
        let pods = self.site.core(&self.namespace, &on_node).await;
        let stays = |pod: &&serde_json::Value| pod["metadata"]["deletionTimestamp"].is_null();
        pods["items"].as_array().unwrap().iter().filter(stays).count()
    }

    async fn close(self) {
        self.site.uncordon(self.node).await;
        self.site
            .kubectl(&format!("delete deployment,podunavailablebudget web -n {}", self.namespace))
            .await
            .success();
    }
}

#[tokio::test]
async fn a_drain_gives_up_where_the_budget_refuses_and_waits_where_it_is_told_to() {
    let Some(site) = Site::alone().await else { return };
    let drained = Drained::open(&site).await;
    let refusal = drained.drain().await.failure();
    let expected = "admission webhook \"vpodeviction.kb.io\" denied the request: \
                    podunavailablebudget.policy.kruise.io \"web\" is forbidden: pub unavailable allowed is negative";
    assert!(refusal.contains(expected), "{refusal}");
    assert_eq!(drained.on_node().await, 1, "one Pod was allowed to go");
    drained.whole().await;
    drained.close().await;

    site.upgrade(&["--set=manager.extraArguments={--retry-refused-evictions}"]).await.success();
    // Replicas that end answer for a while, as they were configured.
    wait_for("replicas without the flag to be gone", async || {
        let replicas = site.core(NAMESPACE, "pods?labelSelector=control-plane=controller-manager").await;
        let arguments = |pod: &serde_json::Value| pod["spec"]["containers"][0]["args"].to_string();
        let mut arguments = replicas["items"].as_array().unwrap().iter().map(arguments);
        match arguments.find(|arguments| !arguments.contains("--retry-refused-evictions")) {
            Some(earlier) => Err(earlier),
            None => Ok(()),
        }
    })
    .await;
    let drained = Drained::open(&site).await;
    let output = drained.drain().await.success();
    assert!(output.contains("drained"), "{output}");
    assert_eq!(drained.on_node().await, 0);
    drained.whole().await;
    drained.close().await;
    site.upgrade(&[]).await.success();
}
