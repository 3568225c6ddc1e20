//! Numbers of Pods that are given as a number or as a share: partition, maxUnavailable, maxSurge
//! (docs/behaviour/sidecarset.md#pods-whose-turn-it-is and
//! docs/behaviour/cloneset.md#numbers-and-percentages).
//!
//! A share may have decimals wherever one is allowed, and the arithmetic is exact: `33.3%` of 1,000 is 333.
//! What can't be read counts as 0, since validation refused it when it was written. A text without `%`
//! counts as a share too, as controllers have always read it.

use api::sidecarset::IntOrString;

/// The share that maxUnavailable of a workload is by default, in percent.
const DEFAULT_MAX_UNAVAILABLE: &str = "20%";

/// How a share that is no whole number of Pods is rounded.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Rounding {
    /// To the next larger number.
    Up,
    /// To the next smaller number.
    Down,
    /// To the nearest number, and up from the middle.
    HalfUp,
}

/// `value` as a number of Pods, of `total`; a plain number stays as it is, even a negative one. `None`
/// where the text is no share.
pub fn scaled(value: &IntOrString, total: i32, rounding: Rounding) -> Option<i32> {
    match value {
        IntOrString::Int(number) => Some(*number),
        IntOrString::String(text) => {
            let share = Share::read(text)?;
            let scaled = share.numerator.checked_mul(u128::try_from(total).unwrap_or(0))?;
            let scaled = match rounding {
                Rounding::Up => scaled.div_ceil(share.denominator),
                Rounding::Down => scaled / share.denominator,
                Rounding::HalfUp => scaled.checked_add(share.denominator / 2)? / share.denominator,
            };
            Some(i32::try_from(scaled).unwrap_or(i32::MAX))
        }
    }
}

/// How many of `total` Pods stay old: none by default. Less than 100 % of more than one Pod never keeps
/// all of them, so that every step of a slow rollout moves.
pub fn partition(value: Option<&IntOrString>, total: i32) -> i32 {
    let Some(value) = value else { return 0 };
    let kept = scaled(value, total, Rounding::Up).unwrap_or(0);
    let part = matches!(value, IntOrString::String(text) if text != "100%");
    let kept = if part && kept == total && total > 1 { total.saturating_sub(1) } else { kept };
    kept.clamp(0, total.max(0))
}

/// How many Pods a workload may have beyond `total`: none by default. The caller makes it 0 while the
/// workload is paused.
pub fn max_surge(value: Option<&IntOrString>, total: i32) -> i32 {
    value.and_then(|value| scaled(value, total, Rounding::Up)).unwrap_or(0).max(0)
}

/// How many of `total` Pods of a workload may be unavailable: 20 % by default. Rounded up, so that an
/// update can move at all; down where surge (`max_surge` Pods) moves it already.
pub fn max_unavailable(value: Option<&IntOrString>, total: i32, max_surge: i32) -> i32 {
    let default = IntOrString::String(DEFAULT_MAX_UNAVAILABLE.to_owned());
    let rounding = if max_surge > 0 { Rounding::Down } else { Rounding::Up };
    scaled(value.unwrap_or(&default), total, rounding).unwrap_or(0).max(0)
}

/// How many of `total` Pods may be unavailable while a workload creates others
/// (`scaleStrategy.maxUnavailable`); `None`, the default, is without limit.
pub fn scale_max_unavailable(value: Option<&IntOrString>, total: i32) -> Option<i32> {
    value.map(|value| scaled(value, total, Rounding::Up).unwrap_or(0).max(0))
}

/// How many of `total` Pods of a SidecarSet may be unavailable: one by default.
pub fn sidecarset_max_unavailable(value: Option<&IntOrString>, total: i32) -> i32 {
    value.map_or(1, |value| scaled(value, total, Rounding::Up).unwrap_or(0).max(0))
}

/// A share as a fraction.
struct Share {
    numerator: u128,
    denominator: u128,
}

