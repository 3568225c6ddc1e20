//! The plan of a Pod's end, as its preStop hooks carry it (docs/behaviour/exit-priority.md#the-hook).
//!
//! Admission writes the plan into the arguments of the hooks, which can't change while the Pod runs; the agent of
//! the node reads it there.

use std::time::Duration;

pub use api::exit_hook::{HOOK, INIT_CONTAINER, MOUNT_PATH, PROGRAM, STATE_PATH, STATES, VOLUME, WAIT};
use thiserror::Error;

use crate::observed::ObservedPod;

/// How long a hook without a message waits, where the command line does not say it.
pub const WINDOW: Duration = Duration::from_secs(10);

/// A container that ends after others.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Hooked {
    /// Its name.
    pub container: String,
    /// The containers that end before it.
    pub after: Vec<String>,
    /// The Pod's time to end.
    pub grace: Duration,
    /// What is kept of it for this container and those behind it.
    pub tail: Duration,
    /// How long its hook waits without a message.
    pub window: Duration,
}

/// The arguments of a hook can't be understood.
#[derive(Clone, Debug, Error, PartialEq, Eq)]
pub enum PlanError {
    /// An argument is missing, unknown or of no sense.
    #[error("the exit hook of container {container} has no readable {argument}")]
    Argument {
        /// Whose hook.
        container: String,
        /// Which argument.
        argument: &'static str,
    },
    /// It waits for a container that the Pod does not have.
    #[error("container {container} ends after {after}, which is no container of the Pod")]
    NoContainer {
        /// Whose hook.
        container: String,
        /// The name.
        after: String,
    },
}

impl Hooked {
    /// The command of the hook, without what the user's own hook does.
    pub(super) fn command(&self) -> Vec<String> {
        let Self { container, after, grace, tail, window } = self;
        let mut command: Vec<String> = WAIT.map(str::to_owned).into();
        command.extend([
            format!("--name={container}"),
            format!("--after={}", after.join(",")),
            format!("--grace={}", grace.as_secs()),
            format!("--tail={}", tail.as_secs()),
            format!("--window={}", window.as_secs()),
        ]);
        command
    }

    /// Reads the command of the hook of `container`.
    fn read(container: &str, command: &[Box<str>]) -> Result<Self, PlanError> {
        let unreadable = |argument| PlanError::Argument { container: container.to_owned(), argument };
        // What follows `--` is the user's.
        let own = command.iter().take_while(|word| &***word != "--");
        let own: Vec<(&str, &str)> = own.filter_map(|word| word.split_once('=')).collect();
        let value = |argument: &'static str| {
            let found = own.iter().find(|(name, _)| *name == argument).map(|(_, value)| *value);
            found.ok_or_else(|| unreadable(argument))
        };
        let seconds = |argument| {
            let number = value(argument)?.parse::<u32>().map_err(|_| unreadable(argument))?;
            Ok(Duration::from_secs(number.into()))
        };
        if value("--name")? != container {
            return Err(unreadable("--name"));
        }
        Ok(Self {
            container: container.to_owned(),
            after: value("--after")?.split(',').map(str::to_owned).collect(),
            grace: seconds("--grace")?,
            tail: seconds("--tail")?,
            // Hooks of an earlier version do not have it.
            window: seconds("--window").unwrap_or(WINDOW),
        })
    }
}

/// The containers of a Pod that end after others, in the Pod's order; none where no order was asked for.
///
/// # Errors
/// The hooks make no sense: somebody else wrote them.
pub fn hooked(pod: &ObservedPod) -> Result<Vec<Hooked>, PlanError> {
    let containers = &pod.spec.containers;
    let mut plan = Vec::new();
    for container in containers.iter().filter(|container| !container.exit_hook.is_empty()) {
        let hooked = Hooked::read(&container.name, &container.exit_hook)?;
        let unknown = |name: &&String| containers.iter().all(|other| *other.name != **name);
        if let Some(after) = hooked.after.iter().find(unknown) {
            return Err(PlanError::NoContainer { container: hooked.container, after: after.clone() });
        }
        plan.push(hooked);
    }
    Ok(plan)
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    fn pod(command: &[&str]) -> ObservedPod {
        let lifecycle = json!({"preStop": {"exec": {"command": command}}});
        let containers = json!([{"name": "main"}, {"name": "envoy", "lifecycle": lifecycle}]);
        let pod = json!({"metadata": {"name": "p"}, "spec": {"containers": containers}});
        serde_json::from_value(pod).unwrap()
    }

    #[test]
    fn the_plan_is_read_back_from_the_hooks() {
        let wanted = Hooked {
            container: "envoy".to_owned(),
            after: vec!["main".to_owned()],
            grace: Duration::from_secs(30),
            tail: Duration::from_secs(2),
            window: Duration::from_secs(7),
        };
        let mut command = wanted.command();
        command.extend(["--", "sh", "--name=other"].map(str::to_owned));
        let words: Vec<&str> = command.iter().map(String::as_str).collect();
        assert_eq!(hooked(&pod(&words)), Ok(vec![wanted.clone()]));
        let earlier: Vec<&str> = words.iter().copied().filter(|word| *word != "--window=7").collect();
        assert_eq!(hooked(&pod(&earlier)), Ok(vec![Hooked { window: WINDOW, ..wanted }]));
        assert_eq!(hooked(&pod(&["sh", "-c", "/.kruise-exit/hook wait"])), Ok(Vec::new()));
    }

    #[test]
    fn hooks_without_sense_are_refused() {
        let unreadable = |argument| Err(PlanError::Argument { container: "envoy".to_owned(), argument });
        for (arguments, argument) in [
            (&["--after=main", "--grace=30", "--tail=2"][..], "--name"),
            (&["--name=main", "--after=main", "--grace=30", "--tail=2"], "--name"),
            (&["--name=envoy", "--grace=30", "--tail=2"], "--after"),
            (&["--name=envoy", "--after=main", "--grace=x", "--tail=2"], "--grace"),
            (&["--name=envoy", "--after=main", "--grace=30", "--tail=-1"], "--tail"),
            (&["--name=envoy", "--after=main", "--grace=30", "--", "--tail=2"], "--tail"),
        ] {
            let command: Vec<&str> = WAIT.iter().chain(arguments).copied().collect();
            assert_eq!(hooked(&pod(&command)), unreadable(argument), "{arguments:?}");
        }
        let command = [HOOK, "wait", "--name=envoy", "--after=main,nope", "--grace=30", "--tail=2"];
        let expected = PlanError::NoContainer { container: "envoy".to_owned(), after: "nope".to_owned() };
        assert_eq!(hooked(&pod(&command)), Err(expected));
    }
}
