//! Which missed Pods are evicted now, so that they come back with their sidecars.
//!
//! Of each owner at most as many Pods are away at a time as the user allows. That is counted anew from the Pods each time.
//! Remembered is only how many Pods an owner had when one was evicted, until it has as many again, and what was refused.
//!
//! Evictions that help nobody end by themselves: an owner of which a Pod was missed just now is left alone, for admission
//! does not see its Pods; and so is one that puts no other Pod in the place of an evicted one.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use jiff::{SignedDuration, Timestamp};

use super::reason::Reason;
use super::record::{PodRecord, Uid};
use super::{Case, Findings, Relation};

/// Nothing is evicted for so long at first: owners put others in the place of what an earlier leader evicted.
const START: SignedDuration = SignedDuration::from_secs(10);
/// An owner of which a Pod was missed in this time is left alone.
const LATELY: SignedDuration = SignedDuration::from_mins(1);
/// Pause before an eviction that was refused is tried again, behind the others.
const REFUSED: SignedDuration = SignedDuration::from_secs(30);
/// After this time a refusal is forgotten: the Pod may be gone.
const FORGOTTEN: SignedDuration = SignedDuration::from_hours(1);
/// Pods that are tried at a time, those that were refused within that pause among them.
const TRIES: usize = 10;
/// How much of what the API server says is kept, in bytes.
const MESSAGE: usize = 500;

/// What is remembered of evictions.
#[derive(Debug)]
pub struct Evictions {
    begins: Timestamp,
    owners: BTreeMap<Uid, Evicted>,
    /// When Pods may be tried again, and what was said.
    refused: BTreeMap<Uid, (Timestamp, String)>,
}

/// An owner of which a Pod was evicted.
#[derive(Debug)]
struct Evicted {
    /// For which SidecarSet.
    sidecar_set: Arc<str>,
    /// How many Pods it had.
    had: usize,
    /// Pods that are evicted and are not gone yet.
    going: BTreeSet<Uid>,
}

/// What to do now.
#[derive(Debug, Default)]
pub struct Decision {
    /// Pods to evict, one after the other, and their owners.
    pub evict: Vec<(Uid, Uid)>,
    /// Why missed Pods stay.
    pub findings: Findings,
}

/// The Pods of an owner that a SidecarSet selects.
#[derive(Default)]
struct Owned<'p> {
    missed: Vec<(Uid, &'p PodRecord)>,
    ready: usize,
    unready: usize,
    leaving: usize,
}

impl Owned<'_> {
    /// Those that are to stay.
    fn count(&self) -> usize {
        self.missed.len() + self.ready + self.unready
    }
}

impl Evictions {
    /// None yet.
    pub fn new(now: Timestamp) -> Self {
        Self { begins: after(now, START), owners: BTreeMap::new(), refused: BTreeMap::new() }
    }

    /// True while the place of a Pod is empty that was evicted for this SidecarSet.
    pub fn is_under_way(&self, sidecar_set: &str) -> bool {
        self.owners.values().any(|evicted| *evicted.sidecar_set == *sidecar_set)
    }

    /// Notes that a Pod was evicted.
    pub fn evicted(&mut self, pod: Uid, owner: Uid) {
        self.refused.remove(&pod);
        if let Some(evicted) = self.owners.get_mut(&owner) {
            evicted.going.insert(pod);
        }
    }

    /// Notes that an eviction was refused.
    pub fn refused(&mut self, pod: Uid, message: &str, now: Timestamp) {
        let message = values::short::shortened(message, MESSAGE);
        self.refused.insert(pod, (after(now, REFUSED), message.to_owned()));
    }

    /// Forgets a SidecarSet.
    pub fn forget(&mut self, sidecar_set: &str) {
        self.owners.retain(|_, evicted| *evicted.sidecar_set != *sidecar_set);
    }

