//! Tests of the plan, by subject.

mod placing;
mod updating;
