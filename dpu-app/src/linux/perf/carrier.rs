//! What carries the exchange with the server: TCP, or with `-R` SENDs over a connection of RDMA CM's.
//! Either is never waited for.

use std::io::{ErrorKind, Read, Write};
use std::net::{SocketAddr, TcpStream};
use std::time::Duration;

use anyhow::{Error, Result, bail};
use roce_engine::{Event, Instant, Wc};

use crate::linux::platform::Host;
use crate::service::perftest::MAX_MESSAGE_LEN;
use crate::service::perftest::client::{ByCm, Client};
use crate::service::{Context, Reply};

/// How long the server may take to accept by TCP.
const CONNECT_PATIENCE: Duration = Duration::from_secs(10);

/// See the [module](self).
#[expect(clippy::large_enum_variant, reason = "there is one")]
pub(super) enum Carrier<'s> {
    Tcp(Tcp),
    Cm(ByCm<'s>, Reply),
}

/// A TCP connection.
pub(super) struct Tcp {
    stream: TcpStream,
    unsent: Reply,
    buffer: [u8; MAX_MESSAGE_LEN],
    filled: usize,
}

impl Carrier<'_> {
    /// What is to be said; what has been said before is answered.
    pub(super) const fn unsent(&mut self) -> &mut Reply {
        match self {
            Self::Tcp(tcp) => &mut tcp.unsent,
            Self::Cm(_, unsent) => unsent,
        }
    }

    /// Sends what waits, as far as it goes now; says whether the server still takes it.
    pub(super) fn flush(&mut self, context: &mut Context<'_, '_, Host>) -> Result<bool> {
        match self {
            Self::Tcp(tcp) => tcp.flush(),
            Self::Cm(cm, unsent) => {
                if cm.is_connected() && !unsent.is_empty() {
                    cm.send(unsent, context)?;
                    unsent.clear();
                }
                Ok(unsent.is_empty() || !cm.is_closed())
            }
        }
    }

    /// The next message, once it is whole.
    pub(super) fn read(&mut self, wanted: usize) -> Result<Option<Vec<u8>>> {
        match self {
            Self::Tcp(tcp) => tcp.read(wanted),
            Self::Cm(_, _) if wanted == 0 => Ok(None),
            Self::Cm(cm, _) => match cm.poll_message() {
                None if cm.is_closed() => bail!("it disconnected"),
                message => Ok(message.map(|message| message.to_vec())),
            },
        }
    }

    /// Whether the server has closed the connection.
    pub(super) fn is_closed(&self) -> bool {
        match self {
            Self::Tcp(tcp) => tcp.is_closed(),
            Self::Cm(cm, _) => cm.is_closed(),
        }
    }

    /// Connects the queue pairs, where the exchange does not.
    pub(super) fn connect_pairs(
        &mut self,
        client: &mut Client,
        context: &mut Context<'_, '_, Host>,
    ) -> Result<()> {
        match self {
            Self::Tcp(_) => Ok(()),
            Self::Cm(cm, _) => Ok(cm.connect_pairs(client, context)?),
        }
    }

    /// Takes a completion; says whether it was not the run's.
    pub(super) fn handle_completion(
        &mut self,
        wc: &Wc,
        context: &mut Context<'_, '_, Host>,
    ) -> Result<bool> {
        match self {
            Self::Tcp(_) => Ok(false),
            Self::Cm(cm, _) => Ok(cm.handle_completion(wc, context)?),
        }
    }

    /// Takes an event, beside the client.
    pub(super) fn handle_event(&self, event: &Event) -> Result<()> {
        match self {
            Self::Tcp(_) => Ok(()),
            Self::Cm(cm, _) => Ok(cm.handle_event(event)?),
        }
    }

    /// When [`Carrier::poll`] is due even if nothing has come.
    pub(super) fn poll_timeout(&self) -> Option<Instant> {
        match self {
            Self::Tcp(_) => None,
            Self::Cm(cm, _) => cm.poll_timeout(),
        }
    }

    /// Does what has waited for its time; says whether there was anything.
    pub(super) fn poll(
        &mut self,
        client: &mut Client,
        context: &mut Context<'_, '_, Host>,
    ) -> Result<bool> {
        match self {
            Self::Tcp(_) => Ok(false),
            Self::Cm(cm, unsent) => Ok(cm.poll(client, unsent, context)?),
        }
    }
}

impl Tcp {
    /// Connects to a server.
    pub(super) fn connect(at: SocketAddr) -> Result<Self> {
        let stream = TcpStream::connect_timeout(&at, CONNECT_PATIENCE).map_err(|error| {
            let advice = match error.kind() {
                ErrorKind::ConnectionRefused => {
                    "nothing listens there; start the server first (its TCP port is -p)"
                }
                _ => "cannot connect there by TCP",
            };
            Error::new(error).context(advice)
        })?;
        stream.set_nodelay(true)?;
        stream.set_nonblocking(true)?;
        Ok(Self { stream, unsent: Reply::new(), buffer: [0; MAX_MESSAGE_LEN], filled: 0 })
    }

    /// Sends what waits; says whether the server still takes it.
    fn flush(&mut self) -> Result<bool> {
        while !self.unsent.is_empty() {
            match self.stream.write(&self.unsent) {
                Ok(sent) => {
                    self.unsent.drain(..sent.min(self.unsent.len()));
                }
                Err(error) => match error.kind() {
                    ErrorKind::WouldBlock => break,
                    ErrorKind::Interrupted => {}
                    ErrorKind::BrokenPipe | ErrorKind::ConnectionReset => return Ok(false),
                    _ => return Err(Error::new(error).context("TCP")),
                },
            }
        }
        Ok(true)
    }

    /// The next message, once it is whole.
    fn read(&mut self, wanted: usize) -> Result<Option<Vec<u8>>> {
        while self.filled < wanted {
            let room = self.buffer.get_mut(self.filled..wanted).unwrap_or_default();
            match self.stream.read(room) {
                Ok(0) => bail!("it closed the TCP connection"),
                Ok(len) => self.filled += len,
                Err(error) => match error.kind() {
                    ErrorKind::WouldBlock => return Ok(None),
                    ErrorKind::Interrupted => {}
                    _ => return Err(Error::new(error).context("it broke the TCP connection")),
                },
            }
        }
        self.filled = 0;
        Ok(self.buffer.get(..wanted).filter(|message| !message.is_empty()).map(<[u8]>::to_vec))
    }

    /// Whether the server has closed the connection.
    fn is_closed(&self) -> bool {
        match self.stream.peek(&mut [0]) {
            Ok(len) => len == 0,
            Err(error) => !matches!(error.kind(), ErrorKind::WouldBlock | ErrorKind::Interrupted),
        }
    }
}
