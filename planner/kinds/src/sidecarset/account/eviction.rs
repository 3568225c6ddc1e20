//! Which missed Pods are evicted now, so that they come back with their sidecars.
//!
//! A Pod is *away* from its eviction, for whichever SidecarSet it was, until another one of its owner, seen
//! since, is ready. Never more Pods are away than the user allows. As a guard against sidecars that do not
//! work, and because a new leader does not know what the one before evicted, other Pods of the SidecarSet that
//! have its sidecars and are not ready, or that are being deleted, take up room too.
//!
//! Evictions that help nobody end by themselves: where a new Pod is missed again they rest, for admission does
//! not see the Pods; and of an owner that puts no other Pod in the place of one no more is taken.

use std::collections::{BTreeMap, BTreeSet};

use jiff::{SignedDuration, Timestamp};

use super::reason::Reason;
use super::record::{PodRecord, Uid};
use super::{Case, Findings, Relation};

/// Nothing is evicted for so long at first: owners put others in the place of what an earlier leader evicted.
const START: SignedDuration = SignedDuration::from_secs(10);
/// Rest after a Pod was missed again: doubled each time until one was not, up to the longest.
const REST: (SignedDuration, SignedDuration) = (SignedDuration::from_mins(1), SignedDuration::from_hours(1));
/// Pause before an eviction that was refused is tried again.
const REFUSED: SignedDuration = SignedDuration::from_secs(30);
/// Pods that are tried at a time, those that were refused within that pause among them.
const TRIES: usize = 10;
/// How much of what the API server says is kept, in bytes.
const MESSAGE: usize = 500;
/// A Pod that is there after this time was not evicted, where no answer came.
const GOING: SignedDuration = SignedDuration::from_secs(30);
/// After this time it is said that others wait for a Pod that is away.
const SLOW: SignedDuration = SignedDuration::from_secs(30);
/// Who is not replaced for so long counts no more: the owner has been scaled down, or is gone.
const PATIENCE: SignedDuration = SignedDuration::from_mins(10);

/// What is remembered of the evictions for one SidecarSet.
#[derive(Debug)]
pub struct Evictions {
    begins: Timestamp,
    /// How many Pods may be away, as of the last decision.
    limit: usize,
    away: Vec<Away>,
    /// The round of decisions; clocks may differ, rounds do not.
    round: u64,
    /// The Pods, and the rounds in which they were first seen.
    seen: BTreeMap<Uid, u64>,
    /// Pods that stand for one that was evicted.
    replacements: BTreeSet<Uid>,
    /// Pods that were evicted and are not gone yet.
    going: BTreeSet<Uid>,
    /// Owners that did not replace a Pod, and the rounds in which they were given up.
    idle: BTreeMap<Uid, u64>,
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
    /// The API server said that it goes.
    certain: bool,
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
    unready: Vec<Uid>,
    leaving: BTreeSet<Uid>,
}

