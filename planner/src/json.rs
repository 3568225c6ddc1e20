//! JSON text read fast where it is plain.
//!
//! Reviews are what this program reads most, and most of a review is skipped. [`from_str`] gives what
//! [`serde_json::from_str`] gives, by a reader that is made for the common document: it skips without
//! looking at what the text means, and borrows every string. It need not know everything: at whatever is
//! unusual or wrong (a fraction where a number is wanted, deep nesting, a wrong type) it stops, and
//! `serde_json` reads the document from the start. So there is one authority for odd values and for
//! errors.
//!
//! Invariant: what this reader accepts `serde_json` accepts too, with the same result.

use std::borrow::Cow;
use std::fmt;
use std::marker::PhantomData;

use serde::Deserialize;
use serde::de::value::BorrowedStrDeserializer;
use serde::de::{self, DeserializeSeed, IntoDeserializer, MapAccess, SeqAccess, Visitor};
use serde::forward_to_deserialize_any;
use serde_json::value::RawValue;

/// The name under which `&RawValue` asks for the text of a value. It is private to `serde_json`; were it
/// changed there, documents with such values would be read by `serde_json`, and a test here would fail.
const RAW_VALUE: &str = "$serde_json::private::RawValue";

/// The name under which [`Spanned`] asks for a value and its text.
const SPANNED: &str = "$kutter::json::Spanned";

/// Containers within containers that are read here.
const DEPTH: u8 = 48;

/// Reads a document.
///
/// # Errors
/// Those of [`serde_json::from_str`].
pub fn from_str<'de, T: Deserialize<'de>>(text: &'de str) -> Result<T, serde_json::Error> {
    plain(text).or_else(|Unusual| serde_json::from_str(text))
}

fn plain<'de, T: Deserialize<'de>>(text: &'de str) -> Result<T, Unusual> {
    let mut reader = Reader { text, position: 0, depth: DEPTH };
    let value = T::deserialize(&mut reader)?;
    reader.skip_space();
    if reader.position == text.len() { Ok(value) } else { Err(Unusual) }
}

/// A value beside the text that it was read from, read in one pass.
#[derive(Clone, Debug)]
pub struct Spanned<'a, T> {
    /// The JSON text.
    pub text: &'a str,
    /// What it says.
    pub value: T,
}

impl<'de: 'a, 'a, T: Deserialize<'de>> Deserialize<'de> for Spanned<'a, T> {
    fn deserialize<D: de::Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        struct SpannedVisitor<T>(PhantomData<T>);
        impl<'de, T: Deserialize<'de>> Visitor<'de> for SpannedVisitor<T> {
            type Value = Spanned<'de, T>;
            fn expecting(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
                formatter.write_str("any valid JSON value")
            }
            /// From our reader: the value, then its text.
            fn visit_map<A: MapAccess<'de>>(self, mut map: A) -> Result<Self::Value, A::Error> {
                let value = map.next_value()?;
                Ok(Spanned { text: map.next_value()?, value })
            }
            /// From `serde_json`.
            fn visit_newtype_struct<D: de::Deserializer<'de>>(
                self,
                deserializer: D,
            ) -> Result<Self::Value, D::Error> {
                let text = <&RawValue>::deserialize(deserializer)?.get();
                let value = serde_json::from_str(text).map_err(de::Error::custom)?;
                Ok(Spanned { text, value })
            }
        }
        let Spanned { text, value } =
            deserializer.deserialize_newtype_struct(SPANNED, SpannedVisitor(PhantomData))?;
        Ok(Self { text, value })
    }
}

/// Where the first byte of `bytes` is that a JSON string cannot hold as it is: a quote, a backslash or a
/// control character.
#[inline]
pub(crate) fn first_special(bytes: &[u8]) -> Option<usize> {
    const ONES: u64 = u64::MAX / 255;
    const HIGH: u64 = ONES << 7;
    let mut start = 0;
    while let Some(block) = bytes.get(start..).and_then(<[u8]>::first_chunk) {
        // Eight bytes at a time. A difference sets the high bit of each byte that is smaller, and perhaps
        // of some behind it, which does not matter: the first one counts.
        let word = u64::from_le_bytes(*block);
        // With bit 1 flipped the quote is 0x20, next to the control characters, and 0x20 and 0x21 are not.
        let quote_or_control = (word ^ (ONES * 0x02)).wrapping_sub(ONES * 0x21);
        let backslash = (word ^ (ONES * 0x5c)).wrapping_sub(ONES);
        let special = (quote_or_control | backslash) & !word & HIGH;
        if special != 0 {
            return Some(start + special.trailing_zeros() as usize / 8);
        }
        start += 8;
    }
    let rest = bytes.get(start..)?;
    rest.iter().position(|byte| matches!(byte, b'"' | b'\\' | ..0x20)).map(|position| start + position)
}

