//! The Pod of a Node (docs/behaviour/broadcastjob.md#pods).

use api::labels::{BROADCAST_JOB_CONTROLLER_UID, BROADCAST_JOB_NAME};

use super::working::Working;
use crate::workload::action::Action;
use crate::workload::kind::Workload;
use crate::workload::new_pod::{self, NewMetadata, NewSpec, generated_name};
use values::moment::Random;

/// Creates the Pod of a Node.
///
/// # Errors
/// Why no Pod can be made from the template.
pub(super) fn create(working: &Working<'_>, node: &str, random: &mut Random) -> Result<Action, String> {
    let job = working.job();
    let template = job.spec.template.as_ref().ok_or("spec.template is missing")?;
    let generate_name = format!("{}-", job.metadata.name);
    let is_taken = |name: &str| working.pods().any(|pod| &*pod.pod.metadata.name == name);
    let name = generated_name(&generate_name, random, is_taken);
    let metadata = NewMetadata {
        name: &name,
        generate_name: Some(&generate_name),
        namespace: &job.metadata.namespace,
        labels: vec![
            (BROADCAST_JOB_NAME, &job.metadata.name),
            (BROADCAST_JOB_CONTROLLER_UID, &job.metadata.uid),
        ],
        annotations: Vec::new(),
        owner: Some(job.owner()),
    };
    let bypasses = working.snapshot.environment.bypasses_scheduler;
    let additions = NewSpec {
        node: (!bypasses).then_some(node),
        texts: if bypasses { vec![("nodeName", node)] } else { Vec::new() },
        ..NewSpec::default()
    };
    Ok(Action::CreatePod {
        json: new_pod::pod(template.get(), &metadata, &additions).map_err(|error| error.to_string())?,
        revision: String::new(),
        claims: Vec::new(),
        instance_id: node.to_owned(),
        name,
    })
}
