//! How answers are shown: objects on standard output, reasons on standard error.

use std::io::Write;

use anyhow::Context;
use serde_json::Value;
use similar::TextDiff;

use super::Format;
use super::answers::Answer;

/// Prints the answers.
pub(crate) fn print(answers: &[Answer], format: Format) -> anyhow::Result<()> {
    let mut output = std::io::stdout().lock();
    let mut errors = std::io::stderr().lock();
    for answer in answers {
        for warning in &answer.warnings {
            writeln!(errors, "Warning: {warning}")?;
        }
        if let Some((webhook, denial)) = &answer.denial {
            writeln!(
                errors,
                "Error from server: error when reviewing {}: admission webhook \"{webhook}\" denied the request: {}",
                answer.title, denial.message
            )?;
        }
    }
    let allowed = answers.iter().filter(|answer| answer.denial.is_none());
    match format {
        Format::Yaml => {
            for answer in allowed {
                writeln!(output, "---\n# {}", answer.title)?;
                for explanation in &answer.explanations {
                    writeln!(output, "# {explanation}")?;
                }
                if let Some(order) = &answer.order {
                    writeln!(output, "# {order}")?;
                }
                write!(output, "{}", yaml(&answer.after)?)?;
            }
        }
        Format::Json => {
            let items: Vec<&str> = allowed.map(|answer| answer.after.as_str()).collect();
            writeln!(output, r#"{{"apiVersion":"v1","kind":"List","items":[{}]}}"#, items.join(","))?;
        }
        Format::Diff => {
            for answer in allowed {
                let (before, after) = (yaml(&answer.before)?, yaml(&answer.after)?);
                let diff = TextDiff::from_lines(&before, &after);
                let header = (format!("sent {}", answer.title), format!("stored {}", answer.title));
                write!(output, "{}", diff.unified_diff().context_radius(3).header(&header.0, &header.1))?;
            }
        }
        Format::Patch => {
            for answer in allowed {
                writeln!(output, "# {}\n{}", answer.title, answer.patch.to_json())?;
            }
        }
    }
    Ok(())
}

fn yaml(json: &str) -> anyhow::Result<String> {
    let value: Value = serde_json::from_str(json).context("an object is not JSON any more")?;
    let yaml = serde_saphyr::to_string(&value).context("an object can't be written as YAML")?;
    Ok(if yaml.ends_with('\n') { yaml } else { yaml + "\n" })
}
