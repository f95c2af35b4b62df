//! From text to a compiled expression, by recursive descent.

use super::literal::{self, Literal};
use super::test::Test;
use super::token::{Sign, Spanned, Token, Tokens};
use super::{FilterError, MAX_DEPTH, MAX_LEN, Node};
use crate::field::{self, Field, Kind, Layer, UnknownName};

/// Parses a whole expression.
pub(super) fn expression(text: &str) -> Result<Node, FilterError> {
    if text.len() > MAX_LEN {
        let message = format!("an expression of more than {MAX_LEN} bytes");
        return Err(FilterError::new(text, 0, 1, message));
    }
    let mut tokens = Tokens::new(text);
    let next = tokens.next()?;
    let mut parser = Parser { tokens, next, depth: 0 };
    if parser.next.token == Token::End {
        return Err(parser.wrong("an empty expression; name a field, as in `psn == 5`"));
    }
    let node = parser.any()?;
    match parser.next.token {
        Token::End => Ok(node),
        Token::Sign(Sign::Close) => Err(parser.wrong("a `)` that nothing opened")),
        _ => Err(parser.wrong("`&&` or `||` is missing before this")),
    }
}

struct Parser<'t> {
    tokens: Tokens<'t>,
    next: Spanned<'t>,
    depth: usize,
}

#[derive(Clone, Copy, PartialEq, Eq)]
enum Compare {
    Equal,
    NotEqual,
    Less,
    LessEqual,
    Greater,
    GreaterEqual,
}

impl<'t> Parser<'t> {
    fn wrong(&self, message: impl Into<String>) -> FilterError {
        FilterError::new(self.tokens.text(), self.next.at, self.next.end, message)
    }

