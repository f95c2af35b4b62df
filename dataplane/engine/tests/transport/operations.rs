//! Every operation, size and path MTU between two engines; losses at each place; PSN wrap.

use roce_codec::ib::PathMtu;
use roce_engine::{Sge, WcOpcode, WcStatus, WrOpcode};

use crate::host::{Host, Setup, VA};
use crate::pair::Pair;

/// Where the requester's memory for a request lies, the responder's, and the receives'.
const LOCAL: usize = 3;
const REMOTE: usize = 128 << 10;
const RECEIVES: usize = 256 << 10;

#[derive(Debug, Clone, Copy, PartialEq)]
enum Kind {
    Send,
    SendImm,
    Write,
    WriteImm,
    Read,
}

const KINDS: [Kind; 5] = [Kind::Send, Kind::SendImm, Kind::Write, Kind::WriteImm, Kind::Read];

impl Kind {
    fn opcode(self, peer: &Host) -> WrOpcode {
        let (va, rkey) = (VA + REMOTE as u64, peer.mr.rkey);
        match self {
            Self::Send => WrOpcode::Send,
            Self::SendImm => WrOpcode::SendWithImm(0x1234_5678),
            Self::Write => WrOpcode::RdmaWrite { va, rkey },
            Self::WriteImm => WrOpcode::RdmaWriteWithImm { va, rkey, imm: 0x1234_5678 },
            Self::Read => WrOpcode::RdmaRead { va, rkey },
        }
    }
}

fn pattern(len: usize, seed: u8) -> Vec<u8> {
    (0..len).map(|at| (at % 251).to_le_bytes()[0].wrapping_mul(31).wrapping_add(seed)).collect()
}

/// Runs one request from side 0 and checks memory and completions on both sides.
fn carry_out(pair: &mut Pair, kind: Kind, len: usize, wr_id: u64) {
    let data = pattern(len, wr_id.to_le_bytes()[0]);
    let size = u32::try_from(len).unwrap();
    let [requester, responder] = &mut pair.hosts;
    // One byte beyond shows what is touched that should not be.
    requester.put(LOCAL, &vec![0xaa; len + 1]);
    responder.put(REMOTE, &vec![0xbb; len + 1]);
    responder.put(RECEIVES, &vec![0xcc; len + 1]);
    match kind {
        Kind::Read => responder.put(REMOTE, &data),
        _ => requester.put(LOCAL, &data),
    }
    if matches!(kind, Kind::Send | Kind::SendImm | Kind::WriteImm) {
        responder.post_recv(wr_id + 1000, RECEIVES, size);
    }
    let opcode = kind.opcode(responder);
    let sge = requester.sge(LOCAL, size);
    requester.post(wr_id, opcode, sge);
    pair.run();

    let [requester, responder] = &mut pair.hosts;
    let sent = requester.sent();
    assert_eq!(sent.len(), 1);
    assert_eq!((sent[0].wr_id, sent[0].status), (wr_id, WcStatus::Success));
    let received = responder.received();
    let took_receive = matches!(kind, Kind::Send | Kind::SendImm | Kind::WriteImm);
    assert_eq!(received.len(), usize::from(took_receive));
    if let Some(wc) = received.first() {
        assert_eq!((wc.wr_id, wc.status), (wr_id + 1000, WcStatus::Success));
        assert_eq!(wc.byte_len, size);
        let imm = (kind != Kind::Send).then_some(0x1234_5678);
        assert_eq!(wc.imm, imm);
    }
    let (place, host, rest) = match kind {
        Kind::Send | Kind::SendImm => (RECEIVES, responder, 0xcc),
        Kind::Write | Kind::WriteImm => (REMOTE, responder, 0xbb),
        Kind::Read => (LOCAL, requester, 0xaa),
    };
    assert_eq!(host.bytes(place, len), data);
    assert_eq!(host.bytes(place + len, 1), [rest], "{kind:?} {len}: a byte too many");
}

