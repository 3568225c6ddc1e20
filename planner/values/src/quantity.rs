//! Kubernetes resource quantities: parsing, exact arithmetic and the canonical text, as `resource.Quantity`
//! of Kubernetes' Go library gives them. Hashes and revision names hang on that text
//! (docs/behaviour/pod-mutation.md#sidecarset-hash), so its quirks are kept: a number that Go takes for
//! canonical keeps the text it was written in (`1.500` and `+5` stay), and powers beyond `E` and `Ei` print
//! without a suffix.

use std::cmp::Ordering;
use std::fmt;
use std::str::FromStr;

/// The smallest power of ten a quantity can hold; smaller parts are rounded up to it.
const NANO: i64 = -9;
const MILLI: i64 = -3;

/// The notation a quantity was written in and is printed in.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Format {
    /// `12e6`
    DecimalExponent,
    /// `12Mi`
    BinarySi,
    /// `12M`
    DecimalSi,
}

/// Why a text is not a quantity.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub enum QuantityError {
    /// Not a number followed by a suffix.
    #[error("quantities must be a number and an optional suffix, such as 500m, 1.5 or 2Gi")]
    Syntax,
    /// No digits where digits are needed.
    #[error("unable to parse numeric part of quantity")]
    Number,
    /// A suffix that means nothing.
    #[error("unable to parse quantity's suffix")]
    Suffix,
    /// More than about 38 significant digits.
    #[error("quantity has more digits than can be represented")]
    TooManyDigits,
}

/// A number with the notation it prints in. Equality and order go by value alone.
#[derive(Clone, Debug)]
pub struct Quantity {
    /// The value is `mantissa * 10^exponent`.
    mantissa: i128,
    exponent: i64,
    format: Format,
    /// The text it was parsed from, where Go would print that text again.
    written: Option<Box<str>>,
}

impl Quantity {
    /// Nothing, which prints as `0`.
    pub const ZERO: Self = Self { mantissa: 0, exponent: 0, format: Format::DecimalSi, written: None };

    /// A whole number of units.
    pub fn from_units(units: i64, format: Format) -> Self {
        Self::new(i128::from(units), 0, format)
    }

    /// A number of thousandths of a unit.
    pub fn from_milli(milli: i64, format: Format) -> Self {
        Self::new(i128::from(milli), MILLI, format)
    }

    fn new(mantissa: i128, exponent: i64, format: Format) -> Self {
        Self { mantissa, exponent, format, written: None }
    }

    /// The notation it prints in.
    pub fn format(&self) -> Format {
        self.format
    }

    /// True for zero in every notation.
    pub fn is_zero(&self) -> bool {
        self.mantissa == 0
    }

    /// True below zero.
    pub fn is_negative(&self) -> bool {
        self.mantissa < 0
    }

    /// Units, fractions rounded away from zero, bounded by the range of i64.
    pub fn units(&self) -> i64 {
        saturate(self.scaled(0))
    }

    /// Thousandths of a unit, fractions rounded away from zero, bounded by the range of i64.
    pub fn milli(&self) -> i64 {
        saturate(self.scaled(MILLI))
    }

    /// The value with fractions of a thousandth rounded away from zero, as Kubernetes' defaults do with
    /// every resource list.
    #[must_use]
    pub fn rounded_up_to_milli(self) -> Self {
        self.rounded_up_to(MILLI)
    }

    fn rounded_up_to(self, exponent: i64) -> Self {
        if self.exponent >= exponent {
            return self;
        }
        Self::new(self.scaled(exponent), exponent, self.format)
    }

    /// The sum, in the notation of `self`, or of `other` where `self` is zero. Beyond 38 digits it
    /// stays at the largest number it can hold.
    #[must_use]
    pub fn plus(&self, other: &Self) -> Self {
        let format = if self.is_zero() { other.format } else { self.format };
        let exponent = match (self.is_zero(), other.is_zero()) {
            (true, _) => other.exponent,
            (_, true) => self.exponent,
            _ => self.exponent.min(other.exponent),
        };
        Self::new(self.scaled(exponent).saturating_add(other.scaled(exponent)), exponent, format)
    }

    /// The difference, under the rules of [`Quantity::plus`].
    #[must_use]
    pub fn minus(&self, other: &Self) -> Self {
        self.plus(&other.negated())
    }

    /// The value with the other sign.
    #[must_use]
    pub fn negated(&self) -> Self {
        Self::new(self.mantissa.saturating_neg(), self.exponent, self.format)
    }

    /// The multiple of `10^exponent` that is the value, fractions rounded away from zero.
    fn scaled(&self, exponent: i64) -> i128 {
        let shift = self.exponent.saturating_sub(exponent);
        match (power_of_ten(shift.unsigned_abs()), shift >= 0) {
            (Some(factor), true) => self.mantissa.saturating_mul(factor),
            (Some(divisor), false) => {
                let exact = self.mantissa % divisor == 0;
                self.mantissa / divisor + if exact { 0 } else { self.mantissa.signum() }
            }
            (None, true) => match self.mantissa.signum() {
                0 => 0,
                1 => i128::MAX,
                _ => i128::MIN,
            },
            (None, false) => self.mantissa.signum(),
        }
    }

