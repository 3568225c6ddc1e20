//! Panics end where they happen: in the answer to one call, or at the one object that brought them out.

use std::any::Any;
use std::cell::RefCell;
use std::panic::{AssertUnwindSafe, catch_unwind, set_hook, take_hook};
use std::sync::Once;

use futures::FutureExt;

thread_local! {
    /// Where this thread panicked last: only the hook gets that.
    static PLACE: RefCell<String> = const { RefCell::new(String::new()) };
}

/// A panic that was caught.
#[derive(Debug, Default)]
pub struct Panicked {
    /// What it said.
    pub message: String,
    /// File, line and column.
    pub place: String,
}

impl Panicked {
    fn new(payload: &(dyn Any + Send)) -> Self {
        let text = payload.downcast_ref::<&str>().copied();
        let text = text.or_else(|| payload.downcast_ref::<String>().map(String::as_str));
        Self { message: text.unwrap_or("unknown").to_owned(), place: PLACE.with(|place| place.take()) }
    }
}

/// Does `work` to its end, or to its panic.
pub async fn contained<T>(work: impl Future<Output = T>) -> Result<T, Panicked> {
    note_places();
    AssertUnwindSafe(work).catch_unwind().await.map_err(|payload| Panicked::new(&*payload))
}

/// [`contained`] for what waits for nothing.
pub fn contained_at_once<T>(work: impl FnOnce() -> T) -> Result<T, Panicked> {
    note_places();
    catch_unwind(AssertUnwindSafe(work)).map_err(|payload| Panicked::new(&*payload))
}

/// Lets the hook of the process note the place of each panic, before it does what it did.
fn note_places() {
    static NOTED: Once = Once::new();
    NOTED.call_once(|| {
        let before = take_hook();
        set_hook(Box::new(move |panic| {
            let place = panic.location().map(ToString::to_string).unwrap_or_default();
            PLACE.with(|known| known.replace(place));
            before(panic);
        }));
    });
}

#[cfg(test)]
mod tests {
    use super::*;

    #[tokio::test]
    async fn a_panic_is_reported_with_its_place() {
        let panicked = contained::<()>(async { panic!("boom {}", 1) }).await.unwrap_err();
        assert_eq!(panicked.message, "boom 1");
        assert!(panicked.place.contains("panics.rs:"), "{}", panicked.place);
        let panicked = contained_at_once::<()>(|| panic!("at once")).unwrap_err();
        assert_eq!(panicked.message, "at once");
        assert_eq!(contained_at_once(|| 1).unwrap(), 1);
    }
}
