//! The template of the workloads of subsets.

use api::kinds::uniteddeployment::Template;
use api::kinds::{cloneset, statefulset};
use serde_json::{Map, Value};

use super::{Context, Submitted};
use crate::uniteddeployment::children::ChildKind;
use crate::uniteddeployment::normal::{DEPLOYMENT, STATEFUL_SET, normal_claims, prune, without_zeros};
use crate::workload::submitted::{read_spec, read_template};
use crate::workload::validation::negative;
use pod::template::complete::with_defaults;
use pod::template::node::{Node, check_types};
use pod::template::{Depth, RestartPolicy, TemplateRules, validate_template};
use values::canonical::{CanonicalError, Kind, Unknown, canonical_json, table};
use values::field::{FieldError, FieldPath};
use values::selector::Selector;

const ONE: &str = "statefulSetTemplate, advancedStatefulSetTemplate, cloneSetTemplate or deploymentTemplate";

fn path(kind: ChildKind) -> FieldPath {
    FieldPath::new("spec.template").child(kind.member())
}

/// Reads each template with the types of its kind: of one that can't be read nothing could be made.
pub(super) fn read(templates: &Template) -> Result<(), CanonicalError> {
    let shape = |spec: &str, shape| canonical_json(spec, &Kind::Struct(shape), Unknown::Drop).map(drop);
    for kind in ChildKind::ALL {
        let Some(template) = kind.template(templates) else { continue };
        let read = read_template(template, |spec| match kind {
            ChildKind::AdvancedStatefulSet => read_spec::<statefulset::Spec>(spec),
            ChildKind::CloneSet => read_spec::<cloneset::Spec>(spec),
            ChildKind::Deployment => shape(spec, &DEPLOYMENT),
            ChildKind::StatefulSet => shape(spec, &STATEFUL_SET),
        });
        read.map_err(|error| error.within(kind.member()))?;
    }
    Ok(())
}

pub(super) fn validate(new: &Submitted, context: &Context<'_>, errors: &mut Vec<FieldError>) {
    let given: Vec<ChildKind> =
        ChildKind::ALL.into_iter().filter(|kind| new.template(*kind).is_some()).collect();
    let refused = match given.len() {
        0 => Some(FieldError::required(
            FieldPath::new("spec.template"),
            format!("should provide one of {ONE}"),
        )),
        1 => None,
        _ => {
            let message = format!("should provide only one of {ONE}");
            Some(FieldError::forbidden(FieldPath::new("spec.template"), message))
        }
    };
    errors.extend(refused);
    let selector = Selector::compile(&new.stored.united.spec.selector).ok();
    for kind in given {
        if let Some(template) = new.template(kind) {
            validate_one(kind, template, selector.as_ref(), context, errors);
        }
    }
}

fn validate_one(
    kind: ChildKind,
    template: &Value,
    selector: Option<&Selector>,
    context: &Context<'_>,
    errors: &mut Vec<FieldError>,
) {
    let path = path(kind);
    // The webhook of CloneSets checks the rest when the workload of a subset is created.
    if kind == ChildKind::CloneSet {
        let pods = template.pointer("/spec/template").unwrap_or(&Value::Null);
        let pods = Node::new(pods, path.child("spec").child("template"));
        check_types(&pods, &Kind::Struct(&table::POD_TEMPLATE_SPEC), errors);
        return;
    }
    let labels = template.pointer("/metadata/labels").cloned().unwrap_or_default();
    let matches = |selector: &Selector| {
        let pairs = labels.as_object().cloned().unwrap_or_default();
        let pairs = pairs.into_iter().filter_map(|(key, value)| Some((key, value.as_str()?.to_owned())));
        selector.matches(&pairs.collect::<std::collections::BTreeMap<_, _>>())
    };
    if selector.is_some_and(|selector| !matches(selector)) {
        let message = "`selector` does not match template `labels`";
        errors.push(FieldError::invalid_value(path.child("metadata").child("labels"), &labels, message));
    }
    let spec = path.child("spec");
    if template.pointer("/spec/replicas").is_some_and(|replicas| !replicas.is_null()) {
        let message = format!("replicas in {} will not be used", kind.member());
        errors.push(FieldError::forbidden(spec.child("replicas"), message));
    }
    if kind != ChildKind::Deployment {
        validate_strategy(kind, template, &spec, errors);
    }
    let (name, depth) = match kind {
        ChildKind::Deployment => ("ReplicaSet", Depth::Full),
        _ => ("StatefulSet", Depth::Shallow),
    };
    let rules = TemplateRules {
        path: spec.child("template"),
        depth,
        restart_policy: RestartPolicy::Always { kind: name },
        selector,
        allow_privileged: context.allow_privileged,
    };
    let nothing = Value::Object(Map::new());
    let pods = template.pointer("/spec/template").filter(|pods| !pods.is_null()).unwrap_or(&nothing);
    errors.extend(validate_template(&with_defaults(pods, context.gates), &rules));
}

