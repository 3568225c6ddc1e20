use jiff::tz::TimeZone;
use proptest::prelude::*;

use super::*;

fn named(name: &str) -> TimeZone {
    zone(name).unwrap()
}

fn parse(text: &str, zone: &TimeZone) -> Result<Schedule, ScheduleError> {
    Schedule::parse(text, zone, &named("Asia/Tokyo"))
}

fn error(text: &str) -> String {
    parse(text, &TimeZone::UTC).map_or_else(|error| error.to_string(), |schedule| format!("{schedule:?}"))
}

/// The first ticks after a moment.
fn ticks(text: &str, zone: &str, after: &str, count: usize) -> Vec<String> {
    let schedule = parse(text, &named(zone)).unwrap();
    let after: Timestamp = after.parse().unwrap();
    let all = std::iter::successors(Some(after), |tick| schedule.next(after, *tick));
    all.skip(1).take(count).map(|tick| tick.to_string()).collect()
}

#[test]
fn ticks_are_those_of_the_clock_on_the_wall() {
    const BERLIN: &str = "Europe/Berlin";
    const NEW_YORK: &str = "America/New_York";
    for (schedule, zone, after, expected) in [
        ("*/15 * * * *", "", "2026-03-02T10:04:59.5Z", &["2026-03-02T10:15:00Z", "2026-03-02T10:30:00Z"][..]),
        // Strictly after.
        ("0 10 * * *", "", "2026-03-02T10:00:00Z", &["2026-03-03T10:00:00Z"]),
        ("0 10 * * *", "", "2026-03-02T09:59:59.999Z", &["2026-03-02T10:00:00Z"]),
        ("0 10 * * ?", "Asia/Shanghai", "2026-03-02T00:00:00Z", &["2026-03-02T02:00:00Z"]),
        ("TZ=Asia/Shanghai 0 10 * * ?", "", "2026-03-02T00:00:00Z", &["2026-03-02T02:00:00Z"]),
        ("CRON_TZ=Asia/Shanghai   0 10 * * ?", BERLIN, "2026-03-02T00:00:00Z", &["2026-03-02T02:00:00Z"]),
        ("TZ= 0 10 * * *", BERLIN, "2026-03-02T00:00:00Z", &["2026-03-02T10:00:00Z"]),
        ("TZ=Local 0 10 * * *", BERLIN, "2026-03-02T00:00:00Z", &["2026-03-02T01:00:00Z"]),
        // In spring half past two does not exist in Berlin on one day.
        ("30 2 * * *", BERLIN, "2026-03-28T00:00:00Z", &["2026-03-28T01:30:00Z", "2026-03-30T00:30:00Z"]),
        ("0 * * * *", BERLIN, "2026-03-28T23:30:00Z", &["2026-03-29T00:00:00Z", "2026-03-29T01:00:00Z"]),
        ("0 3 * * *", BERLIN, "2026-03-28T12:00:00Z", &["2026-03-29T01:00:00Z"]),
        // In autumn it comes twice.
        (
            "30 2 * * *",
            BERLIN,
            "2026-10-24T12:00:00Z",
            &["2026-10-25T00:30:00Z", "2026-10-25T01:30:00Z", "2026-10-26T01:30:00Z"],
        ),
        ("30 2 * * *", NEW_YORK, "2026-03-07T12:00:00Z", &["2026-03-09T06:30:00Z"]),
        (
            "30 1 1 11 *",
            NEW_YORK,
            "2026-01-01T00:00:00Z",
            &["2026-11-01T05:30:00Z", "2026-11-01T06:30:00Z", "2027-11-01T05:30:00Z"],
        ),
        // Midnight does not exist in Santiago when summer begins.
        ("0 0 * * *", "America/Santiago", "2026-09-05T05:00:00Z", &["2026-09-07T03:00:00Z"]),
        // Lord Howe turns its clocks by half an hour.
        ("15 2 * * *", "Australia/Lord_Howe", "2026-10-03T00:00:00Z", &["2026-10-04T15:15:00Z"]),
        ("0 0 31 * *", "", "2026-03-31T00:00:00Z", &["2026-05-31T00:00:00Z", "2026-07-31T00:00:00Z"]),
        ("0 0 29 2 *", "", "2026-01-01T00:00:00Z", &["2028-02-29T00:00:00Z", "2032-02-29T00:00:00Z"]),
        ("0 0 29 2 *", "", "2096-03-01T00:00:00Z", &[]),
        ("0 0 30 2 *", "", "2026-01-01T00:00:00Z", &[]),
        (", * * * *", "", "2026-01-01T00:00:00Z", &[]),
        ("59 23 31 12 *", "", "2026-12-31T23:59:00Z", &["2027-12-31T23:59:00Z"]),
        // The 13th, and Fridays.
        (
            "0 0 13 * 5",
            "",
            "2026-03-01T00:00:00Z",
            &["2026-03-06T00:00:00Z", "2026-03-13T00:00:00Z", "2026-03-20T00:00:00Z", "2026-03-27T00:00:00Z"],
        ),
        ("0 0 13 * 5", "", "2026-04-10T00:00:00Z", &["2026-04-13T00:00:00Z", "2026-04-17T00:00:00Z"]),
        // Half a star is no star: the odd days, and Fridays.
        ("0 0 */2 * 5", "", "2026-03-03T00:00:00Z", &["2026-03-05T00:00:00Z", "2026-03-06T00:00:00Z"]),
        ("0 0 * * 5", "", "2026-03-01T00:00:00Z", &["2026-03-06T00:00:00Z", "2026-03-13T00:00:00Z"]),
        ("0 0 */1 * 5", "", "2026-03-01T00:00:00Z", &["2026-03-06T00:00:00Z", "2026-03-13T00:00:00Z"]),
        ("0 0 13 * ?", "", "2026-03-01T00:00:00Z", &["2026-03-13T00:00:00Z", "2026-04-13T00:00:00Z"]),
        ("5/20 8-10/2 * JAN,dec Sun", "", "2026-01-02T00:00:00Z", &["2026-01-04T08:05:00Z"]),
        ("+05,,007 * * * *", "", "2026-01-01T00:00:00Z", &["2026-01-01T00:05:00Z", "2026-01-01T00:07:00Z"]),
        ("*-5 0 1 1 *", "", "2026-01-01T00:00:00Z", &["2026-01-01T00:01:00Z"]),
        ("@yearly", "", "2026-01-01T00:00:00Z", &["2027-01-01T00:00:00Z"]),
        ("@annually", BERLIN, "2026-01-01T00:00:00Z", &["2026-12-31T23:00:00Z"]),
        ("@monthly", "", "2026-01-31T00:00:00Z", &["2026-02-01T00:00:00Z"]),
        ("@weekly", "", "2026-03-02T00:00:00Z", &["2026-03-08T00:00:00Z"]),
        ("@daily", "", "2026-03-02T00:00:00Z", &["2026-03-03T00:00:00Z"]),
        ("TZ=Europe/Berlin @midnight", "", "2026-03-02T00:00:00Z", &["2026-03-02T23:00:00Z"]),
        ("@hourly", "", "2026-03-02T00:00:00Z", &["2026-03-02T01:00:00Z"]),
        ("@every 90s", BERLIN, "2026-03-02T00:00:07.9Z", &["2026-03-02T00:01:37Z", "2026-03-02T00:03:07Z"]),
        ("@every 1h30m", "", "2026-03-02T00:00:00Z", &["2026-03-02T01:30:00Z", "2026-03-02T03:00:00Z"]),
        ("@every 1.9s", "", "2026-03-02T00:00:00Z", &["2026-03-02T00:00:01Z"]),
        ("@every -5m", "", "2026-03-02T00:00:00Z", &["2026-03-02T00:00:01Z"]),
    ] {
        let found = ticks(schedule, zone, after, expected.len().max(1));
        assert_eq!(found, expected, "{schedule} in {zone:?} after {after}");
    }
}

