//! Decoding for people and programs: one line a packet, a tree of every field, JSON, or CSV.
//!
//! All but the line are made from the table of [fields](crate::field).

mod columns;
mod csv;
mod line;
mod object;
mod paint;
mod schema;
mod tree;

use std::io::{self, Write};

pub use columns::Columns;
pub use schema::write_schema;

use crate::capture::Packet;
use crate::dissect::Dissected;
use crate::field::{Needs, Row, Rows};
use crate::filter::Filter;

/// How packets are written.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Style {
    /// One line a packet; with columns, their values between tabs.
    Line,
    /// Every header field on a line of its own, as `tshark -V`.
    Tree,
    /// One JSON object a packet and line, under the field names of Wireshark.
    JsonLines,
    /// The same objects in one JSON array.
    Json,
    /// A line of names, then one a packet (RFC 4180).
    Csv,
}

/// What was decoded. Packets that the filter kept out count as well, but for `shown`.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct Counts {
    /// Packets read.
    pub packets: u64,
    /// Those sent to RoCEv2's port.
    pub roce_packets: u64,
    /// Those that cannot be read although they were.
    pub malformed: u64,
    /// RoCE v1 and native InfiniBand.
    pub native_packets: u64,
    /// PAUSE and PFC frames.
    pub pauses: u64,
    /// Packets written.
    pub shown: u64,
}

/// Writes packets one by one.
///
/// ```
/// use roce_pcap::decode::{Columns, Decoder, Style};
/// use roce_pcap::filter::Filter;
///
/// let decoder = Decoder::new(Style::Csv, false)
///     .columns(Columns::parse("number,src,dst,opcode,psn")?)
///     .filter(Filter::parse("opcode == READ_REQUEST")?);
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
#[derive(Debug)]
pub struct Decoder {
    style: Style,
    all: bool,
    color: bool,
    columns: Option<Columns>,
    filter: Option<Filter>,
    rows: Rows,
    counts: Counts,
}

impl Decoder {
    /// Writes RoCEv2 packets, and RoCE v1, native InfiniBand and PAUSE frames among them, in the
    /// given style and, with `all`, something for each other packet.
    #[must_use]
    pub fn new(style: Style, all: bool) -> Self {
        let columns = (style == Style::Csv).then(Columns::of_csv);
        let mut decoder = Self {
            style,
            all,
            color: false,
            columns,
            filter: None,
            rows: Rows::default(),
            counts: Counts::default(),
        };
        decoder.prepare();
        decoder
    }

    /// Writes these fields, and no others.
    #[must_use]
    pub fn columns(mut self, columns: Columns) -> Self {
        self.columns = Some(columns);
        self.prepare();
        self
    }

    /// Writes only packets that the filter matches.
    #[must_use]
    pub fn filter(mut self, filter: Filter) -> Self {
        self.filter = Some(filter);
        self.prepare();
        self
    }

    /// Lines and trees in colour.
    #[must_use]
    pub fn color(mut self, color: bool) -> Self {
        self.color = color;
        self
    }

    /// Nothing is followed that nobody asked for.
    fn prepare(&mut self) {
        let columns = match &self.columns {
            Some(columns) => columns.needs(),
            None => Needs { upper: true, verdicts: false },
        };
        let filter = self.filter.as_ref().map(Filter::needs).unwrap_or_default();
        self.rows = Rows::new(columns.and(filter));
    }

    /// What was decoded so far.
    #[must_use]
    pub fn counts(&self) -> Counts {
        self.counts
    }

    /// Writes what stands before the first packet: of JSON and CSV.
    ///
    /// # Errors
    /// What `out` says.
    pub fn start(&self, out: &mut dyn Write) -> io::Result<()> {
        match (self.style, &self.columns) {
            (Style::Json, _) => out.write_all(b"["),
            (Style::Csv, Some(columns)) => csv::header(columns, out),
            _ => Ok(()),
        }
    }

    /// Decodes a packet and writes what there is to say of it.
    ///
    /// # Errors
    /// What `out` says.
    pub fn packet(&mut self, packet: &Packet<'_>, out: &mut dyn Write) -> io::Result<()> {
        let row = self.rows.row(packet);
        self.counts.packets += 1;
        let is_shown = match row.dissected() {
            Dissected::Roce(_) => {
                self.counts.roce_packets += 1;
                true
            }
            Dissected::Native(_) => {
                self.counts.native_packets += 1;
                true
            }
            Dissected::MacControl(_) => {
                self.counts.pauses += 1;
                true
            }
            Dissected::Malformed(_) => {
                self.counts.roce_packets += 1;
                self.counts.malformed += 1;
                true
            }
            Dissected::Other(_) => self.all,
        };
        if !is_shown || self.filter.as_ref().is_some_and(|filter| !filter.matches(&row)) {
            return Ok(());
        }
        self.counts.shown += 1;
        let first = self.counts.shown == 1;
        write_row(self.style, self.columns.as_ref(), self.color, first, &row, out)
    }

    /// Writes what stands behind the last packet: of JSON.
    ///
    /// # Errors
    /// What `out` says.
    pub fn finish(&self, out: &mut dyn Write) -> io::Result<()> {
        match self.style {
            Style::Json => out.write_all(b"\n]\n"),
            _ => Ok(()),
        }
    }
}

fn write_row(
    style: Style,
    columns: Option<&Columns>,
    color: bool,
    first: bool,
    row: &Row<'_>,
    out: &mut dyn Write,
) -> io::Result<()> {
    let object = |out: &mut dyn Write| match columns {
        Some(columns) => object::chosen(columns, row, out),
        None => object::whole(row, out),
    };
    match (style, columns) {
        (Style::Line, None) => line::write(row, color, out),
        (Style::Tree, None)
            if !matches!(row.dissected(), Dissected::Malformed(_) | Dissected::Other(_)) =>
        {
            tree::write(row, color, out)
        }
        (Style::Tree, None) => line::write(row, color, out),
        (Style::Line | Style::Tree, Some(columns)) => csv::tabs(columns, row, out),
        (Style::Csv, Some(columns)) => csv::record(columns, row, out),
        // Always with columns.
        (Style::Csv, None) => Ok(()),
        (Style::JsonLines, _) => {
            object(out)?;
            out.write_all(b"\n")
        }
        (Style::Json, _) => {
            out.write_all(if first { b"\n" } else { b",\n" })?;
            object(out)
        }
    }
}
