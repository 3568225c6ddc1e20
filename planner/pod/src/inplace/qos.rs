//! The quality of service that Kubernetes gives the Pods of a template.

use std::collections::BTreeMap;
use std::fmt;

use serde_json::Value;

use super::template::resources;
use crate::observed::Pairs;
use values::quantity::Quantity;

/// Whose Pods are evicted first when a node runs out of memory.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum QosClass {
    /// Every container's limits equal its requests.
    Guaranteed,
    /// Something is requested or limited.
    Burstable,
    /// Nothing is.
    BestEffort,
}

impl fmt::Display for QosClass {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        fmt::Debug::fmt(self, formatter)
    }
}

/// The class of Pods with these containers and init containers. The API server fills missing requests from limits.
pub fn qos_class<'a>(containers: impl Iterator<Item = &'a Value>) -> QosClass {
    let (mut requests, mut limits) = (BTreeMap::new(), BTreeMap::new());
    let mut all_limited = true;
    for container in containers {
        let resources = resources(container);
        let limited = compute(&resources.limits);
        let mut requested = limited.clone();
        requested.extend(compute(&resources.requests));
        all_limited &= limited.len() == 2;
        add(&mut limits, limited);
        add(&mut requests, requested);
    }
    if requests.is_empty() && limits.is_empty() {
        QosClass::BestEffort
    } else if all_limited && requests == limits {
        QosClass::Guaranteed
    } else {
        QosClass::Burstable
    }
}

/// The positive amounts of `cpu` and `memory`.
fn compute(pairs: &Pairs) -> BTreeMap<&'static str, Quantity> {
    let amount = |name| Some((name, pairs.get(name)?.parse::<Quantity>().ok()?));
    let positive = |(_, amount): &(&str, Quantity)| !amount.is_zero() && !amount.is_negative();
    ["cpu", "memory"].into_iter().filter_map(amount).filter(positive).collect()
}

fn add(sums: &mut BTreeMap<&'static str, Quantity>, amounts: BTreeMap<&'static str, Quantity>) {
    for (name, amount) in amounts {
        let sum = sums.entry(name).or_insert(Quantity::ZERO);
        *sum = sum.plus(&amount);
    }
}
