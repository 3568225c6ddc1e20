//! How many objects each cache holds (docs/behaviour/server.md#metrics): metric `kutter_cache_objects`. They
//! are counted when somebody asks, so that it costs nothing in between.

use std::fmt;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use prometheus::core::{Collector, Desc};
use prometheus::proto::MetricFamily;
use prometheus::{IntGaugeVec, Opts, Registry};

/// The caches of a process. Cheap to clone: clones know the same caches.
#[derive(Clone)]
pub struct CacheSizes {
    gauge: IntGaugeVec,
    caches: Arc<Mutex<Vec<Cache>>>,
}

struct Cache {
    name: &'static str,
    kind: String,
    /// How many objects it holds; `None` where the cache is gone.
    count: Box<dyn Fn() -> Option<usize> + Send + Sync>,
}

impl CacheSizes {
    /// The metric in `registry`, with no caches yet.
    ///
    /// # Errors
    /// The registry has a metric of this name already.
    pub fn register(registry: &Registry) -> prometheus::Result<Self> {
        let options = Opts::new("kutter_cache_objects", "Objects of a kind that a cache holds");
        let sizes = Self { gauge: IntGaugeVec::new(options, &["cache", "kind"])?, caches: Arc::default() };
        registry.register(Box::new(sizes.clone()))?;
        Ok(sizes)
    }

    /// Counts the objects of `kind` in a part of the process, as long as that exists.
    pub fn count<T: Send + Sync + 'static>(
        &self,
        name: &'static str,
        kind: impl fmt::Display,
        part: &Arc<T>,
        count: impl Fn(&T) -> usize + Send + Sync + 'static,
    ) {
        let part = Arc::downgrade(part);
        let count = move || part.upgrade().map(|part| count(&part));
        self.lock().push(Cache { name, kind: kind.to_string(), count: Box::new(count) });
    }

    // Held for single operations only, never over an await.
    fn lock(&self) -> MutexGuard<'_, Vec<Cache>> {
        self.caches.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Collector for CacheSizes {
    fn desc(&self) -> Vec<&Desc> {
        self.gauge.desc()
    }

    fn collect(&self) -> Vec<MetricFamily> {
        // A caller that asks at the same time waits, or would see a part.
        let mut caches = self.lock();
        self.gauge.reset();
        caches.retain(|cache| {
            let count = (cache.count)();
            if let Some(count) = count {
                self.gauge.with_label_values(&[cache.name, &cache.kind]).set(count as i64);
            }
            count.is_some()
        });
        self.gauge.collect()
    }
}

impl fmt::Debug for CacheSizes {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        let caches = self.lock();
        let names = caches.iter().map(|cache| (cache.name, &*cache.kind));
        formatter.debug_list().entries(names).finish()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn series(registry: &Registry) -> Vec<String> {
        let text = prometheus::TextEncoder::new().encode_to_string(&registry.gather()).unwrap();
        text.lines().filter_map(|line| line.strip_prefix("kutter_cache_objects")).map(str::to_owned).collect()
    }

    #[test]
    fn sizes_are_those_of_the_moment_and_go_with_their_cache() {
        let registry = Registry::new();
        let sizes = CacheSizes::register(&registry).unwrap();
        let cache = Arc::new(Mutex::new(vec!["a"]));
        sizes.count("admission", "SidecarSet", &cache, |cache| cache.lock().unwrap().len());
        sizes.count("admission", "Namespace", &cache, |_| 7);
        let namespaces = r#"{cache="admission",kind="Namespace"} 7"#;
        assert_eq!(series(&registry), [namespaces, r#"{cache="admission",kind="SidecarSet"} 1"#]);
        cache.lock().unwrap().push("b");
        assert_eq!(series(&registry), [namespaces, r#"{cache="admission",kind="SidecarSet"} 2"#]);
        drop(cache);
        assert!(series(&registry).is_empty());
        assert!(sizes.lock().is_empty(), "nothing is left of it");
    }
}
