//! Kinds of fault, each with the captures it goes into and the rule that is to find it.

use roce_codec::ib::{
    AtomicAckEth, Bth, Deth, ExtHeaders, Msn, Opcode, Operation, Position, Psn, QKey, Qpn, Reth,
    Service, Syndrome,
};
use roce_codec::net::Ip;
use roce_codec::{Crc, Frame, FrameBuilder, Start};
use roce_pcap::check::Rule;

use crate::support::{Owned, load_own};

/// A packet in values, to be changed.
pub(crate) struct Parts {
    pub(crate) builder: FrameBuilder,
    pub(crate) payload: Vec<u8>,
}

impl Parts {
    pub(crate) fn of(packet: &Owned) -> Option<Self> {
        let frame = frame(packet)?;
        Some(Self { builder: frame.to_builder(), payload: frame.payload()[0].to_vec() })
    }

    pub(crate) fn bth(&mut self) -> &mut Bth {
        &mut self.builder.bth
    }

    fn ext(&mut self) -> &mut ExtHeaders {
        &mut self.builder.ext
    }

    fn reth(&mut self) -> &mut Reth {
        self.builder.ext.reth.as_mut().unwrap()
    }

    /// Another opcode, the lengths made to fit it.
    fn opcode(&mut self, opcode: Opcode) {
        self.builder.bth.opcode = opcode;
        self.resize(self.payload.len());
    }

    /// Another payload length, everything else made to fit it.
    pub(crate) fn resize(&mut self, len: usize) {
        self.payload.resize(len, 0xa5);
        self.builder.set_payload_len(len).unwrap();
    }

    /// The packet with one byte of its payload changed, its ICRC made anew.
    pub(crate) fn with_payload_byte(mut self, like: &Owned, at: usize) -> Owned {
        let at = at.min(self.payload.len() - 1);
        self.payload[at] ^= 0x40;
        self.emit(like)
    }

    /// The packet with its ICRC made anew.
    pub(crate) fn emit(&self, like: &Owned) -> Owned {
        let mut data = vec![0; self.payload.len() + 256];
        let len = self.builder.emit::<Crc>([&self.payload, &[]], &mut data).unwrap();
        data.truncate(len);
        Owned { orig_len: len.try_into().unwrap(), data, ..like.clone() }
    }
}

/// The RC pingpong as UC sends it: its opcodes, nothing acknowledged.
const UC: &str = "rxe-pingpong as UC";

pub(crate) fn load(capture: &str) -> Vec<Owned> {
    if capture == crate::congestion::NOTIFIED {
        return crate::congestion::load_notified();
    }
    if capture != UC {
        return load_own(capture);
    }
    let as_uc = |packet: &Owned| {
        let mut parts = Parts::of(packet)?;
        let bth = parts.bth();
        bth.ack_req = false;
        bth.opcode = Opcode(bth.opcode.0 | 0x20);
        bth.opcode.info().is_request().then(|| parts.emit(packet))
    };
    load_own("rxe-pingpong").iter().filter_map(as_uc).collect()
}

pub(crate) fn frame(packet: &Owned) -> Option<Frame<'_>> {
    Frame::parse([&packet.data, &[]], Start::Ethernet).ok()
}

