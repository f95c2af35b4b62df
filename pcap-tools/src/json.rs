//! JSON objects written straight to their destination, a line each.

use std::fmt;
use std::io::{self, Write};

/// An object being written: fields in the order they are given.
pub(crate) struct Object<'w> {
    out: &'w mut dyn Write,
    empty: bool,
}

impl<'w> Object<'w> {
    pub(crate) fn start(out: &'w mut dyn Write) -> io::Result<Self> {
        out.write_all(b"{")?;
        Ok(Self { out, empty: true })
    }

    fn name(&mut self, name: &str) -> io::Result<()> {
        let comma = if self.empty { "" } else { "," };
        self.empty = false;
        write!(self.out, "{comma}\"{name}\":")
    }

    /// A field whose value the caller writes.
    pub(crate) fn value(&mut self, name: &str) -> io::Result<&mut dyn Write> {
        self.name(name)?;
        Ok(self.out)
    }

    /// A field whose value is JSON as it stands: a number, `true`, `null`.
    pub(crate) fn raw(&mut self, name: &str, value: impl fmt::Display) -> io::Result<&mut Self> {
        self.name(name)?;
        write!(self.out, "{value}")?;
        Ok(self)
    }

    /// A string field; what JSON forbids in strings is escaped.
    pub(crate) fn text(&mut self, name: &str, value: impl fmt::Display) -> io::Result<&mut Self> {
        self.name(name)?;
        serde_json::to_writer(&mut *self.out, &value.to_string())?;
        Ok(self)
    }

    /// A number that may be missing.
    pub(crate) fn option(
        &mut self,
        name: &str,
        value: Option<impl fmt::Display>,
    ) -> io::Result<&mut Self> {
        match value {
            Some(value) => self.raw(name, value),
            None => self.raw(name, "null"),
        }
    }

    pub(crate) fn end(&mut self) -> io::Result<()> {
        self.out.write_all(b"}")
    }
}

/// Nanoseconds since 1970 as seconds with nine decimals.
pub(crate) struct Seconds(pub(crate) u64);

impl fmt::Display for Seconds {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}.{:09}", self.0 / 1_000_000_000, self.0 % 1_000_000_000)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn objects_are_json() {
        let mut out = Vec::new();
        let mut object = Object::start(&mut out).unwrap();
        object.raw("number", 7).unwrap().text("text", "a \"b\"\n").unwrap();
        object.raw("time", Seconds(1_000_000_005)).unwrap();
        object.option("none", None::<u8>).unwrap().end().unwrap();
        let value: serde_json::Value = serde_json::from_slice(&out).unwrap();
        assert_eq!(value["text"], "a \"b\"\n");
        assert_eq!(value["number"], 7);
        assert!(value["none"].is_null());
        assert!(String::from_utf8(out).unwrap().contains("\"time\":1.000000005"));
    }
}
