//! The client's side.

use core::net::IpAddr;

use roce_codec::cm::{CommunicationId, PortSpace, RdmaCmServiceId, RejReason, SidrStatus};
use roce_codec::ib::{QKey, Qpn};
use roce_engine::cm::SidrQuery;
use roce_engine::{Addr, Instant, PostError, Wc, WcOpcode};

use super::endpoint::{Endpoint, area_len, datagram_len};
use super::{IDLE_NS, MAX_COUNT};
use crate::service::cm::{CmServiceError, CmSession, Gsi, Notice, What};
use crate::service::memory::each_piece;
use crate::service::{Context, Platform, low_of};

/// Times the request for the queue pair is sent again: of 4.3 s each, some 30 s in all.
const MAX_CM_RETRIES: u8 = 6;

/// What a client does.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct ClientOptions {
    /// The server.
    pub peer: IpAddr,
    /// The port of RDMA CM's, in UDP's space, that it is asked for by.
    pub port: u16,
    /// The port that our user would have; no UDP port.
    pub src_port: u16,
    /// Datagrams each way, 1 to [`MAX_COUNT`]: the program's `-C`.
    pub count: u32,
    /// Bytes of each, 1 to what the path MTU carries: its `-S`.
    pub size: u32,
}

/// A client of one server.
#[derive(Debug)]
pub struct Client {
    options: ClientOptions,
    endpoint: Endpoint,
    /// The resolution; 0 once it is over.
    id: CommunicationId,
    sent: u32,
    received: u32,
    /// When what is missing is taken to be lost.
    patience: Option<Instant>,
}

impl Client {
    /// Asks a server which queue pair serves. `number` is the session's.
    ///
    /// # Errors
    /// [`CmServiceError`]; nothing is kept. [`PostError::Length`] where a datagram is longer than the
    /// path MTU, or there are too many.
    pub fn connect<P: Platform>(
        number: u32,
        options: &ClientOptions,
        gsi: &mut Gsi<'_>,
        context: &mut Context<'_, '_, P>,
    ) -> Result<Self, CmServiceError> {
        let ClientOptions { peer, port, src_port, count, size } = *options;
        let sizes = 1..=context.path_mtu.bytes();
        if !((1..=MAX_COUNT).contains(&count) && sizes.contains(&size)) {
            return Err(PostError::Length.into());
        }
        // A place for each answer, and one for what is sent.
        let endpoint = Endpoint::new(number, peer, count + 1, size, context)?;
        endpoint.exposed().fill_with_noise(context);
        let service = RdmaCmServiceId { port_space: PortSpace::UDP, port }.into();
        let query = SidrQuery {
            ip_src_port: src_port,
            max_cm_retries: MAX_CM_RETRIES,
            ..SidrQuery::new(service, *endpoint.path())
        };
        let asked = (0..count)
            .try_for_each(|place| endpoint.post_receive(place, context))
            .and_then(|()| Ok(gsi.cm().sidr_request(context.now, &query)?));
        match asked {
            Ok(id) => {
                let (options, patience) = (*options, None);
                Ok(Self { options, endpoint, id, sent: 0, received: 0, patience })
            }
            Err(error) => {
                endpoint.destroy(context);
                Err(error)
            }
        }
    }

    fn send_all<P: Platform>(
        &self,
        to: (Qpn, QKey),
        context: &mut Context<'_, '_, P>,
    ) -> Result<(), CmServiceError> {
        let ClientOptions { count, size, .. } = self.options;
        (0..count).try_for_each(|_| self.endpoint.send(count, size, to, context))
    }

    /// Compares an answer with what was sent: it is that, or the area and the beginning of that.
    fn check<P: Platform>(
        &self,
        wc: &Wc,
        context: &Context<'_, '_, P>,
    ) -> Result<(), CmServiceError> {
        let ClientOptions { count, size, .. } = self.options;
        if datagram_len(wc) != size {
            return Err(CmServiceError::Protocol);
        }
        let (memory, round) = (context.platform.memory(), self.received.into());
        let come = self.endpoint.addr(low_of(wc.wr_id));
        let compare = |skipped: u32| {
            let come = Addr { offset: come.offset + u64::from(skipped), ..come };
            let places = [self.endpoint.addr(count), come];
            each_piece(memory, places, size.saturating_sub(skipped), |_, sent, come| {
                if sent == come { Ok(()) } else { Err(CmServiceError::Content { round }) }
            })
        };
        compare(0).or_else(|_| compare(area_len()))
    }
}

impl CmSession for Client {
    fn has(&self, id: CommunicationId) -> bool {
        self.id == id
    }

    fn connection_of(&self, _: Qpn) -> Option<CommunicationId> {
        None
    }

    fn owns(&self, qpn: Qpn) -> bool {
        self.endpoint.qpn() == qpn
    }

    fn peer(&self) -> IpAddr {
        self.options.peer
    }

    fn count(&self) -> u64 {
        self.received.into()
    }

    fn is_over(&self) -> bool {
        [self.sent, self.received] == [self.options.count; 2]
    }

    fn handle_notice<P: Platform>(
        &mut self,
        notice: &Notice,
        _: &mut Gsi<'_>,
        context: &mut Context<'_, '_, P>,
    ) -> Result<(), CmServiceError> {
        // The resolution ends with its answer, or without one; the ID may soon be another's.
        self.id = CommunicationId(0);
        let What::SidrResponse { status, qpn, qkey } = notice.what else {
            return notice.what.check();
        };
        if status != SidrStatus::VALID {
            return Err(CmServiceError::NotServed(status));
        }
        self.patience = Some(context.now.add_ns(IDLE_NS));
        self.send_all((qpn, qkey), context)
    }

    fn handle_completion<P: Platform>(
        &mut self,
        wc: &Wc,
        _: &mut Gsi<'_>,
        context: &mut Context<'_, '_, P>,
    ) -> Result<(), CmServiceError> {
        self.patience = Some(context.now.add_ns(IDLE_NS));
        if wc.opcode != WcOpcode::Recv {
            self.sent += 1;
            return Ok(());
        }
        self.check(wc, context)?;
        self.received += 1;
        Ok(())
    }

    fn poll_timeout(&self) -> Option<Instant> {
        self.patience
    }

    fn handle_timeout<P: Platform>(
        &mut self,
        _: &mut Gsi<'_>,
        context: &mut Context<'_, '_, P>,
    ) -> Result<(), CmServiceError> {
        match self.patience {
            Some(end) if end <= context.now => Err(CmServiceError::Unreachable),
            _ => Ok(()),
        }
    }

    fn close<P: Platform>(self, gsi: &mut Gsi<'_>, context: &mut Context<'_, '_, P>) {
        if self.id != CommunicationId(0) {
            // Nobody is told, as there is no message for that; the request is not sent again.
            let reason = RejReason::CONSUMER_REJECT;
            let _ = gsi.cm().reject(context.now, self.id, reason, &[], &[]);
        }
        self.endpoint.destroy(context);
    }
}
