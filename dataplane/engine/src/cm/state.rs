//! The states of a connection and the one table of what moves it.

use core::fmt;

/// Where a connection is, by the names of IBTA Vol. 1, 12.9.5 to 12.9.7 and, for datagrams,
/// 12.11. A peer that is itself an active side for the same service ("peer to peer") is not
/// supported, so there is no Peer Compare.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Default)]
#[non_exhaustive]
pub enum CmState {
    /// No connection.
    #[default]
    Idle,
    /// Passive: a service waits for a REQ.
    Listen,
    /// Active: a REQ is out.
    ReqSent,
    /// Active: the peer said by MRA that its REP will take a while.
    RepWait,
    /// Passive: a REQ has come, the consumer has to say.
    ReqRcvd,
    /// Passive: as [`CmState::ReqRcvd`], and the peer was told so by MRA.
    MraReqSent,
    /// Passive: a REP is out.
    RepSent,
    /// Passive: the peer said by MRA that its RTU will take a while.
    MraRepRcvd,
    /// Active: a REP has come, the consumer has to say.
    RepRcvd,
    /// Active: as [`CmState::RepRcvd`], and the peer was told so by MRA.
    MraRepSent,
    /// Both queue pairs may send.
    Established,
    /// A DREQ is out.
    DreqSent,
    /// A DREQ has come, the consumer has to say.
    DreqRcvd,
    /// No connection any more, but packets of it may still be under way.
    Timewait,
    /// Active: a SIDR_REQ is out.
    SidrReqSent,
    /// Passive: a SIDR_REQ has come, the consumer has to say.
    SidrReqRcvd,
}

impl CmState {
    /// A passive connection that is not established: what a listener's backlog bounds.
    pub(super) const fn is_half_open(self) -> bool {
        matches!(
            self,
            Self::ReqRcvd | Self::MraReqSent | Self::RepSent | Self::MraRepRcvd | Self::SidrReqRcvd
        )
    }
}

impl fmt::Display for CmState {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        fmt::Debug::fmt(self, f)
    }
}

/// What happens to a connection.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Input {
    // What the consumer calls.
    Connect,
    Accept,
    Ready,
    Delay,
    Reject,
    Disconnect,
    FirstPacket,
    SidrRequest,
    SidrReply,
    // Messages of the peer's.
    Req,
    /// A REQ from the queue pair we believe to be connected to: the peer has forgotten us.
    StaleReq,
    /// An MRA for the message that is out.
    Mra,
    Rej,
    Rep,
    /// A REP from a queue pair that another connection of ours holds.
    StaleRep,
    Rtu,
    Dreq,
    Drep,
    SidrReq,
    SidrRep,
    // Time.
    Timeout,
    RetriesExhausted,
}

/// What goes out.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Send {
    Nothing,
    /// What was sent last.
    Again,
    /// An answer that the connection does not keep.
    Answer,
    Req,
    Mra,
    Rej,
    Rep,
    Rtu,
    Dreq,
    Drep,
    SidrReq,
    SidrRep,
}

/// What the consumer is told: the kind of a [`CmEvent`](super::CmEvent).
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Tell {
    Nothing,
    ConnectRequest,
    ConnectResponse,
    /// By RTU.
    Established,
    /// By REJ.
    Rejected,
    /// By ourselves, for the REP was stale.
    RefusedStale,
    Unreachable,
    Stale,
    DisconnectRequest,
    /// By DREP.
    Disconnected,
    /// By a DREQ that crossed ours, or because no DREP came.
    DisconnectedAlone,
    TimewaitExit,
    SidrRequest,
    SidrResponse,
}

/// A row of the table.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Transition {
    pub(super) from: CmState,
    pub(super) on: Input,
    pub(super) to: CmState,
    pub(super) send: Send,
    pub(super) tell: Tell,
}

macro_rules! transitions {
    ($($from:ident $on:ident => $to:ident $send:ident $tell:ident;)*) => {
        &[$(Transition {
            from: CmState::$from,
            on: Input::$on,
            to: CmState::$to,
            send: Send::$send,
            tell: Tell::$tell,
        },)*]
    };
}

