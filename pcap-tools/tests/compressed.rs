//! Captures that gzip or zstd has packed: whole, in several pieces, cut and damaged.

#![cfg(feature = "compression")]

use std::io::{Read, Write};
use std::process::{Command, Stdio};

use flate2::GzBuilder;
use flate2::write::GzEncoder;
use roce_pcap::capture::{Batch, CaptureError, Compression, PackFault, Reader};

fn capture(name: &str) -> Vec<u8> {
    let path = format!("{}/../tests/captures/{name}.pcap", env!("CARGO_MANIFEST_DIR"));
    std::fs::read(path).unwrap()
}

/// The packets' bytes and what ended them.
fn read(file: &[u8]) -> (Vec<Vec<u8>>, Option<CaptureError>) {
    let mut reader = match Reader::new(file) {
        Ok(reader) => reader,
        Err(error) => return (Vec::new(), Some(error)),
    };
    let (mut packets, mut batch) = (Vec::new(), Batch::new());
    loop {
        match reader.fill(&mut batch) {
            Ok(0) => return (packets, None),
            Ok(_) => packets.extend(batch.packets().map(|packet| packet.data.to_vec())),
            Err(error) => {
                assert_eq!(reader.fill(&mut batch).unwrap(), 0);
                return (packets, Some(error));
            }
        }
    }
}

/// The packets of a file that must have nothing wrong.
fn whole(file: &[u8]) -> Vec<Vec<u8>> {
    let (packets, error) = read(file);
    assert!(error.is_none(), "{error:?}");
    packets
}

fn gzip(bytes: &[u8]) -> Vec<u8> {
    let mut encoder = GzEncoder::new(Vec::new(), flate2::Compression::fast());
    encoder.write_all(bytes).unwrap();
    encoder.finish().unwrap()
}

/// By the program of that name; `None` where there is none.
fn packed_by(program: &str, args: &[&str], bytes: &[u8]) -> Option<Vec<u8>> {
    let mut child = Command::new(program)
        .args(args)
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .spawn()
        .map_err(|error| eprintln!("passed over: {program}: {error}"))
        .ok()?;
    let mut stdin = child.stdin.take().unwrap();
    std::thread::scope(|scope| {
        scope.spawn(move || stdin.write_all(bytes).unwrap());
        let mut packed = Vec::new();
        child.stdout.take().unwrap().read_to_end(&mut packed).unwrap();
        assert!(child.wait().unwrap().success());
        Some(packed)
    })
}

fn zstd(bytes: &[u8]) -> Vec<u8> {
    use ruzstd::encoding::{CompressionLevel, compress_to_vec};
    compress_to_vec(bytes, CompressionLevel::Fastest)
}

fn fault(error: Option<CaptureError>) -> (Compression, PackFault, u64) {
    match error {
        Some(CaptureError::Packed { offset, compression, fault, .. }) => {
            (compression, fault, offset)
        }
        other => panic!("{other:?}"),
    }
}

#[test]
fn packed_captures_read_as_plain_ones() {
    let plain = capture("rxe-read");
    let expected = read(&plain).0;
    assert_eq!(expected.len(), 1349);
    let mut forms = vec![gzip(&plain), zstd(&plain)];
    forms.extend(packed_by("gzip", &["-9"], &plain));
    for args in [&["-1"][..], &["-19"], &["--long=27"], &["--no-check"], &["-B4096", "-T2"]] {
        forms.extend(packed_by("zstd", args, &plain));
    }
    for form in forms {
        assert!(form.len() < plain.len() * 9 / 10 || form.starts_with(&[0x28]));
        assert_eq!(whole(&form), expected);
    }
}

/// `cat a.gz b.gz`, pigz, bgzip, `zstd -T`, pzstd: members and frames that are cut anywhere, with
/// headers that say more, empty ones among them, and padding.
#[test]
fn members_and_frames_are_one_file() {
    let plain = capture("rxe-cm");
    let expected = read(&plain).0;
    let (front, back) = plain.split_at(5001);

    let mut full = GzBuilder::new()
        .extra(vec![7; 300])
        .filename("rxe-cm.pcap")
        .comment("of rxe")
        .mtime(1)
        .write(Vec::new(), flate2::Compression::best());
    full.write_all(back).unwrap();
    let mut file = gzip(front);
    file.extend(gzip(b""));
    file.extend(full.finish().unwrap());
    assert_eq!(whole(&file), expected);
    file.extend([0; 1000]);
    assert_eq!(whole(&file), expected);

    // A skippable frame in front, as pzstd writes it, one between, an empty one at the end.
    let mut file = vec![0x50, 0x2a, 0x4d, 0x18, 4, 0, 0, 0, 1, 2, 3, 4];
    file.extend(zstd(front));
    file.extend([0x5f, 0x2a, 0x4d, 0x18, 0, 0, 0, 0]);
    file.extend(zstd(back));
    file.extend(zstd(b""));
    assert_eq!(whole(&file), expected);
}

