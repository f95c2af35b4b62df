//! Findings and summaries as JSON lines.

use std::io::{self, Write};

use super::super::report::{Finding, Summary};
use crate::json::{Object, Seconds};

impl Finding {
    /// Writes the finding as one JSON object on a line of its own. `file` is named in it if
    /// given.
    ///
    /// # Errors
    /// What `out` says.
    pub fn write_json(&self, file: Option<&str>, out: &mut dyn Write) -> io::Result<()> {
        let mut object = Object::start(out)?;
        if let Some(file) = file {
            object.text("file", file)?;
        }
        object
            .text("rule", self.rule)?
            .text("severity", self.rule.severity())?
            .text("verdict", self.verdict)?
            .raw("packet", self.packet)?
            .option("time", self.time_ns.map(Seconds))?;
        match self.flow {
            Some(flow) => object.text("flow", flow)?,
            None => object.raw("flow", "null")?,
        };
        object
            .text("clause", self.rule.clause())?
            .text("expected", &self.expected)?
            .text("found", &self.found)?
            .text("message", &self.message)?
            .end()?;
        out.write_all(b"\n")
    }
}

impl Summary {
    /// Writes the numbers as one JSON object, `{"summary":{...}}`, on a line of its own.
    ///
    /// # Errors
    /// What `out` says.
    pub fn write_json(&self, out: &mut dyn Write) -> io::Result<()> {
        out.write_all(b"{\"summary\":")?;
        Object::start(out)?
            .raw("packets", self.packets)?
            .raw("roce_packets", self.roce_packets)?
            .raw("icrc_valid", self.icrc_valid)?
            .raw("icrc_invalid", self.icrc_invalid)?
            .raw("icrc_uncheckable", self.icrc_uncheckable)?
            .raw("flows", self.flows)?
            .raw("fail", self.fail)?
            .raw("pass", self.pass)?
            .raw("unknown", self.unknown)?
            .end()?;
        out.write_all(b"}\n")
    }
}