/// Whether a frame is one to put the fault into.
pub(crate) type Select = fn(&Frame<'_>) -> bool;

/// The fault.
#[derive(Clone)]
pub(crate) enum Fault {
    /// In values; the ICRC is made anew.
    Values(fn(&mut Parts)),
    /// In bytes, from the IP header on; the ICRC stays as it was.
    Bytes(fn(&mut Vec<u8>)),
    /// A packet put behind the one selected, made from it; the ICRC is made anew.
    Insert(fn(&mut Parts)),
    /// The packet is missing.
    Remove,
}

#[derive(Clone)]
pub(crate) struct Mutation {
    pub(crate) name: &'static str,
    pub(crate) capture: &'static str,
    pub(crate) select: Select,
    pub(crate) fault: Fault,
    pub(crate) rule: Rule,
    pub(crate) implied: &'static [Rule],
    /// Whether it shows only against the other direction.
    pub(crate) needs_pair: bool,
    /// The device profile under which it shows, if it takes one.
    pub(crate) profile: Option<&'static str>,
}

/// Ethernet without tags.
const L3: usize = 14;

impl Mutation {
    pub(crate) fn apply(&self, packets: &[Owned], at: usize) -> Vec<Owned> {
        let mut packets = packets.to_vec();
        let packet = packets[at].clone();
        match self.fault {
            Values(change) => {
                let mut parts = Parts::of(&packet).unwrap();
                change(&mut parts);
                packets[at] = parts.emit(&packet);
            }
            Bytes(change) => {
                let mut l3 = packet.data[L3..].to_vec();
                change(&mut l3);
                let data = [&packet.data[..L3], &l3].concat();
                packets[at] = Owned { orig_len: data.len().try_into().unwrap(), data, ..packet };
            }
            Insert(change) => {
                let mut parts = Parts::of(&packet).unwrap();
                change(&mut parts);
                packets.insert(at + 1, parts.emit(&packet));
            }
            Remove => {
                packets.remove(at);
            }
        }
        packets
    }
}

pub(crate) fn operation(frame: &Frame<'_>) -> Operation {
    frame.info().operation
}

fn position(frame: &Frame<'_>) -> Position {
    frame.info().position
}

pub(crate) fn any(_: &Frame<'_>) -> bool {
    true
}

pub(crate) fn is_rc(frame: &Frame<'_>) -> bool {
    frame.info().service == Service::Rc
}

pub(crate) fn is_ack(frame: &Frame<'_>) -> bool {
    frame.opcode() == Opcode::RC_ACKNOWLEDGE
}

fn is_sequence_nak(frame: &Frame<'_>) -> bool {
    is_ack(frame) && frame.aeth().is_some_and(|aeth| aeth.syndrome == Syndrome(0x60))
}

pub(crate) fn is_request(frame: &Frame<'_>) -> bool {
    is_rc(frame) && frame.info().is_request()
}

fn is_mad(frame: &Frame<'_>) -> bool {
    frame.dest_qp() == Qpn::GSI
}

pub(crate) fn has_pad(frame: &Frame<'_>) -> bool {
    frame.bth().pad_count > 0
}

/// A congestion notification for the queue pair the packet goes to.
pub(crate) fn cnp(parts: &mut Parts) {
    let dest_qp = parts.builder.bth.dest_qp;
    parts.builder.bth = Bth { becn: true, ..Bth::new(Opcode::CNP, dest_qp, Psn::new(0)) };
    parts.builder.ext = ExtHeaders::NONE;
    parts.resize(0);
}

macro_rules! mutations {
    ($($name:literal, $capture:expr, $select:expr, $fault:expr, $rule:ident $(, implies $($implied:ident)*)?;)*) => {
        vec![$(Mutation {
            name: $name,
            capture: $capture,
            select: $select,
            fault: $fault,
            rule: Rule::$rule,
            implied: &[$($(Rule::$implied,)*)?],
            needs_pair: false,
            profile: None,
        },)*]
    };
}
pub(crate) use mutations;

pub(crate) use Fault::{Bytes, Insert, Remove, Values};

pub(crate) fn packet_mutations() -> Vec<Mutation> {
    mutations! {
        "a payload byte damaged", "rxe-write", |f| f.payload_len() > 64,
            Bytes(|l3| l3[70] ^= 0x10), RoceIcrc;
        "an address rewritten", "rxe-write", any,
            Bytes(|l3| l3[19] ^= 1), RoceIcrc;
        "a PSN rewritten", "rxe-write", any,
            Bytes(|l3| l3[39] ^= 1), RoceIcrc;
        "an ICRC without the pad bytes", "rxe-send", has_pad,
            Bytes(|l3| {
                let pad = usize::from(l3[29] >> 4 & 3);
                let end = l3.len() - 4;
                let mut icrc: roce_codec::icrc::Icrc = roce_codec::icrc::Icrc::ipv4(l3.first_chunk().unwrap());
                icrc.update(&l3[40..end - pad]);
                let icrc = icrc.finish();
                l3[end..].copy_from_slice(&icrc);
            }), RoceIcrc;
        "a UDP length too large", "rxe-write", any,
            Values(|p| p.builder.udp.length += 4), IpUdpLength;
        "a UDP length too small", "rxe-write", any,
            Values(|p| p.builder.udp.length -= 1), IpUdpLength;
        "an IP length too small", "rxe-write", any,
            Values(|p| if let Ip::V4(ip) = &mut p.builder.ip { ip.total_len -= 4 }), IpUdpLength;
        "an IPv6 length too large", "rxe-ipv6", any,
            Values(|p| if let Ip::V6(ip) = &mut p.builder.ip { ip.payload_len += 4 }), IpUdpLength;
        "an opcode whose headers are not there", "rxe-write", is_ack,
            Bytes(|l3| l3[28] = Opcode::RC_COMPARE_SWAP.0), RoceLength;
        "pad bytes that are not there", "rxe-send", |f| is_rc(f) && f.payload_len() == 0,
            Bytes(|l3| { l3[28] = Opcode::RC_SEND_ONLY.0; l3[29] |= 0x30; l3.truncate(44); l3[3] = 44; l3[25] = 24; }),
            RoceLength;
        "no room for an ICRC", "rxe-write", any,
            Bytes(|l3| { l3[2] = 0; l3[3] = 40; l3[24] = 0; l3[25] = 20; }), RoceLength;
        "more fragments follow", "rxe-write", any,
            Values(|p| if let Ip::V4(ip) = &mut p.builder.ip { ip.flags_fragment = 0x2000 }), IpFragment;
        "four bytes of IPv4 options", "rxe-write", any,
            Bytes(|l3| {
                l3[0] = 0x46;
                let len = u16::from_be_bytes([l3[2], l3[3]]) + 4;
                l3[2..4].copy_from_slice(&len.to_be_bytes());
                l3.splice(20..20, [1; 4]);
            }), Ipv4Options;
        "may be fragmented", "rxe-write", any,
            Values(|p| if let Ip::V4(ip) = &mut p.builder.ip { ip.flags_fragment = 0 }), Ipv4Df;
        "header version 1", "rxe-write", any, Values(|p| p.bth().version = 1), BthVersion;
        "Resv6 set", "rxe-write", any, Values(|p| p.bth().resv6 = 0x10), BthReserved;
        "Resv7 set", "rxe-read", any, Values(|p| p.bth().resv7 = 1), BthReserved;
        "a payload that ends on an odd byte", "rxe-send", has_pad,
            Values(|p| {
                p.payload.push(7);
                p.builder.udp.length += 1;
                if let Ip::V4(ip) = &mut p.builder.ip { ip.total_len += 1 }
            }), BthPad;
        "four bytes of pad that need not be", "rxe-send", |f| f.payload_len() == 64,
            Values(|p| { p.payload.truncate(61); p.bth().pad_count = 2;
                p.builder.udp.length -= 1; if let Ip::V4(ip) = &mut p.builder.ip { ip.total_len -= 1 } }),
            BthPad;
        "pad bytes that are not zero", "rxe-send", has_pad,
            Values(|p| p.builder.pad = [0, 0, 0].map(|_: u8| 0x5a)), BthPadBytes;
        "reserved opcode 0x15", "rxe-send", is_request,
            Values(|p| p.opcode(Opcode(0x15))), BthOpcode;
        "the CNP of native InfiniBand", "rxe-ecn-client", is_rc,
            Insert(|p| { cnp(p); p.opcode(Opcode::IB_CNP); }), BthOpcode;
        "AckReq on UC", UC, any,
            Values(|p| p.bth().ack_req = true), BthAckReq;
        "AckReq on UD", "rxe-cm", |f| f.info().service == Service::Ud && !is_mad(f),
            Values(|p| p.bth().ack_req = true), BthAckReq;
        "an ACK with payload", "rxe-write", is_ack, Values(|p| p.resize(4)), PayloadLength;
        "a READ request with payload", "rxe-read", |f| operation(f) == Operation::ReadRequest,
            Values(|p| p.resize(64)), PayloadLength;
        "an atomic with payload", "rxe-atomic", |f| operation(f) == Operation::CompareSwap,
            Values(|p| p.resize(8)), PayloadLength;
        "a Middle of 1000 bytes", "rxe-send", |f| position(f) == Position::Middle,
            Values(|p| p.resize(1000)), PayloadLength, implies PayloadMtu;
        "a Last of no bytes", "rxe-send", |f| position(f) == Position::Last,
            Values(|p| p.resize(0)), PayloadLength;
        "an Only of 4100 bytes", "rxe-send", |f| is_request(f) && position(f) == Position::Only,
            Values(|p| p.resize(4100)), PayloadLength, implies PayloadMtu;
        "an ATOMIC WRITE of 4 bytes", "rxe72-flush-atomicwrite",
            |f| operation(f) == Operation::AtomicWrite, Values(|p| p.resize(4)), PayloadLength;
        "a message above 2^31 bytes", "rxe-write",
            |f| operation(f) == Operation::Write && f.reth().is_some(),
            Values(|p| p.reth().dma_len = 0x8000_0001), RethDmaLen, implies RcWriteLength;
        "a reserved syndrome", "rxe-write", is_ack,
            Values(|p| p.ext().aeth.as_mut().unwrap().syndrome = Syndrome(0x45)), AethSyndrome;
        "a reserved NAK code", "rxe-lossy-client", is_sequence_nak,
            Values(|p| p.ext().aeth.as_mut().unwrap().syndrome = Syndrome(0x6a)), AethSyndrome;
        "a READ response that is a NAK", "rxe-read",
            |f| operation(f) == Operation::ReadResponse && f.aeth().is_some(),
            Values(|p| p.ext().aeth.as_mut().unwrap().syndrome = Syndrome(0x62)), AethSyndrome;
        "an atomic acknowledge that is an RNR NAK", "rxe-atomic",
            |f| operation(f) == Operation::AtomicAcknowledge,
            Values(|p| p.ext().aeth.as_mut().unwrap().syndrome = Syndrome(0x2c)), AethSyndrome;
        "a CNP without BECN", "rxe-ecn-client", is_rc,
            Insert(|p| { cnp(p); p.bth().becn = false; }), CnpFormat;
        "a CNP with a PSN", "rxe-ecn-client", is_rc,
            Insert(|p| { cnp(p); p.bth().psn = Psn::new(1); }), CnpFormat;
        "a CNP that asks for an ACK", "rxe-ecn-client", is_rc,
            Insert(|p| { cnp(p); p.bth().ack_req = true; }), CnpFormat;
        "a CNP with MigReq", "rxe-ecn-client", is_rc,
            Insert(|p| { cnp(p); p.bth().mig_req = true; }), CnpFormat;
        "a CNP with a solicited event", "rxe-ecn-client", is_rc,
            Insert(|p| { cnp(p); p.bth().solicited = true; }), CnpFormat;
        "a CNP with reserved bytes set", "rxe-ecn-client", is_rc,
            Insert(|p| { cnp(p); p.ext().cnp_reserved = Some([1; 16]); }), CnpFormat;
        "a MAD with another Q_Key", "rxe-cm", is_mad,
            Values(|p| p.ext().deth.as_mut().unwrap().qkey = QKey(0x1111_1111)), MadQp1;
        "a MAD from another QP", "rxe-cm", is_mad,
            Values(|p| p.ext().deth.as_mut().unwrap().src_qp = Qpn::new(7)), MadQp1;
        "a MAD of 252 bytes", "rxe-cm", is_mad, Values(|p| p.resize(252)), MadQp1;
        "a MAD of base version 2", "rxe-cm", is_mad, Values(|p| p.payload[0] = 2), MadQp1;
        "an RC SEND to QP1", "rxe-cm", is_mad, Values(|p| p.opcode(Opcode::RC_SEND_ONLY)), MadQp1;
    }
}

pub(crate) fn request_mutations() -> Vec<Mutation> {
    mutations! {
        "UC in the midst of RC", "rxe-send", |f| f.opcode() == Opcode::RC_SEND_MIDDLE,
            Values(|p| p.opcode(Opcode::UC_SEND_MIDDLE)), QpService;
        "UD in the midst of RC", "rxe-send", |f| f.opcode() == Opcode::RC_SEND_MIDDLE,
            Values(|p| {
                p.ext().deth = Some(Deth { qkey: QKey(0x1111_1111), resv8: 0, src_qp: Qpn::new(5) });
                p.opcode(Opcode::UD_SEND_ONLY);
            }), QpService;
        "a Middle becomes a First", "rxe-send", |f| f.opcode() == Opcode::RC_SEND_MIDDLE,
            Values(|p| p.opcode(Opcode::RC_SEND_FIRST)), RcMessageOrder;
        "a Middle becomes a Last", "rxe-ecn-client", |f| f.opcode() == Opcode::RC_RDMA_WRITE_MIDDLE,
            Values(|p| p.opcode(Opcode::RC_RDMA_WRITE_LAST)), RcMessageOrder, implies RcWriteLength;
        "a Middle becomes an Only", "rxe-send", |f| f.opcode() == Opcode::RC_SEND_MIDDLE,
            Values(|p| p.opcode(Opcode::RC_SEND_ONLY)), RcMessageOrder;
        "a First becomes a Middle", "rxe-send", |f| f.opcode() == Opcode::RC_SEND_FIRST,
            Values(|p| p.opcode(Opcode::RC_SEND_MIDDLE)), RcMessageOrder;
        "a First becomes an Only", "rxe-send", |f| f.opcode() == Opcode::RC_SEND_FIRST,
            Values(|p| p.opcode(Opcode::RC_SEND_ONLY)), RcMessageOrder;
        "a Last becomes a Middle", "rxe-ecn-client", |f| f.opcode() == Opcode::RC_RDMA_WRITE_LAST,
            Values(|p| p.opcode(Opcode::RC_RDMA_WRITE_MIDDLE)), RcMessageOrder, implies RcWriteLength;
        "a WRITE goes on as a SEND", "rxe-ecn-client", |f| f.opcode() == Opcode::RC_RDMA_WRITE_MIDDLE,
            Values(|p| p.opcode(Opcode::RC_SEND_MIDDLE)), RcMessageOrder;
        "a UC Middle becomes a First", UC, |f| f.opcode() == Opcode::UC_SEND_MIDDLE,
            Values(|p| p.opcode(Opcode::UC_SEND_FIRST)), RcMessageOrder;
        "a DMA length one too large", "rxe-ecn-client", |f| f.opcode() == Opcode::RC_RDMA_WRITE_FIRST,
            Values(|p| p.reth().dma_len += 1), RcWriteLength;
        "a DMA length too small", "rxe-ecn-client", |f| f.opcode() == Opcode::RC_RDMA_WRITE_FIRST,
            Values(|p| p.reth().dma_len = 1024), RcWriteLength;
        "a DMA length of an Only", "rxe-cm", |f| f.opcode() == Opcode::RC_RDMA_WRITE_ONLY,
            Values(|p| p.reth().dma_len += 1), RcWriteLength;
        "a Last four bytes short", "rxe-ecn-client", |f| f.opcode() == Opcode::RC_RDMA_WRITE_LAST,
            Values(|p| p.resize(1020)), RcWriteLength;
        "a First of another path MTU", "rxe-send", |f| f.opcode() == Opcode::RC_SEND_FIRST,
            Values(|p| p.resize(512)), PayloadMtu;
        "a Middle of another path MTU", "rxe-send", |f| f.opcode() == Opcode::RC_SEND_MIDDLE,
            Values(|p| p.resize(2048)), PayloadMtu;
        "a Last above the path MTU", "rxe-send", |f| f.opcode() == Opcode::RC_SEND_LAST,
            Values(|p| p.resize(1028)), PayloadMtu;
        "a request is missing", "rxe-write", |f| f.opcode() == Opcode::RC_RDMA_WRITE_MIDDLE,
            Remove, RcPsnGap;
        "a PSN three too large", "rxe-write", |f| f.opcode() == Opcode::RC_RDMA_WRITE_LAST,
            Values(|p| p.bth().psn = p.builder.bth.psn.add(3)), RcPsnGap;
    }
}

pub(crate) fn response_mutations() -> Vec<Mutation> {
    let mutations = mutations! {
        "an ACK for what was never sent", "rxe-lossy-client", |f| is_ack(f) && !is_sequence_nak(f),
            Values(|p| p.bth().psn = p.builder.bth.psn.add(1000)), RcAckPsn;
        "a NAK for what was never sent", "rxe-lossy-client", is_sequence_nak,
            Values(|p| p.bth().psn = p.builder.bth.psn.add(1000)), RcAckPsn;
        "a READ response for what was never asked", "rxe-lossy-client",
            |f| operation(f) == Operation::ReadResponse,
            Values(|p| p.bth().psn = p.builder.bth.psn.add(5000)), RcAckPsn;
        "an MSN that goes back", "rxe-ecn-client", is_ack,
            Values(|p| { let aeth = p.ext().aeth.as_mut().unwrap();
                aeth.msn = Msn::new(aeth.msn.get().wrapping_sub(3)); }), RcMsn;
        "an MSN that leaps", "rxe-ecn-client", is_ack,
            Values(|p| { let aeth = p.ext().aeth.as_mut().unwrap();
                aeth.msn = Msn::new(aeth.msn.get() + 1000); }), RcMsn;
        "a second NAK for one gap", "rxe-lossy-client", is_sequence_nak,
            Insert(|p| if let Ip::V4(ip) = &mut p.builder.ip {
                ip.identification ^= 0x5555;
                ip.checksum = ip.computed_checksum();
            }), RcNakRepeat;
        "a READ response First becomes a Middle", "rxe-read",
            |f| f.opcode() == Opcode::RC_RDMA_READ_RESPONSE_FIRST,
            Values(|p| p.opcode(Opcode::RC_RDMA_READ_RESPONSE_MIDDLE)), RcReadOrder;
        "a READ response Middle becomes a First", "rxe-read",
            |f| f.opcode() == Opcode::RC_RDMA_READ_RESPONSE_MIDDLE,
            Values(|p| { p.ext().aeth = Some(roce_codec::ib::Aeth { syndrome: Syndrome::ACK, msn: Msn::new(1) });
                p.opcode(Opcode::RC_RDMA_READ_RESPONSE_FIRST); }), RcReadOrder, implies RcMsn;
        "a READ response Middle becomes a Last", "rxe-read",
            |f| f.opcode() == Opcode::RC_RDMA_READ_RESPONSE_MIDDLE,
            Values(|p| { p.ext().aeth = Some(roce_codec::ib::Aeth { syndrome: Syndrome::ACK, msn: Msn::new(1) });
                p.opcode(Opcode::RC_RDMA_READ_RESPONSE_LAST); }), RcReadResponse, implies RcReadOrder RcMsn;
        "a READ response Last becomes a Middle", "rxe-lossy-client",
            |f| f.opcode() == Opcode::RC_RDMA_READ_RESPONSE_LAST && f.payload_len() == 1024,
            Values(|p| p.opcode(Opcode::RC_RDMA_READ_RESPONSE_MIDDLE)), RcReadResponse, implies RcReadOrder;
        "a READ response four bytes short", "rxe-read",
            |f| f.opcode() == Opcode::RC_RDMA_READ_RESPONSE_LAST,
            Values(|p| p.resize(p.payload.len() - 4)), RcReadResponse;
        "a READ answered with more than it asked for", "rxe-read",
            |f| operation(f) == Operation::ReadRequest && f.reth().is_some_and(|r| r.dma_len == 3000),
            Values(|p| p.reth().dma_len -= 4), RcReadResponse;
        "a WRITE answered by a READ response", "rxe-ecn-client", is_ack,
            Values(|p| p.opcode(Opcode::RC_RDMA_READ_RESPONSE_ONLY)), RcReadResponse;
        "a WRITE answered by an atomic acknowledge", "rxe-ecn-client", is_ack,
            Values(|p| { p.ext().atomic_ack_eth = Some(AtomicAckEth { original: 1 });
                p.opcode(Opcode::RC_ATOMIC_ACKNOWLEDGE); }), RcAtomicAck;
    };
    mutations.into_iter().map(|mutation| Mutation { needs_pair: true, ..mutation }).collect()
}
