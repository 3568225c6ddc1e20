//! What the validation of all workloads has in common.

use std::collections::HashSet;
use std::fmt::Display;

use api::features::{Feature, FeatureGates};
use api::kinds::shared::IntOrString;
use api::meta::LabelSelector;
use serde_json::Value;

use super::compared_template;
use super::submitted::{Stored, Submitted, leaves_spec, read_old};
use pod::inplace::{Options, Reason, decide};
use pod::template::complete::with_defaults;
use pod::template::metadata::validate_label_selector;
use pod::template::names::{regex_message, too_long_message};
use pod::template::node::Node;
use pod::template::{Depth, RestartPolicy, TemplateRules, default_template, validate_template};
use values::canonical::{Kind, Unknown, canonical_json, table};
use values::field::{FieldError, FieldPath};
use values::json_patch::{self, Patch, Pointer};
use values::selector::{Selector, is_empty};
use values::server_version::ServerVersion;
use values::verdict::{Denial, Verdict, refused};

/// What the validation of most workloads reads beside the object.
pub struct Context<'a> {
    /// The feature gates.
    pub gates: &'a FeatureGates,
    /// The flag `--allow-privileged`.
    pub allow_privileged: bool,
}

/// How a kind is validated.
pub(crate) trait Rules<T: Stored> {
    /// The HTTP status code with which a create and an update are refused.
    const REFUSALS: (u16, u16) = (422, 422);
    /// Pointers to the workloads in the object whose Pod templates the API server judges.
    const JUDGED: &'static [&'static str] = &[];

    /// The code with which a create or, with `old`, an update is refused.
    fn refusal(old: Option<&str>) -> u16 {
        if old.is_none() { Self::REFUSALS.0 } else { Self::REFUSALS.1 }
    }

    /// What is wrong with an object that is created, or that takes the place of another one.
    fn validate(&self, new: &Submitted<T>, old: Option<&Submitted<T>>) -> Vec<FieldError>;

    /// What its author should know.
    fn warnings(&self, _new: &Submitted<T>, _old: Option<&Submitted<T>>) -> Vec<String> {
        Vec::new()
    }
}

/// Answers a CREATE or, with `old`, an UPDATE request.
pub(crate) fn review<T: Stored, R: Rules<T>>(rules: &R, new: &str, old: Option<&str>) -> Verdict {
    let kind = T::KIND;
    let code = R::refusal(old);
    let new = match Submitted::<T>::read(new) {
        Ok(new) => new,
        Err(denial) if leaves_spec(new, old) => {
            let warnings = vec![format!("the {kind} can't be read: {}", denial.message)];
            return Verdict::Allow { edits: Patch::default(), warnings };
        }
        Err(denial) => return denial.into(),
    };
    let mut warnings = Vec::new();
    let old = read_old(old, kind, Submitted::read, &mut warnings);
    if let Err(denial) = new.stored.check_templates(old.as_ref().map(|old| &old.stored)) {
        return denial.into();
    }
    let stored = old.as_ref().map(|old| &old.sent);
    if let Err(denial) = T::CLAIMS.iter().try_for_each(|pointer| read_claims(&new.sent, stored, pointer)) {
        return denial.into();
    }
    warnings.extend(rules.warnings(&new, old.as_ref()));
    let mut errors = checked(rules, &new, old.as_ref());
    if let Some(old) = &old {
        keep_new(&mut errors, || checked(rules, old, None));
    }
    Verdict::of(&errors, code, warnings)
}

fn checked<T: Stored, R: Rules<T>>(
    rules: &R,
    new: &Submitted<T>,
    old: Option<&Submitted<T>>,
) -> Vec<FieldError> {
    let mut errors = rules.validate(new, old);
    for pointer in T::CLAIMS {
        validate_claim_names(&new.sent, pointer, &mut errors);
    }
    errors
}

/// Takes away what was wrong before an update. An object that an older release let in can still be labelled, rewritten
/// and deleted: an update is refused for what it makes wrong.
pub(crate) fn keep_new(errors: &mut Vec<FieldError>, known: impl FnOnce() -> Vec<FieldError>) {
    if !errors.is_empty() {
        let known = known();
        errors.retain(|error| !known.contains(error));
    }
}

/// [`keep_new`] of selectors alone. Of what else is wrong an update is refused for all: the texts of other errors don't
/// say whether what they are about has changed.
pub(crate) fn keep_new_selectors(errors: &mut Vec<FieldError>, known: impl FnOnce() -> Vec<FieldError>) {
    let is_of_selector = |error: &FieldError| {
        let path = error.path.to_string();
        path.contains(".selector") || path.contains(".namespaceSelector") || path.contains(".matchSelector")
    };
    let (mut selectors, others): (Vec<_>, Vec<_>) = errors.drain(..).partition(is_of_selector);
    keep_new(&mut selectors, known);
    errors.extend(others);
    errors.append(&mut selectors);
}

/// Claim templates are decoded like the rest of the object, though the schema says nothing of them: no claim could
/// be made from one that can't be read. Those that are stored already hinder no other change.
fn read_claims(new: &Value, old: Option<&Value>, pointer: &str) -> Result<(), Denial> {
    const CLAIMS: Kind = Kind::List(&Kind::Struct(&table::PERSISTENT_VOLUME_CLAIM));
    let given = |sent: &Value| sent.pointer(pointer).map(Value::to_string);
    let Some(claims) = given(new).filter(|claims| old.and_then(given).as_ref() != Some(claims)) else {
        return Ok(());
    };
    let parents = pointer.rsplit('/').filter(|name| !name.is_empty());
    let read = canonical_json(&claims, &CLAIMS, Unknown::Drop).map(drop);
    read.map_err(|error| refused(parents.fold(error, |error, name| error.within(name))))
}

