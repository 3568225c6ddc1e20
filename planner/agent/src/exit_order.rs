//! The order in which the containers of a Pod end (docs/behaviour/node-agent.md#exit-order).
//!
//! Each container that ends after others waits in its preStop hook. The agent first sends every hook how long it may
//! wait at most, and then, once the others have exited, that it may continue. All of it is found from the Pod and the
//! runtime, so that an agent that starts in the middle continues where the last one was.

use std::time::Duration;

use jiff::Timestamp;

use super::container::{Condition, RuntimeContainer, newest};
use pod::exit_priority::plan::{HOOK, Hooked};
use pod::observed::ObservedPod;
use values::event::{Event, normal, warning};
use values::moment::until;

#[cfg(test)]
mod tests;

/// What a container keeps for its own end, whatever it waits for. The hook subtracts the same.
const OWN: Duration = Duration::from_secs(1);
/// How long a Pod is followed after its time is over.
const AFTER: Duration = Duration::from_secs(10);
/// Pauses after a container could not be released; after the last one it is not tried any more.
const PAUSES: [Duration; 3] =
    [Duration::from_millis(200), Duration::from_millis(400), Duration::from_millis(800)];

/// Pause after the message to wait could not be delivered to a hook.
const PAUSE: Duration = Duration::from_millis(500);

/// Times are those of a monotonic clock.
type Moment = Duration;

/// The end of one Pod.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct End {
    containers: Vec<Waiting>,
    /// When it was heard of, and when the Pod's time is over.
    begun: Moment,
    over: Moment,
}

/// A container that waits.
#[derive(Clone, Debug, PartialEq, Eq)]
struct Waiting {
    hooked: Hooked,
    hold: Hold,
    state: State,
}

/// Whether a hook knows how long to wait.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Hold {
    /// Its message is due from this time on.
    Due(Moment),
    /// Its message is being delivered; where this is set, the message has changed since.
    Telling(bool),
    /// It knows, or does not wait any more.
    Over,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum State {
    /// It waits for others.
    Held,
    /// It is being released, after so many failures.
    Telling(usize),
    /// Its release failed so often, and is tried again from this time on.
    Failed(usize, Moment),
    /// No message to it is left.
    Over,
}

/// What a hook is ordered to do.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Mark {
    /// The container.
    pub container: String,
    /// Its ID in the runtime.
    pub id: String,
    /// What runs in it.
    pub command: Vec<String>,
}

/// How a container was let go.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Outcome {
    /// All others had exited.
    Ordered,
    /// Its time to wait was over while others still ran.
    Timeout,
    /// Its hook could not be reached.
    ExecError,
}

/// A container whose end is no longer waited for.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Settled {
    /// How it was let go.
    pub outcome: Outcome,
    /// The Events about it.
    pub event: Option<Event>,
}

/// What there is to do for a Pod at one moment.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Step {
    /// The containers that are to wait, and how long at most.
    pub holds: Vec<Mark>,
    /// The containers that may continue.
    pub releases: Vec<Mark>,
    /// The containers whose time to wait is over, and those that accepted their release and ended before the caller
    /// that released them knew.
    pub settled: Vec<Settled>,
    /// The Pod needs no further look.
    pub is_over: bool,
}

/// How long a Pod that ends still has. With `is_news`, its end begins now; otherwise it has begun at a time that only
/// the Pod says.
pub fn remaining(pod: &ObservedPod, plan: &[Hooked], is_news: bool, now: Timestamp) -> Duration {
    let metadata = &pod.metadata;
    let of_pod = plan.iter().map(|hooked| hooked.grace).max().unwrap_or_default();
    let Some(end) = metadata.deletion_timestamp else { return of_pod };
    let asked = metadata.deletion_grace_period_seconds;
    let whole =
        asked.map_or(of_pod, |seconds| Duration::from_secs(u64::try_from(seconds).unwrap_or_default()));
    // The clock of the node may differ from that of the API server: it counts only where nothing else does.
    if is_news { whole } else { until(end.into(), now).unwrap_or_default().min(whole) }
}

impl End {
    /// The end of a Pod with this plan, which has `remaining` left.
    pub fn new(plan: Vec<Hooked>, remaining: Duration, now: Moment) -> Self {
        let hold = Hold::Due(now);
        let containers = plan.into_iter().map(|hooked| Waiting { hooked, hold, state: State::Held });
        Self { containers: containers.collect(), begun: now, over: now.saturating_add(remaining) }
    }

    /// Takes in that the Pod has `remaining` left. Where that is less than was known, hooks get the new time.
    pub fn shorten(&mut self, remaining: Duration, now: Moment) {
        let over = now.saturating_add(remaining);
        if over >= self.over {
            return;
        }
        self.over = over;
        for waiting in &mut self.containers {
            let is_telling = matches!(waiting.hold, Hold::Telling(_));
            waiting.hold = if is_telling { Hold::Telling(true) } else { Hold::Due(now) };
        }
    }

