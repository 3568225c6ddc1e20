//! The Pods that a workload would make, from its template.

use api::raw_object::{RawNode, RawObject};
use informers::files::Object;
use serde_json::value::RawValue;

/// Where a workload keeps its Pod template, who owns its Pods, and how these are named.
struct Workload {
    group: &'static str,
    kind: &'static str,
    template: &'static [&'static str],
    owner: (&'static str, &'static str),
    numbered: bool,
    /// Its Pods carry a hash with which the name of their owner ends too.
    hashed: bool,
}

/// Stands for the hash of a template.
const HASH: &str = "0000000000";

const fn workload(group: &'static str, kind: &'static str, owner: (&'static str, &'static str)) -> Workload {
    Workload { group, kind, template: &["spec", "template"], owner, numbered: false, hashed: false }
}

const WORKLOADS: &[Workload] = &[
    Workload { hashed: true, ..workload("apps", "Deployment", ("apps/v1", "ReplicaSet")) },
    workload("apps", "ReplicaSet", ("apps/v1", "ReplicaSet")),
    workload("apps", "DaemonSet", ("apps/v1", "DaemonSet")),
    Workload { numbered: true, ..workload("apps", "StatefulSet", ("apps/v1", "StatefulSet")) },
    workload("", "ReplicationController", ("v1", "ReplicationController")),
    workload("batch", "Job", ("batch/v1", "Job")),
    Workload {
        template: &["spec", "jobTemplate", "spec", "template"],
        ..workload("batch", "CronJob", ("batch/v1", "Job"))
    },
    workload("apps.kruise.io", "CloneSet", ("apps.kruise.io/v1beta1", "CloneSet")),
    Workload {
        numbered: true,
        ..workload("apps.kruise.io", "StatefulSet", ("apps.kruise.io/v1beta1", "StatefulSet"))
    },
    workload("apps.kruise.io", "DaemonSet", ("apps.kruise.io/v1beta1", "DaemonSet")),
    workload("apps.kruise.io", "BroadcastJob", ("apps.kruise.io/v1beta1", "BroadcastJob")),
    Workload {
        template: &["spec", "template", "jobTemplate", "spec", "template"],
        ..workload("apps.kruise.io", "AdvancedCronJob", ("batch/v1", "Job"))
    },
    Workload {
        template: &["spec", "template", "broadcastJobTemplate", "spec", "template"],
        ..workload("apps.kruise.io", "AdvancedCronJob", ("apps.kruise.io/v1beta1", "BroadcastJob"))
    },
    Workload {
        template: &["spec", "template", "deploymentTemplate", "spec", "template"],
        ..workload("apps.kruise.io", "UnitedDeployment", ("apps/v1", "ReplicaSet"))
    },
    Workload {
        template: &["spec", "template", "statefulSetTemplate", "spec", "template"],
        numbered: true,
        ..workload("apps.kruise.io", "UnitedDeployment", ("apps/v1", "StatefulSet"))
    },
    Workload {
        template: &["spec", "template", "cloneSetTemplate", "spec", "template"],
        ..workload("apps.kruise.io", "UnitedDeployment", ("apps.kruise.io/v1beta1", "CloneSet"))
    },
    Workload {
        template: &["spec", "template", "advancedStatefulSetTemplate", "spec", "template"],
        numbered: true,
        ..workload("apps.kruise.io", "UnitedDeployment", ("apps.kruise.io/v1beta1", "StatefulSet"))
    },
];

/// The Pods that `object` would make, as JSON: one per template. Empty for what makes no Pods.
pub(crate) fn pods_of(object: &Object, namespace: &str) -> Vec<String> {
    WORKLOADS
        .iter()
        .filter(|workload| workload.kind == object.kind && workload.group == object.group())
        .filter_map(|workload| pod(workload, object, namespace))
        .collect()
}

fn pod(workload: &Workload, object: &Object, namespace: &str) -> Option<String> {
    let mut template = RawObject::parse(&object.json).ok()?;
    for key in workload.template {
        template = template.remove(key)?.into_object()?;
    }
    let mut metadata = template.remove("metadata").and_then(RawNode::into_object).unwrap_or_default();
    let name = if workload.numbered { format!("{}-0", object.name) } else { format!("{}-", object.name) };
    metadata.insert(if workload.numbered { "name" } else { "generateName" }, RawNode::string(&name));
    metadata.insert("namespace", RawNode::string(namespace));
    let mut owner_name = object.name.clone();
    if workload.hashed {
        owner_name.push('-');
        owner_name.push_str(HASH);
        metadata.edit_object("labels", |labels| {
            labels.insert(api::labels::POD_TEMPLATE_HASH, RawNode::string(HASH));
        });
    }
    let (api_version, kind) = workload.owner;
    let owner = serde_json::json!([{
        "apiVersion": api_version,
        "kind": kind,
        "name": owner_name,
        "uid": "00000000-0000-0000-0000-000000000000",
        "controller": true,
    }]);
    metadata
        .insert("ownerReferences", RawNode::from_owned_raw(RawValue::from_string(owner.to_string()).ok()?));
    let mut pod = RawObject::default();
    pod.insert("apiVersion", RawNode::string("v1"));
    pod.insert("kind", RawNode::string("Pod"));
    pod.insert("metadata", metadata.into());
    pod.insert("spec", template.remove("spec")?);
    Some(RawNode::from(pod).to_string())
}

#[cfg(test)]
mod tests {
    use super::*;
    use informers::files::Objects;

    fn pods(manifest: &str) -> Vec<String> {
        let mut objects = Objects::default();
        objects.parse("test", manifest).unwrap();
        objects.iter().flat_map(|object| pods_of(object, "shop")).collect()
    }

    #[test]
    fn templates_become_pods_of_their_owner_with_every_field() {
        let pods = pods(
            r#"{"apiVersion":"apps/v1","kind":"StatefulSet","metadata":{"name":"db"},"spec":{"template":{"metadata":{"labels":{"a":"b"}},"spec":{"containers":[],"new":1.50}}}}"#,
        );
        assert_eq!(
            pods,
            [
                r#"{"apiVersion":"v1","kind":"Pod","metadata":{"labels":{"a":"b"},"name":"db-0","namespace":"shop","ownerReferences":[{"apiVersion":"apps/v1","kind":"StatefulSet","name":"db","uid":"00000000-0000-0000-0000-000000000000","controller":true}]},"spec":{"containers":[],"new":1.50}}"#
            ]
        );
    }

    #[test]
    fn pods_of_a_deployment_belong_to_a_replica_set_of_its_name() {
        let [pod] = &pods(
            "apiVersion: apps/v1\nkind: Deployment\nmetadata: {name: web}\nspec: {template: {spec: {containers: []}}}\n",
        )[..] else {
            panic!("not one Pod")
        };
        assert!(pod.contains(r#""labels":{"pod-template-hash":"0000000000"}"#), "{pod}");
        assert!(pod.contains(r#""kind":"ReplicaSet","name":"web-0000000000""#), "{pod}");
    }

    #[test]
    fn nested_templates_are_found_and_others_make_no_pods() {
        let cron = "apiVersion: batch/v1\nkind: CronJob\nmetadata: {name: c}\nspec: {jobTemplate: {spec: {template: {spec: {containers: []}}}}}\n";
        assert_eq!(pods(cron).len(), 1);
        assert!(pods("apiVersion: v1\nkind: Service\nmetadata: {name: s}\n").is_empty());
    }
}
