//! The Pods that a workload would make, from its template.

use api::raw_object::{RawNode, RawObject};
use informers::files::Object;
use serde_json::value::RawValue;

/// A workload by group and kind, where its spec keeps its Pod template, and who owns its Pods, by API version and kind.
struct Workload(&'static str, &'static str, &'static str, &'static str, &'static str);

/// Stands for the hash of a template.
const HASH: &str = "0000000000";

const APPS: &str = "apps/v1";
const BATCH: &str = "batch/v1";
const KRUISE: &str = "apps.kruise.io";
const KRUISE_APPS: &str = "apps.kruise.io/v1beta1";
const CRON_JOB: &str = "AdvancedCronJob";
const UNITED: &str = "UnitedDeployment";

const WORKLOADS: &[Workload] = &[
    Workload("apps", "Deployment", "template", APPS, "ReplicaSet"),
    Workload("apps", "ReplicaSet", "template", APPS, "ReplicaSet"),
    Workload("apps", "DaemonSet", "template", APPS, "DaemonSet"),
    Workload("apps", "StatefulSet", "template", APPS, "StatefulSet"),
    Workload("", "ReplicationController", "template", "v1", "ReplicationController"),
    Workload("batch", "Job", "template", BATCH, "Job"),
    Workload("batch", "CronJob", "jobTemplate.spec.template", BATCH, "Job"),
    Workload(KRUISE, "CloneSet", "template", KRUISE_APPS, "CloneSet"),
    Workload(KRUISE, "StatefulSet", "template", KRUISE_APPS, "StatefulSet"),
    Workload(KRUISE, "DaemonSet", "template", KRUISE_APPS, "DaemonSet"),
    Workload(KRUISE, "BroadcastJob", "template", KRUISE_APPS, "BroadcastJob"),
    Workload(KRUISE, CRON_JOB, "template.jobTemplate.spec.template", BATCH, "Job"),
    Workload(KRUISE, CRON_JOB, "template.broadcastJobTemplate.spec.template", KRUISE_APPS, "BroadcastJob"),
    Workload(KRUISE, UNITED, "template.deploymentTemplate.spec.template", APPS, "ReplicaSet"),
    Workload(KRUISE, UNITED, "template.statefulSetTemplate.spec.template", APPS, "StatefulSet"),
    Workload(KRUISE, UNITED, "template.cloneSetTemplate.spec.template", KRUISE_APPS, "CloneSet"),
    Workload(
        KRUISE,
        UNITED,
        "template.advancedStatefulSetTemplate.spec.template",
        KRUISE_APPS,
        "StatefulSet",
    ),
];

/// The Pods that `object` would make, as JSON: one per template. Empty for what makes no Pods.
pub(crate) fn pods_of(object: &Object, namespace: &str) -> Vec<String> {
    WORKLOADS
        .iter()
        .filter(|Workload(group, kind, ..)| (*group, *kind) == (object.group(), object.kind.as_str()))
        .filter_map(|workload| pod(workload, object, namespace))
        .collect()
}

fn pod(workload: &Workload, object: &Object, namespace: &str) -> Option<String> {
    let Workload(_, kind, path, owner_version, owner_kind) = *workload;
    let mut template = RawObject::parse(&object.json).ok()?;
    for key in std::iter::once("spec").chain(path.split('.')) {
        template = template.remove(key)?.into_object()?;
    }
    let mut metadata = template.remove("metadata").and_then(RawNode::into_object).unwrap_or_default();
    match owner_kind {
        "StatefulSet" => metadata.insert("name", RawNode::string(&format!("{}-0", object.name))),
        _ => metadata.insert("generateName", RawNode::string(&format!("{}-", object.name))),
    }
    metadata.insert("namespace", RawNode::string(namespace));
    let mut owner_name = object.name.clone();
    // Its Pods carry a hash with which the name of their owner ends too.
    if kind == "Deployment" {
        owner_name.push('-');
        owner_name.push_str(HASH);
        metadata.edit_object("labels", |labels| {
            labels.insert(api::labels::POD_TEMPLATE_HASH, RawNode::string(HASH));
        });
    }
    let owner = serde_json::json!([{
        "apiVersion": owner_version,
        "kind": owner_kind,
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
