use super::Source::{List, Watch, Write};
use super::*;

#[test]
fn an_answer_that_arrives_late_replaces_nothing_newer() {
    for (source, state, known, expected) in [
        // A later state of the same object, the same one, and an earlier one.
        (Watch, ("u", "10"), Some(("u", "9")), true),
        (Watch, ("u", "9"), Some(("u", "9")), false),
        (Watch, ("u", "9"), Some(("u", "10")), false),
        (Write, ("u", "10"), Some(("u", "9")), true),
        (Write, ("u", "9"), Some(("u", "9")), false),
        (Write, ("u", "9"), Some(("u", "10")), false),
        // A list shows what there is.
        (List, ("u", "9"), Some(("u", "10")), true),
        (List, ("u", "9"), Some(("u", "9")), false),
        // An object that is not known, or gone.
        (List, ("u", "9"), None, true),
        (Watch, ("u", "9"), None, true),
        (Write, ("u", "9"), None, false),
        // Another object of this name.
        (Watch, ("v", "8"), Some(("u", "9")), true),
        (Write, ("u", "9"), Some(("v", "8")), false),
        (Write, ("u", "9"), Some(("v", "10")), false),
        // Versions that are no numbers.
        (Watch, ("u", "a"), Some(("u", "b")), true),
    ] {
        assert_eq!(is_news(source, state, known), expected, "{source:?} {state:?} {known:?}");
    }
}
