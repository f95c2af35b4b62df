//! The directory of an export, written by a thread of its own.

use std::collections::HashMap;
use std::fs;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::mpsc::{Receiver, SyncSender, sync_channel};
use std::thread::JoinHandle;

use arrow_array::{ArrayRef, RecordBatch};
use arrow_schema::{Schema, SchemaRef};

use super::file::TableFile;
use super::packets::{Packets, Settled};
use super::table::{Columns, Table};
use super::{ExportError, Options, SCHEMA_VERSION, findings, flow, messages};

/// Rows that are filled at a time.
pub(super) const BATCH: usize = 1 << 15;

/// Batches that wait to be written: while one is, the next is filled.
const WAITING: usize = 1;

/// Rows of one table.
struct Rows {
    table: Table,
    columns: Vec<ArrayRef>,
}

/// Where tables go.
pub(super) struct Output {
    sender: Option<SyncSender<Rows>>,
    thread: Option<JoinHandle<Result<Files, ExportError>>>,
}

/// How many files and rows of each table were written.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct Files {
    files: [usize; Table::ALL.len()],
    rows: [u64; Table::ALL.len()],
}

impl Files {
    /// Files of a table.
    #[must_use]
    pub fn files(&self, table: Table) -> usize {
        self.files[table.index()]
    }

    /// Rows of a table.
    #[must_use]
    pub fn rows(&self, table: Table) -> u64 {
        self.rows[table.index()]
    }
}

impl Output {
    /// Makes the directory, which must not hold anything.
    pub(super) fn create(directory: &Path, options: Options) -> Result<Self, ExportError> {
        let io = |source| ExportError::Io { path: directory.to_owned(), source };
        fs::create_dir_all(directory).map_err(io)?;
        if fs::read_dir(directory).map_err(io)?.next().is_some() {
            return Err(ExportError::NotEmpty(directory.to_owned()));
        }
        let (sender, receiver) = sync_channel(WAITING);
        let directory = directory.to_owned();
        let thread = std::thread::Builder::new()
            .name("export".into())
            .spawn(move || Writing::new(directory, options).run(&receiver));
        let thread = thread.map_err(|source| ExportError::Io { path: PathBuf::new(), source })?;
        Ok(Self { sender: Some(sender), thread: Some(thread) })
    }

    /// Hands rows over.
    pub(super) fn write(
        &mut self,
        table: Table,
        columns: Vec<ArrayRef>,
    ) -> Result<(), ExportError> {
        let sent = self.sender.as_ref().map(|sender| sender.send(Rows { table, columns }));
        match sent {
            Some(Ok(())) => Ok(()),
            // The thread has ended: it says why.
            _ => self.join().map(drop),
        }
    }

    /// Waits until everything is written.
    pub(super) fn finish(mut self) -> Result<Files, ExportError> {
        self.join()
    }

    fn join(&mut self) -> Result<Files, ExportError> {
        self.sender = None;
        match self.thread.take().map(JoinHandle::join) {
            Some(Ok(result)) => result,
            Some(Err(panic)) => std::panic::resume_unwind(panic),
            None => Ok(Files::default()),
        }
    }
}

/// The thread's side.
struct Writing {
    directory: PathBuf,
    options: Options,
    open: HashMap<Table, TableFile>,
    done: Files,
}

impl Writing {
    fn new(directory: PathBuf, options: Options) -> Self {
        Self { directory, options, open: HashMap::new(), done: Files::default() }
    }

    fn run(mut self, receiver: &Receiver<Rows>) -> Result<Files, ExportError> {
        let schemas = Table::ALL.map(|table| Arc::new(schema(table)));
        for Rows { table, columns } in receiver {
            let schema = &schemas[table.index()];
            let batch = RecordBatch::try_new(schema.clone(), columns).map_err(|source| {
                ExportError::Arrow { path: self.directory.join(table.name()), source }
            })?;
            self.write(table, schema, &batch)?;
        }
        for (table, schema) in Table::ALL.into_iter().zip(&schemas) {
            // A table without rows is one, too.
            if self.done.files(table) == 0 {
                self.file(table, schema)?;
            }
        }
        let open: Vec<_> = self.open.drain().collect();
        open.into_iter().try_for_each(|(_, file)| file.finish())?;
        Ok(self.done)
    }

    /// Writes rows to the table's file, and to the next where it is full.
    fn write(
        &mut self,
        table: Table,
        schema: &SchemaRef,
        batch: &RecordBatch,
    ) -> Result<(), ExportError> {
        let most = self.options.partition_rows.get();
        let mut at = 0;
        while at < batch.num_rows() {
            let file = self.file(table, schema)?;
            let rows = (batch.num_rows() - at).min(most.saturating_sub(file.rows()));
            file.write(&batch.slice(at, rows))?;
            at += rows;
            if file.rows() >= most
                && let Some(full) = self.open.remove(&table)
            {
                full.finish()?;
            }
        }
        self.done.rows[table.index()] += u64::try_from(at).unwrap_or(u64::MAX);
        Ok(())
    }

    /// The table's file that is being written.
    fn file(&mut self, table: Table, schema: &SchemaRef) -> Result<&mut TableFile, ExportError> {
        use std::collections::hash_map::Entry;
        match self.open.entry(table) {
            Entry::Occupied(entry) => Ok(entry.into_mut()),
            Entry::Vacant(entry) => {
                let format = self.options.format;
                let number = &mut self.done.files[table.index()];
                let name = format!("{}-{number:03}.{}", table.name(), format.extension());
                *number += 1;
                let path = self.directory.join(name);
                Ok(entry.insert(TableFile::create(path, format, schema)?))
            }
        }
    }
}

/// A table's columns, and in the file's metadata what wrote it.
pub(super) fn schema(table: Table) -> Schema {
    let fields = match table {
        Table::Packets => [Packets::fields(), Settled::fields()].concat(),
        Table::Messages => messages::Messages::fields(),
        Table::Recoveries => messages::Recoveries::fields(),
        Table::Findings => findings::Findings::fields(),
        Table::Flows => flow::Flows::fields(),
    };
    let metadata = [
        ("roce_pcap.table", table.name().to_owned()),
        ("roce_pcap.schema", SCHEMA_VERSION.to_string()),
        ("roce_pcap.version", env!("CARGO_PKG_VERSION").to_owned()),
    ];
    let metadata = metadata.map(|(key, value)| (key.to_owned(), value));
    Schema::new_with_metadata(fields, HashMap::from(metadata))
}
