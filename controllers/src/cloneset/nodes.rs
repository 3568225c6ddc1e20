//! Labels of Nodes, which rank Pods where the template spreads them. They are read when Pods may have to
//! be chosen for deletion, and remembered for a while: they change seldom, and hardly any CloneSet asks.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::Duration;

use cluster::list::{List, query};
use cluster::resource::NODES;
use cluster::write;
use kube::Client;
use planner::pod::observed::{Pairs, PodMetadata};
use serde::Deserialize;
use tokio::sync::Mutex;
use tokio::time::Instant;

use crate::ReconcileError;

/// How long labels are remembered.
const MEMORY: Duration = Duration::from_secs(30);
/// Nodes per page.
const PAGE: usize = 500;

/// Labels by the Node's name.
pub(super) type Labels = Arc<BTreeMap<Box<str>, Pairs>>;

/// The labels as last read.
#[derive(Default)]
pub(super) struct Nodes(Mutex<Option<(Instant, Labels)>>);

#[derive(Deserialize)]
struct Node {
    metadata: PodMetadata,
}

impl Nodes {
    /// The labels of all Nodes.
    ///
    /// # Errors
    /// The API server refuses or can't be reached.
    pub(super) async fn labels(&self, client: &Client) -> Result<Labels, ReconcileError> {
        let mut known = self.0.lock().await;
        if let Some((read, labels)) = known.as_ref()
            && read.elapsed() < MEMORY
        {
            return Ok(labels.clone());
        }
        let (mut labels, mut token) = (BTreeMap::new(), None);
        loop {
            let path = NODES.all().query(query(PAGE, token.as_deref()));
            let Some(text) = write::get(client, &path).await? else { break };
            let page: List<Node> =
                serde_json::from_str(&text).map_err(ReconcileError::of_object("list of Nodes"))?;
            token = page.next_page().map(str::to_owned);
            labels.extend(page.items.into_iter().map(|node| (node.metadata.name, node.metadata.labels)));
            if token.is_none() {
                break;
            }
        }
        let labels = Arc::new(labels);
        *known = Some((Instant::now(), labels.clone()));
        Ok(labels)
    }
}
