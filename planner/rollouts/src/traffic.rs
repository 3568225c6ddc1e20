//! Which share of the requests goes to new Pods (docs/behaviour/rollouts.md#traffic).
//!
//! ```text
//!   service                    the Service of new Pods, and the stable one, which then selects old Pods alone
//!   ingress, gateway, custom   the network objects in front of them
//!   share                      which requests go to new Pods
//!   memory                     what an object was before the release
//!   three_way, covers          what users changed since, and whether an object is as it is to be
//! ```
//!
//! Each function looks at the objects as they are: called again after its writes, it has nothing left to write. Every
//! change is followed by a wait in which the network follows.

use std::collections::BTreeMap;
use std::time::Duration;

use api::kinds::rollout::{Step, TrafficRoutingRef};
use jiff::{SignedDuration, Timestamp};
use serde_json::Value;
use thiserror::Error as ThisError;
use values::moment;

use crate::object::{Object as _, ObjectName};
use crate::script::Scripts;
use crate::view::{Unread, View};
use crate::write::Write;

mod covers;
mod custom;
mod gateway;
mod ingress;
mod memory;
mod service;
mod share;
#[cfg(test)]
mod tests;
mod three_way;

pub use ingress::unsupported;
use share::Share;

/// Whose traffic is routed, and what is known of its release.
#[derive(Clone, Copy, Debug)]
pub struct Context<'a> {
    /// The owner reference that objects which are made get: that of the Rollout or TrafficRouting.
    pub owner: &'a Value,
    /// The namespace of all objects.
    pub namespace: &'a str,
    /// The Service, and the network objects in front of it.
    pub routing: &'a TrafficRoutingRef,
    /// What the revision label of old Pods says.
    pub stable_revision: &'a str,
    /// What the revision label of new Pods says.
    pub canary_revision: &'a str,
    /// The label of Pods that tells old and new ones apart.
    pub revision_label: &'a str,
    /// Labels that only new Pods have.
    pub patch_labels: &'a BTreeMap<String, String>,
    /// The canary Service selects all of these labels, instead of only those that the stable Service selects too.
    pub append_pod_selector: bool,
    /// There is one Service for old and new Pods, and it stays as it is.
    pub disable_canary_service: bool,
    /// When traffic was last changed.
    pub last_change: Option<Timestamp>,
    /// The time.
    pub now: Timestamp,
    /// The scripts of users.
    pub scripts: &'a Scripts,
}

/// How far traffic is.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Progress {
    /// What to write, in this order.
    pub writes: Vec<Write>,
    /// Traffic is as it is to be, and the network had the time to follow.
    pub done: bool,
    /// Something is written: the wait for the network begins anew.
    pub changed: bool,
    /// When to look again.
    pub again: Option<Duration>,
    /// What people should know: what is waited for, or what of a step can't be done.
    pub message: Option<String>,
}

/// Why traffic can't be routed.
#[derive(Clone, Debug, PartialEq, Eq, ThisError)]
pub enum Error {
    /// Something must be read first.
    #[error("not read yet: {0:?}")]
    Unread(Unread),
    /// Something is wrong that a person has to put right, or that passes with time.
    #[error("{0}")]
    Problem(String),
}

impl From<Unread> for Error {
    fn from(unread: Unread) -> Self {
        Self::Unread(unread)
    }
}

impl From<String> for Error {
    fn from(problem: String) -> Self {
        Self::Problem(problem)
    }
}

impl Progress {
    fn done() -> Self {
        Self { done: true, ..Self::default() }
    }
}

impl Context<'_> {
    /// The name of the Service of new Pods.
    fn canary_service(&self) -> String {
        let stable = &self.routing.service;
        if self.disable_canary_service { stable.clone() } else { format!("{stable}-canary") }
    }

    /// Who routes, as objects that it has changed remember it.
    fn holder(&self) -> String {
        format!("{} {}", self.owner.text("/kind"), self.owner.text("/name"))
    }

    fn object(&self, api_version: &str, kind: &str, name: &str) -> ObjectName {
        ObjectName::new(api_version, kind, self.namespace, name)
    }

    /// An object was made for this release, or for an earlier one of the same Rollout.
    fn owns(&self, object: &Value) -> bool {
        let is_owner = |owner: &Value| {
            owner.text("/kind") == self.owner.text("/kind") && owner.text("/name") == self.owner.text("/name")
        };
        object.items("/metadata/ownerReferences").iter().any(is_owner)
    }

    fn grace(&self) -> Duration {
        Duration::from_secs(u64::try_from(self.routing.grace_period()).unwrap_or(0))
    }

    /// How long the network still has to follow the last change.
    fn rest(&self) -> Option<Duration> {
        let grace = SignedDuration::try_from(self.grace()).ok()?;
        let rest = moment::until(self.last_change?.saturating_add(grace).ok()?, self.now)?;
        // A clock that was put back makes nobody wait for longer.
        Some(rest.min(self.grace()))
    }

    /// The writes that are left, one wait after the last ones.
    fn change(&self, left: impl FnOnce() -> Result<Vec<Write>, Error>) -> Result<Progress, Error> {
        let message =
            || Some(format!("the network gets {}s to follow a change of traffic", self.grace().as_secs()));
        if let Some(rest) = self.rest() {
            return Ok(Progress { again: Some(rest), message: message(), ..Progress::default() });
        }
        let writes = left()?;
        if writes.is_empty() {
            return Ok(Progress::done());
        }
        Ok(Progress { writes, done: false, changed: true, again: Some(self.grace()), message: message() })
    }
}

