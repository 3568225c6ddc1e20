//! A request that may make a running Pod unavailable: what is read of it before any rule is asked
//! (docs/behaviour/podunavailablebudget.md#the-pod-validating-webhook).

use serde::Deserialize;

use values::json;

/// A request of `/validate-pod`, as the API server sends it. Objects are JSON text.
#[derive(Clone, Copy, Debug, Default)]
pub struct PodRequest<'a> {
    /// `UPDATE`, `DELETE`, or `CREATE` for an eviction.
    pub operation: &'a str,
    /// The subresource; empty for the Pod itself.
    pub subresource: &'a str,
    /// The Pod's namespace.
    pub namespace: &'a str,
    /// The Pod's name.
    pub name: &'a str,
    /// The Pod as it is to be, or the Eviction.
    pub object: Option<&'a str>,
    /// The Pod as it is.
    pub old_object: Option<&'a str>,
    /// The options of the call.
    pub options: Option<&'a str>,
    /// The review says that nothing is stored.
    pub dry_run: bool,
}

/// What such a request does to the Pod.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Disruption<'a> {
    /// It is deleted.
    Delete {
        /// The Pod.
        pod: &'a str,
    },
    /// It is evicted. The request does not carry the Pod.
    Evict,
    /// It is changed, by itself or through `pods/resize`.
    Update {
        /// The Pod as it is.
        old: &'a str,
        /// The Pod as it is to be.
        new: &'a str,
    },
}

#[derive(Default, Deserialize)]
#[serde(rename_all = "camelCase", default)]
struct Options {
    dry_run: Option<Vec<String>>,
}

#[derive(Default, Deserialize)]
#[serde(rename_all = "camelCase", default)]
struct Eviction {
    delete_options: Option<Options>,
}

impl<'a> PodRequest<'a> {
    /// What the request does; `None` where it is of no concern here.
    pub fn disruption(&self) -> Option<Disruption<'a>> {
        match (self.operation, self.subresource) {
            ("DELETE", "") => Some(Disruption::Delete { pod: self.old_object? }),
            ("CREATE", "eviction") => Some(Disruption::Evict),
            ("UPDATE", "" | "resize") => {
                Some(Disruption::Update { old: self.old_object?, new: self.object? })
            }
            _ => None,
        }
    }

    /// Nothing is stored: by the review, by the options of the call, or by those that an Eviction carries. The API
    /// server does not copy the last ones to the others.
    pub fn is_dry_run(&self) -> bool {
        let asks = |options: Options| options.dry_run.is_some_and(|stages| !stages.is_empty());
        let in_options = || self.options.and_then(|text| json::from_str(text).ok()).is_some_and(asks);
        let eviction = || self.object.filter(|_| self.subresource == "eviction");
        let in_eviction = || {
            let eviction: Option<Eviction> = eviction().and_then(|text| json::from_str(text).ok());
            eviction.and_then(|eviction| eviction.delete_options).is_some_and(asks)
        };
        self.dry_run || in_options() || in_eviction()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn requests_are_distinguished_by_operation_and_subresource() {
        let request = |operation, subresource| PodRequest {
            operation,
            subresource,
            object: Some("{}"),
            old_object: Some("{}"),
            ..PodRequest::default()
        };
        let update = Some(Disruption::Update { old: "{}", new: "{}" });
        for (operation, subresource, expected) in [
            ("DELETE", "", Some(Disruption::Delete { pod: "{}" })),
            ("DELETE", "eviction", None),
            ("CREATE", "eviction", Some(Disruption::Evict)),
            ("CREATE", "", None),
            ("CREATE", "binding", None),
            ("UPDATE", "", update),
            ("UPDATE", "resize", update),
            ("UPDATE", "status", None),
            ("UPDATE", "ephemeralcontainers", None),
            ("CONNECT", "exec", None),
        ] {
            assert_eq!(request(operation, subresource).disruption(), expected, "{operation} {subresource}");
        }
        let without = PodRequest { old_object: None, ..request("DELETE", "") };
        assert_eq!(without.disruption(), None);
    }

    #[test]
    fn a_dry_run_is_known_by_any_of_three_signs() {
        let eviction = PodRequest { operation: "CREATE", subresource: "eviction", ..PodRequest::default() };
        let all = r#"{"dryRun":["All"]}"#;
        for (request, expected) in [
            (eviction, false),
            (PodRequest { dry_run: true, ..eviction }, true),
            (PodRequest { options: Some(all), ..eviction }, true),
            (PodRequest { options: Some(r#"{"dryRun":[]}"#), ..eviction }, false),
            (PodRequest { options: Some("null"), ..eviction }, false),
            (PodRequest { object: Some(r#"{"deleteOptions":{"dryRun":["All"]}}"#), ..eviction }, true),
            (PodRequest { object: Some(r#"{"deleteOptions":null}"#), ..eviction }, false),
            (PodRequest { object: Some(all), subresource: "", ..eviction }, false),
        ] {
            assert_eq!(request.is_dry_run(), expected, "{request:?}");
        }
    }
}
