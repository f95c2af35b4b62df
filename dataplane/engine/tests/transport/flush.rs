//! FLUSH at both ends (IBTA Vol. 1, Annex A19).

use roce_codec::ib::{Feth, Opcode, RKey};
use roce_engine::{
    Access, HwCounter, Placement, PostError, QpState, Selectivity, SendWr, Sge, WcOpcode, WcStatus,
    WrOpcode,
};

use crate::host::{LEN, Setup, VA};
use crate::lone::Lone;
use crate::packet::Packet;
use crate::pair::Pair;

const GLOBAL: Placement = Placement::GLOBAL_VISIBILITY;
const PERSISTENT: Access = Access::FLUSH_PERSISTENT;

/// A range and the whole region, behind what was written; a duplicate is answered again.
#[test]
fn ranges_and_regions() {
    let mut lone = Lone::new();
    let rkey = lone.rkey();
    let write = Packet::new(Opcode::RC_RDMA_WRITE_ONLY, 100).reth(VA, rkey, 1).payload(&[1]).ask();
    lone.burst(&[write, Packet::flush(101, 0x01, VA + 3, rkey, 5).ask()]);
    assert_eq!(lone.sends(), [Packet::done(101, 2)], "which acknowledges the WRITE, too");
    // Address and length mean nothing for a region; nor do the reserved bits.
    assert_eq!(lone.answers(Packet::flush(102, 0xffff_ff11, 1, rkey, 2)), [Packet::done(102, 3)]);
    // No bytes at all are a range as well.
    assert_eq!(lone.answers(Packet::flush(103, 0x01, VA, rkey, 0)), [Packet::done(103, 4)]);
    let expect = [(3, 5, GLOBAL), (0, LEN as u64, GLOBAL), (0, 0, GLOBAL)];
    assert_eq!(*lone.host.memory.flushed.borrow(), expect);
    assert_eq!(lone.answers(Packet::flush(101, 0x01, VA + 3, rkey, 5)), [Packet::done(101, 4)]);
    assert_eq!(lone.count(HwCounter::RxFlushRequests), 3);
    assert!(lone.expects(104));
}

/// Persistence is a right of its own, of the queue pair and of the region.
#[test]
fn persistence() {
    let all = Access::ALL | PERSISTENT;
    for (feth, placement) in
        [(0x02, Placement::PERSISTENCE), (0x03, Placement::PERSISTENCE | GLOBAL)]
    {
        let mut lone = Lone::with(Setup { access: all, ..Setup::DEFAULT });
        let rkey = lone.host.register(64, all).rkey;
        assert_eq!(lone.answers(Packet::flush(100, feth, VA, rkey, 8)), [Packet::done(100, 1)]);
        assert_eq!(*lone.host.memory.flushed.borrow(), [(0, 8, placement)]);
        let plain = lone.rkey();
        refused(lone, &Packet::flush(101, feth, VA, plain, 8), 0x62, 1);
        refused(Lone::new(), &Packet::flush(100, feth, VA, plain, 8), 0x61, 0);
    }
}

fn refused(mut lone: Lone, packet: &Packet, syndrome: u8, msn: u32) {
    let psn = packet.psn.get();
    let flushed = lone.host.memory.flushed.borrow().len();
    assert_eq!(lone.answers(packet.clone()), [Packet::answer(psn, syndrome, msn)], "{packet:?}");
    assert_eq!(lone.state(), QpState::Error);
    assert_eq!(lone.host.memory.flushed.borrow().len(), flushed);
}