    fn advance(&mut self) -> Result<Spanned<'t>, FilterError> {
        let next = self.tokens.next()?;
        Ok(std::mem::replace(&mut self.next, next))
    }

    fn accept(&mut self, sign: Sign) -> Result<bool, FilterError> {
        let accepted = self.next.token == Token::Sign(sign);
        if accepted {
            self.advance()?;
        }
        Ok(accepted)
    }

    /// `a || b || c`
    fn any(&mut self) -> Result<Node, FilterError> {
        let mut nodes = vec![self.all()?];
        while self.accept(Sign::Or)? {
            nodes.push(self.all()?);
        }
        Ok(one_or(nodes, Node::Any))
    }

    /// `a && b && c`
    fn all(&mut self) -> Result<Node, FilterError> {
        let mut nodes = vec![self.factor()?];
        while self.accept(Sign::And)? {
            nodes.push(self.factor()?);
        }
        Ok(one_or(nodes, Node::All))
    }

    /// `!a`, `(a)`, or a condition.
    fn factor(&mut self) -> Result<Node, FilterError> {
        if self.depth >= MAX_DEPTH {
            return Err(self.wrong(format!("nested deeper than {MAX_DEPTH} levels")));
        }
        self.depth += 1;
        let node = if self.accept(Sign::Not)? {
            Node::Not(Box::new(self.factor()?))
        } else if self.next.token == Token::Sign(Sign::Open) {
            let open = self.advance()?;
            let node = self.any()?;
            if !self.accept(Sign::Close)? {
                let text = self.tokens.text();
                let unclosed = FilterError::new(text, open.at, open.end, "a `(` without its `)`");
                return Err(match self.next.token {
                    Token::End => unclosed,
                    _ => self.wrong("`)`, `&&` or `||` is missing before this"),
                });
            }
            node
        } else {
            self.condition()?
        };
        self.depth -= 1;
        Ok(node)
    }

    /// A field, or a field and what is asked of it.
    fn condition(&mut self) -> Result<Node, FilterError> {
        let Token::Word(name) = self.next.token else {
            return Err(self.wrong(match self.next.token {
                Token::End => "the expression ends where a field should be named",
                _ => "a field should be named here",
            }));
        };
        let layer = Layer::ALL.iter().copied().find(|layer| layer.word() == name);
        let field = match (field::find(name), layer) {
            (Ok(field), _) => field,
            (Err(_), Some(layer)) => {
                self.advance()?;
                return Ok(Node::HasLayer(layer));
            }
            (Err(unknown), None) => return Err(self.wrong(no_field(&unknown))),
        };
        self.advance()?;
        let compare = match self.next.token {
            Token::Word("in") => {
                self.advance()?;
                return self.one_of(field);
            }
            Token::Word("contains") => {
                self.advance()?;
                return self.contains(field);
            }
            Token::Sign(Sign::Equal) => Compare::Equal,
            Token::Sign(Sign::NotEqual) => Compare::NotEqual,
            Token::Sign(Sign::Less) => Compare::Less,
            Token::Sign(Sign::LessEqual) => Compare::LessEqual,
            Token::Sign(Sign::Greater) => Compare::Greater,
            Token::Sign(Sign::GreaterEqual) => Compare::GreaterEqual,
            Token::Word(word) => {
                let message = format!(
                    "`{word}` cannot follow a field: `==`, `in`, `contains`, `&&` and `||` can"
                );
                return Err(self.wrong(message));
            }
            // A layer and one of its fields share a name: the layer is what is asked for.
            _ => return Ok(layer.map_or(Node::Has(field), Node::HasLayer)),
        };
        self.advance()?;
        let place = (self.next.at, self.next.end);
        let literal = self.value(field)?;
        let test = compared(field, compare, literal)
            .map_err(|message| FilterError::new(self.tokens.text(), place.0, place.1, message))?;
        Ok(Node::Test(field, test))
    }

    /// A value that fits a field.
    fn value(&mut self, field: &Field) -> Result<Literal, FilterError> {
        let (word, quoted) = match &self.next.token {
            Token::Word(word) => (*word, false),
            Token::Text(text) => (&**text, true),
            Token::End => return Err(self.wrong("the expression ends where a value should be")),
            Token::Sign(_) => return Err(self.wrong("a value should be here")),
        };
        let literal = literal::read(field.kind, word, quoted).map_err(|message| {
            let message =
                format!("{message} (`{}` is a field of kind {})", field.name, field.kind.name());
            self.wrong(message)
        })?;
        self.advance()?;
        Ok(literal)
    }

    /// `in {a, b..c}`
    fn one_of(&mut self, field: &'static Field) -> Result<Node, FilterError> {
        if !self.accept(Sign::OpenSet)? {
            return Err(self.wrong("`in` is followed by a set: `in {1, 5..9}`"));
        }
        let mut ranges = Vec::new();
        let mut prefixes = Vec::new();
        let mut addresses = Vec::new();
        let mut texts = Vec::new();
        loop {
            match self.value(field)? {
                Literal::Ranges(more) => ranges.extend(more),
                Literal::Prefix(prefix) => prefixes.push(prefix),
                Literal::Mac(mac) => addresses.push(mac),
                Literal::Text(text) => texts.push(text),
            }
            if self.accept(Sign::CloseSet)? {
                break;
            }
            if !self.accept(Sign::Comma)? {
                return Err(self.wrong("`,` or `}` is missing before this"));
            }
        }
        let mut tests = Vec::new();
        if !ranges.is_empty() {
            tests.push(Node::Test(field, Test::Within(ranges)));
        }
        if !prefixes.is_empty() {
            tests.push(Node::Test(field, Test::Prefix { prefixes, within: true }));
        }
        if !addresses.is_empty() {
            tests.push(Node::Test(field, Test::Mac { addresses, one_of: true }));
        }
        if !texts.is_empty() {
            tests.push(Node::Test(field, Test::Text { texts, one_of: true }));
        }
        Ok(one_or(tests, Node::Any))
    }

    /// `contains "text"`
    fn contains(&mut self, field: &'static Field) -> Result<Node, FilterError> {
        let part = match &self.next.token {
            Token::Word(word) => (*word).to_owned(),
            Token::Text(text) => text.clone().into_owned(),
            _ => return Err(self.wrong("`contains` is followed by a text")),
        };
        let part = match field.kind {
            Kind::Bytes => match literal::read(Kind::Bytes, &part, true) {
                Ok(Literal::Text(digits)) => digits,
                Ok(_) => part,
                Err(message) => return Err(self.wrong(message)),
            },
            _ => part.to_ascii_lowercase(),
        };
        self.advance()?;
        Ok(Node::Test(field, Test::Contains(part)))
    }
}

fn no_field(unknown: &UnknownName) -> String {
    format!("{unknown} (`roce-pcap decode --list-fields` lists all names)")
}

fn one_or(mut nodes: Vec<Node>, many: fn(Vec<Node>) -> Node) -> Node {
    match nodes.pop() {
        Some(only) if nodes.is_empty() => only,
        Some(last) => {
            nodes.push(last);
            many(nodes)
        }
        None => many(nodes),
    }
}

