//! Services by what they are asked for by, sessions by what they own.

use heapless::Vec;
use roce_codec::cm::RejReason;
use roce_engine::{Event, Instant, Wc, WcStatus};

use super::{
    AnySession, CmService, CmServiceError, CmSession, End, Gsi, GsiCounters, Notice, Request, What,
};
use crate::service::{Context, Platform, session_of};

/// Services at a time.
const MAX_SERVICES: usize = 64;
/// Ends of sessions that nobody has asked about yet.
const MAX_ENDED: usize = 64;

/// Numbers of sessions of the connection manager have this bit, those of others do not.
const NUMBER: u32 = 0x8000_0000;

/// A place for a session, with its number.
pub type SessionSlot = Option<(u32, AnySession)>;

/// See the [module](super). One of it serves an engine.
#[derive(Debug)]
pub struct CmServices<'s> {
    gsi: Gsi<'s>,
    services: Vec<CmService, MAX_SERVICES>,
    /// The first `len` are taken.
    sessions: &'s mut [SessionSlot],
    len: usize,
    ended: Vec<End, MAX_ENDED>,
    next: u32,
}

impl<'s> CmServices<'s> {
    /// No service yet. There are as many sessions at a time as there are slots, which are empty; a
    /// further peer is rejected for want of resources.
    #[must_use]
    pub const fn new(gsi: Gsi<'s>, sessions: &'s mut [SessionSlot]) -> Self {
        Self { gsi, services: Vec::new(), sessions, len: 0, ended: Vec::new(), next: 0 }
    }

    /// Serves a service from now on.
    ///
    /// # Errors
    /// [`CmServiceError::Cm`] and [`CmServiceError::Full`].
    pub fn serve(&mut self, service: CmService) -> Result<(), CmServiceError> {
        if self.services.is_full() {
            return Err(CmServiceError::Full);
        }
        self.gsi.listen(service.service_id(), service.backlog())?;
        // There is room: it was looked at.
        let _ = self.services.push(service);
        Ok(())
    }