/// Something that only `serde_json` can read, or refuse.
#[derive(Debug)]
struct Unusual;

impl fmt::Display for Unusual {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter.write_str("not a plain document")
    }
}

impl std::error::Error for Unusual {}

impl de::Error for Unusual {
    fn custom<T: fmt::Display>(_: T) -> Self {
        Self
    }
}

struct Reader<'de> {
    text: &'de str,
    position: usize,
    /// Containers that may still be opened within one another.
    depth: u8,
}

impl<'de> Reader<'de> {
    #[inline]
    fn rest(&self) -> &'de [u8] {
        self.text.as_bytes().get(self.position..).unwrap_or_default()
    }

    fn skip_space(&mut self) {
        while let Some(b' ' | b'\n' | b'\t' | b'\r') = self.rest().first() {
            self.position += 1;
        }
    }

    /// The first byte of the next token.
    #[inline]
    fn peek(&mut self) -> Result<u8, Unusual> {
        let byte = *self.rest().first().ok_or(Unusual)?;
        if byte > b' ' {
            return Ok(byte);
        }
        self.skip_space();
        self.rest().first().copied().ok_or(Unusual)
    }

    /// Passes over the next token, which has one byte.
    #[inline]
    fn take(&mut self) -> Result<u8, Unusual> {
        let byte = self.peek()?;
        self.position += 1;
        Ok(byte)
    }

    #[inline]
    fn expect(&mut self, byte: u8) -> Result<(), Unusual> {
        if self.take()? == byte { Ok(()) } else { Err(Unusual) }
    }

    fn word<T>(&mut self, word: &str, value: T) -> Result<T, Unusual> {
        if !self.rest().starts_with(word.as_bytes()) {
            return Err(Unusual);
        }
        self.position += word.len();
        Ok(value)
    }

    fn string(&mut self) -> Result<Cow<'de, str>, Unusual> {
        let start = self.position;
        self.expect(b'"')?;
        let rest = self.rest();
        let length = first_special(rest).ok_or(Unusual)?;
        if rest.get(length) == Some(&b'"') {
            let end = self.position + length;
            let text = self.text.get(self.position..end).ok_or(Unusual)?;
            self.position = end + 1;
            return Ok(Cow::Borrowed(text));
        }
        self.skip_string()?;
        let quoted = self.text.get(start..self.position).ok_or(Unusual)?;
        serde_json::from_str(quoted).map(Cow::Owned).map_err(|_| Unusual)
    }

    /// Passes over the rest of a string whose first quote is read.
    #[inline]
    fn skip_string(&mut self) -> Result<(), Unusual> {
        loop {
            let rest = self.rest();
            let length = first_special(rest).ok_or(Unusual)?;
            self.position += length + 1;
            match rest.get(length) {
                Some(b'"') => return Ok(()),
                Some(b'\\') => self.skip_escape()?,
                _ => return Err(Unusual),
            }
        }
    }

    /// Passes over what follows a backslash.
    #[inline(never)]
    fn skip_escape(&mut self) -> Result<(), Unusual> {
        self.position += match self.rest() {
            [b'"' | b'\\' | b'/' | b'b' | b'f' | b'n' | b'r' | b't', ..] => 1,
            [b'u', a, b, c, d, ..] if [a, b, c, d].iter().all(|digit| digit.is_ascii_hexdigit()) => 5,
            _ => return Err(Unusual),
        };
        Ok(())
    }

    fn skip_digits(&mut self) -> Result<(), Unusual> {
        let digits = self.rest().iter().take_while(|byte| byte.is_ascii_digit()).count();
        self.position += digits;
        if digits > 0 { Ok(()) } else { Err(Unusual) }
    }

    fn skip_number(&mut self) -> Result<(), Unusual> {
        if self.rest().first() == Some(&b'-') {
            self.position += 1;
        }
        match self.rest().first() {
            // No digit may follow; one that does is not what may stand behind a value.
            Some(b'0') => self.position += 1,
            _ => self.skip_digits()?,
        }
        if self.rest().first() == Some(&b'.') {
            self.position += 1;
            self.skip_digits()?;
        }
        if let Some(b'e' | b'E') = self.rest().first() {
            self.position += 1;
            if let Some(b'+' | b'-') = self.rest().first() {
                self.position += 1;
            }
            self.skip_digits()?;
        }
        Ok(())
    }

    /// Passes over a value of any size and checks its grammar.
    fn skip(&mut self) -> Result<(), Unusual> {
        // The containers around the place that is read, the innermost last: 1 for an object, 0 for a list.
        // The leading 1 marks the end.
        const NONE: u64 = 1;
        let mut around = NONE;
        let mut is_key = false;
        loop {
            match self.peek()? {
                // One place for keys and values, so that the search is compiled into this loop.
                b'"' => {
                    self.position += 1;
                    self.skip_string()?;
                    if is_key {
                        self.expect(b':')?;
                        is_key = false;
                        continue;
                    }
                }
                _ if is_key => return Err(Unusual),
                opening @ (b'{' | b'[') => {
                    self.position += 1;
                    let is_object = opening == b'{';
                    if self.peek()? == if is_object { b'}' } else { b']' } {
                        self.position += 1;
                    } else {
                        if around.leading_zeros() == 0 {
                            return Err(Unusual);
                        }
                        around = around << 1 | u64::from(is_object);
                        is_key = is_object;
                        continue;
                    }
                }
                b't' => self.word("true", ())?,
                b'f' => self.word("false", ())?,
                b'n' => self.word("null", ())?,
                _ => self.skip_number()?,
            }
            loop {
                if around == NONE {
                    return Ok(());
                }
                let is_object = around & 1 == 1;
                match self.take()? {
                    b',' => {
                        is_key = is_object;
                        break;
                    }
                    b'}' if is_object => around >>= 1,
                    b']' if !is_object => around >>= 1,
                    _ => return Err(Unusual),
                }
            }
        }
    }

    /// Lets a visitor read a container, which it must read to the end.
    fn container<T>(
        &mut self,
        read: impl FnOnce(&mut Elements<'_, 'de>) -> Result<T, Unusual>,
        end: u8,
    ) -> Result<T, Unusual> {
        self.position += 1;
        self.depth = self.depth.checked_sub(1).ok_or(Unusual)?;
        let mut elements = Elements { reader: self, end, state: State::Start };
        let value = read(&mut elements)?;
        let ended = elements.state == State::End || !elements.next()?;
        self.depth += 1;
        if ended { Ok(value) } else { Err(Unusual) }
    }
}

