//! Which files are one capture that its writer cut in pieces.
//!
//! ```text
//! tcpdump -C     trace.pcap trace.pcap1 trace.pcap2        with -W: trace.pcap00 trace.pcap01
//! tcpdump -G     trace-20261130-120000.pcap                with -z gzip: .gz behind it
//! dumpcap -b     trace_00001_20261130120000.pcapng         or time and number the other way
//! ```

use std::fs;
use std::io;
use std::path::{Path, PathBuf};

use super::Reader;

/// A name without what numbers it: digits at its end, and from the first four digits in a row on
/// all others, too, which is where numbers and times stand. `eth0.pcap` and `eth1.pcap` are two.
fn stem(name: &str) -> String {
    let name = [".gz", ".zst"].iter().find_map(|packed| name.strip_suffix(packed)).unwrap_or(name);
    let name = name.trim_end_matches(|letter: char| letter.is_ascii_digit());
    let mut stem = String::with_capacity(name.len());
    let mut rest = name;
    let mut numbered = false;
    while let Some(at) = rest.find(|letter: char| letter.is_ascii_digit()) {
        let (text, from) = rest.split_at(at);
        let len = from.find(|letter: char| !letter.is_ascii_digit()).unwrap_or(from.len());
        let (digits, behind) = from.split_at(len);
        numbered |= len >= 4;
        stem.push_str(text);
        // No file name has this character in it.
        stem.push_str(if numbered { "\0" } else { digits });
        rest = behind;
    }
    stem + rest
}

/// The files beside `path` that belong to its set, itself among them, in no order.
///
/// # Errors
/// What the operating system says of the folder.
pub(super) fn siblings(path: &Path) -> io::Result<Vec<PathBuf>> {
    let folder = match path.parent() {
        Some(folder) if folder != Path::new("") => folder,
        _ => Path::new("."),
    };
    let Some(own) = path.file_name().and_then(|name| name.to_str()).map(stem) else {
        return Ok(vec![path.to_owned()]);
    };
    let mut files = Vec::new();
    for entry in fs::read_dir(folder)? {
        let entry = entry?;
        let name = entry.file_name();
        let kin = name.to_str().is_some_and(|name| stem(name) == own);
        if kin && entry.path().is_file() {
            files.push(path.with_file_name(name));
        }
    }
    Ok(files)
}

/// When the first packet of a file was captured; `None` if that cannot be told (yet).
pub(super) fn first_timestamp(path: &Path) -> Option<u64> {
    Reader::open(path).ok()?.next_packet()?.ok()?.timestamp_ns
}

/// Puts files in the order of their first packets; those without any come last, as they were.
pub(super) fn sort(files: &mut Vec<PathBuf>) {
    let mut keyed: Vec<_> =
        files.drain(..).map(|path| (first_timestamp(&path).unwrap_or(u64::MAX), path)).collect();
    keyed.sort_by_key(|(time, _)| *time);
    files.extend(keyed.into_iter().map(|(_, path)| path));
}

/// The file that its writer went on with after `path`: of its siblings the first that starts
/// later.
pub(super) fn successor(path: &Path) -> Option<PathBuf> {
    let own = first_timestamp(path)?;
    let later = siblings(path).ok()?.into_iter().filter_map(|sibling| {
        let first = first_timestamp(&sibling)?;
        (first > own).then_some((first, sibling))
    });
    later.min().map(|(_, sibling)| sibling)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_one_writer_names_is_one_set() {
        for set in [
            &["trace.pcap", "trace.pcap1", "trace.pcap23", "trace.pcap4.gz"][..],
            &["trace00", "trace01", "trace"],
            &["t_00001_20261130120000.pcapng", "t_00002_20261130120959.pcapng"],
            &["t_20261130120000_00001.pcapng", "t_20261130120959_00002.pcapng.zst"],
            &["n1-2026-11-30_12:00:00.pcap", "n1-2026-12-01_09:30:07.pcap"],
            &["node7-1764504000.pcap.gz", "node7-1764504060.pcap"],
        ] {
            for name in set {
                assert_eq!(stem(name), stem(set[0]), "{name}");
            }
        }
    }

    #[test]
    fn what_is_of_another_capture_is_not() {
        for (one, other) in [
            ("eth0.pcap", "eth1.pcap"),
            ("node1_00001_20261130120000.pcapng", "node2_00001_20261130120000.pcapng"),
            ("trace.pcap", "trace.pcapng"),
            ("a.pcap", "b.pcap"),
        ] {
            assert_ne!(stem(one), stem(other));
        }
    }
}
