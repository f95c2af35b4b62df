//! Every message and every call in every state: typed from IBTA Vol. 1, 12.9.5 to 12.9.8, not
//! from the code. What is not typed here must do nothing.

use roce_codec::cm::{
    CommunicationId, Drep, Dreq, MAD_LEN, Mad, Message, Mra, MraedMessage, Rej, RejReason,
    RejectedMessage, Rep, Rtu, Timeout,
};
use roce_codec::ib::{Psn, Qpn};
use roce_engine::Instant;
use roce_engine::cm::{Accept, CmState};

use crate::pair::{ACTIVE_QPN, PASSIVE_PSN, PASSIVE_QPN, Told, path};
use crate::states::{Brought, brought_to};

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Does {
    GetsReq,
    /// The REQ of the peer's new life, from the same queue pair.
    GetsNewReq,
    GetsRep,
    GetsRtu,
    GetsMra,
    GetsRej,
    GetsDreq,
    GetsDrep,
    // What the consumer calls.
    Accepts,
    IsReady,
    Delays,
    Rejects,
    Disconnects,
    SeesPacket,
}

use CmState::*;
use Does::*;

const ACTIONS: [Does; 14] = [
    GetsReq,
    GetsNewReq,
    GetsRep,
    GetsRtu,
    GetsMra,
    GetsRej,
    GetsDreq,
    GetsDrep,
    Accepts,
    IsReady,
    Delays,
    Rejects,
    Disconnects,
    SeesPacket,
];

/// State, what happens, the state after it, what is sent, what the consumer is told.
type Row = (CmState, Does, CmState, &'static str, &'static str);

#[rustfmt::skip]
const ROWS: &[Row] = &[
    // The active side.
    (ReqSent,     GetsRep,   RepRcvd,     "",          "ConnectResponse"),
    (ReqSent,     GetsMra,   RepWait,     "",          ""),
    (ReqSent,     GetsRej,   Idle,        "",          "Rejected"),
    (ReqSent,     Rejects,      Idle,        "REJ",       ""),
    (RepWait,     GetsRep,   RepRcvd,     "",          "ConnectResponse"),
    (RepWait,     GetsRej,   Idle,        "",          "Rejected"),
    (RepWait,     Rejects,      Idle,        "REJ",       ""),
    (RepRcvd,     IsReady,       Established, "RTU",       ""),
    (RepRcvd,     Delays,       MraRepSent,  "MRA",       ""),
    (RepRcvd,     Rejects,      Idle,        "REJ",       ""),
    (RepRcvd,     GetsRej,   Timewait,    "",          "Rejected"),
    (RepRcvd,     GetsNewReq,      RepRcvd,     "REJ",       ""),
    (MraRepSent,  GetsRep,   MraRepSent,  "MRA",       ""),
    (MraRepSent,  IsReady,       Established, "RTU",       ""),
    (MraRepSent,  Rejects,      Idle,        "REJ",       ""),
    (MraRepSent,  GetsRej,   Timewait,    "",          "Rejected"),
    (MraRepSent,  GetsNewReq,      MraRepSent,  "REJ",       ""),
    // The passive side.
    (ReqRcvd,     Accepts,     RepSent,     "REP",       ""),
    (ReqRcvd,     Delays,       MraReqSent,  "MRA",       ""),
    (ReqRcvd,     Rejects,      Idle,        "REJ",       ""),
    (ReqRcvd,     GetsRej,   Idle,        "",          "Rejected"),
    (ReqRcvd,     GetsNewReq,      ReqRcvd,     "REJ",       ""),
    (MraReqSent,  GetsReq,         MraReqSent,  "MRA",       ""),
    (MraReqSent,  Accepts,     RepSent,     "REP",       ""),
    (MraReqSent,  Rejects,      Idle,        "REJ",       ""),
    (MraReqSent,  GetsRej,   Idle,        "",          "Rejected"),
    (MraReqSent,  GetsNewReq,      MraReqSent,  "REJ",       ""),
    (RepSent,     GetsReq,         RepSent,     "REP",       ""),
    (RepSent,     GetsRtu,         Established, "",          "Established"),
    (RepSent,     SeesPacket, Established, "",          ""),
    (RepSent,     GetsMra,   MraRepRcvd,  "",          ""),
    (RepSent,     GetsRej,   Timewait,    "",          "Rejected"),
    (RepSent,     GetsDreq,  DreqRcvd,    "",          "DisconnectRequest"),
    (RepSent,     Rejects,      Timewait,    "REJ",       ""),
    (RepSent,     GetsNewReq,      RepSent,     "REJ",       ""),
    (MraRepRcvd,  GetsRtu,         Established, "",          "Established"),
    (MraRepRcvd,  SeesPacket, Established, "",          ""),
    (MraRepRcvd,  GetsRej,   Timewait,    "",          "Rejected"),
    (MraRepRcvd,  GetsDreq,  DreqRcvd,    "",          "DisconnectRequest"),
    (MraRepRcvd,  Rejects,      Timewait,    "REJ",       ""),
    (MraRepRcvd,  GetsNewReq,      MraRepRcvd,  "REJ",       ""),
    // Of what the active side does not know yet it says that it is gone.
    (ReqSent,     GetsDreq,    ReqSent,     "DREP",      ""),
    (RepWait,     GetsDreq,    RepWait,     "DREP",      ""),
    // Both.
    (Established, GetsRej,   Timewait,    "",          "Rejected"),
    (Established, GetsDreq,  DreqRcvd,    "",          "DisconnectRequest"),
    (Established, Disconnects,  DreqSent,    "DREQ",      ""),
    (Established, GetsNewReq,      DreqSent,    "DREQ REJ",  "Stale"),
    (DreqSent,    GetsDrep,  Timewait,    "",          "Disconnected"),
    (DreqSent,    GetsDreq,  Timewait,    "DREP",      "Disconnected"),
    (DreqSent,    GetsRej,   Timewait,    "",          "Rejected"),
    (DreqSent,    GetsNewReq,      DreqSent,    "REJ",       ""),
    (DreqRcvd,    Disconnects,  Timewait,    "DREP",      ""),
    (DreqRcvd,    GetsNewReq,      DreqRcvd,    "REJ",       ""),
    (Timewait,    GetsDreq,  Timewait,    "DREP",      ""),
    (Timewait,    GetsNewReq,      Timewait,    "REJ",       ""),
];

