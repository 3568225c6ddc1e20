//! The revisions of a workload, as people list them and go back to them (docs/behaviour/kubectl-kruise.md#rollout-history).

use std::fmt::Write;

use serde_json::{Value, json};

use crate::workload::revision::StoredRevision;

/// Why somebody made a revision.
pub(super) const CAUSE: &str = "kubernetes.io/change-cause";

/// Those of `revisions` that the workload with this UID owns, oldest first.
pub fn of_owner(mut revisions: Vec<StoredRevision>, uid: &str) -> Vec<StoredRevision> {
    revisions.retain(|revision| revision.metadata.controller().is_some_and(|owner| owner.uid == uid));
    revisions.sort_by_key(|revision| revision.revision);
    revisions
}

/// The revision to go back to: the one with this number, or with 0 the one before the newest.
///
/// # Errors
/// What to say to the user.
pub fn target(history: &[StoredRevision], number: i64) -> Result<&StoredRevision, String> {
    if number != 0 {
        let found = history.iter().find(|revision| revision.revision == number);
        return found.ok_or_else(|| format!("unable to find specified revision {number} in history"));
    }
    let before = history.len().checked_sub(2).and_then(|at| history.get(at));
    before.ok_or_else(|| "no last revision to roll back to".to_owned())
}

/// The table of a history.
pub fn table(history: &[StoredRevision]) -> String {
    if history.is_empty() {
        return "No rollout history found.\n".to_owned();
    }
    let mut text = "REVISION  CHANGE-CAUSE\n".to_owned();
    for revision in history {
        // Writing to a String cannot fail.
        let _ = writeln!(text, "{:<8}  {}", revision.revision, cause(revision));
    }
    text.push('\n');
    text
}

fn cause(revision: &StoredRevision) -> &str {
    revision.metadata.annotations.get(CAUSE).map_or("<none>", String::as_str)
}

fn images(revision: &StoredRevision) -> Vec<String> {
    let template = revision.template().ok().and_then(|raw| serde_json::from_str::<Value>(raw.get()).ok());
    let containers = template.as_ref().and_then(|template| template.pointer("/spec/containers")?.as_array());
    let images = containers.into_iter().flatten().filter_map(|one| one.get("image")?.as_str());
    images.map(str::to_owned).collect()
}

/// What the workload says of a revision: `current`, `update`.
fn roles(revision: &StoredRevision, workload: &Value) -> Vec<&'static str> {
    let is = |field: &str| {
        workload.pointer(&format!("/status/{field}")).and_then(Value::as_str) == Some(revision.name())
    };
    let roles = [("current", "currentRevision"), ("update", "updateRevision")];
    roles.into_iter().filter(|(_, field)| is(field)).map(|(role, _)| role).collect()
}

/// The table of a history with the roles, names and images of the revisions.
pub fn wide(history: &[StoredRevision], workload: &Value) -> String {
    if history.is_empty() {
        return table(history);
    }
    let mut text =
        format!("{:<8}  {:<14}  {:<32}  {:<32}  CHANGE-CAUSE\n", "REVISION", "ROLE", "NAME", "IMAGES");
    for revision in history {
        let (roles, images) = (roles(revision, workload).join(","), images(revision).join(","));
        let role = if roles.is_empty() { "-" } else { &roles };
        let (number, name, cause) = (revision.revision, revision.name(), cause(revision));
        // Writing to a String cannot fail.
        let _ = writeln!(text, "{number:<8}  {role:<14}  {name:<32}  {images:<32}  {cause}");
    }
    text.push('\n');
    text
}

/// The revisions for programs.
pub fn listed(history: &[StoredRevision], workload: &Value) -> Value {
    let all = history.iter().map(|revision| {
        let roles = roles(revision, workload);
        json!({
            "revision": revision.revision,
            "name": revision.name(),
            "changeCause": revision.metadata.annotations.get(CAUSE),
            "createdAt": revision.metadata.creation_timestamp,
            "current": roles.contains(&"current"),
            "update": roles.contains(&"update"),
            "images": images(revision),
        })
    });
    all.collect()
}

