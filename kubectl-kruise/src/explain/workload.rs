//! `kutter explain` of a workload: its state, what blocks its progress, and what its controller would do next.
//! It plans as the controller does. Conditions of the status report what the API server refuses.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use anyhow::anyhow;
use api::features::{Feature, FeatureGates};
use api::kinds::shared::ConditionStatus;
use api::meta::LabelSelector;
use cluster::list::list_all;
use cluster::resource::{CLAIMS, CONFIG_MAPS, PODS, REVISIONS, Resource, SECRETS, STORAGE_CLASSES};
use kinds::workload::children::Claim;
use kinds::workload::conditions::Condition;
use kinds::workload::explanation::{BLOCKED, Explanation};
use kinds::workload::failures::Failures;
use kinds::workload::kind::{Workload, WorkloadStatus};
use kinds::workload::plan::Plan;
use kinds::workload::restart_on::{self, SourceKind};
use kinds::workload::revision::StoredRevision;
use kinds::workload::snapshot::{Environment, Snapshot};
use kinds::workload::status::selector_text;
use kinds::workload::storage_class::{StorageClass, StorageClasses};
use pod::node_fit::Nodes;
use pod::observed::{ObservedPod, PodMetadata};
use serde_json::value::RawValue;
use serde_json::{Value, json};
use values::moment::{Moment, rfc3339};
use values::selector::Selector;
use values::server_version::ServerVersion;

use super::{Shown, Site, labelled};

/// Explains the workload of kind `W` that is meant.
pub(super) async fn of_workload<W: Workload>(site: &Site<'_>, gates: &FeatureGates) -> anyhow::Result<Shown> {
    let found = Found::<W>::gather(site, gates).await?;
    let mut plan = found.plan(gates);
    plan.explanation.limits.extend(found.missing_configuration(site).await);
    let report = Report::new(&found.workload, plan);
    let json = format!("{:#}", report.json());
    Ok(site.shown(report.state == State::Complete, || report.text(), json))
}

/// A workload and what belongs to it.
struct Found<W> {
    workload: W,
    pods: Vec<Arc<ObservedPod>>,
    /// Pods that nobody manages and the workload could adopt.
    orphans: Vec<Arc<ObservedPod>>,
    claims: Vec<Arc<Claim>>,
    storage_classes: StorageClasses,
    revisions: Vec<Arc<StoredRevision>>,
    nodes: Nodes,
    server: ServerVersion,
}

impl<W: Workload> Found<W> {
    async fn gather(site: &Site<'_>, gates: &FeatureGates) -> anyhow::Result<Self> {
        let resource = Resource::new(W::API_VERSION, W::PLURAL, W::KIND);
        let workload: W = site.object(resource, site.namespace, |text| serde_json::from_str(text)).await?;
        let version = site.client.apiserver_version().await;
        let version = version.map_err(|error| anyhow!(cluster::client::message(&error)))?;
        let mut found = Self {
            pods: Vec::new(),
            orphans: Vec::new(),
            claims: Vec::new(),
            storage_classes: StorageClasses::default(),
            revisions: Vec::new(),
            nodes: Nodes::new(),
            server: ServerVersion::parse(&version.git_version),
            workload,
        };
        // Without a selector that can be used nothing is planned.
        if Selector::compile(found.workload.selector()).is_ok() {
            found.gather_rest(site).await?;
            found.gather_classes(site, gates).await?;
        }
        Ok(found)
    }

    /// Gathers what belongs to the workload. Revisions of others are left out by the API server; a Pod whose
    /// labels were changed is still its own, until it lets it go.
    async fn gather_rest(&mut self, site: &Site<'_>) -> anyhow::Result<()> {
        let Site { client, namespace, .. } = site;
        let uid = &self.workload.metadata().uid;
        let owns = |metadata: &PodMetadata| metadata.owner_references.iter().any(|owner| owner.uid == *uid);
        let selected = labelled(&selector_text(self.workload.selector()));
        list_all(client, &PODS.namespaced(namespace), |pod: ObservedPod| {
            if owns(&pod.metadata) {
                self.pods.push(Arc::new(pod));
            } else if W::could_adopt(&pod) {
                self.orphans.push(Arc::new(pod));
            }
        })
        .await?;
        let revisions = REVISIONS.namespaced(namespace).query(selected);
        // Those of other kinds need not be such as we can read.
        let take = |revision: Box<RawValue>| StoredRevision::read(revision.get()).ok().map(Arc::new);
        self.revisions = site.list(&revisions, take).await?;
        // Of the selector they have the labels that it lists only, not its expressions.
        let listed = LabelSelector { match_expressions: None, ..self.workload.selector().clone() };
        let claims = CLAIMS.namespaced(namespace).query(labelled(&selector_text(&listed)));
        let stems = self.workload.claim_stems(&self.pods, &self.revisions);
        let is_named =
            |claim: &Claim| claim.stem().is_some_and(|stem| stems.iter().any(|known| known == stem));
        let take = |claim: Claim| (owns(&claim.metadata) || is_named(&claim)).then(|| Arc::new(claim));
        self.claims = site.list(&claims, take).await?;
        if self.workload.reads_nodes(self.pods.len()) {
            self.nodes = site.nodes().await?;
        }
        Ok(())
    }

