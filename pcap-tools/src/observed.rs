//! What one packet alone tells: what it is, and whether its ICRC holds. Packets can be observed in
//! any order, and on several cores at once.

use std::fmt;
use std::net::IpAddr;

use roce_codec::ib::Qpn;
use roce_codec::icrc::{IcrcDiagnosis, IcrcMistake, IcrcVerdict};
use roce_codec::{Frame, NativeFrame, Route, Transport};

use crate::capture::Packet;
use crate::dissect::{Dissected, Outer, dissect_through};

/// A packet, dissected and its ICRC verified.
#[derive(Debug, Clone, Copy)]
pub struct Observed<'a> {
    /// The packet as captured.
    pub packet: Packet<'a>,
    /// What it turned out to be.
    pub what: Dissected<'a>,
    /// The tunnels that were looked through to find it.
    pub outer: Outer,
    /// The ICRC's verdict; `None` if the packet has no transport header that can be read.
    pub icrc: Option<IcrcVerdict>,
}

impl<'a> Observed<'a> {
    /// Dissects the packet and verifies its ICRC.
    #[inline]
    #[must_use]
    pub fn new(packet: &Packet<'a>) -> Self {
        let (what, outer) = dissect_through(packet);
        let icrc = match &what {
            Dissected::Roce(frame) => Some(frame.verify_icrc()),
            Dissected::Native(frame) => Some(frame.verify_icrc()),
            _ => None,
        };
        Self { packet: *packet, what, outer, icrc }
    }

    /// From the BTH to the ICRC, if there is that.
    #[inline]
    #[must_use]
    pub fn transport(&self) -> Option<&Transport<'a>> {
        self.what.transport()
    }

    /// The flow it belongs to, if it is a packet of a transport.
    #[inline]
    #[must_use]
    pub fn flow(&self) -> Option<FlowKey> {
        self.what.flow()
    }

    /// Whether the ICRC is wrong and no known mistake of its sender explains that: nothing the packet
    /// says can be believed then.
    #[inline]
    #[must_use]
    pub fn is_damaged(&self) -> bool {
        matches!(self.icrc, Some(IcrcVerdict::Invalid { .. })) && self.is_unexplained()
    }

    #[cold]
    fn is_unexplained(&self) -> bool {
        !self.diagnose_icrc().is_some_and(|diagnosis| diagnosis.mistakes().all(vouches))
    }

    /// The known mistakes by which a wrong ICRC comes about, if any do.
    #[must_use]
    pub fn diagnose_icrc(&self) -> Option<IcrcDiagnosis> {
        match &self.what {
            Dissected::Roce(frame) => frame.diagnose_icrc(),
            Dissected::Native(frame) => frame.diagnose_icrc(),
            _ => None,
        }
    }
}

/// Whether a packet whose ICRC has this mistake still vouches for addresses, headers and payload.
pub(crate) fn vouches(mistake: IcrcMistake) -> bool {
    !matches!(
        mistake,
        IcrcMistake::NetworkLeftOut
            | IcrcMistake::StartsAtBth
            | IcrcMistake::StartsBehindBth
            | IcrcMistake::ExtLeftOut
            | IcrcMistake::PayloadLeftOut
    )
}

/// Who sends and receives: an IP address or GID, or a LID where a native packet has no GRH.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Host {
    /// An IP address; the GID of a GRH is an IPv6 address.
    Ip(IpAddr),
    /// A local identifier.
    Lid(u16),
}

impl From<IpAddr> for Host {
    fn from(ip: IpAddr) -> Self {
        Self::Ip(ip)
    }
}

impl fmt::Display for Host {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Ip(ip) => ip.fmt(f),
            Self::Lid(lid) => write!(f, "LID {lid:#06x}"),
        }
    }
}

/// What tells flows apart: one sender, one receiver, one destination QP. A connection is two.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub struct FlowKey {
    /// Who sends.
    pub src: Host,
    /// Who receives.
    pub dst: Host,
    /// Destination QP.
    pub dest_qp: Qpn,
}

impl FlowKey {
    /// The flow of a RoCEv2 packet.
    #[inline]
    #[must_use]
    pub fn of_frame(frame: &Frame<'_>) -> Self {
        let [src, dst] = [frame.src(), frame.dst()].map(Host::Ip);
        Self { src, dst, dest_qp: frame.dest_qp() }
    }

    /// The flow of a RoCE v1 or native InfiniBand packet.
    #[must_use]
    pub fn of_native(frame: &NativeFrame<'_>) -> Self {
        let gid = |gid: roce_codec::net::Gid| Host::Ip(IpAddr::from(gid.0));
        let (src, dst) = match (frame.route(), frame.grh()) {
            (_, Some(grh)) => (gid(grh.sgid), gid(grh.dgid)),
            (Route::Local(lrh), None) => (Host::Lid(lrh.slid.0), Host::Lid(lrh.dlid.0)),
            (_, None) => (Host::Lid(0), Host::Lid(0)),
        };
        Self { src, dst, dest_qp: frame.dest_qp() }
    }
}

impl fmt::Display for FlowKey {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{} > {} QP {}", self.src, self.dst, self.dest_qp)
    }
}
