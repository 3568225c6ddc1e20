//! HTTPRoutes of the Gateway API. What a step makes of one is always derived from its rules without a release.

use api::annotations::RELEASED_NETWORK;
use api::kinds::rollout::GatewayRef;
use serde_json::{Value, json};

use super::covers::covers;
use super::memory::{Memories, Memory};
use super::share::Share;
use super::{Context, Error, three_way};
use crate::object::{Object as _, ObjectName};
use crate::view::View;
use crate::write::Write;

const API_VERSION: &str = "gateway.networking.k8s.io/v1";
const MODIFIER: &str = "RequestHeaderModifier";
/// The largest weight of a backend.
const MAX_WEIGHT: u64 = 1_000_000;

/// An HTTPRoute that is there.
pub(super) fn http_route<'v>(
    context: &Context<'_>,
    reference: &GatewayRef,
    view: &'v View,
) -> Result<(ObjectName, &'v Value), Error> {
    let name = name(context, reference);
    let Some(route) = view.object(&name)? else {
        return Err(Error::Problem(format!("HTTPRoute {} does not exist", name.name)));
    };
    Ok((name, route))
}

fn name(context: &Context<'_>, reference: &GatewayRef) -> ObjectName {
    context.object(API_VERSION, "HTTPRoute", &reference.http_route_name)
}

/// Has the route send its requests by a share.
pub(super) fn route(
    context: &Context<'_>,
    reference: &GatewayRef,
    share: &Share,
    view: &View,
) -> Result<Option<Write>, Error> {
    let (name, route) = http_route(context, reference, view)?;
    let (service, holder) = (&context.routing.service, context.holder());
    let backends = Backends::of(context);
    let memories = Memories::of(route)?;
    let present = route.items("/spec/rules");
    let original = backends.original(memories.get(&holder), present);
    if !original.iter().any(|rule| backends.sends_to(rule, service)) {
        return Err(Error::Problem(format!("HTTPRoute {} sends nothing to Service {service}", name.name)));
    }
    let wanted: Vec<Value> = original.iter().flat_map(|rule| backends.routed(rule, share)).collect();
    let memory = Memory { original: Some(original.into()), applied: wanted.into() };
    let present = Value::from(present);
    if memories.get(&holder) == Some(&memory) && covers(&present, &memory.applied) {
        return Ok(None);
    }
    let rules = memory.applied.clone();
    let annotation = memories.with(&holder, Some(memory));
    let patch =
        json!({"metadata": {"annotations": {RELEASED_NETWORK: annotation}}, "spec": {"rules": rules}});
    Ok(Some(Write::patch(&name, route, patch)))
}

/// Puts the rules back as they were, with the changes that users made since.
pub(super) fn restore(
    context: &Context<'_>,
    reference: &GatewayRef,
    view: &View,
) -> Result<Option<Write>, Error> {
    let name = name(context, reference);
    let Some(route) = view.object(&name)? else { return Ok(None) };
    let holder = context.holder();
    let memories = Memories::of(route)?;
    let present = route.items("/spec/rules");
    let original = Backends::of(context).original(memories.get(&holder), present);
    if memories.get(&holder).is_none() && original == present {
        return Ok(None);
    }
    let annotation = memories.with(&holder, None);
    let patch =
        json!({"metadata": {"annotations": {RELEASED_NETWORK: annotation}}, "spec": {"rules": original}});
    Ok(Some(Write::patch(&name, route, patch)))
}

/// Both Services as backends of rules.
struct Backends<'a> {
    namespace: &'a str,
    stable: &'a str,
    canary: String,
}

impl<'a> Backends<'a> {
    fn of(context: &Context<'a>) -> Self {
        Self {
            namespace: context.namespace,
            stable: &context.routing.service,
            canary: context.canary_service(),
        }
    }

