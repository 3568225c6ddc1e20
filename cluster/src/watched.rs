//! Objects as watches deliver them: the identifying metadata, and the whole as raw JSON.

use std::borrow::Cow;

use api::Raw;
use k8s_openapi::apimachinery::pkg::apis::meta::v1::ObjectMeta;
use kube::core::{ApiResource, Resource};
use serde::de::{Deserialize, Deserializer, Error};
use values::json;

/// An object of any kind whose JSON is kept as it came.
#[derive(Clone, Debug)]
pub struct WatchedObject {
    metadata: ObjectMeta,
    raw: Raw,
}

/// Namespace and name; the namespace is empty for cluster-scoped objects.
pub type Key = (String, String);

impl WatchedObject {
    /// The object's JSON.
    pub fn json(&self) -> &str {
        self.raw.get()
    }

    /// The object's JSON, to be kept.
    pub fn raw(&self) -> &Raw {
        &self.raw
    }

    /// Namespace and name.
    pub fn key(&self) -> Key {
        (self.metadata.namespace.clone().unwrap_or_default(), self.metadata.name.clone().unwrap_or_default())
    }
}

impl<'de> Deserialize<'de> for WatchedObject {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        #[derive(serde::Deserialize)]
        struct Object<'a> {
            #[serde(borrow)]
            metadata: Metadata<'a>,
        }
        #[derive(serde::Deserialize)]
        #[serde(rename_all = "camelCase")]
        struct Metadata<'a> {
            #[serde(borrow, default)]
            name: Cow<'a, str>,
            #[serde(borrow)]
            namespace: Option<Cow<'a, str>>,
            #[serde(borrow)]
            uid: Option<Cow<'a, str>>,
            #[serde(borrow)]
            resource_version: Option<Cow<'a, str>>,
        }

        let raw = Raw::deserialize(deserializer)?;
        let object: Object<'_> = json::from_str(raw.get()).map_err(D::Error::custom)?;
        let metadata = ObjectMeta {
            name: Some(object.metadata.name.into_owned()),
            namespace: object.metadata.namespace.map(Cow::into_owned),
            uid: object.metadata.uid.map(Cow::into_owned),
            resource_version: object.metadata.resource_version.map(Cow::into_owned),
            ..ObjectMeta::default()
        };
        Ok(Self { metadata, raw })
    }
}

impl Resource for WatchedObject {
    type DynamicType = ApiResource;
    type Scope = kube::core::DynamicResourceScope;

    fn kind(resource: &ApiResource) -> Cow<'_, str> {
        resource.kind.as_str().into()
    }

    fn group(resource: &ApiResource) -> Cow<'_, str> {
        resource.group.as_str().into()
    }

    fn version(resource: &ApiResource) -> Cow<'_, str> {
        resource.version.as_str().into()
    }

    fn api_version(resource: &ApiResource) -> Cow<'_, str> {
        resource.api_version.as_str().into()
    }

    fn plural(resource: &ApiResource) -> Cow<'_, str> {
        resource.plural.as_str().into()
    }

    fn meta(&self) -> &ObjectMeta {
        &self.metadata
    }

    fn meta_mut(&mut self) -> &mut ObjectMeta {
        &mut self.metadata
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use kube::core::{ObjectList, WatchEvent};

    const OBJECT: &str = r#"{"metadata":{"name":"a","namespace":"b","resourceVersion":"7","x":1.50},"spec":{"n":12345678901234567890123}}"#;

    #[test]
    fn an_object_in_a_watch_event_keeps_its_bytes() {
        let event: WatchEvent<WatchedObject> =
            serde_json::from_str(&format!(r#"{{"type":"ADDED","object":{OBJECT}}}"#)).unwrap();
        let WatchEvent::Added(object) = event else { panic!("not an addition") };
        assert_eq!(object.json(), OBJECT);
        assert_eq!(object.key(), ("b".to_owned(), "a".to_owned()));
        assert_eq!(object.meta().resource_version.as_deref(), Some("7"));
    }

    #[test]
    fn an_object_in_a_list_keeps_its_bytes() {
        let list: ObjectList<WatchedObject> = serde_json::from_str(&format!(
            r#"{{"kind":"PodList","apiVersion":"v1","metadata":{{"resourceVersion":"9"}},"items":[{OBJECT}]}}"#
        ))
        .unwrap();
        assert_eq!(list.items.first().unwrap().json(), OBJECT);
    }
}
