//! Why work of the agent failed.

use std::time::Duration;

use cluster::queue::Failure;
use cluster::{ApiError, Retry};
use cri::CriError;

/// The first pause after a failure and the longest.
const PAUSES: (Duration, Duration) = (Duration::from_millis(500), Duration::from_secs(50));
/// Those after a question to a container: an image without the program will not get it.
const PAUSES_OF_QUESTIONS: (Duration, Duration) = (Duration::from_secs(3), Duration::from_secs(600));

/// Why work of the agent failed; it is tried again.
#[derive(Debug, thiserror::Error)]
pub(crate) enum AgentError {
    /// The API server refused a request, or can't be reached.
    #[error("{request}: {0}", request = .0.request())]
    Api(#[from] ApiError),
    /// The container runtime refused a call, or can't be reached.
    #[error("the container runtime: {0}")]
    Runtime(#[from] CriError),
    /// The API server's answer is not what it should be.
    #[error("the answer to a write is not understood: {0}")]
    Answer(#[from] serde_json::Error),
    /// The variables of a container can't be read.
    #[error("container {0} does not tell its variables")]
    Silent(String),
}

impl Failure for AgentError {
    fn retry(&self) -> Retry {
        match self {
            Self::Api(error) => error.retry(),
            _ => Retry::WhenHealthy,
        }
    }

    fn pauses(&self) -> (Duration, Duration) {
        match self {
            Self::Silent(_) => PAUSES_OF_QUESTIONS,
            _ => PAUSES,
        }
    }
}
