//! Capture files in every shape: written by hand here, by our writer, and damaged.

use std::io::Read;
use std::process::Command;

use pcap_file::pcap::PcapReader;
use pcap_file::pcapng::{Block, PcapNgReader};
use proptest::prelude::*;
use roce_pcap::capture::{
    Batch, CaptureError, Damage, Direction, LinkType, Packet, PcapngWriter, Reader,
};

/// What a test compares of a packet.
#[derive(Debug, PartialEq, Clone)]
struct Seen {
    number: u64,
    timestamp_ns: Option<u64>,
    link: Option<LinkType>,
    direction: Option<Direction>,
    fcs_len: u8,
    orig_len: u32,
    data: Vec<u8>,
}

impl From<Packet<'_>> for Seen {
    fn from(packet: Packet<'_>) -> Self {
        Self {
            number: packet.number,
            timestamp_ns: packet.timestamp_ns,
            link: packet.link,
            direction: packet.direction,
            fcs_len: packet.fcs_len,
            orig_len: packet.orig_len,
            data: packet.data.to_vec(),
        }
    }
}

/// Reads to the end: the packets and the error after them, which must be the last word. One by
/// one and in batches gives the same, also where the bytes come in pieces.
fn read(file: &[u8]) -> (Vec<Seen>, Option<CaptureError>) {
    let one_by_one = read_one_by_one(file);
    let text = |error: &Option<CaptureError>| error.as_ref().map(ToString::to_string);
    for piece in [1, 61, usize::MAX] {
        let in_batches = read_in_batches(Pieces { rest: file, most: piece });
        assert_eq!(one_by_one.0, in_batches.0, "in pieces of {piece}");
        assert_eq!(text(&one_by_one.1), text(&in_batches.1), "in pieces of {piece}");
    }
    one_by_one
}

fn read_one_by_one(file: &[u8]) -> (Vec<Seen>, Option<CaptureError>) {
    let mut reader = match Reader::new(file) {
        Ok(reader) => reader,
        Err(error) => return (Vec::new(), Some(error)),
    };
    let mut packets = Vec::new();
    while let Some(packet) = reader.next_packet() {
        match packet {
            Ok(packet) => packets.push(packet.into()),
            Err(error) => {
                assert!(reader.next_packet().is_none(), "something follows {error}");
                return (packets, Some(error));
            }
        }
    }
    assert!(reader.next_packet().is_none());
    (packets, None)
}

fn read_in_batches(file: impl Read) -> (Vec<Seen>, Option<CaptureError>) {
    let mut reader = match Reader::new(file) {
        Ok(reader) => reader,
        Err(error) => return (Vec::new(), Some(error)),
    };
    let mut packets = Vec::new();
    let mut batch = Batch::new();
    loop {
        match reader.fill(&mut batch) {
            Ok(0) => break,
            Ok(count) => {
                assert_eq!(count, batch.packets().len());
                packets.extend(batch.packets().map(Seen::from));
            }
            Err(error) => {
                assert_eq!(batch.packets().count(), 0);
                assert_eq!(reader.fill(&mut batch).unwrap(), 0, "something follows {error}");
                return (packets, Some(error));
            }
        }
    }
    assert_eq!(reader.fill(&mut batch).unwrap(), 0);
    (packets, None)
}

/// Gives at most `most` bytes a read, as a pipe may.
struct Pieces<'a> {
    rest: &'a [u8],
    most: usize,
}

impl Read for Pieces<'_> {
    fn read(&mut self, out: &mut [u8]) -> std::io::Result<usize> {
        let most = self.most.min(out.len());
        self.rest.read(&mut out[..most])
    }
}

/// Writes numbers in the byte order under test.
struct File {
    bytes: Vec<u8>,
    big: bool,
}

impl File {
    fn u32(&mut self, value: u32) -> &mut Self {
        let raw = if self.big { value.to_be_bytes() } else { value.to_le_bytes() };
        self.bytes.extend(raw);
        self
    }

    fn u16(&mut self, value: u16) -> &mut Self {
        let raw = if self.big { value.to_be_bytes() } else { value.to_le_bytes() };
        self.bytes.extend(raw);
        self
    }

    fn raw(&mut self, bytes: &[u8]) -> &mut Self {
        self.bytes.extend(bytes);
        self
    }

