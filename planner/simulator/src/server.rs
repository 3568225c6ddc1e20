//! The API server: objects with identities and versions, writes with preconditions, and news of what
//! changed for those who watch.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use api::kinds::{ObjectMeta, Time};
use jiff::Timestamp;
use serde::Deserialize;

use super::kind::Simulated;
use kinds::workload::children::Claim;
use kinds::workload::revision::StoredRevision;
use pod::observed::ObservedPod;

/// Why the server refuses a write.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Refusal {
    /// The object is not in the state, or not the object, that the write is meant for.
    Conflict,
    /// There is no such object.
    NotFound,
    /// The name is taken.
    AlreadyExists,
    /// The object cannot be read.
    Invalid,
    /// The write did not arrive.
    Unavailable,
    /// Some policy does not allow it.
    Denied,
}

/// An object of one of the kinds that the controller watches; each kind has a watch of its own.
#[derive(Clone, Debug)]
pub(super) enum Object<W> {
    Workload(Arc<W>),
    Pod(Arc<ObservedPod>),
    Claim(Arc<Claim>),
    Revision(Arc<StoredRevision>),
}

/// A kind that the controller watches.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(super) enum Kind {
    Workload,
    Pod,
    Claim,
    Revision,
}

impl Kind {
    pub(super) const ALL: [Self; 4] = [Self::Workload, Self::Pod, Self::Claim, Self::Revision];

    /// Its name, where workloads are of the kind `W`.
    pub(super) fn name<W: Simulated>(self) -> &'static str {
        match self {
            Self::Workload => W::KIND,
            Self::Pod => "Pod",
            Self::Claim => "Claim",
            Self::Revision => "Revision",
        }
    }
}

/// What a watch delivers: an object is like this now, or gone.
#[derive(Clone, Debug)]
pub(super) struct News<W> {
    pub(super) kind: Kind,
    pub(super) name: Box<str>,
    pub(super) version: u64,
    pub(super) object: Option<Object<W>>,
}

/// What a write asks to hold: the object's identity and its version.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct Precondition<'a> {
    pub(super) uid: &'a str,
    pub(super) version: &'a str,
}

impl Precondition<'_> {
    fn check(&self, uid: &str, version: &str) -> Result<(), Refusal> {
        let holds = |wanted: &str, actual: &str| wanted.is_empty() || wanted == actual;
        if holds(self.uid, uid) && holds(self.version, version) { Ok(()) } else { Err(Refusal::Conflict) }
    }
}

/// The objects of the simulated cluster.
#[derive(Clone, Debug)]
pub(super) struct Server<W> {
    version: u64,
    identities: u64,
    pub(super) workload: Arc<W>,
    pub(super) pods: BTreeMap<Box<str>, Arc<ObservedPod>>,
    pub(super) claims: BTreeMap<Box<str>, Arc<Claim>>,
    pub(super) revisions: BTreeMap<Box<str>, Arc<StoredRevision>>,
    /// Identities of Pods whose containers have stopped for good: what their objects still wait for are
    /// finalizers.
    stopped: BTreeSet<Box<str>>,
    /// Identities of Pods that the controller may neither change nor delete: some policy guards them.
    pub(super) refusing: BTreeSet<Box<str>>,
    news: Vec<News<W>>,
}

impl<W: Simulated> Server<W> {
    /// A server that holds a new workload and nothing else.
    pub(super) fn new(mut workload: W) -> Self {
        let object = workload.object_mut();
        object.status = W::Status::default();
        object.metadata = ObjectMeta {
            resource_version: "1".to_owned(),
            generation: Some(1),
            deletion_timestamp: None,
            ..std::mem::take(&mut object.metadata)
        };
        if object.metadata.uid.is_empty() {
            object.metadata.uid = "uid-1".to_owned();
        }
        let workload = Arc::new(workload);
        let news = News {
            kind: Kind::Workload,
            name: "".into(),
            version: 1,
            object: Some(Object::Workload(workload.clone())),
        };
        Self {
            version: 1,
            identities: 1,
            workload,
            pods: BTreeMap::new(),
            claims: BTreeMap::new(),
            revisions: BTreeMap::new(),
            stopped: BTreeSet::new(),
            refusing: BTreeSet::new(),
            news: vec![news],
        }
    }

