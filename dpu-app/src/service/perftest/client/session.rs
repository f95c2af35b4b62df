//! A client from its first message to its last. What carries the messages is others' affair.

use core::net::IpAddr;

use heapless::Vec;
use roce_codec::ib::{PathMtu, Qpn};
use roce_engine::{Event, Instant, Pd, Wc, WcOpcode, WcStatus};

use super::super::Test;
use super::super::key::KeyMessage;
use super::super::message::{
    CACHE_LINE, CYCLE_BUFFER, DONE, ExchangeError, Form, Message, VERSION,
};
use super::super::session::MAX_QPS;
use super::error::ClientError;
use super::exchange::{ClientExchange, ClientProgress, Say};
use super::job::Job;
use super::meter::Meter;
use super::pair::{ClientPair, message_of};
use super::ping_pong::PingPong;
use super::stream::Stream;
use crate::service::cm::ConnectionAttr;
use crate::service::memory::SharedRegion;
use crate::service::{Context, Platform, Reply, Route};

/// What a bandwidth test tells the server.
#[derive(Debug, Clone, Copy, PartialEq, Default)]
pub struct Outcome {
    /// Messages of all queue pairs.
    pub iterations: u64,
    /// MiB a second, the best and the average; millions of messages a second.
    pub peak: f64,
    /// See `peak`.
    pub average: f64,
    /// See `peak`.
    pub message_rate: f64,
}

#[derive(Debug)]
enum Run {
    Stream(Stream),
    PingPong(PingPong),
}

/// One client's run. End it with [`Client::close`], whatever has happened.
#[derive(Debug)]
pub struct Client {
    job: Job,
    source: IpAddr,
    exchange: ClientExchange,
    cycle_buffer: u32,
    cache_line: u32,
    path_mtu: PathMtu,
    pd: Option<Pd>,
    pairs: Vec<ClientPair, MAX_QPS>,
    size: u32,
    run: Option<Run>,
    /// When a run for a time ends.
    ends: Option<Instant>,
    has_run: bool,
    outcome: Outcome,
}

impl Client {
    /// A client that sends from `source`, and speaks over TCP or, with `form`
    /// [`Binary`](Form::Binary), by SENDs.
    #[must_use]
    pub const fn new(job: &Job, source: IpAddr, form: Form) -> Self {
        Self {
            job: *job,
            source,
            exchange: ClientExchange::new(job.test, job.qps, job.all_sizes, form),
            cycle_buffer: CYCLE_BUFFER,
            cache_line: CACHE_LINE,
            path_mtu: PathMtu::Mtu256,
            pd: None,
            pairs: Vec::new(),
            size: job.first_size(),
            run: None,
            ends: None,
            has_run: false,
            outcome: Outcome { iterations: 0, peak: 0.0, average: 0.0, message_rate: 0.0 },
        }
    }

    /// The path MTU agreed on: the smaller of the server's and ours.
    #[must_use]
    pub const fn path_mtu(&self) -> PathMtu {
        self.path_mtu
    }

    /// The size of the run, or of the next one.
    #[must_use]
    pub const fn size(&self) -> u32 {
        self.size
    }

    /// The way to the server, once it is known.
    #[must_use]
    pub fn route(&self) -> Option<Route> {
        self.pairs.first().and_then(ClientPair::route)
    }

    /// Its queue pairs with the memory behind them.
    pub fn regions(&self) -> impl Iterator<Item = SharedRegion> {
        self.pairs.iter().map(|pair| SharedRegion {
            qpn: pair.qpn,
            exposed: pair.exposed,
            receives: 0,
        })
    }

    /// Bytes of the server's next message; 0 while it runs, and at the end.
    #[must_use]
    pub fn next_len(&self) -> usize {
        let answer = self.exchange.say().and_then(Say::answer);
        answer.map_or(0, |kind| kind.len(self.exchange.form()))
    }

    /// Whether all has been said.
    #[must_use]
    pub fn is_over(&self) -> bool {
        self.exchange.is_over()
    }

    /// What is to be run.
    #[must_use]
    pub const fn job(&self) -> &Job {
        &self.job
    }

    /// What a connection by RDMA CM is to have, for the next queue pair.
    pub(super) fn connection_attr<P: Platform>(
        &mut self,
        context: &mut Context<'_, '_, P>,
    ) -> ConnectionAttr {
        let pd = self.pd(context);
        ClientPair::connection_attr(&self.job, pd)
    }

    /// Takes a queue pair that is connected by RDMA CM.
    pub(super) fn join<P: Platform>(
        &mut self,
        qpns: (Qpn, Qpn),
        context: &mut Context<'_, '_, P>,
    ) -> Result<(), ClientError> {
        let layout = (self.pd(context), self.job.half(self.cycle_buffer));
        let index = u32::try_from(self.pairs.len()).unwrap_or(u32::MAX);
        let pair = ClientPair::connected(&self.job, index, qpns, layout, context)?;
        self.push(pair, context)
    }

