//! The command line on input that is still arriving, and on sets of files.

use std::fs::{self, File};
use std::io::{BufRead, BufReader, Write};
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Output, Stdio};
use std::thread;
use std::time::Duration;

fn capture(name: &str) -> String {
    format!("{}/../tests/captures/{name}.pcap", env!("CARGO_MANIFEST_DIR"))
}

fn roce_pcap(args: &[&str]) -> Command {
    let mut command = Command::new(env!("CARGO_BIN_EXE_roce-pcap"));
    command.args(args).stdout(Stdio::piped()).stderr(Stdio::piped());
    command
}

fn text(output: &Output) -> (Option<i32>, String, String) {
    let text = |bytes: &[u8]| String::from_utf8(bytes.to_vec()).unwrap();
    (output.status.code(), text(&output.stdout), text(&output.stderr))
}

fn temporary(name: &str) -> PathBuf {
    Path::new(env!("CARGO_TARGET_TMPDIR")).join(name)
}

/// Ends it as Ctrl-C does.
fn interrupt(child: &Child) {
    let status = Command::new("kill").args(["-INT", &child.id().to_string()]).status().unwrap();
    assert!(status.success());
}

/// `tcpdump -w - | roce-pcap decode -`: lines come while the pipe is open.
#[test]
fn packets_of_a_pipe_are_shown_as_they_come() {
    let bytes = fs::read(capture("rxe-cm")).unwrap();
    let mut child = roce_pcap(&["decode", "-"]).stdin(Stdio::piped()).spawn().unwrap();
    let mut stdin = child.stdin.take().unwrap();
    let mut lines = BufReader::new(child.stdout.take().unwrap()).lines();
    stdin.write_all(&bytes[..5000]).unwrap();
    for number in 1..=44 {
        let line = lines.next().unwrap().unwrap();
        assert!(line.trim_start().starts_with(&format!("{number} ")), "{line}");
    }
    // An interrupt goes to the whole pipeline. Whoever captures may still have something to say.
    interrupt(&child);
    thread::sleep(Duration::from_millis(50));
    stdin.write_all(&bytes[5000..]).unwrap();
    drop(stdin);
    assert_eq!(lines.count(), 127 - 44 + 1, "the rest, and how many there were");
    assert!(child.wait().unwrap().success());
}

#[test]
fn an_interrupt_ends_following_with_a_summary() {
    let path = temporary("interrupted.pcap");
    let bytes = fs::read(capture("rxe-cm")).unwrap();
    fs::write(&path, &bytes[..5000]).unwrap();
    let child = roce_pcap(&["check", "--follow", path.to_str().unwrap()]).spawn().unwrap();
    thread::sleep(Duration::from_millis(300));
    interrupt(&child);
    let (status, stdout, stderr) = text(&child.wait_with_output().unwrap());
    assert_eq!((status, stderr.as_str()), (Some(0), ""));
    assert!(stdout.contains("44 packets"), "{stdout}");
}

#[test]
fn idle_ends_following() {
    let path = temporary("idle.pcap");
    let bytes = fs::read(capture("rxe-cm")).unwrap();
    fs::write(&path, &bytes[..5000]).unwrap();
    let args = ["check", "--follow", "--idle", "0.5", path.to_str().unwrap()];
    let child = roce_pcap(&args).spawn().unwrap();
    thread::sleep(Duration::from_millis(100));
    File::options().append(true).open(&path).unwrap().write_all(&bytes[5000..]).unwrap();
    let (status, stdout, stderr) = text(&child.wait_with_output().unwrap());
    assert_eq!((status, stderr.as_str()), (Some(0), ""));
    assert!(stdout.contains("127 packets"), "{stdout}");

    let output = roce_pcap(&["check", "--idle", "1", "x.pcap"]).output().unwrap();
    assert_eq!(output.status.code(), Some(2), "--idle without --follow");
    let output = roce_pcap(&["check", "--follow", "--idle", "-1", "x.pcap"]).output().unwrap();
    assert_eq!(output.status.code(), Some(2));
}

/// Each file alone has PSNs that start anywhere; together they are the whole capture.
#[test]
fn a_rotated_set_is_judged_as_one_capture() {
    let folder = temporary("rotated");
    let _ = fs::remove_dir_all(&folder);
    fs::create_dir_all(&folder).unwrap();
    let bytes = fs::read(capture("rxe72-flush-atomicwrite")).unwrap();
    // Behind the 20th packet.
    let (mut at, header) = (24, &bytes[..24]);
    for _ in 0..20 {
        let len = u32::from_le_bytes(*bytes[at + 8..].first_chunk().unwrap());
        at += 16 + usize::try_from(len).unwrap();
    }
    let (first, second) = (folder.join("trace.pcap0"), folder.join("trace.pcap1"));
    fs::write(&first, &bytes[..at]).unwrap();
    fs::write(&second, [header, &bytes[at..]].concat()).unwrap();

    let whole = text(&roce_pcap(&["check", &capture("rxe72-flush-atomicwrite")]).output().unwrap());
    let [first, second] = [&first, &second].map(|path| path.to_str().unwrap());
    for args in [&["check", "--rotated", second, first][..], &["check", "--rotated", second]] {
        let (status, stdout, stderr) = text(&roce_pcap(args).output().unwrap());
        assert_eq!((status, stderr.as_str()), (Some(1), ""));
        let lines: Vec<_> = stdout.lines().collect();
        assert!(lines[0].starts_with(&format!("{first}: packet 14: ROCE-ICRC ")), "{stdout}");
        assert!(lines[1].starts_with(&format!("{second}: packet 22: ROCE-ICRC ")), "{stdout}");
        let stripped =
            stdout.replace(&format!("{first}: "), "").replace(&format!("{second}: "), "");
        assert_eq!(stripped, whole.1);
    }
}
