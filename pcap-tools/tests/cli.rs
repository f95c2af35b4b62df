//! The command line: output, exit status, and what it says when something is wrong.

use std::io::Write;
use std::path::Path;
use std::process::{Command, Output, Stdio};

use serde_json::Value;

fn capture(name: &str) -> String {
    format!("{}/../tests/captures/{name}.pcap", env!("CARGO_MANIFEST_DIR"))
}

fn run(args: &[&str]) -> Output {
    Command::new(env!("CARGO_BIN_EXE_roce-pcap")).args(args).output().unwrap()
}

fn run_with_input(args: &[&str], input: &[u8]) -> Output {
    let mut child = Command::new(env!("CARGO_BIN_EXE_roce-pcap"))
        .args(args)
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .stderr(Stdio::piped())
        .spawn()
        .unwrap();
    child.stdin.take().unwrap().write_all(input).unwrap();
    child.wait_with_output().unwrap()
}

fn status(output: &Output) -> i32 {
    output.status.code().unwrap()
}

fn stdout(output: &Output) -> String {
    String::from_utf8(output.stdout.clone()).unwrap()
}

fn stderr(output: &Output) -> String {
    String::from_utf8(output.stderr.clone()).unwrap()
}

#[test]
fn a_clean_capture_is_status_0() {
    let output = run(&["check", &capture("rxe-write")]);
    assert_eq!((status(&output), stderr(&output)), (0, String::new()));
    assert!(stdout(&output).contains("ICRC: 64 valid, 0 invalid, 0 not checkable"));
}

#[test]
fn violations_are_status_1_and_json_lines() {
    let output = run(&["check", "--format", "jsonl", &capture("rxe72-flush-atomicwrite")]);
    assert_eq!(status(&output), 1);
    let lines: Vec<Value> =
        stdout(&output).lines().map(|line| serde_json::from_str(line).unwrap()).collect();
    let (summary, findings) = lines.split_last().unwrap();
    let refused = |finding: &&Value| finding["rule"] == "RC-REFUSED";
    assert_eq!(findings.iter().filter(refused).count(), 3);
    let failures: Vec<_> = findings.iter().filter(|finding| !refused(finding)).collect();
    assert_eq!(failures.len(), 3);
    for finding in failures {
        let keys: Vec<_> = finding.as_object().unwrap().keys().map(String::as_str).collect();
        let expected = [
            "clause", "expected", "flow", "found", "message", "packet", "rule", "severity", "time",
            "verdict",
        ];
        assert_eq!(keys, expected);
        assert_eq!(finding["rule"], "ROCE-ICRC");
        assert_eq!(finding["verdict"], "fail");
    }
    let summary = summary["summary"].as_object().unwrap();
    let number = |key: &str| summary[key].as_u64().unwrap();
    assert_eq!(summary.len(), 9);
    assert_eq!((number("packets"), number("roce_packets")), (46, 46));
    assert_eq!((number("icrc_valid"), number("icrc_invalid")), (43, 3));
    assert_eq!((number("icrc_uncheckable"), number("flows")), (0, 14));
    assert_eq!((number("fail"), number("unknown")), (3, 3));
    assert!(number("pass") > 400);
}

#[test]
fn several_files_are_told_apart_and_summed() {
    let (clean, faulty) = (capture("rxe-write"), capture("rxe72-flush-atomicwrite"));
    let output = run(&["check", &clean, &faulty]);
    assert_eq!(status(&output), 1);
    let text = stdout(&output);
    assert!(text.contains("110 packets, 110 RoCE"), "{text}");
    assert_eq!(text.lines().filter(|line| line.starts_with(&faulty)).count(), 3);
}

