//! A client's TCP connection, read without ever waiting for it.

use std::io::{ErrorKind, Read, Write};
use std::net::{SocketAddr, TcpStream};
use std::os::fd::AsFd;
use std::time::{Duration, Instant};

use super::log::say;
use super::os;
use super::service_spec::ServiceSpec;
use crate::service::{Context, MAX_MESSAGE_LEN, Platform, Progress, Reply, Session, SessionError};

/// Before and after its run a client answers at once; one that is silent for this long is given
/// up, so that it does not hold its regions for ever.
const SILENCE: Duration = Duration::from_secs(if cfg!(test) { 2 } else { 30 });

/// How a connection ended.
#[derive(Debug)]
pub(crate) enum End {
    /// The test is over.
    Done,
    /// The client closed the connection before its test was over.
    ClientGone(Option<std::io::Error>),
    /// It said nothing for this long.
    Silent(Duration),
    /// We stop.
    Stopped,
    /// The session failed.
    Failed(SessionError),
}

impl std::fmt::Display for End {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match self {
            Self::Done => f.write_str("done"),
            Self::ClientGone(None) => f.write_str("the client went away before it was done"),
            Self::ClientGone(Some(error)) => {
                write!(f, "the client went away before it was done: {error}")
            }
            Self::Silent(time) => write!(f, "the client said nothing for {} s", time.as_secs()),
            Self::Stopped => f.write_str("stopped here"),
            Self::Failed(error) => error.fmt(f),
        }
    }
}

/// One client.
#[derive(Debug)]
pub(crate) struct Connection {
    pub(crate) service: ServiceSpec,
    /// `None` when all has been said that goes over TCP, and the session goes on.
    pub(crate) stream: Option<TcpStream>,
    pub(crate) peer: SocketAddr,
    pub(crate) session: Session,
    buffer: [u8; MAX_MESSAGE_LEN],
    filled: usize,
    /// What TCP has not taken yet.
    unsent: Reply,
    heard: Instant,
}

impl Connection {
    pub(crate) fn new(
        service: ServiceSpec,
        stream: TcpStream,
        peer: SocketAddr,
        session: Session,
    ) -> std::io::Result<Self> {
        stream.set_nonblocking(true)?;
        stream.set_nodelay(true)?;
        os::keep_alive(stream.as_fd())?;
        Ok(Self {
            service,
            stream: Some(stream),
            peer,
            session,
            buffer: [0; MAX_MESSAGE_LEN],
            filled: 0,
            unsent: Reply::new(),
            heard: Instant::now(),
        })
    }

    /// Whether an answer waits for TCP to take it.
    pub(crate) fn has_unsent(&self) -> bool {
        !self.unsent.is_empty()
    }

    /// Reads what there is and answers it. The connection is to be closed once this says how it
    /// ended.
    pub(crate) fn poll<P: Platform>(&mut self, context: &mut Context<'_, '_, P>) -> Option<End> {
        loop {
            if let Err(error) = self.flush() {
                return self.closed(Some(error));
            }
            if !self.unsent.is_empty() {
                return self.check_silence();
            }
            let wanted = self.session.next_len();
            if wanted == 0 {
                return self.closed(None);
            }
            let Some(stream) = &mut self.stream else { return None };
            let room = self.buffer.get_mut(self.filled..wanted).unwrap_or_default();
            match stream.read(room) {
                Ok(0) => return self.closed(None),
                Ok(len) => {
                    self.filled += len;
                    self.heard = Instant::now();
                }
                Err(error) if error.kind() == ErrorKind::WouldBlock => return self.check_silence(),
                Err(error) if error.kind() == ErrorKind::Interrupted => continue,
                Err(error) => return self.closed(Some(error)),
            }
            if self.filled < wanted {
                continue;
            }
            self.filled = 0;
            let message = self.buffer.get(..wanted).unwrap_or_default();
            match self.session.handle_message(message, &mut self.unsent, context) {
                Ok(Progress::Over) => return Some(End::Done),
                Ok(Progress::Started) => self.announce(),
                Ok(Progress::Continues | Progress::Finished) => {}
                Err(error) => return Some(End::Failed(error)),
            }
        }
    }