/// Where the two sides differ: it is the active side's peer that says REP, the passive side's
/// that says REQ.
const ACTIVE_ROWS: &[Row] =
    &[(Established, GetsRep, Established, "RTU", ""), (Timewait, GetsRep, Timewait, "REJ", "")];
const PASSIVE_ROWS: &[Row] = &[(Timewait, GetsReq, Timewait, "REJ", "")];

/// Duplicates that are known as such though they do nothing; anything else that does nothing is
/// dropped and counted so.
const KNOWN: &[(CmState, Does)] = &[
    (ReqRcvd, GetsReq),
    (MraRepRcvd, GetsReq),
    (Established, GetsReq),
    (Established, GetsRtu),
    (DreqSent, GetsReq),
    (DreqSent, GetsRtu),
    (DreqRcvd, GetsReq),
    (DreqRcvd, GetsRtu),
    (RepRcvd, GetsRep),
    (DreqSent, GetsRep),
    (DreqRcvd, GetsDreq),
];

/// The peer's message, true in every number.
fn message(state: CmState, brought: &Brought, does: Does) -> Option<[u8; MAD_LEN]> {
    let (local_comm_id, remote_comm_id) = (brought.theirs, brought.ours);
    let (ours, theirs) =
        if brought.passive { (PASSIVE_QPN, ACTIVE_QPN) } else { (ACTIVE_QPN, PASSIVE_QPN) };
    let guid = roce_codec::cm::CaGuid(0xb);
    let mut mad = brought.req;
    let (tid, message) = match does {
        GetsReq if brought.passive => return Some(mad),
        // The active side's REQ, from the peer: a connection of its own.
        GetsReq => return None,
        GetsNewReq => {
            let parsed = Mad::parse(&brought.req).unwrap();
            let Ok(Message::Req(mut req)) = Message::parse(&parsed) else { return None };
            req.local_ca_guid = guid;
            req.local_comm_id = CommunicationId(0x7777);
            req.local_qpn = theirs;
            (req.primary.local_gid, req.primary.remote_gid) =
                (path(1, 2).dst.into(), path(1, 2).src.into());
            Message::Req(req).emit(9, &mut mad).unwrap();
            return Some(mad);
        }
        GetsRep => (
            1,
            Message::Rep(Rep {
                local_comm_id,
                remote_comm_id,
                local_qpn: theirs,
                starting_psn: PASSIVE_PSN,
                local_ca_guid: guid,
                ..Rep::default()
            }),
        ),
        GetsRtu => (1, Message::Rtu(Rtu { local_comm_id, remote_comm_id, private_data: &[] })),
        GetsMra => {
            let message = if brought.passive { MraedMessage::Rep } else { MraedMessage::Req };
            (1, Message::Mra(Mra { local_comm_id, remote_comm_id, message, ..Mra::default() }))
        }
        GetsRej => {
            let (rejected, reason) = (RejectedMessage::Other, RejReason::CONSUMER_REJECT);
            let rej = Rej { local_comm_id, remote_comm_id, rejected, reason, ..Rej::default() };
            (1, Message::Rej(rej))
        }
        GetsDreq => {
            // As long as it has not accepted, the passive side has no queue pair.
            let remote_qpn =
                if [ReqRcvd, MraReqSent].contains(&state) { Qpn::new(0) } else { ours };
            (
                1,
                Message::Dreq(Dreq {
                    local_comm_id,
                    remote_comm_id,
                    remote_qpn,
                    ..Dreq::default()
                }),
            )
        }
        GetsDrep => (1, Message::Drep(Drep { local_comm_id, remote_comm_id, private_data: &[] })),
        _ => return None,
    };
    message.emit(tid, &mut mad).unwrap();
    Some(mad)
}

