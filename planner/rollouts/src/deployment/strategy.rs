//! What a release allows a Deployment: the annotation `rollouts.kruise.io/deployment-strategy`, as numbers of Pods.

use api::annotations::{BATCH_RELEASE_CONTROL, DEPLOYMENT_STRATEGY};
use api::kinds::shared::IntOrString;
use serde::{Deserialize, Serialize};
use serde_json::{Value, json};
use values::percent::{Rounding, partition, scaled};

use crate::draft::set;
use crate::object::Object as _;

/// What `maxSurge` and `maxUnavailable` are where they are not set.
const DEFAULT_SHARE: &str = "25%";

/// The strategy of a Deployment that a release holds.
#[derive(Clone, Debug, Default, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub(super) struct Strategy {
    rolling_style: Option<String>,
    rolling_update: Option<RollingUpdate>,
    /// A newer template waits until its release begins.
    paused: Option<bool>,
    /// How many Pods may be new.
    partition: Option<IntOrString>,
}

#[derive(Clone, Debug, Default, PartialEq, Eq, Deserialize, Serialize)]
#[serde(rename_all = "camelCase", default)]
pub(super) struct RollingUpdate {
    #[serde(skip_serializing_if = "Option::is_none")]
    max_surge: Option<IntOrString>,
    #[serde(skip_serializing_if = "Option::is_none")]
    max_unavailable: Option<IntOrString>,
}

/// The limits within which ReplicaSets get their sizes.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) struct Limits {
    /// How many Pods the Deployment is to have.
    pub(super) replicas: i64,
    /// How many of them the release allows to be new.
    pub(super) expected: i64,
    /// Up to how many new Pods the ReplicaSet of the present template grows: `expected`, or none while it waits.
    pub(super) updated: i64,
    /// How many Pods there may be beyond `replicas`.
    pub(super) surge: i64,
    /// How many of `replicas` may be unavailable.
    pub(super) unavailable: i64,
}

impl Strategy {
    /// The strategy of a Deployment that a release in batches holds; `None` where it holds none.
    pub(super) fn of(deployment: &Value) -> Option<Self> {
        let is_held = deployment.annotation(BATCH_RELEASE_CONTROL).is_some()
            && deployment.pointer("/spec/paused").and_then(Value::as_bool) == Some(true);
        if !is_held || deployment.is_deleting() {
            return None;
        }
        let strategy: Self = serde_json::from_str(deployment.annotation(DEPLOYMENT_STRATEGY)?).ok()?;
        let style = strategy.rolling_style.as_deref().unwrap_or_default();
        (!style.eq_ignore_ascii_case("Canary")).then_some(strategy)
    }

    /// The limits of a rolling update, as the user wrote them.
    pub(super) fn rolling_update(&self) -> RollingUpdate {
        self.rolling_update.clone().unwrap_or_default()
    }

    /// The limits for a Deployment of this size.
    pub(super) fn limits(&self, deployment: &Value) -> Limits {
        let replicas = deployment.number("/spec/replicas").unwrap_or(1).clamp(0, i32::MAX.into());
        let total = i32::try_from(replicas).unwrap_or(i32::MAX);
        let RollingUpdate { max_surge, max_unavailable } = self.rolling_update();
        let count = |share: Option<IntOrString>, rounding| {
            let share = share.unwrap_or_else(|| IntOrString::String(DEFAULT_SHARE.to_owned()));
            i64::from(scaled(&share, total, rounding).unwrap_or(0).max(0))
        };
        let surge = count(max_surge, Rounding::Up);
        let unavailable = count(max_unavailable, Rounding::Down).min(replicas);
        // Less than 100 % of several Pods never makes all of them new, by the same rule by which it never keeps all.
        let expected = i64::from(partition(self.partition.as_ref(), total));
        let updated = if self.paused == Some(true) { 0 } else { expected };
        // With neither, nothing could move.
        let unavailable = if surge == 0 { unavailable.max(1) } else { unavailable };
        Limits { replicas, expected, updated, surge, unavailable }
    }
}

