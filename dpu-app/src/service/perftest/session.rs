//! One client, from its first TCP byte to its last: the queue pairs it gets, the memory behind
//! them, and what is sent to it.

use core::fmt;

use heapless::Vec;
use roce_codec::ib::{NakCode, PKey, PathMtu, Psn, Qpn, RnrTimer};
use roce_codec::net::{flow_label_from_qpns, source_port_from_flow_label};
use roce_engine::{
    Access, Entropy, Event, Instant, ModifyQp, Path, Pd, PostError, QpError, QpInit, RecvWr,
    RtrAttr, RtsAttr, SendWr, Wc, WcOpcode, WcStatus, WrOpcode,
};

use super::Test;
use super::exchange::{
    CACHE_LINE, CYCLE_BUFFER, DONE, Exchange, ExchangeError, Message, Progress, VERSION,
};
use super::key::{Gid, KeyMessage};
use super::write_lat::WriteLat;
use crate::service::memory::{ExposeError, Exposed};
use crate::service::{Context, Platform, Route, RouteError};

/// Queue pairs that one client may have.
pub const MAX_QPS: usize = 128;
/// Receives kept posted on a queue pair: as many as perftest's own server keeps.
const RECEIVES: u32 = 512;
/// Sends that may wait on a queue pair; a latency test has one, or two when an acknowledgement
/// is slow.
const SENDS: u32 = 16;

/// What perftest asks of a connection: 67 ms, seven retries, receiver not ready for ever.
const TIMEOUT: u8 = 14;
const RETRY_COUNT: u8 = 7;
const RNR_RETRY: u8 = 7;
/// 0.64 ms.
const MIN_RNR_TIMER: RnrTimer = RnrTimer::new(12);
const HOP_LIMIT: u8 = 64;

/// How a test is served.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Options {
    /// Bytes of the region behind each queue pair, 4,096 to 2³¹: the largest message.
    pub region_len: u32,
    /// For `write_lat`, which has to write first: the client's message size, if known.
    pub size: Option<u32>,
    /// For `write_lat`: after how many of the client's WRITEs it is over, if known.
    pub iterations: Option<u64>,
}

/// An answer over TCP, to be sent in one piece.
pub type Reply = Vec<u8, { KeyMessage::LEN + DONE.len() }>;

/// A queue pair and what its client may reach by it.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct SharedRegion {
    /// Our queue pair.
    pub qpn: Qpn,
    /// The region.
    pub exposed: Exposed,
    /// Whether its receives are placed in the region, each at its start.
    pub receives: bool,
}

#[derive(Debug)]
struct Pair {
    peer: KeyMessage,
    route: Route,
    qpn: Qpn,
    psn: Psn,
    exposed: Exposed,
    /// What we send from, in the latency tests where we do.
    source: Option<Exposed>,
}

/// Why a session ended before its time.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[non_exhaustive]
pub enum SessionError {
    /// The peer speaks something else.
    Exchange(ExchangeError),
    /// There is no way to the client's GID.
    Route(RouteError),
    /// No memory for a region.
    Expose(ExposeError),
    /// The engine made no queue pair.
    Qp(QpError),
    /// The engine took no work request.
    Post(PostError),
    /// The client's small messages cycle over more than a region.
    CycleBuffer {
        /// The client's cycle buffer.
        cycle: u32,
        /// Our regions.
        region: u32,
    },
    /// We refused a request of the client's for good.
    Refused(NakCode),
    /// The client refused a request of ours, or did not answer.
    Failed(WcStatus),
    /// The client's `write_lat` does not answer: its message size was not found out.
    SizeUnknown {
        /// What it was tried up to.
        tried: u32,
    },
}

impl fmt::Display for SessionError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Exchange(error) => write!(f, "not understood over TCP: {error}"),
            Self::Route(error) => error.fmt(f),
            Self::Expose(error) => error.fmt(f),
            Self::Qp(error) => error.fmt(f),
            Self::Post(error) => error.fmt(f),
            Self::CycleBuffer { cycle, region } => write!(
                f,
                "its messages cycle over {cycle} bytes, more than a region of {region}; enlarge \
                 --region-size"
            ),
            Self::Refused(code) => write!(
                f,
                "its request was refused ({code:?}); is it this test, with messages no longer \
                 than --region-size?"
            ),
            Self::Failed(status) => write!(f, "a request to it failed: {status}"),
            Self::SizeUnknown { tried } => write!(
                f,
                "it answered no WRITE of up to {tried} bytes; tell its message size \
                 (--service perftest:write_lat,size=BYTES)"
            ),
        }
    }
}

