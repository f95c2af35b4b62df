//! SMB Direct, by [MS-SMBD] and [MS-SMB2].

use crate::support::{From, compare, decode, rep, req, send};

fn le(words: &[(u32, usize)]) -> Vec<u8> {
    words.iter().flat_map(|(value, len)| value.to_le_bytes()[..*len].to_vec()).collect()
}

pub(crate) fn negotiate_request() -> Vec<u8> {
    le(&[(0x100, 2), (0x100, 2), (0, 2), (10, 2), (1364, 4), (8192, 4), (1_048_576, 4)])
}

/// Data that begins an SMB2 NEGOTIATE.
pub(crate) fn data() -> Vec<u8> {
    let mut smb2 = le(&[(0x424d_53fe, 4), (64, 2), (1, 2), (0, 4), (0, 2), (1, 2), (0, 4), (0, 4)]);
    smb2.extend(7_u64.to_le_bytes());
    smb2.resize(64 + 36, 0);
    smb2[64] = 36;
    let len = u32::try_from(smb2.len()).unwrap();
    let mut out = le(&[(10, 2), (1, 2), (1, 2), (0, 2), (0, 4), (24, 4), (len, 4), (0, 4)]);
    out.extend(smb2);
    out
}

fn conversation() -> Vec<Vec<u8>> {
    let response = le(&[
        (0x100, 2),
        (0x100, 2),
        (0x100, 2),
        (0, 2),
        (10, 2),
        (10, 2),
        (0, 4),
        (1_048_576, 4),
        (1364, 4),
        (8192, 4),
        (1_048_576, 4),
    ]);
    // As many credits as a version: only its place tells it from a Negotiate Request.
    let credits = le(&[(0x100, 2), (0x100, 2), (0, 2), (0, 2), (0, 4), (0, 4), (0, 4)]);
    vec![
        req(445, &[]),
        rep(&[]),
        send(From::Client, 0, &negotiate_request()),
        send(From::Server, 0, &response),
        send(From::Client, 1, &data()),
        send(From::Server, 1, &credits),
    ]
}

#[test]
fn messages_are_named_on_a_connection_to_port_445() {
    let decoded = decode(&conversation());
    let says: Vec<&str> =
        decoded[2..].iter().map(|packet| packet["upper"].as_str().unwrap()).collect();
    assert_eq!(
        says,
        [
            "SMB Direct Negotiate Request credits=10",
            "SMB Direct Negotiate Response status=0x00000000 granted=10",
            "SMB Direct SMB2 NEGOTIATE len=100 remaining=0",
            "SMB Direct credits granted=256",
        ]
    );
    assert_eq!(decoded[4]["smb2.msg_id"], "0x0000000000000007");
}

#[test]
fn tshark_says_the_same() {
    let fields = [
        "smb_direct.version.min",
        "smb_direct.version.max",
        "smb_direct.version.negotiated",
        "smb_direct.credits.requested",
        "smb_direct.credits.granted",
        "smb_direct.status",
        "smb_direct.max_read_write_size",
        "smb_direct.preferred_send_size",
        "smb_direct.max_receive_size",
        "smb_direct.max_fragmented_size",
        "smb_direct.flags",
        "smb_direct.remaining_length",
        "smb_direct.data_offset",
        "smb_direct.data_length",
        "smb2.cmd",
        "smb2.msg_id",
    ];
    // Its heuristic takes the credits alone for no SMB Direct, and calls nothing by its fields.
    let packets = conversation();
    let Some(compared) = compare("smb-direct", &packets[..5], &fields) else { return };
    assert!(compared >= 20, "{compared} values");
}