    /// Says that the client runs, and with what.
    fn announce(&self) {
        let (session, peer) = (&self.session, self.peer);
        let [mtu, asked] = session.path_mtus();
        let less = if asked > mtu { format!(" (it would use {asked})") } else { String::new() };
        let qps = session.regions().count();
        let plural = if qps == 1 { "" } else { "s" };
        say(format_args!(
            "{}: {peer}: runs with {qps} queue pair{plural}, path MTU {mtu}{less}",
            self.service
        ));
    }

    /// Sends what waits.
    fn flush(&mut self) -> std::io::Result<()> {
        let Some(stream) = &mut self.stream else { return Ok(()) };
        while !self.unsent.is_empty() {
            match stream.write(&self.unsent) {
                Ok(sent) => {
                    self.unsent.drain(..sent.min(self.unsent.len()));
                }
                Err(error) if error.kind() == ErrorKind::WouldBlock => break,
                Err(error) if error.kind() == ErrorKind::Interrupted => {}
                Err(error) => return Err(error),
            }
        }
        Ok(())
    }

    /// The TCP connection has ended.
    fn closed(&mut self, error: Option<std::io::Error>) -> Option<End> {
        self.stream = None;
        self.unsent.clear();
        if !self.session.ends_with_connection() {
            return None;
        }
        Some(if self.session.may_end() { End::Done } else { End::ClientGone(error) })
    }

    /// Whether the client has been silent for too long.
    pub(crate) fn check_silence(&self) -> Option<End> {
        let silent = !self.session.is_running() && self.heard.elapsed() > SILENCE;
        silent.then_some(End::Silent(SILENCE))
    }
}

#[cfg(test)]
mod tests {
    use std::net::{IpAddr, Shutdown, TcpListener};

    use roce_codec::ib::PathMtu;
    use roce_dataplane::host_memory::HostMemory;
    use roce_engine::{Addr, Config, Engine, HeapStorage, Limits, NextHop, SeededEntropy};

    use super::*;
    use crate::service::memory::Region;
    use crate::service::perftest::{self, ExchangeError};
    use crate::service::{Queues, Route, RouteError};

    const VERSION: &[u8; 16] = b"6.06\0\0\0\0\0\0\0\0\0\0\0\0";
    const KEY: &[u8; 108] = b"0000:0001:000011:d2ec0c:00000208:00007f56c97cf000:\
        00:00:00:00:00:00:00:00:00:00:ff:ff:7f:00:00:02:00000000:\0";

    struct TestPlatform(HostMemory, SeededEntropy);

    impl Platform for TestPlatform {
        type Memory = HostMemory;
        type Random = SeededEntropy;

        fn memory(&self) -> &HostMemory {
            &self.0
        }

        fn random(&mut self) -> &mut SeededEntropy {
            &mut self.1
        }

        fn take_region(&mut self, len: u64) -> Option<Region> {
            let region = self.0.map(usize::try_from(len).ok()?).ok()?;
            Some(Region { addr: Addr { region, offset: 0 }, va: self.0.va(region)?, len })
        }

        fn give_region(&mut self, _: Region) {}

        fn is_own(&self, address: IpAddr) -> bool {
            address.is_loopback()
        }

        fn route(&mut self, _: IpAddr) -> Result<Route, RouteError> {
            Ok(Route { src: IpAddr::from([127, 0, 0, 1]), next_hop: NextHop(0) })
        }

        fn release_route(&mut self, _: Route) {}
    }

    /// Lets a client speak, as `speak` has it, and says how that ended.
    fn end_of(service: &str, speak: impl FnOnce(TcpStream) + Send) -> End {
        let service: ServiceSpec = service.parse().unwrap();
        let listener = TcpListener::bind(("127.0.0.1", 0)).unwrap();
        let at = listener.local_addr().unwrap();
        std::thread::scope(|scope| {
            scope.spawn(move || speak(TcpStream::connect(at).unwrap()));
            let (stream, peer) = listener.accept().unwrap();
            let session = service.session(1, 4096);
            let mut connection = Connection::new(service, stream, peer, session).unwrap();

            let mut storage = HeapStorage::new(&Limits::SMALL);
            let mut engine = Engine::new(Config::DEFAULT, storage.lend());
            let mut cq = || engine.create_cq(1024).unwrap();
            let queues = Queues { send: cq(), recv: cq() };
            let mut context = Context {
                engine: &mut engine,
                platform: &mut TestPlatform(HostMemory::new(), SeededEntropy::new(1)),
                queues,
                path_mtu: PathMtu::Mtu1024,
                now: roce_engine::Instant::ZERO,
            };
            let give_up = Instant::now() + Duration::from_secs(20);
            let end = loop {
                if let Some(end) = connection.poll(&mut context) {
                    break end;
                }
                assert!(Instant::now() < give_up, "the connection does not end");
                std::thread::sleep(Duration::from_micros(200));
            };
            connection.session.close(&mut context);
            drop(connection.stream);
            end
        })
    }

