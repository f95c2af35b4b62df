//! `roce-pcap completions`.

use std::io::{self, Write};

use clap::CommandFactory;
use clap_complete::Shell;

use crate::{Cli, Outcome};

#[derive(clap::Args)]
pub(crate) struct Args {
    /// The shell; bash, for instance, reads them by `source <(roce-pcap completions bash)`
    shell: Shell,
}

pub(crate) fn run(args: &Args, out: &mut impl Write) -> io::Result<Outcome> {
    // The generator panics where it cannot write: it writes to memory.
    let mut script = Vec::new();
    clap_complete::generate(args.shell, &mut Cli::command(), "roce-pcap", &mut script);
    out.write_all(&script)?;
    Ok(Outcome::Clean)
}
