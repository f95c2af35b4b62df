//! From a captured packet to a RoCEv2 frame, or what else it is, or why nothing is read in it.
//!
//! Tunnels are looked for where the packet itself is none of ours, so they cost a plain packet
//! nothing.

mod fault;
mod tunnel;

use std::fmt;

use roce_codec::net::MacControl;
use roce_codec::{Frame, NativeFrame, NativeStart, ParseError, Start, Transport};

use crate::capture::{First, LinkError, Packet};
use crate::observed::FlowKey;

pub use tunnel::{Outer, Tunnel};

/// What a captured packet turned out to be.
#[derive(Debug, Clone, Copy)]
pub enum Dissected<'a> {
    /// A RoCEv2 packet. The capture may have cut its payload ([`missing`](roce_codec::Transport::missing)).
    Roce(Frame<'a>),
    /// RoCE v1 or native InfiniBand. The capture may have cut its payload.
    Native(NativeFrame<'a>),
    /// A PAUSE or PFC frame.
    MacControl(MacControl),
    /// Sent to RoCEv2's port, but not a RoCEv2 packet that can be read.
    Malformed(Malformed),
    /// Another protocol.
    Other(Other),
}

impl<'a> Dissected<'a> {
    /// From the BTH to the ICRC, on whichever link.
    #[inline]
    #[must_use]
    pub fn transport(&self) -> Option<&Transport<'a>> {
        match self {
            Self::Roce(frame) => Some(frame),
            Self::Native(frame) => Some(frame),
            _ => None,
        }
    }

    /// The flow it belongs to, if it is a packet of a transport.
    #[inline]
    #[must_use]
    pub fn flow(&self) -> Option<FlowKey> {
        match self {
            Self::Roce(frame) => Some(FlowKey::of_frame(frame)),
            Self::Native(frame) => Some(FlowKey::of_native(frame)),
            _ => None,
        }
    }
}

/// Why a packet for RoCEv2's port cannot be read.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Malformed {
    /// What kind of fault it is.
    pub fault: Fault,
    /// What the codec said.
    pub error: ParseError,
}

/// The kinds of fault that keep a packet from being read.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum Fault {
    /// The lengths in the IP and UDP headers disagree.
    IpUdpLength,
    /// Too short for the headers its opcode has, its pad and the ICRC.
    TooShort,
    /// An IP fragment.
    Fragment,
    /// IPv4 options.
    Ipv4Options,
    /// The capture cut the packet inside its headers: nobody's fault but the snap length's.
    Cut,
}

impl fmt::Display for Malformed {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self.fault {
            Fault::Cut => write!(f, "cut by the capture: {}", self.error),
            _ => fmt::Display::fmt(&self.error, f),
        }
    }
}

/// Why a packet is not RoCEv2.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Other {
    /// The capture never declared the packet's interface.
    UndeclaredInterface,
    /// Something in front of IP.
    Link(LinkError),
    /// Something behind it.
    Protocol(ParseError),
}

impl fmt::Display for Other {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::UndeclaredInterface => f.write_str("its interface was never declared"),
            Self::Link(error) => fmt::Display::fmt(error, f),
            Self::Protocol(error) => fmt::Display::fmt(error, f),
        }
    }
}

/// Finds the RoCEv2 frame in a packet. RoCEv2 is what goes to UDP port 4791, whatever port it
/// comes from; in a tunnel, the inner packet counts.
#[inline]
#[must_use]
pub fn dissect<'a>(packet: &Packet<'a>) -> Dissected<'a> {
    dissect_through(packet).0
}

/// The same, and the tunnels that were looked through to find it: none if nothing was found.
#[inline]
#[must_use]
pub fn dissect_through<'a>(packet: &Packet<'a>) -> (Dissected<'a>, Outer) {
    let Some(link) = packet.link else {
        return (Dissected::Other(Other::UndeclaredInterface), Outer::default());
    };
    let (first, bytes) = match link.locate(packet.frame()) {
        Ok(located) => located,
        Err(error) => return (Dissected::Other(Other::Link(error)), Outer::default()),
    };
    match parse(first, bytes) {
        Ok(dissected) => (dissected, Outer::default()),
        Err(error) => within(first, bytes, error),
    }
}

#[inline]
fn parse(first: First, bytes: &[u8]) -> Result<Dissected<'_>, ParseError> {
    let segments = [bytes, &[]];
    match first {
        First::Ethernet => Ok(match roce_codec::Packet::parse_captured(segments)? {
            roce_codec::Packet::RoceV2(frame) => Dissected::Roce(frame),
            roce_codec::Packet::RoceV1(frame) => Dissected::Native(frame),
            roce_codec::Packet::MacControl(frame) => Dissected::MacControl(frame),
        }),
        First::Ip => Frame::parse_captured(segments, Start::Ip).map(Dissected::Roce),
        First::Lrh => {
            NativeFrame::parse_captured(segments, NativeStart::Lrh).map(Dissected::Native)
        }
        First::Grh => {
            NativeFrame::parse_captured(segments, NativeStart::Grh).map(Dissected::Native)
        }
    }
}

/// Looks through tunnels for what is no RoCE by itself, and tells what is broken from what is of
/// another protocol.
#[cold]
fn within<'a>(first: First, bytes: &'a [u8], error: ParseError) -> (Dissected<'a>, Outer) {
    let mut outer = Outer::default();
    let (mut innermost, mut complaint) = ((first, bytes), error);
    while let Some((tunnel, first, bytes)) = tunnel::open(innermost.0, innermost.1) {
        if !outer.push(tunnel) {
            break;
        }
        innermost = (first, bytes);
        match parse(first, bytes) {
            Ok(dissected) => return (dissected, outer),
            Err(error) => complaint = error,
        }
    }
    match fault::of(innermost.0, innermost.1, complaint) {
        Some(malformed) => (Dissected::Malformed(malformed), outer),
        None => (Dissected::Other(Other::Protocol(error)), Outer::default()),
    }
}
