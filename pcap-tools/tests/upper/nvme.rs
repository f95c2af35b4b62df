//! NVMe over Fabrics: every capsule of the kernel's host and target.

use roce_pcap::capture::Reader;

use crate::support::{From, compare_file, decode, decode_file, real, rej, rep, req, send};

/// Fields that both have under one name.
const FIELDS: [&str; 34] = [
    "nvme-rdma.cm.req.recfmt",
    "nvme-rdma.cm.req.qid",
    "nvme-rdma.cm.req.hrqsize",
    "nvme-rdma.cm.req.hsqsize",
    "nvme-rdma.cm.req.cntlid",
    "nvme-rdma.cm.rsp.recfmt",
    "nvme-rdma.cm.rsp.crqsize",
    "nvme-rdma.cm.rej.status",
    "nvme.cmd.opc",
    "nvme.cmd.fuse_op",
    "nvme.cmd.psdt",
    "nvme.cmd.cid",
    "nvme.cmd.nsid",
    "nvme.cmd.sgl.type",
    "nvme.cmd.sgl.subtype",
    "nvme.cmd.sgl1.addr",
    "nvme.cmd.sgl1.len",
    "nvme.cmd.sgl1.key",
    "nvme.cmd.slba",
    "nvme.cmd.dword10",
    "nvme.cmd.dword11",
    "nvme.cmd.dword12",
    "nvme.cmd.dword13",
    "nvme.cmd.dword14",
    "nvme.cmd.dword15",
    "nvme.fabrics.cmd.fctype",
    "nvme.fabrics.cmd.connect.qid",
    "nvme.fabrics.cmd.connect.sqsize",
    "nvme.fabrics.cmd.connect.kato",
    "nvme.fabrics.cmd.prop_get_set.offset",
    "nvme.cqe.sqhd",
    "nvme.cqe.cid",
    "nvme.cqe.status.sc",
    "nvme.cqe.status.sct",
];

#[test]
fn every_capsule_of_a_real_capture_is_what_tshark_says() {
    let Some(compared) = compare_file(&real("rxe-nvme"), &FIELDS) else { return };
    assert!(compared > 380, "{compared} values");
}

/// Every SEND of the two connections that begins a message is a capsule, and every answer's
/// command was seen.
#[test]
fn every_send_is_a_capsule() {
    let packets = decode_file(Reader::open(real("rxe-nvme")).unwrap());
    let (mut commands, mut completions) = (0, 0);
    for packet in &packets {
        let opcode = packet["opcode"].as_str().unwrap();
        if packet["infiniband.bth.destqp"] == 1 || !opcode.starts_with("RC_SEND") {
            continue;
        }
        if opcode == "RC_SEND_MIDDLE" || opcode.starts_with("RC_SEND_LAST") {
            assert!(packet["upper"].is_null(), "{packet}");
            continue;
        }
        assert_eq!(packet["upper.protocol"], "NVMe-oF", "{packet}");
        assert_eq!(packet["upper.evidence"], "connection");
        if packet["nvme.cmd.opc"].is_number() {
            commands += 1;
        } else {
            assert!(packet["nvme.cqe.cid"].is_number(), "{packet}");
            assert!(packet["nvme.cqe.command"].is_string(), "{packet}");
            completions += 1;
        }
    }
    // The Asynchronous Event Request is never answered.
    assert_eq!((commands, completions), (commands, commands - 1));
    assert!(commands > 30);
    let names = |name: &str| {
        let says =
            |value: &serde_json::Value| value.as_str().is_some_and(|text| text.contains(name));
        packets.iter().filter(|packet| says(&packet["upper"])).count()
    };
    // Each with its answer: two queues, then what the block layer made of the reads and writes.
    assert_eq!((names(" Connect "), names(" Read "), names(" Write ")), (4, 12, 4));
}

#[test]
fn a_refusal_says_why() {
    let decoded = decode(&[req(4420, &[0; 32]), rej(&[0, 0, 6, 0])]);
    assert_eq!(decoded[1]["nvme-rdma.cm.rej.status"], 6);
    assert_eq!(decoded[1]["upper"], "NVMe-oF reject status=6 (no resources)");
}

/// A response capsule is answered by its command ID, on its own connection, after a wrap too.
#[test]
fn statuses_are_named() {
    let mut command = [0; 64];
    command[0] = 0x02;
    command[1] = 0x40;
    command[2] = 9;
    let mut response = [0; 16];
    response[12] = 9;
    // Status code type 2, code 0x81, do not retry.
    let status: u16 = 0x8000 | 2 << 9 | 0x81 << 1;
    response[14..].copy_from_slice(&status.to_le_bytes());
    let decoded = decode(&[
        req(4420, &[0, 0, 1, 0, 32, 0, 31, 0]),
        rep(&[0, 0, 32, 0]),
        send(From::Client, 0, &command),
        send(From::Server, 0, &response),
        send(From::Server, 1, &response[..15]),
    ]);
    assert_eq!(
        decoded[3]["upper"],
        "NVMe-oF response to Read cid=0x0009 status=unrecovered read error"
    );
    assert_eq!(decoded[3]["nvme.cqe.status.dnr"], true);
    assert_eq!(decoded[4]["upper"], "NVMe-oF", "too short for a capsule");
}
