//! A model of replicas that share one store and publish to several objects, and of an API server that sees
//! what is published only after a while, run through all interleavings of their reads and writes, with
//! restarts, a deleted store and the passing of time.

use std::collections::{BTreeSet, HashSet};
use std::hash::{BuildHasher, BuildHasherDefault, DefaultHasher};

use super::tests::{TIMING, apply};
use super::*;

const OBJECTS: usize = 2;
/// First the beginning; then the leaf is due and its authority too old to sign again.
const EPOCHS: [SignedDuration; 2] =
    [SignedDuration::ZERO, SignedDuration::from_hours(24 * 365 * 9 + 24 * 300)];

type Bundle = Vec<Authority>;

#[derive(Clone, Debug, PartialEq, Eq, Hash)]
struct Replica {
    at: At,
    served: Option<Leaf>,
    memory: Option<Stored>,
    /// The Service routes to it: it has observed its certificate published once.
    ready: bool,
    /// The API server has accepted its certificate since.
    accepted: bool,
    /// The bundle that it saw published everywhere, and whether the API server has observed that too. The time of
    /// uptake is over then at the earliest.
    published: Option<(Bundle, bool)>,
}

impl Replica {
    const NEW: Self =
        Self { at: At::Start, served: None, memory: None, ready: false, accepted: false, published: None };

    /// Since when it sees `bundle` published everywhere.
    fn published_since(&mut self, bundle: &Bundle, seen: bool, now: Timestamp) -> Timestamp {
        if self.published.as_ref().is_none_or(|(known, _)| known != bundle) {
            self.published = Some((bundle.clone(), seen));
        }
        let over = self.published.as_ref().is_some_and(|(_, seen)| *seen);
        if over { after(now, -UPTAKE) } else { now }
    }
}

/// Where a replica is in its pass. What it read is a snapshot, and may be old when it writes.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
enum At {
    Start,
    ReadObjects(Vec<Bundle>),
    ReadStore(Vec<Bundle>),
    Decide(Vec<Bundle>, Option<Stored>),
    Publish(Vec<Bundle>, Stored, usize),
    Serve(Stored),
}

#[derive(Clone, Debug, PartialEq, Eq, Hash)]
struct State {
    store: Option<Stored>,
    objects: Vec<Bundle>,
    /// What the API server last saw of the object that is written last.
    believed: Bundle,
    replicas: Vec<Replica>,
    epoch: usize,
    deletions: u8,
    restarts: u8,
    made: u8,
    /// The time that replicas leave for the uptake of a publication.
    uptake: SignedDuration,
}

impl State {
    fn new(replicas: usize, deletions: u8, restarts: u8) -> Self {
        Self {
            store: None,
            objects: vec![vec![]; OBJECTS],
            believed: vec![],
            replicas: vec![Replica::NEW; replicas],
            epoch: 0,
            deletions,
            restarts,
            made: 0,
            uptake: UPTAKE,
        }
    }

    fn now(&self) -> Timestamp {
        after(Timestamp::UNIX_EPOCH, EPOCHS[self.epoch])
    }

    fn timing(&self) -> Timing {
        Timing { uptake: self.uptake, ..TIMING }
    }

    fn successors(&self) -> Vec<State> {
        let mut all: Vec<State> = (0..self.replicas.len()).map(|number| self.advance(number)).collect();
        all.push(self.seen_by_the_api_server());
        // Years pass only once every replica knows and serves what is stored, and the API server sees what is
        // published, which takes minutes.
        let leaf = self.store.as_ref().and_then(|stored| stored.leaf);
        let current = |replica: &Replica| {
            let read = match &replica.at {
                At::Decide(_, Some(stored)) | At::Publish(_, stored, _) | At::Serve(stored) => stored.leaf,
                At::Start | At::ReadObjects(_) | At::ReadStore(_) | At::Decide(_, None) => leaf,
            };
            read == leaf && (replica.served.is_none() || replica.served == leaf)
        };
        if self.is_seen() && self.replicas.iter().all(current) && self.epoch + 1 < EPOCHS.len() {
            all.push(State { epoch: self.epoch + 1, ..self.clone() });
        }
        // Nothing guards a creation but absence. So a replica that stalls in the middle of its pass
        // from before the first publication to after the deletion is out of what can be promised.
        let installed = self.objects.iter().all(|bundle| !bundle.is_empty());
        let stalled = self.replicas.iter().any(|replica| match &replica.at {
            At::ReadObjects(seen) | At::ReadStore(seen) | At::Decide(seen, None) => {
                !self.objects.starts_with(seen)
            }
            At::Start | At::Decide(_, Some(_)) | At::Publish(..) | At::Serve(_) => false,
        });
        if self.deletions > 0 && self.store.is_some() && installed && !stalled {
            all.push(State { store: None, deletions: self.deletions - 1, ..self.clone() });
        }
        if self.restarts > 0 {
            for number in 0..self.replicas.len() {
                let mut next = State { restarts: self.restarts - 1, ..self.clone() };
                next.replicas[number] = Replica::NEW;
                all.push(next);
            }
        }
        all
    }

