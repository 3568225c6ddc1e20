//! A UnitedDeployment in the simulation: each of its workloads is run by its own planner, in a simulated cluster for
//! itself, in step with the others. [`World`] carries out what the UnitedDeployment's planner decides.
#![allow(
    clippy::unwrap_used,
    clippy::indexing_slicing,
    clippy::missing_panics_doc,
    reason = "it serves tests alone"
)]

use std::collections::BTreeMap;

use api::labels::UNITED_REVISION;
use kinds::uniteddeployment::plan::world::World;
use serde_json::Value;

use super::*;
use crate::kind::{is_available, is_serving};

/// The shortest time between two reconciles of the UnitedDeployment.
const REST: Milliseconds = 500;
/// The workload of a subset.
#[derive(Clone)]
struct Child<'p, W: Simulated> {
    uid: String,
    /// The spec that the UnitedDeployment gave it last.
    spec: Value,
    /// When it came: the time of its cluster begins there.
    born: Milliseconds,
    cluster: Cluster<'p, W>,
}

/// A UnitedDeployment and its workloads.
#[derive(Clone)]
pub struct Fleet<'p, W: Simulated> {
    world: World,
    children: Vec<Child<'p, W>>,
    /// Claims that workloads left which are gone: their names and sizes.
    left: Vec<(String, String)>,
    planner: Planner<'p, W>,
    /// Those of the clusters; the seed is that of the first.
    settings: Settings,
    now: Milliseconds,
    /// The versions of the workloads at the last reconcile; none since the UnitedDeployment was edited.
    observed: Option<Vec<u64>>,
    reconcile_at: Milliseconds,
    /// So many Pods have to stay.
    pub floor: i64,
}

impl<'p, W: Simulated> Fleet<'p, W> {
    /// A UnitedDeployment whose workloads nobody has looked after yet.
    pub fn new(world: World, settings: Settings, planner: Planner<'p, W>) -> Self {
        let children = Vec::new();
        let left = Vec::new();
        Self { world, children, left, planner, settings, now: 0, observed: None, reconcile_at: 0, floor: 0 }
    }

    /// The UnitedDeployment.
    pub fn world(&self) -> &World {
        &self.world
    }

