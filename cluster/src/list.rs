//! One page of a list, as much of it as is asked for.

use serde::{Deserialize, Deserializer};

/// A page of objects.
#[derive(Debug, Deserialize)]
pub struct List<T> {
    metadata: ListMetadata,
    /// The objects of this page.
    #[serde(deserialize_with = "items", bound(deserialize = "T: Deserialize<'de>"))]
    pub items: Vec<T>,
}

/// The API server writes null for an empty list of metadata.
fn items<'de, D: Deserializer<'de>, T: Deserialize<'de>>(deserializer: D) -> Result<Vec<T>, D::Error> {
    Option::deserialize(deserializer).map(Option::unwrap_or_default)
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

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_empty_list_of_metadata_is_read() {
        let list: List<u8> =
            serde_json::from_str(r#"{"metadata":{"resourceVersion":"1"},"items":null}"#).unwrap();
        assert!(list.items.is_empty() && list.next_page().is_none());
    }
}
