//! Where the certificates lie: a Secret of ours, files, or a Secret of somebody else.

mod files;

use std::path::PathBuf;

use cluster::{ApiError, Retry};
use k8s_openapi::ByteString;
use k8s_openapi::api::core::v1::Secret;
use k8s_openapi::apimachinery::pkg::apis::meta::v1::ObjectMeta;
use kube::api::{Patch, PatchParams, PostParams};
use kube::{Api, Client};
use serde_json::{Map, Value, json};
use thiserror::Error;
use tracing::debug;

use crate::material::Material;
use crate::settings::{CertificateSettings, Mode};

/// Where the segments in front of paths lie, in a Secret only: replicas must agree on them.
const SEGMENTS: &str = "path-segments";

/// Why the store can't be read or written.
#[derive(Debug, Error)]
pub enum StoreError {
    /// The API server refused, or is out of reach.
    #[error("Secret {name}: {source}")]
    Api {
        /// The Secret.
        name: String,
        /// What went wrong.
        #[source]
        source: ApiError,
    },
    /// The Secret that somebody else should provide isn't there, or lacks something.
    #[error(
        "Secret {name} lacks {}: an issuer has to provide it while the gate EnableExternalCerts is on, which \
         AllAlpha=true switches on too",
        .lacks.join(", ")
    )]
    Incomplete {
        /// The Secret.
        name: String,
        /// The keys without a value.
        lacks: Vec<&'static str>,
    },
    /// A file or directory.
    #[error("certificate directory {path}: {source}")]
    Files {
        /// The directory.
        path: String,
        /// What went wrong.
        #[source]
        source: std::io::Error,
    },
}

/// A place for one [`Material`].
pub(crate) enum Store {
    Secret { api: Api<Secret>, name: String },
    Files(PathBuf),
    External { api: Api<Secret>, name: String },
}

/// What a store held when it was read.
#[derive(Default)]
pub(crate) struct Content {
    /// `None` where it holds none of our keys.
    pub(crate) material: Option<Material>,
    /// The Secret it was read from, if there is one.
    secret: Option<Secret>,
}

impl Store {
    pub(crate) fn new(client: Client, settings: &CertificateSettings) -> Self {
        let name = settings.secret.clone();
        let api = Api::namespaced(client, &settings.registration.namespace);
        match settings.mode {
            Mode::Secret => Self::Secret { api, name },
            Mode::Files => Self::files(settings),
            Mode::External => Self::External { api, name },
        }
    }

    pub(crate) fn files(settings: &CertificateSettings) -> Self {
        Self::Files(settings.directory.clone())
    }

    pub(crate) async fn read(&self) -> Result<Content, StoreError> {
        match self {
            Self::Secret { api, name } => {
                let secret = get(api, name).await?;
                Ok(Content { material: secret.as_ref().and_then(own), secret })
            }
            Self::External { api, name } => {
                let material = external(&get(api, name).await?.unwrap_or_default())
                    .map_err(|lacks| StoreError::Incomplete { name: name.clone(), lacks })?;
                Ok(Content { material: Some(material), secret: None })
            }
            Self::Files(directory) => {
                let material = files::read(directory).await.map_err(|source| failed(directory, source))?;
                Ok(Content { material, secret: None })
            }
        }
    }

    /// Writes `material` if the store is still as `content` says; false where somebody was faster.
    pub(crate) async fn write(&self, content: &Content, material: &Material) -> Result<bool, StoreError> {
        match self {
            Self::Secret { api, name } => {
                let result = match &content.secret {
                    None => api.create(&PostParams::default(), &secret(name, material)).await.map(drop),
                    Some(secret) => {
                        let patch = Patch::Merge(changes(secret, material));
                        api.patch(name, &PatchParams::default(), &patch).await.map(drop)
                    }
                };
                match result.map_err(ApiError::from) {
                    Ok(()) => Ok(true),
                    // A conflict, a creation by another replica, or a deletion since it was read.
                    Err(error) if error.retry() == Retry::Now => {
                        debug!(secret = name, "another replica was faster");
                        Ok(false)
                    }
                    Err(source) => Err(StoreError::Api { name: name.clone(), source }),
                }
            }
            Self::Files(directory) => {
                files::write(directory, material).await.map_err(|source| failed(directory, source))?;
                Ok(true)
            }
            // Somebody else's: never written, and never planned to be.
            Self::External { .. } => Ok(true),
        }
    }
}

fn failed(directory: &std::path::Path, source: std::io::Error) -> StoreError {
    StoreError::Files { path: directory.display().to_string(), source }
}

