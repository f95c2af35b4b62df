//! [`defmt::Format`] where the derived one would not do: lengths go out as 64 bits (defmt cuts a
//! `usize` to 32), numbers in the base their `Display` has, a frame as one line.
//!
//! All text stays in the firmware's ELF file: only numbers go over the debug probe.

use defmt::{Format, Formatter, write};

use roce_crc::Crc32;

use crate::ib::{
    AethKind, AtomicAckEth, AtomicEth, Eecn, ExtHeaders, Feth, HeaderSet, LKey, LinkNextHeader,
    Msn, PKey, Psn, QKey, Qpn, RKey, Reth, Srqn, Syndrome,
};
use crate::icrc::{Icrc, IcrcVerdict, NotCheckable};
use crate::net::{EtherType, MacAddr, VlanTag, extension_name};
use crate::{EmitError, Frame, Layer, NativeFrame, ParseError, Transport, TransportBuilder};

/// What `{=u64}` takes of a length.
fn wide(len: usize) -> u64 {
    // No target has a wider `usize`.
    u64::try_from(len).unwrap_or(u64::MAX)
}

impl Format for ParseError {
    fn format(&self, f: Formatter<'_>) {
        match *self {
            Self::Truncated { layer, needed, available } => write!(
                f,
                "{} needs {=u64} bytes, {=u64} are left",
                layer,
                wide(needed),
                wide(available)
            ),
            Self::NotRoce { layer: Layer::Udp, found } => {
                write!(f, "UDP destination port {=u16} is not RoCEv2's 4791", found);
            }
            Self::NotRoce { layer: Layer::Grh, found } => {
                write!(f, "GRH next header {=u16:#x} is not InfiniBand's 0x1b", found);
            }
            Self::NotRoce { layer, found } => {
                write!(f, "{} carries protocol {=u16:#x}, which is not RoCEv2", layer, found);
            }
            Self::Ipv4Options => write!(f, "IPv4 options, which RoCEv2 forbids"),
            Self::Ipv4HeaderLength => write!(f, "IPv4 header length below 20 bytes"),
            Self::Ipv6Extension(number) => match extension_name(number) {
                Some(name) => write!(f, "IPv6 {=str} header ({=u8})", name, number),
                None => write!(f, "IPv6 extension header {=u8}", number),
            },
            Self::Fragment => write!(f, "an IP fragment"),
            Self::RawPacket(LinkNextHeader::RawIpv6) => write!(f, "a raw IPv6 packet (LNH 1)"),
            Self::RawPacket(_) => write!(f, "a raw EtherType packet (LNH 0)"),
            Self::GrhVersion(found) => write!(f, "GRH version {=u8} is not 6", found),
            Self::MacControlOpcode(opcode) => {
                write!(f, "MAC control opcode {=u16:#06x} is neither PAUSE nor PFC", opcode);
            }
            Self::TaggedMacControl => {
                write!(f, "a MAC control frame with a VLAN tag, which 802.3 forbids");
            }
            Self::TooManyVlanTags => write!(f, "more VLAN tags than three"),
            Self::Length { layer, field, expected } => write!(
                f,
                "{} length field says {=u64}, {=u64} expected",
                layer,
                wide(field),
                wide(expected)
            ),
            Self::SplitHeaders => write!(f, "headers run over into the second segment"),
        }
    }
}

impl Format for EmitError {
    fn format(&self, f: Formatter<'_>) {
        match *self {
            Self::NoRoom { needed, available } => write!(
                f,
                "{=u64} bytes needed, the buffer has {=u64}",
                wide(needed),
                wide(available)
            ),
            Self::MissingHeader(kind) => write!(f, "the opcode needs a {}", kind),
            Self::TooLong(len) => {
                write!(f, "a packet of {=u64} bytes is too long for its length field", wide(len));
            }
        }
    }
}

/// `RC_RDMA_WRITE_ONLY to QP 0x000011, PSN 0x000007, 5 bytes`, and what an AETH says.
impl Format for Transport<'_> {
    fn format(&self, f: Formatter<'_>) {
        write!(
            f,
            "{} to QP {}, PSN {}, {=u64} bytes",
            self.opcode(),
            self.dest_qp(),
            self.psn(),
            wide(self.payload_len())
        );
        if let Some(aeth) = self.aeth() {
            write!(f, ", {}, MSN {}", aeth.syndrome, aeth.msn);
        }
    }
}

/// As a [`Transport`], without what its extension headers say.
impl Format for TransportBuilder<'_> {
    fn format(&self, f: Formatter<'_>) {
        write!(
            f,
            "{} to QP {}, PSN {}, {=u64} bytes",
            self.bth.opcode,
            self.bth.dest_qp,
            self.bth.psn,
            wide(self.payload_len)
        );
    }
}

impl Format for Frame<'_> {
    fn format(&self, f: Formatter<'_>) {
        Transport::format(self, f);
    }
}

impl Format for NativeFrame<'_> {
    fn format(&self, f: Formatter<'_>) {
        Transport::format(self, f);
    }
}

impl Format for IcrcVerdict {
    fn format(&self, f: Formatter<'_>) {
        match *self {
            Self::Valid => write!(f, "ICRC valid"),
            Self::Invalid { expected, found } => write!(
                f,
                "ICRC invalid, {=u32:08x} expected, {=u32:08x} found",
                u32::from_be_bytes(expected),
                u32::from_be_bytes(found)
            ),
            Self::NotCheckable(NotCheckable::Truncated) => {
                write!(f, "ICRC not checkable, packet cut short");
            }
            Self::NotCheckable(NotCheckable::NotFilled) => {
                write!(f, "ICRC not checkable, not filled in yet");
            }
            Self::NotCheckable(NotCheckable::Fragment) => {
                write!(f, "ICRC not checkable, an IP fragment");
            }
            Self::NotCheckable(NotCheckable::OuterHeaderMissing) => {
                write!(f, "ICRC not checkable, IP header missing");
            }
        }
    }
}

