//! The TCP exchange, sans-IO: which message comes next, how long it is, and what it says.
//!
//! All messages have fixed sizes and the stream has no framing, so a reader that knows the phase
//! needs no more than [`MAX_MESSAGE_LEN`] bytes, whatever a peer sends.

use core::fmt;

use roce_codec::ib::PathMtu;

use super::Test;
use super::key::KeyMessage;

/// The longest message.
pub const MAX_MESSAGE_LEN: usize = KeyMessage::LEN;

/// The version that is answered to every client: one whose clients are content with it.
pub(super) const VERSION: [u8; 16] = *b"6.06\0\0\0\0\0\0\0\0\0\0\0\0";
/// Bytes over which small messages cycle. Either side takes the larger of the two.
pub(super) const CYCLE_BUFFER: u32 = 4096;
/// The step in which they do.
pub(super) const CACHE_LINE: u32 = 64;
/// What both sides say at the end, without listening.
pub(super) const DONE: [u8; 5] = *b"done\0";

/// Where an exchange is.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Phase {
    Version,
    CycleBuffer,
    CacheLine,
    PathMtu,
    /// Key messages of queue pairs, then barriers: how many have come, and for how many pairs.
    Keys {
        count: u32,
        pairs: u32,
        repeated: bool,
    },
    Running,
    /// Five values of the client's, each answered; how many have come.
    Results(u8),
    LastKey,
    /// `done`, or nothing but the end of the stream.
    Ending,
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

/// What a message has brought about.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Progress {
    /// The exchange goes on.
    Continues,
    /// The client starts its run once it has the answer.
    Started,
    /// The client has finished its run, and takes only one more answer.
    Finished,
    /// The exchange is over.
    Over,
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

/// One client's exchange.
#[derive(Debug, Clone)]
pub struct Exchange {
    test: Test,
    phase: Phase,
}

impl Exchange {
    /// At its start.
    #[must_use]
    pub const fn new(test: Test) -> Self {
        Self { test, phase: Phase::Version }
    }

    /// Bytes of the message that comes next, 1 to [`MAX_MESSAGE_LEN`].
    #[must_use]
    pub const fn next_len(&self) -> usize {
        match self.phase {
            Phase::Version => VERSION.len(),
            Phase::CycleBuffer | Phase::CacheLine => 4,
            Phase::PathMtu => 2,
            Phase::Keys { .. } | Phase::Running | Phase::LastKey => KeyMessage::LEN,
            Phase::Results(_) => 8,
            Phase::Ending => DONE.len(),
        }
    }

    /// Whether the client may close the connection now without having failed.
    #[must_use]
    pub fn may_end(&self) -> bool {
        match self.phase {
            Phase::Ending => true,
            Phase::Running => self.test == Test::WriteLat,
            _ => false,
        }
    }

    /// Whether the client is running: it may be silent for as long as that takes.
    #[must_use]
    pub fn is_running(&self) -> bool {
        self.phase == Phase::Running
    }

    /// Reads the next message, which is `next_len` bytes long. [`Exchange::advance`] makes the
    /// step to the one after it.
    ///
    /// # Errors
    /// [`ExchangeError`]: what the peer speaks is not perftest.
    pub fn parse(&self, bytes: &[u8]) -> Result<Message, ExchangeError> {
        let number = || bytes.first_chunk().map_or(0, |number| u32::from_be_bytes(*number));
        match self.phase {
            Phase::Version => check_version(bytes).map(|()| Message::Version),
            Phase::CycleBuffer => match number() {
                size @ 64..=0x1000_0000 => Ok(Message::CycleBuffer(size)),
                size => Err(ExchangeError::CycleBuffer(size)),
            },
            Phase::CacheLine => match number() {
                size @ 1..=4096 => Ok(Message::CacheLine(size)),
                size => Err(ExchangeError::CacheLine(size)),
            },
            Phase::PathMtu => match bytes {
                [digit @ b'1'..=b'5', 0] => PathMtu::from_code(digit - b'0')
                    .map(Message::PathMtu)
                    .ok_or(ExchangeError::PathMtu),
                _ => Err(ExchangeError::PathMtu),
            },
            Phase::Keys { .. } | Phase::Running | Phase::LastKey => bytes
                .first_chunk()
                .and_then(KeyMessage::parse)
                .map(Message::Key)
                .ok_or(ExchangeError::Key),
            Phase::Results(_) => Ok(Message::Result(
                bytes.first_chunk().map_or(0, |value| u64::from_be_bytes(*value)),
            )),
            Phase::Ending if bytes == DONE => Ok(Message::Done),
            Phase::Ending => Err(ExchangeError::Done),
        }
    }

    /// Steps past a message. `new_qp` says whether a key message named a queue pair for the first
    /// time: their number is not told otherwise.
    ///
    /// # Errors
    /// [`ExchangeError::LateQp`] and [`ExchangeError::TooManyQps`].
    pub fn advance(&mut self, new_qp: bool) -> Result<Progress, ExchangeError> {
        let mut progress = Progress::Continues;
        self.phase = match self.phase {
            Phase::Version => Phase::CycleBuffer,
            Phase::CycleBuffer => Phase::CacheLine,
            Phase::CacheLine => Phase::PathMtu,
            Phase::PathMtu => Phase::Keys { count: 0, pairs: 0, repeated: false },
            Phase::Keys { count, pairs, repeated } => {
                if new_qp && repeated {
                    return Err(ExchangeError::LateQp);
                }
                let count = count + 1;
                let pairs = pairs + u32::from(new_qp);
                let repeated = !new_qp;
                if pairs > 1 && !self.test.is_bandwidth() {
                    return Err(ExchangeError::TooManyQps);
                }
                if repeated && count >= self.keys_before_run(pairs) {
                    progress = Progress::Started;
                    Phase::Running
                } else {
                    Phase::Keys { count, pairs, repeated }
                }
            }
            _ if new_qp => return Err(ExchangeError::LateQp),
            Phase::Running => match self.test {
                Test::WriteBw | Test::ReadBw | Test::AtomicBw => Phase::Results(0),
                _ => {
                    progress = Progress::Finished;
                    Phase::Ending
                }
            },
            Phase::Results(4) => Phase::LastKey,
            Phase::Results(count) => Phase::Results(count + 1),
            Phase::LastKey => {
                progress = Progress::Finished;
                Phase::Ending
            }
            Phase::Ending => {
                progress = Progress::Over;
                Phase::Ending
            }
        };
        Ok(progress)
    }

    /// Key messages before the run.
    const fn keys_before_run(&self, pairs: u32) -> u32 {
        match self.test {
            Test::WriteBw | Test::ReadBw | Test::AtomicBw => 2 * pairs + 1,
            Test::SendBw => 2 * pairs + 2,
            Test::WriteLat | Test::ReadLat | Test::SendLat | Test::AtomicLat => 4,
        }
    }
}

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
