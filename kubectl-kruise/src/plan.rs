//! `kubectl kruise rollout plan`: how a rollout would go, before anybody begins it.

use std::process::ExitCode;
use std::sync::Arc;

use anyhow::{Context, anyhow, bail};
use api::features::FeatureGates;
use api::kinds::rollout::{API_VERSION, KIND, Rollout, WorkloadRef};
use clap::Args;
use informers::files::Object;
use plugin::kinds::WorkloadKind;
use plugin::{containers, history};
use rollouts::object::ObjectName;
use rollouts::preview;
use rollouts::script::{CONFIGURATION, Scripts};
use rollouts::validation;
use rollouts::workload::version_of;
use serde_json::Value;

use super::asked::Asked;
use super::connection::Session;
use super::failures::not_found;
use super::target::{Named, ObjectArguments, revisions};
use super::terminal::print;
use super::written::applied;
use crate::simulate::{self, CourseArguments, NOT_CONVERGED};

/// Arguments of `rollout plan`.
#[derive(Debug, Args)]
pub(super) struct PlanArguments {
    #[command(flatten)]
    pub(super) objects: ObjectArguments,
    /// Plan the rollout of this image, CONTAINER=IMAGE; without it, that of the template as it is now
    #[arg(long = "set", value_name = "CONTAINER=IMAGE", value_parser = super::set::pair)]
    images: Vec<(String, String)>,
    /// Of a Rollout: the namespace that Kutter is installed in, which has the scripts of users
    #[arg(long, default_value = api::DEFAULT_NAMESPACE)]
    install_namespace: String,
    #[command(flatten)]
    course: CourseArguments,
}

/// Shows how the rollout that is wanted would go.
pub(super) async fn plan(
    arguments: &PlanArguments,
    session: &Session,
    all: &[Named],
) -> anyhow::Result<ExitCode> {
    let [named] = all else { bail!("a plan is for one workload; {} were found", all.len()) };
    match named.kind {
        WorkloadKind::Rollout => preview(arguments, session, named).await,
        _ => simulated(arguments, session, named).await,
    }
}

/// Simulates the rollout of a workload, from the revision that Pods have to that which they get.
async fn simulated(arguments: &PlanArguments, session: &Session, named: &Named) -> anyhow::Result<ExitCode> {
    let live = session.read(named).await?;
    let (before, after) = if arguments.images.is_empty() {
        let history = revisions(session, named, &live).await?;
        let revision = history::outgoing(&history, &live).ok_or_else(|| {
            anyhow!("{} has no rollout in progress; give an image with --set CONTAINER=IMAGE", named.quoted())
        })?;
        let mut before = live.clone();
        if let Some(template) = before.pointer_mut("/spec/template") {
            *template = serde_json::from_str(revision.template()?.get())?;
        }
        (before, live)
    } else {
        let after = with_images(named.kind, &live, &arguments.images)?;
        (live, after)
    };
    simulate::course(&arguments.course, &planned(named, before), &[planned(named, after)])
}

/// A workload as a manifest would have it.
fn planned(named: &Named, mut object: Value) -> Object {
    if let Some(members) = object.as_object_mut() {
        members.remove("status");
    }
    if let Some(metadata) = object.get_mut("metadata").and_then(Value::as_object_mut) {
        metadata.retain(|name, _| matches!(name.as_str(), "name" | "namespace" | "labels" | "annotations"));
    }
    let text = |pointer: &str| object.pointer(pointer).and_then(Value::as_str).unwrap_or_default().to_owned();
    Object {
        api_version: text("/apiVersion"),
        kind: text("/kind"),
        namespace: text("/metadata/namespace"),
        name: text("/metadata/name"),
        source: named.word(),
        json: object.to_string(),
    }
}

/// A workload with the images that are wanted.
fn with_images(kind: WorkloadKind, live: &Value, images: &[(String, String)]) -> anyhow::Result<Value> {
    let patch = containers::set_images(kind, live, images).map_err(anyhow::Error::msg)?;
    applied(live, &patch.context("the workload has these images already")?)
}

/// Shows what each step of a Rollout would bring. What admission let in by its flags is not asked again.
async fn preview(arguments: &PlanArguments, session: &Session, named: &Named) -> anyhow::Result<ExitCode> {
    /// Of a step with traffic, in percent.
    const ANY_SHARE: i32 = 100;
    let namespace = named.namespace(session);
    let asked = Asked::new(&session.client, namespace);
    let gates = FeatureGates::parse(&arguments.course.feature_gates, "").context("--feature-gates")?;
    let all: Vec<Arc<Rollout>> = asked.list(&ObjectName::new(API_VERSION, KIND, namespace, ""), "").await?;
    let rollout = all.iter().find(|rollout| rollout.metadata.name == named.name);
    let rollout = rollout.ok_or_else(|| not_found(named.quoted()))?;
    let scripts = scripts(&asked, rollout, &arguments.install_namespace).await?;
    let submitted = submitted(&asked, rollout, &arguments.images).await?;
    let validation = validation::Context {
        others: &all,
        partition_percent_limit: ANY_SHARE,
        filter_workload_type: false,
        scripts: &scripts,
    };
    let preview = asked
        .decide(|view| {
            let context = preview::Context { validation, gates: &gates, view };
            preview::preview(rollout, submitted.as_ref(), &context)
        })
        .await?;
    print(&preview)?;
    let is_sound = preview.refusals.is_empty();
    Ok(if is_sound { ExitCode::SUCCESS } else { ExitCode::from(NOT_CONVERGED) })
}

/// The scripts of users, where network objects need any.
async fn scripts(asked: &Asked<'_>, rollout: &Rollout, namespace: &str) -> anyhow::Result<Scripts> {
    let mut routings = rollout.spec.strategy.traffic_routings().iter();
    if !routings.any(|routing| routing.ingress.is_some() || !routing.custom_network_refs.is_empty()) {
        return Ok(Scripts::default());
    }
    let name = ObjectName::new("v1", "ConfigMap", namespace, CONFIGURATION);
    match asked.find::<Value>(&name).await {
        Ok(found) => Ok(Scripts::of(found.as_ref())),
        Err(error) => {
            eprintln!("without scripts of users, which can't be read: {error:#}");
            Ok(Scripts::default())
        }
    }
}

/// The workload of a Rollout with the images that are wanted; `None` where any change is meant, or it is not there.
async fn submitted(
    asked: &Asked<'_>,
    rollout: &Rollout,
    images: &[(String, String)],
) -> anyhow::Result<Option<Value>> {
    if images.is_empty() {
        return Ok(None);
    }
    let reference = &rollout.spec.workload_ref;
    let WorkloadRef { kind, name, .. } = reference;
    let name = ObjectName::new(version_of(reference), kind, &rollout.metadata.namespace, name);
    let live: Option<Value> = asked.find(&name).await?;
    // Every workload of a Rollout has its template where a CloneSet has it.
    live.map(|live| with_images(WorkloadKind::CloneSet, &live, images)).transpose()
}
