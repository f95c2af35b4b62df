//! The states of a queue pair and the one table of how it moves between them: which attributes a
//! transition must be given and which it may be, by libibverbs' names and bits (IBTA 11.2.5.2,
//! `ibv_modify_qp`).

use core::fmt;
use core::ops::BitOr;

use roce_codec::ib::Service;

/// The states of a queue pair (IBTA 10.3.1), by libibverbs' names.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Default)]
pub enum QpState {
    /// Nothing but a number.
    #[default]
    Reset,
    /// Receives may be posted; packets are dropped.
    Init,
    /// Ready to receive: the responder answers.
    Rtr,
    /// Ready to send: the requester sends, too.
    Rts,
    /// Send queue drained: what has been begun is finished, nothing more is begun.
    /// [`Event::SqDrained`](crate::Event::SqDrained) tells when that is so.
    Sqd,
    /// Send queue error, of an unreliable service: a send has failed, those behind it are flushed;
    /// what comes is received still.
    Sqe,
    /// Work requests are flushed, packets dropped.
    Error,
}

impl QpState {
    /// All of them.
    pub const ALL: [Self; 7] =
        [Self::Reset, Self::Init, Self::Rtr, Self::Rts, Self::Sqd, Self::Sqe, Self::Error];

    /// Whether what comes is received.
    #[inline]
    pub(crate) const fn receives(self) -> bool {
        matches!(self, Self::Rtr | Self::Rts | Self::Sqd | Self::Sqe)
    }

    /// Whether the requester is at work, if only to finish what it has begun.
    #[inline]
    pub(crate) const fn sends(self) -> bool {
        matches!(self, Self::Rts | Self::Sqd)
    }

    /// Whether some queue pair may go from this state to `to` by a call to
    /// [`Engine::modify_qp`](crate::Engine::modify_qp).
    #[must_use]
    pub fn may_become(self, to: Self) -> bool {
        transition(self, to).is_some()
    }
}

/// A set of attributes of `modify_qp`, of libibverbs' names and values.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Default)]
pub struct QpAttrMask(pub u32);

impl QpAttrMask {
    /// None.
    pub const NONE: Self = Self(0);
    /// The state one takes it to be in.
    pub const CUR_STATE: Self = Self(1 << 1);
    /// An event when the send queue is drained.
    pub const EN_SQD_ASYNC_NOTIFY: Self = Self(1 << 2);
    /// What the peer may do.
    pub const ACCESS_FLAGS: Self = Self(1 << 3);
    /// Partition.
    pub const PKEY_INDEX: Self = Self(1 << 4);
    /// The port; an engine has one.
    pub const PORT: Self = Self(1 << 5);
    /// Queue key.
    pub const QKEY: Self = Self(1 << 6);
    /// The way to the peer.
    pub const AV: Self = Self(1 << 7);
    /// Path MTU.
    pub const PATH_MTU: Self = Self(1 << 8);
    /// Acknowledge timeout.
    pub const TIMEOUT: Self = Self(1 << 9);
    /// Retries without an answer.
    pub const RETRY_CNT: Self = Self(1 << 10);
    /// Retries after an RNR NAK.
    pub const RNR_RETRY: Self = Self(1 << 11);
    /// The first PSN expected.
    pub const RQ_PSN: Self = Self(1 << 12);
    /// READs and atomics outstanding.
    pub const MAX_QP_RD_ATOMIC: Self = Self(1 << 13);
    /// Another path; not supported.
    pub const ALT_PATH: Self = Self(1 << 14);
    /// What the peer is told to wait.
    pub const MIN_RNR_TIMER: Self = Self(1 << 15);
    /// The first PSN sent.
    pub const SQ_PSN: Self = Self(1 << 16);
    /// READs and atomics kept.
    pub const MAX_DEST_RD_ATOMIC: Self = Self(1 << 17);
    /// State of the migration to another path; not supported.
    pub const PATH_MIG_STATE: Self = Self(1 << 18);
    /// The peer's queue pair.
    pub const DEST_QPN: Self = Self(1 << 20);

