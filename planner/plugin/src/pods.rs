//! Pods as people watch them during a rollout (docs/behaviour/kubectl-kruise.md#rollout-status).

use api::labels::LIFECYCLE_STATE;
use jiff::Timestamp;
use serde_json::Value;

/// States of a lifecycle in which a hook holds the Pod.
const HELD: [&str; 3] = ["PreparingNormal", "PreparingUpdate", "PreparingDelete"];

/// A text of an object; empty where it has none there.
pub fn text<'a>(object: &'a Value, pointer: &str) -> &'a str {
    object.pointer(pointer).and_then(Value::as_str).unwrap_or_default()
}

pub(super) fn number(object: &Value, pointer: &str) -> i64 {
    object.pointer(pointer).and_then(Value::as_i64).unwrap_or(0)
}

pub(super) fn list<'a>(object: &'a Value, pointer: &str) -> impl Iterator<Item = &'a Value> + use<'a> {
    object.pointer(pointer).and_then(Value::as_array).into_iter().flatten()
}

/// A value as people write it.
pub(super) fn plain(value: &Value) -> String {
    value.as_str().map_or_else(|| value.to_string(), str::to_owned)
}

/// Whether the owner with this UID controls the object.
pub fn is_controlled_by(object: &Value, uid: &str) -> bool {
    let controls = |owner: &Value| owner.get("controller") == Some(&Value::Bool(true));
    !uid.is_empty()
        && list(object, "/metadata/ownerReferences")
            .any(|owner| controls(owner) && text(owner, "/uid") == uid)
}

/// Whether `name` and `label` denote the same revision; each is a full name or only its hash.
pub fn is_revision(name: &str, label: &str) -> bool {
    let ends_with = |long: &str, short: &str| {
        long.strip_suffix(short).is_some_and(|rest| rest.is_empty() || rest.ends_with('-'))
    };
    !label.is_empty() && !name.is_empty() && (ends_with(name, label) || ends_with(label, name))
}

fn condition<'a>(pod: &'a Value, kind: &str) -> Option<&'a Value> {
    list(pod, "/status/conditions").find(|condition| text(condition, "/type") == kind)
}

/// The Pod is ready.
pub fn is_ready(pod: &Value) -> bool {
    condition(pod, "Ready").is_some_and(|condition| text(condition, "/status") == "True")
}

fn statuses(pod: &Value) -> impl Iterator<Item = &Value> {
    list(pod, "/status/initContainerStatuses").chain(list(pod, "/status/containerStatuses"))
}

/// What a container waits for, or what it ended with, and the words about it.
fn container_trouble(pod: &Value) -> Option<(&str, &str)> {
    let member = |status: &'_ Value, state: &str, name: &str| {
        status.pointer(&format!("/state/{state}/{name}")).and_then(Value::as_str).map(str::len).is_some()
    };
    let find = |state: &'static str| {
        statuses(pod).find(|status| member(status, state, "reason")).map(|status| {
            let of = |name: &str| text(status, &format!("/state/{state}/{name}"));
            (of("reason"), of("message"))
        })
    };
    let waits = find("waiting");
    waits.or_else(|| find("terminated").filter(|(reason, _)| *reason != "Completed"))
}

/// One word about the Pod, as `kubectl get pods` has it.
pub(super) fn state(pod: &Value) -> &str {
    if pod.pointer("/metadata/deletionTimestamp").is_some() {
        return "Terminating";
    }
    if let Some((reason, _)) = container_trouble(pod) {
        return reason;
    }
    let reason = text(pod, "/status/reason");
    if reason.is_empty() { text(pod, "/status/phase") } else { reason }
}

/// How many of its containers are ready, of how many.
pub(super) fn ready_containers(pod: &Value) -> (usize, usize) {
    let all = list(pod, "/status/containerStatuses");
    let ready = all.filter(|status| status.get("ready") == Some(&Value::Bool(true))).count();
    (ready, list(pod, "/spec/containers").count())
}

/// How often its containers were restarted.
pub(super) fn restarts(pod: &Value) -> i64 {
    let counts = statuses(pod).filter_map(|status| status.get("restartCount")?.as_i64());
    counts.fold(0, i64::saturating_add)
}