impl core::error::Error for SessionError {}

impl From<ExchangeError> for SessionError {
    fn from(error: ExchangeError) -> Self {
        Self::Exchange(error)
    }
}

impl From<RouteError> for SessionError {
    fn from(error: RouteError) -> Self {
        Self::Route(error)
    }
}

impl From<ExposeError> for SessionError {
    fn from(error: ExposeError) -> Self {
        Self::Expose(error)
    }
}

impl From<QpError> for SessionError {
    fn from(error: QpError) -> Self {
        Self::Qp(error)
    }
}

impl From<PostError> for SessionError {
    fn from(error: PostError) -> Self {
        Self::Post(error)
    }
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
    /// A session for a client that has just connected. `id` is in the upper half of its work
    /// requests' ids, by which their completions find it again.
    #[must_use]
    pub const fn new(id: u32, test: Test, options: Options) -> Self {
        Self {
            id,
            test,
            options,
            exchange: Exchange::new(test),
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

    /// The session that a work request's id belongs to.
    #[must_use]
    pub fn id_of(wr_id: u64) -> u32 {
        u32::try_from(wr_id >> 32).unwrap_or(0)
    }

    /// The test it runs.
    #[must_use]
    pub const fn test(&self) -> Test {
        self.test
    }

    /// Where its TCP exchange is.
    #[must_use]
    pub const fn exchange(&self) -> &Exchange {
        &self.exchange
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

    /// Its queue pairs with the memory behind them.
    pub fn regions(&self) -> impl Iterator<Item = SharedRegion> {
        self.pairs.iter().map(|pair| SharedRegion {
            qpn: pair.qpn,
            exposed: pair.exposed,
            receives: self.test.receives(),
        })
    }

    /// Whether a queue pair is of this session.
    #[must_use]
    pub fn owns(&self, qpn: Qpn) -> bool {
        self.pairs.iter().any(|pair| pair.qpn == qpn)
    }

    /// Takes a message of `exchange().next_len()` bytes from TCP and writes the answer, if there
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
        let mut key = [0; KeyMessage::LEN];
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
                let known = self.pairs.iter().position(|pair| pair.peer.qpn == theirs.qpn);
                new_qp = known.is_none();
                let ours = match known {
                    Some(index) => self.key_of(index, context),
                    None => self.connect(theirs, context)?,
                };
                key = ours.map_or(key, |ours| ours.emit());
                &key
            }
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
            Progress::Finished => {
                let _ = reply.extend_from_slice(&DONE);
            }
            Progress::Continues | Progress::Over => {}
        }
        Ok(progress)
    }

    fn key_of<P: Platform>(
        &self,
        index: usize,
        context: &Context<'_, '_, P>,
    ) -> Option<KeyMessage> {
        let pair = self.pairs.get(index)?;
        let out_reads = if self.test.reads() { self.out_reads(&pair.peer, context) } else { 1 };
        Some(KeyMessage {
            lid: 0,
            out_reads: u16::from(out_reads),
            qpn: pair.qpn,
            psn: pair.psn,
            rkey: pair.exposed.mr.rkey,
            va: pair.exposed.region.va,
            gid: Gid::from(pair.route.src),
            srqn: 0,
        })
    }

