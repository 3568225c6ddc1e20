//! How many histories tests of plans go through.

/// As many as environment variable `KUTTER_SIMULATION_HISTORIES` says, or this number.
#[expect(clippy::disallowed_methods, reason = "who runs the tests chooses")]
pub(crate) fn histories(default: u64) -> u64 {
    let chosen = std::env::var("KUTTER_SIMULATION_HISTORIES").ok();
    chosen.map_or(default, |text| text.parse().expect("a number"))
}
