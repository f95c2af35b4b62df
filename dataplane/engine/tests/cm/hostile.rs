//! A peer that sends whatever it likes: nothing panics, nothing is held for ever, nothing
//! is sent but one MAD for each that came.

use roce_codec::cm::{AttributeId, MAD_LEN, Mad, MadHeader, RejReason, SidrStatus};
use roce_codec::ib::{QKey, Qpn};
use roce_engine::cm::{Cm, CmState, SidrAnswer};
use roce_engine::{Instant, SeededEntropy};

use crate::pair::{SERVICE, path};
use crate::states::{Brought, brought_to};

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

/// Every message there is, true and mutilated, in every state.
#[test]
fn any_message_in_any_state() {
    use CmState::*;
    let states = [
        (false, &[Idle, ReqSent, RepWait, RepRcvd, MraRepSent][..]),
        (true, &[ReqRcvd, MraReqSent, RepSent, MraRepRcvd]),
        (false, &[Established, DreqSent, DreqRcvd, Timewait]),
        (true, &[Established, DreqSent, DreqRcvd, Timewait]),
    ];
    let mut random = SeededEntropy::new(1);
    let mut accepted = 0;
    for (passive, state) in
        states.into_iter().flat_map(|(side, of)| of.iter().map(move |s| (side, *s)))
    {
        for _ in 0..60 {
            let mut now = Instant(1_000_000);
            let Brought { mut cm, ours, theirs, .. } = brought_to(state, passive, now);
            let ids = [ours.0, theirs.0, 0x11, 0xa, 0xb, 0];
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
