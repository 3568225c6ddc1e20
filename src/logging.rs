//! Lines on standard error, as text or JSON. What a value says is cut, and its control characters are escaped: texts of
//! others may be of any length, and would make lines of their own
//! (docs/behaviour/server.md#bounds-of-what-callers-choose).

use std::fmt::{self, Debug, Write};

use serde_json::{Map, Value, json};
use tracing::field::{Field, Visit};
use tracing::{Dispatch, Event, Subscriber, dispatcher, error};
use tracing_subscriber::field::MakeExt;
use tracing_subscriber::filter::LevelFilter;
use tracing_subscriber::fmt::format::{FormatEvent, FormatFields, Writer, debug_fn};
use tracing_subscriber::fmt::time::{FormatTime, SystemTime};
use tracing_subscriber::fmt::{FmtContext, FormattedFields, MakeWriter};
use tracing_subscriber::registry::LookupSpan;
use values::short::MESSAGE;

/// Writes the lines of the whole program from now on, those of panics too.
pub(crate) fn start(level: i32, format: &str) {
    // An error says that this was done already.
    drop(dispatcher::set_global_default(to(std::io::stderr, level, format)));
    std::panic::set_hook(Box::new(|panic| {
        let place = panic.location().map(ToString::to_string);
        error!(place, panic = panic.payload_as_str(), "panicked");
    }));
}

fn to<W: for<'a> MakeWriter<'a> + Send + Sync + 'static>(writer: W, level: i32, format: &str) -> Dispatch {
    let fields = debug_fn(|writer, field, value| match field.name() {
        "message" => write!(writer, "{}", reported(value)),
        name => write!(writer, "{name}={}", reported(value)),
    });
    let builder = tracing_subscriber::fmt()
        .with_max_level(filter(level))
        .with_writer(writer)
        .fmt_fields(fields.delimited(" "));
    if format == "json" { builder.event_format(Json).finish().into() } else { builder.finish().into() }
}

/// The filter for lines of this level.
fn filter(level: i32) -> LevelFilter {
    match level {
        ..=3 => LevelFilter::WARN,
        4 => LevelFilter::INFO,
        5..=7 => LevelFilter::DEBUG,
        _ => LevelFilter::TRACE,
    }
}

/// As much of what a value says as a line shows.
fn reported(value: &dyn Debug) -> String {
    let mut beginning = TruncatedText(String::new());
    if write!(beginning, "{value:?}").is_err() {
        beginning.0.push_str("...");
    }
    beginning.0
}

/// Takes no more than a message may have, and no control character.
struct TruncatedText(String);

impl Write for TruncatedText {
    fn write_str(&mut self, text: &str) -> fmt::Result {
        text.chars().try_for_each(|character| self.write_char(character))
    }

    fn write_char(&mut self, character: char) -> fmt::Result {
        let before = self.0.len();
        if character.is_control() {
            self.0.extend(character.escape_default());
        } else {
            self.0.push(character);
        }
        if self.0.len() <= MESSAGE {
            return Ok(());
        }
        self.0.truncate(before);
        Err(fmt::Error)
    }
}

/// One JSON object in each line.
struct Json;

impl<S, N> FormatEvent<S, N> for Json
where
    S: Subscriber + for<'a> LookupSpan<'a>,
    N: for<'a> FormatFields<'a> + 'static,
{
    fn format_event(
        &self,
        context: &FmtContext<'_, S, N>,
        mut writer: Writer<'_>,
        event: &Event<'_>,
    ) -> fmt::Result {
        let mut timestamp = String::new();
        SystemTime.format_time(&mut Writer::new(&mut timestamp))?;
        let mut fields = Fields::default();
        event.record(&mut fields);
        let (level, target) = (event.metadata().level().as_str(), event.metadata().target());
        let mut line = json!({"timestamp": timestamp, "level": level, "fields": fields.0, "target": target});
        // Only libraries have any, in lines of details.
        if let (Value::Object(line), Some(spans)) = (&mut line, context.event_scope()) {
            let spans = spans.from_root().map(|span| {
                let extensions = span.extensions();
                let fields = extensions.get::<FormattedFields<N>>().map_or("", |fields| &fields.fields);
                format!("{}{{{fields}}}", span.name())
            });
            line.insert("spans".to_owned(), spans.collect());
        }
        writeln!(writer, "{line}")
    }
}

/// The fields of an event, by name.
#[derive(Default)]
struct Fields(Map<String, Value>);

impl Fields {
    fn add(&mut self, field: &Field, value: impl Into<Value>) {
        self.0.insert(field.name().to_owned(), value.into());
    }
}

impl Visit for Fields {
    fn record_f64(&mut self, field: &Field, value: f64) {
        self.add(field, value);
    }

    fn record_i64(&mut self, field: &Field, value: i64) {
        self.add(field, value);
    }

    fn record_u64(&mut self, field: &Field, value: u64) {
        self.add(field, value);
    }

    fn record_bool(&mut self, field: &Field, value: bool) {
        self.add(field, value);
    }

    fn record_str(&mut self, field: &Field, value: &str) {
        self.add(field, reported(&format_args!("{value}")));
    }

    fn record_debug(&mut self, field: &Field, value: &dyn Debug) {
        self.add(field, reported(value));
    }
}

#[cfg(test)]
mod tests {
    use std::io::{self, Seek};
    use std::sync::Arc;

    use super::*;

    /// What is written where `log` runs.
    fn written(format: &str, log: impl FnOnce()) -> String {
        let file = Arc::new(tempfile::tempfile().unwrap());
        dispatcher::with_default(&to(file.clone(), 4, format), log);
        (&*file).rewind().unwrap();
        io::read_to_string(&*file).unwrap()
    }

    #[test]
    fn no_value_is_long_or_makes_a_line() {
        let long = "n\u{f6}".repeat(25 << 10);
        let forged = "a\r\nINFO \u{1b}[31m\u{85}forged";
        for format in ["text", "json"] {
            let line = written(format, || {
                error!(plain = long, shown = %long, all = ?[&long], "said {long}");
            });
            assert!(line.len() < 5 * MESSAGE && line.matches("...").count() == 4, "{line}");
            let lines = written(format, || {
                let _span = tracing::info_span!("call", shown = %forged).entered();
                error!(plain = forged, shown = %forged, all = ?[forged], "said {forged}");
            });
            let line = lines.strip_suffix('\n').unwrap();
            assert!(line.contains("forged") && !line.contains(char::is_control), "{line}");
        }
    }

    #[test]
    fn both_formats_say_the_same() {
        let log = || {
            let _span = tracing::info_span!("call", path = "/x").entered();
            error!(name = "web", missing = 3, ready = true, reason = %"no room", "not placed");
            tracing::debug!("a detail");
        };
        let text = written("text", log);
        let reported = "not placed name=\"web\" missing=3 ready=true reason=no room\n";
        assert!(
            text.ends_with(&format!("ERROR call{{path=\"/x\"}}: {}: {reported}", module_path!())),
            "{text}"
        );
        let mut line: Value = serde_json::from_str(&written("json", log)).unwrap();
        assert!(line["timestamp"].take().is_string());
        let fields =
            json!({"message": "not placed", "name": "web", "missing": 3, "ready": true, "reason": "no room"});
        let spans = ["call{path=\"/x\"}"];
        assert_eq!(
            line,
            json!({"timestamp": null, "level": "ERROR", "fields": fields, "target": module_path!(), "spans": spans})
        );
    }
}
