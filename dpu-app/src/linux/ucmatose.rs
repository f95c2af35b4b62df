//! `roce-responder ucmatose`: the client of `ucmatose`.

use std::net::IpAddr;

use anyhow::Result;
use clap::Args;

use super::cm_client::run_client;
use super::stage::StageArgs;
use crate::service::cm::AnySession;
use crate::service::ucmatose::{DEFAULT_PORT, MAX_COUNT, MAX_SIZE, Session, Traffic};

/// Be the client of ucmatose: receive the server's messages, and send as many back.
#[derive(Debug, Args)]
#[command(after_help = HELP)]
pub(crate) struct UcmatoseArgs {
    /// The server's address in RDMA.
    #[arg(short = 's', long = "server", value_name = "ADDR")]
    pub(crate) server: IpAddr,

    /// The network.
    #[command(flatten)]
    pub(crate) stage: StageArgs,

    /// The port of RDMA CM's, as the server's -p; no TCP port.
    #[arg(short = 'p', long = "cm-port", value_name = "N", default_value_t = DEFAULT_PORT)]
    pub(crate) cm_port: u16,

    /// Messages each way, as the server's -C.
    #[arg(short = 'C', long, value_name = "N", default_value_t = Traffic::DEFAULT.count,
          value_parser = clap::value_parser!(u32).range(1..=i64::from(MAX_COUNT)))]
    pub(crate) count: u32,

    /// Bytes of a message, as the server's -S.
    #[arg(short = 'S', long, value_name = "BYTES", default_value_t = Traffic::DEFAULT.size,
          value_parser = clap::value_parser!(u32).range(1..=i64::from(MAX_SIZE)))]
    pub(crate) size: u32,

    /// Ask for no larger path MTU: 256, 512, 1024, 2048 or 4096. What the interface carries unless
    /// given.
    #[arg(long, value_name = "BYTES")]
    pub(crate) path_mtu: Option<u32>,
}

const HELP: &str = "\
Example, and what to run at the server first:

  ucmatose -C 20 -S 1000
  roce-responder ucmatose -s 192.0.2.2 --port af-xdp:eth1 --ip 192.0.2.1 -C 20 -S 1000";

/// Runs it.
pub(crate) fn ucmatose(args: &UcmatoseArgs) -> Result<()> {
    let traffic = Traffic { count: args.count, size: args.size };
    run_client(&args.stage, args.server, args.path_mtu, |number, src_port, gsi, context| {
        let ports = (src_port, args.cm_port);
        let client = Session::connect(number, traffic, args.server, ports, gsi, context)?;
        Ok(AnySession::Ucmatose(client))
    })
}
