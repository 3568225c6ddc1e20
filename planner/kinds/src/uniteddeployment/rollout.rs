//! How a workload replaces Pods of an older revision (docs/behaviour/uniteddeployment.md#rollouts-beside-waiting-pods).

use api::kinds::shared::IntOrString;
use serde::Deserialize;

use super::kind::ChildKind;
use values::percent::{self, Rounding, scaled};

/// How many Pods of a Deployment may be unavailable, and how many it may have beyond its replicas, by default.
const SHARE_OF_DEPLOYMENTS: &str = "25%";

/// The member of a workload's spec that says how Pods are replaced.
#[derive(Clone, Debug, Default, PartialEq, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub struct Rollout {
    #[serde(rename = "type")]
    kind: Option<String>,
    rolling_update: Option<Rolling>,
}

#[derive(Clone, Debug, Default, PartialEq, Deserialize)]
#[serde(rename_all = "camelCase", default)]
struct Rolling {
    partition: Option<IntOrString>,
    max_unavailable: Option<IntOrString>,
    max_surge: Option<IntOrString>,
}

/// How a spec, of whichever kind, says it.
#[derive(Default, Deserialize)]
#[serde(rename_all = "camelCase", default)]
struct Spec {
    update_strategy: Option<Rollout>,
    strategy: Option<Rollout>,
}

impl Rollout {
    /// What the spec of a workload says.
    ///
    /// # Errors
    /// The text is no such spec.
    pub(super) fn read(spec: &str) -> Result<Self, serde_json::Error> {
        let Spec { update_strategy, strategy } = serde_json::from_str(spec)?;
        Ok(update_strategy.or(strategy).unwrap_or_default())
    }

    /// Pods are replaced when somebody deletes them.
    pub(super) fn is_on_delete(&self) -> bool {
        self.kind.as_deref() == Some("OnDelete")
    }

    /// How many of the Pods stay at the old revision.
    pub(super) fn partition(&self, replicas: i32) -> i32 {
        let partition = self.rolling_update.as_ref().and_then(|rolling| rolling.partition.as_ref());
        partition.and_then(|partition| scaled(partition, replicas, Rounding::Up)).unwrap_or(0)
    }

    /// How many of the Pods may be unavailable during a rollout, as the kind rounds it; `None` where no such number applies.
    pub(super) fn max_unavailable(&self, kind: ChildKind, replicas: i32) -> Option<i32> {
        if self.is_on_delete() || self.kind.as_deref() == Some("Recreate") {
            return None;
        }
        let rolling = self.rolling_update.as_ref();
        let surge = rolling.and_then(|rolling| rolling.max_surge.as_ref());
        let unavailable = rolling.and_then(|rolling| rolling.max_unavailable.as_ref());
        match kind {
            ChildKind::CloneSet => {
                Some(percent::max_unavailable(unavailable, replicas, percent::max_surge(surge, replicas)))
            }
            ChildKind::Deployment => {
                let default = IntOrString::String(SHARE_OF_DEPLOYMENTS.to_owned());
                let number = |value: Option<&IntOrString>, rounding| {
                    scaled(value.unwrap_or(&default), replicas, rounding).unwrap_or(0).max(0)
                };
                let is_stuck = number(surge, Rounding::Up) == 0 && number(unavailable, Rounding::Down) == 0;
                Some(if is_stuck { 1 } else { number(unavailable, Rounding::Down) })
            }
            ChildKind::AdvancedStatefulSet | ChildKind::StatefulSet => None,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn limit(kind: ChildKind, strategy: &str, replicas: i32) -> Option<i32> {
        let spec = format!(r#"{{"{}":{strategy}}}"#, kind.strategy());
        Rollout::read(&spec).unwrap().max_unavailable(kind, replicas)
    }

    #[test]
    fn each_kind_has_its_default_and_its_rounding() {
        let (clones, deployments) = (ChildKind::CloneSet, ChildKind::Deployment);
        assert_eq!((limit(clones, "{}", 11), limit(deployments, "{}", 11)), (Some(3), Some(2)));
        let half = r#"{"rollingUpdate":{"maxUnavailable":"50%"}}"#;
        assert_eq!((limit(clones, half, 5), limit(deployments, half, 5)), (Some(3), Some(2)));
        let surge = r#"{"rollingUpdate":{"maxUnavailable":"50%","maxSurge":1}}"#;
        assert_eq!(limit(clones, surge, 5), Some(2));
        let none = r#"{"rollingUpdate":{"maxUnavailable":0,"maxSurge":0}}"#;
        assert_eq!(limit(deployments, none, 5), Some(1));
        assert_eq!(limit(clones, r#"{"type":"OnDelete"}"#, 5), None);
        assert_eq!(limit(deployments, r#"{"type":"Recreate"}"#, 5), None);
        assert_eq!(limit(ChildKind::StatefulSet, "{}", 5), None);
    }
}