    /// All queue pairs are connected by RDMA CM: writes what is to be said next.
    pub(super) fn joined<P: Platform>(&mut self, out: &mut Reply, context: &Context<'_, '_, P>) {
        let progress = self.exchange.advance();
        self.go_on(progress, out, context);
    }

    fn pd<P: Platform>(&mut self, context: &mut Context<'_, '_, P>) -> Pd {
        *self.pd.get_or_insert_with(|| context.engine.alloc_pd())
    }

    fn push<P: Platform>(
        &mut self,
        pair: ClientPair,
        context: &mut Context<'_, '_, P>,
    ) -> Result<(), ClientError> {
        self.pairs.push(pair).map_err(|pair| {
            pair.close(context);
            ExchangeError::TooManyQps.into()
        })
    }

    /// Writes the first message.
    pub fn start<P: Platform>(&mut self, out: &mut Reply, context: &Context<'_, '_, P>) {
        self.say(out, context);
    }

    /// Takes a message of [`Client::next_len`] bytes, and writes what is to be said next.
    ///
    /// # Errors
    /// [`ClientError`]: close the client and the connection.
    pub fn handle_message<P: Platform>(
        &mut self,
        bytes: &[u8],
        out: &mut Reply,
        context: &mut Context<'_, '_, P>,
    ) -> Result<ClientProgress, ClientError> {
        let said = self.exchange.say();
        let Some(kind) = said.and_then(Say::answer) else {
            return Err(ExchangeError::Done.into());
        };
        let form = self.exchange.form();
        match kind.parse(form, bytes)? {
            Message::CycleBuffer(size) => self.cycle_buffer = self.cycle_buffer.max(size),
            Message::CacheLine(size) => self.cache_line = self.cache_line.max(size),
            Message::PathMtu(theirs) => {
                self.path_mtu = theirs.min(context.path_mtu);
                if form == Form::Text {
                    self.create_pairs(context)?;
                }
            }
            Message::Key(theirs) => {
                if let Some(Say::Key(index)) = said {
                    self.connect(index, theirs, context)?;
                }
            }
            Message::Version | Message::Barrier | Message::Result(_) | Message::Done => {}
        }
        let progress = self.exchange.advance();
        self.go_on(progress, out, context);
        Ok(progress)
    }

    /// Takes the run that [`Client::has_run`] to its end: tells the server, or begins the next
    /// size.
    pub fn finish_run<P: Platform>(
        &mut self,
        outcome: Outcome,
        out: &mut Reply,
        context: &Context<'_, '_, P>,
    ) -> ClientProgress {
        self.outcome = outcome;
        self.has_run = false;
        self.run = None;
        let next = self.job.next_size(self.size);
        let progress = self.exchange.finish_run(next.is_some());
        self.size = next.unwrap_or(self.size);
        self.go_on(progress, out, context);
        progress
    }

    fn go_on<P: Platform>(
        &mut self,
        progress: ClientProgress,
        out: &mut Reply,
        context: &Context<'_, '_, P>,
    ) {
        if progress == ClientProgress::Runs {
            self.ends = None;
            self.run = Some(match self.job.test {
                Test::WriteLat | Test::SendLat => {
                    Run::PingPong(PingPong::new(&self.job, self.size))
                }
                _ => {
                    let (cycle, line) = (self.cycle_buffer, self.cache_line);
                    Run::Stream(Stream::new(&self.job, self.size, cycle, line, &mut self.pairs))
                }
            });
        } else {
            self.say(out, context);
        }
    }

