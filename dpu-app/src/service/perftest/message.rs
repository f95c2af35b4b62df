//! What is said, in either direction: fixed sizes, no framing. Over TCP and by SENDs it is the same but
//! for how a queue pair is described.

use core::fmt;

use roce_codec::ib::PathMtu;

use super::key::KeyMessage;

/// How what is said is written.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Form {
    /// Over TCP: a queue pair as text, and `done` at the end.
    Text,
    /// By SENDs, one message each, over a connection of RDMA CM's: a queue pair as numbers. The end
    /// is that of the connection.
    Binary,
}

/// The longest message.
pub const MAX_MESSAGE_LEN: usize = KeyMessage::LEN;
/// The longest answer: a key message with `done` behind it.
pub const MAX_REPLY_LEN: usize = KeyMessage::LEN + DONE.len();

/// The version that is answered to every client: one whose clients are content with it.
pub(super) const VERSION: [u8; 16] = *b"6.06\0\0\0\0\0\0\0\0\0\0\0\0";
/// Bytes over which small messages cycle. Either side takes the larger of the two.
pub(super) const CYCLE_BUFFER: u32 = 4096;
/// The step in which they do.
pub(super) const CACHE_LINE: u32 = 64;
/// What both sides say at the end, without listening.
pub(super) const DONE: [u8; 5] = *b"done\0";

/// What a message is about; it does not say so itself.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum MessageKind {
    Version,
    CycleBuffer,
    CacheLine,
    PathMtu,
    Key,
    /// A key message without a key: both sides are so far.
    Barrier,
    Result,
    Done,
}

impl MessageKind {
    /// Bytes.
    pub(super) const fn len(self, form: Form) -> usize {
        match self {
            Self::Version => VERSION.len(),
            Self::CycleBuffer | Self::CacheLine => 4,
            Self::PathMtu => 2,
            Self::Key | Self::Barrier => match form {
                Form::Text => KeyMessage::LEN,
                Form::Binary => KeyMessage::BINARY_LEN,
            },
            Self::Result => 8,
            Self::Done => DONE.len(),
        }
    }

    /// Reads a message of this kind.
    pub(super) fn parse(self, form: Form, bytes: &[u8]) -> Result<Message, ExchangeError> {
        let expected = self.len(form);
        if bytes.len() != expected {
            return Err(ExchangeError::Len { expected, found: bytes.len() });
        }
        let number = || bytes.first_chunk().map_or(0, |number| u32::from_be_bytes(*number));
        match self {
            Self::Version => check_version(bytes).map(|()| Message::Version),
            Self::CycleBuffer => match number() {
                size @ 64..=0x1000_0000 => Ok(Message::CycleBuffer(size)),
                size => Err(ExchangeError::CycleBuffer(size)),
            },
            Self::CacheLine => match number() {
                size @ 1..=4096 => Ok(Message::CacheLine(size)),
                size => Err(ExchangeError::CacheLine(size)),
            },
            Self::PathMtu => match bytes {
                [digit @ b'1'..=b'5', 0] => PathMtu::from_code(digit - b'0')
                    .map(Message::PathMtu)
                    .ok_or(ExchangeError::PathMtu),
                _ => Err(ExchangeError::PathMtu),
            },
            Self::Key => match form {
                Form::Text => bytes.first_chunk().and_then(KeyMessage::parse),
                Form::Binary => bytes.first_chunk().and_then(KeyMessage::parse_binary),
            }
            .map(Message::Key)
            .ok_or(ExchangeError::Key),
            // perftest's leaves bytes 20 to 23 as they were; a key has nothing there either.
            Self::Barrier => match bytes.first_chunk().and_then(KeyMessage::parse_binary) {
                Some(KeyMessage { qpn, .. }) if qpn.get() == 0 => Ok(Message::Barrier),
                _ => Err(ExchangeError::Barrier),
            },
            Self::Result => Ok(Message::Result(
                bytes.first_chunk().map_or(0, |value| u64::from_be_bytes(*value)),
            )),
            Self::Done if bytes == DONE => Ok(Message::Done),
            Self::Done => Err(ExchangeError::Done),
        }
    }
}

