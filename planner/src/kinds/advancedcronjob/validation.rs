//! What an AdvancedCronJob may say (docs/behaviour/advancedcronjob.md#validation).
//!
//! ```text
//!   images      the template of lists of images
//! ```

use api::features::FeatureGates;
use api::kinds::advancedcronjob::{API_VERSION, AdvancedCronJob, ConcurrencyPolicy, KIND};
use api::kinds::imagelistpulljob;
use jiff::Timestamp;
use jiff::tz::TimeZone;
use serde_json::{Map, Value};

use super::names_zone;
use super::new_child::new_child;
use super::schedule::{Schedule, zone};
use crate::pod::template::complete::with_defaults;
use crate::pod::template::metadata::validate_metadata;
use crate::pod::template::names::{regex_message, too_long_message};
use crate::pod::template::{Depth, RestartPolicy, TemplateRules, comparison, validate_template};
use crate::text::field::{FieldError, FieldPath};
use crate::text::verdict::{Denial, Verdict};
use crate::workload::submitted::in_hub_version;
use crate::workload::validation::{self, Rules};

mod images;
#[cfg(test)]
mod tests;

/// The templates that hold a Pod template.
const OF_PODS: [&str; 2] = ["jobTemplate", "broadcastJobTemplate"];
/// Longer names make names of children that are no label values.
const LONGEST_USEFUL_NAME: usize = 52;
const LONGEST_NAME: usize = 63;
/// What may change beside the template of lists of images.
const CHANGEABLE: [&str; 7] = [
    "schedule",
    "concurrencyPolicy",
    "successfulJobsHistoryLimit",
    "failedJobsHistoryLimit",
    "startingDeadlineSeconds",
    "timeZone",
    "paused",
];

const IMMUTABLE: &str = "updates to advancedcronjob spec for fields other than 'imageListPullJobTemplate', 'schedule', \
    'concurrencyPolicy', 'successfulJobsHistoryLimit', 'failedJobsHistoryLimit', 'startingDeadlineSeconds', \
    'timeZone' and 'paused' are forbidden";

/// An AdvancedCronJob of a request: as it was sent, and in the version that is stored.
#[derive(Clone, Debug)]
struct Submitted {
    sent: Value,
    cron_job: AdvancedCronJob,
    /// The spec of its lists of images.
    images: Option<imagelistpulljob::Spec>,
}

impl Submitted {
    fn read(object: &str) -> Result<Self, Denial> {
        let unreadable = |error: serde_json::Error| Denial { code: 400, message: error.to_string() };
        let cron_job: AdvancedCronJob =
            serde_json::from_str(&in_hub_version(object, API_VERSION)?).map_err(unreadable)?;
        // Its children must be readable too.
        new_child(&cron_job, Timestamp::UNIX_EPOCH, &TimeZone::UTC).map_err(unreadable)?;
        let list = cron_job.spec.template.image_list_pull_job_template.as_ref();
        let list = list.map(|list| list.spec.as_ref().map_or("{}", api::Raw::get));
        let images = list.map(serde_json::from_str).transpose().map_err(unreadable)?;
        Ok(Self { sent: serde_json::from_str(object).map_err(unreadable)?, cron_job, images })
    }

    /// A member of `spec.template` that is not null.
    fn template(&self, pointer: &str) -> Option<&Value> {
        let template = self.sent.pointer("/spec/template")?;
        template.pointer(pointer).filter(|value| !value.is_null())
    }
}

/// What validation reads beside the object.
pub struct Context<'a> {
    /// The feature gates.
    pub gates: &'a FeatureGates,
    /// The flag `--allow-privileged`.
    pub allow_privileged: bool,
}

/// Answers a CREATE or, with `old`, an UPDATE request.
pub fn review(new: &str, old: Option<&str>, context: &Context<'_>) -> Verdict {
    validation::review(context, new, old)
}

