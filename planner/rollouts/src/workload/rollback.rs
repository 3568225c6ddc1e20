//! Gives a workload its old template back, as a person does who rolls it back.

use api::labels::POD_TEMPLATE_HASH;
use kinds::workload::revision::restored_template;
use pod::revision_labels::short_hash;
use serde_json::Value;

use super::{Workload, WorkloadKind, controller_revisions, revision_hash};
use crate::deployment::{replica_sets, template_of};
use crate::draft::Draft;
use crate::object::Object as _;
use crate::view::{Unread, View};
use crate::write::Write;

/// The write by which a workload gets the template of its stable version; `None` where that is not recorded.
///
/// # Errors
/// What records it has not been read.
pub(crate) fn roll_back(workload: &Workload, view: &View) -> Result<Option<Write>, Unread> {
    let Some(template) = stable_template(workload, view)? else { return Ok(None) };
    let mut draft = Draft::of(&workload.name, &workload.object);
    draft.set(&["spec", "template"], template);
    Ok(draft.into_write())
}

fn stable_template(workload: &Workload, view: &View) -> Result<Option<Value>, Unread> {
    let (object, stable) = (&workload.object, workload.stable_revision.as_str());
    if workload.kind == WorkloadKind::Deployment {
        let is_stable = |set: &&Value| set.label(POD_TEMPLATE_HASH) == Some(stable);
        return Ok(replica_sets(object, view)?.into_iter().find(is_stable).map(template_of));
    }
    let mut revisions = controller_revisions(object, view)?.into_iter();
    let stable = revisions.find(|revision| revision_hash(revision) == short_hash(stable));
    let restored = stable.and_then(|stable| restored_template(&stable.get("data")?.to_string()).ok());
    Ok(restored.and_then(|template| serde_json::from_str(template.get()).ok()))
}
