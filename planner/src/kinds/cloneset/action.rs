//! What a plan says to do, as data: to be carried out by the controller, applied by a simulation, printed
//! for people.

use std::fmt;

use crate::pod::observed::{ObservedPod, PodMetadata};
use crate::pod::write::PodWrite;
use crate::workload::event::Event;
use crate::workload::revision::workload::NewRevision;

pub use super::pod::NewClaim;

/// An object and the state of it that was looked at: the precondition of a write.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Seen {
    /// Its name.
    pub name: String,
    /// Its identity.
    pub uid: String,
    /// The version that was looked at.
    pub resource_version: String,
}

impl Seen {
    /// The Pod as it is in the snapshot.
    pub fn pod(pod: &ObservedPod) -> Self {
        Self::of(&pod.metadata)
    }

    pub(super) fn of(metadata: &PodMetadata) -> Self {
        Self {
            name: metadata.name.to_string(),
            uid: metadata.uid.to_string(),
            resource_version: metadata.resource_version.to_string(),
        }
    }
}

/// The revision to write before anything else can be planned.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum RevisionStep {
    /// Create it. Where the name is taken, [`NewRevision::after_collision`] says how to go on.
    Create(Box<NewRevision>),
    /// An older revision is wanted again: send this merge patch to it.
    Bump {
        /// The revision.
        revision: Seen,
        /// The merge patch, with its preconditions.
        patch: String,
    },
}

/// Why a Pod is deleted.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum DeleteReason {
    /// There are too many.
    ScaleIn,
    /// It is named in `podsToDelete` or labelled, by a user or for an update that recreates it.
    Specified,
    /// Its deletion was decided before, and its preDelete hook now lets it go.
    Released,
}

/// Why a Pod is written to.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum WriteReason {
    /// The selector does not match it any more: it stops belonging to the CloneSet.
    Release,
    /// It goes to another state of its life, or its update in place goes on.
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
        /// The id that it shares with its claims.
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
        pod: Seen,
        /// Its claims.
        claims: Vec<Seen>,
        /// Why.
        reason: DeleteReason,
    },
    /// Send the writes one after another, the first with the resource version that was seen, each further
    /// one with that which the one before returned. The first failure ends them.
    WritePod {
        /// The Pod.
        pod: Seen,
        /// What to write, in this order.
        writes: Vec<PodWrite>,
        /// Why.
        reason: WriteReason,
        /// The revision to which an update leads; empty for other writes.
        revision: String,
    },
    /// Delete a claim that no Pod has.
    DeleteClaim(Seen),
    /// Let a claim go with a Pod that ends, has ended or is to be deleted, or no more: send this strategic
    /// merge patch.
    HandOverClaim {
        /// The claim.
        claim: Seen,
        /// The Pod that it goes with; empty where it stays.
        pod: String,
        /// The patch, with its preconditions.
        patch: String,
    },
}

fn normal(reason: &'static str, message: String) -> Event {
    Event { warning: false, reason, message }
}

pub(super) fn warning(reason: &'static str, message: String) -> Event {
    Event { warning: true, reason, message }
}

/// What of a [`Action::CreatePod`] or [`Action::DeletePod`] failed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Part<'a> {
    /// The action's own object.
    Itself,
    /// The claim of this name.
    Claim(&'a str),
}

impl Action {
    /// The name of the Pod or claim that changes.
    pub fn object(&self) -> &str {
        match self {
            Self::CreatePod { name, .. } => name,
            Self::DeletePod { pod, .. } | Self::WritePod { pod, .. } => &pod.name,
            Self::DeleteClaim(claim) | Self::HandOverClaim { claim, .. } => &claim.name,
        }
    }

    /// The Pod whose update it begins.
    pub fn updated_pod(&self) -> Option<&Seen> {
        match self {
            Self::WritePod {
                pod,
                reason: WriteReason::UpdateInPlace | WriteReason::PrepareUpdate | WriteReason::Recreate,
                ..
            } => Some(pod),
            _ => None,
        }
    }

    /// The Event to record once it is done (spec 31 §13).
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
            Self::WritePod { .. } | Self::DeleteClaim(_) | Self::HandOverClaim { .. } => None,
        }
    }

    /// The Event to record where `part` of it failed. A conflict is not to be recorded: it says only that
    /// the object changed meanwhile (sharp edge 6).
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
            (Self::HandOverClaim { claim, .. }, _) => {
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
            (Self::WritePod { .. }, _) => return None,
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
                    write!(formatter, " {:?} {}", write.target, write.to_json("", ""))?;
                }
                Ok(())
            }
            Self::DeleteClaim(claim) => write!(formatter, "delete claim {}", claim.name),
            Self::HandOverClaim { claim, pod, .. } if pod.is_empty() => {
                write!(formatter, "keep claim {}", claim.name)
            }
            Self::HandOverClaim { claim, pod, .. } => {
                write!(formatter, "let claim {} go with Pod {pod}", claim.name)
            }
        }
    }
}
