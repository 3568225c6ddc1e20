//! A workload behind Pods, as much of it as those need that have no part in its work, such as budgets: how many
//! Pods it is to have, and by what they are found.
//!
//! It may be of any kind. Of kinds that Kubernetes does not know, `scale` says what there is to say, and where there
//! is none `spec.replicas` of the object (docs/behaviour/podunavailablebudget.md#the-workload-behind-a-pod).

use std::sync::Arc;

use api::annotations::{
    AUTO_GENERATE_PERSISTENT_POD_STATE, PERSISTENT_POD_ANNOTATIONS, PREFERRED_PERSISTENT_TOPOLOGY,
    REQUIRED_PERSISTENT_TOPOLOGY,
};
use api::kinds::shared::IntOrString;
use api::meta::OwnerReference;
use serde::Deserialize;

use pod::observed::{Pairs, PodMetadata};
use values::selector::{Selector, SelectorError};

/// The annotation of Deployments and ReplicaSets that says which ReplicaSet is the present one.
pub const DEPLOYMENT_REVISION: &str = "deployment.kubernetes.io/revision";

/// The annotations that are kept.
const KEPT: [&str; 5] = [
    DEPLOYMENT_REVISION,
    AUTO_GENERATE_PERSISTENT_POD_STATE,
    REQUIRED_PERSISTENT_TOPOLOGY,
    PREFERRED_PERSISTENT_TOPOLOGY,
    PERSISTENT_POD_ANNOTATIONS,
];

/// A workload.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct ResolvedWorkload {
    /// Its API group; empty for the core group.
    pub group: Box<str>,
    /// Its kind.
    pub kind: Box<str>,
    /// Names, labels, owners; of the annotations only [`DEPLOYMENT_REVISION`] and those that ask for a
    /// PersistentPodState.
    pub metadata: PodMetadata,
    /// How many Pods it is to have; `None` where that is not known, as of a Job.
    pub replicas: Option<i32>,
    /// How many Pods run at a time, of a Job.
    pub parallelism: Option<i32>,
    /// The ordinal of its first Pod, as a StatefulSet says it.
    pub start_ordinal: i32,
    /// Ordinals that none of its Pods has, as an Advanced StatefulSet says them.
    pub reserved_ordinals: Box<[IntOrString]>,
    /// The labels of its Pod template.
    pub template_labels: Pairs,
    /// What its `scale` says that its Pods are found by.
    pub selector: Option<Selector>,
    /// Why its `scale` can't be read, where nothing else says how many Pods it is to have.
    pub hidden: Option<Arc<str>>,
}

/// A reference to a workload: from a Pod that it owns, or from an object that names it as its target.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Reference<'a> {
    /// Group and version.
    pub api_version: &'a str,
    /// The kind.
    pub kind: &'a str,
    /// The name.
    pub name: &'a str,
    /// The identity, where it is known: another object of the name is not meant.
    pub uid: Option<&'a str>,
}

impl Reference<'_> {
    /// The API group. Kinds are identified by group and kind, never by version.
    pub fn group(&self) -> &str {
        api::group_and_version(self.api_version).0
    }
}

impl<'a> From<&'a OwnerReference> for Reference<'a> {
    fn from(owner: &'a OwnerReference) -> Self {
        Self { api_version: &owner.api_version, kind: &owner.kind, name: &owner.name, uid: Some(&owner.uid) }
    }
}

#[derive(Default, Deserialize)]
#[serde(default)]
struct Object {
    metadata: PodMetadata,
    spec: Spec,
}

#[derive(Default, Deserialize)]
#[serde(default, rename_all = "camelCase")]
struct Spec {
    /// Of an unknown kind this may be anything.
    replicas: Option<serde_json::Value>,
    parallelism: Option<serde_json::Value>,
    ordinals: Option<serde_json::Value>,
    reserve_ordinals: Option<serde_json::Value>,
    template: Option<serde_json::Value>,
}

#[derive(Deserialize)]
struct Scale {
    spec: Option<ScaleSpec>,
    status: Option<ScaleStatus>,
}

impl Scale {
    fn replicas(&self) -> Option<i32> {
        self.spec.as_ref().map(|spec| spec.replicas.unwrap_or_default())
    }
}

#[derive(Deserialize)]
struct ScaleSpec {
    replicas: Option<i32>,
}

#[derive(Deserialize)]
struct ScaleStatus {
    selector: Option<String>,
}

impl ResolvedWorkload {
    /// Reads an object of this kind.
    ///
    /// # Errors
    /// A text that is no object.
    pub fn read(group: &str, kind: &str, json: &str) -> Result<Self, serde_json::Error> {
        let Object { mut metadata, spec } = serde_json::from_str(json)?;
        let kept = metadata.annotations.iter().filter(|(key, _)| KEPT.contains(key));
        metadata.annotations = kept.collect();
        let number = |value: Option<serde_json::Value>| i32::try_from(value?.as_i64()?).ok();
        let labels = spec.template.as_ref().and_then(|template| template.pointer("/metadata/labels"));
        let start = spec.ordinals.as_ref().and_then(|ordinals| ordinals.get("start")).cloned();
        let reserved = spec.reserve_ordinals.and_then(|entries| serde_json::from_value(entries).ok());
        Ok(Self {
            group: group.into(),
            kind: kind.into(),
            metadata,
            replicas: number(spec.replicas),
            parallelism: number(spec.parallelism),
            start_ordinal: number(start).unwrap_or(0),
            reserved_ordinals: reserved.unwrap_or_default(),
            template_labels: labels.and_then(|labels| Pairs::deserialize(labels).ok()).unwrap_or_default(),
            selector: None,
            hidden: None,
        })
    }

