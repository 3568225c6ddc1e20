//! Liveness probes that the node daemon runs instead of the kubelet
//! (docs/behaviour/pod-mutation.md#enhanced-liveness-probe): they move from the containers, injected ones
//! too, into an annotation.

use api::annotations::{CONTAINER_PROBE_CONTEXT, USING_ENHANCED_LIVENESS};
use api::features::Feature;
use serde::Deserialize;
use serde_json::value::RawValue;

use crate::review::lens::{Object, Text, text_or_empty};
use crate::review::{Draft, ReviewContext};
use values::canonical::{Kind, Unknown, canonical_json, table};
use values::json_patch::{Pointer, write_string};
use values::verdict::{Denial, refused};

/// A container, or an entry of the annotation: both have these members.
#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
struct Probed<'a> {
    #[serde(borrow)]
    name: Option<Text<'a>>,
    #[serde(borrow)]
    liveness_probe: Option<&'a RawValue>,
}

#[derive(Deserialize)]
struct Pod<'a> {
    #[serde(borrow)]
    spec: Option<Object<Spec<'a>>>,
}

#[derive(Deserialize)]
struct Spec<'a> {
    #[serde(borrow)]
    containers: Option<Vec<Object<Probed<'a>>>>,
}

/// Moves the probes of Pods that ask for it. Only those pay for reading their containers a second time.
pub fn mutate(draft: &mut Draft<'_>, context: &ReviewContext<'_>) -> Result<(), Denial> {
    if !context.gates.enabled(Feature::EnhancedLivenessProbe)
        || !draft.is_of_kruise_workload()
        || draft.annotation(USING_ENHANCED_LIVENESS) != Some("true")
    {
        return Ok(());
    }
    let pod = draft.current().map_err(|error| Denial::failed(format!("enhanced liveness probe: {error}")))?;
    let malformed = |error: serde_json::Error| refused(format!("spec.containers: {error}"));
    let Object(pod) = serde_json::from_str::<Object<Pod<'_>>>(&pod).map_err(malformed)?;
    let containers = pod.spec.and_then(|spec| spec.0.containers).unwrap_or_default();
    if containers.iter().all(|container| container.0.liveness_probe.is_none()) {
        return Ok(());
    }
    // A review before this one has moved the probes of the Pod's own containers already; an injected one
    // is injected again, and its probe with it.
    let moved = draft.annotation(CONTAINER_PROBE_CONTEXT).and_then(|list| serde_json::from_str(list).ok());
    let moved: Vec<Object<Probed<'_>>> = moved.unwrap_or_default();
    let (mut list, mut places) = (String::from("["), Vec::new());
    for (index, Object(container)) in containers.into_iter().enumerate() {
        let name = text_or_empty(container.name);
        if let Some(probe) = container.liveness_probe {
            let probe = canonical_json(probe.get(), &Kind::Struct(&table::PROBE), Unknown::Keep)
                .map_err(|error| refused(format!("livenessProbe of container {name}: {error}")))?;
            push(&mut list, &name, &probe);
            places.push(index);
            continue;
        }
        let earlier =
            moved.iter().find(|Object(entry)| entry.name.as_ref().is_some_and(|text| text.0 == name));
        if let Some(probe) = earlier.and_then(|Object(entry)| entry.liveness_probe) {
            push(&mut list, &name, probe.get());
        }
    }
    list.push(']');
    let path = Pointer::from_escaped("/spec/containers");
    for index in places {
        draft.remove(path.index(index).key("livenessProbe"));
    }
    draft.set_annotation(CONTAINER_PROBE_CONTEXT, list);
    Ok(())
}

fn push(list: &mut String, name: &str, probe: &str) {
    if list.len() > 1 {
        list.push(',');
    }
    list.push_str("{\"name\":");
    write_string(list, name);
    list.push_str(",\"livenessProbe\":");
    list.push_str(probe);
    list.push('}');
}
