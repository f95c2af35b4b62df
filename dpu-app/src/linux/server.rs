//! Clients and the engine that serves them: accepts, passes on, cleans up.

use std::io::ErrorKind;
use std::net::{IpAddr, SocketAddr, TcpListener};
use std::os::fd::AsFd;

use anyhow::{Result, bail};
use roce_codec::ib::PathMtu;
use roce_engine::cm::CmStorage;
use roce_engine::{Engine, Instant};

use super::connection::{Connection, End};
use super::log::say;
use super::os;
use super::platform::Host;
use super::service_spec::ServiceSpec;
use super::stats::Sessions;
use crate::service::cm::{CmService, CmServices, Gsi, GsiCounters, SessionSlot};
use crate::service::{Context, Platform, Queues, SessionError, session_of};

/// Clients at a time; a further one is turned away.
const MAX_CLIENTS: usize = 64;

/// A service and where it listens.
#[derive(Debug)]
struct Listener {
    socket: TcpListener,
    service: ServiceSpec,
}

/// See the [module](self).
#[derive(Debug)]
pub(crate) struct Server<'s> {
    pub(crate) engine: Engine<'s>,
    pub(crate) host: Host,
    queues: Queues,
    path_mtu: PathMtu,
    region_len: u32,
    listeners: Vec<Listener>,
    clients: Vec<Connection>,
    /// What is reached by the connection manager, if anything is.
    cm: Option<CmServices<'s>>,
    next_id: u32,
    pub(crate) sessions: Sessions,
    polls: Vec<libc::pollfd>,
}

/// The surroundings of a session, of fields that `clients` is not among.
macro_rules! context {
    ($self:ident, $now:expr) => {
        &mut Context {
            engine: &mut $self.engine,
            platform: &mut $self.host,
            queues: $self.queues,
            path_mtu: $self.path_mtu,
            now: $now,
        }
    };
}

impl<'s> Server<'s> {
    pub(crate) fn new(
        mut engine: Engine<'s>,
        host: Host,
        path_mtu: PathMtu,
        region_len: u32,
        cqes: u32,
    ) -> Result<Self> {
        let (Some(send), Some(recv)) = (engine.create_cq(cqes), engine.create_cq(cqes)) else {
            bail!("the engine has no room for its completion queues");
        };
        Ok(Self {
            engine,
            host,
            queues: Queues { send, recv },
            path_mtu,
            region_len,
            listeners: Vec::new(),
            clients: Vec::new(),
            cm: None,
            next_id: 1,
            sessions: Sessions::default(),
            polls: Vec::new(),
        })
    }

    /// Listens for clients of a service.
    pub(crate) fn listen(&mut self, service: ServiceSpec, address: IpAddr) -> Result<()> {
        if service.size().is_some_and(|size| size > self.region_len) {
            bail!("{service}: its size is above --region-size {}", self.region_len);
        }
        if let Some(asked) = service.path_mtu().filter(|asked| *asked > self.path_mtu) {
            bail!(
                "{service}: its path MTU {asked} is above the {} that is carried; enlarge the \
                 interface's MTU or the client's -m and mtu=BYTES here",
                self.path_mtu
            );
        }
        let at = SocketAddr::new(address, service.port);
        let socket = TcpListener::bind(at)
            .and_then(|socket| socket.set_nonblocking(true).map(|()| socket))
            .map_err(|error| {
                let advice = match error.kind() {
                    ErrorKind::AddrInUse => {
                        "something listens there already; choose another port \
                         (behind the service's name, and -p at the client)"
                    }
                    ErrorKind::PermissionDenied => "ports below 1024 need CAP_NET_BIND_SERVICE",
                    ErrorKind::AddrNotAvailable => "--listen takes an address of this host",
                    _ => "cannot listen there",
                };
                anyhow::Error::new(error).context(format!("{service}: TCP {at}: {advice}"))
            })?;
        self.listeners.push(Listener { socket, service });
        Ok(())
    }

    /// What came to queue pair 1 and left it, where there is one.
    pub(crate) fn gsi_counters(&self) -> Option<&GsiCounters> {
        self.cm.as_ref().map(CmServices::counters)
    }

    /// Begins to speak to peers by the connection manager, with `services`.
    pub(crate) fn serve_cm(
        &mut self,
        services: &[CmService],
        storage: CmStorage<'s>,
        sessions: &'s mut [SessionSlot],
    ) -> Result<()> {
        let gsi = Gsi::new(storage, context!(self, Instant::ZERO))?;
        let cm = self.cm.insert(CmServices::new(gsi, sessions));
        for service in services {
            cm.serve(*service).map_err(|error| anyhow::anyhow!("{service}: {error}"))?;
        }
        Ok(())
    }

    /// Whether a client is connected.
    pub(crate) fn is_busy(&self) -> bool {
        !self.clients.is_empty() || self.cm.as_ref().is_some_and(|cm| !cm.is_empty())
    }

    /// When [`Server::poll_engine`] is due even if no frame comes.
    pub(crate) fn poll_timeout(&self) -> Option<Instant> {
        let sessions = self.clients.iter().filter_map(|client| client.session.poll_timeout());
        let cm = self.cm.as_ref().and_then(CmServices::poll_timeout);
        sessions.chain(cm).chain(self.engine.poll_timeout()).min()
    }

