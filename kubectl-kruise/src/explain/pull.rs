//! `kutter explain` of an ImagePullJob: which nodes have not the image, and why. It looks as the controller does.

use std::collections::BTreeMap;
use std::fmt::Write;
use std::process::ExitCode;
use std::sync::Arc;

use anyhow::{Context, anyhow, bail};
use api::kinds::nodeimage::NodeImage;
use api::kinds::{imagepulljob, nodeimage};
use cluster::list::list_all;
use cluster::resource::{PODS, Resource};
use kinds::imagepulljob::explanation::findings;
use kinds::imagepulljob::progress::Look;
use kinds::imagepulljob::{Job, Nodes};
use kinds::workload::update_order::UpdateOrder;
use kube::Client;
use pod::observed::ObservedPod;
use serde_json::json;
use serde_json::value::RawValue;

use super::{Format, Target, code, read};

/// Explains the ImagePullJob that is meant.
pub(super) async fn of_job(
    client: &Client,
    namespace: &str,
    target: &Target,
) -> anyhow::Result<(String, ExitCode)> {
    let (kind, name) = (imagepulljob::KIND, &target.name);
    let jobs = Resource::new(imagepulljob::API_VERSION, imagepulljob::PLURAL, kind);
    let text = read(client, &jobs.namespaced(namespace).name(name)).await?;
    let text = text.ok_or_else(|| anyhow!("there is no {kind} {name} in namespace {namespace}"))?;
    let job = Job::read(&text).with_context(|| format!("the {kind} is not understood"))?;
    if let Some(fault) = &job.fault {
        bail!("the {kind} can't be used: {fault}");
    }
    let nodes = nodes(client, namespace, &job).await?;
    let look = Look::at(&job, &nodes);
    let found = findings(&job, &look);
    let complete = job.object.status.completion_time.is_some() && found.is_empty();
    let text = match target.output {
        Format::Text => text_of(&job, &look, &found, complete),
        Format::Json => {
            let object = json!({
                "kind": kind, "name": name, "complete": complete, "desired": look.desired(),
                "succeeded": look.succeeded.len(), "message": job.object.status.message, "nodes": found,
            });
            format!("{object}\n")
        }
    };
    Ok((text, code(complete)))
}

/// The NodeImages of a job.
async fn nodes(client: &Client, namespace: &str, job: &Job) -> anyhow::Result<Vec<Arc<NodeImage>>> {
    let mut all: BTreeMap<String, Arc<NodeImage>> = BTreeMap::new();
    let images = Resource::new(nodeimage::API_VERSION, nodeimage::PLURAL, nodeimage::KIND);
    list_all(client, &images.all(), |node: NodeImage| {
        all.insert(node.metadata.name.clone(), Arc::new(node));
    })
    .await?;
    if let Nodes::OfPods(_) = &job.nodes {
        let mut pods = Vec::new();
        list_all(client, &PODS.namespaced(namespace), |pod: Box<RawValue>| {
            pods.extend(ObservedPod::read(pod.get()).ok().map(Arc::new));
        })
        .await?;
        let names = job.nodes_of(&pods, &UpdateOrder::default());
        return Ok(names.iter().filter_map(|name| all.remove(name)).collect());
    }
    all.retain(|_, node| job.nodes.include(node).unwrap_or_default());
    Ok(all.into_values().collect())
}

fn text_of(job: &Job, look: &Look<'_>, found: &BTreeMap<String, String>, complete: bool) -> String {
    let state = if complete { "complete" } else { "not complete" };
    let (name, count, of) = (&job.object.metadata.name, look.succeeded.len(), look.desired());
    let mut text = format!("{} {name}: {state}, {count} of {of} nodes have the image\n", imagepulljob::KIND);
    // Writing to a String cannot fail.
    if !job.object.status.message.is_empty() {
        let _ = writeln!(text, "  status: {}", job.object.status.message);
    }
    for (node, finding) in found {
        let _ = writeln!(text, "  {node}: {finding}");
    }
    text
}
