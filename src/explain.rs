//! `kutter explain`: why a workload is as it is, what would change that, and what its controller would do
//! next; and which SidecarSets are in which Pods, and why. It reads the objects from the API server, decides
//! as the controllers and admission do, and writes nothing.

mod sidecars;

use std::collections::{BTreeMap, BTreeSet};
use std::ffi::OsString;
use std::io::Write;
use std::path::PathBuf;
use std::process::ExitCode;
use std::sync::Arc;

use anyhow::{Context, anyhow};
use api::features::FeatureGates;
use api::kinds::cloneset::{API_VERSION, CloneSet, PLURAL, Status};
use api::labels::CLONESET_INSTANCE_ID;
use clap::{Args, Parser, Subcommand, ValueEnum};
use cluster::list::{List, query};
use cluster::{client, write};
use kube::Client;
use planner::pod::observed::{ObservedPod, Pairs, PodMetadata};
use planner::text::moment::{Moment, rfc3339};
use planner::text::selector::Selector;
use planner::text::server_version::ServerVersion;
use planner::workload::children::Claim;
use planner::workload::conditions::Condition;
use planner::workload::explanation::{Blocker, Explanation};
use planner::workload::plan::Plan;
use planner::workload::revision::StoredRevision;
use planner::workload::snapshot::{Environment, Snapshot};
use planner::workload::status::selector_text;
use planner::workload::told::{plan_as_told, trouble};
use serde::Deserialize;
use serde_json::json;
use serde_json::value::RawValue;

/// Objects per page of a list.
const PAGE: usize = 500;
/// Exit code while the workload is not what it asks for; 1 is an error, as everywhere.
const INCOMPLETE: u8 = 2;

/// Arguments of `kutter explain`.
#[derive(Debug, Args)]
pub(crate) struct ExplainArguments {
    #[command(subcommand)]
    kind: Kind,
}

#[derive(Debug, Subcommand)]
enum Kind {
    /// Explain a CloneSet
    #[command(name = "cloneset", visible_alias = "clone")]
    CloneSet(CloneSetArguments),
    /// Explain which SidecarSets are in a Pod, and why others are not
    Pod(SidecarArguments),
    /// Explain which Pods have the sidecars of a SidecarSet, and why others have not
    #[command(name = "sidecarset")]
    SidecarSet(SidecarArguments),
    /// KIND/NAME in one word, as kubectl prints it
    #[command(external_subcommand)]
    Word(Vec<OsString>),
}

#[derive(Debug, Args)]
struct Target {
    /// The name of the object
    name: String,
    /// Its namespace; where none is given, that of the kubeconfig
    #[arg(short, long)]
    namespace: Option<String>,
    /// Kubeconfig to use instead of the one that kubectl would use
    #[arg(long)]
    kubeconfig: Option<PathBuf>,
    /// How to show it
    #[arg(short, long, value_enum, default_value_t = Format::Text)]
    output: Format,
}

#[derive(Debug, Args)]
struct CloneSetArguments {
    #[command(flatten)]
    target: Target,
    /// Feature gates of the controller: A=true,B=false
    #[arg(long, default_value = "")]
    feature_gates: String,
}

#[derive(Debug, Args)]
struct SidecarArguments {
    #[command(flatten)]
    target: Target,
    /// The namespace that Kutter is installed in
    #[arg(long, default_value = api::DEFAULT_NAMESPACE)]
    install_namespace: String,
}

