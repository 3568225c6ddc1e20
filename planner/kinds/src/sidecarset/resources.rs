//! Resources of a sidecar, computed from those of the Pod's own containers
//! (docs/behaviour/pod-mutation.md#resources-policy).

use std::borrow::Cow;
use std::collections::BTreeMap;

use serde::Deserialize;
use serde_json::value::RawValue;

use super::calculator::Value;
use super::contribution::{Expressions, PreparedExpression, ResourcesRule};
use pod::review::Draft;
use pod::review::draft::Container;
use values::json;
use values::json_patch::string;
use values::quantity::Quantity;
use values::verdict::{Denial, refused};

/// cpu and memory of one container, or of all together.
#[derive(Clone, Debug, Default)]
struct Amounts {
    cpu: Option<Quantity>,
    memory: Option<Quantity>,
}

/// A container's `resources`.
#[derive(Default, Deserialize)]
struct Resources<'a> {
    #[serde(borrow)]
    limits: Option<BTreeMap<Cow<'a, str>, &'a RawValue>>,
    #[serde(borrow)]
    requests: Option<BTreeMap<Cow<'a, str>, &'a RawValue>>,
}

/// The `resources` that a rule gives, as JSON. `sidecars` holds the names of all sidecars of the pass,
/// which are not targets.
pub(crate) fn compute(
    rule: &ResourcesRule,
    draft: &Draft<'_>,
    sidecars: &[Cow<'_, str>],
) -> Result<String, Denial> {
    let regex = rule.regex.as_ref().map_err(|error| {
        Denial::failed(format!("invalid regex pattern \"{}\" of resourcesPolicy: {error}", rule.pattern))
    })?;
    let native = draft.init_containers.iter().filter(|container| container.restarts_always);
    let targets: Vec<&Container<'_>> = native
        .chain(&draft.containers)
        .filter(|container| !sidecars.contains(&container.name) && regex.is_match(&container.name))
        .collect();
    if targets.is_empty() {
        return Err(Denial::failed(format!("no containers match the regex pattern \"{}\"", rule.pattern)));
    }
    let mut limits = Vec::with_capacity(targets.len());
    let mut requests = Vec::with_capacity(targets.len());
    for container in targets {
        let resources: Option<Resources<'_>> = json::from_str(container.resources.unwrap_or("null"))
            .map_err(|error| malformed(container, &error.to_string()))?;
        let resources = resources.unwrap_or_default();
        limits.push(Amounts::read(container, resources.limits)?);
        requests.push(Amounts::read(container, resources.requests)?);
    }
    let limits = Amounts {
        cpu: rule.aggregate(limits.iter().map(|amounts| amounts.cpu.clone()).collect()),
        memory: rule.aggregate(limits.into_iter().map(|amounts| amounts.memory).collect()),
    };
    let or_zero = |quantity: Option<Quantity>| Some(quantity.unwrap_or(Quantity::ZERO));
    let requests = Amounts {
        cpu: rule.aggregate(requests.iter().map(|amounts| or_zero(amounts.cpu.clone())).collect()),
        memory: rule.aggregate(requests.into_iter().map(|amounts| or_zero(amounts.memory)).collect()),
    };
    let mut members = Vec::new();
    members.extend(evaluate("limits", &rule.limits, &limits)?);
    members.extend(evaluate("requests", &rule.requests, &requests)?);
    Ok(format!("{{{}}}", members.join(",")))
}

impl Amounts {
    fn read(
        container: &Container<'_>,
        list: Option<BTreeMap<Cow<'_, str>, &RawValue>>,
    ) -> Result<Self, Denial> {
        let list = list.unwrap_or_default();
        let read = |name: &str| {
            let Some(value) = list.get(name).map(|value| value.get()) else { return Ok(None) };
            // A quantity may be written as a string or as a number.
            let text: String = serde_json::from_str(value).unwrap_or_else(|_| value.to_owned());
            text.parse().map(Some).map_err(|error| malformed(container, &format!("{name} {text:?}: {error}")))
        };
        Ok(Self { cpu: read("cpu")?, memory: read("memory")? })
    }
}

impl ResourcesRule {
    /// Sum or maximum; nothing where one of the parts is nothing, since that container is not limited.
    fn aggregate(&self, parts: Vec<Option<Quantity>>) -> Option<Quantity> {
        let parts = parts.into_iter().collect::<Option<Vec<_>>>()?;
        let combine = |total: Quantity, part: Quantity| {
            if !self.largest {
                return total.plus(&part);
            }
            if part > total { part } else { total }
        };
        Some(parts.into_iter().fold(Quantity::ZERO, combine))
    }
}

/// The member `kind` of `resources`, where it has any resource.
fn evaluate(kind: &str, expressions: &Expressions, amounts: &Amounts) -> Result<Option<String>, Denial> {
    let mut members = Vec::new();
    for (key, word, expression, amount) in [
        ("cpu", "CPU", &expressions.cpu, &amounts.cpu),
        ("memory", "memory", &expressions.memory, &amounts.memory),
    ] {
        let (Some(PreparedExpression { text, expression }), Some(amount)) = (expression, amount) else {
            continue;
        };
        let result = expression.as_ref().map_err(Clone::clone);
        let result = result.and_then(|expression| expression.evaluate(&Value::Quantity(amount.clone())));
        let quantity = result.map_err(|error| {
            Denial::failed(format!(
                "failed to evaluate {word} {kind} expression: failed to parse expression \"{text}\": {error}"
            ))
        })?;
        members.push(format!("\"{key}\":{}", string(&quantity.to_string())));
    }
    Ok((!members.is_empty()).then(|| format!("\"{kind}\":{{{}}}", members.join(","))))
}

fn malformed(container: &Container<'_>, problem: &str) -> Denial {
    refused(format!("resources of container {}: {problem}", container.name))
}
