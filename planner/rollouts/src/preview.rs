//! What a release would do, before anybody begins it, as `kubectl kruise rollout plan` prints it
//! (docs/behaviour/rollouts.md#steps).

use std::collections::BTreeMap;
use std::fmt;
use std::sync::Arc;

use api::features::{Feature, FeatureGates};
use api::kinds::rollout::{
    API_VERSION, HttpRouteMatch, KIND, Rollout, Step, StrategyKind, TrafficRoutingRef,
};
use jiff::Timestamp;
use serde_json::{Value, json};
use values::verdict::Verdict;

use crate::object::{Object as _, ObjectName};
use crate::rollout::traffic_routing_name;
use crate::traffic::{self, Error};
use crate::view::{Unread, View};
use crate::workload::batch::updated_after;
use crate::workload::task::{refusal, refusal_of};
use crate::workload::{self, Style, Workload, WorkloadKind};
use crate::{freeze, validation};

#[cfg(test)]
mod tests;

/// What a preview reads beside the Rollout.
#[derive(Clone, Copy, Debug)]
pub struct Context<'a> {
    /// What validation reads.
    pub validation: validation::Context<'a>,
    /// The feature gates.
    pub gates: &'a FeatureGates,
    /// What was read of the cluster.
    pub view: &'a View,
}

/// What a release would do.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Preview {
    /// What is released.
    pub title: String,
    /// What each step brings, and what there is after the last one.
    pub steps: Vec<Row>,
    /// The objects that are made or changed, each as a verb, a kind and a name.
    pub objects: Vec<[String; 3]>,
    /// Why nothing of this would happen.
    pub refusals: Vec<String>,
}

/// What a step brings.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Row {
    /// Its number, or `end`.
    pub step: String,
    /// How many Pods are new after it.
    pub new: i32,
    /// How many are old.
    pub old: i32,
    /// Which requests new Pods get; empty where the Service spreads them over all Pods.
    pub traffic: String,
    /// What brings about the next one.
    pub then: String,
}

/// What a release of a Rollout would do. `submitted` is its workload as the API server is about to store it; without it,
/// any change of the template is meant.
///
/// # Errors
/// Something has not been read.
pub fn preview(
    rollout: &Rollout,
    submitted: Option<&Value>,
    context: &Context<'_>,
) -> Result<Preview, Unread> {
    let reference = &rollout.spec.workload_ref;
    let (namespace, name) = (&rollout.metadata.namespace, &rollout.metadata.name);
    let style = Style::of(&rollout.spec.strategy, reference);
    let mut preview = Preview {
        title: format!("Rollout {namespace}/{name} releases {} {}", reference.kind, reference.name),
        refusals: Vec::from_iter(invalid(rollout, context)),
        ..Preview::default()
    };
    preview.refusals.extend(refusal(reference, style));
    let Some(workload) = workload::read(reference, namespace, style, context.view)? else {
        if WorkloadKind::of(reference).is_some() {
            preview.refusals.push(format!("{} {} is not there", reference.kind, reference.name));
        }
        return Ok(preview);
    };
    preview.refusals.extend(refusal_of(&workload));
    preview.refusals.extend(untouched(rollout, &workload, submitted, context)?);
    preview.refusals.extend(unroutable(rollout, &workload, context)?);
    let workload = sized(workload, submitted);
    preview.title.push_str(&format!(" with {} Pods {}", workload.replicas, words(style)));
    preview.steps = rows(rollout, &workload);
    preview.objects = objects(rollout, &workload, context.gates);
    Ok(preview)
}

fn words(style: Style) -> &'static str {
    match style {
        Style::Partition => "in batches",
        Style::Canary => "with a second Deployment",
        Style::BlueGreen => "blue-green",
    }
}

/// The workload with as many Pods as it is to have then.
fn sized(mut workload: Workload, submitted: Option<&Value>) -> Workload {
    if let Some(replicas) = submitted.and_then(|submitted| submitted.number("/spec/replicas")) {
        workload.replicas = i32::try_from(replicas).unwrap_or(i32::MAX).max(0);
    }
    workload
}