/// Type Recreate keeps Kubernetes' own controller from it. How it would update otherwise is noted, for the controller that
/// rolls it and for the end of the release. Before the release holds it there is no note.
pub(crate) fn hold_strategy(deployment: &mut Value, is_new: bool) {
    let noted = deployment.annotation(DEPLOYMENT_STRATEGY).and_then(|text| serde_json::from_str(text).ok());
    let Some(noted @ Value::Object(_)) = noted else { return };
    let mut note = noted.clone();
    if deployment.text("/spec/strategy/type") == "RollingUpdate" {
        let rolling_update = deployment.pointer("/spec/strategy/rollingUpdate").cloned();
        if let Some(rolling_update) = rolling_update.filter(Value::is_object) {
            set(&mut note, &["rollingUpdate"], rolling_update);
        }
        set(deployment, &["spec", "strategy"], json!({"type": "Recreate"}));
    }
    if is_new {
        set(&mut note, &["paused"], json!(true));
    }
    if note != noted {
        let path = ["metadata", "annotations", DEPLOYMENT_STRATEGY];
        set(deployment, &path, json!(note.to_string()));
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    fn held(replicas: i64, strategy: &Value) -> Value {
        json!({"metadata": {"annotations": {BATCH_RELEASE_CONTROL: "{}", DEPLOYMENT_STRATEGY: strategy.to_string()}},
            "spec": {"replicas": replicas, "paused": true, "strategy": {"type": "Recreate"}}})
    }

    fn limits(replicas: i64, strategy: &Value) -> Limits {
        let deployment = held(replicas, strategy);
        Strategy::of(&deployment).unwrap().limits(&deployment)
    }

    #[test]
    fn only_a_held_deployment_is_taken() {
        let deployment = held(3, &json!({"rollingStyle": "Partition"}));
        assert!(Strategy::of(&deployment).is_some());
        assert!(Strategy::of(&held(3, &json!({}))).is_some());
        for style in ["Canary", "canary"] {
            assert_eq!(Strategy::of(&held(3, &json!({"rollingStyle": style}))), None);
        }
        let without = |edit: &dyn Fn(&mut Value)| {
            let mut deployment = deployment.clone();
            edit(&mut deployment);
            Strategy::of(&deployment)
        };
        assert_eq!(without(&|object| object["spec"]["paused"] = false.into()), None);
        assert_eq!(
            without(&|object| object["metadata"]["annotations"][DEPLOYMENT_STRATEGY] = Value::Null),
            None
        );
        assert_eq!(
            without(&|object| object["metadata"]["annotations"][BATCH_RELEASE_CONTROL] = Value::Null),
            None
        );
        assert_eq!(
            without(&|object| object["metadata"]["deletionTimestamp"] = "2026-01-02T03:04:05Z".into()),
            None
        );
    }

    #[test]
    fn each_limit_has_its_own_default() {
        let both = |rolling_update: &Value| {
            let limits = limits(10, &json!({"rollingUpdate": rolling_update}));
            (limits.surge, limits.unavailable)
        };
        assert_eq!(both(&Value::Null), (3, 2));
        assert_eq!(both(&json!({})), (3, 2));
        assert_eq!(both(&json!({"maxUnavailable": 0})), (3, 0));
        assert_eq!(both(&json!({"maxUnavailable": "50%"})), (3, 5));
        assert_eq!(both(&json!({"maxSurge": 0})), (0, 2));
        assert_eq!(both(&json!({"maxSurge": "11%", "maxUnavailable": "19%"})), (2, 1));
        assert_eq!(both(&json!({"maxSurge": 0, "maxUnavailable": "1%"})), (0, 1));
        assert_eq!(both(&json!({"maxSurge": 1, "maxUnavailable": 12})), (1, 10));
    }

    #[test]
    fn the_partition_says_how_many_pods_may_be_new() {
        let updated =
            |replicas: i64, partition: Value| limits(replicas, &json!({"partition": partition})).updated;
        for (replicas, partition, expected) in [
            (10, json!("30%"), 3),
            (10, json!("31%"), 4),
            (10, json!("99%"), 9),
            (10, json!("100%"), 10),
            (10, json!(10), 10),
            (10, json!(12), 10),
            (10, json!(-1), 0),
            (10, Value::Null, 0),
            (1, json!("50%"), 1),
            (0, json!("100%"), 0),
        ] {
            assert_eq!(updated(replicas, partition.clone()), expected, "{partition} of {replicas}");
        }
    }

    #[test]
    fn a_newer_template_waits_while_the_strategy_is_paused() {
        let limits = limits(10, &json!({"partition": 5, "paused": true}));
        assert_eq!((limits.expected, limits.updated), (5, 0));
    }
}
