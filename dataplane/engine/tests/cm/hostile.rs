//! A peer that sends whatever it likes: nothing panics, nothing is held for ever, nothing
//! is sent but one MAD for each that came.

use roce_codec::cm::{
    AttributeId, CommunicationId, MAD_LEN, Mad, MadHeader, RejReason, SidrStatus, Timeout,
};
use roce_codec::ib::{QKey, Qpn};
use roce_engine::cm::{Accept, Cm, CmState, Connect, SidrAnswer};
use roce_engine::{Instant, SeededEntropy};

use crate::pair::{PASSIVE_PSN, PASSIVE_QPN, Pair, SERVICE, Told, connect, manager, path};

const REFUSAL: SidrAnswer<'static> =
    SidrAnswer { status: SidrStatus::REJECTED, qpn: Qpn::new(0), qkey: QKey(0), private_data: &[] };

/// Messages whose numbers are now and then those of a connection: its IDs, QPN and GUID.
fn message(random: &mut SeededEntropy, ids: &[u32]) -> [u8; MAD_LEN] {
    let mut mad = [0; MAD_LEN];
    for chunk in mad.chunks_mut(8) {
        chunk.copy_from_slice(&random.next_u64().to_le_bytes());
    }
    if random.next_u64().is_multiple_of(16) {
        return mad;
    }
    let attribute = u16::try_from(0x0f + random.next_u64() % 16).unwrap();
    let mut header = MadHeader::cm(AttributeId(attribute), random.next_u64());
    if random.next_u64().is_multiple_of(32) {
        header.class_version = 1;
    }
    header.emit(&mut mad).unwrap();
    for at in [24, 28] {
        let pick = usize::try_from(random.next_u64() % 8).unwrap();
        if let Some(id) = ids.get(pick) {
            mad[at..at + 4].copy_from_slice(&id.to_be_bytes());
        }
    }
    if attribute == AttributeId::SIDR_REQ.0 && random.next_u64().is_multiple_of(2) {
        mad[24..32].copy_from_slice(&(random.next_u64() % 8).to_be_bytes());
        mad[24 + 8..24 + 16].copy_from_slice(&SERVICE.0.to_be_bytes());
    }
    if attribute == AttributeId::REQ.0 && random.next_u64().is_multiple_of(2) {
        // A REQ that passes: service, transport, MTU, GIDs.
        mad[24 + 8..24 + 16].copy_from_slice(&SERVICE.0.to_be_bytes());
        mad[24 + 16..24 + 24].copy_from_slice(&(random.next_u64() % 4).to_be_bytes());
        mad[24 + 34] = mad[24] % 8 + 2;
        mad[24 + 43] &= 0xfb;
        mad[24 + 50] = 0x30;
        let gids = [path(1, 2).src, path(1, 2).dst].map(|ip| roce_codec::cm::Gid::from(ip).0);
        mad[24 + 56..24 + 72].copy_from_slice(&gids[1]);
        mad[24 + 72..24 + 88].copy_from_slice(&gids[0]);
    }
    mad
}

