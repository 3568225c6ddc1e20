//! In which version an API server serves a kind: releases before Kutter, and before OpenKruise 1.9, have some kinds as
//! `v1alpha1` alone.

use cluster::resource::Resource;
use cluster::write;
use kube::Client;
use serde_json::Value;

/// The newer and the older version of each group.
const VERSIONS: [(&str, &str); 2] = [
    ("apps.kruise.io/v1beta1", "apps.kruise.io/v1alpha1"),
    ("rollouts.kruise.io/v1beta1", "rollouts.kruise.io/v1alpha1"),
];

/// What an API server serves in the newer version of each group; nothing where that is not known.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(super) struct Served([Option<Vec<String>>; 2]);

impl Served {
    /// Asks the API server. What it doesn't list counts as served: the request for an object then says what is wrong.
    pub(super) async fn ask(client: &Client) -> Self {
        let [apps, rollouts] = VERSIONS.map(|(newer, _)| async move {
            let path = format!("/apis/{newer}");
            write::get(client, &path).await.ok().map(|text| plurals(text.as_deref()))
        });
        let (apps, rollouts) = tokio::join!(apps, rollouts);
        Self([apps, rollouts])
    }

    /// The kind in the newest version that is served.
    pub(super) fn newest<'a>(&self, resource: Resource<'a>) -> Resource<'a> {
        let known = VERSIONS.iter().zip(&self.0).find(|((newer, _), _)| *newer == resource.api_version);
        match known {
            Some(((_, older), Some(plurals))) if !plurals.iter().any(|one| one == resource.plural) => {
                Resource::new(older, resource.plural, resource.kind)
            }
            _ => resource,
        }
    }
}

/// The kinds of an answer of discovery; none where the version is not served at all.
fn plurals(answer: Option<&str>) -> Vec<String> {
    let answer: Value = answer.and_then(|text| serde_json::from_str(text).ok()).unwrap_or_default();
    let resources = answer.get("resources").and_then(Value::as_array);
    let names = resources.into_iter().flatten().filter_map(|one| one.get("name")?.as_str());
    names.map(str::to_owned).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_newest_version_that_is_served_is_taken() {
        let answer = r#"{"resources": [{"name": "statefulsets"}, {"name": "statefulsets/scale"}]}"#;
        let served = Served([Some(plurals(Some(answer))), None]);
        let version = |api_version: &str, plural: &str| {
            served.newest(Resource::new(api_version, plural, "Kind")).api_version.to_owned()
        };
        assert_eq!(version("apps.kruise.io/v1beta1", "statefulsets"), "apps.kruise.io/v1beta1");
        assert_eq!(version("apps.kruise.io/v1beta1", "clonesets"), "apps.kruise.io/v1alpha1");
        assert_eq!(version("rollouts.kruise.io/v1beta1", "rollouts"), "rollouts.kruise.io/v1beta1");
        assert_eq!(version("v1", "pods"), "v1");
        assert!(plurals(None).is_empty());
    }
}
