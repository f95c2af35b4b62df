//! The connection that carries the exchange with `-R`, on either side: SENDs, one message each.

use core::net::IpAddr;

use heapless::Vec;
use roce_codec::cm::{CommunicationId, PortSpace, RdmaCmServiceId};
use roce_codec::ib::Qpn;
use roce_engine::cm::QpAttributes;
use roce_engine::{Access, Backing, Pd, RecvWr, SendWr, Wc, WcStatus, WrOpcode};

use super::key::KeyMessage;
use crate::service::cm::{CmServiceError, Connection, ConnectionAttr, Gsi, Request};
use crate::service::memory::{Exposed, read};
use crate::service::{Context, Platform, low_of, wr_id};

/// Messages that may wait to be looked at, and to be acknowledged: more than a peer has reason for.
const PLACES: u32 = 8;
/// Apart in memory, by a cache line: more than the longest message.
const STRIDE: u32 = 64;
const SENDS_AT: u32 = PLACES * STRIDE;
const REGION_LEN: u32 = 2 * PLACES * STRIDE;

/// The largest message.
pub(super) const MAX_LEN: usize = 64;
const _: () = assert!(KeyMessage::BINARY_LEN <= MAX_LEN && STRIDE == 64);

/// See the [module](self). It is to be ended with [`Control::close`].
#[derive(Debug)]
pub(super) struct Control {
    number: u32,
    connection: Connection,
    exposed: Exposed,
    sent: u32,
}

impl Control {
    /// Accepts a client's. `number` is the session's.
    pub(super) fn accept<P: Platform>(
        number: u32,
        id: CommunicationId,
        request: &Request,
        gsi: &mut Gsi<'_>,
        context: &mut Context<'_, '_, P>,
    ) -> Result<Self, CmServiceError> {
        let pd = context.engine.alloc_pd();
        let attr = Self::attr(pd);
        let mut control = Self::new(number, pd, context, |context| {
            Connection::requested(id, request, &attr, context)
        })?;
        let accepted = control
            .post_receives(context)
            .and_then(|()| control.connection.accept(&[], gsi, context));
        control.kept_if(accepted, gsi, context)
    }

    /// Asks a server at a port of RDMA CM's for one. `src_port` is what our user names.
    pub(super) fn connect<P: Platform>(
        number: u32,
        server: IpAddr,
        (src_port, port): (u16, u16),
        attr: impl FnOnce(ConnectionAttr) -> ConnectionAttr,
        gsi: &mut Gsi<'_>,
        context: &mut Context<'_, '_, P>,
    ) -> Result<Self, CmServiceError> {
        let pd = context.engine.alloc_pd();
        let attr = attr(Self::attr(pd));
        let service = RdmaCmServiceId { port_space: PortSpace::TCP, port }.into();
        let control = Self::new(number, pd, context, |context| {
            Connection::connect(server, service, (src_port, port), &[], &attr, gsi, context)
        })?;
        let posted = control.post_receives(context);
        control.kept_if(posted, gsi, context)
    }

    /// No READs and no atomics, as perftest has it.
    fn attr(pd: Pd) -> ConnectionAttr {
        ConnectionAttr {
            max_send_wr: PLACES,
            max_recv_wr: PLACES,
            responder_resources: 0,
            initiator_depth: 0,
            ..ConnectionAttr::new(pd)
        }
    }

    fn new<P: Platform>(
        number: u32,
        pd: Pd,
        context: &mut Context<'_, '_, P>,
        make: impl FnOnce(&mut Context<'_, '_, P>) -> Result<Connection, CmServiceError>,
    ) -> Result<Self, CmServiceError> {
        let exposed = Exposed::new(context, pd, REGION_LEN.into(), Access::LOCAL_WRITE)?;
        let connection = match make(context) {
            Ok(connection) => connection,
            Err(error) => {
                exposed.withdraw(context);
                return Err(error);
            }
        };
        Ok(Self { number, connection, exposed, sent: 0 })
    }

