//! What a kubelet would report of a Pod: decided from the Pod, the ConfigMap keys and the time,
//! without any input or output.

use std::collections::HashMap;
use std::time::Duration;

use k8s_openapi::api::core::v1::{
    Container, ContainerState, ContainerStateRunning, ContainerStateTerminated, ContainerStateWaiting,
    ContainerStatus, EphemeralContainer, Pod, PodCondition, PodSpec, PodStatus, ResourceRequirements,
};
use k8s_openapi::apimachinery::pkg::apis::meta::v1::Time;
use k8s_openapi::jiff::{Timestamp, Unit};
use kube::ResourceExt;
use serde_json::{Value, json};
use sha2::{Digest, Sha256};
use tokio::time::Instant;

use super::kubelet::{ConfigMaps, HOST_IP};
use super::{CRASH, EXIT, READY_AFTER, RESIZE_AFTER, START_AFTER, TERMINATE_AFTER};

/// The present time, which lease renewals show with its fractions.
pub(super) fn now() -> Timestamp {
    Timestamp::now()
}

/// The present time as the API server keeps it: in whole seconds.
fn seconds() -> Time {
    let now = now();
    Time(now.round(Unit::Second).map_or(now, |rounded| rounded))
}

/// A delay that an annotation asks for.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Delay {
    After(Duration),
    Never,
}

/// How long a deleted Pod takes to end.
pub(super) fn terminate_after(pod: &Pod) -> Delay {
    delay(pod, TERMINATE_AFTER)
}

fn delay(pod: &Pod, annotation: &str) -> Delay {
    match pod.annotations().get(annotation).map(String::as_str) {
        None => Delay::After(Duration::ZERO),
        Some("never") => Delay::Never,
        Some(text) => {
            let milliseconds = text
                .parse()
                .unwrap_or_else(|_| panic!("{annotation}: {text:?} is neither milliseconds nor never"));
            Delay::After(Duration::from_millis(milliseconds))
        }
    }
}

/// What to write and when to look again.
#[derive(Debug, Default)]
pub(super) struct Step {
    /// A strategic merge patch of the status, if it differs from what the Pod shows.
    pub(super) patch: Option<Value>,
    /// When time alone changes something.
    pub(super) wake: Option<Instant>,
    /// A container waits for a ConfigMap.
    pub(super) blocked: bool,
}

/// What a container's spec says that matters here; the three kinds of containers share it.
struct Wanted<'a> {
    name: &'a str,
    image: &'a str,
    resources: Option<&'a ResourceRequirements>,
    keys: Vec<(&'a str, &'a str)>,
}

impl<'a> Wanted<'a> {
    fn container(container: &'a Container) -> Self {
        let variables = container.env.iter().flatten();
        let references =
            variables.filter_map(|variable| variable.value_from.as_ref()?.config_map_key_ref.as_ref());
        let keys = references.filter(|reference| reference.optional != Some(true));
        Self {
            name: &container.name,
            image: container.image.as_deref().unwrap_or_default(),
            resources: container.resources.as_ref(),
            keys: keys.map(|reference| (reference.name.as_str(), reference.key.as_str())).collect(),
        }
    }

    fn ephemeral(container: &'a EphemeralContainer) -> Self {
        let image = container.image.as_deref().unwrap_or_default();
        Self { name: &container.name, image, resources: None, keys: Vec::new() }
    }
}

/// One container's life so far.
#[derive(Debug, Clone, Default)]
struct Life {
    image: String,
    /// The resources that it has, and since when others are wanted.
    resources: Option<ResourceRequirements>,
    resizing: Option<Instant>,
    /// How many times it was started; makes its id.
    starts: u32,
    /// When the present start began; None before the first and while a restart is held up.
    launched: Option<Instant>,
    started_at: Option<Time>,
    previous: Option<ContainerStateTerminated>,
}

/// What a kubelet knows of one Pod beyond the API object.
#[derive(Debug)]
pub(super) struct Runtime {
    ip: String,
    start_time: Time,
    lives: HashMap<String, Life>,
}

impl Runtime {
    /// `number` makes the Pod's address.
    pub(super) fn new(number: u32) -> Self {
        let [_, high, middle, low] = number.to_be_bytes();
        let ip = format!("10.{}.{middle}.{low}", 204 + high % 40);
        Self { ip, start_time: seconds(), lives: HashMap::new() }
    }