/// What is wrong about the Rollout itself.
fn invalid(rollout: &Rollout, context: &Context<'_>) -> Option<String> {
    let mut object = json!(rollout);
    if let Some(object) = object.as_object_mut() {
        object.insert("apiVersion".to_owned(), API_VERSION.into());
        object.insert("kind".to_owned(), KIND.into());
    }
    match validation::review(&object.to_string(), None, &context.validation) {
        Verdict::Allow { .. } => None,
        Verdict::Deny(denial) | Verdict::Refuse(denial, _) => Some(denial.message),
    }
}

/// Why no release would begin.
fn untouched(
    rollout: &Rollout,
    workload: &Workload,
    submitted: Option<&Value>,
    context: &Context<'_>,
) -> Result<Option<String>, Unread> {
    let ObjectName { kind, name, .. } = &workload.name;
    if rollout.spec.disabled {
        return Ok(Some("the Rollout is disabled".to_owned()));
    }
    if workload.in_progressing.is_some() {
        let is_stuck = workload.style == Style::BlueGreen && submitted.is_some();
        let message =
            || format!("a blue-green release of {kind} {name} is running, which must be rolled back first");
        return Ok(is_stuck.then(message));
    }
    let Some(submitted) = submitted else {
        let is_empty = workload.replicas == 0;
        return Ok(is_empty.then(|| format!("{kind} {name} has no Pods, and changes at once")));
    };
    let rollouts = [Arc::new(rollout.clone())];
    let freeze = freeze::Context { rollouts: &rollouts, gates: context.gates, view: context.view };
    let is_frozen = !freeze::review(&workload.object, submitted, &freeze)?.is_empty();
    let message = || format!("this change of {kind} {name} begins no release, and takes effect at once");
    Ok((!is_frozen).then(message))
}

/// Why traffic can't be routed.
fn unroutable(
    rollout: &Rollout,
    workload: &Workload,
    context: &Context<'_>,
) -> Result<Option<String>, Unread> {
    let view = context.view;
    let strategy = &rollout.spec.strategy;
    let Some(routing) = strategy.traffic_routings().first() else { return Ok(None) };
    let none = BTreeMap::new();
    let context = traffic::Context {
        owner: &json!({"kind": KIND, "name": rollout.metadata.name}),
        namespace: &rollout.metadata.namespace,
        routing,
        stable_revision: &workload.stable_revision,
        canary_revision: &workload.update_revision,
        revision_label: workload.revision_label,
        patch_labels: &none,
        append_pod_selector: false,
        disable_canary_service: strategy.disable_generate_canary_service(),
        last_change: None,
        now: Timestamp::UNIX_EPOCH,
        scripts: context.validation.scripts,
    };
    match traffic::check(&context, view) {
        Ok(_) => Ok(None),
        Err(Error::Problem(problem)) => Ok(Some(problem)),
        Err(Error::Unread(unread)) => Err(unread),
    }
}

fn rows(rollout: &Rollout, workload: &Workload) -> Vec<Row> {
    let strategy = &rollout.spec.strategy;
    let steps = strategy.steps();
    let replaces = workload.style == Style::Partition;
    let mut rows: Vec<Row> = Vec::with_capacity(steps.len() + 1);
    for (step, number) in steps.iter().zip(1_usize..) {
        let new = updated_after(step, workload);
        let covers_all = new >= workload.replicas;
        let old = if replaces { (workload.replicas - new).max(0) } else { workload.replicas };
        let ends = strategy.kind() == Some(StrategyKind::Canary) && covers_all && number == steps.len();
        // Without old Pods the Service has none but new ones.
        let traffic = if replaces && covers_all { String::new() } else { requests(step) };
        let then = match step.pause.duration {
            _ if ends => "at once".to_owned(),
            None => "approval".to_owned(),
            Some(0) => "at once".to_owned(),
            Some(seconds) => format!("after {seconds}s"),
        };
        rows.push(Row { step: number.to_string(), new, old, traffic, then });
    }
    rows.push(Row { step: "end".to_owned(), new: workload.replicas, ..Row::default() });
    rows
}

/// Which requests reach new Pods.
fn requests(step: &Step) -> String {
    if step.matches.is_empty() {
        return step.traffic.clone().unwrap_or_default();
    }
    step.matches.iter().map(condition).collect::<Vec<_>>().join(" or ")
}

