//! What a plan says to do, as data: to be carried out by the controller, applied by a simulation, printed
//! for people.

use std::fmt;

use crate::workload::new_pod::NewClaim;
use crate::workload::object_version::ObjectVersion;
use pod::observed::ObservedPod;
use pod::write::PodWrite;
use values::event::{Event, normal, warning};

/// A kind of child objects, as requests name it.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct ChildKind {
    /// The API group.
    pub group: &'static str,
    /// The version in which it is written.
    pub version: &'static str,
    /// The plural in request paths.
    pub plural: &'static str,
    /// The kind.
    pub kind: &'static str,
}

/// ControllerRevisions.
pub const CONTROLLER_REVISION: ChildKind =
    ChildKind { group: "apps", version: "v1", plural: "controllerrevisions", kind: "ControllerRevision" };
/// ImagePullJobs.
pub const IMAGE_PULL_JOB: ChildKind =
    ChildKind { group: api::APPS_GROUP, version: "v1beta1", plural: "imagepulljobs", kind: "ImagePullJob" };

/// Why a Pod is deleted.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum DeleteReason {
    /// There are too many.
    ScaleIn,
    /// It is named in `podsToDelete` or labelled, by a user or for an update that recreates it.
    Specified,
    /// Its deletion was decided before, and its preDelete hook now lets it go.
    Released,
    /// It has ended, and another one takes its place.
    Ended,
    /// Its update needs a new Pod.
    Recreate,
    /// It is on a Node where it does not belong.
    Misplaced,
}

/// Why a claim is written to.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ClaimReason {
    /// It is deleted with other objects from now on, or with none.
    Owners,
    /// Its size grows.
    Resize,
}

/// Why a Pod is written to.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum WriteReason {
    /// The selector does not match it any more: it stops belonging to the workload.
    Release,
    /// It belongs to nobody, and to the workload from now on, if that still exists as it was observed.
    Adopt,
    /// It gets the labels back by which it is known.
    KeepIdentity,
    /// Its lifecycle state changes, or its update in place continues.
    Progress,
    /// Its preDelete hook holds it: it waits for deletion.
    PrepareDelete,
    /// It is not to be deleted after all.
    KeepAfterAll,
    /// Its inPlaceUpdate hook holds it: it waits for its update.
    PrepareUpdate,
    /// It is updated in place.
    UpdateInPlace,
    /// It is labelled for deletion, since the update needs a new Pod.
    Recreate,
}

/// One thing to do. Actions of one list do not depend on one another.
#[derive(Clone, Debug, PartialEq)]
pub enum Action {
    /// Create the claims, then the Pod. A claim that exists already is as good as created.
    CreatePod {
        /// The Pod's name.
        name: String,
        /// The id that it shares with its claims; for kinds with a Pod on each Node, the Node.
        instance_id: String,
        /// The revision that it is made from.
        revision: String,
        /// The Pod's JSON.
        json: String,
        /// The claims that are missing.
        claims: Vec<NewClaim>,
    },
    /// Delete the Pod, with UID and resource version as preconditions, then its claims.
    DeletePod {
        /// The Pod.
        pod: ObjectVersion,
        /// Its claims.
        claims: Vec<ObjectVersion>,
        /// Why.
        reason: DeleteReason,
    },
    /// Send the writes one after another, the first with the resource version that was observed, each further
    /// one with that which the one before returned. The first failure ends them.
    WritePod {
        /// The Pod.
        pod: ObjectVersion,
        /// What to write, in this order.
        writes: Vec<PodWrite>,
        /// Why.
        reason: WriteReason,
        /// The revision to which an update leads; empty for other writes.
        revision: String,
    },
    /// Create a claim that a Pod needs which exists already. One that exists is as good as created.
    CreateClaim {
        /// The Pod.
        pod: String,
        /// The claim.
        claim: NewClaim,
    },
    /// Change a claim: send this strategic merge patch.
    WriteClaim {
        /// The claim.
        claim: ObjectVersion,
        /// The Pod that it belongs to.
        pod: String,
        /// The patch, with its preconditions.
        patch: String,
        /// Why.
        reason: ClaimReason,
    },
    /// Delete a claim that no Pod has.
    DeleteClaim(ObjectVersion),
    /// Let a claim go with a Pod that ends, has ended or is to be deleted, or no more: send this strategic
    /// merge patch.
    HandOverClaim {
        /// The claim.
        claim: ObjectVersion,
        /// The Pod that it is deleted with; empty where it stays.
        pod: String,
        /// The patch, with its preconditions.
        patch: String,
    },
    /// Create an object that is neither Pod nor claim. One that exists already is as good as created.
    CreateChild {
        /// Its kind.
        kind: ChildKind,
        /// Its name.
        name: String,
        /// Its JSON.
        json: String,
        /// The Event to record once it is created.
        created: Event,
        /// The Event to record where it can't be; the error is added to its message.
        failed: Event,
    },
    /// Send this merge patch to an object that is neither Pod nor claim.
    PatchChild {
        /// Its kind.
        kind: ChildKind,
        /// The object.
        child: ObjectVersion,
        /// The patch, with its preconditions.
        patch: String,
    },
    /// Make an object that is neither Pod nor claim and belongs to nobody the workload's, if that still exists as it
    /// was observed: send this merge patch.
    AdoptChild {
        /// Its kind.
        kind: ChildKind,
        /// The object.
        child: ObjectVersion,
        /// The patch, with its preconditions.
        patch: String,
    },
    /// Delete an object that is neither Pod nor claim, with its UID as precondition.
    DeleteChild {
        /// Its kind.
        kind: ChildKind,
        /// The object.
        child: ObjectVersion,
    },
}

