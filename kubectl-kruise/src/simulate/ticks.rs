//! `kutter simulate` of an AdvancedCronJob: the ticks that would be run between two moments.

use std::io::Write;
use std::process::ExitCode;

use anyhow::{Context, anyhow, bail};
use api::features::FeatureGates;
use api::kinds::advancedcronjob::AdvancedCronJob;
use informers::files::Object;
use jiff::Timestamp;
use jiff::tz::TimeZone;
use kinds::advancedcronjob::schedule_of;
use kinds::advancedcronjob::validation::{self, review};

/// More ticks than this are not printed.
const MOST: usize = 1_000;

/// Prints the ticks after `from` and no later than `until`. Ticks at a distance are counted from `from`.
pub(super) fn run(object: &Object, from: Timestamp, until: Timestamp) -> anyhow::Result<ExitCode> {
    let gates = FeatureGates::default();
    let context = validation::Context { gates: &gates, allow_privileged: true };
    if let Some(denial) = review(&object.json, None, &context).denial() {
        bail!("{}: {}", object.source, denial.message);
    }
    let cron_job: AdvancedCronJob =
        serde_json::from_str(&object.json).with_context(|| object.source.clone())?;
    let (schedule, _) = schedule_of(&cron_job.spec, &TimeZone::UTC).map_err(|error| anyhow!(error))?;
    let mut output = std::io::stdout().lock();
    let ticks = std::iter::successors(Some(from), |tick| schedule.next(from, *tick));
    for (count, tick) in ticks.skip(1).take_while(|tick| *tick <= until).enumerate() {
        if count == MOST {
            writeln!(output, "and so on")?;
            break;
        }
        writeln!(output, "{tick}  {}-{}", cron_job.metadata.name, tick.as_second())?;
    }
    Ok(ExitCode::SUCCESS)
}
