//! Carries out the writes of a plan, one after the other. What comes back is taken in at once.

use cluster::resource::PODS;
use cluster::write::{self, PatchKind, deletion, unless_outdated};
use cluster::{ApiError, ErrorReason};
use rollouts::object::{Object as _, ObjectName};
use rollouts::write::Write;
use serde_json::Value;

use super::reading::Reading;
use crate::ReconcileError;

/// What came of the writes of a plan.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Carried {
    /// All were carried out.
    All,
    /// An object was in another state than the plan has seen, which is known now.
    Outdated,
}

/// A write that was refused, or got no answer.
#[derive(Debug)]
pub(super) struct Failed {
    /// The object that could not be created, if it was that.
    pub(super) created: Option<ObjectName>,
    pub(super) error: ReconcileError,
}

impl Reading<'_> {
    /// Sends the writes of the last plan.
    ///
    /// # Errors
    /// The API server refuses for another reason than the state of an object, or can't be reached.
    pub(super) async fn carry_out(&mut self, writes: &[Write]) -> Result<Carried, Failed> {
        for write in writes {
            let is_sent = match write {
                Write::Create { name, object } => {
                    let created = || Some(name.clone());
                    self.create(name, object).await.map_err(|error| Failed { created: created(), error })
                }
                Write::Patch { name, subresource, patch } => {
                    self.patch(name, subresource, patch).await.map_err(Failed::from)
                }
                Write::Delete { name, uid } => self.delete(name, uid).await.map_err(Failed::from),
            };
            if !is_sent? {
                return Ok(Carried::Outdated);
            }
        }
        Ok(Carried::All)
    }

    /// Creates an object; one that exists is read.
    async fn create(&mut self, name: &ObjectName, object: &Value) -> Result<bool, ReconcileError> {
        let collection = ObjectName { name: String::new(), ..name.clone() };
        let path = self.path(&collection).await?;
        match write::create(&self.known.client, &path, object.to_string()).await {
            Ok(text) => {
                let created: Value = serde_json::from_str(&text).unwrap_or_default();
                self.written(&ObjectName { name: created.name().to_owned(), ..name.clone() }, "", &text)?;
            }
            Err(error) if error.reason() == ErrorReason::AlreadyExists => self.refresh(name).await?,
            Err(error) if error.reason() == ErrorReason::Conflict => return Ok(false),
            Err(error) => return Err(error.into()),
        }
        Ok(true)
    }

    /// Patches an object in the state that the plan has seen, or that the writes before have left; false where it is in
    /// another one, or gone.
    pub(super) async fn patch(
        &mut self,
        name: &ObjectName,
        subresource: &str,
        patch: &Value,
    ) -> Result<bool, ReconcileError> {
        let path = self.path(name).await?.subresource(subresource);
        let seen = patch.resource_version().to_owned();
        let mut patch = patch.clone();
        if let Some(version) = patch.pointer_mut("/metadata/resourceVersion") {
            *version = self.version(name, &seen).into();
        }
        let answer = write::patch(&self.known.client, &path, PatchKind::Merge, patch.to_string()).await;
        let Some(text) = self.unless_outdated(name, answer).await? else { return Ok(false) };
        let is_gone =
            |object: &Value| object.is_deleting() && object.items("/metadata/finalizers").is_empty();
        if name.kind != PODS.kind && is_gone(&serde_json::from_str(&text).unwrap_or_default()) {
            self.gone(name).await?;
        } else {
            self.written(name, &seen, &text)?;
        }
        Ok(true)
    }

    /// Deletes an object; false where another one has its name.
    async fn delete(&mut self, name: &ObjectName, uid: &str) -> Result<bool, ReconcileError> {
        let path = self.path(name).await?;
        let answer = match write::delete(&self.known.client, &path, deletion(uid, None)).await {
            Err(error) if error.reason() == ErrorReason::NotFound => {
                self.gone(name).await?;
                return Ok(true);
            }
            answer => answer,
        };
        let Some(text) = self.unless_outdated(name, answer).await? else { return Ok(false) };
        // Something holds an object that is returned as one that ends; that of a Pod is its node.
        let ends = |object: &Value| {
            let is_held = name.kind == PODS.kind || !object.items("/metadata/finalizers").is_empty();
            object.is_deleting() && is_held
        };
        if ends(&serde_json::from_str(&text).unwrap_or_default()) {
            self.written(name, "", &text)?;
        } else {
            self.gone(name).await?;
        }
        Ok(true)
    }

    /// The answer to a write; `None` where the object is in another state, which is read.
    async fn unless_outdated(
        &mut self,
        name: &ObjectName,
        answer: Result<String, ApiError>,
    ) -> Result<Option<String>, ReconcileError> {
        let answer = unless_outdated(answer)?;
        if answer.is_none() {
            self.refresh(name).await?;
        }
        Ok(answer)
    }

    async fn path(&self, name: &ObjectName) -> Result<cluster::resource::Path, ReconcileError> {
        let path = self.known.kinds.path(&self.known.client, name).await?;
        path.ok_or_else(|| {
            ReconcileError::Action(format!("{} of {} is not served", name.kind, name.api_version))
        })
    }
}

impl From<ReconcileError> for Failed {
    fn from(error: ReconcileError) -> Self {
        Self { created: None, error }
    }
}
