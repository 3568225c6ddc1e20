//! Pod templates of workloads and of their revisions, read so that an update in place can compare them.

use crate::workload::revision::{Author, RevisionData, StoredRevision};
use pod::inplace::Template;
use values::canonical::CanonicalError;

/// The template of a workload.
///
/// # Errors
/// The path and the problem, where a field does not decode into its Go type.
pub fn of_workload(template: &str) -> Result<Template, CanonicalError> {
    compared(&RevisionData::of_template(template)?, Author::Kutter)
}

/// The template that a revision recorded.
///
/// # Errors
/// Where the data is not a patch of a template.
pub fn of_revision(revision: &StoredRevision) -> Result<Template, CanonicalError> {
    compared(&RevisionData::of_data(revision.data.get())?, revision.author())
}

fn compared(revision: &RevisionData, author: Author) -> Result<Template, CanonicalError> {
    let whole = match author {
        Author::Kutter => Some(revision.data()),
        Author::OpenKruise => None,
    };
    Ok(Template::of_data(whole, revision.projection())?)
}
