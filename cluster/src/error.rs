//! Why a request to the API server failed, classified once for all who ask.
//!
//! | answer | [`ErrorReason`] | [`Retry`] |
//! |---|---|---|
//! | 404 | `NotFound` | now |
//! | 409 `AlreadyExists` | `AlreadyExists` | now |
//! | 409 otherwise | `Conflict` | now |
//! | 403 with the cause `NamespaceTerminating` | `NamespaceTerminating` | never |
//! | 401, 408, 429 | `Unavailable` | when the API server is well |
//! | other 4xx, a kind that is not served | `Refused` | later |
//! | 500 | `Failed` | later |
//! | other 5xx, none | `Unanswered` | when the API server is well |

use std::fmt;

use kube::core::Status;
use kube::core::response::StatusCause;
use thiserror::Error;

/// The cause that the API server names where a namespace is being deleted.
const NAMESPACE_TERMINATING: &str = "NamespaceTerminating";

/// A request that failed. It prints what the API server said; [`ApiError::request`] says what it was asked.
#[derive(Debug, Error)]
#[error("{}", crate::client::message(.source))]
pub struct ApiError {
    reason: ErrorReason,
    request: Box<str>,
    invalid: Box<[StatusCause]>,
    source: Box<kube::Error>,
}

/// What is wrong with a request.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ErrorReason {
    /// There is no such object, or none at such a path.
    NotFound,
    /// Another object has this name.
    AlreadyExists,
    /// The object is in another state than the request names, or is changed by others at the same time, such
    /// as a quota that two requests use at once.
    Conflict,
    /// The namespace is being deleted: nothing can be created in it any more.
    NamespaceTerminating,
    /// A rule or a webhook refuses this request, or there is no such kind, and will do so again.
    Refused,
    /// The API server takes no requests of ours now.
    Unavailable,
    /// The API server, or a webhook that it asked, failed at this request.
    Failed,
    /// No answer came, or one that only says that none came.
    Unanswered,
}

/// When the work that needed the request is to be tried again.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Retry {
    /// At once, or when a watch reports it, on the state that the object has by then.
    Now,
    /// After a while, longer each time. The trouble is that of this request; other requests continue.
    Later,
    /// After a while, and other requests wait too: they have the same trouble.
    WhenHealthy,
    /// Not at all.
    Never,
}

impl ApiError {
    pub(crate) fn new(request: impl Into<Box<str>>, mut source: kube::Error) -> Self {
        let (reason, message) = (ErrorReason::of(&source), crate::client::message(&source));
        let mut invalid = Vec::new();
        // Who prints the chain of errors prints the status. Its details repeat the message as it came.
        if let kube::Error::Api(status) = &mut source {
            status.message = message;
            let details = status.details.take().filter(|_| status.code == 422);
            let causes = details.into_iter().flat_map(|details| details.causes);
            invalid.extend(causes.filter(|cause| !cause.field.is_empty()));
        }
        Self { reason, request: request.into(), invalid: invalid.into(), source: Box::new(source) }
    }

    /// The answer to a request for what can be no name. It is that to a name which nothing has.
    pub(crate) fn no_such_name(method: &http::Method) -> Self {
        let status = Status::failure("nothing can have such a name", "NotFound").with_code(404);
        Self::new(method.as_str(), kube::Error::Api(status.boxed()))
    }

    /// What is wrong.
    pub fn reason(&self) -> ErrorReason {
        self.reason
    }

    /// When to try again.
    pub fn retry(&self) -> Retry {
        self.reason.retry()
    }

    /// What the API server was asked for, by method and path.
    pub fn request(&self) -> &str {
        &self.request
    }

    /// The fields that the rules of the API server refuse: the path of each, and what is wrong with it.
    pub fn invalid_fields(&self) -> impl Iterator<Item = (&str, &str)> {
        self.invalid.iter().map(|cause| (&*cause.field, &*cause.message))
    }

    /// Whether the request may have been carried out all the same.
    pub fn may_have_acted(&self) -> bool {
        matches!(self.reason, ErrorReason::Failed | ErrorReason::Unanswered)
    }

    /// Whether another object has the name, or the object is in another state than the request names.
    pub fn is_conflict(&self) -> bool {
        matches!(self.reason, ErrorReason::AlreadyExists | ErrorReason::Conflict)
    }

    /// Whether the request can't be carried out on the object as it is: a value is none that a patch tests for, or a rule
    /// refuses what would come of it.
    pub fn is_unprocessable(&self) -> bool {
        matches!(&*self.source, kube::Error::Api(status) if status.code == 422)
    }

    /// Whether the API server says that it knows who asks, and does not allow it.
    pub fn is_forbidden(&self) -> bool {
        matches!(&*self.source, kube::Error::Api(status) if status.code == 403)
    }

    /// Whether some webhook can't be asked without effect, so that nothing can be tried out.
    pub fn lacks_dry_run(&self) -> bool {
        matches!(&*self.source, kube::Error::Api(status) if status.message.contains("does not support dry run"))
    }
}

