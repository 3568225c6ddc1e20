//! The update of one Pod in place, as one write.

use jiff::Timestamp;

use super::draft::Draft;
use super::hot;
use super::set::RolloutSet;
use pod::observed::ObservedPod;
use pod::write::PodWrite;

/// The write that gives a Pod the present sidecars.
///
/// # Errors
/// Why an annotation can't be patched.
pub(super) fn upgrade(
    set: &RolloutSet,
    pod: &ObservedPod,
    latest_revision: &str,
    now: Timestamp,
) -> Result<PodWrite, String> {
    let pod = &*pod.whole();
    let mut draft = Draft::new(set, pod, now);
    for sidecar in &set.sidecars {
        match &sidecar.empty_image {
            None => draft.set_image(&sidecar.name, &sidecar.image),
            Some(empty_image) => hot::upgrade(&mut draft, sidecar, empty_image),
        }
    }
    draft.set_hash(latest_revision);
    draft.patch_annotations()?;
    Ok(draft.finish())
}