    fn pcap(big: bool, nanos: bool, snaplen: u32) -> Self {
        let mut file = Self { bytes: Vec::new(), big };
        file.u32(if nanos { 0xa1b2_3c4d } else { 0xa1b2_c3d4 });
        file.u16(2).u16(4).u32(0).u32(0).u32(snaplen).u32(1);
        file
    }

    fn pcap_packet(&mut self, seconds: u32, fraction: u32, orig_len: u32, data: &[u8]) {
        let len = u32::try_from(data.len()).unwrap();
        self.u32(seconds).u32(fraction).u32(len).u32(orig_len).raw(data);
    }

    fn pcapng(big: bool) -> Self {
        let mut file = Self { bytes: Vec::new(), big };
        file.section(big);
        file
    }

    fn section(&mut self, big: bool) {
        self.big = big;
        self.block(0x0a0d_0d0a, |body| {
            body.u32(0x1a2b_3c4d).u16(1).u16(0).u32(u32::MAX).u32(u32::MAX);
        });
    }

    fn block(&mut self, kind: u32, fill: impl FnOnce(&mut Self)) {
        let mut body = Self { bytes: Vec::new(), big: self.big };
        fill(&mut body);
        body.bytes.resize(body.bytes.len().next_multiple_of(4), 0);
        let len = u32::try_from(body.bytes.len() + 12).unwrap();
        self.u32(kind).u32(len).raw(&body.bytes).u32(len);
    }

    fn interface(&mut self, link: u16, snaplen: u32, resolution: Option<u8>) {
        self.block(1, |body| {
            body.u16(link).u16(0).u32(snaplen);
            // An interface name that is not UTF-8.
            body.u16(2).u16(3).raw(&[0xff, 0xfe, 0x80, 0]);
            if let Some(resolution) = resolution {
                body.u16(9).u16(1).raw(&[resolution, 0, 0, 0]);
            }
            body.u16(0).u16(0);
        });
    }

    fn enhanced(&mut self, interface: u32, ticks: u64, data: &[u8]) {
        let len = u32::try_from(data.len()).unwrap();
        let [high, low] = [ticks >> 32, ticks & 0xffff_ffff].map(|v| u32::try_from(v).unwrap());
        self.block(6, |body| {
            body.u32(interface).u32(high).u32(low).u32(len).u32(len).raw(data);
        });
    }
}

/// Case 78: the same packet in the four encodings.
#[test]
fn four_magics() {
    for big in [false, true] {
        for nanos in [false, true] {
            let mut file = File::pcap(big, nanos, 262_144);
            let fraction = if nanos { 123_456_000 } else { 123_456 };
            file.pcap_packet(1_700_000_000, fraction, 5, b"hello");
            let (packets, error) = read(&file.bytes);
            assert!(error.is_none());
            assert_eq!(
                packets,
                [Seen {
                    number: 1,
                    timestamp_ns: Some(1_700_000_000_123_456_000),
                    link: Some(LinkType::ETHERNET),
                    direction: None,
                    fcs_len: 0,
                    orig_len: 5,
                    data: b"hello".to_vec(),
                }]
            );
        }
    }
}

/// Case 79 and its kin: what real files have and readers refuse.
#[test]
fn odd_but_real_lengths_and_fractions() {
    let mut file = File::pcap(false, false, 1500);
    file.pcap_packet(1, 0, 4170, &[7; 1500]);
    file.pcap_packet(1, 1_500_000, 60, &[8; 60]);
    file.pcap_packet(2, 0, 3, &[9; 4]);
    file.pcap_packet(3, 0, 4170, &[6; 4170]);
    let (packets, error) = read(&file.bytes);
    assert!(error.is_none());
    assert_eq!(packets.len(), 4);
    assert_eq!((packets[0].orig_len, packets[0].data.len()), (4170, 1500));
    assert_eq!(packets[1].timestamp_ns, Some(2_500_000_000));
    assert_eq!(packets[2].orig_len, 3);
    assert_eq!(packets[3].data.len(), 4170, "longer than the snaplen");

    let mut file = File::pcap(false, false, 0);
    file.pcap_packet(1, 0, 2, b"ab");
    assert_eq!(read(&file.bytes).0.len(), 1, "snaplen 0");
}

