//! What a Pod says of its subset: the annotation `apps.kruise.io/matched-workloadspread`.

use api::annotations::MATCHED_WORKLOADSPREAD;
use serde::Serialize;
use serde_json::Value;

use pod::observed::ObservedPod;
use values::any_case::member;

/// The subset of a Pod.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize)]
pub(crate) struct Matched {
    /// The WorkloadSpread.
    pub(crate) name: String,
    pub(crate) subset: String,
    /// What the Pod was known by at its creation, if it had no name then.
    #[serde(skip_serializing_if = "String::is_empty")]
    pub(crate) uid: String,
}

impl Matched {
    /// Reads the annotation of a Pod; one that is not understood counts as absent.
    pub(crate) fn of(pod: &ObservedPod) -> Option<Self> {
        Self::read(pod.annotation(MATCHED_WORKLOADSPREAD)?)
    }

    fn read(text: &str) -> Option<Self> {
        let Value::Object(members) = serde_json::from_str(text).ok()? else { return None };
        let text = |name| Some(member(&members, name).map_or(Some(""), Value::as_str)?.to_owned());
        Some(Self { name: text("name")?, subset: text("subset")?, uid: text("uid")? })
    }

    /// The annotation's value.
    pub(crate) fn to_json(&self) -> String {
        // A struct of texts: writing it cannot fail.
        serde_json::to_string(self).unwrap_or_default()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn scenario_39_keys_of_earlier_releases_are_understood() {
        let read =
            |text: &str| Matched::read(text).map(|matched| (matched.name, matched.subset, matched.uid));
        let ws = |uid: &str| Some(("ws".to_owned(), "a".to_owned(), uid.to_owned()));
        assert_eq!(read(r#"{"Name":"ws","Subset":"a"}"#), ws(""));
        assert_eq!(read(r#"{"name":"ws","subset":"a","UID":"u"}"#), ws("u"));
        for broken in ["", "oops", "[]", r#"{"name":1}"#] {
            assert_eq!(read(broken), None, "{broken}");
        }
    }

    #[test]
    fn keys_are_written_in_their_order() {
        let matched =
            |uid: &str| Matched { name: "ws".into(), subset: "a".into(), uid: uid.into() }.to_json();
        assert_eq!(matched(""), r#"{"name":"ws","subset":"a"}"#);
        assert_eq!(matched("u"), r#"{"name":"ws","subset":"a","uid":"u"}"#);
    }
}
