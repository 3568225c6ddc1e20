//! Credentials of registries, and which of them fit an image (docs/behaviour/node-agent.md#pull-secrets).

use std::collections::BTreeMap;
use std::fmt;

use api::kinds::nodeimage::PullSecret;
use base64::Engine as _;
use base64::engine::general_purpose::{STANDARD, STANDARD_NO_PAD};
use serde::Deserialize;
use thiserror::Error;

use pod::template::names;
use values::image_reference::ImageReference;

#[cfg(test)]
mod tests;

/// The key of the usual registry, as old clients of it write it.
const USUAL: &str = "index.docker.io";

/// A user of a registry. The password is not printed.
#[derive(Clone, Default, PartialEq, Eq)]
pub struct Credentials {
    /// The name.
    pub username: String,
    /// The password.
    pub password: String,
}

impl fmt::Debug for Credentials {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter.debug_struct("Credentials").finish_non_exhaustive()
    }
}

/// Why a Secret can't be read. The text names no part of its contents.
#[derive(Clone, Copy, Debug, Error, PartialEq, Eq)]
pub enum SecretError {
    /// It is no Secret.
    #[error("it is no Secret")]
    Object,
    /// The value is not base64.
    #[error("its value is not base64")]
    Value,
    /// The value is no JSON of the right form.
    #[error("it is no configuration of registries")]
    Configuration,
    /// A field `auth` does not hold a name and a password.
    #[error("a field auth is not base64 of user:password")]
    Auth,
}

/// The credentials of one or several Secrets or credential providers, by registry and path.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Keyring(BTreeMap<String, Vec<Credentials>>);

#[derive(Deserialize)]
struct Secret {
    #[serde(rename = "type", default)]
    kind: String,
    #[serde(default)]
    data: Option<BTreeMap<String, String>>,
}

/// The JSON under `.dockerconfigjson`.
#[derive(Default, Deserialize)]
struct Configuration {
    #[serde(default)]
    auths: Option<Entries>,
}

type Entries = BTreeMap<String, Option<Entry>>;

#[derive(Default, Deserialize)]
struct Entry {
    #[serde(default)]
    username: Option<String>,
    #[serde(default)]
    password: Option<String>,
    #[serde(default)]
    auth: Option<String>,
}

/// Whether there can be such a Secret. Other names would lead to other paths of the API server.
pub fn may_exist(secret: &PullSecret) -> bool {
    names::dns_label(&secret.namespace).is_empty() && names::dns_subdomain(&secret.name).is_empty()
}

impl Keyring {
    /// The credentials of the Secret with this JSON; none where it is of another type.
    ///
    /// # Errors
    /// It can't be read.
    pub fn of_secret(json: &str) -> Result<Self, SecretError> {
        let secret: Secret = serde_json::from_str(json).map_err(|_| SecretError::Object)?;
        let (key, is_whole) = match secret.kind.as_str() {
            "kubernetes.io/dockerconfigjson" => (".dockerconfigjson", true),
            "kubernetes.io/dockercfg" => (".dockercfg", false),
            _ => return Ok(Self::default()),
        };
        let Some(value) = secret.data.and_then(|mut data| data.remove(key)) else {
            return Ok(Self::default());
        };
        let value = STANDARD.decode(value).map_err(|_| SecretError::Value)?;
        let wrong = |_| SecretError::Configuration;
        let entries = if is_whole {
            serde_json::from_slice::<Configuration>(&value).map_err(wrong)?.auths.unwrap_or_default()
        } else {
            serde_json::from_slice::<Entries>(&value).map_err(wrong)?
        };
        let mut keyring = Self::default();
        for (registry, entry) in entries {
            keyring.insert(&registry, entry.unwrap_or_default().credentials()?);
        }
        Ok(keyring)
    }

    /// Adds the credentials of one registry and path.
    pub(super) fn insert(&mut self, registry: &str, credentials: Credentials) {
        self.0.entry(key_of(registry)).or_default().push(credentials);
    }

