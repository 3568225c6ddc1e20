//! Which changes start a reconcile (docs/behaviour/advancedcronjob.md#what-starts-a-reconcile).

use api::kinds::advancedcronjob::AdvancedCronJob;

use super::children::Child;

/// Whether an AdvancedCronJob that has changed is to be reconciled: it is new, is gone, or says something else.
pub fn of_cron_job(old: Option<&AdvancedCronJob>, new: Option<&AdvancedCronJob>) -> bool {
    let said = |cron_job: &AdvancedCronJob| {
        let metadata = &cron_job.metadata;
        (metadata.uid.clone(), metadata.generation, metadata.deletion_timestamp.is_some())
    };
    old.map(said) != new.map(said)
}

/// Namespace and name of the AdvancedCronJobs of a child that has changed; none where only numbers of it have.
pub fn of_child(old: Option<&Child>, new: Option<&Child>) -> Vec<(String, String)> {
    let said = |child: &Child| {
        (
            child.uid.clone(),
            child.owner.clone(),
            child.scheduled_at,
            child.progress,
            child.deleting,
            child.started,
        )
    };
    if old.map(said) == new.map(said) {
        return Vec::new();
    }
    let states = old.into_iter().chain(new);
    states.map(|child| (child.namespace.to_string(), child.owner.0.to_string())).collect()
}
