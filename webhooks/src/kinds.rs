//! Which rules are behind each webhook. Rules that need more than the write itself have a file per kind: it reads a review,
//! asks the planner and gives its verdict. They know nothing of paths, HTTP or each other.

use ::kinds::imagepulljob::pull_when;
use ::kinds::{
    advancedcronjob, broadcastjob, daemonset, ephemeraljob, imagelistpulljob, imagepulljob, nodeimage,
    podprobemarker,
};
use ::pod::review::Pod;
use admission::endpoint::Endpoint;
use api::features::Feature;
use futures::future::BoxFuture;
use serde_json::value::RawValue;
use values::json_patch::Patch;
use values::verdict::{Denial, Verdict};

use crate::admission::Admission;
use crate::deadline::Deadline;
use crate::review::Request;
use resource::Write;
use templates::{Trying, judged};

mod cloneset;
mod containerrecreaterequest;
mod exit_priority;
mod persistentpodstate;
pub(crate) mod pod;
mod pod_validation;
mod podunavailablebudget;
mod protection;
mod resource;
mod resourcedistribution;
mod rollout;
mod sidecarset;
mod statefulset;
mod templates;
mod workloadspread;

/// Completes a custom resource, in the version of the request. Needs no cache.
type Defaulting = fn(&Write<'_>) -> Result<Patch, Denial>;
/// Checks a custom resource by what is at hand.
type Check = fn(&Write<'_>) -> Verdict;
/// Checks a custom resource, and asks the cluster.
type Inquiry = for<'a> fn(&'a Write<'a>) -> BoxFuture<'a, Verdict>;

const IMAGE_GATES: [Feature; 2] = [Feature::KruiseDaemon, Feature::ImagePullJobGate];

/// What the rules behind `endpoint` say to a request. Those of custom resources have nothing to say to deletes and
/// subresources.
pub(crate) async fn decide(
    admission: &Admission,
    endpoint: Endpoint,
    request: &Request<'_>,
    deadline: Deadline,
) -> Verdict {
    let write = Write::of(admission, request, deadline);
    let complete = |rules: Defaulting| {
        let edited = |write| rules(write).map_or_else(Verdict::from, Verdict::edit);
        write.as_ref().map_or_else(Verdict::allow, edited)
    };
    let check = |rules: Check| write.as_ref().map_or_else(Verdict::allow, rules);
    let try_templates = async |rules: Check, trials: Trying| match &write {
        Some(write) => judged(write, rules(write), trials).await,
        None => Verdict::allow(),
    };
    let ask = async |rules: Inquiry| match &write {
        Some(write) => rules(write).await,
        None => Verdict::allow(),
    };
    match endpoint {
        Endpoint::MutatePod => match Pod::read(request.object.map_or("null", RawValue::get)) {
            Ok(pod) => pod::mutate(admission, request, pod, deadline).await,
            Err(denial) => denial.into(),
        },
        Endpoint::ValidatePod => pod_validation::validate(admission, request, deadline).await,
        Endpoint::MutateExitPriority => exit_priority::mutate(admission, request),
        Endpoint::ValidateExitPriority => exit_priority::validate(admission, request),
        Endpoint::Protect(kind) => protection::validate(admission, kind, request, deadline).await,
        Endpoint::MutateAdvancedCronJob => {
            complete(|it| advancedcronjob::defaulting::default(it.object, it.old, it.gates()))
        }
        Endpoint::MutateBroadcastJob => {
            complete(|it| broadcastjob::defaulting::default(it.object, it.old, it.version, it.gates()))
        }
        Endpoint::MutateCloneSet => {
            complete(|it| ::kinds::cloneset::defaulting::default(it.object, it.old, it.version, it.gates()))
        }
        Endpoint::MutateDaemonSet => {
            complete(|it| daemonset::defaulting::default(it.object, it.old, it.version))
        }
        Endpoint::MutateImageListPullJob => {
            complete(|it| it.edited_spec(|| imagelistpulljob::defaulting::default(it.object)))
        }
        Endpoint::MutateImagePullJob => complete(|it| {
            it.edited_spec(|| imagepulljob::defaulting::default(it.object, it.version, it.old.is_none()))
        }),
        Endpoint::MutateNodeImage => {
            complete(|it| nodeimage::defaulting::default(it.object, it.old, (it.admission.clock)().now))
        }
        Endpoint::MutateSidecarSet => {
            complete(|it| ::kinds::sidecarset::defaulting::default(it.object, it.version))
        }
        Endpoint::MutateStatefulSet => complete(|it| {
            ::kinds::statefulset::defaulting::default(it.object, it.old, it.version, it.gates())
        }),
        Endpoint::MutateUnitedDeployment => complete(|it| {
            ::kinds::uniteddeployment::defaulting::default(it.object, it.old, it.version, it.gates())
        }),
        Endpoint::MutateContainerRecreateRequest => {
            ask(|it| Box::pin(containerrecreaterequest::admit(it))).await
        }
        Endpoint::ValidateAdvancedCronJob => {
            use advancedcronjob::validation::{review, trials};
            try_templates(|it| review(it.object, it.old, &it.context()), trials).await
        }
        Endpoint::ValidateBroadcastJob => {
            use broadcastjob::validation::{review, trials};
            try_templates(|it| review(it.object, it.old, &it.context()), trials).await
        }
        Endpoint::ValidateDaemonSet => {
            use daemonset::validation::{review, trials};
            try_templates(|it| review(it.object, it.old, &it.context()), trials).await
        }
        Endpoint::ValidateEphemeralJob => check(|it| {
            ephemeraljob::validation::review(it.object, it.old, it.admission.flags.allow_privileged)
        }),
        Endpoint::ValidateImageListPullJob => {
            check(|it| pull_job(it, || imagelistpulljob::validation::review(it.object)))
        }
        Endpoint::ValidateImagePullJob => {
            check(|it| pull_job(it, || imagepulljob::validation::review(it.object, it.old)))
        }
        Endpoint::ValidateNodeImage => check(|it| {
            it.early_answer(&[Feature::KruiseDaemon])
                .unwrap_or_else(|| nodeimage::validation::review(it.object))
        }),
        Endpoint::ValidatePersistentPodState => check(persistentpodstate::validate),
        Endpoint::ValidatePodProbeMarker => check(|it| {
            it.without_gate(&[Feature::PodProbeMarkerGate, Feature::KruiseDaemon])
                .unwrap_or_else(|| podprobemarker::validation::review(it.object, it.old))
        }),
        Endpoint::ValidatePodUnavailableBudget => check(podunavailablebudget::validate),
        Endpoint::ValidateResourceDistribution => {
            ask(|it| Box::pin(resourcedistribution::validate(it))).await
        }
        Endpoint::FreezeWorkload => ask(|it| Box::pin(rollout::freeze(it))).await,
        Endpoint::ValidateRollout => ask(|it| Box::pin(rollout::validate(it))).await,
        Endpoint::ValidateSidecarSet => {
            try_templates(sidecarset::validate, ::kinds::sidecarset::validation::trials).await
        }
        Endpoint::ValidateWorkloadSpread => ask(|it| Box::pin(workloadspread::validate(it))).await,
    }
}

/// Jobs that pull images: an annotation that changes alone is reviewed too.
fn pull_job(write: &Write<'_>, review: impl FnOnce() -> Verdict) -> Verdict {
    let refused = pull_when::refusal(write.object, write.old);
    refused.or_else(|| write.early_answer(&IMAGE_GATES)).unwrap_or_else(review)
}
