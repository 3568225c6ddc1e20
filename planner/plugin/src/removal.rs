//! Scaling down by chosen Pods (docs/behaviour/kubectl-kruise.md#scaledown).

use std::collections::BTreeSet;

use serde_json::{Value, json};

use super::edit::bound;
use super::kinds::WorkloadKind;
use super::pods::{is_controlled_by, text};
use values::json_patch::{Patch, Pointer};

/// The Pods that somebody wants gone.
#[derive(Debug)]
pub struct Removal {
    /// Their names.
    pub names: BTreeSet<String>,
    /// Others take their place: the number of replicas stays.
    pub keeps_replicas: bool,
}

impl Removal {
    /// Reads the names of Pods of a workload, with commas between them. For an Advanced StatefulSet a number is the ordinal of
    /// a Pod.
    ///
    /// # Errors
    /// What to say to the user.
    pub fn read(
        kind: WorkloadKind,
        workload: &str,
        names: &str,
        keeps_replicas: bool,
    ) -> Result<Self, String> {
        let is_ordinal = |name: &str| {
            kind == WorkloadKind::AdvancedStatefulSet && name.bytes().all(|byte| byte.is_ascii_digit())
        };
        let names = names.split(',').map(str::trim).filter(|name| !name.is_empty());
        let names = names
            .map(|name| if is_ordinal(name) { format!("{workload}-{name}") } else { name.to_owned() })
            .collect::<BTreeSet<String>>();
        if names.is_empty() {
            return Err("must specify one pod name".to_owned());
        }
        Ok(Self { names, keeps_replicas })
    }

    /// The one write by which these Pods go, and no others: of a CloneSet the Pods are named, of a StatefulSet their
    /// ordinals are reserved.
    ///
    /// # Errors
    /// What to say to the user.
    pub fn patch(&self, kind: WorkloadKind, workload: &Value, pods: &[Value]) -> Result<Patch, String> {
        self.check(workload, pods)?;
        let (pointer, listed): (_, Vec<Value>) = match kind {
            WorkloadKind::CloneSet => {
                ("/spec/scaleStrategy/podsToDelete", self.names.iter().map(|name| json!(name)).collect())
            }
            WorkloadKind::AdvancedStatefulSet => ("/spec/reserveOrdinals", self.ordinals()?),
            _ => return Err("currently only supported CloneSet selective pods deletion".to_owned()),
        };
        let present = workload.pointer(pointer).and_then(Value::as_array).cloned().unwrap_or_default();
        if let Some(name) = listed.iter().find(|name| present.contains(name)) {
            return Err(format!("{name} is listed in {pointer} already"));
        }
        let mut edits = Patch::default();
        if kind == WorkloadKind::CloneSet
            && !workload.pointer("/spec/scaleStrategy").is_some_and(Value::is_object)
        {
            edits.add(Pointer::from_escaped("/spec/scaleStrategy"), "{}");
        }
        let whole: Vec<&Value> = present.iter().chain(&listed).collect();
        edits.add(Pointer::from_escaped(pointer), json!(whole).to_string());
        if !self.keeps_replicas {
            let replicas = workload.pointer("/spec/replicas").and_then(Value::as_i64).unwrap_or(1);
            let rest = replicas.saturating_sub(i64::try_from(listed.len()).unwrap_or(i64::MAX));
            if rest < 0 {
                return Err(format!("there are {replicas} replicas, fewer than the {} Pods", listed.len()));
            }
            edits.add(Pointer::from_escaped("/spec/replicas"), rest.to_string());
        }
        Ok(bound(workload, edits))
    }

    /// Each Pod exists, is the workload's, and stays otherwise.
    fn check(&self, workload: &Value, pods: &[Value]) -> Result<(), String> {
        let (owner, uid) = (text(workload, "/metadata/name"), text(workload, "/metadata/uid"));
        for name in &self.names {
            let Some(pod) = pods.iter().find(|pod| text(pod, "/metadata/name") == *name) else {
                return Err(format!("pod {name:?} does not exist"));
            };
            if !is_controlled_by(pod, uid) {
                return Err(format!("pod {name:?} is not controlled by {owner:?}"));
            }
            if pod.pointer("/metadata/deletionTimestamp").is_some() {
                return Err(format!("pod {name:?} is terminating already"));
            }
        }
        Ok(())
    }