    /// Goes as far as is possible `now`.
    pub(super) fn advance(&mut self, pod: &Pod, config_maps: &ConfigMaps, now: Instant) -> Step {
        let Some(spec) = &pod.spec else { return Step::default() };
        let mut step = Step::default();
        let mut initialized = true;
        let mut init = Vec::new();
        for container in spec.init_containers.iter().flatten() {
            let stays = container.restart_policy.as_deref() == Some("Always");
            let wanted = Wanted::container(container);
            let status = if initialized {
                let running = self.run(pod, &wanted, config_maps, now, &mut step);
                if stays || state(&running).running.is_none() {
                    running
                } else {
                    self.ended(running, 0, "Completed")
                }
            } else {
                waiting(&wanted, "PodInitializing", None)
            };
            initialized &= state(&status).running.is_some() || exit_code(&status) == Some(0);
            init.push(status);
        }
        let mut statuses = Vec::new();
        for container in &spec.containers {
            let wanted = Wanted::container(container);
            statuses.push(match initialized {
                true => self.run(pod, &wanted, config_maps, now, &mut step),
                false => waiting(&wanted, "PodInitializing", None),
            });
        }
        let mut ephemeral = Vec::new();
        for container in spec.ephemeral_containers.iter().flatten() {
            ephemeral.push(self.run(pod, &Wanted::ephemeral(container), config_maps, now, &mut step));
        }
        step.patch = self.patch(pod, initialized, init, statuses, ephemeral);
        step
    }

    /// The patch that reports the end of all containers of a deleted Pod.
    pub(super) fn terminated(&mut self, pod: &Pod) -> Value {
        let reported =
            pod.status.as_ref().and_then(|status| status.container_statuses.clone()).unwrap_or_default();
        let statuses: Vec<_> =
            reported.into_iter().map(|status| self.ended(status, 0, "Completed")).collect();
        let conditions =
            ["Ready", "ContainersReady"].map(|kind| condition(pod, kind, Some("PodCompleted"), None));
        json!({"phase": "Succeeded", "containerStatuses": statuses, "conditions": conditions})
    }

    /// Starts, restarts or continues one container, and reports it.
    fn run(
        &mut self,
        pod: &Pod,
        wanted: &Wanted,
        config_maps: &ConfigMaps,
        now: Instant,
        step: &mut Step,
    ) -> ContainerStatus {
        let uid = pod.uid().unwrap_or_default();
        let life = self.lives.entry(wanted.name.to_owned()).or_default();
        if life.launched.is_some() && life.image != wanted.image {
            life.launched = None;
            life.previous = Some(life.end(&uid, wanted.name, 0, "Completed"));
        }
        let launched = match life.launched {
            Some(launched) => launched,
            None => {
                if let Some(message) = missing_key(pod, wanted, config_maps) {
                    step.blocked = true;
                    return life.apply(waiting(wanted, "CreateContainerConfigError", Some(message)));
                }
                if wanted.image.ends_with(":missing") {
                    let message = format!("Back-off pulling image {:?}", wanted.image);
                    return life.apply(waiting(wanted, "ImagePullBackOff", Some(message)));
                }
                wanted.image.clone_into(&mut life.image);
                life.resources = wanted.resources.cloned();
                life.starts += 1;
                life.started_at = None;
                *life.launched.insert(now)
            }
        };
        let mut wait = |delay: Delay, since: Instant| match delay {
            Delay::Never => None,
            Delay::After(delay) if now >= since + delay => Some(since + delay),
            Delay::After(delay) => {
                let at = since + delay;
                step.wake = Some(step.wake.map_or(at, |wake| wake.min(at)));
                None
            }
        };
        let Some(running) = wait(delay(pod, START_AFTER), launched) else {
            return life.apply(waiting(wanted, "ContainerCreating", None));
        };
        life.started_at.get_or_insert_with(seconds);
        if listed(pod, CRASH, wanted.name).is_some() {
            life.previous = Some(life.end(&uid, wanted.name, 1, "Error"));
            let crashed =
                waiting(wanted, "CrashLoopBackOff", Some("back-off restarting failed container".to_owned()));
            return ContainerStatus { restart_count: 1, ..life.apply(crashed) };
        }
        let ready = wait(delay(pod, READY_AFTER), running).is_some();
        life.resizing = (life.resources.as_ref() != wanted.resources).then(|| life.resizing.unwrap_or(now));
        if let Some(since) = life.resizing
            && wait(delay(pod, RESIZE_AFTER), since).is_some()
        {
            life.resources = wanted.resources.cloned();
            life.resizing = None;
        }
        let status = life.apply(life.running(&uid, wanted, ready));
        match listed(pod, EXIT, wanted.name) {
            Some(code) if ready => {
                let code = code.parse().unwrap_or_else(|_| panic!("{EXIT}: {code:?} is not an exit code"));
                self.ended(status, code, if code == 0 { "Completed" } else { "Error" })
            }
            _ => status,
        }
    }

