//! The fence (IBTA 10.8.3.3): a request that waits for the READs and atomics before it.

use roce_codec::ib::{Opcode, RKey};
use roce_engine::{Placement, Selectivity, SendWr, WrOpcode};

use crate::host::Setup;
use crate::lone::Lone;
use crate::packet::Packet;

const FAR: u64 = 0x9000;
const KEY: RKey = RKey(0x1234_5678);
const WRITE: WrOpcode = WrOpcode::RdmaWrite { va: FAR, rkey: KEY };

fn post(lone: &mut Lone, wr_id: u64, opcode: WrOpcode, len: u32, fence: bool) {
    let sges = [lone.host.sge(0, len)];
    let wr = SendWr { fence, ..SendWr::new(wr_id, opcode, &sges) };
    lone.host.engine.post_send(lone.host.qp, &wr).unwrap();
}

fn psns(packets: &[Packet]) -> Vec<u32> {
    packets.iter().map(|packet| packet.psn.get()).collect()
}

/// It waits for whatever has an answer of its own, and only for that.
#[test]
fn a_fenced_request_waits_for_answers() {
    let (va, rkey) = (FAR, KEY);
    let flush = WrOpcode::Flush {
        rkey,
        selectivity: Selectivity::Region,
        placement: Placement::GLOBAL_VISIBILITY,
    };
    let read = Packet::response(Opcode::RC_RDMA_READ_RESPONSE_ONLY, 5001, 2, &[0; 8]);
    for (opcode, len, answer) in [
        (WrOpcode::RdmaRead { va, rkey }, 8, read),
        (WrOpcode::FetchAdd { va, rkey, add: 1 }, 8, Packet::atomic_answer(5001, 2, 0)),
        (
            WrOpcode::CompareSwap { va, rkey, compare: 0, swap: 0 },
            8,
            Packet::atomic_answer(5001, 2, 0),
        ),
        (WrOpcode::AtomicWrite { va, rkey }, 8, Packet::done(5001, 2)),
        (flush, 0, Packet::done(5001, 2)),
    ] {
        let mut lone = Lone::new();
        post(&mut lone, 1, WRITE, 1, false);
        post(&mut lone, 2, opcode, len, false);
        post(&mut lone, 3, WRITE, 1, false);
        post(&mut lone, 4, WRITE, 1, true);
        post(&mut lone, 5, WRITE, 1, false);
        assert_eq!(psns(&lone.sends()), [5000, 5001, 5002], "and nothing behind the fence");
        lone.receives(Packet::ack(5000, 1));
        assert_eq!(lone.sends(), []);
        lone.receives(answer);
        // The WRITE before it is not acknowledged; a fence does not wait for that.
        assert_eq!(psns(&lone.sends()), [5003, 5004], "{opcode:?}");
    }
}

/// Without anything to wait for, it does not wait.
#[test]
fn a_fence_alone_is_none() {
    let mut lone = Lone::new();
    post(&mut lone, 1, WRITE, 1, true);
    post(&mut lone, 2, WRITE, 1, true);
    assert_eq!(psns(&lone.sends()), [5000, 5001]);
}

/// A READ that is fenced itself waits, even where two may be outstanding.
#[test]
fn a_fenced_read_waits_its_turn() {
    let mut lone = Lone::with(Setup { max_rd_atomic: 2, ..Setup::DEFAULT });
    let read = WrOpcode::RdmaRead { va: FAR, rkey: KEY };
    for wr_id in 0..3 {
        post(&mut lone, wr_id, read, 8, wr_id == 1);
    }
    assert_eq!(psns(&lone.sends()), [5000]);
    lone.receives(Packet::response(Opcode::RC_RDMA_READ_RESPONSE_ONLY, 5000, 1, &[0; 8]));
    assert_eq!(psns(&lone.sends()), [5001, 5002]);
}

/// Sent again after a loss, the READ is waited for again.
#[test]
fn the_fence_holds_over_a_retry() {
    let mut lone = Lone::new();
    let read = WrOpcode::RdmaRead { va: FAR, rkey: KEY };
    post(&mut lone, 1, read, 8, false);
    post(&mut lone, 2, WRITE, 1, true);
    assert_eq!(psns(&lone.sends()), [5000]);
    lone.wait(100_000_000);
    assert_eq!(psns(&lone.sends()), [5000]);
    lone.receives(Packet::response(Opcode::RC_RDMA_READ_RESPONSE_ONLY, 5000, 1, &[0; 8]));
    assert_eq!(psns(&lone.sends()), [5001]);
}
