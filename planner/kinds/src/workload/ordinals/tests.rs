use proptest::prelude::*;

use super::*;

fn reserved(entries: &[&str]) -> ReservedOrdinals {
    let entry = |text: &&str| match text.parse() {
        Ok(number) => IntOrString::Int(number),
        Err(_) => IntOrString::String((*text).to_owned()),
    };
    ReservedOrdinals::parse(&entries.iter().map(entry).collect::<Vec<_>>())
}

fn ordinals(start: i32, replicas: i64, entries: &[&str]) -> Vec<i32> {
    Ordinals::new(start, replicas, reserved(entries)).iter().collect()
}

#[test]
fn scenarios_3_4_and_6_reserved_ordinals_are_skipped() {
    assert_eq!(ordinals(0, 4, &["1"]), [0, 2, 3, 4]);
    assert_eq!(ordinals(0, 4, &["1", "3"]), [0, 2, 4, 5]);
    assert_eq!(ordinals(0, 4, &["2-5", "7"]), [0, 1, 6, 8]);
    assert_eq!(ordinals(0, 4, &["007-007", "2-5", "3-4"]), [0, 1, 6, 8]);
    assert_eq!(ordinals(3, 5, &[]), [3, 4, 5, 6, 7]);
    assert_eq!(ordinals(2, 4, &["1", "3"]), [2, 4, 5, 6]);
    assert_eq!(ordinals(0, 0, &["0"]), [0; 0]);
}

#[test]
fn entries_that_cannot_be_read_reserve_nothing() {
    for entry in ["5-2", "a-b", "", "-", "1-", "+1-2", "99999999999999999999-5"] {
        assert_eq!(ordinals(0, 3, &["1", entry]), [0, 1, 2], "{entry}");
    }
}

#[test]
fn sharp_edge_15_a_huge_range_costs_nothing() {
    assert_eq!(ordinals(0, 2, &["0-2000000000"]), [2_000_000_001, 2_000_000_002]);
    assert_eq!(ordinals(0, 2, &["0-9000000000000000000"]), [0; 0]);
    assert_eq!(ordinals(0, 2, &["0-9223372036854775807", "9223372036854775807-9223372036854775807"]), [0; 0]);
    let all = Ordinals::new(i32::MAX - 1, i64::from(i32::MAX), ReservedOrdinals::default());
    assert_eq!(all.iter().collect::<Vec<_>>(), [i32::MAX - 1, i32::MAX]);
}

proptest! {
    #[test]
    fn each_view_of_the_ordinals_agrees_with_counting(
        start in 0..20_i32,
        replicas in 0..20_i64,
        ranges in prop::collection::vec((0..40_i32, 0..6_i32), 0..6),
    ) {
        let entries: Vec<String> =
            ranges.iter().map(|(first, length)| format!("{first}-{}", first + length)).collect();
        let entries: Vec<&str> = entries.iter().map(String::as_str).collect();
        let is_reserved =
            |ordinal: i32| ranges.iter().any(|(first, length)| (*first..=first + length).contains(&ordinal));
        let wanted: Vec<i32> =
            (start..).filter(|ordinal| !is_reserved(*ordinal)).take(replicas.try_into().unwrap()).collect();
        let ordinals = Ordinals::new(start, replicas, reserved(&entries));
        prop_assert_eq!(&ordinals.iter().collect::<Vec<_>>(), &wanted);
        for ordinal in 0..80 {
            prop_assert_eq!(ordinals.contains(ordinal), wanted.contains(&ordinal));
        }
        for (rank, ordinal) in wanted.iter().enumerate() {
            prop_assert_eq!(ordinals.rank(*ordinal), i64::try_from(rank).unwrap());
        }
    }
}
