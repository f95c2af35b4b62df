//! One client, from its first message to its last: the queue pairs it gets, the memory behind
//! them, and what is sent to it. What carries the messages is others' affair.

use core::net::IpAddr;

use heapless::Vec;
use roce_codec::ib::{PathMtu, Qpn};
use roce_engine::{Access, Event, Instant, Pd, SendWr, Wc, WcOpcode, WcStatus, WrOpcode};

use super::Test;
use super::error::SessionError;
use super::exchange::Exchange;
use super::key::KeyMessage;
use super::message::{CACHE_LINE, CYCLE_BUFFER, DONE, ExchangeError, Form, Message, VERSION};
use super::pair::{Pair, PairAttr, PairMemory};
use super::write_lat::WriteLat;
use crate::service::memory::SharedRegion;
use crate::service::{Context, Platform, Progress, Reply, low_of, wr_id};

/// Queue pairs that one client may have.
pub const MAX_QPS: usize = 128;

/// How a test is served.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Options {
    /// Bytes of the region behind each queue pair, 4,096 to 2³¹: the largest message.
    pub region_len: u32,
    /// For `write_lat`, which has to write first: the client's message size, if known.
    pub size: Option<u32>,
    /// For `write_lat`: after how many of the client's WRITEs it is over, if known.
    pub iterations: Option<u64>,
    /// What the client may do beside what the test needs; [`Access::NONE`] for perftest's own.
    pub access: Access,
}

/// One client's session. End it with [`Session::close`], whatever has happened.
#[derive(Debug)]
pub struct Session {
    id: u32,
    test: Test,
    options: Options,
    exchange: Exchange,
    path_mtu: PathMtu,
    asked_path_mtu: PathMtu,
    pd: Option<Pd>,
    pairs: Vec<Pair, MAX_QPS>,
    write_lat: Option<WriteLat>,
    messages: u64,
    iterations: Option<u64>,
    results: u8,
}

impl Session {
    /// A session for a client that has just connected over TCP. `id` is in the upper half of its work
    /// requests' ids, by which their completions find it again.
    #[must_use]
    pub const fn new(id: u32, test: Test, options: Options) -> Self {
        Self::of(id, test, options, Form::Text)
    }

    /// The same by SENDs.
    pub(super) const fn of(id: u32, test: Test, options: Options, form: Form) -> Self {
        Self {
            id,
            test,
            options,
            exchange: Exchange::new(test, form),
            path_mtu: PathMtu::Mtu256,
            asked_path_mtu: PathMtu::Mtu256,
            pd: None,
            pairs: Vec::new(),
            write_lat: None,
            messages: 0,
            iterations: None,
            results: 0,
        }
    }

    /// Its id.
    #[must_use]
    pub const fn id(&self) -> u32 {
        self.id
    }

    /// The test it runs.
    #[must_use]
    pub const fn test(&self) -> Test {
        self.test
    }

    /// How it is served.
    pub(super) const fn options(&self) -> &Options {
        &self.options
    }

    /// Where its exchange is.
    #[must_use]
    pub const fn exchange(&self) -> &Exchange {
        &self.exchange
    }

    /// Bytes of the client's next message.
    #[must_use]
    pub const fn next_len(&self) -> usize {
        self.exchange.next_len()
    }

    /// Whether the client may close the connection now without having failed.
    #[must_use]
    pub fn may_end(&self) -> bool {
        self.exchange.may_end()
    }

    /// Whether the client is running: it may be silent for as long as that takes.
    #[must_use]
    pub fn is_running(&self) -> bool {
        self.exchange.is_running()
    }

    /// The path MTU agreed on.
    #[must_use]
    pub const fn path_mtu(&self) -> PathMtu {
        self.path_mtu
    }

    /// The path MTU that the client would have used: it and we take the smaller one.
    #[must_use]
    pub const fn asked_path_mtu(&self) -> PathMtu {
        self.asked_path_mtu
    }

    /// Messages it has received or answered, where the service sees them.
    #[must_use]
    pub const fn messages(&self) -> u64 {
        self.messages
    }

    /// Iterations the client reports, in the bandwidth tests that do.
    #[must_use]
    pub const fn reported_iterations(&self) -> Option<u64> {
        self.iterations
    }

    /// Whether anything has come to its queue pairs, or of what they sent been acknowledged, since
    /// this was last asked.
    pub(super) fn has_moved<P: Platform>(&mut self, context: &Context<'_, '_, P>) -> bool {
        // Each is looked at, for the next time.
        self.pairs.iter_mut().fold(false, |moved, pair| pair.has_moved(context) | moved)
    }

