//! The Pod templates of an object that the API server judges by its own rules
//! (docs/behaviour/pod-template.md#what-the-cluster-judges).

use serde_json::Value;

use super::submitted::Stored;
use super::validation::Rules;
use pod::template::trial::Trial;
use values::field::FieldPath;

/// What the API server is asked about an object.
#[derive(Clone, Debug)]
pub struct Trials {
    /// The HTTP status code with which the object is refused.
    pub code: u16,
    /// The templates, in the order in which they are reported.
    pub list: Vec<Trial>,
}

/// The trials of an object that is created or, with `old`, updated.
pub(crate) fn of<T: Stored, R: Rules<T>>(new: &str, old: Option<&str>) -> Trials {
    let read = |object: &str| serde_json::from_str::<Value>(object).unwrap_or_default();
    let code = R::refusal(old);
    let (new, old) = (read(new), old.map(read));
    let trial = |pointer: &&str| {
        let stored = old.as_ref().and_then(|old| old.pointer(pointer));
        let path = FieldPath::new(pointer.trim_start_matches('/').replace('/', "."));
        Trial::of_workload(new.pointer(pointer)?, stored, &path)
    };
    Trials { code, list: R::JUDGED.iter().filter_map(trial).collect() }
}
