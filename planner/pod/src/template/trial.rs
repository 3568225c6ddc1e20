//! What the API server is asked to judge by its own rules: a Pod template as a core/v1 PodTemplate, or a made-up one that
//! holds the containers of a SidecarSet (docs/behaviour/pod-template.md#what-the-cluster-judges).

use serde_json::{Value, json};

use super::comparison;
use super::complete::with_claims;
use values::field::{FieldError, FieldPath};

/// A PodTemplate to try.
#[derive(Clone, Debug)]
pub struct Trial {
    template: Value,
    /// The template that is stored: an update is not refused for what was wrong before.
    stored: Option<Value>,
    path: FieldPath,
    /// Paths of the PodTemplate, and those that the object has for them.
    paths: Vec<(&'static str, FieldPath)>,
}

/// What the API server finds in a template.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Judgement {
    /// Why the object is refused.
    pub errors: Vec<FieldError>,
    /// What its author should know.
    pub warnings: Vec<String>,
}

impl Trial {
    /// A Pod template, which the object has at `path`.
    pub fn of_template(template: Value, stored: Option<Value>, path: FieldPath) -> Self {
        Self { template, stored, paths: vec![("template", path.clone())], path }
    }

    /// The Pod template of a workload, which the object has at `path`, with its claims; `None` where there is none, and
    /// where the stored workload has the same.
    pub fn of_workload(workload: &Value, stored: Option<&Value>, path: &FieldPath) -> Option<Self> {
        let template =
            |workload: &Value| workload.pointer("/spec/template").filter(|it| !it.is_null()).cloned();
        let (pods, known) = (template(workload)?, stored.and_then(template));
        if known.as_ref().is_some_and(|known| comparison::is_same(known, &pods)) {
            return None;
        }
        let known = known.zip(stored).map(|(known, stored)| with_claims(&known, stored));
        let path = path.child("spec").child("template");
        Some(Self::of_template(with_claims(&pods, workload), known, path))
    }

    /// The containers, init containers and volumes of the spec of a SidecarSet; `None` where it is stored with them already.
    pub fn of_sidecars(spec: &Value, stored: Option<&Value>) -> Option<Self> {
        let template = sidecar_template(spec);
        if stored.is_some_and(|stored| comparison::is_same(&sidecar_template(stored), &template)) {
            return None;
        }
        let path = FieldPath::new("spec");
        // Rules about a Pod as a whole are none about its sidecars.
        let paths = [
            ("template.spec.containers", path.child("containers")),
            ("template.spec.initContainers", path.child("initContainers")),
            ("template.spec.volumes", path.child("volumes")),
        ];
        Some(Self { template, stored: None, path, paths: paths.into() })
    }

    /// The PodTemplate.
    pub fn object(&self) -> String {
        object(&self.template)
    }

    /// The PodTemplate of what is stored.
    pub fn stored_object(&self) -> Option<String> {
        self.stored.as_ref().map(object)
    }

    /// What the API server means by these fields of the PodTemplate and what is wrong with them.
    pub fn judge<'a>(&self, fields: impl IntoIterator<Item = (&'a str, &'a str)>) -> Judgement {
        let mut judgement = Judgement::default();
        for (field, words) in fields {
            let Some(path) = self.path_of(field) else { continue };
            let error = FieldError::judged(path, words);
            if is_tolerated(field, words) {
                judgement.warnings.push(error.to_string());
            } else {
                judgement.errors.push(error);
            }
        }
        judgement
    }

    /// What is known where the API server did not judge, for this reason.
    pub fn not_judged(&self, problem: &str) -> Judgement {
        let warning = format!("{} is not judged by the API server, its Pods will be: {problem}", self.path);
        Judgement { errors: Vec::new(), warnings: vec![warning] }
    }

    fn path_of(&self, field: &str) -> Option<FieldPath> {
        self.paths.iter().find_map(|(prefix, path)| {
            let rest =
                field.strip_prefix(prefix).filter(|rest| rest.is_empty() || rest.starts_with(['.', '[']));
            rest.map(|rest| FieldPath::new(format!("{path}{rest}")))
        })
    }
}

fn object(template: &Value) -> String {
    // A name is needed, though none is used.
    let metadata = json!({"generateName": "kutter-"});
    json!({"apiVersion": "v1", "kind": "PodTemplate", "metadata": metadata, "template": template}).to_string()
}

/// A Pod that has these sidecars, and a container of its own where they are init containers alone.
fn sidecar_template(spec: &Value) -> Value {
    let list = |name: &str| spec.get(name).and_then(Value::as_array).cloned().unwrap_or_default();
    let (mut containers, init_containers) = (list("containers"), list("initContainers"));
    if containers.is_empty() {
        let is_taken = |name: &str| init_containers.iter().any(|container| container["name"] == name);
        let mut name = "main".to_owned();
        while is_taken(&name) {
            name.push('x');
        }
        containers.push(json!({"name": name, "image": "main"}));
    }
    json!({"spec": {
        "containers": containers, "initContainers": init_containers, "volumes": list("volumes"),
        // No grace period bounds the hooks of sidecars: their Pods are not known.
        "terminationGracePeriodSeconds": i64::MAX,
    }})
}

