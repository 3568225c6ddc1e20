//! What the steps of one plan share: the Nodes, and the Pods of the DaemonSet on each of them.

use std::cmp::Reverse;
use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use api::annotations::DEPRECATED_TEMPLATE_GENERATION;
use api::kinds::daemonset::DaemonSet;
use api::labels::POD_TEMPLATE_GENERATION;
use jiff::Timestamp;

use super::fit::{Fit, Requirements};
use super::settings::Settings;
use crate::workload::member::{Member, MemberRules};
use crate::workload::new_pod::NewToleration;
use crate::workload::revision::{RevisionData, StoredRevision};
use crate::workload::snapshot::Snapshot;
use crate::workload::start::Start;
use pod::inplace::Rules;
use pod::node_fit::NodeFacts;
use pod::observed::ObservedPod;
use pod::revision_labels::RevisionLabels;
use values::moment::Moment;

/// A Pod of the DaemonSet.
#[derive(Clone, Debug)]
pub(super) struct DaemonPod<'a> {
    pub(super) member: Member<'a>,
    /// At the present template, by its revision or by the generation of the template that very old releases counted.
    pub(super) is_new: bool,
    /// At another revision that records the present template.
    pub(super) is_twin: bool,
}

impl<'a> DaemonPod<'a> {
    pub(super) fn pod(&self) -> &'a Arc<ObservedPod> {
        self.member.pod
    }

    pub(super) fn name(&self) -> &'a str {
        self.member.name()
    }

    pub(super) fn is_terminating(&self) -> bool {
        self.pod().metadata.deletion_timestamp.is_some()
    }

    pub(super) fn has_failed(&self) -> bool {
        &*self.pod().status.phase == "Failed"
    }
}

/// A Node, and the Pods on it and for it.
#[derive(Clone, Debug)]
pub(super) struct NodeSlot<'a> {
    pub(super) fit: Fit,
    /// The rolling selector matches the Node, or there is none.
    pub(super) is_selected: bool,
    /// Bound ones first, then the oldest, then by name; those that end are among them.
    pub(super) pods: Vec<DaemonPod<'a>>,
}

impl<'a> NodeSlot<'a> {
    /// The Pods that do not end.
    pub(super) fn alive(&self) -> impl Iterator<Item = &DaemonPod<'a>> {
        self.pods.iter().filter(|pod| !pod.is_terminating())
    }

    /// The one Pod at the present template and the one at an older one, of those that do not end; `None` where there
    /// are two of a sort.
    pub(super) fn pair(&self) -> Option<Pair<'_, 'a>> {
        let mut pair = Pair { new: None, old: None };
        for pod in self.alive() {
            let side = if pod.is_new { &mut pair.new } else { &mut pair.old };
            if side.replace(pod).is_some() {
                return None;
            }
        }
        Some(pair)
    }
}

/// The Pods of a Node.
#[derive(Clone, Copy, Debug)]
pub(super) struct Pair<'p, 'a> {
    pub(super) new: Option<&'p DaemonPod<'a>>,
    pub(super) old: Option<&'p DaemonPod<'a>>,
}

/// What the steps of one plan share.
pub(super) struct Working<'a> {
    pub(super) snapshot: &'a Snapshot<'a, DaemonSet>,
    pub(super) now: Timestamp,
    pub(super) moment: Moment,
    pub(super) rules: Rules,
    pub(super) settings: Settings,
    pub(super) history: Vec<&'a StoredRevision>,
    pub(super) update: &'a StoredRevision,
    /// The Nodes that suit the template, and those with a Pod, by name.
    pub(super) slots: BTreeMap<&'a str, NodeSlot<'a>>,
    /// Pods that are for Nodes that do not exist, and on none.
    pub(super) lost: Vec<DaemonPod<'a>>,
    /// Pods that the selector does not match any more.
    pub(super) strangers: Vec<&'a Arc<ObservedPod>>,
    /// Pods without an owner that the selector matches.
    pub(super) adoptable: Vec<&'a Arc<ObservedPod>>,
    /// The Nodes of these.
    pub(super) awaited: BTreeSet<&'a str>,
    /// What Pods tolerate beside what the template says.
    pub(super) tolerations: Vec<NewToleration<'static>>,
    /// The generation of the template that very old releases counted.
    pub(super) template_generation: Option<&'a str>,
}

