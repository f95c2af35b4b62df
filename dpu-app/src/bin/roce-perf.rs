//! perftest's client without an RDMA device.

use std::process::ExitCode;

use clap::Parser;
use dpu_app::linux::perf::PerfCli;

fn main() -> ExitCode {
    PerfCli::parse().run().unwrap_or_else(|failure| {
        eprintln!("roce-perf: {failure}");
        failure.exit_code()
    })
}