    /// Adds the credentials of another keyring; for the same registry and path they come after those known.
    pub fn add(&mut self, other: &Self) {
        for (key, credentials) in &other.0 {
            self.0.entry(key.clone()).or_default().extend(credentials.iter().cloned());
        }
    }

    /// The credentials for an image, those first that fit best: longer paths before shorter ones.
    pub fn candidates(&self, image: &str) -> Vec<&Credentials> {
        let reference = ImageReference::new(image);
        let place = reference.repository();
        let fitting = self.0.iter().rev().filter(|(key, _)| fits(key, &place));
        let found: Vec<&Credentials> = fitting.flat_map(|(_, credentials)| credentials).collect();
        if found.is_empty() && reference.is_of_usual_registry() {
            return self.0.get(USUAL).into_iter().flatten().collect();
        }
        found
    }
}

impl Entry {
    fn credentials(self) -> Result<Credentials, SecretError> {
        let Some(auth) = self.auth.filter(|auth| !auth.is_empty()) else {
            return Ok(Credentials {
                username: self.username.unwrap_or_default(),
                password: self.password.unwrap_or_default(),
            });
        };
        let auth = auth.trim().trim_end_matches('=');
        let decoded = STANDARD_NO_PAD.decode(auth).map_err(|_| SecretError::Auth)?;
        let text = String::from_utf8(decoded).map_err(|_| SecretError::Auth)?;
        let (username, password) = text.split_once(':').ok_or(SecretError::Auth)?;
        Ok(Credentials { username: username.to_owned(), password: password.to_owned() })
    }
}

/// Registry and path, without what old clients write around them: a scheme, the version of the registry's API.
fn key_of(registry: &str) -> String {
    let schemeless = ["https://", "http://"].iter().find_map(|scheme| registry.strip_prefix(scheme));
    let key = schemeless.unwrap_or(registry);
    let (host, path) = key.split_at(key.find('/').unwrap_or(key.len()));
    let is_versioned = path.starts_with("/v1/") || path.starts_with("/v2/");
    let path = if is_versioned { path.get(3..).unwrap_or_default() } else { path };
    if path == "/" { host.to_owned() } else { format!("{host}{path}") }
}

/// Whether a key serves a repository: host by host part, port, and the path as a beginning.
pub(super) fn fits(key: &str, place: &str) -> bool {
    let ((host, port, path), (place_host, place_port, place_path)) = (parts_of(key), parts_of(place));
    let parts = || host.split('.').zip(place_host.split('.'));
    port == place_port
        && host.split('.').count() == place_host.split('.').count()
        && parts().all(|(pattern, part)| is_glob_of(pattern.as_bytes(), part.as_bytes()))
        && place_path.starts_with(path)
}

/// Host, port and path.
fn parts_of(text: &str) -> (&str, &str, &str) {
    let (authority, path) = text.split_at(text.find('/').unwrap_or(text.len()));
    let (host, port) = authority.split_once(':').unwrap_or((authority, ""));
    (host, port, path)
}

/// Whether `*` and `?` of a pattern can match what the text has in their positions. It takes time in
/// proportion to the product of both lengths at most.
fn is_glob_of(pattern: &[u8], text: &[u8]) -> bool {
    // Which beginnings of the text the pattern so far matches.
    let mut reached = vec![false; text.len() + 1];
    if let Some(first) = reached.first_mut() {
        *first = true;
    }
    for sign in pattern {
        let mut next = vec![false; reached.len()];
        let mut open = false;
        for (position, place) in next.iter_mut().enumerate() {
            let here = reached.get(position).copied().unwrap_or(false);
            let before = position.checked_sub(1);
            let follows = before.and_then(|before| reached.get(before)).copied().unwrap_or(false);
            let byte = before.and_then(|before| text.get(before));
            *place = match sign {
                b'*' => {
                    open |= here;
                    open
                }
                b'?' => follows,
                sign => follows && byte == Some(sign),
            };
        }
        reached = next;
    }
    reached.last().copied().unwrap_or(false)
}
