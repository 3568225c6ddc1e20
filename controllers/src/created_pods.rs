//! When Pods were last created, as the leader's watch sees it: whether their reviews are missing is judged by
//! `admission::silence`.

use std::collections::BTreeMap;
use std::sync::{Mutex, MutexGuard, PoisonError};

use jiff::Timestamp;

/// When the youngest Pod of each namespace was created.
#[derive(Debug, Default)]
pub struct CreatedPods(Mutex<BTreeMap<Box<str>, Timestamp>>);

impl CreatedPods {
    /// Takes in a Pod.
    pub fn see(&self, namespace: &str, created: Timestamp) {
        let mut newest = self.lock();
        match newest.get_mut(namespace) {
            Some(known) => *known = created.max(*known),
            None => drop(newest.insert(namespace.into(), created)),
        }
    }

    /// When the youngest Pod was created, of the namespaces that `counts` chooses.
    pub fn newest(&self, counts: impl Fn(&str) -> bool) -> Option<Timestamp> {
        let newest = self.lock();
        newest.iter().filter(|(namespace, _)| counts(namespace)).map(|(_, created)| *created).max()
    }

    // Held for single operations only, never over an await.
    fn lock(&self) -> MutexGuard<'_, BTreeMap<Box<str>, Timestamp>> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_youngest_pod_of_the_chosen_namespaces_counts() {
        let at = |second| Timestamp::from_second(second).unwrap();
        let pods = CreatedPods::default();
        for (namespace, second) in [("shop", 30), ("shop", 10), ("kube-system", 50)] {
            pods.see(namespace, at(second));
        }
        assert_eq!(pods.newest(|_| true), Some(at(50)));
        assert_eq!(pods.newest(|namespace| namespace != "kube-system"), Some(at(30)));
        assert_eq!(pods.newest(|_| false), None);
    }
}
