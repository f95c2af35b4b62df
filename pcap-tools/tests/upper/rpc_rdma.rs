//! RPC-over-RDMA, by RFC 8166, RFC 8797 and RFC 5531.

use crate::support::{From, compare, decode, rep, req, send};

fn be(words: &[u32]) -> Vec<u8> {
    words.iter().flat_map(|word| word.to_be_bytes()).collect()
}

/// An NFSv3 READ whose answer's data goes to a write chunk of 8192 bytes in two segments.
pub(crate) fn call() -> Vec<u8> {
    be(&[
        0xaa01, 1, 32, 0, // RDMA_MSG
        0, // no read list
        1, 2, 0x111, 4096, 0, 0x1000, 0x222, 4096, 0, 0x2000, 0, // one write chunk
        0, // no reply chunk
        0xaa01, 0, 2, 100_003, 3, 6, 0, 0, 0, 0, // call, AUTH_NONE twice
    ])
}

fn conversation() -> Vec<Vec<u8>> {
    vec![
        req(20049, &[0xf6, 0xab, 0x0e, 0x18, 1, 1, 3, 3]),
        rep(&[0xf6, 0xab, 0x0e, 0x18, 1, 0, 0, 3]),
        send(From::Client, 0, &call()),
        // Accepted, AUTH_NONE, success.
        send(From::Server, 0, &be(&[0xaa01, 1, 32, 0, 0, 0, 0, 0xaa01, 1, 0, 0, 0, 0])),
        // A call too long for a SEND: a read chunk at position 0, and a reply chunk.
        send(
            From::Client,
            1,
            &be(&[
                0xaa02, 1, 32, 1, 1, 0, 0x333, 9000, 0, 0x3000, 0, 0, 1, 1, 0x444, 500, 0, 0x4000,
            ]),
        ),
        send(From::Server, 1, &be(&[0xaa02, 1, 32, 4, 2])),
    ]
}

#[test]
fn messages_are_named_on_a_connection_to_port_20049() {
    let decoded = decode(&conversation());
    let says: Vec<&str> = decoded.iter().map(|packet| packet["upper"].as_str().unwrap()).collect();
    assert_eq!(
        says,
        [
            "RPC-over-RDMA connect send_size=4096 receive_size=4096",
            "RPC-over-RDMA connect send_size=1024 receive_size=4096",
            "RPC-over-RDMA RDMA_MSG xid=0x0000aa01 credits=32 write=8192 call NFSv3 READ",
            "RPC-over-RDMA RDMA_MSG xid=0x0000aa01 credits=32 reply",
            "RPC-over-RDMA RDMA_NOMSG xid=0x0000aa02 credits=32 read=9000 reply=500",
            "RPC-over-RDMA RDMA_ERROR xid=0x0000aa02 credits=32 ERR_CHUNK",
        ]
    );
    assert_eq!(decoded[0]["rpcordma.cm.remote_invalidation"], true);
    assert_eq!(decoded[2]["rpc.program"], 100_003);
    assert_eq!(decoded[3]["rpc.replystat"], 0);
}

#[test]
fn tshark_says_the_same() {
    let fields = [
        "rpcordma.xid",
        "rpcordma.version",
        "rpcordma.flow_control",
        "rpcordma.msg_type",
        "rpcordma.writes_count",
        "rpcordma.errcode",
        "rpc.xid",
        "rpc.msgtyp",
        "rpc.program",
        "rpc.programversion",
        "rpc.procedure",
        "rpc.replystat",
    ];
    // It puts messages together before it reads them, which one without a payload ends.
    let packets = conversation();
    let Some(compared) = compare("rpc-rdma", &packets[..3], &fields) else { return };
    assert!(compared >= 9, "{compared} values");
    // Of a reply it shows the call's program as well.
    let of_replies: Vec<&str> = fields[..8].iter().chain(&fields[11..]).copied().collect();
    let Some(compared) = compare("rpc-rdma-reply", &packets[..4], &of_replies) else { return };
    assert!(compared >= 12, "{compared} values");
}

/// A chunk list that never ends, and one that claims more segments than there are.
#[test]
fn broken_lists_end_with_the_payload() {
    let mut endless = be(&[0xaa01, 1, 32, 0]);
    endless.resize(4000, 0);
    for at in (16..4000).step_by(24) {
        endless[at..at + 4].copy_from_slice(&1_u32.to_be_bytes());
    }
    let claims = be(&[0xaa01, 1, 32, 0, 0, 1, 0xffff_ffff, 1, 1, 1, 1]);
    let decoded = decode(&[
        req(20049, &[]),
        rep(&[]),
        send(From::Client, 0, &endless),
        send(From::Client, 1, &claims),
        send(From::Client, 2, &claims[..11]),
    ]);
    for packet in &decoded[2..4] {
        assert!(packet["rpcordma.reads_count"].is_null(), "{packet}");
        assert_eq!(packet["rpcordma.xid"], 0xaa01);
    }
    assert_eq!(decoded[4]["upper"], "RPC-over-RDMA");
}