async fn get(api: &Api<Secret>, name: &str) -> Result<Option<Secret>, StoreError> {
    let found = api.get_opt(name).await;
    found.map_err(|error| StoreError::Api { name: name.to_owned(), source: error.into() })
}

/// Names and contents in the Secret and in the files (docs/behaviour/server.md#modes-of-certificates).
fn fields(material: &Material) -> [(&'static str, &str); 6] {
    [
        ("ca-key.pem", &material.authority_key),
        ("ca-cert.pem", &material.authorities),
        ("key.pem", &material.key),
        ("tls.key", &material.key),
        ("cert.pem", &material.certificate),
        ("tls.crt", &material.certificate),
    ]
}

fn text(secret: &Secret, key: &str) -> String {
    let bytes = secret.data.as_ref().and_then(|data| data.get(key));
    bytes.map(|bytes| String::from_utf8_lossy(&bytes.0).into_owned()).unwrap_or_default()
}

/// Our keys of a Secret. `tls.crt` and `tls.key` are copies, which older releases did not write, as they did
/// not write [`SEGMENTS`].
fn own(secret: &Secret) -> Option<Material> {
    let material = Material {
        authorities: text(secret, "ca-cert.pem"),
        authority_key: text(secret, "ca-key.pem"),
        certificate: text(secret, "cert.pem"),
        key: text(secret, "key.pem"),
        segments: text(secret, SEGMENTS),
    };
    (material != Material::default()).then_some(material)
}

/// What an issuer provides, or the keys that are missing.
fn external(secret: &Secret) -> Result<Material, Vec<&'static str>> {
    let lacks: Vec<_> =
        ["ca.crt", "tls.crt", "tls.key"].into_iter().filter(|key| text(secret, key).is_empty()).collect();
    if !lacks.is_empty() {
        return Err(lacks);
    }
    Ok(Material {
        authorities: text(secret, "ca.crt"),
        authority_key: String::new(),
        certificate: text(secret, "tls.crt"),
        key: text(secret, "tls.key"),
        segments: String::new(),
    })
}

/// Names and contents in the Secret.
fn keys(material: &Material) -> impl Iterator<Item = (&'static str, &str)> {
    fields(material).into_iter().chain([(SEGMENTS, material.segments.as_str())])
}

fn secret(name: &str, material: &Material) -> Secret {
    let data = keys(material).map(|(key, text)| (key.to_owned(), ByteString(text.as_bytes().to_vec())));
    Secret {
        metadata: ObjectMeta { name: Some(name.to_owned()), ..ObjectMeta::default() },
        data: Some(data.collect()),
        ..Secret::default()
    }
}

/// A merge patch of the keys that differ; labels, annotations and foreign keys stay.
fn changes(secret: &Secret, material: &Material) -> Value {
    let data: Map<String, Value> = keys(material)
        .filter(|(key, value)| text(secret, key) != *value)
        .map(|(key, value)| (key.to_owned(), json!(ByteString(value.as_bytes().to_vec()))))
        .collect();
    json!({"metadata": {"resourceVersion": secret.metadata.resource_version}, "data": data})
}

#[cfg(test)]
mod tests {
    use super::*;

    fn material() -> Material {
        Material {
            authorities: "ca".to_owned(),
            authority_key: "ca key".to_owned(),
            certificate: "leaf".to_owned(),
            key: "leaf key".to_owned(),
            segments: "segments".to_owned(),
        }
    }

    #[test]
    fn a_new_secret_has_exactly_the_seven_keys() {
        let keys: Vec<String> = secret("name", &material()).data.unwrap().into_keys().collect();
        let expected =
            ["ca-cert.pem", "ca-key.pem", "cert.pem", "key.pem", "path-segments", "tls.crt", "tls.key"];
        assert_eq!(keys, expected);
    }

    #[test]
    fn only_what_differs_is_patched() {
        let secret = secret("name", &material());
        let renewed = Material { certificate: "new".to_owned(), ..material() };
        let keys: Vec<String> =
            changes(&secret, &renewed)["data"].as_object().unwrap().keys().cloned().collect();
        assert_eq!(keys, ["cert.pem", "tls.crt"]);
    }

    #[test]
    fn an_empty_secret_holds_nothing_and_an_old_one_needs_no_copies() {
        assert_eq!(own(&Secret::default()), None);
        let mut secret = secret("name", &material());
        secret.data.as_mut().unwrap().retain(|key, _| !key.starts_with("tls."));
        assert_eq!(own(&secret), Some(material()));
        secret.data.as_mut().unwrap().remove(SEGMENTS);
        assert_eq!(own(&secret), Some(Material { segments: String::new(), ..material() }));
    }
}
