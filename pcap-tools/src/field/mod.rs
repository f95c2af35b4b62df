//! The fields of packets: one table that JSON, CSV, the tree, `--fields` and `--where` all read.
//!
//! A [`Field`] has the name that Wireshark gives it where it has one, perhaps a short name, and a
//! function that reads it from a [`Row`]. [`find`] looks one up by either name.
//!
//! ```
//! use roce_pcap::field;
//!
//! let qpn = field::find("dqpn").unwrap();
//! assert_eq!(qpn.name, "infiniband.bth.destqp");
//! assert!(field::find("dqpm").is_err(), "which says that `dqpn` is near");
//! ```

mod bth;
mod cm;
mod ext;
mod frame;
mod icrc;
mod ip;
mod judged;
mod layer;
mod link;
mod mad;
mod native;
mod near;
mod row;
mod rows;
mod tunnel;
mod upper;
mod value;

pub(crate) use icrc::icrc_word;
pub use layer::Layer;
pub use near::{UnknownName, nearest};
pub use row::Row;
pub use rows::Rows;
pub use value::Value;

/// What a field's values are.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Kind {
    /// True or false.
    Flag,
    /// A number.
    Number,
    /// A key or an address in memory: a number that JSON has as a string in hexadecimal.
    Key,
    /// A number that stands for something, and can be named by it.
    Named,
    /// An opcode, by name or number.
    Opcode,
    /// An IP address.
    Address,
    /// An Ethernet address.
    Mac,
    /// Seconds, to the nanosecond.
    Seconds,
    /// Text.
    Text,
    /// Bytes in hexadecimal.
    Bytes,
    /// One of these words, which are in ascending order.
    Word(&'static [&'static str]),
    /// The identifier of a rule.
    Rule,
}

impl Kind {
    /// The kind in a word, for the list of fields.
    #[must_use]
    pub const fn name(self) -> &'static str {
        match self {
            Self::Flag => "flag",
            Self::Number => "number",
            Self::Key => "key",
            Self::Named => "named number",
            Self::Opcode => "opcode",
            Self::Address => "IP address",
            Self::Mac => "MAC address",
            Self::Seconds => "seconds",
            Self::Text => "text",
            Self::Bytes => "bytes",
            Self::Word(_) => "word",
            Self::Rule => "rule",
        }
    }
}

/// How a field is read.
#[derive(Debug, Clone, Copy)]
enum Get {
    One(for<'r, 'a> fn(&'r Row<'a>) -> Option<Value<'r>>),
    Many(for<'r, 'a> fn(&'r Row<'a>, &mut dyn FnMut(Value<'r>))),
}

/// Where a field is shown without being asked for.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Shown {
    Everywhere,
    /// In JSON, but not in the tree, which says the same in another way.
    Json,
    /// In the tree and not in JSON.
    Tree,
    /// Nowhere: it repeats others, or costs something.
    Asked,
}

/// One field of the table.
#[derive(Debug)]
pub struct Field {
    /// Its name: Wireshark's, where it has one.
    pub name: &'static str,
    /// A shorter one, as good.
    pub short: Option<&'static str>,
    /// What it is, in words: the tree's label.
    pub label: &'static str,
    /// What its values are.
    pub kind: Kind,
    shown: Shown,
    get: Get,
}

impl Field {
    const fn new(
        name: &'static str,
        label: &'static str,
        kind: Kind,
        get: for<'r, 'a> fn(&'r Row<'a>) -> Option<Value<'r>>,
    ) -> Self {
        Self { name, short: None, label, kind, shown: Shown::Everywhere, get: Get::One(get) }
    }

    const fn many(
        name: &'static str,
        label: &'static str,
        kind: Kind,
        get: for<'r, 'a> fn(&'r Row<'a>, &mut dyn FnMut(Value<'r>)),
    ) -> Self {
        Self { name, short: None, label, kind, shown: Shown::Everywhere, get: Get::Many(get) }
    }

    const fn short(self, short: &'static str) -> Self {
        Self { short: Some(short), ..self }
    }

    const fn shown(self, shown: Shown) -> Self {
        Self { shown, ..self }
    }

    /// Whether a packet may have several values of it; JSON then has an array.
    #[must_use]
    pub const fn is_list(&self) -> bool {
        matches!(self.get, Get::Many(_))
    }

    /// Whether JSON and CSV have it without being asked.
    #[must_use]
    pub const fn is_in_json(&self) -> bool {
        matches!(self.shown, Shown::Everywhere | Shown::Json)
    }

    pub(crate) const fn is_in_tree(&self) -> bool {
        matches!(self.shown, Shown::Everywhere | Shown::Tree)
    }

    /// Calls `with` for each value that a packet has of it.
    #[inline]
    pub fn values<'r>(&self, row: &'r Row<'_>, with: &mut dyn FnMut(Value<'r>)) {
        match self.get {
            Get::One(get) => {
                if let Some(value) = get(row) {
                    with(value);
                }
            }
            Get::Many(get) => get(row, with),
        }
    }

    /// Whether any value that a packet has of it is so.
    #[inline]
    pub(crate) fn any(&self, row: &Row<'_>, mut is: impl FnMut(&Value<'_>) -> bool) -> bool {
        match self.get {
            Get::One(get) => get(row).is_some_and(|value| is(&value)),
            Get::Many(get) => {
                let mut any = false;
                get(row, &mut |value| any = any || is(&value));
                any
            }
        }
    }
}

/// What must be known beyond the packet itself.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct Needs {
    /// The connections before it, to tell what the payload is.
    pub upper: bool,
    /// The checker's findings.
    pub verdicts: bool,
}

impl Needs {
    /// What a field needs.
    #[must_use]
    pub fn of(field: &Field) -> Self {
        let is_in = |layer: Layer| layer.fields().iter().any(|other| std::ptr::eq(other, field));
        Self { upper: Layer::UPPER.into_iter().any(is_in), verdicts: is_in(Layer::Judged) }
    }

    /// Both together.
    #[must_use]
    pub const fn and(self, other: Self) -> Self {
        Self { upper: self.upper || other.upper, verdicts: self.verdicts || other.verdicts }
    }
}

/// All fields, in the order of the packet's layers.
pub fn all() -> impl Iterator<Item = &'static Field> {
    Layer::ALL.iter().flat_map(|layer| layer.fields())
}

/// The field of that name, long or short.
///
/// # Errors
/// [`UnknownName`], which knows the nearest names.
pub fn find(name: &str) -> Result<&'static Field, UnknownName> {
    all().find(|field| field.name == name || field.short == Some(name)).ok_or_else(|| {
        UnknownName::new(name, all().flat_map(|field| [Some(field.name), field.short]).flatten())
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::collections::HashSet;

    #[test]
    fn every_name_is_one_fields() {
        let mut names = HashSet::new();
        for field in all() {
            assert!(names.insert(field.name), "{} twice", field.name);
            if let Some(short) = field.short {
                assert!(names.insert(short), "{short} twice");
            }
            assert!(std::ptr::eq(find(field.name).unwrap(), field));
            assert!(!field.label.is_empty() && field.name.is_ascii());
        }
    }
}
