//! Where the tests' packets come from, and captures for others to read.
#![allow(dead_code, reason = "each test takes what it needs")]

use std::path::{Path, PathBuf};

use pcap_file::pcap::PcapReader;

/// All packets of a capture.
pub(crate) fn packets(path: &Path) -> Vec<Vec<u8>> {
    let file = std::fs::File::open(path).unwrap();
    let mut reader = PcapReader::new(file).unwrap();
    let mut packets = Vec::new();
    while let Some(packet) = reader.next_packet() {
        packets.push(packet.unwrap().into_data().into_owned());
    }
    packets
}

/// One of our own captures.
pub(crate) fn ours(name: &str) -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../tests/captures").join(name)
}

/// The captures in a folder; none if it is not there.
pub(crate) fn captures(folder: &str) -> Vec<PathBuf> {
    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join(folder);
    let Ok(entries) = std::fs::read_dir(&folder) else { return Vec::new() };
    let mut paths: Vec<_> = entries
        .map(|entry| entry.unwrap().path())
        .filter(|path| path.extension().is_some_and(|ext| ext == "pcap"))
        .collect();
    paths.sort();
    paths
}

/// What a capture of Ethernet says of its link.
pub(crate) const ETHERNET: u32 = 1;

/// A classic capture file, microseconds.
pub(crate) fn write_pcap(path: &Path, link_type: u32, packets: &[Vec<u8>]) {
    let mut file = Vec::new();
    for word in [0xa1b2_c3d4_u32, 0x0004_0002, 0, 0, 65535, link_type] {
        file.extend(word.to_le_bytes());
    }
    for (packet, second) in packets.iter().zip(0_u32..) {
        let len = u32::try_from(packet.len()).unwrap();
        for word in [second, 0, len, len] {
            file.extend(word.to_le_bytes());
        }
        file.extend(packet);
    }
    std::fs::write(path, file).unwrap();
}
