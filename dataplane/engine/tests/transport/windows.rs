//! Memory windows (IBTA 10.6.7), types 1 and 2B, and the requests that no packet carries.

use roce_codec::ib::{Opcode, RKey, Service};
use roce_engine::{
    Access, MemoryError, ModifyQp, Mr, Mw, MwBind, MwBindInfo, MwType, PostError, QpInit, QpState,
    SendWr, WcOpcode, WcStatus, WrOpcode,
};

use crate::host::{LEN, Setup, VA};
use crate::lone::{Lone, PEER_QPN};
use crate::packet::Packet;
use crate::pair::Pair;

/// Where the windows begin, and how long they are.
const AT: usize = 4096;
const SPAN: u64 = 1000;
const FAR: u64 = 0x9000;
const WRITE: WrOpcode = WrOpcode::RdmaWrite { va: FAR, rkey: RKey(0x1234_5678) };
const BOTH: [MwType; 2] = [MwType::Type1, MwType::Type2];

/// A region that is open to nobody by itself.
fn region(lone: &mut Lone) -> Mr {
    lone.host.register(LEN as u64, Access::LOCAL_WRITE | Access::MW_BIND)
}

fn info(mr: Mr, access: Access) -> MwBindInfo {
    MwBindInfo { lkey: mr.lkey, va: VA + AT as u64, len: SPAN, access }
}

fn alloc(lone: &mut Lone, kind: MwType) -> Mw {
    lone.host.engine.alloc_mw(lone.host.pd, kind, &mut lone.host.entropy).unwrap()
}

/// Posts a binding, by the verb that the type has; says which key the window gets.
fn bind(lone: &mut Lone, mw: &mut Mw, wr_id: u64, info: MwBindInfo) -> RKey {
    let qp = lone.host.qp;
    match mw.kind {
        MwType::Type1 => {
            lone.host.engine.bind_mw(qp, mw, &MwBind::new(wr_id, info)).unwrap();
            mw.rkey
        }
        MwType::Type2 => {
            let rkey = mw.next_rkey();
            let wr = SendWr::new(wr_id, WrOpcode::BindMw { rkey, info }, &[]);
            lone.host.engine.post_send(qp, &wr).unwrap();
            mw.rkey = rkey;
            rkey
        }
    }
}

/// A window of a region, bound.
fn window(lone: &mut Lone, kind: MwType, access: Access) -> (Mr, Mw) {
    let mr = region(lone);
    let mut mw = alloc(lone, kind);
    bind(lone, &mut mw, 1, info(mr, access));
    assert_eq!(lone.sends(), [], "no packet carries it");
    let ended = lone.host.sent();
    assert_eq!(ended.len(), 1);
    assert_eq!((ended[0].status, ended[0].opcode), (WcStatus::Success, WcOpcode::BindMw));
    (mr, mw)
}

fn write(psn: u32, rkey: RKey, offset: usize, bytes: &[u8]) -> Packet {
    let len = u32::try_from(bytes.len()).unwrap();
    let packet = Packet::new(Opcode::RC_RDMA_WRITE_ONLY, psn).ask();
    packet.reth(VA + offset as u64, rkey, len).payload(bytes)
}

fn invalidate(lone: &mut Lone, wr_id: u64, rkey: RKey) {
    let wr = SendWr::new(wr_id, WrOpcode::LocalInvalidate(rkey), &[]);
    lone.host.engine.post_send(lone.host.qp, &wr).unwrap();
}

