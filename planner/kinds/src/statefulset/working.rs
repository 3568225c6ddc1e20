//! What the steps of one plan share: the slots of the StatefulSet, and the Pods in them and beside them.

use std::collections::BTreeMap;
use std::sync::Arc;

use api::features::Feature;
use api::kinds::statefulset::StatefulSet;
use jiff::Timestamp;

use super::claims::Claims;
use super::identity::{ordinal_of, pod_name};
use super::settings::Settings;
use crate::workload::broken_pod::is_broken;
use crate::workload::member::{Member, MemberRules};
use crate::workload::recipe::Cookbook;
use crate::workload::revision::StoredRevision;
use crate::workload::snapshot::Snapshot;
use crate::workload::start::Start;
use pod::inplace::{self, Rules};
use pod::lifecycle::State;
use pod::observed::ObservedPod;

/// As many Pods are created by one plan at most, which holds the JSON of each; their creation leads to the next.
const BURST: usize = 500;

/// A Pod of the StatefulSet.
#[derive(Clone, Debug)]
pub(super) struct Numbered<'a> {
    pub(super) ordinal: i32,
    pub(super) member: Member<'a>,
}

impl<'a> Numbered<'a> {
    pub(super) fn pod(&self) -> &'a Arc<ObservedPod> {
        self.member.pod
    }

    pub(super) fn name(&self) -> &'a str {
        self.member.name()
    }

    pub(super) fn is_terminating(&self) -> bool {
        self.pod().metadata.deletion_timestamp.is_some()
    }

    /// It ran, and runs no more.
    pub(super) fn has_ended(&self) -> bool {
        matches!(&*self.pod().status.phase, "Failed" | "Succeeded")
    }

    /// Its update or deletion has begun and waits for a hook: nothing but that makes it available again.
    pub(super) fn prepares(&self) -> bool {
        matches!(self.member.state, Some(State::PreparingUpdate | State::PreparingDelete))
    }

    /// It serves and does not go.
    pub(super) fn is_healthy(&self) -> bool {
        self.member.is_serving && !self.is_terminating()
    }
}

/// What is in a slot.
#[derive(Clone, Debug)]
pub(super) enum Content<'a> {
    /// A Pod of the StatefulSet.
    Pod(Numbered<'a>),
    /// A Pod that belongs to nobody has the name.
    Orphan(&'a Arc<ObservedPod>),
    /// A Pod is missing.
    Nothing,
}

/// A place for a Pod.
#[derive(Clone, Debug)]
pub(super) struct Slot<'a> {
    pub(super) ordinal: i32,
    pub(super) content: Content<'a>,
}

/// What the steps of one plan share.
pub(super) struct Working<'a> {
    pub(super) snapshot: &'a Snapshot<'a, StatefulSet>,
    pub(super) now: Timestamp,
    pub(super) rules: Rules,
    pub(super) settings: Settings,
    pub(super) history: Vec<&'a StoredRevision>,
    pub(super) current: &'a StoredRevision,
    pub(super) update: &'a StoredRevision,
    /// The slots by ordinal: all with a Pod, and the first ones without.
    pub(super) slots: Vec<Slot<'a>>,
    /// Pods that are too many, the highest ordinal first.
    pub(super) condemned: Vec<Numbered<'a>>,
    /// Slots without a Pod, those that are not listed among them.
    pub(super) missing: i64,
    /// Pods without an owner that the StatefulSet can adopt.
    pub(super) adoptable: Vec<&'a Arc<ObservedPod>>,
    /// Pods that do not belong to it any more.
    pub(super) strangers: Vec<&'a Arc<ObservedPod>>,
    pub(super) claims: Claims<'a>,
}

impl<'a> Working<'a> {
    pub(super) fn new(
        snapshot: &'a Snapshot<'a, StatefulSet>,
        Start { selector, history, current, update }: Start<'a>,
        claims: Claims<'a>,
        now: Timestamp,
    ) -> Self {
        let set = snapshot.workload;
        let settings = Settings::of(&set.spec, snapshot.gates);
        let rules = Rules::stateful_set(snapshot.gates, snapshot.environment.server);
        let member_rules = MemberRules {
            update_revision: update.name(),
            labels: rules.labels,
            named: Default::default(),
            min_ready_seconds: settings.min_ready_seconds,
            now,
        };
        let uid = set.metadata.uid.as_str();
        let (mut pods, mut strangers) = (BTreeMap::new(), Vec::new());
        let controlled = |pod: &&Arc<ObservedPod>| pod.controller().is_some_and(|owner| owner.uid == uid);
        for pod in snapshot.pods.iter().filter(controlled) {
            let matches = selector.matches(&pod.metadata.labels);
            match ordinal_of(&set.metadata.name, &pod.metadata.name) {
                Some(ordinal) if matches => {
                    pods.insert(ordinal, Numbered { ordinal, member: Member::new(pod, &member_rules) });
                }
                // A name with an ordinal that is none: it stays, and is left alone.
                None if matches && has_digits(&set.metadata.name, &pod.metadata.name) => {}
                _ => strangers.push(pod),
            }
        }
        strangers.sort_by(|one, other| one.metadata.name.cmp(&other.metadata.name));
        let mut orphans = BTreeMap::new();
        // A Pod that is let go keeps its name.
        for pod in strangers.iter().copied().chain(snapshot.orphans) {
            if let Some(ordinal) = ordinal_of(&set.metadata.name, &pod.metadata.name)
                && !pods.contains_key(&ordinal)
            {
                orphans.insert(ordinal, pod);
            }
        }
        let adoptable = orphans.values().copied().filter(|pod| {
            let is_free = pod.controller().is_none() && pod.metadata.deletion_timestamp.is_none();
            is_free && selector.matches(&pod.metadata.labels)
        });
        let adoptable = adoptable.collect();
        let (slots, missing) = slots(&settings, &pods, &orphans);
        let condemned = pods.into_values().rev().filter(|pod| !settings.ordinals.contains(pod.ordinal));
        let condemned = condemned.collect();
        Self {
            snapshot,
            now,
            rules,
            settings,
            history,
            current,
            update,
            slots,
            condemned,
            missing,
            adoptable,
            strangers,
            claims,
        }
    }

