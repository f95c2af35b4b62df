//! The memory of one side: what it sends, and a place for each message that comes.

use roce_codec::ib::Qpn;
use roce_engine::{Access, Addr, Backing, Pd, RecvWr, SendWr, Sge, Wc, WcStatus, WrOpcode};

use super::Traffic;
use crate::service::cm::CmServiceError;
use crate::service::memory::{Exposed, each_piece};
use crate::service::{Context, Platform, low_of, wr_id};

/// See the [module](self). It is to be ended with [`Messages::withdraw`].
#[derive(Debug)]
pub(super) struct Messages {
    number: u32,
    traffic: Traffic,
    exposed: Exposed,
}

impl Messages {
    /// Memory for a session of this number.
    pub(super) fn new<P: Platform>(
        number: u32,
        pd: Pd,
        traffic: Traffic,
        context: &mut Context<'_, '_, P>,
    ) -> Result<Self, CmServiceError> {
        let len = (u64::from(traffic.count) + 1) * u64::from(traffic.size);
        let exposed = Exposed::new(context, pd, len, Access::LOCAL_WRITE)?;
        Ok(Self { number, traffic, exposed })
    }

    /// Noise to send.
    pub(super) fn fill<P: Platform>(&self, context: &mut Context<'_, '_, P>) {
        self.exposed.fill_with_noise(context);
    }

    /// Lends a place to each message that comes.
    pub(super) fn post_receives<P: Platform>(
        &self,
        qpn: Qpn,
        context: &mut Context<'_, '_, P>,
    ) -> Result<(), CmServiceError> {
        (1..=self.traffic.count).try_for_each(|place| {
            let wr_id = wr_id(self.number, place);
            Ok(context.engine.post_recv(qpn, &RecvWr::new(wr_id, &[self.sge(place)]))?)
        })
    }

    /// SENDs all messages.
    pub(super) fn post_sends<P: Platform>(
        &self,
        qpn: Qpn,
        context: &mut Context<'_, '_, P>,
    ) -> Result<(), CmServiceError> {
        (0..self.traffic.count).try_for_each(|_| {
            let wr_id = wr_id(self.number, 0);
            let sges = [self.sge(0)];
            Ok(context.engine.post_send(qpn, &SendWr::new(wr_id, WrOpcode::Send, &sges))?)
        })
    }

    /// Looks at the length of a message that has come.
    pub(super) fn check_len(&self, wc: &Wc) -> Result<(), CmServiceError> {
        if wc.byte_len == self.traffic.size { Ok(()) } else { Err(CmServiceError::Protocol) }
    }

    /// Compares a message that has come with what is sent; `round` is for the error.
    pub(super) fn compare<P: Platform>(
        &self,
        wc: &Wc,
        round: u64,
        context: &Context<'_, '_, P>,
    ) -> Result<(), CmServiceError> {
        let (memory, places) = (context.platform.memory(), self.sent_and_come(wc));
        each_piece(memory, places, self.traffic.size, |_, sent, come| {
            if sent == come { Ok(()) } else { Err(CmServiceError::Content { round }) }
        })
    }

    /// What has come is what is sent from now on.
    pub(super) fn take_over<P: Platform>(
        &self,
        wc: &Wc,
        context: &Context<'_, '_, P>,
    ) -> Result<(), CmServiceError> {
        let (memory, places) = (context.platform.memory(), self.sent_and_come(wc));
        each_piece(memory, places, self.traffic.size, |offset, _, come| {
            let written = memory.write(self.addr(0, offset), [come, &[]]);
            written.map_err(|_| CmServiceError::Failed(WcStatus::LocalProtection))
        })
    }

    /// Where both begin.
    fn sent_and_come(&self, wc: &Wc) -> [Addr; 2] {
        [self.addr(0, 0), self.addr(low_of(wc.wr_id), 0)]
    }

    fn addr(&self, place: u32, offset: u32) -> Addr {
        self.exposed.addr(self.offset(place) + u64::from(offset))
    }

    fn offset(&self, place: u32) -> u64 {
        u64::from(place) * u64::from(self.traffic.size)
    }

    fn sge(&self, place: u32) -> Sge {
        let va = self.exposed.region.va.wrapping_add(self.offset(place));
        Sge { va, len: self.traffic.size, lkey: self.exposed.mr.lkey }
    }

    /// Gives the memory back.
    pub(super) fn withdraw<P: Platform>(self, context: &mut Context<'_, '_, P>) {
        self.exposed.withdraw(context);
    }
}
