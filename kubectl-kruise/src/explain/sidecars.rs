//! `kutter explain pod` and `kutter explain sidecarset`: which SidecarSets are in which Pods, and why, in the
//! words of annotation `kutter.io/sidecarset-pods`, by the functions that made it.

use std::collections::BTreeMap;
use std::sync::Arc;

use admission::registration::ConfigurationKind;
use admission::world::{Watched, World};
use anyhow::Context;
use api::kinds::cloneset;
use api::labels::SIDECARSET_NAME;
use api::sidecarset;
use cluster::list::list_all;
use cluster::resource::{MUTATING_WEBHOOKS, NAMESPACES, PODS, REVISIONS, Resource};
use jiff::Timestamp;
use kinds::sidecarset::account::{
    Account, Case, Findings, PodRecord, Reason, Relation, Scope, hints, not_updated,
};
use kinds::sidecarset::rollout::{self, Plan, RolloutSet, Snapshot, injected};
use kinds::workload::namespace::Namespace;
use kinds::workload::resolved::ResolvedWorkload;
use kinds::workload::revision::StoredRevision;
use pod::observed::{ObservedPod, Pool};
use serde_json::json;
use serde_json::value::RawValue;

use super::{Shown, Site, lines};

/// Collections of workloads whose own labels may be taken for those of their Pods.
const WORKLOADS: [(&str, Resource<'_>); 4] = [
    ("deployment", Resource::new("apps/v1", "deployments", "Deployment")),
    ("statefulset", Resource::new("apps/v1", "statefulsets", "StatefulSet")),
    ("daemonset", Resource::new("apps/v1", "daemonsets", "DaemonSet")),
    ("cloneset", Resource::new(cloneset::API_VERSION, cloneset::PLURAL, cloneset::KIND)),
];

/// What decides which Pods get which sidecars.
struct Cluster {
    world: World,
    sets: BTreeMap<String, RolloutSet>,
    revisions: Vec<StoredRevision>,
    scope: Scope,
    now: Timestamp,
}

impl Cluster {
    async fn gather(site: &Site<'_>, install_namespace: &str) -> anyhow::Result<Self> {
        let mut world = World::new(install_namespace);
        let mut sets = BTreeMap::new();
        let path = Resource::new(sidecarset::API_VERSION, sidecarset::PLURAL, sidecarset::KIND).all();
        list_all(site.client, &path, |set: Box<RawValue>| {
            // One that can't be read is in the world as far as it can be, or not at all.
            drop(world.apply(Watched::SidecarSet, set.get()));
            if let Ok(set) = RolloutSet::read(set.get()) {
                sets.insert(set.name.to_string(), set);
            }
        })
        .await?;
        list_all(site.client, &NAMESPACES.all(), |namespace: Box<RawValue>| {
            drop(world.apply(Watched::Namespace, namespace.get()));
        })
        .await?;
        let take = |revision: Box<RawValue>| StoredRevision::read(revision.get()).ok();
        let revisions = site.list(&REVISIONS.namespaced(install_namespace), take).await?;
        let path = MUTATING_WEBHOOKS.all().name(ConfigurationKind::Mutating.name());
        let scope = site.read(&path).await?.and_then(|text| Scope::of_configuration(&text));
        let scope = scope.unwrap_or_else(|| Scope::of_installation(install_namespace));
        Ok(Self { world, sets, revisions, scope, now: Timestamp::now() })
    }

    fn case(&self, name: &str) -> Option<Case<'_>> {
        let (entry, set) = (self.world.sidecar_sets().get(name)?, self.sets.get(name)?);
        Some(Case::new(entry, &set.subject, self.world.inventory(), &self.scope, self.now))
    }

    /// What the controller would do for a SidecarSet now; gives the Pods that belong to it too.
    fn plan(&self, set: &RolloutSet, pods: &[Arc<ObservedPod>]) -> (Plan, Vec<Arc<ObservedPod>>) {
        let selected = |pod: &&Arc<ObservedPod>| {
            injected(pod).any(|name| name == &*set.name)
                && set.selects_namespace(self.world.namespace(&pod.metadata.namespace).map(Namespace::labels))
        };
        let pods: Vec<_> = pods.iter().filter(selected).cloned().collect();
        let own = |revision: &&StoredRevision| {
            revision.metadata.labels.get(SIDECARSET_NAME).is_some_and(|name| **name == *set.name)
        };
        let revisions: Vec<_> = self.revisions.iter().filter(own).cloned().collect();
        let snapshot = Snapshot {
            set,
            pods: &pods,
            revisions: &revisions,
            latest_revision: &set.status.latest_revision,
            collision_count: set.status.collision_count.unwrap_or(0),
        };
        (rollout::plan(&snapshot, self.now), pods)
    }
}

/// All Pods that have sidecars of one of these SidecarSets.
async fn pods_with(site: &Site<'_>, sets: &[&str]) -> anyhow::Result<Vec<Arc<ObservedPod>>> {
    let has_any = |pod: &ObservedPod| injected(pod).any(|name| sets.contains(&name));
    site.list(&PODS.all(), |pod: ObservedPod| has_any(&pod).then(|| Arc::new(pod))).await
}

