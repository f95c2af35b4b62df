//! Exports: captures as tables, Parquet or Arrow, so that any engine judges terabytes of them.
//!
//! An export is a directory of files, `packets-000.parquet` and so on, of the tables that [`Table`]
//! lists. Their columns, in this order for as long as [`SCHEMA_VERSION`] stays, are those of
//! [`columns`]; `pcap-tools/README.md` has the list. A flow and a connection have the same number in
//! every export, so that those of several taps and of several days can be read together.
//!
//! [`Exporter`] takes packets one by one, judges them and puts their messages together. Whatever
//! the size of the captures, memory stays the same: some 32,768 packets are filled while as many are
//! written, and a row group of 131,072 rows is held packed. A second thread does the packing.
//!
//! ```no_run
//! use roce_pcap::capture::Reader;
//! use roce_pcap::export::{Exporter, Options, Table};
//!
//! let mut exporter = Exporter::create("export".as_ref(), Options::default())?;
//! exporter.start("trace.pcapng")?;
//! let mut reader = Reader::open("trace.pcapng")?;
//! while let Some(packet) = reader.next_packet() {
//!     exporter.packet(&packet?)?;
//! }
//! println!("{} packets", exporter.finish()?.rows(Table::Packets));
//! # Ok::<(), Box<dyn std::error::Error>>(())
//! ```

mod batch;
mod column;
mod error;
mod file;
mod findings;
mod flow;
mod messages;
mod output;
mod packets;
mod table;
mod word;

use std::num::NonZeroUsize;
use std::path::Path;

use batch::PacketBatch;
use findings::{FindingRow, Findings};
use flow::{Flow, FlowRow, Flows};
use messages::{Messages, Of, Recoveries};
use output::{BATCH, Output};
use packets::PacketRow;
use table::Columns;

pub use error::ExportError;
pub use output::Files;
pub use table::Table;

use roce_codec::Transport;

use crate::capture::Packet;
use crate::check::{Checker, Finding, Profile};
use crate::dissect::Dissected;
use crate::field::Row;
use crate::filter::Filter;
use crate::flow::{FlowId, FlowTable};
use crate::message::{Part, Tracked, Tracker};
use crate::observed::{FlowKey, Observed};
use crate::upper;

/// Counts changes of tables and columns; it is in the metadata of every file.
pub const SCHEMA_VERSION: u32 = 1;

/// How files are written.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Format {
    /// Apache Parquet, compressed by Snappy.
    Parquet,
    /// Arrow IPC, as a stream: what reads as it comes needs no end.
    Arrow,
}

impl Format {
    /// How the files' names end.
    #[must_use]
    pub const fn extension(self) -> &'static str {
        match self {
            Self::Parquet => "parquet",
            Self::Arrow => "arrows",
        }
    }
}

/// What an export is to be like.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Options {
    /// How files are written.
    pub format: Format,
    /// Rows after which a table goes on in another file.
    pub partition_rows: NonZeroUsize,
    /// Whether packets of other protocols have rows, too.
    pub all: bool,
}

impl Default for Options {
    fn default() -> Self {
        let partition_rows = NonZeroUsize::MIN.saturating_add(9_999_999);
        Self { format: Format::Parquet, partition_rows, all: false }
    }
}

/// A column of a table: its name, Arrow type and meaning.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ColumnInfo {
    /// Its name.
    pub name: String,
    /// Its type, and `?` behind it if a row may hold nothing.
    pub kind: String,
    /// What it means.
    pub description: String,
}

/// The columns of a table, in order.
#[must_use]
pub fn columns(table: Table) -> Vec<ColumnInfo> {
    let schema = output::schema(table);
    let fields = schema.fields().iter();
    fields
        .map(|field| ColumnInfo {
            name: field.name().clone(),
            kind: column::kind(field),
            description: field.metadata().get("description").cloned().unwrap_or_default(),
        })
        .collect()
}

/// Writes captures to an export, one after another.
pub struct Exporter {
    options: Options,
    profile: Profile,
    filter: Option<Filter>,
    output: Output,
    capture: Capture,
    batch: PacketBatch,
    messages: Filling<Messages>,
    recoveries: Filling<Recoveries>,
    findings: Filling<Findings>,
    flow_rows: Filling<Flows>,
}

