//! `roce-pcap schema`.

use std::io::{self, Write};

use clap::ValueEnum;

use crate::Outcome;

#[derive(clap::Args)]
pub(crate) struct Args {
    /// Whose JSON output
    #[arg(value_enum)]
    command: Command,
}

#[derive(Clone, Copy, ValueEnum)]
enum Command {
    Decode,
    Check,
    Stats,
}

pub(crate) fn run(args: &Args, out: &mut impl Write) -> io::Result<Outcome> {
    match args.command {
        Command::Decode => roce_pcap::decode::write_schema(out)?,
        Command::Stats => roce_pcap::stats::write_schema(out)?,
        Command::Check => {
            out.write_all(include_bytes!("../../../schema/check.json"))?;
        }
    }
    Ok(Outcome::Clean)
}