#[test]
fn unusable_input_is_status_2_and_says_what_to_do() {
    let output = run(&["check", "/nonexistent.pcap"]);
    assert_eq!(status(&output), 2);
    assert!(stderr(&output).contains("/nonexistent.pcap"), "{}", stderr(&output));

    let output = run_with_input(&["check", "-"], b"\x1f\x8b\x08 compressed");
    assert_eq!(status(&output), 2);
    assert!(stderr(&output).contains("gzip data at offset"), "{}", stderr(&output));

    let whole = std::fs::read(capture("rxe-cm")).unwrap();
    let output = run_with_input(&["check", "-"], &whole[..5000]);
    assert_eq!(status(&output), 2);
    assert!(stderr(&output).contains("cut short: the record at offset 4936"));
    assert!(stdout(&output).contains("ICRC: 44 valid"), "what was whole is judged");

    assert_eq!(status(&run(&["check"])), 2, "no file");
    assert_eq!(status(&run(&["check", "--format", "xml", "-"])), 2);
    assert_eq!(status(&run(&["explain", "RC-NO-SUCH-RULE"])), 2);
}

#[test]
fn fail_on_moves_the_threshold() {
    // A capture that breaks rules of severity info only: pad bytes that are not zero.
    let mut bytes = std::fs::read(capture("rxe-send")).unwrap();
    let frame = find_padded(&mut bytes);
    assert!(frame > 0);
    assert_eq!(status(&run_with_input(&["check", "-"], &bytes)), 0);
    assert_eq!(status(&run_with_input(&["check", "--fail-on", "warning", "-"], &bytes)), 0);
    assert_eq!(status(&run_with_input(&["check", "--fail-on", "info", "-"], &bytes)), 1);
}

/// Sets the pad bytes of the first packet that has some, and its ICRC; says which packet.
fn find_padded(file: &mut [u8]) -> usize {
    use roce_codec::{Crc, Frame, Start};
    let (mut at, mut number) = (24, 0);
    while at + 16 <= file.len() {
        number += 1;
        let len = u32::from_le_bytes(*file[at + 8..].first_chunk().unwrap());
        let len = usize::try_from(len).unwrap();
        let data = at + 16..at + 16 + len;
        let frame = Frame::parse([&file[data.clone()], &[]], Start::Ethernet).unwrap();
        if !frame.pad().is_empty() {
            let mut parts = frame.to_builder();
            let payload = frame.payload()[0].to_vec();
            parts.pad = [1; 3];
            parts.emit::<Crc>([&payload, &[]], &mut file[data]).unwrap();
            return number;
        }
        at += 16 + len;
    }
    0
}

#[test]
fn decode_shows_packets() {
    let output = run(&["decode", &capture("rxe-cm")]);
    let text = stdout(&output);
    assert_eq!(status(&output), 0);
    assert_eq!(text.lines().count(), 128);
    let sixth = text.lines().nth(5).unwrap();
    assert_eq!(
        sixth,
        "    6 0.085877000 10.77.1.2 > 10.77.1.3 RC_RDMA_READ_REQUEST QP 0x000011 PSN 0xc46a6e A \
         va=0x5572d8ba6370 r_key=0x000005bb dmalen=64 ICRC valid"
    );
    let text = stdout(&run(&["decode", "-V", &capture("rxe-cm")]));
    assert!(text.contains("    DMA length: 64\n") && text.contains("ICRC, valid"));
    let flush = stdout(&run(&["decode", &capture("rxe72-flush-atomicwrite")]));
    assert!(flush.contains("RC_FLUSH"));
    assert!(flush.contains("ICRC dd758200 invalid, e66feb14 expected: after BTH"));
    let said = "it covers the same bytes once more, unmasked, as Linux rxe does with a FLUSH";
    assert_eq!(flush.matches(said).count(), 3);
    let file = capture("rxe72-flush-atomicwrite");
    for args in [&["decode", "-V", &file][..], &["decode", "--format", "jsonl", &file]] {
        assert_eq!(stdout(&run(args)).matches(said).count(), 3, "{args:?}");
    }
}

