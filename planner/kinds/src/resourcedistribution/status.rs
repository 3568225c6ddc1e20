//! The result of a pass over the namespaces, and the status that reports it
//! (docs/behaviour/resourcedistribution.md#status).

use std::collections::BTreeMap;

use api::kinds::resourcedistribution::{DistributionCondition, Status};
use api::kinds::shared::ConditionStatus;
use jiff::Timestamp;
use serde_json::{Value, json, to_value};

use super::Distribution;

/// The reason for a namespace that is not there, or not for long.
pub const NO_NAMESPACE: &str = "namespace not found or is terminating";
/// The reason for a copy that belongs to somebody else.
pub const CONFLICT: &str =
    "conflict with existing resources because of the same namespace, group, version, kind and name";
/// The reason of a condition without failures.
const SUCCEEDED: &str = "Succeeded";

/// The sorts of failures, in the order of their conditions.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Failure {
    /// A copy can't be read.
    Get,
    /// A copy can't be created.
    Create,
    /// A copy can't be made equal.
    Update,
    /// A copy can't be deleted.
    Delete,
    /// An object of that name belongs to somebody else.
    Conflict,
    /// A listed namespace does not exist.
    NoNamespace,
}

impl Failure {
    const ALL: [Self; 6] =
        [Self::Get, Self::Create, Self::Update, Self::Delete, Self::Conflict, Self::NoNamespace];

    fn condition(self) -> &'static str {
        match self {
            Self::Get => "GetResourceFailed",
            Self::Create => "CreateResourceFailed",
            Self::Update => "UpdateResourceFailed",
            Self::Delete => "DeleteResourceFailed",
            Self::Conflict => "ConflictOccurred",
            Self::NoNamespace => "NamespaceNotExists",
        }
    }

    /// Whether to try again after a while. A watch reports the others.
    fn is_tried_again(self) -> bool {
        !matches!(self, Self::Conflict | Self::NoNamespace)
    }
}

/// The result of a pass.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Outcome {
    desired: usize,
    succeeded: usize,
    /// Namespaces and texts.
    failures: BTreeMap<Failure, BTreeMap<String, String>>,
}

impl Outcome {
    /// A pass over this many namespaces.
    pub fn of(desired: usize) -> Self {
        Self { desired, ..Self::default() }
    }

    /// A namespace has the right copy.
    pub fn succeeded(&mut self) {
        self.succeeded += 1;
    }

    /// A namespace failed.
    pub fn failed(&mut self, failure: Failure, namespace: &str, text: impl Into<String>) {
        self.failures.entry(failure).or_default().insert(namespace.to_owned(), text.into());
    }

    /// How many failures are tried again after a while, and the first of them.
    pub fn to_try_again(&self) -> Option<(usize, String)> {
        let again = || self.failures.iter().filter(|(failure, _)| failure.is_tried_again());
        let (failure, namespaces) = again().next()?;
        let (namespace, text) = namespaces.first_key_value()?;
        let count = again().map(|(_, namespaces)| namespaces.len()).sum();
        Some((count, format!("{namespace}: {}: {text}", failure.condition())))
    }

    fn status(&self, distribution: &Distribution, now: Timestamp) -> Status {
        let count =
            |number: usize| Some(i32::try_from(number).unwrap_or(i32::MAX)).filter(|count| *count > 0);
        let failed = self.desired.saturating_sub(self.succeeded);
        Status {
            conditions: Failure::ALL
                .into_iter()
                .map(|failure| self.condition(failure, &distribution.status, now))
                .collect(),
            desired: count(self.desired),
            succeeded: count(self.succeeded),
            failed: count(failed),
            observed_generation: distribution.generation,
        }
    }

    fn condition(&self, failure: Failure, old: &Status, now: Timestamp) -> DistributionCondition {
        let failures = self.failures.get(&failure);
        let first = failures.and_then(|failures| failures.first_key_value());
        let status = if first.is_some() { ConditionStatus::True } else { ConditionStatus::False };
        // By type, since the stored list may be shorter than ours.
        let known = old.conditions.iter().find(|known| known.kind == failure.condition());
        let since = known.filter(|known| known.status == status);
        DistributionCondition {
            failed_namespaces: failures.into_iter().flat_map(|failures| failures.keys().cloned()).collect(),
            last_transition_time: since
                .and_then(|known| known.last_transition_time.clone())
                .or_else(|| Some(now.into())),
            reason: first.map_or_else(|| SUCCEEDED.to_owned(), |(_, text)| text.clone()),
            status,
            kind: failure.condition().to_owned(),
        }
    }

    /// The merge patch of the status; `None` where nothing differs. It holds for the version that was read.
    pub fn patch(&self, distribution: &Distribution, now: Timestamp) -> Option<String> {
        let (old, new) = (&distribution.status, self.status(distribution, now));
        if *old == new {
            return None;
        }
        // Numbers and texts of ours only: nothing is lost on the way through a value.
        let mut status = to_value(&new).unwrap_or_default();
        let absent = [
            ("desired", new.desired.is_none() && old.desired.is_some()),
            ("succeeded", new.succeeded.is_none() && old.succeeded.is_some()),
            ("failed", new.failed.is_none() && old.failed.is_some()),
        ];
        if let Value::Object(members) = &mut status {
            let absent = absent.into_iter().filter(|(_, absent)| *absent);
            members.extend(absent.map(|(name, _)| (name.to_owned(), Value::Null)));
        }
        let metadata = json!({"resourceVersion": distribution.resource_version});
        Some(json!({"metadata": metadata, "status": status}).to_string())
    }
}

#[cfg(test)]
mod tests;