    /// Chooses the Pods to evict, so that at most `limit` of each owner are away.
    pub fn decide<'p>(
        &mut self,
        limit: u32,
        case: &Case<'_>,
        members: impl IntoIterator<Item = (Uid, &'p PodRecord)>,
        now: Timestamp,
    ) -> Decision {
        let mut decision = Decision::default();
        let mut owners: BTreeMap<Uid, Owned<'p>> = BTreeMap::new();
        let mut present = BTreeSet::new();
        for (uid, pod) in members {
            present.insert(uid);
            let relation = case.judge(pod);
            let is_missed = relation.is_missed() && !pod.is_leaving();
            let Some(owner) = pod.owner() else {
                if is_missed {
                    decision.findings.add(&Reason::NotReplaced, &pod.namespace, &pod.name);
                }
                continue;
            };
            let is_going = self.owners.get(&owner).is_some_and(|evicted| evicted.going.contains(&uid));
            if is_going || matches!(relation, Relation::Unselected(_)) {
                continue;
            }
            let owned = owners.entry(owner).or_default();
            if is_missed {
                owned.missed.push((uid, pod));
            } else if pod.is_leaving() {
                owned.leaving += 1;
            } else if pod.is_ready() {
                owned.ready += 1;
            } else {
                owned.unready += 1;
            }
        }
        self.owners.retain(|owner, evicted| {
            evicted.going.retain(|uid| present.contains(uid));
            let count = owners.get(owner).map_or(0, Owned::count);
            *evicted.sidecar_set != *case.name() || !evicted.going.is_empty() || count < evicted.had
        });
        self.refused.retain(|_, (until, _)| now < after(*until, FORGOTTEN));
        let mut tries = TRIES.saturating_sub(self.refused.values().filter(|(until, _)| now < *until).count());
        // Each refusal may name its Pod: one represents all.
        let refusal = self.refused.values().map(|(_, message)| message).min().cloned();
        for (owner, mut owned) in owners {
            let moment = (now, refusal.as_ref());
            self.of_owner((owner, &mut owned), limit, case, moment, (&mut tries, &mut decision));
        }
        decision
    }

    fn of_owner(
        &mut self,
        (owner, owned): (Uid, &mut Owned<'_>),
        limit: u32,
        case: &Case<'_>,
        (now, refusal): (Timestamp, Option<&String>),
        (tries, decision): (&mut usize, &mut Decision),
    ) {
        let count = owned.count();
        let (is_other, had) = self
            .owners
            .get(&owner)
            .map_or((false, 0), |evicted| (*evicted.sidecar_set != *case.name(), evicted.had));
        // In empty places, not ready, or leaving.
        let mut away = had.max(count) - owned.missed.len() - owned.ready + owned.leaving;
        let lately = owned.missed.iter().any(|(_, pod)| {
            Timestamp::from_second(pod.created()).is_ok_and(|created| now < after(created, LATELY))
        });
        // Those that were not tried yet come first, and of them those that are not ready anyway.
        owned.missed.sort_by_cached_key(|(uid, pod)| {
            let tried = self.refused.get(uid).map(|(until, _)| *until);
            (tried, pod.is_ready(), pod.namespace.clone(), pod.name.clone())
        });
        for (uid, pod) in &owned.missed {
            let refused = self.refused.get(uid).map(|(until, _)| now < *until);
            let mut stays = |reason: Reason| decision.findings.add(&reason, &pod.namespace, &pod.name);
            if let Some(message) = refusal.filter(|_| refused.is_some()) {
                // It stays true until another try succeeds.
                stays(Reason::EvictionRefused(message.clone()));
            }
            if refused == Some(true) {
                continue;
            } else if !case.registered {
                stays(Reason::NotRegistered);
            } else if lately {
                stays(Reason::EvictionRests);
            } else if is_other || away >= limit as usize {
                stays(Reason::EvictionWaits { away, limit });
            } else if *tries > 0 && now >= self.begins {
                (away, *tries) = (away + 1, *tries - 1);
                decision.evict.push((*uid, owner));
                let begun = Evicted { sidecar_set: case.name().into(), had: count, going: BTreeSet::new() };
                self.owners.entry(owner).or_insert(begun);
            }
        }
    }
}

fn after(now: Timestamp, pause: SignedDuration) -> Timestamp {
    now.saturating_add(pause).unwrap_or(Timestamp::MAX)
}