    /// The status of the same container after its end.
    fn ended(&mut self, status: ContainerStatus, exit_code: i32, reason: &str) -> ContainerStatus {
        let life = self.lives.entry(status.name.clone()).or_default();
        let terminated = ContainerStateTerminated {
            container_id: status.container_id.clone(),
            exit_code,
            reason: Some(reason.to_owned()),
            started_at: life.started_at.clone(),
            finished_at: life.started_at.clone(),
            ..Default::default()
        };
        let state = ContainerState { terminated: Some(terminated), ..Default::default() };
        ContainerStatus { ready: false, started: Some(false), state: Some(state), ..status }
    }

    fn patch(
        &self,
        pod: &Pod,
        initialized: bool,
        init: Vec<ContainerStatus>,
        statuses: Vec<ContainerStatus>,
        ephemeral: Vec<ContainerStatus>,
    ) -> Option<Value> {
        let spec = pod.spec.as_ref()?;
        let old = pod.status.clone().unwrap_or_default();
        let phase = phase(spec, &init, &statuses);
        let finished = matches!(phase, "Succeeded" | "Failed");
        let sidecars = init.iter().filter(|status| state(status).terminated.is_none());
        let unready: Vec<&str> = sidecars
            .chain(&statuses)
            .filter(|status| !status.ready)
            .map(|status| status.name.as_str())
            .collect();
        let waiting =
            (!unready.is_empty()).then(|| format!("containers with unready status: [{}]", unready.join(" ")));
        let reason = if finished { "PodCompleted" } else { "ContainersNotReady" };
        let gate = closed_gate(spec, &old);
        let ready = match (&waiting, gate) {
            (None, Some(gate)) => {
                let message =
                    format!("corresponding condition of pod readiness gate {gate:?} is not \"True\".");
                condition(pod, "Ready", Some("ReadinessGatesNotReady"), Some(message))
            }
            _ => condition(pod, "Ready", waiting.as_ref().map(|_| reason), waiting.clone()),
        };
        let conditions = vec![
            condition(pod, "Initialized", (!initialized).then_some("ContainersNotInitialized"), None),
            condition(pod, "ContainersReady", waiting.as_ref().map(|_| reason), waiting),
            ready,
        ];
        let list = |statuses: Vec<ContainerStatus>| (!statuses.is_empty()).then_some(statuses);
        let new = PodStatus {
            phase: Some(phase.to_owned()),
            conditions: Some(conditions),
            container_statuses: list(statuses),
            init_container_statuses: list(init),
            ephemeral_container_statuses: list(ephemeral),
            host_ip: Some(HOST_IP.to_owned()),
            pod_ip: Some(self.ip.clone()),
            start_time: Some(self.start_time.clone()),
            observed_generation: pod.metadata.generation,
            ..Default::default()
        };
        differs(&old, &new).then(|| {
            let mut patch = serde_json::to_value(new).expect("a status is JSON");
            // Conditions are merged: what is not said any more has to be taken away.
            for condition in patch["conditions"].as_array_mut().into_iter().flatten() {
                for field in ["reason", "message"] {
                    condition[field] = condition[field].take();
                }
            }
            patch["podIPs"] = json!([{"ip": self.ip}]);
            patch["hostIPs"] = json!([{"ip": HOST_IP}]);
            patch
        })
    }
}

impl Life {
    fn restarts(&self) -> i32 {
        i32::try_from(self.starts.saturating_sub(1)).unwrap_or(i32::MAX)
    }

    fn id(&self, uid: &str, name: &str) -> String {
        format!("containerd://{}", sha256(&format!("{uid}/{name}/{}", self.starts)))
    }

    fn end(&self, uid: &str, name: &str, exit_code: i32, reason: &str) -> ContainerStateTerminated {
        ContainerStateTerminated {
            container_id: Some(self.id(uid, name)),
            exit_code,
            reason: Some(reason.to_owned()),
            started_at: self.started_at.clone(),
            finished_at: self.started_at.clone(),
            ..Default::default()
        }
    }

    fn running(&self, uid: &str, wanted: &Wanted, ready: bool) -> ContainerStatus {
        let state = ContainerStateRunning { started_at: self.started_at.clone() };
        ContainerStatus {
            name: wanted.name.to_owned(),
            image: wanted.image.to_owned(),
            image_id: image_id(wanted.image),
            container_id: Some(self.id(uid, wanted.name)),
            ready,
            started: Some(true),
            state: Some(ContainerState { running: Some(state), ..Default::default() }),
            resources: self.resources.clone(),
            allocated_resources: wanted.resources.and_then(|resources| resources.requests.clone()),
            ..Default::default()
        }
    }

    /// Adds the history to a status.
    fn apply(&self, status: ContainerStatus) -> ContainerStatus {
        let last = ContainerState { terminated: self.previous.clone(), ..Default::default() };
        ContainerStatus { last_state: Some(last), restart_count: self.restarts(), ..status }
    }
}

