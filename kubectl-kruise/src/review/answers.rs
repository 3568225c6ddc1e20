//! Reviews of objects from files, answered by the code of the server.

use std::time::Duration;

use admission::endpoint::{Endpoint, entries};
use admission::pod_review::explanation::Explanation;
use admission::registration::ConfigurationKind;
use anyhow::Context;
use informers::files::{Object, Objects};
use pod::exit_priority;
use values::json_patch::{self, Patch};
use values::verdict::{Denial, Verdict};
use webhooks::{Admission, Deadline};

use super::ReviewedOperation;
use super::pods::pods_of;

/// Time for one review; nothing is asked over a network.
const TIMEOUT: Duration = Duration::from_secs(30);

/// What admission answers for one object.
#[derive(Debug)]
pub(crate) struct Answer {
    /// File and object, for people.
    pub title: String,
    /// The object as it was sent.
    pub before: String,
    /// The object as it would be stored.
    pub after: String,
    /// What changed.
    pub patch: Patch,
    /// Warnings as kubectl prints them.
    pub warnings: Vec<String>,
    /// Which webhook refused it, and why.
    pub denial: Option<(&'static str, Denial)>,
    /// What each object that might concern a Pod is to it, and why.
    pub explanations: Vec<Explanation>,
    /// In which order the containers of a Pod end.
    pub order: Option<String>,
}

/// Reviews every object: workloads as their Pods, others as they are. Updates are those of the `present` objects.
pub(crate) async fn collect(
    admission: &Admission,
    (objects, present): (&Objects, &Objects),
    operation: ReviewedOperation,
    default_namespace: &str,
) -> anyhow::Result<Vec<Answer>> {
    let mut answers = Vec::new();
    for object in objects.iter() {
        let namespace = if object.namespace.is_empty() { default_namespace } else { &object.namespace };
        let old = before(present, object, namespace);
        let own = answer(admission, object, &old, namespace, operation).await?;
        let pods = match operation {
            // What is refused makes no Pods.
            ReviewedOperation::Create if own.denial.is_none() => {
                pods_of(&Object { json: own.after.clone(), ..object.clone() }, namespace)
            }
            _ => Vec::new(),
        };
        // A workload without webhook is shown by its Pods alone.
        if pods.is_empty() || !own.patch.is_empty() || own.denial.is_some() {
            answers.push(own);
        }
        for pod in pods {
            let title = format!("{} (Pod of {}/{})", object.source, object.kind, object.name);
            let pod = Object {
                kind: "Pod".to_owned(),
                api_version: "v1".to_owned(),
                json: pod,
                source: title,
                ..object.clone()
            };
            answers.push(answer(admission, &pod, &pod.json, namespace, operation).await?);
        }
    }
    Ok(answers)
}

/// What an update changes: the object as it is, in the version in which it comes, or itself where that is not known.
fn before(present: &Objects, object: &Object, namespace: &str) -> String {
    let is_same = |known: &&Object| {
        (known.group(), &known.kind, &known.name) == (object.group(), &object.kind, &object.name)
            && (known.namespace == namespace || known.namespace.is_empty())
    };
    let Some(known) = present.iter().find(is_same) else { return object.json.clone() };
    let converted = api::conversion::convert(&known.json, &object.api_version);
    converted.map_or_else(|_| known.json.clone(), |converted| converted.get().to_owned())
}

fn title(object: &Object) -> String {
    format!("{}: {}/{}", object.source, object.kind, object.name)
}

async fn answer(
    admission: &Admission,
    object: &Object,
    old: &str,
    namespace: &str,
    operation: ReviewedOperation,
) -> anyhow::Result<Answer> {
    let mut answer = Answer {
        title: title(object),
        before: object.json.clone(),
        after: object.json.clone(),
        patch: Patch::default(),
        warnings: Vec::new(),
        denial: None,
        explanations: Vec::new(),
        order: None,
    };
    for (webhook, endpoint) in webhooks(object, operation) {
        let review = review(object, (&answer.after, old), namespace, operation);
        match admission.verdict(endpoint, review.as_bytes(), Deadline::after(TIMEOUT)).await {
            Verdict::Allow { edits, warnings } => {
                answer.after = json_patch::apply(&answer.after, &edits)
                    .context("the patch of a webhook does not apply")?;
                answer.patch.extend(edits);
                answer.warnings.extend(warnings);
            }
            Verdict::Deny(denial) | Verdict::Refuse(denial, _) => {
                answer.denial = Some((webhook, denial));
                break;
            }
        }
        if endpoint == Endpoint::MutatePod {
            answer.explanations = admission.explain(&object.json, namespace, Deadline::after(TIMEOUT)).await;
        }
        if endpoint == Endpoint::MutateExitPriority {
            answer.order = exit_priority::order(&answer.after);
        }
    }
    Ok(answer)
}

/// The webhooks that see an object, by name, in the order in which the API server calls them.
fn webhooks(object: &Object, operation: ReviewedOperation) -> Vec<(&'static str, Endpoint)> {
    let resource = plural(object.group(), &object.kind);
    let entries = ConfigurationKind::ALL
        .into_iter()
        .flat_map(entries)
        .filter(|entry| entry.is_about(object.group(), &resource))
        .filter(|entry| entry.operations.contains(&operation.name()));
    let mut webhooks: Vec<_> = entries.map(|entry| (entry.name, entry.endpoint)).collect();
    // Some see an object by one of several entries.
    webhooks.dedup_by_key(|(_, endpoint)| *endpoint);
    webhooks
}

/// Not a dry run: what a Pod takes from others is shown too, and there is nobody who would store it.
fn review(
    object: &Object,
    (json, old): (&str, &str),
    namespace: &str,
    operation: ReviewedOperation,
) -> String {
    let (group, version) = api::group_and_version(&object.api_version);
    let resource = plural(group, &object.kind);
    let (new, old) = match operation {
        ReviewedOperation::Create => (json, "null"),
        ReviewedOperation::Update => (json, old),
        ReviewedOperation::Delete => ("null", json),
    };
    let operation = operation.name();
    let text = json_patch::string;
    format!(
        r#"{{"apiVersion":"admission.k8s.io/v1","kind":"AdmissionReview","request":{{"uid":"review","kind":{{"group":{group},"version":{version},"kind":{kind}}},"resource":{{"group":{group},"version":{version},"resource":{resource}}},"name":{name},"namespace":{namespace},"operation":"{operation}","userInfo":{{"username":"review"}},"object":{new},"oldObject":{old},"dryRun":false}}}}"#,
        group = text(group),
        version = text(version),
        kind = text(&object.kind),
        resource = text(&resource),
        name = text(&object.name),
        namespace = text(namespace),
    )
}

fn plural(group: &str, kind: &str) -> String {
    match api::crds::find(group, kind) {
        Some(definition) => definition.plural.to_owned(),
        None if kind.ends_with('s') => format!("{}es", kind.to_lowercase()),
        None => format!("{}s", kind.to_lowercase()),
    }
}
