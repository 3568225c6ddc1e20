//! The kinds of workload that can be simulated.

use anyhow::{anyhow, bail};
use api::features::FeatureGates;
use api::kinds::cloneset::CloneSet;
use api::kinds::statefulset::StatefulSet;
use cluster::files::Object;
use planner::kinds::cloneset::defaulting;
use planner::kinds::cloneset::validation::{self, NamedPod};
use planner::kinds::statefulset;
use planner::simulation::Simulated;
use planner::text::json_patch;
use planner::workload::kind::Workload;

/// The kinds, one line each.
pub(crate) const KINDS: [&str; 2] = [CloneSet::KIND, StatefulSet::KIND];

/// Does something with the type that stands for `kind`; `None` where there is no such kind of workload.
pub(crate) fn with_kind<T: Task>(kind: &str, task: T) -> Option<T::Outcome> {
    match kind {
        CloneSet::KIND => Some(task.run::<CloneSet>()),
        StatefulSet::KIND => Some(task.run::<StatefulSet>()),
        _ => None,
    }
}

/// What is done with a workload of any kind.
pub(crate) trait Task {
    /// What comes of it.
    type Outcome;

    /// Does it for workloads of kind `W`.
    fn run<W: Offline>(self) -> Self::Outcome;
}

/// A kind of workload whose admission needs no cluster.
pub(crate) trait Offline: Simulated {
    /// Defaults and checks an object as admission does. `old` is what is stored before, in the version of the
    /// object.
    fn admit(object: &Object, old: Option<&str>, gates: &FeatureGates) -> anyhow::Result<String>;
}

impl Offline for CloneSet {
    fn admit(object: &Object, old: Option<&str>, gates: &FeatureGates) -> anyhow::Result<String> {
        let version = object.api_version.rsplit('/').next().unwrap_or_default();
        let defaults = defaulting::default(&object.json, old, version, gates)
            .map_err(|denial| anyhow!(denial.message))?;
        let defaulted = json_patch::apply(&object.json, &defaults)?;
        let pod = |_: &str| NamedPod::Missing;
        let context = validation::Context { gates, allow_privileged: true, pod: &pod };
        if let Some(denial) = validation::review(&defaulted, old, &context).denial() {
            bail!(denial.message.clone());
        }
        Ok(defaulted)
    }
}

impl Offline for StatefulSet {
    fn admit(object: &Object, old: Option<&str>, gates: &FeatureGates) -> anyhow::Result<String> {
        let version = object.api_version.rsplit('/').next().unwrap_or_default();
        let defaults = statefulset::defaulting::default(&object.json, old, version, gates)
            .map_err(|denial| anyhow!(denial.message))?;
        let defaulted = json_patch::apply(&object.json, &defaults)?;
        let context =
            statefulset::validation::Context { gates, allow_privileged: true, storage_classes: None };
        if let Some(denial) = statefulset::validation::review(&defaulted, old, &context).denial() {
            bail!(denial.message.clone());
        }
        Ok(defaulted)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    struct Name;

    impl Task for Name {
        type Outcome = &'static str;

        fn run<W: Offline>(self) -> &'static str {
            W::KIND
        }
    }

    #[test]
    fn each_kind_stands_for_its_own_type() {
        for kind in KINDS {
            assert_eq!(with_kind(kind, Name), Some(kind));
        }
        assert_eq!(with_kind("Deployment", Name), None);
    }
}
