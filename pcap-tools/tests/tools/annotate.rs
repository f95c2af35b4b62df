//! An annotated capture is the capture, and tshark shows the findings in it.

use std::collections::BTreeMap;

use roce_pcap::annotate::{Annotations, comment};
use roce_pcap::capture::{
    Direction, InterfaceInfo, LinkType, PacketRecord, PcapngWriter, Reader, SectionInfo,
    copy_with_comments,
};
use roce_pcap::check::Checker;

use crate::support::{Temporary, capture, packets, roce_pcap, tshark};

fn annotate(file: &[u8]) -> Vec<u8> {
    let annotations = Annotations::of(Reader::new(file).unwrap(), Checker::new());
    let mut out = Vec::new();
    let comments = |packet| Some(annotations.comments(packet));
    copy_with_comments(file, &mut out, &annotations.about(), comments).unwrap();
    out
}

/// The findings by packet, from the checker itself.
fn expected(file: &[u8]) -> BTreeMap<u64, Vec<String>> {
    let mut expected = BTreeMap::<u64, Vec<String>>::new();
    for finding in roce_pcap::check(Reader::new(file).unwrap()).findings {
        expected.entry(finding.packet).or_default().push(comment(&finding));
    }
    expected
}

/// What tshark shows of it: the comments of each packet that has any.
fn shown(file: &[u8]) -> Option<BTreeMap<u64, Vec<String>>> {
    let file = Temporary::new(".pcapng", file);
    let lines = tshark(&file.0, "frame.comment", &["frame.number", "frame.comment"])?;
    let by_packet = lines.iter().map(|line| {
        let comments = line[1].split('|').map(str::to_owned).collect();
        (line[0].parse().unwrap(), comments)
    });
    Some(by_packet.collect())
}

#[test]
fn real_captures_stay_what_they_are_and_show_their_findings() {
    for name in ["rxe-lossy-client", "rxe72-flush-atomicwrite", "rxe-cm", "rxe-ecn-server"] {
        let file = std::fs::read(capture(name)).unwrap();
        let annotated = annotate(&file);
        assert_eq!(packets(&annotated), packets(&file), "{name}");
        let expected = expected(&file);
        assert_eq!(expected.is_empty(), name == "rxe-cm", "{name}");
        let Some(shown) = shown(&annotated) else { return };
        assert_eq!(shown, expected, "{name}");
    }
}

/// The command keeps what is meant, with the comments that it has among all the others.
#[test]
fn only_what_is_meant_is_kept() {
    for (name, keep) in [
        ("rxe-lossy-client", "opcode == READ_REQUEST"),
        ("rxe72-flush-atomicwrite", "icrc == invalid"),
    ] {
        let file = std::fs::read(capture(name)).unwrap();
        let path = capture(name);
        let path = path.to_str().unwrap();
        let output = roce_pcap(&["annotate", path, "--where", keep, "-o", "-"], &[]);
        assert_eq!(output.status.code(), Some(0), "{}", String::from_utf8_lossy(&output.stderr));
        let listed = roce_pcap(&["decode", path, "--where", keep, "--fields", "number"], &[]);
        let numbers: Vec<u64> = String::from_utf8(listed.stdout)
            .unwrap()
            .lines()
            .map(|line| line.parse().unwrap())
            .collect();
        assert!(!numbers.is_empty(), "{name}");
        let all = packets(&file);
        let meant = numbers.iter().map(|number| &all[usize::try_from(number - 1).unwrap()]);
        let kept = packets(&output.stdout);
        assert!(kept.iter().eq(meant), "{name}");
        let Some(shown) = shown(&output.stdout) else { return };
        let expected = expected(&file);
        for (at, number) in (1..).zip(&numbers) {
            assert_eq!(shown.get(&at), expected.get(number), "{name} {number}");
        }
    }
}

/// A file with all that pcapng can say: interfaces, directions, comments, blocks of other kinds.
fn full(frame: &[u8]) -> Vec<u8> {
    let info = SectionInfo { comment: "by hand", application: "test" };
    let mut writer = PcapngWriter::start(Vec::new(), &info).unwrap();
    let raw = InterfaceInfo { link: LinkType::RAW, name: "ip0", ..InterfaceInfo::ETHERNET };
    for info in [raw, InterfaceInfo::ETHERNET] {
        writer.add_interface(&info).unwrap();
    }
    for time in 0..4 {
        let even = time % 2 == 0;
        writer
            .write(&PacketRecord {
                interface: u32::from(even),
                direction: even.then_some(Direction::Outbound),
                comments: if even { &["kept"] } else { &[] },
                segments: [if even { frame } else { &frame[14..] }, &[]],
                ..PacketRecord::new(time, &[])
            })
            .unwrap();
    }
    let mut file = writer.into_inner().unwrap();
    // A block of a kind that nobody knows, and a simple packet.
    file.extend([0x99, 0, 0, 0x0b, 16, 0, 0, 0, 1, 2, 3, 4, 16, 0, 0, 0]);
    let simple = &frame[14..];
    let len = u32::try_from(16 + simple.len().next_multiple_of(4)).unwrap().to_le_bytes();
    file.extend([3, 0, 0, 0]);
    file.extend(len);
    file.extend(u32::try_from(simple.len()).unwrap().to_le_bytes());
    file.extend(simple);
    file.resize(file.len().next_multiple_of(4), 0);
    file.extend(len);
    file
}

