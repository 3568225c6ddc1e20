//! Which workloads can be divided: those of known kinds, and those that the administrator lists in the ConfigMap
//! `kruise-configuration` (docs/behaviour/workloadspread.md#custom-workloads).

use std::sync::Arc;

use serde_json::Value;

use super::record::Matched;
use super::spread::Spread;
use crate::workload::target::Workload;
use pod::observed::ObservedPod;
use values::any_case::{elements, object, text as text_of};

/// The key of the list in the ConfigMap.
pub const WHITE_LIST: &str = "WorkloadSpread_Watch_Custom_Workload_WhiteList";

/// Where a workload of a known kind says how many Pods it wants.
fn built_in_path(kind: &str) -> &'static str {
    if kind == "Job" { "spec.parallelism" } else { "spec.replicas" }
}

/// Group and kind of workloads that are known.
pub(crate) const BUILT_IN: [(&str, &str); 6] = [
    ("apps", "Deployment"),
    ("apps", "ReplicaSet"),
    ("apps.kruise.io", "CloneSet"),
    ("batch", "Job"),
    ("apps", "StatefulSet"),
    ("apps.kruise.io", "StatefulSet"),
];

/// Workloads of other kinds.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct CustomWorkloads(Vec<CustomWorkload>);

/// No workloads of other kinds.
pub static NONE: CustomWorkloads = CustomWorkloads(Vec::new());

/// A kind of workload that the administrator lists.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct CustomWorkload {
    /// The API group.
    pub group: String,
    /// The API version; empty where it is left to discovery.
    pub version: String,
    /// The kind.
    pub kind: String,
    /// Where its objects say how many Pods they want.
    pub replicas_path: Option<String>,
    /// Group and kind of the objects between it and its Pods.
    pub between: Vec<(String, String)>,
}

/// Whether this is a workload of a known kind.
pub fn is_built_in(workload: &Workload<'_>) -> bool {
    BUILT_IN.iter().any(|(group, kind)| workload.is(group, kind))
}

impl CustomWorkloads {
    /// Reads the list; keys are understood in any case.
    ///
    /// # Errors
    /// What is wrong with it.
    pub fn parse(text: &str) -> Result<Self, String> {
        let list: Value = serde_json::from_str(text).map_err(|error| error.to_string())?;
        let workloads = elements(object(&list)?, "workloads")?.iter().map(|workload| {
            let workload = object(workload)?;
            let between = elements(workload, "subResources")?.iter().map(|between| {
                let between = object(between)?;
                Ok((text_of(between, "group")?, text_of(between, "kind")?))
            });
            let path = text_of(workload, "replicasPath")?;
            Ok(CustomWorkload {
                group: text_of(workload, "group")?,
                version: text_of(workload, "version")?,
                kind: text_of(workload, "kind")?,
                replicas_path: (!path.is_empty()).then_some(path),
                between: between.collect::<Result<_, String>>()?,
            })
        });
        workloads.collect::<Result<_, String>>().map(Self)
    }

    /// The workloads in their order.
    pub fn iter(&self) -> impl Iterator<Item = &CustomWorkload> {
        self.0.iter()
    }

    /// The workload of this group and kind.
    pub fn get(&self, group: &str, kind: &str) -> Option<&CustomWorkload> {
        self.0.iter().find(|workload| workload.group == group && workload.kind == kind)
    }

    /// Whether Pods of objects of this kind may be divided, or those of an owner of such objects.
    pub(crate) fn know(&self, owner: &Workload<'_>) -> bool {
        let between =
            |workload: &CustomWorkload| workload.between.iter().any(|(group, kind)| owner.is(group, kind));
        is_built_in(owner)
            || self.0.iter().any(|workload| owner.is(&workload.group, &workload.kind) || between(workload))
    }
}

/// The API version in which to read the target of a WorkloadSpread. That of a known kind is the present one, whatever
/// the object says; that of another kind is the one in the object if it is served, or else any other of its group.
pub fn api_version(spread: &Spread) -> &str {
    let target = spread.target();
    match (&*target.group, is_built_in(target)) {
        ("apps", true) => "apps/v1",
        ("batch", true) => "batch/v1",
        (_, true) => api::kinds::cloneset::API_VERSION,
        (_, false) => &spread.object().spec.target_ref.api_version,
    }
}

/// The paths that the user or the list give for the replicas of a target; none where the kind itself defines it.
pub fn given_paths<'a>(spread: &'a Spread, custom: &'a CustomWorkloads) -> Vec<&'a str> {
    let given: Vec<&str> = spread.replicas_paths().iter().map(String::as_str).collect();
    if !given.is_empty() {
        return given;
    }
    let target = spread.target();
    custom
        .get(&target.group, &target.kind)
        .and_then(|listed| listed.replicas_path.as_deref())
        .into_iter()
        .collect()
}

/// Whether the subresource `scale` of a target gives the number of Pods it wants, if there is one.
pub fn goes_by_scale(spread: &Spread, custom: &CustomWorkloads) -> bool {
    !is_built_in(spread.target()) && given_paths(spread, custom).is_empty()
}