    /// Whether the API server has observed every change.
    fn is_seen(&self) -> bool {
        self.believed == self.objects[OBJECTS - 1]
    }

    /// The API server takes in every change.
    fn seen_by_the_api_server(&self) -> State {
        let mut next = State { believed: self.objects[OBJECTS - 1].clone(), ..self.clone() };
        for (_, seen) in next.replicas.iter_mut().filter_map(|replica| replica.published.as_mut()) {
            *seen = true;
        }
        next.note_accepted();
        next
    }

    /// Whether the API server accepts the replica's certificate if it knows any bundle.
    fn accepts(&self, replica: &Replica) -> bool {
        let issuer = replica.served.and_then(|leaf| leaf.issuer).expect("a ready replica serves");
        self.believed.is_empty() || self.believed.contains(&issuer)
    }

    fn note_accepted(&mut self) {
        let known = !self.believed.is_empty();
        for number in 0..self.replicas.len() {
            let replica = &self.replicas[number];
            let accepted = replica.accepted || known && replica.ready && self.accepts(replica);
            self.replicas[number].accepted = accepted;
        }
    }

    /// One atomic step of one replica: one read or one write.
    fn advance(&self, number: usize) -> State {
        let mut next = self.clone();
        let now = self.now();
        let replica = &mut next.replicas[number];
        match replica.at.clone() {
            At::Start => {
                // A replica that serves nothing takes what is stored, before it publishes anything.
                if replica.served.is_none()
                    && let Some(stored) = &self.store
                {
                    replica.served = stored.leaf;
                    replica.memory = Some(stored.clone());
                }
                replica.at = At::ReadObjects(vec![]);
            }
            At::ReadObjects(mut seen) => {
                seen.push(self.objects[seen.len()].clone());
                replica.at = if seen.len() == OBJECTS { At::ReadStore(seen) } else { At::ReadObjects(seen) };
            }
            At::ReadStore(seen) => replica.at = At::Decide(seen, self.store.clone()),
            At::Decide(seen, stored) => next.decide(number, seen, stored, now),
            At::Publish(seen, stored, object) if object == OBJECTS => {
                next.decide(number, vec![stored.authorities.clone(); seen.len()], Some(stored), now);
            }
            At::Publish(seen, stored, object) => {
                if seen[object] == stored.authorities {
                    replica.at = At::Publish(seen, stored, object + 1);
                } else if seen[object] == self.objects[object] {
                    next.objects[object].clone_from(&stored.authorities);
                    next.replicas[number].at = At::Publish(seen, stored, object + 1);
                } else {
                    replica.at = At::Start;
                }
            }
            At::Serve(stored) => {
                let since = replica.published_since(&stored.authorities, self.is_seen(), now);
                let from = serves_from(replica.served.as_ref(), &stored, Some(since), self.timing(), now);
                if from.is_some_and(|from| from <= now) {
                    replica.served = stored.leaf;
                }
                replica.ready = true;
                replica.memory = Some(stored);
                replica.at = At::Start;
            }
        }
        next.note_accepted();
        next
    }

    fn decide(&mut self, number: usize, seen: Vec<Bundle>, stored: Option<Stored>, now: Timestamp) {
        let everywhere =
            stored.as_ref().filter(|stored| seen.iter().all(|bundle| *bundle == stored.authorities));
        let all_seen = self.is_seen();
        let published = everywhere
            .map(|stored| self.replicas[number].published_since(&stored.authorities, all_seen, now));
        let replica = self.replicas[number].clone();
        let mut known: Vec<Authority> = seen.concat();
        let observation = Observation {
            stored: stored.as_ref(),
            remembered: replica.memory.as_ref(),
            served: replica.served.as_ref(),
            authorities: &known,
            published,
        };
        let step = next(&observation, self.timing(), now);
        let at = match (&step, stored) {
            (Step::Keep | Step::AwaitUptake { .. }, Some(stored)) if published.is_some() => At::Serve(stored),
            (Step::Keep | Step::AwaitPublication, Some(stored)) => At::Publish(seen, stored, 0),
            (_, stored) => {
                if self.store == stored {
                    let base = stored.as_ref().or(replica.memory.as_ref());
                    known.extend(base.iter().flat_map(|stored| &stored.authorities));
                    known.extend(replica.served.and_then(|leaf| leaf.issuer));
                    self.store = Some(apply(&step, base, &known, self.made * 2 + 1, now));
                    self.made += 1;
                }
                At::Start
            }
        };
        self.replicas[number].at = at;
    }

