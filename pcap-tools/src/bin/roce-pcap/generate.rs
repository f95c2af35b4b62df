//! `roce-pcap gen`.

use std::io;
use std::path::PathBuf;

use roce_codec::ib::PathMtu;
use roce_pcap::generate::Mix;

use crate::{Outcome, output};

#[derive(clap::Args)]
pub(crate) struct Args {
    /// Packets of clean traffic: RC, UC, UD, connection manager, congestion
    #[arg(long)]
    packets: u64,
    /// The same seed gives the same bytes
    #[arg(long, default_value_t = 1)]
    seed: u64,
    /// Connections at a time, at most 16384 [default: 4 to 64, by the packets]
    #[arg(long, value_parser = clap::value_parser!(u32).range(1..=i64::from(Mix::MAX_FLOWS)))]
    flows: Option<u32>,
    /// Path MTU of all connections: 256, 512, 1024, 2048 or 4096 [default: several]
    #[arg(long, value_parser = path_mtu)]
    mtu: Option<PathMtu>,
    /// Bytes of every message, at most 1048576 [default: a mixture]
    #[arg(long, value_parser = clap::value_parser!(u32).range(..=i64::from(Mix::MAX_PAYLOAD)))]
    payload: Option<u32>,
    /// Where to: pcapng, pcap if the name ends so, compressed if in .gz; `-` for standard output
    #[arg(short, long)]
    output: PathBuf,
}

fn path_mtu(text: &str) -> Result<PathMtu, String> {
    let mtu = text.parse().ok().and_then(PathMtu::from_bytes);
    mtu.ok_or_else(|| "256, 512, 1024, 2048 or 4096".into())
}

pub(crate) fn run(args: &Args) -> io::Result<Outcome> {
    let mix = Mix {
        packets: args.packets,
        seed: args.seed,
        flows: args.flows.unwrap_or_default(),
        mtu: args.mtu,
        payload: args.payload,
    };
    let Some(mut writer) = output::create(&args.output) else { return Ok(Outcome::Unusable) };
    mix.write(&mut writer)?;
    writer.into_inner()?.finish()?;
    Ok(Outcome::Clean)
}
