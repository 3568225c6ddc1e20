//! The Pod of a Node (docs/behaviour/daemonset.md#pods).

use api::kinds::shared::UpdateStrategyType;
use api::labels::POD_TEMPLATE_GENERATION;

use super::working::Working;
use crate::workload::action::Action;
use crate::workload::kind::Workload;
use crate::workload::new_pod::{self, NewMetadata, NewSpec, generated_name};
use values::moment::Random;

/// The scheduler of Pods that are created on their Nodes.
const BYPASSED: &str = "kubernetes.io/daemonset-controller";

/// Creates the Pod of a Node.
///
/// # Errors
/// Why no Pod can be made from the template.
pub(super) fn create(working: &Working<'_>, node: &str, random: &mut Random) -> Result<Action, String> {
    let set = working.set();
    let template = set.spec.template.as_ref().ok_or("spec.template is missing")?;
    let generate_name = format!("{}-", set.metadata.name);
    let is_taken = |name: &str| working.pods().any(|pod| pod.name() == name);
    let name = generated_name(&generate_name, random, is_taken);
    let mut labels = working.rules.labels.labels(working.update.name());
    labels.extend(working.template_generation.map(|generation| (POD_TEMPLATE_GENERATION, generation)));
    let metadata = NewMetadata {
        name: &name,
        generate_name: Some(&generate_name),
        namespace: &set.metadata.namespace,
        labels,
        annotations: Vec::new(),
        owner: Some(set.owner()),
    };
    let bypasses = working.snapshot.environment.bypasses_scheduler;
    let rolls = set.spec.update_strategy.kind != Some(UpdateStrategyType::OnDelete);
    let additions = NewSpec {
        has_readiness_gate: working.settings.in_place && rolls,
        node: (!bypasses).then_some(node),
        texts: if bypasses { vec![("nodeName", node), ("schedulerName", BYPASSED)] } else { Vec::new() },
        tolerations: working.tolerations.clone(),
        ..NewSpec::default()
    };
    Ok(Action::CreatePod {
        json: new_pod::pod(template.get(), &metadata, &additions).map_err(|error| error.to_string())?,
        revision: working.update.name().to_owned(),
        claims: Vec::new(),
        instance_id: node.to_owned(),
        name,
    })
}