    fn is(&self, backend: &Value, service: &str) -> bool {
        backend.text("/name") == service
            && matches!(backend.text("/kind"), "" | "Service")
            && backend.text("/group").is_empty()
            && (backend.text("/namespace").is_empty() || backend.text("/namespace") == self.namespace)
    }

    fn sends_to(&self, rule: &Value, service: &str) -> bool {
        rule.items("/backendRefs").iter().any(|backend| self.is(backend, service))
    }

    /// The rules as they would be without a release.
    fn original(&self, memory: Option<&Memory>, present: &[Value]) -> Vec<Value> {
        let has_canary = self.stable != self.canary;
        if has_canary && !present.iter().any(|rule| self.sends_to(rule, &self.canary)) {
            // A user put the route back, or nothing was changed yet.
            return present.to_vec();
        }
        let original = memory.and_then(|memory| {
            let user = Value::from(present);
            three_way::merge(Some(&memory.applied), Some(&user), memory.original.as_ref())
        });
        let rules = match original {
            Some(Value::Array(rules)) => rules,
            _ => present.to_vec(),
        };
        // Without a memory, OpenKruise has made the canary backends: there is nothing else to go by.
        if has_canary {
            rules.into_iter().filter_map(|rule| self.without_canary(rule)).collect()
        } else {
            rules
        }
    }

    /// A rule without the canary backend; none where that was the only one.
    fn without_canary(&self, mut rule: Value) -> Option<Value> {
        if !self.sends_to(&rule, &self.canary) {
            return Some(rule);
        }
        let backends = rule.get_mut("backendRefs")?.as_array_mut()?;
        backends.retain(|backend| !self.is(backend, &self.canary));
        for backend in backends.iter_mut().filter(|backend| self.is(backend, self.stable)) {
            backend.as_object_mut()?.insert("weight".to_owned(), 1.into());
        }
        let is_left = !backends.is_empty();
        is_left.then_some(rule)
    }

    /// What a rule becomes.
    fn routed(&self, rule: &Value, share: &Share) -> Vec<Value> {
        if !self.sends_to(rule, self.stable) {
            return vec![rule.clone()];
        }
        match share.weight {
            Some(weight) => vec![self.weighted(rule, weight.into(), share.modifier.as_ref())],
            // Of rules that are equally specific the first one holds.
            None => self.matching(rule, share).into_iter().chain([rule.clone()]).collect(),
        }
    }

    /// The rule with a canary backend beside each stable one, which takes so many of a hundred of its requests.
    fn weighted(&self, rule: &Value, weight: u64, modifier: Option<&Value>) -> Value {
        let backends = rule.items("/backendRefs");
        let weight_of = |backend: &Value| backend.get("weight").and_then(Value::as_u64).unwrap_or(1);
        let largest = backends.iter().map(weight_of).max().unwrap_or(1);
        // Beside other backends a hundred times their weight leaves whole numbers, where so much is allowed.
        let scale = if largest.saturating_mul(100) <= MAX_WEIGHT { 100 } else { 1 };
        let mut weighted = Vec::new();
        for backend in backends {
            let whole = if backends.len() == 1 { 100 } else { weight_of(backend).saturating_mul(scale) };
            if !self.is(backend, self.stable) {
                weighted.push(with(backend, "weight", whole.into()));
                continue;
            }
            let new = whole.saturating_mul(weight).saturating_add(50) / 100;
            weighted.push(with(backend, "weight", whole.saturating_sub(new).into()));
            weighted.push(modified(&self.to_canary(backend, new), modifier));
        }
        with(rule, "backendRefs", weighted.into())
    }

    /// The rule that takes the requests of a share to new Pods; none where it gets no request.
    fn matching(&self, rule: &Value, share: &Share) -> Option<Value> {
        let matches = conjunctions(rule.items("/matches"), &share.matches);
        let stable = rule.items("/backendRefs").iter().find(|backend| self.is(backend, self.stable))?;
        let copy = with(rule, "matches", matches.into());
        let mut copy = with(&copy, "backendRefs", vec![self.to_canary(stable, 1)].into());
        // Names of rules are unique.
        copy.as_object_mut()?.remove("name");
        let is_reached = !copy.items("/matches").is_empty();
        is_reached.then(|| modified(&copy, share.modifier.as_ref()))
    }

