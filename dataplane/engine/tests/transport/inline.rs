//! Inline data: copied when it is posted.

use roce_codec::ib::{Opcode, RKey};
use roce_engine::{PostError, SendWr, WcStatus, WrOpcode};

use crate::host::Setup;
use crate::lone::Lone;
use crate::packet::Packet;

const FAR: u64 = 0x9000;
const KEY: RKey = RKey(0x1234_5678);
const WRITE: WrOpcode = WrOpcode::RdmaWrite { va: FAR, rkey: KEY };

/// The caller's bytes are its own again at once; what is sent, and sent again, is what they were.
#[test]
fn bytes_are_copied_when_they_are_posted() {
    use Opcode as O;
    let mut lone =
        Lone::with(Setup { path_mtu: roce_codec::ib::PathMtu::Mtu256, ..Setup::DEFAULT });
    let mut bytes: Vec<u8> = (0..=255).chain(0..44).collect();
    let before = bytes.clone();
    let wr = SendWr::new(1, WRITE, &[]).inline(&bytes);
    lone.host.engine.post_send(lone.host.qp, &wr).unwrap();
    bytes.fill(0xee);
    let wr = SendWr::new(2, WrOpcode::Send, &[]).inline(&bytes[..5]).solicited();
    lone.host.engine.post_send(lone.host.qp, &wr).unwrap();
    bytes.fill(0);
    let word =
        SendWr::new(3, WrOpcode::AtomicWrite { va: FAR, rkey: KEY }, &[]).inline(b"abcdefgh");
    lone.host.engine.post_send(lone.host.qp, &word).unwrap();
    let nothing = SendWr::new(4, WRITE, &[]).inline(&[]);
    lone.host.engine.post_send(lone.host.qp, &nothing).unwrap();
    // No region is needed, and none is read.
    lone.host.memory.gone.set(true);
    let expect = [
        Packet::new(O::RC_RDMA_WRITE_FIRST, 5000).reth(FAR, KEY, 300).payload(&before[..256]),
        Packet::new(O::RC_RDMA_WRITE_LAST, 5001).payload(&before[256..]).ask(),
        Packet::new(O::RC_SEND_ONLY, 5002).payload(&[0xee; 5]).ask().solicit(),
        Packet::atomic_write(5003, FAR, KEY, b"abcdefgh"),
        Packet::new(O::RC_RDMA_WRITE_ONLY, 5004).reth(FAR, KEY, 0).ask(),
    ];
    assert_eq!(lone.sends(), expect);
    lone.receives(Packet::answer(5001, 0x60, 0));
    assert_eq!(lone.sends(), expect[1..]);
}

#[test]
fn what_may_be_inline() {
    let mut lone = Lone::new();
    let qp = lone.host.qp;
    let bytes = [7; 301];
    let mut post = |opcode, len: usize| {
        lone.host.engine.post_send(qp, &SendWr::new(1, opcode, &[]).inline(&bytes[..len]))
    };
    assert_eq!(post(WRITE, 300), Ok(()));
    assert_eq!(post(WRITE, 301), Err(PostError::Inline));
    assert_eq!(post(WrOpcode::RdmaRead { va: FAR, rkey: KEY }, 8), Err(PostError::Inline));
    assert_eq!(post(WrOpcode::FetchAdd { va: FAR, rkey: KEY, add: 1 }, 8), Err(PostError::Inline));
    assert_eq!(post(WrOpcode::AtomicWrite { va: FAR, rkey: KEY }, 7), Err(PostError::Length));
    // Of sixteen slots, 300 bytes have taken five.
    assert_eq!(post(WRITE, 300), Ok(()));
    assert_eq!(post(WRITE, 300), Ok(()));
    assert_eq!(post(WRITE, 61), Err(PostError::QueueFull));
    assert_eq!(post(WRITE, 60), Ok(()));
    assert_eq!(post(WRITE, 1), Err(PostError::QueueFull));
    assert_eq!(post(WRITE, 0), Ok(()));
    lone.sends();
    lone.receives(Packet::ack(5004, 5));
    assert_eq!(lone.host.sent().len(), 5);
    let again = SendWr::new(1, WRITE, &[]).inline(&bytes[..300]);
    assert_eq!(lone.host.engine.post_send(qp, &again), Ok(()), "the slots are back");
}

/// A request that is flushed gives its slots back, too.
#[test]
fn slots_of_flushed_requests_come_back() {
    let mut lone = Lone::new();
    for _ in 0..4 {
        let wr = SendWr::new(1, WRITE, &[]).inline(&[7; 300]).unsignaled();
        for _ in 0..3 {
            lone.host.engine.post_send(lone.host.qp, &wr).unwrap();
        }
        lone.sends();
        lone.receives(Packet::answer(5001, 0x62, 1));
        let ended: Vec<_> = lone.host.sent().iter().map(|wc| wc.status).collect();
        assert_eq!(ended, [WcStatus::RemoteAccess, WcStatus::WrFlush]);
        let setup = lone.setup;
        lone.host.engine.modify_qp(lone.host.qp, &roce_engine::ModifyQp::Reset).unwrap();
        lone.host.init(&setup);
        lone.host.rtr(&setup, crate::lone::PEER_QPN, setup.addresses());
        lone.host.rts(&setup);
    }
}