#[test]
fn what_is_no_schedule_has_the_words_of_the_language() {
    for (text, expected) in [
        ("", "empty spec string"),
        ("invalid-cron", "expected exactly 5 fields, found 1: [invalid-cron]"),
        ("0  0 * *", "expected exactly 5 fields, found 4: [0 0 * *]"),
        ("0 0 * * * *", "expected exactly 5 fields, found 6: [0 0 * * * *]"),
        ("TZ=UTC ", "expected exactly 5 fields, found 0: []"),
        ("TZ=UTC", r#"invalid cron schedule: there is nothing behind the zone of "TZ=UTC""#),
        ("CRON_TZ=UTC", r#"invalid cron schedule: there is nothing behind the zone of "CRON_TZ=UTC""#),
        ("TZ=Mars/Phobos * * * * *", "provided bad location Mars/Phobos: unknown time zone Mars/Phobos"),
        ("TZ=../UTC * * * * *", "provided bad location ../UTC: time: invalid location name"),
        ("* * * * 7", "end of range (7) above maximum (6): 7"),
        ("60 * * * *", "end of range (60) above maximum (59): 60"),
        ("* * 0 * *", "beginning of range (0) below minimum (1): 0"),
        ("* 5-3 * * *", "beginning of range (5) beyond end of range (3): 5-3"),
        ("*/0 * * * *", "step of range should be a positive number: */0"),
        ("1-2-3 * * * *", "too many hyphens: 1-2-3"),
        ("*/2/3 * * * *", "too many slashes: */2/3"),
        ("x * * * *", r#"failed to parse int from x: strconv.Atoi: parsing "x": invalid syntax"#),
        ("-5 * * * *", r#"failed to parse int from : strconv.Atoi: parsing "": invalid syntax"#),
        ("*/-5 * * * *", "negative number (-5) not allowed: -5"),
        (
            "99999999999999999999 * * * *",
            "failed to parse int from 99999999999999999999: strconv.Atoi: parsing \"99999999999999999999\": value \
             out of range",
        ),
        ("* * * foo *", r#"failed to parse int from foo: strconv.Atoi: parsing "foo": invalid syntax"#),
        ("@often", "unrecognized descriptor: @often"),
        ("@Daily", "unrecognized descriptor: @Daily"),
        ("@every 5", r#"failed to parse duration @every 5: time: invalid duration "5""#),
        ("@every ", r#"failed to parse duration @every : time: invalid duration """#),
    ] {
        assert_eq!(error(text), expected, "{text:?}");
    }
}

#[test]
fn zones_have_the_names_of_the_database_and_no_others() {
    for (name, expected) in [
        ("mars", "unknown time zone mars"),
        ("europe/berlin", "unknown time zone europe/berlin"),
        ("Etc/Unknown", "unknown time zone Etc/Unknown"),
        ("/UTC", "time: invalid location name"),
        ("\\UTC", "time: invalid location name"),
        ("a/../b", "time: invalid location name"),
    ] {
        assert_eq!(zone(name).unwrap_err().to_string(), expected, "{name}");
    }
    for name in ["", "UTC", "Europe/Berlin", "US/Eastern", "Etc/GMT+3", "EST5EDT"] {
        assert!(zone(name).is_ok(), "{name}");
    }
}

#[test]
fn the_latest_tick_of_a_long_pause_is_found_at_once() {
    let at = |text: &str| -> Timestamp { text.parse().unwrap() };
    for (schedule, since, until, expected) in [
        ("* * * * *", "1990-01-01T00:00:00Z", "2026-03-02T10:00:59Z", Some("2026-03-02T10:00:00Z")),
        ("@every 1s", "1990-01-01T00:00:00Z", "2026-03-02T10:00:59Z", Some("2026-03-02T10:00:59Z")),
        ("0 0 1 1 *", "1990-01-01T00:00:00Z", "2026-03-02T10:00:59Z", Some("2026-01-01T00:00:00Z")),
        ("0 10 * * *", "2026-03-02T10:00:00Z", "2026-03-03T09:59:59Z", None),
        ("0 10 * * *", "2026-03-02T09:59:59Z", "2026-03-02T10:00:00Z", Some("2026-03-02T10:00:00Z")),
        ("0 0 30 2 *", "1990-01-01T00:00:00Z", "2026-03-02T10:00:00Z", None),
        ("@every 1h", "2026-03-02T10:00:00Z", "2026-03-02T10:59:59Z", None),
    ] {
        let parsed = parse(schedule, &TimeZone::UTC).unwrap();
        let found = parsed.latest(at(since), at(until));
        assert_eq!(found, expected.map(at), "{schedule}");
        assert!(parsed.count(at(since), at(since), at(until), 101) <= 101);
    }
    let berlin = parse("30 2 * * *", &named("Europe/Berlin")).unwrap();
    for (until, expected) in [
        ("2026-10-25T01:29:59Z", "2026-10-25T00:30:00Z"),
        ("2026-10-25T01:30:00Z", "2026-10-25T01:30:00Z"),
        ("2026-03-30T00:29:59Z", "2026-03-28T01:30:00Z"),
    ] {
        assert_eq!(berlin.latest(at("2026-01-01T00:00:00Z"), at(until)), Some(at(expected)), "{until}");
    }
}

/// A field of numbers in these bounds.
fn field(least: u8, most: u8) -> impl Strategy<Value = String> {
    let item = prop_oneof![
        3 => Just("*".to_owned()),
        2 => (least..=most).prop_map(|number| number.to_string()),
        1 => (least..=most, least..=most).prop_map(|(one, other)| format!("{}-{}", one.min(other), one.max(other))),
        1 => (1..=most).prop_map(|step| format!("*/{step}")),
    ];
    proptest::collection::vec(item, 1..3).prop_map(|items| items.join(","))
}

/// A schedule of five fields.
fn schedules() -> impl Strategy<Value = String> {
    let fields = (field(0, 59), field(0, 23), field(1, 31), field(1, 12), field(0, 6));
    fields.prop_map(|(minute, hour, day, month, weekday)| format!("{minute} {hour} {day} {month} {weekday}"))
}

/// Zones that turn their clocks at odd times, by odd amounts.
const ZONES: [&str; 8] = [
    "UTC",
    "Europe/Berlin",
    "America/New_York",
    "Australia/Lord_Howe",
    "America/Santiago",
    "Africa/Casablanca",
    "Pacific/Apia",
    "Asia/Kathmandu",
];

proptest! {
    #[test]
    fn no_text_makes_it_panic(text in ".*", second in -377_705_023_201_i64..253_402_207_200) {
        if let Ok(schedule) = parse(&text, &TimeZone::UTC) {
            let moment = Timestamp::from_second(second).unwrap();
            schedule.next(moment, moment);
            schedule.latest(Timestamp::MIN, moment);
        }
    }

    #[test]
    fn no_schedule_and_no_moment_make_it_panic(
        text in schedules(),
        second in -377_705_023_201_i64..253_402_207_200,
        zone in 0..ZONES.len(),
    ) {
        let schedule = parse(&text, &named(ZONES[zone])).unwrap();
        let moment = Timestamp::from_second(second).unwrap();
        schedule.next(moment, moment);
        schedule.latest(Timestamp::MIN, moment);
    }

    /// The first tick after a moment is the minute at which a clock on the wall that is read every minute shows
    /// a time that matches.
    #[test]
    fn ticks_are_what_a_walk_over_the_minutes_finds(
        text in schedules(),
        minute in 0..3_000_000_i64,
        zone in 0..ZONES.len(),
    ) {
        let zone = named(ZONES[zone]);
        let Ok(Schedule::Calendar(calendar)) = parse(&text, &zone) else { panic!("{text}") };
        let begin = Timestamp::from_second(1_700_000_040 + minute * 60).unwrap();
        let matches = |second: &i64| {
            let local = zone.to_datetime(Timestamp::from_second(*second).unwrap());
            calendar.matches(local)
        };
        let walked = (1..6_000).map(|minute| begin.as_second() + minute * 60).find(matches);
        let found = calendar.next(begin).map(Timestamp::as_second);
        let end = begin.as_second() + 6_000 * 60;
        prop_assert_eq!(found.filter(|found| *found < end), walked);
    }

    #[test]
    fn the_latest_tick_is_the_one_whose_next_has_not_come(
        text in schedules(),
        minute in 0..3_000_000_i64,
        pause in 1..2_000_000_i64,
        zone in 0..ZONES.len(),
    ) {
        let schedule = parse(&text, &named(ZONES[zone])).unwrap();
        let since = Timestamp::from_second(1_700_000_000 + minute * 60).unwrap();
        let until = Timestamp::from_second(since.as_second() + pause).unwrap();
        match schedule.latest(since, until) {
            Some(tick) => {
                prop_assert!(since < tick && tick <= until);
                prop_assert!(schedule.next(since, tick).is_none_or(|next| next > until));
                let before = Timestamp::from_second(tick.as_second() - 1).unwrap();
                prop_assert_eq!(schedule.next(since, before), Some(tick));
            }
            None => prop_assert!(schedule.next(since, since).is_none_or(|next| next > until)),
        }
    }
}