/// A message of the client's.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Message {
    /// The client's version.
    Version,
    /// Bytes over which its small messages cycle.
    CycleBuffer(u32),
    /// The step in which they do.
    CacheLine(u32),
    /// The path MTU it would use.
    PathMtu(PathMtu),
    /// One of its queue pairs, or a barrier that names one.
    Key(KeyMessage),
    /// Nothing, but that the client is as far as this.
    Barrier,
    /// One of the results: size, iterations, then three floating-point numbers as bits.
    Result(u64),
    /// The end.
    Done,
}

/// What a peer said that makes no sense.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[non_exhaustive]
pub enum ExchangeError {
    /// The first 16 bytes are not a version number: not a perftest client.
    Version,
    /// A version that speaks another protocol.
    OldVersion,
    /// The cycle buffer is no size.
    CycleBuffer(u32),
    /// The cache line is no size.
    CacheLine(u32),
    /// Not one of the five path MTUs.
    PathMtu,
    /// Another length than what is due has.
    Len {
        /// Bytes of what is due.
        expected: usize,
        /// Bytes that came.
        found: usize,
    },
    /// Not a key message.
    Key,
    /// A key message where a barrier is due.
    Barrier,
    /// A key message for a queue pair that was not connected.
    UnknownQp,
    /// A key message for a further queue pair after the barriers began.
    LateQp,
    /// A latency test with more than one queue pair.
    TooManyQps,
    /// Something else than `done` at the end.
    Done,
}

impl fmt::Display for ExchangeError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Version => f.write_str("it does not begin with a perftest version"),
            Self::OldVersion => f.write_str("its perftest is older than 5.70"),
            Self::CycleBuffer(size) => write!(f, "its cycle buffer is said to be {size} bytes"),
            Self::CacheLine(size) => write!(f, "its cache line is said to be {size} bytes"),
            Self::PathMtu => f.write_str("its path MTU is none of 1 (256) to 5 (4096)"),
            Self::Key => f.write_str(
                "it sent no key message where one is due (is it the test that this port serves, over \
                 RoCE?)",
            ),
            Self::Len { expected, found } => {
                write!(f, "it sent {found} bytes where {expected} are due")
            }
            Self::Barrier => f.write_str("it sent a key where none is due"),
            Self::UnknownQp => f.write_str("it named a queue pair that it has not connected"),
            Self::LateQp => f.write_str("it named a further queue pair after the barriers began"),
            Self::TooManyQps => f.write_str("more queue pairs than this test or server has"),
            Self::Done => f.write_str("it said something else than `done` at the end"),
        }
    }
}

impl core::error::Error for ExchangeError {}

/// `major.minor`, then NULs; 5.70 and later speak what is spoken here.
fn check_version(bytes: &[u8]) -> Result<(), ExchangeError> {
    let end = bytes.iter().position(|byte| *byte == 0).ok_or(ExchangeError::Version)?;
    let (text, padding) = bytes.split_at(end);
    let text = core::str::from_utf8(text).map_err(|_| ExchangeError::Version)?;
    let (major, minor) = text.split_once('.').ok_or(ExchangeError::Version)?;
    let number = |text: &str| {
        let digits = !text.is_empty() && text.bytes().all(|byte| byte.is_ascii_digit());
        digits.then(|| text.parse::<u64>().ok()).flatten().ok_or(ExchangeError::Version)
    };
    // The version is a decimal fraction: 5.8 is later than 5.70.
    let tenths = minor.len() == 1;
    let (major, minor) = (number(major)?, number(minor)? * if tenths { 10 } else { 1 });
    if padding.iter().any(|byte| *byte != 0) {
        return Err(ExchangeError::Version);
    }
    if (major, minor) < (5, 70) { Err(ExchangeError::OldVersion) } else { Ok(()) }
}
