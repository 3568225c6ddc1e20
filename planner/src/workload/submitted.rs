//! The object of a review in the version in which it is stored, on which validation works.

use std::borrow::Cow;

use serde::Deserialize;
use serde_json::Value;

use crate::text::verdict::Denial;

/// The object as it is in `hub`, such as `apps.kruise.io/v1beta1`. It comes in that version or in v1alpha1 of
/// the same group.
///
/// # Errors
/// Code 400 for an object of another version, or one that can't be read or converted.
pub fn in_hub_version<'a>(object: &'a str, hub: &str) -> Result<Cow<'a, str>, Denial> {
    #[derive(Default, Deserialize)]
    #[serde(default, rename_all = "camelCase")]
    struct Head {
        api_version: String,
    }
    let refused = |message: String| Denial { code: 400, message };
    let Head { api_version } =
        serde_json::from_str(object).map_err(|error: serde_json::Error| refused(error.to_string()))?;
    if api_version == hub {
        return Ok(object.into());
    }
    let group = hub.split_once('/').map_or("", |(group, _)| group);
    if api_version.strip_prefix(group) != Some("/v1alpha1") {
        return Err(refused(format!("unsupported version: {api_version}")));
    }
    let converted = api::conversion::convert(object, hub).map_err(|error| refused(error.to_string()))?;
    Ok(Cow::Owned(Box::<str>::from(converted).into_string()))
}

/// The update leaves the spec as it is stored: only what lies beside it changes, such as labels and finalizers.
pub fn leaves_spec(new: &str, old: Option<&str>) -> bool {
    #[derive(Deserialize)]
    struct Head {
        spec: Option<Value>,
    }
    let spec = |object: &str| serde_json::from_str::<Head>(object).ok().map(|head| head.spec);
    old.is_some_and(|old| spec(old).is_some_and(|old| Some(old) == spec(new)))
}

#[cfg(test)]
mod tests {
    use super::*;

    const HUB: &str = "apps.kruise.io/v1beta1";

    #[test]
    fn an_object_comes_in_its_own_version_or_is_converted() {
        let stored = r#"{"apiVersion":"apps.kruise.io/v1beta1","kind":"ResourceDistribution"}"#;
        assert!(matches!(in_hub_version(stored, HUB), Ok(Cow::Borrowed(text)) if text == stored));
        let old = stored.replace("v1beta1", "v1alpha1");
        assert!(in_hub_version(&old, HUB).unwrap().contains(r#""apiVersion":"apps.kruise.io/v1beta1""#));
    }

    #[test]
    fn what_is_of_no_known_version_is_refused() {
        for (object, message) in [
            (r#"{"apiVersion":"apps.kruise.io/v2"}"#, "unsupported version: apps.kruise.io/v2"),
            (r#"{"apiVersion":"example.com/v1alpha1"}"#, "unsupported version: example.com/v1alpha1"),
            ("{}", "unsupported version: "),
        ] {
            let denial = in_hub_version(object, HUB).unwrap_err();
            assert_eq!((denial.code, denial.message.as_str()), (400, message));
        }
        assert_eq!(in_hub_version("[", HUB).unwrap_err().code, 400);
    }

    #[test]
    fn the_order_of_keys_is_no_change_of_the_spec() {
        let old = r#"{"metadata":{},"spec":{"a":1,"b":2}}"#;
        assert!(leaves_spec(r#"{"metadata":{"labels":{"x":"y"}},"spec":{"b":2,"a":1}}"#, Some(old)));
        assert!(!leaves_spec(r#"{"spec":{"a":1}}"#, Some(old)));
        assert!(!leaves_spec(old, None) && !leaves_spec(old, Some("[")));
    }
}
