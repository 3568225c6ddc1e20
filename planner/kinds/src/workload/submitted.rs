//! The object of a review: it is completed by the patch of its defaults as it was sent, and checked in the version in
//! which it is stored.

use std::borrow::Cow;

use api::Raw;
use api::kinds::shared::WorkloadTemplate;
use serde::Deserialize;
use serde::de::DeserializeOwned;
use serde_json::Value;

use super::kind::Workload;
use super::required;
use pod::template::place::Place;
use values::canonical::{CanonicalError, Kind, Unknown, canonical_json, table};
use values::json_patch::{Patch, Pointer};
use values::read::from_str;
use values::verdict::{Denial, refused};

/// A kind of object in the version in which it is stored.
pub(crate) trait Stored: Sized {
    /// Group and version.
    const API_VERSION: &'static str;
    /// The kind.
    const KIND: &'static str;
    /// Pointers to its claim templates.
    const CLAIMS: &'static [&'static str] = &["/spec/volumeClaimTemplates"];

    /// Reads an object in this version.
    ///
    /// # Errors
    /// Code 400, and the path of what can't be read.
    fn read(object: &str) -> Result<Self, Denial>;

    /// Reads the templates of other objects with the types of their kinds, unless an update leaves them as they are: what
    /// an older release stored must hinder no other change.
    ///
    /// # Errors
    /// Code 400, and the path of what can't be read.
    fn check_templates(&self, _old: Option<&Self>) -> Result<(), Denial> {
        Ok(())
    }
}

impl<W: Workload> Stored for W {
    const API_VERSION: &'static str = W::API_VERSION;
    const KIND: &'static str = W::KIND;

    fn read(object: &str) -> Result<Self, Denial> {
        from_str(object).map_err(refused)
    }
}

/// An object of a request.
#[derive(Clone, Debug)]
pub(crate) struct Submitted<T> {
    /// As it was sent.
    pub(crate) sent: Value,
    /// As it is stored.
    pub(crate) stored: T,
}

impl<T: Stored> Submitted<T> {
    /// Reads an object in either version.
    pub(crate) fn read(object: &str) -> Result<Self, Denial> {
        let stored = T::read(&in_hub_version(object, T::API_VERSION)?)?;
        Ok(Self { sent: serde_json::from_str(object).map_err(refused)?, stored })
    }

    /// A member of what was sent that is not null.
    pub(crate) fn given(&self, pointer: &str) -> Option<&Value> {
        self.sent.pointer(pointer).filter(|value| !value.is_null())
    }

    /// It was sent in v1alpha1.
    pub(crate) fn is_alpha(&self) -> bool {
        self.sent.get("apiVersion").and_then(Value::as_str) != Some(T::API_VERSION)
    }
}

/// The operations by which `rules` complete an object of this kind, after what [its schema requires](required::fill).
/// `old` is the stored object of an update.
///
/// # Errors
/// Code 400 for what is no object.
pub(crate) fn completed(
    object: &str,
    old: Option<&str>,
    kind: &str,
    rules: impl FnOnce(&Place<'_>, &mut Patch),
) -> Result<Patch, Denial> {
    let (value, mut patch) = filled(object, old, kind)?;
    rules(&Place::new(&value, Pointer::root()), &mut patch);
    Ok(patch)
}

/// An object of this kind with [what its schema requires](required::fill), and the operations that add it. An update that
/// leaves the spec as it is stored adds nothing: an object that can't be repaired must be able to go.
///
/// # Errors
/// Code 400 for what is no object.
pub(crate) fn filled(object: &str, old: Option<&str>, kind: &str) -> Result<(Value, Patch), Denial> {
    let mut value: Value = serde_json::from_str(object).map_err(refused)?;
    if !value.is_object() {
        return Err(refused(format!("{kind} must be a JSON object")));
    }
    let mut patch = Patch::default();
    if !leaves_spec(object, old) {
        required::fill(&mut value, kind, &mut patch);
    }
    Ok((value, patch))
}

/// The operations by which `rules` complete the `spec` of a workload, sent in this version. `old` is the stored
/// object of an update: where that leaves a spec as it is that can't be read, there is none. What lies beside the
/// spec can be changed then, labels and finalizers above all, or the object could neither be freed nor go.
///
/// # Errors
/// Code 400 for an object that is none of this kind in a known version.
pub(crate) fn completed_spec<T: Stored>(
    object: &str,
    old: Option<&str>,
    version: &str,
    rules: impl FnOnce(&Place<'_>, &mut Patch),
) -> Result<Patch, Denial> {
    if !matches!(version, "v1alpha1" | "v1beta1") {
        return Err(refused(format!("unsupported version: {version}")));
    }
    completed(object, old, T::KIND, |root, patch| {
        let is_left = || leaves_spec(object, old) && Submitted::<T>::read(object).is_err();
        if let Some(spec) = root.child("spec").filter(|_| !is_left()) {
            rules(&spec, patch);
        }
    })
}

/// Reads an object that comes in version `hub`, or in v1alpha1 of the same group.
///
/// # Errors
/// Code 400 for what can't be read.
pub(crate) fn read<T: DeserializeOwned>(object: &str, hub: &str) -> Result<T, Denial> {
    from_str(&in_hub_version(object, hub)?).map_err(refused)
}

/// Reads the template of another object with the types of its kind: its metadata, and its spec by `spec`.
///
/// # Errors
/// The path of what can't be read.
pub(crate) fn read_template(
    template: &WorkloadTemplate,
    spec: impl FnOnce(&str) -> Result<(), CanonicalError>,
) -> Result<(), CanonicalError> {
    let metadata = template.metadata.as_ref().map_or("null", Raw::get);
    canonical_json(metadata, &Kind::Struct(&table::OBJECT_META), Unknown::Drop)
        .map_err(|error| error.within("metadata"))?;
    spec(template.spec.as_ref().map_or("null", Raw::get)).map_err(|error| error.within("spec"))
}

/// Reads a spec that may be absent.
///
/// # Errors
/// The path of what can't be read.
pub(crate) fn read_spec<T: DeserializeOwned>(spec: &str) -> Result<(), CanonicalError> {
    from_str::<Option<T>>(spec).map(drop)
}

/// The stored object of an update. One that can't be read must not stop the update that repairs it: its author is
/// warned.
pub(crate) fn read_old<T>(
    old: Option<&str>,
    kind: &str,
    read: impl FnOnce(&str) -> Result<T, Denial>,
    warnings: &mut Vec<String>,
) -> Option<T> {
    let warning = |Denial { message, .. }| {
        warnings.push(format!("the stored {kind} can't be read, so changes are not checked: {message}"));
    };
    read(old?).map_err(warning).ok()
}

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
    let Head { api_version } = from_str(object).map_err(refused)?;
    if api_version == hub {
        return Ok(object.into());
    }
    let (group, _) = api::group_and_version(hub);
    if api_version.strip_prefix(group) != Some("/v1alpha1") {
        return Err(refused(format!("unsupported version: {api_version}")));
    }
    let converted = api::conversion::convert(object, hub).map_err(refused)?;
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
