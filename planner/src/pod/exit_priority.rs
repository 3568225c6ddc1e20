//! Container exit priority: in which order the containers of a Pod end (docs/behaviour/exit-priority.md).

pub mod plan;
