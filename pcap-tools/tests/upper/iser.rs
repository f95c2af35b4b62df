//! iSER, by RFC 7145 and RFC 7143.

use crate::support::{From, compare, decode, rep, req, send};

/// An iSER header and an iSCSI basic header segment, with data behind them.
pub(crate) fn pdu(
    flags: u8,
    write: (u32, u64),
    read: (u32, u64),
    bhs: [u8; 48],
    data: &[u8],
) -> Vec<u8> {
    let mut out = vec![0x10 | flags, 0, 0, 0];
    for (stag, offset) in [write, read] {
        out.extend(stag.to_be_bytes());
        out.extend(offset.to_be_bytes());
    }
    out.extend(bhs);
    out.extend(data);
    out
}

pub(crate) fn login(text: &[u8]) -> Vec<u8> {
    let mut bhs = [0; 48];
    bhs[0] = 0x43;
    bhs[1] = 0x87;
    bhs[7] = text.len().to_le_bytes()[0];
    bhs[19] = 5;
    let mut data = text.to_vec();
    data.resize(text.len().next_multiple_of(4), 0);
    pdu(0, (0, 0), (0, 0), bhs, &data)
}

fn conversation() -> Vec<Vec<u8>> {
    // A READ(10) of 4096 bytes that the target WRITEs to the initiator.
    let mut command = [0; 48];
    command[0] = 0x01;
    command[1] = 0xc1;
    command[16..20].copy_from_slice(&0x1122_3344_u32.to_be_bytes());
    command[20..24].copy_from_slice(&4096_u32.to_be_bytes());
    command[32] = 0x28;
    let mut response = [0; 48];
    response[0] = 0x21;
    response[1] = 0x80;
    response[3] = 0x02;
    response[16..20].copy_from_slice(&0x1122_3344_u32.to_be_bytes());
    let mut login_response = [0; 48];
    login_response[0] = 0x23;
    login_response[1] = 0x87;
    login_response[19] = 5;
    vec![
        req(3260, &[]),
        rep(&[]),
        send(From::Client, 0, &login(b"InitiatorName=iqn.2026-01.example:a\0SessionType=Normal\0")),
        send(From::Server, 0, &pdu(0, (0, 0), (0, 0), login_response, &[])),
        send(From::Client, 1, &pdu(8, (0xabcd, 0x7f00_0000_1000), (0, 0), command, &[])),
        send(From::Server, 1, &pdu(0, (0, 0), (0, 0), response, &[])),
    ]
}

#[test]
fn pdus_are_named_on_a_connection_to_port_3260() {
    let decoded = decode(&conversation());
    let says: Vec<&str> =
        decoded[2..].iter().map(|packet| packet["upper"].as_str().unwrap()).collect();
    assert_eq!(
        says,
        [
            "iSER Login Request itt=0x00000005",
            "iSER Login Response itt=0x00000005",
            "iSER SCSI Command itt=0x11223344 write_stag=0x0000abcd",
            "iSER SCSI Response itt=0x11223344",
        ]
    );
    assert_eq!(decoded[4]["iser.write_base_offset"], "0x00007f0000001000");
    assert!(decoded[4]["iser.read_stag"].is_null());
    assert_eq!(decoded[4]["scsi.opcode"], 0x28);
    assert_eq!(decoded[5]["iscsi.scsiresponse.status"], 2);
}

#[test]
fn tshark_says_the_same() {
    let fields = [
        "iser.flags.opcode",
        "iser.write_stag",
        "iser.write_base_offset",
        "iser.read_stag",
        "iscsi.opcode",
        "iscsi.I",
        "iscsi.datasegmentlength",
        "iscsi.totalahslength",
        "iscsi.initiatortasktag",
        "iscsi.scsicommand.expecteddatatransferlength",
        "iscsi.scsiresponse.status",
        "iscsi.scsiresponse.response",
    ];
    let Some(compared) = compare("iser", &conversation(), &fields) else { return };
    assert!(compared >= 20, "{compared} values");
}

#[test]
fn hello_and_its_reply() {
    let decoded = decode(&[
        req(3260, &[]),
        rep(&[]),
        send(From::Client, 0, &[0x20, 0x11, 0, 16]),
        send(From::Server, 0, &[0x31, 0x11, 0, 4]),
    ]);
    assert_eq!(decoded[2]["upper"], "iSER Hello ird=16");
    assert_eq!(decoded[3]["upper"], "iSER HelloReply, refused");
    assert_eq!(decoded[3]["iser.ord"], 4);
}
