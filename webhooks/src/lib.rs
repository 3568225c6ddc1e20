//! Admission: the TLS server, one module per webhook, review in, verdict and JSON Patch out.
//!
//! ```text
//!   server     TCP, TLS, HTTP/2 and HTTP/1.1, limits, graceful drain
//!     `- router     one route per path: body limit, load shedding, deadline, metrics
//!          |- answer     review bytes in, review bytes out; contains panics; usable without HTTP
//!          |    `- kinds      one file per kind: pod, pod_validation, sidecarset, cloneset, protection (deletes, ten kinds)
//!          |         `- admission  gates, index, metrics: what all of them use
//!          |- convert    /convert
//!          `- pull_secrets  what agents of nodes ask for
//!   metrics_access  who may read metrics
//!   tokens     what agents and readers of metrics show
//!   untaken    answers that are not written yet
//!   probes     health, readiness and metrics
//! ```
//!
//! Each module knows only those below it. The webhooks of another custom resource are rows of [`Endpoint`]'s table, which
//! routes and registration come from, and a file in `kinds` with its rules.
//!
//! Invariants:
//! 1. Every review gets an answer with its own `uid`, whatever it holds and whatever breaks inside.
//! 2. A path without rules is not served; nothing is allowed because nobody looked, but where gates switch the
//!    rules off. Webhook paths answer nobody but API servers.
//! 3. What a request may cost is bounded: bytes by the body limit and by one memory for all that are not
//!    finished and all answers that are not written, time by the caller's deadline, number by load shedding. A client that stops half way holds a
//!    part of its own connection until a timeout, and no place among the calls being answered.
//! 4. Who sends nothing, or does not read, loses its connection; idle ones make room where places run out.
//! 5. Nothing waits for the disk: the protection log is written by a thread of its own.

pub mod admission;
pub mod deadline;
pub mod metrics;
pub mod metrics_access;
pub mod pending_answers;
pub mod probes;
pub mod protection_log;
pub mod pull_secrets;
pub mod review;
pub mod router;
pub mod server;

mod answer;
mod body;
mod convert;
mod kinds;
mod leftover;
mod refusals;
mod tokens;

pub use ::admission::endpoint::Endpoint;
pub use admission::{Admission, AdmissionFlags};
pub use deadline::Deadline;
pub use metrics::Metrics;
pub use metrics_access::MetricsAccess;
pub use protection_log::ProtectionLog;
pub use pull_secrets::PullSecrets;
pub use refusals::Refusals;
