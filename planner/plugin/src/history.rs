//! The revisions of a workload, as people list them and go back to them (docs/behaviour/kubectl-kruise.md#rollout-history).

use std::fmt::Write;

use serde_json::{Value, json};

use super::kinds::WorkloadKind;
use super::pods::{is_revision, list, text};
use kinds::workload::revision::StoredRevision;

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
pub fn target(
    kind: WorkloadKind,
    history: &[StoredRevision],
    number: i64,
) -> Result<&StoredRevision, String> {
    if number != 0 {
        let found = history.iter().find(|revision| revision.revision == number);
        return found.ok_or_else(|| format!("unable to find specified revision {number} in history"));
    }
    let before = history.len().checked_sub(2).and_then(|at| history.get(at));
    let word = if kind == WorkloadKind::AdvancedStatefulSet { "latest" } else { "last" };
    before.ok_or_else(|| format!("no {word} revision to roll back to"))
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
    let containers = template.iter().flat_map(|template| list(template, "/spec/containers"));
    let images = containers.filter_map(|one| one.get("image")?.as_str());
    images.map(str::to_owned).collect()
}

/// What the workload says of a revision: `current`, `update`. An Advanced DaemonSet names the newest one alone, by its hash,
/// and as `v1alpha1` in a field of its own.
fn roles(revision: &StoredRevision, workload: &Value) -> Vec<&'static str> {
    let is = |field: &str| is_revision(revision.name(), text(workload, &format!("/status/{field}")));
    let roles = [("current", "currentRevision"), ("update", "updateRevision"), ("update", "daemonSetHash")];
    roles.into_iter().filter(|(_, field)| is(field)).map(|(role, _)| role).collect()
}

/// The revision that Pods have which are not updated yet, while a rollout continues.
pub fn outgoing<'h>(history: &'h [StoredRevision], workload: &Value) -> Option<&'h StoredRevision> {
    history.iter().find(|revision| roles(revision, workload) == ["current"])
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

#[cfg(test)]
mod tests {
    use super::*;

    const SET: WorkloadKind = WorkloadKind::CloneSet;

    fn revision(number: i64, uid: &str, cause: Option<&str>) -> StoredRevision {
        let owner = json!([{"apiVersion": "apps.kruise.io/v1beta1", "kind": "CloneSet", "uid": uid, "controller": true}]);
        let annotations = cause.map_or(json!({}), |cause| json!({CAUSE: cause}));
        let object = json!({"metadata": {"name": format!("web-{number}"), "ownerReferences": owner, "annotations": annotations},
            "data": {"spec": {"template": {"spec": {"containers": [{"image": format!("nginx:{number}")}]}}}}, "revision": number});
        StoredRevision::read(&object.to_string()).unwrap()
    }

    #[test]
    fn history_is_reported_from_the_oldest_on() {
        let all =
            vec![revision(3, "u", None), revision(1, "u", Some("kubectl apply")), revision(2, "other", None)];
        let history = of_owner(all, "u");
        assert_eq!(table(&history), "REVISION  CHANGE-CAUSE\n1         kubectl apply\n3         <none>\n\n");
        assert_eq!(table(&[]), "No rollout history found.\n");
        assert_eq!(target(SET, &history, 0).unwrap().revision, 1);
        assert_eq!(target(SET, &history, 3).unwrap().revision, 3);
        assert_eq!(target(SET, &history, 9).unwrap_err(), "unable to find specified revision 9 in history");
        assert_eq!(target(SET, &history[..1], 0).unwrap_err(), "no last revision to roll back to");
        let error = target(WorkloadKind::AdvancedStatefulSet, &history[..1], 0).unwrap_err();
        assert_eq!(error, "no latest revision to roll back to");
        let workload = json!({"status": {"currentRevision": "web-1", "updateRevision": "web-3"}});
        let listed = listed(&history, &workload);
        assert_eq!(listed[0]["current"], true);
        assert_eq!(listed[1]["update"], true);
        assert_eq!(listed[1]["images"], json!(["nginx:3"]));
        let wide = wide(&history, &workload);
        assert!(wide.contains("3         update          web-3"), "{wide}");
        assert_eq!(outgoing(&history, &workload).unwrap().revision, 1);
        let daemon_set = json!({"status": {"updateRevision": "3"}});
        assert_eq!(roles(&history[1], &daemon_set), ["update"]);
        assert_eq!(roles(&history[1], &json!({"status": {"daemonSetHash": "3"}})), ["update"]);
        assert!(outgoing(&history, &daemon_set).is_none());
    }
}