/// What the peer may do through a window is the window's, not the region's.
#[test]
fn a_window_opens_a_range_with_its_own_rights() {
    let far = VA + AT as u64;
    let span = usize::try_from(SPAN).unwrap();
    for kind in BOTH {
        let all = Access::REMOTE_WRITE | Access::REMOTE_READ | Access::REMOTE_ATOMIC;
        let mut lone = Lone::new();
        let (_, mw) = window(&mut lone, kind, all);
        assert_eq!(lone.answers(write(100, mw.rkey, AT, &vec![7; span])), [Packet::ack(100, 1)]);
        assert_eq!(lone.host.bytes(AT - 1, span + 2), [&[0][..], &vec![7; span], &[0]].concat());
        let read = Packet::response(Opcode::RC_RDMA_READ_RESPONSE_ONLY, 101, 2, &[7; 4]);
        assert_eq!(lone.answers(Packet::read(101, far, mw.rkey, 4)), [read]);
        let seven = u64::from_ne_bytes([7; 8]);
        let answer = Packet::atomic_answer(102, 3, seven);
        assert_eq!(lone.answers(Packet::fetch_add(102, far, mw.rkey, 0)), [answer]);

        // Beyond the window's ends, though within the region.
        for (offset, len) in [(AT - 1, 1), (AT + span, 1), (AT + span - 1, 2)] {
            let mut lone = Lone::new();
            let (_, mw) = window(&mut lone, kind, all);
            let refused = lone.answers(write(100, mw.rkey, offset, &vec![9; len]));
            assert_eq!(refused, [Packet::answer(100, 0x62, 0)]);
            assert!(lone.host.all_bytes().iter().all(|byte| *byte == 0));
        }
        // Each right alone.
        let requests = |rkey| {
            [
                (Access::REMOTE_WRITE, write(100, rkey, AT, &[1])),
                (Access::REMOTE_READ, Packet::read(100, far, rkey, 1)),
                (Access::REMOTE_ATOMIC, Packet::fetch_add(100, far, rkey, 1)),
            ]
        };
        for right in [Access::REMOTE_WRITE, Access::REMOTE_READ, Access::REMOTE_ATOMIC] {
            for which in 0..3 {
                let mut lone = Lone::new();
                let (_, mw) = window(&mut lone, kind, right);
                let (needs, request) = requests(mw.rkey)[which].clone();
                let answer = &lone.answers(request)[0];
                let refused = answer.ext.aeth.unwrap().syndrome.0 == 0x62;
                assert_eq!(refused, needs != right, "{right:?} and {needs:?}");
            }
        }
        // The region's own key opens nothing.
        let mut lone = Lone::new();
        let (mr, _) = window(&mut lone, kind, all);
        assert_eq!(lone.answers(write(100, mr.rkey, AT, &[1])), [Packet::answer(100, 0x62, 0)]);
    }
}

/// Before it is bound, a window opens nothing.
#[test]
fn an_unbound_window_is_closed() {
    for kind in BOTH {
        let mut lone = Lone::new();
        let mw = alloc(&mut lone, kind);
        assert_eq!(lone.answers(write(100, mw.rkey, AT, &[1])), [Packet::answer(100, 0x62, 0)]);
    }
}

/// Type 1 is bound anew at will: another key each time, of which only the lower eight bits change,
/// and the one before is dead. Bound to nothing, it is closed.
#[test]
fn type_1_is_bound_anew() {
    for old_key in [false, true] {
        let mut lone = Lone::new();
        let (mr, mut mw) = window(&mut lone, MwType::Type1, Access::REMOTE_WRITE);
        let old = mw.rkey;
        let elsewhere = MwBindInfo { va: VA, len: 16, ..info(mr, Access::REMOTE_WRITE) };
        let new = bind(&mut lone, &mut mw, 2, elsewhere);
        lone.sends();
        assert_eq!(new.0, old.0 & !0xff | old.0.wrapping_add(1) & 0xff);
        let (key, answer) =
            if old_key { (old, Packet::answer(100, 0x62, 0)) } else { (new, Packet::ack(100, 1)) };
        assert_eq!(lone.answers(write(100, key, 0, &[1; 16])), [answer]);
    }
    let mut lone = Lone::new();
    let (mr, mut mw) = window(&mut lone, MwType::Type1, Access::REMOTE_WRITE);
    assert_eq!(lone.host.engine.deregister_mr(mr.rkey), Err(MemoryError::WindowsBound));
    let nothing = MwBindInfo { len: 0, ..info(mr, Access::REMOTE_WRITE) };
    bind(&mut lone, &mut mw, 2, nothing);
    lone.sends();
    assert_eq!(lone.host.engine.deregister_mr(mr.rkey), Ok(()));
    assert_eq!(lone.answers(write(100, mw.rkey, AT, &[1])), [Packet::answer(100, 0x62, 0)]);
}

