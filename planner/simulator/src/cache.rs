//! What the controller knows of the cluster. Each kind is watched by itself: its news come in order but late,
//! and one watch may be further than another. A watch that breaks loses its news; later it lists again, page
//! by page, while the controller continues to write. News may come twice.
//!
//! What the controller's own writes return is known at once, and nothing older takes its place: that is what
//! the store of the real controller guarantees, and all that it guarantees.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use super::kind::Simulated;
use super::server::{Kind, News, Object, Server};
use kinds::workload::children::Claim;
use kinds::workload::revision::StoredRevision;
use pod::observed::ObservedPod;

/// The objects of one kind.
#[derive(Clone, Debug)]
struct Shelf<W> {
    objects: BTreeMap<Box<str>, (u64, Object<W>)>,
    /// How far the watch has come.
    progress: u64,
    /// Counts connections: what an earlier one was about to deliver is lost.
    connection: u32,
    is_broken: bool,
    listing: Option<Listing>,
}

/// A list that is in progress.
#[derive(Clone, Debug, Default)]
struct Listing {
    /// What it has not shown yet.
    unseen: BTreeSet<Box<str>>,
    /// What was written since it began.
    written: BTreeSet<Box<str>>,
}

impl<W> Default for Shelf<W> {
    fn default() -> Self {
        Self { objects: BTreeMap::new(), progress: 0, connection: 0, is_broken: false, listing: None }
    }
}

impl<W> Shelf<W> {
    fn put(&mut self, news: News<W>) -> bool {
        let known = self.objects.get(&news.name).map(|(version, _)| *version);
        if known.is_some_and(|known| known >= news.version) {
            return false;
        }
        match news.object {
            Some(object) => {
                self.objects.insert(news.name, (news.version, object));
                true
            }
            None => self.objects.remove(&news.name).is_some(),
        }
    }
}

/// All objects of `kind` as a list shows them.
pub(super) fn shown<W: Simulated>(kind: Kind, server: &Server<W>) -> Vec<News<W>> {
    let news = |name: &str, version: &str, object| News {
        kind,
        name: name.into(),
        version: version.parse().unwrap_or_default(),
        object: Some(object),
    };
    let mut shown = Vec::new();
    match kind {
        Kind::Workload => {
            let version = &server.workload.metadata().resource_version;
            shown.push(news("", version, Object::Workload(server.workload.clone())));
        }
        Kind::Pod => {
            for (name, pod) in &server.pods {
                shown.push(news(name, &pod.metadata.resource_version, Object::Pod(pod.clone())));
            }
        }
        Kind::Claim => {
            for (name, claim) in &server.claims {
                shown.push(news(name, &claim.metadata.resource_version, Object::Claim(claim.clone())));
            }
        }
        Kind::Revision => {
            for (name, revision) in &server.revisions {
                let version = &revision.metadata.resource_version;
                shown.push(news(name, version, Object::Revision(revision.clone())));
            }
        }
    }
    shown
}

/// All that the controller knows.
#[derive(Clone, Debug)]
pub(super) struct Cache<W> {
    shelves: [Shelf<W>; Kind::ALL.len()],
}

impl<W> Default for Cache<W> {
    fn default() -> Self {
        Self { shelves: Default::default() }
    }
}

impl<W: Simulated> Cache<W> {
    fn shelf(&mut self, kind: Kind) -> &mut Shelf<W> {
        let [workload, pod, claim, revision] = &mut self.shelves;
        match kind {
            Kind::Workload => workload,
            Kind::Pod => pod,
            Kind::Claim => claim,
            Kind::Revision => revision,
        }
    }

    /// The present connection of a watch, or `None` while it is broken.
    pub(super) fn connection(&mut self, kind: Kind) -> Option<u32> {
        let shelf = self.shelf(kind);
        (!shelf.is_broken).then_some(shelf.connection)
    }

    /// The watch of `kind` delivers something. True if that is new.
    pub(super) fn hear(&mut self, connection: u32, news: News<W>) -> bool {
        let shelf = self.shelf(news.kind);
        if shelf.is_broken || shelf.connection != connection {
            return false;
        }
        shelf.progress = shelf.progress.max(news.version);
        shelf.put(news)
    }

    /// Takes in what a write of the controller returned. True if that is new: it may hold what others wrote
    /// before.
    pub(super) fn written(&mut self, news: News<W>) -> bool {
        let shelf = self.shelf(news.kind);
        let is_known = shelf.objects.contains_key(&news.name);
        let name = news.name.clone();
        // A list that is in progress may be older than the object, or may show it on a later page.
        let is_news = is_known || shelf.listing.is_some() || shelf.progress < news.version;
        if !is_news || !shelf.put(news) {
            return false;
        }
        if let Some(listing) = &mut shelf.listing {
            if !is_known {
                listing.unseen.insert(name.clone());
            }
            listing.written.insert(name);
        }
        true
    }

    /// The watch of `kind` breaks: what it was about to deliver is lost.
    pub(super) fn lose_watch(&mut self, kind: Kind) {
        let shelf = self.shelf(kind);
        shelf.connection += 1;
        shelf.is_broken = true;
    }

    /// Forgets everything; what the watches were about to deliver is lost.
    pub(super) fn forget(&mut self) {
        for kind in Kind::ALL {
            self.lose_watch(kind);
            let shelf = self.shelf(kind);
            (shelf.objects, shelf.listing) = (BTreeMap::new(), None);
        }
    }

