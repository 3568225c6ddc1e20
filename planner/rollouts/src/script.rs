//! Scripts that say what a network object looks like while a share of the requests goes to new Pods
//! (docs/behaviour/rollouts.md#scripts): those of users, from a ConfigMap, and our own.

use std::collections::BTreeMap;

use serde_json::Value;

use crate::object::Object as _;

mod engine;
#[cfg(test)]
mod tests;

/// The name of the ConfigMap with the scripts of users, in the namespace of the installation.
pub const CONFIGURATION: &str = "kruise-rollout-configuration";

const INGRESS: &str = "lua.traffic.routing.ingress.";
const CUSTOM: &str = "lua.traffic.routing.";

/// The scripts that we bring, by the names which they have in the ConfigMap.
const BUILT_IN: [(&str, &str); 6] = [
    ("lua.traffic.routing.ingress.nginx", include_str!("script/nginx.lua")),
    ("lua.traffic.routing.ingress.aliyun-alb", include_str!("script/aliyun-alb.lua")),
    ("lua.traffic.routing.ingress.mse", include_str!("script/mse.lua")),
    ("lua.traffic.routing.ingress.higress", include_str!("script/higress.lua")),
    ("lua.traffic.routing.VirtualService.networking.istio.io", include_str!("script/virtual-service.lua")),
    ("lua.traffic.routing.DestinationRule.networking.istio.io", include_str!("script/destination-rule.lua")),
];

/// What our scripts for Ingresses have in common: the function `canary`, which they call.
const INGRESS_LIBRARY: &str = include_str!("script/ingress.lua");

/// The scripts of users.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Scripts(BTreeMap<String, String>);

/// A script that has been found.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Script<'a> {
    name: String,
    library: &'static str,
    text: &'a str,
}

impl Scripts {
    /// The scripts of the ConfigMap [`CONFIGURATION`]; none where it does not exist.
    pub fn of(config_map: Option<&Value>) -> Self {
        let data = config_map.and_then(|map| map.members("/data")).into_iter().flatten();
        let scripts = data.filter(|(name, _)| name.starts_with(CUSTOM));
        Self(scripts.filter_map(|(name, text)| Some((name.clone(), text.as_str()?.to_owned()))).collect())
    }

    /// The script for Ingresses of a class. The user's comes before ours.
    pub(crate) fn ingress(&self, class: &str) -> Result<Script<'_>, String> {
        let name = format!("{INGRESS}{class}");
        match (self.0.get(&name), built_in(&name)) {
            (Some(text), _) => Ok(Script { name, library: "", text }),
            (None, Some(text)) => Ok(Script { name, library: INGRESS_LIBRARY, text }),
            (None, None) => Err(missing(&name)),
        }
    }

    /// The script for objects of a kind. Ours comes before the user's.
    pub(crate) fn custom(&self, group: &str, kind: &str) -> Result<Script<'_>, String> {
        let name = format!("{CUSTOM}{kind}.{group}");
        match built_in(&name).or_else(|| self.0.get(&name).map(String::as_str)) {
            Some(text) => Ok(Script { name, library: "", text }),
            None => Err(missing(&name)),
        }
    }

    /// A user brings the script for Ingresses of this class.
    pub(crate) fn has_ingress(&self, class: &str) -> bool {
        self.0.contains_key(&format!("{INGRESS}{class}"))
    }
}

impl Script<'_> {
    /// What the ConfigMap calls the script.
    pub(crate) fn name(&self) -> &str {
        &self.name
    }

    /// The table that the script returns for this `obj`.
    pub(crate) fn run(&self, obj: &Value) -> Result<Value, String> {
        let Self { name, library, text } = self;
        engine::run(library, text, obj).map_err(|problem| format!("script {name}: {problem}"))
    }
}

fn built_in(name: &str) -> Option<&'static str> {
    BUILT_IN.iter().find(|(known, _)| *known == name).map(|(_, text)| *text)
}

fn missing(name: &str) -> String {
    format!("there is no script {name} in ConfigMap {CONFIGURATION}")
}