/// Bit 26 says that the four uppermost are the length of the FCS, in units of two bytes.
#[test]
fn upper_bits_of_the_link_type_are_the_length_of_the_fcs() {
    for (upper, fcs_len) in [(0x44, 8), (0x24, 4), (0xf4, 30), (0x20, 0)] {
        let mut file = File::pcap(false, false, 96);
        file.bytes[23] = upper;
        file.pcap_packet(1, 0, 2, b"ab");
        let packet = &read(&file.bytes).0[0];
        assert_eq!((packet.link, packet.fcs_len), (Some(LinkType::ETHERNET), fcs_len));
    }
}

/// What libpcap wrote with Alexey Kuznetsov's patches: eight more bytes a packet.
#[test]
fn patched_libpcap() {
    for big in [false, true] {
        let mut file = File { bytes: Vec::new(), big };
        file.u32(0xa1b2_cd34).u16(2).u16(4).u32(0).u32(0).u32(96).u32(1);
        for (kind, data) in [(0, b"one"), (4, b"two")] {
            file.u32(1).u32(500_000).u32(3).u32(60).u32(7).u16(0x0800).raw(&[kind, 0]).raw(data);
        }
        let (packets, error) = read(&file.bytes);
        assert!(error.is_none());
        assert_eq!(packets.len(), 2);
        assert_eq!((packets[0].timestamp_ns, packets[0].orig_len), (Some(1_500_000_000), 60));
        let directions: Vec<_> = packets.iter().map(|packet| packet.direction).collect();
        assert_eq!(directions, [Some(Direction::Inbound), Some(Direction::Outbound)]);
        assert_eq!(packets[1].data, b"two");
    }
}

/// The option `if_fcslen`, which `epb_flags` overrides for a packet.
#[test]
fn interfaces_say_how_long_the_fcs_is() {
    let mut file = File::pcapng(false);
    file.block(1, |body| {
        body.u16(1).u16(0).u32(0).u16(13).u16(1).raw(&[4, 0, 0, 0]).u16(0).u16(0);
    });
    file.enhanced(0, 1, b"frame and FCS");
    file.block(6, |body| {
        body.u32(0).u32(0).u32(1).u32(4).u32(4).raw(b"data");
        body.u16(2).u16(4).u32(2 | 2 << 5).u16(0).u16(0);
    });
    file.block(3, |body| {
        body.u32(4).raw(b"defg");
    });
    let (packets, error) = read(&file.bytes);
    assert!(error.is_none());
    let lengths: Vec<_> = packets.iter().map(|packet| packet.fcs_len).collect();
    assert_eq!(lengths, [4, 2, 4]);
    assert_eq!(packets[1].direction, Some(Direction::Outbound));
}

/// Cases 76 and 77: link type and timestamp resolution belong to the interface.
#[test]
fn interfaces_differ() {
    for big in [false, true] {
        let mut file = File::pcapng(big);
        file.interface(1, 0, Some(6));
        file.interface(113, 0, Some(9));
        file.interface(276, 0, Some(0x94));
        file.interface(247, 96, None);
        file.enhanced(0, 1_500_000, b"a");
        file.enhanced(1, 1_500_000_000, b"bcd");
        file.block(5, |body| {
            body.raw(&[0; 40]);
        });
        file.enhanced(2, 3 << 19, b"efgh");
        file.enhanced(3, 1_500_000, b"");
        let (packets, error) = read(&file.bytes);
        assert!(error.is_none());
        let links: Vec<_> = packets.iter().map(|packet| packet.link.unwrap().0).collect();
        assert_eq!(links, [1, 113, 276, 247]);
        assert!(packets.iter().all(|packet| packet.timestamp_ns == Some(1_500_000_000)));
        assert_eq!(packets[1].data, b"bcd");
        assert_eq!(packets[3].number, 4);
    }
}

#[test]
fn sections_start_anew() {
    let mut file = File::pcapng(false);
    file.interface(1, 0, Some(9));
    file.enhanced(0, 7, b"one");
    file.section(true);
    file.interface(101, 0, None);
    file.enhanced(0, 7, b"two");
    file.enhanced(1, 7, b"an interface of the section before");
    let (packets, error) = read(&file.bytes);
    assert!(error.is_none());
    assert_eq!(packets[0].timestamp_ns, Some(7));
    assert_eq!((packets[1].link, packets[1].timestamp_ns), (Some(LinkType::RAW), Some(7000)));
    assert_eq!((packets[2].link, packets[2].timestamp_ns), (None, None));
    assert_eq!(packets[2].data, b"an interface of the section before");
}

