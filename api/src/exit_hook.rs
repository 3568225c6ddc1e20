//! Names of the hook by which containers end in an order (docs/behaviour/exit-priority.md#the-hook): admission
//! writes them, and the agent of the node reads them.

/// The volume that the hook lies in.
pub const VOLUME: &str = "kruise-exit";
/// Where the volume is mounted.
pub const MOUNT_PATH: &str = "/.kruise-exit";
/// The directory of the volume in which the agent leaves instructions for the hooks.
pub const STATES: &str = "state";
/// Where that directory is.
pub const STATE_PATH: &str = "/.kruise-exit/state";
/// The program of the hook in the volume.
pub const HOOK: &str = "/.kruise-exit/hook";
/// The program of the hook in its image.
pub const PROGRAM: &str = "/kruise-exit-hook";
/// The init container that copies the program into the volume.
pub const INIT_CONTAINER: &str = "kruise-exit-init";
/// How the command of the hook begins.
pub const WAIT: [&str; 2] = [HOOK, "wait"];
