//! Why a call failed.

use std::path::PathBuf;
use std::time::Duration;

use thiserror::Error;
use tonic::{Code, Status};

/// Why a call to the container runtime failed.
#[derive(Clone, Debug, Error, PartialEq, Eq)]
pub enum CriError {
    /// The path can't be one of a socket.
    #[error("{0} is no path of a socket")]
    Path(PathBuf),
    /// Nobody answers at the socket: the runtime is down or starts.
    #[error("the container runtime does not answer: {0}")]
    Unreachable(String),
    /// The runtime did not answer in time.
    #[error("{method} was not answered within {limit:?}")]
    Late {
        /// The call.
        method: &'static str,
        /// The time that it had.
        limit: Duration,
    },
    /// The runtime answered with an error.
    #[error("{message}")]
    Refused {
        /// The code of gRPC.
        code: Code,
        /// What the runtime says.
        message: String,
    },
    /// What answers is not a runtime that can be used.
    #[error("the runtime does not say {0}")]
    Nameless(&'static str),
}

impl CriError {
    /// Whether the call is worth repeating as soon as the runtime is back.
    pub fn is_unreachable(&self) -> bool {
        matches!(self, Self::Unreachable(_))
    }

    /// Whether there was no answer, or no end of a command, in its time.
    pub fn is_late(&self) -> bool {
        matches!(self, Self::Late { .. } | Self::Refused { code: Code::DeadlineExceeded, .. })
    }

    /// Whether the registry wants to know who asks, or does not believe it. Runtimes report it in words only.
    pub fn is_authentication(&self) -> bool {
        const WORDS: [&str; 5] =
            ["401", "403", "unauthorized", "authentication required", "authorization failed"];
        let Self::Refused { code, message } = self else { return false };
        let message = message.to_lowercase();
        matches!(code, Code::Unauthenticated | Code::PermissionDenied)
            || WORDS.iter().any(|word| message.contains(word))
    }

    /// The word for metrics.
    pub(crate) fn code(&self) -> String {
        match self {
            Self::Path(_) | Self::Unreachable(_) => "Unreachable".to_owned(),
            Self::Late { .. } => "Late".to_owned(),
            Self::Refused { code, .. } => format!("{code:?}"),
            Self::Nameless(_) => "Nameless".to_owned(),
        }
    }
}

impl From<Status> for CriError {
    fn from(status: Status) -> Self {
        let mut cause = std::error::Error::source(&status);
        while let Some(error) = cause {
            if error.is::<tonic::transport::Error>() {
                return Self::Unreachable(error.to_string());
            }
            cause = error.source();
        }
        match status.code() {
            Code::Unavailable => Self::Unreachable(status.message().to_owned()),
            code => Self::Refused { code, message: status.message().to_owned() },
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_runtime_that_is_away_and_a_registry_that_wants_a_name_are_distinguished() {
        let error = |code, message: &str| CriError::from(Status::new(code, message));
        assert!(error(Code::Unavailable, "connection refused").is_unreachable());
        assert!(!error(Code::Unknown, "no such host").is_unreachable());
        assert!(error(Code::Unknown, "pull access denied: 401 Unauthorized").is_authentication());
        assert!(!error(Code::NotFound, "not found").is_authentication());
    }
}
