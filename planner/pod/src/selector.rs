//! Selectors of Pods, as objects that concern Pods have them in their `spec`.

use api::meta::LabelSelector;

use values::selector::{Labels, Selector, SelectorError};

/// A `spec.selector`, compiled.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum PodSelector {
    /// Unset or empty: matches no Pod.
    Nothing,
    /// Matches the Pods that this selector matches.
    Matching(Selector),
    /// Not usable. A Pod that meets the sound part might be meant.
    Broken {
        /// Why it is not usable.
        error: SelectorError,
        /// Its `matchLabels`, without the expressions; empty where they are not usable either.
        sound: Selector,
    },
}

impl PodSelector {
    /// Compiles a selector of an object's `spec`.
    pub fn compile(selector: Option<&LabelSelector>) -> Self {
        let Some(selector) = selector else { return Self::Nothing };
        match Selector::compile(selector) {
            Ok(selector) if selector.is_empty() => Self::Nothing,
            Ok(selector) => Self::Matching(selector),
            Err(error) => {
                let sound =
                    LabelSelector { match_labels: selector.match_labels.clone(), match_expressions: None };
                Self::Broken { error, sound: Selector::compile(&sound).unwrap_or_default() }
            }
        }
    }

    /// Why it can't be used, if so.
    pub fn problem(&self) -> Option<&SelectorError> {
        if let Self::Broken { error, .. } = self { Some(error) } else { None }
    }

    /// What a Pod must meet in any case.
    pub fn required(&self) -> Option<&Selector> {
        match self {
            Self::Nothing => None,
            Self::Matching(selector) | Self::Broken { sound: selector, .. } => Some(selector),
        }
    }

    /// Whether a Pod with `labels` is selected; an error where that is not known.
    pub fn matches(&self, labels: &(impl Labels + ?Sized)) -> Result<bool, &SelectorError> {
        match self {
            Self::Nothing => Ok(false),
            Self::Matching(selector) => Ok(selector.matches(labels)),
            Self::Broken { error, sound } if sound.matches(labels) => Err(error),
            Self::Broken { .. } => Ok(false),
        }
    }
}
