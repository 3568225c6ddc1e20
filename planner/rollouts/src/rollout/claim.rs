//! What the Rollout, its workload and its TrafficRouting carry of it (docs/behaviour/rollouts.md#keys).

use api::kinds::rollout::{API_VERSION, KIND, Rollout, Strategy};
use api::kinds::trafficrouting;
use api::{annotations, finalizers, labels};
use serde_json::{Map, Value, json};
use values::hash::hex_sha256;

use super::pass::{Halt, Pass};
use crate::object::{Object as _, ObjectName};
use crate::view::ListName;
use crate::workload::{Workload, WorkloadKind};
use crate::write::Write;

/// The hash of what a release is computed from: the strategy without `paused`, pauses and thresholds, which may change
/// at any time without a step being taken anew.
pub fn strategy_hash(strategy: &Strategy) -> String {
    let mut strategy = Strategy { paused: false, ..strategy.clone() };
    let blocks = (strategy.canary.as_mut(), strategy.blue_green.as_mut());
    let canary = blocks.0.map(|canary| (&mut canary.steps, &mut canary.failure_threshold));
    let blue_green = blocks.1.map(|blue_green| (&mut blue_green.steps, &mut blue_green.failure_threshold));
    for (steps, threshold) in canary.into_iter().chain(blue_green) {
        *threshold = None;
        steps.iter_mut().for_each(|step| step.pause.duration = None);
    }
    hex_sha256(&json!(strategy).to_string())
}

/// The value of the label by which webhooks select workloads of a kind.
fn type_label(kind: WorkloadKind) -> &'static str {
    match kind {
        WorkloadKind::CloneSet => "cloneset",
        WorkloadKind::Deployment => "deployment",
        WorkloadKind::AdvancedDaemonSet | WorkloadKind::DaemonSet => "daemonset",
        WorkloadKind::StatefulSet | WorkloadKind::AdvancedStatefulSet | WorkloadKind::StatefulSetLike => {
            "statefulset"
        }
    }
}

/// The name of the TrafficRouting that a Rollout refers to; empty where it does not. The annotation wins over the spec.
pub(crate) fn traffic_routing_name(rollout: &Rollout) -> &str {
    let annotated = rollout.metadata.annotations.get(annotations::ROLLOUT_TRAFFIC_ROUTING);
    let name = annotated.map(String::as_str).filter(|name| !name.is_empty());
    name.unwrap_or_else(|| rollout.spec.strategy.traffic_routing_ref())
}

impl Pass<'_> {
    /// Puts the finalizer and the hash on the Rollout.
    pub(super) fn claim(&mut self) {
        let metadata = &self.rollout.metadata;
        let mut patch = Map::new();
        if !metadata.finalizers.iter().any(|held| held == finalizers::ROLLOUT) {
            let finalizers = metadata.finalizers.iter().map(String::as_str).chain([finalizers::ROLLOUT]);
            patch.insert("finalizers".to_owned(), finalizers.collect());
        }
        let hash = strategy_hash(&self.rollout.spec.strategy);
        if metadata.annotations.get(annotations::ROLLOUT_HASH) != Some(&hash) {
            patch.insert("annotations".to_owned(), json!({annotations::ROLLOUT_HASH: hash}));
        }
        self.patch_rollout(patch);
    }

    /// Takes the label from the workload, whose updates need no webhook any more, and the finalizer from the Rollout, which
    /// goes then: no status is written any more.
    pub(super) fn let_go(&mut self) {
        let is_labelled =
            |workload: &&Workload| workload.object.label(labels::ROLLOUT_WORKLOAD_TYPE).is_some();
        if let Some(workload) = self.workload.filter(is_labelled) {
            let patch = json!({"metadata": {"labels": {labels::ROLLOUT_WORKLOAD_TYPE: null}}});
            self.writes.push(Write::patch(&workload.name, &workload.object, patch));
        }
        let held = self.rollout.metadata.finalizers.iter();
        let kept: Value = held.filter(|held| *held != finalizers::ROLLOUT).cloned().collect();
        self.patch_rollout(Map::from_iter([("finalizers".to_owned(), kept)]));
        self.status = self.rollout.status.clone();
    }

    fn patch_rollout(&mut self, mut metadata: Map<String, Value>) {
        if metadata.is_empty() {
            return;
        }
        let known = &self.rollout.metadata;
        metadata.insert("uid".to_owned(), known.uid.clone().into());
        metadata.insert("resourceVersion".to_owned(), known.resource_version.clone().into());
        let name = self.named(API_VERSION, KIND, &known.name);
        self.writes.push(Write::Patch { name, subresource: "", patch: json!({"metadata": metadata}) });
    }

    /// Labels the workload, so that webhooks can select it.
    pub(super) fn claim_workload(&mut self, workload: &Workload) {
        if workload.object.label(labels::ROLLOUT_WORKLOAD_TYPE).is_none() {
            let label = json!({labels::ROLLOUT_WORKLOAD_TYPE: type_label(workload.kind)});
            let patch = json!({"metadata": {"labels": label}});
            self.writes.push(Write::patch(&workload.name, &workload.object, patch));
        }
    }

    /// The TrafficRouting by which traffic follows this release too.
    fn traffic_routing(&self) -> Option<ObjectName> {
        let name = traffic_routing_name(self.rollout);
        let (api_version, kind) = (trafficrouting::API_VERSION, trafficrouting::KIND);
        (!name.is_empty()).then(|| self.named(api_version, kind, name))
    }

    /// The finalizer by which the TrafficRouting knows of this release.
    fn progressing_finalizer(&self) -> String {
        format!("{}{}", finalizers::PROGRESSING_ROLLOUT_PREFIX, self.rollout.metadata.name)
    }

    /// Tells the TrafficRouting that a release is running.
    pub(super) fn claim_traffic_routing(&mut self) -> Result<(), Halt> {
        let Some(name) = self.traffic_routing() else { return Ok(()) };
        let Some(routing) = self.view.object(&name)? else {
            return Err(self.wait(format!("TrafficRouting({}) Not Found", name.name)));
        };
        let finalizer = self.progressing_finalizer();
        if routing.has_finalizer(&finalizer) {
            return Ok(());
        }
        if routing.is_deleting() || matches!(routing.text("/status/phase"), "Finalizing" | "Terminating") {
            let message =
                format!("TrafficRouting({}) is putting traffic back from another release", name.name);
            return Err(self.wait(message));
        }
        let mut held = routing.items("/metadata/finalizers").to_vec();
        held.push(finalizer.into());
        self.writes.push(Write::patch(&name, routing, json!({"metadata": {"finalizers": held}})));
        Ok(())
    }

    /// Tells every TrafficRouting that knows of the release that it is over: the reference may have changed since.
    pub(super) fn release_traffic_routings(&mut self) -> Result<(), Halt> {
        let (api_version, kind) = (trafficrouting::API_VERSION, trafficrouting::KIND);
        let finalizer = self.progressing_finalizer();
        let list = ListName::new(api_version, kind, &self.rollout.metadata.namespace, "");
        let listed = self.view.list(&list)?;
        for routing in listed.iter().filter(|routing| routing.has_finalizer(&finalizer)) {
            let held = routing.items("/metadata/finalizers").iter();
            let kept: Vec<&Value> = held.filter(|held| held.as_str() != Some(&finalizer)).collect();
            let name = self.named(api_version, kind, routing.name());
            self.writes.push(Write::patch(&name, routing, json!({"metadata": {"finalizers": kept}})));
        }
        Ok(())
    }
}
