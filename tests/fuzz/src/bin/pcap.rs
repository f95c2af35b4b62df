//! No file, packed or not, makes the capture reader, the decoder or the checker panic or run
//! without end; packet by packet and in batches it gives the same; and what is said of packets
//! adds up. Nor does any packet of any link type, in whatever tunnels.
//!
//! The last byte says which: even for a file; odd for a packet, whose link type the byte before
//! chooses.
#![no_main]

use libfuzzer_sys::fuzz_target;
use roce_fuzz::parameters;
use roce_pcap::capture::{Batch, CaptureError, LinkType, Packet, Reader};
use roce_pcap::check::Checker;
use roce_pcap::decode::{Decoder, Style};
use roce_pcap::dissect::{Dissected, dissect_through};

/// Of a file that unpacks to more, the rest is not looked at.
const MOST_PACKETS: u64 = 4096;

const LINKS: [u16; 10] = [0, 1, 12, 101, 108, 113, 197, 228, 247, 276];

fuzz_target!(|input: &[u8]| {
    let (bytes, [link, mode]) = parameters(input);
    if mode & 1 == 0 {
        file(bytes);
    } else {
        let link = LINKS[usize::from(link) % LINKS.len()];
        packet(&Packet::new(LinkType(link), bytes));
    }
});

fn file(bytes: &[u8]) {
    let mut checker = Checker::new();
    let one_by_one = walk(bytes, |packet| {
        checker.packet(packet);
    });
    checker.finish();
    let summary = checker.summary();
    assert_eq!(summary.packets, one_by_one.packets);
    assert!(summary.roce_packets <= summary.packets);
    let judged = summary.icrc_valid + summary.icrc_invalid + summary.icrc_uncheckable;
    assert!(judged <= summary.roce_packets);
    assert_eq!(one_by_one, walk_in_batches(bytes));
}

/// What was seen of a file.
#[derive(Debug, PartialEq, Eq, Default)]
struct Walk {
    packets: u64,
    /// Bytes, times and offsets, summed up.
    sum: u64,
    error: Option<String>,
}

impl Walk {
    fn add(&mut self, packet: &Packet<'_>) {
        self.packets += 1;
        assert_eq!(packet.number, self.packets);
        let len = packet.data.len() as u64;
        for value in [packet.offset, len, packet.timestamp_ns.unwrap_or(7)] {
            self.sum = self.sum.rotate_left(5).wrapping_add(value);
        }
    }

    fn fail(&mut self, error: &CaptureError) {
        self.error = Some(error.to_string());
    }
}

fn walk(bytes: &[u8], mut each: impl FnMut(&Packet<'_>)) -> Walk {
    let mut walk = Walk::default();
    let mut reader = match Reader::new(bytes) {
        Ok(reader) => reader,
        Err(error) => {
            walk.fail(&error);
            return walk;
        }
    };
    while walk.packets < MOST_PACKETS {
        match reader.next_packet() {
            None => break,
            Some(Ok(packet)) => {
                walk.add(&packet);
                each(&packet);
            }
            Some(Err(error)) => {
                walk.fail(&error);
                assert!(reader.next_packet().is_none());
                break;
            }
        }
    }
    walk
}

fn walk_in_batches(bytes: &[u8]) -> Walk {
    let mut walk = Walk::default();
    let mut reader = match Reader::new(bytes) {
        Ok(reader) => reader,
        Err(error) => {
            walk.fail(&error);
            return walk;
        }
    };
    let mut batch = Batch::new();
    while walk.packets < MOST_PACKETS {
        match reader.fill(&mut batch) {
            Ok(0) => break,
            Ok(_) => {
                let left = usize::try_from(MOST_PACKETS - walk.packets).unwrap_or(usize::MAX);
                batch.packets().take(left).for_each(|packet| walk.add(&packet));
            }
            Err(error) => {
                walk.fail(&error);
                assert_eq!(reader.fill(&mut batch).unwrap_or(1), 0);
                break;
            }
        }
    }
    walk
}

fn packet(packet: &Packet<'_>) {
    let (dissected, outer) = dissect_through(packet);
    match dissected {
        Dissected::Other(_) => assert!(outer.is_empty()),
        Dissected::Roce(frame) => {
            let [head, tail] = frame.payload();
            assert!(head.len() + tail.len() < packet.data.len());
        }
        _ => {}
    }
    let mut checker = Checker::new();
    checker.packet(packet);
    checker.finish();
    for style in [Style::Line, Style::Tree, Style::JsonLines] {
        let mut out = Vec::new();
        Decoder::new(style, true).packet(packet, &mut out).expect("a Vec takes all");
        assert!(!out.is_empty());
    }
}
