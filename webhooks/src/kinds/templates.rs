//! Pod templates are judged by the API server, by its own rules (docs/behaviour/pod-template.md#what-the-cluster-judges).

use std::time::Duration;

use cluster::resource::POD_TEMPLATES;
use futures::StreamExt;
use futures::stream;
use kinds::workload::trials::Trials;
use pod::template::trial::{Judgement, Trial};
use tokio::time::timeout_at;
use values::field::aggregate;
use values::verdict::Verdict;

use super::resource::Write;

/// The longest time for all templates of a review.
const LONGEST: Duration = Duration::from_secs(2);
/// Templates that are tried at the same time.
const AT_ONCE: usize = 8;

/// What the API server is asked about an object that is created or, with the second text, updated.
pub(super) type Trying = fn(&str, Option<&str>) -> Trials;

/// A verdict that allows, once the API server has judged the templates of the object too.
pub(crate) async fn judged(
    write: &Write<'_>,
    verdict: Verdict,
    trials: impl FnOnce(&str, Option<&str>) -> Trials,
) -> Verdict {
    let Verdict::Allow { edits, mut warnings } = verdict else { return verdict };
    let trials = trials(write.object, write.old);
    let trier = Trier::of(write);
    let tries: Vec<_> = trials.list.iter().map(|trial| trier.judge(trial)).collect();
    let judgements: Vec<Judgement> = stream::iter(tries).buffered(AT_ONCE).collect().await;
    let mut errors = Vec::new();
    for judgement in judgements {
        errors.extend(judgement.errors);
        warnings.extend(judgement.warnings);
    }
    match aggregate(&errors) {
        Some(message) => Verdict::deny(trials.code, message),
        None => Verdict::Allow { edits, warnings },
    }
}

/// Who tries the templates of one review.
struct Trier<'a> {
    write: &'a Write<'a>,
    namespace: String,
    deadline: tokio::time::Instant,
}

impl<'a> Trier<'a> {
    fn of(write: &'a Write<'a>) -> Self {
        // What has no namespace is tried in our own.
        let namespace = match write.namespace {
            "" => write.admission.index.world().install_namespace().to_owned(),
            namespace => namespace.to_owned(),
        };
        Self { write, namespace, deadline: write.deadline.at_most(LONGEST).moment() }
    }

    /// What was wrong with the stored template already is no reason to refuse an update.
    async fn judge(&self, trial: &Trial) -> Judgement {
        let mut judgement = match self.ask(trial, trial.object()).await {
            Ok(judgement) => judgement,
            Err(problem) => return trial.not_judged(&problem),
        };
        if !judgement.errors.is_empty()
            && let Some(stored) = trial.stored_object()
            && let Ok(known) = self.ask(trial, stored).await
        {
            judgement.errors.retain(|error| !known.errors.contains(error));
        }
        judgement
    }

    /// Tries a PodTemplate; the error says why there is no judgement.
    async fn ask(&self, trial: &Trial, object: String) -> Result<Judgement, String> {
        let creation = self.write.admission.lookup.try_creation(POD_TEMPLATES, &self.namespace, object);
        match timeout_at(self.deadline, creation).await {
            Ok(Ok(())) => Ok(Judgement::default()),
            Ok(Err(error)) if error.invalid_fields().next().is_some() => {
                Ok(trial.judge(error.invalid_fields()))
            }
            Ok(Err(error)) => Err(error.to_string()),
            Err(_) => Err("no answer from the API server in time".to_owned()),
        }
    }
}
