//! The bearer tokens by which callers say who they are.

use http::HeaderMap;
use http::header::AUTHORIZATION;

/// The longest token that is checked.
pub(crate) const LONGEST: usize = 16 * 1024;

/// The token that a caller shows.
pub(crate) fn bearer(headers: &HeaderMap) -> Option<&str> {
    let value = headers.get(AUTHORIZATION)?.to_str().ok()?;
    value.strip_prefix("Bearer ").filter(|token| token.len() <= LONGEST)
}
