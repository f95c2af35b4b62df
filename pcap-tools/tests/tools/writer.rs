//! What the writers write is what tshark, `pcap-file` and our own reader read.

use pcap_file::pcap::PcapReader;
use roce_pcap::capture::{
    Direction, InterfaceInfo, LinkType, PacketRecord, PcapWriter, PcapngWriter, Reader, SectionInfo,
};

use crate::support::{Temporary, tshark};

const IP: [u8; 20] = [0x45, 0, 0, 20, 0, 0, 0x40, 0, 64, 59, 0, 0, 192, 0, 2, 1, 192, 0, 2, 2];

fn sample() -> Vec<u8> {
    let info = SectionInfo { application: "judge 1", comment: "two taps" };
    let mut writer = PcapngWriter::start(Vec::new(), &info).unwrap();
    let raw = InterfaceInfo { link: LinkType::RAW, name: "wire é", snaplen: 96, fcs_len: 0 };
    let ethernet = InterfaceInfo { name: "eth7", ..InterfaceInfo::ETHERNET };
    assert_eq!(writer.add_interface(&raw).unwrap(), 0);
    assert_eq!(writer.add_interface(&ethernet).unwrap(), 1);
    let frame = [&[0xff; 12][..], &[0x08, 0x00], &IP].concat();
    writer
        .write(&PacketRecord {
            orig_len: 300,
            comments: &["one", "two, with ünïcode"],
            ..PacketRecord::new(1_700_000_000_000_000_001, &IP)
        })
        .unwrap();
    writer
        .write(&PacketRecord {
            interface: 1,
            direction: Some(Direction::Outbound),
            ..PacketRecord::new(1_700_000_000_000_000_002, &frame)
        })
        .unwrap();
    writer
        .write(&PacketRecord {
            interface: 1,
            direction: Some(Direction::Inbound),
            comments: &["x"],
            ..PacketRecord::new(1_700_000_000_000_000_003, &frame)
        })
        .unwrap();
    writer.into_inner().unwrap()
}

#[test]
fn tshark_reads_interfaces_comments_and_directions() {
    let file = Temporary::new(".pcapng", &sample());
    let fields = [
        "frame.interface_name",
        "frame.encap_type",
        "frame.time_epoch",
        "frame.cap_len",
        "frame.len",
        "frame.comment",
        "frame.packet_flags_direction",
    ];
    let Some(seen) = tshark(&file.0, "frame", &fields) else { return };
    let time = |last: u32| format!("1700000000.00000000{last}");
    let lines: Vec<Vec<&str>> =
        seen.iter().map(|line| line.iter().map(String::as_str).collect()).collect();
    assert_eq!(lines[0][..6], ["wire é", "7", &time(1), "20", "300", "one|two, with ünïcode"]);
    assert_eq!(lines[1][..6], ["eth7", "1", &time(2), "34", "34", ""]);
    assert_eq!(lines[2][..6], ["eth7", "1", &time(3), "34", "34", "x"]);
    assert!(lines[1][6].ends_with('2') && lines[2][6].ends_with('1'), "{lines:?}");
}

#[test]
fn our_reader_reads_it() {
    let file = sample();
    let mut reader = Reader::new(file.as_slice()).unwrap();
    let first = reader.next_packet().unwrap().unwrap();
    assert_eq!((first.interface, first.link), (0, Some(LinkType::RAW)));
    assert_eq!((first.data, first.orig_len, first.direction), (&IP[..], 300, None));
    let second = reader.next_packet().unwrap().unwrap();
    assert_eq!((second.interface, second.link), (1, Some(LinkType::ETHERNET)));
    assert_eq!(second.direction, Some(Direction::Outbound));
    assert_eq!(reader.next_packet().unwrap().unwrap().direction, Some(Direction::Inbound));
    assert!(reader.next_packet().is_none());
}

#[test]
fn a_comment_longer_than_an_option_is_cut_between_characters() {
    let comment = "é".repeat(40_000);
    let mut writer = PcapngWriter::new(Vec::new()).unwrap();
    let record = PacketRecord { comments: &[&comment], ..PacketRecord::new(1, &IP) };
    writer.write(&record).unwrap();
    let file = writer.into_inner().unwrap();
    assert_eq!(Reader::new(file.as_slice()).unwrap().next_packet().unwrap().unwrap().data, IP);
    let file = Temporary::new(".pcapng", &file);
    let Some(seen) = tshark(&file.0, "frame", &["frame.comment"]) else { return };
    assert_eq!(seen[0][0], "é".repeat(32_767));
}

#[test]
fn classic_pcap_is_read_by_pcap_file() {
    let mut writer = PcapWriter::new(Vec::new(), LinkType::RAW).unwrap();
    let times = [0, 1_700_000_000_000_000_001, 1_700_000_000_999_999_999];
    for time in times {
        let record = PacketRecord { orig_len: 99, ..PacketRecord::new(time, &IP) };
        writer.write(&record).unwrap();
    }
    let file = writer.into_inner().unwrap();
    let mut theirs = PcapReader::new(file.as_slice()).unwrap();
    for time in times {
        let packet = theirs.next_packet().unwrap().unwrap();
        assert_eq!((packet.data(), packet.timestamp().as_nanos()), (&IP[..], u128::from(time)));
        assert_eq!(packet.orig_len(), 99);
    }
    assert!(theirs.next_packet().is_none());
    let mut ours = Reader::new(file.as_slice()).unwrap();
    assert_eq!(ours.next_packet().unwrap().unwrap().link, Some(LinkType::RAW));
}
