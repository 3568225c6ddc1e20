//! Pull Secrets: copied to where the agents of the nodes may read them, and released in the end
//! (docs/behaviour/images.md#pull-secrets). Of all Secrets only names are watched; contents are read when they are
//! copied.

use std::sync::Arc;
use std::time::Duration;

use api::kinds::nodeimage::PullSecret;
use cluster::resource::{Path, SECRETS};
use cluster::watched::{Key, WatchedObject};
use cluster::write::{self, PatchKind, deletion};
use cluster::{ErrorReason, Retry};
use kinds::imagepulljob::Job;
use kinds::imagepulljob::copies::{self, Copy, Release, source};
use tokio::sync::mpsc::UnboundedSender;
use values::event::Event;

use super::Controller;
use crate::images::{CopyGroup, JobGroup};
use crate::workload::store::follow::{Readable, Sink};
use crate::workload::store::{Change, Kept};
use crate::{ReconcileError, now};

/// The Secrets of a job.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(super) struct Found {
    /// References to what the agents may read.
    pub(super) references: Vec<PullSecret>,
    /// The names of those that are not there.
    pub(super) missing: Vec<String>,
}

/// Wakes the jobs whose Secrets are new or change.
pub(super) struct Changes {
    pub(super) controller: Arc<Controller>,
    pub(super) keys: UnboundedSender<Key>,
}

impl Sink for Changes {
    fn list_begins(&self) {}

    fn see(&self, object: WatchedObject) {
        self.gone(&object);
    }

    fn gone(&self, object: &WatchedObject) {
        let (namespace, name) = object.key();
        for key in self.controller.looking_again(&format!("{namespace}/{name}")) {
            // The receiver ends with the controller.
            drop(self.keys.send(key));
        }
    }

    fn list_ends(&self) {}
}

impl Controller {
    /// The active jobs that pull with a Secret. What is known of their Secrets is forgotten.
    pub(super) fn looking_again(&self, secret: &str) -> Vec<Key> {
        let jobs = self.images.jobs.group(&JobGroup::Secret(secret.into()));
        let keys: Vec<Key> = jobs.iter().map(|job| job.key()).collect();
        for key in &keys {
            self.memory(key, |memory| {
                memory.secrets = None;
                memory.round += 1;
            });
        }
        keys
    }

    /// The jobs to which it matters that a Secret which agents may read comes or leaves: those of the same namespace,
    /// and those that have lost a copy.
    pub(super) fn of_copy(&self, change: &Change<Copy>) -> Vec<(Key, Duration)> {
        let secrets = match (&change.old, &change.new) {
            (None, Some(copy)) => vec![copy.word()],
            (Some(copy), None) => vec![copy.word(), copy.source.clone()],
            _ => Vec::new(),
        };
        let keys = secrets.iter().flat_map(|secret| self.looking_again(secret));
        keys.map(|key| (key, Duration::ZERO)).collect()
    }

    /// The Secrets of a job.
    pub(super) async fn secrets(&self, key: &Key, job: &Job) -> Result<Found, ReconcileError> {
        let names = &job.object.spec.pull_secrets;
        if names.is_empty() {
            return Ok(Found::default());
        }
        if key.0 == self.context.settings.config_namespace {
            let is_there = |name: &str| self.images.copies.get(&(key.0.clone(), name.to_owned())).is_some();
            let (there, missing): (Vec<_>, _) = names.iter().cloned().partition(|name| is_there(name));
            let references = there.iter().map(|name| copies::own_reference(job, name)).collect();
            return Ok(Found { references, missing });
        }
        let (known, round) = self.memory(key, |memory| (memory.secrets.clone(), memory.round));
        if let Some(known) = known {
            return Ok(known);
        }
        let _one_at_a_time = self.copying.lock().await;
        let mut found = Found::default();
        for name in names {
            match self.copy(job, name).await? {
                Some(copy) => found.references.push(copy.reference()),
                None => found.missing.push(name.clone()),
            }
        }
        self.release(job, &found.references).await?;
        self.memory(key, |memory| {
            // A Secret that changed meanwhile is reconciled again.
            if memory.round == round {
                memory.secrets = Some(found.clone());
            }
        });
        Ok(found)
    }

