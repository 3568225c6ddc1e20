//! Which state of an object counts: the one that is known, or one that arrives from the watch or as the answer to a
//! write. Answers may arrive late: after the watch has told of a later state, of the end of the object, or of
//! another object of its name.

#[cfg(test)]
mod tests;

/// Where a state of an object comes from.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Source {
    /// A list: it shows what there is, also where a restored API server has gone back in time.
    List,
    /// An event of the watch.
    Watch,
    /// The answer to a write of our own.
    Write,
}

/// UID and resource version.
pub(crate) type State<'a> = (&'a str, &'a str);

/// Whether a state takes the place of the known one; of none where the object is not known.
pub(crate) fn is_news(source: Source, state: State<'_>, known: Option<State<'_>>) -> bool {
    let Some(known) = known else {
        // What the watch has told to be gone does not come back by the late answer to a write.
        return source != Source::Write;
    };
    let is_same_object = state.0 == known.0;
    match source {
        Source::List => state != known,
        Source::Watch => !is_same_object || is_later(state.1, known.1),
        // The watch tells of another object of this name itself.
        Source::Write => is_same_object && is_later(state.1, known.1),
    }
}

/// Kubernetes compares resource versions as numbers; one that is no number is believed.
fn is_later(version: &str, known: &str) -> bool {
    match (version.parse::<u64>(), known.parse::<u64>()) {
        (Ok(version), Ok(known)) => version > known,
        _ => true,
    }
}