    /// Takes in what `scale` says.
    ///
    /// # Errors
    /// A text that is no Scale.
    pub fn take_in_scale(&mut self, json: &str) -> Result<Result<(), SelectorError>, serde_json::Error> {
        let scale: Scale = serde_json::from_str(json)?;
        self.replicas = scale.replicas();
        let Scale { status, .. } = scale;
        let selector = status.and_then(|status| status.selector).filter(|selector| !selector.is_empty());
        Ok(selector
            .map(|selector| Selector::parse(&selector))
            .transpose()
            .map(|selector| self.selector = selector))
    }

    /// How many Pods a workload is to have by its `scale`; `None` where that does not say.
    ///
    /// # Errors
    /// A text that is no Scale.
    pub fn replicas_of_scale(json: &str) -> Result<Option<i32>, serde_json::Error> {
        Ok(serde_json::from_str::<Scale>(json)?.replicas())
    }

    /// The workload above that has to be asked: a ReplicaSet is a part of its Deployment, and what does not know
    /// how many Pods it is to have may be a part of what does.
    pub fn above(&self) -> Option<&OwnerReference> {
        let owner = self.metadata.owner_references.iter().find(|owner| owner.controller == Some(true))?;
        let is_part = (&*self.group, &*self.kind) == ("apps", "ReplicaSet") && owner.kind == "Deployment";
        (is_part || self.replicas.is_none()).then_some(owner)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::{Value, json};

    fn read(group: &str, kind: &str, object: &Value) -> ResolvedWorkload {
        ResolvedWorkload::read(group, kind, &object.to_string()).unwrap()
    }

    #[test]
    fn of_an_object_is_kept_what_others_need() {
        let found = read(
            "apps",
            "Deployment",
            &json!({
                "metadata": {"name": "web", "uid": "u", "annotations": {"a": "b", DEPLOYMENT_REVISION: "7"}},
                "spec": {"replicas": 3, "template": {"metadata": {"labels": {"app": "web"}}, "spec": {"x": []}}},
            }),
        );
        assert_eq!((found.replicas, found.template_labels.get("app")), (Some(3), Some("web")));
        assert_eq!(found.metadata.annotations.iter().collect::<Vec<_>>(), [(DEPLOYMENT_REVISION, "7")]);
        for odd in [
            json!({"replicas": "3"}),
            json!({"replicas": 1.5}),
            json!({"replicas": {}}),
            json!({"template": 1}),
        ] {
            let found = read("example.com", "Odd", &json!({"metadata": {"name": "odd"}, "spec": odd}));
            assert_eq!((found.replicas, found.template_labels.is_empty()), (None, true), "{odd}");
        }
    }

    #[test]
    fn a_stateful_set_says_which_ordinals_its_pods_have() {
        let found =
            |spec: Value| read("apps.kruise.io", "StatefulSet", &json!({"metadata": {}, "spec": spec}));
        let set = found(json!({"ordinals": {"start": 3}, "reserveOrdinals": [1, "2-5"]}));
        let reserved = [IntOrString::Int(1), IntOrString::String("2-5".to_owned())];
        assert_eq!((set.start_ordinal, &*set.reserved_ordinals), (3, &reserved[..]));
        let odd = found(json!({"ordinals": {"start": "x"}, "reserveOrdinals": {"a": 1}}));
        assert_eq!((odd.start_ordinal, odd.reserved_ordinals.len()), (0, 0));
        let annotated =
            json!({"annotations": {"kruise.io/auto-generate-persistent-pod-state": "true", "other": "x"}});
        let set = read("apps", "StatefulSet", &json!({"metadata": annotated}));
        let kept: Vec<_> = set.metadata.annotations.iter().collect();
        assert_eq!(kept, [("kruise.io/auto-generate-persistent-pod-state", "true")]);
    }

    #[test]
    fn a_scale_gives_replicas_and_selector() {
        let mut found = read("example.com", "Rollout", &json!({"metadata": {"name": "web"}}));
        found
            .take_in_scale(r#"{"spec":{"replicas":4},"status":{"replicas":2,"selector":"app=web,x!=y"}}"#)
            .unwrap()
            .unwrap();
        assert_eq!(found.replicas, Some(4));
        let labels: Pairs = [("app", "web")].into_iter().collect();
        assert!(found.selector.as_ref().unwrap().matches(&labels));
        found.take_in_scale(r#"{"spec":{},"status":{"replicas":0}}"#).unwrap().unwrap();
        assert_eq!((found.replicas, &found.selector), (Some(0), &None));
        assert!(found.take_in_scale(r#"{"spec":{},"status":{"selector":"a b"}}"#).unwrap().is_err());
    }

    #[test]
    fn parts_lead_to_the_whole() {
        let owned = |group: &str, kind: &str, by: &str, replicas: Value| {
            let owner =
                json!({"apiVersion": "a/v1", "kind": by, "name": "x", "uid": "u", "controller": true});
            let metadata = json!({"name": "web", "ownerReferences": [owner]});
            read(group, kind, &json!({"metadata": metadata, "spec": {"replicas": replicas}}))
                .above()
                .is_some()
        };
        assert!(owned("apps", "ReplicaSet", "Deployment", json!(3)));
        assert!(!owned("apps", "ReplicaSet", "Rollout", json!(3)));
        assert!(!owned("apps.kruise.io", "CloneSet", "UnitedDeployment", json!(3)));
        assert!(owned("example.com", "Part", "Whole", Value::Null));
    }
}