    const NAMES: [(Self, &'static str); 19] = [
        (Self::CUR_STATE, "CUR_STATE"),
        (Self::EN_SQD_ASYNC_NOTIFY, "EN_SQD_ASYNC_NOTIFY"),
        (Self::ACCESS_FLAGS, "ACCESS_FLAGS"),
        (Self::PKEY_INDEX, "PKEY_INDEX"),
        (Self::PORT, "PORT"),
        (Self::QKEY, "QKEY"),
        (Self::AV, "AV"),
        (Self::PATH_MTU, "PATH_MTU"),
        (Self::TIMEOUT, "TIMEOUT"),
        (Self::RETRY_CNT, "RETRY_CNT"),
        (Self::RNR_RETRY, "RNR_RETRY"),
        (Self::RQ_PSN, "RQ_PSN"),
        (Self::MAX_QP_RD_ATOMIC, "MAX_QP_RD_ATOMIC"),
        (Self::ALT_PATH, "ALT_PATH"),
        (Self::MIN_RNR_TIMER, "MIN_RNR_TIMER"),
        (Self::SQ_PSN, "SQ_PSN"),
        (Self::MAX_DEST_RD_ATOMIC, "MAX_DEST_RD_ATOMIC"),
        (Self::PATH_MIG_STATE, "PATH_MIG_STATE"),
        (Self::DEST_QPN, "DEST_QPN"),
    ];

    /// Whether there are none.
    #[must_use]
    pub const fn is_empty(self) -> bool {
        self.0 == 0
    }

    /// Those that `other` does not have.
    #[must_use]
    pub const fn without(self, other: Self) -> Self {
        Self(self.0 & !other.0)
    }

    const fn and(self, other: Self) -> Self {
        Self(self.0 | other.0)
    }
}

impl BitOr for QpAttrMask {
    type Output = Self;

    fn bitor(self, other: Self) -> Self {
        self.and(other)
    }
}

impl fmt::Display for QpAttrMask {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let mut separator = "";
        for (attribute, name) in &Self::NAMES {
            if self.0 & attribute.0 != 0 {
                write!(f, "{separator}{name}")?;
                separator = " ";
            }
        }
        if self.is_empty() { f.write_str("-") } else { Ok(()) }
    }
}

impl fmt::Debug for QpAttrMask {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "QpAttrMask({self})")
    }
}

/// What kinds of queue pair the table tells apart.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum QpKind {
    /// Reliable connection.
    Rc,
    /// Unreliable connection.
    Uc,
    /// Datagrams.
    Ud,
    /// Queue pair 1.
    Gsi,
}

impl QpKind {
    /// All of them.
    pub const ALL: [Self; 4] = [Self::Rc, Self::Uc, Self::Ud, Self::Gsi];

    pub(crate) const fn new(service: Service, gsi: bool) -> Self {
        match service {
            Service::Uc => Self::Uc,
            Service::Ud if gsi => Self::Gsi,
            Service::Ud => Self::Ud,
            _ => Self::Rc,
        }
    }
}

/// A row of the table: attributes by kind, in the order of [`QpKind::ALL`].
#[derive(Debug)]
pub struct QpTransition {
    from: QpState,
    to: QpState,
    required: [QpAttrMask; 4],
    optional: [QpAttrMask; 4],
}

impl QpTransition {
    const fn new(from: QpState, to: QpState) -> Self {
        Self { from, to, required: [QpAttrMask::NONE; 4], optional: [QpAttrMask::NONE; 4] }
    }

    const fn requires(self, required: [QpAttrMask; 4]) -> Self {
        Self { required, ..self }
    }

    const fn allows(self, optional: [QpAttrMask; 4]) -> Self {
        Self { optional, ..self }
    }

    /// What must be given.
    #[must_use]
    pub const fn required(&self, kind: QpKind) -> QpAttrMask {
        self.required[kind as usize & 3]
    }

    /// What may be given, too.
    #[must_use]
    pub const fn optional(&self, kind: QpKind) -> QpAttrMask {
        self.optional[kind as usize & 3]
    }
}

