//! Container launch priority: which container waits for which key of the barrier
//! (docs/behaviour/launch-priority.md), and when the controller adds the keys
//! (docs/behaviour/launch-priority.md#release-of-the-containers, in [`release`]).
//!
//! A barrier is a ConfigMap `<pod>-barrier`. Each container has an environment variable that refers to
//! the key `p_<priority>` in it; the kubelet does not start the container before the key exists.

use std::num::IntErrorKind;

use api::annotations::CONTAINER_LAUNCH_PRIORITY;
use api::environment::{CONTAINER_BARRIER, CONTAINER_PRIORITY};

use crate::review::draft::Container;
use crate::review::lens::{Named, named};
use crate::review::{Draft, ReviewContext};
use values::json_patch::string;
use values::verdict::{Denial, refused};

pub mod release;

/// Characters of `generateName` that stay in a generated name.
const GENERATED_NAME_BASE: usize = 58;
/// Random characters behind them.
const GENERATED_NAME_SUFFIX: usize = 5;

/// The barrier's name for a Pod.
pub fn barrier_name(pod: &str) -> String {
    format!("{pod}-barrier")
}

/// The barrier's key for a priority.
pub fn barrier_key(priority: i64) -> String {
    format!("p_{priority}")
}

/// Gives every container of the Pod its variable, where the containers differ in priority.
pub fn mutate(draft: &mut Draft<'_>, context: &mut ReviewContext<'_>) -> Result<(), Denial> {
    if draft.containers.len() <= 1 {
        return Ok(());
    }
    let Some(priorities) = priorities(draft)? else { return Ok(()) };
    if draft.name.is_empty() && !draft.generate_name.is_empty() {
        let mut name: String = draft.generate_name.chars().take(GENERATED_NAME_BASE).collect();
        name.push_str(&context.random.name_suffix(GENERATED_NAME_SUFFIX));
        draft.set_name(name);
    }
    let barrier = string(&barrier_name(&draft.name));
    for (index, priority) in priorities.into_iter().enumerate() {
        let key = barrier_key(priority);
        let variable = format!(
            r#"{{"name":"{CONTAINER_BARRIER}","valueFrom":{{"configMapKeyRef":{{"name":{barrier},"key":"{key}"}}}}}}"#
        );
        // A Pod copied from a live one has the variable already; the kubelet would take the last.
        let Some(container) = draft.containers.get(index) else { continue };
        let present = variables(container, CONTAINER_BARRIER)?;
        let present = present.iter().rposition(|known| known.name == CONTAINER_BARRIER);
        draft.set_env(index, present, variable);
    }
    Ok(())
}

/// The priority of each container, or `None` where none has to wait.
fn priorities(draft: &Draft<'_>) -> Result<Option<Vec<i64>>, Denial> {
    let containers = &draft.containers;
    if draft.annotation(CONTAINER_LAUNCH_PRIORITY) == Some("Ordered") {
        return Ok(Some((0..).take(containers.len()).map(|index: i64| -index).collect()));
    }
    let mut priorities = Vec::with_capacity(containers.len());
    for container in containers {
        let variables = variables(container, CONTAINER_PRIORITY)?;
        let setting = variables.iter().rev().find(|variable| variable.name == CONTAINER_PRIORITY);
        priorities.push(match setting {
            Some(variable) => {
                parse(&variable.value().map_err(|error| malformed(container, &error))?.unwrap_or_default())?
            }
            None => 0,
        });
    }
    // All zero is a case of all equal.
    let first = priorities.first().copied();
    let differ = priorities.iter().any(|priority| Some(*priority) != first);
    Ok(differ.then_some(priorities))
}

/// The variables of a container, or none where `name` can't be among them: most Pods have no launch
/// order, and a search in the text is cheaper than reading it.
fn variables<'a>(container: &'a Container<'_>, name: &str) -> Result<Vec<Named<'a>>, Denial> {
    let Some(env) = container.env.as_deref() else { return Ok(Vec::new()) };
    // A name may also be spelt with escapes.
    if !env.contains(name) && !env.contains("\\u") {
        return Ok(Vec::new());
    }
    named(env).map_err(|error| malformed(container, &error))
}

fn malformed(container: &Container<'_>, error: &serde_json::Error) -> Denial {
    refused(format!("env of container {}: {error}", container.name))
}

/// An integer as Go's `strconv.Atoi` reads it.
fn parse(text: &str) -> Result<i64, Denial> {
    text.parse().map_err(|error: std::num::ParseIntError| {
        let problem = match error.kind() {
            IntErrorKind::PosOverflow | IntErrorKind::NegOverflow => "value out of range",
            _ => "invalid syntax",
        };
        Denial::failed(format!("strconv.Atoi: parsing {}: {problem}", string(text)))
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn priorities_are_read_as_go_reads_them() {
        for (text, expected) in [("5", 5), ("+1", 1), ("-3", -3), ("007", 7)] {
            assert_eq!(parse(text), Ok(expected));
        }
        for (text, expected) in [
            ("abc", r#"strconv.Atoi: parsing "abc": invalid syntax"#),
            ("", r#"strconv.Atoi: parsing "": invalid syntax"#),
            (" 1", r#"strconv.Atoi: parsing " 1": invalid syntax"#),
            ("-", r#"strconv.Atoi: parsing "-": invalid syntax"#),
            ("9223372036854775808", r#"strconv.Atoi: parsing "9223372036854775808": value out of range"#),
        ] {
            assert_eq!(parse(text), Err(Denial::failed(expected)));
        }
    }
}
