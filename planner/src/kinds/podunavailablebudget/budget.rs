//! What is kept of a PodUnavailableBudget: whose Pods it protects.

use std::borrow::Cow;
use std::cmp::Ordering;

use api::kinds::podunavailablebudget::{PodUnavailableBudget, TargetReference};
use jiff::Timestamp;

use crate::pod::selector::PodSelector;
use crate::text::selector::SelectorError;
use crate::workload::namespaced::Entry;

/// A budget as far as the mark needs it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Budget {
    pub(crate) name: Box<str>,
    pub(crate) target: Option<Workload<'static>>,
    pub(crate) selector: PodSelector,
    /// Unset it counts as the youngest, so that a manifest does not displace what is there.
    created: Timestamp,
}

/// A workload by group, kind and name; versions do not matter
/// (docs/behaviour/api-and-registration.md#objects-of-older-releases).
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Workload<'a> {
    pub(crate) group: Cow<'a, str>,
    pub(crate) kind: Cow<'a, str>,
    pub(crate) name: Cow<'a, str>,
}

impl Budget {
    pub(crate) fn read(name: &str, object: &str) -> Result<Self, serde_json::Error> {
        let PodUnavailableBudget { metadata, spec, .. } = serde_json::from_str(object)?;
        Ok(Self {
            name: name.into(),
            target: spec.target_ref.map(Workload::from),
            selector: PodSelector::compile(spec.selector.as_ref()),
            created: metadata.creation_timestamp.and_then(|time| time.timestamp()).unwrap_or(Timestamp::MAX),
        })
    }

    /// Why the selector can't be used, if so.
    pub(crate) fn problem(&self) -> Option<&SelectorError> {
        self.selector.problem()
    }
}

impl From<TargetReference> for Workload<'static> {
    fn from(target: TargetReference) -> Self {
        let group = target.api_version.split_once('/').map_or("", |(group, _)| group).to_owned();
        Self { group: group.into(), kind: target.kind.into(), name: target.name.into() }
    }
}

impl Entry for Budget {
    fn name(&self) -> &str {
        &self.name
    }

    /// A budget that names its workload goes first, then the oldest, then by name
    /// (docs/behaviour/pod-mutation.md#podunavailablebudget-mark).
    fn precedence(&self, other: &Self) -> Ordering {
        let rank = |budget: &Self| (budget.target.is_none(), budget.created);
        rank(self).cmp(&rank(other)).then_with(|| self.name.cmp(&other.name))
    }
}