/// What a comparison with a value asks.
fn compared(field: &Field, compare: Compare, literal: Literal) -> Result<Test, String> {
    let equal = match compare {
        Compare::Equal => Some(true),
        Compare::NotEqual => Some(false),
        _ => None,
    };
    let unordered =
        || format!("{} values have no order: use `==`, `!=` or `in`", field.kind.name());
    Ok(match literal {
        Literal::Ranges(ranges) => Test::Within(bounded(compare, ranges)?),
        Literal::Prefix(prefix) => {
            Test::Prefix { prefixes: vec![prefix], within: equal.ok_or_else(unordered)? }
        }
        Literal::Mac(mac) => {
            Test::Mac { addresses: vec![mac], one_of: equal.ok_or_else(unordered)? }
        }
        Literal::Text(text) => {
            Test::Text { texts: vec![text], one_of: equal.ok_or_else(unordered)? }
        }
    })
}

/// The ranges that a comparison with ranges comes to.
fn bounded(compare: Compare, ranges: Vec<(u64, u64)>) -> Result<Vec<(u64, u64)>, String> {
    let single = match ranges[..] {
        [(low, high)] if low == high => Ok(low),
        [(_, _)] => Err("a range has no order: use `==`, `!=` or `in`"),
        _ => Err("that name stands for several opcodes, which have no order"),
    };
    Ok(match compare {
        Compare::Equal => ranges,
        Compare::NotEqual => complement(ranges),
        Compare::Less => single?.checked_sub(1).map(|high| (0, high)).into_iter().collect(),
        Compare::LessEqual => vec![(0, single?)],
        Compare::Greater => single?.checked_add(1).map(|low| (low, u64::MAX)).into_iter().collect(),
        Compare::GreaterEqual => vec![(single?, u64::MAX)],
    })
}

/// Every number that lies in none of them.
fn complement(mut ranges: Vec<(u64, u64)>) -> Vec<(u64, u64)> {
    ranges.sort_unstable();
    let mut out = Vec::new();
    let mut from = Some(0);
    for (low, high) in ranges {
        let Some(start) = from else { break };
        if low > start {
            out.push((start, low - 1));
        }
        from = high.checked_add(1).map(|next| next.max(start));
    }
    out.extend(from.map(|from| (from, u64::MAX)));
    out
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_complement_is_what_is_left() {
        assert_eq!(complement(vec![(5, 5)]), [(0, 4), (6, u64::MAX)]);
        assert_eq!(complement(vec![(0, 3), (3, 3), (9, 12)]), [(4, 8), (13, u64::MAX)]);
        assert_eq!(complement(vec![(0, u64::MAX)]), []);
        assert_eq!(complement(vec![]), [(0, u64::MAX)]);
    }

    #[test]
    fn errors_point_at_their_place() {
        for (text, column, part) in [
            ("", 1, "empty"),
            ("psn ==", 7, "ends where a value"),
            ("psn == 5 dqpn == 1", 10, "is missing before this"),
            ("(psn == 5", 1, "without its `)`"),
            ("psn == 5)", 9, "nothing opened"),
            ("psn == 5 && ", 13, "ends where a field"),
            ("psn = 5", 5, "write `==`"),
            ("opcod == 1", 1, "did you mean `opcode`"),
            ("opcode == WRITE_FRST", 11, "did you mean `WRITE_FIRST`"),
            ("opcode < WRITE_FIRST", 10, "several opcodes"),
            ("src < 10.0.0.1", 7, "no order"),
            ("src == 10.0.0.300", 8, "no IP address"),
            ("src == 10.0.0.0/33", 8, "longer than the address"),
            ("psn in 5", 8, "followed by a set"),
            ("psn in {5 6}", 11, "`,` or `}`"),
            ("psn in {5", 10, "`,` or `}`"),
            ("psn between 5", 5, "cannot follow a field"),
            ("ackreq == maybe", 11, "neither true nor false"),
            ("rule == RC-PSN", 9, "no rule"),
            ("&& psn", 1, "a field should be named"),
            ("opcode contains", 16, "followed by a text"),
        ] {
            let error = expression(text).unwrap_err();
            assert_eq!(error.column, column, "{text}: {error}");
            assert!(error.message.contains(part), "{text}: {error}");
        }
    }

    #[test]
    fn depth_and_length_are_bounded() {
        let nested = |depth: usize| format!("{}psn == 1{}", "(".repeat(depth), ")".repeat(depth));
        assert!(expression(&nested(MAX_DEPTH - 1)).is_ok());
        assert!(expression(&nested(MAX_DEPTH)).unwrap_err().message.contains("nested deeper"));
        assert!(expression(&"!".repeat(30_000)).unwrap_err().message.contains("nested deeper"));
        assert!(expression(&"(".repeat(30_000)).unwrap_err().message.contains("nested deeper"));
        let chain = vec!["psn == 1"; 5000].join(" || ");
        assert!(expression(&chain).is_ok(), "a chain is no nesting");
        assert!(expression(&" ".repeat(MAX_LEN + 1)).is_err());
    }
}