/// Brings a fresh manager at 192.0.2.1 into a state, its peer 192.0.2.2.
fn brought_to(state: CmState, now: Instant) -> (Cm<'static>, Vec<u32>) {
    let mut pair = Pair::new();
    pair.now = now;
    // Sides change places: the one under test is always 192.0.2.1.
    pair.sides[0].listen(SERVICE, 4).unwrap();
    let mut peer = manager(0xb, 3, 8);
    let mut one = manager(0xa, 4, 8);
    one.listen(SERVICE, 4).unwrap();
    let pass = |from: &mut Cm<'static>, to: &mut Cm<'static>, way| {
        while let Some(transmit) = from.poll_transmit(now) {
            to.handle_mad(now, &Mad::parse(&transmit.mad).unwrap(), &way);
        }
    };
    let id_in = |cm: &mut Cm<'static>| match cm.poll_event().map(|event| Told::from(&event)) {
        Some(Told::ConnectRequest { id, .. } | Told::ConnectResponse { id, .. }) => id,
        other => panic!("{other:?}"),
    };
    let accept = Accept::new(PASSIVE_QPN, PASSIVE_PSN);
    use CmState::*;
    let passive = matches!(state, ReqRcvd | MraReqSent | RepSent | MraRepRcvd);
    let mut ids = Vec::new();
    if passive {
        let asked = Connect { path: path(2, 1), ..connect() };
        ids.push(peer.connect(now, &asked).unwrap());
        pass(&mut peer, &mut one, path(1, 2));
        let id = id_in(&mut one);
        ids.push(id);
        match state {
            MraReqSent => one.delay(now, id, Timeout::new(10), &[]).unwrap(),
            RepSent | MraRepRcvd => {
                one.accept(now, id, &accept).unwrap();
                if state == MraRepRcvd {
                    pass(&mut one, &mut peer, path(2, 1));
                    let active = id_in(&mut peer);
                    peer.delay(now, active, Timeout::new(10), &[]).unwrap();
                    pass(&mut peer, &mut one, path(1, 2));
                }
            }
            _ => {}
        }
        assert_eq!(one.state(id), state);
    } else if state != Idle {
        peer.listen(SERVICE, 4).unwrap();
        let id = one.connect(now, &connect()).unwrap();
        ids.push(id);
        let after = [RepWait, RepRcvd, MraRepSent, Established, DreqSent, DreqRcvd, Timewait];
        if after.contains(&state) {
            pass(&mut one, &mut peer, path(2, 1));
            let other = id_in(&mut peer);
            ids.push(other);
            if state == RepWait {
                peer.delay(now, other, Timeout::new(10), &[]).unwrap();
            } else {
                peer.accept(now, other, &accept).unwrap();
            }
            pass(&mut peer, &mut one, path(1, 2));
            if state != RepWait {
                assert_eq!(id_in(&mut one), id);
            }
            if state == MraRepSent {
                one.delay(now, id, Timeout::new(10), &[]).unwrap();
            }
            if [Established, DreqSent, DreqRcvd, Timewait].contains(&state) {
                one.ready(now, id, &[]).unwrap();
                pass(&mut one, &mut peer, path(2, 1));
                let _ = peer.poll_event();
            }
            if state == DreqRcvd || state == Timewait {
                peer.disconnect(now, other, &[]).unwrap();
                pass(&mut peer, &mut one, path(1, 2));
                let _ = one.poll_event();
            }
            if state == DreqSent || state == Timewait {
                one.disconnect(now, id, &[]).unwrap();
            }
        }
        assert_eq!(one.state(id), state);
    }
    let ids = ids.iter().map(|CommunicationId(id)| *id).chain([0x11, 0xa, 0xb, 0]).collect();
    (one, ids)
}

/// Every message there is, true and mutilated, in every state.
#[test]
fn any_message_in_any_state() {
    use CmState::*;
    let states = [
        Idle,
        ReqSent,
        RepWait,
        ReqRcvd,
        MraReqSent,
        RepSent,
        MraRepRcvd,
        RepRcvd,
        MraRepSent,
        Established,
        DreqSent,
        DreqRcvd,
        Timewait,
    ];
    let mut random = SeededEntropy::new(1);
    let mut accepted = 0;
    for state in states {
        for _ in 0..60 {
            let mut now = Instant(1_000_000);
            let (mut cm, ids) = brought_to(state, now);
            let owed = std::iter::from_fn(|| cm.poll_transmit(now)).count();
            assert!(owed <= 1);
            for _ in 0..100 {
                let mad = message(&mut random, &ids);
                let way =
                    if random.next_u64().is_multiple_of(16) { path(1, 3) } else { path(1, 2) };
                let before = cm.counters().sent;
                cm.handle_mad(now, &Mad::parse(&mad).unwrap(), &way);
                while cm.poll_transmit(now).is_some() {}
                // A REQ or REP may be refused and, by the same, a stale connection be ended.
                assert!(cm.counters().sent - before <= 2);
                assert!(cm.in_use() <= 5, "the backlog is 4");
                if random.next_u64().is_multiple_of(4) {
                    now = now.add_ns(random.next_u64() % 1_000_000_000);
                    let _ = cm.handle_timeout(now);
                }
                while cm.poll_event().is_some() {}
            }
            accepted += cm.counters().acted_on;
            at_rest(&mut cm, now);
        }
    }
    assert!(accepted > 10_000, "{accepted}: the messages are too wrong to show anything");
}

/// The consumer refuses and disconnects whatever is left; then nothing is held.
fn at_rest(cm: &mut Cm<'_>, mut now: Instant) {
    for (id, _) in cm.connections().collect::<Vec<_>>() {
        let _ = cm.reject(now, id, RejReason::CONSUMER_REJECT, &[], &[]);
        let _ = cm.disconnect(now, id, &[]);
        let _ = cm.sidr_reply(now, id, &REFUSAL);
    }
    for _ in 0..10_000 {
        while cm.poll_transmit(now).is_some() {}
        while cm.poll_event().is_some() {}
        let Some(next) = cm.poll_timeout() else { break };
        now = now.max(next);
        let _ = cm.handle_timeout(now);
    }
    assert_eq!((cm.in_use(), cm.poll_timeout()), (0, None), "{cm:?}");
    let counters = cm.counters();
    assert_eq!(counters.received, counters.acted_on + counters.total_dropped());
}
