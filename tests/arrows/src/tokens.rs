//! Rust source as tokens: without comments, texts and whatever is under `#[cfg(test)]`.

use std::iter::Peekable;
use std::str::Chars;

/// A token, and the line it is in.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Token {
    pub(crate) line: usize,
    pub(crate) part: Part,
}

/// What a token is.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Part {
    /// An identifier, a keyword or a number.
    Word(String),
    /// `::`
    Colons,
    /// Any other character.
    Sign(char),
}

impl Token {
    pub(crate) fn is(&self, sign: char) -> bool {
        self.part == Part::Sign(sign)
    }

    pub(crate) fn word(&self) -> Option<&str> {
        match &self.part {
            Part::Word(word) => Some(word),
            _ => None,
        }
    }
}

/// The tokens of the product: those of a file without its tests.
pub(crate) fn product(source: &str) -> Vec<Token> {
    without_tests(&Reader { rest: source.chars().peekable(), line: 1, tokens: Vec::new() }.read())
}

struct Reader<'s> {
    rest: Peekable<Chars<'s>>,
    line: usize,
    tokens: Vec<Token>,
}

impl Reader<'_> {
    fn read(mut self) -> Vec<Token> {
        while let Some(first) = self.next() {
            match first {
                '/' if self.next_is('/') => while self.rest.next_if(|next| *next != '\n').is_some() {},
                '/' if self.next_is('*') => self.skip_comment(),
                '"' => self.skip_text(None),
                '\'' => self.skip_character(),
                ':' if self.next_is(':') => {
                    self.next();
                    self.push(Part::Colons);
                }
                first if first.is_alphanumeric() || first == '_' => self.word(first),
                first if first.is_whitespace() => {}
                sign => self.push(Part::Sign(sign)),
            }
        }
        self.tokens
    }

    fn next(&mut self) -> Option<char> {
        let next = self.rest.next()?;
        self.line += usize::from(next == '\n');
        Some(next)
    }

    fn next_is(&mut self, wanted: char) -> bool {
        self.rest.peek() == Some(&wanted)
    }

    fn push(&mut self, part: Part) {
        self.tokens.push(Token { line: self.line, part });
    }

    /// The rest of a block comment, whose `/` was read. Block comments nest.
    fn skip_comment(&mut self) {
        self.next();
        let mut depth = 1;
        while depth > 0 {
            match self.next() {
                Some('*') if self.next_is('/') => {
                    self.next();
                    depth -= 1;
                }
                Some('/') if self.next_is('*') => {
                    self.next();
                    depth += 1;
                }
                Some(_) => {}
                None => return,
            }
        }
    }

    /// The rest of a text whose first quote was read; a raw one ends with that many hashes.
    fn skip_text(&mut self, hashes: Option<usize>) {
        while let Some(next) = self.next() {
            match (next, hashes) {
                ('\\', None) => drop(self.next()),
                ('"', None) => return,
                ('"', Some(hashes)) => {
                    let mut found = 0;
                    while found < hashes && self.next_is('#') {
                        self.next();
                        found += 1;
                    }
                    if found == hashes {
                        return;
                    }
                }
                _ => {}
            }
        }
    }

    /// A character or a lifetime, whose quote was read.
    fn skip_character(&mut self) {
        let Some(first) = self.next() else { return };
        if first == '\\' {
            self.next();
            while self.rest.next_if(|next| *next != '\'').is_some() {}
            self.next();
        } else if self.next_is('\'') {
            self.next();
        } else {
            while self.rest.next_if(|next| next.is_alphanumeric() || *next == '_').is_some() {}
        }
    }

    /// A word, or a text with a prefix such as `r#"`, `b"` or `c"`; `r#type` is the word `type`.
    fn word(&mut self, first: char) {
        let mut word = String::from(first);
        while let Some(next) = self.rest.next_if(|next| next.is_alphanumeric() || *next == '_') {
            word.push(next);
        }
        let is_raw = matches!(word.as_str(), "r" | "br" | "cr");
        if is_raw && (self.next_is('#') || self.next_is('"')) {
            let mut hashes = 0;
            while self.next_is('#') {
                self.next();
                hashes += 1;
            }
            if self.next_is('"') {
                self.next();
                return self.skip_text(Some(hashes));
            }
            return;
        }
        if matches!(word.as_str(), "b" | "c") && self.next_is('"') {
            self.next();
            return self.skip_text(None);
        }
        self.push(Part::Word(word));
    }
}

