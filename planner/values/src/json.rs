//! JSON text read fast where it is plain.
//!
//! Reviews are what this program reads most, and most of a review is skipped. [`from_str`] gives what
//! [`serde_json::from_str`] gives, by a reader that is made for the common document: it skips without
//! interpreting the text, and borrows every string. It need not know everything: at whatever is
//! unusual or wrong (a fraction where a number is wanted, deep nesting, a wrong type) it stops, and
//! `serde_json` reads the document from the start. So there is one authority for odd values and for
//! errors.
//!
//! Invariant: what this reader accepts `serde_json` accepts too, with the same result.

use std::fmt;
use std::marker::PhantomData;

use serde::Deserialize;
use serde::de::value::BorrowedStrDeserializer;
use serde::de::{self, DeserializeSeed, MapAccess, SeqAccess, Visitor};
use serde::forward_to_deserialize_any;
use serde_json::value::RawValue;

/// The name under which `&RawValue` asks for the text of a value. It is private to `serde_json`; were it
/// changed there, documents with such values would be read by `serde_json`, and a test here would fail.
pub(crate) const RAW_VALUE: &str = "$serde_json::private::RawValue";

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
    let mut reader = Reader { text, rest: text.as_bytes(), depth: DEPTH };
    let value = T::deserialize(&mut reader)?;
    if without_space(reader.rest).is_empty() { Ok(value) } else { Err(Unusual) }
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

