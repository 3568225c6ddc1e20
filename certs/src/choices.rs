//! What users choose about the webhook entries: taken in before each publication, and answered by Events.

use admission::registration::Choices;
use cluster::events::Severity;
use tracing::{info, warn};

use crate::objects;
use crate::publisher::{Configurations, PassError, Publisher};

impl Publisher {
    /// Takes in what users choose. After a restart beside a text that can't be used, what is published
    /// says what was in effect.
    pub(crate) async fn settle_choices(&mut self, configurations: &Configurations) -> Result<(), PassError> {
        let namespace = &self.settings.registration.namespace;
        let present = self.objects.choices(namespace).await?;
        let published =
            || configurations.iter().find_map(|(_, configuration)| configuration.as_ref()?.choices());
        let last = self.memory.choices.clone().or_else(published).unwrap_or_default();
        let present = present.as_ref().map(Option::as_deref).map_err(Clone::clone);
        let (choices, refusal) = Choices::settle(present, &last);
        if choices != last {
            info!("the webhook settings have changed");
            let note = "the webhook settings are in effect".to_owned();
            let about = objects::choices_reference(namespace);
            self.recorder.record(&about, Severity::Normal, "Apply", "WebhookSettingsApplied", note).await;
        }
        if let Some(refusal) =
            refusal.as_ref().filter(|refusal| self.memory.refusal.as_ref() != Some(refusal))
        {
            warn!(refusal, "the webhook settings can't be used and change nothing");
            let about = objects::choices_reference(namespace);
            let note = format!("nothing has changed: {refusal}");
            self.recorder.record(&about, Severity::Warning, "Apply", "WebhookSettingsRefused", note).await;
        }
        self.settings.registration.choices = choices.clone();
        (self.memory.choices, self.memory.refusal) = (Some(choices), refusal);
        Ok(())
    }
}
