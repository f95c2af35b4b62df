//! What proves a protocol where no CM exchange was captured, and what does not.

use roce_pcap::capture::Reader;

use crate::support::{From, decode, decode_file, mad, real, rep, req, send};
use crate::{iser, rpc_rdma, smb_direct};

fn connect() -> Vec<u8> {
    let mut out = vec![0; 64];
    out[0] = 0x7f;
    out[1] = 0x40;
    out[4] = 0x01;
    // 1024 bytes under a key.
    out[32..35].copy_from_slice(&[0, 4, 0]);
    out[39] = 0x40;
    out
}

#[test]
fn payloads_that_can_be_nothing_else() {
    for (protocol, payload) in [
        ("NVMe-oF", connect()),
        ("iSER", iser::login(b"InitiatorName=iqn.2026-01.example:a\0")),
        ("SMB Direct", smb_direct::negotiate_request()),
        ("SMB Direct", smb_direct::data()),
        ("RPC-over-RDMA", rpc_rdma::call()),
    ] {
        let zeroes = [0; 64];
        let decoded = decode(&[
            send(From::Client, 9, &zeroes),
            send(From::Client, 10, &payload),
            send(From::Client, 11, &zeroes),
            send(From::Server, 10, &zeroes),
        ]);
        assert!(decoded[0]["upper"].is_null(), "nothing is known yet");
        assert_eq!(decoded[1]["upper.protocol"], protocol);
        assert_eq!(decoded[1]["upper.evidence"], "payload");
        assert_eq!(decoded[2]["upper.protocol"], protocol, "the same flow");
        assert!(decoded[3]["upper"].is_null(), "which queue pair answers is not known");
    }
}

/// One bit off, or one byte missing, and it could be anything.
#[test]
fn payloads_that_could_be_something_else() {
    for payload in [
        connect(),
        iser::login(b"InitiatorName=iqn.2026-01.example:a\0"),
        smb_direct::negotiate_request(),
        rpc_rdma::call(),
    ] {
        for at in [0, 5] {
            let mut changed = payload.clone();
            changed[at] ^= 0x80;
            assert!(decode(&[send(From::Client, 0, &changed)])[0]["upper"].is_null(), "byte {at}");
        }
        let cut = &payload[..payload.len() / 2];
        assert!(decode(&[send(From::Client, 0, cut)])[0]["upper"].is_null());
        // A damaged packet proves nothing either.
        let mut damaged = send(From::Client, 0, &payload);
        let end = damaged.len();
        damaged[end - 1] ^= 1;
        assert!(decode(&[damaged])[0]["upper"].is_null());
    }
}

/// perftest, pingpong, rping and the rest: no SEND of theirs is taken for anything.
#[test]
fn other_sends_stay_payload() {
    for name in ["rxe-send", "rxe-pingpong", "rxe-cm", "rxe-errors", "rxe-lossy-client"] {
        for packet in decode_file(Reader::open(real(name)).unwrap()) {
            assert!(packet["upper"].is_null(), "{name} {packet}");
        }
    }
}

#[test]
fn a_port_of_no_protocol_proves_nothing_either_way() {
    let zeroes = [0; 64];
    let decoded = decode(&[
        req(4000, &[]),
        rep(&[]),
        send(From::Client, 0, &zeroes),
        send(From::Client, 1, &connect()),
        send(From::Client, 2, &zeroes),
    ]);
    assert!(decoded[2]["upper"].is_null());
    assert_eq!(decoded[3]["upper.evidence"], "payload");
    assert_eq!(decoded[4]["upper.protocol"], "NVMe-oF");
}

/// Fields of messages that Wireshark does not take apart.
#[test]
fn rarer_messages_of_the_connection_manager_are_taken_apart() {
    use roce_codec::cm::{
        ApStatus, Apr, CommunicationId, Lap, Message, Mra, MraedMessage, Timeout,
    };
    use roce_codec::ib::Qpn;
    let ids = (CommunicationId(7), CommunicationId(8));
    let mra = Message::Mra(Mra {
        local_comm_id: ids.0,
        remote_comm_id: ids.1,
        message: MraedMessage::Rep,
        service_timeout: Timeout::new(20),
        ..Mra::default()
    });
    let lap = Message::Lap(Lap { remote_qpn: Qpn::new(0x99), ..Lap::default() });
    let apr = Message::Apr(Apr { status: ApStatus::SL_REJECTED, ..Apr::default() });
    let decoded = decode(&[&mra, &lap, &apr].map(|message| mad(From::Server, message)));
    assert_eq!(decoded[0]["infiniband.cm.mra.msgmraed"], 1);
    assert_eq!(decoded[0]["infiniband.cm.mra.remotecommid"], 8);
    assert_eq!(decoded[0]["infiniband.cm.mra.servicetimeout"], 20);
    assert_eq!(decoded[1]["infiniband.cm.lap.remoteqpneecn"], 0x99);
    assert_eq!(decoded[2]["infiniband.cm.apr.status"], 13);
}
