//! One client of any service, as its host sees it: what is passed on to it, and what it says of
//! itself.
//!
//! A host keeps its sessions in a table. A completion finds its session again by [`session_of`],
//! an event by [`Session::owns`]; time is asked for by [`Session::poll_timeout`]. Some services
//! begin over TCP: as long as [`Session::next_len`] is not 0, the host reads as many bytes and
//! passes them to [`Session::handle_message`].

use core::fmt;

use heapless::Vec;
use roce_codec::ib::{PathMtu, Qpn};
use roce_engine::{Event, Instant, Wc};

use super::memory::SharedRegion;
use super::{Context, Platform, perftest, pingpong};

/// The longest message over TCP, of any service.
pub const MAX_MESSAGE_LEN: usize = perftest::MAX_MESSAGE_LEN;

/// An answer over TCP, to be sent in one piece.
pub type Reply = Vec<u8, { perftest::MAX_REPLY_LEN }>;

/// What a message over TCP has brought about.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Progress {
    /// The exchange goes on.
    Continues,
    /// The client starts its run once it has the answer.
    Started,
    /// The client has finished its run, and takes only one more answer.
    Finished,
    /// The exchange is over, and so is the session.
    Over,
}

/// The id of a session's work request: the session in the upper half, what the session makes of
/// the lower one below.
#[must_use]
pub const fn wr_id(session: u32, low: u32) -> u64 {
    (session as u64) << 32 | low as u64
}

/// The session that a work request's id belongs to.
#[must_use]
pub fn session_of(wr_id: u64) -> u32 {
    u32::try_from(wr_id >> 32).unwrap_or(0)
}

/// What the session made of the id's lower half.
#[must_use]
pub const fn low_of(wr_id: u64) -> u32 {
    #[expect(clippy::cast_possible_truncation, reason = "the lower half is wanted")]
    let low = wr_id as u32;
    low
}

/// Why a session ended before its time.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[non_exhaustive]
pub enum SessionError {
    /// One of perftest.
    Perftest(perftest::SessionError),
    /// One of pingpong.
    Pingpong(pingpong::SessionError),
}

impl fmt::Display for SessionError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Perftest(error) => error.fmt(f),
            Self::Pingpong(error) => error.fmt(f),
        }
    }
}

impl core::error::Error for SessionError {}

impl From<perftest::SessionError> for SessionError {
    fn from(error: perftest::SessionError) -> Self {
        Self::Perftest(error)
    }
}

impl From<pingpong::SessionError> for SessionError {
    fn from(error: pingpong::SessionError) -> Self {
        Self::Pingpong(error)
    }
}

/// One client's session. End it with [`Session::close`], whatever has happened.
#[derive(Debug)]
#[non_exhaustive]
#[expect(clippy::large_enum_variant, reason = "a host's table has room for the largest anyway")]
pub enum Session {
    /// Of perftest.
    Perftest(perftest::Session),
    /// Of pingpong.
    Pingpong(pingpong::Session),
}

/// The same for each kind of session.
macro_rules! each {
    ($self:expr, $session:ident => $what:expr) => {
        match $self {
            Session::Perftest($session) => $what,
            Session::Pingpong($session) => $what,
        }
    };
}

impl Session {
    /// Its id, which is in the upper half of its work requests' ids.
    #[must_use]
    pub const fn id(&self) -> u32 {
        each!(self, session => session.id())
    }

    /// Whether a queue pair is its own.
    #[must_use]
    pub fn owns(&self, qpn: Qpn) -> bool {
        each!(self, session => session.owns(qpn))
    }

    /// Bytes of the client's next message over TCP, at most [`MAX_MESSAGE_LEN`].
    #[must_use]
    pub const fn next_len(&self) -> usize {
        each!(self, session => session.next_len())
    }

    /// Whether it is over without an end over TCP.
    #[must_use]
    pub const fn is_over(&self) -> bool {
        match self {
            Self::Perftest(_) => false,
            Self::Pingpong(session) => session.is_over(),
        }
    }

