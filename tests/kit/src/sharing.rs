//! What the tests of a module share, as long as one of them is running.

use std::any::Any;
use std::cell::RefCell;
use std::sync::{Arc, Weak};

use tokio::sync::Mutex;

thread_local! {
    /// What the test of this thread uses: each test has a thread of its own, which ends with it.
    static USED: RefCell<Vec<Arc<dyn Any + Send + Sync>>> = const { RefCell::new(Vec::new()) };
}

/// Something that is started by the first test that needs it, and is gone when none uses it any more: an idle API server
/// takes processor time and memory from all tests that follow.
#[derive(Debug)]
pub struct Shared<T>(Mutex<Weak<T>>);

impl<T: Send + Sync + 'static> Shared<T> {
    /// Nothing is started.
    #[must_use]
    pub const fn new() -> Self {
        Self(Mutex::const_new(Weak::new()))
    }

    /// The thing, which stays at least until the test that asks for it has ended.
    pub async fn get(&self, start: impl AsyncFnOnce() -> T) -> Arc<T> {
        let mut known = self.0.lock().await;
        let shared = match known.upgrade() {
            Some(shared) => shared,
            None => {
                let started = Arc::new(start().await);
                *known = Arc::downgrade(&started);
                started
            }
        };
        let used: Arc<T> = Arc::clone(&shared);
        USED.with_borrow_mut(|all| all.push(used));
        shared
    }
}

impl<T: Send + Sync + 'static> Default for Shared<T> {
    fn default() -> Self {
        Self::new()
    }
}

#[cfg(test)]
mod tests {
    use std::thread;

    use tokio::runtime::Builder;

    use super::*;

    fn run<T>(test: impl Future<Output = T>) -> T {
        Builder::new_current_thread().build().unwrap().block_on(test)
    }

    #[test]
    fn it_is_one_for_all_tests_and_goes_with_the_last() {
        static SHARED: Shared<String> = Shared::new();
        let get = async |text: &str| SHARED.get(async || text.to_owned()).await;
        let in_a_test =
            move |text: &'static str| thread::spawn(move || run(get(text)).to_string()).join().unwrap();
        run(async {
            let first = get("first").await;
            assert_eq!((&**first, in_a_test("second")), ("first", "first".to_owned()));
            drop(first);
            assert_eq!(in_a_test("third"), "first", "this test has not ended");
        });
        USED.with_borrow_mut(Vec::clear);
        assert_eq!(in_a_test("fourth"), "fourth");
        assert_eq!(in_a_test("fifth"), "fifth", "the test before has ended");
    }
}