fn sizes(mtu: PathMtu) -> [usize; 6] {
    let mtu = usize::try_from(mtu.bytes()).unwrap();
    [0, 1, mtu - 1, mtu, mtu + 1, 64 << 10]
}

#[test]
fn every_operation_size_and_path_mtu() {
    for mtu in PathMtu::ALL {
        for ipv6 in [false, true] {
            let mut pair = Pair::new(Setup { path_mtu: mtu, ipv6, ..Setup::DEFAULT });
            let mut wr_id = 0;
            for kind in KINDS {
                for len in sizes(mtu) {
                    wr_id += 1;
                    carry_out(&mut pair, kind, len, wr_id);
                }
            }
        }
    }
}

#[test]
fn every_operation_across_the_wrap_of_psns() {
    for kind in KINDS {
        for before in 1..5 {
            let sq_psn = 0x100_0000 - before;
            let setup = Setup { path_mtu: PathMtu::Mtu256, sq_psn, ..Setup::DEFAULT };
            let mut pair = Pair::new(setup);
            carry_out(&mut pair, kind, 1000, 1);
            carry_out(&mut pair, kind, 1000, 2);
        }
    }
}

/// Each packet of a message, either way, is lost once.
#[test]
fn every_operation_with_each_packet_lost() {
    for kind in KINDS {
        for side in [0, 1] {
            for lost in 0..5u32 {
                let setup = Setup { path_mtu: PathMtu::Mtu256, ..Setup::DEFAULT };
                let mut pair = Pair::new(setup);
                let psn = setup.sq_psn + lost;
                let sent = match (kind, side) {
                    // A READ is one packet one way and five the other; the others five and one.
                    (Kind::Read, 0) => lost == 0,
                    (Kind::Read, _) | (_, 0) => true,
                    _ => lost == 4,
                };
                if !sent {
                    continue;
                }
                pair.lose(side, psn);
                carry_out(&mut pair, kind, 1200, 1);
            }
        }
    }
}

/// Several packets are lost, some of them again when they are sent again.
#[test]
fn losses_of_what_is_sent_again() {
    let setup = Setup { path_mtu: PathMtu::Mtu256, ..Setup::DEFAULT };
    for kind in KINDS {
        let mut pair = Pair::new(setup);
        let data = if kind == Kind::Read { 1 } else { 0 };
        for psn in [5003, 5003, 5010, 5003, 5011, 5011] {
            pair.lose(data, psn);
        }
        carry_out(&mut pair, kind, 16 * 256, 1);
    }
}

#[test]
fn atomics_are_carried_out_once_under_loss() {
    for side in [0, 1] {
        let mut pair = Pair::new(Setup::DEFAULT);
        pair.lose(side, 5001);
        pair.lose(side, 5002);
        pair.lose(side, 5002);
        let rkey = pair.hosts[1].mr.rkey;
        let va = VA + REMOTE as u64;
        for wr_id in 0..4u64 {
            let offset = usize::try_from(wr_id).unwrap() * 8;
            let sge = pair.hosts[0].sge(offset, 8);
            pair.hosts[0].post(wr_id, WrOpcode::FetchAdd { va, rkey, add: 10 }, sge);
        }
        pair.run();
        let [requester, responder] = &mut pair.hosts;
        assert_eq!(responder.word(REMOTE), 40);
        for (number, wc) in requester.sent().iter().enumerate() {
            assert_eq!((wc.status, wc.opcode), (WcStatus::Success, WcOpcode::FetchAdd));
            assert_eq!(requester.word(number * 8), 10 * u64::try_from(number).unwrap());
        }
    }
}

#[test]
fn compare_swap_between_two_engines() {
    let mut pair = Pair::new(Setup::DEFAULT);
    let rkey = pair.hosts[1].mr.rkey;
    let va = VA + REMOTE as u64;
    pair.hosts[1].put(REMOTE, &5u64.to_ne_bytes());
    for (wr_id, compare, swap) in [(0u64, 4, 6), (1, 5, 7), (2, 7, 8)] {
        let sge = pair.hosts[0].sge(usize::try_from(wr_id).unwrap() * 8, 8);
        pair.hosts[0].post(wr_id, WrOpcode::CompareSwap { va, rkey, compare, swap }, sge);
    }
    pair.run();
    let originals: Vec<_> = (0..3).map(|number| pair.hosts[0].word(number * 8)).collect();
    assert_eq!(originals, [5, 5, 7]);
    assert_eq!(pair.hosts[1].word(REMOTE), 8);
}