/// The row of a transition; `None` if there is no such transition.
#[must_use]
pub fn transition(from: QpState, to: QpState) -> Option<&'static QpTransition> {
    TABLE.iter().find(|row| row.from == from && row.to == to)
}

use QpAttrMask as A;
use QpState::{Error, Init, Reset, Rtr, Rts, Sqd, Sqe};

const PARTITION: A = A::PKEY_INDEX.and(A::PORT);
const CONNECTED_INIT: A = PARTITION.and(A::ACCESS_FLAGS);
const DATAGRAM: A = A::PKEY_INDEX.and(A::QKEY);
const CONNECT: A = A::AV.and(A::PATH_MTU).and(A::DEST_QPN).and(A::RQ_PSN);
const RETRIES: A = A::TIMEOUT.and(A::RETRY_CNT).and(A::RNR_RETRY).and(A::MAX_QP_RD_ATOMIC);
const ACCESS_PARTITION: A = A::ALT_PATH.and(A::ACCESS_FLAGS).and(A::PKEY_INDEX);
const LIVE_UD: A = A::CUR_STATE.and(A::QKEY);
const LIVE_UC: A = A::CUR_STATE.and(A::ALT_PATH).and(A::ACCESS_FLAGS).and(A::PATH_MIG_STATE);
const LIVE_RC: A = LIVE_UC.and(A::MIN_RNR_TIMER);
const LIVE: [A; 4] = [LIVE_RC, LIVE_UC, LIVE_UD, LIVE_UD];
const DRAINED_UC: A = A::AV.and(ACCESS_PARTITION).and(A::PATH_MIG_STATE);
const DRAINED_RC: A =
    DRAINED_UC.and(A::PORT).and(RETRIES).and(A::MAX_DEST_RD_ATOMIC).and(A::MIN_RNR_TIMER);

/// Every transition that a caller may ask for. Those into SQE, and into ERR by an error, come by
/// themselves.
static TABLE: [QpTransition; 23] = [
    QpTransition::new(Reset, Reset),
    QpTransition::new(Init, Reset),
    QpTransition::new(Rtr, Reset),
    QpTransition::new(Rts, Reset),
    QpTransition::new(Sqd, Reset),
    QpTransition::new(Sqe, Reset),
    QpTransition::new(Error, Reset),
    QpTransition::new(Reset, Error),
    QpTransition::new(Init, Error),
    QpTransition::new(Rtr, Error),
    QpTransition::new(Rts, Error),
    QpTransition::new(Sqd, Error),
    QpTransition::new(Sqe, Error),
    QpTransition::new(Error, Error),
    QpTransition::new(Reset, Init).requires([
        CONNECTED_INIT,
        CONNECTED_INIT,
        PARTITION.and(A::QKEY),
        DATAGRAM,
    ]),
    QpTransition::new(Init, Init).allows([
        CONNECTED_INIT,
        CONNECTED_INIT,
        PARTITION.and(A::QKEY),
        DATAGRAM,
    ]),
    QpTransition::new(Init, Rtr)
        .requires([
            CONNECT.and(A::MAX_DEST_RD_ATOMIC).and(A::MIN_RNR_TIMER),
            CONNECT,
            A::NONE,
            A::NONE,
        ])
        .allows([ACCESS_PARTITION, ACCESS_PARTITION, DATAGRAM, DATAGRAM]),
    QpTransition::new(Rtr, Rts)
        .requires([RETRIES.and(A::SQ_PSN), A::SQ_PSN, A::SQ_PSN, A::SQ_PSN])
        .allows(LIVE),
    QpTransition::new(Rts, Rts).allows(LIVE),
    QpTransition::new(Rts, Sqd).allows([A::EN_SQD_ASYNC_NOTIFY; 4]),
    QpTransition::new(Sqd, Rts).allows(LIVE),
    QpTransition::new(Sqd, Sqd).allows([DRAINED_RC, DRAINED_UC, DATAGRAM, DATAGRAM]),
    QpTransition::new(Sqe, Rts).allows([
        A::NONE,
        A::CUR_STATE.and(A::ACCESS_FLAGS),
        LIVE_UD,
        LIVE_UD,
    ]),
];