fn condition(condition: &HttpRouteMatch) -> String {
    let path = condition.path.iter().map(|path| format!("path {}", path.value.as_deref().unwrap_or("/")));
    let headers = condition.headers.iter().map(|header| format!("header {}={}", header.name, header.value));
    let parameters = condition
        .query_params
        .iter()
        .map(|parameter| format!("query {}={}", parameter.name, parameter.value));
    path.chain(headers).chain(parameters).collect::<Vec<_>>().join(" and ")
}

/// The objects that are made or changed.
fn objects(rollout: &Rollout, workload: &Workload, gates: &FeatureGates) -> Vec<[String; 3]> {
    let (release, name) = (&rollout.metadata.name, &workload.name.name);
    let mut objects =
        vec![object("change", &workload.name.kind, name), object("create", "BatchRelease", release)];
    match (workload.style, workload.kind) {
        (Style::Canary, _) => objects.push(object("create", "Deployment", &format!("{name}-*"))),
        (_, WorkloadKind::Deployment) => objects.push(object("create", "ReplicaSet", &format!("{name}-*"))),
        _ => {}
    }
    if workload.style == Style::BlueGreen {
        objects.push(object("change", "HorizontalPodAutoscaler", &format!("of {name}, where there is one")));
    }
    let strategy = &rollout.spec.strategy;
    if strategy.steps().iter().any(Step::is_routed) {
        let has_canary = !strategy.disable_generate_canary_service();
        let routings = strategy.traffic_routings().iter();
        objects.extend(routings.flat_map(|routing| network_objects(routing, has_canary)));
    }
    let routing = traffic_routing_name(rollout);
    if !routing.is_empty() {
        objects.push(object("change", "TrafficRouting", routing));
    }
    if gates.enabled(Feature::RolloutHistory) && workload.style != Style::BlueGreen {
        objects.push(object("create", "RolloutHistory", &format!("{release}-*")));
    }
    objects
}

fn network_objects(routing: &TrafficRoutingRef, has_canary: bool) -> Vec<[String; 3]> {
    let service = &routing.service;
    let mut objects = Vec::new();
    if has_canary {
        objects.push(object("change", "Service", service));
        objects.push(object("create", "Service", &format!("{service}-canary")));
    }
    if let Some(ingress) = &routing.ingress {
        objects.push(object("create", "Ingress", &format!("{}-canary", ingress.name)));
    }
    if let Some(gateway) = &routing.gateway {
        objects.push(object("change", "HTTPRoute", &gateway.http_route_name));
    }
    let custom = routing.custom_network_refs.iter();
    objects.extend(custom.map(|custom| object("change", &custom.kind, &custom.name)));
    objects
}

fn object(verb: &str, kind: &str, name: &str) -> [String; 3] {
    [verb, kind, name].map(str::to_owned)
}

impl fmt::Display for Preview {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        writeln!(formatter, "{}", self.title)?;
        if !self.steps.is_empty() {
            let heading = ["STEP", "NEW", "OLD", "TRAFFIC", "NEXT"].map(str::to_owned);
            let rows = self.steps.iter().map(Row::cells);
            write_table(formatter, &[heading].into_iter().chain(rows).collect::<Vec<_>>())?;
        }
        write_table(formatter, &self.objects)?;
        for refusal in &self.refusals {
            writeln!(formatter, "\nrefused: {refusal}")?;
        }
        Ok(())
    }
}

impl Row {
    fn cells(&self) -> [String; 5] {
        let known = |text: &str| if text.is_empty() { "-" } else { text }.to_owned();
        let [new, old] = [self.new, self.old].map(|pods| pods.to_string());
        [self.step.clone(), new, old, known(&self.traffic), known(&self.then)]
    }
}

/// Rows of cells below each other, after an empty line.
fn write_table<const COLUMNS: usize>(
    formatter: &mut fmt::Formatter<'_>,
    rows: &[[String; COLUMNS]],
) -> fmt::Result {
    if !rows.is_empty() {
        writeln!(formatter)?;
    }
    let mut widths = [0; COLUMNS];
    for row in rows {
        for (width, cell) in widths.iter_mut().zip(row) {
            *width = cell.chars().count().max(*width);
        }
    }
    for row in rows {
        let cells: Vec<String> =
            row.iter().zip(widths).map(|(cell, width)| format!("{cell:<width$}")).collect();
        writeln!(formatter, "{}", cells.join("  ").trim_end())?;
    }
    Ok(())
}
