//! NodeImage: which images a node should pull, and how far each is (docs/behaviour/images.md#nodeimage).
//!
//! ```text
//!   defaulting, validation   what a NodeImage may say
//!   plan                     which Nodes have a NodeImage, which tasks leave it, which are given up
//! ```

pub mod defaulting;
pub mod plan;
pub mod validation;