/// Both sides send everything at once; messages of one side complete in the order they were
/// posted, and receives are filled in that order.
#[test]
fn both_sides_at_once() {
    let mut pair = Pair::new(Setup::DEFAULT);
    for psn in [5003, 5007, 5040] {
        pair.lose(0, psn);
    }
    for psn in [101, 109] {
        pair.lose(1, psn);
    }
    let rkeys = [pair.hosts[1].mr.rkey, pair.hosts[0].mr.rkey];
    for (side, rkey) in rkeys.into_iter().enumerate() {
        let host = &mut pair.hosts[side];
        for wr_id in 0..20u64 {
            let at = usize::try_from(wr_id).unwrap() * 4096;
            host.post_recv(wr_id, RECEIVES + at, 4096);
            host.put(at, &pattern(3000, wr_id.to_le_bytes()[0]));
            let sge = host.sge(at, 3000);
            let va = VA + REMOTE as u64;
            let opcode = match wr_id % 4 {
                0 | 2 => WrOpcode::Send,
                1 => WrOpcode::RdmaWrite { va, rkey },
                _ => WrOpcode::RdmaRead { va, rkey },
            };
            host.post(wr_id, opcode, sge);
        }
    }
    pair.run();
    for host in &mut pair.hosts {
        let sent: Vec<_> = host.sent().iter().map(|wc| (wc.wr_id, wc.status)).collect();
        let expect: Vec<_> = (0..20).map(|wr_id| (wr_id, WcStatus::Success)).collect();
        assert_eq!(sent, expect);
        let received = host.received();
        assert_eq!(received.len(), 10);
        for (number, wc) in received.iter().enumerate() {
            let wr_id = u64::try_from(number).unwrap();
            assert_eq!((wc.wr_id, wc.byte_len), (wr_id, 3000));
            let message = (number * 2).to_le_bytes()[0];
            assert_eq!(host.bytes(RECEIVES + number * 4096, 3000), pattern(3000, message));
        }
    }
}

/// Receives are posted late: the requester waits, and everything arrives once and in order.
#[test]
fn receives_that_come_late() {
    let mut pair = Pair::new(Setup { timeout: 0, ..Setup::DEFAULT });
    for wr_id in 0..3 {
        let sge = pair.hosts[0].sge(0, 2000);
        pair.hosts[0].post(wr_id, WrOpcode::Send, sge);
    }
    for wr_id in 0..3 {
        pair.run_for(5_000_000);
        assert_eq!(pair.hosts[1].received(), []);
        pair.hosts[1].post_recv(wr_id, RECEIVES, 2000);
        pair.run_for(5_000_000);
        assert_eq!(pair.hosts[1].received().len(), 1);
    }
    assert_eq!(pair.hosts[0].sent().len(), 3);
}

/// A WRITE is acknowledged when its bytes are in memory, and no earlier byte follows a later one
/// over a lossy wire.
#[test]
fn nothing_is_sent_twice_on_a_clean_wire() {
    let mut pair = Pair::new(Setup::DEFAULT);
    let rkey = pair.hosts[1].mr.rkey;
    let len = 64 << 10;
    let sge = Sge { len, ..pair.hosts[0].sge(0, 1) };
    pair.hosts[0].post(1, WrOpcode::RdmaWrite { va: VA, rkey }, sge);
    pair.run();
    let psns: Vec<_> = pair.psns(0).iter().map(|psn| psn.get()).collect();
    let expect: Vec<_> = (5000..5064).collect();
    assert_eq!(psns, expect);
    assert!(pair.now < roce_engine::Instant(1_000_000), "no timer was needed");
}