/// Type 2 has to be invalidated before it is bound again; its owner chooses the lower eight bits.
#[test]
fn type_2_is_bound_when_it_is_free() {
    let mut lone = Lone::new();
    let (mr, mw) = window(&mut lone, MwType::Type2, Access::REMOTE_WRITE);
    let rkey = mw.with_key(0xa5);
    let again = WrOpcode::BindMw { rkey, info: info(mr, Access::REMOTE_READ) };
    let qp = lone.host.qp;
    invalidate(&mut lone, 2, mw.rkey);
    lone.host.engine.post_send(qp, &SendWr::new(3, again, &[])).unwrap();
    lone.sends();
    let ended: Vec<_> = lone.host.sent().iter().map(|wc| (wc.status, wc.opcode)).collect();
    let ok = WcStatus::Success;
    assert_eq!(ended, [(ok, WcOpcode::LocalInvalidate), (ok, WcOpcode::BindMw)]);
    let read = Packet::response(Opcode::RC_RDMA_READ_RESPONSE_ONLY, 100, 1, &[0; 4]);
    assert_eq!(lone.answers(Packet::read(100, VA + AT as u64, rkey, 4)), [read]);
    lone.host.engine.post_send(qp, &SendWr::new(4, again, &[])).unwrap();
    lone.sends();
    assert_eq!(lone.host.sent()[0].status, WcStatus::MwBind);
    assert_eq!(lone.state(), QpState::Error);
}

/// Type 2 is for the queue pair that bound it (2B); type 1 for all of the protection domain.
#[test]
fn who_may_use_a_window() {
    for (kind, own_domain, granted) in [
        (MwType::Type1, true, true),
        (MwType::Type2, true, false),
        (MwType::Type1, false, false),
        (MwType::Type2, false, false),
    ] {
        let setup = Setup::DEFAULT;
        let mut lone = Lone::new();
        let (_, mw) = window(&mut lone, kind, Access::REMOTE_WRITE);
        let host = &mut lone.host;
        let pd = if own_domain { host.pd } else { host.engine.alloc_pd() };
        let init = QpInit::new(Service::Rc, pd, host.cq, host.recv_cq);
        host.qp = host.engine.create_qp(&init, &mut host.entropy).unwrap();
        host.init(&setup);
        host.rtr(&setup, PEER_QPN, setup.addresses());
        let answer = if granted { Packet::ack(100, 1) } else { Packet::answer(100, 0x62, 0) };
        assert_eq!(lone.answers(write(100, mw.rkey, AT, &[1])), [answer], "{kind:?}");
    }
}

/// A binding has its turn: what is before it goes out first, what is behind it finds it done, and
/// completions keep the order. Sent again, nothing is bound again.
#[test]
fn a_binding_has_its_place_in_the_queue() {
    for kind in BOTH {
        let mut lone = Lone::new();
        let mr = region(&mut lone);
        let mut mw = alloc(&mut lone, kind);
        let sge = lone.host.sge(0, 1);
        lone.host.post(1, WRITE, sge);
        let rkey = bind(&mut lone, &mut mw, 2, info(mr, Access::REMOTE_WRITE));
        lone.host.post(3, WRITE, sge);
        lone.host.post(4, WRITE, sge);
        for psn in [5000, 5001] {
            assert_eq!(lone.sends_one().unwrap().psn.get(), psn);
        }
        // What is behind it is out, so it is bound; the one before it is not acknowledged.
        let sent = lone.answers(write(100, rkey, AT, &[1]));
        assert_eq!((sent.len(), &sent[0]), (2, &Packet::ack(100, 1)));
        assert_eq!(lone.host.sent(), []);
        lone.receives(Packet::answer(5000, 0x60, 0));
        let psns: Vec<_> = lone.sends().iter().map(|packet| packet.psn.get()).collect();
        assert_eq!(psns, [5000, 5001, 5002]);
        assert_eq!(lone.host.sent(), [], "what is before it is not acknowledged");
        // Sent again up to before it; an acknowledgement then covers what is before it.
        lone.wait(100_000_000);
        assert_eq!(lone.sends_one().unwrap().psn.get(), 5000);
        lone.receives(Packet::ack(5000, 1));
        let ended = |lone: &mut Lone| {
            lone.host.sent().iter().map(|wc| (wc.wr_id, wc.status)).collect::<Vec<_>>()
        };
        let ok = WcStatus::Success;
        assert_eq!(ended(&mut lone), [(1, ok), (2, ok)]);
        let psns: Vec<_> = lone.sends().iter().map(|packet| packet.psn.get()).collect();
        assert_eq!(psns, [5001, 5002]);
        lone.receives(Packet::ack(5002, 3));
        assert_eq!(ended(&mut lone), [(3, ok), (4, ok)]);
        // MSNs count messages, and a binding is none.
        let info = lone.host.engine.query_qp(lone.host.qp).unwrap();
        assert_eq!((info.next_psn.get(), info.send_wrs), (5003, 0));
    }
}

