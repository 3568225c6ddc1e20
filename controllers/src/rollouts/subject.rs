//! The kinds whose objects are planned for: how each is planned, and which changes concern it.

use std::time::Duration;

use api::annotations::DAEMONSET_ADVANCED_CONTROL;
use api::kinds::rollout::{ConditionType, Phase, Rollout, WorkloadRef};
use api::kinds::{batchrelease, rollout, trafficrouting};
use api::labels::CONTROLLED_BY_ADVANCED_DEPLOYMENT;
use cluster::resource::Resource;
use cluster::watched::Key;
use rollouts::object::{Object as _, ObjectName};
use rollouts::plan::Plan;
use rollouts::rollout::measures;
use rollouts::view::{Unread, View};
use rollouts::{batch_release, daemonset, deployment, history, traffic_routing};
use serde::Serialize;
use serde::de::DeserializeOwned;
use serde_json::Value;
use values::event::Event;
use values::moment::Moment;

use super::held::{Held, of_routing, of_workload};
use super::kinds::{BATCH_RELEASES, ROLLOUTS, TRAFFIC_ROUTINGS};
use super::known::{Known, Settings};
use super::lists::News;
use crate::workload::store::{Change, Kept};

const DEPLOYMENTS: Resource<'_> = Resource::new("apps/v1", "deployments", "Deployment");
const DAEMON_SETS: Resource<'_> = Resource::new("apps/v1", "daemonsets", "DaemonSet");

/// How often a Deployment is looked at while a release holds it: nothing tells that the webhook is gone that guards it.
const GUARDED: Duration = Duration::from_secs(30);

/// A kind whose objects are planned for.
pub(super) trait Subject: Send + Sync + 'static {
    /// An object.
    type Object: DeserializeOwned + Send + Sync;
    /// Its status, where we write it.
    type Status: Serialize + Clone + PartialEq + Send + Sync;
    /// The name of the controller.
    const CONTROLLER: &'static str;
    /// The kind.
    const KIND: Resource<'static>;
    /// Its plans read Pods.
    const READS_PODS: bool = true;
    /// When to look again at an object that is running, where its plan does not say.
    const AGAIN: Option<Duration> = None;

    /// How many objects are reconciled at a time.
    fn workers(settings: &crate::Settings) -> usize;

    /// What to do about an object; `None` where it is none of ours.
    fn plan(
        object: &Self::Object,
        view: &View,
        settings: &Settings,
        moment: &Moment,
    ) -> Result<Option<Plan<Self::Status>>, Unread>;

    /// The status of an object.
    fn status(object: &Self::Object) -> &Self::Status;

    /// A release is running: more than what is to be seen of the object at rest is kept current.
    fn is_running(object: &Self::Object) -> bool;

    /// The workload that an object names, and whose changes concern it.
    fn workload(_object: &Self::Object) -> Option<&WorkloadRef> {
        None
    }

    /// Whether a status says more than the one before than how many there are.
    fn is_urgent(_before: &Self::Status, _after: &Self::Status) -> bool {
        true
    }

    /// The state whose duration is measured.
    fn state(_status: &Self::Status) -> Option<(i32, &'static str)> {
        None
    }

    /// What has ended between two statuses, and how.
    fn result(_before: &Self::Status, _after: &Self::Status) -> Option<&'static str> {
        None
    }

    /// Says in a status why nothing could be done.
    fn explain(_status: &mut Self::Status, _problem: String) {}

    /// What to report where an object could not be created.
    fn not_created(_name: &ObjectName, _problem: &str) -> Option<Event> {
        None
    }

    /// The objects that a change concerns, of those that do not read its list.
    fn concerned(known: &Known, news: &News) -> Vec<Key>;
}

/// Rollouts.
pub(super) struct Rollouts;
/// BatchReleases.
pub(super) struct BatchReleases;
/// TrafficRoutings.
pub(super) struct TrafficRoutings;
/// The RolloutHistories of Rollouts.
pub(super) struct Histories;
/// Deployments that releases hold.
pub(super) struct Deployments;
/// DaemonSets of Kubernetes that releases hold.
pub(super) struct DaemonSets;

impl Subject for Rollouts {
    type Object = Rollout;
    type Status = rollout::Status;
    const CONTROLLER: &'static str = "rollout-controller";
    const KIND: Resource<'static> = ROLLOUTS;

    fn workers(settings: &crate::Settings) -> usize {
        settings.rollout_workers
    }

    fn plan(
        rollout: &Rollout,
        view: &View,
        settings: &Settings,
        moment: &Moment,
    ) -> Result<Option<Plan<rollout::Status>>, Unread> {
        rollouts::rollout::plan(rollout, view, &settings.rollout, moment).map(Some)
    }

    fn status(rollout: &Rollout) -> &rollout::Status {
        &rollout.status
    }

    fn is_running(rollout: &Rollout) -> bool {
        rollout.status.phase.is_releasing()
    }

    fn workload(rollout: &Rollout) -> Option<&WorkloadRef> {
        let is_off = rollout.spec.disabled && rollout.status.phase == Phase::Disabled;
        (!is_off).then_some(&rollout.spec.workload_ref)
    }

