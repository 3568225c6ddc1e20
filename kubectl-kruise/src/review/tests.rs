use api::annotations::IN_PROGRESSING;
use serde_json::{Value, json};

use super::answers::Answer;
use super::*;

const ROLLOUT: &str = "\
apiVersion: rollouts.kruise.io/v1beta1
kind: Rollout
metadata: {name: web, namespace: shop}
spec:
  workloadRef: {apiVersion: apps/v1, kind: Deployment, name: web}
  strategy: {canary: {steps: [{replicas: 20%}, {replicas: 100%}]}}
";

const REPLICA_SET: &str = "\
apiVersion: apps/v1
kind: ReplicaSet
metadata:
  name: web-5d4f
  namespace: shop
  labels: {app: web, pod-template-hash: 5d4f}
  ownerReferences: [{apiVersion: apps/v1, kind: Deployment, name: web, uid: d, controller: true}]
spec: {replicas: 2, selector: {matchLabels: {app: web}}}
";

fn deployment(image: &str) -> String {
    format!(
        "apiVersion: apps/v1\nkind: Deployment\nmetadata: {{name: web, namespace: shop, uid: d}}\n\
         spec: {{replicas: 2, selector: {{matchLabels: {{app: web}}}}, template: {{metadata: {{labels: {{app: web}}}}, \
         spec: {{containers: [{{name: main, image: '{image}'}}]}}}}}}\n"
    )
}

fn objects(manifests: &[&str]) -> Objects {
    let mut objects = Objects::default();
    objects.parse("test", &manifests.join("---\n")).unwrap();
    objects
}

async fn updated(manifests: &[&str], present: &[&str], gates: &str) -> Vec<Answer> {
    let arguments = ReviewArguments {
        filename: Vec::new(),
        objects: Vec::new(),
        operation: ReviewedOperation::Update,
        output: Format::Yaml,
        namespace: "shop".to_owned(),
        feature_gates: gates.to_owned(),
        exit_hook_image: String::new(),
    };
    let (reviewed, present) = (objects(manifests), objects(present));
    let admission = admission(&arguments, &reviewed, &present).unwrap();
    answers::collect(&admission, (&reviewed, &present), arguments.operation, "shop").await.unwrap()
}

fn held(answer: &Answer) -> Option<String> {
    let after: Value = serde_json::from_str(&answer.after).unwrap();
    assert_eq!(after["spec"]["paused"] == true, after["metadata"]["annotations"][IN_PROGRESSING].is_string());
    Some(after["metadata"]["annotations"][IN_PROGRESSING].as_str()?.to_owned())
}

#[tokio::test]
async fn an_update_shows_that_a_rollout_holds_the_deployment_back() {
    let (old, new) = (deployment("nginx:1"), deployment("nginx:2"));
    let now = [old.as_str(), REPLICA_SET, ROLLOUT];
    let [answer] = &updated(&[&new], &now, "").await[..] else { panic!("not one answer") };
    assert_eq!(held(answer), Some(json!({"rolloutName": "web"}).to_string()));
    for (manifest, gates) in [(&old, ""), (&new, "Rollouts=false")] {
        assert_eq!(held(&updated(&[manifest], &now, gates).await[0]), None, "{gates}");
    }
    // Without what the workload is now nothing is known to change.
    assert_eq!(held(&updated(&[&new], &[REPLICA_SET, ROLLOUT], "").await[0]), None);
}

#[tokio::test]
async fn a_rollout_that_can_not_work_is_refused_beside_the_others() {
    let second = ROLLOUT.replace("name: web, namespace", "name: again, namespace");
    let answers = updated(&[&second], &[ROLLOUT], "").await;
    assert!(answers[0].denial.is_none(), "nothing changes");
    let other = second.replace("20%", "30%");
    let answers = updated(
        &[&other],
        &[ROLLOUT, &second.replace("kind: Deployment, name: web", "kind: Deployment, name: other")],
        "",
    )
    .await;
    let (webhook, denial) = answers[0].denial.as_ref().unwrap();
    assert_eq!(*webhook, "vrollout.kb.io");
    assert!(denial.message.contains("This rollout conflict with Rollout(shop/web)"), "{}", denial.message);
}
