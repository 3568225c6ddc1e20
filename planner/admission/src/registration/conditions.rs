//! Which requests come to an entry, as expressions of the Common Expression Language: what they leave out costs nothing,
//! and can't fail while nobody answers.

use api::annotations::{CONTAINER_EXIT_PRIORITY, IN_PROGRESSING, ORIGINAL_DEPLOYMENT_STRATEGY};
use api::labels::ROLLOUT_ID;
use serde::{Deserialize, Serialize};

use super::ConfigurationKind;
use crate::endpoint::{Entry, Purpose, entries};

/// One condition; all of an entry must hold.
#[derive(Clone, Debug, PartialEq, Eq, Deserialize, Serialize)]
pub(super) struct MatchCondition {
    name: String,
    expression: String,
}

impl MatchCondition {
    fn new(name: &str, expression: String) -> Self {
        Self { name: name.to_owned(), expression }
    }
}

/// The conditions of an entry.
pub(super) fn match_conditions(entry: &Entry) -> Vec<MatchCondition> {
    match entry.purpose {
        Purpose::ExitPriority => vec![MatchCondition::new("container-exit-priority", asks_for_order())],
        Purpose::KnownWorkload | Purpose::OtherWorkload => {
            let own_entry =
                (entry.resource == "*").then(|| MatchCondition::new("without-own-entry", is_rest()));
            own_entry.into_iter().chain([MatchCondition::new("release", concerns_release())]).collect()
        }
        Purpose::Pods | Purpose::Protection | Purpose::OwnKind => Vec::new(),
    }
}

/// Pods that ask for no order cost nothing.
fn asks_for_order() -> String {
    format!("has(object.metadata.annotations) && '{CONTAINER_EXIT_PRIORITY}' in object.metadata.annotations")
}

/// A release begins with another template or another identity of it. While one is running the workload may not be let go or
/// opened, and while a blue-green one is running the settings may not change that it has saved. Nothing else concerns a
/// release: replicas and metadata change without us.
fn concerns_release() -> String {
    let value = |object: &str| format!("(field in {object}.spec ? [{object}.spec[field]] : [])");
    let id = |object: &str| {
        format!(
            "(part in {object}.metadata && '{ROLLOUT_ID}' in {object}.metadata[part] ? \
             {object}.metadata[part]['{ROLLOUT_ID}'] : '')"
        )
    };
    let changes =
        |fields: &str| format!("{fields}.exists(field, {} != {})", value("object"), value("oldObject"));
    let has = |annotation: &str| {
        format!(
            "[object, oldObject].exists(held, has(held.metadata.annotations) && \
             '{annotation}' in held.metadata.annotations)"
        )
    };
    format!(
        "has(object.spec) && has(oldObject.spec) && ({} || \
         ['labels', 'annotations'].exists(part, {} != {}) || {} && {} || {} && {})",
        changes("['template']"),
        id("object"),
        id("oldObject"),
        has(IN_PROGRESSING),
        changes("['paused', 'strategy', 'updateStrategy']"),
        has(ORIGINAL_DEPLOYMENT_STRATEGY),
        changes("['minReadySeconds', 'progressDeadlineSeconds']"),
    )
}

/// Kinds with an entry of their own don't come by the entry of any kind too.
fn is_rest() -> String {
    let own = entries(ConfigurationKind::MutatingRollouts).iter();
    let own = own.filter(|entry| entry.resource != "*" && entry.purpose == Purpose::KnownWorkload);
    let own: Vec<String> = own.map(|entry| format!("'{}/{}'", entry.group, entry.resource)).collect();
    format!("!(request.resource.group + '/' + request.resource.resource in [{}])", own.join(", "))
}