    fn is_urgent(before: &rollout::Status, after: &rollout::Status) -> bool {
        rollouts::rollout::is_urgent(before, after)
    }

    fn state(status: &rollout::Status) -> Option<(i32, &'static str)> {
        measures::step_state(status)
    }

    fn result(before: &rollout::Status, after: &rollout::Status) -> Option<&'static str> {
        measures::result(before, after)
    }

    fn explain(status: &mut rollout::Status, problem: String) {
        status.message = problem;
    }

    fn concerned(known: &Known, news: &News) -> Vec<Key> {
        if news.is_of(TRAFFIC_ROUTINGS.api_version, TRAFFIC_ROUTINGS.kind) {
            let name = news.key().map(|(namespace, name)| of_routing(&namespace, &name));
            return name.map(|name| found(known, &ROLLOUTS, &name)).unwrap_or_default();
        }
        // A BatchRelease has the name of its Rollout.
        let has_its_name =
            [ROLLOUTS, BATCH_RELEASES].iter().any(|kind| news.is_of(kind.api_version, kind.kind));
        if has_its_name {
            return news.key().into_iter().collect();
        }
        let mut rollouts = by_workload(known, &ROLLOUTS, news);
        rollouts.retain(|key| {
            let is_at_rest = |rollout: Value| matches!(rollout.text("/status/phase"), "Healthy" | "Disabled");
            let rollout = known.own(&ROLLOUTS).and_then(|stored| stored.get(key));
            !rollout.is_some_and(|held| is_at_rest(held.value())) || is_no_count(&news.change)
        });
        rollouts
    }
}

impl Subject for BatchReleases {
    type Object = batchrelease::BatchRelease;
    type Status = batchrelease::Status;
    const CONTROLLER: &'static str = "batchrelease-controller";
    const KIND: Resource<'static> = BATCH_RELEASES;

    fn workers(settings: &crate::Settings) -> usize {
        settings.batchrelease_workers
    }

    fn plan(
        release: &batchrelease::BatchRelease,
        view: &View,
        settings: &Settings,
        moment: &Moment,
    ) -> Result<Option<Plan<batchrelease::Status>>, Unread> {
        batch_release::plan(release, view, &settings.rollout, moment).map(Some)
    }

    fn status(release: &batchrelease::BatchRelease) -> &batchrelease::Status {
        &release.status
    }

    fn is_running(release: &batchrelease::BatchRelease) -> bool {
        release.status.phase != batchrelease::Phase::Completed
    }

    fn workload(release: &batchrelease::BatchRelease) -> Option<&WorkloadRef> {
        release.spec.workload_ref.as_ref()
    }

    fn is_urgent(before: &batchrelease::Status, after: &batchrelease::Status) -> bool {
        let without_counts = |status: &batchrelease::Status| {
            let mut status = status.clone();
            status.message.clear();
            if let Some(batch) = &mut status.canary_status {
                (batch.updated_replicas, batch.updated_ready_replicas) = (0, 0);
            }
            status
        };
        without_counts(before) != without_counts(after)
    }

    fn explain(status: &mut batchrelease::Status, problem: String) {
        status.message = problem;
    }

    fn concerned(known: &Known, news: &News) -> Vec<Key> {
        if news.is_of(BATCH_RELEASES.api_version, BATCH_RELEASES.kind) {
            return news.key().into_iter().collect();
        }
        by_workload(known, &BATCH_RELEASES, news)
    }
}

impl Subject for TrafficRoutings {
    type Object = trafficrouting::TrafficRouting;
    type Status = trafficrouting::Status;
    const CONTROLLER: &'static str = "trafficrouting-controller";
    const KIND: Resource<'static> = TRAFFIC_ROUTINGS;
    const READS_PODS: bool = false;

    fn workers(settings: &crate::Settings) -> usize {
        settings.trafficrouting_workers
    }

    fn plan(
        routing: &trafficrouting::TrafficRouting,
        view: &View,
        settings: &Settings,
        moment: &Moment,
    ) -> Result<Option<Plan<trafficrouting::Status>>, Unread> {
        traffic_routing::plan(routing, view, &settings.rollout.namespace, moment).map(Some)
    }

    fn status(routing: &trafficrouting::TrafficRouting) -> &trafficrouting::Status {
        &routing.status
    }

    fn is_running(_routing: &trafficrouting::TrafficRouting) -> bool {
        false
    }

    fn explain(status: &mut trafficrouting::Status, problem: String) {
        status.message = problem;
    }

    fn concerned(_known: &Known, news: &News) -> Vec<Key> {
        let is_own = news.is_of(TRAFFIC_ROUTINGS.api_version, TRAFFIC_ROUTINGS.kind);
        news.key().into_iter().filter(|_| is_own).collect()
    }
}

impl Subject for Histories {
    type Object = Rollout;
    type Status = ();
    const CONTROLLER: &'static str = "rollouthistory-controller";
    const KIND: Resource<'static> = ROLLOUTS;
    const READS_PODS: bool = false;

