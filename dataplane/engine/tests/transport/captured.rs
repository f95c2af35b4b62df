//! Packets recorded of Linux, as input.

use std::path::Path;

use roce_codec::ib::{Opcode, Qpn};
use roce_codec::{Crc, Frame, Start};

/// The frames of a capture of this repository.
pub(crate) fn frames(name: &str) -> Vec<Vec<u8>> {
    let path = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../tests/captures").join(name);
    let file = std::fs::File::open(&path).expect("a capture of this repository");
    let mut reader = pcap_file::pcap::PcapReader::new(file).unwrap();
    let mut frames = Vec::new();
    while let Some(packet) = reader.next_packet() {
        frames.push(packet.unwrap().into_data().into_owned());
    }
    frames
}

/// The frame taken apart, if it is of this opcode.
pub(crate) fn of_opcode(frame: &[u8], opcode: Opcode) -> Option<Frame<'_>> {
    Frame::parse([frame, &[]], Start::Ethernet).ok().filter(|parsed| parsed.opcode() == opcode)
}

/// The same frame for another queue pair.
pub(crate) fn retarget(frame: &[u8], dest_qp: Qpn) -> Vec<u8> {
    let parsed = Frame::parse([frame, &[]], Start::Ethernet).unwrap();
    let mut builder = parsed.to_builder();
    builder.bth.dest_qp = dest_qp;
    let mut out = vec![0; frame.len() + 8];
    let len = builder.emit::<Crc>(parsed.payload(), &mut out).unwrap();
    out.truncate(len);
    out
}
