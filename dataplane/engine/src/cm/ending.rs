//! How connections end: REJ, DREQ, DREP; and the alternate paths that are not served.

use roce_codec::cm::{
    ApStatus, AttributeId, CaGuid, CommunicationId, Drep, Dreq, Lap, Mad, Message, Rej, RejReason,
    RejectedMessage,
};

use super::answer::Says;
use super::state::{CmState, Input};
use super::table::Key;
use super::{Cm, CmCallError, CmDropReason, Handled, Send};
use crate::qp::Path;
use crate::time::Instant;

impl Cm<'_> {
    /// Refuses what the peer asks, or gives up what we asked of it, before the connection is
    /// established. `ari` is up to 72 bytes, `private_data` up to 148. A consumer's own reason is
    /// [`RejReason::CONSUMER_REJECT`]. The ID ends here; if a REP was out, it ends with
    /// [`CmEvent::TimewaitExit`](super::CmEvent::TimewaitExit).
    ///
    /// # Errors
    /// [`CmCallError`].
    pub fn reject(
        &mut self,
        now: Instant,
        id: CommunicationId,
        reason: RejReason,
        ari: &[u8],
        private_data: &[u8],
    ) -> Result<(), CmCallError> {
        self.advance(now);
        let (index, row) = self.call(id, Input::Reject)?;
        if row.send == Send::Rej {
            let (remote_comm_id, tid) = self.names(index);
            let rej = Rej {
                local_comm_id: id,
                remote_comm_id,
                rejected: rejected_in(row.from),
                ari_len: u8::try_from(ari.len()).unwrap_or(u8::MAX),
                reason,
                ari,
                private_data,
                ..Rej::default()
            };
            self.write(index, &Message::Rej(rej), tid)?;
        }
        self.commit(index, row);
        Ok(())
    }

    /// The REJ that says we have waited in vain. The CA GUID tells the peer who we are where it
    /// has not told us its ID.
    pub(super) fn write_timeout_rej(&mut self, index: u32) {
        let Some(slot) = self.table.get(index) else { return };
        let (id, state) = (slot.id, slot.state);
        let (remote_comm_id, tid) = self.names(index);
        let guid = self.config.ca_guid.0.to_be_bytes();
        let rej = Rej {
            local_comm_id: id,
            remote_comm_id,
            rejected: rejected_in(state),
            ari_len: 8,
            reason: RejReason::TIMEOUT,
            ari: &guid,
            ..Rej::default()
        };
        // It cannot fail: everything fits its field.
        let _ = self.write(index, &Message::Rej(rej), tid);
    }

    /// The peer refuses, or has given up.
    pub(super) fn handle_rej(&mut self, rej: &Rej<'_>, mad: &Mad<'_>, from: &Path) -> Handled {
        let index = if rej.remote_comm_id == CommunicationId(0) {
            self.given_up(rej, from)?
        } else if rej.rejected == RejectedMessage::Req {
            // Who refuses a REQ need not have an ID for it.
            let index = self.connection(rej.remote_comm_id, None, from)?;
            let state = self.table.get(index).map(|slot| slot.state);
            if !matches!(state, Some(CmState::ReqSent | CmState::RepWait)) {
                return Err(CmDropReason::State);
            }
            index
        } else {
            self.connection_rejected(rej, from)?
        };
        let row = self.message(index, Input::Rej)?;
        self.keep(index, mad);
        self.commit(index, row);
        Ok(())
    }

    /// An active side that never learnt our ID has waited in vain. It can end only what is not
    /// established.
    fn given_up(&mut self, rej: &Rej<'_>, from: &Path) -> Result<u32, CmDropReason> {
        let guid = match rej.ari_bytes() {
            &[a, b, c, d, e, f, g, h, ..] if rej.reason == RejReason::TIMEOUT => {
                CaGuid(u64::from_be_bytes([a, b, c, d, e, f, g, h]))
            }
            _ => return Err(CmDropReason::UnknownConnection),
        };
        let key = Key::Id(guid, rej.local_comm_id);
        let index = self.table.find_key(key).ok_or(CmDropReason::UnknownConnection)?;
        let slot = self.table.get(index).ok_or(CmDropReason::UnknownConnection)?;
        if !slot.state.is_half_open() {
            return Err(CmDropReason::State);
        }
        let id = slot.id;
        self.connection(id, Some(rej.local_comm_id), from)
    }

    /// A REJ of a REP or of nothing in particular. An active side that has no REP yet does not
    /// know the peer's ID.
    fn connection_rejected(&self, rej: &Rej<'_>, from: &Path) -> Result<u32, CmDropReason> {
        let index = self.connection(rej.remote_comm_id, None, from)?;
        let slot = self.table.get(index).ok_or(CmDropReason::UnknownConnection)?;
        if slot.remote_id == CommunicationId(0) || slot.remote_id == rej.local_comm_id {
            Ok(index)
        } else {
            Err(CmDropReason::UnknownConnection)
        }
    }

    /// Ends a connection: sends a DREQ, or the DREP that a
    /// [`CmEvent::DisconnectRequest`](super::CmEvent::DisconnectRequest) asks for.
    /// `private_data` is up to 220 bytes.
    ///
    /// # Errors
    /// [`CmCallError`].
    pub fn disconnect(
        &mut self,
        now: Instant,
        id: CommunicationId,
        private_data: &[u8],
    ) -> Result<(), CmCallError> {
        self.advance(now);
        let (index, row) = self.call(id, Input::Disconnect)?;
        if row.send == Send::Drep {
            let (remote_comm_id, _) = self.names(index);
            let tid = self.table.get(index).map_or(0, |slot| slot.transaction_id);
            let drep = Drep { local_comm_id: id, remote_comm_id, private_data };
            self.write(index, &Message::Drep(drep), tid)?;
        } else {
            self.write_dreq(index, private_data)?;
        }
        self.commit(index, row);
        Ok(())
    }

    fn write_dreq(&mut self, index: u32, private_data: &[u8]) -> Result<(), CmCallError> {
        let Some(slot) = self.table.get(index) else { return Err(CmCallError::UnknownId) };
        let dreq = Dreq {
            local_comm_id: slot.id,
            remote_comm_id: slot.remote_id,
            remote_qpn: slot.qp.dest_qpn,
            private_data,
            ..Dreq::default()
        };
        let tid = self.transaction_id(slot.id);
        self.write(index, &Message::Dreq(dreq), tid)?;
        if let Some(slot) = self.table.get_mut(index) {
            slot.retries_left = slot.max_retries;
        }
        Ok(())
    }

    /// IBTA 12.9.8.3.1. Ends a connection that its peer has forgotten, if it is the peer who shows so: another
    /// address may claim the same CA GUID and queue pair.
    pub(super) fn end_stale(&mut self, old: u32, from: &Path) {
        let Some(slot) = self.table.get(old) else { return };
        if (slot.path.src, slot.path.dst) != (from.src, from.dst) {
            return;
        }
        let Ok(row) = self.message(old, Input::StaleReq) else { return };
        if self.write_dreq(old, &[]).is_ok() {
            self.counters.stale += 1;
            self.commit(old, row);
        }
    }

    /// The peer wants to disconnect, or wants it again (IBTA 12.6.10).
    pub(super) fn handle_dreq(
        &mut self,
        tid: u64,
        dreq: &Dreq<'_>,
        mad: &Mad<'_>,
        from: &Path,
    ) -> Handled {
        let drep = Says::Drep { local: dreq.remote_comm_id, remote: dreq.local_comm_id };
        let index = match self.connection(dreq.remote_comm_id, Some(dreq.local_comm_id), from) {
            Ok(index) => index,
            // What is gone is disconnected: the peer need not ask again.
            Err(CmDropReason::UnknownConnection) => return self.answer(from, tid, drep),
            Err(reason) => return Err(reason),
        };
        let slot = self.table.get(index).ok_or(CmDropReason::UnknownConnection)?;
        if slot.local_qpn != dreq.remote_qpn {
            return Err(CmDropReason::Mismatch);
        }
        let again = slot.sent_kind == AttributeId::DREP;
        let row = self.message(index, Input::Dreq)?;
        if row.from == row.to {
            self.counters.duplicates += 1;
        } else {
            self.keep(index, mad);
        }
        if let Some(slot) = self.table.get_mut(index) {
            slot.transaction_id = tid;
        }
        match row.send {
            Send::Answer if again => {
                self.send_again(index);
                return Ok(());
            }
            Send::Answer => return self.answer(from, tid, drep),
            Send::Drep => {
                let (local_comm_id, remote_comm_id) = (dreq.remote_comm_id, dreq.local_comm_id);
                let drep = Drep { local_comm_id, remote_comm_id, private_data: &[] };
                // It cannot fail: it carries no private data.
                let _ = self.write(index, &Message::Drep(drep), tid);
            }
            _ => {}
        }
        self.commit(index, row);
        Ok(())
    }

    /// The peer has disconnected.
    pub(super) fn handle_drep(&mut self, drep: &Drep<'_>, mad: &Mad<'_>, from: &Path) -> Handled {
        let index = self.connection(drep.remote_comm_id, Some(drep.local_comm_id), from)?;
        let row = self.message(index, Input::Drep)?;
        self.keep(index, mad);
        self.commit(index, row);
        Ok(())
    }

    /// Alternate paths are not supported (IBTA 12.8).
    pub(super) fn handle_lap(&mut self, tid: u64, lap: &Lap<'_>, from: &Path) -> Handled {
        let (local, remote) = (lap.remote_comm_id, lap.local_comm_id);
        let index = self.connection(local, Some(remote), from)?;
        if self.table.get(index).is_some_and(|slot| slot.state != CmState::Established) {
            return Err(CmDropReason::State);
        }
        self.answer(from, tid, Says::Apr { local, remote, status: ApStatus::NOT_SUPPORTED })
    }
}

/// What a REJ of ours rejects.
const fn rejected_in(state: CmState) -> RejectedMessage {
    match state {
        CmState::ReqRcvd | CmState::MraReqSent => RejectedMessage::Req,
        CmState::RepRcvd | CmState::MraRepSent => RejectedMessage::Rep,
        _ => RejectedMessage::Other,
    }
}