    /// Writes what is to be said.
    fn say<P: Platform>(&self, out: &mut Reply, context: &Context<'_, '_, P>) {
        let form = self.exchange.form();
        let (key, binary);
        let number;
        let mtu;
        let value;
        let said: &[u8] = match self.exchange.say() {
            Some(Say::Version) => &VERSION,
            Some(Say::CycleBuffer) => {
                number = CYCLE_BUFFER.to_be_bytes();
                &number
            }
            Some(Say::CacheLine) => {
                number = CACHE_LINE.to_be_bytes();
                &number
            }
            Some(Say::PathMtu) => {
                mtu = [b'0' + context.path_mtu.code(), 0];
                &mtu
            }
            Some(Say::Key(index)) => {
                let index = usize::try_from(index).unwrap_or(usize::MAX);
                let Some(pair) = self.pairs.get(index) else { return };
                let ours = pair.key(&self.job, self.source);
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
            Some(Say::Barrier) => &[0; KeyMessage::BINARY_LEN],
            Some(Say::Result(index)) => {
                value = self.result(index).to_be_bytes();
                &value
            }
            Some(Say::Done) if form == Form::Text => &DONE,
            Some(Say::Done) | None => &[],
        };
        // The capacity is the longest message with `done` behind it.
        let _ = out.extend_from_slice(said);
    }

    /// The five values that a bandwidth test ends with.
    const fn result(&self, index: u32) -> u64 {
        match index {
            0 => self.size as u64,
            1 => self.outcome.iterations,
            2 => self.outcome.peak.to_bits(),
            3 => self.outcome.average.to_bits(),
            _ => self.outcome.message_rate.to_bits(),
        }
    }

    fn create_pairs<P: Platform>(
        &mut self,
        context: &mut Context<'_, '_, P>,
    ) -> Result<(), ClientError> {
        let pd = self.pd(context);
        let half = self.job.half(self.cycle_buffer);
        for index in 0..self.job.qps {
            let pair = ClientPair::new(&self.job, index, pd, half, context)?;
            self.push(pair, context)?;
        }
        Ok(())
    }

    /// Joins a queue pair to the server's, the first time that this one is named. Where they are joined
    /// already, it is the one that the server's number says.
    fn connect<P: Platform>(
        &mut self,
        index: u32,
        theirs: KeyMessage,
        context: &mut Context<'_, '_, P>,
    ) -> Result<(), ClientError> {
        if self.exchange.form() == Form::Binary {
            let mut pairs = self.pairs.iter_mut();
            let pair = pairs.find(|pair| pair.peer_qpn() == Some(theirs.qpn));
            pair.ok_or(ExchangeError::UnknownQp)?.told(theirs);
            return Ok(());
        }
        let index = usize::try_from(index).unwrap_or(usize::MAX);
        match self.pairs.get_mut(index) {
            Some(pair) if !pair.is_connected() => {
                pair.connect(theirs, self.source, &self.job, self.path_mtu, context)
            }
            _ => Ok(()),
        }
    }

    /// Posts what is to be posted, and looks at the time.
    ///
    /// # Errors
    /// [`ClientError`]: close the client and the connection.
    pub fn poll<P: Platform>(
        &mut self,
        meter: &mut impl Meter,
        context: &mut Context<'_, '_, P>,
    ) -> Result<(), ClientError> {
        let Some(run) = &mut self.run else { return Ok(()) };
        if self.has_run {
            return Ok(());
        }
        if self.job.iterations.is_none() {
            let end = context.now.add_ns(self.job.duration_ns);
            if *self.ends.get_or_insert(end) <= context.now {
                // What is still under way is not waited for: it does not count.
                self.has_run = true;
                return Ok(());
            }
        }
        self.has_run = match run {
            Run::Stream(stream) => {
                stream.poll(&mut self.pairs, meter, context)?;
                stream.is_over(&self.pairs)
            }
            Run::PingPong(ping_pong) => {
                let Some(pair) = self.pairs.first() else { return Ok(()) };
                ping_pong.poll(pair, meter, context)?;
                ping_pong.is_over()
            }
        };
        Ok(())
    }

    /// Whether a run has come to its end, and [`Client::finish_run`] is to be called.
    #[must_use]
    pub const fn has_run(&self) -> bool {
        self.has_run
    }

    /// Takes a completion.
    ///
    /// # Errors
    /// [`ClientError`]: close the client and the connection.
    pub fn handle_completion<P: Platform>(
        &mut self,
        wc: &Wc,
        meter: &mut impl Meter,
        context: &mut Context<'_, '_, P>,
    ) -> Result<(), ClientError> {
        // What ends after a run is not looked at: the server may be gone.
        let Some(run) = &mut self.run else { return Ok(()) };
        let (qp, index) = message_of(wc);
        let Some(pair) = self.pairs.get_mut(qp) else { return Ok(()) };
        match wc.status {
            WcStatus::Success => {}
            WcStatus::WrFlush => return Ok(()),
            status => {
                return Err(ClientError::Failed {
                    test: self.job.test,
                    status,
                    qp: u32::try_from(qp).unwrap_or(0),
                    message: index,
                    psn: pair.unacknowledged(context)?,
                });
            }
        }
        match run {
            Run::Stream(_) => {
                Stream::handle_completion(pair, index);
                meter.completed(qp, index, context.now);
            }
            Run::PingPong(ping_pong) if wc.opcode == WcOpcode::Recv => {
                ping_pong.handle_receive(wc.byte_len, pair, meter, context)?;
            }
            Run::PingPong(ping_pong) => ping_pong.handle_completion(index),
        }
        Ok(())
    }

    /// Takes an event about a queue pair.
    ///
    /// # Errors
    /// [`ClientError`]: close the client and the connection.
    pub fn handle_event(&self, event: &Event) -> Result<(), ClientError> {
        match event {
            Event::RequestRefused { code, .. } if self.run.is_some() => {
                Err(ClientError::Refused(*code))
            }
            _ => Ok(()),
        }
    }

    /// The server has closed the connection; says whether it may. That of `write_lat` does
    /// once it has seen the last message, and says nothing: then the acknowledgement may never
    /// come.
    pub fn handle_closed(&mut self) -> bool {
        if let Some(Run::PingPong(ping_pong)) = &self.run
            && ping_pong.may_be_left()
        {
            self.has_run = true;
        }
        self.has_run || self.exchange.is_at_its_end()
    }

    /// Destroys the queue pairs and gives their memory back.
    pub fn close<P: Platform>(self, context: &mut Context<'_, '_, P>) {
        self.pairs.into_iter().for_each(|pair| pair.close(context));
    }
}
