//! `roce-pcap replay --port` against `roce-responder replay-target`, a command for each end: real
//! captures over a veth pair between two network namespaces. Without the right to make these, or
//! where `roce-pcap` has not been built, the tests pass over and say so.

#![cfg(feature = "linux")]

#[path = "support/namespaces.rs"]
mod namespaces;

use std::io::{BufRead, BufReader, Read};
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};

use namespaces::Lab;

const RESPONDER: &str = env!("CARGO_BIN_EXE_roce-responder");

/// The other program lies beside ours once the workspace is built: we depend on its library alone.
fn replayer() -> Option<PathBuf> {
    let path = Path::new(RESPONDER).with_file_name("roce-pcap");
    if !path.exists() {
        println!("passed over: {} is not built (cargo build -p roce-pcap)", path.display());
        return None;
    }
    Some(path)
}

fn capture(name: &str) -> String {
    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("../tests/captures");
    folder.join(name).with_extension("pcap").to_str().expect("a name in UTF-8").to_owned()
}

/// The target; it does not outlive its test.
struct Target(Child);

impl Target {
    /// Starts it, and returns the options that it prints once it is ready.
    fn start(capture: &str, port: &str) -> (Self, Vec<String>) {
        let mut process = Command::new(RESPONDER)
            .args(["replay-target", capture, "--port", port])
            .args(["--ip", "192.0.2.1", "--peer", "192.0.2.2", "--stats"])
            .stdin(Stdio::null())
            .stdout(Stdio::piped())
            .spawn()
            .expect("the program starts");
        let mut line = String::new();
        let mut stdout = BufReader::new(process.stdout.take().expect("a pipe"));
        stdout.read_line(&mut line).expect("a line");
        process.stdout = Some(stdout.into_inner());
        assert!(!line.is_empty(), "{:?}", process.wait());
        (Self(process), line.split_whitespace().map(str::to_owned).collect())
    }

    /// Ctrl-C; the counters.
    fn stop(mut self) -> serde_json::Value {
        let pid = libc::pid_t::try_from(self.0.id()).unwrap();
        // SAFETY: our own child, which has not been waited for.
        assert_eq!(unsafe { libc::kill(pid, libc::SIGINT) }, 0);
        let mut output = String::new();
        self.0.stdout.take().expect("a pipe").read_to_string(&mut output).expect("text");
        assert!(self.0.wait().expect("a status").success());
        serde_json::from_str(output.trim()).expect("one line of JSON")
    }
}

impl Drop for Target {
    fn drop(&mut self) {
        let _ = self.0.kill();
        let _ = self.0.wait();
    }
}

/// Replays a capture; `requests` of them are sent, and so many `answers` come back and are compared.
fn replays(name: &str, port: &str, requests: u64, answers: u64) {
    let Some(replayer) = replayer() else { return };
    let Some(lab) = Lab::enter() else { return };
    let capture = capture(name);
    let (target, options) = Target::start(&capture, &format!("{port}:near"));
    let port = format!("{port}:far");
    let mut words = vec![replayer.to_str().expect("a name in UTF-8"), "replay", &capture];
    words.extend(["--port", &port, "--speed", "max"]);
    words.extend(options.iter().map(String::as_str));
    let output = lab.there(&words);
    let report = String::from_utf8(output.stdout).expect("text");
    let errors = String::from_utf8_lossy(&output.stderr);
    assert_eq!(output.status.code(), Some(0), "{words:?}\n{report}{errors}");
    println!("{report}");
    assert!(report.ends_with("0 mismatches\n"), "{report}");
    assert!(report.contains(&format!("{requests} requests sent")), "{report}");
    // "N of N answers compared", stream by stream.
    let sum = report.split(" answers compared").map(|before| {
        let words: Vec<_> = before.rsplit(' ').take(3).collect();
        match words[..] {
            [all, "of", compared] => {
                assert_eq!(compared, all, "{report}");
                compared.parse::<u64>().unwrap_or(0)
            }
            _ => 0,
        }
    });
    assert_eq!(sum.sum::<u64>(), answers, "{report}");
    // It was the target that answered.
    let stats = target.stop();
    assert_eq!(stats["stats"]["rx_frames"].as_u64(), Some(requests), "{stats}");
    assert!(stats["stats"]["tx_frames"].as_u64() >= Some(1), "{stats}");
}

/// Without the target's key every WRITE is refused, and no answer is what was captured.
#[test]
fn a_wrong_answer_is_a_mismatch() {
    let Some(replayer) = replayer() else { return };
    let Some(lab) = Lab::enter() else { return };
    let capture = capture("rxe-write");
    let (_target, mut options) = Target::start(&capture, "packet:near");
    let at = options.iter().position(|word| word == "--rkey").expect("a key");
    options.drain(at..at + 2);
    let mut words = vec![replayer.to_str().expect("a name in UTF-8"), "replay", &capture];
    words.extend(["--port", "packet:far", "--speed", "max", "--timeout", "200"]);
    words.extend(options.iter().map(String::as_str));
    let output = lab.there(&words);
    let report = String::from_utf8(output.stdout).expect("text");
    assert_eq!(output.status.code(), Some(1), "{report}");
    assert!(!report.ends_with("\n0 mismatches\n"), "{report}");
    assert!(report.contains("remote access error"), "{report}");
}

#[test]
fn writes() {
    replays("rxe-write", "packet", 48, 16);
}

#[test]
fn reads() {
    replays("rxe-read", "packet", 21, 1328);
}

#[test]
fn atomics() {
    replays("rxe-atomic", "packet", 16, 16);
}

#[test]
fn sends() {
    replays("rxe-send", "packet", 54, 22);
}

#[test]
fn writes_over_af_xdp() {
    replays("rxe-write", "af-xdp", 48, 16);
}