/// What is known of the capture that is being written.
struct Capture {
    name: String,
    first_ns: Option<u64>,
    checker: Checker,
    tracker: Tracker,
    upper: upper::Tracker,
    flows: FlowTable<Flow>,
}

impl Capture {
    fn new(name: &str, profile: &Profile) -> Self {
        Self {
            name: name.to_owned(),
            first_ns: None,
            checker: Checker::with_profile(profile.clone()),
            tracker: Tracker::new(),
            upper: upper::Tracker::new(),
            flows: FlowTable::new(),
        }
    }
}

/// Rows of a table, until there are enough to write.
#[derive(Default)]
struct Filling<C> {
    columns: C,
    rows: usize,
}

impl<C: Columns> Filling<C> {
    /// Makes room for a row.
    fn row(&mut self, table: Table, output: &mut Output) -> Result<&mut C, ExportError> {
        if self.rows == BATCH {
            self.flush(table, output)?;
        }
        self.rows += 1;
        Ok(&mut self.columns)
    }

    fn flush(&mut self, table: Table, output: &mut Output) -> Result<(), ExportError> {
        if self.rows > 0 {
            output.write(table, self.columns.finish())?;
        }
        self.rows = 0;
        Ok(())
    }
}

impl Exporter {
    /// Starts an export in a directory, which is made if it is not there.
    ///
    /// # Errors
    /// [`ExportError`]: it cannot be made, or it holds something.
    pub fn create(directory: &Path, options: Options) -> Result<Self, ExportError> {
        let profile = Profile::default();
        Ok(Self {
            options,
            filter: None,
            output: Output::create(directory, options)?,
            capture: Capture::new("", &profile),
            profile,
            batch: PacketBatch::default(),
            messages: Filling::default(),
            recoveries: Filling::default(),
            findings: Filling::default(),
            flow_rows: Filling::default(),
        })
    }

    /// Only packets that the filter matches have rows. Messages, findings and flows are those of
    /// the whole capture.
    #[must_use]
    pub fn filter(mut self, filter: Filter) -> Self {
        self.filter = Some(filter);
        self
    }

    /// Knows the devices of captures that start from now on.
    #[must_use]
    pub fn profile(mut self, profile: Profile) -> Self {
        self.profile = profile;
        self
    }

    /// Starts a capture; nothing known of the one before holds for it.
    ///
    /// # Errors
    /// [`ExportError`]: why what was written before cannot be.
    pub fn start(&mut self, name: &str) -> Result<(), ExportError> {
        self.finish_capture()?;
        self.capture = Capture::new(name, &self.profile);
        Ok(())
    }

    /// Takes the next packet of the capture.
    ///
    /// # Errors
    /// [`ExportError`]: why this, or what was written before, cannot be.
    pub fn packet(&mut self, packet: &Packet<'_>) -> Result<(), ExportError> {
        let observed = Observed::new(packet);
        let capture = &mut self.capture;
        capture.first_ns = capture.first_ns.or(packet.timestamp_ns);
        let since = packet.timestamp_ns.zip(capture.first_ns);
        let findings = capture.checker.observed(&observed);
        let tracked = capture.tracker.packet(&observed);
        let row = Row::of(&observed)
            .since(since.map(|(now, first)| now.saturating_sub(first)))
            .judged(findings);
        let upper = capture.upper.packet(&row);
        let row = row.carrying(upper);

        let id = match observed.flow() {
            Some(key) => {
                let id = self.flow_rows.flow(
                    &mut capture.flows,
                    key,
                    &capture.name,
                    &mut self.output,
                )?;
                let flow = capture.flows.get_mut(id);
                flow.count(packet);
                let is_paired = matches!(tracked.part, Part::Request(_) | Part::Answer);
                if is_paired && flow.peer != tracked.peer {
                    batch::pair(&mut capture.flows, &mut self.batch, id, tracked.peer);
                }
                Some((key, id))
            }
            None => None,
        };
        let is_shown = self.options.all || !matches!(observed.what, Dissected::Other(_));
        if is_shown && self.filter.as_ref().is_none_or(|filter| filter.matches(&row)) {
            let flow = id.map(|(key, id)| (key, capture.flows.get_mut(id)));
            let row = PacketRow {
                file: &capture.name,
                observed: &observed,
                bth: observed.transport().map(Transport::bth),
                flow: flow.as_ref().map(|(key, flow)| (*key, flow.id)),
                part: tracked.part,
                upper,
            };
            self.batch.push(&row, flow.map(|(_, flow)| flow));
        }
        self.findings.add(findings, &capture.name, &mut self.batch, &mut self.output)?;
        if !tracked.messages.is_empty() || !tracked.recoveries.is_empty() {
            let Self { messages, recoveries, output, .. } = self;
            add_tracked(tracked, &mut capture.flows, &capture.name, messages, recoveries, output)?;
        }
        if self.batch.len() == BATCH {
            self.output.write(Table::Packets, self.batch.finish())?;
        }
        Ok(())
    }

