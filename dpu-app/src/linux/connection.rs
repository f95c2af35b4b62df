//! A client's TCP connection, read without ever waiting for it.

use std::io::{ErrorKind, Read, Write};
use std::net::{SocketAddr, TcpStream};
use std::os::fd::AsFd;
use std::time::{Duration, Instant};

use super::os;
use super::service_spec::ServiceSpec;
use crate::service::perftest::{MAX_MESSAGE_LEN, Progress, Reply, Session, SessionError};
use crate::service::{Context, Platform};

/// Before and after its run a client answers at once; one that is silent for this long is given
/// up, so that it does not hold its regions for ever.
const SILENCE: Duration = Duration::from_secs(30);

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
    pub(crate) stream: TcpStream,
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
            stream,
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
            if let Err(end) = self.flush() {
                return Some(end);
            }
            if !self.unsent.is_empty() {
                return self.check_silence();
            }
            let wanted = self.session.exchange().next_len();
            let room = self.buffer.get_mut(self.filled..wanted).unwrap_or_default();
            match self.stream.read(room) {
                Ok(0) => return Some(self.closed(None)),
                Ok(len) => {
                    self.filled += len;
                    self.heard = Instant::now();
                }
                Err(error) if error.kind() == ErrorKind::WouldBlock => return self.check_silence(),
                Err(error) if error.kind() == ErrorKind::Interrupted => continue,
                Err(error) => return Some(self.closed(Some(error))),
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
        let (mtu, asked) = (session.path_mtu(), session.asked_path_mtu());
        let less = if asked > mtu { format!(" (it would use {asked})") } else { String::new() };
        let qps = session.regions().count();
        let plural = if qps == 1 { "" } else { "s" };
        eprintln!(
            "{}: {peer}: runs with {qps} queue pair{plural}, path MTU {mtu}{less}",
            self.service
        );
    }

    /// Sends what waits.
    fn flush(&mut self) -> Result<(), End> {
        while !self.unsent.is_empty() {
            match self.stream.write(&self.unsent) {
                Ok(sent) => {
                    self.unsent.drain(..sent.min(self.unsent.len()));
                }
                Err(error) if error.kind() == ErrorKind::WouldBlock => break,
                Err(error) if error.kind() == ErrorKind::Interrupted => {}
                Err(error) => return Err(self.closed(Some(error))),
            }
        }
        Ok(())
    }

    fn closed(&self, error: Option<std::io::Error>) -> End {
        if self.session.exchange().may_end() { End::Done } else { End::ClientGone(error) }
    }

    /// Whether the client has been silent for too long.
    pub(crate) fn check_silence(&self) -> Option<End> {
        let silent = !self.session.exchange().is_running() && self.heard.elapsed() > SILENCE;
        silent.then_some(End::Silent(SILENCE))
    }
}
