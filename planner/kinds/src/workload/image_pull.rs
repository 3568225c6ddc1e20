//! What jobs that pull images ask for, one image or a list of them: defaults and checks of what both have
//! (docs/behaviour/images.md#imagepulljob).

use std::collections::BTreeSet;

use api::kinds::imagelistpulljob;
use api::kinds::imagepulljob::Spec;
use api::kinds::shared::{CompletionPolicyType, IntOrString};
use api::meta::LabelSelector;

use pod::template::metadata::validate_selector;
use pod::template::place::Place;
use values::field::{FieldPath, aggregate};
use values::image_reference::NamedImage;
use values::json_patch::Patch;
use values::verdict::{Denial, refused};

/// Seconds that one attempt may take, where nothing is said.
pub const TIMEOUT_SECONDS: i32 = 600;
/// How often a failed pull is tried again, where nothing is said.
pub const BACKOFF_LIMIT: i32 = 3;
/// Whether the registry is asked, where nothing is said.
pub const IMAGE_PULL_POLICY: &str = "IfNotPresent";

/// How many images a list may have.
const MOST_IMAGES: usize = 255;

/// Defaults what both kinds of jobs have. Gives the spec.
pub(crate) fn default_spec<'a>(job: &Place<'a>, patch: &mut Patch) -> Option<Place<'a>> {
    let spec = job.child_or_new("spec", patch)?;
    if let Some(policy) = spec.child_or_new("completionPolicy", patch) {
        policy.default_text("type", "Always", patch);
    }
    default_pull_policy(&spec, patch);
    Some(spec)
}

/// Defaults the member `pullPolicy`.
pub(crate) fn default_pull_policy(place: &Place<'_>, patch: &mut Patch) {
    if let Some(policy) = place.child_or_new("pullPolicy", patch) {
        policy.default_json("timeoutSeconds", &TIMEOUT_SECONDS.to_string(), patch);
        policy.default_json("backoffLimit", &BACKOFF_LIMIT.to_string(), patch);
    }
}

/// Fills in the defaults of a spec that was read.
pub(crate) fn with_defaults(mut spec: Spec) -> Spec {
    spec.completion_policy.kind.get_or_insert(CompletionPolicyType::Always);
    spec.pull_policy.timeout_seconds.get_or_insert(TIMEOUT_SECONDS);
    spec.pull_policy.backoff_limit.get_or_insert(BACKOFF_LIMIT);
    if spec.image_pull_policy.is_empty() {
        IMAGE_PULL_POLICY.clone_into(&mut spec.image_pull_policy);
    }
    spec
}

/// Whether the job never ends.
pub fn is_endless(spec: &Spec) -> bool {
    spec.completion_policy.kind == Some(CompletionPolicyType::Never)
}

/// Checks which nodes are meant.
pub(crate) fn check_nodes(spec: &Spec) -> Result<(), Denial> {
    if let Some(selector) = &spec.selector {
        let labelled = !selector.match_labels.is_empty() || !selector.match_expressions.is_empty();
        if labelled && !selector.names.is_empty() {
            return Err(refused("can not set both names and labelSelector in this spec.selector"));
        }
        check_selector(&selector_of(selector))
            .map_err(|error| refused(format!("invalid selector: {error}")))?;
        let names: BTreeSet<&String> = selector.names.iter().collect();
        if names.len() < selector.names.len() {
            return Err(refused("duplicated name in selector names"));
        }
    }
    if let Some(selector) = &spec.pod_selector {
        if spec.selector.is_some() {
            return Err(refused("can not set both selector and podSelector"));
        }
        check_selector(selector).map_err(|error| refused(format!("invalid podSelector: {error}")))?;
    }
    Ok(())
}

/// The labels that nodes must have.
pub(crate) fn selector_of(selector: &api::kinds::shared::ImagePullJobNodeSelector) -> LabelSelector {
    LabelSelector {
        match_labels: Some(selector.match_labels.clone()),
        match_expressions: Some(selector.match_expressions.clone()),
    }
}