/// Sees whether the Service, the network objects and their scripts are there.
///
/// # Errors
/// One is missing, or has not been read.
pub fn check(context: &Context<'_>, view: &View) -> Result<Progress, Error> {
    let routing = context.routing;
    service::stable(context, view)?;
    if let Some(reference) = &routing.ingress {
        ingress::stable(context, reference, view)?;
        context.scripts.ingress(reference.class())?;
    }
    if let Some(reference) = &routing.gateway {
        gateway::http_route(context, reference, view)?;
    }
    for reference in &routing.custom_network_refs {
        custom::object(context, reference, view)?;
        custom::script(context, reference)?;
    }
    Ok(Progress::done())
}

/// Routes the requests of a step to new Pods; a step that says nothing of traffic changes none.
///
/// # Errors
/// Something is missing, can't be expressed, or has not been read.
pub fn route_step(context: &Context<'_>, step: &Step, view: &View) -> Result<Progress, Error> {
    let Some(share) = Share::of(step)? else { return Ok(Progress::done()) };
    let mut progress = route(context, &share, view)?;
    if progress.message.is_none() {
        progress.message = unsupported(context.routing, step, context.scripts);
    }
    Ok(progress)
}

/// Routes all requests to new Pods.
///
/// # Errors
/// As of [`route_step`].
pub fn route_to_new(context: &Context<'_>, view: &View) -> Result<Progress, Error> {
    route(context, &Share::all(), view)
}

fn route(context: &Context<'_>, share: &Share, view: &View) -> Result<Progress, Error> {
    context.change(|| {
        let services = service::route(context, view)?;
        if services.is_empty() { route_providers(context, share, view) } else { Ok(services) }
    })
}

fn route_providers(context: &Context<'_>, share: &Share, view: &View) -> Result<Vec<Write>, Error> {
    let routing = context.routing;
    let mut writes = Vec::new();
    if let Some(reference) = &routing.ingress {
        writes.extend(ingress::route(context, reference, share, view)?);
    }
    if let Some(reference) = &routing.gateway {
        writes.extend(gateway::route(context, reference, share, view)?);
    }
    for reference in &routing.custom_network_refs {
        writes.extend(custom::route(context, reference, share, view)?);
    }
    Ok(writes)
}

/// Puts the network objects back as they were: all requests go to the stable Service.
///
/// # Errors
/// What is needed to put one back can't be read, or has not been read.
pub fn route_to_stable(context: &Context<'_>, view: &View) -> Result<Progress, Error> {
    context.change(|| {
        let routing = context.routing;
        let mut writes = Vec::new();
        if let Some(reference) = &routing.ingress {
            writes.extend(ingress::restore(context, reference, view)?);
        }
        if let Some(reference) = &routing.gateway {
            writes.extend(gateway::restore(context, reference, view)?);
        }
        for reference in &routing.custom_network_refs {
            writes.extend(custom::restore(context, reference, view)?);
        }
        Ok(writes)
    })
}

/// Has the stable Service select old Pods alone.
///
/// # Errors
/// There is no such Service, or it has not been read.
pub fn patch_stable_service(context: &Context<'_>, view: &View) -> Result<Progress, Error> {
    context.change(|| service::narrow(context, view))
}

/// Has the stable Service select old and new Pods, as before the release.
///
/// # Errors
/// It has not been read.
pub fn restore_stable_service(context: &Context<'_>, view: &View) -> Result<Progress, Error> {
    context.change(|| service::widen(context, view))
}

/// Deletes the Service of new Pods.
///
/// # Errors
/// It has not been read.
pub fn remove_canary_service(context: &Context<'_>, view: &View) -> Result<Progress, Error> {
    context.change(|| service::remove(context, view))
}
