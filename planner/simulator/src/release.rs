//! A Rollout that leads the workload: its controllers and the freeze of admission, with the objects that they need beside
//! the workload. Their calls never fail, and they never crash.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::Duration;

use api::group_and_version;
use api::kinds::batchrelease::{self, BatchRelease};
use api::kinds::rollout::{self, Phase, Rollout, StepState};
use kinds::workload::revision::StoredRevision;
use pod::observed::ObservedPod;
use pod::write::PodWrite;
use rollouts::object::{Object as _, ObjectName};
use rollouts::plan::Plan;
use rollouts::rollout::measures::step_state;
use rollouts::settings::Settings;
use rollouts::view::{ListName, Unread, View};
use rollouts::write::Write;
use rollouts::{batch_release, explanation, freeze};
use serde::Serialize;
use serde::de::DeserializeOwned;
use serde_json::{Value, json};
use values::json_patch;
use values::merge_patch::merge_patch;
use values::moment::{Moment, rfc3339};
use values::selector::Selector;

use super::agenda::Milliseconds;
use super::kind::Simulated;
use super::timeline::Actor;
use super::{Cluster, Event};

/// Plans in one reconcile, and what one plan reads: more than any release needs.
const MANY: usize = 50;
/// The state of a step that waits for its time, or for an approval.
const PAUSED: &str = "StepPaused";
/// The time between a change and the plans that follow from it.
pub(super) const PAUSE: Milliseconds = 50;

/// The Rollout of the workload.
#[derive(Clone, Debug)]
pub(super) struct Release {
    rollout: ObjectName,
    /// The Rollout, its BatchRelease, and what leads traffic.
    objects: BTreeMap<ObjectName, Value>,
    /// When the controllers look at the Rollout next.
    due: Option<Milliseconds>,
    /// After what time somebody approves a step that waits for it; never where there is none.
    approval: Option<Milliseconds>,
}

impl Release {
    pub(super) fn due(&self) -> Option<Milliseconds> {
        self.due
    }

    fn read<T: DeserializeOwned>(&self, name: &ObjectName) -> Option<T> {
        self.objects.get(name).and_then(|object| serde_json::from_value(object.clone()).ok())
    }

    fn set_status(&mut self, name: &ObjectName, status: &impl Serialize) {
        if let Some(members) = self.objects.get_mut(name).and_then(Value::as_object_mut) {
            members.insert("status".to_owned(), serde_json::to_value(status).unwrap_or_default());
        }
    }

    fn batches(&self) -> ObjectName {
        let ObjectName { namespace, name, .. } = &self.rollout;
        ObjectName::new(batchrelease::API_VERSION, batchrelease::KIND, namespace, name)
    }
}

