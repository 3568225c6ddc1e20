//! Carries out what a plan says. What an object was planned for that has changed or gone since is planned anew; in a namespace
//! that is being deleted nothing continues.

use api::kinds::uniteddeployment::UnitedDeployment;
use cluster::Retry;
use cluster::resource::{PODS, Path};
use cluster::write::{self, PatchKind, background_deletion, deletion};
use kinds::uniteddeployment::Failure;
use kinds::uniteddeployment::children::{Child, ChildKind};
use kinds::uniteddeployment::plan::{PatchOf, Plan};
use kinds::uniteddeployment::template::{Target, changed_child};
use kinds::workload::object_version::ObjectVersion;
use values::event::{normal, warning};

use super::children::Children;
use super::{Controller, TRIES};
use crate::ReconcileError;
use crate::workload::store::Kept;

/// What came of a plan.
pub(super) struct Outcome {
    /// What could not be done.
    pub(super) failure: Option<Failure>,
    /// An object was in another state than the plan took it for: it is to be reconciled again soon.
    pub(super) is_outdated: bool,
}

/// What has come of a plan so far.
#[derive(Default)]
struct Progress {
    problems: Vec<String>,
    is_outdated: bool,
}

impl Progress {
    /// Takes in what came of one write; gives an error that ends it all.
    fn note<T>(&mut self, result: Result<T, ReconcileError>) -> Result<Option<T>, ReconcileError> {
        let error = match result {
            Ok(value) => return Ok(Some(value)),
            Err(error) => error,
        };
        match error.retry() {
            Retry::Never => return Err(error),
            Retry::Now => self.is_outdated = true,
            Retry::Later | Retry::WhenHealthy => self.problems.push(error.message()),
        }
        Ok(None)
    }

    fn ended(self, failure: fn(String) -> Failure) -> Outcome {
        let has_failed = !self.problems.is_empty();
        let failure = has_failed.then(|| failure(self.problems.join("; ")));
        Outcome { failure, is_outdated: self.is_outdated }
    }
}

impl Controller {
    /// Carries a plan out, as far as that is possible.
    ///
    /// # Errors
    /// The namespace is being deleted.
    pub(super) async fn carry_out(
        &self,
        united: &UnitedDeployment,
        plan: &mut Plan,
    ) -> Result<Outcome, ReconcileError> {
        let mut progress = Progress::default();
        if !plan.adoptions.is_empty() {
            let exists = self.still_exists(united).await;
            match progress.note(exists)? {
                Some(true) => self.adopt(united, plan, &mut progress).await?,
                // What it let go when it was deleted stays free.
                exists => {
                    progress.is_outdated |= exists.is_some();
                    return Ok(progress.ended(Failure::Provision));
                }
            }
        }
        for label in &plan.labels {
            progress.note(self.label(united, label).await)?;
        }
        if progress.problems.is_empty() {
            self.create(united, plan, &mut progress).await?;
        }
        // What serves stays until what takes its place is there.
        if progress.problems.is_empty() {
            self.delete(united, plan, &mut progress).await?;
        }
        if !progress.problems.is_empty() {
            return Ok(progress.ended(Failure::Provision));
        }
        for (observed, target) in &plan.updates {
            let updated = self.update(united, observed, target).await;
            progress
                .note(updated.map_err(|error| self.failed_at(united, target.kind, &observed.name, error)))?;
        }
        for pod in &plan.stuck {
            let path = PODS.namespaced(&united.metadata.namespace).name(&pod.name);
            let options = deletion(&pod.uid, Some(&pod.resource_version));
            progress
                .note(write::delete(self.client(), &path, options).await.map_err(ReconcileError::from))?;
        }
        for revision in &plan.obsolete {
            progress.note(self.revisions(united).delete(revision).await)?;
        }
        Ok(progress.ended(Failure::Update))
    }

    fn path(&self, children: &Children, united: &UnitedDeployment) -> Path {
        children.resource().namespaced(&united.metadata.namespace)
    }

    async fn adopt(
        &self,
        united: &UnitedDeployment,
        plan: &Plan,
        progress: &mut Progress,
    ) -> Result<(), ReconcileError> {
        for (kind, adoption) in &plan.adoptions {
            let children = self.children_of(*kind);
            let path = self.path(children, united).name(&adoption.observed.name);
            let adopted = self.patch(&path, adoption).await;
            progress.note(adopted.and_then(|text| children.take_in(&text)))?;
        }
        Ok(())
    }

