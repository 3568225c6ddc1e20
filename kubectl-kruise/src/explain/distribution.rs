//! `kutter explain` of a ResourceDistribution: which namespaces have the right copy, and what is wrong in the
//! others. It compares as the controller does.

use std::collections::BTreeMap;
use std::fmt::Write;
use std::process::ExitCode;

use anyhow::{Context, anyhow};
use api::kinds::resourcedistribution::{API_VERSION, KIND, PLURAL};
use api::kinds::shared::ConditionStatus;
use cluster::list::list_all;
use cluster::resource::{NAMESPACES, Resource, encoded};
use kinds::resourcedistribution::Distribution;
use kinds::resourcedistribution::copy::Copy;
use kinds::resourcedistribution::explanation::{Finding, findings};
use kinds::resourcedistribution::targets::TargetNamespace;
use kube::Client;
use serde_json::json;
use serde_json::value::RawValue;

use super::{Format, Target, code, read};

/// Explains the ResourceDistribution that is meant.
pub(super) async fn of_distribution(client: &Client, target: &Target) -> anyhow::Result<(String, ExitCode)> {
    let name = &target.name;
    let text = read(client, &Resource::new(API_VERSION, PLURAL, KIND).all().name(name)).await?;
    let text = text.ok_or_else(|| anyhow!("there is no {KIND} {name}"))?;
    let distribution = Distribution::read(&text).with_context(|| format!("the {KIND} is not understood"))?;
    let (mut namespaces, mut objects) = (Vec::new(), BTreeMap::new());
    list_all(client, &NAMESPACES.all(), |namespace: Box<RawValue>| {
        namespaces.extend(TargetNamespace::read(namespace.get()).ok());
    })
    .await?;
    if let Ok(resource) = &distribution.resource {
        let path = Resource::new("v1", resource.kind.plural(), resource.kind.name()).all();
        let path = path.query(format_args!("fieldSelector=metadata.name%3D{}", encoded(&resource.name)));
        list_all(client, &path, |object: Box<RawValue>| {
            if let Ok(copy) = Copy::read(object.get()) {
                objects.insert(copy.namespace.into(), object.get().to_owned());
            }
        })
        .await?;
    }
    let found = findings(&distribution, &namespaces, &objects);
    let wrong = |found: &BTreeMap<String, Finding>| found.values().any(|one| *one != Finding::Right);
    let is_looked_at = distribution.status.observed_generation == distribution.generation;
    let complete = is_looked_at && found.as_ref().is_ok_and(|found| !wrong(found));
    let text = match target.output {
        Format::Text => text_of(&distribution, &found, complete),
        Format::Json => json_of(&distribution, &found, complete),
    };
    Ok((text, code(complete)))
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
    let mut text = format!("{KIND} {}: {state}\n", distribution.name);
    // Writing to a String cannot fail.
    match found {
        Ok(found) => {
            for (namespace, finding) in found {
                let _ = writeln!(text, "  {namespace}: {finding}");
            }
        }
        Err(problem) => drop(writeln!(text, "  {problem}")),
    }
    for failure in failures(distribution) {
        let _ = writeln!(text, "  status: {failure}");
    }
    text
}

fn json_of(distribution: &Distribution, found: &Found, complete: bool) -> String {
    let namespaces: BTreeMap<&str, String> = found
        .iter()
        .flatten()
        .map(|(namespace, finding)| (namespace.as_str(), finding.to_string()))
        .collect();
    let failures: Vec<String> = failures(distribution).collect();
    let mut object = json!({
        "kind": KIND, "name": distribution.name, "complete": complete, "namespaces": namespaces,
        "failures": failures,
    });
    if let (Err(problem), Some(members)) = (found, object.as_object_mut()) {
        members.insert("problem".to_owned(), problem.as_str().into());
    }
    format!("{object}\n")
}