impl Rules<Submitted> for Context<'_> {
    const KIND: &'static str = KIND;

    fn read(&self, object: &str) -> Result<Submitted, Denial> {
        Submitted::read(object)
    }

    fn sent<'t>(&self, object: &'t Submitted) -> &'t Value {
        &object.sent
    }

    fn validate(&self, new: &Submitted, old: Option<&Submitted>) -> Vec<FieldError> {
        let mut errors = Vec::new();
        validate_metadata(&new.sent, &mut errors);
        validate_name(&new.cron_job.metadata.name, &mut errors);
        validate_schedule(new, &mut errors);
        validate_numbers(new, &mut errors);
        validate_templates(new, self, &mut errors);
        if old.is_some_and(|old| is_forbidden(new, old, self.gates)) {
            errors.push(FieldError::forbidden(FieldPath::new("spec"), IMMUTABLE));
        }
        errors
    }

    fn warnings(&self, new: &Submitted, old: Option<&Submitted>) -> Vec<String> {
        warnings(new, old)
    }
}

fn validate_name(name: &str, errors: &mut Vec<FieldError>) {
    let path = || FieldPath::new("metadata.name");
    if name.is_empty() {
        return;
    }
    if !name.bytes().all(|byte| byte.is_ascii_alphanumeric() || byte == b'-') {
        let message = "AdvancedCronJob name must consist of alphanumeric characters or '-'";
        let message = regex_message(message, r"^[a-zA-Z0-9\-]+$", &["example-com"]);
        errors.push(FieldError::invalid(path(), name, message));
    }
    if name.len() > LONGEST_NAME {
        errors.push(FieldError::invalid(path(), name, too_long_message(LONGEST_NAME)));
    }
}

fn validate_schedule(new: &Submitted, errors: &mut Vec<FieldError>) {
    let spec = &new.cron_job.spec;
    let schedule = spec.schedule.as_str();
    let mut refuse = |message: String| {
        errors.push(FieldError::invalid(FieldPath::new("spec.schedule"), schedule, message));
    };
    if schedule.is_empty() {
        refuse("schedule cannot be empty, please provide valid cron schedule.".to_owned());
    }
    if let Err(error) = Schedule::parse(schedule, &TimeZone::UTC, &TimeZone::UTC) {
        refuse(error.to_string());
    }
    let Some(name) = &spec.time_zone else { return };
    if names_zone(schedule) {
        refuse("cannot use both timeZone field and TZ or CRON_TZ in schedule".to_owned());
    }
    let problem = if name.is_empty() {
        Some("timeZone must be nil or non-empty string".to_owned())
    } else if name.eq_ignore_ascii_case("Local") {
        Some(
            "timeZone must be an explicit time zone as defined in https://www.iana.org/time-zones".to_owned(),
        )
    } else {
        zone(name).err().map(|error| error.to_string())
    };
    let path = FieldPath::new("spec.timeZone");
    errors.extend(problem.map(|problem| FieldError::invalid(path, name, problem)));
}

fn validate_numbers(new: &Submitted, errors: &mut Vec<FieldError>) {
    let spec = &new.cron_job.spec;
    let numbers = [
        ("spec.startingDeadlineSeconds", spec.starting_deadline_seconds),
        ("spec.successfulJobsHistoryLimit", spec.successful_jobs_history_limit.map(i64::from)),
        ("spec.failedJobsHistoryLimit", spec.failed_jobs_history_limit.map(i64::from)),
    ];
    for (path, number) in numbers {
        let negative = number.filter(|number| *number < 0);
        let message = "must be greater than or equal to 0";
        errors
            .extend(negative.map(|number| FieldError::invalid_value(FieldPath::new(path), number, message)));
    }
}

fn validate_templates(new: &Submitted, context: &Context<'_>, errors: &mut Vec<FieldError>) {
    let names = "either JobTemplate or BroadcastJobTemplate or ImageListPullJobTemplate should be provided";
    let count = OF_PODS.iter().filter(|name| new.template(&format!("/{name}")).is_some()).count();
    let path = FieldPath::new("spec.template");
    match count + usize::from(new.images.is_some()) {
        0 => errors.push(FieldError::forbidden(path, format!("spec must have one template, {names}"))),
        1 => {}
        _ => errors.push(FieldError::forbidden(path, format!("spec can have only one template, {names}"))),
    }
    for name in OF_PODS.into_iter().filter(|name| new.template(&format!("/{name}")).is_some()) {
        let nothing = Value::Object(Map::new());
        let template = new.template(&format!("/{name}/spec/template")).unwrap_or(&nothing);
        let rules = TemplateRules {
            path: FieldPath::new(format!("spec.template.{name}.spec.template")),
            depth: Depth::Full,
            restart_policy: RestartPolicy::OnFailureOrNever,
            selector: None,
            allow_privileged: context.allow_privileged,
        };
        errors.extend(validate_template(&with_defaults(template, context.gates), &rules));
    }
    let Some(list) = &new.images else { return };
    let policy = super::policy(&new.cron_job.spec);
    if !matches!(policy, ConcurrencyPolicy::Replace | ConcurrencyPolicy::Forbid) {
        let word = serde_json::to_value(&policy).unwrap_or_default();
        let word = word.as_str().unwrap_or_default();
        let message = format!("concurrencyPolicy should be Replace or Forbid, but current value is: {word}");
        errors.push(FieldError::invalid(FieldPath::new("spec.concurrencyPolicy"), word, message));
    }
    errors.extend(images::check(list));
}

