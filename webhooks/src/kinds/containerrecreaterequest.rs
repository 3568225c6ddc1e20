//! The ContainerRecreateRequest's own webhook, which completes and validates it at once.

use api::features::Feature;
use informers::LookupError;
use kinds::containerrecreaterequest::admission::{Request, update};
use values::json_patch::Patch;
use values::verdict::{Denial, Verdict};

use super::resource::Write;

pub(super) async fn admit(write: &Write<'_>) -> Verdict {
    if let Some(answer) = write.without_gate(&[Feature::KruiseDaemon]) {
        return answer;
    }
    match write.old {
        Some(old) => update(write.object, old, write.version),
        None => complete(write).await.map_or_else(Verdict::from, Verdict::edit),
    }
}

/// Takes over what the request needs of its Pod and its Node.
async fn complete(write: &Write<'_>) -> Result<Patch, Denial> {
    let request = Request::read(write.object)?;
    let name = request.pod_name();
    let pod = read(write, write.namespace, ("Pod", name)).await;
    let pod = pod.map_err(|error| failed(format!("failed to find Pod {name}: {error}")))?;
    let bound = request.bind(pod.as_deref())?;
    let name = bound.node();
    let node = read(write, "", ("Node", name)).await;
    let node = node.map_err(|error| failed(format!("failed to get Node {name}: {error}")))?;
    bound.complete(node.as_deref())
}

fn failed(message: String) -> Denial {
    Denial { code: 500, message }
}

async fn read(
    write: &Write<'_>,
    namespace: &str,
    (kind, name): (&str, &str),
) -> Result<Option<String>, LookupError> {
    let lookup = write.admission.lookup.object(namespace, ("v1", kind, name));
    let answer = write.deadline.within("reading what the request is about", lookup).await;
    answer.unwrap_or_else(|slow| Err(LookupError::new(slow.to_string())))
}