/// Tells for each SidecarSet whether it is in the Pod, and why.
pub(super) async fn of_pod(site: &Site<'_>, install_namespace: &str) -> anyhow::Result<Shown> {
    let Site { namespace, name, .. } = site;
    let pod = site.object(PODS, namespace, ObservedPod::read).await?;
    let cluster = Cluster::gather(site, install_namespace).await?;
    let of_pod: Vec<&str> = injected(&pod).collect();
    let pods = if of_pod.is_empty() { Vec::new() } else { pods_with(site, &of_pod).await? };
    let record = PodRecord::of(&pod, &mut Pool::default());
    let mut answers = Vec::new();
    for (name, set) in &cluster.sets {
        let Some(case) = cluster.case(name) else { continue };
        let Some(record) = &record else { continue };
        let (injected, reason) = match case.judge(record) {
            Relation::Injected => (true, not_updated(set, &cluster.plan(set, &pods).0, &pod)),
            Relation::Left(reason) | Relation::Unselected(reason) => (false, Some(reason)),
        };
        answers.push(Answer { name, injected, reason });
    }
    let complete = answers.iter().all(Answer::is_settled);
    let text = || {
        let ended = if record.is_none() { ": it has ended and does not count" } else { "" };
        let answers = answers.iter().map(|answer| format!("  {}", answer.text()));
        lines(format!("Pod {namespace}/{name}{ended}"), answers)
    };
    let (sets, ended): (Vec<_>, _) = (answers.iter().map(Answer::json).collect(), record.is_none());
    let json =
        json!({"kind": "Pod", "namespace": namespace, "name": name, "ended": ended, "sidecarSets": sets});
    Ok(site.shown(complete, text, format!("{json:#}")))
}

/// What a SidecarSet is to a Pod.
struct Answer<'a> {
    name: &'a str,
    injected: bool,
    /// Why it is not injected, or not updated.
    reason: Option<Reason>,
}

impl Answer<'_> {
    /// The Pod has all that it should have.
    fn is_settled(&self) -> bool {
        match &self.reason {
            None | Some(Reason::Admission(_) | Reason::NamespaceExcluded | Reason::OptedOut) => true,
            Some(_) => false,
        }
    }

    fn text(&self) -> String {
        let (name, word) = (self.name, if self.injected { "yes" } else { "no" });
        match &self.reason {
            None => format!("SidecarSet {name}: {word}: injected"),
            Some(reason) => format!("SidecarSet {name}: {word}: {reason}"),
        }
    }

    fn json(&self) -> serde_json::Value {
        let reason = self.reason.as_ref().map(Reason::word);
        let message = self.reason.as_ref().map(ToString::to_string);
        json!({"name": self.name, "injected": self.injected, "reason": reason, "message": message})
    }
}

/// Counts the Pods of a SidecarSet, and says why some have not its sidecars.
pub(super) async fn of_sidecar_set(site: &Site<'_>, install_namespace: &str) -> anyhow::Result<Shown> {
    let name = site.name;
    let cluster = Cluster::gather(site, install_namespace).await?;
    let (case, set) = cluster
        .case(name)
        .zip(cluster.sets.get(name))
        .with_context(|| format!("there is no SidecarSet {name}, or it can't be read"))?;
    let (mut records, mut pods, mut pool) = (Vec::new(), Vec::new(), Pool::default());
    list_all(site.client, &PODS.all(), |pod: ObservedPod| {
        records.extend(PodRecord::of(&pod, &mut pool));
        if injected(&pod).any(|injected| injected == name) {
            pods.push(Arc::new(pod));
        }
    })
    .await?;
    let mut account = Account::of(&case, &records);
    let (plan, pods) = cluster.plan(set, &pods);
    account.findings.extend(&Findings::of_rollout(set, &plan, pods.iter().map(|pod| &**pod)));
    let object = cluster.world.sidecar_sets().get(name).map(|entry| &entry.object);
    for (kind, resource) in WORKLOADS {
        let take = |workload: Box<RawValue>| {
            let found = ResolvedWorkload::read("", resource.kind, workload.get());
            let Ok(ResolvedWorkload { metadata, template_labels, .. }) = found else { return };
            let namespace = cluster.world.namespace(&metadata.namespace);
            if set.selects_namespace(namespace.map(Namespace::labels))
                && object
                    .is_some_and(|set| hints::is_meant_for_workload(set, &metadata.labels, &template_labels))
            {
                let name = format!("{kind}/{}", metadata.name);
                account.findings.add(&Reason::WorkloadLabels, &metadata.namespace, &name);
            }
        };
        // A user who may read Pods need not be allowed to read workloads.
        if let Err(error) = list_all(site.client, &resource.all(), take).await {
            eprintln!("warning: {:#}", anyhow::Error::from(error));
        }
    }
    let is_complete = account.findings.sorted().is_empty();
    Ok(site.shown(is_complete, || text_of(name, &account), account.annotation()))
}

fn text_of(name: &str, account: &Account) -> String {
    let Account { matched, injected, missed, .. } = account;
    let heading = format!("SidecarSet {name}: {matched} matched, {injected} injected, {missed} missed");
    let mut all = Vec::new();
    for finding in account.findings.sorted() {
        let count = if finding.count == 0 { String::new() } else { format!("{}: ", finding.count) };
        let mut names: Vec<String> = finding.pods().collect();
        if names.len() < finding.count {
            names.push("...".to_owned());
        }
        all.push(format!("  {count}{}", finding.reason));
        if !names.is_empty() {
            all.push(format!("    {}", names.join(", ")));
        }
        let because_of: Vec<String> = finding.because_of().collect();
        if !because_of.is_empty() {
            all.push(format!("    because of {}", because_of.join(", ")));
        }
    }
    lines(heading, all)
}