impl Evictions {
    /// None yet.
    pub fn new(now: Timestamp) -> Self {
        Self {
            begins: after(now, START),
            limit: 0,
            away: Vec::new(),
            round: 0,
            seen: BTreeMap::new(),
            replacements: BTreeSet::new(),
            going: BTreeSet::new(),
            idle: BTreeMap::new(),
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

    /// True while so many Pods are away that no other SidecarSet may take one of these.
    pub fn is_full(&self) -> bool {
        self.is_under_way() && self.away.len() >= self.limit
    }

    /// Notes that a Pod was evicted, for whichever SidecarSet; not `certain` where no answer came.
    pub fn evicted(&mut self, pod: Uid, owner: Uid, now: Timestamp, certain: bool) {
        self.away.push(Away { pod, owner, since: now, round: self.round, replacement: None, certain });
        self.going.insert(pod);
        self.refused.remove(&pod);
        self.first.get_or_insert(self.round);
    }

    /// Notes that the API server refused an eviction.
    pub fn refused(&mut self, pod: Uid, message: &str, now: Timestamp) {
        let message = values::short::shortened(message, MESSAGE);
        self.refused.insert(pod, (after(now, REFUSED), message.to_owned()));
    }

    /// What was refused may be tried at once.
    pub fn again(&mut self, pod: Uid) {
        self.refused.remove(&pod);
    }

    /// Chooses the Pods to evict, so that at most `limit` are away.
    pub fn decide<'p>(
        &mut self,
        limit: u32,
        case: &Case<'_>,
        members: impl IntoIterator<Item = (Uid, &'p PodRecord)>,
        now: Timestamp,
    ) -> Decision {
        self.limit = limit as usize;
        let mut pods = Pods::sort_out(case, members);
        self.look_at(&pods);
        self.settle(&pods, now);
        self.watch_out(&pods, now);
        let mut decision = Decision::default();
        let mut stay = |reason: Reason, pod: &PodRecord| {
            decision.findings.add(&reason, &pod.namespace, &pod.name);
        };
        pods.ownerless.iter().for_each(|pod| stay(Reason::NotReplaced, pod));
        let present: BTreeSet<Uid> = pods.missed.iter().map(|(uid, _, _)| *uid).collect();
        self.refused.retain(|uid, _| present.contains(uid));
        let rests = now < self.begins || self.is_resting(now) || !case.registered;
        let away = self.count_away(&pods);
        let mut room = if rests { 0 } else { self.limit.saturating_sub(away) };
        room = room.min(self.tries(now));
        let slow = self.away.iter().any(|away| now.duration_since(away.since) > SLOW);
        self.put_in_order(&mut pods);
        // Each refusal may name its Pod: one stands for all.
        let refusal = self.refused.values().map(|(_, message)| message).min();
        for (uid, owner, pod) in &pods.missed {
            let refused = self.refused.get(uid);
            if let Some(message) = refusal.filter(|_| refused.is_some()) {
                // It stays true until another try succeeds.
                stay(Reason::EvictionRefused(message.clone()), pod);
            }
            match refused {
                Some((until, _)) if now < *until => {}
                _ if self.idle.contains_key(owner) => stay(Reason::NotReplaced, pod),
                _ if room > 0 => {
                    room = room.saturating_sub(1);
                    decision.evict.push(*uid);
                }
                _ if !case.registered => stay(Reason::NotRegistered, pod),
                _ if self.is_resting(now) => stay(Reason::EvictionRests, pod),
                // Not the usual course, in which the next one follows soon.
                _ if !rests && (slow || away > self.away.len()) => {
                    stay(Reason::EvictionWaits { away, limit }, pod);
                }
                _ => {}
            }
        }
        decision
    }

    /// Those that were not tried yet come first, and of them those that are not ready anyway.
    fn put_in_order(&self, pods: &mut Pods<'_>) {
        let evicted: BTreeSet<Uid> = self.away.iter().map(|away| away.pod).collect();
        pods.missed.retain(|(uid, _, _)| !evicted.contains(uid));
        pods.missed.sort_by_cached_key(|(uid, _, pod)| {
            let tried = self.refused.get(uid).map(|(until, _)| *until);
            (tried, pod.is_ready(), pod.namespace.clone(), pod.name.clone())
        });
    }

    /// How many evictions may be tried now.
    fn tries(&self, now: Timestamp) -> usize {
        TRIES.saturating_sub(self.refused.values().filter(|(until, _)| now < *until).count())
    }

    fn is_resting(&self, now: Timestamp) -> bool {
        self.rests.is_some_and(|until| now < until)
    }

    /// How many Pods are away, or count as such.
    fn count_away(&self, pods: &Pods<'_>) -> usize {
        // For those that were evicted, and those that came for them, the Pods that are away stand.
        let came: BTreeSet<Uid> = self.away.iter().filter_map(|away| away.replacement).collect();
        let unready = pods.unready.iter().filter(|uid| !came.contains(uid)).count();
        let leaving = pods.leaving.difference(&self.going).count();
        self.away.len().saturating_add(unready).saturating_add(leaving)
    }

    /// Notes which Pods are there before one of them is evicted for another SidecarSet: they don't come for it.
    pub fn look<'p>(&mut self, members: impl IntoIterator<Item = (Uid, &'p PodRecord)>) {
        let staying = members.into_iter().filter(|(_, pod)| !pod.is_leaving());
        self.note_new(staying.map(|(uid, _)| uid));
    }

