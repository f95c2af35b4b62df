//! Moving bytes between packets and the local memory of work requests: gather and scatter.

use roce_codec::Crc32;
use roce_codec::ib::{Psn, Qpn};
use roce_codec::icrc::Icrc;

use crate::access::Access;
use crate::backing::{Backing, BackingFault};
use crate::engine::Engine;
use crate::memory::{AccessFault, Pd};
use crate::sge::Local;
use crate::transmit::{Body, Gather};
use crate::wqe::SendWqe;

impl Engine<'_> {
    /// What a request packet carries: `len` bytes of its work request's memory from `offset` on.
    #[inline]
    pub(crate) fn body(
        &self,
        pd: Pd,
        index: u32,
        wqe: &SendWqe,
        offset: u32,
        len: u32,
    ) -> Result<Body, AccessFault> {
        if len == 0 {
            return Ok(Body::Empty);
        }
        let local = &wqe.local;
        if local.is_one() {
            let sge = local.first.part(offset, len);
            let addr = self.memory.local(sge.lkey, pd, sge.va, len, Access::NONE)?;
            return Ok(Body::Region { addr, len });
        }
        for sge in self.locals.pieces(local, offset, len) {
            self.memory.local(sge.lkey, pd, sge.va, sge.len, Access::NONE)?;
        }
        Ok(Body::Gather(Gather { wqe: index, offset, len }))
    }

    /// Fills `room` with the bytes of a packet whose memory is in several pieces. The request is
    /// still the queue's, and its keys are looked at again: a packet kept too long reads nothing
    /// that it may not.
    pub(crate) fn read_gathered<C: Crc32, B: Backing>(
        &self,
        (qpn, psn): (Qpn, Psn),
        gather: Gather,
        backing: &B,
        room: &mut [u8],
        icrc: &mut Icrc<C>,
    ) -> Result<(), BackingFault> {
        let qp = self.find(qpn).and_then(|slot| self.qps.get(slot)).ok_or(BackingFault)?;
        let wqe = self.sends.get(gather.wqe).ok_or(BackingFault)?;
        if !psn.is_within(wqe.first_psn, wqe.last_psn) {
            return Err(BackingFault);
        }
        let mut room = room;
        let mut part = |len: usize| {
            let (part, rest) = core::mem::take(&mut room).split_at_mut_checked(len)?;
            room = rest;
            Some(part)
        };
        let local = &wqe.local;
        if let Some(pieces) = self.locals.inline_pieces(local, gather.offset, gather.len) {
            for piece in pieces {
                icrc.copy_update(part(piece.len()).ok_or(BackingFault)?, piece);
            }
        } else {
            for sge in self.locals.pieces(local, gather.offset, gather.len) {
                let addr = self
                    .memory
                    .local(sge.lkey, qp.pd, sge.va, sge.len, Access::NONE)
                    .map_err(|_| BackingFault)?;
                let len = usize::try_from(sge.len).map_err(|_| BackingFault)?;
                backing.read_crc(addr, part(len).ok_or(BackingFault)?, icrc)?;
            }
        }
        if room.is_empty() { Ok(()) } else { Err(BackingFault) }
    }

    /// Puts the bytes of a packet into local memory from `offset` on; says whether it could.
    /// Every key is looked at before the first byte is written.
    #[inline]
    pub(crate) fn scatter<B: Backing>(
        &self,
        pd: Pd,
        local: &Local,
        offset: u32,
        len: u32,
        data: [&[u8]; 2],
        backing: &B,
    ) -> bool {
        if len == 0 {
            return true;
        }
        let write = Access::LOCAL_WRITE;
        if local.is_one() {
            let sge = local.first.part(offset, len);
            return self
                .memory
                .local(sge.lkey, pd, sge.va, len, write)
                .is_ok_and(|addr| backing.write(addr, data).is_ok());
        }
        let pieces = || self.locals.pieces(local, offset, len);
        if pieces().any(|sge| self.memory.local(sge.lkey, pd, sge.va, sge.len, write).is_err()) {
            return false;
        }
        let mut data = data;
        pieces().all(|sge| {
            let piece = take(&mut data, usize::try_from(sge.len).unwrap_or(usize::MAX));
            self.memory
                .local(sge.lkey, pd, sge.va, sge.len, write)
                .is_ok_and(|addr| backing.write(addr, piece).is_ok())
        })
    }
}

/// Takes the first `len` bytes off the two pieces of a payload.
fn take<'a>(data: &mut [&'a [u8]; 2], len: usize) -> [&'a [u8]; 2] {
    let (front, first) = data[0].split_at(len.min(data[0].len()));
    let (back, second) = data[1].split_at((len - front.len()).min(data[1].len()));
    *data = [first, second];
    [front, back]
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_payload_in_two_pieces_is_taken_in_order() {
        let mut data: [&[u8]; 2] = [b"abc", b"defg"];
        let mut next = |len| take(&mut data, len).concat();
        assert_eq!(next(2), b"ab");
        assert_eq!(next(3), b"cde");
        assert_eq!(next(0), b"");
        assert_eq!(next(9), b"fg");
        assert_eq!(next(1), b"");
    }
}
