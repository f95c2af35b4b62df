//! `--where`: which packets are meant.
//!
//! ```text
//! opcode == WRITE_FIRST && dqpn == 0x11
//! src == 10.0.0.0/8 and not (ack == NAK or cnp)
//! psn in {0x100..0x1ff, 0} || cm contains "port 7174"
//! rule == RC-PSN-GAP or severity >= warning
//! ```
//!
//! | | |
//! |---|---|
//! | a field's or layer's name alone | the packet has it; a flag must be set as well |
//! | `==` `!=` `<` `<=` `>` `>=` (`eq ne lt le gt ge`) | comparison with a value |
//! | `in {a, b..c}` | one of several, or within a range, both ends included |
//! | `contains "text"` | the text, name or hexadecimal bytes have that part, in any case |
//! | `!` `not`, `&&` `and`, `\|\|` `or`, `( )` | as usual; `!` binds before `&&`, `&&` before `\|\|` |
//!
//! Numbers are decimal, `0x` hexadecimal, `0o` octal or `0b` binary. An opcode is a number or a name,
//! with its service (`RC_RDMA_WRITE_FIRST`, `RC_WRITE_FIRST`) or without (`WRITE_FIRST` is that of RC,
//! UC, RD and XRC). An address is one, or a prefix (`10.0.0.0/8`, `fe80::/10`). What has several values
//! in a packet matches if one of them does. A comparison with what a packet does not have is false,
//! `!=` included.
//!
//! An expression is compiled once; matching allocates for text alone. [`MAX_DEPTH`] bounds how deep
//! it nests, [`MAX_LEN`] how long it is.
//!
//! ```
//! use roce_pcap::filter::Filter;
//!
//! let filter = Filter::parse("opcode == WRITE_FIRST && dqpn == 0x11")?;
//! assert!(!filter.needs().verdicts, "it asks for nothing that the checker knows");
//!
//! let error = Filter::parse("opcod == 1").unwrap_err();
//! assert_eq!(error.column, 1);
//! assert!(error.to_string().contains("did you mean `opcode`"));
//! # Ok::<(), roce_pcap::filter::FilterError>(())
//! ```

mod error;
mod literal;
mod opcode;
mod parse;
mod selection;
mod test;
mod token;

pub use error::FilterError;
pub use selection::Selection;

use test::Test;

use crate::field::{Field, Layer, Needs, Row, Value};

/// How deep an expression may nest: parentheses and negations.
pub const MAX_DEPTH: usize = 64;

/// How long an expression may be, in bytes.
pub const MAX_LEN: usize = 64 << 10;

/// A compiled expression.
#[derive(Debug, Clone)]
pub struct Filter {
    root: Node,
    needs: Needs,
}

#[derive(Debug, Clone)]
enum Node {
    All(Vec<Node>),
    Any(Vec<Node>),
    Not(Box<Node>),
    /// The packet has a value of it, and if it is a flag, a set one.
    Has(&'static Field),
    HasLayer(Layer),
    Test(&'static Field, Test),
}

impl Filter {
    /// Compiles an expression.
    ///
    /// # Errors
    /// [`FilterError`]: where it cannot be understood, and why.
    pub fn parse(text: &str) -> Result<Self, FilterError> {
        let root = parse::expression(text)?;
        let mut needs = Needs::default();
        root.add_needs(&mut needs);
        Ok(Self { root, needs })
    }

    /// What its rows must know for it to tell; [`Rows::new`](crate::field::Rows::new) takes it.
    #[must_use]
    pub fn needs(&self) -> Needs {
        self.needs
    }

    /// Whether a packet is meant.
    #[inline]
    #[must_use]
    pub fn matches(&self, row: &Row<'_>) -> bool {
        self.root.matches(row)
    }
}

impl Node {
    fn matches(&self, row: &Row<'_>) -> bool {
        match self {
            Self::All(nodes) => nodes.iter().all(|node| node.matches(row)),
            Self::Any(nodes) => nodes.iter().any(|node| node.matches(row)),
            Self::Not(node) => !node.matches(row),
            Self::Has(field) => field.any(row, |value| !matches!(value, Value::Flag(false))),
            Self::HasLayer(layer) => layer.is_in(row),
            Self::Test(field, test) => field.any(row, |value| test.holds(value)),
        }
    }

    fn add_needs(&self, needs: &mut Needs) {
        match self {
            Self::All(nodes) | Self::Any(nodes) => {
                nodes.iter().for_each(|node| node.add_needs(needs));
            }
            Self::Not(node) => node.add_needs(needs),
            Self::Has(field) | Self::Test(field, _) => *needs = needs.and(Needs::of(field)),
            Self::HasLayer(layer) => {
                for field in layer.fields() {
                    *needs = needs.and(Needs::of(field));
                }
            }
        }
    }
}
