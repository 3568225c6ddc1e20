//! `kutter explain workloadspread`: which subset each Pod is in and why, and which one takes the next Pod.

use api::kinds::workloadspread::{API_VERSION, KIND, PLURAL};
use cluster::resource::{PODS, Resource};
use kinds::workloadspread::explanation::{PlacementReason, Report, SubsetCapacity, explain};
use kinds::workloadspread::spread::Spread;
use pod::observed::ObservedPod;
use serde_json::{Value, json};

use super::{Shown, Site, lines};

/// Explains the WorkloadSpread; what is printed, and how the program ends: well if the next Pod has a slot.
pub(super) async fn of_spread(site: &Site<'_>) -> anyhow::Result<Shown> {
    let resource = Resource::new(API_VERSION, PLURAL, KIND);
    let spread = site.object(resource, site.namespace, Spread::read).await?;
    let pods: Vec<ObservedPod> = site.list(&PODS.namespaced(site.namespace), Some).await?;
    let report = explain(&spread, &pods);
    let has_slot = report.versions.iter().all(|(_, outlooks)| outlooks.iter().any(|outlook| outlook.is_next));
    let json = format!("{:#}", json(&spread, &report, has_slot));
    Ok(site.shown(has_slot, || text(&spread, &report), json))
}

fn text(spread: &Spread, Report { versions, pods }: &Report) -> String {
    let target = spread.target();
    let (namespace, name) = (spread.namespace(), spread.name());
    let heading = format!("{KIND} {namespace}/{name} divides {} {}", target.kind, target.name);
    let mut all = Vec::new();
    for (version, outlooks) in versions {
        let indent = if versions.len() > 1 {
            all.push(format!("  version {version}"));
            "    "
        } else {
            "  "
        };
        all.extend(outlooks.iter().map(|outlook| format!("{indent}{outlook}")));
        if !outlooks.iter().any(|outlook| outlook.is_next) {
            all.push(format!("{indent}the next Pod comes into no subset: none has a slot"));
        }
    }
    all.extend(pods.iter().map(|(name, reason)| format!("  {name} {reason}")));
    lines(heading, all)
}

fn json(spread: &Spread, Report { versions, pods }: &Report, has_slot: bool) -> Value {
    let subsets = |outlooks: &[SubsetCapacity]| -> Value {
        let subset = |outlook: &SubsetCapacity| {
            let SubsetCapacity { subset, active, creating, deleting, free, is_schedulable, is_next } =
                outlook;
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
        .map(|(name, reason)| {
            let subset = if let PlacementReason::Member(subset) = reason { Some(subset) } else { None };
            json!({"name": name, "subset": subset, "reason": reason.to_string()})
        })
        .collect();
    json!({
        "kind": KIND,
        "namespace": spread.namespace(),
        "name": spread.name(),
        "state": if has_slot { "open" } else { "full" },
        "versions": versions,
        "pods": pods,
    })
}