    /// Lists `kind` at once and watches from there on.
    pub(super) fn list(&mut self, kind: Kind, server: &Server<W>) {
        let connection = self.list_begins(kind);
        self.turn_page(connection, kind, shown(kind, server), true);
        self.shelf(kind).progress = server.version();
    }

    /// A list of `kind` begins, from which a new connection continues.
    pub(super) fn list_begins(&mut self, kind: Kind) -> u32 {
        let shelf = self.shelf(kind);
        shelf.connection += 1;
        (shelf.is_broken, shelf.progress) = (false, 0);
        let unseen = shelf.objects.keys().cloned().collect();
        shelf.listing = Some(Listing { unseen, written: BTreeSet::new() });
        shelf.connection
    }

    /// Takes in a page of a list; what the last one has not shown is gone, unless it was written later. True
    /// if anything is new.
    pub(super) fn turn_page(
        &mut self,
        connection: u32,
        kind: Kind,
        page: Vec<News<W>>,
        is_last: bool,
    ) -> bool {
        let shelf = self.shelf(kind);
        if shelf.is_broken || shelf.connection != connection {
            return false;
        }
        let mut is_news = false;
        for News { name, version, object, .. } in page {
            let Some(object) = object else { continue };
            shelf.progress = shelf.progress.max(version);
            let Some(listing) = &mut shelf.listing else { continue };
            listing.unseen.remove(&name);
            let is_written = listing.written.contains(&name);
            let known = shelf.objects.get(&name).map(|(known, _)| *known);
            if known.is_none_or(|known| if is_written { known < version } else { known != version }) {
                shelf.objects.insert(name, (version, object));
                is_news = true;
            }
        }
        if let Some(Listing { unseen, written }) = shelf.listing.take_if(|_| is_last) {
            let progress = shelf.progress;
            shelf.objects.retain(|name, (known, _)| {
                !unseen.contains(name) || (written.contains(name) && *known > progress)
            });
            is_news = true;
        }
        is_news
    }

    fn objects(&self, kind: Kind) -> impl Iterator<Item = &Object<W>> {
        let [workload, pod, claim, revision] = &self.shelves;
        let shelf = match kind {
            Kind::Workload => workload,
            Kind::Pod => pod,
            Kind::Claim => claim,
            Kind::Revision => revision,
        };
        shelf.objects.values().map(|(_, object)| object)
    }

    pub(super) fn workload(&self) -> Option<Arc<W>> {
        self.objects(Kind::Workload).find_map(|object| match object {
            Object::Workload(workload) => Some(workload.clone()),
            _ => None,
        })
    }

    pub(super) fn pods(&self) -> impl Iterator<Item = &Arc<ObservedPod>> {
        self.objects(Kind::Pod).filter_map(|object| match object {
            Object::Pod(pod) => Some(pod),
            _ => None,
        })
    }

    pub(super) fn claims(&self) -> Vec<Arc<Claim>> {
        let claims = self.objects(Kind::Claim).filter_map(|object| match object {
            Object::Claim(claim) => Some(claim.clone()),
            _ => None,
        });
        claims.collect()
    }

    pub(super) fn revisions(&self) -> Vec<Arc<StoredRevision>> {
        let revisions = self.objects(Kind::Revision).filter_map(|object| match object {
            Object::Revision(revision) => Some(revision.clone()),
            _ => None,
        });
        revisions.collect()
    }
}

#[cfg(test)]
mod tests {
    use api::kinds::cloneset::CloneSet;

    use super::*;

    fn news(name: &str, version: u64) -> News<CloneSet> {
        News { kind: Kind::Pod, name: name.into(), version, object: Some(Object::Pod(Arc::default())) }
    }

    fn names(cache: &mut Cache<CloneSet>) -> Vec<String> {
        cache.shelf(Kind::Pod).objects.keys().map(ToString::to_string).collect()
    }

    #[test]
    fn news_that_come_twice_are_news_once() {
        let mut cache = Cache::default();
        let connection = cache.list_begins(Kind::Pod);
        cache.turn_page(connection, Kind::Pod, vec![news("a", 1)], true);
        assert!(cache.hear(connection, news("a", 2)) && !cache.hear(connection, news("a", 2)));
        let gone = News { object: None, ..news("a", 3) };
        assert!(cache.hear(connection, gone.clone()) && !cache.hear(connection, gone));
        assert!(!cache.hear(connection + 1, news("b", 4)), "another connection's");
    }

    #[test]
    fn a_list_in_pages_keeps_what_is_written_while_it_is_read() {
        let mut cache = Cache::default();
        let first = cache.list_begins(Kind::Pod);
        cache.turn_page(first, Kind::Pod, vec![news("a", 1), news("gone", 2)], true);
        cache.lose_watch(Kind::Pod);
        let connection = cache.list_begins(Kind::Pod);
        assert!(!cache.turn_page(connection, Kind::Pod, vec![news("a", 1)], false), "known");
        assert!(cache.written(news("a", 9)) && cache.written(news("new", 8)));
        cache.turn_page(connection, Kind::Pod, vec![news("b", 3)], true);
        assert_eq!(names(&mut cache), ["a", "b", "new"]);
        assert_eq!(cache.shelf(Kind::Pod).objects["a"].0, 9);
        assert!(!cache.turn_page(first, Kind::Pod, vec![news("gone", 2)], true), "of an older connection");
    }
}