impl Share {
    /// Reads `12.5%` or `12.5`.
    fn read(text: &str) -> Option<Self> {
        let number = text.strip_suffix('%').unwrap_or(text);
        let (whole, decimals) = number.split_once('.').unwrap_or((number, ""));
        let digits = format!("{whole}{decimals}");
        if digits.is_empty() || !digits.bytes().all(|byte| byte.is_ascii_digit()) {
            return None;
        }
        let scale = 10_u128.checked_pow(u32::try_from(decimals.len()).ok()?)?;
        Some(Self { numerator: digits.parse().ok()?, denominator: scale.checked_mul(100)? })
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn value(text: &str) -> IntOrString {
        text.parse().map_or_else(|_| IntOrString::String(text.to_owned()), IntOrString::Int)
    }

    #[test]
    fn partition_rounds_up_but_never_keeps_all_below_100_percent() {
        for (text, total, expected) in [
            ("99%", 5, 4),
            ("1%", 5, 1),
            ("90%", 10, 9),
            ("100%", 5, 5),
            ("100.0%", 5, 4),
            ("150%", 5, 5),
            ("99%", 1, 1),
            ("0%", 5, 0),
            ("33.3%", 1000, 333),
            ("33.31%", 1000, 334),
            ("7", 5, 5),
            ("-1", 5, 0),
            ("half", 5, 0),
            ("5%", 0, 0),
        ] {
            assert_eq!(partition(Some(&value(text)), total), expected, "{text} of {total}");
        }
        assert_eq!(partition(None, 5), 0);
        assert_eq!(partition(Some(&IntOrString::String("60".to_owned())), 5), 3);
    }

    #[test]
    fn table_of_spec_31() {
        let surges = ["0", "1", "5%", "25%", "100%"];
        let pairs = |text: &str| {
            surges.map(|surge| {
                let surge = max_surge(Some(&value(surge)), 10);
                (max_unavailable(Some(&value(text)), 10, surge), surge)
            })
        };
        assert_eq!(pairs("0")[1..], [(0, 1), (0, 1), (0, 3), (0, 10)]);
        assert_eq!(pairs("0%")[1..], [(0, 1), (0, 1), (0, 3), (0, 10)]);
        assert_eq!(pairs("1"), [(1, 0), (1, 1), (1, 1), (1, 3), (1, 10)]);
        assert_eq!(pairs("5%"), [(1, 0), (0, 1), (0, 1), (0, 3), (0, 10)]);
        assert_eq!(pairs("20%"), [(2, 0), (2, 1), (2, 1), (2, 3), (2, 10)]);
        assert_eq!(pairs("25%"), [(3, 0), (2, 1), (2, 1), (2, 3), (2, 10)]);
        assert_eq!(pairs("100%"), [(10, 0), (10, 1), (10, 1), (10, 3), (10, 10)]);
    }

    #[test]
    fn defaults_are_those_of_the_kinds() {
        assert_eq!(max_surge(None, 10), 0);
        assert_eq!((max_unavailable(None, 11, 0), max_unavailable(None, 11, 1)), (3, 2));
        assert_eq!(
            (scale_max_unavailable(None, 10), scale_max_unavailable(Some(&value("25%")), 10)),
            (None, Some(3))
        );
        assert_eq!(sidecarset_max_unavailable(None, 10), 1);
        assert_eq!(sidecarset_max_unavailable(Some(&value("5%")), 5), 1);
        assert_eq!(sidecarset_max_unavailable(Some(&value("0")), 5), 0);
        assert_eq!(sidecarset_max_unavailable(Some(&value("-3")), 5), 0);
    }

    proptest! {
        #[test]
        fn any_text_gives_a_number_in_range(text in "[-0-9.%x]{0,60}", total in 0..i32::MAX) {
            let given = Some(IntOrString::String(text));
            let kept = partition(given.as_ref(), total);
            prop_assert!((0..=total).contains(&kept));
            prop_assert!(max_unavailable(given.as_ref(), total, 0) >= max_unavailable(given.as_ref(), total, 1));
        }

        #[test]
        fn up_is_at_most_one_more_than_down(tenths in 0..2000_u32, total in 0..100_000) {
            let share = IntOrString::String(format!("{}.{}%", tenths / 10, tenths % 10));
            let up = scaled(&share, total, Rounding::Up).unwrap();
            let down = scaled(&share, total, Rounding::Down).unwrap();
            prop_assert!(up == down || up == down + 1);
            prop_assert!(i64::from(up) * 1000 >= i64::from(tenths) * i64::from(total));
            prop_assert!(i64::from(down) * 1000 <= i64::from(tenths) * i64::from(total));
        }
    }
}
