//! Controller `sidecarset-controller`: records what a SidecarSet says in ControllerRevisions, updates the
//! sidecars of running Pods and counts them (spec 20 §5 to §9).
//!
//! ```text
//!   SidecarSets, ControllerRevisions, Pods --(old, new)--> triggers --names--> queue
//!   reconcile: snapshot --> history::plan --> write --> rollout::plan --> status, Pods, Events
//!                  ^------------------ what the writes returned ----------------'
//! ```
//!
//! What a plan costs grows with the Pods of the SidecarSet, and each of them changes several times while
//! it is updated. So after a plan a SidecarSet rests for a multiple of the time that the plan took:
//! planning takes a small, constant share of the time however many Pods there are.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::Duration;

use cluster::Index;
use cluster::events::{Recorder, Severity};
use cluster::watched::{Key, WatchedObject};
use cluster::write::{self, PatchKind};
use futures::{StreamExt, stream};
use k8s_openapi::api::core::v1::ObjectReference;
use kube::runtime::watcher::Config;
use kube::{Api, Client};
use planner::event::Event;
use planner::json_patch::string;
use planner::observed_pod::ObservedPod;
use planner::sidecarset::rollout::{self, Hold, Plan, PodUpdate, RolloutSet, Snapshot, Trigger, injected};
use planner::world::Watched;
use tokio::sync::mpsc;
use tokio::time::Instant;
use tracing::info;

use crate::carry_out::{Outcome, carry_out};
use crate::course::{self, Courses};
use crate::pods::Pods;
use crate::queue::{self, Next};
use crate::store::follow::{Readable, follow, resource};
use crate::store::{Change, Kept, Store};
use crate::{Context, ReconcileError, now, pod_reference, triggers};

mod revisions;

use revisions::Revisions;

const NAME: &str = "sidecarset-controller";
/// Pods that are written to at a time.
const CONCURRENCY: usize = 4;
/// Pause before a Pod is looked at again that had changed when it was to be written to, or whose
/// namespace is not known yet.
const SOON: Duration = Duration::from_secs(1);
/// A SidecarSet is looked at again after this time even if no event tells of it: selectors may match
/// otherwise once a namespace has got other labels.
const SAFETY_NET: Duration = Duration::from_secs(300);

impl Kept for RolloutSet {
    type Group = ();

    fn key(&self) -> Key {
        key(&self.name)
    }

    fn uid(&self) -> &str {
        &self.uid
    }

    fn resource_version(&self) -> &str {
        &self.resource_version
    }

    fn groups(&self) -> Vec<()> {
        Vec::new()
    }
}

impl Readable for RolloutSet {
    fn read(json: &str) -> Result<Self, serde_json::Error> {
        Self::read(json)
    }
}

fn key(name: &str) -> Key {
    (String::new(), name.to_owned())
}

struct Controller {
    client: Client,
    pods: Arc<Pods>,
    sets: Store<RolloutSet>,
    revisions: Revisions,
    index: Arc<Index>,
    recorder: Recorder,
    courses: Courses,
}

/// Reconciles SidecarSets. Ends never.
pub async fn run(context: Context, pods: Arc<Pods>) {
    let client = context.client.clone();
    let namespace = &context.settings.install_namespace;
    let controller = Arc::new(Controller {
        revisions: Revisions::new(client.clone(), namespace),
        recorder: Recorder::new(client.clone(), NAME, None),
        index: context.index.clone(),
        sets: Store::default(),
        courses: Courses::default(),
        pods,
        client: client.clone(),
    });
    let sets: Api<WatchedObject> = Api::all_with(
        client,
        &resource(api::APPS_GROUP, "v1beta1", api::sidecarset::KIND, api::sidecarset::PLURAL),
    );
    let (sender, names) = mpsc::unbounded_channel();
    let settings = queue::Settings { name: NAME, workers: context.settings.sidecarset_workers };
    let work = async {
        tokio::join!(
            controller.pods.synced(),
            controller.sets.synced(),
            controller.revisions.stored.synced()
        );
        let reconciled = controller.clone();
        queue::run(settings, &context.metrics, names, move |name: Box<str>| {
            let controller = reconciled.clone();
            async move { controller.reconcile(&name).await }
        })
        .await;
    };
    tokio::join!(
        follow(sets, Config::default(), &controller.sets),
        controller.revisions.follow(),
        triggers::forward(controller.sets.subscribe(), sender.clone(), |change| controller.of_set(change)),
        triggers::forward(controller.revisions.stored.subscribe(), sender.clone(), revisions::lost),
        triggers::forward(controller.pods.subscribe(), sender, |change| controller.of_pod(change)),
        work,
    );
}

