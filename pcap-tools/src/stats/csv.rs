//! The figures as CSV (RFC 4180): a line for the whole, one a host, one a flow.

use std::io::{self, Write};

use super::Summary;
use super::figures::Figures;
use super::measure::measures;

impl Summary {
    /// Writes the heading.
    ///
    /// # Errors
    /// What `out` says.
    pub fn write_csv_heading(out: &mut dyn Write) -> io::Result<()> {
        write!(out, "file,row,src,dst,dest_qp,src_qp,received_packets,received_wire_bytes")?;
        for (name, _) in measures() {
            write!(out, ",{name}")?;
        }
        out.write_all(b"\r\n")
    }

    /// Writes the rows `total`, `host` and `flow`. What is unknown is left empty.
    ///
    /// # Errors
    /// What `out` says.
    pub fn write_csv(&self, file: &str, out: &mut dyn Write) -> io::Result<()> {
        let mut row = |start: String, figures: &Figures| {
            write!(out, "\"{}\",{start}", file.replace('"', "\"\""))?;
            for (_, measure) in measures() {
                match measure(figures) {
                    Some(value) => write!(out, ",{value}")?,
                    None => out.write_all(b",")?,
                }
            }
            out.write_all(b"\r\n")
        };
        row("total,,,,,,".into(), &self.total)?;
        for host in &self.hosts {
            let name = host.host.map_or("others".into(), |host| host.to_string());
            let received = format!("{},{}", host.received_packets, host.received_bytes);
            row(format!("host,{name},,,,{received}"), &host.figures)?;
        }
        for flow in &self.flows {
            let key = flow.key;
            let own = flow.peer.map_or(String::new(), |peer| peer.dest_qp.get().to_string());
            let start = format!("flow,{},{},{},{own},,", key.src, key.dst, key.dest_qp.get());
            row(start, &flow.figures)?;
        }
        if let Some((figures, _)) = &self.forgotten {
            row("other_flows,,,,,,".into(), figures)?;
        }
        Ok(())
    }
}
