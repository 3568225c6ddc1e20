//! A small cluster for tests, and reviews in it.

use api::features::FeatureGates;
use jiff::Timestamp;
use serde_json::{Value, json};

use super::explanation::Explanation;
use super::{Resolved, Review};
use crate::world::{Watched, World};
use pod::review::{Operation, Pod, PodReview};
use values::moment::Moment;
use values::verdict::Verdict;

/// The time of all reviews, that of the worked examples.
pub(crate) const NOW: &str = "2026-07-02T09:00:00Z";

/// A world with its gates.
#[derive(Clone, Debug)]
pub(crate) struct Cluster {
    pub(crate) world: World,
    pub(crate) gates: FeatureGates,
    pub(crate) seed: u64,
}

impl Cluster {
    /// Namespaces `shop` and `other`, nothing else.
    pub(crate) fn new() -> Self {
        let cluster =
            Self { world: World::new(api::DEFAULT_NAMESPACE), gates: FeatureGates::default(), seed: 1 };
        cluster.namespace("shop", &json!({})).namespace("other", &json!({}))
    }

    pub(crate) fn namespace(self, name: &str, labels: &Value) -> Self {
        let mut labels = labels.clone();
        labels["kubernetes.io/metadata.name"] = json!(name);
        self.apply(Watched::Namespace, &json!({"metadata": {"name": name, "labels": labels}}))
    }

    /// A SidecarSet that selects `app: web` in all namespaces, unless `spec` says otherwise.
    pub(crate) fn set(self, name: &str, spec: Value) -> Self {
        self.set_with(name, spec, json!({}))
    }

    pub(crate) fn set_with(self, name: &str, spec: Value, annotations: Value) -> Self {
        let mut whole = json!({"selector": {"matchLabels": {"app": "web"}}});
        merge(&mut whole, spec);
        let mut known =
            json!({"kruise.io/sidecarset-hash": "h", "kruise.io/sidecarset-hash-without-image": "hw"});
        merge(&mut known, annotations);
        let status = json!({"latestRevision": format!("{name}-1")});
        let object =
            json!({"metadata": {"name": name, "annotations": known}, "spec": whole, "status": status});
        self.apply(Watched::SidecarSet, &object)
    }

    pub(crate) fn apply(mut self, kind: Watched, object: &Value) -> Self {
        self.world.apply(kind, &object.to_string()).unwrap();
        self
    }

    pub(crate) fn gates(mut self, flags: &str) -> Self {
        self.gates = FeatureGates::parse(flags, "").unwrap();
        self
    }

    pub(crate) fn moment(&self) -> Moment {
        Moment { now: NOW.parse::<Timestamp>().unwrap(), seed: self.seed }
    }

    /// The review of a Pod that comes to the later steps.
    pub(crate) fn begin<'a>(&'a self, pod: &'a str) -> Review<'a> {
        Review::begin(create(pod), &self.gates, self.moment()).unwrap()
    }

    pub(crate) fn answer(&self, request: PodReview<'_>, resolved: &Resolved) -> Verdict {
        match Review::begin(request, &self.gates, self.moment()) {
            Ok(review) => review.decide(&self.world, resolved),
            Err(verdict) => verdict,
        }
    }

    pub(crate) fn decide(&self, pod: &Value) -> Verdict {
        self.decide_text(&pod.to_string(), &Resolved::default())
    }

    pub(crate) fn decide_text(&self, pod: &str, resolved: &Resolved) -> Verdict {
        match Pod::read(pod) {
            Ok(_) => self.answer(create(pod), resolved),
            Err(denial) => denial.into(),
        }
    }

    /// What each object is to the Pod, while that is decided as always.
    pub(crate) fn explain(&self, pod: &Value, resolved: &Resolved) -> Vec<Explanation> {
        let pod = pod.to_string();
        let (verdict, reported) = self.begin(&pod).explain(&self.world, resolved);
        assert_eq!(verdict, self.decide_text(&pod, resolved));
        reported
    }

    /// The Pod after the review, by an independent patch library, and the warnings.
    pub(crate) fn review(&self, pod: &Value) -> (Value, Vec<String>) {
        self.review_with(pod, &Resolved::default())
    }

    pub(crate) fn review_with(&self, pod: &Value, resolved: &Resolved) -> (Value, Vec<String>) {
        match self.decide_text(&pod.to_string(), resolved) {
            Verdict::Allow { edits, warnings } => {
                let mut pod = pod.clone();
                let patch: json_patch::Patch = serde_json::from_str(&edits.to_json()).unwrap();
                json_patch::patch(&mut pod, &patch).unwrap();
                (pod, warnings)
            }
            verdict => panic!("not allowed: {verdict:?}"),
        }
    }

    pub(crate) fn admit(&self, pod: &Value) -> Value {
        self.review(pod).0
    }

    /// Code and message of the refusal.
    pub(crate) fn refuse(&self, pod: &Value) -> (u16, String) {
        match self.decide(pod) {
            Verdict::Deny(denial) => (denial.code, denial.message),
            verdict => panic!("not denied: {verdict:?}"),
        }
    }
}

/// A request to create a Pod in namespace `shop`.
pub(crate) fn create(object: &str) -> PodReview<'_> {
    PodReview {
        operation: Operation::Create,
        dry_run: false,
        subresource: "",
        resource: "pods",
        namespace: "shop",
        object: Pod::read(object).unwrap(),
    }
}

/// A Pod `web-7` with label `app: web` and these containers.
pub(crate) fn pod(containers: Value) -> Value {
    let mut pod = json!({"metadata": {"name": "web-7", "labels": {"app": "web"}}, "spec": {}});
    pod["spec"]["containers"] = containers;
    pod
}

/// Names of a list of named things.
pub(crate) fn names(list: &Value) -> Vec<&str> {
    list.as_array().into_iter().flatten().map(|element| element["name"].as_str().unwrap()).collect()
}

fn merge(target: &mut Value, patch: Value) {
    let Value::Object(members) = patch else { panic!("not an object: {patch}") };
    for (key, value) in members {
        target[key] = value;
    }
}
