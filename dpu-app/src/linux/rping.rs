//! `roce-responder rping`: the client of `rping`.

use std::net::IpAddr;

use anyhow::Result;
use clap::Args;

use super::cm_client::run_client;
use super::stage::StageArgs;
use crate::service::cm::AnySession;
use crate::service::rping::{Client, ClientOptions, DEFAULT_PORT, MAX_PING};

/// Be the client of rping: have the server READ a ping and WRITE it back, again and again.
#[derive(Debug, Args)]
#[command(after_help = HELP)]
pub(crate) struct RpingArgs {
    /// The server's address in RDMA.
    #[arg(short = 'c', long = "client", value_name = "ADDR")]
    pub(crate) server: IpAddr,

    /// The network.
    #[command(flatten)]
    pub(crate) stage: StageArgs,

    /// The port of RDMA CM's, as the server's -p; no TCP or UDP port.
    #[arg(short = 'p', long, value_name = "N", default_value_t = DEFAULT_PORT)]
    pub(crate) rping_port: u16,

    /// Pings, as rping's -C.
    #[arg(short = 'C', long, value_name = "N", default_value_t = 10,
          value_parser = clap::value_parser!(u64).range(1..))]
    pub(crate) count: u64,

    /// Bytes of a ping, as rping's -S.
    #[arg(short = 'S', long, value_name = "BYTES", default_value_t = 64,
          value_parser = clap::value_parser!(u32).range(16..=i64::from(MAX_PING)))]
    pub(crate) size: u32,

    /// Look at every byte that comes back, as rping's -V.
    #[arg(short = 'V', long)]
    pub(crate) verify: bool,

    /// Ask for no larger path MTU: 256, 512, 1024, 2048 or 4096. What the interface carries unless
    /// given.
    #[arg(long, value_name = "BYTES")]
    pub(crate) path_mtu: Option<u32>,
}

const HELP: &str = "\
Example, and what to run at the server first:

  rping -s -v
  roce-responder rping --client 192.0.2.2 --port af-xdp:eth1 --ip 192.0.2.1 --verify";

/// Runs it.
pub(crate) fn rping(args: &RpingArgs) -> Result<()> {
    run_client(&args.stage, args.server, args.path_mtu, |number, src_port, gsi, context| {
        let options = ClientOptions {
            peer: args.server,
            port: args.rping_port,
            src_port,
            count: args.count,
            size: args.size,
            verify: args.verify,
        };
        Ok(AnySession::RpingClient(Client::connect(number, &options, gsi, context)?))
    })
}
