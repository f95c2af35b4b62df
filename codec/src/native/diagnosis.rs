//! Why a native packet's ICRC is wrong.

use roce_crc::Crc32;

use super::{NativeFrame, RouteRef};
use crate::ib::{Lrh, Operation};
use crate::icrc::{IcrcDiagnosis, Network, Suspect};

impl NativeFrame<'_> {
    /// When the ICRC is wrong: which known mistakes of a sender explain it, as
    /// [`Frame::diagnose_icrc`](crate::Frame::diagnose_icrc) says it of RoCEv2. That the LRH is
    /// masked wrongly is among them.
    #[cold]
    #[must_use]
    pub fn diagnose_icrc(&self) -> Option<IcrcDiagnosis> {
        self.diagnose_icrc_with::<roce_crc::Crc>()
    }

    /// As [`NativeFrame::diagnose_icrc`], with the CRC kernel of your choice.
    #[cold]
    #[must_use]
    pub fn diagnose_icrc_with<C: Crc32>(&self) -> Option<IcrcDiagnosis> {
        let headers = self.headers();
        let none: &[u8] = &[];
        let (network, lrh, link, headers) = match self.route {
            RouteRef::Local(_) => {
                let (lrh, rest) = headers.split_first_chunk::<{ Lrh::LEN }>()?;
                (Network::Lrh, Some(*lrh), none, rest)
            }
            RouteRef::Global(Some(_), _) => {
                (Network::Grh, self.link.first_chunk().copied(), none, headers)
            }
            RouteRef::Global(None, _) => (Network::Grh, None, self.link, headers),
        };
        let pad = self.pad();
        let suspect = Suspect {
            network,
            link,
            lrh,
            headers,
            ext: self.ext_bytes(),
            payload: self.payload(),
            pad: &pad,
            icrc: self.icrc(),
            // A VCRC covers the ICRC: neither can be computed with it, nor stand behind it.
            trailer: if lrh.is_some() { [none; 2] } else { self.trailer() },
            is_flush: self.opcode().info().operation == Operation::Flush,
        };
        suspect.diagnose::<C>(self.verify_icrc_with::<C>())
    }
}
