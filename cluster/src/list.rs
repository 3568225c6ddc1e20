//! Lists, read page by page.

use kube::Client;
use serde::{Deserialize, Deserializer};
use thiserror::Error;

use crate::error::ApiError;
use crate::write;

/// Objects per page of a list that is read to its end.
const PAGE: usize = 500;

/// Why a list could not be read to its end.
#[derive(Debug, Error)]
pub enum ListError {
    /// The API server refused a page, or can't be reached.
    #[error("{page} can't be read")]
    Unread {
        /// The path of the page, with its query.
        page: String,
        /// Why.
        source: ApiError,
    },
    /// A page is not a list of such objects.
    #[error("{path} is not understood")]
    NotUnderstood {
        /// The path of the list.
        path: String,
        /// What is wrong with it.
        source: serde_json::Error,
    },
}

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

/// Takes in all pages of a list; `path` may have a query. Where there is nothing at the path, the list is empty.
///
/// # Errors
/// The API server refuses or can't be reached, or the objects are not understood.
pub async fn list_all<T: for<'de> Deserialize<'de>>(
    client: &Client,
    path: &str,
    mut take: impl FnMut(T),
) -> Result<(), ListError> {
    let separator = if path.contains('?') { '&' } else { '?' };
    let mut token: Option<String> = None;
    loop {
        let page = format!("{path}{separator}{}", query(PAGE, token.as_deref()));
        let text = match write::get(client, &page).await {
            Ok(Some(text)) => text,
            Ok(None) => return Ok(()),
            Err(source) => return Err(ListError::Unread { page, source }),
        };
        let list: List<T> = serde_json::from_str(&text)
            .map_err(|source| ListError::NotUnderstood { path: path.to_owned(), source })?;
        token = list.next_page().map(str::to_owned);
        list.items.into_iter().for_each(&mut take);
        if token.is_none() {
            return Ok(());
        }
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