impl<W: Simulated> Cluster<'_, W> {
    /// From now on this Rollout leads the workload. `rollout` and `objects` are in their stored versions; `objects` lead its
    /// traffic. Steps that wait for an approval get it after a time if there is one.
    pub fn release_by(&mut self, rollout: Value, objects: Vec<Value>, approval: Option<Milliseconds>) {
        let mut release =
            Release { rollout: name_of(&rollout), objects: BTreeMap::new(), due: None, approval };
        for mut object in objects.into_iter().chain([rollout]) {
            let uid = format!("{}-{}", object.text("/kind"), object.name());
            set_metadata(&mut object, &json!({"uid": uid, "generation": 1}));
            release.objects.insert(name_of(&object), object);
        }
        self.release = Some(release);
        self.lead_after(PAUSE);
    }

    /// The Rollout as the API server has it.
    pub fn rollout(&self) -> Option<&Value> {
        let release = self.release.as_ref()?;
        release.objects.get(&release.rollout)
    }

    /// A user lets the step of this number continue, if it still waits.
    pub(super) fn approve(&mut self, step: i32) {
        let Some(release) = &mut self.release else { return };
        let Some(mut rollout): Option<Rollout> = release.read(&release.rollout) else { return };
        if step_state(&rollout.status) != Some((step, PAUSED)) {
            return;
        }
        rollout.status.current_step_state = StepState::StepReady;
        for status in rollout.status.canary_status.iter_mut().chain(&mut rollout.status.blue_green_status) {
            status.current_step_state = StepState::StepReady;
        }
        release.set_status(&release.rollout.clone(), &rollout.status);
        self.record(Actor::User, format!("approves step {step} of the Rollout"));
        self.lead_after(PAUSE);
    }

    /// The workload as the API server shows it.
    pub fn shown(&self) -> Value {
        object_of(&*self.server.workload)
    }

    /// What becomes of a write of the workload that its Rollout may hold back.
    pub(super) fn held_back(&self, workload: &W) -> Option<W> {
        serde_json::from_value(self.reviewed(&object_of(workload))?).ok()
    }

    /// What admission makes of a write of the workload; `None` where there is no Rollout.
    fn reviewed(&self, new: &Value) -> Option<Value> {
        let release = self.release.as_ref()?;
        let rollouts: Vec<Arc<Rollout>> = release.read(&release.rollout).map(Arc::new).into_iter().collect();
        let old = self.shown();
        let patch = self.decide(|view| {
            let context = freeze::Context { rollouts: &rollouts, gates: &self.settings.gates, view };
            freeze::review(&old, new, &context)
        })?;
        serde_json::from_str(&json_patch::apply(&new.to_string(), &patch).ok()?).ok()
    }

    /// Has the controllers of the Rollout look at it.
    pub(super) fn lead_after(&mut self, delay: Milliseconds) {
        let due = self.agenda.now() + delay;
        if let Some(release) =
            self.release.as_mut().filter(|release| release.due.is_none_or(|known| due < known))
        {
            release.due = Some(due);
            self.agenda.add(delay, Event::Lead);
        }
    }

    /// The controllers plan and write until nothing is left to be written.
    pub(super) fn lead(&mut self) {
        let now = self.agenda.now();
        match &mut self.release {
            Some(release) if release.due.is_some_and(|due| due <= now) => release.due = None,
            _ => return,
        }
        let mut again = None;
        for _ in 0..MANY {
            let (rollout, batches) = (self.plan_rollout(), self.plan_batches());
            again = [&rollout, &batches].into_iter().flatten().filter_map(|(_, again)| *again).min();
            if ![rollout, batches].iter().flatten().any(|(has_written, _)| *has_written) {
                break;
            }
        }
        if let Some(again) = again {
            self.lead_after(Milliseconds::try_from(again.as_millis()).unwrap_or(Milliseconds::MAX).max(1));
        }
    }

    fn plan_rollout(&mut self) -> Option<(bool, Option<Duration>)> {
        let release = self.release.as_ref()?;
        let (name, rollout): (_, Rollout) = (release.rollout.clone(), release.read(&release.rollout)?);
        let (settings, moment) = self.premises();
        let plan = self.decide(|view| rollouts::rollout::plan(&rollout, view, &settings, &moment))?;
        let (was, is) = (stage(&rollout.status), stage(&plan.status));
        let steps = rollout.spec.strategy.steps().len();
        let again = plan.again;
        let has_written = self.carry_out_of(&name, plan, &rollout.status);
        if is != was {
            let (phase, step) = is;
            self.await_approval(&rollout, step);
            let step = step.map(|(step, state)| format!(", step {step} of {steps}: {state}"));
            let text = format!("Rollout {} is {phase}{}", name.name, step.unwrap_or_default());
            self.record(Actor::Kutter, text);
        }
        Some((has_written, again))
    }

    /// Plans the approval of a step that waits for one.
    fn await_approval(&mut self, rollout: &Rollout, step: Option<(i32, &str)>) {
        let Some((number, PAUSED)) = step else { return };
        let index = usize::try_from(number).unwrap_or(0).saturating_sub(1);
        let waits =
            rollout.spec.strategy.steps().get(index).is_some_and(|step| step.pause.duration.is_none());
        let approval = self.release.as_ref().and_then(|release| release.approval);
        if let Some(pause) = approval.filter(|_| waits) {
            self.agenda.add(pause, Event::Approve(number));
        }
    }

    fn plan_batches(&mut self) -> Option<(bool, Option<Duration>)> {
        let release = self.release.as_ref()?;
        let name = release.batches();
        let batches: BatchRelease = release.read(&name)?;
        let (settings, moment) = self.premises();
        let plan = self.decide(|view| batch_release::plan(&batches, view, &settings, &moment))?;
        let again = plan.again;
        Some((self.carry_out_of(&name, plan, &batches.status), again))
    }

    fn premises(&mut self) -> (Settings, Moment) {
        let settings =
            Settings { gates: self.settings.gates.clone(), namespace: api::DEFAULT_NAMESPACE.to_owned() };
        (settings, Moment { now: self.now(), seed: self.random.next_u64() })
    }

    /// Writes what an object's plan says, and its status. Says whether anything was written.
    fn carry_out_of<S: Serialize + PartialEq>(
        &mut self,
        name: &ObjectName,
        plan: Plan<S>,
        before: &S,
    ) -> bool {
        let has_written = !plan.writes.is_empty() || plan.status != *before;
        plan.writes.into_iter().for_each(|write| self.write_for_release(write));
        for event in plan.events {
            self.record(Actor::Kutter, format!("reports {}: {}", event.reason, event.message));
        }
        self.release.iter_mut().for_each(|release| release.set_status(name, &plan.status));
        has_written
    }

    fn write_for_release(&mut self, write: Write) {
        let own = [rollout::KIND, batchrelease::KIND];
        let (name, text) = match &write {
            Write::Create { name, .. } => (name, format!("creates {} {}", name.kind, name.name)),
            Write::Patch { name, patch, .. } => {
                let spec = patch.get("spec").map(|spec| format!(": {spec}")).unwrap_or_default();
                (name, format!("changes {} {}{spec}", name.kind, name.name))
            }
            Write::Delete { name, .. } => (name, format!("deletes {} {}", name.kind, name.name)),
        };
        let is_told = !own.contains(&name.kind.as_str()) && name.kind != "Pod";
        if is_told {
            self.record(Actor::Kutter, text);
        }
        let is_workload = self.is_workload(name);
        match write {
            Write::Patch { name, patch, .. } if name.kind == "Pod" => self.label(&name, &patch),
            Write::Patch { name, patch, .. } if is_workload => {
                let before = converted(self.shown(), &name.api_version);
                let patched = self.completed(merged(&before, &patch), &before, &name);
                let patched = converted(patched, W::API_VERSION);
                let goes_back = patch.pointer("/spec/template").is_some();
                let held = goes_back.then(|| self.reviewed(&patched)).flatten();
                let patched = held.unwrap_or(patched);
                if let Ok(patched) = serde_json::from_value::<W>(patched) {
                    self.server.change_workload(|workload| *workload = patched);
                }
            }
            Write::Patch { name, patch, .. } => {
                let objects = self.release.as_mut().map(|release| &mut release.objects);
                if let Some(object) = objects.and_then(|objects| objects.get_mut(&name)) {
                    *object = merged(object, &patch);
                }
                self.collect(&name);
            }
            Write::Create { name, mut object } => {
                let uid = self.next_number();
                set_metadata(&mut object, &json!({"uid": format!("release-{uid}"), "generation": 1}));
                self.release.iter_mut().for_each(|release| {
                    release.objects.entry(name.clone()).or_insert_with(|| object.clone());
                });
            }
            Write::Delete { name, .. } => {
                let now = rfc3339(self.now());
                let objects = self.release.as_mut().map(|release| &mut release.objects);
                if let Some(object) = objects.and_then(|objects| objects.get_mut(&name)) {
                    set_metadata(object, &json!({"deletionTimestamp": now}));
                }
                self.collect(&name);
            }
        }
    }

    /// A write of the workload with what admission adds to it.
    fn completed(&self, object: Value, before: &Value, name: &ObjectName) -> Value {
        let (text, before) = (object.to_string(), before.to_string());
        let version = group_and_version(&name.api_version).1;
        let defaults = W::defaults(&text, Some(&before), version, &self.settings.gates).ok();
        let completed = defaults.and_then(|defaults| json_patch::apply(&text, &defaults).ok());
        completed.and_then(|completed| serde_json::from_str(&completed).ok()).unwrap_or(object)
    }

    /// Removes an object that is to be deleted and that no finalizer holds.
    fn collect(&mut self, name: &ObjectName) {
        if let Some(release) = &mut self.release {
            let is_over =
                |object: &Value| object.is_deleting() && object.items("/metadata/finalizers").is_empty();
            release.objects.retain(|known, object| known != name || !is_over(object));
        }
    }

    /// Changes the labels of a Pod.
    fn label(&mut self, name: &ObjectName, patch: &Value) {
        let Some(pod) = self.server.pods.get(name.name.as_str()).cloned() else { return };
        let mut write = PodWrite::default();
        for (key, value) in patch.members("/metadata/labels").into_iter().flatten() {
            write.labels.insert(key.clone(), value.as_str().map(str::to_owned));
        }
        self.change(Actor::Kutter, &pod, |pod| write.apply(pod));
    }

    /// Makes a plan with what it asks for; `None` where it asks without end.
    fn decide<T>(&self, plan: impl Fn(&View) -> Result<T, Unread>) -> Option<T> {
        let mut view = View::default();
        for _ in 0..MANY {
            match plan(&view) {
                Ok(plan) => return Some(plan),
                Err(Unread::Object(name)) => {
                    let found = self.find(&name);
                    view.has_object(name, found);
                }
                Err(Unread::List(list)) => {
                    let found = self.listed(&list);
                    view.has_list(list, found);
                }
                Err(Unread::PodsOf { owner }) => {
                    let pods: Vec<Arc<ObservedPod>> =
                        if owner == self.server.uid() { self.pods() } else { Vec::new() };
                    view.has_pods(owner, pods);
                }
            }
        }
        None
    }

    fn is_workload(&self, name: &ObjectName) -> bool {
        name.kind == W::KIND
            && name.group() == api::APPS_GROUP
            && name.name == self.server.workload.metadata().name
    }

    fn find(&self, name: &ObjectName) -> Option<Value> {
        if self.is_workload(name) {
            return Some(converted(self.shown(), &name.api_version));
        }
        self.release.as_ref()?.objects.get(name).cloned()
    }

    fn listed(&self, list: &ListName) -> Vec<Value> {
        let selector = Selector::parse(&list.selector).ok();
        let matches = |object: &Value| selector.as_ref().is_some_and(|selector| selector.matches(object));
        let objects: Vec<Value> = if list.kind == "ControllerRevision" {
            self.server.revisions.values().map(|revision| revision_of(revision)).collect()
        } else {
            let of_kind = |name: &&ObjectName| name.kind == list.kind && name.api_version == list.api_version;
            let objects = self.release.iter().flat_map(|release| &release.objects);
            objects.filter(|(name, _)| of_kind(name)).map(|(_, object)| object.clone()).collect()
        };
        objects.into_iter().filter(matches).collect()
    }

    /// What the release says of itself where it has not come to its end.
    pub(super) fn unreleased(&self) -> Vec<String> {
        let rollout: Option<Rollout> =
            self.release.as_ref().and_then(|release| release.read(&release.rollout));
        let is_still = |rollout: &Rollout| matches!(rollout.status.phase, Phase::Healthy | Phase::Disabled);
        let Some(rollout) = rollout.filter(|rollout| !is_still(rollout)) else { return Vec::new() };
        self.decide(|view| explanation::explain(&rollout, view)).unwrap_or_default()
    }
}

