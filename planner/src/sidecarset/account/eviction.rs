//! Which missed Pods are evicted now, so that they come back with their sidecars.
//!
//! A Pod is *away* from its eviction until another one of its owner, seen since, is ready. Never more Pods
//! are away than the user allows. As a guard against sidecars that do not work, and because a new leader does
//! not know what the one before evicted, Pods of the SidecarSet that have its sidecars and are not ready, or
//! that are being deleted, take up room too. Where a new Pod is missed again, evictions rest: admission does
//! not see the Pods, and more evictions would help nobody.

use std::collections::{BTreeMap, BTreeSet};

use jiff::{SignedDuration, Timestamp};

use super::reason::Reason;
use super::record::{PodRecord, Uid};
use super::{Case, Findings, Relation};

/// Nothing is evicted for so long at first: owners put others in the place of what an earlier leader evicted.
const START: SignedDuration = SignedDuration::from_secs(10);
/// Rest after a Pod was missed again: doubled each time, up to the longest.
const REST: (SignedDuration, SignedDuration) = (SignedDuration::from_mins(1), SignedDuration::from_hours(1));
/// Pause before an eviction that was refused is tried again.
const REFUSED: SignedDuration = SignedDuration::from_secs(30);
/// A Pod that is there after this time was not evicted, whatever the answer was.
const GOING: SignedDuration = SignedDuration::from_secs(30);
/// Who is not replaced for so long counts no more: the owner has been scaled down, or is gone.
const PATIENCE: SignedDuration = SignedDuration::from_mins(10);

/// What is remembered of the evictions for one SidecarSet.
#[derive(Debug)]
pub struct Evictions {
    begins: Timestamp,
    away: Vec<Away>,
    /// The round of decisions; clocks may differ, rounds do not.
    round: u64,
    /// The Pods, and the rounds in which they were first seen.
    seen: BTreeMap<Uid, u64>,
    /// Pods that stand for one that was evicted.
    replacements: BTreeSet<Uid>,
    refused: BTreeMap<Uid, (Timestamp, String)>,
    /// The round of the first eviction.
    first: Option<u64>,
    /// The round in which the newest Pod was seen that was missed again.
    missed_again: u64,
    rests: Option<Timestamp>,
    rest: SignedDuration,
}

#[derive(Debug)]
struct Away {
    pod: Uid,
    owner: Uid,
    since: Timestamp,
    round: u64,
    replacement: Option<Uid>,
}

/// What to do now.
#[derive(Debug, Default)]
pub struct Decision {
    /// Pods to evict, one after the other.
    pub evict: Vec<Uid>,
    /// Why missed Pods stay.
    pub findings: Findings,
}

