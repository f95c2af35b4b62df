//! `roce-pcap gen`.

use std::io::{self, Write};
use std::path::{Path, PathBuf};

use clap::ArgGroup;
use roce_codec::ib::PathMtu;
use roce_pcap::generate::{Golden, Mix};

use crate::{Outcome, output};

#[derive(clap::Args)]
#[command(group(ArgGroup::new("what").required(true).args(["packets", "list", "trace", "all"])))]
pub(crate) struct Args {
    /// So many packets of clean traffic: RC, UC, UD, connection manager, congestion
    #[arg(long, requires = "output")]
    packets: Option<u64>,
    /// List the golden traces: each error path, and the findings it must raise
    #[arg(long)]
    list: bool,
    /// One golden trace
    #[arg(long, value_name = "NAME", requires = "output")]
    trace: Option<String>,
    /// All golden traces, each a file in that folder
    #[arg(long, value_name = "FOLDER", conflicts_with = "output")]
    all: Option<PathBuf>,
    /// The same seed gives the same bytes
    #[arg(long, default_value_t = 1)]
    seed: u64,
    /// Connections at a time, at most 16384 [default: 4 to 64, by the packets]
    #[arg(long, requires = "packets", value_parser = clap::value_parser!(u32).range(1..=i64::from(Mix::MAX_FLOWS)))]
    flows: Option<u32>,
    /// Path MTU of all connections: 256, 512, 1024, 2048 or 4096 [default: several]
    #[arg(long, requires = "packets", value_parser = path_mtu)]
    mtu: Option<PathMtu>,
    /// Bytes of every message, at most 1048576 [default: a mixture]
    #[arg(long, requires = "packets", value_parser = clap::value_parser!(u32).range(..=i64::from(Mix::MAX_PAYLOAD)))]
    payload: Option<u32>,
    /// Where to: pcapng, pcap if the name ends so, compressed if in .gz; `-` for standard output
    #[arg(short, long)]
    output: Option<PathBuf>,
}

fn path_mtu(text: &str) -> Result<PathMtu, String> {
    let mtu = text.parse().ok().and_then(PathMtu::from_bytes);
    mtu.ok_or_else(|| "256, 512, 1024, 2048 or 4096".into())
}

pub(crate) fn run(args: &Args, out: &mut impl Write) -> io::Result<Outcome> {
    if args.list {
        return list(out).map(|()| Outcome::Clean);
    }
    if let Some(folder) = &args.all {
        return all(folder, args.seed);
    }
    let golden = match &args.trace {
        None => None,
        Some(name) => match Golden::named(name) {
            Some(golden) => Some(golden),
            None => {
                eprintln!("roce-pcap: there is no trace {name}: `roce-pcap gen --list` has them");
                return Ok(Outcome::Unusable);
            }
        },
    };
    let path = args.output.as_deref().unwrap_or(Path::new("-"));
    let Some(mut writer) = output::create(path) else { return Ok(Outcome::Unusable) };
    match golden {
        Some(golden) => golden.write(args.seed, &mut writer)?,
        None => Mix {
            packets: args.packets.unwrap_or_default(),
            seed: args.seed,
            flows: args.flows.unwrap_or_default(),
            mtu: args.mtu,
            payload: args.payload,
        }
        .write(&mut writer)?,
    }
    writer.into_inner()?.finish()?;
    Ok(Outcome::Clean)
}

/// A line a trace, and a line for each finding it must raise.
fn list(out: &mut impl Write) -> io::Result<()> {
    for golden in Golden::all() {
        writeln!(out, "{:26} {}", golden.name, golden.about)?;
        for (rule, verdict, packet) in golden.findings() {
            writeln!(out, "{:26}   {rule} {verdict} {packet}", "")?;
        }
    }
    Ok(())
}

fn all(folder: &Path, seed: u64) -> io::Result<Outcome> {
    if let Err(error) = std::fs::create_dir_all(folder) {
        output::complain(folder, &error);
        return Ok(Outcome::Unusable);
    }
    for golden in Golden::all() {
        let path = folder.join(format!("{}.pcapng", golden.name));
        let Some(mut writer) = output::create(&path) else { return Ok(Outcome::Unusable) };
        golden.write(seed, &mut writer)?;
        writer.into_inner()?.finish()?;
    }
    Ok(Outcome::Clean)
}
