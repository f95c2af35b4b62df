//! The command line: exit status, output, what it says when something is wrong.

use std::io::Write;
use std::process::{Command, Output, Stdio};

use serde_json::Value;

use crate::support::{answers, load, path};

fn run(args: &[&str]) -> Output {
    Command::new(env!("CARGO_BIN_EXE_roce-pcap")).arg("replay").args(args).output().unwrap()
}

fn text(bytes: &[u8]) -> &str {
    std::str::from_utf8(bytes).unwrap()
}

fn capture(name: &str) -> String {
    path(name).display().to_string()
}

#[test]
fn a_replay_without_mismatch_is_status_0() {
    let output = run(&[&capture("rxe72-flush-atomicwrite"), "--freedoms"]);
    assert_eq!((output.status.code(), text(&output.stderr)), (Some(0), ""));
    let out = text(&output.stdout);
    for line in [
        "Rc 10.77.1.3 > 10.77.1.2 QP 0x000012: request 14, packet 16: shared-icrc",
        "9 requests given, 7 answers compared, 2 equal, 0 messages delivered",
        "not replayed: CM 30",
        "0 mismatches",
    ] {
        assert!(out.lines().any(|found| found.starts_with(line)), "{line} in {out}");
    }
}

#[test]
fn json_lines_end_with_the_summary() {
    let (client, server) = (capture("rxe-lossy-client"), capture("rxe-lossy-server"));
    let output = run(&[&client, "--second-tap", &server, "--format", "jsonl"]);
    assert_eq!(output.status.code(), Some(0));
    let lines: Vec<Value> =
        text(&output.stdout).lines().map(|line| serde_json::from_str(line).unwrap()).collect();
    let (last, rest) = lines.split_last().unwrap();
    let summary = &last["summary"];
    assert_eq!((&summary["mismatches"], &summary["compared"]), (&0.into(), &814.into()));
    assert_eq!((&summary["lost_requests"], &summary["lost_answers"]), (&51.into(), &26.into()));
    assert_eq!(summary["read-retry-opcode"], 11);
    let streams = rest.iter().filter(|line| line.get("stream").is_some());
    assert_eq!(streams.count(), 3);
}

#[test]
fn the_plan_is_printed() {
    let output = run(&["--plan", &capture("rxe-write")]);
    assert_eq!(output.status.code(), Some(0));
    assert_eq!(
        text(&output.stdout),
        "Rc 10.77.1.3 > 10.77.1.2 QP 0x000011, answers to QP 0x000011 (learned): path MTU 1024, \
         first PSN 0xe2e38a, keeps 16 READs and atomics; 48 requests, 16 answers\n\
         10.77.1.2 R_Key 0x0000027d: 0x55e58cc84000, 3000 bytes, {\"remote write\"}\n"
    );
    let output = run(&["--plan", "--format", "jsonl", &capture("rxe-write")]);
    let lines: Vec<Value> =
        text(&output.stdout).lines().map(|line| serde_json::from_str(line).unwrap()).collect();
    assert_eq!(lines[0]["stream"]["path_mtu"], 1024);
    assert_eq!(lines[1]["region"]["len"], 3000);
}

/// A changed answer, by standard input: status 1, the packet named.
#[test]
fn a_mismatch_is_status_1() {
    let mut packets = load("rxe-write");
    let at = answers(&packets)[0];
    packets[at].change(|builder, _| builder.bth.solicited = true);
    let mut file = b"\xd4\xc3\xb2\xa1\x02\0\x04\0\0\0\0\0\0\0\0\0\xff\xff\0\0\x01\0\0\0".to_vec();
    for packet in &packets {
        let len = u32::try_from(packet.data.len()).unwrap().to_le_bytes();
        for field in [[0; 4], [0; 4], len, len] {
            file.extend_from_slice(&field);
        }
        file.extend_from_slice(&packet.data);
    }
    let replay = |file: &[u8]| {
        let mut child = Command::new(env!("CARGO_BIN_EXE_roce-pcap"))
            .args(["replay", "-"])
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .stderr(Stdio::piped())
            .spawn()
            .unwrap();
        child.stdin.take().unwrap().write_all(file).unwrap();
        child.wait_with_output().unwrap()
    };
    let output = replay(&file);
    assert_eq!(output.status.code(), Some(1));
    let out = text(&output.stdout);
    let expected = "packet 4, request 3: our answer is another: RC_ACKNOWLEDGE PSN 0xe2e38c ACK \
                    msn=1; solicited event: captured true, ours false";
    assert!(out.contains(expected), "{out}");
    // A file that is cut: what there is of it is replayed.
    let output = replay(&file[..file.len() - 10]);
    assert_eq!(output.status.code(), Some(2));
    assert!(text(&output.stdout).contains("48 requests given, 15 answers compared"));
    assert!(text(&output.stderr).contains("offset"));
}

#[test]
fn what_cannot_be_read_is_status_2() {
    let output = run(&["/nonexistent.pcap"]);
    assert_eq!((output.status.code(), text(&output.stdout)), (Some(2), ""));
    let output = run(&[&capture("rxe-write"), "--memory", "0"]);
    assert_eq!(output.status.code(), Some(2));
    assert!(text(&output.stderr).contains("--memory"), "{}", text(&output.stderr));
}