fn validate_strategy(kind: ChildKind, template: &Value, spec: &FieldPath, errors: &mut Vec<FieldError>) {
    let text = |pointer: &str| template.pointer(pointer).and_then(Value::as_str).unwrap_or_default();
    let number = |pointer: &str| template.pointer(pointer).and_then(Value::as_i64);
    let strategy = text("/spec/updateStrategy/type");
    let partition = template.pointer("/spec/updateStrategy/rollingUpdate/partition");
    if strategy == "RollingUpdate" && partition.is_some_and(|partition| !partition.is_null()) {
        let path = spec.child("updateStrategy").child("rollingUpdate").child("partition");
        errors.push(FieldError::forbidden(path, format!("partition in {} will not be used", kind.member())));
    }
    if kind != ChildKind::StatefulSet {
        return;
    }
    let words = [
        ("podManagementPolicy", text("/spec/podManagementPolicy"), &["OrderedReady", "Parallel"]),
        ("updateStrategy.type", strategy, &["RollingUpdate", "OnDelete"]),
    ];
    for (name, word, known) in words {
        if !word.is_empty() && !known.contains(&word) {
            errors.push(FieldError::not_supported(spec.child(name), word, known));
        }
    }
    for (name, pointer) in [
        ("minReadySeconds", "/spec/minReadySeconds"),
        ("revisionHistoryLimit", "/spec/revisionHistoryLimit"),
        ("ordinals.start", "/spec/ordinals/start"),
    ] {
        let wrong = number(pointer).filter(|number| *number < 0 && i32::try_from(*number).is_ok());
        errors.extend(wrong.map(|number| negative(spec.child(name), number)));
    }
}

/// What may change of the spec of the workloads of subsets, where they have names and volumes of their own.
pub(super) fn validate_update(new: &Submitted, old: &Submitted, errors: &mut Vec<FieldError>) {
    const STATEFUL: [&str; 6] = [
        "replicas",
        "template",
        "updateStrategy",
        "persistentVolumeClaimRetentionPolicy",
        "minReadySeconds",
        "ordinals",
    ];
    const ADVANCED: [&str; 3] = ["replicas", "template", "updateStrategy"];
    for (kind, changeable) in
        [(ChildKind::StatefulSet, &STATEFUL[..]), (ChildKind::AdvancedStatefulSet, &ADVANCED[..])]
    {
        let fixed = |submitted: &Submitted| {
            let spec = submitted.template(kind)?.get("spec").cloned().unwrap_or_default();
            let Value::Object(mut spec) = spec else { return Some(spec) };
            spec.retain(|name, _| !changeable.contains(&name.as_str()));
            let mut spec = Value::Object(spec);
            without_zeros(&mut spec);
            // What has no canonical form is compared as it is written.
            let _ = normal_claims(&mut spec, Unknown::Keep);
            prune(&mut spec);
            Some(spec)
        };
        let (Some(now), Some(before)) = (fixed(new), fixed(old)) else { continue };
        if now != before {
            let names: Vec<String> = changeable
                .iter()
                .filter(|name| **name != "replicas")
                .map(|name| format!("'{name}'"))
                .collect();
            let message = format!(
                "updates to statefulset spec for fields other than {} are forbidden",
                names.join(", ")
            );
            errors.push(FieldError::forbidden(path(kind).child("spec"), message));
        }
    }
}
