//! What was made of a text is kept for a while: the same few texts, such as the template of a workload in a
//! rollout, are read again with every plan.

use std::collections::VecDeque;

/// How many texts are remembered: the revisions of a few workloads.
const TEXTS: usize = 8;

/// What was made of the texts that were read last.
#[derive(Debug)]
pub struct Recent<T>(VecDeque<(Box<str>, T)>);

impl<T: Clone> Default for Recent<T> {
    fn default() -> Self {
        Self::new()
    }
}

impl<T: Clone> Recent<T> {
    /// Remembers nothing yet.
    pub const fn new() -> Self {
        Self(VecDeque::new())
    }

    /// What was made of `text`, or what `make` makes of it now.
    ///
    /// # Errors
    /// That of `make`, which is not remembered.
    pub fn get_or_make<E>(&mut self, text: &str, make: impl FnOnce(&str) -> Result<T, E>) -> Result<T, E> {
        let known = self.0.iter().position(|(known, _)| **known == *text);
        let (text, made) = match known.and_then(|position| self.0.remove(position)) {
            Some(entry) => entry,
            None => (text.into(), make(text)?),
        };
        self.0.truncate(TEXTS - 1);
        self.0.push_front((text, made.clone()));
        Ok(made)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn texts_that_are_read_again_are_not_made_anew_and_old_ones_are_forgotten() {
        let (mut recent, mut made) = (Recent::new(), Vec::new());
        let mut read = |text: &str| {
            let length = recent.get_or_make(text, |text| {
                made.push(text.to_owned());
                if text.is_empty() { Err("empty") } else { Ok(text.len()) }
            });
            assert_eq!(length, if text.is_empty() { Err("empty") } else { Ok(text.len()) });
        };
        let others: Vec<String> = (0..TEXTS - 1).map(|number| format!("other {number}")).collect();
        for text in ["text", "", "", "text"].into_iter().chain(others.iter().map(String::as_str)) {
            read(text);
        }
        read("text");
        read("one more");
        read("other 0");
        let mut expected = vec!["text", "", ""];
        expected.extend(others.iter().map(String::as_str));
        expected.extend(["one more", "other 0"]);
        assert_eq!(made, expected);
    }
}
