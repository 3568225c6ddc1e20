//! A history, played by the running program and by the simulation beside it.
//!
//! Where changes follow each other, what comes of them depends on how far the program came before the next one. So the
//! simulation is played in several variants, with other pauses between the changes: the program has to come to where
//! one of them is, and those go on.

use std::collections::BTreeMap;
use std::fmt;
use std::sync::{Arc, Mutex};
use std::time::{Duration, Instant};

use api::annotations::CONTAINER_LAUNCH_PRIORITY_COMPLETED;
use api::kinds::shared::Lifecycle;
use api::labels::LIFECYCLE_STATE;
use futures::StreamExt;
use jiff::Timestamp;
use kit::builders::pod;
use kit::{fake_nodes, wait_for};
use kube::api::{Api, DynamicObject};
use kube::runtime::{WatchStreamExt, watcher};
use kube::{Client, Error, ResourceExt};
use pod::observed::ObservedPod;
use pod::revision_labels::short_hash;
use serde_json::{Value, json};
use simulator::{Bounds, Milliseconds, Settings};
use tokio::task::JoinSet;
use tokio::time::sleep;

use super::author::Dice;
use super::change::{Beside, Change, Deed, History, Of, SIDECAR, SPREAD, SUBSET, subsets};
use super::oracle::{Oracle, Pods};
use super::state::{Fate, State, choose, newest, revision};
use super::{NODES, Site};
use crate::chronicle::{Chronicle, Moment, staying};
use crate::product;
use crate::support::{Stored, call, create, names};

/// Between two reads of what changes without a watch.
const PAUSE: Duration = Duration::from_millis(100);
/// How long a hook is answered late.
const HOOK: Duration = Duration::from_millis(300);
/// How long the workload may take beyond what the simulation took: for writes, and for a new leader.
const ROOM: Duration = Duration::from_secs(60);
/// The same, where faults happen again and again.
const ROOM_FOR_FAULTS: Duration = Duration::from_secs(240);
/// How many variants of the simulation are played.
const VARIANTS: usize = 8;
/// Pauses of variants after a change.
const PAUSES: [Milliseconds; 5] = [1, 20, 200, 1_000, 5_000];
/// How far watches stay behind in variants.
const LAGS: [Milliseconds; 3] = [5, 20, 200];
/// The state of another variant than the first may be one on the way: it counts once nothing has changed for so long.
const STEADY: Duration = Duration::from_secs(2);

/// What histories showed.
#[derive(Debug, Default)]
pub struct Figures {
    pub histories: usize,
    pub failures: usize,
    pub changes: usize,
    refused: usize,
    compared: usize,
    /// How long all took to settle.
    waited: Duration,
    /// How long the slowest took to settle, and its seed.
    slowest: (Duration, u64),
    /// Pods that steps created, updated in place or recreated while they did nothing else, and the writes for them.
    writes: [(usize, usize); 3],
}

impl Figures {
    pub fn add(&mut self, other: &Self) {
        self.histories += other.histories;
        self.failures += other.failures;
        self.changes += other.changes;
        self.refused += other.refused;
        self.compared += other.compared;
        self.waited += other.waited;
        self.slowest = self.slowest.max(other.slowest);
        for (sum, own) in self.writes.iter_mut().zip(other.writes) {
            *sum = (sum.0 + own.0, sum.1 + own.1);
        }
    }
}

impl fmt::Display for Figures {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { histories, failures, changes, refused, compared, waited, slowest, writes } = self;
        write!(
            formatter,
            "{histories} histories, {failures} with a fault; {changes} changes, {refused} refused; {compared} states compared; \
             {:.2} s to settle, {:.1} s the slowest, of seed {}",
            waited.as_secs_f64() / (*compared).max(1) as f64,
            slowest.0.as_secs_f64(),
            slowest.1
        )?;
        for (deed, (pods, writes)) in ["created", "updated in place", "recreated"].iter().zip(writes) {
            if *pods > 0 {
                write!(formatter, "; {:.1} writes per Pod {deed}", *writes as f64 / *pods as f64)?;
            }
        }
        Ok(())
    }
}