    /// Gathers the StorageClasses, where they say whether claims can grow.
    async fn gather_classes(&mut self, site: &Site<'_>, gates: &FeatureGates) -> anyhow::Result<()> {
        if W::HAS_POD_PER_NODE || !gates.enabled(Feature::StatefulSetAutoResizePVCGate) {
            return Ok(());
        }
        list_all(site.client, &STORAGE_CLASSES.all(), |class: Box<RawValue>| {
            StorageClass::read(class.get()).into_iter().for_each(|class| self.storage_classes.apply(class));
        })
        .await?;
        Ok(())
    }

    /// The ConfigMaps and Secrets that its Pods are to restart on, and that are not there.
    async fn missing_configuration(&self, site: &Site<'_>) -> Option<String> {
        let sources = restart_on::sources(self.workload.metadata());
        let mut missing = Vec::new();
        for source in &sources {
            let resource = match source.kind {
                SourceKind::ConfigMap => CONFIG_MAPS,
                SourceKind::Secret => SECRETS,
            };
            // What its reader may not read is passed over.
            if let Ok(None) = site.read(&resource.namespaced(site.namespace).name(&source.name)).await {
                missing.push(source);
            }
        }
        restart_on::missing(&missing)
    }

    fn plan(&self, gates: &FeatureGates) -> Plan<W::Status> {
        let snapshot = Snapshot {
            workload: &self.workload,
            pods: &self.pods,
            orphans: &self.orphans,
            claims: &self.claims,
            storage_classes: &self.storage_classes,
            children: &[],
            revisions: &self.revisions,
            nodes: &self.nodes,
            refused: &BTreeSet::new(),
            held: &BTreeMap::new(),
            costs: &BTreeMap::new(),
            failures: &Failures::default(),
            collision_count: None,
            gates,
            environment: Environment { server: self.server, ..Environment::default() },
        };
        W::plan(&snapshot, Moment { now: jiff::Timestamp::now(), seed: 0 })
    }
}

/// The state of a workload, in one word.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum State {
    Complete,
    Moving,
    Waiting,
    Ending,
}

impl State {
    fn word(self) -> &'static str {
        match self {
            Self::Complete => "complete",
            Self::Moving => "moving",
            Self::Waiting => "waiting",
            Self::Ending => "ending",
        }
    }
}

/// What is said about a workload.
struct Report<'a, W> {
    workload: &'a W,
    state: State,
    explanation: Explanation,
    /// Conditions by which the status reports trouble now.
    trouble: Vec<Condition>,
    /// What the controller would do now, a line for each.
    next: Vec<String>,
}

impl<'a, W: Workload> Report<'a, W> {
    fn new(workload: &'a W, mut plan: Plan<W::Status>) -> Self {
        let mut explanation = std::mem::take(&mut plan.explanation);
        // Without its explanation a plan prints what is to be done.
        let next = plan.to_string().lines().filter(|line| !line.is_empty()).map(str::to_owned).collect();
        let (metadata, status) = (workload.metadata(), workload.status());
        let mut trouble = status.conditions();
        let kinds = [W::Status::FAILED_SCALE.0, W::Status::FAILED_UPDATE.0, BLOCKED];
        trouble.retain(|known| known.status == ConditionStatus::True && kinds.contains(&known.kind.as_str()));
        let observed = status.observed_generation().unwrap_or(0);
        let newest = metadata.generation.unwrap_or(0);
        // What was refused to an older generation is tried again.
        let is_refused = observed == newest && trouble.iter().any(|known| known.kind == BLOCKED);
        let state = if metadata.deletion_timestamp.is_some() {
            "it is being deleted, and its Pods and claims go with it".clone_into(&mut explanation.summary);
            State::Ending
        } else if explanation.is_complete {
            State::Complete
        } else if explanation.is_moving && !is_refused {
            State::Moving
        } else {
            State::Waiting
        };
        if W::Status::TELLS_GENERATION && observed < newest {
            explanation.limits.push(format!(
                "the controller has observed generation {observed} of {newest} so far; does it run?"
            ));
        }
        Self { workload, state, explanation, trouble, next }
    }

    fn text(&self) -> String {
        let (metadata, state) = (self.workload.metadata(), self.state.word());
        let (kind, explanation) = (W::KIND, &self.explanation);
        let mut text = format!("{kind} {}/{}: {state}\n{explanation}", metadata.namespace, metadata.name);
        for condition in &self.trouble {
            let Condition { kind, message, .. } = condition;
            let since =
                condition.since().map_or(String::new(), |since| format!(", since {}", rfc3339(since)));
            text.push_str(&format!("  status: {kind}{since}: {message}\n"));
        }
        for line in &self.next {
            text.push_str(&format!("  next: {line}\n"));
        }
        text
    }

