//! placeholder
use crate::admission::Admission;
use crate::review::Request;
use planner::verdict::Verdict;
pub(crate) fn mutate(_: &Admission, _: &Request<'_>) -> Verdict {
    Verdict::deny(500, "not yet")
}
pub(crate) fn validate(_: &Admission, _: &Request<'_>) -> Verdict {
    Verdict::deny(500, "not yet")
}
