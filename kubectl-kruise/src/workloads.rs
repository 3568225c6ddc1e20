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
use values::json_patch::{self, Patch};
use values::verdict::{Denial, Verdict};

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
    /// Defaults and checks an object as admission does. `old` is what is stored before, in the version of the
    /// object.
    fn admit(object: &Object, old: Option<&str>, gates: &FeatureGates) -> anyhow::Result<String>;
}

impl Offline for CloneSet {
    fn admit(object: &Object, old: Option<&str>, gates: &FeatureGates) -> anyhow::Result<String> {
        let defaults = cloneset::defaulting::default(&object.json, old, version(object), gates);
        let pod = |_: &str| NamedPod::Missing;
        let context = cloneset::validation::Context { gates, allow_privileged: true, pod: &pod };
        admitted(object, defaults, |defaulted| cloneset::validation::review(defaulted, old, &context))
    }
}

impl Offline for StatefulSet {
    fn admit(object: &Object, old: Option<&str>, gates: &FeatureGates) -> anyhow::Result<String> {
        let defaults = statefulset::defaulting::default(&object.json, old, version(object), gates);
        let context =
            statefulset::validation::Context { gates, allow_privileged: true, storage_classes: None };
        admitted(object, defaults, |defaulted| statefulset::validation::review(defaulted, old, &context))
    }
}

impl Offline for DaemonSet {
    fn admit(object: &Object, old: Option<&str>, gates: &FeatureGates) -> anyhow::Result<String> {
        let defaults = daemonset::defaulting::default(&object.json, old, version(object));
        let context = daemonset::validation::Context { gates, allow_privileged: true };
        admitted(object, defaults, |defaulted| daemonset::validation::review(defaulted, old, &context))
    }
}

impl Offline for BroadcastJob {
    fn admit(object: &Object, old: Option<&str>, gates: &FeatureGates) -> anyhow::Result<String> {
        let defaults = broadcastjob::defaulting::default(&object.json, old, version(object), gates);
        let context = broadcastjob::validation::Context { gates, allow_privileged: true };
        admitted(object, defaults, |defaulted| broadcastjob::validation::review(defaulted, old, &context))
    }
}

fn version(object: &Object) -> &str {
    api::group_and_version(&object.api_version).1
}

/// The object with its defaults, if it is not refused.
fn admitted(
    object: &Object,
    defaults: Result<Patch, Denial>,
    review: impl FnOnce(&str) -> Verdict,
) -> anyhow::Result<String> {
    let defaults = defaults.map_err(|denial| anyhow!(denial.message))?;
    let defaulted = json_patch::apply(&object.json, &defaults)?;
    if let Some(denial) = review(&defaulted).denial() {
        bail!(denial.message.clone());
    }
    Ok(defaulted)
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
