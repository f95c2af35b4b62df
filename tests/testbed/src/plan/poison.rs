//! Requests that fail.

use roce_engine::{Access, WcStatus};

use super::{Kind, Side};
use crate::random::Random;

/// Why a request cannot succeed.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Poison {
    /// A key that opens nothing there: nobody's, of another domain or queue pair, of a window
    /// that is closed, elsewhere, or not for that.
    Key,
    /// A key that an earlier request has taken away.
    Invalidated,
    /// A range that leaves the region by a byte.
    Range,
    /// An atomic that is not aligned.
    Misaligned,
    /// The receive is a byte too short.
    ShortReceive,
    /// The peer's queue pair does not allow it.
    Denied,
    /// The requester's own memory goes away.
    Local,
    /// What is bound may not be, or the key may not be taken away.
    Window,
}

impl Poison {
    /// How the request ends.
    #[must_use]
    pub const fn status(self) -> WcStatus {
        match self {
            Self::Key | Self::Range | Self::Invalidated => WcStatus::RemoteAccess,
            Self::Misaligned | Self::ShortReceive | Self::Denied => WcStatus::RemoteInvalidRequest,
            Self::Local => WcStatus::LocalProtection,
            Self::Window => WcStatus::MwBind,
        }
    }
}

/// Makes one request of a side's fail.
pub(super) fn draw(random: &mut Random, side: &mut Side, peer: &mut Side) {
    if side.requests.is_empty() {
        return;
    }
    let at = random.index(side.requests.len());
    let request = &mut side.requests[at];
    let reaches_memory = !request.kind.is_send() && request.len > 0;
    let choices: &[Poison] = match request.kind {
        kind if kind.is_word() => &[Poison::Key, Poison::Range, Poison::Misaligned],
        Kind::Flush => &[Poison::Key, Poison::Range],
        Kind::Read if reaches_memory => &[Poison::Key, Poison::Range],
        Kind::Write if reaches_memory => &[Poison::Key, Poison::Range, Poison::Local],
        Kind::WriteImm if reaches_memory => &[Poison::Key, Poison::Range],
        Kind::SendInv => &[Poison::Key],
        Kind::Send | Kind::SendImm if request.len > 0 => &[Poison::ShortReceive, Poison::Local],
        _ => return,
    };
    let mut choice = random.pick(choices);
    let kind = request.kind;
    // What the queue pair does not allow, no earlier request may need.
    let (read, write) = (Access::REMOTE_READ, Access::REMOTE_WRITE);
    let (atomic, flush) = (Access::REMOTE_ATOMIC, Access::FLUSH_GLOBAL);
    let others = match kind {
        Kind::Read => write | atomic | flush,
        Kind::Write | Kind::WriteImm | Kind::AtomicWrite => read | atomic | flush,
        Kind::Flush => read | write | atomic,
        _ => read | write | flush,
    };
    let class =
        |kind: Kind| (kind.is_write(), kind.is_atomic(), kind == Kind::Read, kind == Kind::Flush);
    let first = side.requests.iter().position(|other| class(other.kind) == class(kind));
    if first == Some(at) && kind.takes_receive() == (kind == Kind::WriteImm) && random.one_in(3) {
        choice = Poison::Denied;
        peer.access = others | Access::LOCAL_WRITE;
    }
    let taken = side.requests[..at].iter().any(|earlier| earlier.kind == Kind::SendInv);
    if choice == Poison::Key && taken && !kind.is_send() && random.one_in(2) {
        choice = Poison::Invalidated;
    }
    let request = &mut side.requests[at];
    request.poison = Some(choice);
    match choice {
        Poison::Misaligned => request.remote |= 1,
        Poison::Range => request.remote = side.remote_len - request.len + 1,
        _ => {}
    }
    if choice == Poison::Range && kind.is_word() {
        request.remote = side.remote_len.next_multiple_of(8);
    }
}
