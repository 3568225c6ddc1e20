//! A timeline as a drawing: a row for each Pod, time from left to right, colours by revision, and below the
//! numbers of Pods with the limits that they have to keep.

use std::fmt::Write;

use super::agenda::Milliseconds;
use super::timeline::{Counts, Look, Span, Timeline};

/// A number that is drawn over time.
type Line = fn(&Counts) -> i64;

/// Measures of the drawing, in pixels.
const MARGIN: f64 = 150.0;
const WIDTH: f64 = 900.0;
const TOP: f64 = 30.0;
const ROW: f64 = 18.0;
const BAR: f64 = 14.0;
const GRAPH: f64 = 140.0;
/// About as many marks of time as there is room for.
const MARKS: u64 = 10;

/// One colour for each revision, in the order in which revisions appear; then they repeat.
const COLOURS: [&str; 6] = ["#4e79a7", "#f28e2b", "#59a14f", "#b07aa1", "#edc948", "#76b7b2"];
const TERMINATING: &str = "#9e9e9e";
const ENDED: &str = "#5f5f5f";

/// The drawing as an SVG document.
pub fn svg(timeline: &Timeline, title: &str) -> String {
    let mut revisions: Vec<&str> = Vec::new();
    for span in timeline.tracks.iter().flat_map(|track| &track.spans) {
        if !revisions.contains(&&*span.revision) {
            revisions.push(&span.revision);
        }
    }
    let rows = TOP + ROW * timeline.tracks.len() as f64;
    let height = rows + GRAPH + 90.0;
    let mut out = Drawing { text: String::new(), end: timeline.end.max(1) };
    out.line(&format!(
        r#"<svg xmlns="http://www.w3.org/2000/svg" width="{}" height="{height}" font-family="sans-serif" font-size="11">"#,
        MARGIN + WIDTH + 20.0
    ));
    out.line(r##"<rect width="100%" height="100%" fill="#ffffff"/>"##);
    out.label(MARGIN, 16.0, "start", title);
    for (row, track) in timeline.tracks.iter().enumerate() {
        let y = TOP + ROW * row as f64;
        out.label(MARGIN - 6.0, y + BAR - 3.0, "end", &track.name);
        for span in &track.spans {
            out.span(span, y, &revisions);
        }
    }
    out.graph(timeline, rows + 20.0);
    out.legend(&revisions, rows + GRAPH + 60.0);
    out.line("</svg>");
    out.text
}

struct Drawing {
    text: String,
    end: Milliseconds,
}

impl Drawing {
    fn line(&mut self, text: &str) {
        self.text.push_str(text);
        self.text.push('\n');
    }

    fn x(&self, time: Milliseconds) -> f64 {
        MARGIN + WIDTH * time as f64 / self.end as f64
    }

    fn label(&mut self, x: f64, y: f64, anchor: &str, text: &str) {
        let text = escaped(text);
        self.line(&format!(r#"<text x="{x:.1}" y="{y:.1}" text-anchor="{anchor}">{text}</text>"#));
    }

    fn span(&mut self, span: &Span, y: f64, revisions: &[&str]) {
        let (fill, opacity) = paint(span.look, &span.revision, revisions);
        let x = self.x(span.from);
        let width = (self.x(span.to) - x).max(0.5);
        let about = escaped(&format!(
            "{:?} at {}, {} to {}",
            span.look,
            span.revision,
            seconds(span.from),
            seconds(span.to)
        ));
        self.line(&format!(
            r#"<rect x="{x:.1}" y="{y:.1}" width="{width:.1}" height="{BAR}" fill="{fill}" fill-opacity="{opacity}" stroke="{fill}"><title>{about}</title></rect>"#
        ));
    }

    /// Numbers of Pods over time, and the marks of time.
    fn graph(&mut self, timeline: &Timeline, top: f64) {
        let numbers =
            |counts: &Counts| [counts.old + counts.new, counts.available, counts.ceiling, counts.floor];
        let most = timeline.samples.iter().flat_map(|(_, counts)| numbers(counts)).max().unwrap_or(0).max(1);
        let y = |number: i64| top + GRAPH * (1.0 - number as f64 / most as f64);
        let mut step = 1_000;
        while self.end / step > MARKS {
            step *= if step.to_string().starts_with('1') { 5 } else { 2 };
        }
        for mark in 0..=self.end / step {
            let x = self.x(mark * step);
            self.line(&format!(
                r##"<line x1="{x:.1}" y1="{TOP}" x2="{x:.1}" y2="{:.1}" stroke="#dddddd"/>"##,
                top + GRAPH
            ));
            self.label(x, top + GRAPH + 14.0, "middle", &seconds(mark * step));
        }
        for number in 0..=most {
            if number * 10 % most < 10 || most <= 10 {
                self.label(MARGIN - 6.0, y(number) + 4.0, "end", &number.to_string());
            }
        }
        let lines: [(&str, &str, Line); 4] = [
            ("#333333", "", |counts| counts.old + counts.new),
            ("#59a14f", "", |counts| counts.available),
            ("#333333", r#" stroke-dasharray="4 3""#, |counts| counts.ceiling),
            ("#e15759", r#" stroke-dasharray="4 3""#, |counts| counts.floor),
        ];
        for (colour, dashes, number) in lines {
            let mut points = String::new();
            let mut last = None;
            for (time, counts) in &timeline.samples {
                let x = self.x(*time);
                if let Some(before) = last {
                    // Writing to a String cannot fail.
                    let _ = write!(points, "{x:.1},{:.1} ", y(before));
                }
                last = Some(number(counts));
                let _ = write!(points, "{x:.1},{:.1} ", y(number(counts)));
            }
            if let Some(last) = last {
                let _ = write!(points, "{:.1},{:.1}", self.x(self.end), y(last));
            }
            self.line(&format!(
                r#"<polyline points="{points}" fill="none" stroke="{colour}" stroke-width="1.5"{dashes}/>"#
            ));
        }
    }

    fn legend(&mut self, revisions: &[&str], y: f64) {
        let mut x = MARGIN;
        let mut entry = |drawing: &mut Self, fill: &str, opacity: f64, text: &str| {
            drawing.line(&format!(
                r#"<rect x="{x:.1}" y="{:.1}" width="12" height="12" fill="{fill}" fill-opacity="{opacity}" stroke="{fill}"/>"#,
                y - 10.0
            ));
            drawing.label(x + 16.0, y, "start", text);
            x += 30.0 + 6.5 * text.len() as f64;
        };
        for revision in revisions {
            entry(self, paint(Look::Available, revision, revisions).0, 1.0, revision);
        }
        for (look, text) in [
            (Look::Pending, "pending"),
            (Look::NotReady, "not ready"),
            (Look::Ready, "ready, not available"),
            (Look::Available, "available"),
            (Look::Terminating, "terminating"),
        ] {
            let (fill, opacity) = paint(look, "", &[""]);
            entry(self, fill, opacity, text);
        }
        for (text, colour, place) in [
            ("Pods", "#333333", 0.0),
            ("available", "#59a14f", 60.0),
            ("replicas + maxSurge (dashed)", "#333333", 140.0),
            ("replicas - maxUnavailable (dashed)", "#e15759", 330.0),
        ] {
            let x = MARGIN + place;
            self.line(&format!(r#"<text x="{x:.1}" y="{:.1}" fill="{colour}">{text}</text>"#, y + 20.0));
        }
    }
}

/// Colour and opacity of a Pod.
fn paint(look: Look, revision: &str, revisions: &[&str]) -> (&'static str, f64) {
    let position = revisions.iter().position(|known| *known == revision).unwrap_or(0);
    let colour = COLOURS.get(position % COLOURS.len()).copied().unwrap_or(TERMINATING);
    match look {
        Look::Pending => (colour, 0.0),
        Look::NotReady => (colour, 0.3),
        Look::Ready => (colour, 0.65),
        Look::Available => (colour, 1.0),
        Look::Terminating => (TERMINATING, 0.6),
        Look::Ended => (ENDED, 1.0),
    }
}

fn seconds(time: Milliseconds) -> String {
    format!("{}.{} s", time / 1_000, time % 1_000 / 100)
}

fn escaped(text: &str) -> String {
    text.replace('&', "&amp;").replace('<', "&lt;").replace('>', "&gt;").replace('"', "&quot;")
}