/// A binding that fails waits for what is before it, and flushes what is behind it.
#[test]
fn a_binding_that_fails_ends_in_its_turn() {
    let mut lone = Lone::new();
    let mr = lone.host.register(LEN as u64, Access::LOCAL_WRITE);
    let mut mw = alloc(&mut lone, MwType::Type1);
    let sge = lone.host.sge(0, 1);
    lone.host.post(1, WRITE, sge);
    bind(&mut lone, &mut mw, 2, info(mr, Access::REMOTE_WRITE));
    lone.host.post(3, WRITE, sge);
    assert_eq!(lone.sends().len(), 1);
    assert_eq!(lone.host.sent(), []);
    lone.receives(Packet::ack(5000, 1));
    assert_eq!(lone.sends(), []);
    let ended: Vec<_> = lone.host.sent().iter().map(|wc| (wc.wr_id, wc.status)).collect();
    let expect = [(1, WcStatus::Success), (2, WcStatus::MwBind), (3, WcStatus::WrFlush)];
    assert_eq!(ended, expect);
    assert_eq!(lone.state(), QpState::Error);
}

/// What a region must be, and what of it may be opened.
#[test]
fn what_may_be_bound() {
    let rw = Access::REMOTE_READ | Access::REMOTE_WRITE;
    let (lw, mw_bind) = (Access::LOCAL_WRITE, Access::MW_BIND);
    let good = lw | mw_bind;
    let flush = Access::FLUSH_GLOBAL;
    let whole = LEN as u64;
    for (region, access, from, len, fine) in [
        (good, rw, 0, whole, true),
        (good, rw | Access::REMOTE_ATOMIC, 0, whole, true),
        (good, Access::NONE, 10, 1, true),
        (mw_bind, Access::REMOTE_READ, 0, whole, true),
        (mw_bind, rw, 0, whole, false),
        (mw_bind, Access::REMOTE_ATOMIC, 0, whole, false),
        (Access::ALL, Access::REMOTE_READ, 0, whole, false),
        (good, Access::LOCAL_WRITE, 0, whole, false),
        (good, Access::REMOTE_INVALIDATE, 0, whole, false),
        (good, flush, 0, whole, false),
        (good | flush, flush, 0, whole, true),
        (good, rw, 0, whole + 1, false),
        (good, rw, 1, whole, false),
        (good, rw, -1, 1, false),
        (good, rw, 0, u64::MAX, false),
        (good, rw, whole.cast_signed(), 1, false),
    ] {
        for kind in BOTH {
            let mut lone = Lone::new();
            let mr = lone.host.register(whole, region);
            let mut mw = alloc(&mut lone, kind);
            let va = VA.wrapping_add_signed(from);
            bind(&mut lone, &mut mw, 1, MwBindInfo { lkey: mr.lkey, va, len, access });
            assert_eq!(lone.sends(), []);
            let expect = if fine { WcStatus::Success } else { WcStatus::MwBind };
            let what = format!("{region:?}: {access:?} at {from} of {len}");
            assert_eq!(lone.host.sent()[0].status, expect, "{what}");
        }
    }
    // Another's region, another's window, no region's key.
    for which in 0..3 {
        let mut lone = Lone::new();
        let own = lone.host.pd;
        let other = lone.host.engine.alloc_pd();
        lone.host.pd = if which == 0 { other } else { own };
        let mr = region(&mut lone);
        lone.host.pd = if which == 1 { other } else { own };
        let mut mw = alloc(&mut lone, MwType::Type1);
        let mut wanted = info(mr, rw);
        if which == 2 {
            wanted.lkey.0 ^= 1;
        }
        bind(&mut lone, &mut mw, 1, wanted);
        lone.sends();
        assert_eq!(lone.host.sent()[0].status, WcStatus::MwBind, "{which}");
    }
}