    async fn create(
        &self,
        united: &UnitedDeployment,
        plan: &mut Plan,
        progress: &mut Progress,
    ) -> Result<(), ReconcileError> {
        let Some(kind) = ChildKind::of(&united.spec.template) else { return Ok(()) };
        let children = self.children_of(kind);
        let mut created = 0_usize;
        for creation in std::mem::take(&mut plan.creations) {
            let made = match creation.json {
                Ok(json) => write::create(self.client(), &self.path(children, united), json).await,
                Err(problem) => {
                    let error = ReconcileError::Action(problem);
                    progress.note::<()>(Err(self.failed_at(united, kind, &creation.subset, error)))?;
                    continue;
                }
            };
            if made.as_ref().is_err_and(cluster::ApiError::may_have_acted) {
                // It has a name that the API server chose.
                let namespace = united.metadata.namespace.clone();
                self.unconfirmed.note(&united.key(), (children.resource(), (namespace, String::new())));
            }
            let made = made.map_err(ReconcileError::from).and_then(|text| children.take_in(&text));
            let made = made.map_err(|error| self.failed_at(united, kind, &creation.subset, error));
            created += usize::from(progress.note(made)?.is_some());
        }
        if created > 0 {
            let message = format!("Create {created} Subset ({})", kind.display_name());
            self.record(united, normal("SuccessfulUpdateSubset", message));
        }
        Ok(())
    }

    async fn delete(
        &self,
        united: &UnitedDeployment,
        plan: &Plan,
        progress: &mut Progress,
    ) -> Result<(), ReconcileError> {
        for kind in ChildKind::ALL {
            let children = self.children_of(kind);
            let mut deleted = 0_usize;
            for (_, observed) in plan.deletions.iter().filter(|(of, _)| *of == kind) {
                let path = self.path(children, united).name(&observed.name);
                let options = background_deletion(&observed.uid, Some(&observed.resource_version));
                let answer = write::delete(self.client(), &path, options).await.map_err(ReconcileError::from);
                let answer = answer.map_err(|error| self.failed_at(united, kind, &observed.name, error));
                if let Some(text) = progress.note(answer)? {
                    children.deleted(&united.metadata.namespace, observed, &text);
                    deleted += 1;
                }
            }
            if deleted > 0 {
                let message = format!("Delete {deleted} Subset ({})", kind.display_name());
                self.record(united, normal("SuccessfulUpdateSubset", message));
            }
        }
        Ok(())
    }

    /// Brings a workload up to date, with what others have changed in it meanwhile.
    async fn update(
        &self,
        united: &UnitedDeployment,
        observed: &ObjectVersion,
        target: &Target,
    ) -> Result<(), ReconcileError> {
        let children = self.children_of(target.kind);
        let path = self.path(children, united).name(&observed.name);
        let mut tries = 0;
        loop {
            let Some(live) = write::get(self.client(), &path).await? else { return Ok(()) };
            let child =
                Child::read(target.kind, &live).map_err(ReconcileError::of_object(target.kind.kind()))?;
            // Another one has taken its name, or it was let go.
            if child.is_none_or(|child| *child.uid != *observed.uid || !child.is_of(&united.metadata.uid)) {
                return Ok(());
            }
            let changed = changed_child(&live, united, target).map_err(ReconcileError::Action)?;
            match write::replace(self.client(), &path, changed).await {
                Ok(text) => return children.take_in(&text).map(drop),
                Err(error) if error.is_conflict() && tries < TRIES => tries += 1,
                Err(error) => return Err(error.into()),
            }
        }
    }

    async fn label(&self, united: &UnitedDeployment, label: &PatchOf) -> Result<(), ReconcileError> {
        let path = PODS.namespaced(&united.metadata.namespace).name(&label.observed.name);
        let text = self.patch(&path, label).await?;
        self.stores.pods.written(&text).map(drop)
    }

    async fn patch(&self, path: &Path, patch: &PatchOf) -> Result<String, ReconcileError> {
        Ok(write::patch(self.client(), path, PatchKind::Merge, patch.patch.clone()).await?)
    }

    /// Reports a subset that could not be brought on, unless that is planned anew, or never.
    fn failed_at(
        &self,
        united: &UnitedDeployment,
        kind: ChildKind,
        name: &str,
        error: ReconcileError,
    ) -> ReconcileError {
        if matches!(error.retry(), Retry::Now | Retry::Never) {
            return error;
        }
        let problem = error.message();
        let message =
            format!("Error updating PodSet ({}) {name} when updating: {problem}", kind.display_name());
        self.record(united, warning("FailedUpdateSubset", message.clone()));
        ReconcileError::Action(message)
    }
}