    /// The version of the last change.
    pub(super) fn version(&self) -> u64 {
        self.version
    }

    /// What changed since this was asked last.
    pub(super) fn take_news(&mut self) -> Vec<News<W>> {
        std::mem::take(&mut self.news)
    }

    /// What changed since then, which stays to be taken.
    pub(super) fn news(&self) -> &[News<W>] {
        &self.news
    }

    fn next_version(&mut self) -> u64 {
        self.version += 1;
        self.version
    }

    fn next_identity(&mut self) -> String {
        self.identities += 1;
        format!("{}-{}", self.uid(), self.identities)
    }

    fn notify(&mut self, kind: Kind, name: &str, object: Option<Object<W>>) {
        self.news.push(News { kind, name: name.into(), version: self.version, object });
    }

    // --- the workload -----------------------------------------------------------------------------

    /// The identity of the workload.
    pub(super) fn uid(&self) -> &str {
        &self.workload.metadata().uid
    }

    /// Stores the workload as a user or the controller changed it. A change of the spec is a new generation.
    pub(super) fn change_workload(&mut self, change: impl FnOnce(&mut W)) {
        let mut workload = (*self.workload).clone();
        change(&mut workload);
        let (object, known) = (workload.object_mut(), self.workload.object());
        if *object == *known {
            return;
        }
        if object.spec != known.spec {
            object.metadata.generation = Some(object.metadata.generation.unwrap_or(0) + 1);
        }
        object.metadata.resource_version = self.next_version().to_string();
        self.workload = Arc::new(workload);
        self.notify(Kind::Workload, "", Some(Object::Workload(self.workload.clone())));
    }

    /// Asks for the deletion of the workload, which stays as one that is being deleted.
    pub(super) fn delete_workload(&mut self, uid: &str, now: Timestamp) -> Result<(), Refusal> {
        Precondition { uid, version: "" }.check(self.uid(), "")?;
        self.change_workload(|workload| {
            workload.object_mut().metadata.deletion_timestamp.get_or_insert(Time::from(now));
        });
        Ok(())
    }

    // --- Pods -------------------------------------------------------------------------------------

    pub(super) fn create_pod(
        &mut self,
        mut pod: ObservedPod,
        now: Timestamp,
    ) -> Result<Arc<ObservedPod>, Refusal> {
        if self.pods.contains_key(&pod.metadata.name) {
            return Err(Refusal::AlreadyExists);
        }
        pod.metadata.uid = self.next_identity().into();
        pod.metadata.creation_timestamp = Some(now.into());
        pod.status.phase = "Pending".into();
        Ok(self.put_pod(pod))
    }

    fn put_pod(&mut self, mut pod: ObservedPod) -> Arc<ObservedPod> {
        pod.metadata.resource_version = self.next_version().to_string().into();
        let pod = Arc::new(pod);
        self.pods.insert(pod.metadata.name.clone(), pod.clone());
        self.notify(Kind::Pod, &pod.metadata.name, Some(Object::Pod(pod.clone())));
        pod
    }

    /// The Pod of this name if it still is the one with this identity.
    pub(super) fn pod(&self, name: &str, uid: &str) -> Option<&Arc<ObservedPod>> {
        self.pods.get(name).filter(|pod| *pod.metadata.uid == *uid)
    }

    /// Changes a Pod. A change that changes nothing makes no new version. A Pod that only waited for its
    /// finalizers is removed with the last of them.
    pub(super) fn change_pod(
        &mut self,
        name: &str,
        precondition: Precondition<'_>,
        change: impl FnOnce(&mut ObservedPod),
    ) -> Result<Arc<ObservedPod>, Refusal> {
        let known = self.pods.get(name).ok_or(Refusal::NotFound)?;
        precondition.check(&known.metadata.uid, &known.metadata.resource_version)?;
        let mut pod = (**known).clone();
        change(&mut pod);
        if pod == **known {
            return Ok(known.clone());
        }
        let pod = self.put_pod(pod);
        self.remove_if_finished(&pod);
        Ok(pod)
    }

