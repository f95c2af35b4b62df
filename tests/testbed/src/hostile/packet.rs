//! A packet of a hostile client's: valid until it is bent.

use std::net::{IpAddr, Ipv4Addr};

use roce_codec::ib::{AtomicEth, Bth, ExtHeaders, Feth, Ieth, ImmDt, Opcode, Psn, Qpn, RKey, Reth};
use roce_codec::icrc::{ICRC_LEN, IPV4_HEADERS, Icrc};
use roce_codec::net::{EtherType, Ethernet, Ip, Ipv4, MacAddr, ROCE_V2_PORT, Udp, VlanStack};
use roce_codec::{Crc, FrameBuilder};

/// Bytes before the IP header.
pub const ETHERNET: usize = 14;

/// A packet in values.
#[derive(Debug, Clone)]
pub struct Packet {
    /// Source and destination address.
    pub addresses: [Ipv4Addr; 2],
    /// MAC addresses, source and destination.
    pub macs: [MacAddr; 2],
    /// UDP source port.
    pub src_port: u16,
    /// Base transport header; the pad count is made to fit.
    pub bth: Bth,
    /// Extension headers. Those that the opcode calls for and that are not here are zeroes.
    pub ext: ExtHeaders,
    /// Payload.
    pub payload: Vec<u8>,
}

impl Packet {
    /// A packet without payload.
    #[must_use]
    pub fn new(addresses: [Ipv4Addr; 2], opcode: Opcode, dest_qp: Qpn, psn: Psn) -> Self {
        Self {
            addresses,
            macs: [MacAddr([2, 0, 0, 0, 0, 9]), MacAddr([2, 0, 0, 0, 0, 1])],
            src_port: 0xc000,
            bth: Bth::new(opcode, dest_qp, psn),
            ext: ExtHeaders::NONE,
            payload: Vec::new(),
        }
    }

    /// With a RETH.
    #[must_use]
    pub fn reth(mut self, va: u64, rkey: RKey, dma_len: u32) -> Self {
        self.ext.reth = Some(Reth { va, rkey, dma_len });
        self
    }

    /// With an AtomicETH.
    #[must_use]
    pub fn atomic(mut self, va: u64, rkey: RKey, swap_add: u64, compare: u64) -> Self {
        self.ext.atomic_eth = Some(AtomicEth { va, rkey, swap_add, compare });
        self
    }

    /// With payload.
    #[must_use]
    pub fn payload(mut self, payload: Vec<u8>) -> Self {
        self.payload = payload;
        self
    }

    /// With what a FLUSH asks for.
    #[must_use]
    pub fn feth(mut self, feth: u32) -> Self {
        self.ext.feth = Some(Feth(feth));
        self
    }

    /// With a key to invalidate.
    #[must_use]
    pub fn ieth(mut self, rkey: RKey) -> Self {
        self.ext.ieth = Some(Ieth(rkey));
        self
    }

    /// Asking for an acknowledgement.
    #[must_use]
    pub fn ask(mut self) -> Self {
        self.bth.ack_req = true;
        self
    }

    /// The frame, with lengths, pad and ICRC that are right.
    ///
    /// # Panics
    /// If the payload is longer than an IP packet.
    #[must_use]
    pub fn frame(&self) -> Vec<u8> {
        let mut ext = self.ext;
        // Whatever an opcode calls for; only the fields' values matter here.
        ext.rdeth.get_or_insert_default();
        ext.xrceth.get_or_insert_default();
        ext.reth.get_or_insert_default();
        ext.atomic_eth.get_or_insert_default();
        ext.atomic_ack_eth.get_or_insert_default();
        ext.imm_dt.get_or_insert(ImmDt(0));
        let zero = |len: usize| vec![0; len];
        ext.deth = ext.deth.or(roce_codec::ib::Deth::parse(&zero(8)).ok());
        ext.feth = ext.feth.or(Feth::parse(&zero(4)).ok());
        ext.ieth = ext.ieth.or(Ieth::parse(&zero(4)).ok());
        ext.aeth = ext.aeth.or(roce_codec::ib::Aeth::parse(&zero(4)).ok());
        let [src, dst] = self.addresses;
        let ip = Ip::V4(Ipv4 {
            dscp_ecn: 0,
            total_len: 0,
            identification: 0,
            flags_fragment: Ipv4::DONT_FRAGMENT,
            ttl: 64,
            protocol: 17,
            checksum: 0,
            src,
            dst,
        });
        let ethernet = Ethernet {
            dst: self.macs[1],
            src: self.macs[0],
            vlans: VlanStack::EMPTY,
            ethertype: EtherType::IPV4,
        };
        let mut builder = FrameBuilder {
            ethernet: Some(ethernet),
            ip,
            udp: Udp { src_port: self.src_port, dst_port: ROCE_V2_PORT, length: 0, checksum: 0 },
            bth: self.bth,
            ext,
            pad: [0; 3],
        };
        builder.set_payload_len(self.payload.len()).expect("shorter than an IP packet");
        let mut frame = vec![0; builder.header_len() + self.payload.len() + 8];
        let len = builder.emit::<Crc>([&self.payload, &[]], &mut frame).expect("room for it");
        frame.truncate(len);
        frame
    }
}

/// Makes the ICRC of a frame right again, so that whatever was bent gets past it.
pub fn repair_icrc(frame: &mut [u8]) {
    let Some(packet) = frame.get_mut(ETHERNET..) else { return };
    let Some(end) = packet.len().checked_sub(ICRC_LEN) else { return };
    let (covered, field) = packet.split_at_mut(end);
    let Some((headers, rest)) = covered.split_first_chunk::<IPV4_HEADERS>() else { return };
    let mut icrc: Icrc = Icrc::ipv4(headers);
    icrc.update(rest);
    field.copy_from_slice(&icrc.finish());
}

/// Makes the IP and UDP lengths what there is.
pub fn repair_lengths(frame: &mut [u8]) {
    let Some(len) = frame.len().checked_sub(ETHERNET) else { return };
    let Ok(len) = u16::try_from(len) else { return };
    if let Some(field) = frame.get_mut(ETHERNET + 2..ETHERNET + 4) {
        field.copy_from_slice(&len.to_be_bytes());
    }
    if let Some(field) = frame.get_mut(ETHERNET + 24..ETHERNET + 26) {
        field.copy_from_slice(&len.wrapping_sub(20).to_be_bytes());
    }
}

/// The IPv4 address of an [`IpAddr`].
///
/// # Panics
/// If it is another.
#[must_use]
pub fn v4(address: IpAddr) -> Ipv4Addr {
    match address {
        IpAddr::V4(address) => address,
        IpAddr::V6(_) => panic!("the siege is fought over IPv4"),
    }
}
