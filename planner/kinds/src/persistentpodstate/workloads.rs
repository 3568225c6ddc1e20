//! Which workloads' Pods are remembered: StatefulSets of both groups, and the kinds that the administrator lists in the
//! ConfigMap `kruise-configuration` (docs/behaviour/persistentpodstate.md#workloads).

use api::kinds::shared::TargetReference;
use api::kinds::statefulset;
use serde_json::Value;

use crate::workload::target::Workload;
use values::any_case::{elements, object, text as text_of};

/// The key of the list in the ConfigMap.
pub const WHITE_LIST: &str = "PPS_Watch_Custom_Workload_WhiteList";

/// The API version of Kubernetes' StatefulSets.
const NATIVE: &str = "apps/v1";

/// API version and kind of the workloads that are always known.
pub const BUILT_IN: [(&str, &str); 2] =
    [(NATIVE, statefulset::KIND), (statefulset::API_VERSION, statefulset::KIND)];

/// Listed kinds.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct ListedKinds(Vec<ListedKind>);

/// No listed kinds.
pub static NONE: ListedKinds = ListedKinds(Vec::new());

/// A kind that the administrator lists.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct ListedKind {
    /// The API group; empty for the core group.
    pub group: String,
    /// The API version; empty where it is left to discovery.
    pub version: String,
    /// The kind.
    pub kind: String,
}

impl ListedKind {
    /// Group and version, as objects name them.
    pub fn api_version(&self) -> String {
        let Self { group, version, .. } = self;
        if group.is_empty() { version.clone() } else { format!("{group}/{version}") }
    }
}

/// The API version in which a workload of a built-in kind is read; `None` for another kind.
pub fn built_in(workload: &Workload<'_>) -> Option<&'static str> {
    let is_meant = |known: &&(&str, &str)| workload.is(api::group_and_version(known.0).0, known.1);
    BUILT_IN.iter().find(is_meant).map(|(api_version, _)| *api_version)
}

/// The API version in which a target is read: the present one of a built-in kind, or else the one that is named.
pub fn api_version(target: &TargetReference) -> &str {
    built_in(&Workload::from(target)).unwrap_or(&target.api_version)
}

impl ListedKinds {
    /// Reads the list; keys are understood in any case.
    ///
    /// # Errors
    /// What is wrong with it.
    pub fn parse(text: &str) -> Result<Self, String> {
        let list: Value = serde_json::from_str(text).map_err(|error| error.to_string())?;
        let kinds = elements(object(&list)?, "workloads")?.iter().map(|listed| {
            let listed = object(listed)?;
            let text = |name| text_of(listed, name);
            Ok(ListedKind { group: text("group")?, version: text("version")?, kind: text("kind")? })
        });
        kinds.collect::<Result<_, String>>().map(Self)
    }

    /// The kinds in their order.
    pub fn iter(&self) -> impl Iterator<Item = &ListedKind> {
        self.0.iter()
    }

    /// Those that are not known anyway.
    pub fn others(&self) -> impl Iterator<Item = &ListedKind> {
        self.iter().filter(|listed| built_in(&Workload::new(&listed.group, &listed.kind, "")).is_none())
    }

    /// Whether Pods of this workload are remembered. Versions do not matter.
    pub fn know(&self, workload: &Workload<'_>) -> bool {
        built_in(workload).is_some() || self.iter().any(|listed| workload.is(&listed.group, &listed.kind))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_list_is_read_in_any_case_and_versions_do_not_matter() {
        let text = r#"{"Workloads":[{"group":"example.com","VERSION":"v1","Kind":"Database"},{"kind":"Thing","Version":"v1"}]}"#;
        let listed = ListedKinds::parse(text).unwrap();
        let versions: Vec<String> = listed.iter().map(ListedKind::api_version).collect();
        assert_eq!(versions, ["example.com/v1", "v1"]);
        for (group, kind, known) in [
            ("apps", "StatefulSet", true),
            ("apps.kruise.io", "StatefulSet", true),
            ("example.com", "Database", true),
            ("", "Thing", true),
            ("example.com", "StatefulSet", false),
            ("apps", "Deployment", false),
        ] {
            assert_eq!(listed.know(&Workload::new(group, kind, "x")), known, "{group} {kind}");
        }
        assert_eq!(ListedKinds::parse("{}").unwrap(), NONE);
        for broken in ["", "[]", r#"{"workloads":{}}"#, r#"{"workloads":[{"kind":1}]}"#] {
            assert!(ListedKinds::parse(broken).is_err(), "{broken}");
        }
    }

    #[test]
    fn a_built_in_kind_is_read_in_its_present_version() {
        for (named, read) in [
            ("apps/v1beta2", "apps/v1"),
            ("apps.kruise.io/v1alpha1", "apps.kruise.io/v1beta1"),
            ("example.com/v7", "example.com/v7"),
        ] {
            let target = TargetReference {
                api_version: named.to_owned(),
                kind: "StatefulSet".to_owned(),
                name: "web".to_owned(),
            };
            assert_eq!(api_version(&target), read);
        }
    }
}
