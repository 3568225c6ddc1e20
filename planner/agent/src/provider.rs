//! Credential providers: programs of the node that give credentials of registries, in the form that the kubelet has
//! for them (docs/behaviour/node-agent.md#credential-providers).

use std::collections::{BTreeMap, HashMap};
use std::sync::Arc;
use std::time::Duration;

use serde::Deserialize;
use serde_json::json;
use thiserror::Error;

use super::keyring::{Credentials, Keyring, fits};
use values::image_reference::ImageReference;

#[cfg(test)]
mod tests;

/// The versions of the configuration.
const CONFIGURATIONS: [&str; 3] =
    ["kubelet.config.k8s.io/v1", "kubelet.config.k8s.io/v1beta1", "kubelet.config.k8s.io/v1alpha1"];
/// The versions of requests and answers.
const PROTOCOLS: [&str; 3] = [
    "credentialprovider.kubelet.k8s.io/v1",
    "credentialprovider.kubelet.k8s.io/v1beta1",
    "credentialprovider.kubelet.k8s.io/v1alpha1",
];
/// So many answers of a provider are kept at most.
const MOST_KEPT: usize = 256;

/// Why a configuration can't be used.
#[derive(Clone, Debug, Error, PartialEq, Eq)]
pub enum ConfigurationError {
    /// It is no YAML or JSON of the right form.
    #[error("{0}")]
    Syntax(String),
    /// It is of another kind or version.
    #[error("it is {0}, not a CredentialProviderConfig of kubelet.config.k8s.io")]
    Kind(String),
    /// One of its providers can't be used.
    #[error("provider {name:?}: {reason}")]
    Provider {
        /// The name of the provider.
        name: String,
        /// What is wrong with it.
        reason: &'static str,
    },
}

/// Why an answer can't be used. The text names no part of it: it may hold passwords.
#[derive(Clone, Copy, Debug, Error, PartialEq, Eq)]
pub enum AnswerError {
    /// It is no JSON of the right form.
    #[error("the answer is no CredentialProviderResponse")]
    Form,
    /// It is of another version than the request.
    #[error("the answer has another apiVersion than the request")]
    Version,
    /// It does not say for which images it counts.
    #[error("the answer has no cacheKeyType that is known")]
    Scope,
    /// It does not say how long it counts.
    #[error("the answer has a cacheDuration that is none")]
    Duration,
}

/// A program that gives credentials.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Provider {
    /// The name of its file.
    pub name: String,
    /// What it is run with.
    pub arguments: Vec<String>,
    /// What it finds in its environment beside that of the agent.
    pub environment: Vec<(String, String)>,
    /// Whether it gives credentials only to the account of a Pod, which a pull ahead of Pods has not.
    pub needs_account: bool,
    images: Vec<String>,
    protocol: String,
    kept: Duration,
}

/// What a provider has answered.
#[derive(Debug, PartialEq, Eq)]
pub struct Answer {
    /// The credentials.
    pub keyring: Arc<Keyring>,
    scope: Scope,
    kept: Duration,
}

/// For which images an answer counts.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
enum Scope {
    Image(String),
    Registry(String),
    All,
}

/// The answers of a provider that still count. Times are since a moment that the caller settles.
#[derive(Debug, Default)]
pub struct Answers(HashMap<Scope, (Arc<Keyring>, Duration)>);

#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
struct Configuration {
    #[serde(default)]
    api_version: String,
    #[serde(default)]
    kind: String,
    #[serde(default)]
    providers: Option<Vec<Entry>>,
}

#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
struct Entry {
    #[serde(default)]
    name: String,
    #[serde(default)]
    match_images: Option<Vec<String>>,
    #[serde(default)]
    default_cache_duration: Option<String>,
    #[serde(default)]
    api_version: String,
    #[serde(default)]
    args: Option<Vec<String>>,
    #[serde(default)]
    env: Option<Vec<Variable>>,
    #[serde(default)]
    token_attributes: Option<TokenAttributes>,
}

#[derive(Deserialize)]
struct Variable {
    name: String,
    #[serde(default)]
    value: String,
}

#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
struct TokenAttributes {
    #[serde(default)]
    require_service_account: Option<bool>,
}

#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
struct Response {
    api_version: String,
    kind: String,
    #[serde(default)]
    cache_key_type: String,
    #[serde(default)]
    cache_duration: Option<String>,
    #[serde(default)]
    auth: Option<BTreeMap<String, User>>,
}

#[derive(Deserialize)]
struct User {
    #[serde(default)]
    username: String,
    #[serde(default)]
    password: String,
}

