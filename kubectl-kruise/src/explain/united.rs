//! `kutter explain uniteddeployment`: how its Pods are divided, and why.

use std::fmt::Write;
use std::process::ExitCode;
use std::sync::Arc;

use anyhow::{Context, anyhow};
use api::kinds::uniteddeployment::{API_VERSION, KIND, PLURAL, UnitedDeployment};
use api::labels::SUBSET_NAME;
use cluster::list::list_all;
use cluster::resource::{PODS, REVISIONS, Resource};
use jiff::Timestamp;
use kinds::uniteddeployment::children::{Child, ChildKind};
use kinds::uniteddeployment::explanation::{Explanation, explain};
use kinds::uniteddeployment::plan::Snapshot;
use kinds::workload::revision::StoredRevision;
use kube::Client;
use pod::observed::ObservedPod;
use serde_json::json;
use serde_json::value::RawValue;

use super::{Format, Target, code, of_object, read};

/// Explains the UnitedDeployment; well if nothing is left to do and all Pods are ready.
pub(super) async fn of_united(
    client: &Client,
    namespace: &str,
    target: &Target,
) -> anyhow::Result<(String, ExitCode)> {
    let name = &target.name;
    let path = Resource::new(API_VERSION, PLURAL, KIND).namespaced(namespace).name(name);
    let text = read(client, &path).await?;
    let text = text.ok_or_else(|| anyhow!("there is no {KIND} {name} in namespace {namespace}"))?;
    let united: UnitedDeployment =
        serde_json::from_str(&text).with_context(|| format!("the {KIND} is not understood"))?;
    let mut children = Vec::new();
    for kind in ChildKind::ALL {
        let resource = Resource::new(kind.api_version(), kind.plural(), kind.kind());
        list_all(client, &resource.namespaced(namespace), |child: Box<RawValue>| {
            children.extend(Child::read(kind, child.get()).ok().flatten().map(Arc::new));
        })
        .await?;
    }
    let mut pods = Vec::new();
    list_all(client, &PODS.namespaced(namespace), |pod: ObservedPod| {
        pods.extend(Some(pod).filter(|pod| pod.label(SUBSET_NAME).is_some()).map(Arc::new));
    })
    .await?;
    let mut revisions = Vec::new();
    list_all(client, &REVISIONS.namespaced(namespace), |revision: StoredRevision| {
        let owner = revision.metadata.controller();
        if owner.is_none_or(|owner| owner.uid == united.metadata.uid) {
            revisions.push(Arc::new(revision));
        }
    })
    .await?;
    let found = explain(&Snapshot {
        united: &united,
        children: &children,
        pods: &pods,
        revisions: &revisions,
        now: Timestamp::now(),
    });
    let text = match target.output {
        Format::Text => text_of(name, &found),
        Format::Json => format!("{}\n", of_object(KIND, name, found.is_complete, json!(found))),
    };
    Ok((text, code(found.is_complete)))
}

fn text_of(name: &str, found: &Explanation) -> String {
    let mut text = format!("{KIND} {name}\n");
    // Writing to a String cannot fail.
    for subset in &found.subsets {
        let _ =
            writeln!(text, "  subset {}: {} of {} Pods ready", subset.name, subset.ready, subset.replicas);
        for why in &subset.why {
            let _ = writeln!(text, "    {why}");
        }
    }
    for line in found.problem.iter().map(|problem| format!("nothing is done: {problem}")) {
        let _ = writeln!(text, "  {line}");
    }
    for line in &found.next {
        let _ = writeln!(text, "  next: {line}");
    }
    text
}