/// What went wrong, in words.
pub type Failure = String;

/// A Pod, and its twin in each variant.
type Touched = (Arc<ObservedPod>, Pods);

/// The Pods of the program, and those of each variant.
type Both = (Pods, Vec<Pods>);

/// What a step has to come to, beside the state.
#[derive(Default)]
struct Reached<'b> {
    /// The Pods before it, where Pods have to have the same fate on both sides.
    before: Option<&'b Both>,
    /// Pods that people touched: where their twins are gone, they have to be.
    touched: &'b [Touched],
}

/// One way in which the simulation may go.
#[derive(Clone)]
struct Variant<O> {
    oracle: O,
    /// The names of twins of Pods in `podsToDelete`.
    named: BTreeMap<String, String>,
}

/// Where a variant has come to.
struct Outcome {
    state: State,
    pods: Pods,
    /// `None` where Pods came from other revisions than those of the program.
    fate: Option<Fate>,
}

/// The two sides of one history.
struct Trial<'s, O> {
    site: &'s Site,
    client: Client,
    namespace: String,
    set: Stored,
    chronicle: Chronicle,
    hooks: Arc<Mutex<Lifecycle>>,
    /// Those that agree with the program so far; never empty.
    variants: Vec<Variant<O>>,
    dice: Dice,
    history: &'s History,
    /// The tag of the sidecar's image.
    sidecar: u64,
    /// As many Pods as may be in the first subset.
    spread: usize,
    figures: Figures,
    _operator: JoinSet<()>,
}

/// Plays a history, and gives what it showed until `deadline`, or after how many steps something went wrong first, and
/// what.
pub async fn play<O: Oracle>(
    site: &Site,
    history: &History,
    deadline: Instant,
) -> Result<Figures, (usize, Failure)> {
    let client = site.server.client();
    let namespace = site.server.namespace("history").await;
    let chronicle = Chronicle::begin(&client, &namespace).await;
    for manifest in history.manifests(&namespace) {
        let answer = patiently(async || create(&client, manifest.clone(), "").await).await;
        // It may have gone away before the answer could be converted.
        if answer.0 != 201 && answer.1["reason"] != "AlreadyExists" {
            return Err((0, format!("{} is refused: {:#}", manifest["kind"], answer.1)));
        }
        if manifest["kind"] == "SidecarSet" {
            injected(&client, &namespace).await;
        }
    }
    let path = format!(
        "/apis/apps.kruise.io/v1beta1/namespaces/{namespace}/{}s/web",
        history.of.kind().to_lowercase()
    );
    let mut set = Stored::existing(&client, path, Value::Null);
    set.object = set.get().await.1;
    let hooks = Arc::new(Mutex::new(O::lifecycle(&set.object)));
    let settings = Settings {
        seed: history.seed,
        lag: 20,
        hook: Some(500),
        nodes: NODES,
        gates: site.gates.clone(),
        ..Settings::default()
    };
    let mut operator = JoinSet::new();
    operator.spawn(answer_hooks(client.clone(), namespace.clone(), Arc::clone(&hooks)));
    let simulated = Variant { oracle: O::begin(&set.object, settings), named: BTreeMap::new() };
    let figures = Figures { histories: 1, ..Figures::default() };
    let mut trial = Trial {
        site,
        client,
        namespace,
        set,
        chronicle,
        hooks,
        variants: vec![simulated],
        dice: Dice::new(history.seed),
        history,
        sidecar: 1,
        spread: SPREAD,
        figures,
        _operator: operator,
    };
    trial.keep(&[0]);
    let mut played = trial.settle(&Reached::default()).await;
    let mut steps = 0;
    for step in &history.steps {
        if played.is_err() || Instant::now() > deadline {
            break;
        }
        played = trial.step(step).await.map_err(|failure| format!("after {step:#?}: {failure}"));
        steps += 1;
    }
    if let Err(failure) = &mut played {
        failure.push_str(&trial.explanation().await);
    }
    trial.clean_up().await;
    played.map(|()| trial.figures).map_err(|failure| (steps, failure))
}

