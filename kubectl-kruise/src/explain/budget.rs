//! `kutter explain podunavailablebudget`: which Pods a budget counts, who uses it up, and when it gives again.

use std::sync::Arc;

use anyhow::anyhow;
use api::Raw;
use api::features::FeatureGates;
use api::kinds::podunavailablebudget::KIND;
use cluster::list::list_all;
use cluster::resource::{BUDGETS, PODS};
use kinds::podunavailablebudget::explanation::{Report, State, explain};
use kube::Client;
use pod::observed::ObservedPod;
use serde_json::json;
use serde_json::value::RawValue;

use super::{Format, Target, blockers, code};

/// Pods that are named in a line.
const NAMED: usize = 20;

/// Explains the budget; what is printed, and how the program ends.
pub(super) async fn of_budget(
    client: &Client,
    namespace: &str,
    target: &Target,
    gates: &FeatureGates,
) -> anyhow::Result<(String, std::process::ExitCode)> {
    let (mut budgets, mut pods) = (Vec::new(), Vec::new());
    list_all(client, &BUDGETS.namespaced(namespace), |budget: Box<RawValue>| budgets.push(Raw::from(budget)))
        .await?;
    list_all(client, &PODS.namespaced(namespace), |pod: ObservedPod| pods.push(Arc::new(pod))).await?;
    let name = &target.name;
    let report = explain(name, &budgets, &pods, gates, jiff::Timestamp::now());
    let report = report.ok_or_else(|| anyhow!("there is no {KIND} {name} in namespace {namespace}"))?;
    let text = match target.output {
        Format::Text => text(namespace, name, &report),
        Format::Json => json(namespace, name, &report),
    };
    Ok((text, code(report.state == State::Open)))
}

fn text(namespace: &str, name: &str, Report { state, counted, explanation }: &Report) -> String {
    let mut names: Vec<&str> = counted.iter().take(NAMED).map(String::as_str).collect();
    if counted.len() > NAMED {
        names.push("...");
    }
    let (state, count) = (state.word(), counted.len());
    format!("{KIND} {namespace}/{name}: {state}\n{explanation}  counts {count}: {}\n", names.join(", "))
}

fn json(namespace: &str, name: &str, Report { state, counted, explanation }: &Report) -> String {
    let report = json!({
        "kind": KIND,
        "namespace": namespace,
        "name": name,
        "state": state.word(),
        "summary": explanation.summary,
        "limits": explanation.limits,
        "blockers": blockers(explanation),
        "counted": counted,
    });
    format!("{report:#}\n")
}