    /// Its queue pairs with the memory behind them.
    pub fn regions(&self) -> impl Iterator<Item = SharedRegion> {
        self.pairs.iter().map(|pair| SharedRegion {
            qpn: pair.qpn,
            exposed: pair.memory.exposed,
            receives: u32::from(self.test.receives()),
        })
    }

    /// Whether a queue pair serves this client.
    #[must_use]
    pub fn owns(&self, qpn: Qpn) -> bool {
        self.pairs.iter().any(|pair| pair.qpn == qpn)
    }

    /// Takes a message, over TCP of `exchange().next_len()` bytes, and writes the answer, if there
    /// is one, to `reply`.
    ///
    /// # Errors
    /// [`SessionError`]: close the session and the connection.
    pub fn handle_message<P: Platform>(
        &mut self,
        bytes: &[u8],
        reply: &mut Reply,
        context: &mut Context<'_, '_, P>,
    ) -> Result<Progress, SessionError> {
        let mut new_qp = false;
        let form = self.exchange.form();
        let (key, binary);
        let number;
        let path_mtu;
        let answer: &[u8] = match self.exchange.parse(bytes)? {
            Message::Version => &VERSION,
            Message::CycleBuffer(cycle) => {
                let region = self.options.region_len;
                if cycle > region {
                    return Err(SessionError::CycleBuffer { cycle, region });
                }
                number = CYCLE_BUFFER.to_be_bytes();
                &number
            }
            Message::CacheLine(_) => {
                number = CACHE_LINE.to_be_bytes();
                &number
            }
            Message::PathMtu(theirs) => {
                self.asked_path_mtu = theirs;
                self.path_mtu = theirs.min(context.path_mtu);
                path_mtu = [b'0' + context.path_mtu.code(), 0];
                &path_mtu
            }
            Message::Key(theirs) => {
                let attr = self.pair_attr(context);
                let known = self.pairs.iter_mut().find(|pair| pair.peer_qpn == theirs.qpn);
                let ours = match known {
                    Some(pair) => {
                        new_qp = pair.peer.is_none();
                        pair.peer.get_or_insert(theirs);
                        pair.key(&attr, context)
                    }
                    None if self.exchange.has_joined() => {
                        return Err(ExchangeError::UnknownQp.into());
                    }
                    None => {
                        new_qp = true;
                        self.connect(theirs, &attr, context)?
                    }
                };
                match form {
                    Form::Text => {
                        key = ours.emit();
                        &key
                    }
                    Form::Binary => {
                        binary = ours.emit_binary();
                        &binary
                    }
                }
            }
            Message::Barrier => &[0; KeyMessage::BINARY_LEN],
            Message::Result(value) => {
                // The second of the five is how many iterations the run had.
                if self.results == 1 {
                    self.iterations = Some(value);
                }
                self.results += 1;
                // The client makes nothing of ours.
                &[0; 8]
            }
            Message::Done => &[],
        };
        let progress = self.exchange.advance(new_qp)?;
        // The capacity is the longest answer with `done` behind it.
        let _ = reply.extend_from_slice(answer);
        match progress {
            Progress::Started => self.start(context)?,
            Progress::Finished if form == Form::Text => {
                let _ = reply.extend_from_slice(&DONE);
            }
            Progress::Finished | Progress::Continues | Progress::Over => {}
        }
        Ok(progress)
    }

    /// Answers a client's queue pair with one of ours.
    fn connect<P: Platform>(
        &mut self,
        peer: KeyMessage,
        attr: &PairAttr,
        context: &mut Context<'_, '_, P>,
    ) -> Result<KeyMessage, SessionError> {
        if self.pairs.is_full() {
            return Err(ExchangeError::TooManyQps.into());
        }
        let pair = Pair::new(peer, attr, context)?;
        let connected = pair.connect(attr, self.wr_id(self.pairs.len()), context);
        let key = pair.key(attr, context);
        // There is room: it was checked. From here on `close` cleans up.
        let _ = self.pairs.push(pair);
        connected.map(|()| key)
    }

    /// What a client's queue pair is given that comes by RDMA CM.
    pub(super) fn lend<P: Platform>(
        &mut self,
        context: &mut Context<'_, '_, P>,
    ) -> Result<(PairAttr, PairMemory), SessionError> {
        if self.pairs.is_full() || (!self.test.is_bandwidth() && !self.pairs.is_empty()) {
            return Err(ExchangeError::TooManyQps.into());
        }
        let attr = self.pair_attr(context);
        Ok((attr, PairMemory::new(&attr, context)?))
    }

