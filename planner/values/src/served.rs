//! Where the API server serves a kind, by its discovery.

use serde::Deserialize;

/// How the API server serves a kind.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Served {
    /// The group, and the version in which the kind is to be asked for.
    pub api_version: String,
    /// The name in paths.
    pub plural: String,
    /// Objects are in namespaces.
    pub namespaced: bool,
    /// It has the subresource `scale`.
    pub has_scale: bool,
}

impl Served {
    /// Finds a kind in what the API server says of a group and version (an `APIResourceList`).
    ///
    /// # Errors
    /// The text is no such list.
    pub fn find(json: &str, api_version: &str, kind: &str) -> Result<Option<Self>, serde_json::Error> {
        #[derive(Deserialize)]
        struct List {
            resources: Vec<Entry>,
        }
        #[derive(Deserialize)]
        struct Entry {
            name: String,
            kind: String,
            namespaced: bool,
        }
        let List { resources } = serde_json::from_str(json)?;
        let entry = resources.iter().find(|entry| entry.kind == kind && !entry.name.contains('/'));
        Ok(entry.map(|entry| Self {
            api_version: api_version.to_owned(),
            plural: entry.name.clone(),
            namespaced: entry.namespaced,
            has_scale: resources.iter().any(|other| other.name.strip_suffix("/scale") == Some(&entry.name)),
        }))
    }

    /// The versions of a group that the API server names (in an `APIGroup`), each with its group; the preferred one
    /// comes first.
    ///
    /// # Errors
    /// The text is no such group.
    pub fn versions(json: &str) -> Result<Vec<String>, serde_json::Error> {
        #[derive(Deserialize)]
        #[serde(rename_all = "camelCase")]
        struct Group {
            versions: Vec<Version>,
            preferred_version: Option<Version>,
        }
        #[derive(Deserialize, PartialEq)]
        #[serde(rename_all = "camelCase")]
        struct Version {
            group_version: String,
        }
        let Group { mut versions, preferred_version } = serde_json::from_str(json)?;
        versions.sort_by_key(|version| preferred_version.as_ref() != Some(version));
        Ok(versions.into_iter().map(|version| version.group_version).collect())
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn the_api_server_says_where_a_kind_is() {
        let list = json!({"resources": [
            {"name": "rollouts", "kind": "Rollout", "namespaced": true},
            {"name": "rollouts/scale", "kind": "Scale", "namespaced": true},
            {"name": "rollouts/status", "kind": "Rollout", "namespaced": true},
            {"name": "plans", "kind": "Plan", "namespaced": false},
        ]})
        .to_string();
        let served = |kind: &str| Served::find(&list, "example.com/v1", kind).unwrap();
        let rollouts = Served {
            api_version: "example.com/v1".to_owned(),
            plural: "rollouts".to_owned(),
            namespaced: true,
            has_scale: true,
        };
        assert_eq!(served("Rollout"), Some(rollouts));
        assert_eq!(served("Plan").map(|plan| (plan.namespaced, plan.has_scale)), Some((false, false)));
        assert!(served("Scale").is_none());
        assert!(served("Other").is_none() && Served::find("[]", "example.com/v1", "Plan").is_err());
    }

    #[test]
    fn the_preferred_version_of_a_group_goes_first() {
        let version = |name: &str| json!({"groupVersion": format!("example.com/{name}"), "version": name});
        let group = json!({"name": "example.com", "versions": [version("v1beta1"), version("v1"), version("v2")],
            "preferredVersion": version("v2")});
        let versions = Served::versions(&group.to_string()).unwrap();
        assert_eq!(versions, ["example.com/v2", "example.com/v1beta1", "example.com/v1"]);
        assert!(Served::versions("[]").is_err());
    }
}