    fn answer(stream: &mut TcpStream, len: usize) -> Vec<u8> {
        let mut answer = vec![0; len];
        stream.read_exact(&mut answer).unwrap();
        answer
    }

    /// A whole client of `read_lat`, which does not run anything; each message in pieces of
    /// `piece` bytes.
    fn whole_client(mut stream: TcpStream, piece: usize) {
        stream.set_nodelay(true).unwrap();
        let keys = [&KEY[..]; 5];
        let greeting = [&VERSION[..], &[0, 0, 16, 0], &[0, 0, 0, 64], b"5\0"];
        let mut last = Vec::new();
        for message in greeting.iter().chain(&keys) {
            for piece in message.chunks(piece) {
                stream.write_all(piece).unwrap();
                std::thread::yield_now();
            }
            last = answer(&mut stream, message.len());
        }
        assert_ne!(last, KEY, "the server has a key of its own");
        assert_eq!(answer(&mut stream, 5), b"done\0");
        stream.write_all(b"done\0").unwrap();
    }

    #[test]
    fn messages_may_come_in_pieces() {
        for piece in [1, 7, 108] {
            let end = end_of("perftest:read_lat", |stream| whole_client(stream, piece));
            assert!(matches!(end, End::Done), "{end:?}");
        }
    }

    /// More than is due, at once: it is read as the next message, when its turn has come.
    #[test]
    fn messages_may_come_early() {
        let end = end_of("perftest:read_lat", |mut stream| {
            let mut all = [&VERSION[..], &[0, 0, 16, 0], &[0, 0, 0, 64], b"5\0"].concat();
            for _ in 0..5 {
                all.extend(KEY);
            }
            stream.write_all(&all).unwrap();
            answer(&mut stream, all.len() + 5);
        });
        // It closed after its last key: newer clients do not say `done`.
        assert!(matches!(end, End::Done), "{end:?}");
    }

    fn exchange_error(error: ExchangeError) -> SessionError {
        perftest::SessionError::Exchange(error).into()
    }

    #[test]
    fn nonsense_ends_the_connection() {
        let end = end_of("perftest:write_bw", |mut stream| {
            stream.write_all(b"GET / HTTP/1.1\r\nHost: here\r\n\r\n").unwrap();
        });
        let wanted = exchange_error(ExchangeError::Version);
        assert!(matches!(end, End::Failed(error) if error == wanted), "{end:?}");

        // A line without end.
        let end = end_of("perftest:write_bw", |mut stream| {
            let _ = stream.write_all(&vec![b'7'; 1 << 20]);
        });
        assert!(matches!(end, End::Failed(error) if error == wanted), "{end:?}");

        let end = end_of("perftest:write_bw", |mut stream| {
            let greeting = [&VERSION[..], &[0, 0, 16, 0], &[0, 0, 0, 64], b"5\0"].concat();
            stream.write_all(&greeting).unwrap();
            stream.write_all(&[b'f'; 108]).unwrap();
            answer(&mut stream, greeting.len());
        });
        let wanted = exchange_error(ExchangeError::Key);
        assert!(matches!(end, End::Failed(error) if error == wanted), "{end:?}");
    }

    #[test]
    fn a_client_that_says_nothing() {
        let end = end_of("perftest:write_bw", |mut stream| {
            stream.write_all(&VERSION[..15]).unwrap();
            let _ = stream.read(&mut [0]);
        });
        assert!(matches!(end, End::Silent(_)), "{end:?}");
    }

    #[test]
    fn a_client_that_goes_away() {
        let end = end_of("perftest:write_bw", drop);
        assert!(matches!(end, End::ClientGone(_)), "{end:?}");
        let end = end_of("perftest:write_bw", |mut stream| {
            stream.write_all(&VERSION[..9]).unwrap();
            stream.shutdown(Shutdown::Write).unwrap();
            let mut rest = Vec::new();
            let _ = stream.read_to_end(&mut rest);
        });
        assert!(matches!(end, End::ClientGone(None)), "{end:?}");
    }
}