    /// Reports a Secret without which a job continues.
    pub(super) fn record_missing(&self, job: &Job, name: &str) {
        let message = format!("Secret {name} is not found: the image is pulled without it");
        self.record(job, Event { warning: true, reason: "SecretNotFound", message });
    }

    /// The copy of a Secret, made or brought up to date; `None` where there is no such Secret.
    async fn copy(&self, job: &Job, name: &str) -> Result<Option<Copy>, ReconcileError> {
        let from = SECRETS.namespaced(job.namespace()).name(name);
        let Some(text) = write::get(&self.client, &from).await? else { return Ok(None) };
        let secret = ReconcileError::of_object(SECRETS.kind);
        let namespace = &self.context.settings.config_namespace;
        let source = source(job, name);
        let known = self.images.copies.group(&CopyGroup::Source(source.as_str().into()));
        if let Some(known) = copies::choose(job, &source, &known) {
            let path = self.path_of_copy(known);
            match write::get(&self.client, &path).await? {
                Some(stored) => {
                    let stored = match copies::refresh(job, &stored, &text).map_err(&secret)? {
                        None => stored,
                        Some(patch) => write::patch(&self.client, &path, PatchKind::Merge, patch).await?,
                    };
                    return self.take_in(&stored).map(Some);
                }
                None => self.images.copies.deleted(&known.key(), known.resource_version()),
            }
        }
        let copy = copies::create(job, &text, namespace, now()).map_err(secret)?;
        match write::create(&self.client, &SECRETS.namespaced(namespace), copy).await {
            Ok(stored) => self.take_in(&stored).map(Some),
            // It may be made anew: the job is not over.
            Err(error) if error.reason() == ErrorReason::NamespaceTerminating => {
                Err(ReconcileError::Action(format!("namespace({namespace}) is being deleted")))
            }
            Err(error) => Err(error.into()),
        }
    }

    /// Takes a job that is over out of the users of its copies.
    pub(super) async fn release_secrets(&self, job: &Job) -> Result<(), ReconcileError> {
        let _one_at_a_time = self.copying.lock().await;
        self.release(job, &[]).await
    }

    /// Takes a job out of the users of the copies that it does not use; those that nobody uses any more go.
    async fn release(&self, job: &Job, used: &[PullSecret]) -> Result<(), ReconcileError> {
        let mut copies = self.images.copies.group(&CopyGroup::User(job.word().into()));
        copies.retain(|copy| !used.contains(&copy.reference()));
        for copy in copies {
            let path = self.path_of_copy(&copy);
            let released = match copies::release(&copy, job) {
                Release::Delete => {
                    let options = deletion(copy.uid(), Some(copy.resource_version()));
                    let deleted = write::delete(&self.client, &path, options).await;
                    deleted.map(|_| self.images.copies.deleted(&copy.key(), copy.resource_version()))
                }
                Release::Patch(patch) => {
                    let patched = write::patch(&self.client, &path, PatchKind::Merge, patch).await;
                    patched.map(|text| drop(self.take_in(&text)))
                }
            };
            match released {
                // Nothing is left to release where the copy, or its whole namespace, is gone.
                Err(error) if error.reason() == ErrorReason::NotFound => {}
                Err(error) if error.retry() == Retry::Never => {}
                released => released?,
            }
        }
        Ok(())
    }

    fn take_in(&self, text: &str) -> Result<Copy, ReconcileError> {
        let copy = <Copy as Readable>::read(text).map_err(ReconcileError::of_object(SECRETS.kind))?;
        self.images.copies.written(copy.clone());
        Ok(copy)
    }

    fn path_of_copy(&self, copy: &Copy) -> Path {
        SECRETS.namespaced(copy.namespace()).name(copy.name())
    }
}
