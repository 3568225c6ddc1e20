//! How objects become samples: a kind has a table of rows, each a metric, whose values are a pure function of the object.
//! Rows that kinds share are written here once.

use api::kinds::shared::{ConditionStatus, IntOrString};
use api::kinds::{Object, ObjectMeta};
use jiff::Timestamp;
use prometheus::TextEncoder;
use prometheus::proto::{Gauge, LabelPair, Metric, MetricFamily, MetricType};
use serde::Serialize;

/// The label with the namespace of an object.
const NAMESPACE: &str = "namespace";
/// The statuses that a condition may have, as labels say them.
const STATUSES: [(ConditionStatus, &str); 3] = [
    (ConditionStatus::True, "true"),
    (ConditionStatus::False, "false"),
    (ConditionStatus::Unknown, "unknown"),
];

/// The metrics of a kind.
pub(crate) struct Table<O: 'static> {
    /// The kind in small letters, which is also the label with the name of an object.
    pub(crate) kind: &'static str,
    /// What objects of all kinds have.
    pub(crate) about: fn(&O) -> About<'_>,
    /// The metrics.
    pub(crate) rows: &'static [Row<O>],
}

/// What objects of all kinds have.
#[derive(Clone, Copy, Debug)]
pub(crate) struct About<'a> {
    /// The namespace; empty for a cluster-scoped object.
    pub(crate) namespace: &'a str,
    /// The name.
    pub(crate) name: &'a str,
    /// When it was created, RFC 3339.
    pub(crate) created: Option<&'a str>,
    /// Grows with every change of the spec.
    pub(crate) generation: Option<i64>,
}

impl<'a> From<&'a ObjectMeta> for About<'a> {
    fn from(metadata: &'a ObjectMeta) -> Self {
        Self {
            namespace: &metadata.namespace,
            name: &metadata.name,
            created: metadata.creation_timestamp.as_ref().map(|time| time.0.as_str()),
            generation: metadata.generation,
        }
    }
}

/// [`About`] an object of the usual form.
pub(crate) fn about<Spec, Status>(object: &Object<Spec, Status>) -> About<'_> {
    About::from(&object.metadata)
}

/// A metric of a kind.
pub(crate) struct Row<O: 'static> {
    name: &'static str,
    help: &'static str,
    /// Labels beside those with namespace and name.
    labels: &'static [&'static str],
    values: Values<O>,
}

enum Values<O: 'static> {
    /// A number of objects of all kinds.
    About(fn(&About<'_>) -> Option<i64>),
    /// A number; none where the object does not say it.
    Number(fn(&O) -> Option<i64>),
    /// Numbers, each with the values of the row's labels.
    Labelled(fn(&O) -> Vec<Labelled>),
}

/// The values of a row's labels, and a number.
pub(crate) type Labelled = (Vec<String>, i64);

/// A number; none where the object does not say it.
pub(crate) const fn number<O>(
    name: &'static str,
    help: &'static str,
    number: fn(&O) -> Option<i64>,
) -> Row<O> {
    Row { name, help, labels: &[], values: Values::Number(number) }
}

/// Numbers, each with the values of `labels`.
pub(crate) const fn labelled<O>(
    name: &'static str,
    help: &'static str,
    labels: &'static [&'static str],
    values: fn(&O) -> Vec<Labelled>,
) -> Row<O> {
    Row { name, help, labels, values: Values::Labelled(values) }
}

/// When objects were created.
pub(crate) const fn created<O>(name: &'static str) -> Row<O> {
    let help = "When the object was created, in seconds since 1970.";
    Row { name, help, labels: &[], values: Values::About(|about| seconds(about.created?)) }
}

/// The generations of objects.
pub(crate) const fn generation<O>(name: &'static str) -> Row<O> {
    let help = "The generation of the object, which grows with every change of its spec.";
    Row { name, help, labels: &[], values: Values::About(|about| about.generation) }
}

/// Objects whose annotations would be labels: no annotation is on the list of those that are.
pub(crate) const fn annotations<O>(name: &'static str) -> Row<O> {
    Row { name, help: "1 for each object.", labels: &[], values: Values::About(|_| Some(1)) }
}

/// Objects whose labels would be labels: none is on the list of those that are.
pub(crate) const fn labels<O>(name: &'static str) -> Row<O> {
    annotations(name)
}

/// The generation that the status is about.
pub(crate) const fn observed<O>(name: &'static str, number: fn(&O) -> Option<i64>) -> Row<O> {
    let help = "The generation of the spec that the status was computed from.";
    Row { name, help, labels: &[], values: Values::Number(number) }
}

/// The conditions of objects, by [`findings`].
pub(crate) const fn conditions<O>(name: &'static str, values: fn(&O) -> Vec<Labelled>) -> Row<O> {
    let help = "The conditions of the object: 1 for the status that holds, 0 for the others.";
    labelled(name, help, &["condition", "status"], values)
}