/// Every transition there is (IBTA Vol. 1, 12.9.5 to 12.9.8 and 12.11). What is not here does
/// not happen: a call is refused, a message dropped.
#[rustfmt::skip]
pub(super) const TRANSITIONS: &[Transition] = transitions! {
    // The active side asks.
    Idle        Connect          => ReqSent     Req     Nothing;
    ReqSent     Timeout          => ReqSent     Again   Nothing;
    ReqSent     RetriesExhausted => Idle        Rej     Unreachable;
    ReqSent     Reject           => Idle        Rej     Nothing;
    ReqSent     Mra              => RepWait     Nothing Nothing;
    ReqSent     Rej              => Idle        Nothing Rejected;
    ReqSent     Rep              => RepRcvd     Nothing ConnectResponse;
    ReqSent     StaleRep         => Idle        Answer  RefusedStale;
    RepWait     Timeout          => ReqSent     Again   Nothing;
    RepWait     RetriesExhausted => Idle        Rej     Unreachable;
    RepWait     Reject           => Idle        Rej     Nothing;
    RepWait     Rej              => Idle        Nothing Rejected;
    RepWait     Rep              => RepRcvd     Nothing ConnectResponse;
    RepWait     StaleRep         => Idle        Answer  RefusedStale;
    RepRcvd     Ready            => Established Rtu     Nothing;
    RepRcvd     Delay            => MraRepSent  Mra     Nothing;
    RepRcvd     Reject           => Idle        Rej     Nothing;
    RepRcvd     Rep              => RepRcvd     Nothing Nothing;
    RepRcvd     Rej              => Timewait    Nothing Rejected;
    MraRepSent  Ready            => Established Rtu     Nothing;
    MraRepSent  Reject           => Idle        Rej     Nothing;
    MraRepSent  Rep              => MraRepSent  Again   Nothing;
    MraRepSent  Rej              => Timewait    Nothing Rejected;

    // The passive side answers.
    Listen      Req              => ReqRcvd     Nothing ConnectRequest;
    ReqRcvd     Req              => ReqRcvd     Nothing Nothing;
    ReqRcvd     Accept           => RepSent     Rep     Nothing;
    ReqRcvd     Delay            => MraReqSent  Mra     Nothing;
    ReqRcvd     Reject           => Idle        Rej     Nothing;
    ReqRcvd     Rej              => Idle        Nothing Rejected;
    MraReqSent  Req              => MraReqSent  Again   Nothing;
    MraReqSent  Accept           => RepSent     Rep     Nothing;
    MraReqSent  Reject           => Idle        Rej     Nothing;
    MraReqSent  Rej              => Idle        Nothing Rejected;
    RepSent     Req              => RepSent     Again   Nothing;
    RepSent     Timeout          => RepSent     Again   Nothing;
    RepSent     RetriesExhausted => Timewait    Rej     Unreachable;
    RepSent     Reject           => Timewait    Rej     Nothing;
    RepSent     Mra              => MraRepRcvd  Nothing Nothing;
    RepSent     Rej              => Timewait    Nothing Rejected;
    RepSent     Rtu              => Established Nothing Established;
    RepSent     FirstPacket      => Established Nothing Nothing;
    RepSent     Dreq             => DreqRcvd    Nothing DisconnectRequest;
    MraRepRcvd  Req              => MraRepRcvd  Nothing Nothing;
    MraRepRcvd  Timeout          => RepSent     Again   Nothing;
    MraRepRcvd  RetriesExhausted => Timewait    Rej     Unreachable;
    MraRepRcvd  Reject           => Timewait    Rej     Nothing;
    MraRepRcvd  Rej              => Timewait    Nothing Rejected;
    MraRepRcvd  Rtu              => Established Nothing Established;
    MraRepRcvd  FirstPacket      => Established Nothing Nothing;
    MraRepRcvd  Dreq             => DreqRcvd    Nothing DisconnectRequest;

    // Both are connected.
    Established Req              => Established Nothing Nothing;
    Established Rep              => Established Again   Nothing;
    Established Rtu              => Established Nothing Nothing;
    Established StaleReq         => DreqSent    Dreq    Stale;
    Established Rej              => Timewait    Nothing Rejected;
    Established Dreq             => DreqRcvd    Nothing DisconnectRequest;
    Established Disconnect       => DreqSent    Dreq    Nothing;

    // Either ends it.
    DreqSent    Req              => DreqSent    Nothing Nothing;
    DreqSent    Rtu              => DreqSent    Nothing Nothing;
    DreqSent    Rep              => DreqSent    Nothing Nothing;
    DreqSent    Timeout          => DreqSent    Again   Nothing;
    DreqSent    RetriesExhausted => Timewait    Nothing DisconnectedAlone;
    DreqSent    Rej              => Timewait    Nothing Rejected;
    DreqSent    Dreq             => Timewait    Drep    DisconnectedAlone;
    DreqSent    Drep             => Timewait    Nothing Disconnected;
    DreqRcvd    Req              => DreqRcvd    Nothing Nothing;
    DreqRcvd    Rtu              => DreqRcvd    Nothing Nothing;
    DreqRcvd    Dreq             => DreqRcvd    Nothing Nothing;
    DreqRcvd    Disconnect       => Timewait    Drep    Nothing;
    Timewait    Req              => Timewait    Answer  Nothing;
    Timewait    Rep              => Timewait    Answer  Nothing;
    Timewait    Dreq             => Timewait    Answer  Nothing;
    Timewait    Timeout          => Idle        Nothing TimewaitExit;

    // Datagram services.
    Idle        SidrRequest      => SidrReqSent SidrReq Nothing;
    SidrReqSent Timeout          => SidrReqSent Again   Nothing;
    SidrReqSent RetriesExhausted => Idle        Nothing Unreachable;
    SidrReqSent Reject           => Idle        Nothing Nothing;
    SidrReqSent SidrRep          => Idle        Nothing SidrResponse;
    Listen      SidrReq          => SidrReqRcvd Nothing SidrRequest;
    SidrReqRcvd SidrReq          => SidrReqRcvd Nothing Nothing;
    SidrReqRcvd SidrReply        => Idle        SidrRep Nothing;
};

