//! `kutter explain` of an ImagePullJob: which nodes have not the image, and why. It looks as the controller does.

use std::collections::BTreeMap;
use std::sync::Arc;

use anyhow::bail;
use api::kinds::nodeimage::NodeImage;
use api::kinds::{imagepulljob, nodeimage};
use cluster::resource::{PODS, Resource};
use kinds::imagepulljob::explanation::findings;
use kinds::imagepulljob::progress::Look;
use kinds::imagepulljob::{Job, Nodes};
use kinds::workload::update_order::UpdateOrder;
use pod::node_fit;
use pod::observed::ObservedPod;
use serde_json::json;
use serde_json::value::RawValue;

use super::{Shown, Site, lines};

/// Explains the ImagePullJob that is meant.
pub(super) async fn of_job(site: &Site<'_>) -> anyhow::Result<Shown> {
    let kind = imagepulljob::KIND;
    let jobs = Resource::new(imagepulljob::API_VERSION, imagepulljob::PLURAL, kind);
    let job = site.object(jobs, site.namespace, Job::read).await?;
    if let Some(fault) = &job.fault {
        bail!("the {kind} can't be used: {fault}");
    }
    let nodes = nodes(site, &job).await?;
    let facts = if job.when.is_empty() { node_fit::Nodes::new() } else { site.nodes().await? };
    let mut look = Look::at(&job, &nodes);
    look.hold(&job, &facts);
    let found = findings(&job, &look, &facts);
    let complete = job.object.status.completion_time.is_some() && found.is_empty();
    let json = json!({
        "kind": kind, "name": site.name, "complete": complete, "desired": look.desired(),
        "succeeded": look.succeeded.len(), "message": job.object.status.message, "nodes": found,
    });
    Ok(site.shown(complete, || text_of(&job, &look, &found, complete), json))
}

/// The NodeImages of a job.
async fn nodes(site: &Site<'_>, job: &Job) -> anyhow::Result<Vec<Arc<NodeImage>>> {
    let images = Resource::new(nodeimage::API_VERSION, nodeimage::PLURAL, nodeimage::KIND);
    let named = |node: NodeImage| Some((node.metadata.name.clone(), Arc::new(node)));
    let mut all: BTreeMap<_, _> = site.list(&images.all(), named).await?.into_iter().collect();
    if let Nodes::OfPods(_) = &job.nodes {
        let take = |pod: Box<RawValue>| ObservedPod::read(pod.get()).ok().map(Arc::new);
        let pods = site.list(&PODS.namespaced(site.namespace), take).await?;
        let names = job.nodes_of(&pods, &UpdateOrder::default());
        return Ok(names.iter().filter_map(|name| all.remove(name)).collect());
    }
    all.retain(|_, node| job.nodes.include(node).unwrap_or_default());
    Ok(all.into_values().collect())
}

fn text_of(job: &Job, look: &Look<'_>, found: &BTreeMap<String, String>, complete: bool) -> String {
    let state = if complete { "complete" } else { "not complete" };
    let (name, count, of) = (&job.object.metadata.name, look.succeeded.len(), look.desired());
    let heading = format!("{} {name}: {state}, {count} of {of} nodes have the image", imagepulljob::KIND);
    let message = Some(&job.object.status.message).filter(|message| !message.is_empty());
    let status = message.map(|message| format!("  status: {message}"));
    lines(heading, status.into_iter().chain(found.iter().map(|(node, why)| format!("  {node}: {why}"))))
}
