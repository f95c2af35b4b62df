//! `roce-responder udaddy`: the client of `udaddy`.

use std::net::IpAddr;

use anyhow::Result;
use clap::Args;

use super::cm_client::run_client;
use super::stage::StageArgs;
use crate::service::cm::AnySession;
use crate::service::udaddy::{Client, ClientOptions, DEFAULT_PORT, MAX_COUNT};

/// Be the client of udaddy: find the server's queue pair, send it datagrams, and receive as many.
#[derive(Debug, Args)]
#[command(after_help = HELP)]
pub(crate) struct UdaddyArgs {
    /// The server's address in RDMA.
    #[arg(short = 's', long = "server", value_name = "ADDR")]
    pub(crate) server: IpAddr,

    /// The network.
    #[command(flatten)]
    pub(crate) stage: StageArgs,

    /// The port of RDMA CM's, of UDP's space; the program has no other. No UDP port.
    #[arg(short = 'p', long = "cm-port", value_name = "N", default_value_t = DEFAULT_PORT)]
    pub(crate) cm_port: u16,

    /// Datagrams each way, as the server's -C.
    #[arg(short = 'C', long, value_name = "N", default_value_t = 10,
          value_parser = clap::value_parser!(u32).range(1..=i64::from(MAX_COUNT)))]
    pub(crate) count: u32,

    /// Bytes of a datagram, as the server's -S; no more than the path MTU.
    #[arg(short = 'S', long, value_name = "BYTES", default_value_t = 100,
          value_parser = clap::value_parser!(u32).range(1..=4096))]
    pub(crate) size: u32,

    /// The path MTU at most: 256, 512, 1024, 2048 or 4096. What the interface carries unless given.
    #[arg(long, value_name = "BYTES")]
    pub(crate) path_mtu: Option<u32>,
}

const HELP: &str = "\
A datagram that is lost never comes: the exit status is 1 after 10 s.

Example, and what to run at the server first:

  udaddy -C 20 -S 1000
  roce-responder udaddy -s 192.0.2.2 --port af-xdp:eth1 --ip 192.0.2.1 -C 20 -S 1000";

/// Runs it.
pub(crate) fn udaddy(args: &UdaddyArgs) -> Result<()> {
    run_client(&args.stage, args.server, args.path_mtu, |number, src_port, gsi, context| {
        let options = ClientOptions {
            peer: args.server,
            port: args.cm_port,
            src_port,
            count: args.count,
            size: args.size,
        };
        Ok(AnySession::UdaddyClient(Client::connect(number, &options, gsi, context)?))
    })
}