    /// Itself if that went well; it is closed if not.
    fn kept_if<P: Platform>(
        self,
        result: Result<(), CmServiceError>,
        gsi: &mut Gsi<'_>,
        context: &mut Context<'_, '_, P>,
    ) -> Result<Self, CmServiceError> {
        match result {
            Ok(()) => Ok(self),
            Err(error) => {
                self.close(gsi, context);
                Err(error)
            }
        }
    }

    /// The connection's name.
    pub(super) const fn id(&self) -> CommunicationId {
        self.connection.id()
    }

    /// Its queue pair.
    pub(super) const fn qpn(&self) -> Qpn {
        self.connection.qpn()
    }

    /// The peer.
    pub(super) const fn peer(&self) -> IpAddr {
        self.connection.peer()
    }

    /// Our address.
    pub(super) const fn source(&self) -> IpAddr {
        self.connection.source()
    }

    /// The server has accepted.
    pub(super) fn ready<P: Platform>(
        &mut self,
        agreed: &QpAttributes,
        gsi: &mut Gsi<'_>,
        context: &mut Context<'_, '_, P>,
    ) -> Result<(), CmServiceError> {
        self.connection.ready(agreed, gsi, context)
    }

    fn post_receives<P: Platform>(
        &self,
        context: &mut Context<'_, '_, P>,
    ) -> Result<(), CmServiceError> {
        (0..PLACES).try_for_each(|place| self.post_receive(place, context))
    }

    fn post_receive<P: Platform>(
        &self,
        place: u32,
        context: &mut Context<'_, '_, P>,
    ) -> Result<(), CmServiceError> {
        let sges = [self.exposed.sge(place * STRIDE, STRIDE)];
        let wr = RecvWr::new(wr_id(self.number, place), &sges);
        Ok(context.engine.post_recv(self.qpn(), &wr)?)
    }

    /// The message that a completed receive brought; its place takes another one.
    pub(super) fn received<P: Platform>(
        &self,
        wc: &Wc,
        context: &mut Context<'_, '_, P>,
    ) -> Result<Vec<u8, MAX_LEN>, CmServiceError> {
        let place = low_of(wc.wr_id) % PLACES;
        let mut message = Vec::new();
        let len = usize::try_from(wc.byte_len).unwrap_or(MAX_LEN).min(MAX_LEN);
        // There is room: no receive is longer.
        let _ = message.resize_default(len);
        if !read(context.platform.memory(), self.exposed.addr(place * STRIDE), &mut message) {
            return Err(CmServiceError::Failed(WcStatus::LocalProtection));
        }
        self.post_receive(place, context)?;
        Ok(message)
    }

    /// SENDs a message. Its place is not used again before eight others: by then the peer has
    /// answered it.
    pub(super) fn send<P: Platform>(
        &mut self,
        message: &[u8],
        context: &mut Context<'_, '_, P>,
    ) -> Result<(), CmServiceError> {
        let offset = SENDS_AT + self.sent % PLACES * STRIDE;
        let len = u32::try_from(message.len()).unwrap_or(u32::MAX);
        if len > STRIDE {
            return Err(CmServiceError::Protocol);
        }
        self.sent = self.sent.wrapping_add(1);
        let at = self.exposed.addr(offset);
        let written = context.platform.memory().write(at, [message, &[]]);
        written.map_err(|_| CmServiceError::Failed(WcStatus::LocalProtection))?;
        let sges = [self.exposed.sge(offset, len)];
        let wr = SendWr::new(wr_id(self.number, 0), WrOpcode::Send, &sges);
        Ok(context.engine.post_send(self.qpn(), &wr)?)
    }

    /// Disconnects, and gives everything back.
    pub(super) fn close<P: Platform>(self, gsi: &mut Gsi<'_>, context: &mut Context<'_, '_, P>) {
        self.connection.close(gsi, context);
        self.exposed.withdraw(context);
    }
}