/// Waits until Pods get the sidecar of this namespace's SidecarSet.
async fn injected(client: &Client, namespace: &str) {
    let probe = pod("probe").in_namespace(namespace).label("app", "web").container("main", "app:v1").build();
    wait_for("the program to know the SidecarSet", async || {
        match create(client, probe.clone(), "?dryRun=All").await {
            (201, pod) if names(&pod["spec"]["containers"]).contains(&SIDECAR) => Ok(()),
            answer => Err(answer),
        }
    })
    .await;
}

/// Asks again while the program is away.
async fn patiently(mut ask: impl AsyncFnMut() -> (u16, Value)) -> (u16, Value) {
    let begun = Instant::now();
    loop {
        let answer = ask().await;
        let text = answer.1["message"].as_str().unwrap_or_default();
        let is_away = answer.0 >= 500
            && ["failed calling webhook", "conversion webhook"].iter().any(|start| text.contains(start));
        let is_away = is_away || answer.1["reason"] == "Conflict";
        if !is_away || begun.elapsed() > ROOM {
            return answer;
        }
        sleep(PAUSE).await;
    }
}

impl<O: Oracle> Trial<'_, O> {
    fn pods(&self) -> Pods {
        observed(&self.chronicle.latest())
    }

    /// The variant in which everything happens at once.
    fn simulated(&self) -> &O {
        &self.variants[0].oracle
    }

    /// Goes on with these variants.
    fn keep(&mut self, fitting: &[usize]) {
        let kept = fitting.iter().cycle().take(VARIANTS);
        self.variants = kept.map(|index| self.variants[*index].clone()).collect();
        for variant in &mut self.variants {
            variant.oracle.diverge(self.dice.below(u64::MAX), self.dice.of(&LAGS));
        }
    }

    /// Does something to each variant, and lets time pass there.
    fn simulate(&mut self, mut change: impl FnMut(usize, &mut Variant<O>)) {
        for (index, variant) in self.variants.iter_mut().enumerate() {
            change(index, variant);
            variant.oracle.pass(if index == 0 { 1 } else { self.dice.of(&PAUSES) });
        }
    }

    async fn step(&mut self, changes: &[Change]) -> Result<(), Failure> {
        self.age().await;
        let twins = self.variants.iter().map(|variant| variant.oracle.pods()).collect();
        let before = (self.pods(), twins);
        let begin = self.chronicle.moments().await.len() - 1;
        let (was_ready, audited) = (self.state_of_simulation().is_ready(), self.site.audited());
        let restarts = self.site.restarts();
        let mut bounds: Vec<_> = self.simulated().bounds().into_iter().collect();
        let mut unready = Vec::new();
        let mut touched = Vec::new();
        for change in changes {
            self.figures.changes += 1;
            match change {
                Change::Restart => self.site.restart(false).await,
                Change::Spec(_) => self.edit(change).await,
                Change::Sidecar(_) | Change::Spread(_) => self.change_beside(change, &before.0).await,
                // A rollout that is stalled continues at a Pod that is not ready, which the simulation does not see.
                Change::Pod(Deed::MakeUnready, _) if !was_ready => {}
                Change::Pod(deed, number) => {
                    let others: Vec<&Touched> = touched.iter().chain(&unready).collect();
                    if let Some(pair) = self.chosen(&before, *number, &others) {
                        let is_done = self.touch(*deed, &pair).await;
                        let of = if *deed == Deed::MakeUnready { &mut unready } else { &mut touched };
                        of.extend(is_done.then_some(pair));
                    }
                }
            }
            bounds.extend(self.simulated().bounds());
        }
        for (pod, _) in &unready {
            self.annotate(&pod.metadata.name, &json!({fake_nodes::READY_AFTER: null})).await;
        }
        // What comes of several changes depends on how far each came before the next; with faults how they come, too.
        let is_alone = matches!(changes, [Change::Spec(_) | Change::Pod(..)])
            && was_ready
            && unready.is_empty()
            && self.site.proxy.is_none()
            && O::KNOWS_FATES;
        // At which of several older revisions Pods have stayed is chance, and from each they come in another way.
        let is_alone = is_alone && revisions(&before.0).len() <= 2;
        let reached = Reached { before: is_alone.then_some(&before), touched: &touched };
        self.settle(&reached).await?;
        // What hooks, spreads and budgets write comes on top, and what is tried again after the end of the program.
        if is_alone
            && restarts == self.site.restarts()
            && self.history.beside == Beside::default()
            && *self.hooks.lock().unwrap() == Lifecycle::default()
        {
            self.check_writes(&before.0, audited)?;
        }
        let is_edited = changes.iter().all(|change| matches!(change, Change::Spec(_) | Change::Restart));
        if was_ready && is_edited && !bounds.is_empty() && !changes.iter().any(Change::scales) {
            self.check_bounds(begin, &bounds).await?;
        }
        Ok(())
    }

    /// The program wrote no more than its benches allow: its create and one more for a Pod that is new, three for one
    /// that is updated in place and another where its kubelet's report crosses the first of them, two for one that is
    /// deleted.
    fn check_writes(&mut self, before: &Pods, audited: (u64, Timestamp)) -> Result<(), Failure> {
        let after = self.pods();
        let find = |pods: &Pods, pod: &ObservedPod| {
            pods.iter().find(|other| other.metadata.uid == pod.metadata.uid).cloned()
        };
        // Containers that start in an order take further writes: one says that they have started, and each is updated
        // after the one before.
        let in_order = |pod: &ObservedPod| {
            let containers = pod.spec.containers.len();
            pod.annotation(CONTAINER_LAUNCH_PRIORITY_COMPLETED).map_or(0, |_| containers - 1)
        };
        let (mut created, mut updated, mut limit) = (0, 0, 0);
        for pod in &after {
            match find(before, pod) {
                None => (created, limit) = (created + 1, limit + 2 + in_order(pod).min(1)),
                Some(earlier) if revision(&earlier) != revision(pod) => {
                    (updated, limit) = (updated + 1, limit + 4 + in_order(pod));
                }
                Some(_) => {}
            }
        }
        let gone = before.iter().filter(|pod| find(&after, pod).is_none()).count();
        limit += 2 * gone;
        let writes = self.site.writes(&self.namespace, audited);
        if writes.len() > limit {
            return Err(format!(
                "{} writes to Pods, with {limit} that are needed: {writes:#?}",
                writes.len()
            ));
        }
        let deed = match (created, updated, gone) {
            (_, 0, 0) => 0,
            (0, _, 0) => 1,
            (_, 0, gone) if created == gone => 2,
            _ => return Ok(()),
        };
        let (pods, sum) = &mut self.figures.writes[deed];
        (*pods, *sum) = (*pods + created + updated, *sum + writes.len());
        Ok(())
    }

    /// No moment since that of this number shows fewer ready Pods or more Pods than the rollout may lead to.
    async fn check_bounds(&self, begin: usize, bounds: &[Bounds]) -> Result<(), Failure> {
        let mut floor = bounds.iter().map(Bounds::floor).min().unwrap_or_default();
        if self.history.beside.budget {
            floor = floor.max(bounds.iter().map(|bounds| bounds.replicas - 1).min().unwrap_or_default());
        }
        // Beside Pods of a revision between, which are not ready yet, others are created at once.
        let ceiling = match bounds {
            [_, bounds] => bounds.ceiling(),
            _ => i64::MAX,
        };
        let moments = self.chronicle.moments().await;
        for moment in &moments[begin.min(moments.len())..] {
            let pods = staying(moment);
            let ready = pods.iter().filter(|pod| kit::objects::is_ready(pod)).count() as i64;
            // Those that a hook holds back leave, as those that end.
            let leaves = |pod: &&&Value| pod["metadata"]["labels"][LIFECYCLE_STATE] == "PreparingDelete";
            let leaving = pods.iter().filter(leaves).count();
            if ready < floor || (pods.len() - leaving) as i64 > ceiling {
                return Err(format!(
                    "{ready} of {} Pods were ready, with at least {floor} that have to be, and {ceiling} at most: {:#?}",
                    pods.len(),
                    State::of(&observed(moment), &[], &self.simulated().status(), true)
                ));
            }
        }
        Ok(())
    }

    /// Changes the `spec` on both sides, unless it is refused.
    async fn edit(&mut self, change: &Change) {
        let path = self.set.path.clone();
        let path = if self.history.is_alpha { path.replace("v1beta1", "v1alpha1") } else { path };
        let answer = patiently(async || {
            let mut object = self.set.get().await.1;
            change.apply(&mut object["spec"]);
            call(&self.client, "PUT", &path, &self.history.written(&object)).await
        })
        .await;
        if answer.0 != 200 {
            self.figures.refused += 1;
            return;
        }
        let edited = self.set.get().await.1;
        *self.hooks.lock().unwrap() = O::lifecycle(&edited);
        self.simulate_spec(&edited);
    }

    /// Which of two Pods of a Node counts depends on their names where they are of the same second.
    async fn age(&self) {
        let of_now = |pod: &ObservedPod| pod.metadata.creation_timestamp == Some(Timestamp::now().into());
        while self.history.of == Of::Kind("DaemonSet") && self.pods().iter().any(|pod| of_now(pod)) {
            sleep(PAUSE).await;
        }
    }

    /// Changes an object beside the workload.
    async fn change_beside(&mut self, change: &Change, before: &Pods) {
        let (path, spec) = match change {
            Change::Sidecar(tag) => {
                self.sidecar = *tag;
                let containers = json!([{"name": SIDECAR, "image": format!("mesh:v{tag}")}]);
                (format!("sidecarsets/{}", self.namespace), json!({"containers": containers}))
            }
            Change::Spread(most) => {
                // Those that are there stay.
                self.spread = in_first_subset(before).max(*most);
                let path = format!("namespaces/{}/workloadspreads/web", self.namespace);
                (path, json!({"subsets": subsets(*most)}))
            }
            _ => return,
        };
        let (path, patch) = (format!("/apis/apps.kruise.io/v1beta1/{path}"), json!({"spec": spec}));
        patiently(async || call(&self.client, "PATCH", &path, &patch).await).await;
    }

    /// The Pod of this number among those that there were before the step and that are not touched, with its twin.
    fn chosen(&self, before: &Both, number: usize, touched: &[&Touched]) -> Option<Touched> {
        let status = self.simulated().status();
        let choose = |pods: &Pods, touched: Vec<&Arc<ObservedPod>>| {
            let is_free = |pod: &ObservedPod| touched.iter().all(|of| of.metadata.uid != pod.metadata.uid);
            let free: Pods = pods.iter().filter(|pod| pod.is_active() && is_free(pod)).cloned().collect();
            choose(&free, number, newest(&status), O::HAS_NAMES).cloned()
        };
        let own = choose(&before.0, touched.iter().map(|(own, _)| own).collect());
        // Pods of different variants may have the same identity.
        let twins = (0..).zip(&before.1).map(|(index, pods): (usize, _)| {
            choose(pods, touched.iter().map(|(_, twins)| &twins[index]).collect())
        });
        own.zip(twins.collect())
    }

    /// Does something to a Pod on both sides, unless it is refused; whether it is done.
    async fn touch(&mut self, deed: Deed, (chosen, twins): &Touched) -> bool {
        let name = &*chosen.metadata.name;
        let path = format!("/api/v1/namespaces/{}/pods/{name}", self.namespace);
        let pod = Stored::existing(&self.client, path, Value::Null);
        let answer = match deed {
            Deed::Delete => patiently(async || pod.delete().await).await,
            Deed::Evict => patiently(async || pod.evict(&json!({})).await).await,
            Deed::MarkForDeletion => {
                let label = json!({"metadata": {"labels": {"apps.kruise.io/specified-delete": "true"}}});
                patiently(async || pod.try_patch(&label).await).await
            }
            Deed::Name => {
                for (variant, twin) in self.variants.iter_mut().zip(twins) {
                    variant.named.insert(name.to_owned(), twin.metadata.name.to_string());
                }
                let names = json!({"spec": {"scaleStrategy": {"podsToDelete": [name]}}});
                patiently(async || self.set.try_patch(&names).await).await
            }
            Deed::MakeUnready => {
                self.annotate(name, &json!({fake_nodes::READY_AFTER: "never"})).await;
                return true;
            }
        };
        if answer.0 >= 400 {
            self.figures.refused += 1;
            return false;
        }
        match deed {
            Deed::Name => self.simulate_spec(&answer.1),
            _ => self.simulate(|index, variant| variant.oracle.touch(deed, &twins[index].metadata.uid)),
        }
        true
    }

    /// The simulation gets the spec of this object; it has other names for Pods.
    fn simulate_spec(&mut self, object: &Value) {
        self.simulate(|_, variant| {
            let mut object = object.clone();
            let names = object.pointer_mut("/spec/scaleStrategy/podsToDelete").and_then(Value::as_array_mut);
            for name in names.into_iter().flatten() {
                if let Some(twin) = name.as_str().and_then(|name| variant.named.get(name)) {
                    *name = twin.as_str().into();
                }
            }
            variant.oracle.edit(&object);
        });
    }

    async fn annotate(&self, pod: &str, annotations: &Value) {
        let path = format!("/api/v1/namespaces/{}/pods/{pod}", self.namespace);
        let patch = json!({"metadata": {"annotations": annotations}});
        // It may be gone.
        patiently(async || call(&self.client, "PATCH", &path, &patch).await).await;
    }

    fn state_of_simulation(&self) -> State {
        state(self.simulated())
    }

    /// Waits until the Pods are as a variant of the simulation leaves them, and continues with those that do.
    async fn settle(&mut self, reached: &Reached<'_>) -> Result<(), Failure> {
        let mut duration = 0;
        for variant in &mut self.variants {
            let time = variant.oracle.settle();
            let time = time.map_err(|event| format!("the simulation does not come to rest: {event}"))?;
            duration = duration.max(time);
        }
        let outcomes: Vec<Outcome> =
            (0..).zip(&self.variants).map(|(index, of)| outcome(index, of, reached)).collect();
        let room = if self.site.proxy.is_some() { ROOM_FOR_FAULTS } else { ROOM };
        let limit = room + Duration::from_millis(duration);
        let begun = Instant::now();
        let mut steady = (begun, None);
        loop {
            let pods = self.pods();
            let state = self.state(&pods).await;
            let now = reached.before.map(|(before, _)| Fate::between(before, &pods));
            let others = self.others(&pods);
            let fits = |(index, outcome): (usize, &Outcome)| {
                let is_left_open = outcomes[0].fate.is_none() && outcome.fate.is_none();
                let has_fate = is_left_open || outcome.fate == now;
                let fits = state.as_ref() == Some(&outcome.state) && has_fate && others.is_none();
                (fits && late(index, outcome, reached, &pods).is_none()).then_some(index)
            };
            let fitting: Vec<usize> = outcomes.iter().enumerate().filter_map(fits).collect();
            if steady.1.as_ref() != Some(&pods) {
                steady = (Instant::now(), Some(pods.clone()));
            }
            if fitting.first() == Some(&0) || !fitting.is_empty() && steady.0.elapsed() > STEADY {
                self.figures.compared += 1;
                self.figures.waited += begun.elapsed();
                self.figures.slowest = self.figures.slowest.max((begun.elapsed(), self.history.seed));
                self.keep(&fitting);
                return Ok(());
            }
            if begun.elapsed() > limit {
                let first = &outcomes[0];
                let difference = state.unwrap_or_default().difference(&first.state);
                let fates = match &first.fate {
                    Some(fate) if now.as_ref() != Some(fate) => format!("{now:#?}, should be {fate:#?}"),
                    _ => String::new(),
                };
                let late = late(0, first, reached, &pods).map_or("", |pod| &pod.metadata.name);
                return Err(format!(
                    "in {limit:?} the workload did not come to where the simulation is: \
                     - is, + should be\n{difference}{fates}\n{late}{}",
                    others.unwrap_or_default()
                ));
            }
            sleep(PAUSE).await;
        }
    }

    /// What the objects beside the workload still have to do to its Pods.
    fn others(&self, pods: &Pods) -> Option<String> {
        let image = format!("mesh:v{}", self.sidecar);
        let is_new = |pod: &ObservedPod| {
            pod.container(SIDECAR).is_some_and(|container| *container.image == *image)
                && pod.container_status(SIDECAR).is_some_and(|status| *status.image == *image)
        };
        let old = pods.iter().find(|pod| self.history.beside.sidecar && !is_new(pod));
        let first = in_first_subset(pods);
        match old {
            Some(pod) => Some(format!("the sidecar of Pod {} is not {image}", pod.metadata.name)),
            None if self.history.beside.spread && first > self.spread => {
                Some(format!("{first} Pods are in the first subset"))
            }
            None => None,
        }
    }

    /// The workload's Pods and claims; none where its controller has not reconciled its newest spec.
    async fn state(&self, pods: &[Arc<ObservedPod>]) -> Option<State> {
        let set = self.set.get().await.1;
        // A BroadcastJob does not say.
        let observed = &set["status"]["observedGeneration"];
        if !observed.is_null() && *observed != set["metadata"]["generation"] {
            return None;
        }
        let path = format!("/api/v1/namespaces/{}/persistentvolumeclaims", self.namespace);
        let claims = call(&self.client, "GET", &path, &Value::Null).await.1;
        let claims = claims["items"].as_array().into_iter().flatten();
        let staying = claims.filter(|claim| claim["metadata"]["deletionTimestamp"].is_null());
        let facts = staying.filter_map(|claim| {
            let size = claim["status"]["capacity"]["storage"].as_str();
            Some((claim["metadata"]["name"].as_str()?, size.unwrap_or_default()))
        });
        let claims: Vec<_> = facts.collect();
        Some(State::of(pods, &claims, &set["status"], O::HAS_NAMES))
    }

    /// What `kutter explain` says, and what the program printed.
    async fn explanation(&self) -> String {
        let kubeconfig = format!("--kubeconfig={}", self.site.server.kubeconfig().display());
        let kind = self.history.of.kind().to_lowercase();
        let arguments = ["explain", &kind, "web", "--namespace", &self.namespace, &kubeconfig];
        let explained = product::run(&arguments).await;
        let set = self.set.get().await.1;
        format!(
            "\nkutter explain: {}{}\nits status: {:#}\nthe simulation's: {:?}",
            explained.stdout,
            explained.stderr,
            set["status"],
            self.simulated().blockers()
        )
    }

    async fn clean_up(&self) {
        let sidecars = format!("/apis/apps.kruise.io/v1beta1/sidecarsets/{}", self.namespace);
        for path in [sidecars, self.set.path.clone(), format!("/api/v1/namespaces/{}", self.namespace)] {
            patiently(async || call(&self.client, "DELETE", &path, &Value::Null).await).await;
        }
    }
}

