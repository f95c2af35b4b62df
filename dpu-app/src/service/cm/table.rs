//! Services by what they are asked for by, sessions by what they own.

use heapless::Vec;
use roce_codec::cm::RejReason;
use roce_engine::cm::CmState;
use roce_engine::{Event, Instant, Wc, WcStatus};

use super::{
    AnySession, CmService, CmServiceError, CmSession, End, Gsi, GsiCounters, Notice, Request, What,
};
use crate::service::{Context, Platform, session_of};

/// Sessions at a time; a further peer is rejected for want of resources.
pub const MAX_SESSIONS: usize = 64;
/// Services at a time.
const MAX_SERVICES: usize = 16;
/// Connections of a service that are not established yet.
const BACKLOG: u32 = 16;

/// Numbers of sessions of the connection manager have this bit, those of others do not.
const NUMBER: u32 = 0x8000_0000;

/// See the [module](super). One of it serves an engine.
#[derive(Debug)]
pub struct CmServices<'s> {
    gsi: Gsi<'s>,
    services: Vec<CmService, MAX_SERVICES>,
    sessions: Vec<(u32, AnySession), MAX_SESSIONS>,
    ended: Vec<End, MAX_SESSIONS>,
    next: u32,
}

impl<'s> CmServices<'s> {
    /// No service yet.
    #[must_use]
    pub const fn new(gsi: Gsi<'s>) -> Self {
        Self { gsi, services: Vec::new(), sessions: Vec::new(), ended: Vec::new(), next: 0 }
    }

    /// Serves a service from now on.
    ///
    /// # Errors
    /// [`CmServiceError::Cm`] and [`CmServiceError::Full`].
    pub fn serve(&mut self, service: CmService) -> Result<(), CmServiceError> {
        if self.services.is_full() {
            return Err(CmServiceError::Full);
        }
        self.gsi.listen(service.service_id(), BACKLOG)?;
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
        if self.sessions.is_full() {
            session.close(&mut self.gsi, context);
            return Err(CmServiceError::Full);
        }
        // There is room: it was looked at.
        let _ = self.sessions.push((number, session));
        Ok(())
    }

    /// Sessions there are.
    #[must_use]
    pub fn len(&self) -> usize {
        self.sessions.len()
    }

    /// Whether there is no session.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.sessions.is_empty()
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
        // That of a session that has ended goes nowhere.
        let Some(index) = self.sessions.iter().position(|(own, _)| *own == number) else { return };
        if let Some((_, session)) = self.sessions.get_mut(index) {
            let result = match wc.status {
                WcStatus::Success => session.handle_completion(wc, &mut self.gsi, context),
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
        let Some(index) = self.sessions.iter().position(|(_, session)| session.owns(qpn)) else {
            return false;
        };
        let Some((_, session)) = self.sessions.get_mut(index) else { return false };
        if let Event::CommunicationEstablished(_) = event {
            // The RTU may have come after all.
            let _ = self.gsi.cm().communication_established(context.now, session.id());
        }
        let result = session.handle_event(event, &mut self.gsi, context);
        self.settle(index, result, context);
        true
    }

    /// When [`CmServices::poll`] is due even if nothing has come.
    #[must_use]
    pub fn poll_timeout(&self) -> Option<Instant> {
        let sessions = self.sessions.iter().filter_map(|(_, session)| session.poll_timeout());
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
        for index in (0..self.sessions.len()).rev() {
            let Some((_, session)) = self.sessions.get_mut(index) else { continue };
            if session.poll_timeout().is_some_and(|due| due <= context.now) {
                any = true;
                let result = session.handle_timeout(&mut self.gsi, context);
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
        let known = self.sessions.iter().position(|(_, session)| session.id() == notice.id);
        match known {
            Some(index) => {
                if let Some((_, session)) = self.sessions.get_mut(index) {
                    let result = session.handle_notice(notice, &mut self.gsi, context);
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
        let asked = |service: &&CmService| service.service_id() == request.service_id;
        let service = self.services.iter().find(asked).copied();
        let number = self.number();
        let opened = match service {
            Some(service) if !self.sessions.is_full() => {
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
                let _ = self.ended.push(End { service, peer, count: 0, error: Some(error) });
            }
        }
    }

    fn settle<P: Platform>(
        &mut self,
        index: usize,
        result: Result<(), CmServiceError>,
        context: &mut Context<'_, '_, P>,
    ) {
        let over = self.sessions.get(index).is_some_and(|(_, session)| session.is_over());
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
        let (_, session) = self.sessions.swap_remove(index);
        let (peer, count) = (session.peer(), session.count());
        let end = End { service: session.name(), peer, count, error };
        // The oldest that nobody asked about makes room.
        if self.ended.is_full() {
            self.ended.remove(0);
        }
        let _ = self.ended.push(end);
        session.close(&mut self.gsi, context);
    }

    /// Whether a peer has still to answer that it is disconnected.
    #[must_use]
    pub fn is_disconnecting(&mut self) -> bool {
        self.gsi.cm().connections().any(|(_, state)| state == CmState::DreqSent)
    }

    /// Ends all sessions and sends what is to be sent, as far as there is room.
    pub fn end_all<P: Platform>(&mut self, context: &mut Context<'_, '_, P>) {
        while let Some(last) = self.sessions.len().checked_sub(1) {
            self.end(last, None, context);
        }
        self.gsi.poll(context);
    }
}
