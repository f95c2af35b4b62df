//! `--where` on real captures: the packets that tshark's display filter finds, and those that
//! another way of counting finds.

use std::path::{Path, PathBuf};
use std::process::Command;

use roce_pcap::capture::Reader;
use roce_pcap::field::Rows;
use roce_pcap::filter::Filter;

fn capture(name: &str) -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join(format!("../tests/captures/{name}.pcap"))
}

/// The numbers of the packets that an expression means.
fn matching(file: &Path, expression: &str) -> Vec<u64> {
    let filter = Filter::parse(expression).unwrap_or_else(|error| panic!("{error}"));
    let mut rows = Rows::new(filter.needs());
    let mut reader = Reader::open(file).unwrap();
    let mut found = Vec::new();
    while let Some(packet) = reader.next_packet() {
        let packet = packet.unwrap();
        if filter.matches(&rows.row(&packet)) {
            found.push(packet.number);
        }
    }
    found
}

/// How many packets each display filter finds, in one run. None of them may have a comma.
fn tshark(file: &Path, filters: &[&str]) -> Option<Vec<usize>> {
    let mut command = Command::new("tshark");
    command.args(["-n", "-q", "-r"]).arg(file);
    command.args(["-z", &format!("io,stat,0,{}", filters.join(","))]);
    let output = match command.output() {
        Ok(output) => output,
        Err(error) => {
            println!("passed over: tshark does not run here: {error}");
            return None;
        }
    };
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
    let text = String::from_utf8(output.stdout).unwrap();
    // One row: the interval, then frames and bytes of each filter.
    let row = text.lines().find(|line| line.contains("<>")).unwrap();
    let cells: Vec<&str> = row.split('|').map(str::trim).filter(|cell| !cell.is_empty()).collect();
    let frames = cells[1..].iter().step_by(2);
    Some(frames.map(|cell| cell.parse().unwrap()).collect())
}

/// One expression in both languages: every kind of comparison.
#[test]
fn as_many_packets_as_tsharks_display_filter_finds() {
    let pairs = [
        (
            "infiniband.bth.opcode == 0x0a && dqpn == 0x11",
            "infiniband.bth.opcode == 0x0a && infiniband.bth.destqp == 0x11",
        ),
        ("opcode == SEND_ONLY", "infiniband.bth.opcode == 0x04 or infiniband.bth.opcode == 0x64"),
        ("src == 10.77.1.2 and not aeth", "ip.src == 10.77.1.2 and not infiniband.aeth"),
        ("addr == 10.77.1.2/31 && reth", "ip.addr == 10.77.1.2/31 && infiniband.reth"),
        ("frame.number in {7..12}", "frame.number in {7..12}"),
        ("psn >= 0xc00000 || deth", "infiniband.bth.psn >= 0xc00000 || infiniband.deth"),
        (
            "dmalen != 64 and va > 0x5572d8ba6000",
            "infiniband.reth.dmalen != 64 and infiniband.reth.va > 0x5572d8ba6000",
        ),
        (
            "frame.time_relative > 0.1 && !(ackreq)",
            "frame.time_relative > 0.1 && infiniband.bth.a == 0",
        ),
        ("infiniband.cm.req.localqpn < 0x13", "infiniband.cm.req.localqpn < 0x13"),
        (
            "infiniband.mad.attributeid == 0x15 or eth.src == 52:54:00:00:00:02",
            "infiniband.mad.attributeid == 0x15 or eth.src == 52:54:00:00:00:02",
        ),
        ("udp.srcport < 52000 && frame.len > 66", "udp.srcport < 52000 && frame.len > 66"),
    ];
    let theirs: Vec<&str> = pairs.iter().map(|(_, theirs)| *theirs).collect();
    for name in ["rxe-cm", "rxe-write"] {
        let Some(counts) = tshark(&capture(name), &theirs) else { return };
        assert_eq!(counts.len(), pairs.len());
        for ((ours, _), theirs) in pairs.iter().zip(counts) {
            assert_eq!(matching(&capture(name), ours).len(), theirs, "{name}: {ours}");
        }
    }
}

#[test]
fn the_checkers_findings() {
    let file = capture("rxe72-flush-atomicwrite");
    assert_eq!(matching(&file, "verdict == fail and severity == error"), [14, 22, 43]);
    assert_eq!(matching(&file, "rule == ROCE-ICRC"), [14, 22, 43]);
    assert_eq!(matching(&file, "severity >= warning && opcode == FLUSH"), [14, 22, 43]);
    assert_eq!(matching(&file, "icrc == invalid"), [14, 22, 43]);
    assert!(matching(&file, "verdict != fail and not icrc == valid").is_empty());
    assert_eq!(matching(&file, "verdict != fail").len(), 46 - matching(&file, "severity").len());
}

#[test]
fn names_texts_and_words() {
    let file = capture("rxe-cm");
    let all = |expression| matching(&file, expression);
    assert_eq!(all("cm contains \"TCP port 7174\" or cm contains 'UDP port'"), [1, 116]);
    assert_eq!(all("cm.message in {REQ, SIDR_REQ}"), [1, 66, 67, 116]);
    assert_eq!(all("cm.message == rtu"), all("rtu"));
    assert_eq!(all("infiniband.mad.method == Send"), all("mad"));
    assert_eq!(all("service == UD"), all("deth"));
    assert_eq!(all("not (service == RC) and bth"), all("service != RC"));
    assert_eq!(all("syndrome contains ack"), all("ack == ACK"));
    assert!(!all("ack == ACK").is_empty() && all("ack == NAK").is_empty());
    let errors = capture("rxe-errors");
    assert_eq!(matching(&errors, "ack == RNR"), matching(&errors, "syndrome contains \"RNR NAK\""));
    assert_eq!(matching(&errors, "ack == RNR").len(), 3);
    let ecn = capture("rxe-ecn-server");
    assert_eq!(matching(&ecn, "ecn == CE").len(), 19);
    assert_eq!(matching(&ecn, "ip.dsfield.ecn == 3"), matching(&ecn, "ecn == CE"));
}
