//! `kutter explain uniteddeployment`: how its Pods are divided, and why.

use std::sync::Arc;

use api::kinds::uniteddeployment::{API_VERSION, KIND, PLURAL, UnitedDeployment};
use api::labels::SUBSET_NAME;
use cluster::resource::{PODS, REVISIONS, Resource};
use jiff::Timestamp;
use kinds::uniteddeployment::children::{Child, ChildKind};
use kinds::uniteddeployment::explanation::{Explanation, explain};
use kinds::uniteddeployment::plan::Snapshot;
use kinds::workload::revision::StoredRevision;
use pod::observed::ObservedPod;
use serde_json::json;
use serde_json::value::RawValue;

use super::{Shown, Site, lines, of_object};

/// Explains the UnitedDeployment; well if nothing is left to do and all Pods are ready.
pub(super) async fn of_united(site: &Site<'_>) -> anyhow::Result<Shown> {
    let namespace = site.namespace;
    let resource = Resource::new(API_VERSION, PLURAL, KIND);
    let united: UnitedDeployment =
        site.object(resource, namespace, |text| serde_json::from_str(text)).await?;
    let mut children = Vec::new();
    for kind in ChildKind::ALL {
        let resource = Resource::new(kind.api_version(), kind.plural(), kind.kind());
        let take = |child: Box<RawValue>| Child::read(kind, child.get()).ok().flatten().map(Arc::new);
        children.extend(site.list(&resource.namespaced(namespace), take).await?);
    }
    let take = |pod: ObservedPod| pod.label(SUBSET_NAME).is_some().then(|| Arc::new(pod));
    let pods = site.list(&PODS.namespaced(namespace), take).await?;
    let take = |revision: StoredRevision| {
        let owner = revision.metadata.controller();
        owner.is_none_or(|owner| owner.uid == united.metadata.uid).then(|| Arc::new(revision))
    };
    let revisions = site.list(&REVISIONS.namespaced(namespace), take).await?;
    let found = explain(&Snapshot {
        united: &united,
        children: &children,
        pods: &pods,
        revisions: &revisions,
        now: Timestamp::now(),
    });
    let json = of_object(KIND, site.name, found.is_complete, json!(found));
    Ok(site.shown(found.is_complete, || text_of(site.name, &found), json))
}

fn text_of(name: &str, found: &Explanation) -> String {
    let subsets = found.subsets.iter().flat_map(|subset| {
        let line = format!("  subset {}: {} of {} Pods ready", subset.name, subset.ready, subset.replicas);
        std::iter::once(line).chain(subset.why.iter().map(|why| format!("    {why}")))
    });
    let problem = found.problem.iter().map(|problem| format!("  nothing is done: {problem}"));
    let next = found.next.iter().map(|line| format!("  next: {line}"));
    lines(format!("{KIND} {name}"), subsets.chain(problem).chain(next))
}
