//! Deletion protection: finds out the numbers that the decision needs, counts and logs refusals.
//! The decision itself is [`kinds::deletion_protection`].

use api::features::Feature;
use kinds::deletion_protection::{self, Assessment, Kind, Need, Refusal, assess};
use kinds::uniteddeployment::validation::{review, trials};
use values::json_patch::Patch;
use values::verdict::Verdict;

use super::resource::Write;
use super::templates::judged;
use super::{cloneset, statefulset};
use crate::admission::Admission;
use crate::deadline::Deadline;
use crate::protection_log::Entry;
use crate::review::Request;

pub(crate) async fn validate(
    admission: &Admission,
    kind: Kind,
    request: &Request<'_>,
    deadline: Deadline,
) -> Verdict {
    if let Some(write) = Write::of(admission, request, deadline) {
        return written(kind, &write, request).await;
    }
    if request.operation != "DELETE" || !request.sub_resource.is_empty() {
        return Verdict::allow();
    }
    // A definition is read in the version of the request's kind; the Kruise workloads by their resource's.
    let version = match kind {
        Kind::CustomResourceDefinition => &request.kind.version,
        _ => &request.resource.version,
    };
    let mut assessment = assess(kind, version, request.old_object, &admission.gates);
    loop {
        assessment = match assessment {
            Assessment::Allowed => return allowed(admission, kind, request, deadline).await,
            Assessment::Invalid(denial) => return denial.into(),
            Assessment::Refused(refusal) => {
                record(admission, kind, request, &refusal);
                return refusal.denial.into();
            }
            Assessment::Undecided(question) => {
                let count = count(admission, question.need(), deadline).await;
                question.answer(count)
            }
        };
    }
}

/// Validates a create or an update of the kinds of ours, and reports a protection that is not understood.
async fn written(kind: Kind, write: &Write<'_>, request: &Request<'_>) -> Verdict {
    let mut verdict = match kind {
        Kind::CloneSet => cloneset::validate(write).await,
        Kind::AdvancedStatefulSet => statefulset::validate(write),
        Kind::UnitedDeployment => {
            judged(write, review(write.object, write.old, &write.context()), trials).await
        }
        _ => return Verdict::allow(),
    };
    if let Verdict::Allow { warnings, .. } = &mut verdict
        && write.gates().enabled(Feature::ResourcesDeletionProtection)
    {
        warnings.extend(request.object.and_then(deletion_protection::unknown_value));
    }
    verdict
}

/// Passes, and reports what the client may not expect (docs/behaviour/deletion-protection.md#warnings).
async fn allowed(admission: &Admission, kind: Kind, request: &Request<'_>, deadline: Deadline) -> Verdict {
    let mut warnings = Vec::new();
    if let Some(object) = request.old_object
        && admission.gates.enabled(Feature::ResourcesDeletionProtection)
    {
        warnings.extend(deletion_protection::unknown_value(object));
        if kind == Kind::Namespace
            && let Some(namespace) = deletion_protection::name(object)
        {
            let listing = admission.lookup.protected_objects(&namespace);
            let found = deadline.within("listing protected objects", listing).await.unwrap_or_default();
            let objects = found.iter().map(|(kind, object)| (*kind, object.as_raw_value()));
            warnings.extend(deletion_protection::left_behind(objects, &admission.gates));
        }
    }
    Verdict::Allow { edits: Patch::default(), warnings }
}

async fn count(admission: &Admission, need: &Need, deadline: Deadline) -> Result<usize, String> {
    let lookup = &admission.lookup;
    let counted = match need {
        Need::ActivePods { namespace } => {
            deadline.within("counting Pods", lookup.active_pods(namespace)).await
        }
        Need::BoundClaims { namespace } => {
            deadline.within("counting PersistentVolumeClaims", lookup.bound_claims(namespace)).await
        }
        // The count settles for what it found when its own time ends, which must come first.
        Need::CustomResources(resources) => {
            let timeout = deadline.remaining().mul_f64(0.9);
            let count = lookup.custom_resources(resources, timeout);
            deadline.within("counting custom resources", count).await
        }
    };
    match counted {
        Ok(answer) => answer.map_err(|error| error.to_string()),
        Err(slow) => Err(slow.to_string()),
    }
}

fn record(admission: &Admission, kind: Kind, request: &Request<'_>, refusal: &Refusal) {
    let Refusal { namespace, name, .. } = refusal;
    let requested_kind = if request.kind.kind.is_empty() { kind.name() } else { &request.kind.kind };
    let user = &*request.user_info.username;
    let user_label = admission.flags.user_names_in_metrics.then_some(user);
    let metrics = &admission.metrics;
    match kind {
        Kind::Namespace => metrics.namespaces_kept.count(name, user_label),
        Kind::CustomResourceDefinition => metrics.definitions_kept.count(name, user_label),
        _ => {
            let key = format!("{requested_kind}_{namespace}_{name}");
            let counter = match kind {
                Kind::Service | Kind::Ingress => &metrics.resources_kept,
                _ => &metrics.workloads_kept,
            };
            counter.count(&key, user_label);
        }
    }
    let kind = match kind {
        Kind::Namespace | Kind::CustomResourceDefinition => kind.name(),
        _ => requested_kind,
    };
    let entry = Entry { event: "DeletionProtection", kind, namespace, name, user };
    if !admission.protection_log.record(&entry) {
        metrics.log_lines_dropped.inc();
    }
}
