//! ImagePullJob: one image, pulled onto nodes (docs/behaviour/images.md#imagepulljob).
//!
//! ```text
//!   defaulting, validation   what an ImagePullJob may say
//!   trigger                  which changes concern which jobs
//!   progress                 how far a job is on each node, its status, and what is to be done next
//!   pull_when                what a Node has to show before a job pulls there
//!   task                     what is written to the NodeImage of one node
//!   copies                   pull Secrets, copied to where the agents of the nodes may read them
//!   explanation              why a job does not end
//! ```

use std::collections::BTreeSet;
use std::sync::Arc;

use api::kinds::imagepulljob::ImagePullJob;
use api::kinds::nodeimage::NodeImage;
use serde_json::json;

use crate::workload::image_pull::selector_of;
use crate::workload::update_order::UpdateOrder;
use pod::observed::ObservedPod;
use pull_when::PullWhen;
use values::image_reference::NamedImage;
use values::selector::{Labels, Selector};

pub mod copies;
pub mod defaulting;
pub mod explanation;
pub mod progress;
pub mod pull_when;
pub mod task;
pub mod trigger;
pub mod validation;

#[cfg(test)]
mod tests;

/// An ImagePullJob as its controller needs it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Job {
    /// The object.
    pub object: ImagePullJob,
    /// The image to pull.
    pub image: NamedImage,
    /// Where to.
    pub nodes: Nodes,
    /// What a node has to show before it pulls.
    pub when: PullWhen,
    /// Why its spec can't be used: it was stored before the rules of admission. Such a job has no nodes, and can only
    /// end.
    pub fault: Option<String>,
}

/// Which nodes a job is for.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Nodes {
    /// All that have a NodeImage.
    All,
    /// Those with these names.
    Named(BTreeSet<String>),
    /// Those whose NodeImage has these labels.
    Labelled(Selector),
    /// Those on which such Pods are, in the namespace of the job.
    OfPods(Selector),
}

impl Nodes {
    /// Whether a node belongs to them; `None` where its Pods decide.
    pub fn include(&self, node: &NodeImage) -> Option<bool> {
        self.include_named(&node.metadata.name, &node.metadata.labels)
    }

    /// Whether a node of this name with these labels belongs to them; `None` where its Pods decide.
    pub fn include_named(&self, name: &str, labels: &(impl Labels + ?Sized)) -> Option<bool> {
        match self {
            Self::All => Some(true),
            Self::Named(names) => Some(names.contains(name)),
            Self::Labelled(selector) => Some(selector.matches(labels)),
            Self::OfPods(_) => None,
        }
    }

    /// Whether a Pod with these labels leads to its node.
    pub fn include_pod(&self, labels: &(impl Labels + ?Sized)) -> bool {
        matches!(self, Self::OfPods(selector) if selector.matches(labels))
    }
}

impl Job {
    /// Reads an ImagePullJob of v1beta1.
    ///
    /// # Errors
    /// The text is none.
    pub fn read(json: &str) -> Result<Self, serde_json::Error> {
        let object: ImagePullJob = serde_json::from_str(json)?;
        let (image, nodes, when, fault) = match usable(&object) {
            Ok((image, nodes, when)) => (image, nodes, when, None),
            Err(fault) => {
                (NamedImage::default(), Nodes::Named(BTreeSet::new()), PullWhen::default(), Some(fault))
            }
        };
        Ok(Self { object, image, nodes, when, fault })
    }

    /// Whether it has still something to do.
    pub fn is_active(&self) -> bool {
        self.fault.is_none()
            && self.object.metadata.deletion_timestamp.is_none()
            && self.object.status.completion_time.is_none()
    }

    /// Namespace and name in one word.
    pub fn word(&self) -> String {
        format!("{}/{}", self.object.metadata.namespace, self.object.metadata.name)
    }

    /// The names of the nodes of Pods, each once, in the order in which the Pods are updated. A Pod that has ended or
    /// that ends needs no image.
    pub fn nodes_of(&self, pods: &[Arc<ObservedPod>], order: &UpdateOrder) -> Vec<String> {
        let all: Vec<&ObservedPod> = pods.iter().map(|pod| &**pod).collect();
        let wanted: Vec<&ObservedPod> = all
            .iter()
            .copied()
            .filter(|pod| self.nodes.include_pod(&pod.metadata.labels) && is_placed(pod))
            .collect();
        let mut seen = BTreeSet::new();
        let sorted = order.sort(&wanted, &all).into_iter().filter_map(|position| wanted.get(position));
        let names = sorted.map(|pod| pod.spec.node_name.to_string());
        names.filter(|name| seen.insert(name.clone())).collect()
    }

    /// The patch that adds the finalizer or takes it away; `None` where nothing is to be done.
    pub fn with_finalizer(&self, wanted: bool) -> Option<String> {
        use api::finalizers::DELETION_PROTECTION;
        let metadata = &self.object.metadata;
        let mut finalizers: Vec<&str> = metadata.finalizers.iter().map(String::as_str).collect();
        if finalizers.contains(&DELETION_PROTECTION) == wanted {
            return None;
        }
        finalizers.retain(|finalizer| *finalizer != DELETION_PROTECTION);
        finalizers.extend(wanted.then_some(DELETION_PROTECTION));
        let metadata = json!({
            "uid": metadata.uid, "resourceVersion": metadata.resource_version, "finalizers": finalizers,
        });
        Some(json!({"metadata": metadata}).to_string())
    }
}

/// What a job asks for, or why it can't be used.
fn usable(job: &ImagePullJob) -> Result<(NamedImage, Nodes, PullWhen), String> {
    let spec = &job.spec;
    let image = NamedImage::parse(&spec.image).map_err(|error| error.to_string())?;
    let compile = |selector| Selector::compile(selector).map_err(|error| error.to_string());
    let nodes = match (&spec.pod_selector, &spec.selector) {
        (Some(selector), _) => Nodes::OfPods(compile(selector)?),
        (None, None) => Nodes::All,
        (None, Some(selector)) if !selector.names.is_empty() => {
            Nodes::Named(selector.names.iter().cloned().collect())
        }
        (None, Some(selector)) => Nodes::Labelled(compile(&selector_of(selector))?),
    };
    Ok((image, nodes, PullWhen::of(&job.metadata.annotations)?))
}

/// Whether a Pod is on a node and runs there, or will.
pub(crate) fn is_placed(pod: &ObservedPod) -> bool {
    pod.is_active() && !pod.spec.node_name.is_empty()
}

/// The order in which a CloneSet that pulls its images ahead updates its Pods.
///
/// # Errors
/// The text is no CloneSet.
pub fn order_of_updates(clone_set: &str) -> Result<UpdateOrder, serde_json::Error> {
    let set: api::kinds::cloneset::CloneSet = serde_json::from_str(clone_set)?;
    let rolling = &set.spec.update_strategy.rolling_update;
    Ok(UpdateOrder::of_workload(Some(&rolling.priority_strategy), &rolling.scatter_strategy))
}