impl Controller {
    /// A SidecarSet that is new, or says something else (spec 20 §6.1).
    fn of_set(&self, change: &Change<RolloutSet>) -> Option<(Box<str>, Duration)> {
        let said = |set: &Arc<RolloutSet>| (set.uid.clone(), set.generation, set.deleting);
        let name = change.states().next()?.name.clone();
        let news = change.old.as_ref().map(said) != change.new.as_ref().map(said);
        if news {
            self.courses.wake(&name);
        }
        news.then_some((name, Duration::ZERO))
    }

    /// The SidecarSets of a Pod to which its change matters.
    fn of_pod(&self, change: &Change<ObservedPod>) -> Vec<(Box<str>, Duration)> {
        let mut names: Vec<&str> = change.states().flat_map(|pod| injected(pod)).collect();
        names.sort_unstable();
        names.dedup();
        let due = |name: &str| {
            let set = self.sets.get(&key(name))?;
            match rollout::trigger(&set, change.old.as_deref(), change.new.as_deref()) {
                Trigger::Nothing => None,
                Trigger::Now => Some((name.into(), Duration::ZERO)),
                Trigger::After(pause) => Some((name.into(), pause.unsigned_abs())),
            }
        };
        names.into_iter().filter_map(due).collect()
    }

    async fn reconcile(&self, name: &str) -> Result<Next, ReconcileError> {
        let Some(set) = self.sets.get(&key(name)).filter(|set| !set.deleting) else {
            self.courses.forget(name);
            return Ok(Next::Done);
        };
        if let Some(rest) = self.courses.rest(name) {
            return Ok(Next::After(rest));
        }
        if !self.index.can_answer(Watched::Namespace) {
            return Ok(Next::After(SOON));
        }
        let next = self.advance(&set).await;
        match &next {
            Ok(_) => self.courses.succeeded(name),
            Err(_) => self.courses.failed(name),
        }
        next
    }

    async fn advance(&self, set: &RolloutSet) -> Result<Next, ReconcileError> {
        let name = &*set.name;
        let began = Instant::now();
        let (pods, complete) = self.pods_of(set);
        let stored = self.revisions.of(name);
        let registered = self.revisions.register(set, &stored, &pods);
        let planned = began.elapsed();
        let registered = registered?;
        let (latest, collision_count) = self.revisions.write(set, registered).await?;
        let began = Instant::now();
        let snapshot =
            Snapshot { set, pods: &pods, revisions: &stored, latest_revision: &latest, collision_count };
        let plan = rollout::plan(&snapshot, now().now);
        self.courses.plan_took(name, planned.saturating_add(began.elapsed()));
        self.write_status(set, plan.status.as_deref()).await?;
        for event in &plan.events {
            self.tell(&reference(set), event).await;
        }
        let outdated = self.write_pods(&plan).await?;
        if outdated || !complete {
            return Ok(Next::After(SOON));
        }
        Ok(Next::After(self.explain(set, &plan).await))
    }

    /// The Pods that name the SidecarSet, in the namespaces that it selects; and whether all of these
    /// namespaces are known.
    fn pods_of(&self, set: &RolloutSet) -> (Vec<Arc<ObservedPod>>, bool) {
        let world = self.index.world();
        let mut namespaces: BTreeMap<&str, bool> = BTreeMap::new();
        let (all, mut complete) = (self.pods.injected_by(&set.name), true);
        for pod in &all {
            let name = &*pod.metadata.namespace;
            namespaces.entry(name).or_insert_with(|| {
                let labels = world.namespace(name).and_then(|namespace| namespace.labels());
                complete &= labels.is_some();
                set.selects_namespace(labels)
            });
        }
        let selected = |pod: &&Arc<ObservedPod>| namespaces.get(&*pod.metadata.namespace) == Some(&true);
        (all.iter().filter(selected).cloned().collect(), complete)
    }

