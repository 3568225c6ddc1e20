//! What an AdvancedCronJob may say (docs/behaviour/advancedcronjob.md#validation).
//!
//! ```text
//!   images      the template of lists of images
//! ```

use api::features::FeatureGates;
use api::kinds::advancedcronjob::{API_VERSION, AdvancedCronJob, ConcurrencyPolicy, KIND, Spec, Template};
use api::kinds::{broadcastjob, imagelistpulljob};
use jiff::Timestamp;
use jiff::tz::TimeZone;
use serde_json::{Map, Value};

use super::names_zone;
use super::schedule::{Schedule, zone};
use crate::workload::submitted::{self, Stored, read_spec, read_template};
use crate::workload::trials::{self, Trials};
pub use crate::workload::validation::Context;
use crate::workload::validation::{self, Rules, validate_numbers, validate_plain_name};
use pod::template::complete::with_defaults;
use pod::template::metadata::validate_metadata;
use pod::template::{Depth, RestartPolicy, TemplateRules, comparison, validate_template};
use values::canonical::{CanonicalError, Kind, Unknown, canonical_json, table};
use values::field::{FieldError, FieldPath};
use values::read::from_str;
use values::verdict::{Denial, Verdict, refused};

mod images;
#[cfg(test)]
mod tests;

/// The templates that hold a Pod template.
const OF_PODS: [&str; 2] = ["jobTemplate", "broadcastJobTemplate"];
/// Longer names make names of children that are no label values.
const LONGEST_USEFUL_NAME: usize = 52;
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

/// An AdvancedCronJob as it is stored.
#[derive(Clone, Debug)]
struct CronJob {
    cron_job: AdvancedCronJob,
    /// The spec of its lists of images.
    images: Option<imagelistpulljob::Spec>,
}

impl Stored for CronJob {
    const API_VERSION: &'static str = API_VERSION;
    const KIND: &'static str = KIND;

    const CLAIMS: &'static [&'static str] = &[];

    fn read(object: &str) -> Result<Self, Denial> {
        let cron_job: AdvancedCronJob = from_str(object).map_err(refused)?;
        let template = &cron_job.spec.template;
        let list = template.image_list_pull_job_template.as_ref();
        let list = list.map(|list| list.spec.as_ref().map_or("{}", api::Raw::get));
        let path = ["spec", "imageListPullJobTemplate", "template", "spec"];
        let images = list.map(from_str).transpose().map_err(|error: CanonicalError| {
            refused(path.iter().fold(error, |error, name| error.within(name)))
        })?;
        Ok(Self { cron_job, images })
    }

    fn check_templates(&self, old: Option<&Self>) -> Result<(), Denial> {
        let template = &self.cron_job.spec.template;
        if old.is_some_and(|old| old.cron_job.spec.template == *template) {
            return Ok(());
        }
        read_templates(template).map_err(|error| refused(error.within("template").within("spec")))
    }
}

/// Reads each template with the types of its kind.
fn read_templates(template: &Template) -> Result<(), CanonicalError> {
    if let Some(job) = &template.job_template {
        canonical_json(job.get(), &Kind::Struct(&table::JOB_TEMPLATE_SPEC), Unknown::Drop)
            .map_err(|error| error.within("jobTemplate"))?;
    }
    if let Some(job) = &template.broadcast_job_template {
        read_template(job, read_spec::<broadcastjob::Spec>)
            .map_err(|error| error.within("broadcastJobTemplate"))?;
    }
    if let Some(list) = &template.image_list_pull_job_template {
        read_template(list, read_spec::<imagelistpulljob::Spec>)
            .map_err(|error| error.within("imageListPullJobTemplate"))?;
    }
    Ok(())
}

type Submitted = submitted::Submitted<CronJob>;

impl Submitted {
    /// A member of `spec.template` that is not null.
    fn template(&self, pointer: &str) -> Option<&Value> {
        let template = self.sent.pointer("/spec/template")?;
        template.pointer(pointer).filter(|value| !value.is_null())
    }
}

/// Answers a CREATE or, with `old`, an UPDATE request.
pub fn review(new: &str, old: Option<&str>, context: &Context<'_>) -> Verdict {
    validation::review::<CronJob, _>(context, new, old)
}

/// What the API server is asked about an object that is created or, with `old`, updated.
pub fn trials(new: &str, old: Option<&str>) -> Trials {
    trials::of::<CronJob, Context<'_>>(new, old)
}

impl Rules<CronJob> for Context<'_> {
    const JUDGED: &'static [&'static str] =
        &["/spec/template/jobTemplate", "/spec/template/broadcastJobTemplate"];

    fn validate(&self, new: &Submitted, old: Option<&Submitted>) -> Vec<FieldError> {
        let mut errors = Vec::new();
        let AdvancedCronJob { metadata, spec, .. } = &new.stored.cron_job;
        validate_metadata(&new.sent, &mut errors);
        if !metadata.name.is_empty() {
            validate_plain_name(&metadata.name, KIND, &mut errors);
        }
        validate_schedule(spec, &mut errors);
        let numbers = [
            ("spec.startingDeadlineSeconds", spec.starting_deadline_seconds),
            ("spec.successfulJobsHistoryLimit", spec.successful_jobs_history_limit.map(i64::from)),
            ("spec.failedJobsHistoryLimit", spec.failed_jobs_history_limit.map(i64::from)),
        ];
        validate_numbers(numbers, &mut errors);
        validate_templates(new, self, &mut errors);
        if old.is_some_and(|old| is_forbidden(new, old, self.gates)) {
            errors.push(FieldError::forbidden(FieldPath::new("spec"), IMMUTABLE));
        }
        errors
    }

    fn warnings(&self, new: &Submitted, old: Option<&Submitted>) -> Vec<String> {
        let spec = &new.stored.cron_job.spec;
        let mut warnings = Vec::new();
        let name = &new.stored.cron_job.metadata.name;
        if old.is_none() && name.len() > LONGEST_USEFUL_NAME {
            warnings.push(format!(
                "metadata.name: with more than {LONGEST_USEFUL_NAME} characters the names of its children are longer than \
                 63, which BroadcastJobs and the Pods of Jobs can't have"
            ));
        }
        if old.is_some_and(|old| old.stored.cron_job.spec == *spec) {
            return warnings;
        }
        let parsed = Schedule::parse(&spec.schedule, &TimeZone::UTC, &TimeZone::UTC);
        // Any leap year shows whether a day ever comes.
        let comes =
            |schedule: Schedule| schedule.next(Timestamp::UNIX_EPOCH, Timestamp::UNIX_EPOCH).is_some();
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
}

fn validate_schedule(spec: &Spec, errors: &mut Vec<FieldError>) {
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

fn validate_templates(new: &Submitted, context: &Context<'_>, errors: &mut Vec<FieldError>) {
    let names = "either JobTemplate or BroadcastJobTemplate or ImageListPullJobTemplate should be provided";
    let count = OF_PODS.iter().filter(|name| new.template(&format!("/{name}")).is_some()).count();
    let path = FieldPath::new("spec.template");
    match count + usize::from(new.stored.images.is_some()) {
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
    let Some(list) = &new.stored.images else { return };
    let policy = super::policy(&new.stored.cron_job.spec);
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
    let with_images = old.stored.images.is_some();
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
