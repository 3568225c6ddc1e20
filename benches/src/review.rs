//! The reviews, as the API server sends them.

use bytes::Bytes;
use serde_json::{Value, json};

/// Stands where reviews differ from one another, such as in their uid: replaced by eight digits.
const VARY: &[u8] = b"VARY0000";

/// The name of [`running_pod`].
const POD: &str = "checkout-7d4b9c6f5d-x8w2k";

/// CREATE of a Pod of a Deployment: two containers, managedFields, 6 kB. Its owner is never the same.
pub fn pod() -> Vec<u8> {
    compact(include_str!("../data/pod-review.json"))
}

/// DELETE of a Namespace with the label `policy.kruise.io/delete-protection: Always`.
pub fn namespace_delete() -> Vec<u8> {
    compact(include_str!("../data/namespace-review.json"))
}

/// DELETE of [`running_pod`].
pub fn pod_delete() -> Vec<u8> {
    let mut review = pod_review("DELETE", "DeleteOptions");
    review["request"]["oldObject"] = running_pod();
    review.to_string().into_bytes()
}

/// The eviction of [`running_pod`], which it does not carry.
pub fn pod_eviction() -> Vec<u8> {
    let mut review = pod_review("CREATE", "CreateOptions");
    let request = &mut review["request"];
    let kind = json!({"group": "policy", "version": "v1", "kind": "Eviction"});
    request["kind"] = kind.clone();
    request["requestKind"] = kind;
    request["subResource"] = json!("eviction");
    request["requestSubResource"] = json!("eviction");
    let metadata = json!({"name": POD, "namespace": request["namespace"], "creationTimestamp": null});
    request["object"] = json!({"kind": "Eviction", "apiVersion": "policy/v1", "metadata": metadata});
    review.to_string().into_bytes()
}

/// The [`pod()`] review with another operation, about a Pod that is there and without objects.
fn pod_review(operation: &str, options: &str) -> Value {
    let mut review: Value = serde_json::from_slice(&pod()).expect("the review is JSON");
    let request = &mut review["request"];
    request["operation"] = json!(operation);
    request["name"] = json!(POD);
    request["object"] = Value::Null;
    request["options"] = json!({"kind": options, "apiVersion": "meta.k8s.io/v1"});
    review
}

/// The Pod of the [`pod()`] review, once it serves.
pub fn running_pod() -> Value {
    let mut pod = pod_object();
    pod["metadata"]["name"] = json!(POD);
    pod["metadata"]["uid"] = json!("0e6a9d3c-58f4-4b0e-8a51-6f4f0b0c7d21");
    pod["metadata"]["resourceVersion"] = json!("48213502");
    pod["metadata"]["creationTimestamp"] = json!("2025-06-03T10:15:02Z");
    pod["spec"]["nodeName"] = json!("node-017");
    pod["status"] = kit::fake_nodes::reported(&pod)["status"].take();
    pod
}

/// The Pod of the [`pod()`] review.
pub fn pod_object() -> Value {
    let mut review: Value = serde_json::from_slice(&pod()).expect("the review is JSON");
    review["request"]["object"].take()
}

/// Without white space, fields in their order.
fn compact(json: &str) -> Vec<u8> {
    let value: Value = serde_json::from_str(json).expect("the review is JSON");
    value.to_string().into_bytes()
}

/// Makes many reviews of one, each with numbers of its own.
pub struct Template {
    body: Vec<u8>,
    places: Vec<usize>,
}

impl Template {
    /// Reviews like this one.
    pub fn new(body: Vec<u8>) -> Self {
        let places = (0..body.len()).filter(|&place| body[place..].starts_with(VARY)).collect();
        Self { body, places }
    }

    /// The review with this number.
    pub fn fill(&self, number: u32) -> Bytes {
        let mut body = self.body.clone();
        let digits = format!("{number:0>8x}");
        for &place in &self.places {
            body[place..place + VARY.len()].copy_from_slice(digits.as_bytes());
        }
        body.into()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_pod_review_has_the_size_of_real_ones() {
        assert!((5_900..6_300).contains(&pod().len()), "{}", pod().len());
    }

    #[test]
    fn numbers_make_reviews_differ() {
        let template = Template::new(pod());
        let (first, second) = (template.fill(1), template.fill(255));
        assert_eq!(first.len(), second.len());
        let text = String::from_utf8(second.to_vec()).unwrap();
        assert!(text.contains("5f0c2a1e-93d7-4a57-8e0b-0000000000ff"));
        assert_eq!(text.matches("000000ff").count(), 3);
        assert_ne!(first, second);
    }
}
