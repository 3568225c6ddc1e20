//! Whose credentials pull what, and who has an image that is there (docs/behaviour/node-agent.md#whose-credentials).

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use api::kinds::imagepulljob::KIND;
use api::kinds::nodeimage::PullSecret;
use api::kinds::shared::ObjectReference;

use super::keyring::{Keyring, SecretError};
use kinds::imagepulljob::copies::Copy;
use kinds::workload::image_task::word;

#[cfg(test)]
mod tests;

/// A pull Secret as it was read.
#[derive(Clone, Debug)]
pub struct Pass {
    /// Whose it is.
    copy: Copy,
    /// What it holds.
    keyring: Result<Keyring, SecretError>,
}

impl Pass {
    /// Reads a Secret.
    pub fn of_secret(json: &str) -> Self {
        Self { copy: Copy::read(json).unwrap_or_default(), keyring: Keyring::of_secret(json) }
    }

    /// Whether it serves an owner of a task, or a task without owners: a copy serves the jobs that use it, any other Secret
    /// all but the jobs of other namespaces.
    fn serves(&self, owner: Option<&ObjectReference>) -> bool {
        let Self { copy, .. } = self;
        match owner {
            _ if copy.source.is_empty() => {
                owner.is_none_or(|owner| owner.kind != KIND || owner.namespace == copy.namespace)
            }
            None => false,
            Some(owner) => owner.kind == KIND && copy.users.contains(&word(owner)),
        }
    }

    /// Whether one of these owners may have become a user of the copy after it was read.
    pub fn may_be_outdated(&self, owners: &[ObjectReference]) -> bool {
        let namespace = self.copy.source.split_once('/').map(|(namespace, _)| namespace);
        let may_use = |owner: &&ObjectReference| Some(owner.namespace.as_str()) == namespace;
        owners.iter().filter(may_use).any(|owner| !self.serves(Some(owner)))
    }

    /// The Secret itself, whatever its copy is called.
    fn source(&self) -> String {
        if self.copy.source.is_empty() { self.copy.word() } else { self.copy.source.clone() }
    }
}

/// The owners of a task that pull with the same Secrets.
#[derive(Clone, Debug)]
pub struct PullGroup {
    /// Their names; an empty one where the task has no owners.
    pub owners: Vec<String>,
    passes: Vec<Arc<Pass>>,
}

impl PullGroup {
    /// Their credentials.
    ///
    /// # Errors
    /// One of the Secrets holds none that can be understood.
    pub fn keyring(&self) -> Result<Keyring, String> {
        let mut all = Keyring::default();
        for pass in &self.passes {
            match &pass.keyring {
                Ok(keyring) => all.add(keyring),
                Err(error) => return Err(format!("Secret {} can't be used: {error}", pass.copy.word())),
            }
        }
        Ok(all)
    }

    /// References to their Secrets.
    pub fn secrets(&self) -> Vec<PullSecret> {
        self.passes.iter().map(|pass| pass.copy.reference()).collect()
    }

    fn sources(&self) -> BTreeSet<String> {
        self.passes.iter().map(|pass| pass.source()).collect()
    }
}

/// The owners of a task, in their order, together where they have the same of these Secrets.
pub fn pull_groups(owners: &[ObjectReference], passes: &[Arc<Pass>]) -> Vec<PullGroup> {
    let mut pull_groups: Vec<PullGroup> = Vec::new();
    let nobody = owners.is_empty().then_some(None);
    for owner in nobody.into_iter().chain(owners.iter().map(Some)) {
        let name = owner.map(word).unwrap_or_default();
        let own: Vec<Arc<Pass>> = passes.iter().filter(|pass| pass.serves(owner)).cloned().collect();
        let same = |pull_group: &&mut PullGroup| {
            pull_group.passes.len() == own.len()
                && pull_group.passes.iter().zip(&own).all(|(one, other)| Arc::ptr_eq(one, other))
        };
        match pull_groups.iter_mut().find(same) {
            Some(pull_group) => pull_group.owners.push(name),
            None => pull_groups.push(PullGroup { owners: vec![name], passes: own }),
        }
    }
    pull_groups
}

/// The images of the node that came with credentials of Secrets, by ID: with which.
#[derive(Clone, Debug, Default)]
pub struct Private(BTreeMap<String, BTreeSet<String>>);

impl Private {
    /// Takes in that an image came with the Secrets of a party.
    pub fn came(&mut self, id: &str, pull_group: &PullGroup) {
        self.0.entry(id.to_owned()).or_default().extend(pull_group.sources());
    }

    /// Takes in that an image came with Secrets, where it is not known with which.
    pub fn came_with_some(&mut self, id: &str) {
        self.0.entry(id.to_owned()).or_default();
    }

    /// The IDs of the images.
    pub fn ids(&self) -> impl Iterator<Item = &str> {
        self.0.keys().map(String::as_str)
    }

    /// Takes in that an image came without Secrets: everybody can have it.
    pub fn is_public(&mut self, id: &str) {
        self.0.remove(id);
    }

    /// Whether an image that is there came with Secrets.
    pub fn knows(&self, id: &str) -> bool {
        self.0.contains_key(id)
    }

    /// Whether an image came with a Secret of a party.
    pub fn admits(&self, id: &str, pull_group: &PullGroup) -> bool {
        self.0.get(id).is_some_and(|sources| !sources.is_disjoint(&pull_group.sources()))
    }

    /// Forgets the images that are not there any more.
    pub fn keep(&mut self, is_there: impl Fn(&str) -> bool) {
        self.0.retain(|id, _| is_there(id));
    }
}