/// No Pod can have two volumes of one name.
fn validate_claim_names(sent: &Value, pointer: &str, errors: &mut Vec<FieldError>) {
    let claims = sent.pointer(pointer).and_then(Value::as_array);
    let path = FieldPath::new(pointer.trim_start_matches('/').replace('/', "."));
    let mut names = HashSet::new();
    for (index, claim) in claims.into_iter().flatten().enumerate() {
        let name = claim.pointer("/metadata/name").and_then(Value::as_str).unwrap_or_default();
        if !names.insert(name) {
            errors.push(FieldError::duplicate(path.index(index).child("metadata").child("name"), name));
        }
    }
}

/// `path: Invalid value: -1: must be greater than or equal to 0`.
pub(crate) fn negative(path: FieldPath, number: impl Display) -> FieldError {
    FieldError::invalid_value(path, number, "must be greater than or equal to 0")
}

/// Checks that none of these numbers is negative.
pub(crate) fn validate_numbers<N: Copy + Display + Into<i64>>(
    numbers: impl IntoIterator<Item = (&'static str, Option<N>)>,
    errors: &mut Vec<FieldError>,
) {
    for (path, number) in numbers {
        if let Some(number) = number.filter(|number| (*number).into() < 0) {
            errors.push(negative(FieldPath::new(path), number));
        }
    }
}

/// Names of these objects become values of labels: letters, digits and dashes. `kind` is the kind as messages spell it.
pub(crate) fn validate_plain_name(name: &str, kind: &str, errors: &mut Vec<FieldError>) {
    const LIMIT: usize = 63;
    let path = FieldPath::new("metadata.name");
    if name.is_empty() || !name.bytes().all(|byte| byte.is_ascii_alphanumeric() || byte == b'-') {
        let message = format!("{kind} name must consist of alphanumeric characters or '-'");
        let message = regex_message(&message, r"^[a-zA-Z0-9\-]+$", &["example-com"]);
        errors.push(FieldError::invalid(path.clone(), name, message));
    }
    if name.len() > LIMIT {
        errors.push(FieldError::invalid(path, name, too_long_message(LIMIT)));
    }
}

/// A number or text as Go prints an `IntOrString`.
pub(crate) fn invalid_share(path: FieldPath, value: &IntOrString, message: &str) -> FieldError {
    let (kind, number, text) = match value {
        IntOrString::Int(number) => (0, *number, ""),
        IntOrString::String(text) => (1, 0, text.as_str()),
    };
    let text = json_patch::string(text);
    let shown = format!("intstr.IntOrString{{Type:{kind}, IntVal:{number}, StrVal:{text}}}");
    FieldError::invalid_value(path, shown, message)
}

/// Checks `spec.selector`. `kind` is the kind as messages spell it.
pub(crate) fn validate_selector(
    sent: &Value,
    selector: &LabelSelector,
    kind: &str,
    errors: &mut Vec<FieldError>,
) {
    let path = FieldPath::new("spec.selector");
    let Some(value) = sent.pointer("/spec/selector").filter(|selector| !selector.is_null()) else {
        errors.push(FieldError::required(path, ""));
        return;
    };
    validate_label_selector(&Node::new(value, path.clone()), true, errors);
    if is_empty(selector) {
        let message = format!("empty selector is invalid for {kind}");
        errors.push(FieldError::invalid_value(path, value, message));
    }
}

/// Checks `spec.template` of a workload whose Pods run on. `kind` is the kind as messages spell it.
pub(crate) fn validate_pod_template<T: Stored>(
    new: &Submitted<T>,
    selector: &LabelSelector,
    (kind, depth): (&'static str, Depth),
    context: &Context<'_>,
    errors: &mut Vec<FieldError>,
) {
    let path = FieldPath::new("spec.template");
    let Some(template) = new.given("/spec/template") else {
        errors.push(FieldError::required(path, ""));
        return;
    };
    // One that is not sound is reported as a selector.
    let selector = Selector::compile(selector).ok();
    let rules = TemplateRules {
        path,
        depth,
        restart_policy: RestartPolicy::Always { kind },
        selector: selector.as_ref(),
        allow_privileged: context.allow_privileged,
    };
    errors.extend(validate_template(&with_defaults(template, context.gates), &rules));
}

/// Absent and empty are the same.
pub(crate) fn is_same_selector(one: &LabelSelector, other: &LabelSelector) -> bool {
    let labels = |selector: &LabelSelector| selector.match_labels.clone().unwrap_or_default();
    let expressions = |selector: &LabelSelector| selector.match_expressions.clone().unwrap_or_default();
    labels(one) == labels(other) && expressions(one) == expressions(other)
}

/// Why Pods of template `old` can't be updated in place to `new`; `None` where they can, or where one can't be read.
pub(crate) fn unchangeable(
    old: Option<&api::Raw>,
    new: Option<&api::Raw>,
    gates: &FeatureGates,
) -> Option<Reason> {
    let template = |raw: &api::Raw| {
        // What was stored without defaults does not differ by them.
        let value: Value = serde_json::from_str(raw.get()).ok()?;
        let host_ports = gates.enabled(Feature::DefaultHostNetworkHostPortsInPodTemplates);
        let patch = default_template(&value, &Pointer::root(), host_ports);
        compared_template::of_workload(&json_patch::apply(raw.get(), &patch).ok()?).ok()
    };
    let options = Options {
        vertical_scaling: gates.enabled(Feature::InPlaceWorkloadVerticalScaling),
        // Which it is is not known here; with an older one the controller says why Pods stay.
        server: ServerVersion::NEWEST,
        ..Options::default()
    };
    decide(&template(old?)?, &template(new?)?, &options).err()
}