    fn to_canary(&self, backend: &Value, weight: u64) -> Value {
        with(&with(backend, "name", self.canary.as_str().into()), "weight", weight.into())
    }
}

fn with(object: &Value, name: &str, value: Value) -> Value {
    let mut object = object.clone();
    if let Some(members) = object.as_object_mut() {
        members.insert(name.to_owned(), value);
    }
    object
}

/// A rule or backend that changes headers. It may have one filter of this type.
fn modified(object: &Value, modifier: Option<&Value>) -> Value {
    let Some(modifier) = modifier else { return object.clone() };
    let mut filters = object.items("/filters").to_vec();
    let present = filters.iter_mut().find(|filter| filter.text("/type") == MODIFIER);
    match present.and_then(|filter| filter.get_mut("requestHeaderModifier")) {
        Some(present) => *present = joined(present, modifier),
        None => filters.push(json!({"type": MODIFIER, "requestHeaderModifier": modifier})),
    }
    with(object, "filters", filters.into())
}

/// What changes headers as both say; where both say something of the same header, as the second one says.
fn joined(first: &Value, second: &Value) -> Value {
    ["/set", "/add", "/remove"].iter().fold(first.clone(), |joined, operation| {
        let changes = second.items(operation);
        let is_replaced = |change: &Value| changes.iter().any(|other| same_header(change, other));
        let kept = joined.items(operation).iter().filter(|change| !is_replaced(change)).cloned();
        let both: Vec<Value> = kept.chain(changes.iter().cloned()).collect();
        if both.is_empty() { joined } else { with(&joined, operation.trim_start_matches('/'), both.into()) }
    })
}

fn same_header(one: &Value, other: &Value) -> bool {
    let name = |header: &Value| header.as_str().unwrap_or_else(|| header.text("/name")).to_ascii_lowercase();
    name(one) == name(other)
}

/// The conditions under which one of both lists holds and the other one too.
fn conjunctions(rule: &[Value], step: &[Value]) -> Vec<Value> {
    let any = [json!({})];
    let rule = if rule.is_empty() { any.as_slice() } else { rule };
    let mut all = Vec::new();
    for both in step.iter().flat_map(|step| rule.iter().filter_map(move |rule| conjunction(rule, step))) {
        if !all.contains(&both) {
            all.push(both);
        }
    }
    all
}

/// The condition of a rule and that of a step in one; `None` where no request meets both. The path of the step replaces
/// that of the rule, and so does what it says of a header: a condition names each but once.
fn conjunction(rule: &Value, step: &Value) -> Option<Value> {
    let mut both = rule.clone();
    if let Some(path) = step.get("path") {
        both = with(&both, "path", path.clone());
    }
    for kind in ["headers", "queryParams"] {
        let mut conditions = both.items(&format!("/{kind}")).to_vec();
        for condition in step.items(&format!("/{kind}")) {
            let is_same = |present: &Value| match kind {
                "headers" => same_header(present, condition),
                _ => present.text("/name") == condition.text("/name"),
            };
            if let Some(present) = conditions.iter().find(|present| is_same(present))
                && is_exact(present)
                && is_exact(condition)
                && present.text("/value") != condition.text("/value")
            {
                return None;
            }
            conditions.retain(|present| !is_same(present));
            conditions.push(condition.clone());
        }
        if !conditions.is_empty() {
            both = with(&both, kind, conditions.into());
        }
    }
    Some(both)
}

fn is_exact(condition: &Value) -> bool {
    matches!(condition.text("/type"), "" | "Exact")
}
