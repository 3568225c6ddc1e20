//! The expected end of a history: the simulation of its kind.

use std::sync::Arc;

use api::kinds::shared::Lifecycle;
use kinds::uniteddeployment::children::ChildKind;
use kinds::uniteddeployment::plan::world::World;
use pod::observed::ObservedPod;
use serde_json::Value;
use simulator::fleet::Fleet;
use simulator::{Bounds, Cluster, Milliseconds, Rest, Settings, Simulated, Step};

use super::change::Deed;

/// Longer than any simulated workload takes.
const SIMULATED: Milliseconds = 4 * 3_600_000;
/// The model of a UnitedDeployment is reconciled within this time.
const LOOKED_AT: Milliseconds = 1_000;
/// Seconds that the model of a UnitedDeployment is given.
const MODELLED: i64 = 600;

pub type Pods = Vec<Arc<ObservedPod>>;

/// Computes the expected end of a history.
pub trait Oracle: Clone {
    /// Names of Pods are made from ordinals.
    const HAS_NAMES: bool = false;
    /// It says which Pods stay, and how often their containers restart.
    const KNOWS_FATES: bool = true;

    /// The workload is created.
    fn begin(object: &Value, settings: Settings) -> Self;
    /// It gets the spec of this object.
    fn edit(&mut self, object: &Value);
    /// Somebody does this to the Pod of this identity.
    fn touch(&mut self, deed: Deed, uid: &str);
    /// So much time passes.
    fn pass(&mut self, time: Milliseconds);
    /// From now on chance decides by another seed, and watches stay behind for so long.
    fn diverge(&mut self, _seed: u64, _lag: Milliseconds) {}
    /// Lets happen what is to happen. Gives how long it takes, or why it has no end.
    fn settle(&mut self) -> Result<Milliseconds, String>;
    fn pods(&self) -> Pods;
    fn status(&self) -> Value;
    /// The names of claims that are not being deleted, and how much storage they have.
    fn claims(&self) -> Vec<(&str, &str)> {
        Vec::new()
    }
    /// How many Pods it asks for.
    fn bounds(&self) -> Option<Bounds> {
        None
    }
    /// The hooks of the Pods of this object.
    fn lifecycle(_object: &Value) -> Lifecycle {
        Lifecycle::default()
    }
    /// What blocks its progress.
    fn blockers(&self) -> Vec<String> {
        Vec::new()
    }
}

fn read<W: Simulated>(object: &Value) -> W {
    serde_json::from_str(&object.to_string()).unwrap()
}

/// The step that does this to the Pod of this identity, where the cluster has it.
fn step<W: Simulated>(cluster: &Cluster<'_, W>, deed: Deed, uid: &str) -> Option<Step<W>> {
    let number = |pods: &[Arc<ObservedPod>]| pods.iter().position(|pod| *pod.metadata.uid == *uid);
    let mut pods = cluster.pods();
    if deed == Deed::MarkForDeletion {
        return number(&pods).map(Step::Mark);
    }
    pods.retain(|pod| pod.is_active());
    number(&pods).map(Step::Delete)
}

impl<W: Simulated> Oracle for Cluster<'static, W> {
    const HAS_NAMES: bool = matches!(W::KIND.as_bytes(), b"StatefulSet");

    fn begin(object: &Value, settings: Settings) -> Self {
        Self::new(read(object), settings, &W::plan)
    }

    fn edit(&mut self, object: &Value) {
        self.add(1, Step::Apply(Box::new(read::<W>(object).object().spec.clone())));
    }

    fn touch(&mut self, deed: Deed, uid: &str) {
        if let Some(step) = step(self, deed, uid) {
            self.add(1, step);
        }
    }

    fn pass(&mut self, time: Milliseconds) {
        self.run_until(self.elapsed() + time);
    }

    fn diverge(&mut self, seed: u64, lag: Milliseconds) {
        self.diverge(seed, lag);
    }

    fn settle(&mut self) -> Result<Milliseconds, String> {
        let start = self.elapsed();
        match self.settle_down(SIMULATED) {
            Rest::Restless(event) => Err(format!("{event}, {:?}", self.violations())),
            _ => Ok(self.elapsed() - start),
        }
    }

    fn pods(&self) -> Pods {
        self.pods()
    }

    fn status(&self) -> Value {
        serde_json::to_value(self.workload().status()).unwrap()
    }

    fn claims(&self) -> Vec<(&str, &str)> {
        self.claims()
    }

    fn bounds(&self) -> Option<Bounds> {
        Some(self.bounds())
    }

    fn lifecycle(object: &Value) -> Lifecycle {
        read::<W>(object).lifecycle().clone()
    }

    fn blockers(&self) -> Vec<String> {
        self.blockers()
    }
}

/// The world in which this UnitedDeployment is new.
fn world(object: &Value) -> World {
    World::new(ChildKind::CloneSet, &object["spec"])
}

impl<W: Simulated> Oracle for Fleet<'static, W> {
    fn begin(object: &Value, settings: Settings) -> Self {
        Self::new(world(object), settings, &W::plan)
    }

    fn edit(&mut self, object: &Value) {
        self.edit(&object["spec"]);
    }

    fn touch(&mut self, deed: Deed, uid: &str) {
        self.user_does(|cluster| step(cluster, deed, uid));
    }

    fn pass(&mut self, time: Milliseconds) {
        self.pass(time).unwrap();
    }

    fn diverge(&mut self, seed: u64, lag: Milliseconds) {
        self.diverge(seed, lag);
    }

    fn settle(&mut self) -> Result<Milliseconds, String> {
        let start = self.elapsed();
        self.settle_down().map(|()| self.elapsed() - start)
    }

    fn pods(&self) -> Pods {
        self.clusters().flat_map(Cluster::pods).collect()
    }

    fn status(&self) -> Value {
        serde_json::to_value(&self.world().united.status).unwrap()
    }

    fn claims(&self) -> Vec<(&str, &str)> {
        self.claims()
    }

    fn bounds(&self) -> Option<Bounds> {
        Some(self.bounds())
    }

    fn lifecycle(object: &Value) -> Lifecycle {
        let templates = object["spec"]["template"].as_object().into_iter().flatten();
        templates.map(|(_, template)| read::<W>(template).lifecycle().clone()).next().unwrap_or_default()
    }

    fn blockers(&self) -> Vec<String> {
        self.clusters().flat_map(Cluster::blockers).collect()
    }
}

/// Of workloads whose planners are not ours it says how many Pods there are, in which subset and of which revision.
impl Oracle for World {
    const KNOWS_FATES: bool = false;

    fn begin(object: &Value, _settings: Settings) -> Self {
        world(object)
    }

    fn edit(&mut self, object: &Value) {
        self.edit(&object["spec"]);
    }

    fn touch(&mut self, _deed: Deed, uid: &str) {
        self.pods.retain(|pod| pod["metadata"]["uid"] != uid);
    }

    fn pass(&mut self, time: Milliseconds) {
        if time >= LOOKED_AT {
            self.look();
            self.run();
        }
    }

    fn settle(&mut self) -> Result<Milliseconds, String> {
        self.settle(MODELLED);
        Ok(0)
    }

    fn pods(&self) -> Pods {
        let read = |pod: &Value| Arc::new(ObservedPod::read(&pod.to_string()).unwrap());
        self.pods.iter().map(read).collect()
    }

    fn status(&self) -> Value {
        serde_json::to_value(&self.united.status).unwrap()
    }
}