impl<C: Crc32> Format for Icrc<C> {
    fn format(&self, f: Formatter<'_>) {
        write!(f, "Icrc({=u32:08x})", u32::from_be_bytes(self.finish()));
    }
}

macro_rules! hex {
    ($($type:ident($get:expr): $format:literal;)*) => {$(
        impl Format for $type {
            fn format(&self, f: Formatter<'_>) {
                write!(f, $format, ($get)(*self));
            }
        }
    )*};
}

// As `Display` writes those that have it.
hex! {
    Psn(Psn::get): "{=u32:#08x}";
    Qpn(Qpn::get): "{=u32:#08x}";
    Eecn(Eecn::get): "{=u32:#08x}";
    Srqn(Srqn::get): "{=u32:#08x}";
    Msn(Msn::get): "{=u32:#08x}";
    PKey(|key: PKey| key.0): "{=u16:#06x}";
    QKey(|key: QKey| key.0): "{=u32:#010x}";
    RKey(|key: RKey| key.0): "{=u32:#010x}";
    LKey(|key: LKey| key.0): "{=u32:#010x}";
    EtherType(|ethertype: EtherType| ethertype.0): "{=u16:#06x}";
    Feth(|feth: Feth| feth.0): "FETH {=u32:#010x}";
    AtomicAckEth(|ack: AtomicAckEth| ack.original): "AtomicAckETH original {=u64:#x}";
}

impl Format for MacAddr {
    fn format(&self, f: Formatter<'_>) {
        let [a, b, c, d, e, g] = self.0;
        write!(f, "{=u8:02x}:{=u8:02x}:{=u8:02x}:{=u8:02x}:{=u8:02x}:{=u8:02x}", a, b, c, d, e, g);
    }
}

impl Format for VlanTag {
    fn format(&self, f: Formatter<'_>) {
        write!(f, "VLAN {=u16} priority {=u8}", self.vid(), self.pcp());
        if self.dei() {
            write!(f, " drop-eligible");
        }
        if self.tpid != EtherType::VLAN {
            write!(f, " tagged {}", self.tpid);
        }
    }
}

impl Format for Reth {
    fn format(&self, f: Formatter<'_>) {
        write!(f, "RETH va {=u64:#x}, R_Key {}, {=u32} bytes", self.va, self.rkey, self.dma_len);
    }
}

impl Format for AtomicEth {
    fn format(&self, f: Formatter<'_>) {
        write!(
            f,
            "AtomicETH va {=u64:#x}, R_Key {}, swap or add {=u64:#x}, compare {=u64:#x}",
            self.va, self.rkey, self.swap_add, self.compare
        );
    }
}

impl Format for Syndrome {
    fn format(&self, f: Formatter<'_>) {
        match self.kind() {
            AethKind::Ack(credits) => match credits.count() {
                Some(count) => write!(f, "ACK, {=u16} credits", count),
                None => write!(f, "ACK"),
            },
            AethKind::RnrNak(timer) => write!(f, "RNR NAK, {=u64} us", timer.wait_ns() / 1000),
            AethKind::Nak(code) => write!(f, "NAK, {}", code),
            AethKind::Reserved => write!(f, "reserved syndrome {=u8:#04x}", self.0),
        }
    }
}

/// The headers in wire order, `none` for the empty set.
impl Format for HeaderSet {
    fn format(&self, f: Formatter<'_>) {
        if self.is_empty() {
            write!(f, "none");
        }
        for (index, kind) in self.iter().enumerate() {
            if index > 0 {
                write!(f, " ");
            }
            write!(f, "{}", kind);
        }
    }
}

/// Those that are given, each with a space before it.
impl Format for ExtHeaders {
    fn format(&self, f: Formatter<'_>) {
        // Whole, so that a field added is a compile error here.
        let Self {
            rdeth,
            deth,
            xrceth,
            feth,
            reth,
            atomic_eth,
            aeth,
            atomic_ack_eth,
            imm_dt,
            ieth,
            cnp_reserved,
        } = self;
        write!(f, "ExtHeaders");
        if let Some(rdeth) = rdeth {
            write!(f, " {}", rdeth);
        }
        if let Some(deth) = deth {
            write!(f, " {}", deth);
        }
        if let Some(xrceth) = xrceth {
            write!(f, " {}", xrceth);
        }
        if let Some(feth) = feth {
            write!(f, " {}", feth);
        }
        if let Some(reth) = reth {
            write!(f, " {}", reth);
        }
        if let Some(atomic_eth) = atomic_eth {
            write!(f, " {}", atomic_eth);
        }
        if let Some(aeth) = aeth {
            write!(f, " {}", aeth);
        }
        if let Some(atomic_ack_eth) = atomic_ack_eth {
            write!(f, " {}", atomic_ack_eth);
        }
        if let Some(imm_dt) = imm_dt {
            write!(f, " {}", imm_dt);
        }
        if let Some(ieth) = ieth {
            write!(f, " {}", ieth);
        }
        if let Some(bytes) = cnp_reserved {
            write!(f, " CNP reserved {=[u8; 16]:02x}", *bytes);
        }
    }
}
