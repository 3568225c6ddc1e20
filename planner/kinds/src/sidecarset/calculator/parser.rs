//! From the text of an expression to its tree.

use super::{CalculatorError, MAX_DEPTH, Node, Operator, Value};
use values::quantity::Quantity;

/// The units that a number may have.
const UNITS: &[&str] = &["m", "k", "M", "G", "T", "P", "Ki", "Mi", "Gi", "Ti", "Pi"];

#[derive(Clone, Debug, PartialEq)]
enum Token<'a> {
    Number(f64),
    Quantity(Quantity),
    Name(&'a str),
    Symbol(char),
    End,
}

struct Parser<'a> {
    text: &'a str,
    /// What is not read yet.
    rest: &'a str,
    /// The next token and where it starts.
    token: Token<'a>,
    start: usize,
    malformed: Option<String>,
}

/// The tree, and the first number whose unit means nothing.
pub(super) fn parse(text: &str) -> Result<(Node, Option<String>), CalculatorError> {
    let mut parser = Parser { text, rest: text, token: Token::End, start: 0, malformed: None };
    parser.advance()?;
    let root = parser.sum(0)?;
    match parser.token {
        Token::End => Ok((root, parser.malformed)),
        _ => Err(parser.unexpected()),
    }
}

impl<'a> Parser<'a> {
    fn sum(&mut self, depth: usize) -> Result<Node, CalculatorError> {
        let mut left = self.product(depth)?;
        loop {
            let operator = match self.token {
                Token::Symbol('+') => Operator::Add,
                Token::Symbol('-') => Operator::Subtract,
                _ => return Ok(left),
            };
            self.advance()?;
            left = Node::Binary(operator, Box::new(left), Box::new(self.product(depth)?));
            self.limit_length()?;
        }
    }

    fn product(&mut self, depth: usize) -> Result<Node, CalculatorError> {
        let mut left = self.unary(depth)?;
        loop {
            let operator = match self.token {
                Token::Symbol('*') => Operator::Multiply,
                Token::Symbol('/') => Operator::Divide,
                _ => return Ok(left),
            };
            self.advance()?;
            left = Node::Binary(operator, Box::new(left), Box::new(self.unary(depth)?));
            self.limit_length()?;
        }
    }

    fn unary(&mut self, depth: usize) -> Result<Node, CalculatorError> {
        if depth > MAX_DEPTH {
            return Err(self.problem("syntax error: nested too deeply"));
        }
        if self.token != Token::Symbol('-') {
            return self.operand(depth);
        }
        self.advance()?;
        Ok(Node::Negate(Box::new(self.unary(depth + 1)?)))
    }

    fn operand(&mut self, depth: usize) -> Result<Node, CalculatorError> {
        let node = match std::mem::replace(&mut self.token, Token::End) {
            Token::Number(number) => Node::Literal(Value::Number(number)),
            Token::Quantity(quantity) => Node::Literal(Value::Quantity(quantity)),
            Token::Symbol('(') => {
                self.advance()?;
                let inner = self.sum(depth + 1)?;
                if self.token != Token::Symbol(')') {
                    return Err(self.unexpected());
                }
                inner
            }
            Token::Name(name) => {
                self.advance()?;
                let name = name.to_lowercase();
                if self.token != Token::Symbol('(') {
                    return Ok(Node::Variable(name));
                }
                Node::Call(name, self.arguments(depth)?)
            }
            token => {
                self.token = token;
                return Err(self.unexpected());
            }
        };
        self.advance()?;
        Ok(node)
    }

    /// The arguments of a call; the closing parenthesis is still to be taken.
    fn arguments(&mut self, depth: usize) -> Result<Vec<Node>, CalculatorError> {
        let mut arguments = Vec::new();
        self.advance()?;
        if self.token == Token::Symbol(')') {
            return Ok(arguments);
        }
        loop {
            arguments.push(self.sum(depth + 1)?);
            match self.token {
                Token::Symbol(',') => self.advance()?,
                Token::Symbol(')') => return Ok(arguments),
                _ => return Err(self.unexpected()),
            }
        }
    }

    fn advance(&mut self) -> Result<(), CalculatorError> {
        let rest = self.rest.trim_start();
        self.start = self.text.len() - rest.len();
        let Some(first) = rest.chars().next() else {
            (self.rest, self.token) = (rest, Token::End);
            return Ok(());
        };
        if first.is_ascii_digit() || first == '.' {
            return self.number(rest);
        }
        let token = if first.is_ascii_alphabetic() {
            let (name, rest) = split(rest, |c| c.is_ascii_alphanumeric() || c == '_');
            self.rest = rest;
            Token::Name(name)
        } else {
            self.rest = rest.get(first.len_utf8()..).unwrap_or_default();
            Token::Symbol(first)
        };
        self.token = token;
        Ok(())
    }

    fn number(&mut self, text: &'a str) -> Result<(), CalculatorError> {
        let (digits, rest) = split(text, |c| c.is_ascii_digit() || c == '.');
        let (exponent, rest) = split_exponent(rest);
        let (unit, rest) = split(rest, |c| c.is_ascii_alphanumeric() || c == '_' || c == '%' || c == '.');
        self.rest = rest;
        let literal = text.strip_suffix(rest).unwrap_or(text);
        if UNITS.contains(&unit) && !exponent.is_empty() {
            return Err(self.problem(&format!("syntax error: invalid number \"{literal}\"")));
        }
        let number = format!("{digits}{exponent}").parse::<f64>().ok();
        let token = match (unit, number) {
            ("", Some(number)) => Some(Token::Number(number)),
            ("%", Some(number)) => Some(Token::Number(number / 100.0)),
            (unit, Some(_)) if UNITS.contains(&unit) => literal.parse().ok().map(Token::Quantity),
            _ => None,
        };
        if token.is_none() && self.malformed.is_none() {
            self.malformed = Some(literal.to_owned());
        }
        self.token = token.unwrap_or(Token::Number(0.0));
        Ok(())
    }

    /// Long chains of operators make deep trees; no sensible expression is that long.
    fn limit_length(&self) -> Result<(), CalculatorError> {
        const MAX_LENGTH: usize = 4096;
        if self.start > MAX_LENGTH {
            Err(self.problem("syntax error: expression is too long"))
        } else {
            Ok(())
        }
    }

    fn unexpected(&self) -> CalculatorError {
        self.problem(match self.token {
            Token::End => "syntax error: unexpected end",
            _ => "syntax error",
        })
    }

    fn problem(&self, problem: &str) -> CalculatorError {
        let before = self.text.get(..self.start).unwrap_or_default();
        let line_start = before.rfind('\n').map_or(0, |newline| newline + 1);
        CalculatorError::Syntax {
            problem: problem.to_owned(),
            line: before.matches('\n').count() + 1,
            column: before.get(line_start..).unwrap_or_default().chars().count() + 1,
        }
    }
}

/// An exponent, if one follows: `e`, a sign perhaps, and digits.
fn split_exponent(text: &str) -> (&str, &str) {
    let Some(digits) = text.strip_prefix(['e', 'E']) else { return ("", text) };
    let unsigned = digits.strip_prefix(['+', '-']).unwrap_or(digits);
    let (number, rest) = split(unsigned, |c| c.is_ascii_digit());
    if number.is_empty() { ("", text) } else { (text.strip_suffix(rest).unwrap_or(text), rest) }
}

fn split(text: &str, belongs: impl Fn(char) -> bool) -> (&str, &str) {
    let end = text.find(|c| !belongs(c)).unwrap_or(text.len());
    text.split_at_checked(end).unwrap_or((text, ""))
}