/// Where a release stands.
fn stage(status: &rollout::Status) -> (String, Option<(i32, &'static str)>) {
    let phase = serde_json::to_value(&status.phase).unwrap_or_default();
    (phase.text("").to_owned(), step_state(status))
}

fn name_of(object: &Value) -> ObjectName {
    let text = |pointer| object.text(pointer);
    ObjectName::new(text("/apiVersion"), text("/kind"), text("/metadata/namespace"), object.name())
}

fn set_metadata(object: &mut Value, members: &Value) {
    *object = merged(object, &json!({"metadata": members}));
}

/// An object after a merge patch.
fn merged(object: &Value, patch: &Value) -> Value {
    let merged = merge_patch(&object.to_string(), &patch.to_string()).ok();
    merged.and_then(|merged| serde_json::from_str(&merged).ok()).unwrap_or_else(|| object.clone())
}

/// The workload as the API server shows it.
fn object_of<W: Simulated>(workload: &W) -> Value {
    let object = workload.object();
    json!({
        "apiVersion": W::API_VERSION, "kind": W::KIND, "metadata": object.metadata, "spec": object.spec,
        "status": object.status,
    })
}

/// An object in another version that is served.
fn converted(object: Value, api_version: &str) -> Value {
    let converted = api::conversion::convert(&object.to_string(), api_version).ok();
    converted.and_then(|converted| serde_json::from_str(converted.get()).ok()).unwrap_or(object)
}

fn revision_of(revision: &StoredRevision) -> Value {
    let StoredRevision { metadata, data, revision } = revision;
    json!({
        "apiVersion": "apps/v1", "kind": "ControllerRevision", "metadata": metadata, "data": data, "revision": revision,
    })
}