/// How long ago a time of an object was: `40s`, `3m12s`, `5h10m`, `5d`.
pub(super) fn age(time: &str, now: Timestamp) -> String {
    let Ok(time) = time.parse::<Timestamp>() else { return "<unknown>".to_owned() };
    let seconds = now.as_second().saturating_sub(time.as_second()).max(0);
    let (minutes, hours, days) = (seconds / 60, seconds / 3_600, seconds / 86_400);
    match seconds {
        0..60 => format!("{seconds}s"),
        60..3_600 => format!("{minutes}m{}s", seconds % 60),
        3_600..86_400 => format!("{hours}h{}m", minutes % 60),
        _ => format!("{days}d"),
    }
}

/// Why the Pod is not ready; `None` where it is.
fn delay(pod: &Value) -> Option<String> {
    let with = |reason: &str, message: &str| {
        let message = message.lines().next().unwrap_or_default();
        if message.is_empty() { reason.to_owned() } else { format!("{reason}: {message}") }
    };
    let held = pod.pointer("/metadata/labels").and_then(|labels| labels.get(LIFECYCLE_STATE)?.as_str());
    if let Some(held) = held.filter(|held| HELD.contains(held)) {
        return Some(format!("waits for a lifecycle hook in state {held}"));
    }
    if pod.pointer("/metadata/deletionTimestamp").is_some() {
        return Some("is terminating".to_owned());
    }
    if is_ready(pod) {
        return None;
    }
    let unscheduled = condition(pod, "PodScheduled").filter(|one| text(one, "/status") == "False");
    if let Some(unscheduled) = unscheduled {
        return Some(with("is not scheduled", text(unscheduled, "/message")));
    }
    if let Some((reason, message)) = container_trouble(pod) {
        return Some(with(reason, message));
    }
    if condition(pod, "InPlaceUpdateReady").is_some_and(|one| text(one, "/status") == "False") {
        return Some("is updated in place".to_owned());
    }
    let ready = condition(pod, "Ready").map_or("", |condition| text(condition, "/message"));
    Some(with("is not ready", ready))
}

/// The Pods that are not ready, the oldest `limit` of them, and why: `web-1  40s  ErrImagePull: no such image`.
pub fn slowest(pods: &[Value], limit: usize, now: Timestamp) -> Vec<String> {
    let mut slow: Vec<(&Value, String)> = pods.iter().filter_map(|pod| Some((pod, delay(pod)?))).collect();
    let created = |pod: &Value| text(pod, "/metadata/creationTimestamp").to_owned();
    slow.sort_by_cached_key(|(pod, _)| (created(pod), text(pod, "/metadata/name").to_owned()));
    let lines = slow
        .iter()
        .take(limit)
        .map(|(pod, why)| format!("{}  {}  {why}", text(pod, "/metadata/name"), age(&created(pod), now)));
    lines.collect()
}

