//! The TCP exchange, sans-IO: which message comes next, how long it is, and what it says.
//!
//! All messages have fixed sizes and the stream has no framing, so a reader that knows the phase
//! needs no more than [`MAX_MESSAGE_LEN`] bytes, whatever a peer sends.

use core::fmt;

use roce_codec::ib::PathMtu;

use super::Test;
use super::key::KeyMessage;
use crate::service::Progress;

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

#[cfg(test)]
mod tests {
    use super::*;

    const KEY: &[u8; 108] = b"0000:0001:000011:d2ec0c:00000208:00007f56c97cf000:\
        00:00:00:00:00:00:00:00:00:00:ff:ff:0a:09:00:02:00000000:\0";

    /// An exchange up to its key messages.
    fn greeted(test: Test) -> Exchange {
        let mut exchange = Exchange::new(test);
        for message in [&VERSION[..], &[0, 0, 16, 0], &[0, 0, 0, 64], b"3\0"] {
            assert_eq!(exchange.next_len(), message.len());
            exchange.parse(message).unwrap();
            assert_eq!(exchange.advance(false), Ok(Progress::Continues));
        }
        exchange
    }

    fn key(exchange: &mut Exchange, new_qp: bool) -> Result<Progress, ExchangeError> {
        assert_eq!(exchange.next_len(), 108);
        assert!(matches!(exchange.parse(KEY), Ok(Message::Key(_))));
        exchange.advance(new_qp)
    }

    /// What real clients send, counted in captures of perftest 4.5: which queue pair each key
    /// message before the run names.
    #[test]
    fn the_run_starts_after_as_many_keys_as_real_clients_send() {
        let table: [(Test, &[u32]); 9] = [
            (Test::WriteBw, &[0, 0, 0]),
            (Test::ReadBw, &[0, 1, 0, 1, 0]),
            (Test::AtomicBw, &[0, 1, 2, 0, 1, 2, 0]),
            (Test::SendBw, &[0, 0, 0, 0]),
            (Test::SendBw, &[0, 1, 0, 0, 1, 0]),
            (Test::WriteLat, &[0, 0, 0, 0]),
            (Test::ReadLat, &[0, 0, 0, 0]),
            (Test::SendLat, &[0, 0, 0, 0]),
            (Test::AtomicLat, &[0, 0, 0, 0]),
        ];
        for (test, keys) in table {
            let mut exchange = greeted(test);
            let mut seen = 0;
            for (index, qp) in (1..).zip(keys) {
                let new = *qp == seen;
                seen += u32::from(new);
                let last = index == keys.len();
                let expected = if last { Progress::Started } else { Progress::Continues };
                assert_eq!(key(&mut exchange, new), Ok(expected), "{test}, message {index}");
                assert_eq!(exchange.is_running(), last);
            }
        }
    }

    #[test]
    fn after_the_run() {
        for test in Test::ALL {
            let mut exchange = greeted(test);
            assert!(!exchange.may_end());
            for index in 0.. {
                if key(&mut exchange, index == 0) == Ok(Progress::Started) {
                    break;
                }
            }
            assert_eq!(exchange.may_end(), test == Test::WriteLat);
            if matches!(test, Test::WriteBw | Test::ReadBw | Test::AtomicBw) {
                assert_eq!(key(&mut exchange, false), Ok(Progress::Continues));
                for value in [65536u64, 5000, 1, 2, 3] {
                    assert_eq!(exchange.next_len(), 8);
                    let message = exchange.parse(&value.to_be_bytes());
                    assert_eq!(message, Ok(Message::Result(value)));
                    assert_eq!(exchange.advance(false), Ok(Progress::Continues));
                    assert!(!exchange.may_end());
                }
            }
            assert_eq!(key(&mut exchange, false), Ok(Progress::Finished));
            assert!(exchange.may_end());
            assert_eq!(exchange.next_len(), 5);
            assert_eq!(exchange.parse(b"done\0"), Ok(Message::Done));
            assert_eq!(exchange.parse(b"done\n"), Err(ExchangeError::Done));
            assert_eq!(exchange.advance(false), Ok(Progress::Over));
        }
    }

    #[test]
    fn queue_pairs_come_first() {
        let mut exchange = greeted(Test::WriteBw);
        assert_eq!(key(&mut exchange, true), Ok(Progress::Continues));
        assert_eq!(key(&mut exchange, false), Ok(Progress::Continues));
        assert_eq!(key(&mut exchange, true), Err(ExchangeError::LateQp));
        let mut exchange = greeted(Test::WriteLat);
        assert_eq!(key(&mut exchange, true), Ok(Progress::Continues));
        assert_eq!(key(&mut exchange, true), Err(ExchangeError::TooManyQps));
    }

    #[test]
    fn versions() {
        let version = |text: &[u8]| {
            let mut bytes = [0; 16];
            bytes[..text.len()].copy_from_slice(text);
            Exchange::new(Test::WriteBw).parse(&bytes)
        };
        for good in ["5.70", "5.8", "5.99", "6.06", "6.20", "7.0", "24.10"] {
            assert_eq!(version(good.as_bytes()), Ok(Message::Version), "{good}");
        }
        for old in ["5.69", "5.6", "4.99", "0.0"] {
            assert_eq!(version(old.as_bytes()), Err(ExchangeError::OldVersion), "{old}");
        }
        for nonsense in [
            &b""[..],
            b".",
            b"6",
            b"6.",
            b".06",
            b"6.06.1",
            b"6.0x",
            b"+6.06",
            b" 6.06",
            b"6.06\x006",
            b"\xff\xfe.1",
            b"GET / HTTP/1.1\r\n",
            b"9999999999999.99",
            b"SSH-2.0-OpenSSH_",
        ] {
            assert_eq!(version(nonsense), Err(ExchangeError::Version), "{nonsense:?}");
        }
    }

    #[test]
    fn numbers_that_make_no_sense() {
        let mut exchange = Exchange::new(Test::WriteBw);
        exchange.advance(false).unwrap();
        for size in [0, 63, 0x1000_0001, u32::MAX] {
            assert_eq!(exchange.parse(&size.to_be_bytes()), Err(ExchangeError::CycleBuffer(size)));
        }
        exchange.advance(false).unwrap();
        for size in [0, 4097, u32::MAX] {
            assert_eq!(exchange.parse(&size.to_be_bytes()), Err(ExchangeError::CacheLine(size)));
        }
        exchange.advance(false).unwrap();
        for mtu in [b"0\0", b"6\0", b"33", b"\x003", b"\0\0"] {
            assert_eq!(exchange.parse(mtu), Err(ExchangeError::PathMtu));
        }
        exchange.advance(false).unwrap();
        assert_eq!(exchange.parse(&[b'0'; 108]), Err(ExchangeError::Key));
    }
}
