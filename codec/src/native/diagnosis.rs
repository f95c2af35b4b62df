//! Why a native packet's ICRC is wrong.

use roce_crc::Crc32;

use super::{NativeFrame, RouteRef};
use crate::ib::Operation;
use crate::icrc::{IcrcDiagnosis, Network, Suspect};

impl NativeFrame<'_> {
    /// Which known mistakes explain an ICRC that is wrong, as
    /// [`Frame::diagnose_icrc`](crate::Frame::diagnose_icrc) does for RoCEv2; the mistakes around the
    /// local route header are among them.
    #[cold]
    #[must_use]
    pub fn diagnose_icrc(&self) -> Option<IcrcDiagnosis> {
        self.diagnose_icrc_with::<roce_crc::Crc>()
    }

    /// As [`NativeFrame::diagnose_icrc`], with the CRC kernel of your choice.
    #[cold]
    #[must_use]
    pub fn diagnose_icrc_with<C: Crc32>(&self) -> Option<IcrcDiagnosis> {
        let covered = self.headers();
        // Where the LRH lies, if there is one, and what else precedes the first header covered.
        let (network, lrh, link, headers) = match self.route {
            RouteRef::Local(_) => {
                let (lrh, headers) = covered.split_first_chunk()?;
                (Network::Lrh, Some(*lrh), &[][..], headers)
            }
            RouteRef::Global(Some(_), _) => {
                (Network::Grh, self.link.first_chunk().copied(), &[][..], covered)
            }
            RouteRef::Global(None, _) => (Network::Grh, None, self.link, covered),
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
            trailer: self.trailer(),
            is_flush: self.info().operation == Operation::Flush,
        };
        suspect.diagnose::<C>(self.verify_icrc_with::<C>())
    }
}