    fn assert_sound(&self) {
        for replica in self.replicas.iter().filter(|replica| replica.ready) {
            let issuer = replica.served.and_then(|leaf| leaf.issuer).expect("a ready replica serves");
            for bundle in &self.objects {
                assert!(bundle.contains(&issuer), "a served leaf is outside a published bundle: {self:?}");
            }
            assert!(!replica.accepted || self.accepts(replica), "the API server refuses a replica: {self:?}");
        }
    }

    fn settled(&self) -> bool {
        self.successors().iter().all(|next| next.store == self.store && next.objects == self.objects)
            && self.replicas.iter().all(|replica| replica.ready)
    }
}

/// Visits every reachable state; returns how many there are. Their hashes say which are known: there are
/// millions, of which two have the same of 64 bits once in a million runs.
fn explore(start: State) -> usize {
    let hashes = BuildHasherDefault::<DefaultHasher>::default();
    let mut seen = HashSet::from([hashes.hash_one(&start)]);
    let mut frontier = vec![start];
    while let Some(state) = frontier.pop() {
        for next in state.successors() {
            if seen.insert(hashes.hash_one(&next)) {
                next.assert_sound();
                frontier.push(next);
            }
        }
    }
    seen.len()
}

/// Runs the replicas in turns until nothing changes any more.
fn settle(mut state: State) -> State {
    for turn in 0..1000 {
        state = state.advance(turn % state.replicas.len());
        state.assert_sound();
        if turn % 7 == 0 {
            state = state.seen_by_the_api_server();
            state.assert_sound();
        }
    }
    state
}

#[test]
fn no_interleaving_of_two_replicas_serves_outside_the_published_bundle() {
    assert!(explore(State::new(2, 0, 0)) > 1_000);
}

#[test]
fn a_deleted_store_does_not_lead_outside_the_published_bundle() {
    assert!(explore(State::new(2, 1, 0)) > 1_000);
}

#[test]
fn a_restart_does_not_lead_outside_the_published_bundle() {
    assert!(explore(State::new(2, 0, 1)) > 1_000);
}

#[test]
#[should_panic(expected = "the API server refuses a replica")]
fn a_leaf_that_follows_its_authority_at_once_is_refused_for_a_moment() {
    explore(State { uptake: SignedDuration::ZERO, ..State::new(2, 0, 0) });
}

#[test]
fn three_replicas_in_any_random_order_stay_inside_the_published_bundle() {
    for seed in 0..2_000 {
        let mut random = values::moment::Moment { now: Timestamp::UNIX_EPOCH, seed }.random();
        let mut state = State::new(3, 1, 2);
        for _ in 0..400 {
            let mut successors = state.successors();
            // Replicas make the first three; the rest are rare events, such as that the API server sees a change.
            let choices = if random.next_fraction() < 0.1 { successors.len() } else { 3 };
            let choice = (random.next_u64() % choices as u64) as usize;
            state = successors.swap_remove(choice);
            state.assert_sound();
        }
    }
}

#[test]
fn replicas_that_start_together_agree_on_one_authority() {
    let state = settle(State::new(3, 0, 0));
    let leaves: BTreeSet<_> =
        state.replicas.iter().map(|replica| replica.served.map(|leaf| leaf.id)).collect();
    assert_eq!((leaves.len(), state.made), (1, 1));
}

#[test]
fn a_rotation_completes_with_both_authorities_in_the_bundle() {
    let before = settle(State::new(3, 0, 0));
    let after = settle(State { epoch: 1, ..before.clone() });
    let (old, new) = (before.store.unwrap(), after.store.clone().unwrap());
    assert_eq!(new.authorities.len(), 2);
    assert_eq!(new.authorities[1], old.authorities[0]);
    assert_eq!(new.leaf.unwrap().issuer, Some(new.authorities[0]));
    assert!(after.settled() || after.replicas.iter().all(|replica| replica.served == new.leaf));
}