/// The replicas of a target that was read; one of a known kind without the field wants one Pod. `None` where a target
/// of another kind does not give them.
///
/// # Errors
/// The path that leads to no integer.
pub fn replicas(spread: &Spread, custom: &CustomWorkloads, workload: &Value) -> Result<Option<i32>, String> {
    let given = given_paths(spread, custom);
    if !given.is_empty() {
        return replicas_at(workload, given).map(Some);
    }
    let target = spread.target();
    let reported = replicas_at(workload, [built_in_path(&target.kind)]).ok();
    Ok(reported.or(is_built_in(target).then_some(1)))
}

/// The Pods of the target that belong to something between it and them. Admission has followed their owners, and its
/// mark says so: nobody follows them again.
pub fn behind_parts<'p>(
    spread: &Spread,
    custom: &CustomWorkloads,
    pods: impl IntoIterator<Item = &'p Arc<ObservedPod>>,
) -> Vec<Arc<ObservedPod>> {
    let target = spread.target();
    let between = custom.get(&target.group, &target.kind).map_or(&[][..], |listed| &listed.between);
    let belongs = |pod: &&Arc<ObservedPod>| {
        let owner = pod.controller().map(Workload::from);
        owner.is_some_and(|owner| between.iter().any(|(group, kind)| owner.is(group, kind)))
            && Matched::of(pod).is_some_and(|matched| matched.name == spread.name())
    };
    pods.into_iter().filter(belongs).cloned().collect()
}

/// The sum of the integers at dotted paths of a workload; a step into a list is a position. An empty path counts
/// for nothing.
///
/// # Errors
/// The path that leads to no integer.
pub fn replicas_at<'p>(workload: &Value, paths: impl IntoIterator<Item = &'p str>) -> Result<i32, String> {
    let mut sum = 0_i64;
    for path in paths.into_iter().filter(|path| !path.is_empty()) {
        let value = path.split('.').try_fold(workload, |value, step| match value {
            Value::Object(members) => members.get(step),
            Value::Array(elements) => elements.get(step.parse::<usize>().ok()?),
            _ => None,
        });
        let number = value.and_then(Value::as_i64);
        let number = number.ok_or_else(|| format!("the workload has no integer at {path}"))?;
        sum = sum.saturating_add(number);
    }
    Ok(i32::try_from(sum).unwrap_or(if sum < 0 { 0 } else { i32::MAX }))
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn the_list_is_read_in_any_case() {
        let text = r#"{"Workloads":[{"Group":"kubeflow.org","version":"v1","KIND":"TFJob","replicasPath":"spec.n",
            "SubResources":[{"group":"g","Kind":"K"}]},{"group":"h","kind":"L"}]}"#;
        let list = CustomWorkloads::parse(text).unwrap();
        let job = list.get("kubeflow.org", "TFJob").unwrap();
        assert_eq!((job.version.as_str(), job.replicas_path.as_deref()), ("v1", Some("spec.n")));
        assert_eq!(list.get("h", "L").unwrap().replicas_path, None);
        for (group, kind, known) in
            [("g", "K", true), ("h", "L", true), ("apps", "ReplicaSet", true), ("apps", "CloneSet", false)]
        {
            assert_eq!(list.know(&Workload::new(group, kind, "x")), known, "{group} {kind}");
        }
        assert_eq!(CustomWorkloads::parse("{}").unwrap(), CustomWorkloads::default());
        for broken in
            ["", "[]", r#"{"workloads":{}}"#, r#"{"workloads":[1]}"#, r#"{"workloads":[{"kind":1}]}"#]
        {
            assert!(CustomWorkloads::parse(broken).is_err(), "{broken}");
        }
    }

    #[test]
    fn a_target_of_another_kind_may_not_give_its_replicas() {
        let spread = |api_version: &str, kind: &str| {
            let target = json!({"apiVersion": api_version, "kind": kind, "name": "web"});
            Spread::read(&json!({"metadata": {"name": "ws"}, "spec": {"targetRef": target}}).to_string())
                .unwrap()
        };
        let (job, set) = (spread("kubeflow.org/v1", "TFJob"), spread("apps/v1", "ReplicaSet"));
        let replicas = |spread: &Spread, spec: Value| replicas(spread, &NONE, &json!({"spec": spec}));
        assert_eq!(replicas(&job, json!({"size": 5})), Ok(None), "none is not 0");
        assert_eq!(replicas(&job, json!({"replicas": 5})), Ok(Some(5)));
        assert_eq!(replicas(&set, json!({})), Ok(Some(1)));
        let listed = r#"{"workloads":[{"group":"kubeflow.org","kind":"TFJob","replicasPath":"spec.size"}]}"#;
        let listed = CustomWorkloads::parse(listed).unwrap();
        let asked = [goes_by_scale(&job, &NONE), goes_by_scale(&job, &listed), goes_by_scale(&set, &NONE)];
        assert_eq!(asked, [true, false, false]);
    }

    #[test]
    fn numbers_at_paths_are_added_up() {
        let workload =
            json!({"spec": {"groups": [{"replicas": 2}, {"replicas": 3}], "text": "5", "part": 1.5}});
        let replicas = |paths: &[&str]| replicas_at(&workload, paths.iter().copied());
        assert_eq!(replicas(&["spec.groups.0.replicas", "spec.groups.1.replicas", ""]), Ok(5));
        for broken in [
            "spec.groups.2.replicas",
            "spec.groups.x.replicas",
            "spec.none",
            "spec.text",
            "spec.part",
            "spec",
        ] {
            assert_eq!(replicas(&[broken]), Err(format!("the workload has no integer at {broken}")));
        }
    }
}