/// `bytes` from the first one on that a JSON string cannot hold as it is: a quote, a backslash or a control
/// character. Empty where there is none.
#[inline]
pub(crate) fn from_special(bytes: &[u8]) -> &[u8] {
    const ONES: u64 = u64::MAX / 255;
    const HIGH: u64 = ONES << 7;
    let mut rest = bytes;
    while let Some((block, behind)) = rest.split_first_chunk() {
        // Eight bytes at a time. A difference sets the high bit of each byte that is smaller, and perhaps
        // of some behind it, which does not matter: the first one counts.
        let word = u64::from_le_bytes(*block);
        // With bit 1 flipped the quote is 0x20, next to the control characters, and 0x20 and 0x21 are not.
        let quote_or_control = (word ^ (ONES * 0x02)).wrapping_sub(ONES * 0x21);
        let backslash = (word ^ (ONES * 0x5c)).wrapping_sub(ONES);
        let special = (quote_or_control | backslash) & !word & HIGH;
        if special != 0 {
            return rest.get(special.trailing_zeros() as usize / 8..).unwrap_or_default();
        }
        rest = behind;
    }
    while let [plain, behind @ ..] = rest
        && !matches!(plain, b'"' | b'\\' | ..0x20)
    {
        rest = behind;
    }
    rest
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

/// The next token's first byte, and what is behind that.
#[inline(always)]
fn token(rest: &[u8]) -> Result<(u8, &[u8]), Unusual> {
    match rest {
        [byte, behind @ ..] if *byte > b' ' => Ok((*byte, behind)),
        _ => without_space(rest).split_first().map(|(byte, behind)| (*byte, behind)).ok_or(Unusual),
    }
}

#[inline(never)]
fn without_space(mut rest: &[u8]) -> &[u8] {
    while let [b' ' | b'\n' | b'\t' | b'\r', behind @ ..] = rest {
        rest = behind;
    }
    rest
}

/// What is behind a token of one byte, which must come next.
#[inline(always)]
fn behind_byte(expected: u8, rest: &[u8]) -> Result<&[u8], Unusual> {
    let (byte, behind) = token(rest)?;
    if byte == expected { Ok(behind) } else { Err(Unusual) }
}

/// What is behind a string, given what is behind its first quote.
#[inline(always)]
fn behind_string(mut rest: &[u8]) -> Result<&[u8], Unusual> {
    loop {
        match from_special(rest) {
            [b'"', behind @ ..] => return Ok(behind),
            [b'\\', behind @ ..] => rest = behind_escape(behind)?,
            _ => return Err(Unusual),
        }
    }
}

/// What is behind an escape, given what is behind its backslash.
#[inline(never)]
fn behind_escape(rest: &[u8]) -> Result<&[u8], Unusual> {
    match rest {
        [b'"' | b'\\' | b'/' | b'b' | b'f' | b'n' | b'r' | b't', behind @ ..] => Ok(behind),
        [b'u', a, b, c, d, behind @ ..] if [a, b, c, d].iter().all(|digit| digit.is_ascii_hexdigit()) => {
            Ok(behind)
        }
        _ => Err(Unusual),
    }
}

/// What is behind the key of a member and its colon.
#[inline(always)]
fn behind_key(rest: &[u8]) -> Result<&[u8], Unusual> {
    behind_byte(b':', behind_string(behind_byte(b'"', rest)?)?)
}

/// What is behind one digit or more.
fn behind_digits(rest: &[u8]) -> Result<&[u8], Unusual> {
    let [b'0'..=b'9', behind @ ..] = rest else { return Err(Unusual) };
    let mut rest = behind;
    while let [b'0'..=b'9', behind @ ..] = rest {
        rest = behind;
    }
    Ok(rest)
}

/// What is behind a number.
fn behind_number(rest: &[u8]) -> Result<&[u8], Unusual> {
    let rest = rest.strip_prefix(b"-").unwrap_or(rest);
    let mut rest = match rest {
        // No digit may follow; one that does is not what may follow a value.
        [b'0', behind @ ..] => behind,
        _ => behind_digits(rest)?,
    };
    if let [b'.', fraction @ ..] = rest {
        rest = behind_digits(fraction)?;
    }
    if let [b'e' | b'E', exponent @ ..] = rest {
        rest = behind_digits(match exponent {
            [b'+' | b'-', digits @ ..] => digits,
            digits => digits,
        })?;
    }
    Ok(rest)
}

/// What is behind a value of any size, whose grammar is checked.
fn behind_value(mut rest: &[u8]) -> Result<&[u8], Unusual> {
    // The containers around the place that is read, the innermost last: 1 for an object, 0 for a list.
    // The leading 1 marks the end.
    const NONE: u64 = 1;
    let mut around = NONE;
    loop {
        let (first, behind) = token(rest)?;
        rest = match first {
            b'"' => behind_string(behind)?,
            b'{' | b'[' => {
                let is_object = first == b'{';
                let (next, behind_next) = token(behind)?;
                if next == if is_object { b'}' } else { b']' } {
                    behind_next
                } else {
                    if around.leading_zeros() == 0 {
                        return Err(Unusual);
                    }
                    around = around << 1 | u64::from(is_object);
                    rest = if is_object { behind_key(behind)? } else { behind };
                    continue;
                }
            }
            b't' => behind.strip_prefix(b"rue").ok_or(Unusual)?,
            b'f' => behind.strip_prefix(b"alse").ok_or(Unusual)?,
            b'n' => behind.strip_prefix(b"ull").ok_or(Unusual)?,
            _ => behind_number(without_space(rest))?,
        };
        loop {
            if around == NONE {
                return Ok(rest);
            }
            let is_object = around & 1 == 1;
            let (byte, behind) = token(rest)?;
            rest = behind;
            match byte {
                b',' => {
                    if is_object {
                        rest = behind_key(rest)?;
                    }
                    break;
                }
                b'}' if is_object => around >>= 1,
                b']' if !is_object => around >>= 1,
                _ => return Err(Unusual),
            }
        }
    }
}

struct Reader<'de> {
    text: &'de str,
    /// The end of `text` that is not read yet.
    rest: &'de [u8],
    /// Containers that may still be opened within one another.
    depth: u8,
}

impl<'de> Reader<'de> {
    /// The first byte of the next token, which becomes the first of what is not read yet.
    #[inline]
    fn peek(&mut self) -> Result<u8, Unusual> {
        if let [byte, ..] = self.rest
            && *byte > b' '
        {
            return Ok(*byte);
        }
        self.rest = without_space(self.rest);
        self.rest.first().copied().ok_or(Unusual)
    }