    /// Takes a client's queue pair that is connected already, to `ours` at our address, with what was
    /// lent for it.
    pub(super) fn join<P: Platform>(
        &mut self,
        ours: (Qpn, IpAddr),
        peer_qpn: Qpn,
        (attr, memory): (PairAttr, PairMemory),
        context: &mut Context<'_, '_, P>,
    ) -> Result<(), SessionError> {
        let pair = Pair::connected(ours, peer_qpn, memory);
        let posted = pair.post_receives(&attr, self.wr_id(self.pairs.len()), context);
        // There is room: it was looked at.
        let _ = self.pairs.push(pair);
        posted
    }

    fn pair_attr<P: Platform>(&mut self, context: &mut Context<'_, '_, P>) -> PairAttr {
        PairAttr {
            test: self.test,
            access: self.test.access() | self.options.access,
            pd: *self.pd.get_or_insert_with(|| context.engine.alloc_pd()),
            path_mtu: self.path_mtu,
            region_len: self.options.region_len,
        }
    }

    fn wr_id(&self, index: usize) -> u64 {
        wr_id(self.id, u32::try_from(index).unwrap_or(0))
    }

    /// The client runs as soon as it has its answer.
    fn start<P: Platform>(&mut self, context: &mut Context<'_, '_, P>) -> Result<(), SessionError> {
        let Some(Pair { peer: Some(peer), qpn, memory, .. }) = self.pairs.first() else {
            return Ok(());
        };
        let Some(source) = &memory.source else { return Ok(()) };
        if self.test == Test::WriteLat {
            let write_lat = WriteLat::new(*qpn, peer, *source, &self.options, self.wr_id(0));
            self.write_lat.insert(write_lat).start(context)?;
        }
        Ok(())
    }

    /// Takes a completion whose `wr_id` is one of this client's.
    ///
    /// # Errors
    /// [`SessionError`]: close the session and the connection.
    pub fn handle_completion<P: Platform>(
        &mut self,
        wc: &Wc,
        context: &mut Context<'_, '_, P>,
    ) -> Result<(), SessionError> {
        // What follows the first failure, or a refusal, is flushed.
        match wc.status {
            WcStatus::Success => {}
            WcStatus::WrFlush => return Ok(()),
            status => return Err(SessionError::Failed(status)),
        }
        if wc.opcode == WcOpcode::RdmaWrite {
            return match &mut self.write_lat {
                Some(write_lat) => write_lat.handle_completion(context),
                None => Ok(()),
            };
        }
        if wc.opcode != WcOpcode::Recv {
            return Ok(());
        }
        self.messages += 1;
        let index = usize::try_from(low_of(wc.wr_id)).unwrap_or(usize::MAX);
        let Some(pair) = self.pairs.get(index) else { return Ok(()) };
        pair.post_receive(self.options.region_len, wc.wr_id, context)?;
        if self.test == Test::SendLat
            && let Some(source) = pair.memory.source
        {
            let sges = [source.sge(0, wc.byte_len)];
            let wr = SendWr::new(wc.wr_id, WrOpcode::Send, &sges).unsignaled();
            context.engine.post_send(pair.qpn, &wr)?;
        }
        Ok(())
    }

    /// Takes an event about a queue pair of this client's.
    ///
    /// # Errors
    /// [`SessionError`]: close the session and the connection.
    pub fn handle_event<P: Platform>(
        &mut self,
        event: &Event,
        context: &mut Context<'_, '_, P>,
    ) -> Result<(), SessionError> {
        match event {
            Event::RemoteWrite { len, .. } => {
                self.messages += 1;
                match &mut self.write_lat {
                    Some(write_lat) => write_lat.handle_write(*len, context),
                    None => Ok(()),
                }
            }
            Event::RequestRefused { code, .. } => Err(SessionError::Refused(*code)),
            Event::RequestFailed { status, .. } => Err(SessionError::Failed(*status)),
            _ => Ok(()),
        }
    }

    /// When [`Session::handle_timeout`] is due.
    #[must_use]
    pub fn poll_timeout(&self) -> Option<Instant> {
        self.write_lat.as_ref().and_then(WriteLat::poll_timeout)
    }

    /// Does what has waited for its time.
    ///
    /// # Errors
    /// [`SessionError`]: close the session and the connection.
    pub fn handle_timeout<P: Platform>(
        &mut self,
        context: &mut Context<'_, '_, P>,
    ) -> Result<(), SessionError> {
        match &mut self.write_lat {
            Some(write_lat) => write_lat.handle_timeout(context),
            None => Ok(()),
        }
    }

    /// Destroys its queue pairs and takes its memory back.
    pub fn close<P: Platform>(self, context: &mut Context<'_, '_, P>) {
        self.pairs.into_iter().for_each(|pair| pair.close(context));
    }
}