    /// Makes the queue pair that answers the client's, ready to receive and to send: the client
    /// may begin as soon as it has the last answer.
    fn connect<P: Platform>(
        &mut self,
        peer: KeyMessage,
        context: &mut Context<'_, '_, P>,
    ) -> Result<Option<KeyMessage>, SessionError> {
        if self.pairs.is_full() {
            return Err(ExchangeError::TooManyQps.into());
        }
        let address = peer.gid.address();
        let pd = *self.pd.get_or_insert_with(|| context.engine.alloc_pd());
        let access = self.test.access();
        let region_len = u64::from(self.options.region_len);
        let qp = QpInit {
            pd,
            send_cq: context.queues.send,
            recv_cq: context.queues.recv,
            max_send_wr: SENDS,
            max_recv_wr: RECEIVES,
            observe_writes: self.test == Test::WriteLat,
        };
        let route = context.platform.route(address)?;
        let made = Exposed::new(context, pd, region_len, access)
            .map_err(SessionError::from)
            .and_then(|exposed| {
                let qpn = context.engine.create_qp(&qp, context.platform.random());
                qpn.map(|qpn| (exposed, qpn)).map_err(|error| {
                    exposed.withdraw(context);
                    error.into()
                })
            });
        let (exposed, qpn) = match made {
            Ok(made) => made,
            Err(error) => {
                context.platform.release_route(route);
                return Err(error);
            }
        };
        let psn = Psn::new(context.platform.random().next_u32());
        let pair = Pair { peer, route, qpn, psn, exposed, source: None };
        // From here on `close` cleans up. There is room: it was checked.
        let index = self.pairs.len();
        let _ = self.pairs.push(pair);
        if matches!(self.test, Test::WriteLat | Test::SendLat) {
            let source = Exposed::new(context, pd, region_len, Access::NONE)?;
            if let Some(pair) = self.pairs.last_mut() {
                pair.source = Some(source);
            }
        }

        let flow_label = flow_label_from_qpns(qpn, peer.qpn);
        let path = Path {
            src: route.src,
            dst: address,
            next_hop: route.next_hop,
            src_port: source_port_from_flow_label(flow_label),
            traffic_class: 0,
            flow_label: 0,
            hop_limit: HOP_LIMIT,
        };
        context.engine.modify_qp(qpn, &ModifyQp::Init { pkey: PKey::DEFAULT, access })?;
        let max_dest_rd_atomic =
            if self.test.reads() { context.engine.max_dest_rd_atomic() } else { 0 };
        let rtr = RtrAttr {
            path,
            path_mtu: self.path_mtu,
            dest_qpn: peer.qpn,
            rq_psn: peer.psn,
            max_dest_rd_atomic,
            min_rnr_timer: MIN_RNR_TIMER,
        };
        context.engine.modify_qp(qpn, &ModifyQp::Rtr(rtr))?;
        let rts = RtsAttr {
            sq_psn: psn,
            timeout: TIMEOUT,
            retry_cnt: RETRY_COUNT,
            rnr_retry: RNR_RETRY,
            max_rd_atomic: 0,
        };
        context.engine.modify_qp(qpn, &ModifyQp::Rts(rts))?;
        if self.test.receives() {
            for _ in 0..RECEIVES {
                self.post_receive(index, context)?;
            }
        }
        Ok(self.key_of(index, context))
    }

    /// READs and atomics that the client may have outstanding: what it says it takes itself,
    /// which is what its device can do, as far as we keep them for replay.
    fn out_reads<P: Platform>(&self, peer: &KeyMessage, context: &Context<'_, '_, P>) -> u8 {
        let most = context.engine.max_dest_rd_atomic();
        u8::try_from(peer.out_reads).unwrap_or(most).clamp(1, most.max(1))
    }

    fn wr_id(&self, index: usize) -> u64 {
        u64::from(self.id) << 32 | u64::try_from(index).unwrap_or(0)
    }

    fn post_receive<P: Platform>(
        &self,
        index: usize,
        context: &mut Context<'_, '_, P>,
    ) -> Result<(), PostError> {
        let Some(pair) = self.pairs.get(index) else { return Ok(()) };
        let sge = pair.exposed.sge(0, self.options.region_len);
        context.engine.post_recv(pair.qpn, &RecvWr { wr_id: self.wr_id(index), sge })
    }

    /// The client runs as soon as it has its answer.
    fn start<P: Platform>(&mut self, context: &mut Context<'_, '_, P>) -> Result<(), SessionError> {
        let Some(Pair { peer, qpn, source: Some(source), .. }) = self.pairs.first() else {
            return Ok(());
        };
        if self.test == Test::WriteLat {
            let write_lat = WriteLat::new(*qpn, peer, *source, &self.options, self.wr_id(0));
            self.write_lat.insert(write_lat).start(context)?;
        }
        Ok(())
    }

    /// Takes a completion whose `wr_id` is of this session.
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
        let index = usize::try_from(wc.wr_id & u64::from(u32::MAX)).unwrap_or(usize::MAX);
        self.post_receive(index, context)?;
        if self.test == Test::SendLat
            && let Some(pair) = self.pairs.get(index)
            && let Some(source) = pair.source
        {
            let wr = SendWr {
                wr_id: self.wr_id(index),
                opcode: WrOpcode::Send,
                sge: source.sge(0, wc.byte_len),
                signaled: false,
                solicited: false,
            };
            context.engine.post_send(pair.qpn, &wr)?;
        }
        Ok(())
    }

    /// Takes an event about a queue pair of this session.
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
        for pair in self.pairs {
            // It is there: nobody else destroys it.
            let _ = context.engine.destroy_qp(pair.qpn);
            pair.exposed.withdraw(context);
            if let Some(source) = pair.source {
                source.withdraw(context);
            }
            context.platform.release_route(pair.route);
        }
    }
}
