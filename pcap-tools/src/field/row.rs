//! A packet with everything that is known of it.

use std::cell::OnceCell;

use roce_codec::cm::{Mad, Message};
use roce_codec::icrc::IcrcVerdict;
use roce_codec::net::{Ethernet, Ip, MacControl};
use roce_codec::{Frame, NativeFrame, Transport};

use crate::capture::Packet;
use crate::check::Finding;
use crate::dissect::{Dissected, Outer, dissect_through};
use crate::observed::{FlowKey, Observed};
use crate::upper::Upper;

/// A packet with everything that is known of it: what fields are read from. It borrows the packet;
/// what costs something (the ICRC, a MAD taken apart) is worked out once, when first asked for.
///
/// [`Rows`](super::Rows) makes them of the packets of a capture.
#[derive(Debug)]
pub struct Row<'a> {
    packet: Packet<'a>,
    dissected: Dissected<'a>,
    since_ns: Option<u64>,
    findings: Option<&'a [Finding]>,
    upper: Option<Upper>,
    outer: OnceCell<Outer>,
    icrc: OnceCell<Option<IcrcVerdict>>,
    cm: OnceCell<Option<Message<'a>>>,
    mad: OnceCell<Option<Mad<'a>>>,
}

impl<'a> Row<'a> {
    /// A packet and what it turned out to be.
    #[inline]
    #[must_use]
    pub fn new(packet: &Packet<'a>, dissected: Dissected<'a>) -> Self {
        Self {
            packet: *packet,
            dissected,
            since_ns: None,
            findings: None,
            upper: None,
            outer: OnceCell::new(),
            icrc: OnceCell::new(),
            cm: OnceCell::new(),
            mad: OnceCell::new(),
        }
    }

    /// A packet that has been observed.
    #[inline]
    #[must_use]
    pub fn of(observed: &Observed<'a>) -> Self {
        let row = Self::new(&observed.packet, observed.what);
        Self { icrc: OnceCell::from(observed.icrc), ..row }
    }

    /// With the nanoseconds since the capture's first packet.
    #[inline]
    #[must_use]
    pub fn since(mut self, since_ns: Option<u64>) -> Self {
        self.since_ns = since_ns;
        self
    }

    /// With what the checker found when it saw the packet.
    #[inline]
    #[must_use]
    pub fn judged(mut self, findings: &'a [Finding]) -> Self {
        self.findings = Some(findings);
        self
    }

    /// With what the packet's payload is.
    #[inline]
    #[must_use]
    pub fn carrying(mut self, upper: Option<Upper>) -> Self {
        self.upper = upper;
        self
    }

    /// The packet as captured.
    #[inline]
    #[must_use]
    pub fn packet(&self) -> &Packet<'a> {
        &self.packet
    }

    /// What the packet turned out to be.
    #[inline]
    #[must_use]
    pub fn dissected(&self) -> &Dissected<'a> {
        &self.dissected
    }

    /// The tunnels it was found in. Few packets are in one, so they are looked for once more when
    /// somebody asks.
    #[must_use]
    pub fn outer(&self) -> &Outer {
        self.outer.get_or_init(|| dissect_through(&self.packet).1)
    }

    /// Nanoseconds since the capture's first packet.
    #[inline]
    #[must_use]
    pub fn since_ns(&self) -> Option<u64> {
        self.since_ns
    }

    /// What the checker found when it saw the packet; `None` if nobody checked.
    #[inline]
    #[must_use]
    pub fn findings(&self) -> Option<&'a [Finding]> {
        self.findings
    }

    /// What the payload is, where that is proven.
    #[inline]
    #[must_use]
    pub fn upper(&self) -> Option<&Upper> {
        self.upper.as_ref()
    }

    /// The RoCEv2 packet.
    #[inline]
    #[must_use]
    pub fn frame(&self) -> Option<&Frame<'a>> {
        match &self.dissected {
            Dissected::Roce(frame) => Some(frame),
            _ => None,
        }
    }

    /// The RoCE v1 or native InfiniBand packet.
    #[inline]
    #[must_use]
    pub fn native(&self) -> Option<&NativeFrame<'a>> {
        match &self.dissected {
            Dissected::Native(frame) => Some(frame),
            _ => None,
        }
    }

    /// The PAUSE or PFC frame.
    #[must_use]
    pub fn mac_control(&self) -> Option<&MacControl> {
        match &self.dissected {
            Dissected::MacControl(frame) => Some(frame),
            _ => None,
        }
    }

    /// BTH to ICRC, on whichever link.
    #[inline]
    #[must_use]
    pub fn transport(&self) -> Option<&Transport<'a>> {
        self.dissected.transport()
    }

    /// The flow it belongs to.
    #[inline]
    #[must_use]
    pub fn flow(&self) -> Option<FlowKey> {
        self.dissected.flow()
    }

    /// The Ethernet header; a PAUSE frame has its own.
    #[must_use]
    pub fn ethernet(&self) -> Option<Ethernet> {
        match &self.dissected {
            Dissected::Roce(frame) => frame.ethernet(),
            Dissected::Native(frame) => frame.ethernet(),
            _ => None,
        }
    }

    /// The IP header of a RoCEv2 packet.
    #[must_use]
    pub fn ip(&self) -> Option<Ip> {
        self.frame().map(Frame::ip)
    }

    /// Whether the ICRC is right; `None` if there is none.
    #[must_use]
    pub fn icrc(&self) -> Option<IcrcVerdict> {
        *self.icrc.get_or_init(|| match &self.dissected {
            Dissected::Roce(frame) => Some(frame.verify_icrc()),
            Dissected::Native(frame) => Some(frame.verify_icrc()),
            _ => None,
        })
    }

    /// The management datagram.
    #[must_use]
    pub fn mad(&self) -> Option<&Mad<'a>> {
        self.mad.get_or_init(|| Mad::from_frame(self.transport()?)).as_ref()
    }

    /// The connection manager's message.
    #[must_use]
    pub fn cm(&self) -> Option<&Message<'a>> {
        self.cm.get_or_init(|| Message::parse(self.mad()?).ok()).as_ref()
    }
}