/// The providers of a configuration in YAML or JSON, in their order.
///
/// # Errors
/// It can't be used: nothing of it is.
pub fn parse(text: &str) -> Result<Vec<Provider>, ConfigurationError> {
    let syntax = |error: serde_saphyr::Error| ConfigurationError::Syntax(error.to_string());
    let Configuration { api_version, kind, providers } = serde_saphyr::from_str(text).map_err(syntax)?;
    if !CONFIGURATIONS.contains(&api_version.as_str()) || kind != "CredentialProviderConfig" {
        return Err(ConfigurationError::Kind(format!("{api_version} {kind}")));
    }
    let mut found: Vec<Provider> = Vec::new();
    for entry in providers.unwrap_or_default() {
        let name = entry.name.clone();
        let provider = if found.iter().any(|other| other.name == name) {
            Err("there are two of this name")
        } else {
            entry.read()
        };
        found.push(provider.map_err(|reason| ConfigurationError::Provider { name, reason })?);
    }
    Ok(found)
}

impl Entry {
    fn read(self) -> Result<Provider, &'static str> {
        // The name is a file of one directory, and of no other.
        if matches!(self.name.as_str(), "" | "." | "..") || self.name.contains(['/', ' ', '\0']) {
            return Err("it has no name that a file can have");
        }
        if !PROTOCOLS.contains(&self.api_version.as_str()) {
            return Err("its apiVersion is not one of credentialprovider.kubelet.k8s.io");
        }
        let images = self.match_images.unwrap_or_default();
        if images.is_empty() {
            return Err("it has no matchImages");
        }
        let kept = self.default_cache_duration.as_deref().and_then(api::duration::parse);
        let variables = self.env.unwrap_or_default().into_iter();
        Ok(Provider {
            name: self.name,
            arguments: self.args.unwrap_or_default(),
            environment: variables.map(|variable| (variable.name, variable.value)).collect(),
            needs_account: self
                .token_attributes
                .is_some_and(|token| token.require_service_account == Some(true)),
            images,
            protocol: self.api_version,
            kept: kept.ok_or("it has no defaultCacheDuration such as 12h")?,
        })
    }
}

impl Provider {
    /// Whether it is asked for an image.
    pub fn serves(&self, image: &str) -> bool {
        let place = ImageReference::new(image).repository();
        self.images.iter().any(|pattern| fits(pattern, &place))
    }

    /// What it is asked.
    pub fn request(&self, image: &str) -> String {
        let place = ImageReference::new(image).repository();
        json!({"apiVersion": self.protocol, "kind": "CredentialProviderRequest", "image": place}).to_string()
    }

    /// What it has answered to the request for an image.
    ///
    /// # Errors
    /// It can't be used.
    pub fn answer(&self, image: &str, output: &[u8]) -> Result<Answer, AnswerError> {
        let response: Response = serde_json::from_slice(output).map_err(|_| AnswerError::Form)?;
        if response.kind != "CredentialProviderResponse" {
            return Err(AnswerError::Form);
        }
        if response.api_version != self.protocol {
            return Err(AnswerError::Version);
        }
        let [all, registry, image] = scopes(image);
        let scope = match response.cache_key_type.as_str() {
            "Image" => image,
            "Registry" => registry,
            "Global" => all,
            _ => return Err(AnswerError::Scope),
        };
        let kept = match response.cache_duration {
            None => self.kept,
            Some(duration) => api::duration::parse(&duration).ok_or(AnswerError::Duration)?,
        };
        let mut keyring = Keyring::default();
        for (registry, User { username, password }) in response.auth.unwrap_or_default() {
            keyring.insert(&registry, Credentials { username, password });
        }
        Ok(Answer { keyring: Arc::new(keyring), scope, kept })
    }
}

impl Answers {
    /// The answer that counts for an image now.
    pub fn get(&mut self, image: &str, now: Duration) -> Option<Arc<Keyring>> {
        self.0.retain(|_, (_, until)| *until > now);
        scopes(image).iter().rev().find_map(|scope| self.0.get(scope)).map(|(keyring, _)| keyring.clone())
    }

    /// Keeps an answer as long as it counts.
    pub fn keep(&mut self, answer: &Answer, now: Duration) {
        let until = now.checked_add(answer.kept).filter(|until| *until > now);
        if let Some(until) = until.filter(|_| self.0.len() < MOST_KEPT) {
            self.0.insert(answer.scope.clone(), (answer.keyring.clone(), until));
        }
    }

    /// Forgets what counts for an image.
    pub fn forget(&mut self, image: &str) {
        for scope in &scopes(image) {
            self.0.remove(scope);
        }
    }
}

/// The scopes that an image is in, the narrowest last.
fn scopes(image: &str) -> [Scope; 3] {
    let place = ImageReference::new(image).repository();
    let registry = place.split('/').next().unwrap_or_default().to_owned();
    [Scope::All, Scope::Registry(registry), Scope::Image(place)]
}