/// The numbers are those that tshark shows of the same packets; the REJ is made of a DREP.
#[test]
fn decode_names_the_connection_managers_messages() {
    let text = stdout(&run(&["decode", &capture("rxe-cm")]));
    let lines: Vec<&str> = text.lines().filter(|line| line.contains(" CM ")).collect();
    assert_eq!(lines.len(), 17);
    assert!(
        lines[0].contains(
            " UD_SEND_ONLY QP 0x000001 PSN 0x000000 A q_key=0x80010000 srcqp=0x000001 len=256 \
         CM REQ local=0x9d4a8caf qpn=0x000011 starting_psn=0xc46a6e service=TCP port 7174 ICRC"
        ),
        "{}",
        lines[0]
    );
    assert!(lines[1].contains(
        " CM REP local=0xf6592e84 remote=0x9d4a8caf qpn=0x000011 starting_psn=0x4ecc75 ICRC valid"
    ));
    assert!(lines[2].contains(" CM RTU local=0x9d4a8caf remote=0xf6592e84 ICRC valid"));
    assert!(
        lines[3].contains(" CM DREQ local=0x9d4a8caf remote=0xf6592e84 remote_qpn=0x000011 ICRC")
    );
    assert!(lines[4].contains(" CM DREP local=0xf6592e84 remote=0x9d4a8caf ICRC valid"));
    assert!(lines[15].contains(" CM SIDR_REQ request="), "{}", lines[15]);
    assert!(lines[15].contains(" service=UDP port 7174 ICRC valid"));
    assert!(
        lines[16].contains(" status=0 (valid) qpn=") && lines[16].contains(" q_key=0x01234567")
    );

    let mut file = std::fs::read(capture("rxe-cm")).unwrap();
    // Past the file's header and the packet's: Ethernet, IPv4, UDP, BTH, DETH, the MAD.
    let mad = 24 + 16 + 62;
    file[mad + 17] = 0x12;
    file[mad + 24 + 10..mad + 24 + 12].copy_from_slice(&[0, 28]);
    let path = Path::new(env!("CARGO_TARGET_TMPDIR")).join("rej.pcap");
    std::fs::write(&path, &file).unwrap();
    let text = stdout(&run(&["decode", path.to_str().unwrap()]));
    assert!(text.lines().next().unwrap().contains(" reason=28 (consumer reject) ICRC "));
    file[mad + 1] = 4;
    std::fs::write(&path, &file).unwrap();
    let text = stdout(&run(&["decode", path.to_str().unwrap()]));
    assert!(text.lines().next().unwrap().contains(" MAD Perf Send attribute 0x0012 ICRC "));

    let tree = stdout(&run(&["decode", "-V", &capture("rxe-cm")]));
    assert_eq!(
        tree.matches("Management datagram\n    Base version: 1\n    Class: ComMgt (0x07)\n")
            .count(),
        17
    );
    assert!(tree.contains("    Transaction ID: 0x00000002af8c4a9d\n"));
}

#[test]
fn explain_prints_pages() {
    let list = stdout(&run(&["explain"]));
    assert!(list.lines().count() > 25);
    let page = stdout(&run(&["explain", "rc-psn-gap"]));
    assert!(page.starts_with("RC-PSN-GAP: PSNs follow each other\nseverity warning, IBTA 9.7.1\n"));
    assert!(page.lines().all(|line| line.len() <= 80));
}

#[test]
fn a_closed_pipe_ends_quietly() {
    let mut child = Command::new(env!("CARGO_BIN_EXE_roce-pcap"))
        .args(["decode", "-V", &capture("rxe-lossy-client")])
        .stdout(Stdio::piped())
        .stderr(Stdio::piped())
        .spawn()
        .unwrap();
    drop(child.stdout.take());
    let output = child.wait_with_output().unwrap();
    assert_eq!((status(&output), stderr(&output)), (0, String::new()));
}

