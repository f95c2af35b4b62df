//! Wireshark's dissector, run as a process, as the oracle of every field it knows.
//!
//! Known faults of tshark 4.0, each looked up in the bytes: XRC, FLUSH, ATOMIC WRITE and the CNP are
//! younger than its opcode table; reliable datagrams it reads from eight bytes too far on; pad bytes
//! it takes for payload; and a UDP source port that belongs to another protocol (69 is TFTP) wins over
//! destination port 4791. It never checks an ICRC.

use std::collections::BTreeMap;
use std::path::Path;
use std::process::Command;

mod captures;
mod native;
mod opcodes;
#[path = "../packets/mod.rs"]
mod packets;

/// Rows of the fields asked for, or `None` where there is no tshark.
pub(crate) fn tshark(path: &Path, fields: &[&str]) -> Option<Vec<BTreeMap<String, String>>> {
    let mut command = Command::new("tshark");
    command.args(["-n", "-T", "fields", "-E", "occurrence=a", "-r"]).arg(path);
    // It takes payload for one of these by guess, and the ICRC with it.
    for guess in ["rpcordma", "nvme-rdma", "smb_direct", "iser"] {
        command.args(["--disable-protocol", guess]);
    }
    for field in fields {
        command.args(["-e", field]);
    }
    let output = match command.output() {
        Ok(output) => output,
        Err(error) if error.kind() == std::io::ErrorKind::NotFound => return None,
        Err(error) => panic!("tshark: {error}"),
    };
    assert!(output.status.success(), "tshark: {}", String::from_utf8_lossy(&output.stderr));
    let text = String::from_utf8(output.stdout).unwrap();
    let row = |line: &str| -> BTreeMap<String, String> {
        fields
            .iter()
            .map(|name| (*name).to_owned())
            .zip(line.split('\t').map(str::to_owned))
            .collect()
    };
    Some(text.lines().map(row).collect())
}

pub(crate) fn number(text: &str) -> u64 {
    match text.strip_prefix("0x") {
        Some(digits) => u64::from_str_radix(digits, 16).unwrap(),
        None => text.parse().unwrap(),
    }
}