/// A packet of the capture with a damaged payload: the checker finds a wrong ICRC.
fn damaged() -> Vec<u8> {
    let mut frame = packets(&std::fs::read(capture("rxe-write")).unwrap())[10].data.clone();
    frame[90] ^= 1;
    frame
}

#[test]
fn everything_a_pcapng_file_says_is_kept() {
    let file = full(&damaged());
    let annotated = annotate(&file);
    let (before, mut after) = (packets(&file), packets(&annotated));
    assert_eq!(before.len(), 5);
    // A simple packet with a comment is an enhanced one, which has a time.
    assert_eq!((before[4].time, after[4].time), (None, Some(0)));
    after[4].time = None;
    assert_eq!(after, before);
    assert!(annotated.windows(4).any(|bytes| bytes == [0x99, 0, 0, 0x0b]), "the unknown block");
    let Some(shown) = shown(&annotated) else { return };
    let expected = expected(&file);
    for packet in 1..=5 {
        let (mut comments, found) = (shown[&packet].clone(), &expected[&packet]);
        if packet % 2 == 1 && packet < 5 {
            assert_eq!(comments.remove(0), "kept");
        }
        assert_eq!(&comments, found);
    }
}

/// Every number of a block in the other byte order.
fn swapped(file: &[u8]) -> Vec<u8> {
    let mut swapped = file.to_vec();
    let word = |at: usize| u32::from_le_bytes(*file[at..].first_chunk().unwrap());
    let mut at = 0;
    while at < file.len() {
        let (kind, len) = (word(at), usize::try_from(word(at + 4)).unwrap());
        swapped[at..at + 4].reverse();
        swapped[at + 4..at + 8].reverse();
        swapped[at + len - 4..at + len].reverse();
        let body = at + 8;
        let (words, halves, options) = match kind {
            0x0a0d_0d0a => (vec![0], vec![4, 6], 16),
            1 => (vec![4], vec![0, 2], 8),
            6 => {
                let data = usize::try_from(word(body + 12)).unwrap();
                (vec![0, 4, 8, 12, 16], vec![], 20 + data.next_multiple_of(4))
            }
            3 => (vec![0], vec![], len),
            _ => (vec![], vec![], len),
        };
        words.iter().for_each(|word| swapped[body + word..body + word + 4].reverse());
        halves.iter().for_each(|half| swapped[body + half..body + half + 2].reverse());
        let mut option = body + options;
        while option + 4 <= at + len - 4 {
            let value_len = usize::from(u16::from_le_bytes([file[option + 2], file[option + 3]]));
            swapped[option..option + 2].reverse();
            swapped[option + 2..option + 4].reverse();
            if kind == 6 && file[option] == 2 {
                swapped[option + 4..option + 8].reverse();
            }
            option += 4 + value_len.next_multiple_of(4);
        }
        at += len;
    }
    swapped
}

#[test]
fn a_file_of_the_other_byte_order_stays_one() {
    let file = full(&damaged());
    let other = swapped(&file);
    assert_eq!(packets(&other), packets(&file));
    let annotated = annotate(&other);
    assert_eq!(annotated[8..12], [0x1a, 0x2b, 0x3c, 0x4d]);
    assert_eq!(packets(&annotated), packets(&annotate(&file)));
    assert_eq!(shown(&annotated), shown(&annotate(&file)));
}

#[test]
fn the_command_reads_files_and_standard_input() {
    let input = capture("rxe72-flush-atomicwrite");
    let file = std::fs::read(&input).unwrap();
    let from_file = roce_pcap(&["annotate", input.to_str().unwrap(), "-o", "-"], &[]);
    assert_eq!(from_file.status.code(), Some(0), "{from_file:?}");
    let from_pipe = roce_pcap(&["annotate", "-", "--output", "-"], &file);
    assert_eq!(from_pipe.stdout, from_file.stdout);
    assert_eq!(from_file.stdout, annotate(&file));
    // Compressed by name, and read as such.
    let packed = Temporary::new(".pcapng.gz", &[]);
    let path = packed.0.to_str().unwrap();
    assert_eq!(roce_pcap(&["annotate", "-", "-o", path], &file).status.code(), Some(0));
    let again = std::fs::read(path).unwrap();
    assert_eq!(again[..2], [0x1f, 0x8b]);
    assert_eq!(packets(&again), packets(&file));
}

#[test]
fn a_cut_file_is_copied_up_to_the_cut() {
    let file = annotate(&std::fs::read(capture("rxe-write")).unwrap());
    let all = packets(&file).len();
    let output = roce_pcap(&["annotate", "-", "-o", "-"], &file[..file.len() - 7]);
    assert_eq!(output.status.code(), Some(2));
    assert!(String::from_utf8(output.stderr).unwrap().contains("everything before that was read"));
    assert_eq!(packets(&output.stdout).len(), all - 1);
    let output = roce_pcap(&["annotate", "/nonexistent", "-o", "-"], &[]);
    assert_eq!((output.status.code(), output.stdout.len()), (Some(2), 0));
}
