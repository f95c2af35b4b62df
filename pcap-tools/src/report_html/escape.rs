//! Text from a capture as text of the page, never as markup.

use std::fmt::{self, Display, Write};

/// Its value with what HTML gives a meaning escaped, and control characters replaced: fit for text
/// and for attributes in quotes.
pub(super) struct Escaped<T>(pub(super) T);

impl<T: Display> Display for Escaped<T> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(Escaping(f), "{}", self.0)
    }
}

struct Escaping<'f, 'a>(&'f mut fmt::Formatter<'a>);

impl Write for Escaping<'_, '_> {
    fn write_str(&mut self, text: &str) -> fmt::Result {
        for char in text.chars() {
            match char {
                '&' => self.0.write_str("&amp;")?,
                '<' => self.0.write_str("&lt;")?,
                '>' => self.0.write_str("&gt;")?,
                '"' => self.0.write_str("&quot;")?,
                '\'' => self.0.write_str("&#39;")?,
                '\n' | '\t' => self.0.write_char(' ')?,
                char if char.is_control() => self.0.write_char(char::REPLACEMENT_CHARACTER)?,
                char => self.0.write_char(char)?,
            }
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn markup_becomes_text() {
        let hostile = "</td><script>alert(\"1\")</script>&'\u{0}\u{9b}";
        assert_eq!(
            Escaped(hostile).to_string(),
            "&lt;/td&gt;&lt;script&gt;alert(&quot;1&quot;)&lt;/script&gt;&amp;&#39;\u{fffd}\u{fffd}"
        );
    }
}
