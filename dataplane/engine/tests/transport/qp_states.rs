//! How a queue pair moves between its states (IBTA 10.3.1): the one table, and what it makes the
//! engine do.

use std::collections::BTreeSet;

use roce_codec::ib::{PKey, Psn, QKey, Qpn, RnrTimer, Service};
use roce_engine::{
    Access, Event, ModifyQp, QpAttrMask as A, QpError, QpInit, QpKind, QpState, RtrAttr, RtsAttr,
    SendWr, WcStatus, WrOpcode, transition,
};

use crate::host::{Host, Setup};
use crate::lone::{Lone, PEER_QPN};
use crate::packet::Packet;

/// Attributes by their names, as `ibv_modify_qp`'s manual page writes them.
fn named(names: &str) -> A {
    names.split_whitespace().fold(A::NONE, |mask, name| {
        mask | match name {
            "CUR_STATE" => A::CUR_STATE,
            "EN_SQD_ASYNC_NOTIFY" => A::EN_SQD_ASYNC_NOTIFY,
            "ACCESS_FLAGS" => A::ACCESS_FLAGS,
            "PKEY_INDEX" => A::PKEY_INDEX,
            "PORT" => A::PORT,
            "QKEY" => A::QKEY,
            "AV" => A::AV,
            "PATH_MTU" => A::PATH_MTU,
            "TIMEOUT" => A::TIMEOUT,
            "RETRY_CNT" => A::RETRY_CNT,
            "RNR_RETRY" => A::RNR_RETRY,
            "RQ_PSN" => A::RQ_PSN,
            "MAX_QP_RD_ATOMIC" => A::MAX_QP_RD_ATOMIC,
            "ALT_PATH" => A::ALT_PATH,
            "MIN_RNR_TIMER" => A::MIN_RNR_TIMER,
            "SQ_PSN" => A::SQ_PSN,
            "MAX_DEST_RD_ATOMIC" => A::MAX_DEST_RD_ATOMIC,
            "PATH_MIG_STATE" => A::PATH_MIG_STATE,
            "DEST_QPN" => A::DEST_QPN,
            _ => panic!("{name}"),
        }
    })
}

use QpKind::{Gsi, Rc, Uc, Ud};
use QpState::{Error, Init, Reset, Rtr, Rts, Sqd, Sqe};

/// What must be given, typed from the manual page of `ibv_modify_qp`; queue pair 1 from IBTA
/// 11.2.5.2 (it has no port of its own to be given).
const REQUIRED: &[(QpKind, QpState, QpState, &str)] = &[
    (Rc, Reset, Init, "PKEY_INDEX PORT ACCESS_FLAGS"),
    (Rc, Init, Rtr, "AV PATH_MTU DEST_QPN RQ_PSN MAX_DEST_RD_ATOMIC MIN_RNR_TIMER"),
    (Rc, Rtr, Rts, "SQ_PSN MAX_QP_RD_ATOMIC RETRY_CNT RNR_RETRY TIMEOUT"),
    (Uc, Reset, Init, "PKEY_INDEX PORT ACCESS_FLAGS"),
    (Uc, Init, Rtr, "AV PATH_MTU DEST_QPN RQ_PSN"),
    (Uc, Rtr, Rts, "SQ_PSN"),
    (Ud, Reset, Init, "PKEY_INDEX PORT QKEY"),
    (Ud, Rtr, Rts, "SQ_PSN"),
    (Gsi, Reset, Init, "PKEY_INDEX QKEY"),
    (Gsi, Rtr, Rts, "SQ_PSN"),
];