    pub(super) fn set(&self) -> &'a StatefulSet {
        self.snapshot.workload
    }

    /// What Pods of each revision are made from.
    pub(super) fn cookbook(&self) -> Cookbook<'_> {
        let spec = &self.set().spec;
        let present = (spec.template.as_ref(), spec.volume_claim_templates.as_ref());
        Cookbook::new(self.snapshot, self.update.name(), present, self.rules.labels)
    }

    /// The Pods in slots, the lowest ordinal first.
    pub(super) fn placed(&self) -> impl DoubleEndedIterator<Item = &Numbered<'a>> {
        self.slots.iter().filter_map(|slot| match &slot.content {
            Content::Pod(pod) => Some(pod),
            Content::Orphan(_) | Content::Nothing => None,
        })
    }

    /// All Pods.
    pub(super) fn pods(&self) -> impl Iterator<Item = &Numbered<'a>> {
        self.placed().chain(&self.condemned)
    }

    /// At the update revision, where the order of an update without order asks: names of revisions are compared by
    /// their hashes, and the gate counts Pods that prepare.
    pub(super) fn counts_as_updated(&self, pod: &Numbered<'_>) -> bool {
        let labels = pod::revision_labels::RevisionLabels::CloneSet { short: false };
        let prepared = self.snapshot.gates.enabled(Feature::PreparingUpdateAsUpdate);
        labels.is_at(pod.pod(), self.update.name())
            || (prepared && pod.member.state == Some(State::PreparingUpdate))
    }

    /// The Pod does not serve, or is being updated.
    pub(super) fn is_down(&self, pod: &Numbered<'_>) -> bool {
        !pod.is_healthy() || !pod.member.is_available || inplace::completed(pod.pod(), &self.rules).is_err()
    }

    /// The Pod counts as unavailable in an update.
    pub(super) fn is_unavailable(&self, pod: &Numbered<'_>) -> bool {
        self.is_down(pod) || self.waits_for_claims(pod)
    }

    /// The Pod serves at an older revision, and only `minReadySeconds` make it unavailable.
    pub(super) fn is_waiting(&self, pod: &Numbered<'_>) -> bool {
        let Member { is_updated, is_serving, is_available, .. } = pod.member;
        let is_stable = pod.is_healthy() && inplace::completed(pod.pod(), &self.rules).is_ok();
        is_serving && !is_available && !is_updated && is_stable && !self.waits_for_claims(pod)
    }

    /// The update heals the Pod: it serves nobody, and does not come to it by itself at its revision.
    pub(super) fn is_healed(&self, pod: &Numbered<'_>) -> bool {
        !pod.member.is_updated && !pod.is_terminating() && is_broken(pod.pod())
    }

    fn waits_for_claims(&self, pod: &Numbered<'_>) -> bool {
        let fit = self.claims.fit(pod.ordinal);
        // A claim of another shape never becomes ready by itself.
        self.settings.resizes_claims && fit.same_shape && !fit.ready
    }
}

/// A name with only digits behind that of the StatefulSet.
fn has_digits(set: &str, pod: &str) -> bool {
    let digits = pod.strip_prefix(set).and_then(|rest| rest.strip_prefix('-'));
    digits.is_some_and(|digits| !digits.is_empty() && digits.bytes().all(|byte| byte.is_ascii_digit()))
}

/// The slots that are listed, and how many have no Pod in all.
fn slots<'a>(
    settings: &Settings,
    pods: &BTreeMap<i32, Numbered<'a>>,
    orphans: &BTreeMap<i32, &'a Arc<ObservedPod>>,
) -> (Vec<Slot<'a>>, i64) {
    let ordinals = &settings.ordinals;
    let inside = |ordinal: &&i32| ordinals.contains(**ordinal);
    let present = pods.keys().filter(inside).count();
    let taken = present + orphans.keys().filter(inside).count();
    let content = |ordinal: i32| {
        let pod = pods.get(&ordinal).cloned().map(Content::Pod);
        let orphan = || orphans.get(&ordinal).map(|pod| Content::Orphan(pod));
        pod.or_else(orphan).unwrap_or(Content::Nothing)
    };
    // The first slots, and those with Pods behind them.
    let first: Vec<i32> = ordinals.iter().take(taken.saturating_add(BURST)).collect();
    let behind = first.last().copied();
    let later = pods.keys().chain(orphans.keys()).filter(inside).copied();
    let mut listed: Vec<i32> = later.filter(|ordinal| behind.is_some_and(|last| *ordinal > last)).collect();
    listed.sort_unstable();
    let all = first.into_iter().chain(listed);
    let slots = all.map(|ordinal| Slot { ordinal, content: content(ordinal) }).collect();
    let missing = settings.replicas.saturating_sub(i64::try_from(present).unwrap_or(i64::MAX));
    (slots, missing)
}

/// The name of the Pod of a slot.
pub(super) fn slot_name(working: &Working<'_>, slot: &Slot<'_>) -> String {
    pod_name(&working.set().metadata.name, slot.ordinal)
}
