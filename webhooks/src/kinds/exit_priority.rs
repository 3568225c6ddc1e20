//! The order in which the containers of a Pod end. The decisions are [`pod::exit_priority`].

use pod::exit_priority;
use serde_json::value::RawValue;
use values::verdict::Verdict;

use crate::admission::Admission;
use crate::review::Request;

/// The mutation of a Pod that is created.
pub(crate) fn mutate(admission: &Admission, request: &Request<'_>) -> Verdict {
    exit_priority::mutate(object(request), &admission.flags.exit_priority, &admission.gates)
}

/// The validation of a Pod that is created.
pub(crate) fn validate(admission: &Admission, request: &Request<'_>) -> Verdict {
    exit_priority::validate(object(request), &admission.gates)
}

fn object<'a>(request: &Request<'a>) -> &'a str {
    request.object.map_or("null", RawValue::get)
}
