//! `roce-pcap`: decode and judge RoCEv2 captures at the desk and in CI.

mod annotate;
mod check;
mod completions;
mod decode;
mod diff;
mod explain;
#[cfg(feature = "export")]
mod export;
mod expression;
mod generate;
mod input;
mod man;
mod output;
mod profile;
mod progress;
mod replay;
mod rewrite;
mod schema;
mod stats;

use std::io::{self, BufWriter, Write};
use std::process::ExitCode;

use anstream::{AutoStream, ColorChoice};
use clap::{Parser, Subcommand, ValueEnum};

/// Decode and judge RoCEv2 captures (pcap and pcapng).
///
/// Exit status: 0 clean, 1 findings, 2 unusable input or arguments.
#[derive(Parser)]
#[command(version, about, long_about = None)]
#[command(after_help = "Exit status: 0 clean, 1 findings, 2 unusable input or arguments.")]
struct Cli {
    #[command(subcommand)]
    command: Command,
    /// When to use colours; auto is on a terminal, unless NO_COLOR is set
    #[arg(long, global = true, value_enum, default_value_t = Color::Auto, value_name = "WHEN")]
    color: Color,
}

#[derive(Subcommand)]
enum Command {
    /// Show packets: one line each, every field, or JSON
    Decode(decode::Args),
    /// Judge captures by the rules of the specification
    Check(check::Args),
    /// Figures: operations, goodput, latency, losses and recovery, congestion, pauses
    Stats(stats::Args),
    /// Print the page of a rule, or the list of all rules
    Explain(explain::Args),
    /// Copy a capture with the findings as packet comments, for Wireshark
    Annotate(annotate::Args),
    /// Compare two captures of the same traffic: losses, changes, marks, delay
    Diff(diff::Args),
    /// Make up traces: clean ones of any size, and golden ones of every error path
    Gen(generate::Args),
    /// Copy captures with addresses masked, payload left out, copies dropped, ICRCs made right; merge
    Rewrite(rewrite::Args),
    /// Write captures as tables, Parquet or Arrow, for DuckDB, Spark and the like
    #[cfg(feature = "export")]
    Export(export::Args),
    /// Put the requests of a capture to our responder and compare its answers with the captured ones
    ///
    /// In process and without privilege, or with --port out of an interface to a responder elsewhere.
    /// A difference is permitted and named, or unknown, or a mismatch (exit status 1). Several files
    /// are taken for one capture, in the order given. --plan shows what is learned.
    Replay(replay::Args),
    /// Print the JSON Schema of a command's output
    Schema(schema::Args),
    /// Print the completions for a shell
    Completions(completions::Args),
    /// Print the manual page of a command, or write all pages to a folder
    Man(man::Args),
}

#[derive(Clone, Copy, PartialEq, Eq, ValueEnum)]
enum Color {
    Auto,
    Always,
    Never,
}

impl Color {
    /// Whether standard output is to have colours.
    fn is_wanted(self) -> bool {
        match self {
            Self::Auto => AutoStream::choice(&io::stdout()) != ColorChoice::Never,
            Self::Always => true,
            Self::Never => false,
        }
    }
}

/// How a run ended.
enum Outcome {
    Clean,
    Findings,
    Unusable,
}

fn main() -> ExitCode {
    let cli = Cli::parse();
    let mut out = BufWriter::with_capacity(64 * 1024, io::stdout());
    let outcome = match cli.command {
        Command::Decode(args) => decode::run(&args, cli.color.is_wanted(), &mut out),
        Command::Check(args) => check::run(&args, &mut out),
        Command::Stats(args) => stats::run(&args, &mut out),
        Command::Explain(args) => explain::run(&args, &mut out),
        Command::Annotate(args) => annotate::run(&args),
        Command::Rewrite(args) => rewrite::run(&args),
        #[cfg(feature = "export")]
        Command::Export(args) => export::run(&args, &mut out),
        Command::Replay(args) => replay::run(&args, &mut out),
        Command::Diff(args) => diff::run(&args, &mut out),
        Command::Gen(args) => generate::run(&args, &mut out),
        Command::Schema(args) => schema::run(&args, &mut out),
        Command::Completions(args) => completions::run(&args, &mut out),
        Command::Man(args) => man::run(&args, &mut out),
    };
    match outcome.and_then(|outcome| out.flush().map(|()| outcome)) {
        Ok(Outcome::Clean) => ExitCode::SUCCESS,
        Ok(Outcome::Findings) => ExitCode::from(1),
        Ok(Outcome::Unusable) => ExitCode::from(2),
        // Whoever read our output has seen enough (`roce-pcap decode ... | head`).
        Err(error) if error.kind() == io::ErrorKind::BrokenPipe => ExitCode::SUCCESS,
        Err(error) => {
            eprintln!("roce-pcap: cannot write the output: {error}");
            ExitCode::from(2)
        }
    }
}