fn check_selector(selector: &LabelSelector) -> Result<(), String> {
    let mut errors = Vec::new();
    validate_selector(selector, &FieldPath::default(), &mut errors);
    aggregate(&errors).map_or(Ok(()), Err)
}

/// The spec of the job of one image of a list.
pub(crate) fn of_list(list: &imagelistpulljob::Spec, image: &str) -> Spec {
    Spec {
        completion_policy: list.completion_policy.clone(),
        image: image.to_owned(),
        image_pull_policy: list.image_pull_policy.clone(),
        parallelism: list.parallelism.clone(),
        pod_selector: list.pod_selector.clone(),
        pull_policy: list.pull_policy.clone(),
        pull_secrets: list.pull_secrets.clone(),
        sandbox_config: list.sandbox_config.clone(),
        selector: list.selector.clone(),
    }
}

/// Checks the images of a list.
pub(crate) fn check_images(images: &[String]) -> Result<(), Denial> {
    if images.is_empty() {
        return Err(refused("image can not be empty"));
    }
    if images.iter().collect::<BTreeSet<_>>().len() < images.len() {
        return Err(refused("images cannot have duplicate values"));
    }
    if images.len() > MOST_IMAGES {
        return Err(refused(format!("the maximum number of images cannot > {MOST_IMAGES}")));
    }
    images.iter().try_for_each(|image| check_image(image))
}

/// Checks an image.
pub(crate) fn check_image(image: &str) -> Result<(), Denial> {
    let problem = NamedImage::parse(image).err();
    problem.map_or(Ok(()), |error| Err(refused(format!("invalid image {image}: {error}"))))
}

/// Checks on how many nodes the job may pull at a time.
pub(crate) fn check_parallelism(parallelism: Option<&IntOrString>) -> Result<(), Denial> {
    let number = match parallelism {
        None => return Ok(()),
        Some(IntOrString::Int(number)) => i64::from(*number),
        Some(IntOrString::String(text)) if text.ends_with('%') => {
            return Err(refused("parallelism does not support percentage value"));
        }
        Some(IntOrString::String(text)) => text.parse::<i32>().map(i64::from).map_err(|_| {
            let text = values::json_patch::string(text);
            let problem = format!("strconv.Atoi: parsing {text}: invalid syntax");
            refused(format!("parallelism must be a valid integer: {problem}"))
        })?,
    };
    if number < 0 { Err(refused("parallelism must be non-negative")) } else { Ok(()) }
}

/// Checks how often a pull is tried.
pub(crate) fn check_pull_policy(spec: &Spec) -> Result<(), Denial> {
    let policy = &spec.pull_policy;
    let fields = [("timeoutSeconds", policy.timeout_seconds), ("backoffLimit", policy.backoff_limit)];
    let negative = fields.into_iter().find(|(_, number)| number.is_some_and(|number| number < 0));
    negative.map_or(Ok(()), |(field, _)| Err(refused(format!("pullPolicy.{field} must be non-negative"))))
}

/// Checks when the job is over. With `deadline`, the deadline must leave time for one attempt.
pub(crate) fn check_completion(spec: &Spec, deadline: bool) -> Result<(), Denial> {
    let policy = &spec.completion_policy;
    match policy.kind.as_ref().unwrap_or(&CompletionPolicyType::Always) {
        CompletionPolicyType::Always => {
            let timeout = i64::from(spec.pull_policy.timeout_seconds.unwrap_or(TIMEOUT_SECONDS));
            if deadline && policy.active_deadline_seconds.is_some_and(|deadline| timeout > deadline) {
                return Err(refused(
                    "completionPolicy.activeDeadlineSeconds must be greater than \
                     pullPolicy.timeoutSeconds(default 600)",
                ));
            }
            Ok(())
        }
        CompletionPolicyType::Never => {
            if policy.active_deadline_seconds.is_some() || policy.ttl_seconds_after_finished.is_some() {
                return Err(refused(
                    "activeDeadlineSeconds and ttlSecondsAfterFinished can only work with Always \
                     CompletionPolicyType",
                ));
            }
            Ok(())
        }
        CompletionPolicyType::Other(kind) => {
            Err(refused(format!("unknown type of completionPolicy: {kind}")))
        }
    }
}
