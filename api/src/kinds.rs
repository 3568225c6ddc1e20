//! `Spec` and `Status` of every kind as plain structs, one module for each kind, for rules and controllers
//! to read. SidecarSet is in [`crate::sidecarset`].
//!
//! The types are those of the version in which objects are stored: v1beta1, and v1alpha1 where there is no
//! other. There is no second set for v1alpha1: [`crate::conversion`] works on the JSON text itself.
//!
//! They hold the following rules, which macro `objects` gives their fields, and a test compares them with the schemas in
//! `api/crds`:
//! - A field is an `Option` where its absence has a meaning that no value has. A list, map, text, flag or
//!   object for which absent and empty are the same is plain, and is not written while it is empty.
//! - Required fields are always written, numbers of the status even when they are 0
//!   (docs/behaviour/api-and-registration.md#what-schemas-leave-to-webhooks).
//! - What has no schema, and what Kubernetes defines and Kutter only carries, is [`Raw`](crate::Raw) text.
//! - `null` counts as absent, and unknown fields are ignored. Therefore an object that was read into these
//!   types is never written back as a whole: what is written are patches of the fields that Kutter owns.
//! - A choice among words keeps a word that it does not know, so that older objects can still be read.
//!   Where the absence of a choice stands for one of its words, that word is the type's default.

use std::collections::BTreeMap;

use serde::{Deserialize, Deserializer, Serialize};

use crate::meta::OwnerReference;