/// What of a [`Action::CreatePod`] or [`Action::DeletePod`] was done, or failed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Part<'a> {
    /// The action's own object.
    Itself,
    /// The claim of this name.
    Claim(&'a str),
}

impl Action {
    /// Deletes the Pod as it was observed, which has no claims of its own.
    pub(crate) fn delete_pod(pod: &ObservedPod, reason: DeleteReason) -> Self {
        Self::DeletePod { pod: ObjectVersion::pod(pod), claims: Vec::new(), reason }
    }

    /// Writes to the Pod as it was observed; no update begins.
    pub(crate) fn write_pod(pod: &ObservedPod, writes: Vec<PodWrite>, reason: WriteReason) -> Self {
        Self::WritePod { pod: ObjectVersion::pod(pod), writes, reason, revision: String::new() }
    }

    /// The name of the object that changes.
    pub fn object(&self) -> &str {
        match self {
            Self::CreatePod { name, .. } | Self::CreateChild { name, .. } => name,
            Self::DeletePod { pod, .. } | Self::WritePod { pod, .. } => &pod.name,
            Self::CreateClaim { claim, .. } => &claim.name,
            Self::DeleteClaim(claim) | Self::HandOverClaim { claim, .. } | Self::WriteClaim { claim, .. } => {
                &claim.name
            }
            Self::PatchChild { child, .. }
            | Self::AdoptChild { child, .. }
            | Self::DeleteChild { child, .. } => &child.name,
        }
    }

    /// The UID of the Pod that it writes to.
    pub fn written_pod(&self) -> Option<&str> {
        match self {
            Self::WritePod { pod, .. } => Some(&pod.uid),
            _ => None,
        }
    }

    /// The Pod whose update it begins.
    pub fn updated_pod(&self) -> Option<&ObjectVersion> {
        match self {
            Self::WritePod {
                pod,
                reason: WriteReason::UpdateInPlace | WriteReason::PrepareUpdate | WriteReason::Recreate,
                ..
            }
            | Self::DeletePod { pod, reason: DeleteReason::Recreate, .. } => Some(pod),
            _ => None,
        }
    }

    /// It continues with what is in progress at a Pod, whatever is done about other Pods.
    pub fn goes_on(&self) -> bool {
        matches!(self, Self::WritePod { reason: WriteReason::Progress, .. })
    }

    /// The Event to record once it is done, for kinds that have no Events of their own for it
    /// (docs/behaviour/cloneset.md#events).
    pub fn success(&self) -> Option<Event> {
        match self {
            Self::CreatePod { name, .. } => {
                Some(normal("SuccessfulCreate", format!("succeed to create pod {name}")))
            }
            Self::DeletePod { pod, .. } => {
                Some(normal("SuccessfulDelete", format!("succeed to delete pod {}", pod.name)))
            }
            Self::WritePod { pod, reason: WriteReason::UpdateInPlace, revision, .. } => Some(normal(
                "SuccessfulUpdatePodInPlace",
                format!("successfully update pod {} in-place(revision {revision})", pod.name),
            )),
            Self::WritePod { pod, reason: WriteReason::Recreate, revision, .. } => Some(normal(
                "SuccessfulUpdatePodReCreate",
                format!(
                    "successfully patch pod {} specified-delete for update(revision {revision})",
                    pod.name
                ),
            )),
            Self::CreateChild { created, .. } => Some(created.clone()),
            _ => None,
        }
    }