/// What may be given, too, typed from the tables of IBTA 11.2.5.2 (Table 91 and those behind it).
const OPTIONAL: &[(QpKind, QpState, QpState, &str)] = &[
    (Rc, Init, Init, "PKEY_INDEX PORT ACCESS_FLAGS"),
    (Rc, Init, Rtr, "ALT_PATH ACCESS_FLAGS PKEY_INDEX"),
    (Rc, Rtr, Rts, "CUR_STATE ALT_PATH ACCESS_FLAGS MIN_RNR_TIMER PATH_MIG_STATE"),
    (Rc, Rts, Rts, "CUR_STATE ALT_PATH ACCESS_FLAGS MIN_RNR_TIMER PATH_MIG_STATE"),
    (Rc, Rts, Sqd, "EN_SQD_ASYNC_NOTIFY"),
    (Rc, Sqd, Rts, "CUR_STATE ALT_PATH ACCESS_FLAGS MIN_RNR_TIMER PATH_MIG_STATE"),
    (
        Rc,
        Sqd,
        Sqd,
        "PORT AV TIMEOUT RETRY_CNT RNR_RETRY MAX_QP_RD_ATOMIC MAX_DEST_RD_ATOMIC ALT_PATH \
         ACCESS_FLAGS PKEY_INDEX MIN_RNR_TIMER PATH_MIG_STATE",
    ),
    (Uc, Init, Init, "PKEY_INDEX PORT ACCESS_FLAGS"),
    (Uc, Init, Rtr, "ALT_PATH ACCESS_FLAGS PKEY_INDEX"),
    (Uc, Rtr, Rts, "CUR_STATE ALT_PATH ACCESS_FLAGS PATH_MIG_STATE"),
    (Uc, Rts, Rts, "CUR_STATE ALT_PATH ACCESS_FLAGS PATH_MIG_STATE"),
    (Uc, Rts, Sqd, "EN_SQD_ASYNC_NOTIFY"),
    (Uc, Sqd, Rts, "CUR_STATE ALT_PATH ACCESS_FLAGS PATH_MIG_STATE"),
    (Uc, Sqd, Sqd, "AV ALT_PATH ACCESS_FLAGS PKEY_INDEX PATH_MIG_STATE"),
    (Uc, Sqe, Rts, "CUR_STATE ACCESS_FLAGS"),
    (Ud, Init, Init, "PKEY_INDEX PORT QKEY"),
    (Ud, Init, Rtr, "PKEY_INDEX QKEY"),
    (Ud, Rtr, Rts, "CUR_STATE QKEY"),
    (Ud, Rts, Rts, "CUR_STATE QKEY"),
    (Ud, Rts, Sqd, "EN_SQD_ASYNC_NOTIFY"),
    (Ud, Sqd, Rts, "CUR_STATE QKEY"),
    (Ud, Sqd, Sqd, "PKEY_INDEX QKEY"),
    (Ud, Sqe, Rts, "CUR_STATE QKEY"),
    (Gsi, Init, Init, "PKEY_INDEX QKEY"),
    (Gsi, Init, Rtr, "PKEY_INDEX QKEY"),
    (Gsi, Rtr, Rts, "CUR_STATE QKEY"),
    (Gsi, Rts, Rts, "CUR_STATE QKEY"),
    (Gsi, Rts, Sqd, "EN_SQD_ASYNC_NOTIFY"),
    (Gsi, Sqd, Rts, "CUR_STATE QKEY"),
    (Gsi, Sqd, Sqd, "PKEY_INDEX QKEY"),
    (Gsi, Sqe, Rts, "CUR_STATE QKEY"),
];

#[test]
fn the_attributes_are_libibverbs() {
    let find = |table: &[(QpKind, QpState, QpState, &str)], kind, from, to| {
        table
            .iter()
            .find(|row| (row.0, row.1, row.2) == (kind, from, to))
            .map_or(A::NONE, |row| named(row.3))
    };
    for kind in QpKind::ALL {
        for from in QpState::ALL {
            for to in QpState::ALL {
                let Some(row) = transition(from, to) else { continue };
                let what = format!("{kind:?} {from:?} to {to:?}");
                assert_eq!(row.required(kind), find(REQUIRED, kind, from, to), "{what}");
                assert_eq!(row.optional(kind), find(OPTIONAL, kind, from, to), "{what}");
            }
        }
    }
}

/// The transitions that a caller may ask for, typed from the figure of IBTA 10.3.1.
#[test]
fn the_transitions() {
    let table = [
        // to: Reset  Init   Rtr    Rts    Sqd    Sqe    Error
        (Reset, [true, true, false, false, false, false, true]),
        (Init, [true, true, true, false, false, false, true]),
        (Rtr, [true, false, false, true, false, false, true]),
        (Rts, [true, false, false, true, true, false, true]),
        (Sqd, [true, false, false, true, true, false, true]),
        (Sqe, [true, false, false, true, false, false, true]),
        (Error, [true, false, false, false, false, false, true]),
    ];
    for (from, row) in table {
        for (to, legal) in QpState::ALL.into_iter().zip(row) {
            assert_eq!(from.may_become(to), legal, "{from:?} to {to:?}");
        }
    }
}

/// The table as text, so that a change of it is seen. `UPDATE_SNAPSHOTS=1` writes it anew.
#[test]
fn the_table_is_as_written_down() {
    let mut text = String::new();
    for from in QpState::ALL {
        for to in QpState::ALL {
            let Some(row) = transition(from, to) else { continue };
            for kind in QpKind::ALL {
                let (required, optional) = (row.required(kind), row.optional(kind));
                let line =
                    format!("{from:?} {to:?} {kind:?} required {required} optional {optional}\n");
                text.push_str(&line);
            }
        }
    }
    let path = concat!(env!("CARGO_MANIFEST_DIR"), "/tests/transport/qp_states.txt");
    if std::env::var_os("UPDATE_SNAPSHOTS").is_some() {
        std::fs::write(path, &text).unwrap();
    }
    assert_eq!(std::fs::read_to_string(path).unwrap(), text);
}

