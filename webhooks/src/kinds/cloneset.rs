//! Validation of CloneSets. Deletes are decided by [`protection`](super::protection).

use std::collections::HashMap;

use futures::StreamExt;
use futures::stream;
use kinds::cloneset::validation::{Context, NamedPod, newly_named, review, trials};
use values::verdict::Verdict;

use super::resource::Write;
use super::templates::judged;

/// Pods that are asked for at the same time.
const AT_ONCE: usize = 8;

/// Checks a CloneSet against itself, its former self, and the Pods that it names for deletion.
pub(super) async fn validate(write: &Write<'_>) -> Verdict {
    let pods: HashMap<String, NamedPod> = stream::iter(newly_named(write.object, write.old))
        .map(|name| find(write, name))
        .buffer_unordered(AT_ONCE)
        .collect()
        .await;
    let verdict = {
        let context = Context {
            gates: &write.admission.gates,
            allow_privileged: write.admission.flags.allow_privileged,
            pod: &|name| pods.get(name).cloned().unwrap_or(NamedPod::Missing),
        };
        review(write.object, write.old, &context)
    };
    judged(write, verdict, trials).await
}

async fn find(write: &Write<'_>, name: String) -> (String, NamedPod) {
    let lookup = write.admission.lookup.pod(write.namespace, &name);
    let pod = match write.deadline.within("reading the Pods to delete", lookup).await {
        Ok(Ok(Some(pod))) => NamedPod::Found(Box::new(pod)),
        Ok(Ok(None)) => NamedPod::Missing,
        Ok(Err(error)) => NamedPod::Unknown(error.to_string()),
        Err(slow) => NamedPod::Unknown(slow.to_string()),
    };
    (name, pod)
}