    /// The Event to record where `part` of it failed. A conflict is not to be recorded: it says only that the
    /// object changed meanwhile (docs/behaviour/cloneset.md#conditions).
    pub fn failure(&self, part: Part<'_>, error: &dyn fmt::Display) -> Option<Event> {
        let event = match (self, part) {
            (Self::CreatePod { json, .. }, Part::Itself) => {
                warning("FailedCreate", format!("failed to create pod: {error}, pod: {json}"))
            }
            (Self::CreatePod { claims, .. }, Part::Claim(name)) => {
                let json = claims.iter().find(|claim| claim.name == name).map_or("", |claim| &claim.json);
                warning("FailedCreate", format!("failed to create pvc: {error}, pvc: {json}"))
            }
            (Self::DeletePod { .. }, Part::Claim(name)) => {
                warning("FailedDelete", format!("failed to delete pvc {name}: {error}"))
            }
            (Self::DeletePod { pod, .. }, Part::Itself) => {
                warning("FailedDelete", format!("failed to delete pod {}: {error}", pod.name))
            }
            (Self::DeleteClaim(claim), _) => {
                warning("FailedDelete", format!("failed to clean up PVC {}: {error}", claim.name))
            }
            (Self::CreateClaim { claim, .. }, _) => {
                warning("FailedCreate", format!("failed to create pvc: {error}, pvc: {}", claim.json))
            }
            (Self::HandOverClaim { claim, .. } | Self::WriteClaim { claim, .. }, _) => {
                warning("FailedUpdate", format!("failed to update PVC {}: {error}", claim.name))
            }
            (Self::WritePod { pod, reason: WriteReason::UpdateInPlace, revision, .. }, _) => warning(
                "FailedUpdatePodInPlace",
                format!("failed to update pod {} in-place(revision {revision}): {error}", pod.name),
            ),
            (Self::WritePod { pod, reason: WriteReason::Recreate, revision, .. }, _) => warning(
                "FailedUpdatePodReCreate",
                format!(
                    "failed to patch pod specified-delete {} for update(revision {revision}): {error}",
                    pod.name
                ),
            ),
            (Self::WritePod { pod, reason: WriteReason::PrepareDelete, .. }, _) => {
                warning("FailedDelete", format!("failed to delete pod {}: {error}", pod.name))
            }
            (Self::CreateChild { failed, .. }, _) => {
                Event { message: format!("{}: {error}", failed.message), ..*failed }
            }
            (
                Self::WritePod { .. }
                | Self::PatchChild { .. }
                | Self::AdoptChild { .. }
                | Self::DeleteChild { .. },
                _,
            ) => return None,
        };
        Some(event)
    }
}

impl fmt::Display for Action {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::CreatePod { name, revision, claims, .. } => {
                write!(formatter, "create Pod {name} at {revision}")?;
                for claim in claims {
                    write!(formatter, ", claim {}", claim.name)?;
                }
                Ok(())
            }
            Self::DeletePod { pod, claims, reason } => {
                write!(formatter, "delete Pod {} ({reason:?})", pod.name)?;
                for claim in claims {
                    write!(formatter, ", claim {}", claim.name)?;
                }
                Ok(())
            }
            Self::WritePod { pod, writes, reason, .. } => {
                write!(formatter, "write to Pod {} ({reason:?}):", pod.name)?;
                for write in writes {
                    write!(formatter, " {:?} {}", write.target, write.to_json(&ObservedPod::default()))?;
                }
                Ok(())
            }
            Self::CreateClaim { pod, claim } => {
                write!(formatter, "create claim {} of Pod {pod}", claim.name)
            }
            Self::WriteClaim { claim, pod, patch, reason } => {
                write!(formatter, "write to claim {} of Pod {pod} ({reason:?}): {patch}", claim.name)
            }
            Self::DeleteClaim(claim) => write!(formatter, "delete claim {}", claim.name),
            Self::HandOverClaim { claim, pod, .. } if pod.is_empty() => {
                write!(formatter, "keep claim {}", claim.name)
            }
            Self::HandOverClaim { claim, pod, .. } => {
                write!(formatter, "let claim {} go with Pod {pod}", claim.name)
            }
            Self::CreateChild { kind, name, .. } => write!(formatter, "create {} {name}", kind.kind),
            Self::PatchChild { kind, child, patch } => {
                write!(formatter, "patch {} {}: {patch}", kind.kind, child.name)
            }
            Self::AdoptChild { kind, child, .. } => write!(formatter, "adopt {} {}", kind.kind, child.name),
            Self::DeleteChild { kind, child } => write!(formatter, "delete {} {}", kind.kind, child.name),
        }
    }
}