    fn note_new(&mut self, staying: impl Iterator<Item = Uid>) {
        self.round = self.round.saturating_add(1);
        let first_seen = |uid: &Uid| self.seen.get(uid).copied().unwrap_or(self.round);
        self.seen = staying.map(|uid| (uid, first_seen(&uid))).collect();
        self.replacements.retain(|uid| self.seen.contains_key(uid));
    }

    /// Notes which Pods are new, and which are gone.
    fn look_at(&mut self, pods: &Pods<'_>) {
        self.note_new(pods.staying.iter().map(|(uid, _)| *uid));
        self.going.retain(|uid| pods.leaving.contains(uid) || self.away.iter().any(|away| away.pod == *uid));
        // They have others, or have made another one since.
        let mut newest: BTreeMap<Uid, u64> = BTreeMap::new();
        for (uid, pod) in pods.staying.iter().filter(|_| !self.idle.is_empty()) {
            let (Some(owner), Some(round)) = (pod.owner(), self.seen.get(uid)) else { continue };
            newest.entry(owner).and_modify(|newest| *newest = (*newest).max(*round)).or_insert(*round);
        }
        self.idle.retain(|owner, round| newest.get(owner).is_some_and(|newest| newest <= round));
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
        let missed: BTreeSet<Uid> = pods.missed.iter().map(|(uid, _, _)| *uid).collect();
        let (mut helped, mut given_up) = (false, Vec::new());
        self.away.retain(|away| {
            let waited = now.duration_since(away.since);
            let replaced = away.replacement.filter(|uid| ready.contains(uid));
            helped |= replaced.is_some_and(|uid| !missed.contains(&uid));
            let stayed = !away.certain && waited > GOING && self.seen.contains_key(&away.pod);
            let forgotten = waited > PATIENCE && !pods.leaving.contains(&away.pod);
            if forgotten && away.replacement.is_none() && !stayed {
                given_up.push(away.owner);
            }
            !(replaced.is_some() || stayed || forgotten)
        });
        if helped {
            self.rest = REST.0;
        }
        if !given_up.is_empty() {
            self.idle.extend(given_up.into_iter().map(|owner| (owner, self.round)));
            self.rest_longer(now);
        }
    }

    /// Rests where a new Pod was missed after an eviction.
    fn watch_out(&mut self, pods: &Pods<'_>, now: Timestamp) {
        let Some(first) = self.first else { return };
        let newest = pods.missed.iter().filter_map(|(uid, _, _)| self.seen.get(uid)).max();
        if let Some(newest) = newest.copied().filter(|newest| *newest > first.max(self.missed_again)) {
            self.missed_again = newest;
            // Those that come meanwhile tell nothing new.
            if !self.is_resting(now) {
                self.rest_longer(now);
            }
        }
    }

    fn rest_longer(&mut self, now: Timestamp) {
        self.rests = Some(after(now, self.rest));
        self.rest = self.rest.saturating_mul(2).min(REST.1);
    }
}

fn after(now: Timestamp, pause: SignedDuration) -> Timestamp {
    now.saturating_add(pause).unwrap_or(Timestamp::MAX)
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
                _ if pod.is_leaving() => drop(pods.leaving.insert(uid)),
                Relation::Injected if !pod.is_ready() => pods.unready.push(uid),
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
