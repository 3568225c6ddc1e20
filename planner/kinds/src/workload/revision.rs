//! ControllerRevisions: what they record, what they are called, which of them is wanted, and which can go.
//! Workloads record their Pod template in them, SidecarSets their sidecars.
//!
//! ```text
//!   data       what a revision records, its hash and name    template  a Pod template as such data
//!   stored     a revision as the API server has it            step      what to write: create, or patch
//!   history    those of one owner, and those that can go
//! ```

mod data;
mod history;
mod step;
mod stored;
mod template;
#[cfg(test)]
mod tests;

pub use data::RevisionData;
pub(crate) use history::{HISTORY_LIMIT, unused};
pub use history::{Limit, current, history, obsolete, sorted};
pub use step::{Choice, NewRevision, RevisionStep, Wanted, choose};
pub use stored::{Author, StoredRevision, restored_template};
pub use template::{claims_hash, template_labels};
