//! A cluster that OpenKruise ran until now: what it leaves of revisions, Pods and claims.

use api::annotations::{IN_PLACE_UPDATE_STATE, IN_PLACE_UPDATE_STATE_OLDER};
use api::conditions::IN_PLACE_UPDATE_READY;
use api::labels::{LIFECYCLE_STATE, POD_TEMPLATE_HASH};
use api::meta::OwnerReference;

use super::Cluster;
use super::kind::Simulated;
use super::timeline::Actor;
use pod::observed::{ObservedPod, Part};
use pod::write::PodWrite;

/// What all annotations of our own begin with.
const OURS: &str = "kutter.io/";

impl<W: Simulated> Cluster<'_, W> {
    /// Makes everything such as OpenKruise, or a very old version of it, leaves it, and has the controller
    /// start on that.
    pub(super) fn take_over(&mut self, is_old: bool) {
        let version = if is_old { "an old OpenKruise" } else { "OpenKruise" };
        self.record(Actor::User, format!("Kutter takes over from {version}"));
        self.server.forget_marks(OURS);
        self.ledger.forget_deletions();
        let pods: Vec<_> = self.own_pods().cloned().collect();
        for pod in pods {
            self.change(Actor::User, &pod, |pod| {
                let ours = pod.metadata.annotations.iter().map(|(key, _)| key);
                let ours: Vec<_> = ours.filter(|key| key.starts_with(OURS)).map(str::to_owned).collect();
                let mut write = PodWrite::default();
                ours.into_iter().for_each(|key| write.remove_annotation(key));
                write.apply(pod);
                if is_old {
                    age(pod);
                }
            });
        }
        self.crash();
    }
}

/// Makes the Pod one of a very old version: no hash of its template, the older key of its state, an owner in
/// `v1alpha1`, and, where it is at rest, neither a state of its lifecycle nor a gate.
fn age(pod: &mut ObservedPod) {
    let mut write = PodWrite::default();
    write.labels.insert(POD_TEMPLATE_HASH.to_owned(), None);
    if let Some(state) = pod.annotation(IN_PLACE_UPDATE_STATE) {
        write.set_annotation(IN_PLACE_UPDATE_STATE_OLDER, state);
        write.remove_annotation(IN_PLACE_UPDATE_STATE);
    }
    if pod.label(LIFECYCLE_STATE) == Some("Normal") && pod.condition_is_true(IN_PLACE_UPDATE_READY) {
        write.labels.insert(LIFECYCLE_STATE.to_owned(), None);
        let gates = pod.spec.readiness_gates.iter();
        let kept = gates.filter(|gate| &*gate.condition_type != IN_PLACE_UPDATE_READY);
        pod.spec.readiness_gates = kept.cloned().collect();
        let conditions = pod.status.conditions.iter().cloned();
        pod.status.conditions =
            conditions.filter(|condition| &*condition.kind != IN_PLACE_UPDATE_READY).collect();
    }
    write.apply(pod);
    let owners = pod.metadata.owner_references.iter().cloned();
    let owners =
        owners.map(|owner| OwnerReference { api_version: "apps.kruise.io/v1alpha1".into(), ..owner });
    pod.metadata.owner_references = owners.collect::<Part<[_]>>();
}
