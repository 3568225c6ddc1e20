//! What happens to a workload and its Pods: each change is independent of the others, so that a history can be played
//! without some of them.

use std::fmt;

use api::conversion;
use kinds::uniteddeployment::children::ChildKind;
use kit::builders::slot;
use kit::fake_nodes;
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
    /// How many Pods the first subset of the WorkloadSpread takes.
    Spread(usize),
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
    /// A WorkloadSpread, whose first subset takes [`SPREAD`] Pods at first.
    pub spread: bool,
}

/// The name of the injected container.
pub const SIDECAR: &str = "mesh";
/// What the names of claim templates begin with that were not there from the start.
pub const LATE: &str = "more-";
/// How many Pods the first subset of the WorkloadSpread takes at first; they have this label with value `first`.
pub const SPREAD: usize = 2;
pub const SUBSET: &str = "example.com/subset";

/// The ends of fields that hold Pods back, let them go, or say what comes with new ones.
const PACE: [&str; 6] =
    ["/partition", "/partitions", "/paused", "Strategy/type", "/volumeClaimTemplates", "/storage"];

/// What people do to a Pod.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Deed {
    Delete,
    Evict,
    MarkForDeletion,
    /// In `podsToDelete`.
    Name,
    /// It is not ready until the end of the step.
    MakeUnready,
}

/// What workload a history has.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Of {
    Kind(&'static str),
    /// A UnitedDeployment of these.
    Subsets(ChildKind),
}

impl Of {
    pub fn kind(self) -> &'static str {
        match self {
            Self::Kind(kind) => kind,
            Self::Subsets(_) => "UnitedDeployment",
        }
    }
}

impl fmt::Display for Of {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Kind(kind) => formatter.write_str(kind),
            Self::Subsets(child) => write!(formatter, "UnitedDeployment of {}", child.display_name()),
        }
    }
}

/// A history of one workload.
#[derive(Clone, Debug)]
pub struct History {
    pub seed: u64,
    pub of: Of,
    /// People write it as `v1alpha1`.
    pub is_alpha: bool,
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
            if fields.iter().any(|(field, _)| matches!(field.as_str(), "/replicas" | "/reserveOrdinals" | "/topology/subsets")))
    }

    /// It holds Pods back, lets them go, changes how many there are, or what comes with new ones.
    pub fn paces(&self) -> bool {
        let paces = |field: &str| PACE.iter().any(|end| field.ends_with(end));
        self.scales() || matches!(self, Self::Spec(fields) if fields.iter().any(|(field, _)| paces(field)))
    }

    /// It may take back what the other does.
    pub fn takes_back(&self, other: &Self) -> bool {
        let (Self::Spec(own), Self::Spec(others)) = (self, other) else { return false };
        let holds =
            |whole: &str, part: &str| part.strip_prefix(whole).is_some_and(|rest| rest.starts_with('/'));
        let meet =
            |own: &str, other: &str| own == other && self.paces() || holds(own, other) || holds(other, own);
        self.scales() && other.scales()
            || own.iter().any(|(own, _)| others.iter().any(|(other, _)| meet(own, other)))
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

/// The subsets of the WorkloadSpread, the first of which takes at most so many Pods.
pub fn subsets(most: usize) -> Value {
    json!([
        {"name": "first", "maxReplicas": most, "patch": {"metadata": {"labels": {SUBSET: "first"}}}},
        {"name": "rest", "patch": {"metadata": {"labels": {SUBSET: "rest"}}}},
    ])
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
            "targetRef": {"apiVersion": "apps.kruise.io/v1beta1", "kind": self.of.kind(), "name": "web"},
            "subsets": subsets(SPREAD),
        });
        let budget = json!({"selector": selector, "maxUnavailable": 1});
        let Beside { sidecar: has_sidecar, budget: has_budget, spread: has_spread } = self.beside;
        let all = [
            (has_sidecar, object("SidecarSet", namespace, &sidecar)),
            (has_spread, object("WorkloadSpread", "web", &spread)),
            (has_budget, object("PodUnavailableBudget", "web", &budget)),
            (true, self.written(&object(self.of.kind(), "web", &self.spec))),
        ];
        all.into_iter().filter_map(|(is_there, object)| is_there.then_some(object)).collect()
    }

    /// The object of version `v1beta1` as people write it.
    pub fn written(&self, object: &Value) -> Value {
        if !self.is_alpha {
            return object.clone();
        }
        let alpha = conversion::convert(&object.to_string(), "apps.kruise.io/v1alpha1").unwrap();
        serde_json::from_str(alpha.get()).unwrap()
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

/// Prints the name of a Pod by its number.
const POD: &str = r#"pod() { kubectl get pods -n history -l app=web -o jsonpath='{range .items[*]}{.metadata.name}{"\n"}{end}' |
  awk -v n="$1" '{ name[NR - 1] = $1 } END { print name[n % NR] }'; }"#;

