//! Expressions that cannot be understood.

use std::fmt;

/// Where an expression cannot be understood, and why. `Display` shows the expression with a mark
/// under the place.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct FilterError {
    /// The column of the first character concerned, from 1.
    pub column: usize,
    /// How many characters are concerned, at least 1.
    pub width: usize,
    /// What is wrong, in a sentence.
    pub message: String,
    /// The expression, or what of it is near.
    excerpt: String,
    /// The column in the excerpt.
    mark: usize,
}

/// Characters of a long expression shown before and behind the place.
const AROUND: usize = 60;

impl FilterError {
    /// Of the bytes `at..end` of an expression.
    pub(super) fn new(text: &str, at: usize, end: usize, message: impl Into<String>) -> Self {
        let chars = |part: Option<&str>| part.map_or(0, |part| part.chars().count());
        let column = 1 + chars(text.get(..at));
        let from = column.saturating_sub(AROUND).max(1);
        let excerpt = text.chars().skip(from - 1).take(2 * AROUND);
        Self {
            column,
            width: chars(text.get(at..end)).clamp(1, AROUND),
            message: message.into(),
            // One line, whatever the expression holds.
            excerpt: excerpt.map(|c| if c.is_control() { ' ' } else { c }).collect(),
            mark: column - from,
        }
    }
}

impl fmt::Display for FilterError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { column, width, message, excerpt, mark } = self;
        write!(f, "column {column}: {message}\n  {excerpt}\n  {:mark$}{:^<width$}", "", "")
    }
}

impl std::error::Error for FilterError {}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_place_is_marked() {
        let error = FilterError::new("psn == x", 7, 8, "`x` is no number");
        assert_eq!(error.to_string(), "column 8: `x` is no number\n  psn == x\n         ^");
        let long = format!("{}?", "a".repeat(500));
        let error = FilterError::new(&long, 500, 501, "no");
        let lines: Vec<String> = error.to_string().lines().map(str::to_owned).collect();
        assert_eq!(lines[2].len(), lines[1].len(), "{error}");
        assert!(lines[1].ends_with("a?") && lines[1].len() < 130);
    }
}
