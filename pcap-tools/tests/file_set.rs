//! Captures in several files, and files that are still being written.

use std::fs::{self, File};
use std::io::Write;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread;
use std::time::{Duration, Instant};

use roce_pcap::capture::{Batch, CaptureError, FileError, FileSet, Follow, Reader};

fn capture(name: &str) -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join(format!("../tests/captures/{name}.pcap"))
}

/// An empty folder of that name.
fn folder(name: &str) -> PathBuf {
    let path = Path::new(env!("CARGO_TARGET_TMPDIR")).join(name);
    let _ = fs::remove_dir_all(&path);
    fs::create_dir_all(&path).unwrap();
    path
}

/// Number, time and bytes of each packet.
type Packets = Vec<(u64, Option<u64>, Vec<u8>)>;

fn read(set: &mut FileSet) -> (Packets, Vec<FileError>) {
    let (mut packets, mut errors, mut batch) = (Vec::new(), Vec::new(), Batch::new());
    loop {
        match set.fill(&mut batch) {
            Ok(0) => return (packets, errors),
            Ok(_) => packets
                .extend(batch.packets().map(|it| (it.number, it.timestamp_ns, it.data.to_vec()))),
            Err(error) => errors.push(error),
        }
    }
}

/// What one file holds.
fn whole(path: &Path) -> Packets {
    let (packets, errors) = read(&mut FileSet::single(path));
    assert!(errors.is_empty(), "{errors:?}");
    packets
}

/// The bytes of a file header and of each record.
fn records(file: &[u8]) -> (Vec<u8>, Vec<Vec<u8>>) {
    let mut reader = Reader::new(file).unwrap();
    let mut starts = Vec::new();
    while let Some(packet) = reader.next_packet() {
        starts.push(usize::try_from(packet.unwrap().offset).unwrap());
    }
    let ends = starts[1..].iter().copied().chain([file.len()]);
    let records = starts.iter().zip(ends).map(|(start, end)| file[*start..end].to_vec());
    (file[..24].to_vec(), records.collect())
}

/// Cuts a capture into files of so many packets, under the names that `tcpdump -C` gives.
fn cut(name: &str, folder: &Path, many: usize) -> Vec<PathBuf> {
    let (header, records) = records(&fs::read(capture(name)).unwrap());
    let pieces = records.chunks(many).enumerate().map(|(index, piece)| {
        let number = if index == 0 { String::new() } else { index.to_string() };
        let path = folder.join(format!("trace.pcap{number}"));
        fs::write(&path, [header.clone(), piece.concat()].concat()).unwrap();
        path
    });
    pieces.collect()
}

#[test]
fn a_set_is_one_capture_in_the_order_of_time() {
    let folder = folder("in_order");
    let mut paths = cut("rxe-read", &folder, 100);
    let expected = whole(&capture("rxe-read"));
    assert_eq!((paths.len(), expected.len()), (14, 1349));
    fs::write(folder.join("trace.pcapng"), "of somebody else").unwrap();

    // `trace.pcap10` comes before `trace.pcap2` by name.
    let mut found = FileSet::rotated_like(folder.join("trace.pcap3")).unwrap();
    assert_eq!(found.files(), paths);
    assert!(read(&mut found).0 == expected);
    assert_eq!(found.locate(0), None);
    assert_eq!(found.locate(1), Some((paths[0].as_path(), 1)));
    assert_eq!(found.locate(100), Some((paths[0].as_path(), 100)));
    assert_eq!(found.locate(101), Some((paths[1].as_path(), 1)));
    assert_eq!(found.locate(1349), Some((paths[13].as_path(), 49)));

    let in_order = paths.clone();
    paths.reverse();
    paths.swap(3, 9);
    let mut given = FileSet::rotated(paths);
    assert_eq!(given.files(), in_order);
    assert!(read(&mut given).0 == expected);
}

#[test]
fn a_bad_file_of_a_set_is_named_and_the_others_are_read() {
    let folder = folder("bad_file");
    let paths = cut("rxe-read", &folder, 500);
    let cut_at = fs::metadata(&paths[1]).unwrap().len() - 5;
    File::options().write(true).open(&paths[1]).unwrap().set_len(cut_at).unwrap();
    // The newest one, of which nothing has been written yet.
    fs::write(folder.join("trace.pcap3"), "").unwrap();

    let (packets, errors) = read(&mut FileSet::rotated_like(&paths[0]).unwrap());
    assert_eq!(packets.len(), 1348);
    assert_eq!(packets.last().unwrap().0, 1348, "numbers run on");
    assert_eq!(errors.len(), 2);
    assert_eq!(errors[0].path, paths[1]);
    assert!(matches!(errors[0].error, CaptureError::Truncated { .. }));
    assert_eq!(errors[1].path, folder.join("trace.pcap3"));
    assert!(matches!(errors[1].error, CaptureError::Empty));

    let missing = folder.join("nothing.pcap");
    let (packets, errors) = read(&mut FileSet::rotated_like(&missing).unwrap());
    assert!(packets.is_empty());
    assert!(errors[0].to_string().contains("nothing.pcap: reading at offset 0: No such file"));
}