fn rtr(setup: &Setup) -> RtrAttr {
    let [src, dst] = setup.addresses();
    RtrAttr {
        path: roce_engine::Path { src, dst, ..roce_engine::Path::EMPTY },
        path_mtu: setup.path_mtu,
        dest_qpn: PEER_QPN,
        rq_psn: Psn::new(1),
        max_dest_rd_atomic: 1,
        min_rnr_timer: RnrTimer::new(1),
    }
}

const RTS: RtsAttr =
    RtsAttr { sq_psn: Psn::new(5), timeout: 14, retry_cnt: 3, rnr_retry: 3, max_rd_atomic: 1 };

/// Every change in every state of every kind of queue pair: taken exactly where the tables above
/// have it so, and what is refused changes nothing.
#[test]
fn every_change_in_every_state() {
    let setup = Setup::DEFAULT;
    let pkey = PKey::DEFAULT;
    let connect = named("AV PATH_MTU DEST_QPN RQ_PSN");
    let reads = named("MAX_DEST_RD_ATOMIC MIN_RNR_TIMER");
    let retries = named("TIMEOUT RETRY_CNT RNR_RETRY MAX_QP_RD_ATOMIC");
    let mut taken = BTreeSet::new();
    for kind in QpKind::ALL {
        let port = if kind == Gsi { A::NONE } else { A::PORT };
        let (rtr_mask, rts_mask) = match kind {
            Rc => (connect | reads, A::SQ_PSN | retries),
            _ => (connect, A::SQ_PSN),
        };
        let changes = [
            (ModifyQp::Reset, Some(Reset), A::NONE),
            (
                ModifyQp::Init { pkey, access: Access::NONE },
                Some(Init),
                named("PKEY_INDEX PORT ACCESS_FLAGS"),
            ),
            (ModifyQp::InitUd { pkey, qkey: QKey(1) }, Some(Init), named("PKEY_INDEX QKEY") | port),
            (ModifyQp::Rtr(rtr(&setup)), Some(Rtr), rtr_mask),
            (ModifyQp::RtrUd, Some(Rtr), A::NONE),
            (ModifyQp::Rts(RTS), Some(Rts), rts_mask),
            (ModifyQp::RtsUd { sq_psn: Psn::new(5) }, Some(Rts), A::SQ_PSN),
            (ModifyQp::Resume, Some(Rts), A::NONE),
            (ModifyQp::Sqd, Some(Sqd), A::EN_SQD_ASYNC_NOTIFY),
            (ModifyQp::Retries(RTS), Some(Sqd), retries),
            (ModifyQp::Access(Access::ALL), None, A::ACCESS_FLAGS),
            (ModifyQp::QKey(QKey(2)), None, A::QKEY),
            (ModifyQp::Error, Some(Error), A::NONE),
        ];
        for from in QpState::ALL.into_iter().filter(|state| *state != Sqe) {
            for (change, to, given) in &changes {
                let to = to.unwrap_or(from);
                let mut host = Host::new(&setup);
                let qp = in_state(&mut host, kind, from);
                let result = host.engine.modify_qp(qp, change);
                let expect = match transition(from, to) {
                    None => Err(QpError::Transition { from, to }),
                    Some(row) => {
                        let (required, optional) = (row.required(kind), row.optional(kind));
                        let missing = required.without(*given);
                        let excess = given.without(required | optional);
                        if missing.is_empty() && excess.is_empty() {
                            Ok(())
                        } else {
                            Err(QpError::Attributes { missing, excess })
                        }
                    }
                };
                assert_eq!(result, expect, "{kind:?} in {from:?}: {change:?}");
                let state = host.engine.query_qp(qp).unwrap().state;
                assert_eq!(state, if result.is_ok() { to } else { from });
                if result.is_ok() {
                    taken.insert(format!("{kind:?} {from:?} {to:?}"));
                }
            }
        }
    }
    // Of each kind, all transitions that start elsewhere than in SQE.
    assert_eq!(taken.len(), 4 * 20, "{taken:?}");
}