/// The newest warning about an object or one of its Pods, in one line. `events` are those of the namespace, in the form of
/// the core group.
pub fn newest_warning(events: &[Value], uid: &str, pods: &[Value], now: Timestamp) -> Option<String> {
    let is_about = |event: &&Value| {
        let about = text(event, "/involvedObject/uid");
        about == uid || pods.iter().any(|pod| text(pod, "/metadata/uid") == about)
    };
    let time = |event: &Value| {
        let known = ["/lastTimestamp", "/eventTime", "/firstTimestamp", "/metadata/creationTimestamp"];
        known
            .map(|pointer| text(event, pointer))
            .into_iter()
            .find(|time| !time.is_empty())
            .unwrap_or_default()
            .to_owned()
    };
    let warnings = events.iter().filter(|event| text(event, "/type") == "Warning").filter(is_about);
    let newest = warnings.max_by_key(|event| time(event))?;
    let message = text(newest, "/message").lines().next().unwrap_or_default();
    let name = text(newest, "/involvedObject/name");
    Some(format!("{} ago  {name}  {}: {message}", age(&time(newest), now), text(newest, "/reason")))
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    fn now() -> Timestamp {
        "2026-01-01T01:00:00Z".parse().unwrap()
    }

    #[test]
    fn ages_are_short() {
        let of = |time: &str| age(time, now());
        assert_eq!(of("2026-01-01T00:59:20Z"), "40s");
        assert_eq!(of("2026-01-01T00:56:48Z"), "3m12s");
        assert_eq!(of("2025-12-31T19:50:00Z"), "5h10m");
        assert_eq!(of("2025-12-27T00:00:00Z"), "5d");
        assert_eq!(of("2027-01-01T00:00:00Z"), "0s");
        assert_eq!(of(""), "<unknown>");
    }

    #[test]
    fn only_a_controller_counts_as_the_owner() {
        let object = |owner: Value| json!({"metadata": {"ownerReferences": [{"uid": "x"}, owner]}});
        assert!(is_controlled_by(&object(json!({"uid": "u", "controller": true})), "u"));
        assert!(!is_controlled_by(&object(json!({"uid": "u"})), "u"));
        assert!(!is_controlled_by(&object(json!({"uid": "", "controller": true})), ""));
    }

    #[test]
    fn a_revision_is_known_by_its_name_or_its_hash() {
        assert!(is_revision("web-abc", "abc") && is_revision("abc", "web-abc") && is_revision("abc", "abc"));
        assert!(!is_revision("web-abc", "bc") && !is_revision("", "abc") && !is_revision("abc", ""));
    }

    #[test]
    fn pods_that_are_not_ready_are_reported_with_their_reason() {
        let pod = |name: &str, minute: u32, rest: Value| {
            let mut pod = json!({"metadata": {"name": name, "uid": name, "creationTimestamp": format!("2026-01-01T00:{minute:02}:00Z")},
                "spec": {"containers": [{}, {}]}});
            for (pointer, value) in rest.as_object().unwrap() {
                pod[pointer] = value.clone();
            }
            pod
        };
        let condition = |kind: &str, status: &str, message: &str| json!({"type": kind, "status": status, "message": message});
        let pods = [
            pod("ready", 0, json!({"status": {"conditions": [condition("Ready", "True", "")]}})),
            pod(
                "unscheduled",
                5,
                json!({"status": {"conditions": [condition("PodScheduled", "False", "0/3 nodes")]}}),
            ),
            pod(
                "unpulled",
                4,
                json!({"status": {"phase": "Pending", "containerStatuses": [{"ready": true}, {"state": {"waiting": {"reason": "ErrImagePull", "message": "no such image\nmore"}}, "restartCount": 2}]}}),
            ),
            pod(
                "probed",
                3,
                json!({"status": {"conditions": [condition("Ready", "False", "containers with unready status: [main]")]}}),
            ),
        ];
        assert_eq!(
            slowest(&pods, 2, now()),
            [
                "probed  57m0s  is not ready: containers with unready status: [main]",
                "unpulled  56m0s  ErrImagePull: no such image"
            ]
        );
        assert_eq!(slowest(&pods, 9, now())[2], "unscheduled  55m0s  is not scheduled: 0/3 nodes");
        assert_eq!(
            (state(&pods[2]), ready_containers(&pods[2]), restarts(&pods[2])),
            ("ErrImagePull", (1, 2), 2)
        );
        let mut hooked = pods[0].clone();
        hooked["metadata"]["labels"] = json!({LIFECYCLE_STATE: "PreparingUpdate"});
        assert_eq!(delay(&hooked).unwrap(), "waits for a lifecycle hook in state PreparingUpdate");
        let event = |about: &str, time: &str, kind: &str| json!({"involvedObject": {"uid": about, "name": about}, "type": kind, "reason": "Failed", "message": "x", "lastTimestamp": time});
        let events = [
            event("probed", "2026-01-01T00:59:00Z", "Warning"),
            event("set", "2026-01-01T00:58:00Z", "Warning"),
            event("probed", "2026-01-01T00:59:30Z", "Normal"),
            event("other", "2026-01-01T00:59:40Z", "Warning"),
        ];
        assert_eq!(newest_warning(&events, "set", &pods, now()).unwrap(), "1m0s ago  probed  Failed: x");
        assert_eq!(newest_warning(&events, "set", &[], now()).unwrap(), "2m0s ago  set  Failed: x");
    }
}