/// `kutter explain` by itself, to read a word that was taken apart.
#[derive(Debug, Parser)]
#[command(name = "kutter explain")]
struct Alone {
    #[command(flatten)]
    arguments: ExplainArguments,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
enum Format {
    /// Lines to read
    Text,
    /// One JSON object
    Json,
}

/// Prints the explanation of an object.
pub(crate) fn run(arguments: &ExplainArguments) -> anyhow::Result<ExitCode> {
    crate::serve::install_cryptography();
    let (text, code) = match &arguments.kind {
        Kind::CloneSet(arguments) => clone_set(arguments)?,
        Kind::Pod(arguments) => arguments.target.with_cluster(async |client, namespace| {
            sidecars::of_pod(client, &arguments.install_namespace, namespace, &arguments.target).await
        })?,
        Kind::SidecarSet(arguments) => arguments.target.with_cluster(async |client, _| {
            sidecars::of_sidecar_set(client, &arguments.install_namespace, &arguments.target).await
        })?,
        Kind::Word(words) => return run(&taken_apart(words)?.arguments),
    };
    std::io::stdout().lock().write_all(text.as_bytes())?;
    Ok(code)
}

/// Reads `pod/web-0 -n shop` as `pod web-0 -n shop`.
fn taken_apart(words: &[OsString]) -> anyhow::Result<Alone> {
    let (word, rest) = words.split_first().context("what is to be explained?")?;
    let word = word.to_string_lossy();
    let (kind, name) = word.split_once('/').unwrap_or((&word, ""));
    let known = matches!(kind, "cloneset" | "clone" | "pod" | "sidecarset");
    anyhow::ensure!(known && !name.is_empty(), "{word:?} can't be explained: see kutter explain --help");
    let words = ["kutter explain", kind, name].into_iter().map(OsString::from);
    Ok(Alone::parse_from(words.chain(rest.iter().cloned())))
}

impl Target {
    /// Does something with a client of the cluster and the namespace that is meant.
    fn with_cluster<T>(
        &self,
        work: impl AsyncFnOnce(&Client, &str) -> anyhow::Result<T>,
    ) -> anyhow::Result<T> {
        let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build()?;
        runtime.block_on(async {
            let configuration = client::configuration(self.kubeconfig.as_deref()).await?;
            let namespace = self.namespace.as_deref().unwrap_or(&configuration.default_namespace);
            let client = client::connect(&configuration, "kutter-explain")?;
            work(&client, namespace).await
        })
    }
}

fn clone_set(arguments: &CloneSetArguments) -> anyhow::Result<(String, ExitCode)> {
    let gates = FeatureGates::parse(&arguments.feature_gates, "")?;
    let target = &arguments.target;
    let found = target
        .with_cluster(async |client, namespace| Found::gather(client, namespace, &target.name).await)?;
    let report = Report::new(&found.set, found.plan(&gates));
    let text = match target.output {
        Format::Text => report.text(),
        Format::Json => report.json(),
    };
    Ok((text, code(report.state == State::Complete)))
}

fn code(complete: bool) -> ExitCode {
    if complete { ExitCode::SUCCESS } else { ExitCode::from(INCOMPLETE) }
}

/// A CloneSet and what belongs to it.
struct Found {
    set: CloneSet,
    pods: Vec<Arc<ObservedPod>>,
    claims: Vec<Arc<Claim>>,
    revisions: Vec<Arc<StoredRevision>>,
    nodes: BTreeMap<Box<str>, Pairs>,
    server: ServerVersion,
}

impl Found {
    async fn gather(client: &Client, namespace: &str, name: &str) -> anyhow::Result<Self> {
        let path = format!("/apis/{API_VERSION}/namespaces/{namespace}/{PLURAL}/{name}");
        let set = read(client, &path).await?;
        let set = set.ok_or_else(|| anyhow!("there is no CloneSet {name} in namespace {namespace}"))?;
        let set: CloneSet = serde_json::from_str(&set).context("the CloneSet is not understood")?;
        let version = client.apiserver_version().await.map_err(|error| anyhow!(client::message(&error)))?;
        let mut found = Self {
            pods: Vec::new(),
            claims: Vec::new(),
            revisions: Vec::new(),
            nodes: BTreeMap::new(),
            server: ServerVersion::parse(&version.git_version),
            set,
        };
        // Without a selector that can be used nothing is planned.
        if Selector::compile(&found.set.spec.selector).is_ok() {
            found.gather_rest(client, namespace).await?;
        }
        Ok(found)
    }