/// A region stays while windows lead to it; a window can go at any time.
#[test]
fn a_region_outlives_its_windows() {
    for kind in BOTH {
        let mut lone = Lone::new();
        let (mr, mw) = window(&mut lone, kind, Access::REMOTE_WRITE);
        let mut second = alloc(&mut lone, kind);
        bind(&mut lone, &mut second, 2, info(mr, Access::REMOTE_READ));
        lone.sends();
        let bound = Err(MemoryError::WindowsBound);
        assert_eq!(lone.host.engine.deregister_mr(mr.rkey), bound);
        assert_eq!(lone.host.engine.dealloc_mw(second), Ok(()));
        assert_eq!(lone.host.engine.dealloc_mw(second), Err(MemoryError::UnknownKey));
        assert_eq!(lone.host.engine.deregister_mr(mr.rkey), bound);
        assert_eq!(lone.host.engine.dealloc_mw(mw), Ok(()));
        assert_eq!(lone.host.engine.deregister_mr(mr.rkey), Ok(()));
        assert_eq!(lone.answers(write(100, mw.rkey, AT, &[1])), [Packet::answer(100, 0x62, 0)]);
    }
}

/// The peer takes the key of a window of type 2 away, without any right of the region's; not that
/// of type 1, and not the one of a region that has windows.
#[test]
fn the_peer_invalidates() {
    let send = |psn, rkey| Packet::new(Opcode::RC_SEND_ONLY_INV, psn).ieth(rkey).ask();
    let mut lone = Lone::new();
    let (mr, mw) = window(&mut lone, MwType::Type2, Access::REMOTE_WRITE);
    lone.host.post_recv(1, 0, 0);
    assert_eq!(lone.answers(send(100, mw.rkey)), [Packet::ack(100, 1)]);
    assert_eq!(lone.host.received()[0].invalidated, Some(mw.rkey));
    assert_eq!(lone.host.engine.deregister_mr(mr.rkey), Ok(()), "no window is bound");
    assert_eq!(lone.answers(write(101, mw.rkey, AT, &[1])), [Packet::answer(101, 0x62, 1)]);

    for region_key in [false, true] {
        let mut lone = Lone::new();
        let access = Access::LOCAL_WRITE | Access::MW_BIND | Access::REMOTE_INVALIDATE;
        let mr = lone.host.register(LEN as u64, access);
        let mut mw = alloc(&mut lone, MwType::Type1);
        bind(&mut lone, &mut mw, 1, info(mr, Access::REMOTE_WRITE));
        lone.sends();
        lone.host.post_recv(1, 0, 0);
        let rkey = if region_key { mr.rkey } else { mw.rkey };
        assert_eq!(lone.answers(send(100, rkey)), [Packet::answer(100, 0x62, 0)]);
        assert_eq!(lone.host.received()[0].status, WcStatus::RemoteInvalidate);
    }
}

/// While answers to READs by a window are owed, its key cannot go.
#[test]
fn a_window_that_is_being_read_stays() {
    let mut lone = Lone::new();
    let (_, mw) = window(&mut lone, MwType::Type2, Access::REMOTE_READ);
    lone.host.post_recv(1, 0, 0);
    lone.burst(&[
        Packet::read(100, VA + AT as u64, mw.rkey, 8),
        Packet::new(Opcode::RC_SEND_ONLY_INV, 101).ieth(mw.rkey).ask(),
    ]);
    let answers = lone.sends();
    assert_eq!(answers.len(), 2);
    assert_eq!(answers[1].ext.aeth.unwrap().syndrome.0, 0x20 | 12, "later");
    let again = Packet::new(Opcode::RC_SEND_ONLY_INV, 101).ieth(mw.rkey).ask();
    assert_eq!(lone.answers(again)[0].ext.aeth.unwrap().syndrome.0 >> 5, 0);
}

