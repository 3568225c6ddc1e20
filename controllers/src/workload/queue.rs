//! The queue of a controller.

use std::sync::Arc;

use cluster::events::Recorder;
pub(crate) use cluster::queue::{Next, QueueSettings, Reconciler};
use cluster::teller::{Teller, Told};
use tokio::sync::mpsc;

use crate::Context;

/// [`cluster::queue::serve`] in the name of a controller.
pub(crate) async fn serve<R: Reconciler>(
    settings: QueueSettings,
    context: &Context,
    keys: mpsc::UnboundedReceiver<R::Key>,
    reconciler: Arc<R>,
    events: (Teller, mpsc::Receiver<Told>),
) {
    let recorder = Recorder::new(context.client.clone(), settings.name, None);
    cluster::queue::serve(settings, (recorder, &context.metrics.queues), keys, reconciler, events).await;
}
