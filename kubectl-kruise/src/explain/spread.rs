//! `kutter explain workloadspread`: which subset each Pod is in and why, and which one takes the next Pod.

use anyhow::{Context, anyhow};
use api::kinds::workloadspread::{API_VERSION, KIND, PLURAL};
use cluster::list::list_all;
use cluster::resource::{PODS, Resource};
use kinds::workloadspread::explanation::{Outlook, Report, Standing, explain};
use kinds::workloadspread::spread::Spread;
use kube::Client;
use pod::observed::ObservedPod;
use serde_json::{Value, json};

use super::{Format, Target, code, read};

/// Explains the WorkloadSpread; what is printed, and how the program ends: well if the next Pod has a place.
pub(super) async fn of_spread(
    client: &Client,
    namespace: &str,
    target: &Target,
) -> anyhow::Result<(String, std::process::ExitCode)> {
    let name = &target.name;
    let path = Resource::new(API_VERSION, PLURAL, KIND).namespaced(namespace).name(name);
    let object = read(client, &path).await?;
    let object = object.ok_or_else(|| anyhow!("there is no {KIND} {name} in namespace {namespace}"))?;
    let spread = Spread::read(&object).with_context(|| format!("{path} is not understood"))?;
    let mut pods: Vec<ObservedPod> = Vec::new();
    list_all(client, &PODS.namespaced(namespace), |pod: ObservedPod| pods.push(pod)).await?;
    let report = explain(&spread, &pods);
    let has_place =
        report.versions.iter().all(|(_, outlooks)| outlooks.iter().any(|outlook| outlook.is_next));
    let text = match target.output {
        Format::Text => text(&spread, &report),
        Format::Json => json(&spread, &report, has_place),
    };
    Ok((text, code(has_place)))
}

fn text(spread: &Spread, Report { versions, pods }: &Report) -> String {
    let target = spread.target();
    let mut lines = vec![format!(
        "{KIND} {}/{} divides {} {}",
        spread.namespace(),
        spread.name(),
        target.kind,
        target.name
    )];
    for (version, outlooks) in versions {
        let indent = if versions.len() > 1 {
            lines.push(format!("  version {version}"));
            "    "
        } else {
            "  "
        };
        lines.extend(outlooks.iter().map(|outlook| format!("{indent}{outlook}")));
        if !outlooks.iter().any(|outlook| outlook.is_next) {
            lines.push(format!("{indent}the next Pod comes into no subset: none has a place"));
        }
    }
    lines.extend(pods.iter().map(|(name, standing)| format!("  {name} {standing}")));
    lines.join("\n") + "\n"
}

fn json(spread: &Spread, Report { versions, pods }: &Report, has_place: bool) -> String {
    let subsets = |outlooks: &[Outlook]| -> Value {
        let subset = |outlook: &Outlook| {
            let Outlook { subset, active, creating, deleting, free, is_schedulable, is_next } = outlook;
            json!({"name": subset, "active": active, "creating": creating, "deleting": deleting, "free": free,
                "schedulable": is_schedulable, "next": is_next})
        };
        outlooks.iter().map(subset).collect()
    };
    let versions: Value = versions
        .iter()
        .map(|(version, outlooks)| json!({"version": version, "subsets": subsets(outlooks)}))
        .collect();
    let pods: Value = pods
        .iter()
        .map(|(name, standing)| {
            let subset = if let Standing::Member(subset) = standing { Some(subset) } else { None };
            json!({"name": name, "subset": subset, "reason": standing.to_string()})
        })
        .collect();
    let report = json!({
        "kind": KIND,
        "namespace": spread.namespace(),
        "name": spread.name(),
        "state": if has_place { "open" } else { "full" },
        "versions": versions,
        "pods": pods,
    });
    format!("{report:#}\n")
}
