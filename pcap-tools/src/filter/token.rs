//! The words and signs of an expression.

use std::borrow::Cow;

use super::FilterError;

#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) enum Token<'t> {
    /// A name, number, address, range: whatever has no space and no sign in it.
    Word(&'t str),
    /// Text in quotes.
    Text(Cow<'t, str>),
    Sign(Sign),
    End,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Sign {
    Equal,
    NotEqual,
    Less,
    LessEqual,
    Greater,
    GreaterEqual,
    And,
    Or,
    Not,
    Open,
    Close,
    OpenSet,
    CloseSet,
    Comma,
}

const SIGNS: [(&str, Sign); 14] = [
    ("==", Sign::Equal),
    ("!=", Sign::NotEqual),
    ("<=", Sign::LessEqual),
    (">=", Sign::GreaterEqual),
    ("&&", Sign::And),
    ("||", Sign::Or),
    ("<", Sign::Less),
    (">", Sign::Greater),
    ("!", Sign::Not),
    ("(", Sign::Open),
    (")", Sign::Close),
    ("{", Sign::OpenSet),
    ("}", Sign::CloseSet),
    (",", Sign::Comma),
];

/// Words that are signs.
const WORDS: [(&str, Sign); 9] = [
    ("and", Sign::And),
    ("or", Sign::Or),
    ("not", Sign::Not),
    ("eq", Sign::Equal),
    ("ne", Sign::NotEqual),
    ("lt", Sign::Less),
    ("le", Sign::LessEqual),
    ("gt", Sign::Greater),
    ("ge", Sign::GreaterEqual),
];

/// A token and the bytes it takes.
#[derive(Debug, Clone)]
pub(super) struct Spanned<'t> {
    pub(super) token: Token<'t>,
    pub(super) at: usize,
    pub(super) end: usize,
}

/// Takes an expression apart, one token at a time.
#[derive(Debug)]
pub(super) struct Tokens<'t> {
    text: &'t str,
    at: usize,
}

impl<'t> Tokens<'t> {
    pub(super) fn new(text: &'t str) -> Self {
        Self { text, at: 0 }
    }

    pub(super) fn text(&self) -> &'t str {
        self.text
    }

    pub(super) fn next(&mut self) -> Result<Spanned<'t>, FilterError> {
        let rest = self.text.get(self.at..).unwrap_or_default();
        let rest = rest.trim_start();
        let at = self.text.len() - rest.len();
        let spanned = |token, len: usize| Spanned { token, at, end: at + len };
        let Some(first) = rest.chars().next() else {
            self.at = at;
            return Ok(spanned(Token::End, 0));
        };
        if first == '"' || first == '\'' {
            let (text, len) = self.quoted(rest, first, at)?;
            self.at = at + len;
            return Ok(spanned(Token::Text(text), len));
        }
        if let Some((sign, token)) = SIGNS.iter().find(|(sign, _)| rest.starts_with(sign)) {
            self.at = at + sign.len();
            return Ok(spanned(Token::Sign(*token), sign.len()));
        }
        let len = rest.find(|c| !is_word(c)).unwrap_or(rest.len());
        let word = rest.get(..len).unwrap_or_default();
        if word.is_empty() {
            let meant = match first {
                '=' => "; to compare, write `==`",
                '&' => "; write `&&` or `and`",
                '|' => "; write `||` or `or`",
                '~' => "; for a part of a text, write `contains`",
                _ => "",
            };
            let end = at + first.len_utf8();
            let message = format!("`{}` means nothing here{meant}", first.escape_default());
            return Err(FilterError::new(self.text, at, end, message));
        }
        self.at = at + len;
        let sign = WORDS.iter().find(|(sign, _)| *sign == word);
        Ok(spanned(sign.map_or(Token::Word(word), |(_, sign)| Token::Sign(*sign)), len))
    }

    /// Text in quotes, and the bytes that it takes with them. A backslash takes the next character
    /// as it is.
    fn quoted(
        &self,
        rest: &'t str,
        quote: char,
        at: usize,
    ) -> Result<(Cow<'t, str>, usize), FilterError> {
        let inside = rest.get(1..).unwrap_or_default();
        let mut escaped = false;
        let mut plain = true;
        for (offset, c) in inside.char_indices() {
            match c {
                _ if escaped => escaped = false,
                '\\' => (escaped, plain) = (true, false),
                c if c == quote => {
                    let text = inside.get(..offset).unwrap_or_default();
                    let text = if plain { Cow::Borrowed(text) } else { Cow::Owned(unescape(text)) };
                    return Ok((text, offset + 2));
                }
                _ => {}
            }
        }
        let message = format!("a text that begins with {quote} and does not end with it");
        Err(FilterError::new(self.text, at, at + 1, message))
    }
}

fn unescape(text: &str) -> String {
    let mut out = String::new();
    let mut chars = text.chars();
    while let Some(c) = chars.next() {
        out.extend(if c == '\\' { chars.next() } else { Some(c) });
    }
    out
}

/// What names, numbers, addresses, prefixes, rules and ranges are written with.
fn is_word(c: char) -> bool {
    c.is_alphanumeric() || matches!(c, '_' | '.' | ':' | '-' | '/')
}

#[cfg(test)]
mod tests {
    use super::*;

    fn tokens(text: &str) -> Vec<Token<'_>> {
        let mut tokens = Tokens::new(text);
        let mut out = Vec::new();
        loop {
            match tokens.next().unwrap().token {
                Token::End => return out,
                token => out.push(token),
            }
        }
    }

    #[test]
    fn words_and_signs() {
        use Sign::*;
        assert_eq!(
            tokens("a.b==0x11&&!(c ne fe80::/10) or d in{1,2..3}"),
            [
                Token::Word("a.b"),
                Token::Sign(Equal),
                Token::Word("0x11"),
                Token::Sign(And),
                Token::Sign(Not),
                Token::Sign(Open),
                Token::Word("c"),
                Token::Sign(NotEqual),
                Token::Word("fe80::/10"),
                Token::Sign(Close),
                Token::Sign(Or),
                Token::Word("d"),
                Token::Word("in"),
                Token::Sign(OpenSet),
                Token::Word("1"),
                Token::Sign(Comma),
                Token::Word("2..3"),
                Token::Sign(CloseSet),
            ]
        );
        assert_eq!(
            tokens(r#""a \"b\" \\" 'it is "so"'"#),
            [Token::Text(r#"a "b" \"#.into()), Token::Text(r#"it is "so""#.into())]
        );
    }

    #[test]
    fn signs_of_other_languages_are_explained() {
        for (text, part) in
            [("a = 1", "`==`"), ("a & b", "`&&`"), ("a|b", "`||`"), ("ä ~ b", "contains")]
        {
            let mut tokens = Tokens::new(text);
            tokens.next().unwrap();
            let error = tokens.next().unwrap_err();
            assert!(error.message.contains(part), "{error}");
            assert_eq!(error.column, if text == "a|b" { 2 } else { 3 });
        }
        assert!(Tokens::new("\"open").next().is_err());
        assert!(Tokens::new("\"open\\").next().is_err());
    }
}
