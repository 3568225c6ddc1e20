//! Jobs, nodes and their agents.

use super::*;

/// A job for `nginx` with this spec.
pub(crate) fn job(name: &str, spec: Value) -> Job {
    let mut object = json!({
        "metadata": {"namespace": "shop", "name": name, "uid": format!("uid-{name}"), "resourceVersion": "1"},
        "spec": {"image": "nginx", "completionPolicy": {"type": "Always"}, "imagePullPolicy": "IfNotPresent",
            "pullPolicy": {"timeoutSeconds": 600, "backoffLimit": 3}},
    });
    let Value::Object(members) = spec else { panic!("a spec is an object") };
    object["spec"].as_object_mut().unwrap().extend(members);
    Job::read(&object.to_string()).unwrap()
}

/// A job for `nginx` on nodes that show this.
pub(crate) fn conditional(when: &str) -> Job {
    let mut object = job("a", json!({})).object;
    object.metadata.annotations.insert(api::annotations::PULL_WHEN.to_owned(), when.to_owned());
    Job::read(&serde_json::to_string(&object).unwrap()).unwrap()
}

/// A node without images.
pub(crate) fn node(name: &str) -> NodeImage {
    let metadata = json!({"name": name, "uid": name, "resourceVersion": "1"});
    serde_json::from_value(json!({"metadata": metadata, "spec": {}})).unwrap()
}

/// A NodeImage after a patch.
pub(crate) fn apply(node: &NodeImage, patch: &str) -> Arc<NodeImage> {
    let mut object = serde_json::to_value(node).unwrap();
    let patch: json_patch::Patch = serde_json::from_str(patch).unwrap();
    json_patch::patch(&mut object, &patch).unwrap();
    Arc::new(serde_json::from_value(object).unwrap())
}

/// The agent says that the present round of the pull of `nginx` is in this phase.
pub(crate) fn report(node: &NodeImage, phase: &str, now: Timestamp) -> Arc<NodeImage> {
    let mut node = node.clone();
    let ended = matches!(phase, "Succeeded" | "Failed");
    let task = &node.spec.images["nginx"].tags[0];
    let status = TagStatus {
        tag: task.tag.clone(),
        version: task.version,
        phase: phase.to_owned(),
        completion_time: ended.then(|| now.into()),
        ..TagStatus::default()
    };
    let images = api::kinds::nodeimage::ImageStatus { tags: vec![status] };
    node.status.image_statuses.insert("nginx".to_owned(), images);
    Arc::new(node)
}
