//! What Go's encoding/json does with a type: its fields in order and when each is written.

/// A Go struct type, as its fields in the order of Go's encoder.
#[derive(Debug)]
pub struct Shape(
    /// The fields in order.
    pub &'static [Field],
);

/// A field of a Go struct.
#[derive(Debug)]
pub struct Field {
    /// The JSON name.
    pub name: &'static str,
    /// What the field holds.
    pub kind: Kind,
    /// When it is written.
    pub presence: Presence,
    /// How a strategic merge patch treats it, where it has a strategy of its own.
    pub merge: Option<Merge>,
}

/// The tags `patchStrategy` and `patchMergeKey` of a field.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Merge {
    /// `merge`, `replace`, `retainKeys` or two of them with a comma.
    pub strategy: &'static str,
    /// The member that identifies an element; empty for lists of plain values.
    pub key: &'static str,
}

/// What a value is, once a pointer to it is followed.
#[derive(Clone, Copy, Debug)]
pub enum Kind {
    /// A string.
    Text,
    /// A boolean.
    Bool,
    /// An integer of 32 bits.
    Int32,
    /// An integer of 64 bits.
    Int64,
    /// A resource quantity: a string or a number, written as canonical text.
    Quantity,
    /// An integer of 32 bits or a string.
    IntOrString,
    /// A moment, written in UTC and whole seconds; the zero moment is `null`.
    Time,
    /// JSON that is not looked into.
    Raw,
    /// An object with these fields.
    Struct(&'static Shape),
    /// A list of such values.
    List(&'static Kind),
    /// An object with free keys.
    Map(&'static Kind),
}

impl Kind {
    /// What a value must be that is not of this kind. `is_integer` says that it is an integer all the same.
    pub fn wanted(&self, is_integer: bool) -> &'static str {
        match self {
            Self::Struct(_) | Self::Map(_) => "must be an object",
            Self::List(_) => "must be a list",
            Self::Text | Self::Time => "must be a string",
            Self::Bool => "must be true or false",
            Self::Int32 if is_integer => "must be an integer of 32 bits",
            Self::Int64 if is_integer => "must be an integer of 64 bits",
            Self::Int32 | Self::Int64 => "must be an integer",
            Self::IntOrString if is_integer => "must be an integer of 32 bits or a string",
            Self::IntOrString => "must be an integer or a string",
            Self::Quantity => "must be a quantity, such as 500m, 1.5 or 2Gi",
            Self::Raw => "must be JSON",
        }
    }
}

/// When the encoder writes a field.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Presence {
    /// Always; absent, it is written as the zero value of its kind.
    Required,
    /// Always; absent, it is written as `null`.
    Nullable,
    /// Unless it is `""`, `0`, `false` or without elements.
    NonEmpty,
    /// Unless it is absent.
    Optional,
}

/// A field that a strategic merge patch treats as most.
pub const fn field(name: &'static str, kind: Kind, presence: Presence) -> Field {
    Field { name, kind, presence, merge: None }
}

impl Field {
    pub(super) const fn merge(mut self, strategy: &'static str, key: &'static str) -> Self {
        self.merge = Some(Merge { strategy, key });
        self
    }
}