    fn workers(settings: &crate::Settings) -> usize {
        settings.rollouthistory_workers
    }

    fn plan(
        rollout: &Rollout,
        view: &View,
        _settings: &Settings,
        moment: &Moment,
    ) -> Result<Option<Plan<()>>, Unread> {
        history::plan(rollout, view, moment).map(Some)
    }

    fn status(_rollout: &Rollout) -> &() {
        &()
    }

    fn is_running(_rollout: &Rollout) -> bool {
        false
    }

    fn concerned(_known: &Known, news: &News) -> Vec<Key> {
        let release = |held: &Held| {
            let rollout: Rollout = serde_json::from_str(held.json()).ok()?;
            let reason = rollout.status.condition(&ConditionType::Progressing)?.reason.clone();
            let id = rollout.status.canary_status.as_ref().map(|release| release.observed_rollout_id.clone());
            Some((rollout.status.phase, reason, id))
        };
        let is_news = |Change { old, new }: &Change<Held>| {
            new.as_ref().is_some_and(|new| old.as_deref().and_then(release) != release(new))
        };
        let is_own = news.is_of(ROLLOUTS.api_version, ROLLOUTS.kind);
        news.key().into_iter().filter(|_| is_own && is_news(&news.change)).collect()
    }
}

impl Subject for Deployments {
    type Object = Value;
    type Status = ();
    const CONTROLLER: &'static str = "advanced-deployment-controller";
    const KIND: Resource<'static> = DEPLOYMENTS;
    const READS_PODS: bool = false;
    const AGAIN: Option<Duration> = Some(GUARDED);

    fn workers(settings: &crate::Settings) -> usize {
        settings.deployment_workers
    }

    fn plan(
        deployment: &Value,
        view: &View,
        settings: &Settings,
        _moment: &Moment,
    ) -> Result<Option<Plan<()>>, Unread> {
        deployment::plan(deployment, view, &settings.deployment)
    }

    fn status(_deployment: &Value) -> &() {
        &()
    }

    fn is_running(deployment: &Value) -> bool {
        deployment.label(CONTROLLED_BY_ADVANCED_DEPLOYMENT) == Some("true")
    }

    fn not_created(name: &ObjectName, problem: &str) -> Option<Event> {
        Some(deployment::create_failed(&name.name, problem))
    }

    fn concerned(_known: &Known, news: &News) -> Vec<Key> {
        held_by_a_release::<Self>(news)
    }
}

impl Subject for DaemonSets {
    type Object = Value;
    type Status = ();
    const CONTROLLER: &'static str = "native-daemonset-controller";
    const KIND: Resource<'static> = DAEMON_SETS;

    fn workers(settings: &crate::Settings) -> usize {
        settings.nativedaemonset_workers
    }

    fn plan(
        daemonset: &Value,
        view: &View,
        _settings: &Settings,
        moment: &Moment,
    ) -> Result<Option<Plan<()>>, Unread> {
        daemonset::plan(daemonset, view, moment)
    }

    fn status(_daemonset: &Value) -> &() {
        &()
    }

    fn is_running(daemonset: &Value) -> bool {
        daemonset.annotation(DAEMONSET_ADVANCED_CONTROL).is_some()
    }

    fn concerned(_known: &Known, news: &News) -> Vec<Key> {
        held_by_a_release::<Self>(news)
    }
}

/// The workload that has changed, where a release holds it, or has held it before.
fn held_by_a_release<S: Subject<Object = Value>>(news: &News) -> Vec<Key> {
    // Lists of one namespace are those of parts, such as second Deployments.
    let is_workload = news.list.namespace.is_empty() && news.is_of(S::KIND.api_version, S::KIND.kind);
    let mut states = news.change.states();
    let is_held = is_workload && states.any(|held| S::is_running(&held.value()));
    news.key().into_iter().filter(|_| is_held).collect()
}

/// The objects of one of our kinds that name the workload which has changed.
fn by_workload(known: &Known, kind: &Resource<'_>, news: &News) -> Vec<Key> {
    let Some((namespace, name)) = news.key().filter(|_| news.list.namespace.is_empty()) else {
        return Vec::new();
    };
    found(known, kind, &of_workload(&namespace, (&news.list.api_version, &news.list.kind), &name))
}

fn found(known: &Known, kind: &Resource<'_>, group: &str) -> Vec<Key> {
    let stored = known.own(kind).map(|stored| stored.group(&group.into())).unwrap_or_default();
    stored.iter().map(|held| held.key()).collect()
}

/// More has changed of a workload than what its status counts.
fn is_no_count(change: &Change<Held>) -> bool {
    let without_counts = |held: &Held| {
        let mut object = held.value();
        let observed = object.pointer("/status/observedGeneration").cloned();
        if let Some(members) = object.as_object_mut() {
            members.insert("status".to_owned(), observed.unwrap_or_default());
        }
        if let Some(metadata) = object.pointer_mut("/metadata").and_then(Value::as_object_mut) {
            metadata.remove("resourceVersion");
        }
        object
    };
    let [old, new] = [&change.old, &change.new].map(|held| held.as_deref().map(without_counts));
    old != new
}