#[test]
fn older_packet_blocks() {
    let mut file = File::pcapng(true);
    file.interface(1, 4, None);
    file.block(2, |body| {
        body.u16(0).u16(3).u32(0).u32(9).u32(3).u32(80).raw(b"abc");
    });
    file.block(3, |body| {
        body.u32(1000).raw(b"defg");
    });
    let (packets, error) = read(&file.bytes);
    assert!(error.is_none());
    assert_eq!((packets[0].timestamp_ns, packets[0].orig_len), (Some(9000), 80));
    assert_eq!(packets[0].data, b"abc");
    assert_eq!((packets[1].timestamp_ns, packets[1].orig_len), (None, 1000));
    assert_eq!(packets[1].data, b"defg", "cut to the snaplen");
}

fn sample_pcapng() -> (Vec<u8>, Vec<usize>) {
    let mut file = File::pcapng(false);
    file.interface(1, 0, Some(9));
    let mut ends = Vec::new();
    for data in [&b"first"[..], b"second!!", b"", b"the last one"] {
        file.enhanced(0, 1, data);
        ends.push(file.bytes.len());
    }
    (file.bytes, ends)
}

fn sample_pcap() -> (Vec<u8>, Vec<usize>) {
    let mut file = File::pcap(false, true, 96);
    let mut ends = Vec::new();
    for data in [&b"first"[..], b"second!!", b"", b"the last one"] {
        file.pcap_packet(1, 2, 300, data);
        ends.push(file.bytes.len());
    }
    (file.bytes, ends)
}

/// Whatever the length it is cut to, a file gives every whole packet and says where it ends.
#[test]
fn every_truncation() {
    for (file, ends) in [sample_pcap(), sample_pcapng()] {
        let (all, error) = read(&file);
        assert!(error.is_none());
        assert_eq!(all.len(), 4);
        for len in 0..file.len() {
            let (packets, error) = read(&file[..len]);
            let whole = ends.iter().filter(|end| **end <= len).count();
            assert_eq!(packets, all[..whole], "cut to {len}");
            let start = ends[..whole].last().copied();
            match error {
                // Between records, those before the first packet included.
                None => assert!(start == Some(len) || (whole == 0 && [24, 28, 68].contains(&len))),
                Some(CaptureError::Truncated { offset, needed, available }) => {
                    assert_eq!(offset + available as u64, len as u64, "cut to {len}");
                    assert!(needed > available, "cut to {len}");
                    if let Some(start) = start {
                        assert_eq!(offset, start as u64, "cut to {len}");
                    }
                }
                Some(CaptureError::Empty) => assert!(len < 4),
                Some(error) => panic!("cut to {len}: {error}"),
            }
        }
    }
}

#[test]
fn damage_names_its_offset() {
    let (mut file, ends) = sample_pcap();
    file[ends[1] + 8..ends[1] + 12].copy_from_slice(&[0xff; 4]);
    let (packets, error) = read(&file);
    assert_eq!(packets.len(), 2);
    assert!(matches!(
        error,
        Some(CaptureError::Damaged { offset, damage: Damage::PacketLength(u32::MAX) })
            if offset == ends[1] as u64
    ));

    let damage = |at: usize, bytes: &[u8]| {
        let (mut file, ends) = sample_pcapng();
        let from = ends[1] + at;
        file[from..from + bytes.len()].copy_from_slice(bytes);
        let (packets, error) = read(&file);
        assert_eq!(packets.len(), 2);
        match error {
            Some(CaptureError::Damaged { offset, damage }) => {
                assert_eq!(offset, ends[1] as u64);
                damage
            }
            other => panic!("{other:?}"),
        }
    };
    assert_eq!(damage(4, &[0, 0, 0, 0]), Damage::BlockLength(0));
    assert_eq!(damage(4, &[33, 0, 0, 0]), Damage::BlockLength(33));
    assert_eq!(damage(4, &[0, 0, 0, 0x7f]), Damage::BlockLength(0x7f00_0000));
    assert_eq!(damage(28, &[0, 0, 0, 0]), Damage::BlockLengths { front: 32, back: 0 });
    assert_eq!(damage(20, &[1, 0, 0, 0]), Damage::BlockContents);
    assert_eq!(damage(20, &[0xff; 4]), Damage::BlockContents);
    assert_eq!(
        damage(0, &[0x0a, 0x0d, 0x0d, 0x0a]),
        Damage::ByteOrderMagic(0),
        "interface number 0 where the magic belongs"
    );
}