fn waiting(wanted: &Wanted, reason: &str, message: Option<String>) -> ContainerStatus {
    let state = ContainerStateWaiting { reason: Some(reason.to_owned()), message };
    ContainerStatus {
        name: wanted.name.to_owned(),
        image: wanted.image.to_owned(),
        started: Some(false),
        state: Some(ContainerState { waiting: Some(state), ..Default::default() }),
        last_state: Some(ContainerState::default()),
        ..Default::default()
    }
}

fn state(status: &ContainerStatus) -> ContainerState {
    status.state.clone().unwrap_or_default()
}

fn exit_code(status: &ContainerStatus) -> Option<i32> {
    state(status).terminated.map(|terminated| terminated.exit_code)
}

/// What the kubelet calls the phase, from the states of the containers.
fn phase(spec: &PodSpec, init: &[ContainerStatus], statuses: &[ContainerStatus]) -> &'static str {
    let never_started = |status: &ContainerStatus| {
        state(status).waiting.is_some() && status.last_state == Some(ContainerState::default())
    };
    if init.iter().chain(statuses).any(never_started) {
        return "Pending";
    }
    let policy = spec.restart_policy.as_deref().unwrap_or("Always");
    let codes: Option<Vec<i32>> = statuses.iter().map(exit_code).collect();
    match codes {
        Some(codes) if policy != "Always" && codes.iter().all(|&code| code == 0) => "Succeeded",
        Some(_) if policy == "Never" => "Failed",
        _ => "Running",
    }
}

/// The first readiness gate whose condition isn't True.
fn closed_gate<'a>(spec: &'a PodSpec, status: &PodStatus) -> Option<&'a str> {
    let is_true = |gate: &str| {
        let mut conditions = status.conditions.iter().flatten();
        conditions.any(|condition| condition.type_ == gate && condition.status == "True")
    };
    let gates = spec.readiness_gates.iter().flatten();
    gates.map(|gate| gate.condition_type.as_str()).find(|gate| !is_true(gate))
}

/// A condition of the Pod: true without `problem`. It keeps its transition time while its status stays.
fn condition(pod: &Pod, kind: &str, problem: Option<&str>, message: Option<String>) -> PodCondition {
    let status = if problem.is_some() { "False" } else { "True" };
    let mut old = pod.status.iter().flat_map(|status| status.conditions.iter().flatten());
    let same = old.find(|old| old.type_ == kind && old.status == status);
    PodCondition {
        type_: kind.to_owned(),
        status: status.to_owned(),
        reason: problem.map(str::to_owned),
        message,
        last_transition_time: same
            .and_then(|old| old.last_transition_time.clone())
            .or_else(|| Some(seconds())),
        observed_generation: pod.metadata.generation,
        ..Default::default()
    }
}

/// Whether anything that a kubelet reports has changed.
fn differs(old: &PodStatus, new: &PodStatus) -> bool {
    let theirs = old.conditions.as_deref().unwrap_or_default();
    let conditions_differ = new.conditions.iter().flatten().any(|condition| !theirs.contains(condition));
    let shown = |status: &PodStatus| {
        let lists = [
            &status.container_statuses,
            &status.init_container_statuses,
            &status.ephemeral_container_statuses,
        ];
        (status.phase.clone(), status.pod_ip.clone(), status.observed_generation, lists.map(Clone::clone))
    };
    conditions_differ || shown(old) != shown(new)
}

/// Why a container can't be created: a ConfigMap or one of its keys isn't there.
fn missing_key(pod: &Pod, wanted: &Wanted, config_maps: &ConfigMaps) -> Option<String> {
    let namespace = pod.namespace().unwrap_or_default();
    wanted.keys.iter().find_map(|(name, key)| match config_maps.keys(&namespace, name) {
        None => Some(format!("configmap {name:?} not found")),
        Some(keys) if keys.contains(*key) => None,
        Some(_) => Some(format!("couldn't find key {key} in ConfigMap {namespace}/{name}")),
    })
}

/// The value of `name` in an annotation of the form `name=value,…` or `name,…`.
fn listed<'a>(pod: &'a Pod, annotation: &str, name: &str) -> Option<&'a str> {
    let entries = pod.annotations().get(annotation)?.split(',');
    entries
        .map(|entry| entry.split_once('=').unwrap_or((entry, "")))
        .find(|(key, _)| *key == name)
        .map(|(_, value)| value)
}

/// An image reference by digest stays; any other gets a digest made from its text.
fn image_id(image: &str) -> String {
    if image.contains('@') {
        return image.to_owned();
    }
    let repository = image.rsplit_once(':').map_or(image, |(repository, _)| repository);
    format!("{repository}@sha256:{}", sha256(image))
}

fn sha256(text: &str) -> String {
    crate::hex(&Sha256::digest(text.as_bytes()))
}
