//! Where the tests' packets come from.

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
