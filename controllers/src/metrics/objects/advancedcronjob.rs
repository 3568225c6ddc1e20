//! Metrics of AdvancedCronJobs.

use api::kinds::advancedcronjob::AdvancedCronJob;

use super::samples::{Table, about, created, generation, number, seconds};

pub(crate) static TABLE: Table<AdvancedCronJob> = Table {
    kind: "advancedcronjob",
    about,
    rows: &[
        created("kruise_advancedcronjob_created"),
        generation("kruise_advancedcronjob_metadata_generation"),
        number("kruise_advancedcronjob_status_active", "Runs that are not over.", |job| {
            i64::try_from(job.status.active.len()).ok()
        }),
        number(
            "kruise_advancedcronjob_status_last_schedule_time",
            "The time of the schedule for which the newest run began, in seconds since 1970.",
            |job| seconds(&job.status.last_schedule_time.as_ref()?.0),
        ),
    ],
};