/// Whether an update changes what may not change.
fn is_forbidden(new: &Submitted, old: &Submitted, gates: &FeatureGates) -> bool {
    let with_images = old.images.is_some();
    fixed(new, with_images, gates) != fixed(old, with_images, gates)
}

/// The spec without what may change: what is absent and what is empty are the same, and so are defaults that are
/// written out and those that are not. `images` says that lists of images may change too.
fn fixed(submitted: &Submitted, images: bool, gates: &FeatureGates) -> (Value, Vec<Option<String>>) {
    let mut spec = submitted.sent.get("spec").cloned().unwrap_or_default();
    let mut pods = Vec::new();
    if let Some(spec) = spec.as_object_mut() {
        spec.retain(|name, _| !CHANGEABLE.contains(&name.as_str()));
    }
    if let Some(template) = spec.get_mut("template").and_then(Value::as_object_mut) {
        if images {
            template.remove("imageListPullJobTemplate");
        }
        for name in OF_PODS {
            let spec = template.get_mut(name).and_then(|template| template.get_mut("spec"));
            let pod = spec.and_then(Value::as_object_mut).and_then(|spec| spec.remove("template"));
            pods.push(pod.map(|pod| comparison::normal(&with_defaults(&pod, gates))));
        }
    }
    // Go clients leave out what is zero in a BroadcastJob.
    if let Some(job) = spec.pointer_mut("/template/broadcastJobTemplate/spec") {
        prune(job, true);
    }
    prune(&mut spec, false);
    (spec, pods)
}

/// Removes what says nothing; `zeros` among it.
fn prune(value: &mut Value, zeros: bool) {
    if let Value::Object(members) = value {
        members.values_mut().for_each(|member| prune(member, zeros));
        members.retain(|_, member| match member {
            Value::Null => false,
            Value::Object(members) => !members.is_empty(),
            Value::Array(elements) => !elements.is_empty(),
            Value::Bool(flag) => !zeros || *flag,
            Value::Number(number) => !zeros || number.as_i64() != Some(0),
            Value::String(text) => !zeros || !text.is_empty(),
        });
    }
}

/// What its author should know.
fn warnings(new: &Submitted, old: Option<&Submitted>) -> Vec<String> {
    let spec = &new.cron_job.spec;
    let mut warnings = Vec::new();
    let name = &new.cron_job.metadata.name;
    if old.is_none() && name.len() > LONGEST_USEFUL_NAME {
        warnings.push(format!(
            "metadata.name: with more than {LONGEST_USEFUL_NAME} characters the names of its children are longer than \
             63, which BroadcastJobs and the Pods of Jobs can't have"
        ));
    }
    if old.is_some_and(|old| old.cron_job.spec == *spec) {
        return warnings;
    }
    let parsed = Schedule::parse(&spec.schedule, &TimeZone::UTC, &TimeZone::UTC);
    // Any leap year shows whether a day ever comes.
    let comes = |schedule: Schedule| schedule.next(Timestamp::UNIX_EPOCH, Timestamp::UNIX_EPOCH).is_some();
    if !parsed.is_ok_and(comes) {
        warnings.push(format!("spec.schedule: {:?} never comes due", spec.schedule));
    }
    let completion = new.template("/broadcastJobTemplate/spec/completionPolicy/type");
    let is_endless = completion.is_some_and(|word| word == "Never");
    if is_endless && spec.concurrency_policy == Some(ConcurrencyPolicy::Forbid) {
        warnings.push(
            "spec.concurrencyPolicy: Forbid starts a BroadcastJob with completionPolicy Never once, for it never ends"
                .to_owned(),
        );
    }
    warnings
}
