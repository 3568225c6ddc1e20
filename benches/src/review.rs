//! The reviews, as the API server sends them.

use bytes::Bytes;
use serde_json::Value;

/// Stands where reviews differ from one another, such as in their uid: replaced by eight digits.
const VARY: &[u8] = b"VARY0000";

/// CREATE of a Pod of a Deployment: two containers, managedFields, 6 kB. Its owner is never the same.
pub(crate) fn pod() -> Vec<u8> {
    compact(include_str!("../data/pod-review.json"))
}

/// DELETE of a Namespace with the label `policy.kruise.io/delete-protection: Always`.
pub(crate) fn namespace_delete() -> Vec<u8> {
    compact(include_str!("../data/namespace-review.json"))
}

/// The Pod of the [`pod()`] review.
pub(crate) fn pod_object() -> Value {
    let mut review: Value = serde_json::from_slice(&pod()).expect("the review is JSON");
    review["request"]["object"].take()
}

/// Without white space, fields in their order.
fn compact(json: &str) -> Vec<u8> {
    let value: Value = serde_json::from_str(json).expect("the review is JSON");
    value.to_string().into_bytes()
}

/// Makes many reviews of one, each with numbers of its own.
pub(crate) struct Template {
    body: Vec<u8>,
    places: Vec<usize>,
}

impl Template {
    pub(crate) fn new(body: Vec<u8>) -> Self {
        let places = (0..body.len()).filter(|&place| body[place..].starts_with(VARY)).collect();
        Self { body, places }
    }

    /// The review with this number.
    pub(crate) fn fill(&self, number: u32) -> Bytes {
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