/// Does it; `None` if it is a call that was refused or a message that makes no sense there.
fn act(state: CmState, brought: &mut Brought, does: Does, now: Instant) -> Option<()> {
    let id = brought.ours;
    let cm = &mut brought.cm;
    match does {
        Accepts => cm.accept(now, id, &Accept::new(PASSIVE_QPN, Psn::new(1))).ok().map(drop),
        IsReady => cm.ready(now, id, &[]).ok(),
        Delays => cm.delay(now, id, Timeout::new(3), &[]).ok(),
        Rejects => cm.reject(now, id, RejReason::CONSUMER_REJECT, &[], &[]).ok(),
        Disconnects => cm.disconnect(now, id, &[]).ok(),
        SeesPacket => cm.communication_established(now, id).ok(),
        _ => {
            let mad = message(state, brought, does)?;
            let before = *brought.cm.counters();
            brought.cm.handle_mad(now, &Mad::parse(&mad).unwrap(), &path(1, 2));
            let counters = brought.cm.counters();
            (counters.acted_on > before.acted_on).then_some(())
        }
    }
}

#[test]
fn every_action_in_every_state() {
    let now = Instant(1_000_000_000);
    let active = [ReqSent, RepWait, RepRcvd, MraRepSent].map(|state| (false, state));
    let passive = [ReqRcvd, MraReqSent, RepSent, MraRepRcvd].map(|state| (true, state));
    let both = [Established, DreqSent, DreqRcvd, Timewait];
    let both = both.into_iter().flat_map(|state| [(false, state), (true, state)]);
    for (passive, state) in active.into_iter().chain(passive).chain(both) {
        for does in ACTIONS {
            let mut brought = brought_to(state, passive, now);
            while brought.cm.poll_transmit(now).is_some() {}
            let own = if passive { PASSIVE_ROWS } else { ACTIVE_ROWS };
            let typed = ROWS.iter().chain(own).find(|row| (row.0, row.1) == (state, does));
            // Before the REP, the active side knows no queue pair of the peer's.
            if does == GetsNewReq && [ReqSent, RepWait].contains(&state) {
                continue;
            }
            let done = act(state, &mut brought, does, now).is_some();
            let cm = &mut brought.cm;
            let after = cm.state(brought.ours);
            let mut sent: Vec<_> = std::iter::from_fn(|| cm.poll_transmit(now))
                .map(|transmit| transmit.attribute.to_string())
                .collect();
            sent.sort();
            let told: Vec<_> = std::iter::from_fn(|| cm.poll_event().map(|e| Told::from(&e)))
                .map(|told| format!("{told:?}").split([' ', '(']).next().unwrap().to_string())
                .collect();
            let (_, _, to, sends, tells) = typed.copied().unwrap_or((state, does, state, "", ""));
            let seen = (after, sent.join(" "), told.join(" "));
            assert_eq!(
                seen,
                (to, sends.to_string(), tells.to_string()),
                "{does:?} in {state}, passive: {passive}"
            );
            // REP comes to the active side, REQ and RTU to the passive one.
            let ours = does == GetsDreq || passive == (does != GetsRep);
            let known = typed.is_some() || ours && KNOWN.contains(&(state, does));
            assert_eq!(done, known, "{does:?} in {state}, passive: {passive}");
        }
    }
}
