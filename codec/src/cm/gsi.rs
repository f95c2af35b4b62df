//! Where MADs are found: in datagrams to the general service QP.

use super::{MAD_LEN, Mad};
use crate::Transport;
use crate::ib::{Opcode, QKey, Qpn};

impl<'a> Mad<'a> {
    /// The MAD that a packet carries: a UD SEND Only of 256 bytes to QP 1, with QP 1's Q_Key
    /// (IBTA Vol. 1, 13.5). A [`Frame`](crate::Frame) derefs to the argument. `None` if it is
    /// another packet, if a capture cut the MAD, or if the MAD does not lie in one segment.
    ///
    /// A packet whose ICRC was not checked is not to be believed yet.
    #[must_use]
    pub fn from_frame(packet: &Transport<'a>) -> Option<Self> {
        let is_mad = packet.dest_qp() == Qpn::GSI
            && packet.opcode() == Opcode::UD_SEND_ONLY
            && packet.payload_len() == MAD_LEN
            && packet.deth().is_some_and(|deth| deth.qkey == QKey::GSI);
        if !is_mad {
            return None;
        }
        let [head, tail] = packet.payload();
        // Of two segments the first may hold the headers alone.
        Self::parse(if head.is_empty() { tail } else { head }).ok()
    }
}

/// Whether a packet carries a MAD of the connection manager.
#[must_use]
pub fn is_cm_frame(packet: &Transport<'_>) -> bool {
    Mad::from_frame(packet).is_some_and(|mad| mad.is_cm())
}