    /// The messages to the hooks that do not know yet how long to wait at most.
    fn holds(&mut self, containers: &[RuntimeContainer], now: Moment) -> Vec<Mark> {
        let mut marks = Vec::new();
        for index in 0..self.containers.len() {
            let Some(waiting) = self.containers.get(index) else { continue };
            let is_due = matches!(waiting.hold, Hold::Due(from) if now >= from);
            if !is_due || waiting.state != State::Held {
                continue;
            }
            let rest = self.until(&waiting.hooked).saturating_sub(now).as_millis();
            let words = ["--state=hold".to_owned(), format!("--remaining-ms={rest}")];
            let Some(mark) = mark(&waiting.hooked, containers, words) else { continue };
            marks.push(mark);
            if let Some(waiting) = self.containers.get_mut(index) {
                waiting.hold = Hold::Telling(false);
            }
        }
        marks
    }

    /// Takes in whether the message to wait was delivered. It is sent again as long as the hook may listen.
    pub fn held(&mut self, container: &str, succeeded: bool, now: Moment) {
        let begun = self.begun;
        let of = |waiting: &&mut Waiting| waiting.hooked.container == container;
        let Some(waiting) = self.containers.iter_mut().find(of) else { return };
        let Hold::Telling(is_outdated) = waiting.hold else { return };
        let again = now.saturating_add(PAUSE);
        let listens = again < begun.saturating_add(waiting.hooked.window);
        waiting.hold = match succeeded {
            _ if is_outdated => Hold::Due(now),
            false if listens => Hold::Due(again),
            _ => Hold::Over,
        };
    }

    /// Until when a container waits at most.
    fn until(&self, hooked: &Hooked) -> Moment {
        self.over.saturating_sub(OWN).saturating_sub(hooked.tail)
    }

    /// What there is to do now, by the containers that the runtime has of the Pod.
    pub fn step(&mut self, containers: &[RuntimeContainer], now: Moment) -> Step {
        let mut step = Step::default();
        for index in 0..self.containers.len() {
            let Some(waiting) = self.containers.get(index) else { continue };
            let (hooked, state) = (&waiting.hooked, waiting.state);
            let tries = match state {
                State::Over | State::Telling(_) => continue,
                State::Failed(_, again) if now < again => continue,
                State::Failed(tries, _) => tries,
                State::Held => 0,
            };
            let others: Vec<&str> = hooked
                .after
                .iter()
                .map(String::as_str)
                .filter(|name| running(containers, name).is_some())
                .collect();
            if running(containers, &hooked.container).is_none() {
                if tries > 0 && others.is_empty() {
                    step.settled.push(released(hooked));
                }
                self.turn(index, State::Over);
            } else if others.is_empty() {
                step.releases.extend(mark(hooked, containers, ["--state=release".to_owned()]));
                self.turn(index, State::Telling(tries));
            } else if now >= self.until(hooked) {
                // Its hook continues by its own clock.
                let (name, others) = (&hooked.container, others.join(", "));
                let message = format!("Container {name} was let go while {others} still run");
                let event = Some(warning("ContainerExitOrderTimeout", message));
                step.settled.push(Settled { outcome: Outcome::Timeout, event });
                self.turn(index, State::Over);
            }
        }
        // A container that is let go is not held back at the same time.
        step.holds = self.holds(containers, now);
        step.is_over = self.containers.iter().all(|waiting| waiting.state == State::Over)
            || now >= self.over.saturating_add(AFTER);
        step
    }

    /// Takes in whether a container was released; gives what is known of it then, if that is final.
    pub fn reported(&mut self, container: &str, succeeded: bool, now: Moment) -> Option<Settled> {
        let waiting = self.containers.iter_mut().find(|waiting| waiting.hooked.container == container)?;
        let State::Telling(tries) = waiting.state else { return None };
        if succeeded {
            waiting.state = State::Over;
            return Some(released(&waiting.hooked));
        }
        if let Some(pause) = PAUSES.get(tries) {
            waiting.state = State::Failed(tries + 1, now.saturating_add(*pause));
            return None;
        }
        waiting.state = State::Over;
        Some(Settled { outcome: Outcome::ExecError, event: None })
    }

    fn turn(&mut self, index: usize, state: State) {
        if let Some(waiting) = self.containers.get_mut(index) {
            waiting.state = state;
        }
    }
}

/// A container that was let go in its order.
fn released(hooked: &Hooked) -> Settled {
    let (name, others) = (&hooked.container, hooked.after.join(", "));
    let event = normal("ContainerExitReleased", format!("Container {name} released after {others} exited"));
    Settled { outcome: Outcome::Ordered, event: Some(event) }
}

/// The container of this name, if it runs.
fn running<'c>(containers: &'c [RuntimeContainer], name: &str) -> Option<&'c RuntimeContainer> {
    newest(containers, name).filter(|container| container.condition == Condition::Running)
}

/// The message to the hook of a container; nothing where it does not run.
fn mark<const N: usize>(
    hooked: &Hooked,
    containers: &[RuntimeContainer],
    words: [String; N],
) -> Option<Mark> {
    let Hooked { container, .. } = hooked;
    let id = running(containers, container)?.id.clone();
    let mut command = vec![HOOK.to_owned(), "mark".to_owned(), format!("--name={container}")];
    command.extend(words);
    Some(Mark { container: container.clone(), id, command })
}
