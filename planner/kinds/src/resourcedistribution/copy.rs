//! What is kept of the Secrets and ConfigMaps that ResourceDistributions have to do with: whose they are.

use api::kinds::resourcedistribution::KIND;
use api::kinds::{Object, ObjectMeta};
use serde::de::IgnoredAny;

use super::Distribution;

/// A Secret or ConfigMap, without its content.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Copy {
    /// The namespace.
    pub namespace: Box<str>,
    /// The name.
    pub name: Box<str>,
    /// The identity.
    pub uid: Box<str>,
    /// The version of this state.
    pub resource_version: Box<str>,
    /// The UID of the ResourceDistribution that is its controller.
    pub owner: Option<Box<str>>,
    /// Its deletion was asked for.
    pub deleting: bool,
}

impl Copy {
    /// Reads the metadata of a Secret or ConfigMap.
    ///
    /// # Errors
    /// The text is none.
    pub fn read(json: &str) -> Result<Self, serde_json::Error> {
        let object: Object<Option<IgnoredAny>, Option<IgnoredAny>> = serde_json::from_str(json)?;
        let ObjectMeta { namespace, name, uid, resource_version, .. } = &object.metadata;
        let owner = object.metadata.controller();
        // By group, since older releases wrote v1alpha1.
        let owner = owner.filter(|owner| owner.kind == KIND && owner.group() == api::APPS_GROUP);
        Ok(Self {
            namespace: namespace.as_str().into(),
            name: name.as_str().into(),
            uid: uid.as_str().into(),
            resource_version: resource_version.as_str().into(),
            owner: owner.map(|owner| owner.uid.as_str().into()),
            deleting: object.metadata.deletion_timestamp.is_some(),
        })
    }

    /// Whether the ResourceDistribution may change and delete it
    /// (docs/behaviour/resourcedistribution.md#ownership).
    pub fn is_owned_by(&self, distribution: &Distribution) -> bool {
        self.owner.as_deref() == Some(&*distribution.uid)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn owner(controllers: &str) -> Option<Box<str>> {
        let json = format!(
            r#"{{"metadata":{{"namespace":"n","name":"c","uid":"1","resourceVersion":"2","ownerReferences":{controllers}}},"data":{{"a":"b"}}}}"#
        );
        Copy::read(&json).unwrap().owner
    }

    #[test]
    fn the_owner_is_the_controller_of_our_kind_in_any_version() {
        for version in ["v1alpha1", "v1beta1"] {
            let reference = format!(
                r#"[{{"apiVersion":"v1","kind":"Pod","name":"p","uid":"p"}},
                    {{"apiVersion":"apps.kruise.io/{version}","kind":"ResourceDistribution","name":"d","uid":"d","controller":true}}]"#
            );
            assert_eq!(owner(&reference).as_deref(), Some("d"));
        }
    }

    #[test]
    fn other_owners_are_none_of_ours() {
        for reference in [
            "[]",
            "null",
            r#"[{"apiVersion":"apps.kruise.io/v1beta1","kind":"ResourceDistribution","name":"d","uid":"d"}]"#,
            r#"[{"apiVersion":"example.com/v1","kind":"ResourceDistribution","name":"d","uid":"d","controller":true}]"#,
            r#"[{"apiVersion":"apps.kruise.io/v1beta1","kind":"CloneSet","name":"d","uid":"d","controller":true}]"#,
        ] {
            assert_eq!(owner(reference), None, "{reference}");
        }
    }
}
