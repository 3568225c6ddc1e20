//! What the controller knows of the cluster. Each kind is watched by itself: its news come in order but late,
//! and one watch may be further than another. A watch that breaks loses its news; later it lists again.
//!
//! What the controller's own writes return is known at once, and nothing older takes its place: that is what
//! the store of the real controller guarantees, and all that it guarantees.

use std::collections::BTreeMap;
use std::sync::Arc;

use api::kinds::cloneset::CloneSet;

use super::server::{Kind, News, Object, Server};
use crate::cloneset::Claim;
use crate::observed_pod::ObservedPod;
use crate::revision::workload::StoredRevision;

/// The objects of one kind.
#[derive(Debug, Default)]
struct Shelf {
    objects: BTreeMap<Box<str>, (u64, Object)>,
    /// How far the watch has come.
    progress: u64,
    /// Counts connections: what an earlier one was about to tell is lost.
    connection: u32,
    is_broken: bool,
}

impl Shelf {
    fn put(&mut self, news: News) -> bool {
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

/// All that the controller knows.
#[derive(Debug, Default)]
pub(super) struct Cache {
    shelves: [Shelf; Kind::ALL.len()],
}

impl Cache {
    fn shelf(&mut self, kind: Kind) -> &mut Shelf {
        let [set, pod, claim, revision] = &mut self.shelves;
        match kind {
            Kind::Set => set,
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

    /// The watch of `kind` tells something. True if that is new.
    pub(super) fn hear(&mut self, connection: u32, news: News) -> bool {
        let shelf = self.shelf(news.kind);
        if shelf.is_broken || shelf.connection != connection {
            return false;
        }
        shelf.progress = shelf.progress.max(news.version);
        shelf.put(news)
    }

    /// Takes in what a write of the controller returned. True if that is new: it may hold what others wrote
    /// before.
    pub(super) fn written(&mut self, news: News) -> bool {
        let shelf = self.shelf(news.kind);
        (shelf.objects.contains_key(&news.name) || shelf.progress < news.version) && shelf.put(news)
    }

    /// The watch of `kind` breaks: what it was about to tell is lost.
    pub(super) fn lose_watch(&mut self, kind: Kind) {
        let shelf = self.shelf(kind);
        shelf.connection += 1;
        shelf.is_broken = true;
    }

    /// Forgets everything; what the watches were about to tell is lost.
    pub(super) fn forget(&mut self) {
        for kind in Kind::ALL {
            self.lose_watch(kind);
            self.shelf(kind).objects.clear();
        }
    }

    /// Lists `kind` again and watches from there on.
    pub(super) fn list(&mut self, kind: Kind, server: &Server) {
        let version = server.version();
        let shelf = self.shelf(kind);
        shelf.connection += 1;
        shelf.is_broken = false;
        shelf.progress = version;
        shelf.objects.clear();
        let mut put = |name: &str, object: Object| {
            shelf.objects.insert(name.into(), (version, object));
        };
        match kind {
            Kind::Set => put("", Object::Set(server.set.clone())),
            Kind::Pod => server.pods.iter().for_each(|(name, pod)| put(name, Object::Pod(pod.clone()))),
            Kind::Claim => {
                server.claims.iter().for_each(|(name, claim)| put(name, Object::Claim(claim.clone())));
            }
            Kind::Revision => server
                .revisions
                .iter()
                .for_each(|(name, revision)| put(name, Object::Revision(revision.clone()))),
        }
    }

    fn objects(&self, kind: Kind) -> impl Iterator<Item = &Object> {
        let [set, pod, claim, revision] = &self.shelves;
        let shelf = match kind {
            Kind::Set => set,
            Kind::Pod => pod,
            Kind::Claim => claim,
            Kind::Revision => revision,
        };
        shelf.objects.values().map(|(_, object)| object)
    }

    pub(super) fn set(&self) -> Option<Arc<CloneSet>> {
        self.objects(Kind::Set).find_map(|object| match object {
            Object::Set(set) => Some(set.clone()),
            _ => None,
        })
    }

    pub(super) fn pods(&self) -> Vec<Arc<ObservedPod>> {
        let pods = self.objects(Kind::Pod).filter_map(|object| match object {
            Object::Pod(pod) => Some(pod.clone()),
            _ => None,
        });
        pods.collect()
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
