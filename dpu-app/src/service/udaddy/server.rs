//! The server's side.

use core::net::IpAddr;

use roce_codec::cm::{CommunicationId, SidrStatus};
use roce_codec::ib::Qpn;
use roce_engine::cm::SidrAnswer;
use roce_engine::{Instant, Wc, WcOpcode};

use super::endpoint::{Endpoint, datagram_len};
use super::{IDLE_NS, MAX_COUNT, QKEY};
use crate::service::cm::{CmServiceError, CmSession, Gsi, Notice, Request};
use crate::service::{Context, Platform, low_of};

/// One client of the server's.
#[derive(Debug)]
pub struct Server {
    endpoint: Endpoint,
    received: u64,
    ends: Instant,
    over: bool,
}

impl Server {
    /// Answers a client that asks which queue pair serves it. `number` is the session's.
    ///
    /// # Errors
    /// [`CmServiceError`]; nothing is kept, and the client has been told that there is none.
    pub fn accept<P: Platform>(
        number: u32,
        id: CommunicationId,
        request: &Request,
        gsi: &mut Gsi<'_>,
        context: &mut Context<'_, '_, P>,
    ) -> Result<Self, CmServiceError> {
        let made = Self::new(number, request, context);
        let (status, qpn) = match &made {
            Ok(server) => (SidrStatus::VALID, server.endpoint.qpn()),
            Err(_) => (SidrStatus::NO_QP, Qpn::new(0)),
        };
        let answer = SidrAnswer { status, qpn, qkey: QKEY, private_data: &[] };
        let answered = gsi.cm().sidr_reply(context.now, id, &answer);
        let server = made?;
        match answered {
            Ok(()) => Ok(server),
            Err(error) => {
                server.close(gsi, context);
                Err(error.into())
            }
        }
    }

    fn new<P: Platform>(
        number: u32,
        request: &Request,
        context: &mut Context<'_, '_, P>,
    ) -> Result<Self, CmServiceError> {
        let len = context.path_mtu.bytes();
        let endpoint = Endpoint::new(number, request.path.dst, MAX_COUNT, len, context)?;
        match (0..MAX_COUNT).try_for_each(|place| endpoint.post_receive(place, context)) {
            Ok(()) => {
                let ends = context.now.add_ns(IDLE_NS);
                Ok(Self { endpoint, received: 0, ends, over: false })
            }
            Err(error) => {
                endpoint.destroy(context);
                Err(error)
            }
        }
    }
}

impl CmSession for Server {
    /// None: a resolution ends with its answer.
    fn has(&self, _: CommunicationId) -> bool {
        false
    }

    fn connection_of(&self, _: Qpn) -> Option<CommunicationId> {
        None
    }

    fn owns(&self, qpn: Qpn) -> bool {
        self.endpoint.qpn() == qpn
    }

    fn peer(&self) -> IpAddr {
        self.endpoint.path().dst
    }

    fn count(&self) -> u64 {
        self.received
    }

    fn is_over(&self) -> bool {
        self.over
    }

    fn handle_notice<P: Platform>(
        &mut self,
        _: &Notice,
        _: &mut Gsi<'_>,
        _: &mut Context<'_, '_, P>,
    ) -> Result<(), CmServiceError> {
        Ok(())
    }

    /// Sends back what has come, and takes what has gone for the next one.
    fn handle_completion<P: Platform>(
        &mut self,
        wc: &Wc,
        _: &mut Gsi<'_>,
        context: &mut Context<'_, '_, P>,
    ) -> Result<(), CmServiceError> {
        self.ends = context.now.add_ns(IDLE_NS);
        let place = low_of(wc.wr_id);
        if wc.opcode != WcOpcode::Recv {
            return self.endpoint.post_receive(place, context);
        }
        self.received += 1;
        // The program takes the number from the immediate data; it is the sender's.
        let qpn = wc.imm.map(Qpn::new).or(wc.src_qp).ok_or(CmServiceError::Protocol)?;
        self.endpoint.send(place, datagram_len(wc), (qpn, QKEY), context)
    }

    fn poll_timeout(&self) -> Option<Instant> {
        Some(self.ends)
    }

    fn handle_timeout<P: Platform>(
        &mut self,
        _: &mut Gsi<'_>,
        context: &mut Context<'_, '_, P>,
    ) -> Result<(), CmServiceError> {
        self.over = self.ends <= context.now;
        Ok(())
    }

    fn close<P: Platform>(self, _: &mut Gsi<'_>, context: &mut Context<'_, '_, P>) {
        self.endpoint.destroy(context);
    }
}