    /// The value as a whole number, if it is one that fits.
    fn whole(&self) -> Option<i128> {
        let factor = power_of_ten(self.exponent.unsigned_abs());
        if self.exponent >= 0 {
            return self.mantissa.checked_mul(factor?);
        }
        factor.filter(|divisor| self.mantissa % divisor == 0).map(|divisor| self.mantissa / divisor)
    }

    /// The canonical text in decimal notation: an exponent that is a multiple of three.
    fn write_decimal(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        let (mut mantissa, mut exponent) = (self.mantissa, self.exponent);
        while mantissa % 10 == 0 && mantissa != 0 {
            mantissa /= 10;
            exponent += 1;
        }
        let zeros = match exponent.rem_euclid(3) {
            1 => "0",
            2 => "00",
            _ => "",
        };
        exponent -= exponent.rem_euclid(3);
        write!(formatter, "{mantissa}{zeros}")?;
        if self.format == Format::DecimalExponent {
            return if exponent == 0 { Ok(()) } else { write!(formatter, "e{exponent}") };
        }
        formatter.write_str(match exponent {
            -9 => "n",
            -6 => "u",
            -3 => "m",
            3 => "k",
            6 => "M",
            9 => "G",
            12 => "T",
            15 => "P",
            18 => "E",
            _ => "",
        })
    }
}

/// Prints the canonical text.
impl fmt::Display for Quantity {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        if let Some(written) = &self.written {
            return formatter.write_str(written);
        }
        if self.is_zero() {
            return formatter.write_str("0");
        }
        let whole = if self.format == Format::BinarySi { self.whole() } else { None };
        let Some(mut number) = whole.filter(|number| number.unsigned_abs() >= 1024) else {
            return self.write_decimal(formatter);
        };
        let mut power = 0;
        while number % 1024 == 0 {
            number /= 1024;
            power += 1;
        }
        let suffix = match power {
            1 => "Ki",
            2 => "Mi",
            3 => "Gi",
            4 => "Ti",
            5 => "Pi",
            6 => "Ei",
            _ => "",
        };
        write!(formatter, "{number}{suffix}")
    }
}

impl PartialEq for Quantity {
    fn eq(&self, other: &Self) -> bool {
        self.cmp(other) == Ordering::Equal
    }
}

impl Eq for Quantity {}

impl PartialOrd for Quantity {
    fn partial_cmp(&self, other: &Self) -> Option<Ordering> {
        Some(self.cmp(other))
    }
}

impl Ord for Quantity {
    fn cmp(&self, other: &Self) -> Ordering {
        let by_sign = self.mantissa.signum().cmp(&other.mantissa.signum());
        if by_sign != Ordering::Equal || self.is_zero() {
            return by_sign;
        }
        if self.exponent < other.exponent {
            return other.cmp(self).reverse();
        }
        let shift = self.exponent.saturating_sub(other.exponent).unsigned_abs();
        match power_of_ten(shift).and_then(|factor| self.mantissa.checked_mul(factor)) {
            Some(mantissa) => mantissa.cmp(&other.mantissa),
            // Beyond every mantissa, on the side of its sign.
            None => self.mantissa.cmp(&0),
        }
    }
}

impl FromStr for Quantity {
    type Err = QuantityError;

    fn from_str(text: &str) -> Result<Self, QuantityError> {
        if text.is_empty() {
            return Err(QuantityError::Syntax);
        }
        let parts = Parts::split(text)?;
        match parts.suffix()? {
            Suffix::Decimal(power) => parts.decimal(text, power, Format::DecimalSi),
            Suffix::Exponent(power) => parts.decimal(text, power, Format::DecimalExponent),
            Suffix::Binary(power) => parts.binary(text, power),
        }
    }
}

/// What a suffix multiplies by.
enum Suffix {
    /// A power of ten, written as a letter.
    Decimal(i32),
    /// A power of ten, written in digits.
    Exponent(i32),
    /// A power of 1024.
    Binary(u32),
}

/// The pieces of a quantity's text.
struct Parts<'a> {
    negative: bool,
    /// Digits before the point without leading zeros, `0` if there are none.
    whole: &'a str,
    /// Digits after the point.
    fraction: &'a str,
    suffix: &'a str,
    /// The text has at least one digit.
    has_digits: bool,
}

impl<'a> Parts<'a> {
    fn split(text: &'a str) -> Result<Self, QuantityError> {
        let unsigned = text.strip_prefix(['+', '-']).unwrap_or(text);
        let (digits, rest) = split_digits(unsigned);
        let (fraction, suffix) = match rest.strip_prefix('.') {
            Some(rest) => split_digits(rest),
            None => ("", rest),
        };
        let exponent = suffix.trim_start_matches(|c| "eEinumkKMGTP".contains(c));
        let (_, trailing) = split_digits(exponent.strip_prefix(['+', '-']).unwrap_or(exponent));
        if !trailing.is_empty() {
            return Err(QuantityError::Syntax);
        }
        let whole = match digits.trim_start_matches('0') {
            "" => "0",
            whole => whole,
        };
        let has_digits = !(digits.is_empty() && fraction.is_empty());
        Ok(Self { negative: text.starts_with('-'), whole, fraction, suffix, has_digits })
    }

