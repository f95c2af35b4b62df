//! The exchange, sans-IO: which message comes next, how long it is, and what it says.
//!
//! All messages have fixed sizes and TCP has no framing, so a reader that knows the phase
//! needs no more than [`MAX_MESSAGE_LEN`](super::MAX_MESSAGE_LEN) bytes, whatever a peer sends.
//!
//! By SENDs ([`Form::Binary`]) a client first meets the server at a barrier, connects its queue pairs
//! by RDMA CM, and meets it again, before it says more about them than their numbers; unless it
//! connects them by what the exchange says of them, as over TCP (`-z`).

use super::Test;
use super::message::{ExchangeError, Form, Message, MessageKind};
use crate::service::Progress;

/// Where an exchange is.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Phase {
    Version,
    CycleBuffer,
    CacheLine,
    PathMtu,
    /// By SENDs: a barrier, unless it is a key message already.
    Meeting,
    /// The client connects its queue pairs; a barrier behind them.
    Joining,
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

impl Phase {
    const FIRST_KEY: Self = Self::Keys { count: 0, pairs: 0, repeated: false };
}

/// One client's exchange.
#[derive(Debug, Clone)]
pub struct Exchange {
    test: Test,
    form: Form,
    phase: Phase,
    joined: bool,
}

impl Exchange {
    /// At its start.
    #[must_use]
    pub const fn new(test: Test, form: Form) -> Self {
        Self { test, form, phase: Phase::Version, joined: false }
    }

    /// Bytes of the message that comes next, 1 to [`MAX_MESSAGE_LEN`](super::MAX_MESSAGE_LEN).
    #[must_use]
    pub const fn next_len(&self) -> usize {
        self.next_kind().len(self.form)
    }

    /// How it is written.
    #[must_use]
    pub const fn form(&self) -> Form {
        self.form
    }

    /// Whether the client is connecting its queue pairs by RDMA CM.
    #[must_use]
    pub fn is_joining(&self) -> bool {
        self.phase == Phase::Joining
    }

    /// Whether it has.
    #[must_use]
    pub const fn has_joined(&self) -> bool {
        self.joined
    }

    const fn next_kind(&self) -> MessageKind {
        match self.phase {
            Phase::Version => MessageKind::Version,
            Phase::CycleBuffer => MessageKind::CycleBuffer,
            Phase::CacheLine => MessageKind::CacheLine,
            Phase::PathMtu => MessageKind::PathMtu,
            Phase::Joining => MessageKind::Barrier,
            Phase::Meeting | Phase::Keys { .. } | Phase::Running | Phase::LastKey => {
                MessageKind::Key
            }
            Phase::Results(_) => MessageKind::Result,
            Phase::Ending => MessageKind::Done,
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
        match self.next_kind().parse(self.form, bytes)? {
            Message::Key(key) if self.phase == Phase::Meeting && key.qpn.get() == 0 => {
                MessageKind::Barrier.parse(self.form, bytes)
            }
            message => Ok(message),
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
            Phase::PathMtu => match self.form {
                Form::Text => Phase::FIRST_KEY,
                Form::Binary => Phase::Meeting,
            },
            Phase::Meeting if new_qp => {
                self.phase = Phase::FIRST_KEY;
                return self.advance(new_qp);
            }
            Phase::Meeting => Phase::Joining,
            Phase::Joining => {
                self.joined = true;
                Phase::FIRST_KEY
            }
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

#[cfg(test)]
mod tests {
    use super::super::message::VERSION;
    use super::*;

    const KEY: &[u8; 108] = b"0000:0001:000011:d2ec0c:00000208:00007f56c97cf000:\
        00:00:00:00:00:00:00:00:00:00:ff:ff:0a:09:00:02:00000000:\0";

    /// An exchange up to its key messages.
    fn greeted(test: Test) -> Exchange {
        let mut exchange = Exchange::new(test, Form::Text);
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
            Exchange::new(Test::WriteBw, Form::Text).parse(&bytes)
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
        let mut exchange = Exchange::new(Test::WriteBw, Form::Text);
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
