//! What is known of the containers that are probed. Probes that run in the same moment share one question to the
//! runtime, and each container is asked only once when it was started.

use std::collections::HashMap;

use agent::container::{RuntimeContainer, newest};
use cri::{CriError, Runtime};
use jiff::Timestamp;
use tokio::sync::{mpsc, oneshot};

use crate::containers::{learn_start, of_pod, read};

/// So many questions may wait.
const WAITING: usize = 256;
/// So many starts are remembered. Those of containers that are gone are among them.
const REMEMBERED: usize = 1024;
/// The label in which the kubelet names the Pod of a container.
const POD_UID: &str = "io.kubernetes.pod.uid";

/// Where workers ask. Cheap to clone.
#[derive(Clone)]
pub(super) struct Looks(mpsc::Sender<Question>);

/// A question for the newest container of this name in a Pod.
pub(super) struct Question {
    uid: String,
    container: String,
    answer: oneshot::Sender<Answer>,
}

type Answer = Result<Option<RuntimeContainer>, CriError>;

/// Where workers ask, and where the questions come out.
pub(super) fn looks() -> (Looks, mpsc::Receiver<Question>) {
    let (ask, questions) = mpsc::channel(WAITING);
    (Looks(ask), questions)
}

impl Looks {
    /// The newest container of this name, with its start; `None` where there is none.
    pub(super) async fn at(&self, uid: &str, container: &str) -> Answer {
        let (answer, answered) = oneshot::channel();
        let question = Question { uid: uid.to_owned(), container: container.to_owned(), answer };
        drop(self.0.send(question).await);
        answered.await.unwrap_or(Ok(None))
    }
}

/// Answers questions until nobody asks any more. What is asked while the runtime answers is asked of it together.
pub(super) async fn answer(runtime: Runtime, mut questions: mpsc::Receiver<Question>) {
    let (mut asked, mut starts) = (Vec::new(), HashMap::new());
    while questions.recv_many(&mut asked, WAITING).await > 0 {
        let pods = list(&runtime, &asked).await;
        for Question { uid, container, answer } in asked.drain(..) {
            let found = match &pods {
                Ok(pods) => {
                    let found = pods.get(&uid).and_then(|containers| newest(containers, &container));
                    with_start(&runtime, &mut starts, found).await
                }
                Err(error) => Err(error.clone()),
            };
            // Who asked may have been stopped.
            drop(answer.send(found));
        }
    }
}

/// The containers of the Pods that were asked for.
async fn list(
    runtime: &Runtime,
    asked: &[Question],
) -> Result<HashMap<String, Vec<RuntimeContainer>>, CriError> {
    let mut pods: HashMap<String, Vec<RuntimeContainer>> =
        asked.iter().map(|question| (question.uid.clone(), Vec::new())).collect();
    if let ([first, ..], 1) = (asked, pods.len()) {
        return Ok([(first.uid.clone(), of_pod(runtime, &first.uid).await?)].into());
    }
    for container in runtime.containers().await? {
        if let Some(known) = container.labels.get(POD_UID).and_then(|uid| pods.get_mut(uid)) {
            known.push(read(container));
        }
    }
    Ok(pods)
}

async fn with_start(
    runtime: &Runtime,
    starts: &mut HashMap<String, Timestamp>,
    found: Option<&RuntimeContainer>,
) -> Answer {
    let Some(mut found) = found.cloned() else { return Ok(None) };
    found.started = starts.get(&found.id).copied();
    if found.started.is_none() {
        learn_start(runtime, &mut found).await?;
        if starts.len() >= REMEMBERED {
            starts.clear();
        }
        // One that was not started yet will be.
        starts.extend(found.started.map(|started| (found.id.clone(), started)));
    }
    Ok(Some(found))
}
