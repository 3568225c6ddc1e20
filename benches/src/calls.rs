//! What an API server was asked for, and how often.

use std::collections::BTreeMap;

use serde_json::Value;

/// How often each call came.
pub type Calls = BTreeMap<Call, usize>;

/// A call, as it is counted.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct Call {
    /// How the caller names itself.
    pub agent: String,
    /// `list`, `watch`, `patch` and so on.
    pub verb: String,
    /// The kind with the subresource, as paths name them: `pods/status`.
    pub resource: String,
    /// The status code of the answer.
    pub code: u16,
}

impl Call {
    /// The call of an audit event.
    pub fn of(event: &Value) -> Self {
        let text = |value: &Value| value.as_str().unwrap_or_default().to_owned();
        let reference = &event["objectRef"];
        let resource = match (reference["resource"].as_str(), reference["subresource"].as_str()) {
            (None, _) => text(&event["requestURI"]),
            (Some(plural), None) => plural.to_owned(),
            (Some(plural), Some(subresource)) => format!("{plural}/{subresource}"),
        };
        let code = event["responseStatus"]["code"].as_u64().unwrap_or_default();
        Self {
            agent: text(&event["userAgent"]),
            verb: text(&event["verb"]),
            resource,
            code: u16::try_from(code).expect("a status code"),
        }
    }
}

/// Those of the calls that came since `before` were all. Watches are not counted: they end and begin anew whatever there
/// is to do.
pub fn since(mut calls: Calls, before: &Calls) -> Calls {
    calls.retain(|call, count| {
        *count -= before.get(call).copied().unwrap_or_default();
        *count > 0 && call.verb != "watch"
    });
    calls
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    #[test]
    fn a_call_is_named_as_in_its_path() {
        let mut event = json!({"userAgent": "kruise-manager/controllers", "verb": "patch",
            "objectRef": {"resource": "pods", "subresource": "status"}, "responseStatus": {"code": 409}});
        let call = Call::of(&event);
        assert_eq!((call.verb.as_str(), call.resource.as_str(), call.code), ("patch", "pods/status", 409));
        event["objectRef"] = Value::Null;
        event["requestURI"] = json!("/version");
        assert_eq!(Call::of(&event).resource, "/version");
    }

    #[test]
    fn only_calls_that_came_since_are_counted() {
        let call = |verb: &str| Call {
            agent: "a".to_owned(),
            verb: verb.to_owned(),
            resource: "pods".to_owned(),
            code: 200,
        };
        let before = Calls::from([(call("get"), 2), (call("list"), 1)]);
        let calls =
            Calls::from([(call("get"), 5), (call("list"), 1), (call("patch"), 1), (call("watch"), 7)]);
        assert_eq!(since(calls, &before), Calls::from([(call("get"), 3), (call("patch"), 1)]));
    }
}
