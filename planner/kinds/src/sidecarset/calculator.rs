//! The expression language of `resourcesPolicy` (docs/behaviour/sidecarset.md#resource-expressions).
//!
//! ```text
//!   sum     = product { ("+" | "-") product }
//!   product = unary { ("*" | "/") unary }
//!   unary   = "-" unary | operand
//!   operand = number | quantity | variable | "(" sum ")" | ("max" | "min") "(" sum { "," sum } ")"
//! ```
//!
//! A value is a number or a quantity; a number that meets a quantity becomes one. The text has one
//! variable, `memory` where that word occurs in it and `cpu` elsewhere, and that word also decides how a
//! result without unit is read.

use std::fmt;

use thiserror::Error;

use values::quantity::{Format, Quantity};

mod parser;

/// How deep parentheses and signs may nest.
const MAX_DEPTH: usize = 100;

/// Why an expression has no value. The texts are those that users of OpenKruise know.
#[derive(Clone, Debug, Error, PartialEq)]
pub enum CalculatorError {
    /// The text does not follow the grammar.
    #[error("parse error: {problem} at line {line}, col {column}")]
    Syntax {
        /// What was met.
        problem: String,
        /// Line, from 1.
        line: usize,
        /// Column in characters, from 1.
        column: usize,
    },
    /// A function other than `max` and `min`.
    #[error("unknown function: {0}")]
    UnknownFunction(String),
    /// `max` and `min` take two arguments.
    #[error("{function} function requires exactly 2 arguments, got {got}")]
    ArgumentCount {
        /// The function.
        function: &'static str,
        /// How many arguments it got.
        got: usize,
    },
    /// A name other than the expression's variable.
    #[error("undefined variable: {0}")]
    UndefinedVariable(String),
    /// A quantity times a quantity.
    #[error("multiplication of two quantities")]
    QuantityProduct,
    /// Anything divided by a quantity.
    #[error("division by quantity")]
    QuantityDivisor,
    /// A division by zero.
    #[error("division by zero")]
    ZeroDivisor,
    /// Resources are never negative.
    #[error("calculation result is negative: {0}")]
    Negative(Value),
}

/// A value of the language.
#[derive(Clone, Debug, PartialEq)]
pub enum Value {
    /// A plain number.
    Number(f64),
    /// An amount of a resource.
    Quantity(Quantity),
}

impl fmt::Display for Value {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Number(number) => write!(formatter, "{number}"),
            Self::Quantity(quantity) => write!(formatter, "{quantity}"),
        }
    }
}

/// A parsed expression, ready to be evaluated for many Pods.
#[derive(Clone, Debug, PartialEq)]
pub struct Expression {
    root: Node,
    style: Style,
    malformed: Option<String>,
}

/// Which variable an expression has, and how a plain number is read as its result.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Style {
    /// Cores: `0.5` is `500m`.
    Cpu,
    /// Bytes: fractions are cut off.
    Memory,
}

#[derive(Clone, Debug, PartialEq)]
enum Node {
    Literal(Value),
    /// The name in lower case.
    Variable(String),
    Negate(Box<Node>),
    Binary(Operator, Box<Node>, Box<Node>),
    /// The name in lower case and the arguments.
    Call(String, Vec<Node>),
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Operator {
    Add,
    Subtract,
    Multiply,
    Divide,
}

impl Expression {
    /// Reads an expression. Numbers with an unknown unit, such as `100X`, count as 0: objects that hold
    /// them were accepted once. See [`Expression::malformed_number`].
    ///
    /// # Errors
    /// [`CalculatorError::Syntax`].
    pub fn parse(text: &str) -> Result<Self, CalculatorError> {
        let style = if text.contains("memory") { Style::Memory } else { Style::Cpu };
        let (root, malformed) = parser::parse(text)?;
        Ok(Self { root, style, malformed })
    }

    /// The first number whose unit means nothing, for a rule that refuses such expressions.
    pub fn malformed_number(&self) -> Option<&str> {
        self.malformed.as_deref()
    }

