//! `kutter explain` of a ResourceDistribution: which namespaces have the right copy, and what is wrong in the
//! others. It compares as the controller does.

use std::collections::BTreeMap;

use api::kinds::resourcedistribution::{API_VERSION, KIND, PLURAL};
use api::kinds::shared::ConditionStatus;
use cluster::list::list_all;
use cluster::resource::{NAMESPACES, Resource, encoded};
use kinds::resourcedistribution::Distribution;
use kinds::resourcedistribution::copy::Copy;
use kinds::resourcedistribution::explanation::{Finding, findings};
use kinds::resourcedistribution::targets::TargetNamespace;
use serde_json::value::RawValue;
use serde_json::{Value, json};

use super::{Shown, Site, lines};

/// Explains the ResourceDistribution that is meant.
pub(super) async fn of_distribution(site: &Site<'_>) -> anyhow::Result<Shown> {
    let resource = Resource::new(API_VERSION, PLURAL, KIND);
    let distribution = site.object(resource, "", Distribution::read).await?;
    let take = |namespace: Box<RawValue>| TargetNamespace::read(namespace.get()).ok();
    let namespaces = site.list(&NAMESPACES.all(), take).await?;
    let mut objects = BTreeMap::new();
    if let Ok(resource) = &distribution.resource {
        let path = Resource::new("v1", resource.kind.plural(), resource.kind.name()).all();
        let path = path.query(format_args!("fieldSelector=metadata.name%3D{}", encoded(&resource.name)));
        list_all(site.client, &path, |object: Box<RawValue>| {
            if let Ok(copy) = Copy::read(object.get()) {
                objects.insert(copy.namespace.into(), object.get().to_owned());
            }
        })
        .await?;
    }
    let found = findings(&distribution, &namespaces, &objects);
    let wrong = |found: &BTreeMap<String, Finding>| found.values().any(|one| *one != Finding::Right);
    let is_reconciled = distribution.status.observed_generation == distribution.generation;
    let complete = is_reconciled && found.as_ref().is_ok_and(|found| !wrong(found));
    let json = json_of(&distribution, &found, complete);
    Ok(site.shown(complete, || text_of(&distribution, &found, complete), json))
}

type Found = Result<BTreeMap<String, Finding>, String>;

/// What the controller failed at last.
fn failures(distribution: &Distribution) -> impl Iterator<Item = String> {
    let conditions = distribution.status.conditions.iter();
    conditions.filter(|condition| condition.status == ConditionStatus::True).map(|condition| {
        format!("{} ({}): {}", condition.kind, condition.failed_namespaces.join(", "), condition.reason)
    })
}

fn text_of(distribution: &Distribution, found: &Found, complete: bool) -> String {
    let state = if complete { "complete" } else { "not complete" };
    let problem = found.as_ref().err().map(|problem| format!("  {problem}"));
    let namespaces = found.iter().flatten().map(|(namespace, finding)| format!("  {namespace}: {finding}"));
    let failures = failures(distribution).map(|failure| format!("  status: {failure}"));
    let heading = format!("{KIND} {}: {state}", distribution.name);
    lines(heading, problem.into_iter().chain(namespaces).chain(failures))
}

fn json_of(distribution: &Distribution, found: &Found, complete: bool) -> Value {
    let namespaces = found.iter().flatten().map(|(namespace, finding)| (namespace, finding.to_string()));
    let namespaces: BTreeMap<&String, String> = namespaces.collect();
    let failures: Vec<String> = failures(distribution).collect();
    let mut object = json!({
        "kind": KIND, "name": distribution.name, "complete": complete, "namespaces": namespaces,
        "failures": failures,
    });
    if let (Err(problem), Some(members)) = (found, object.as_object_mut()) {
        members.insert("problem".to_owned(), problem.as_str().into());
    }
    object
}