/// Local invalidation: of a window that is bound, by whom it was bound; of a region that may be.
#[test]
fn what_may_be_invalidated_here() {
    let status = |lone: &mut Lone, rkey| {
        invalidate(lone, 9, rkey);
        assert_eq!(lone.sends(), []);
        lone.host.sent()[0].status
    };
    let mut lone = Lone::new();
    let (_, mw) = window(&mut lone, MwType::Type2, Access::REMOTE_WRITE);
    assert_eq!(status(&mut lone, mw.rkey), WcStatus::Success);
    assert_eq!(status(&mut lone, mw.rkey), WcStatus::MwBind, "once");
    let mut lone = Lone::new();
    let (_, mw) = window(&mut lone, MwType::Type1, Access::REMOTE_WRITE);
    assert_eq!(status(&mut lone, mw.rkey), WcStatus::MwBind);
    let mut lone = Lone::new();
    let mr = lone.host.register(64, Access::ALL | Access::REMOTE_INVALIDATE);
    assert_eq!(status(&mut lone, mr.rkey), WcStatus::Success);
    assert_eq!(lone.answers(write(100, mr.rkey, 0, &[1])), [Packet::answer(100, 0x62, 0)]);
    for access in [Access::ALL, Access::ALL | Access::MW_BIND] {
        let mut lone = Lone::new();
        let mr = lone.host.register(64, access);
        assert_eq!(status(&mut lone, mr.rkey), WcStatus::MwBind);
    }
    // Another queue pair's window.
    let setup = Setup::DEFAULT;
    let mut lone = Lone::new();
    let (_, mw) = window(&mut lone, MwType::Type2, Access::REMOTE_WRITE);
    let init = QpInit::new(Service::Rc, lone.host.pd, lone.host.cq, lone.host.recv_cq);
    lone.host.qp = lone.host.engine.create_qp(&init, &mut lone.host.entropy).unwrap();
    lone.host.init(&setup);
    lone.host.rtr(&setup, PEER_QPN, setup.addresses());
    lone.host.rts(&setup);
    assert_eq!(status(&mut lone, mw.rkey), WcStatus::MwBind);
}

/// A queue pair that is reset or destroyed takes the bindings of its windows of type 2 along.
#[test]
fn windows_close_with_their_queue_pair() {
    for destroy in [false, true] {
        for (kind, stays) in [(MwType::Type1, true), (MwType::Type2, false)] {
            let mut lone = Lone::new();
            let (mr, mw) = window(&mut lone, kind, Access::REMOTE_WRITE);
            let qp = lone.host.qp;
            if destroy {
                lone.host.engine.destroy_qp(qp).unwrap();
            } else {
                lone.host.engine.modify_qp(qp, &ModifyQp::Reset).unwrap();
            }
            let left = lone.host.engine.deregister_mr(mr.rkey);
            let expect = if stays { Err(MemoryError::WindowsBound) } else { Ok(()) };
            assert_eq!(left, expect, "{kind:?}");
            assert_eq!(lone.host.engine.dealloc_mw(mw), Ok(()));
        }
    }
}

/// The fence holds for a binding, too.
#[test]
fn a_fenced_binding_waits_for_a_read() {
    let mut lone = Lone::new();
    let mr = region(&mut lone);
    let mut mw = alloc(&mut lone, MwType::Type1);
    let sge = lone.host.sge(0, 8);
    lone.host.post(1, WrOpcode::RdmaRead { va: FAR, rkey: RKey(7) }, sge);
    let bind = MwBind { fence: true, ..MwBind::new(2, info(mr, Access::REMOTE_WRITE)) };
    let qp = lone.host.qp;
    lone.host.engine.bind_mw(qp, &mut mw, &bind).unwrap();
    lone.sends();
    assert_eq!(lone.host.engine.deregister_mr(mr.rkey), Ok(()), "not bound yet");
    lone.receives(Packet::response(Opcode::RC_RDMA_READ_RESPONSE_ONLY, 5000, 1, &[0; 8]));
    lone.sends();
    let ended: Vec<_> = lone.host.sent().iter().map(|wc| wc.status).collect();
    assert_eq!(ended, [WcStatus::Success, WcStatus::MwBind], "and then too late");
}

#[test]
fn what_the_verbs_refuse() {
    let mut lone = Lone::new();
    let qp = lone.host.qp;
    let mr = region(&mut lone);
    let info = info(mr, Access::REMOTE_WRITE);
    let [mut one, mut two] = BOTH.map(|kind| alloc(&mut lone, kind));
    let engine = &mut lone.host.engine;
    let window = Err(PostError::Window);
    let before = two;
    assert_eq!(engine.bind_mw(qp, &mut two, &MwBind::new(1, info)), window);
    assert_eq!(two, before);
    let mut post = |opcode| engine.post_send(qp, &SendWr::new(1, opcode, &[]));
    assert_eq!(post(WrOpcode::BindMw { rkey: one.next_rkey(), info }), window);
    assert_eq!(post(WrOpcode::BindMw { rkey: mr.rkey, info }), window, "a region is no window");
    assert_eq!(post(WrOpcode::BindMw { rkey: RKey(two.rkey.0 ^ 0x100), info }), window);
    let some = SendWr::new(1, WrOpcode::LocalInvalidate(one.rkey), &[]).inline(b"x");
    assert_eq!(engine.post_send(qp, &some), Err(PostError::Length));
    let unknown = roce_codec::ib::Qpn::new(2);
    let before = one;
    assert_eq!(engine.bind_mw(unknown, &mut one, &MwBind::new(1, info)), Err(PostError::UnknownQp));
    assert_eq!(one, before);
}

