//! The fields of a Pod that rules read, borrowed from the text of the review in one pass. Everything
//! else is skipped and never judged: a wrong type where no rule looks is the API server's affair.

use std::borrow::Cow;
use std::fmt;
use std::marker::PhantomData;

use serde::Deserialize;
use serde::de::value::MapAccessDeserializer;
use serde::de::{Deserializer, Error, MapAccess, Visitor};
use serde_json::value::RawValue;

use values::json::{self, Spanned};

/// Text borrowed from the document wherever it holds no escapes.
#[derive(Clone, Debug, Default, PartialEq, Eq, Hash)]
pub(crate) struct Text<'a>(pub(crate) Cow<'a, str>);

impl<'de: 'a, 'a> Deserialize<'de> for Text<'a> {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        struct TextVisitor;
        impl<'de> Visitor<'de> for TextVisitor {
            type Value = Text<'de>;
            fn expecting(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
                formatter.write_str("a string")
            }
            fn visit_borrowed_str<E: Error>(self, text: &'de str) -> Result<Self::Value, E> {
                Ok(Text(Cow::Borrowed(text)))
            }
            fn visit_str<E: Error>(self, text: &str) -> Result<Self::Value, E> {
                Ok(Text(Cow::Owned(text.to_owned())))
            }
        }
        deserializer.deserialize_str(TextVisitor)
    }
}

/// The text of an optional field, empty where it is unset.
pub(crate) fn text_or_empty(text: Option<Text<'_>>) -> Cow<'_, str> {
    text.map(|text| text.0).unwrap_or_default()
}

/// A map of texts in the order of the document.
#[derive(Clone, Debug, Default)]
pub(crate) struct Pairs<'a>(pub(crate) Vec<(Cow<'a, str>, Cow<'a, str>)>);

impl<'de: 'a, 'a> Deserialize<'de> for Pairs<'a> {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        struct PairsVisitor;
        impl<'de> Visitor<'de> for PairsVisitor {
            type Value = Pairs<'de>;
            fn expecting(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
                formatter.write_str("an object of strings")
            }
            fn visit_map<A: MapAccess<'de>>(self, mut map: A) -> Result<Self::Value, A::Error> {
                let mut pairs = Vec::new();
                while let Some((key, value)) = map.next_entry::<Text<'de>, Text<'de>>()? {
                    pairs.push((key.0, value.0));
                }
                Ok(Pairs(pairs))
            }
        }
        deserializer.deserialize_map(PairsVisitor)
    }
}

/// A struct that is written as a JSON object. Derived code alone would also take a list of the fields'
/// values in order, which Kubernetes refuses.
#[derive(Clone, Debug)]
pub struct Object<T>(pub T);

impl<'de, T: Deserialize<'de>> Deserialize<'de> for Object<T> {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        struct ObjectVisitor<T>(PhantomData<T>);
        impl<'de, T: Deserialize<'de>> Visitor<'de> for ObjectVisitor<T> {
            type Value = Object<T>;
            fn expecting(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
                formatter.write_str("an object")
            }
            fn visit_map<A: MapAccess<'de>>(self, map: A) -> Result<Self::Value, A::Error> {
                T::deserialize(MapAccessDeserializer::new(map)).map(Object)
            }
        }
        deserializer.deserialize_map(ObjectVisitor(PhantomData))
    }
}

/// A Pod beside its text.
pub(crate) type PodText<'a> = Spanned<'a, Object<PodLens<'a>>>;

/// A Pod.
#[derive(Clone, Debug, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct PodLens<'a> {
    #[serde(borrow)]
    pub(crate) api_version: Option<Text<'a>>,
    #[serde(borrow)]
    pub(crate) kind: Option<Text<'a>>,
    #[serde(borrow)]
    pub(crate) metadata: Option<Object<MetadataLens<'a>>>,
    #[serde(borrow)]
    pub(crate) spec: Option<Object<SpecLens<'a>>>,
}

/// A Pod's `metadata`.
#[derive(Clone, Debug, Default, Deserialize)]
#[serde(rename_all = "camelCase")]
pub(crate) struct MetadataLens<'a> {
    #[serde(borrow)]
    pub(crate) name: Option<Text<'a>>,
    #[serde(borrow)]
    pub(crate) generate_name: Option<Text<'a>>,
    #[serde(borrow)]
    pub(crate) namespace: Option<Text<'a>>,
    #[serde(borrow)]
    pub(crate) labels: Option<Pairs<'a>>,
    #[serde(borrow)]
    pub(crate) annotations: Option<Pairs<'a>>,
    #[serde(borrow)]
    pub(crate) owner_references: Option<Vec<Object<OwnerLens<'a>>>>,
}

/// An owner reference.
#[derive(Clone, Debug, Deserialize)]
#[serde(rename_all = "camelCase")]
pub(crate) struct OwnerLens<'a> {
    #[serde(borrow)]
    pub(crate) api_version: Option<Text<'a>>,
    #[serde(borrow)]
    pub(crate) kind: Option<Text<'a>>,
    #[serde(borrow)]
    pub(crate) name: Option<Text<'a>>,
    #[serde(borrow)]
    pub(crate) uid: Option<Text<'a>>,
    pub(crate) controller: Option<bool>,
}

