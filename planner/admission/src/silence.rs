//! Does the API server reach us at all? A firewall, a network policy or a wrong port swallows its calls, and with
//! failure policy `Ignore` nobody notices that sidecars are missing. A Pod that is created as a dry run shows
//! (docs/behaviour/server.md#silence-of-the-api-server).

use serde_json::{Value, json};

use crate::registration::Configuration;
use crate::world::World;
use pod::review::Draft;
use values::moment::Moment;

/// On a Pod that is created as a dry run: a text that its review repeats in [`ANSWER`].
const QUESTION: &str = "kutter.io/webhook-question";
const ANSWER: &str = "kutter.io/webhook-answer";
/// The most namespaces in which one Pod is tried.
const NAMESPACES: usize = 5;

/// A Pod to create as a dry run, which comes to us where the API server reaches us.
#[derive(Debug)]
pub struct Probe {
    /// The namespaces to try one after another, until it is let into one.
    pub namespaces: Vec<String>,
    /// The Pod, as JSON.
    pub pod: String,
    question: String,
}

impl Probe {
    /// `None` where no Pod has to come to us, or none that is known to.
    pub fn new(configuration: &Configuration, world: &World, moment: Moment) -> Option<Self> {
        let (selector, labels) = configuration.reviewed_pods()?;
        let namespaces = world.inventory().namespaces().iter();
        let reviewed = namespaces.filter(|(_, known)| selector.matches(known.labels()));
        let mut namespaces: Vec<String> = reviewed.map(|(name, _)| name.to_owned()).collect();
        namespaces.sort_by_key(|name| (name != "default", name.clone()));
        namespaces.truncate(NAMESPACES);
        let question = moment.random().uuid();
        // Namespaces in which Pods are restricted take it too.
        let pod = json!({
            "apiVersion": "v1", "kind": "Pod",
            "metadata": {"generateName": "webhook-probe-", "labels": labels, "annotations": {QUESTION: question}},
            "spec": {
                "automountServiceAccountToken": false,
                "securityContext": {"runAsNonRoot": true, "seccompProfile": {"type": "RuntimeDefault"}},
                "containers": [{
                    "name": "probe", "image": "probe",
                    "securityContext": {"allowPrivilegeEscalation": false, "capabilities": {"drop": ["ALL"]}},
                }],
            },
        });
        Some(Self { namespaces, pod: pod.to_string(), question })
    }

    /// Whether the Pod was reviewed, by what the API server made of it.
    pub fn was_reviewed(&self, pod: &str) -> bool {
        let pod: Value = serde_json::from_str(pod).unwrap_or_default();
        let answer = pod.pointer("/metadata/annotations").and_then(|annotations| annotations.get(ANSWER));
        answer.is_some_and(|answer| *answer == *self.question)
    }
}

/// Answers the question of a Pod whose creation is a dry run. It is stored nowhere.
pub(crate) fn answer(draft: &mut Draft<'_>) {
    if let Some(question) = draft.annotation(QUESTION).map(str::to_owned) {
        draft.set_annotation(ANSWER, question);
    }
}

/// How many probes in a row were not reviewed.
#[derive(Clone, Copy, Debug, Default)]
pub struct Missed(u8);

impl Missed {
    /// What is known after another probe.
    #[must_use]
    pub fn after(self, was_reviewed: bool) -> Self {
        Self(if was_reviewed { 0 } else { self.0.saturating_add(1) })
    }

    /// Whether the API server does not reach us. One call may be lost while a replica comes or leaves.
    pub fn is_silence(self) -> bool {
        self.0 > 1
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::pod_review::Resolved;
    use crate::pod_review::fixture::{Cluster, create};
    use pod::review::PodReview;
    use values::json_patch;
    use values::verdict::Verdict;

    /// A probe of a cluster with these namespaces, where `mpod.kb.io` is for those without label `off`.
    fn probe(namespaces: &[&str], seed: u64) -> Option<Probe> {
        let entry = json!({
            "name": "mpod.kb.io", "admissionReviewVersions": ["v1"], "clientConfig": {}, "sideEffects": "None",
            "namespaceSelector": {"matchExpressions": [{"key": "off", "operator": "DoesNotExist"}]},
            "objectSelector": {"matchLabels": {"app": "web"}},
        });
        let configuration = json!({"metadata": {}, "webhooks": [entry]}).to_string();
        let mut cluster = Cluster::new().namespace("off", &json!({"off": ""}));
        for namespace in namespaces {
            cluster = cluster.namespace(namespace, &json!({}));
        }
        cluster.seed = seed;
        Probe::new(&Configuration::parse(&configuration).unwrap(), &cluster.world, cluster.moment())
    }

    /// The Pod after its review.
    fn reviewed(pod: &str, dry_run: bool) -> String {
        let verdict = Cluster::new().answer(PodReview { dry_run, ..create(pod) }, &Resolved::default());
        let Verdict::Allow { edits, .. } = verdict else { panic!("{verdict:?}") };
        json_patch::apply(pod, &edits).unwrap()
    }

    #[test]
    fn a_probe_is_answered_by_its_own_review() {
        let (probe, other) = (probe(&[], 1).unwrap(), probe(&[], 2).unwrap());
        assert!(probe.was_reviewed(&reviewed(&probe.pod, true)));
        for pod in [&probe.pod, &reviewed(&probe.pod, false), &reviewed(&other.pod, true), "", "{}"] {
            assert!(!probe.was_reviewed(pod), "{pod}");
        }
        let pod: Value = serde_json::from_str(&probe.pod).unwrap();
        assert_eq!(pod["metadata"]["labels"], json!({"app": "web"}), "it has to come to us");
    }

    #[test]
    fn a_probe_is_for_namespaces_whose_pods_are_reviewed() {
        assert_eq!(probe(&[], 1).unwrap().namespaces, ["other", "shop"]);
        let many = probe(&["a", "b", "c", "d", "default"], 1).unwrap();
        assert_eq!(many.namespaces, ["default", "a", "b", "c", "d"]);
        let nothing = Configuration::parse(r#"{"metadata":{}}"#).unwrap();
        assert!(Probe::new(&nothing, &Cluster::new().world, Cluster::new().moment()).is_none());
    }

    #[test]
    fn two_missed_probes_are_silence_until_one_is_reviewed() {
        let once = Missed::default().after(false);
        assert!(!once.is_silence() && !once.after(true).after(false).is_silence());
        let twice = once.after(false);
        assert!(twice.is_silence() && twice.after(false).is_silence() && !twice.after(true).is_silence());
    }
}