    /// Whether the end of the client's TCP connection is its end.
    #[must_use]
    pub fn ends_with_connection(&self) -> bool {
        match self {
            Self::Perftest(_) => true,
            Self::Pingpong(session) => !session.is_running(),
        }
    }

    /// Whether the client may close its TCP connection now without having failed.
    #[must_use]
    pub fn may_end(&self) -> bool {
        each!(self, session => session.may_end())
    }

    /// Whether the client is running: it may be silent over TCP for as long as that takes.
    #[must_use]
    pub fn is_running(&self) -> bool {
        each!(self, session => session.is_running())
    }

    /// Takes the next message over TCP, which is [`Session::next_len`] bytes long, and appends
    /// the answer, if there is one, to `reply`.
    ///
    /// # Errors
    /// [`SessionError`]: close the session and the connection.
    pub fn handle_message<P: Platform>(
        &mut self,
        bytes: &[u8],
        reply: &mut Reply,
        context: &mut Context<'_, '_, P>,
    ) -> Result<Progress, SessionError> {
        each!(self, session => Ok(session.handle_message(bytes, reply, context)?))
    }

    /// Takes a completion whose `wr_id` is one of this client's.
    ///
    /// # Errors
    /// [`SessionError`]: close the session and the connection.
    pub fn handle_completion<P: Platform>(
        &mut self,
        wc: &Wc,
        context: &mut Context<'_, '_, P>,
    ) -> Result<(), SessionError> {
        each!(self, session => Ok(session.handle_completion(wc, context)?))
    }

    /// Takes an event about a queue pair of this client's.
    ///
    /// # Errors
    /// [`SessionError`]: close the session and the connection.
    pub fn handle_event<P: Platform>(
        &mut self,
        event: &Event,
        context: &mut Context<'_, '_, P>,
    ) -> Result<(), SessionError> {
        match self {
            Self::Perftest(session) => session.handle_event(event, context)?,
            Self::Pingpong(session) => session.handle_event(event)?,
        }
        Ok(())
    }

    /// When [`Session::handle_timeout`] is due.
    #[must_use]
    pub fn poll_timeout(&self) -> Option<Instant> {
        each!(self, session => session.poll_timeout())
    }

    /// Does what has waited for its time.
    ///
    /// # Errors
    /// [`SessionError`]: close the session and the connection.
    pub fn handle_timeout<P: Platform>(
        &mut self,
        context: &mut Context<'_, '_, P>,
    ) -> Result<(), SessionError> {
        match self {
            Self::Perftest(session) => session.handle_timeout(context)?,
            Self::Pingpong(session) => session.handle_timeout(context),
        }
        Ok(())
    }

    /// The path MTU that it uses, and the one that the client would have used.
    #[must_use]
    pub const fn path_mtus(&self) -> [PathMtu; 2] {
        match self {
            Self::Perftest(session) => [session.path_mtu(), session.asked_path_mtu()],
            Self::Pingpong(session) => [session.path_mtu(); 2],
        }
    }

    /// Messages it has received or answered, where it sees them.
    #[must_use]
    pub const fn messages(&self) -> u64 {
        each!(self, session => session.messages())
    }

    /// Iterations that the client reports, where it does.
    #[must_use]
    pub const fn reported_iterations(&self) -> Option<u64> {
        match self {
            Self::Perftest(session) => session.reported_iterations(),
            Self::Pingpong(_) => None,
        }
    }

    /// Its queue pairs with the memory behind them.
    pub fn regions(&self) -> impl Iterator<Item = SharedRegion> {
        let (perftest, pingpong) = match self {
            Self::Perftest(session) => (Some(session.regions()), None),
            Self::Pingpong(session) => (None, Some(session.regions())),
        };
        perftest.into_iter().flatten().chain(pingpong.into_iter().flatten())
    }

    /// Destroys its queue pairs and takes its memory back.
    pub fn close<P: Platform>(self, context: &mut Context<'_, '_, P>) {
        each!(self, session => session.close(context));
    }
}