    /// Queue pair 1.
    pub const fn gsi(&mut self) -> &mut Gsi<'s> {
        &mut self.gsi
    }

    /// What came to queue pair 1 and left it.
    #[must_use]
    pub const fn counters(&self) -> &GsiCounters {
        self.gsi.counters()
    }

    /// The number for the next session of ours.
    pub const fn number(&mut self) -> u32 {
        self.next = self.next.wrapping_add(1);
        NUMBER | self.next
    }

    /// Takes a session of ours, that has this number; if there are too many, it is closed.
    ///
    /// # Errors
    /// [`CmServiceError::Full`].
    pub fn add<P: Platform>(
        &mut self,
        number: u32,
        session: AnySession,
        context: &mut Context<'_, '_, P>,
    ) -> Result<(), CmServiceError> {
        match self.sessions.get_mut(self.len) {
            Some(slot) => {
                *slot = Some((number, session));
                self.len += 1;
                Ok(())
            }
            None => {
                session.close(&mut self.gsi, context);
                Err(CmServiceError::Full)
            }
        }
    }

    /// Where the session is of which something holds.
    fn position(&self, is: impl Fn(u32, &AnySession) -> bool) -> Option<usize> {
        self.live().position(|(number, session)| is(*number, session))
    }

    fn live(&self) -> impl Iterator<Item = &(u32, AnySession)> {
        self.sessions.iter().take(self.len).flatten()
    }

    /// Sessions there are.
    #[must_use]
    pub const fn len(&self) -> usize {
        self.len
    }

    /// Whether there is no session.
    #[must_use]
    pub const fn is_empty(&self) -> bool {
        self.len == 0
    }

    /// Whether a work request is of queue pair 1 or of a session here.
    #[must_use]
    pub fn owns(wr_id: u64) -> bool {
        Gsi::owns(wr_id) || session_of(wr_id) & NUMBER != 0
    }

    /// How sessions ended, the oldest first.
    pub fn poll_end(&mut self) -> Option<End> {
        if self.ended.is_empty() { None } else { Some(self.ended.remove(0)) }
    }

    /// Takes a completion of which [`CmServices::owns`] says so.
    pub fn handle_completion<P: Platform>(&mut self, wc: &Wc, context: &mut Context<'_, '_, P>) {
        if Gsi::owns(wc.wr_id) {
            self.gsi.handle_completion(wc, context);
            return;
        }
        let number = session_of(wc.wr_id);
        // That of a session that has ended goes nowhere: numbers come again after 2^31 requests, queue
        // pairs of another session's do not.
        let is = |own, session: &AnySession| own == number && session.owns(wc.qp);
        let Some(index) = self.position(is) else { return };
        let Self { gsi, sessions, .. } = self;
        if let Some(Some((_, session))) = sessions.get_mut(index) {
            let result = match wc.status {
                WcStatus::Success => session.handle_completion(wc, gsi, context),
                // What made it so has been told already.
                WcStatus::WrFlush => Ok(()),
                status => Err(CmServiceError::Failed(status)),
            };
            self.settle(index, result, context);
        }
    }

    /// Takes an event; says whether it was about a queue pair of a session here.
    pub fn handle_event<P: Platform>(
        &mut self,
        event: &Event,
        context: &mut Context<'_, '_, P>,
    ) -> bool {
        let Some(qpn) = event.qp() else { return false };
        let Some(index) = self.position(|_, session| session.owns(qpn)) else { return false };
        let Self { gsi, sessions, .. } = self;
        let Some(Some((_, session))) = sessions.get_mut(index) else { return false };
        if let (Event::CommunicationEstablished(_), Some(id)) = (event, session.connection_of(qpn))
        {
            // The RTU may have come after all.
            let _ = gsi.cm().communication_established(context.now, id);
        }
        let result = session.handle_event(event, gsi, context);
        self.settle(index, result, context);
        true
    }

    /// When [`CmServices::poll`] is due even if nothing has come.
    #[must_use]
    pub fn poll_timeout(&self) -> Option<Instant> {
        let sessions = self.live().filter_map(|(_, session)| session.poll_timeout());
        sessions.chain(self.gsi.poll_timeout()).min()
    }

    /// Passes on what the connection manager tells, serves timers, sends MADs; says whether there
    /// was anything.
    pub fn poll<P: Platform>(&mut self, context: &mut Context<'_, '_, P>) -> bool {
        let mut any = false;
        while let Some(notice) = self.gsi.poll_notice() {
            any = true;
            self.handle_notice(&notice, context);
        }
        for index in (0..self.len).rev() {
            let Self { gsi, sessions, .. } = &mut *self;
            let Some(Some((_, session))) = sessions.get_mut(index) else { continue };
            if session.poll_timeout().is_some_and(|due| due <= context.now) {
                any = true;
                let result = session.handle_timeout(gsi, context);
                self.settle(index, result, context);
            }
        }
        self.gsi.poll(context) || any
    }

    fn handle_notice<P: Platform>(&mut self, notice: &Notice, context: &mut Context<'_, '_, P>) {
        if let What::ConnectRequest(request) | What::SidrRequest(request) = &notice.what {
            self.open(notice, request, context);
            return;
        }
        match self.position(|_, session| session.has(notice.id)) {
            Some(index) => {
                let Self { gsi, sessions, .. } = self;
                if let Some(Some((_, session))) = sessions.get_mut(index) {
                    let result = session.handle_notice(notice, gsi, context);
                    self.settle(index, result, context);
                }
            }
            // Its session has ended; the peer's DREQ still wants its answer.
            None if notice.what == What::DisconnectRequest => {
                let _ = self.gsi.cm().disconnect(context.now, notice.id, &[]);
            }
            None => {}
        }
    }

    fn open<P: Platform>(
        &mut self,
        notice: &Notice,
        request: &Request,
        context: &mut Context<'_, '_, P>,
    ) {
        if let Some(index) = self.position(|_, session| session.wants(request)) {
            self.join(index, notice, request, context);
            return;
        }
        let asked = |service: &&CmService| service.service_id() == request.service_id;
        let service = self.services.iter().find(asked).copied();
        let number = self.number();
        let opened = match service {
            Some(service) if self.len < self.sessions.len() => {
                service.open(number, notice, request, &mut self.gsi, context)
            }
            _ => Err(CmServiceError::Full),
        };
        match opened {
            Ok(session) => {
                // There is room: it was looked at.
                let _ = self.add(number, session, context);
            }
            Err(error) => {
                // Where it has been rejected already, this is refused.
                let reason = RejReason::NO_RESOURCES;
                let _ = self.gsi.cm().reject(context.now, notice.id, reason, &[], &[]);
                let service = service.map_or("connection manager", |service| service.name());
                let peer = request.path.dst;
                let error = Some(error);
                self.push_end(End { service, peer, count: 0, was_served: false, error });
            }
        }
    }

    fn join<P: Platform>(
        &mut self,
        index: usize,
        notice: &Notice,
        request: &Request,
        context: &mut Context<'_, '_, P>,
    ) {
        let Self { gsi, sessions, .. } = self;
        let Some(Some((_, session))) = sessions.get_mut(index) else { return };
        let result = session.join(notice.id, request, gsi, context);
        if result.is_err() {
            // Where it has been rejected already, this is refused.
            let reason = RejReason::NO_RESOURCES;
            let _ = gsi.cm().reject(context.now, notice.id, reason, &[], &[]);
        }
        self.settle(index, result, context);
    }

    fn settle<P: Platform>(
        &mut self,
        index: usize,
        result: Result<(), CmServiceError>,
        context: &mut Context<'_, '_, P>,
    ) {
        let session = self.sessions.get(index).and_then(Option::as_ref);
        let over = session.is_some_and(|(_, session)| session.is_over());
        if result.is_err() || over {
            self.end(index, result.err(), context);
        }
    }

    fn end<P: Platform>(
        &mut self,
        index: usize,
        error: Option<CmServiceError>,
        context: &mut Context<'_, '_, P>,
    ) {
        let Some((number, session)) = self.sessions.get_mut(index).and_then(Option::take) else {
            return;
        };
        self.len -= 1;
        self.sessions.swap(index, self.len);
        let (peer, count) = (session.peer(), session.count());
        let (service, was_served) = (session.name(), session.is_served());
        session.for_each_region(&mut |region| context.platform.keep(service, number, &region));
        self.push_end(End { service, peer, count, was_served, error });
        session.close(&mut self.gsi, context);
    }

    fn push_end(&mut self, end: End) {
        // The oldest that nobody asked about makes room.
        if self.ended.is_full() {
            self.ended.remove(0);
        }
        let _ = self.ended.push(end);
    }

    /// Whether a peer has still to answer that it is disconnected.
    #[must_use]
    pub fn is_disconnecting(&self) -> bool {
        self.gsi.is_disconnecting()
    }

    /// Ends all sessions and sends what is to be sent, as far as there is room.
    pub fn end_all<P: Platform>(&mut self, context: &mut Context<'_, '_, P>) {
        while let Some(last) = self.len.checked_sub(1) {
            self.end(last, None, context);
        }
        self.gsi.poll(context);
    }
}