    fn ordinals(&self) -> Result<Vec<Value>, String> {
        let ordinal = |name: &String| {
            let number = name.rsplit('-').next().and_then(|number| number.parse::<u32>().ok());
            number.map(Value::from).ok_or_else(|| format!("pod {name:?} has no ordinal"))
        };
        self.names.iter().map(ordinal).collect()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use values::json_patch::apply;

    fn workload() -> Value {
        json!({"metadata": {"name": "web", "uid": "u", "resourceVersion": "7"}, "spec": {"replicas": 3}})
    }

    fn pods() -> Vec<Value> {
        let of = |uid: &str| json!([{"controller": true, "uid": uid}]);
        vec![
            json!({"metadata": {"name": "web-0", "ownerReferences": of("u")}}),
            json!({"metadata": {"name": "web-2", "ownerReferences": of("u")}}),
            json!({"metadata": {"name": "other-1", "ownerReferences": of("x")}}),
            json!({"metadata": {"name": "web-3", "ownerReferences": of("u"), "deletionTimestamp": "2026-01-01T00:00:00Z"}}),
        ]
    }

    fn spec(kind: WorkloadKind, names: &str, keep: bool) -> Result<Value, String> {
        let object = workload();
        let patch = Removal::read(kind, "web", names, keep)?.patch(kind, &object, &pods())?;
        let after: Value = serde_json::from_str(&apply(&object.to_string(), &patch).unwrap()).unwrap();
        Ok(after["spec"].clone())
    }

    #[test]
    fn pods_go_in_one_write_with_the_number_of_replicas() {
        let named = spec(WorkloadKind::CloneSet, "web-2, web-0,,web-2", false).unwrap();
        assert_eq!(named, json!({"replicas": 1, "scaleStrategy": {"podsToDelete": ["web-0", "web-2"]}}));
        let kept = spec(WorkloadKind::CloneSet, "web-0", true).unwrap();
        assert_eq!(kept, json!({"replicas": 3, "scaleStrategy": {"podsToDelete": ["web-0"]}}));
        let reserved = spec(WorkloadKind::AdvancedStatefulSet, "web-2", false).unwrap();
        assert_eq!(reserved, json!({"replicas": 2, "reserveOrdinals": [2]}));
        let by_ordinals = spec(WorkloadKind::AdvancedStatefulSet, "2, 0", true).unwrap();
        assert_eq!(by_ordinals, json!({"replicas": 3, "reserveOrdinals": [0, 2]}));
    }

    #[test]
    fn what_is_not_meant_for_it_is_refused() {
        let error = |kind, names: &str| spec(kind, names, false).unwrap_err();
        let of_clones = |names: &str| error(WorkloadKind::CloneSet, names);
        assert_eq!(of_clones(" ,"), "must specify one pod name");
        assert_eq!(of_clones("2"), r#"pod "2" does not exist"#);
        assert_eq!(of_clones("web-9"), r#"pod "web-9" does not exist"#);
        assert_eq!(of_clones("web-0,other-1"), r#"pod "other-1" is not controlled by "web""#);
        assert_eq!(of_clones("web-3"), r#"pod "web-3" is terminating already"#);
        let other = error(WorkloadKind::AdvancedDaemonSet, "web-0");
        assert_eq!(other, "currently only supported CloneSet selective pods deletion");
        let mut few = workload();
        few["spec"]["replicas"] = 1.into();
        let removal = Removal::read(WorkloadKind::CloneSet, "web", "web-0,web-2", false).unwrap();
        assert!(removal.patch(WorkloadKind::CloneSet, &few, &pods()).is_err());
    }
}