/// A Pod template in lines, as far as people look at it: labels, containers, images, commands and environment.
pub fn described(template: &Value) -> String {
    let mut text = "Pod Template:\n".to_owned();
    let pairs = |pointer: &str| {
        let pairs = template.pointer(pointer).and_then(Value::as_object);
        pairs
            .into_iter()
            .flatten()
            .filter_map(|(key, value)| Some(format!("{key}={}", value.as_str()?)))
            .collect::<Vec<_>>()
    };
    // Writing to a String cannot fail.
    for (name, pointer) in [("Labels", "/metadata/labels"), ("Annotations", "/metadata/annotations")] {
        for (number, pair) in pairs(pointer).into_iter().enumerate() {
            let name = if number == 0 { format!("{name}:") } else { String::new() };
            let _ = writeln!(text, "  {name:<13}{pair}");
        }
    }
    for (title, member) in [("Init Containers", "initContainers"), ("Containers", "containers")] {
        let containers = template.pointer(&format!("/spec/{member}")).and_then(Value::as_array);
        let Some(containers) = containers.filter(|containers| !containers.is_empty()) else { continue };
        let _ = writeln!(text, "  {title}:");
        for container in containers {
            let word = |name: &str| container.get(name).and_then(Value::as_str).unwrap_or_default();
            let _ = writeln!(text, "   {}:\n    Image:  {}", word("name"), word("image"));
            for list in ["command", "args"] {
                let words = container.get(list).and_then(Value::as_array).into_iter().flatten();
                let words: Vec<&str> = words.filter_map(Value::as_str).collect();
                if !words.is_empty() {
                    let _ = writeln!(text, "    {list}:  {}", words.join(" "));
                }
            }
            for variable in container.get("env").and_then(Value::as_array).into_iter().flatten() {
                let word = |name: &str| variable.get(name).and_then(Value::as_str).unwrap_or_default();
                let _ = writeln!(text, "    Env:  {}={}", word("name"), word("value"));
            }
        }
    }
    text
}

#[cfg(test)]
mod tests {
    use super::*;

    fn revision(number: i64, uid: &str, cause: Option<&str>) -> StoredRevision {
        let owner = json!([{"apiVersion": "apps.kruise.io/v1beta1", "kind": "CloneSet", "uid": uid, "controller": true}]);
        let annotations = cause.map_or(json!({}), |cause| json!({CAUSE: cause}));
        let object = json!({"metadata": {"name": format!("web-{number}"), "ownerReferences": owner, "annotations": annotations},
            "data": {"spec": {"template": {"spec": {"containers": [{"image": format!("nginx:{number}")}]}}}}, "revision": number});
        StoredRevision::read(&object.to_string()).unwrap()
    }

    #[test]
    fn history_is_told_from_the_oldest_on() {
        let all =
            vec![revision(3, "u", None), revision(1, "u", Some("kubectl apply")), revision(2, "other", None)];
        let history = of_owner(all, "u");
        assert_eq!(table(&history), "REVISION  CHANGE-CAUSE\n1         kubectl apply\n3         <none>\n\n");
        assert_eq!(table(&[]), "No rollout history found.\n");
        assert_eq!(target(&history, 0).unwrap().revision, 1);
        assert_eq!(target(&history, 3).unwrap().revision, 3);
        assert_eq!(target(&history, 9).unwrap_err(), "unable to find specified revision 9 in history");
        assert_eq!(target(&history[..1], 0).unwrap_err(), "no last revision to roll back to");
        let workload = json!({"status": {"currentRevision": "web-1", "updateRevision": "web-3"}});
        let listed = listed(&history, &workload);
        assert_eq!(listed[0]["current"], true);
        assert_eq!(listed[1]["update"], true);
        assert_eq!(listed[1]["images"], json!(["nginx:3"]));
        let wide = wide(&history, &workload);
        assert!(wide.contains("3         update          web-3"), "{wide}");
    }

    #[test]
    fn a_template_is_told_in_lines() {
        let template = json!({"metadata": {"labels": {"app": "web"}}, "spec": {"containers": [
            {"name": "main", "image": "nginx:1", "command": ["a", "b"], "env": [{"name": "K", "value": "V"}]}]}});
        let expected = "Pod Template:\n  Labels:      app=web\n  Containers:\n   main:\n    Image:  nginx:1\n    command:  a b\n    Env:  K=V\n";
        assert_eq!(described(&template), expected);
        assert_eq!(described(&json!(7)), "Pod Template:\n");
    }
}
