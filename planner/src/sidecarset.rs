//! SidecarSets: what they add to a Pod, and what they may say (specs 10 and 20).

pub mod calculator;
pub mod defaulting;
pub mod index;
pub mod injection;
pub mod validation;
