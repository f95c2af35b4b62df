//! `roce-pcap export`.

use std::io::{self, Write};
use std::num::NonZeroUsize;
use std::path::{Path, PathBuf};

use clap::ValueEnum;
use roce_pcap::capture::Batch;
use roce_pcap::check::Profile;
use roce_pcap::export::{self, ExportError, Exporter, Options, Table};
use roce_pcap::filter::Filter;

use crate::input::{self, Input};
use crate::{Outcome, expression, profile};

#[derive(clap::Args)]
pub(crate) struct Args {
    #[command(flatten)]
    input: Input,
    /// The directory to write, new or empty: packets-000.parquet, messages-000.parquet and so on
    #[arg(short, long, value_name = "DIR", required_unless_present = "list_columns")]
    output: Option<PathBuf>,
    /// Output: parquet (Snappy), or arrow (Arrow IPC streams)
    #[arg(long, value_enum, default_value_t = Format::Parquet)]
    format: Format,
    /// Rows after which a table goes on in another file
    #[arg(long, value_name = "N", default_value = "10000000")]
    partition_rows: NonZeroUsize,
    /// Packets of other protocols have rows, too
    #[arg(long)]
    all: bool,
    /// Only packets for which this holds have rows, such as 'dqpn == 0x11'; messages, findings and
    /// flows are those of the whole capture
    #[arg(long = "where", value_name = "EXPRESSION")]
    filter: Option<String>,
    /// What is known of the devices, as of `check`
    #[arg(long, value_name = "NAME|FILE", value_parser = profile::parse)]
    profile: Option<Profile>,
    /// List the columns of all tables, and do nothing else
    #[arg(long, exclusive = true)]
    list_columns: bool,
}

#[derive(Clone, Copy, PartialEq, Eq, ValueEnum)]
enum Format {
    Parquet,
    Arrow,
}

pub(crate) fn run(args: &Args, out: &mut impl Write) -> io::Result<Outcome> {
    let Some(directory) = args.output.as_deref().filter(|_| !args.list_columns) else {
        return list_columns(out);
    };
    let format = match args.format {
        Format::Parquet => export::Format::Parquet,
        Format::Arrow => export::Format::Arrow,
    };
    let options = Options { format, partition_rows: args.partition_rows, all: args.all };
    let filter = match expression::parse(args.filter.as_deref()) {
        Ok(filter) => filter,
        Err(outcome) => return Ok(outcome),
    };
    match export(args, directory, options, filter, out) {
        Ok(outcome) => outcome,
        Err(error) => {
            eprintln!("roce-pcap: cannot export: {error}");
            Ok(Outcome::Unusable)
        }
    }
}

fn export(
    args: &Args,
    directory: &Path,
    options: Options,
    filter: Option<Filter>,
    out: &mut impl Write,
) -> Result<io::Result<Outcome>, ExportError> {
    let mut exporter = Exporter::create(directory, options)?;
    if let Some(filter) = filter {
        exporter = exporter.filter(filter);
    }
    if let Some(profile) = &args.profile {
        exporter = exporter.profile(profile.clone());
    }
    let mut outcome = Outcome::Clean;
    let mut batch = Batch::new();
    for mut capture in input::open(&args.input) {
        exporter.start(&capture.name())?;
        loop {
            match capture.fill(&mut batch) {
                Ok(0) => break,
                Ok(_) => batch.packets().try_for_each(|packet| exporter.packet(&packet))?,
                Err(error) => {
                    capture.complain(&error);
                    outcome = Outcome::Unusable;
                }
            }
        }
    }
    let files = exporter.finish()?;
    let written = Table::ALL.into_iter().try_for_each(|table| {
        let (name, rows, count) = (table.name(), files.rows(table), files.files(table));
        writeln!(
            out,
            "{name}: {rows} rows in {count} {}",
            if count == 1 { "file" } else { "files" }
        )
    });
    Ok(written.map(|()| outcome))
}

/// The columns as a table of Markdown, as README.md has it.
fn list_columns(out: &mut impl Write) -> io::Result<Outcome> {
    for table in Table::ALL {
        writeln!(out, "| `{}` | type | |\n|---|---|---|", table.name())?;
        for column in export::columns(table) {
            writeln!(out, "| {} | {} | {} |", column.name, column.kind, column.description)?;
        }
        writeln!(out)?;
    }
    Ok(Outcome::Clean)
}
