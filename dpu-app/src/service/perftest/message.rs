//! What is said over TCP, in either direction: fixed sizes, no framing.

use core::fmt;

use roce_codec::ib::PathMtu;

use super::key::KeyMessage;

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
    Result,
    Done,
}

impl MessageKind {
    /// Bytes.
    pub(super) const fn len(self) -> usize {
        match self {
            Self::Version => VERSION.len(),
            Self::CycleBuffer | Self::CacheLine => 4,
            Self::PathMtu => 2,
            Self::Key => KeyMessage::LEN,
            Self::Result => 8,
            Self::Done => DONE.len(),
        }
    }

    /// Reads a message of this kind.
    pub(super) fn parse(self, bytes: &[u8]) -> Result<Message, ExchangeError> {
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
            Self::Key => bytes
                .first_chunk()
                .and_then(KeyMessage::parse)
                .map(Message::Key)
                .ok_or(ExchangeError::Key),
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
    /// Not a key message.
    Key,
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
                "it sent no key message of 108 bytes where one is due (is it the test that this \
                 port serves, without -R, over RoCE?)",
            ),
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
