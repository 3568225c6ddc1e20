//! Time zones by their names, from the database that is part of the program.

use std::sync::LazyLock;

use jiff::tz::{TimeZone, TimeZoneDatabase};

static DATABASE: LazyLock<TimeZoneDatabase> = LazyLock::new(TimeZoneDatabase::bundled);

/// Why a name names no zone.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum ZoneError {
    /// It looks like a path.
    #[error("time: invalid location name")]
    Path,
    /// There is none of this name.
    #[error("unknown time zone {0}")]
    Unknown(String),
}

/// The zone of an IANA name, such as `Europe/Berlin`. The empty name is that of UTC.
///
/// # Errors
/// There is no such zone.
pub fn zone(name: &str) -> Result<TimeZone, ZoneError> {
    if name.is_empty() {
        return Ok(TimeZone::UTC);
    }
    if name.contains("..") || name.starts_with(['/', '\\']) {
        return Err(ZoneError::Path);
    }
    // The database finds names in any case; other programs that read the same object do not.
    let found = DATABASE.get(name).ok().filter(|zone| zone.iana_name() == Some(name) && !zone.is_unknown());
    found.ok_or_else(|| ZoneError::Unknown(name.to_owned()))
}