/// How many Pods stay at older revisions, and the text in the spec, by [`partition`].
pub(crate) const fn partitions<O>(name: &'static str, values: fn(&O) -> Vec<Labelled>) -> Row<O> {
    labelled(name, "How many Pods the partition keeps at older revisions.", &["partition"], values)
}

/// The strategy that objects choose, by [`only`] or [`one_of`].
pub(crate) const fn strategies<O>(name: &'static str, values: fn(&O) -> Vec<Labelled>) -> Row<O> {
    labelled(name, "1 for the type of the strategy.", &["strategy_type"], values)
}

/// Three samples for each condition, by its type and its status.
pub(crate) fn findings<'a>(
    conditions: impl IntoIterator<Item = (&'a String, &'a ConditionStatus)>,
) -> Vec<Labelled> {
    let samples = conditions.into_iter().flat_map(|(kind, status)| {
        STATUSES
            .iter()
            .map(move |(known, label)| (vec![kind.clone(), (*label).to_owned()], i64::from(known == status)))
    });
    samples.collect()
}

/// A partition as the spec says it, none by default, and the number of Pods that it keeps.
pub(crate) fn partition(value: Option<&IntOrString>, kept: i64) -> Vec<Labelled> {
    vec![(vec![value.map_or_else(|| "0".to_owned(), text)], kept)]
}

/// 1 for this word.
pub(crate) fn only(word: String) -> Vec<Labelled> {
    vec![(vec![word], 1)]
}

/// 1 for this word, and 0 for the others of them.
pub(crate) fn one_of(words: &[&str], chosen: &str) -> Vec<Labelled> {
    words.iter().map(|word| (vec![(*word).to_owned()], i64::from(*word == chosen))).collect()
}

/// The word of the API for a choice, its default where nothing is chosen.
pub(crate) fn word<T: Clone + Default + Serialize>(choice: Option<&T>) -> String {
    let word = serde_json::to_value(choice.cloned().unwrap_or_default());
    word.ok().and_then(|word| word.as_str().map(str::to_owned)).unwrap_or_default()
}

/// A number or a share as the spec says it.
pub(crate) fn text(value: &IntOrString) -> String {
    match value {
        IntOrString::Int(number) => number.to_string(),
        IntOrString::String(text) => text.clone(),
    }
}

/// A count that a status may lack while it is 0.
pub(crate) fn count(number: Option<i32>) -> Option<i64> {
    Some(number.unwrap_or(0).into())
}

/// A moment in seconds since 1970; none where the text is none.
pub(crate) fn seconds(time: &str) -> Option<i64> {
    time.parse().ok().map(Timestamp::as_second)
}

impl<O> Table<O> {
    /// The metrics of these objects in Prometheus' text format. One metric is in memory at a time beside the text.
    pub(crate) fn text(&self, objects: &[&O]) -> prometheus::Result<String> {
        let mut text = String::new();
        for row in self.rows {
            let metrics: Vec<Metric> = objects.iter().flat_map(|object| self.metrics(row, object)).collect();
            if metrics.is_empty() {
                continue;
            }
            let mut family = MetricFamily::default();
            family.set_name(row.name.to_owned());
            family.set_help(row.help.to_owned());
            family.set_field_type(MetricType::GAUGE);
            family.set_metric(metrics);
            TextEncoder::new().encode_utf8(&[family], &mut text)?;
        }
        Ok(text)
    }

    fn metrics(&self, row: &Row<O>, object: &O) -> Vec<Metric> {
        let about = (self.about)(object);
        let plain = |number: Option<i64>| number.map(|number| (Vec::new(), number)).into_iter().collect();
        let samples: Vec<Labelled> = match &row.values {
            Values::About(number) => plain(number(&about)),
            Values::Number(number) => plain(number(object)),
            Values::Labelled(samples) => samples(object),
        };
        samples.into_iter().map(|sample| self.metric(row, &about, sample)).collect()
    }

    fn metric(&self, row: &Row<O>, about: &About<'_>, (values, number): Labelled) -> Metric {
        // A row may have a label of this name that says something else, and no label comes twice.
        let namespace = (!row.labels.contains(&NAMESPACE)).then(|| label(NAMESPACE, about.namespace));
        let further = row.labels.iter().zip(&values).map(|(name, value)| label(name, value));
        let mut gauge = Gauge::default();
        gauge.set_value(number as f64);
        let mut metric = Metric::from_gauge(gauge);
        metric
            .set_label(namespace.into_iter().chain([label(self.kind, about.name)]).chain(further).collect());
        metric
    }
}

fn label(name: &str, value: &str) -> LabelPair {
    let mut label = LabelPair::default();
    label.set_name(name.to_owned());
    label.set_value(value.to_owned());
    label
}