/// Objects of the API: one without a field says the same as one whose field has its default, and so fields that have it
/// are not written, but for those that are `required`. `null` counts as absent. Fields that are written in another form
/// name the module that does it: `with("module")`.
macro_rules! objects {
    ($($(#[$attribute:meta])* pub struct $name:ident { $($fields:tt)* })*) => {
        $(objects!(@struct { $(#[$attribute])* pub struct $name } {} $($fields)*);)*
    };
    (@struct { $($head:tt)* } { $($done:tt)* }) => {
        #[derive(Clone, Debug, Default, PartialEq, Eq, serde::Deserialize, serde::Serialize)]
        #[serde(rename_all = "camelCase", default)]
        $($head)* { $($done)* }
    };
    (@struct $head:tt { $($done:tt)* } $(#[$attribute:meta])* required pub $field:ident: $type:ty, $($rest:tt)*) => {
        objects!(@struct $head { $($done)*
            $(#[$attribute])*
            #[serde(deserialize_with = "crate::kinds::null_is_default")]
            pub $field: $type,
        } $($rest)*);
    };
    (@struct $head:tt { $($done:tt)* } $(#[$attribute:meta])* with($module:tt) pub $field:ident: $type:ty, $($rest:tt)*) => {
        objects!(@struct $head { $($done)*
            $(#[$attribute])*
            #[serde(skip_serializing_if = "crate::kinds::is_default", with = $module)]
            pub $field: $type,
        } $($rest)*);
    };
    (@struct $head:tt { $($done:tt)* } $(#[$attribute:meta])* pub $field:ident: $type:ty, $($rest:tt)*) => {
        objects!(@struct $head { $($done)*
            $(#[$attribute])*
            #[serde(
                skip_serializing_if = "crate::kinds::is_default",
                deserialize_with = "crate::kinds::null_is_default"
            )]
            pub $field: $type,
        } $($rest)*);
    };
}

pub(crate) use objects;

pub mod advancedcronjob;
pub mod batchrelease;
pub mod broadcastjob;
pub mod cloneset;
pub mod containerrecreaterequest;
pub mod daemonset;
pub mod ephemeraljob;
pub mod imagelistpulljob;
pub mod imagepulljob;
pub mod nodeimage;
pub mod nodepodprobe;
pub mod persistentpodstate;
pub mod podprobemarker;
pub mod podunavailablebudget;
pub mod resourcedistribution;
pub mod rollout;
pub mod rollouthistory;
pub mod shared;
pub mod statefulset;
pub mod trafficrouting;
pub mod uniteddeployment;
pub mod workloadspread;

/// An object of a kind with the given types of `spec` and `status`.
#[derive(Clone, Debug, Default, PartialEq, Eq, Deserialize, Serialize)]
#[serde(default, bound(deserialize = "Spec: Default + Deserialize<'de>, Status: Default + Deserialize<'de>"))]
pub struct Object<Spec, Status> {
    /// Name, labels, annotations and whose the object is.
    #[serde(deserialize_with = "null_is_default")]
    pub metadata: ObjectMeta,
    /// What is wanted.
    #[serde(deserialize_with = "null_is_default")]
    pub spec: Spec,
    /// What was observed.
    #[serde(deserialize_with = "null_is_default")]
    pub status: Status,
}

objects! {
    /// `metav1.ObjectMeta`, the fields that rules and controllers read.
    pub struct ObjectMeta {
        /// The object's name.
        required pub name: String,
        /// The object's namespace; empty for kinds of the whole cluster.
        pub namespace: String,
        /// The object's identity, which a later object of the same name does not have.
        pub uid: String,
        /// The version of this state of the object.
        pub resource_version: String,
        /// Grows with every change of the spec.
        pub generation: Option<i64>,
        /// When the object was created.
        pub creation_timestamp: Option<Time>,
        /// When deletion was asked for; the object goes when its last finalizer is gone.
        pub deletion_timestamp: Option<Time>,
        /// Labels.
        pub labels: BTreeMap<String, String>,
        /// Annotations.
        pub annotations: BTreeMap<String, String>,
        /// The objects with which this one goes.
        pub owner_references: Vec<OwnerReference>,
        /// What must be done before the object may go.
        pub finalizers: Vec<String>,
    }
}

impl ObjectMeta {
    /// The owner that manages the object.
    pub fn controller(&self) -> Option<&OwnerReference> {
        self.owner_references.iter().find(|owner| owner.controller == Some(true))
    }
}

/// A moment in the text of RFC 3339 in which it was stored, such as `2026-01-02T03:04:05Z`.
#[derive(Clone, Debug, Default, PartialEq, Eq, Deserialize, Serialize)]
#[serde(transparent)]
pub struct Time(pub String);

impl Time {
    /// The moment; `None` where the text is not one.
    pub fn timestamp(&self) -> Option<jiff::Timestamp> {
        self.0.parse().ok()
    }
}

impl From<jiff::Timestamp> for Time {
    /// In whole seconds of UTC, as Kubernetes writes `metav1.Time`.
    fn from(timestamp: jiff::Timestamp) -> Self {
        Self(timestamp.strftime("%Y-%m-%dT%H:%M:%SZ").to_string())
    }
}

/// Go's decoder leaves a field at its zero value where the document says `null`.
pub(crate) fn null_is_default<'de, D: Deserializer<'de>, T: Default + Deserialize<'de>>(
    deserializer: D,
) -> Result<T, D::Error> {
    Option::<T>::deserialize(deserializer).map(Option::unwrap_or_default)
}

/// Whether an object says as much as an absent one.
pub(crate) fn is_default<T: Default + PartialEq>(value: &T) -> bool {
    *value == T::default()
}

#[cfg(test)]
mod tests {
    use super::cloneset::CloneSet;
    use super::containerrecreaterequest::Phase;
    use super::shared::{Condition, ConditionStatus, IntOrString, UpdateStrategyType};
    use super::*;

    fn read<T: for<'de> Deserialize<'de>>(text: &str) -> T {
        serde_json::from_str(text).unwrap()
    }

    fn written<T: Serialize>(value: &T) -> String {
        serde_json::to_string(value).unwrap()
    }

    #[test]
    fn null_and_unknown_fields_count_as_absent() {
        let set: CloneSet = read(
            r#"{"apiVersion":"apps.kruise.io/v1beta1","kind":"CloneSet","metadata":{"name":"a","labels":null,
            "creationTimestamp":null},"spec":{"replicas":null,"updateStrategy":null,"future":1},"status":null}"#,
        );
        let metadata = ObjectMeta { name: "a".to_owned(), ..ObjectMeta::default() };
        assert_eq!(set, CloneSet { metadata, ..CloneSet::default() });
    }

    #[test]
    fn raw_parts_keep_their_text() {
        let set: CloneSet = read(r#"{"spec":{"template":{"z":1.50,"a":12345678901234567890123}}}"#);
        let text = written(&set);
        assert!(text.contains(r#""template":{"z":1.50,"a":12345678901234567890123}"#), "{text}");
    }

    #[test]
    fn words_keep_what_they_do_not_know() {
        let condition: Condition = read(r#"{"status":"Perhaps","type":"T"}"#);
        assert_eq!(condition.status, ConditionStatus::Other("Perhaps".to_owned()));
        assert_eq!(written(&condition), r#"{"status":"Perhaps","type":"T"}"#);
        assert_eq!(read::<UpdateStrategyType>(r#""""#), UpdateStrategyType::RollingUpdate);
        assert_eq!(read::<Phase>(r#""""#), Phase::Unset);
    }

    #[test]
    fn number_or_text_prints_back_the_same() {
        for text in ["3", "-1", r#""50%""#, r#""3""#] {
            assert_eq!(written(&read::<IntOrString>(text)), text);
        }
    }

    #[test]
    fn times_are_written_in_whole_seconds_and_kept_as_they_were_read() {
        let timestamp: jiff::Timestamp = "2026-01-02T03:04:05.678Z".parse().unwrap();
        assert_eq!(Time::from(timestamp), Time("2026-01-02T03:04:05Z".to_owned()));
        let time: Time = read(r#""2026-01-02T05:04:05+02:00""#);
        assert_eq!(time.timestamp(), Time::from(timestamp).timestamp());
        assert_eq!(written(&time), r#""2026-01-02T05:04:05+02:00""#);
        assert_eq!(Time::default().timestamp(), None);
    }

    #[test]
    fn the_controller_is_the_owner_that_says_so() {
        let metadata: ObjectMeta = read(
            r#"{"ownerReferences":[{"name":"a"},{"name":"b","controller":true},{"name":"c","controller":false}]}"#,
        );
        assert_eq!(metadata.controller().map(|owner| owner.name.as_str()), Some("b"));
        assert_eq!(ObjectMeta::default().controller(), None);
    }
}
