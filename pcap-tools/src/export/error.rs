//! Why an export cannot be written.

use std::fmt;
use std::io;
use std::path::PathBuf;

use arrow_schema::ArrowError;
use parquet::errors::ParquetError;

/// Why an export cannot be written.
#[derive(Debug)]
#[non_exhaustive]
pub enum ExportError {
    /// There is something in the directory, which would come to be part of the export.
    NotEmpty(PathBuf),
    /// The operating system refused.
    Io {
        /// What it was to do it with.
        path: PathBuf,
        /// What it said.
        source: io::Error,
    },
    /// A Parquet file cannot be written.
    Parquet {
        /// The file.
        path: PathBuf,
        /// Why.
        source: ParquetError,
    },
    /// An Arrow file cannot be written, or columns do not make a table.
    Arrow {
        /// The file.
        path: PathBuf,
        /// Why.
        source: ArrowError,
    },
}

impl fmt::Display for ExportError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::NotEmpty(path) => {
                write!(f, "{} is not empty: give a new directory", path.display())
            }
            Self::Io { path, source } => write!(f, "{}: {source}", path.display()),
            Self::Parquet { path, source } => write!(f, "{}: {source}", path.display()),
            Self::Arrow { path, source } => write!(f, "{}: {source}", path.display()),
        }
    }
}

impl std::error::Error for ExportError {
    fn source(&self) -> Option<&(dyn std::error::Error + 'static)> {
        match self {
            Self::NotEmpty(_) => None,
            Self::Io { source, .. } => Some(source),
            Self::Parquet { source, .. } => Some(source),
            Self::Arrow { source, .. } => Some(source),
        }
    }
}