/// A Pod's `spec`; lists of which only some rules need the elements stay text.
#[derive(Clone, Debug, Default, Deserialize)]
#[serde(rename_all = "camelCase")]
pub(crate) struct SpecLens<'a> {
    #[serde(borrow)]
    pub(crate) init_containers: Option<Vec<Object<ContainerLens<'a>>>>,
    #[serde(borrow)]
    pub(crate) containers: Option<Vec<Object<ContainerLens<'a>>>>,
    #[serde(borrow)]
    pub(crate) volumes: Option<&'a RawValue>,
    #[serde(borrow)]
    pub(crate) image_pull_secrets: Option<&'a RawValue>,
    #[serde(borrow)]
    pub(crate) readiness_gates: Option<&'a RawValue>,
}

/// A container of a Pod.
#[derive(Clone, Debug, Deserialize)]
#[serde(rename_all = "camelCase")]
pub(crate) struct ContainerLens<'a> {
    #[serde(borrow)]
    pub(crate) name: Option<Text<'a>>,
    #[serde(borrow)]
    pub(crate) restart_policy: Option<Text<'a>>,
    #[serde(borrow)]
    pub(crate) env: Option<&'a RawValue>,
    #[serde(borrow)]
    pub(crate) volume_mounts: Option<&'a RawValue>,
    #[serde(borrow)]
    pub(crate) volume_devices: Option<&'a RawValue>,
    #[serde(borrow)]
    pub(crate) resources: Option<&'a RawValue>,
}

/// An element of a list that is known by its name, beside its text.
#[derive(Clone, Debug)]
pub struct Named<'a> {
    /// The name.
    pub name: Cow<'a, str>,
    /// JSON text of the element.
    pub text: &'a str,
}

/// A volume mount or a volume device, beside its text.
#[derive(Clone, Debug)]
pub struct Mount<'a> {
    /// `mountPath` or `devicePath`.
    pub path: Cow<'a, str>,
    /// The volume's name.
    pub volume: Cow<'a, str>,
    /// `subPathExpr`; empty where it is absent.
    pub sub_path_expr: Cow<'a, str>,
    /// JSON text of the element.
    pub text: &'a str,
}

impl Named<'_> {
    /// The text under `value`, as an environment variable has it; `None` where it is absent, as with
    /// `valueFrom`.
    pub fn value(&self) -> Result<Option<Cow<'_, str>>, serde_json::Error> {
        #[derive(Deserialize)]
        struct Lens<'a> {
            #[serde(borrow)]
            value: Option<Text<'a>>,
        }
        let lens: Lens<'_> = json::from_str(self.text)?;
        Ok(lens.value.map(|value| value.0))
    }
}

/// Reads a JSON list of named objects, such as `env` or `volumes`.
pub fn named(list: &str) -> Result<Vec<Named<'_>>, serde_json::Error> {
    #[derive(Deserialize)]
    struct Lens<'a> {
        #[serde(borrow)]
        name: Option<Text<'a>>,
    }
    elements(list, |lens: Lens<'_>, text| Named { name: text_or_empty(lens.name), text })
}

/// Reads the JSON list under `volumeMounts` or `volumeDevices`.
pub fn mounts(list: &str) -> Result<Vec<Mount<'_>>, serde_json::Error> {
    #[derive(Deserialize)]
    #[serde(rename_all = "camelCase")]
    struct Lens<'a> {
        #[serde(borrow)]
        name: Option<Text<'a>>,
        #[serde(borrow)]
        mount_path: Option<Text<'a>>,
        #[serde(borrow)]
        device_path: Option<Text<'a>>,
        #[serde(borrow)]
        sub_path_expr: Option<Text<'a>>,
    }
    elements(list, |lens: Lens<'_>, text| Mount {
        path: text_or_empty(lens.mount_path.or(lens.device_path)),
        volume: text_or_empty(lens.name),
        sub_path_expr: text_or_empty(lens.sub_path_expr),
        text,
    })
}

/// Reads the `conditionType`s of `spec.readinessGates`.
pub(crate) fn condition_types(list: &str) -> Result<Vec<Cow<'_, str>>, serde_json::Error> {
    #[derive(Deserialize)]
    #[serde(rename_all = "camelCase")]
    struct Lens<'a> {
        #[serde(borrow)]
        condition_type: Option<Text<'a>>,
    }
    elements(list, |lens: Lens<'_>, _| text_or_empty(lens.condition_type))
}

/// Reads each element of a list through a lens, with its text. A `null` list is an empty one.
fn elements<'a, L: Deserialize<'a>, T>(
    list: &'a str,
    build: impl Fn(L, &'a str) -> T,
) -> Result<Vec<T>, serde_json::Error> {
    let elements: Option<Vec<Spanned<'a, Object<L>>>> = json::from_str(list)?;
    Ok(elements.into_iter().flatten().map(|element| build(element.value.0, element.text)).collect())
}
