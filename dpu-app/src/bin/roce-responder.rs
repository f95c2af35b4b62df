//! Serves RDMA clients over RoCEv2.

use std::process::ExitCode;

use clap::Parser;
use dpu_app::linux::cli::Cli;

fn main() -> ExitCode {
    match Cli::parse().run() {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => {
            eprintln!("roce-responder: {error:#}");
            ExitCode::FAILURE
        }
    }
}
