//! Captures in memory, and tshark's view of them.

use std::io::Write;
use std::path::{Path, PathBuf};
use std::process::{Command, Output, Stdio};
use std::sync::atomic::{AtomicU32, Ordering};

use roce_pcap::capture::{Direction, LinkType, Reader};

/// A file that is removed when it goes out of scope.
pub(crate) struct Temporary(pub(crate) PathBuf);

impl Temporary {
    /// With these contents; the name ends in `suffix`.
    pub(crate) fn new(suffix: &str, contents: &[u8]) -> Self {
        static NUMBER: AtomicU32 = AtomicU32::new(0);
        let number = NUMBER.fetch_add(1, Ordering::Relaxed);
        let name = format!("roce-pcap-tools-{}-{number}{suffix}", std::process::id());
        let path = std::env::temp_dir().join(name);
        std::fs::write(&path, contents).unwrap();
        Self(path)
    }
}

impl Drop for Temporary {
    fn drop(&mut self) {
        let _ = std::fs::remove_file(&self.0);
    }
}

pub(crate) fn capture(name: &str) -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join(format!("../tests/captures/{name}.pcap"))
}

/// The program under test, what it is given on standard input, and what it writes.
pub(crate) fn roce_pcap(args: &[&str], input: &[u8]) -> Output {
    let mut child = Command::new(env!("CARGO_BIN_EXE_roce-pcap"))
        .args(args)
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .stderr(Stdio::piped())
        .spawn()
        .unwrap();
    let mut stdin = child.stdin.take().unwrap();
    std::thread::scope(|scope| {
        // It may end before it has read everything.
        scope.spawn(move || drop(stdin.write_all(input)));
        child.wait_with_output().unwrap()
    })
}

/// Every packet of a capture, all that is said of it.
pub(crate) fn packets(file: &[u8]) -> Vec<Owned> {
    let mut reader = Reader::new(file).unwrap();
    let mut packets = Vec::new();
    while let Some(packet) = reader.next_packet() {
        let packet = packet.unwrap();
        packets.push(Owned {
            time: packet.timestamp_ns,
            link: packet.link,
            interface: packet.interface,
            direction: packet.direction,
            orig_len: packet.orig_len,
            data: packet.data.to_vec(),
        });
    }
    packets
}

#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Owned {
    pub(crate) time: Option<u64>,
    pub(crate) link: Option<LinkType>,
    pub(crate) interface: u32,
    pub(crate) direction: Option<Direction>,
    pub(crate) orig_len: u32,
    pub(crate) data: Vec<u8>,
}

/// Fields of every packet, as tshark sees them; `None`, saying so, where there is no tshark.
pub(crate) fn tshark(path: &Path, filter: &str, fields: &[&str]) -> Option<Vec<Vec<String>>> {
    let mut command = Command::new("tshark");
    // Only what lies in the file is to be looked at, in this program's process alone.
    command.args(["-n", "-r"]).arg(path).args(["-Y", filter, "-T", "fields"]);
    command.args(["-E", "separator=\t", "-E", "aggregator=|"]);
    for field in fields {
        command.args(["-e", field]);
    }
    let output = match command.output() {
        Ok(output) => output,
        Err(error) => {
            eprintln!("passed over: tshark cannot be run: {error}");
            return None;
        }
    };
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
    let text = String::from_utf8(output.stdout).unwrap();
    Some(text.lines().map(|line| line.split('\t').map(str::to_owned).collect()).collect())
}
