//! Captures in memory, for tests that change them.

use std::path::Path;

use roce_codec::{Crc, Frame, FrameBuilder, Start};
use roce_pcap::capture::{LinkType, Packet, Reader};
use roce_pcap::replay::{DEFAULT_LIMIT, Freedom, Recording, Replay, Report};

/// A packet that owns its bytes.
#[derive(Debug, Clone)]
pub(crate) struct Owned {
    pub(crate) timestamp_ns: Option<u64>,
    pub(crate) link: LinkType,
    /// Bytes on the wire.
    pub(crate) orig_len: u32,
    /// Bytes captured.
    pub(crate) data: Vec<u8>,
}

impl Owned {
    pub(crate) fn frame(&self) -> Frame<'_> {
        Frame::parse_captured([&self.data, &[]], Start::Ethernet).unwrap()
    }

    pub(crate) fn is_answer(&self) -> bool {
        self.frame().info().is_response()
    }

    /// Changes values of the packet; lengths are those of the payload, the ICRC is made anew.
    pub(crate) fn change(&mut self, change: impl FnOnce(&mut FrameBuilder, &mut Vec<u8>)) {
        let frame = self.frame();
        let mut builder = frame.to_builder();
        let mut payload = frame.payload().concat();
        change(&mut builder, &mut payload);
        builder.set_payload_len(payload.len()).unwrap();
        let mut out = vec![0; 8192];
        let len = builder.emit::<Crc>([&payload, &[]], &mut out).unwrap();
        out.truncate(len);
        self.orig_len = u32::try_from(len).unwrap();
        self.data = out;
    }
}

/// The path of one of the repository's captures.
pub(crate) fn path(name: &str) -> std::path::PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join(format!("../tests/captures/{name}.pcap"))
}

/// Every packet of one of the repository's captures.
pub(crate) fn load(name: &str) -> Vec<Owned> {
    let mut reader = Reader::open(path(name)).unwrap();
    let mut packets = Vec::new();
    while let Some(packet) = reader.next_packet() {
        let packet = packet.unwrap();
        packets.push(Owned {
            timestamp_ns: packet.timestamp_ns,
            link: packet.link.unwrap(),
            orig_len: packet.orig_len,
            data: packet.data.to_vec(),
        });
    }
    packets
}

/// Packets as a capture.
pub(crate) fn record(packets: &[Owned]) -> Recording {
    let mut recording = Recording::new(DEFAULT_LIMIT);
    for (number, packet) in (1..).zip(packets) {
        recording.push(&Packet {
            number,
            timestamp_ns: packet.timestamp_ns,
            orig_len: packet.orig_len,
            ..Packet::new(packet.link, &packet.data)
        });
    }
    recording
}

/// Replays packets as a capture.
pub(crate) fn replay(packets: &[Owned]) -> Report {
    Replay::new(record(packets), None).run(DEFAULT_LIMIT).unwrap()
}

/// How often a freedom was taken.
pub(crate) fn freedom(report: &Report, freedom: Freedom) -> u64 {
    report.total().freedoms.get(&freedom).copied().unwrap_or(0)
}

/// Where the answers of a capture are.
pub(crate) fn answers(packets: &[Owned]) -> Vec<usize> {
    (0..packets.len()).filter(|at| packets[*at].is_answer()).collect()
}
