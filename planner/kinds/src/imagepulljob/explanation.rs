//! Why a job does not end: what each of its nodes waits for.

use std::collections::BTreeMap;

use api::kinds::nodeimage::NodeImage;

use super::Job;
use super::progress::Look;
use crate::workload::image_task::{SUCCEEDED, status, task};
use pod::node_fit;

/// What there is to say of each node that has not the image; `facts` are those of the Nodes.
pub fn findings(job: &Job, look: &Look<'_>, facts: &node_fit::Nodes) -> BTreeMap<String, String> {
    let waiting = look.waiting.iter().map(|node| (*node, "waits for its turn".to_owned()));
    let others = look.active.iter().chain(&look.failed).map(|node| (*node, said(job, node)));
    let held = look.held.iter().map(|node| {
        let lacking = job.when.lacking(facts.get(&*node.metadata.name).map(|facts| &**facts));
        let lacking: Vec<String> = lacking.map(ToString::to_string).collect();
        (*node, format!("waits for {}", lacking.join(", ")))
    });
    waiting.chain(held).chain(others).map(|(node, text)| (node.metadata.name.clone(), text)).collect()
}

/// What the agent of the node says.
fn said(job: &Job, node: &NodeImage) -> String {
    let status = task(node, &job.image).and_then(|task| status(node, &job.image.name, task));
    let Some(status) = status.filter(|status| status.phase != SUCCEEDED) else {
        return "its agent has not answered yet".to_owned();
    };
    let progress = status.progress.filter(|progress| *progress > 0);
    let mut text = status.phase.to_lowercase();
    if let Some(progress) = progress {
        text.push_str(&format!(", {progress}%"));
    }
    if !status.message.is_empty() {
        text.push_str(&format!(": {}", status.message));
    }
    text
}