#[test]
fn a_profile_explains_what_a_device_is_known_for() {
    let flush = capture("rxe72-flush-atomicwrite");
    let output = run(&["check", "--profile", "rxe", "--unknown", &flush]);
    assert_eq!((status(&output), stderr(&output)), (0, String::new()));
    let text = stdout(&output);
    assert!(text.contains("ROCE-ICRC unknown") && text.contains("a known mistake of rxe"));
    assert!(text.contains("ICRC: 43 valid, 3 invalid, 0 not checkable"), "{text}");
    assert_eq!(status(&run(&["check", "--profile", "strict", &flush])), 1);
}

#[test]
fn a_profile_that_cannot_be_used_is_status_2() {
    let file = std::env::temp_dir().join(format!("profile-{}.toml", std::process::id()));
    std::fs::write(&file, "# Mine.\nsends_cnp = true\n").unwrap();
    let mine = file.to_str().unwrap();
    let output = run(&["check", "--profile", mine, &capture("rxe-write")]);
    std::fs::remove_file(&file).unwrap();
    assert_eq!(status(&output), 2);
    assert!(stderr(&output).contains("line 2: unknown field `sends_cnp`"), "{}", stderr(&output));
    let output = run(&["check", "--profile", "cx9", &capture("rxe-write")]);
    assert_eq!(status(&output), 2);
    assert!(stderr(&output).contains("irdma, mlx5, rockhopper, rxe, strict"));
    let help = stdout(&run(&["check", "--help"]));
    assert!(help.contains("irdma, mlx5, rockhopper, rxe, strict"));
}

#[test]
fn a_second_tap_explains_gaps() {
    let (server, client) = (capture("rxe-lossy-server"), capture("rxe-lossy-client"));
    let output = run(&["check", "--unknown", &server, "--second-tap", &client]);
    assert_eq!((status(&output), stderr(&output)), (0, String::new()));
    let text = stdout(&output);
    let gaps: Vec<_> = text.lines().filter(|line| line.contains("RC-PSN-GAP")).collect();
    assert_eq!(gaps.len(), 24, "none is left for the summary");
    assert!(gaps.iter().all(|gap| gap.contains("RC-PSN-GAP pass")), "{text}");
    assert!(text.ends_with(
        "second tap: 2151 packets at both; 24 gaps explained, 25 packets missing in gaps were lost \
         between the taps or by the first\n"
    ));

    let summary = |args: &[&str]| {
        let text = stdout(&run(args));
        let last: Value = serde_json::from_str(text.lines().last().unwrap()).unwrap();
        let number = |key: &str| last["summary"][key].as_u64().unwrap();
        (number("pass"), number("unknown"))
    };
    let (pass, unknown) = summary(&["check", "--format", "jsonl", &server]);
    let settled = summary(&["check", "--format", "jsonl", &server, "--second-tap", &client]);
    assert_eq!(settled, (pass + 24, unknown - 24));
}

#[test]
fn taps_that_do_not_go_together_are_status_2() {
    let (server, other) = (capture("rxe-lossy-server"), capture("rxe-cm"));
    let output = run(&["check", &server, "--second-tap", &other]);
    assert_eq!(status(&output), 2);
    assert!(stderr(&output).contains("share no RoCEv2 packet"), "{}", stderr(&output));
    assert!(stdout(&output).contains("24 unknown"), "what one tap tells is told");

    let output = run(&["check", &server, &other, "--second-tap", &other]);
    assert_eq!(status(&output), 2);
    assert!(stderr(&output).contains("one capture besides"), "{}", stderr(&output));
    let output = run_with_input(&["check", "-", "--second-tap", &other], b"");
    assert_eq!(status(&output), 2);
    let output = run(&["check", &server, "--second-tap", "/nonexistent.pcap"]);
    assert_eq!(status(&output), 2);
    assert!(stderr(&output).contains("/nonexistent.pcap"), "{}", stderr(&output));
    assert_eq!(status(&run(&["check", "--follow", &server, "--second-tap", &other])), 2);
}
