//! What docs/behaviour/statefulset.md says and needs no API server.

use serde_json::json;

use super::fixture::{Fleet, claims, gates, in_place, in_place_template, merge, parallel, template};
use super::*;

mod adoption;
mod claim_retention;
mod claim_sizes;
mod deletion;
mod scaling;
mod standstill;
mod updates;