impl<'de> de::Deserializer<'de> for &mut Reader<'de> {
    type Error = Unusual;

    fn deserialize_any<V: Visitor<'de>>(self, visitor: V) -> Result<V::Value, Unusual> {
        match self.peek()? {
            b'"' => match self.string()? {
                Cow::Borrowed(text) => visitor.visit_borrowed_str(text),
                Cow::Owned(text) => visitor.visit_string(text),
            },
            b'{' => self.container(|members| visitor.visit_map(members), b'}'),
            b'[' => self.container(|elements| visitor.visit_seq(elements), b']'),
            b't' => visitor.visit_bool(self.word("true", true)?),
            b'f' => visitor.visit_bool(self.word("false", false)?),
            b'n' => {
                self.word("null", ())?;
                visitor.visit_unit()
            }
            b'0'..=b'9' => {
                let start = self.position;
                self.skip_number()?;
                let number = self.text.get(start..self.position).ok_or(Unusual)?;
                visitor.visit_u64(number.parse().map_err(|_| Unusual)?)
            }
            _ => Err(Unusual),
        }
    }

    fn deserialize_option<V: Visitor<'de>>(self, visitor: V) -> Result<V::Value, Unusual> {
        match self.peek()? {
            b'n' => {
                self.word("null", ())?;
                visitor.visit_none()
            }
            _ => visitor.visit_some(self),
        }
    }

    fn deserialize_newtype_struct<V: Visitor<'de>>(
        self,
        name: &'static str,
        visitor: V,
    ) -> Result<V::Value, Unusual> {
        match name {
            RAW_VALUE => {
                self.peek()?;
                let start = self.position;
                self.skip()?;
                visitor.visit_map(Captured(self.text.get(start..self.position)))
            }
            SPANNED => {
                self.peek()?;
                let start = self.position;
                visitor.visit_map(Span { reader: self, start, is_read: false })
            }
            _ => visitor.visit_newtype_struct(self),
        }
    }

    fn deserialize_ignored_any<V: Visitor<'de>>(self, visitor: V) -> Result<V::Value, Unusual> {
        self.skip()?;
        visitor.visit_unit()
    }

    forward_to_deserialize_any! {
        bool i8 i16 i32 i64 i128 u8 u16 u32 u64 u128 f32 f64 char str string bytes byte_buf unit
        unit_struct seq tuple tuple_struct map struct enum identifier
    }
}