/// The unreliable connection binds, too, between its messages; unsignaled, it is silent.
#[test]
fn windows_of_the_unreliable_connection() {
    let setup = Setup { service: Service::Uc, max_rd_atomic: 0, ..Setup::DEFAULT };
    let mut lone = Lone::with(setup);
    let mr = region(&mut lone);
    let mut mw = alloc(&mut lone, MwType::Type1);
    let sge = lone.host.sge(0, 1);
    lone.host.post(1, WRITE, sge);
    let bind = MwBind { signaled: false, ..MwBind::new(2, info(mr, Access::REMOTE_WRITE)) };
    let qp = lone.host.qp;
    lone.host.engine.bind_mw(qp, &mut mw, &bind).unwrap();
    lone.host.post(3, WRITE, sge);
    assert_eq!(lone.sends().len(), 2);
    let ended: Vec<_> = lone.host.sent().iter().map(|wc| wc.wr_id).collect();
    assert_eq!(ended, [1, 3]);
    let write = Packet::new(Opcode::UC_RDMA_WRITE_ONLY, 100);
    lone.receives(write.reth(VA + AT as u64, mw.rkey, 2).payload(b"uc"));
    assert_eq!(lone.host.bytes(AT, 2), b"uc");
}

/// Between two engines, each packet lost once: a window is bound, its key sent, used, taken away
/// by the peer, bound anew.
#[test]
fn windows_under_loss() {
    for (side, lost) in [(0, 100), (1, 100), (1, 5000), (1, 5001), (0, 5001)] {
        let setup = Setup { rq_psn: 5000, sq_psn: 100, ..Setup::DEFAULT };
        let mut pair = Pair::new(setup);
        let mr = pair.hosts[0].register(LEN as u64, Access::LOCAL_WRITE | Access::MW_BIND);
        let pd = pair.hosts[0].pd;
        let host = &mut pair.hosts[0];
        let mw = host.engine.alloc_mw(pd, MwType::Type2, &mut host.entropy).unwrap();
        let mut key = 3;
        pair.lose(side, lost);
        for round in 0..2_u8 {
            key += 1;
            let rkey = mw.with_key(key);
            pair.hosts[1].post_recv(0, 0, 64);
            pair.hosts[0].post_recv(0, 0, 64);
            let qp = pair.hosts[0].qp;
            let bind = WrOpcode::BindMw { rkey, info: info(mr, Access::REMOTE_WRITE) };
            pair.hosts[0].engine.post_send(qp, &SendWr::new(1, bind, &[])).unwrap();
            let bytes = rkey.0.to_be_bytes();
            let told = SendWr::new(2, WrOpcode::Send, &[]).inline(&bytes);
            pair.hosts[0].engine.post_send(qp, &told).unwrap();
            pair.run_for(500_000_000);
            assert_eq!(pair.hosts[0].sent().len(), 2);
            assert_eq!(pair.hosts[1].received().len(), 1);
            let rkey = RKey(u32::from_be_bytes(pair.hosts[1].bytes(0, 4).try_into().unwrap()));
            let write = WrOpcode::RdmaWrite { va: VA + AT as u64, rkey };
            let qp = pair.hosts[1].qp;
            let data = [round + 1; 8];
            pair.hosts[1].engine.post_send(qp, &SendWr::new(3, write, &[]).inline(&data)).unwrap();
            let done = SendWr::new(4, WrOpcode::SendWithInvalidate(rkey), &[]);
            pair.hosts[1].engine.post_send(qp, &done).unwrap();
            pair.run();
            let ended: Vec<_> = pair.hosts[1].sent().iter().map(|wc| wc.status).collect();
            assert_eq!(ended, [WcStatus::Success; 2], "{side} {lost}");
            assert_eq!(pair.hosts[0].received()[0].invalidated, Some(rkey));
            assert_eq!(pair.hosts[0].bytes(AT, 8), data);
        }
    }
}
