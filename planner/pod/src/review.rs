//! A Pod under review: what the steps of `/mutate-pod` read of it, and the edits they make. The steps themselves are
//! beside this module and in the kinds that take part; their order is in `admission::pod_review`.

use api::features::FeatureGates;
use serde::Deserialize;

use values::json;
use values::moment::{Moment, Random};
use values::verdict::Denial;

pub mod draft;
pub mod lens;

pub use draft::Draft;
use draft::not_a_pod;
use lens::PodText;

/// The operation of an admission request.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Operation {
    /// `CREATE`
    Create,
    /// `UPDATE`
    Update,
    /// `DELETE`
    Delete,
    /// `CONNECT`
    Connect,
}

/// What the rules read of a Pod.
#[derive(Clone, Debug, Deserialize)]
pub struct Pod<'a>(#[serde(borrow)] pub PodText<'a>);

impl<'a> Pod<'a> {
    /// Reads a Pod that is a document by itself.
    ///
    /// # Errors
    /// A denial with code 400 for whatever is not a Pod.
    pub fn read(text: &'a str) -> Result<Self, Denial> {
        json::from_str(text).map_err(|error| not_a_pod(&error))
    }

    /// The JSON text that it was read from.
    pub fn text(&self) -> &'a str {
        self.0.text
    }
}

/// An admission request for a Pod.
#[derive(Clone, Debug)]
pub struct PodReview<'a> {
    /// What is asked for.
    pub operation: Operation,
    /// Nothing will be stored: steps that change other objects are left out.
    pub dry_run: bool,
    /// The subresource; empty for the Pod itself.
    pub subresource: &'a str,
    /// The resource, `pods`.
    pub resource: &'a str,
    /// The request's namespace.
    pub namespace: &'a str,
    /// The Pod.
    pub object: Pod<'a>,
}

/// What the steps of one review share, beside the Pod.
#[derive(Debug)]
pub struct ReviewContext<'a> {
    /// The feature gates.
    pub gates: &'a FeatureGates,
    /// Time and chance of the review.
    pub moment: Moment,
    /// Random numbers that the steps draw.
    pub random: Random,
}

impl<'a> ReviewContext<'a> {
    /// What the steps of a review at this moment share.
    pub fn new(gates: &'a FeatureGates, moment: Moment) -> Self {
        Self { gates, moment, random: moment.random() }
    }
}

/// What each object that a step checked is to the Pod, noted only where somebody asks.
#[derive(Debug)]
pub struct Reasons<R>(Option<Vec<(String, R)>>);

impl<R> Reasons<R> {
    /// No reasons yet.
    pub fn new(wanted: bool) -> Self {
        Self(wanted.then(Vec::new))
    }

    /// Somebody asks.
    pub fn are_wanted(&self) -> bool {
        self.0.is_some()
    }

    /// Notes what the object `name` is to the Pod.
    pub fn note(&mut self, name: &str, reason: impl FnOnce() -> R) {
        if let Some(reasons) = &mut self.0 {
            reasons.push((name.to_owned(), reason()));
        }
    }

    /// Names and reasons.
    pub fn into_noted(self) -> impl Iterator<Item = (String, R)> {
        self.0.into_iter().flatten()
    }
}
