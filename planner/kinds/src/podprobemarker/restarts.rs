//! Which containers are restarted since they fail the liveness probes that the agent runs
//! (docs/behaviour/probes.md#enhanced-liveness-probes).

use api::kinds::Time;
use api::kinds::nodepodprobe::{NodePodProbe, ProbeState};

use super::FAILED;
use super::liveness::{Moved, name};
use super::probed::Probed;
use super::results::states;
use crate::workload::recreate::{RecreateRequest, Spec, Strategy, named};
use pod::observed::ObservedPod;
use values::event::{Event, warning};

/// How long a request stays when it is over; a container that still fails then gets another one.
const REQUEST_TTL_SECONDS: i32 = 300;

/// A container that is to be restarted.
#[derive(Clone, Debug)]
pub struct Restart<'a> {
    /// Its Pod.
    pub pod: &'a ObservedPod,
    /// The request to create; where there is one of its name, the restart is in progress.
    pub request: RecreateRequest,
    /// The Events about it.
    pub event: Event,
}

/// The containers that have failed their liveness probes since they started.
pub fn restarts<'a>(known: &NodePodProbe, probed: &[Probed<'a>]) -> Vec<Restart<'a>> {
    let of = |probed: &Probed<'a>| {
        let states = states(known, probed.pod);
        let failed = |moved: &Moved| {
            let state = states.iter().find(|state| state.name == name(&moved.container))?;
            restart(probed.pod, &moved.container, state)
        };
        probed.liveness.iter().filter_map(failed).collect::<Vec<_>>()
    };
    probed.iter().flat_map(of).collect()
}

fn restart<'a>(pod: &'a ObservedPod, container: &str, state: &ProbeState) -> Option<Restart<'a>> {
    let failed = state.last_transition_time.as_ref().and_then(Time::timestamp)?;
    let started = pod.container_status(container)?.running?.started_at;
    // What failed before the container started was said of the one before it.
    if state.state != FAILED || started > Some(failed.into()) {
        return None;
    }
    let metadata = &pod.metadata;
    let name = format!("liveness-{}-{container}-{}", metadata.uid, failed.as_second());
    let spec = Spec {
        pod_name: &metadata.name,
        containers: named(&[container]),
        strategy: Strategy { failure_policy: None, force_recreate: false },
        ttl_seconds_after_finished: Some(REQUEST_TTL_SECONDS),
    };
    let message =
        format!("Container {container} failed its liveness probe, will be restarted: {}", state.message);
    let request = RecreateRequest::new(pod, name, spec);
    Some(Restart { pod, request, event: warning("LivenessProbeFailed", message) })
}
