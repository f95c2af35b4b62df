//! How fast captures are read, beside pcap-file, from the page cache, in the same run.
//!
//! `cargo bench -p roce-pcap --bench pcap` prints nanoseconds a packet, the best of several turns:
//! `ratio NAME ours=... peer=... x=...`, x above 1 being in our favour.

use std::fs::File;
use std::hint::black_box;
use std::io::{BufReader, BufWriter, Read, Write};
use std::path::{Path, PathBuf};
use std::time::Instant;

use flate2::read::MultiGzDecoder;
use flate2::write::GzEncoder;
use pcap_file::pcap::PcapReader;
use pcap_file::pcapng::{Block, PcapNgReader};
use roce_pcap::capture::{Batch, LinkType, PacketRecord, PcapWriter, PcapngWriter, Reader};

const PACKETS: u64 = 1_000_000;
/// Bytes of a packet: with its record header a file of 268 MB.
const LEN: usize = 252;
const TURNS: usize = 5;

fn main() {
    let folder = std::env::temp_dir().join(format!("roce-pcap-bench-{}", std::process::id()));
    std::fs::create_dir_all(&folder).expect("a folder for the captures");
    let (pcap, pcapng, gzip) = write_captures(&folder);

    compare(
        "read_pcap",
        PACKETS,
        || ours(&pcap),
        || {
            let mut reader = PcapReader::new(File::open(&pcap).unwrap()).unwrap();
            let mut seen = Seen::default();
            while let Some(packet) = reader.next_packet() {
                let packet = packet.unwrap();
                seen.add(packet.data(), packet.timestamp().as_nanos());
            }
            seen
        },
    );
    compare(
        "read_pcapng",
        PACKETS,
        || ours(&pcapng),
        || {
            let mut reader = PcapNgReader::new(File::open(&pcapng).unwrap()).unwrap();
            let mut seen = Seen::default();
            while let Some(block) = reader.next_block() {
                if let (Block::EnhancedPacket(packet), _) = block.unwrap() {
                    seen.add(&packet.data, packet.timestamp.as_nanos());
                }
            }
            seen
        },
    );
    compare(
        "read_pcap_gz",
        PACKETS / 10,
        || ours(&gzip),
        || {
            let unpacked = MultiGzDecoder::new(BufReader::new(File::open(&gzip).unwrap()));
            let mut reader = PcapReader::new(unpacked).unwrap();
            let mut seen = Seen::default();
            while let Some(packet) = reader.next_packet() {
                let packet = packet.unwrap();
                seen.add(packet.data(), packet.timestamp().as_nanos());
            }
            seen
        },
    );
    std::fs::remove_dir_all(&folder).expect("the folder is ours");
}

/// What every reader must come to, so that none leaves work out.
#[derive(Debug, PartialEq, Eq, Default)]
struct Seen {
    packets: u64,
    bytes: u64,
    times: u128,
    firsts: u64,
}

impl Seen {
    fn add(&mut self, data: &[u8], time: u128) {
        self.packets += 1;
        self.bytes += data.len() as u64;
        self.times = self.times.wrapping_add(time);
        self.firsts += u64::from(data[0]);
    }
}

fn ours(path: &Path) -> Seen {
    let mut reader = Reader::open(path).unwrap();
    let (mut seen, mut batch) = (Seen::default(), Batch::new());
    while reader.fill(&mut batch).unwrap() > 0 {
        for packet in batch.packets() {
            seen.add(packet.data, u128::from(packet.timestamp_ns.unwrap()));
        }
    }
    seen
}

/// Turn and turn about, so that what else the machine does hits both.
fn compare(name: &str, packets: u64, ours: impl Fn() -> Seen, peer: impl Fn() -> Seen) {
    let (mut best_ours, mut best_peer) = (f64::INFINITY, f64::INFINITY);
    for _ in 0..TURNS {
        let (ours, took) = timed(&ours);
        best_ours = best_ours.min(took);
        let (peer, took) = timed(&peer);
        best_peer = best_peer.min(took);
        assert_eq!(ours.packets, packets);
        assert_eq!(ours, peer);
    }
    let [ours, peer] = [best_ours, best_peer].map(|seconds| seconds * 1e9 / packets as f64);
    println!("ratio {name} ours={ours:.1} peer={peer:.1} x={:.2}", peer / ours);
}

fn timed(run: impl Fn() -> Seen) -> (Seen, f64) {
    let start = Instant::now();
    let seen = black_box(run());
    (seen, start.elapsed().as_secs_f64())
}

/// The packets of a real capture over and over, each made as long as the others.
fn write_captures(folder: &Path) -> (PathBuf, PathBuf, PathBuf) {
    let source = Path::new(env!("CARGO_MANIFEST_DIR")).join("../tests/captures/rxe-read.pcap");
    let mut packets = Vec::new();
    let mut reader = Reader::open(source).unwrap();
    while let Some(packet) = reader.next_packet() {
        let mut data = packet.unwrap().data.to_vec();
        data.resize(LEN, 0);
        packets.push(data);
    }
    let [pcap, pcapng, gzip] =
        ["bench.pcap", "bench.pcapng", "bench.pcap.gz"].map(|name| folder.join(name));
    let create = |path: &Path| BufWriter::with_capacity(1 << 20, File::create(path).unwrap());
    let mut plain = PcapWriter::new(create(&pcap), LinkType::ETHERNET).unwrap();
    let mut blocks = PcapngWriter::new(create(&pcapng)).unwrap();
    for (time, data) in (0..PACKETS).zip(packets.iter().cycle()) {
        let record = PacketRecord::new(1_700_000_000_000_000_000 + time * 1000, data);
        plain.write(&record).unwrap();
        blocks.write(&record).unwrap();
    }
    plain.into_inner().unwrap().flush().unwrap();
    blocks.into_inner().unwrap().flush().unwrap();
    let mut encoder = GzEncoder::new(create(&gzip), flate2::Compression::fast());
    let part = 24 + PACKETS / 10 * (16 + LEN as u64);
    std::io::copy(&mut File::open(&pcap).unwrap().take(part), &mut encoder).unwrap();
    encoder.finish().unwrap().flush().unwrap();
    (pcap, pcapng, gzip)
}