    /// Writes everything, and says how much there is.
    ///
    /// # Errors
    /// [`ExportError`]: why it cannot be written.
    pub fn finish(mut self) -> Result<Files, ExportError> {
        self.finish_capture()?;
        let output = &mut self.output;
        self.messages.flush(Table::Messages, output)?;
        self.recoveries.flush(Table::Recoveries, output)?;
        self.findings.flush(Table::Findings, output)?;
        self.flow_rows.flush(Table::Flows, output)?;
        self.output.finish()
    }

    /// The capture has ended: what waited for more packets is written as it is.
    fn finish_capture(&mut self) -> Result<(), ExportError> {
        let capture = &mut self.capture;
        let findings = capture.checker.finish();
        self.findings.add(findings, &capture.name, &mut self.batch, &mut self.output)?;
        let tracked = capture.tracker.finish();
        let Self { messages, recoveries, output, .. } = self;
        let flows = &mut capture.flows;
        add_tracked(tracked, flows, &capture.name, messages, recoveries, output)?;
        for flow in flows.iter_mut() {
            let columns = self.flow_rows.row(Table::Flows, output)?;
            columns.append(&FlowRow { file: &capture.name, flow });
        }
        if self.batch.len() > 0 {
            output.write(Table::Packets, self.batch.finish())?;
        }
        Ok(())
    }
}

impl Filling<Flows> {
    /// The flow of that key. One that has been silent for long may have to be written for it.
    #[inline]
    fn flow(
        &mut self,
        flows: &mut FlowTable<Flow>,
        key: FlowKey,
        file: &str,
        output: &mut Output,
    ) -> Result<FlowId, ExportError> {
        if let Some(id) = flows.get(key) {
            return Ok(id);
        }
        let forgotten = flows.oldest();
        if let Some(id) = forgotten {
            let flow = flows.get_mut(id);
            self.row(Table::Flows, output)?.append(&FlowRow { file, flow });
        }
        Ok(flows.add(key, forgotten))
    }
}

impl Filling<Findings> {
    /// Writes findings, and notes them where their packets wait.
    #[inline]
    fn add(
        &mut self,
        findings: &[Finding],
        file: &str,
        batch: &mut PacketBatch,
        output: &mut Output,
    ) -> Result<(), ExportError> {
        for finding in findings {
            batch.found(finding);
            self.row(Table::Findings, output)?.append(&FindingRow { file, finding });
        }
        Ok(())
    }
}

/// Writes messages and recoveries.
fn add_tracked(
    tracked: Tracked<'_>,
    flows: &mut FlowTable<Flow>,
    file: &str,
    messages: &mut Filling<Messages>,
    recoveries: &mut Filling<Recoveries>,
    output: &mut Output,
) -> Result<(), ExportError> {
    let mut connection = |flow| {
        let id = flows.get(flow)?;
        flows.get_mut(id).connection
    };
    for message in tracked.messages {
        let row = Of { file, connection: connection(message.flow), is: message };
        messages.row(Table::Messages, output)?.append(&row);
    }
    for recovery in tracked.recoveries {
        let row = Of { file, connection: connection(recovery.flow), is: recovery };
        recoveries.row(Table::Recoveries, output)?.append(&row);
    }
    Ok(())
}