/// What an input does in a state, if anything.
pub(super) fn transition(from: CmState, on: Input) -> Option<&'static Transition> {
    TRANSITIONS.iter().find(|row| row.from == from && row.on == on)
}

#[cfg(test)]
mod tests {
    use super::*;

    /// The table as text, to be read and compared by people. To accept a change on purpose:
    /// `CM_SNAPSHOT=1 cargo test -p roce-engine transitions`.
    #[test]
    fn the_transitions_are_those_of_the_snapshot() {
        use std::fmt::Write;

        let mut text = String::new();
        for Transition { from, on, to, send, tell } in TRANSITIONS {
            let row = format!("{from:?}");
            let (on, to) = (format!("{on:?}"), format!("{to:?}"));
            let _ = write!(text, "{row:<11} {on:<16} -> {to:<11}");
            if *send != Send::Nothing {
                let _ = write!(text, " send {send:?}");
            }
            if *tell != Tell::Nothing {
                let _ = write!(text, " tell {tell:?}");
            }
            text.truncate(text.trim_end().len());
            text.push('\n');
        }
        let path = concat!(env!("CARGO_MANIFEST_DIR"), "/tests/cm/transitions.txt");
        if std::env::var_os("CM_SNAPSHOT").is_some() {
            std::fs::write(path, &text).unwrap();
        }
        assert_eq!(text, include_str!("../../tests/cm/transitions.txt"));
    }

    #[test]
    fn an_input_does_one_thing_in_a_state() {
        for (at, row) in TRANSITIONS.iter().enumerate() {
            let again = TRANSITIONS[at + 1..].iter().find(|o| (o.from, o.on) == (row.from, row.on));
            assert_eq!(again, None);
        }
    }

    /// What each state must have, whatever else it has: a state that waits for the peer times out
    /// and gives up, and nothing leaves time-wait but its end.
    #[test]
    fn no_state_waits_for_ever() {
        use CmState::*;
        for state in [ReqSent, RepWait, RepSent, MraRepRcvd, DreqSent, SidrReqSent] {
            assert!(transition(state, Input::Timeout).is_some(), "{state}");
            let end = transition(state, Input::RetriesExhausted).expect("it gives up");
            assert!(matches!(end.to, Idle | Timewait), "{state}");
        }
        for state in [ReqRcvd, MraReqSent, RepRcvd, MraRepSent] {
            assert_eq!(transition(state, Input::Reject).map(|row| row.to), Some(Idle), "{state}");
        }
        let leaves = TRANSITIONS.iter().filter(|row| row.from == Timewait && row.to != Timewait);
        assert_eq!(leaves.map(|row| row.on).collect::<Vec<_>>(), [Input::Timeout]);
    }

    /// Rows that tell by timer or by the consumer's own call can pile up behind one by message:
    /// the event queue of a connection has room for them.
    #[test]
    fn a_connection_has_room_for_its_events() {
        let longest = |from: CmState| {
            let mut state = from;
            let mut told = 0;
            while let Some(row) = transition(state, Input::RetriesExhausted)
                .or_else(|| transition(state, Input::Timeout))
                .filter(|row| row.to != row.from)
            {
                told += usize::from(row.tell != Tell::Nothing);
                state = row.to;
            }
            told
        };
        for row in TRANSITIONS {
            assert!(longest(row.to) < 3, "{row:?}");
        }
    }
}