/// The members of an object, or the elements of a list.
struct Elements<'r, 'de> {
    reader: &'r mut Reader<'de>,
    end: u8,
    state: State,
}

#[derive(PartialEq, Eq)]
enum State {
    Start,
    Within,
    End,
}

impl Elements<'_, '_> {
    /// Goes to the next element; false at the end, which is passed.
    fn next(&mut self) -> Result<bool, Unusual> {
        let byte = self.reader.peek()?;
        if byte == self.end {
            self.reader.position += 1;
            self.state = State::End;
            return Ok(false);
        }
        match self.state {
            State::Start => self.state = State::Within,
            State::Within if byte == b',' => self.reader.position += 1,
            State::Within | State::End => return Err(Unusual),
        }
        Ok(true)
    }
}

impl<'de> MapAccess<'de> for &mut Elements<'_, 'de> {
    type Error = Unusual;

    fn next_key_seed<K: DeserializeSeed<'de>>(&mut self, seed: K) -> Result<Option<K::Value>, Unusual> {
        if !self.next()? {
            return Ok(None);
        }
        let key = self.reader.string()?;
        self.reader.expect(b':')?;
        let key = match key {
            Cow::Borrowed(key) => seed.deserialize(BorrowedStrDeserializer::new(key)),
            Cow::Owned(key) => seed.deserialize(key.into_deserializer()),
        };
        key.map(Some)
    }

    fn next_value_seed<V: DeserializeSeed<'de>>(&mut self, seed: V) -> Result<V::Value, Unusual> {
        seed.deserialize(&mut *self.reader)
    }
}

impl<'de> SeqAccess<'de> for &mut Elements<'_, 'de> {
    type Error = Unusual;

    fn next_element_seed<T: DeserializeSeed<'de>>(&mut self, seed: T) -> Result<Option<T::Value>, Unusual> {
        if self.next()? { seed.deserialize(&mut *self.reader).map(Some) } else { Ok(None) }
    }
}

/// A value and then its text, for [`Spanned`].
struct Span<'r, 'de> {
    reader: &'r mut Reader<'de>,
    start: usize,
    is_read: bool,
}

impl<'de> MapAccess<'de> for Span<'_, 'de> {
    type Error = Unusual;

    fn next_key_seed<K: DeserializeSeed<'de>>(&mut self, _: K) -> Result<Option<K::Value>, Unusual> {
        Ok(None)
    }

    fn next_value_seed<V: DeserializeSeed<'de>>(&mut self, seed: V) -> Result<V::Value, Unusual> {
        if !std::mem::replace(&mut self.is_read, true) {
            return seed.deserialize(&mut *self.reader);
        }
        let text = self.reader.text.get(self.start..self.reader.position).ok_or(Unusual)?;
        seed.deserialize(BorrowedStrDeserializer::new(text))
    }
}

/// The text of a value, in the form in which `&RawValue` wants it.
struct Captured<'de>(Option<&'de str>);

impl<'de> MapAccess<'de> for Captured<'de> {
    type Error = Unusual;

    fn next_key_seed<K: DeserializeSeed<'de>>(&mut self, seed: K) -> Result<Option<K::Value>, Unusual> {
        seed.deserialize(BorrowedStrDeserializer::new(RAW_VALUE)).map(Some)
    }

    fn next_value_seed<V: DeserializeSeed<'de>>(&mut self, seed: V) -> Result<V::Value, Unusual> {
        seed.deserialize(BorrowedStrDeserializer::new(self.0.take().ok_or(Unusual)?))
    }
}

#[cfg(test)]
mod tests;
