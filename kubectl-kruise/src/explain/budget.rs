//! `kutter explain podunavailablebudget`: which Pods a budget counts, who uses it up, and when it gives again.

use std::sync::Arc;

use anyhow::Context;
use api::Raw;
use api::features::FeatureGates;
use api::kinds::podunavailablebudget::KIND;
use cluster::resource::{BUDGETS, PODS};
use kinds::podunavailablebudget::explanation::{Report, State, explain};
use pod::observed::ObservedPod;
use serde_json::value::RawValue;
use serde_json::{Value, json};

use super::{Shown, Site, blockers};

/// Pods that are named in a line.
const NAMED: usize = 20;

/// Explains the budget; what is printed, and how the program ends.
pub(super) async fn of_budget(site: &Site<'_>, gates: &FeatureGates) -> anyhow::Result<Shown> {
    let Site { namespace, name, .. } = site;
    let take = |budget: Box<RawValue>| Some(Raw::from(budget));
    let budgets = site.list(&BUDGETS.namespaced(namespace), take).await?;
    let pods = site.list(&PODS.namespaced(namespace), |pod: ObservedPod| Some(Arc::new(pod))).await?;
    let report = explain(name, &budgets, &pods, gates, jiff::Timestamp::now());
    let report = report.with_context(|| format!("there is no {KIND} {name} in namespace {namespace}"))?;
    let json = format!("{:#}", json(namespace, name, &report));
    Ok(site.shown(report.state == State::Open, || text(namespace, name, &report), json))
}

fn text(namespace: &str, name: &str, Report { state, counted, explanation }: &Report) -> String {
    let mut names: Vec<&str> = counted.iter().take(NAMED).map(String::as_str).collect();
    if counted.len() > NAMED {
        names.push("...");
    }
    let (state, count) = (state.word(), counted.len());
    format!("{KIND} {namespace}/{name}: {state}\n{explanation}  counts {count}: {}\n", names.join(", "))
}

fn json(namespace: &str, name: &str, Report { state, counted, explanation }: &Report) -> Value {
    json!({
        "kind": KIND,
        "namespace": namespace,
        "name": name,
        "state": state.word(),
        "summary": explanation.summary,
        "limits": explanation.limits,
        "blockers": blockers(explanation),
        "counted": counted,
    })
}