#[test]
fn refusals() {
    let rkey = Lone::new().rkey();
    // No placement, reserved placements, reserved selectivities.
    for feth in [0x00, 0x10, 0x04, 0x05, 0x08, 0x0f, 0x21, 0x31] {
        refused(Lone::new(), &Packet::flush(100, feth, VA, rkey, 8), 0x61, 0);
    }
    refused(Lone::new(), &Packet::flush(100, 0x01, VA, rkey, (1 << 31) + 1), 0x61, 0);
    refused(Lone::new(), &Packet::flush(100, 0x01, VA, rkey, 8).payload(&[1; 8]), 0x61, 0);
    let denied = Access::REMOTE_READ | Access::REMOTE_WRITE | Access::REMOTE_ATOMIC;
    let setup = Setup { access: denied, ..Setup::DEFAULT };
    refused(Lone::with(setup), &Packet::flush(100, 0x01, VA, rkey, 8), 0x61, 0);
    let none = Setup { max_dest_rd_atomic: 0, ..Setup::DEFAULT };
    refused(Lone::with(none), &Packet::flush(100, 0x01, VA, rkey, 8), 0x61, 0);
    let len = u32::try_from(LEN).unwrap();
    let wrong = RKey(rkey.0 ^ 0x100);
    for (va, key, len) in
        [(VA - 1, rkey, 1), (VA, rkey, len + 1), (VA, wrong, 8), (VA, RKey(0), 0), (0, rkey, 0)]
    {
        refused(Lone::new(), &Packet::flush(100, 0x01, va, key, len), 0x62, 0);
    }
    refused(Lone::new(), &Packet::flush(100, 0x11, VA, wrong, 8), 0x62, 0);
    for feth in [0x01, 0x11] {
        let mut lone = Lone::new();
        let rkey = lone.host.register(64, denied).rkey;
        refused(lone, &Packet::flush(100, feth, VA, rkey, 8), 0x62, 0);
    }
}

/// Memory that cannot do it.
#[test]
fn a_flush_that_fails_is_an_operational_error() {
    let lone = Lone::new();
    lone.host.memory.gone.set(true);
    let rkey = lone.rkey();
    refused(lone, &Packet::flush(100, 0x01, VA, rkey, 8), 0x63, 0);
}

#[test]
fn the_requesters_packets() {
    let both = GLOBAL | Placement::PERSISTENCE;
    let range = Selectivity::Range { va: 0x9000, len: 3000 };
    for (selectivity, placement, va, len, feth) in [
        (range, GLOBAL, 0x9000, 3000, 0x01),
        (range, Placement::PERSISTENCE, 0x9000, 3000, 0x02),
        (Selectivity::Region, both, 0, 0, 0x13),
    ] {
        let mut lone = Lone::new();
        let opcode = WrOpcode::Flush { rkey: RKey(7), selectivity, placement };
        lone.host.post(1, opcode, Sge::default());
        let expect = Packet::flush(5000, feth, va, RKey(7), len);
        assert_eq!(expect.ext.feth, Some(Feth(feth)));
        assert_eq!(lone.sends(), [expect]);
        lone.receives(Packet::done(5000, 1));
        let wc = lone.host.sent()[0];
        assert_eq!((wc.status, wc.opcode, wc.byte_len), (WcStatus::Success, WcOpcode::Flush, 0));
    }
    let mut lone = Lone::new();
    let selectivity = Selectivity::Range { va: 0, len: (1 << 31) + 1 };
    let sges = [(selectivity, lone.host.sge(0, 0)), (range, lone.host.sge(0, 1))];
    for (selectivity, sge) in sges {
        let opcode = WrOpcode::Flush { rkey: RKey(7), selectivity, placement: GLOBAL };
        let sges = [sge];
        let wr = SendWr::new(1, opcode, &sges);
        assert_eq!(lone.host.engine.post_send(lone.host.qp, &wr), Err(PostError::Length));
    }
}

/// WRITE, FLUSH, WRITE between two engines, with losses: each flush happens once, in its turn.
#[test]
fn flushes_under_loss() {
    for side in [0, 1] {
        let mut pair = Pair::new(Setup::DEFAULT);
        for psn in [5001, 5001, 5003] {
            pair.lose(side, psn);
        }
        let rkey = pair.hosts[1].mr.rkey;
        for wr_id in 0..4u32 {
            let sge = pair.hosts[0].sge(0, 100);
            let va = VA + u64::from(wr_id);
            let selectivity = Selectivity::Range { va, len: 2000 };
            let (opcode, sge) = if wr_id % 2 == 0 {
                (WrOpcode::RdmaWrite { va, rkey }, sge)
            } else {
                (WrOpcode::Flush { rkey, selectivity, placement: GLOBAL }, Sge::default())
            };
            pair.hosts[0].post(wr_id.into(), opcode, sge);
        }
        pair.run();
        assert_eq!(*pair.hosts[1].memory.flushed.borrow(), [(1, 2000, GLOBAL), (3, 2000, GLOBAL)]);
        let sent = pair.hosts[0].sent();
        assert!(sent.len() == 4 && sent.iter().all(|wc| wc.status == WcStatus::Success));
    }
}
