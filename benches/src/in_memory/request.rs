//! What is asked for, by path and query.

use std::collections::BTreeMap;

use kube::Resource;
use kube::api::DynamicObject;
use serde::Deserialize;
use serde_json::Value;

use super::write::Refusal;

/// A kind of objects. Versions of a group share their objects, as they are.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct Kind {
    /// The group; empty for the core group.
    pub group: String,
    /// The name in paths.
    pub plural: String,
}

impl Kind {
    /// The kind of this group that paths call `plural`.
    pub fn new(group: &str, plural: &str) -> Self {
        Self { group: group.to_owned(), plural: plural.to_owned() }
    }
}

/// A request for objects.
pub(super) struct Request {
    pub(super) verb: &'static str,
    pub(super) kind: Kind,
    pub(super) version: String,
    /// Empty for cluster-scoped objects, and for those of all namespaces.
    pub(super) namespace: String,
    pub(super) name: Option<String>,
    pub(super) subresource: Option<String>,
    query: BTreeMap<String, String>,
}

impl Request {
    /// `None` where the path leads to no objects.
    pub(super) fn parse(method: &str, path: &str, query: &str) -> Option<Self> {
        let mut steps = path.trim_matches('/').split('/');
        let group = match steps.next()? {
            "api" => "",
            "apis" => steps.next()?,
            _ => return None,
        };
        let version = steps.next()?;
        let steps: Vec<&str> = steps.collect();
        let (namespace, steps) = match *steps.as_slice() {
            ["namespaces", name, ref rest @ ..] if !matches!(rest, [] | ["status" | "finalize"]) => {
                (name, rest)
            }
            ref all => ("", all),
        };
        let (plural, name, subresource) = match *steps {
            [plural] => (plural, None, None),
            [plural, name] => (plural, Some(name), None),
            [plural, name, subresource] => (plural, Some(name), Some(subresource)),
            _ => return None,
        };
        let query: BTreeMap<_, _> = form_urlencoded::parse(query.as_bytes()).into_owned().collect();
        let is_watch = query.get("watch").is_some_and(|watch| watch == "true" || watch == "1");
        let verb = match (method, name) {
            ("GET", None) if is_watch => "watch",
            ("GET", None) => "list",
            ("GET", Some(_)) => "get",
            ("POST", _) => "create",
            ("PUT", _) => "update",
            ("PATCH", _) => "patch",
            ("DELETE", Some(_)) => "delete",
            _ => return None,
        };
        Some(Self {
            verb,
            kind: Kind::new(group, plural),
            version: version.to_owned(),
            namespace: namespace.to_owned(),
            name: name.map(str::to_owned),
            subresource: subresource.map(str::to_owned),
            query,
        })
    }

    /// A parameter of the query.
    pub(super) fn parameter(&self, name: &str) -> Option<&str> {
        self.query.get(name).map(String::as_str)
    }

    pub(super) fn is_set(&self, name: &str) -> bool {
        self.parameter(name) == Some("true")
    }

    pub(super) fn is_dry_run(&self) -> bool {
        self.parameter("dryRun") == Some("All")
    }

    /// The kind with the subresource.
    pub(super) fn resource(&self) -> String {
        let plural = &self.kind.plural;
        self.subresource.as_ref().map_or(plural.clone(), |subresource| format!("{plural}/{subresource}"))
    }

    /// Which objects are meant.
    ///
    /// # Errors
    /// A selector is none of those that are understood.
    pub(super) fn selection(&self) -> Result<Selection, Refusal> {
        let mut selection = Selection { namespace: self.namespace.clone(), name: None, labels: Vec::new() };
        let requirements = |name| self.parameter(name).into_iter().flat_map(|text| text.split(','));
        for field in requirements("fieldSelector") {
            match field.split_once('=') {
                Some(("metadata.name", name)) => selection.name = Some(name.to_owned()),
                _ => return Err(Refusal::bad(format!("field selector {field} is not supported"))),
            }
        }
        for label in requirements("labelSelector") {
            if label.contains(['!', ' ']) {
                return Err(Refusal::bad(format!("label selector {label} is not supported")));
            }
            let (key, value) = label.split_once('=').unzip();
            selection.labels.push((key.unwrap_or(label).to_owned(), value.map(str::to_owned)));
        }
        Ok(selection)
    }
}

/// Which objects of a kind are meant.
pub(super) struct Selection {
    pub(super) namespace: String,
    name: Option<String>,
    /// Labels with their values; those without one must only be there.
    labels: Vec<(String, Option<String>)>,
}

impl Selection {
    pub(super) fn matches(&self, (namespace, name): &(String, String), json: &[u8]) -> bool {
        if !self.namespace.is_empty() && self.namespace != *namespace
            || self.name.as_ref().is_some_and(|wanted| wanted != name)
        {
            return false;
        }
        if self.labels.is_empty() {
            return true;
        }
        #[derive(Deserialize)]
        struct Labelled {
            metadata: Metadata,
        }
        #[derive(Deserialize)]
        struct Metadata {
            #[serde(default)]
            labels: BTreeMap<String, String>,
        }
        let object: Labelled = serde_json::from_slice(json).expect("what is stored is an object");
        let labels = object.metadata.labels;
        self.labels.iter().all(|(key, wanted)| {
            labels.get(key).is_some_and(|value| wanted.as_ref().is_none_or(|wanted| wanted == value))
        })
    }
}

/// The path of the collection that an object belongs to.
pub(super) fn collection(manifest: &Value) -> String {
    let text = |value: &Value| value.as_str().unwrap_or_default().to_owned();
    let resource = kit::objects::kind(&text(&manifest["apiVersion"]), &text(&manifest["kind"]));
    DynamicObject::url_path(&resource, manifest["metadata"]["namespace"].as_str())
}