/// What OpenKruise lets templates say, as Kubernetes does Pods that are stored.
fn is_tolerated(field: &str, words: &str) -> bool {
    let is_selector_value = || field.contains("elector.matchExpressions[") && field.contains(".values[");
    field.ends_with("[controller.kubernetes.io/pod-deletion-cost]")
        || words.contains("positive integer multiple of hugepages-")
        || is_selector_value()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn workload(image: &str) -> Value {
        json!({"spec": {"template": {"spec": {"containers": [{"name": "main", "image": image}]}}}})
    }

    fn job() -> Trial {
        Trial::of_workload(&workload("a"), None, &FieldPath::new("spec.template.jobTemplate")).unwrap()
    }

    fn said(judgement: &Judgement) -> Vec<String> {
        judgement.errors.iter().map(ToString::to_string).collect()
    }

    #[test]
    fn paths_are_those_of_the_object() {
        let trial = job();
        let judgement = trial.judge([
            ("template.spec.containers[0].image", "Required value"),
            ("template.labels", "Invalid value: \"-\": no"),
            ("template", "Forbidden: no"),
            ("templates.spec", "Forbidden: no"),
            ("metadata.name", "Required value"),
        ]);
        let expected = [
            "spec.template.jobTemplate.spec.template.spec.containers[0].image: Required value",
            "spec.template.jobTemplate.spec.template.labels: Invalid value: \"-\": no",
            "spec.template.jobTemplate.spec.template: Forbidden: no",
        ];
        assert_eq!((said(&judgement), judgement.warnings.len()), (expected.map(str::to_owned).to_vec(), 0));
        let expected =
            "spec.template.jobTemplate.spec.template is not judged by the API server, its Pods will be: slow";
        assert_eq!(trial.not_judged("slow").warnings, [expected]);
    }

    #[test]
    fn a_template_that_means_what_is_stored_is_not_tried() {
        let stored = workload("a");
        let tried = |new: &Value| Trial::of_workload(new, Some(&stored), &FieldPath::default());
        let mut same = stored.clone();
        same["spec"]["template"]["spec"]["volumes"] = json!([]);
        same["spec"]["volumeClaimTemplates"] = json!([{"metadata": {"name": "data"}}]);
        assert!(tried(&same).is_none() && tried(&json!({"spec": {"template": null}})).is_none());
        let changed = tried(&workload("b")).unwrap();
        assert!(changed.object().contains(r#""image":"b""#), "{}", changed.object());
        assert!(changed.stored_object().unwrap().contains(r#""image":"a""#));
    }

    #[test]
    fn claims_count_as_volumes() {
        let mut claiming = workload("a");
        claiming["spec"]["volumeClaimTemplates"] = json!([{"metadata": {"name": "data"}}]);
        let trial = Trial::of_workload(&claiming, None, &FieldPath::default()).unwrap();
        let object: Value = serde_json::from_str(&trial.object()).unwrap();
        let volume = json!({"name": "data", "persistentVolumeClaim": {"claimName": "data"}});
        assert_eq!(object["template"]["spec"]["volumes"], json!([volume]));
        assert_eq!((&object["kind"], &object["metadata"]["name"]), (&json!("PodTemplate"), &Value::Null));
    }

    #[test]
    fn what_openkruise_tolerates_is_a_warning() {
        let trial = job();
        let term = "template.spec.affinity.podAffinity.requiredDuringSchedulingIgnoredDuringExecution[0]";
        let value = format!("{term}.labelSelector.matchExpressions[0].values[0]");
        let judgement = trial.judge([
            ("template.annotations[controller.kubernetes.io/pod-deletion-cost]", "Invalid value: \"x\""),
            (
                "template.spec.containers[0].resources.limits[hugepages-2Mi]",
                "Invalid value: \"3Mi\": 3Mi is not positive integer multiple of hugepages-2Mi",
            ),
            (&value, "Invalid value: \"-\": no"),
            ("template.spec.nodeSelectorTerms[0].matchExpressions[0].values[0]", "Invalid value: \"-\": no"),
        ]);
        assert_eq!((judgement.errors.len(), judgement.warnings.len()), (1, 3));
    }

    #[test]
    fn sidecars_are_tried_in_a_pod_without_limits_of_its_own() {
        let container =
            json!({"name": "log", "image": "log:1", "lifecycle": {"preStop": {"sleep": {"seconds": 600}}}});
        let spec = json!({"containers": [container], "volumes": [{"name": "spool", "emptyDir": {}}], "paused": true});
        let trial = Trial::of_sidecars(&spec, None).unwrap();
        let object: Value = serde_json::from_str(&trial.object()).unwrap();
        let expected = json!({"containers": [container], "initContainers": [], "volumes": spec["volumes"],
            "terminationGracePeriodSeconds": i64::MAX});
        assert_eq!(object["template"]["spec"], expected);
        let judgement = trial.judge([
            ("template.spec.containers[0].env[0].name", "Required value"),
            ("template.spec.hostNetwork", "Invalid value: false: hostNetwork must be true"),
            ("template.spec", "Invalid value: \"\": no"),
        ]);
        assert_eq!(said(&judgement), ["spec.containers[0].env[0].name: Required value"]);
        let mut changed = spec.clone();
        changed["paused"] = json!(false);
        assert!(Trial::of_sidecars(&changed, Some(&spec)).is_none());
        changed["containers"][0]["image"] = json!("log:2");
        assert!(Trial::of_sidecars(&changed, Some(&spec)).unwrap().stored_object().is_none());
    }

    #[test]
    fn init_containers_alone_are_tried_beside_a_container() {
        let init = json!([{"name": "main", "image": "a", "restartPolicy": "Always"}]);
        let trial = Trial::of_sidecars(&json!({"initContainers": init}), None).unwrap();
        let object: Value = serde_json::from_str(&trial.object()).unwrap();
        assert_eq!(object["template"]["spec"]["containers"], json!([{"name": "mainx", "image": "main"}]));
    }
}