/// The Pods of a SidecarSet, sorted out.
#[derive(Default)]
struct Pods<'p> {
    /// Those that may be evicted, and their owners.
    missed: Vec<(Uid, Uid, &'p PodRecord)>,
    ownerless: Vec<&'p PodRecord>,
    staying: Vec<(Uid, &'p PodRecord)>,
    unready: usize,
    leaving: Vec<Option<Uid>>,
}

impl Evictions {
    /// None yet.
    pub fn new(now: Timestamp) -> Self {
        Self {
            begins: now.saturating_add(START).unwrap_or(Timestamp::MAX),
            away: Vec::new(),
            round: 0,
            seen: BTreeMap::new(),
            replacements: BTreeSet::new(),
            refused: BTreeMap::new(),
            first: None,
            missed_again: 0,
            rests: None,
            rest: REST.0,
        }
    }

    /// True while some Pod is away.
    pub fn is_under_way(&self) -> bool {
        !self.away.is_empty()
    }

    /// Notes that a Pod was evicted, or may have been.
    pub fn evicted(&mut self, pod: Uid, owner: Uid, now: Timestamp) {
        self.away.push(Away { pod, owner, since: now, round: self.round, replacement: None });
        self.refused.remove(&pod);
        self.first.get_or_insert(self.round);
    }

    /// Notes that the API server refused an eviction.
    pub fn refused(&mut self, pod: Uid, message: &str, now: Timestamp) {
        let until = now.saturating_add(REFUSED).unwrap_or(Timestamp::MAX);
        self.refused.insert(pod, (until, message.to_owned()));
    }

    /// Chooses the Pods to evict, so that at most `limit` are away.
    pub fn decide<'p>(
        &mut self,
        limit: u32,
        case: &Case<'_>,
        members: impl IntoIterator<Item = (Uid, &'p PodRecord)>,
        now: Timestamp,
    ) -> Decision {
        let mut pods = Pods::sort_out(case, members);
        self.look_at(&pods);
        self.settle(&pods, now);
        self.watch_out(&pods, now);
        let mut decision = Decision::default();
        let mut stay = |reason: Reason, pod: &PodRecord| {
            decision.findings.add(&reason, &pod.namespace, &pod.name);
        };
        pods.ownerless.iter().for_each(|pod| stay(Reason::NotReplaced, pod));
        let evicted: BTreeSet<Uid> = self.away.iter().map(|away| away.pod).collect();
        let present: BTreeSet<Uid> = pods.missed.iter().map(|(uid, _, _)| *uid).collect();
        self.refused.retain(|uid, _| present.contains(uid));
        pods.missed.retain(|(uid, _, _)| !evicted.contains(uid));
        // Those that were not tried yet, and of them those that are not ready anyway.
        let order = |(uid, _, pod): &(Uid, Uid, &'p PodRecord)| {
            let tried = self.refused.get(uid).map(|(until, _)| *until);
            (tried, pod.is_ready(), pod.namespace.clone(), pod.name.clone())
        };
        pods.missed.sort_by_cached_key(order);
        let rests = now < self.begins || self.rests.is_some_and(|until| now < until);
        let away = self.count_away(&pods);
        let mut room = if rests { 0 } else { (limit as usize).saturating_sub(away) };
        for (uid, _, pod) in &pods.missed {
            let refused = self.refused.get(uid);
            if let Some((_, message)) = refused {
                // It stays true until another try succeeds.
                stay(Reason::EvictionRefused(message.clone()), pod);
            }
            match refused {
                Some((until, _)) if now < *until => {}
                _ if room > 0 => {
                    room = room.saturating_sub(1);
                    decision.evict.push(*uid);
                }
                _ if self.rests.is_some_and(|until| now < until) => stay(Reason::EvictionRests, pod),
                // Not the usual course, in which the next one follows soon.
                _ if !rests && away > self.away.len() => stay(Reason::EvictionWaits { away, limit }, pod),
                _ => {}
            }
        }
        decision
    }

    /// How many Pods are away, or count as such.
    fn count_away(&self, pods: &Pods<'_>) -> usize {
        let owners: BTreeSet<Option<Uid>> = self.away.iter().map(|away| Some(away.owner)).collect();
        // For those of owners that we took Pods from, the Pods that are away stand.
        let leaving = pods.leaving.iter().filter(|owner| !owners.contains(owner)).count();
        self.away.len().max(pods.unready.saturating_add(leaving))
    }

    /// Notes which Pods are new.
    fn look_at(&mut self, pods: &Pods<'_>) {
        self.round = self.round.saturating_add(1);
        let first_seen = |uid: &Uid| self.seen.get(uid).copied().unwrap_or(self.round);
        self.seen = pods.staying.iter().map(|(uid, _)| (*uid, first_seen(uid))).collect();
        self.replacements.retain(|uid| self.seen.contains_key(uid));
    }

    /// Finds the Pods that came for those that are away, the oldest for the oldest, and whether they are ready.
    fn settle(&mut self, pods: &Pods<'_>, now: Timestamp) {
        if self.away.is_empty() {
            return;
        }
        let mut newcomers: Vec<_> =
            pods.staying.iter().filter_map(|(uid, pod)| Some((*self.seen.get(uid)?, *uid, *pod))).collect();
        newcomers.sort_by_key(|(round, uid, _)| (*round, *uid));
        for away in &mut self.away {
            away.replacement = away.replacement.filter(|uid| self.seen.contains_key(uid));
            if away.replacement.is_none() {
                let newcomer = newcomers.iter().find(|(round, uid, pod)| {
                    *round > away.round && pod.owner() == Some(away.owner) && !self.replacements.contains(uid)
                });
                away.replacement = newcomer.map(|(_, uid, _)| *uid);
                self.replacements.extend(away.replacement);
            }
        }
        let ready: BTreeSet<Uid> =
            pods.staying.iter().filter(|(_, pod)| pod.is_ready()).map(|(uid, _)| *uid).collect();
        let quiet = pods.unready == 0;
        self.away.retain(|away| {
            let waited = now.duration_since(away.since);
            let stayed = waited > GOING && pods.missed.iter().any(|(uid, _, _)| *uid == away.pod);
            let replaced = away.replacement.is_some_and(|uid| ready.contains(&uid));
            !(replaced || stayed || (quiet && waited > PATIENCE))
        });
    }

    /// Rests where a new Pod was missed after an eviction.
    fn watch_out(&mut self, pods: &Pods<'_>, now: Timestamp) {
        let Some(first) = self.first else { return };
        let newest = pods.missed.iter().filter_map(|(uid, _, _)| self.seen.get(uid)).max();
        if let Some(newest) = newest.copied().filter(|newest| *newest > first.max(self.missed_again)) {
            self.missed_again = newest;
            self.rests = now.checked_add(self.rest).ok();
            self.rest = self.rest.saturating_mul(2).min(REST.1);
        }
    }
}

impl<'p> Pods<'p> {
    fn sort_out(case: &Case<'_>, members: impl IntoIterator<Item = (Uid, &'p PodRecord)>) -> Self {
        let mut pods = Self::default();
        for (uid, pod) in members {
            if !pod.is_leaving() {
                pods.staying.push((uid, pod));
            }
            match case.judge(pod) {
                Relation::Unselected(_) => {}
                _ if pod.is_leaving() => pods.leaving.push(pod.owner()),
                Relation::Injected if !pod.is_ready() => pods.unready = pods.unready.saturating_add(1),
                Relation::Left(Reason::Missed) => match pod.owner() {
                    Some(owner) => pods.missed.push((uid, owner, pod)),
                    None => pods.ownerless.push(pod),
                },
                Relation::Injected | Relation::Left(_) => {}
            }
        }
        pods
    }
}