    fn json(&self) -> Value {
        let conditions = self.trouble.iter().map(|condition| {
            let Condition { kind, message, last_transition_time, .. } = condition;
            json!({"type": kind, "message": message, "since": last_transition_time})
        });
        json!({
            "kind": W::KIND,
            "namespace": self.workload.metadata().namespace,
            "name": self.workload.metadata().name,
            "state": self.state.word(),
            "summary": self.explanation.summary,
            "limits": self.explanation.limits,
            "blockers": super::blockers(&self.explanation),
            "conditions": conditions.collect::<Vec<_>>(),
            "next": self.next,
        })
    }
}

#[cfg(test)]
mod tests {
    use api::kinds::cloneset::{CloneSet, Status};
    use kinds::workload::explanation::Blocker;

    use super::*;

    fn set(metadata: &str, status: &str) -> CloneSet {
        let text = format!(r#"{{"metadata":{metadata},"spec":{{}},"status":{status}}}"#);
        serde_json::from_str(&text).unwrap()
    }

    fn blocked() -> Plan<Status> {
        let blocker = Blocker {
            pod: "web-a".to_owned(),
            reason: "NotReady",
            message: "is not ready".to_owned(),
            remedy: "see its logs".to_owned(),
            since: Some("2026-05-01T08:00:00Z".parse().unwrap()),
        };
        let explanation = Explanation {
            summary: "1 Pods wanted".to_owned(),
            limits: vec!["paused".to_owned()],
            blockers: vec![blocker],
            ..Explanation::default()
        };
        let requeue_after = Some(std::time::Duration::from_secs(5));
        Plan { explanation, requeue_after, ..Plan::default() }
    }

    #[test]
    fn text_says_state_limits_blockers_and_what_comes_next() {
        let set = set(r#"{"namespace":"shop","name":"web","generation":2}"#, r#"{"observedGeneration":1}"#);
        let report = Report::new(&set, blocked());
        assert_eq!(
            report.text(),
            "CloneSet shop/web: waiting\n\
             1 Pods wanted\n\
             \x20 limit: paused\n\
             \x20 limit: the controller has observed generation 1 of 2 so far; does it run?\n\
             \x20 waits: Pod web-a is not ready, since 2026-05-01T08:00:00Z; see its logs\n\
             \x20 next: look again after 5s\n"
        );
    }

    #[test]
    fn json_holds_the_same() {
        let set = set(r#"{"namespace":"shop","name":"web"}"#, "{}");
        let blocker = json!({"pod": "web-a", "reason": "NotReady", "message": "is not ready",
            "remedy": "see its logs", "since": "2026-05-01T08:00:00Z"});
        assert_eq!(
            Report::new(&set, blocked()).json(),
            json!({"kind": "CloneSet", "namespace": "shop", "name": "web", "state": "waiting",
                "summary": "1 Pods wanted", "limits": ["paused"], "blockers": [blocker], "conditions": [],
                "next": ["look again after 5s"]})
        );
    }

    #[test]
    fn conditions_that_report_failures_are_listed() {
        let condition = |kind: &str, status: &str| json!({"type": kind, "status": status, "message": "no room", "lastTransitionTime": "2026-05-01T08:00:00Z"});
        let conditions = json!([
            condition("Progressing", "True"),
            condition("FailedUpdate", "False"),
            condition("kutter.io/Blocked", "True"),
            condition("FailedScale", "True"),
        ]);
        let set = set("{}", &json!({"conditions": conditions}).to_string());
        let report = Report::new(&set, blocked());
        let lines: Vec<String> = report.text().lines().map(str::to_owned).collect();
        let reported: Vec<&str> = lines.iter().filter_map(|line| line.strip_prefix("  status: ")).collect();
        assert_eq!(
            reported,
            [
                "kutter.io/Blocked, since 2026-05-01T08:00:00Z: no room",
                "FailedScale, since 2026-05-01T08:00:00Z: no room",
            ]
        );
        let json = report.json();
        let second = json!({"type": "FailedScale", "message": "no room", "since": "2026-05-01T08:00:00Z"});
        assert_eq!((&json["conditions"][1], &json["conditions"][2]), (&second, &Value::Null));
    }

    #[test]
    fn states_are_distinguished() {
        let reported = |metadata: &str, status: &str, is_complete, is_moving| {
            let explanation = Explanation { is_complete, is_moving, ..Explanation::default() };
            Report::new(&set(metadata, status), Plan { explanation, ..Plan::default() }).state
        };
        let state = |metadata: &str, is_complete, is_moving| reported(metadata, "{}", is_complete, is_moving);
        assert_eq!(state("{}", true, false), State::Complete);
        assert_eq!(state("{}", false, true), State::Moving);
        assert_eq!(state("{}", false, false), State::Waiting);
        assert_eq!(state(r#"{"deletionTimestamp":"2026-05-01T08:00:00Z"}"#, false, false), State::Ending);
        // What the status says of an older generation does not count.
        let status =
            r#"{"observedGeneration":2,"conditions":[{"type":"kutter.io/Blocked","status":"True"}]}"#;
        assert_eq!(reported(r#"{"generation":2}"#, status, false, true), State::Waiting);
        assert_eq!(reported(r#"{"generation":3}"#, status, false, true), State::Moving);
    }
}