    /// Asks for the deletion of a Pod. One that no kubelet has to stop is removed at once.
    pub(super) fn delete_pod(
        &mut self,
        name: &str,
        precondition: Precondition<'_>,
        now: Timestamp,
    ) -> Result<(), Refusal> {
        let known = self.pods.get(name).ok_or(Refusal::NotFound)?.clone();
        precondition.check(&known.metadata.uid, &known.metadata.resource_version)?;
        let ended = matches!(&*known.status.phase, "Succeeded" | "Failed");
        if known.spec.node_name.is_empty() || ended {
            self.stopped.insert(known.metadata.uid.clone());
        }
        let mut pod = known;
        if pod.metadata.deletion_timestamp.is_none() {
            let mut changed = (*pod).clone();
            changed.metadata.deletion_timestamp = Some(now.into());
            pod = self.put_pod(changed);
        }
        self.remove_if_finished(&pod);
        Ok(())
    }

    /// The containers of the Pod have stopped, or somebody who may do so says that they have.
    pub(super) fn stop_pod(&mut self, name: &str, uid: &str) {
        let Some(pod) = self.pod(name, uid).cloned() else { return };
        self.stopped.insert(uid.into());
        self.remove_if_finished(&pod);
    }

    fn remove_if_finished(&mut self, pod: &ObservedPod) {
        let metadata = &pod.metadata;
        if metadata.deletion_timestamp.is_none()
            || !metadata.finalizers.is_empty()
            || !self.stopped.contains(&metadata.uid)
        {
            return;
        }
        self.next_version();
        self.pods.remove(&metadata.name);
        self.stopped.remove(&metadata.uid);
        self.notify(Kind::Pod, &metadata.name, None);
        self.release_claims(pod);
    }

    // --- marks ------------------------------------------------------------------------------------

    /// Removes annotations with this prefix from revisions and claims.
    pub(super) fn forget_marks(&mut self, prefix: &str) {
        let revisions: Vec<_> = self.revisions.values().map(|revision| (**revision).clone()).collect();
        for mut revision in revisions {
            revision.metadata.annotations.retain(|key, _| !key.starts_with(prefix));
            self.put_revision(revision);
        }
        let claims: Vec<_> = self.claims.values().map(|claim| (**claim).clone()).collect();
        for mut claim in claims {
            let kept = claim.metadata.annotations.iter().filter(|(key, _)| !key.starts_with(prefix));
            claim.metadata.annotations = kept.collect();
            self.put_claim(claim);
        }
    }

    // --- claims -----------------------------------------------------------------------------------

    pub(super) fn create_claim(&mut self, json: &str) -> Result<Arc<Claim>, Refusal> {
        let mut claim = Claim::read(json).map_err(|_| Refusal::Invalid)?;
        if self.claims.contains_key(&claim.metadata.name) {
            return Err(Refusal::AlreadyExists);
        }
        claim.metadata.uid = self.next_identity().into();
        Ok(self.put_claim(claim))
    }

    /// Volumes are bound, and grow, as soon as it is asked for.
    fn put_claim(&mut self, mut claim: Claim) -> Arc<Claim> {
        claim.status.capacity = claim.spec.resources.requests.clone();
        claim.metadata.resource_version = self.next_version().to_string().into();
        let claim = Arc::new(claim);
        self.claims.insert(claim.metadata.name.clone(), claim.clone());
        self.notify(Kind::Claim, &claim.metadata.name, Some(Object::Claim(claim.clone())));
        claim
    }

    /// Changes a claim.
    pub(super) fn change_claim(
        &mut self,
        name: &str,
        precondition: Precondition<'_>,
        change: impl FnOnce(&mut Claim),
    ) -> Result<Arc<Claim>, Refusal> {
        let known = self.claims.get(name).ok_or(Refusal::NotFound)?;
        precondition.check(&known.metadata.uid, &known.metadata.resource_version)?;
        let mut claim = (**known).clone();
        change(&mut claim);
        let claim = self.put_claim(claim);
        self.collect_claim(&claim);
        Ok(claim)
    }

