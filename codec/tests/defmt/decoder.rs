//! Turns logged bytes into text, as a debug probe's host does: with the strings that the compiler
//! left in this test's own executable as the names of symbols.
//!
//! A string's index is the lower half of its symbol's address. Of the format only what
//! `defmt::Format` of this crate needs is here; anything else panics.

use std::collections::HashMap;
use std::fmt::Write;

use defmt_parser::{DisplayHint, Fragment, Parameter, ParserMode, Type};

/// A symbol of the executable, to find out where it was loaded.
// SAFETY: no other symbol has the name.
#[unsafe(no_mangle)]
static ROCE_CODEC_DEFMT_TEST_ANCHOR: u8 = 0;

/// The interned strings by index.
pub(crate) struct Decoder(HashMap<u16, String>);

impl Decoder {
    /// Reads the symbols of the running executable.
    pub(crate) fn of_this_executable() -> Self {
        let file = std::fs::read("/proc/self/exe").expect("Linux shows the executable");
        let symbols = symbols(&file);
        let (_, at) = symbols
            .iter()
            .find(|(name, _)| name == "ROCE_CODEC_DEFMT_TEST_ANCHOR")
            .expect("symbols are not stripped");
        let anchor = u64::try_from((&raw const ROCE_CODEC_DEFMT_TEST_ANCHOR).addr()).unwrap();
        let base = anchor.wrapping_sub(*at);
        let mut strings = HashMap::new();
        for (name, at) in &symbols {
            let Ok(json) = serde_json::from_str::<serde_json::Value>(name) else { continue };
            let Some(data) = json["data"].as_str() else { continue };
            let index = u16::try_from(base.wrapping_add(*at) & 0xffff).unwrap();
            let before = strings.insert(index, data.to_owned());
            assert!(before.is_none(), "two strings have index {index}");
        }
        Self(strings)
    }

    /// The text of one `println!("{}", value)`.
    pub(crate) fn decode(&self, log: &[u8]) -> String {
        let mut rest = log;
        let format = self.string(&mut rest);
        let text = self.format(format, &mut rest);
        assert!(rest.is_empty(), "{} bytes are left behind {text:?}", rest.len());
        text
    }

    fn string(&self, bytes: &mut &[u8]) -> &str {
        let index = u16::from_le_bytes(take(bytes));
        self.0.get(&index).unwrap_or_else(|| panic!("no string has index {index}"))
    }

    /// What `format` makes of the front of `bytes`.
    fn format(&self, format: &str, bytes: &mut &[u8]) -> String {
        let mut variants = format.split('|');
        let format = if variants.clone().count() > 1 {
            let [variant] = take(bytes);
            variants.nth(usize::from(variant)).expect("an enum has that many variants")
        } else {
            format
        };
        let mut text = String::new();
        for fragment in defmt_parser::parse(format, ParserMode::ForwardsCompatible).unwrap() {
            match fragment {
                Fragment::Literal(literal) => text.push_str(&literal),
                Fragment::Parameter(parameter) => self.parameter(&parameter, bytes, &mut text),
            }
        }
        text
    }

    fn parameter(&self, parameter: &Parameter, bytes: &mut &[u8], text: &mut String) {
        let hint = parameter.hint.as_ref();
        match parameter.ty {
            Type::Format => {
                let format = self.string(bytes).to_owned();
                text.push_str(&self.format(&format, bytes));
            }
            Type::FormatSequence => loop {
                if bytes.get(..2) == Some(&[0, 0]) {
                    *bytes = &bytes[2..];
                    return;
                }
                let format = self.string(bytes).to_owned();
                text.push_str(&self.format(&format, bytes));
            },
            Type::FormatArray(len) => {
                let format = self.string(bytes).to_owned();
                let items: Vec<_> = (0..len).map(|_| self.format(&format, bytes)).collect();
                write!(text, "[{}]", items.join(", ")).unwrap();
            }
            Type::U8Array(len) => {
                let mut items = Vec::new();
                for _ in 0..len {
                    items.push(number(hint, take::<1>(bytes)[0].into()));
                }
                write!(text, "[{}]", items.join(", ")).unwrap();
            }
            Type::Bool => text.push_str(if take::<1>(bytes)[0] == 0 { "false" } else { "true" }),
            Type::Str => {
                let len = u32::from_le_bytes(take(bytes));
                let (string, rest) = bytes.split_at(len.try_into().unwrap());
                text.push_str(std::str::from_utf8(string).unwrap());
                *bytes = rest;
            }
            Type::U8 => text.push_str(&number(hint, take::<1>(bytes)[0].into())),
            Type::U16 => text.push_str(&number(hint, u16::from_le_bytes(take(bytes)).into())),
            Type::U32 => text.push_str(&number(hint, u32::from_le_bytes(take(bytes)).into())),
            Type::U64 => text.push_str(&number(hint, u64::from_le_bytes(take(bytes)))),
            // On purpose without `Usize`: defmt cuts it to 32 bits.
            ref other => panic!("{other:?} has no business here"),
        }
    }
}

fn take<const N: usize>(bytes: &mut &[u8]) -> [u8; N] {
    let (taken, rest) = bytes.split_first_chunk().expect("the log is long enough");
    *bytes = rest;
    *taken
}

fn number(hint: Option<&DisplayHint>, value: u64) -> String {
    match *hint.unwrap_or(&DisplayHint::NoHint { zero_pad: 0 }) {
        DisplayHint::Debug => value.to_string(),
        DisplayHint::NoHint { zero_pad } => format!("{value:0zero_pad$}"),
        DisplayHint::Hexadecimal { alternate: true, uppercase: false, zero_pad } => {
            format!("{value:#0zero_pad$x}")
        }
        DisplayHint::Hexadecimal { alternate: false, uppercase: false, zero_pad } => {
            format!("{value:0zero_pad$x}")
        }
        ref other => panic!("{other:?} has no business here"),
    }
}

/// Name and value of each symbol of a 64-bit little-endian ELF file.
fn symbols(file: &[u8]) -> Vec<(String, u64)> {
    const SYMBOL_TABLE: u64 = 2;
    let field = |at: u64, len: u64| {
        let at = usize::try_from(at).unwrap();
        let bytes = &file[at..at + usize::try_from(len).unwrap()];
        bytes.iter().rev().fold(0, |number, byte| number << 8 | u64::from(*byte))
    };
    assert_eq!(file[..6], *b"\x7fELF\x02\x01");
    let sections = field(0x28, 8);
    let section = |index: u64| sections + index * field(0x3a, 2);
    let mut symbols = Vec::new();
    for table in (0..field(0x3c, 2)).map(section) {
        if field(table + 4, 4) != SYMBOL_TABLE {
            continue;
        }
        let names = field(section(field(table + 0x28, 4)) + 0x18, 8);
        let (start, len) = (field(table + 0x18, 8), field(table + 0x20, 8));
        for symbol in (start..start + len).step_by(24) {
            let name = &file[usize::try_from(names + field(symbol, 4)).unwrap()..];
            let end = name.iter().position(|byte| *byte == 0).unwrap();
            let name = String::from_utf8_lossy(&name[..end]).into_owned();
            symbols.push((name, field(symbol + 8, 8)));
        }
    }
    symbols
}