impl<'a> Working<'a> {
    pub(super) fn new(
        snapshot: &'a Snapshot<'a, DaemonSet>,
        Start { selector, history, update, .. }: Start<'a>,
        requirements: &Requirements,
        moment: Moment,
    ) -> Self {
        let set = snapshot.workload;
        let fits = snapshot.nodes.iter().map(|(name, node)| (&**name, node, requirements.fit(name, node)));
        let suitable: Vec<_> = fits.filter(|(_, _, fit)| fit.should_run).collect();
        let settings = Settings::of(&set.spec, suitable.len());
        let slot = |node: &NodeFacts, fit| {
            let selector = settings.selector.as_ref();
            let is_selected = selector.is_none_or(|selector| selector.matches(&node.labels));
            NodeSlot { fit, is_selected, pods: Vec::new() }
        };
        let suitable = suitable.into_iter();
        let mut slots: BTreeMap<&str, NodeSlot<'_>> =
            suitable.map(|(name, node, fit)| (name, slot(node, fit))).collect();
        let rules = Rules::daemon_set(snapshot.gates, snapshot.environment.server);
        let member_rules = MemberRules {
            update_revision: update.name(),
            labels: rules.labels,
            named: Default::default(),
            min_ready_seconds: settings.min_ready_seconds,
            now: moment.now,
        };
        let template_generation = set.metadata.annotations.get(DEPRECATED_TEMPLATE_GENERATION);
        let template_generation =
            template_generation.map(String::as_str).filter(|generation| generation.parse::<i64>().is_ok());
        let uid = set.metadata.uid.as_str();
        let twins = twins(snapshot, &history, update, rules.labels);
        let (mut lost, mut strangers) = (Vec::new(), Vec::new());
        for pod in snapshot.pods.iter().filter(|pod| pod.controller().is_some_and(|owner| owner.uid == uid)) {
            if !selector.matches(&pod.metadata.labels) {
                strangers.push(pod);
                continue;
            }
            let mut member = Member::new(pod, &member_rules);
            // The label asks other workloads to delete a Pod.
            member.is_specified = false;
            let counted =
                template_generation.is_some() && pod.label(POD_TEMPLATE_GENERATION) == template_generation;
            let is_twin = twins.iter().any(|twin| rules.labels.is_at(pod, twin));
            member.is_updated |= is_twin;
            let pod = DaemonPod { is_new: member.is_updated || counted, is_twin, member };
            match pod.pod().spec.node().and_then(|node| snapshot.nodes.get_key_value(node)) {
                Some((name, node)) => {
                    let misplaced = || slot(node, requirements.fit(name, node));
                    slots.entry(&**name).or_insert_with(misplaced).pods.push(pod);
                }
                None if pod.pod().spec.node_name.is_empty() && pod.pod().spec.node().is_some() => {
                    lost.push(pod);
                }
                // Bound to a Node that is gone: its Pods are cleared away by Kubernetes. Or for no Node at all.
                None => {}
            }
        }
        for slot in slots.values_mut() {
            slot.pods.sort_by(|one, other| rank(one).cmp(&rank(other)));
        }
        lost.sort_by(|one, other| one.name().cmp(other.name()));
        strangers.sort_by(|one, other| one.metadata.name.cmp(&other.metadata.name));
        let is_free = |pod: &&Arc<ObservedPod>| {
            pod.controller().is_none()
                && pod.metadata.deletion_timestamp.is_none()
                && pod.is_active()
                && selector.matches(&pod.metadata.labels)
        };
        let mut adoptable: Vec<_> = snapshot.orphans.iter().filter(is_free).collect();
        adoptable.sort_by(|one, other| one.metadata.name.cmp(&other.metadata.name));
        Self {
            snapshot,
            now: moment.now,
            moment,
            rules,
            settings,
            history,
            update,
            slots,
            lost,
            strangers,
            awaited: adoptable.iter().filter_map(|pod| pod.spec.node()).collect(),
            adoptable,
            tolerations: requirements.tolerations(),
            template_generation,
        }
    }

    pub(super) fn set(&self) -> &'a DaemonSet {
        self.snapshot.workload
    }

    /// The Pod is at the present revision by its label, which alone tells the Pods of a surge apart.
    pub(super) fn is_at_hash(&self, pod: &DaemonPod<'_>) -> bool {
        pod.is_twin || self.rules.labels.is_at(pod.pod(), self.update.name())
    }

    /// How many Nodes are to have a Pod.
    pub(super) fn desired(&self) -> usize {
        self.slots.values().filter(|slot| slot.fit.should_run).count()
    }

    /// All Pods on Nodes that exist.
    pub(super) fn pods(&self) -> impl Iterator<Item = &DaemonPod<'a>> {
        self.slots.values().flat_map(|slot| &slot.pods)
    }
}

/// The revisions of Pods that record the same template as the present one: whoever managed the DaemonSet before may
/// have left several.
fn twins<'a>(
    snapshot: &Snapshot<'_, DaemonSet>,
    history: &[&'a StoredRevision],
    update: &StoredRevision,
    labels: RevisionLabels,
) -> Vec<&'a str> {
    let is_used = |name: &str| snapshot.pods.iter().any(|pod| labels.is_at(pod, name));
    let others = history.iter().filter(|other| other.name() != update.name() && is_used(other.name()));
    let others: Vec<&&StoredRevision> = others.collect();
    let template = snapshot.workload.spec.template.as_ref().filter(|_| !others.is_empty());
    let data = template.and_then(|template| RevisionData::of_template(template.get()).ok());
    let same = |data: RevisionData| {
        let twins = others.iter().filter(|other| data.means_the_same_as(other));
        twins.map(|twin| twin.name()).collect()
    };
    data.map(same).unwrap_or_default()
}

/// Which of the Pods of a Node comes first.
fn rank<'a>(pod: &DaemonPod<'a>) -> (Reverse<bool>, Timestamp, &'a str) {
    let pod = pod.pod();
    let created = pod.metadata.created().unwrap_or(Timestamp::MAX);
    (Reverse(!pod.spec.node_name.is_empty()), created, &pod.metadata.name)
}
