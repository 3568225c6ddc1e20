//! The kinds of workload that can be simulated.

use anyhow::{anyhow, bail};
use api::features::FeatureGates;
use api::kinds::broadcastjob::BroadcastJob;
use api::kinds::cloneset::CloneSet;
use api::kinds::daemonset::DaemonSet;
use api::kinds::statefulset::StatefulSet;
use informers::files::Object;
use kinds::cloneset::validation::NamedPod;
use kinds::workload::kind::Workload;
use kinds::{broadcastjob, cloneset, daemonset, statefulset};
use simulator::Simulated;
use values::json_patch;
use values::verdict::Verdict;

/// The kinds, one line each.
pub(crate) const KINDS: [&str; 4] = [CloneSet::KIND, StatefulSet::KIND, DaemonSet::KIND, BroadcastJob::KIND];

/// Does something with the type of `kind`; `None` where there is no such kind of workload.
pub(crate) fn with_kind<T: Task>(kind: &str, task: T) -> Option<T::Outcome> {
    match kind {
        CloneSet::KIND => Some(task.run::<CloneSet>()),
        StatefulSet::KIND => Some(task.run::<StatefulSet>()),
        DaemonSet::KIND => Some(task.run::<DaemonSet>()),
        BroadcastJob::KIND => Some(task.run::<BroadcastJob>()),
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
    /// Checks an object that has its defaults. `old` is what is stored before.
    fn review(defaulted: &str, old: Option<&str>, gates: &FeatureGates) -> Verdict;

    /// Defaults and checks an object as admission does. `old` is what is stored before, in the version of the
    /// object.
    fn admit(object: &Object, old: Option<&str>, gates: &FeatureGates) -> anyhow::Result<String> {
        let version = api::group_and_version(&object.api_version).1;
        let defaults = Self::defaults(&object.json, old, version, gates);
        let defaulted =
            json_patch::apply(&object.json, &defaults.map_err(|denial| anyhow!(denial.message))?)?;
        match Self::review(&defaulted, old, gates).denial() {
            Some(denial) => bail!(denial.message.clone()),
            None => Ok(defaulted),
        }
    }
}

impl Offline for CloneSet {
    fn review(defaulted: &str, old: Option<&str>, gates: &FeatureGates) -> Verdict {
        let pod = |_: &str| NamedPod::Missing;
        let context = cloneset::validation::Context { gates, allow_privileged: true, pod: &pod };
        cloneset::validation::review(defaulted, old, &context)
    }
}

impl Offline for StatefulSet {
    fn review(defaulted: &str, old: Option<&str>, gates: &FeatureGates) -> Verdict {
        let context =
            statefulset::validation::Context { gates, allow_privileged: true, storage_classes: None };
        statefulset::validation::review(defaulted, old, &context)
    }
}

impl Offline for DaemonSet {
    fn review(defaulted: &str, old: Option<&str>, gates: &FeatureGates) -> Verdict {
        let context = daemonset::validation::Context { gates, allow_privileged: true };
        daemonset::validation::review(defaulted, old, &context)
    }
}

impl Offline for BroadcastJob {
    fn review(defaulted: &str, old: Option<&str>, gates: &FeatureGates) -> Verdict {
        let context = broadcastjob::validation::Context { gates, allow_privileged: true };
        broadcastjob::validation::review(defaulted, old, &context)
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