/// Everything in front of the cut, and where it is.
#[test]
fn a_cut_gives_the_packets_before_it() {
    let plain = capture("rxe-read");
    let all = read(&plain).0;
    // Blocks of 64 KiB, so that the end of one is never far; zstd by itself has them of 128.
    let small_frames: Vec<u8> = plain.chunks(65_536).flat_map(zstd).collect();
    for (file, compression) in [
        (gzip(&plain), Compression::Gzip),
        (small_frames, Compression::Zstd),
        (zstd(&plain), Compression::Zstd),
    ] {
        let mut most = 0;
        for len in (20..file.len()).step_by(file.len() / 23) {
            let (packets, error) = read(&file[..len]);
            let (which, what, offset) = fault(error);
            assert_eq!((which, what, offset), (compression, PackFault::Cut, len as u64));
            assert_eq!(packets, all[..packets.len()], "cut to {len}");
            // What was packed in front of the cut came out, but for the last block.
            let share = all.len() * len / file.len();
            let block = 131_072 * all.len() / plain.len() + 50;
            assert!(packets.len() + block > share / 2, "{} of {share}", packets.len());
            most = most.max(packets.len());
        }
        assert!(most > all.len() / 2, "{compression}: {most}");
    }
}

#[test]
fn damage_is_named() {
    let plain = capture("rxe-cm");
    let all = read(&plain).0;

    let good = gzip(&plain);
    let mut file = good.clone();
    let checksum = file.len() - 8;
    file[checksum] ^= 1;
    let (packets, error) = read(&file);
    assert_eq!(packets, all, "a wrong checksum comes after all of it");
    assert_eq!(fault(error), (Compression::Gzip, PackFault::Checksum, checksum as u64));
    let mut file = good.clone();
    file.extend(b"and then?");
    assert_eq!(fault(read(&file).1), (Compression::Gzip, PackFault::Trailing, good.len() as u64));
    file.truncate(good.len());
    file.extend([0, 0, 0, 1]);
    assert_eq!(fault(read(&file).1).1, PackFault::Trailing);
    let mut file = good.clone();
    file[3] = 0x80;
    assert_eq!(fault(read(&file).1), (Compression::Gzip, PackFault::Header, 0));
    let mut file = good;
    // A block of the type that there is not.
    file[10] |= 6;
    assert_eq!(fault(read(&file).1).1, PackFault::Data);

    let good = zstd(&plain);
    let mut file = good.clone();
    file.extend(b"and then?");
    assert_eq!(fault(read(&file).1), (Compression::Zstd, PackFault::Trailing, good.len() as u64));
    let checksum = good.len() - 1;
    let mut file = good.clone();
    file[checksum] ^= 1;
    let (packets, error) = read(&file);
    assert_eq!((packets.len(), fault(error).1), (all.len(), PackFault::Checksum));
    // A window of 2^41 bytes; a dictionary; a block of the reserved type.
    let frame = |rest: &[u8]| [&[0x28, 0xb5, 0x2f, 0xfd][..], rest].concat();
    assert_eq!(fault(read(&frame(&[0x00, 31 << 3, 1, 0, 0])).1).1, PackFault::Window);
    assert_eq!(fault(read(&frame(&[0x01, 0x50, 9, 1, 0, 0])).1).1, PackFault::Dictionary);
    assert_eq!(fault(read(&frame(&[0x00, 0x50, 7, 0, 0, 0])).1).1, PackFault::Data);

    let twice = gzip(&gzip(&plain));
    let error = read(&twice).1.unwrap();
    assert_eq!(error.to_string(), "compressed by gzip: unpack it first");
}

#[test]
fn a_cut_record_inside_whole_data_is_cut_by_its_own_offset() {
    let plain = capture("rxe-cm");
    for file in [gzip(&plain[..5000]), zstd(&plain[..5000])] {
        let (packets, error) = read(&file);
        assert_eq!(packets.len(), 44);
        assert!(matches!(error, Some(CaptureError::Truncated { offset: 4936, .. })), "{error:?}");
    }
}

/// Every byte of the file once, with a value that its place chooses.
#[test]
fn one_changed_byte_never_panics() {
    let plain = &capture("rxe-cm")[..4_000];
    let expected = read(plain).0;
    for good in [gzip(plain), zstd(plain)] {
        for at in 0..good.len() {
            let mut file = good.clone();
            file[at] ^= 1 << (at % 8);
            let (packets, error) = read(&file);
            assert!(packets.len() <= plain.len() / 16);
            // A name, a time or an operating system may be changed without harm.
            assert!(error.is_some() || packets == expected, "neither an error nor the packets");
        }
    }
}
