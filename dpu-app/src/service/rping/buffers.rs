//! The memory of one side: the ping, and the SENDs about it.

use roce_codec::ib::Qpn;
use roce_engine::{Access, Backing, Pd, RecvWr, SendWr, Wc, WcStatus, WrOpcode};

use super::{Advert, RECEIVES, RECEIVES_AT, REGION_LEN, SEND_AT, STRIDE};
use crate::service::cm::CmServiceError;
use crate::service::memory::{Exposed, read};
use crate::service::{Context, Platform, low_of, wr_id};

/// Bytes of a SEND.
#[allow(clippy::cast_possible_truncation, reason = "16")]
const ADVERT_LEN: u32 = Advert::LEN as u32;

/// See the [module](self). It is to be ended with [`Buffers::withdraw`].
#[derive(Debug)]
pub(super) struct Buffers {
    number: u32,
    pub(super) exposed: Exposed,
}

impl Buffers {
    /// Memory for a session of this number; the peer may do with the ping what `access` says.
    pub(super) fn new<P: Platform>(
        number: u32,
        pd: Pd,
        access: Access,
        context: &mut Context<'_, '_, P>,
    ) -> Result<Self, CmServiceError> {
        let access = access | Access::LOCAL_WRITE;
        let exposed = Exposed::new(context, pd, REGION_LEN.into(), access)?;
        Ok(Self { number, exposed })
    }

    /// Posts all receives.
    pub(super) fn post_receives<P: Platform>(
        &self,
        qpn: Qpn,
        context: &mut Context<'_, '_, P>,
    ) -> Result<(), CmServiceError> {
        (0..RECEIVES).try_for_each(|index| self.post_receive(index, qpn, context))
    }

    fn post_receive<P: Platform>(
        &self,
        index: u32,
        qpn: Qpn,
        context: &mut Context<'_, '_, P>,
    ) -> Result<(), CmServiceError> {
        let sges = [self.exposed.sge(RECEIVES_AT + index * STRIDE, ADVERT_LEN)];
        let wr = RecvWr::new(wr_id(self.number, index), &sges);
        Ok(context.engine.post_recv(qpn, &wr)?)
    }

    /// What a SEND of the peer's said; its receive is posted again.
    pub(super) fn received<P: Platform>(
        &self,
        wc: &Wc,
        context: &mut Context<'_, '_, P>,
    ) -> Result<Advert, CmServiceError> {
        if wc.byte_len != ADVERT_LEN {
            return Err(CmServiceError::Protocol);
        }
        let index = low_of(wc.wr_id) % RECEIVES;
        let mut bytes = [0; Advert::LEN];
        if !read(
            context.platform.memory(),
            self.exposed.addr(RECEIVES_AT + index * STRIDE),
            &mut bytes,
        ) {
            return Err(CmServiceError::Failed(WcStatus::LocalProtection));
        }
        self.post_receive(index, wc.qp, context)?;
        Ok(Advert::parse(&bytes))
    }

    /// SENDs 16 bytes.
    pub(super) fn send<P: Platform>(
        &self,
        qpn: Qpn,
        advert: &Advert,
        context: &mut Context<'_, '_, P>,
    ) -> Result<(), CmServiceError> {
        self.write(SEND_AT, &advert.emit(), context)?;
        self.post(qpn, WrOpcode::Send, SEND_AT, ADVERT_LEN, context)
    }

    /// Posts a send request about `len` bytes from `offset` on.
    pub(super) fn post<P: Platform>(
        &self,
        qpn: Qpn,
        opcode: WrOpcode,
        offset: u32,
        len: u32,
        context: &mut Context<'_, '_, P>,
    ) -> Result<(), CmServiceError> {
        let sges = [self.exposed.sge(offset, len)];
        let wr = SendWr::new(wr_id(self.number, 0), opcode, &sges);
        Ok(context.engine.post_send(qpn, &wr)?)
    }

    pub(super) fn write<P: Platform>(
        &self,
        offset: u32,
        bytes: &[u8],
        context: &mut Context<'_, '_, P>,
    ) -> Result<(), CmServiceError> {
        context
            .platform
            .memory()
            .write(self.exposed.addr(offset), [bytes, &[]])
            .map_err(|_| CmServiceError::Failed(WcStatus::LocalProtection))
    }

    /// Calls `take` for the first `len` bytes of the ping, piece by piece, until it says to stop.
    pub(super) fn for_each_piece<P: Platform>(
        &self,
        len: u32,
        context: &Context<'_, '_, P>,
        mut take: impl FnMut(u32, &[u8]) -> bool,
    ) -> Result<(), CmServiceError> {
        let mut piece = [0; 256];
        let mut offset = 0;
        while offset < len {
            let room = usize::try_from(len - offset).unwrap_or(piece.len()).min(piece.len());
            let part = piece.get_mut(..room).unwrap_or_default();
            if !read(context.platform.memory(), self.exposed.addr(offset), part) {
                return Err(CmServiceError::Failed(WcStatus::LocalProtection));
            }
            if !take(offset, part) {
                return Ok(());
            }
            offset += u32::try_from(room).unwrap_or(256);
        }
        Ok(())
    }

    pub(super) fn withdraw<P: Platform>(self, context: &mut Context<'_, '_, P>) {
        self.exposed.withdraw(context);
    }
}