    /// Gathers what belongs to the CloneSet. Revisions of others are left out by the API server; a Pod whose
    /// labels were changed is still its own, until it lets it go.
    async fn gather_rest(&mut self, client: &Client, namespace: &str) -> anyhow::Result<()> {
        let set = &self.set;
        let owns = |metadata: &PodMetadata| {
            metadata.owner_references.iter().any(|owner| owner.uid == set.metadata.uid)
        };
        let core = format!("/api/v1/namespaces/{namespace}");
        let selected = labelled(&selector_text(&set.spec.selector));
        list_all(client, &format!("{core}/pods"), |pod: ObservedPod| {
            if owns(&pod.metadata) {
                self.pods.push(Arc::new(pod));
            }
        })
        .await?;
        // Of the selector they have the labels that it lists only, not its expressions.
        let claims = format!("{core}/persistentvolumeclaims?{}", labelled(CLONESET_INSTANCE_ID));
        list_all(client, &claims, |claim: Claim| {
            if owns(&claim.metadata) {
                self.claims.push(Arc::new(claim));
            }
        })
        .await?;
        let revisions = format!("/apis/apps/v1/namespaces/{namespace}/controllerrevisions?{selected}");
        list_all(client, &revisions, |revision: Box<RawValue>| {
            // Those of other kinds need not be such as we can read.
            self.revisions.extend(StoredRevision::read(revision.get()).ok().map(Arc::new));
        })
        .await?;
        let template = set.spec.template.as_ref().map_or("", |template| template.get());
        if template.contains("topologySpreadConstraints") {
            list_all(client, "/api/v1/nodes", |node: Node| {
                self.nodes.insert(node.metadata.name, node.metadata.labels);
            })
            .await?;
        }
        Ok(())
    }

    fn plan(&self, gates: &FeatureGates) -> Plan<Status> {
        let snapshot = Snapshot {
            workload: &self.set,
            pods: &self.pods,
            children: &[],
            claims: &self.claims,
            revisions: &self.revisions,
            nodes: &self.nodes,
            refused: &BTreeSet::new(),
            held: &BTreeMap::new(),
            collision_count: None,
            gates,
            environment: Environment { server: self.server, ..Environment::default() },
        };
        plan_as_told(&snapshot, Moment { now: jiff::Timestamp::now(), seed: 0 })
    }
}

#[derive(Deserialize)]
struct Node {
    metadata: PodMetadata,
}

async fn read(client: &Client, path: &str) -> anyhow::Result<Option<String>> {
    let answer = write::get(client, path).await;
    answer.map_err(|error| anyhow!("{path} can't be read: {error}"))
}

/// The query for objects whose labels are as `selector` says. Of what a selector holds only spaces have to be
/// escaped.
fn labelled(selector: &str) -> String {
    format!("labelSelector={}", selector.replace(' ', "%20"))
}

/// All pages of a list; `path` may have a query.
async fn list_all<T: for<'de> Deserialize<'de>>(
    client: &Client,
    path: &str,
    mut take: impl FnMut(T),
) -> anyhow::Result<()> {
    let separator = if path.contains('?') { '&' } else { '?' };
    let mut token: Option<String> = None;
    loop {
        let page = format!("{path}{separator}{}", query(PAGE, token.as_deref()));
        let Some(text) = read(client, &page).await? else { return Ok(()) };
        let list: List<T> =
            serde_json::from_str(&text).with_context(|| format!("{path} is not understood"))?;
        token = list.next_page().map(str::to_owned);
        list.items.into_iter().for_each(&mut take);
        if token.is_none() {
            return Ok(());
        }
    }
}

/// How a CloneSet stands, in one word.
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

/// What is told of a CloneSet.
struct Report<'a> {
    set: &'a CloneSet,
    state: State,
    explanation: Explanation,
    /// What the controller would do now, a line for each.
    next: Vec<String>,
}

impl<'a> Report<'a> {
    fn new(set: &'a CloneSet, mut plan: Plan<Status>) -> Self {
        let mut explanation = std::mem::take(&mut plan.explanation);
        // Without its explanation a plan prints what is to be done.
        let next = plan.to_string().lines().filter(|line| !line.is_empty()).map(str::to_owned).collect();
        let metadata = &set.metadata;
        let state = if metadata.deletion_timestamp.is_some() {
            "it is being deleted, and its Pods and claims go with it".clone_into(&mut explanation.summary);
            State::Ending
        } else if explanation.is_complete {
            State::Complete
        } else if explanation.is_moving {
            State::Moving
        } else {
            State::Waiting
        };
        let seen = set.status.observed_generation.unwrap_or(0);
        let newest = metadata.generation.unwrap_or(0);
        if seen < newest {
            explanation.limits.push(format!(
                "the controller has looked at generation {seen} of {newest} so far; does it run?"
            ));
        }
        Self { set, state, explanation, next }
    }

    fn text(&self) -> String {
        let (metadata, state) = (&self.set.metadata, self.state.word());
        let mut text =
            format!("CloneSet {}/{}: {state}\n{}", metadata.namespace, metadata.name, self.explanation);
        for condition in trouble(&self.set.status) {
            let since = condition.since();
            let Condition { kind, message, .. } = condition;
            let since = since.map_or(String::new(), |since| format!(", since {}", rfc3339(since)));
            text.push_str(&format!("  status: {kind}{since}: {message}\n"));
        }
        for line in &self.next {
            text.push_str(&format!("  next: {line}\n"));
        }
        text
    }

