//! Objects of a namespaced kind for workloads of kinds that the administrator lists.

use std::sync::Arc;

use super::namespaced::Namespaced;

/// The objects, and the list or what is wrong with it. A clone is cheap and never changes.
#[derive(Clone, Debug)]
pub struct Listed<T, L> {
    /// The objects.
    pub objects: Arc<Namespaced<T>>,
    list: Arc<Result<L, String>>,
}

impl<T, L: Default> Default for Listed<T, L> {
    fn default() -> Self {
        Self { objects: Arc::default(), list: Arc::new(Ok(L::default())) }
    }
}

impl<T, L: Default> Listed<T, L> {
    /// Takes in the list, where there is one.
    pub fn set_list(&mut self, list: Option<Result<L, String>>) {
        self.list = Arc::new(list.unwrap_or_else(|| Ok(L::default())));
    }

    /// The list, or what is wrong with it.
    pub fn listed(&self) -> Result<&L, &str> {
        (*self.list).as_ref().map_err(String::as_str)
    }

    /// The objects of a namespace, in their order of precedence.
    pub fn of(&self, namespace: &str) -> &[T] {
        self.objects.of(namespace)
    }
}