/// A queue pair of a kind, brought into a state by the changes that are its own.
fn in_state(host: &mut Host, kind: QpKind, state: QpState) -> Qpn {
    let setup = Setup::DEFAULT;
    let service = match kind {
        Rc => Service::Rc,
        Uc => Service::Uc,
        Ud | Gsi => Service::Ud,
    };
    let init = QpInit::new(service, host.pd, host.cq, host.recv_cq);
    let qp = match kind {
        Gsi => host.engine.create_gsi_qp(&init, &mut host.entropy),
        _ => host.engine.create_qp(&init, &mut host.entropy),
    }
    .unwrap();
    let pkey = PKey::DEFAULT;
    let changes = match kind {
        Rc | Uc => [
            ModifyQp::Init { pkey, access: Access::NONE },
            ModifyQp::Rtr(rtr(&setup)),
            ModifyQp::Rts(RTS),
            ModifyQp::Sqd,
        ],
        Ud | Gsi => [
            ModifyQp::InitUd { pkey, qkey: QKey(1) },
            ModifyQp::RtrUd,
            ModifyQp::RtsUd { sq_psn: Psn::new(5) },
            ModifyQp::Sqd,
        ],
    };
    let steps = match state {
        Reset => 0,
        Init => 1,
        Rtr => 2,
        Rts => 3,
        Sqd => 4,
        _ => {
            host.engine.modify_qp(qp, &ModifyQp::Error).unwrap();
            0
        }
    };
    for change in changes.iter().take(steps) {
        host.engine.modify_qp(qp, change).unwrap();
    }
    qp
}

/// What has been begun is finished, sent again if need be; nothing more is begun; then, and once,
/// it is told. Back in RTS, the rest goes.
#[test]
fn a_send_queue_drains() {
    let mut lone = Lone::new();
    let write = WrOpcode::RdmaWrite { va: 0, rkey: roce_codec::ib::RKey(1) };
    let sge = lone.host.sge(0, 2000);
    lone.host.post(1, write, sge);
    lone.host.post(2, write, sge);
    assert!(lone.sends_one().is_some());
    let qp = lone.host.qp;
    lone.host.engine.modify_qp(qp, &ModifyQp::Sqd).unwrap();
    assert_eq!(lone.sends().len(), 1, "the rest of the message that was begun");
    assert_eq!(lone.host.events(), []);
    lone.wait(100_000_000);
    assert_eq!(lone.sends().len(), 2, "and again, unanswered");
    lone.host.post(3, write, sge);
    assert_eq!(lone.sends(), []);
    lone.receives(Packet::ack(5001, 1));
    assert_eq!(lone.host.events(), [Event::SqDrained(qp)]);
    assert_eq!(lone.sends(), []);
    let done: Vec<_> = lone.host.sent().iter().map(|wc| (wc.wr_id, wc.status)).collect();
    assert_eq!(done, [(1, WcStatus::Success)]);
    lone.host.engine.modify_qp(qp, &ModifyQp::Retries(RTS)).unwrap();
    lone.host.engine.modify_qp(qp, &ModifyQp::Resume).unwrap();
    assert_eq!(lone.sends().len(), 4);
    assert_eq!(lone.host.events(), []);
    // Again, with nothing begun: at once.
    lone.receives(Packet::ack(5005, 3));
    lone.host.engine.modify_qp(qp, &ModifyQp::Sqd).unwrap();
    assert_eq!(lone.host.events(), [Event::SqDrained(qp)]);
}

/// An unreliable queue pair is drained when what was begun is out.
#[test]
fn an_unreliable_send_queue_drains() {
    let mut lone = Lone::with(Setup { service: Service::Uc, ..Setup::DEFAULT });
    let qp = lone.host.qp;
    let sge = lone.host.sge(0, 2000);
    lone.host.post(1, WrOpcode::Send, sge);
    lone.host.post(2, WrOpcode::Send, sge);
    assert!(lone.sends_one().is_some());
    lone.host.engine.modify_qp(qp, &ModifyQp::Sqd).unwrap();
    assert_eq!(lone.host.events(), []);
    assert_eq!(lone.sends().len(), 1);
    assert_eq!(lone.host.events(), [Event::SqDrained(qp)]);
    assert_eq!(lone.host.sent().len(), 1);
    let sges = [sge];
    lone.host.engine.post_send(qp, &SendWr::new(3, WrOpcode::Send, &sges)).unwrap();
    assert_eq!(lone.sends(), []);
    lone.host.engine.modify_qp(qp, &ModifyQp::Resume).unwrap();
    assert_eq!(lone.sends().len(), 4);
}

/// The responder goes on while the send queue drains.
#[test]
fn a_drained_queue_pair_answers() {
    let mut lone = Lone::new();
    lone.host.engine.modify_qp(lone.host.qp, &ModifyQp::Sqd).unwrap();
    let rkey = lone.rkey();
    let write = Packet::new(roce_codec::ib::Opcode::RC_RDMA_WRITE_ONLY, 100)
        .reth(crate::host::VA, rkey, 4)
        .payload(&[1; 4])
        .ask();
    assert_eq!(lone.answers(write), [Packet::ack(100, 1)]);
}
