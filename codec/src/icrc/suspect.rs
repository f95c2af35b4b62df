//! A packet whose ICRC is wrong, in the parts that hypotheses speak of.

use super::ICRC_LEN;
use super::field::{LRH, Network};
use super::hypothesis::Part;
use crate::ib::Bth;

/// A packet whose ICRC is wrong, in the parts that hypotheses speak of.
#[derive(Debug)]
pub(crate) struct Suspect<'a> {
    pub(crate) network: Network,
    /// Before the network header: Ethernet.
    pub(crate) link: &'a [u8],
    /// The LRH; `None` where eight bytes of ones stand for it.
    pub(crate) lrh: Option<[u8; LRH]>,
    /// From the network header (of IP, or the GRH) to the end of the BTH.
    pub(crate) headers: &'a [u8],
    pub(crate) ext: &'a [u8],
    pub(crate) payload: [&'a [u8]; 2],
    pub(crate) pad: &'a [u8],
    pub(crate) icrc: [u8; ICRC_LEN],
    pub(crate) trailer: [&'a [u8]; 2],
    pub(crate) is_flush: bool,
}

impl Suspect<'_> {
    /// Bytes of a part.
    pub(super) fn len(&self, part: Part) -> usize {
        let mut len: usize = 0;
        self.pieces(part, |bytes| len = len.saturating_add(bytes.len()));
        len
    }

    /// Hands out the bytes of a part, piece by piece.
    pub(super) fn pieces(&self, part: Part, mut take: impl FnMut(&[u8])) {
        match part {
            Part::Ext => take(self.ext),
            Part::Payload => self.payload.into_iter().for_each(take),
            Part::Pad => take(self.pad),
            Part::ZeroPad => take([0; 3].get(..self.pad.len()).unwrap_or_default()),
            Part::FlushBth => match self.headers.last_chunk::<{ Bth::LEN }>() {
                Some(bth) if self.is_flush => take(bth),
                _ => {}
            },
            Part::Trailer => self.trailer.into_iter().for_each(take),
            Part::BeforeFrameEnd => {
                let [mut a, mut b] = self.trailer;
                // The frame's last four bytes are not among those; if the trailer is shorter
                // than they are, they reach into the field where the ICRC belongs.
                let field = self.icrc.get(..(a.len() + b.len()).min(ICRC_LEN)).unwrap_or_default();
                let cut = b.len().min(ICRC_LEN);
                b = b.get(..b.len() - cut).unwrap_or_default();
                a = a.get(..a.len().saturating_sub(ICRC_LEN - cut)).unwrap_or_default();
                [field, a, b].into_iter().for_each(take);
            }
        }
    }

    /// The frame's last four bytes.
    pub(super) fn frame_end(&self) -> [u8; ICRC_LEN] {
        let mut end = [0; ICRC_LEN];
        let all = self.icrc.iter().chain(self.trailer[0]).chain(self.trailer[1]);
        for (to, from) in end.iter_mut().rev().zip(all.rev()) {
            *to = *from;
        }
        end
    }
}