fn state<O: Oracle>(simulated: &O) -> State {
    State::of(&simulated.pods(), &simulated.claims(), &simulated.status(), O::HAS_NAMES)
}

/// Where the variant of this number has come to.
fn outcome<O: Oracle>(index: usize, variant: &Variant<O>, reached: &Reached<'_>) -> Outcome {
    let pods = variant.oracle.pods();
    let before = reached.before.map(|(own, of)| (own, &of[index]));
    let before = before.filter(|(own, twins)| revisions(own) == revisions(twins));
    let fate = before.map(|(_, twins)| Fate::between(twins, &pods));
    Outcome { state: state(&variant.oracle), pods, fate }
}

/// A Pod that somebody touched, and that is still there while its twin in this variant is gone.
fn late<'r>(index: usize, outcome: &Outcome, reached: &Reached<'r>, pods: &Pods) -> Option<&'r ObservedPod> {
    let has = |pods: &Pods, uid: &str| pods.iter().any(|pod| *pod.metadata.uid == *uid);
    let is_late = |(pod, twins): &&Touched| {
        has(pods, &pod.metadata.uid) && !has(&outcome.pods, &twins[index].metadata.uid)
    };
    reached.touched.iter().find(is_late).map(|(pod, _)| &**pod)
}

/// The revisions of Pods, and how many of them each has.
fn revisions(pods: &Pods) -> BTreeMap<&str, usize> {
    let mut counts = BTreeMap::new();
    pods.iter()
        .for_each(|pod| *counts.entry(short_hash(revision(pod).unwrap_or_default())).or_default() += 1);
    counts
}