    /// The text from `start` to `end`, both of them ends of the text.
    #[inline]
    fn between(&self, start: &[u8], end: &[u8]) -> Result<&'de str, Unusual> {
        let position = |rest: &[u8]| self.text.len().wrapping_sub(rest.len());
        self.text.get(position(start)..position(end)).ok_or(Unusual)
    }

    fn word<T>(&mut self, word: &str, value: T) -> Result<T, Unusual> {
        self.rest = self.rest.strip_prefix(word.as_bytes()).ok_or(Unusual)?;
        Ok(value)
    }

    /// Passes a string to a visitor, as it is in the text where it holds no escapes.
    #[inline]
    fn string<V: Visitor<'de>>(&mut self, visitor: V) -> Result<V::Value, Unusual> {
        let inside = behind_byte(b'"', self.rest)?;
        let special = from_special(inside);
        let [b'"', behind @ ..] = special else { return visitor.visit_string(self.escaped_string()?) };
        self.rest = behind;
        visitor.visit_borrowed_str(self.between(inside, special)?)
    }

    #[inline(never)]
    fn escaped_string(&mut self) -> Result<String, Unusual> {
        serde_json::from_str(self.raw()?).map_err(|_| Unusual)
    }

    /// Passes over a value and gives its text.
    fn raw(&mut self) -> Result<&'de str, Unusual> {
        self.peek()?;
        let start = self.rest;
        self.rest = behind_value(start)?;
        self.between(start, self.rest)
    }

    /// Lets a visitor read a container, which it must read to the end.
    fn container<T>(
        &mut self,
        start: u8,
        end: u8,
        read: impl FnOnce(&mut Elements<'_, 'de>) -> Result<T, Unusual>,
    ) -> Result<T, Unusual> {
        self.rest = behind_byte(start, self.rest)?;
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
            b'"' => self.string(visitor),
            b'{' => self.deserialize_map(visitor),
            b'[' => self.deserialize_seq(visitor),
            b't' => visitor.visit_bool(self.word("true", true)?),
            b'f' => visitor.visit_bool(self.word("false", false)?),
            b'n' => {
                self.word("null", ())?;
                visitor.visit_unit()
            }
            b'0'..=b'9' => {
                let number = self.raw()?;
                visitor.visit_u64(number.parse().map_err(|_| Unusual)?)
            }
            _ => Err(Unusual),
        }
    }

    #[inline]
    fn deserialize_str<V: Visitor<'de>>(self, visitor: V) -> Result<V::Value, Unusual> {
        self.string(visitor)
    }

    #[inline]
    fn deserialize_string<V: Visitor<'de>>(self, visitor: V) -> Result<V::Value, Unusual> {
        self.string(visitor)
    }

    #[inline]
    fn deserialize_identifier<V: Visitor<'de>>(self, visitor: V) -> Result<V::Value, Unusual> {
        self.string(visitor)
    }

    fn deserialize_map<V: Visitor<'de>>(self, visitor: V) -> Result<V::Value, Unusual> {
        self.container(b'{', b'}', |members| visitor.visit_map(members))
    }

    /// A struct in the form of a list is unusual.
    fn deserialize_struct<V: Visitor<'de>>(
        self,
        _: &'static str,
        _: &'static [&'static str],
        visitor: V,
    ) -> Result<V::Value, Unusual> {
        self.deserialize_map(visitor)
    }

    fn deserialize_seq<V: Visitor<'de>>(self, visitor: V) -> Result<V::Value, Unusual> {
        self.container(b'[', b']', |elements| visitor.visit_seq(elements))
    }

    #[inline]
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
                let text = self.raw()?;
                visitor.visit_map(Captured(Some(text)))
            }
            SPANNED => {
                self.peek()?;
                let start = self.rest;
                visitor.visit_map(Span { reader: self, start, is_read: false })
            }
            _ => visitor.visit_newtype_struct(self),
        }
    }

    fn deserialize_ignored_any<V: Visitor<'de>>(self, visitor: V) -> Result<V::Value, Unusual> {
        self.rest = behind_value(self.rest)?;
        visitor.visit_unit()
    }

    forward_to_deserialize_any! {
        bool i8 i16 i32 i64 i128 u8 u16 u32 u64 u128 f32 f64 char bytes byte_buf unit unit_struct tuple
        tuple_struct enum
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
        let (byte, behind) = token(self.reader.rest)?;
        if byte == self.end {
            self.reader.rest = behind;
            self.state = State::End;
            return Ok(false);
        }
        match self.state {
            State::Start => self.state = State::Within,
            State::Within if byte == b',' => self.reader.rest = behind,
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
        // Whatever the seed wants to see, a key is a string.
        if self.reader.peek()? != b'"' {
            return Err(Unusual);
        }
        let key = seed.deserialize(&mut *self.reader)?;
        self.reader.rest = behind_byte(b':', self.reader.rest)?;
        Ok(Some(key))
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
    start: &'de [u8],
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
        let text = self.reader.between(self.start, self.reader.rest)?;
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
