//! Which requests go to new Pods.

use api::kinds::rollout::{HeaderModifier, HttpRouteMatch, PathMatchType, Step, ValueMatchType};
use serde_json::{Map, Value, json};

/// Which requests go to new Pods, and what is changed on them.
#[derive(Clone, Debug, PartialEq)]
pub(super) struct Share {
    /// So many of a hundred; `None` where conditions choose them.
    pub(super) weight: Option<u32>,
    /// Those for which one of these conditions holds, as HTTPRoutes have them, with nothing left to default.
    pub(super) matches: Vec<Value>,
    /// The headers to change, as HTTPRoutes have them.
    pub(super) modifier: Option<Value>,
}

impl Share {
    /// What a step says; `None` where it says nothing of traffic. Conditions come before a share.
    pub(super) fn of(step: &Step) -> Result<Option<Self>, String> {
        let matches: Vec<Value> = step.matches.iter().map(in_full).collect();
        let weight = match &step.traffic {
            Some(traffic) if matches.is_empty() => Some(percent(traffic)?),
            _ => None,
        };
        let says_nothing = weight.is_none() && matches.is_empty();
        let modifier =
            step.request_header_modifier.as_ref().filter(|modifier| **modifier != HeaderModifier::default());
        Ok((!says_nothing).then(|| Self {
            weight,
            matches,
            modifier: modifier.map(|modifier| json!(modifier)),
        }))
    }

    /// All requests.
    pub(super) fn all() -> Self {
        Self { weight: Some(100), matches: Vec::new(), modifier: None }
    }

    /// No request.
    pub(super) fn none() -> Self {
        Self { weight: Some(0), ..Self::all() }
    }

    /// Adds to the input of a script what all scripts get.
    pub(super) fn describe(&self, input: &mut Map<String, Value>) {
        if !self.matches.is_empty() {
            input.insert("matches".to_owned(), self.matches.clone().into());
        }
        if let Some(modifier) = &self.modifier {
            input.insert("requestHeaderModifier".to_owned(), modifier.clone());
        }
    }
}

fn percent(traffic: &str) -> Result<u32, String> {
    let share = traffic.strip_suffix('%').and_then(|number| number.parse().ok());
    share.filter(|share| *share <= 100).ok_or_else(|| format!("traffic {traffic:?} is no percentage"))
}

/// A condition with its defaults filled in, as the API server fills them in an HTTPRoute.
fn in_full(condition: &HttpRouteMatch) -> Value {
    let mut condition = condition.clone();
    for header in &mut condition.headers {
        header.kind.get_or_insert(ValueMatchType::Exact);
    }
    for parameter in &mut condition.query_params {
        parameter.kind.get_or_insert(ValueMatchType::Exact);
    }
    if let Some(path) = &mut condition.path {
        path.kind.get_or_insert(PathMatchType::PathPrefix);
        path.value.get_or_insert_with(|| "/".to_owned());
    }
    json!(condition)
}