/// The manifests and the commands that play it.
impl fmt::Display for History {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        writeln!(formatter, "{POD}\nkubectl create namespace history")?;
        for manifest in self.manifests("history") {
            writeln!(formatter, "kubectl create -f - <<'EOF'\n{manifest:#}\nEOF")?;
        }
        let mut present = self.clone();
        for step in &self.steps {
            for change in step {
                writeln!(formatter, "{}", change.command(&mut present))?;
            }
            writeln!(formatter, "# until it has settled")?;
        }
        Ok(())
    }
}

impl Change {
    /// The command that makes it, where the workload's `spec` is that of `present`, which gets it too.
    fn command(&self, present: &mut History) -> String {
        let patched = |object: &str, patch: Value| {
            format!("kubectl patch {object} -n history --type=json -p '{patch}'")
        };
        let replaced = |object: &str, field: &str, value: Value| {
            patched(object, json!([{"op": "replace", "path": field, "value": value}]))
        };
        match self {
            Self::Spec(fields) => {
                let patch = patch(&mut present.spec, fields);
                if present.is_alpha {
                    let object = present.manifests("history").pop().unwrap();
                    return format!("kubectl replace -f - <<'EOF'\n{object:#}\nEOF");
                }
                let kind = present.of.kind().to_lowercase();
                patched(&format!("{kind}s.v1beta1.apps.kruise.io web"), patch)
            }
            Self::Pod(deed, number) => deed.command(*number),
            Self::Sidecar(tag) => {
                replaced("sidecarsets history", "/spec/containers/0/image", format!("mesh:v{tag}").into())
            }
            Self::Spread(most) => {
                replaced("workloadspreads web", "/spec/subsets/0/maxReplicas", (*most).into())
            }
            Self::Restart => "# kill -9 the program, and start it again".to_owned(),
        }
    }
}

impl Deed {
    /// The command that does it to the Pod of this number.
    fn command(self, number: usize) -> String {
        let pod = format!("$(pod {number})");
        match self {
            Self::Delete => format!("kubectl delete pod -n history --wait=false {pod}"),
            Self::Evict => format!(
                "name={pod}; kubectl create --raw /api/v1/namespaces/history/pods/$name/eviction -f - \
                 <<<'{{\"apiVersion\": \"policy/v1\", \"kind\": \"Eviction\", \"metadata\": {{\"name\": \"'$name'\"}}}}'"
            ),
            Self::MarkForDeletion => {
                format!("kubectl label pod -n history {pod} apps.kruise.io/specified-delete=true")
            }
            Self::Name => format!(
                "kubectl patch clonesets.v1beta1.apps.kruise.io web -n history --type=merge \
                 -p '{{\"spec\": {{\"scaleStrategy\": {{\"podsToDelete\": [\"'{pod}'\"]}}}}}}'"
            ),
            Self::MakeUnready => format!(
                "kubectl annotate pod -n history {pod} {}=never # until the step ends",
                fake_nodes::READY_AFTER
            ),
        }
    }
}

/// The JSON Patch that gives these fields to an object of this `spec`, which gets them too.
fn patch(spec: &mut Value, fields: &[(String, Value)]) -> Value {
    let mut operations = Vec::new();
    for (field, value) in fields {
        // What holds the field may be missing: then it comes with it.
        let ends = field.match_indices('/').map(|(end, _)| end).chain([field.len()]).skip(1);
        let missing =
            ends.map(|end| &field[..end]).find(|path| spec.pointer(path).is_none_or(Value::is_null));
        let is_item = field.rsplit('/').next().is_some_and(|name| name.parse::<usize>().is_ok());
        *slot(spec, field) = value.clone();
        let path = missing.unwrap_or(field);
        let op = if is_item { "replace" } else { "add" };
        operations.push(json!({"op": op, "path": format!("/spec{path}"), "value": spec.pointer(path)}));
    }
    operations.into()
}

#[test]
fn a_history_is_printed_as_patches_that_do_the_same() {
    let of = [Of::Kind("CloneSet"), Of::Kind("DaemonSet"), Of::Subsets(ChildKind::AdvancedStatefulSet)];
    for (seed, of) in (0..60).zip(of.into_iter().cycle()) {
        let history = super::author::history(of, seed, 10);
        let (mut known, mut object) = (history.spec.clone(), json!({"spec": history.spec}));
        for change in history.steps.iter().flatten() {
            let mut changed = known.clone();
            change.apply(&mut changed);
            if let Change::Spec(fields) = change {
                let patch: json_patch::Patch = serde_json::from_value(patch(&mut known, fields)).unwrap();
                json_patch::patch(&mut object, &patch).unwrap();
            }
            assert_eq!((&known, &object["spec"]), (&changed, &changed), "seed {seed}: {change:?}");
        }
    }
}
