//! One page of a list, as much of it as is asked for.

use serde::Deserialize;

/// A page of objects.
#[derive(Debug, Deserialize)]
pub struct List<T> {
    metadata: ListMetadata,
    /// The objects of this page.
    pub items: Vec<T>,
}

#[derive(Debug, Deserialize)]
struct ListMetadata {
    #[serde(default, rename = "continue")]
    next: String,
}

impl<T> List<T> {
    /// The token of the next page; `None` on the last one.
    pub fn next_page(&self) -> Option<&str> {
        Some(self.metadata.next.as_str()).filter(|token| !token.is_empty())
    }
}

/// The query of a page of `limit` objects, after the page that gave `token`.
pub fn query(limit: usize, token: Option<&str>) -> String {
    match token {
        None => format!("limit={limit}"),
        Some(token) => format!("limit={limit}&continue={token}"),
    }
}
