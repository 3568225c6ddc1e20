//! What happens to a workload and its Pods: each change stands for itself, so that a history can be played without
//! some of them.

use std::fmt;

use kit::builders::slot;
use serde_json::{Value, json};

/// A change.
#[derive(Clone, Debug, PartialEq)]
pub enum Change {
    /// Fields of the workload's `spec`, by JSON pointers; null takes one away.
    Spec(Vec<(String, Value)>),
    /// Something is done to the Pod of this number; see [`super::state::choose`].
    Pod(Deed, usize),
    /// The image of the sidecar, by its tag.
    Sidecar(u64),
    /// The program is killed and starts again.
    Restart,
}

/// What else there is for the Pods.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Beside {
    /// A SidecarSet, whose container is [`SIDECAR`].
    pub sidecar: bool,
    /// A PodUnavailableBudget that lets one Pod be away.
    pub budget: bool,
    /// A WorkloadSpread, whose first subset takes [`SPREAD`] Pods.
    pub spread: bool,
}

/// The name of the injected container.
pub const SIDECAR: &str = "mesh";
/// How many Pods the first subset of the WorkloadSpread takes, which has this label with value `first`.
pub const SPREAD: usize = 2;
pub const SUBSET: &str = "example.com/subset";

/// What people do to a Pod.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Deed {
    Delete,
    Evict,
    MarkForDeletion,
    /// It is not ready until the end of the step.
    MakeUnready,
}

/// A history of one workload.
#[derive(Clone, Debug)]
pub struct History {
    pub seed: u64,
    pub kind: &'static str,
    /// The `spec` that it is created with.
    pub spec: Value,
    pub beside: Beside,
    /// What happens before it has to settle, one step after the other.
    pub steps: Vec<Vec<Change>>,
}

impl Change {
    /// One field of the `spec`.
    pub fn set(pointer: &str, value: impl Into<Value>) -> Self {
        Self::Spec(vec![(pointer.to_owned(), value.into())])
    }

    /// It changes how many Pods there are, or which.
    pub fn scales(&self) -> bool {
        matches!(self, Self::Spec(fields)
            if fields.iter().any(|(field, _)| field == "/replicas" || field == "/reserveOrdinals"))
    }

    /// Changes a `spec`; what is no change of it is left out.
    pub fn apply(&self, spec: &mut Value) {
        if let Self::Spec(fields) = self {
            for (pointer, value) in fields {
                *slot(spec, pointer) = value.clone();
            }
        }
    }
}

impl fmt::Display for Deed {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter.write_str(match self {
            Self::Delete => "kubectl delete pod",
            Self::Evict => "kubectl create --raw .../eviction, of pod",
            Self::MarkForDeletion => "kubectl label pod apps.kruise.io/specified-delete=true",
            Self::MakeUnready => {
                "kubectl annotate pod fake-node/ready-after=never, until the step ends, of pod"
            }
        })
    }
}

impl History {
    /// The objects that it begins with, the workload last.
    pub fn manifests(&self, namespace: &str) -> Vec<Value> {
        let object = |kind: &str, name: &str, spec: &Value| {
            let group = if kind == "PodUnavailableBudget" { "policy" } else { "apps" };
            let metadata = match kind {
                "SidecarSet" => json!({"name": name}),
                _ => json!({"name": name, "namespace": namespace}),
            };
            json!({"apiVersion": format!("{group}.kruise.io/v1beta1"), "kind": kind, "metadata": metadata, "spec": spec})
        };
        let selector = json!({"matchLabels": {"app": "web"}});
        let sidecar = json!({
            "selector": selector, "namespaceSelector": {"matchLabels": {"kubernetes.io/metadata.name": namespace}},
            "containers": [{"name": SIDECAR, "image": "mesh:v1"}],
            "updateStrategy": {"type": "RollingUpdate", "maxUnavailable": "50%"},
        });
        let spread = json!({
            "targetRef": {"apiVersion": "apps.kruise.io/v1beta1", "kind": self.kind, "name": "web"},
            "subsets": [
                {"name": "first", "maxReplicas": SPREAD, "patch": {"metadata": {"labels": {SUBSET: "first"}}}},
                {"name": "rest", "patch": {"metadata": {"labels": {SUBSET: "rest"}}}},
            ],
        });
        let budget = json!({"selector": selector, "maxUnavailable": 1});
        let Beside { sidecar: has_sidecar, budget: has_budget, spread: has_spread } = self.beside;
        let all = [
            (has_sidecar, object("SidecarSet", namespace, &sidecar)),
            (has_spread, object("WorkloadSpread", "web", &spread)),
            (has_budget, object("PodUnavailableBudget", "web", &budget)),
            (true, object(self.kind, "web", &self.spec)),
        ];
        all.into_iter().filter_map(|(is_there, object)| is_there.then_some(object)).collect()
    }

    /// The first so many steps.
    pub fn until(&self, steps: usize) -> Self {
        Self { steps: self.steps.iter().take(steps).cloned().collect(), ..self.clone() }
    }

    /// The places of all changes: step and change.
    pub fn places(&self) -> Vec<(usize, usize)> {
        let steps = self.steps.iter().enumerate();
        steps.flat_map(|(step, changes)| (0..changes.len()).map(move |change| (step, change))).collect()
    }

    /// Without the changes of these places; steps that have no more are left out.
    pub fn without(&self, places: &[(usize, usize)]) -> Self {
        let kept = |step: usize, changes: &[Change]| -> Vec<Change> {
            let stays = |change: &usize| !places.contains(&(step, *change));
            changes
                .iter()
                .enumerate()
                .filter(|(change, _)| stays(change))
                .map(|(_, change)| change.clone())
                .collect()
        };
        let steps = self.steps.iter().enumerate().map(|(step, changes)| kept(step, changes));
        Self { steps: steps.filter(|changes| !changes.is_empty()).collect(), ..self.clone() }
    }
}

/// The manifest and the commands that play it.
impl fmt::Display for History {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        let resource = self.kind.to_lowercase();
        for manifest in self.manifests("history") {
            writeln!(formatter, "kubectl create -f - <<EOF\n{manifest:#}\nEOF")?;
        }
        for step in &self.steps {
            for change in step {
                match change {
                    Change::Spec(fields) => {
                        let mut patch = json!({});
                        for (pointer, value) in fields {
                            // Merge patches have no index: lists are named by the pointer.
                            patch[format!("/spec{pointer}")] = value.clone();
                        }
                        writeln!(formatter, "kubectl edit {resource}.apps.kruise.io web: {patch}")?;
                    }
                    Change::Pod(deed, number) => writeln!(formatter, "{deed} number {number}")?,
                    Change::Sidecar(tag) => {
                        writeln!(formatter, "kubectl edit sidecarset history: image mesh:v{tag}")?;
                    }
                    Change::Restart => writeln!(formatter, "kill -9 the program, and start it again")?,
                }
            }
            writeln!(formatter, "# until it has settled")?;
        }
        Ok(())
    }
}
