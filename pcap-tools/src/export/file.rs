//! One file of a table, in either format.

use std::fs::{self, File};
use std::io::{BufWriter, Write};
use std::path::{Path, PathBuf};

use arrow_array::RecordBatch;
use arrow_ipc::writer::StreamWriter;
use arrow_schema::SchemaRef;
use parquet::arrow::ArrowWriter;
use parquet::basic::Compression;
use parquet::file::metadata::KeyValue;
use parquet::file::properties::WriterProperties;

use super::{ExportError, Format};

/// Rows of a row group: what a reader takes at a time, and a writer holds.
const ROW_GROUP: usize = 1 << 17;

/// Columns that hardly repeat: looking for what repeats in them is for nothing.
const DISTINCT: [&str; 6] = ["packet", "time", "psn", "icrc", "expected", "found"];

/// A file being written. It has another name until it is whole.
pub(super) struct TableFile {
    path: PathBuf,
    rows: usize,
    writer: Writer,
}

enum Writer {
    Parquet(Box<ArrowWriter<File>>),
    Arrow(Box<StreamWriter<BufWriter<File>>>),
}

impl TableFile {
    /// Starts a file.
    pub(super) fn create(
        path: PathBuf,
        format: Format,
        schema: &SchemaRef,
    ) -> Result<Self, ExportError> {
        let unfinished = unfinished(&path);
        let file = File::create(&unfinished);
        let file = file.map_err(|source| ExportError::Io { path: unfinished, source })?;
        let writer = match format {
            Format::Parquet => ArrowWriter::try_new(file, schema.clone(), Some(properties(schema)))
                .map(|writer| Writer::Parquet(Box::new(writer)))
                .map_err(|source| ExportError::Parquet { path: path.clone(), source })?,
            Format::Arrow => StreamWriter::try_new(BufWriter::new(file), schema)
                .map(|writer| Writer::Arrow(Box::new(writer)))
                .map_err(|source| ExportError::Arrow { path: path.clone(), source })?,
        };
        Ok(Self { path, rows: 0, writer })
    }

    /// Rows so far.
    pub(super) fn rows(&self) -> usize {
        self.rows
    }

    /// Adds rows.
    pub(super) fn write(&mut self, batch: &RecordBatch) -> Result<(), ExportError> {
        self.rows += batch.num_rows();
        let path = &self.path;
        match &mut self.writer {
            Writer::Parquet(writer) => writer
                .write(batch)
                .map_err(|source| ExportError::Parquet { path: path.clone(), source }),
            Writer::Arrow(writer) => writer
                .write(batch)
                .map_err(|source| ExportError::Arrow { path: path.clone(), source }),
        }
    }

    /// Writes what is left, and gives the file its name.
    pub(super) fn finish(self) -> Result<(), ExportError> {
        let Self { path, writer, .. } = self;
        match writer {
            Writer::Parquet(writer) => {
                writer
                    .close()
                    .map_err(|source| ExportError::Parquet { path: path.clone(), source })?;
            }
            Writer::Arrow(writer) => {
                let finished = writer
                    .into_inner()
                    .map_err(|source| ExportError::Arrow { path: path.clone(), source })?;
                let flushed = finished.into_inner().map_err(std::io::IntoInnerError::into_error);
                let flushed = flushed.and_then(|mut file| file.flush());
                flushed.map_err(|source| ExportError::Io { path: path.clone(), source })?;
            }
        }
        fs::rename(unfinished(&path), &path).map_err(|source| ExportError::Io { path, source })
    }
}

/// What a file is called until it is whole. Engines pass over names that start with a dot.
fn unfinished(path: &Path) -> PathBuf {
    let name = path.file_name().unwrap_or_default().to_string_lossy();
    path.with_file_name(format!(".{name}.unfinished"))
}

fn properties(schema: &SchemaRef) -> WriterProperties {
    let metadata = schema.metadata().iter();
    let metadata = metadata.map(|(key, value)| KeyValue::new(key.clone(), value.clone())).collect();
    let mut builder = WriterProperties::builder()
        .set_compression(Compression::SNAPPY)
        .set_max_row_group_row_count(Some(ROW_GROUP))
        .set_created_by(format!("roce-pcap {}", env!("CARGO_PKG_VERSION")))
        .set_key_value_metadata(Some(metadata));
    for column in DISTINCT {
        builder = builder.set_column_dictionary_enabled(column.into(), false);
    }
    builder.build()
}