#[test]
fn what_is_no_capture_is_refused_with_advice() {
    let text = |file: &[u8]| read(file).1.unwrap().to_string();
    assert!(text(b"").contains("empty"));
    assert!(text(b"abc").contains("empty"));
    assert!(text(&[0x1f, 0x8b, 8, 0, 0]).contains("gzip data at offset 5: cut short"));
    assert!(text(&[0x28, 0xb5, 0x2f, 0xfd, 0]).contains("zstd data at offset 5: cut short"));
    assert!(text(b"# IBTA notes").contains("neither pcap nor pcapng"));
    let error = Reader::open("/nonexistent/trace.pcap").unwrap_err();
    assert!(error.to_string().contains("No such file"), "{error}");
}

#[test]
fn a_written_file_is_read_by_us_and_by_pcap_file() {
    let jumbo: Vec<u8> = (0..4170_u32).map(|at| at.to_le_bytes()[0]).collect();
    let (head, tail) = jumbo.split_at(4096);
    let mut writer = PcapngWriter::with_interface(Vec::new(), "veth7").unwrap();
    let packets: [(u64, Direction, [&[u8]; 2]); 5] = [
        (0, Direction::Inbound, [b"", b""]),
        (1_700_000_000_123_456_789, Direction::Outbound, [b"a", b""]),
        (1_700_000_000_123_456_790, Direction::Inbound, [b"", b"bc"]),
        (1_700_000_000_123_456_791, Direction::Outbound, [b"de", b"f"]),
        (u64::MAX, Direction::Inbound, [head, tail]),
    ];
    for (time, direction, data) in packets {
        writer.write_packet(time, direction, data).unwrap();
    }
    writer.flush().unwrap();
    let file = writer.into_inner().unwrap();

    let (seen, error) = read(&file);
    assert!(error.is_none());
    let mut theirs = PcapNgReader::new(file.as_slice()).unwrap();
    let mut blocks = Vec::new();
    while let Some(block) = theirs.next_block() {
        if let (Block::EnhancedPacket(packet), _) = block.unwrap() {
            blocks.push((packet.data.to_vec(), packet.original_len));
        }
    }
    assert_eq!(seen.len(), packets.len());
    for ((seen, theirs), (time, direction, data)) in seen.iter().zip(&blocks).zip(packets) {
        assert_eq!(seen.data, data.concat());
        assert_eq!(seen.timestamp_ns, Some(time));
        assert_eq!(seen.direction, Some(direction));
        assert_eq!(*theirs, (seen.data.clone(), seen.orig_len));
    }
}

#[test]
fn a_giant_is_cut_and_its_length_kept() {
    let mut writer = PcapngWriter::new(Vec::new()).unwrap();
    let giant = vec![5; 300_000];
    writer.write_packet(1, Direction::Inbound, [&giant, b"more"]).unwrap();
    let (packets, error) = read(&writer.into_inner().unwrap());
    assert!(error.is_none());
    assert_eq!((packets[0].data.len(), packets[0].orig_len), (262_144, 300_004));
}

/// Every packet of the captures in the repository, against the `pcap-file` crate.
#[test]
fn real_captures_read_as_pcap_file_reads_them() {
    let folder = concat!(env!("CARGO_MANIFEST_DIR"), "/../tests/captures");
    let mut files = 0;
    for entry in std::fs::read_dir(folder).unwrap() {
        let path = entry.unwrap().path();
        if path.extension().is_none_or(|extension| extension != "pcap") {
            continue;
        }
        let mut theirs = PcapReader::new(std::fs::File::open(&path).unwrap()).unwrap();
        let mut ours = Reader::open(&path).unwrap();
        while let Some(packet) = theirs.next_packet() {
            let packet = packet.unwrap();
            let mine = ours.next_packet().unwrap().unwrap();
            assert_eq!(mine.data, packet.data());
            let time = u64::try_from(packet.timestamp().as_nanos()).unwrap();
            assert_eq!(mine.timestamp_ns, Some(time));
        }
        assert!(ours.next_packet().is_none());
        files += 1;
    }
    assert_eq!(files, 15);
}

