//! What the annotations of a Pod ask for (docs/behaviour/exit-priority.md#annotations).

use api::annotations::{CONTAINER_EXIT_MODE, CONTAINER_EXIT_PRIORITY, CONTAINER_EXIT_RESERVE_SECONDS};
use api::raw_object::RawObject;
use serde_json::{Map, Value};

use values::json_patch::string;
use values::verdict::Denial;

/// What a step of the order keeps for its own end where the Pod does not say it.
const RESERVE: u32 = 2;
const LONGEST_RESERVE: u32 = 300;

/// How containers are made to end in their order.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Mode {
    /// Containers that end later wait in their preStop hook, and the agent of the node lets them go.
    #[default]
    Hook,
    /// Containers that end later become init containers that run beside the others, which the kubelet ends last.
    NativeSidecar,
}

impl Mode {
    /// The mode of this name.
    pub fn parse(name: &str) -> Option<Self> {
        match name {
            "Hook" => Some(Self::Hook),
            "NativeSidecar" => Some(Self::NativeSidecar),
            _ => None,
        }
    }
}

/// What a Pod asks for.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Request {
    /// The containers that are named, in the order of the annotation.
    pub(super) priorities: Vec<(String, i32)>,
    /// How it is to be done, where the Pod says it.
    pub(super) mode: Option<Mode>,
    /// The seconds that each step keeps for its own end.
    pub(super) reserve: u32,
}

impl Request {
    /// Reads the annotations; `None` where no order is asked for.
    pub(super) fn read(annotations: &RawObject<'_>) -> Result<Option<Self>, Denial> {
        let Some(text) = annotations.string(CONTAINER_EXIT_PRIORITY) else { return Ok(None) };
        let mode = annotations.string(CONTAINER_EXIT_MODE);
        let mode = mode.map(|mode| Mode::parse(&mode).ok_or_else(|| unknown_mode(&mode))).transpose()?;
        let reserve = annotations.string(CONTAINER_EXIT_RESERVE_SECONDS).map_or(Ok(RESERVE), |seconds| {
            let number = seconds.parse::<u32>().ok().filter(|number| *number <= LONGEST_RESERVE);
            let detail = "must be an integer between 0 and 300";
            number.ok_or_else(|| invalid(CONTAINER_EXIT_RESERVE_SECONDS, &seconds, detail))
        })?;
        if text.is_empty() {
            return Ok(None);
        }
        let refused = |detail: String| refused(&text, &detail);
        let priorities: Map<String, Value> = serde_json::from_str(&text).map_err(|error| {
            refused(format!("must be a JSON object of container name to non-negative integer: {error}"))
        })?;
        let priorities = priorities.into_iter().map(|(container, value)| {
            let priority = priority(&value).map_err(|wrong| {
                refused(format!("exit priority of container {} must {wrong}", string(&container)))
            })?;
            Ok((container, priority))
        });
        Ok(Some(Self { priorities: priorities.collect::<Result<_, Denial>>()?, mode, reserve }))
    }

    /// The priority of a container, where it is named.
    pub(super) fn named(&self, container: &str) -> Option<i32> {
        self.priorities.iter().find(|(name, _)| name == container).map(|(_, priority)| *priority)
    }

    /// The priority of a container; that of the main containers where it is not named.
    pub(super) fn of(&self, container: &str) -> i32 {
        self.named(container).unwrap_or_default()
    }
}

fn unknown_mode(mode: &str) -> Denial {
    invalid(CONTAINER_EXIT_MODE, mode, r#"supported values: "Hook", "NativeSidecar""#)
}

/// The number; otherwise what it must be.
fn priority(value: &Value) -> Result<i32, &'static str> {
    let whole = value.as_f64().filter(|number| number.fract() == 0.0).ok_or("be an integer")?;
    if whole < 0.0 {
        return Err("not be negative");
    }
    // A whole number, which may have been written as 1.0 or 1e3.
    format!("{whole:.0}").parse().map_err(|_| "not be greater than 2147483647")
}

/// The refusal of the order `text`.
pub(super) fn refused(text: &str, detail: &str) -> Denial {
    invalid(CONTAINER_EXIT_PRIORITY, text, detail)
}

/// The refusal of a mode.
pub(super) fn refused_mode(text: &str, detail: &str) -> Denial {
    invalid(CONTAINER_EXIT_MODE, text, detail)
}

fn invalid(key: &str, value: &str, detail: &str) -> Denial {
    let message = format!("metadata.annotations[{key}]: Invalid value: {}: {detail}", string(value));
    Denial { code: 400, message }
}