    /// Asks for the deletion of a claim; it is removed when no Pod uses it.
    pub(super) fn delete_claim(
        &mut self,
        name: &str,
        precondition: Precondition<'_>,
        now: Timestamp,
    ) -> Result<(), Refusal> {
        let known = self.claims.get(name).ok_or(Refusal::NotFound)?;
        precondition.check(&known.metadata.uid, &known.metadata.resource_version)?;
        let mut claim = (**known).clone();
        if claim.metadata.deletion_timestamp.is_none() {
            claim.metadata.deletion_timestamp = Some(now.into());
            let claim = self.put_claim(claim);
            self.collect_claim(&claim);
        }
        Ok(())
    }

    /// The claim was created for this Pod.
    pub(super) fn belongs(&self, claim: &Claim, pod: &ObservedPod) -> bool {
        self.workload.pod_of_claim(claim).is_some_and(|name| *name == *pod.metadata.name)
    }

    /// Claims that were to go with the Pod, or waited for it to end, go.
    fn release_claims(&mut self, pod: &ObservedPod) {
        let claims: Vec<_> = self.claims.values().filter(|claim| self.belongs(claim, pod)).cloned().collect();
        claims.iter().for_each(|claim| self.collect_claim(claim));
    }

    /// Removes the claim if it is to be deleted, or all its owners are gone, and nothing uses it.
    fn collect_claim(&mut self, claim: &Claim) {
        let metadata = &claim.metadata;
        let lives = |uid: &str| uid == self.uid() || self.pods.values().any(|pod| *pod.metadata.uid == *uid);
        let orphaned = !metadata.owner_references.is_empty()
            && !metadata.owner_references.iter().any(|owner| lives(&owner.uid));
        let used = self
            .pods
            .values()
            .any(|pod| self.belongs(claim, pod) && !matches!(&*pod.status.phase, "Succeeded" | "Failed"));
        if (metadata.deletion_timestamp.is_some() || orphaned) && !used {
            self.next_version();
            self.claims.remove(&metadata.name);
            self.notify(Kind::Claim, &metadata.name, None);
        }
    }

    // --- ControllerRevisions ----------------------------------------------------------------------

    pub(super) fn create_revision(&mut self, json: &str, now: Timestamp) -> Result<(), Refusal> {
        let mut revision = StoredRevision::read(json).map_err(|_| Refusal::Invalid)?;
        if self.revisions.contains_key(revision.name()) {
            return Err(Refusal::AlreadyExists);
        }
        revision.metadata.uid = self.next_identity();
        revision.metadata.creation_timestamp = Some(Time::from(now));
        self.put_revision(revision);
        Ok(())
    }

    fn put_revision(&mut self, mut revision: StoredRevision) {
        revision.metadata.resource_version = self.next_version().to_string();
        let revision = Arc::new(revision);
        self.revisions.insert(revision.name().into(), revision.clone());
        let name = revision.metadata.name.clone();
        self.notify(Kind::Revision, &name, Some(Object::Revision(revision)));
    }

    /// Sends a JSON merge patch to a revision; of it, number, labels and annotations are understood.
    pub(super) fn patch_revision(
        &mut self,
        name: &str,
        precondition: Precondition<'_>,
        patch: &str,
    ) -> Result<(), Refusal> {
        #[derive(Default, Deserialize)]
        #[serde(default)]
        struct Patch {
            metadata: ObjectMeta,
            revision: Option<i64>,
        }
        let known = self.revisions.get(name).ok_or(Refusal::NotFound)?;
        precondition.check(&known.metadata.uid, &known.metadata.resource_version)?;
        let patch: Patch = serde_json::from_str(patch).map_err(|_| Refusal::Invalid)?;
        let mut revision = (**known).clone();
        revision.revision = patch.revision.unwrap_or(revision.revision);
        revision.metadata.annotations.extend(patch.metadata.annotations);
        revision.metadata.labels.extend(patch.metadata.labels);
        self.put_revision(revision);
        Ok(())
    }

    pub(super) fn delete_revision(
        &mut self,
        name: &str,
        precondition: Precondition<'_>,
    ) -> Result<(), Refusal> {
        let known = self.revisions.get(name).ok_or(Refusal::NotFound)?;
        precondition.check(&known.metadata.uid, &known.metadata.resource_version)?;
        self.next_version();
        self.revisions.remove(name);
        self.notify(Kind::Revision, name, None);
        Ok(())
    }
}