/// Wireshark's tool, or a note that it is not here.
fn convert(command: &mut Command) -> bool {
    match command.output() {
        Ok(output) => {
            assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
            true
        }
        Err(error) => {
            println!("passed over: {command:?}: {error}");
            false
        }
    }
}

#[test]
fn what_editcap_converts_reads_the_same() {
    let source = concat!(env!("CARGO_MANIFEST_DIR"), "/../tests/captures/rxe-cm.pcap");
    let (expected, _) = read(&std::fs::read(source).unwrap());
    let path = std::path::Path::new(env!("CARGO_TARGET_TMPDIR")).join("converted");
    // `modpcap` is what patched libpcaps wrote.
    for format in ["pcap", "nsecpcap", "modpcap", "pcapng"] {
        if !convert(Command::new("editcap").args(["-F", format, source]).arg(&path)) {
            return;
        }
        let (mut packets, error) = read(&std::fs::read(&path).unwrap());
        assert!(error.is_none(), "{format}: {error:?}");
        // Nobody stated a direction, but modpcap has no way to leave it out.
        packets.iter_mut().for_each(|packet| packet.direction = None);
        assert!(packets == expected, "{format}");
    }
}

/// Case 76, as mergecap makes it: interfaces of two link types in one file.
#[test]
fn what_mergecap_merges_keeps_its_link_types() {
    let source = concat!(env!("CARGO_MANIFEST_DIR"), "/../tests/captures/rxe-cm.pcap");
    let (ethernet, _) = read(&std::fs::read(source).unwrap());
    let folder = std::path::Path::new(env!("CARGO_TARGET_TMPDIR"));
    let (raw, merged) = (folder.join("raw.pcap"), folder.join("merged.pcapng"));
    let mut file = File::pcap(false, false, 262_144);
    // Headers of another link type: 101, least significant byte first.
    file.bytes[20] = 101;
    for packet in &ethernet {
        let time = packet.timestamp_ns.unwrap() / 1000;
        let [seconds, fraction] = [time / 1_000_000, time % 1_000_000];
        let [seconds, fraction] = [seconds, fraction].map(|it| u32::try_from(it).unwrap());
        let ip = &packet.data[14..];
        file.pcap_packet(seconds, fraction, u32::try_from(ip.len()).unwrap(), ip);
    }
    std::fs::write(&raw, &file.bytes).unwrap();
    if !convert(Command::new("mergecap").arg("-w").arg(&merged).arg(source).arg(&raw)) {
        return;
    }
    let (packets, error) = read(&std::fs::read(&merged).unwrap());
    assert!(error.is_none(), "{error:?}");
    assert_eq!(packets.len(), 2 * ethernet.len());
    for (link, from) in [(LinkType::ETHERNET, 0), (LinkType::RAW, 14)] {
        let of_link = packets.iter().filter(|packet| packet.link == Some(link));
        assert!(
            of_link
                .clone()
                .map(|packet| &packet.data[..])
                .eq(ethernet.iter().map(|packet| &packet.data[from..]))
        );
        assert!(
            of_link
                .map(|packet| packet.timestamp_ns)
                .eq(ethernet.iter().map(|packet| packet.timestamp_ns))
        );
    }
}

proptest! {
    #[test]
    fn no_bytes_make_the_reader_panic_or_run_on(
        ng in any::<bool>(),
        keep in 4..80_usize,
        bytes in proptest::collection::vec(any::<u8>(), 0..600),
    ) {
        let (mut file, _) = if ng { sample_pcapng() } else { sample_pcap() };
        file.truncate(keep);
        file.extend(&bytes);
        let (packets, _) = read(&file);
        prop_assert!(packets.len() <= file.len() / 12);
    }

    #[test]
    fn one_changed_byte_never_panics(at in 0..200_usize, value in any::<u8>(), ng in any::<bool>()) {
        let (mut file, _) = if ng { sample_pcapng() } else { sample_pcap() };
        let len = file.len();
        file[at % len] = value;
        read(&file);
    }
}