    /// Passes completions, events and the time on to the sessions; says whether there was any.
    pub(crate) fn poll_engine(&mut self, now: Instant) -> bool {
        let mut any = false;
        for queue in [self.queues.recv, self.queues.send] {
            while let Some(wc) = self.engine.poll_cq(queue) {
                any = true;
                if let Some(cm) = self.cm.as_mut().filter(|_| CmServices::owns(wc.wr_id)) {
                    cm.handle_completion(&wc, context!(self, now));
                    continue;
                }
                let id = session_of(wc.wr_id);
                // That of a session that has ended goes nowhere.
                let Some(index) = self.clients.iter().position(|c| c.session.id() == id) else {
                    continue;
                };
                let session = &mut self.clients[index].session;
                let result = session.handle_completion(&wc, context!(self, now));
                self.settle(index, result, now);
            }
        }
        while let Some(event) = self.engine.poll_event() {
            any = true;
            if let Some(cm) = &mut self.cm
                && cm.handle_event(&event, context!(self, now))
            {
                continue;
            }
            let Some(index) =
                event.qp().and_then(|qpn| self.clients.iter().position(|c| c.session.owns(qpn)))
            else {
                continue;
            };
            let session = &mut self.clients[index].session;
            let result = session.handle_event(&event, context!(self, now));
            self.settle(index, result, now);
        }
        for index in (0..self.clients.len()).rev() {
            let session = &mut self.clients[index].session;
            if session.poll_timeout().is_some_and(|due| due <= now) {
                any = true;
                match session.handle_timeout(context!(self, now)) {
                    Ok(()) if session.is_over() => self.end(index, &End::Done, now),
                    result => self.settle(index, result, now),
                }
            }
        }
        self.poll_cm(now) || any
    }

    /// Whether a peer has still to answer that it is disconnected.
    pub(crate) fn is_disconnecting(&self) -> bool {
        self.cm.as_ref().is_some_and(CmServices::is_disconnecting)
    }

    fn poll_cm(&mut self, now: Instant) -> bool {
        let Some(cm) = &mut self.cm else { return false };
        let any = cm.poll(context!(self, now));
        while let Some(end) = cm.poll_end() {
            self.sessions.served += u64::from(end.was_served);
            self.sessions.failed += u64::from(end.error.is_some());
            say(format_args!("{end}"));
        }
        any
    }

    /// Accepts clients and reads what they say; says whether there was any.
    pub(crate) fn poll_tcp(&mut self, now: Instant) -> bool {
        let mut fds: Vec<_> = self.listeners.iter().map(|l| l.socket.as_fd()).collect();
        fds.extend(self.clients.iter().filter_map(|client| Some(client.stream.as_ref()?.as_fd())));
        let ready = os::any_readable(&fds, &mut self.polls);
        if ready {
            self.accept();
        }
        for index in (0..self.clients.len()).rev() {
            let client = &mut self.clients[index];
            let end = if ready || client.has_unsent() {
                client.poll(context!(self, now))
            } else {
                client.check_silence()
            };
            if let Some(end) = end {
                self.end(index, &end, now);
            }
        }
        ready
    }

    fn accept(&mut self) {
        for listener in &self.listeners {
            let service = listener.service;
            loop {
                let (stream, peer) = match listener.socket.accept() {
                    Ok(accepted) => accepted,
                    Err(error) => match error.kind() {
                        ErrorKind::WouldBlock => break,
                        ErrorKind::Interrupted | ErrorKind::ConnectionAborted => continue,
                        _ => {
                            say(format_args!("{service}: a client could not be accepted: {error}"));
                            break;
                        }
                    },
                };
                if self.clients.len() >= MAX_CLIENTS {
                    say(format_args!(
                        "{service}: {peer}: turned away, {MAX_CLIENTS} clients are served"
                    ));
                    continue;
                }
                let session = service.session(self.next_id, self.region_len);
                self.next_id = self.next_id.wrapping_add(1);
                match Connection::new(service, stream, peer, session) {
                    Ok(client) => self.clients.push(client),
                    Err(error) => say(format_args!("{service}: {peer}: {error}")),
                }
            }
        }
    }

    fn settle(&mut self, index: usize, result: Result<(), SessionError>, now: Instant) {
        if let Err(error) = result {
            self.end(index, &End::Failed(error), now);
        }
    }

    /// Ends a session and says how it went.
    fn end(&mut self, index: usize, end: &End, now: Instant) {
        let client = self.clients.swap_remove(index);
        let (service, peer, session) = (client.service, client.peer, &client.session);
        // Whoever got no queue pair was no client.
        self.sessions.served += u64::from(session.regions().next().is_some());
        self.sessions.failed += u64::from(!matches!(end, End::Done | End::Stopped));
        let count = match (session.reported_iterations(), session.messages()) {
            (Some(count), _) => format!(", {count} iterations"),
            (None, 0) => String::new(),
            (None, count) => format!(", {count} messages"),
        };
        say(format_args!("{service}: {peer}: {end}{count}"));
        let name = service.to_string();
        for region in session.regions() {
            self.host.keep(&name, session.id(), &region);
        }
        client.session.close(context!(self, now));
    }

    /// Ends all sessions.
    pub(crate) fn end_all(&mut self, now: Instant) {
        while let Some(last) = self.clients.len().checked_sub(1) {
            self.end(last, &End::Stopped, now);
        }
        if let Some(cm) = &mut self.cm {
            cm.end_all(context!(self, now));
        }
        self.poll_cm(now);
    }
}