    async fn write_status(&self, set: &RolloutSet, patch: Option<&str>) -> Result<(), ReconcileError> {
        let Some(patch) = patch else { return Ok(()) };
        let uid = string(&set.uid);
        let patch = format!(r#"{{"metadata":{{"uid":{uid}}},{}"#, patch.strip_prefix('{').unwrap_or(patch));
        let path =
            format!("/apis/{}/{}/{}/status", api::sidecarset::API_VERSION, api::sidecarset::PLURAL, set.name);
        match write::patch(&self.client, &path, PatchKind::Merge, patch).await {
            Ok(text) => self.sets.written(RolloutSet::read(&text)?),
            // Gone, or another SidecarSet of that name by now, of which the watch will tell.
            Err(kube::Error::Api(status)) if matches!(status.code, 404 | 409) => {}
            Err(error) => return Err(error.into()),
        }
        Ok(())
    }

    /// Carries out what is planned for Pods; true if some of them had changed. One that fails does not
    /// hold the others.
    async fn write_pods(&self, plan: &Plan) -> Result<bool, ReconcileError> {
        let writes: Vec<_> = plan.pods.iter().map(|update| self.write_pod(update)).collect();
        let outcomes: Vec<_> = stream::iter(writes).buffer_unordered(CONCURRENCY).collect().await;
        let outdated = outcomes.iter().any(|outcome| matches!(outcome, Ok(Outcome::Outdated)));
        let refused = plan.waiting.iter().filter_map(|waiting| match &waiting.hold {
            Hold::Annotation(problem) => Some(failure(&waiting.pod, problem)),
            _ => None,
        });
        let failures: Vec<String> = outcomes.into_iter().filter_map(Result::err).chain(refused).collect();
        let failed = failures.len();
        match failures.into_iter().next() {
            None => Ok(outdated),
            Some(first) => Err(ReconcileError::Pods { failed, first }),
        }
    }

    async fn write_pod(&self, update: &PodUpdate) -> Result<Outcome, String> {
        let outcome = carry_out(&self.client, &self.pods, &update.pod, &update.writes).await;
        let event = match &outcome {
            Ok(Outcome::Written(_)) => update.on_success(),
            Ok(Outcome::Outdated) => None,
            Err(error) => update.on_failure(&error.to_string()),
        };
        if let Some(event) = event {
            self.tell(&pod_reference(&update.pod), &event).await;
        }
        outcome.map_err(|error| failure(&update.pod, &error.to_string()))
    }

    /// Tells why Pods wait, once they have for a while; gives the time of the next look.
    async fn explain(&self, set: &RolloutSet, plan: &Plan) -> Duration {
        let summary = plan.pods.is_empty().then(|| plan.summary()).flatten();
        match self.courses.standstill(&set.name, summary.as_deref()) {
            course::Standstill::No => SAFETY_NET,
            course::Standstill::Since(rest) => rest,
            course::Standstill::Tell => {
                let message = summary.unwrap_or_default();
                info!(sidecar_set = &*set.name, reason = message, "Pods wait for their update");
                let event = Event { warning: false, reason: "UpdateWaits", message };
                self.tell(&reference(set), &event).await;
                SAFETY_NET
            }
        }
    }

    async fn tell(&self, object: &ObjectReference, event: &Event) {
        let severity = if event.warning { Severity::Warning } else { Severity::Normal };
        self.recorder.record(object, severity, "Update", event.reason, event.message.clone()).await;
    }
}

fn failure(pod: &ObservedPod, problem: &str) -> String {
    format!("{}/{}: {problem}", pod.metadata.namespace, pod.metadata.name)
}

fn reference(set: &RolloutSet) -> ObjectReference {
    ObjectReference {
        api_version: Some(api::sidecarset::API_VERSION.to_owned()),
        kind: Some(api::sidecarset::KIND.to_owned()),
        name: Some(set.name.to_string()),
        uid: Some(set.uid.to_string()),
        resource_version: Some(set.resource_version.to_string()),
        ..ObjectReference::default()
    }
}