/// The names and the order are editcap's.
#[test]
fn what_editcap_splits_is_found() {
    let folder = folder("editcap");
    let mut editcap = Command::new("editcap");
    editcap.args(["-c", "400"]).arg(capture("rxe-read")).arg(folder.join("out.pcapng"));
    match editcap.output() {
        Ok(output) => assert!(output.status.success(), "{output:?}"),
        Err(error) => return eprintln!("passed over: editcap: {error}"),
    }
    let first = fs::read_dir(&folder).unwrap().next().unwrap().unwrap().path();
    let mut set = FileSet::rotated_like(first).unwrap();
    assert_eq!(set.files().len(), 4);
    assert!(read(&mut set).0 == whole(&capture("rxe-read")));
}

/// Appends in pieces that end anywhere, each visible before the next.
fn append_slowly(path: &Path, bytes: &[u8], piece: usize) {
    let mut file = File::options().create(true).append(true).open(path).unwrap();
    for piece in bytes.chunks(piece) {
        file.write_all(piece).unwrap();
        thread::sleep(Duration::from_millis(5));
    }
}

#[test]
fn a_growing_file_is_followed() {
    let path = folder("growing").join("trace.pcap");
    let bytes = fs::read(capture("rxe-cm")).unwrap();
    let expected = whole(&capture("rxe-cm"));
    fs::write(&path, "").unwrap();
    thread::scope(|scope| {
        scope.spawn(|| append_slowly(&path, &bytes, 1999));
        let follow = Follow { idle: Some(Duration::from_secs(1)), ..Follow::default() };
        let mut set = FileSet::single(&path).follow(follow);
        let (mut batches, mut packets, mut batch) = (0, 0, Batch::new());
        while set.fill(&mut batch).unwrap() > 0 {
            batches += 1;
            packets += batch.len();
        }
        assert_eq!(packets, expected.len());
        assert!(batches > 1, "they came as they were written: {batches}");
    });

    // The writer died inside a record: that is damage, after all.
    let half = bytes.len() - 10;
    File::options().write(true).open(&path).unwrap().set_len(half as u64).unwrap();
    let follow = Follow { idle: Some(Duration::from_millis(50)), ..Follow::default() };
    let (packets, errors) = read(&mut FileSet::single(&path).follow(follow));
    assert_eq!((packets.len(), errors.len()), (expected.len() - 1, 1));
}

#[test]
fn whoever_has_seen_enough_gets_no_error_of_a_half_record() {
    let path = folder("stopped").join("trace.pcap");
    let bytes = fs::read(capture("rxe-cm")).unwrap();
    fs::write(&path, &bytes[..5000]).unwrap();
    let stop = Arc::new(AtomicBool::new(false));
    let mut set = FileSet::single(&path).follow(Follow { idle: None, stop: stop.clone() });
    thread::scope(|scope| {
        let reading = scope.spawn(|| read(&mut set));
        thread::sleep(Duration::from_millis(100));
        assert!(!reading.is_finished(), "it waits for the rest of the record");
        stop.store(true, Ordering::Relaxed);
        let (packets, errors) = reading.join().unwrap();
        assert_eq!(packets.len(), 44);
        assert!(errors.is_empty(), "{errors:?}");
    });
}

#[test]
fn the_next_file_of_a_set_is_taken_up() {
    let folder = folder("next_file");
    let pieces = cut("rxe-read", &folder, 500);
    let parked: Vec<_> = pieces.iter().map(|path| fs::read(path).unwrap()).collect();
    for path in &pieces {
        fs::remove_file(path).unwrap();
    }
    let expected = whole(&capture("rxe-read"));
    let (first, rest) = parked.split_first().unwrap();
    fs::write(&pieces[0], &first[..3000]).unwrap();
    thread::scope(|scope| {
        scope.spawn(|| {
            append_slowly(&pieces[0], &first[3000..], 100_000);
            for (bytes, to) in rest.iter().zip(&pieces[1..]) {
                append_slowly(to, bytes, 100_000);
            }
        });
        let follow = Follow { idle: Some(Duration::from_secs(1)), ..Follow::default() };
        let started = Instant::now();
        let mut set = FileSet::rotated_like(&pieces[0]).unwrap().follow(follow);
        let (packets, errors) = read(&mut set);
        assert!(errors.is_empty(), "{errors:?}");
        assert_eq!(packets.len(), expected.len());
        assert!(packets == expected);
        assert_eq!(set.files(), pieces);
        assert!(started.elapsed() < Duration::from_secs(5));
    });
}

#[test]
fn a_file_that_is_overwritten_says_so() {
    let path = folder("overwritten").join("trace.pcap");
    fs::copy(capture("rxe-cm"), &path).unwrap();
    let mut set = FileSet::single(&path).follow(Follow::default());
    let mut batch = Batch::new();
    assert_eq!(set.fill(&mut batch).unwrap(), 127);
    File::options().write(true).open(&path).unwrap().set_len(24).unwrap();
    let error = set.fill(&mut batch).unwrap_err();
    assert!(error.to_string().contains("overwritten while it was being read"), "{error}");
    assert_eq!(set.fill(&mut batch).unwrap(), 0);
}