/// The Pods of a moment. Those that are being deleted count: the simulation has them too.
fn observed(moment: &Moment) -> Pods {
    moment.values().map(|pod| Arc::new(ObservedPod::read(&pod.to_string()).unwrap())).collect()
}

fn in_first_subset(pods: &Pods) -> usize {
    pods.iter().filter(|pod| pod.label(SUBSET) == Some("first")).count()
}

/// The operator behind the hooks of the workload's lifecycle, who answers late.
async fn answer_hooks(client: Client, namespace: String, hooks: Arc<Mutex<Lifecycle>>) {
    let pods: Api<DynamicObject> =
        kit::objects::namespaced(&client, &kit::objects::kind("v1", "Pod"), &namespace);
    let mut events = watcher(pods, watcher::Config::default()).default_backoff().applied_objects().boxed();
    let mut tasks = JoinSet::new();
    while let Some(event) = events.next().await {
        let Ok(pod) = event else { continue };
        let path = format!("/api/v1/namespaces/{namespace}/pods/{}", pod.name_any());
        let pod = ObservedPod::read(&serde_json::to_string(&pod).unwrap()).unwrap();
        let write = simulator::answer(&pod, &hooks.lock().unwrap());
        // Also those of the cluster itself, which are not his.
        if write.is_empty()
            || pod.metadata.finalizers.iter().any(|name| name.starts_with("batch.kubernetes.io"))
        {
            continue;
        }
        let client = client.clone();
        tasks.spawn(async move {
            sleep(HOOK).await;
            let patch: Value = serde_json::from_str(&write.to_json(&pod)).unwrap();
            // After a change meanwhile the next event counts; while the program is away it is tried again.
            while matches!(strategic(&client, &path, &patch).await, Err(Error::Api(status)) if status.code >= 500) {
                sleep(PAUSE).await;
            }
        });
        while tasks.try_join_next().is_some() {}
    }
}

async fn strategic(client: &Client, path: &str, patch: &Value) -> Result<Value, Error> {
    let request = axum::http::Request::patch(path)
        .header("content-type", "application/strategic-merge-patch+json")
        .body(serde_json::to_vec(patch).unwrap());
    client.request(request.unwrap()).await
}