/// Drops the items under `#[cfg(test)]`, and the whole file where it is under `#![cfg(test)]`.
fn without_tests(tokens: &[Token]) -> Vec<Token> {
    let mut kept = Vec::with_capacity(tokens.len());
    let mut rest = tokens;
    while let Some((first, behind)) = rest.split_first() {
        let is_inner = behind.first().is_some_and(|token| token.is('!'));
        match attribute(rest) {
            Some((true, _)) if is_inner => return Vec::new(),
            Some((true, behind)) => rest = behind_item(behind),
            Some((false, behind)) => rest = behind,
            None => {
                kept.push(first.clone());
                rest = behind;
            }
        }
    }
    kept
}

/// Whether the attribute at the start of `tokens` keeps its item to tests, and what follows it.
fn attribute(tokens: &[Token]) -> Option<(bool, &[Token])> {
    let (_, mut rest) = tokens.split_first().filter(|(first, _)| first.is('#'))?;
    rest = rest.split_first().filter(|(next, _)| next.is('!')).map_or(rest, |(_, behind)| behind);
    rest.first().filter(|token| token.is('['))?;
    let length = closed(rest);
    let (inside, behind) = rest.split_at_checked(length)?;
    let words: Vec<&str> = inside.iter().filter_map(Token::word).collect();
    let is_test = words.first() == Some(&"cfg") && words.contains(&"test") && !words.contains(&"not");
    Some((is_test, behind))
}

/// What follows the item at the start of `tokens`.
fn behind_item(mut tokens: &[Token]) -> &[Token] {
    while let Some((_, behind)) = attribute(tokens) {
        tokens = behind;
    }
    let is_import = tokens.iter().take_while(|token| !token.is(';')).any(|token| token.word() == Some("use"));
    while let Some(first) = tokens.first() {
        let is_block = first.is('{') && !is_import;
        let length = closed(tokens);
        let ends = first.is(';') || is_block;
        tokens = tokens.get(length..).unwrap_or_default();
        if ends {
            break;
        }
    }
    tokens
}

/// How many tokens belong to the first one: all up to its closing bracket where it is an opening one.
fn closed(tokens: &[Token]) -> usize {
    let mut depth = 0_usize;
    for (position, token) in tokens.iter().enumerate() {
        match token.part {
            Part::Sign('(' | '[' | '{') => depth += 1,
            Part::Sign(')' | ']' | '}') => depth = depth.saturating_sub(1),
            _ => {}
        }
        if depth == 0 {
            return position + 1;
        }
    }
    tokens.len()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn words(source: &str) -> Vec<String> {
        product(source).iter().filter_map(|token| token.word().map(str::to_owned)).collect()
    }

    #[test]
    fn comments_and_texts_are_left_out() {
        let source = r###"a /* b /* c */ d */ "e \" f" r#"g " h"# b"i" 'j' '\'' '\u{6b}' x::<'l> // m"###;
        assert_eq!(words(source), ["a", "x"]);
        assert_eq!(words("r#type fn br fn"), ["type", "fn", "br", "fn"]);
    }

    #[test]
    fn tests_are_left_out() {
        assert_eq!(words("#[cfg(test)] mod tests { fn a() {} } fn b() {}"), ["fn", "b"]);
        assert_eq!(words("#[cfg(test)]\n#[path = \"x\"] mod tests; fn b() {}"), ["fn", "b"]);
        assert_eq!(words("#[cfg(test)] pub(crate) use a::{b, c}; fn d() {}"), ["fn", "d"]);
        assert_eq!(words("#[cfg(not(test))] fn a() {}"), ["fn", "a"]);
        assert_eq!(words("#![cfg(test)] fn a() {}"), Vec::<String>::new());
    }

    #[test]
    fn lines_are_counted() {
        let lines: Vec<usize> = product("a\n/* b\n */ \"\n\" c").iter().map(|token| token.line).collect();
        assert_eq!(lines, [1, 4]);
    }
}
