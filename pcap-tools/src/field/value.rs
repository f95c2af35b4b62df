//! What a field says of one packet.

use std::borrow::Cow;
use std::fmt;
use std::io::{self, Write};
use std::net::IpAddr;

use roce_codec::ib::Opcode;
use roce_codec::net::MacAddr;

use crate::json::Seconds;

/// A field's value in one packet.
///
/// `Display` is how the tree and CSV show it. In JSON, numbers of up to 32 bits are numbers, and
/// keys, addresses and 64-bit values are strings, since many readers keep only 53 bits.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Value<'a> {
    /// A bit.
    Flag(bool),
    /// A number.
    Number(u64),
    /// A number that people write in hexadecimal, of so many digits: a QPN, a PSN.
    Id(u64, usize),
    /// A key or an address in memory: hexadecimal of so many digits, in JSON too.
    Key(u64, usize),
    /// A number and what it stands for.
    Named(u64, Cow<'a, str>),
    /// An opcode, by its name.
    Opcode(Opcode),
    /// One of a few words, by its place among them.
    Word(&'static [&'static str], usize),
    /// An IP address, or a GID that is one.
    Ip(IpAddr),
    /// An Ethernet address.
    Mac(MacAddr),
    /// Nanoseconds, shown as seconds.
    Seconds(u64),
    /// Text.
    Text(Cow<'a, str>),
    /// Bytes, shown in hexadecimal.
    Bytes(&'a [u8]),
}

/// A number.
pub(super) fn number(value: impl Into<u64>) -> Value<'static> {
    Value::Number(value.into())
}

/// A number of at most 32 bits that people write in hexadecimal.
pub(super) fn id(value: u32, digits: usize) -> Value<'static> {
    Value::Id(u64::from(value), digits)
}

/// A number and its name.
pub(super) fn named(value: impl Into<u64>, name: impl fmt::Display) -> Value<'static> {
    Value::Named(value.into(), Cow::Owned(name.to_string()))
}

/// A length in bytes.
pub(super) fn len(bytes: usize) -> Value<'static> {
    Value::Number(u64::try_from(bytes).unwrap_or(u64::MAX))
}

impl Value<'_> {
    /// The number that comparisons are made with; `None` where there is none.
    #[inline]
    #[must_use]
    pub fn number(&self) -> Option<u64> {
        match *self {
            Self::Flag(set) => Some(u64::from(set)),
            Self::Number(value)
            | Self::Id(value, _)
            | Self::Key(value, _)
            | Self::Named(value, _)
            | Self::Seconds(value) => Some(value),
            Self::Opcode(opcode) => Some(u64::from(opcode.0)),
            Self::Word(_, place) => u64::try_from(place).ok(),
            Self::Ip(_) | Self::Mac(_) | Self::Text(_) | Self::Bytes(_) => None,
        }
    }

    /// The text that comparisons are made with: a name, a word, or the value as it is shown.
    #[must_use]
    pub fn text(&self) -> Cow<'_, str> {
        match self {
            Self::Named(_, text) | Self::Text(text) => Cow::Borrowed(text),
            Self::Word(words, place) => Cow::Borrowed(words.get(*place).copied().unwrap_or("")),
            other => Cow::Owned(other.to_string()),
        }
    }

    /// Writes it as JSON has it, without quotes.
    pub(crate) fn write_plain(&self, text: &mut String) {
        use std::fmt::Write;
        // A String takes everything.
        let _ = match self {
            Self::Id(value, _) | Self::Named(value, _) => write!(text, "{value}"),
            other => write!(text, "{other}"),
        };
    }

    /// Writes it as JSON.
    pub(crate) fn write_json(&self, out: &mut dyn Write) -> io::Result<()> {
        match self {
            Self::Flag(set) => write!(out, "{set}"),
            Self::Number(value) | Self::Id(value, _) | Self::Named(value, _) => {
                write!(out, "{value}")
            }
            Self::Seconds(ns) => write!(out, "{}", Seconds(*ns)),
            Self::Text(text) => Ok(serde_json::to_writer(out, text)?),
            // None of these has a character that JSON would have escaped.
            other => write!(out, "\"{other}\""),
        }
    }
}

impl fmt::Display for Value<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Flag(set) => fmt::Display::fmt(set, f),
            Self::Number(value) => fmt::Display::fmt(value, f),
            Self::Id(value, digits) | Self::Key(value, digits) => {
                write!(f, "0x{value:00$x}", digits)
            }
            Self::Named(value, name) => write!(f, "{name} ({value:#04x})"),
            Self::Opcode(opcode) => fmt::Display::fmt(opcode, f),
            Self::Word(words, place) => f.write_str(words.get(*place).copied().unwrap_or("")),
            Self::Ip(ip) => fmt::Display::fmt(ip, f),
            Self::Mac(mac) => fmt::Display::fmt(mac, f),
            Self::Seconds(ns) => fmt::Display::fmt(&Seconds(*ns), f),
            Self::Text(text) => f.write_str(text),
            Self::Bytes(bytes) => bytes.iter().try_for_each(|byte| write!(f, "{byte:02x}")),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_kind_is_shown_in_its_way() {
        for (value, shown, json) in [
            (Value::Flag(true), "true", "true"),
            (Value::Number(7), "7", "7"),
            (Value::Id(0x11, 6), "0x000011", "17"),
            (Value::Key(0x77, 8), "0x00000077", "\"0x00000077\""),
            (Value::Named(28, "consumer reject".into()), "consumer reject (0x1c)", "28"),
            (Value::Opcode(Opcode::CNP), "CNP", "\"CNP\""),
            (Value::Word(&["pass", "fail"], 1), "fail", "\"fail\""),
            (Value::Ip([192, 0, 2, 1].into()), "192.0.2.1", "\"192.0.2.1\""),
            (Value::Seconds(1_500_000_000), "1.500000000", "1.500000000"),
            (Value::Text("a \"b\"".into()), "a \"b\"", "\"a \\\"b\\\"\""),
            (Value::Bytes(&[0, 0xff]), "00ff", "\"00ff\""),
        ] {
            assert_eq!(value.to_string(), shown);
            let mut out = Vec::new();
            value.write_json(&mut out).unwrap();
            assert_eq!(String::from_utf8(out).unwrap(), json);
        }
    }
}