    /// The result for a value of the variable.
    ///
    /// # Errors
    /// Whatever the operands do not allow, and a negative result.
    pub fn evaluate(&self, variable: &Value) -> Result<Quantity, CalculatorError> {
        let value = self.node(&self.root, variable)?;
        let negative = match &value {
            Value::Number(number) => *number < 0.0,
            Value::Quantity(quantity) => quantity.is_negative(),
        };
        match value {
            value if negative => Err(CalculatorError::Negative(value)),
            Value::Quantity(quantity) => Ok(quantity),
            Value::Number(number) if self.style == Style::Memory => {
                Ok(Quantity::from_units(number as i64, Format::BinarySi))
            }
            Value::Number(number) => Ok(quantity_of(number)),
        }
    }

    fn node(&self, node: &Node, variable: &Value) -> Result<Value, CalculatorError> {
        match node {
            Node::Literal(value) => Ok(value.clone()),
            Node::Variable(name) => {
                let known = match self.style {
                    Style::Cpu => "cpu",
                    Style::Memory => "memory",
                };
                if name == known {
                    Ok(variable.clone())
                } else {
                    Err(CalculatorError::UndefinedVariable(name.clone()))
                }
            }
            Node::Negate(node) => Ok(match self.node(node, variable)? {
                Value::Number(number) => Value::Number(-number),
                Value::Quantity(quantity) => Value::Quantity(quantity.negated()),
            }),
            Node::Binary(operator, left, right) => {
                operator.apply(self.node(left, variable)?, self.node(right, variable)?)
            }
            Node::Call(name, arguments) => self.call(name, arguments, variable),
        }
    }

    fn call(&self, name: &str, arguments: &[Node], variable: &Value) -> Result<Value, CalculatorError> {
        let function = match name {
            "max" => "max",
            "min" => "min",
            _ => return Err(CalculatorError::UnknownFunction(name.to_owned())),
        };
        let [left, right] = arguments else {
            return Err(CalculatorError::ArgumentCount { function, got: arguments.len() });
        };
        let (left, right) = (self.node(left, variable)?, self.node(right, variable)?);
        if let (Value::Number(left), Value::Number(right)) = (&left, &right) {
            return Ok(Value::Number(if function == "max" { left.max(*right) } else { left.min(*right) }));
        }
        let (left, right) = (left.into_quantity(), right.into_quantity());
        let left_wins = if function == "max" { left >= right } else { left <= right };
        Ok(Value::Quantity(if left_wins { left } else { right }))
    }
}

impl Operator {
    fn apply(self, left: Value, right: Value) -> Result<Value, CalculatorError> {
        use Value::{Number, Quantity};
        Ok(match (self, left, right) {
            (Self::Divide, _, Quantity(_)) => return Err(CalculatorError::QuantityDivisor),
            (Self::Divide, _, Number(0.0)) => return Err(CalculatorError::ZeroDivisor),
            (Self::Multiply, Quantity(_), Quantity(_)) => return Err(CalculatorError::QuantityProduct),
            (Self::Add, Number(left), Number(right)) => Number(left + right),
            (Self::Subtract, Number(left), Number(right)) => Number(left - right),
            (Self::Multiply, Number(left), Number(right)) => Number(left * right),
            (Self::Divide, Number(left), Number(right)) => Number(left / right),
            (Self::Multiply, Quantity(quantity), Number(number))
            | (Self::Multiply, Number(number), Quantity(quantity)) => {
                Quantity(scaled(&quantity, |milli| milli * number))
            }
            (Self::Divide, Quantity(quantity), Number(number)) => {
                Quantity(scaled(&quantity, |milli| milli / number))
            }
            (Self::Add, left, right) => Quantity(left.into_quantity().plus(&right.into_quantity())),
            (Self::Subtract, left, right) => Quantity(left.into_quantity().minus(&right.into_quantity())),
        })
    }
}

impl Value {
    fn into_quantity(self) -> Quantity {
        match self {
            Self::Number(number) => quantity_of(number),
            Self::Quantity(quantity) => quantity,
        }
    }
}

/// A number as a quantity of whole thousandths.
fn quantity_of(number: f64) -> Quantity {
    // The conversion cuts fractions off and stays within the range of i64.
    Quantity::from_milli((number * 1000.0) as i64, Format::DecimalSi)
}

fn scaled(quantity: &Quantity, scale: impl Fn(f64) -> f64) -> Quantity {
    Quantity::from_milli(scale(quantity.milli() as f64) as i64, quantity.format())
}

#[cfg(test)]
mod tests;
