//! The hook of container exit priority, read from the `lifecycle` of a container. Other hooks are not kept.

use api::exit_hook::WAIT;
use serde::{Deserialize, Deserializer};

#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
struct Lifecycle {
    pre_stop: Option<PreStop>,
}

#[derive(Deserialize)]
struct PreStop {
    exec: Option<Exec>,
}

#[derive(Deserialize)]
struct Exec {
    command: Option<Vec<Box<str>>>,
}

/// The command of the hook; empty where there is none.
pub(super) fn read<'de, D: Deserializer<'de>>(deserializer: D) -> Result<Box<[Box<str>]>, D::Error> {
    let lifecycle = Option::<Lifecycle>::deserialize(deserializer)?;
    let pre_stop = lifecycle.and_then(|lifecycle| lifecycle.pre_stop);
    let command = pre_stop.and_then(|pre_stop| pre_stop.exec).and_then(|exec| exec.command);
    let command = command.filter(|command| command.iter().map(|word| &**word).take(WAIT.len()).eq(WAIT));
    Ok(command.unwrap_or_default().into())
}