impl From<kube::Error> for ApiError {
    fn from(source: kube::Error) -> Self {
        Self::new("", source)
    }
}

impl ErrorReason {
    fn of(error: &kube::Error) -> Self {
        let status = match error {
            kube::Error::Api(status) => status,
            kube::Error::Discovery(_) => return Self::Refused,
            _ => return Self::Unanswered,
        };
        match status.code {
            404 => Self::NotFound,
            409 if status.reason == "AlreadyExists" => Self::AlreadyExists,
            409 => Self::Conflict,
            403 if names_terminating_namespace(status) => Self::NamespaceTerminating,
            401 | 408 | 429 => Self::Unavailable,
            500 => Self::Failed,
            code if code > 500 => Self::Unanswered,
            _ => Self::Refused,
        }
    }

    /// When to try again.
    pub fn retry(self) -> Retry {
        match self {
            Self::NotFound | Self::AlreadyExists | Self::Conflict => Retry::Now,
            Self::Refused | Self::Failed => Retry::Later,
            Self::Unavailable | Self::Unanswered => Retry::WhenHealthy,
            Self::NamespaceTerminating => Retry::Never,
        }
    }
}

impl fmt::Display for ErrorReason {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        fmt::Debug::fmt(self, formatter)
    }
}

fn names_terminating_namespace(status: &Status) -> bool {
    let mut causes = status.details.iter().flat_map(|details| &details.causes);
    causes.any(|cause| cause.reason == NAMESPACE_TERMINATING)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn answer(code: u16, reason: &str, cause: &str) -> ApiError {
        let status = serde_json::json!({
            "status": "Failure", "message": "no", "reason": reason, "code": code,
            "details": {"causes": [{"reason": cause, "message": "no", "field": "metadata.namespace"}]},
        });
        kube::Error::Api(Box::new(serde_json::from_value(status).unwrap())).into()
    }

    #[test]
    fn no_error_tells_how_webhooks_are_called() {
        let segment = "0123456789abcdef0123456789abcdef";
        let url =
            |segment: &str| format!("Post \"https://a.b.svc:443{segment}/mutate-pod?timeout=10s\": EOF");
        let message = url(&format!("/{segment}"));
        let status = serde_json::json!({
            "status": "Failure", "message": message, "reason": "InternalError", "code": 500,
            "details": {"causes": [{"message": message}]},
        });
        let status: Box<Status> = Box::new(serde_json::from_value(status).unwrap());
        let error = ApiError::from(kube::Error::Api(status));
        assert_eq!(error.to_string(), url(""));
        assert!(!format!("{error:?} {}", error.source).contains(segment), "{error:?}");
    }

    #[test]
    fn invalid_fields_are_those_of_rules_alone() {
        let fields = |code, cause| answer(code, "Invalid", cause).invalid_fields().count();
        let refused = answer(422, "Invalid", "FieldValueInvalid");
        assert_eq!(refused.invalid_fields().collect::<Vec<_>>(), [("metadata.namespace", "no")]);
        assert_eq!(fields(403, "NamespaceTerminating"), 0);
        // A policy names no field.
        let status = serde_json::json!({"message": "no", "reason": "Invalid", "code": 422, "details": {"causes": [{"message": "no"}]}});
        let error: ApiError = kube::Error::Api(Box::new(serde_json::from_value(status).unwrap())).into();
        assert_eq!(error.invalid_fields().count(), 0);
    }

    #[test]
    fn answers_are_distinguished() {
        for (code, reason, cause, expected, retry, may_have_acted) in [
            (404, "NotFound", "", ErrorReason::NotFound, Retry::Now, false),
            (409, "AlreadyExists", "", ErrorReason::AlreadyExists, Retry::Now, false),
            (409, "Conflict", "", ErrorReason::Conflict, Retry::Now, false),
            (
                403,
                "Forbidden",
                "NamespaceTerminating",
                ErrorReason::NamespaceTerminating,
                Retry::Never,
                false,
            ),
            (403, "Forbidden", "", ErrorReason::Refused, Retry::Later, false),
            (422, "Invalid", "FieldValueInvalid", ErrorReason::Refused, Retry::Later, false),
            (401, "Unauthorized", "", ErrorReason::Unavailable, Retry::WhenHealthy, false),
            (429, "TooManyRequests", "", ErrorReason::Unavailable, Retry::WhenHealthy, false),
            (500, "InternalError", "", ErrorReason::Failed, Retry::Later, true),
            (503, "ServiceUnavailable", "", ErrorReason::Unanswered, Retry::WhenHealthy, true),
        ] {
            let error = answer(code, reason, cause);
            let found = (error.reason(), error.retry(), error.may_have_acted());
            assert_eq!(found, (expected, retry, may_have_acted), "{code} {reason} {cause}");
            assert_eq!(error.to_string(), "no");
        }
        let silence = ApiError::new("PATCH /a", kube::Error::Service("cut off".into()));
        assert_eq!((silence.reason(), silence.request()), (ErrorReason::Unanswered, "PATCH /a"));
    }
}