    fn suffix(&self) -> Result<Suffix, QuantityError> {
        Ok(match self.suffix {
            "n" => Suffix::Decimal(-9),
            "u" => Suffix::Decimal(-6),
            "m" => Suffix::Decimal(-3),
            "" => Suffix::Decimal(0),
            "k" => Suffix::Decimal(3),
            "M" => Suffix::Decimal(6),
            "G" => Suffix::Decimal(9),
            "T" => Suffix::Decimal(12),
            "P" => Suffix::Decimal(15),
            "E" => Suffix::Decimal(18),
            "Ki" => Suffix::Binary(1),
            "Mi" => Suffix::Binary(2),
            "Gi" => Suffix::Binary(3),
            "Ti" => Suffix::Binary(4),
            "Pi" => Suffix::Binary(5),
            "Ei" => Suffix::Binary(6),
            other => {
                let digits = other.strip_prefix(['e', 'E']).ok_or(QuantityError::Suffix)?;
                Suffix::Exponent(digits.parse().map_err(|_| QuantityError::Suffix)?)
            }
        })
    }

    /// The mantissa and the power of ten of the digits.
    fn number(&self) -> Result<(i128, i64), QuantityError> {
        let digits = format!("{}{}", self.whole, self.fraction);
        let significant = digits.trim_end_matches('0');
        let exponent = length(&digits) - length(significant) - length(self.fraction);
        if significant.is_empty() {
            return Ok((0, 0));
        }
        let mantissa: i128 = significant.parse().map_err(|_| QuantityError::TooManyDigits)?;
        Ok((if self.negative { -mantissa } else { mantissa }, exponent))
    }

    fn decimal(&self, text: &str, power: i32, format: Format) -> Result<Quantity, QuantityError> {
        let (mantissa, exponent) = self.number()?;
        let mut quantity = Quantity::new(mantissa, exponent + i64::from(power), format);
        let scale = i64::from(power) - length(self.fraction);
        let short = self.whole.len() + self.fraction.len() <= 18 && scale >= NANO;
        if !short {
            self.require_digits()?;
            return Ok(quantity.rounded_up_to(NANO));
        }
        // Go's test for "is canonical already".
        let thousands = format!("{}{}", self.whole, self.fraction).ends_with("000");
        if scale % 3 == 0 && !thousands && !self.whole.starts_with('0') {
            quantity.written = Some(text.into());
        }
        Ok(quantity)
    }

    fn binary(&self, text: &str, power: u32) -> Result<Quantity, QuantityError> {
        let cap = Quantity::from_units(if self.negative { -i64::MAX } else { i64::MAX }, Format::BinarySi);
        let factor = 1024_i128.saturating_pow(power);
        let whole: i128 = self.whole.parse().unwrap_or(i128::MAX);
        if whole.saturating_mul(factor) > i128::from(i64::MAX) {
            return Ok(cap);
        }
        let (digits, exponent) = self.number()?;
        let mantissa = digits.checked_mul(factor).ok_or(QuantityError::TooManyDigits)?;
        let mut quantity = Quantity::new(mantissa, exponent, Format::BinarySi);
        if self.fraction.is_empty() && self.whole.len() + 3 * power as usize <= 14 {
            // Go's test for "is canonical already": not divisible by 8, so not by 1024.
            if whole % 8 != 0 {
                quantity.written = Some(text.into());
            }
            return Ok(quantity);
        }
        self.require_digits()?;
        quantity = quantity.rounded_up_to(NANO);
        if quantity.scaled(0).unsigned_abs() > cap.mantissa.unsigned_abs() {
            return Ok(cap);
        }
        // Below one: rounded up to one, but not one.
        if quantity.scaled(0).unsigned_abs() <= 1 && quantity.whole().is_none() {
            quantity.format = Format::DecimalSi;
        }
        Ok(quantity)
    }

    fn require_digits(&self) -> Result<(), QuantityError> {
        if self.has_digits { Ok(()) } else { Err(QuantityError::Number) }
    }
}

fn split_digits(text: &str) -> (&str, &str) {
    let rest = text.trim_start_matches(|c: char| c.is_ascii_digit());
    (text.strip_suffix(rest).unwrap_or(text), rest)
}

fn length(text: &str) -> i64 {
    i64::try_from(text.len()).unwrap_or(i64::MAX)
}

fn power_of_ten(power: u64) -> Option<i128> {
    10_i128.checked_pow(u32::try_from(power).ok()?)
}

fn saturate(number: i128) -> i64 {
    i64::try_from(number).unwrap_or(if number < 0 { i64::MIN } else { i64::MAX })
}

#[cfg(test)]
mod tests;