    fn json(&self) -> String {
        let blockers = self.explanation.blockers.iter().map(|blocker| {
            let Blocker { pod, reason, message, remedy, since } = blocker;
            json!({"pod": pod, "reason": reason, "message": message, "remedy": remedy, "since": since.map(rfc3339)})
        });
        let conditions = trouble(&self.set.status).into_iter().map(|condition| {
            let Condition { kind, message, last_transition_time, .. } = condition;
            json!({"type": kind, "message": message, "since": last_transition_time})
        });
        let report = json!({
            "kind": "CloneSet",
            "namespace": self.set.metadata.namespace,
            "name": self.set.metadata.name,
            "state": self.state.word(),
            "summary": self.explanation.summary,
            "limits": self.explanation.limits,
            "blockers": blockers.collect::<Vec<_>>(),
            "conditions": conditions.collect::<Vec<_>>(),
            "next": self.next,
        });
        format!("{report:#}\n")
    }
}

#[cfg(test)]
mod tests {
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
    fn text_tells_state_limits_blockers_and_what_comes_next() {
        let set = set(r#"{"namespace":"shop","name":"web","generation":2}"#, r#"{"observedGeneration":1}"#);
        let report = Report::new(&set, blocked());
        assert_eq!(
            report.text(),
            "CloneSet shop/web: waiting\n\
             1 Pods wanted\n\
             \x20 limit: paused\n\
             \x20 limit: the controller has looked at generation 1 of 2 so far; does it run?\n\
             \x20 waits: Pod web-a is not ready, since 2026-05-01T08:00:00Z; see its logs\n\
             \x20 next: look again after 5s\n"
        );
    }

    #[test]
    fn json_holds_the_same() {
        let set = set(r#"{"namespace":"shop","name":"web"}"#, "{}");
        let json: serde_json::Value = serde_json::from_str(&Report::new(&set, blocked()).json()).unwrap();
        let blocker = json!({"pod": "web-a", "reason": "NotReady", "message": "is not ready",
            "remedy": "see its logs", "since": "2026-05-01T08:00:00Z"});
        assert_eq!(
            json,
            json!({"kind": "CloneSet", "namespace": "shop", "name": "web", "state": "waiting",
                "summary": "1 Pods wanted", "limits": ["paused"], "blockers": [blocker], "conditions": [],
                "next": ["look again after 5s"]})
        );
    }

    #[test]
    fn conditions_that_tell_of_trouble_are_listed() {
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
        let told: Vec<&str> = lines.iter().filter_map(|line| line.strip_prefix("  status: ")).collect();
        assert_eq!(
            told,
            [
                "FailedScale, since 2026-05-01T08:00:00Z: no room",
                "kutter.io/Blocked, since 2026-05-01T08:00:00Z: no room",
            ]
        );
        let json: serde_json::Value = serde_json::from_str(&report.json()).unwrap();
        let first = json!({"type": "FailedScale", "message": "no room", "since": "2026-05-01T08:00:00Z"});
        assert_eq!((&json["conditions"][0], &json["conditions"][2]), (&first, &serde_json::Value::Null));
    }

    #[test]
    fn selectors_are_asked_for_as_they_are_written() {
        let selector = json!({"matchLabels": {"app": "web"}, "matchExpressions": [
            {"key": "example.com/tier", "operator": "NotIn", "values": ["b", "a"]}]});
        let selector = selector_text(&serde_json::from_value(selector).unwrap());
        assert_eq!(labelled(&selector), "labelSelector=app=web,example.com/tier%20notin%20(a,b)");
    }

    #[test]
    fn states_are_told_apart() {
        let state = |metadata: &str, is_complete, is_moving| {
            let explanation = Explanation { is_complete, is_moving, ..Explanation::default() };
            Report::new(&set(metadata, "{}"), Plan { explanation, ..Plan::default() }).state
        };
        assert_eq!(state("{}", true, false), State::Complete);
        assert_eq!(state("{}", false, true), State::Moving);
        assert_eq!(state("{}", false, false), State::Waiting);
        assert_eq!(state(r#"{"deletionTimestamp":"2026-05-01T08:00:00Z"}"#, false, false), State::Ending);
    }
}