    /// The clusters of its workloads.
    pub fn clusters(&self) -> impl Iterator<Item = &Cluster<'p, W>> {
        self.children.iter().map(|child| &child.cluster)
    }

    /// The claims that are not being deleted: their names, and how much storage they have.
    pub fn claims(&self) -> Vec<(&str, &str)> {
        let left = self.left.iter().map(|(name, size)| (name.as_str(), size.as_str()));
        self.clusters().flat_map(Cluster::claims).chain(left).collect()
    }

    /// Milliseconds since the start.
    pub fn elapsed(&self) -> Milliseconds {
        self.now
    }

    /// How many Pods the workloads ask for together, and how far their number may differ.
    pub fn bounds(&self) -> Bounds {
        let none = Bounds { replicas: 0, max_unavailable: 0, max_surge: 0, min_ready_seconds: 0 };
        self.clusters().map(Cluster::bounds).fold(none, |sum, own| Bounds {
            replicas: sum.replicas + own.replicas,
            max_unavailable: sum.max_unavailable + own.max_unavailable,
            max_surge: sum.max_surge + own.max_surge,
            min_ready_seconds: own.min_ready_seconds,
        })
    }

    /// See [`Cluster::diverge`].
    pub fn diverge(&mut self, seed: u64, lag: Milliseconds) {
        (self.settings.seed, self.settings.lag) = (seed, lag);
        self.children.iter_mut().for_each(|child| child.cluster.diverge(seed, lag));
    }

    /// A user does the first step that is there for a cluster.
    pub fn user_does(&mut self, step: impl Fn(&Cluster<'p, W>) -> Option<Step<W>>) {
        let mut children = self.children.iter_mut();
        if let Some((step, child)) = children.find_map(|child| Some((step(&child.cluster)?, child))) {
            child.cluster.agenda.pass_until(self.now - child.born);
            child.cluster.add(0, step);
        }
    }

    /// Pods that serve, with whether they are proven: available, or at an older revision.
    fn serving(&self) -> BTreeMap<(&str, Box<str>), bool> {
        let newest = Some(self.world.united.status.updated_revision.as_str());
        let of_child = |child: &'_ Child<'_, W>| {
            let Cluster { server, facts, .. } = &child.cluster;
            let (min_ready, now) =
                (server.workload.bounds(facts).min_ready_seconds, timestamp(self.now - child.born));
            let own = child.cluster.own_pods().filter(|pod| is_serving(pod));
            let proven = own.map(|pod| {
                let is_proven = is_available(pod, min_ready, now) || pod.label(UNITED_REVISION) != newest;
                (pod.metadata.name.clone(), is_proven)
            });
            proven.collect::<Vec<_>>()
        };
        let pods = |child| of_child(child).into_iter().map(|(pod, proven)| ((&*child.uid, pod), proven));
        self.children.iter().flat_map(pods).collect()
    }

    /// Lets something happen, and judges what it takes away.
    fn judged(&mut self, happens: impl FnOnce(&mut Self)) -> Result<(), String> {
        let proven =
            |(pod, is_proven): ((&str, Box<str>), bool)| is_proven.then(|| (pod.0.to_owned(), pod.1));
        let before: Vec<(String, Box<str>)> = self.serving().into_iter().filter_map(proven).collect();
        happens(self);
        let after = self.serving();
        let is_gone = |(uid, pod): &&(String, Box<str>)| !after.contains_key(&(uid.as_str(), pod.clone()));
        let left = after.values().filter(|is_proven| **is_proven).count();
        if let Some((_, pod)) = before.iter().find(is_gone)
            && i64::try_from(left).unwrap() < self.floor
        {
            return Err(format!("{}: Pod {pod} is taken away, {left} stay of {}", self.now, self.floor));
        }
        let mut broken = self.children.iter().flat_map(|child| child.cluster.violations());
        broken.next().map_or(Ok(()), |violation| Err(format!("{}: {violation}", self.now)))
    }

    fn versions(&self) -> Vec<u64> {
        self.children.iter().map(|child| child.cluster.server.version()).collect()
    }

    /// The UnitedDeployment sees its workloads, and they get what it writes.
    fn look(&mut self) {
        (self.observed, self.reconcile_at) = (Some(self.versions()), self.now + REST);
        let Self { world, children, left, .. } = self;
        let uid_of = |known: &Value| known["metadata"]["uid"].as_str().unwrap().to_owned();
        for (_, known) in &mut world.children {
            let child = children.iter().find(|child| child.uid == uid_of(known)).unwrap();
            known["status"] = serde_json::to_value(child.cluster.server.workload.status()).unwrap();
        }
        let pods = children.iter().flat_map(|child| child.cluster.server.pods.values());
        world.observed = pods.cloned().collect();
        world.now = timestamp(self.now);
        world.look();
        let stays = |child: &Child<'_, W>| world.children.iter().any(|(_, known)| uid_of(known) == child.uid);
        for child in children.iter().filter(|child| !stays(child)) {
            // Those that somebody owns are collected with it.
            let claims = child.cluster.server.claims.values();
            let free = claims.filter(|claim| claim.metadata.owner_references.is_empty());
            left.extend(free.map(|claim| {
                (
                    claim.metadata.name.to_string(),
                    claim.status.capacity.get("storage").unwrap_or_default().to_owned(),
                )
            }));
        }
        children.retain(stays);
        for (_, known) in &world.children {
            let (uid, spec) = (uid_of(known), known["spec"].clone());
            let Some(child) = children.iter_mut().find(|child| child.uid == uid) else {
                let seed = self.settings.seed + u64::try_from(children.len()).unwrap();
                let workload: W = serde_json::from_value(known.clone()).unwrap();
                let cluster =
                    Cluster::new(workload, Settings { seed, ..self.settings.clone() }, self.planner);
                children.push(Child { uid, spec, born: self.now, cluster });
                continue;
            };
            if child.spec != spec {
                child.spec = spec.clone();
                child.cluster.agenda.pass_until(self.now - child.born);
                child.cluster.add(0, Step::Amend(Box::new(serde_json::from_value(spec).unwrap())));
            }
        }
    }

    /// A user gives the UnitedDeployment these fields of its spec.
    pub fn edit(&mut self, spec: &Value) {
        self.world.edit(spec);
        (self.observed, self.reconcile_at) = (None, self.now);
    }

    /// Lets things happen until this time has passed.
    ///
    /// # Errors
    /// A rule is broken.
    pub fn pass(&mut self, duration: Milliseconds) -> Result<(), String> {
        let end = self.now + duration;
        while self.happens(end)? {}
        self.now = end;
        Ok(())
    }

    /// Lets things happen until nothing happens any more.
    ///
    /// # Errors
    /// A rule is broken, or there is no end to what happens.
    pub fn settle_down(&mut self) -> Result<(), String> {
        for _ in 0..MANY_EVENTS {
            if !self.happens(Milliseconds::MAX)? {
                return Ok(());
            }
        }
        Err(format!("{}: there is no end to it", self.now))
    }

    /// Lets the next thing happen, unless it is due later; whether there was one.
    fn happens(&mut self, end: Milliseconds) -> Result<bool, String> {
        let due = |(index, child): (usize, &Child<'_, W>)| {
            Some((child.born + child.cluster.agenda.next_time()?, index))
        };
        let next = self.children.iter().enumerate().filter_map(due).min().filter(|(time, _)| *time <= end);
        let is_dirty = self.observed != Some(self.versions());
        let look = is_dirty.then(|| self.reconcile_at.max(self.now)).filter(|time| *time <= end);
        match (look, next) {
            (Some(time), next) if next.is_none_or(|(next, _)| time <= next) => {
                self.now = time;
                self.judged(Self::look)?;
            }
            (_, Some((time, index))) => {
                self.now = time;
                self.judged(|fleet| fleet.children[index].cluster.step())?;
            }
            _ => return Ok(false),
        }
        Ok(true)
    }

    /// Whether all Pods are at the newest revision, and nothing is left to do.
    ///
    /// # Errors
    /// What is left.
    pub fn rest(&self) -> Result<(), String> {
        for child in &self.children {
            if let Some(unrest) = child.cluster.unrest().first() {
                return Err(format!("{}: {unrest}", child.uid));
            }
        }
        let plan = self.world.plan();
        let status = &self.world.united.status;
        let total = self.world.united.spec.replicas;
        let is_idle = plan.creations.is_empty() && plan.deletions.is_empty() && plan.updates.is_empty();
        let is_new =
            Some(status.updated_replicas) == total && status.current_revision == status.updated_revision;
        if is_idle && is_new { Ok(()) } else { Err(format!("{status:?}, {plan:?}")) }
    }
}
