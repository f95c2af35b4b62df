//! Packets by hand: what a test sends to an engine, and what it expects back.

use std::net::IpAddr;

use roce_codec::ib::{
    Aeth, AtomicAckEth, AtomicEth, Bth, ExtHeaders, Feth, Ieth, ImmDt, Msn, Opcode, PKey, Psn, Qpn,
    RKey, Reth, Syndrome,
};
use roce_codec::icrc::IcrcVerdict;
use roce_codec::net::{Ip, Ipv4, Ipv6, ROCE_V2_PORT, Udp};
use roce_codec::{Crc, Frame, FrameBuilder, Start};

/// A packet in the terms of the transport. Envelope fields that a test does not care for keep
/// the values of an honest peer.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Packet {
    pub(crate) opcode: Opcode,
    pub(crate) psn: Psn,
    pub(crate) ack_req: bool,
    pub(crate) solicited: bool,
    pub(crate) ext: ExtHeaders,
    pub(crate) payload: Vec<u8>,
    pub(crate) pkey: PKey,
    pub(crate) version: u8,
    /// Other addresses than the connection's: source and destination.
    pub(crate) addresses: Option<[IpAddr; 2]>,
    /// Another queue pair than the one under test.
    pub(crate) dest_qp: Option<Qpn>,
    /// Another pad count than the payload calls for.
    pub(crate) pad_count: Option<u8>,
}

impl Packet {
    pub(crate) fn new(opcode: Opcode, psn: u32) -> Self {
        Self {
            opcode,
            psn: Psn::new(psn),
            ack_req: false,
            solicited: false,
            ext: ExtHeaders::NONE,
            payload: Vec::new(),
            pkey: PKey::DEFAULT,
            version: 0,
            addresses: None,
            dest_qp: None,
            pad_count: None,
        }
    }

    pub(crate) fn ask(mut self) -> Self {
        self.ack_req = true;
        self
    }

    pub(crate) fn solicit(mut self) -> Self {
        self.solicited = true;
        self
    }

    pub(crate) fn payload(mut self, payload: &[u8]) -> Self {
        self.payload = payload.to_vec();
        self
    }

    pub(crate) fn reth(mut self, va: u64, rkey: RKey, dma_len: u32) -> Self {
        self.ext.reth = Some(Reth { va, rkey, dma_len });
        self
    }

    pub(crate) fn imm(mut self, imm: u32) -> Self {
        self.ext.imm_dt = Some(ImmDt(imm));
        self
    }

    pub(crate) fn ieth(mut self, rkey: RKey) -> Self {
        self.ext.ieth = Some(Ieth(rkey));
        self
    }

    pub(crate) fn flush(psn: u32, feth: u32, va: u64, rkey: RKey, len: u32) -> Self {
        let mut packet = Self::new(Opcode::RC_FLUSH, psn).reth(va, rkey, len);
        packet.ext.feth = Some(Feth(feth));
        packet
    }

    pub(crate) fn atomic_write(psn: u32, va: u64, rkey: RKey, bytes: &[u8]) -> Self {
        Self::new(Opcode::RC_ATOMIC_WRITE, psn).reth(va, rkey, 8).payload(bytes)
    }

    /// What answers an ATOMIC WRITE or a FLUSH.
    pub(crate) fn done(psn: u32, msn: u32) -> Self {
        Self::response(Opcode::RC_RDMA_READ_RESPONSE_ONLY, psn, msn, &[])
    }

    pub(crate) fn aeth(mut self, syndrome: u8, msn: u32) -> Self {
        self.ext.aeth = Some(Aeth { syndrome: Syndrome(syndrome), msn: Msn::new(msn) });
        self
    }

    /// An acknowledgement with no receives posted: no credits.
    pub(crate) fn ack(psn: u32, msn: u32) -> Self {
        Self::answer(psn, 0x00, msn)
    }

    /// An Acknowledge with any syndrome.
    pub(crate) fn answer(psn: u32, syndrome: u8, msn: u32) -> Self {
        Self::new(Opcode::RC_ACKNOWLEDGE, psn).aeth(syndrome, msn)
    }

    pub(crate) fn read(psn: u32, va: u64, rkey: RKey, len: u32) -> Self {
        Self::new(Opcode::RC_RDMA_READ_REQUEST, psn).reth(va, rkey, len)
    }

    /// A READ answer with its AETH (all but Middle have one).
    pub(crate) fn response(opcode: Opcode, psn: u32, msn: u32, payload: &[u8]) -> Self {
        let packet = Self::new(opcode, psn).payload(payload);
        if opcode == Opcode::RC_RDMA_READ_RESPONSE_MIDDLE { packet } else { packet.aeth(0, msn) }
    }

    pub(crate) fn fetch_add(psn: u32, va: u64, rkey: RKey, add: u64) -> Self {
        Self::atomic(Opcode::RC_FETCH_ADD, psn, va, rkey, add, 0)
    }

    pub(crate) fn compare_swap(psn: u32, va: u64, rkey: RKey, swap: u64, compare: u64) -> Self {
        Self::atomic(Opcode::RC_COMPARE_SWAP, psn, va, rkey, swap, compare)
    }

    fn atomic(opcode: Opcode, psn: u32, va: u64, rkey: RKey, swap_add: u64, compare: u64) -> Self {
        let mut packet = Self::new(opcode, psn);
        packet.ext.atomic_eth = Some(AtomicEth { va, rkey, swap_add, compare });
        packet
    }

    pub(crate) fn atomic_answer(psn: u32, msn: u32, original: u64) -> Self {
        let mut packet = Self::new(Opcode::RC_ATOMIC_ACKNOWLEDGE, psn).aeth(0, msn);
        packet.ext.atomic_ack_eth = Some(AtomicAckEth { original });
        packet
    }

    /// The bytes from the IP header on.
    pub(crate) fn to_bytes(&self, src: IpAddr, dst: IpAddr, dest_qp: Qpn) -> Vec<u8> {
        let [src, dst] = self.addresses.unwrap_or([src, dst]);
        let mut bth = Bth::new(self.opcode, self.dest_qp.unwrap_or(dest_qp), self.psn);
        bth.ack_req = self.ack_req;
        bth.solicited = self.solicited;
        bth.pkey = self.pkey;
        bth.version = self.version;
        let mut builder = FrameBuilder {
            ethernet: None,
            ip: ip(src, dst),
            udp: Udp { src_port: 0xc000, dst_port: ROCE_V2_PORT, length: 0, checksum: 0 },
            bth,
            ext: self.ext,
            pad: [0; 3],
        };
        builder.set_payload_len(self.payload.len()).unwrap();
        if let Some(pad_count) = self.pad_count {
            // The lengths must agree with the lie, or the codec refuses the packet first.
            let honest = builder.bth.pad_count;
            builder.bth.pad_count = pad_count;
            let less = u16::from(honest);
            let more = u16::from(pad_count);
            builder.udp.length = builder.udp.length - less + more;
            builder.ip.set_payload_len(usize::from(builder.udp.length)).unwrap();
        }
        let mut bytes = vec![0; builder.header_len() + self.payload.len() + 8];
        let len = builder.emit::<Crc>([&self.payload, &[]], &mut bytes).unwrap();
        bytes.truncate(len);
        bytes
    }

    /// Takes apart what an engine sent, and holds it to what every packet must be.
    pub(crate) fn from_bytes(bytes: &[u8], start: Start, dest_qp: Qpn) -> Self {
        let frame = Frame::parse([bytes, &[]], start).expect("an engine sends whole packets");
        assert_eq!(frame.verify_icrc(), IcrcVerdict::Valid);
        assert!(frame.trailer().iter().all(|piece| piece.is_empty()));
        assert!(frame.pad().iter().all(|byte| *byte == 0));
        let bth = frame.bth();
        assert_eq!(bth.dest_qp, dest_qp);
        assert!(!bth.mig_req && !bth.fecn && !bth.becn);
        assert_eq!((bth.resv6, bth.resv7), (0, 0));
        Self {
            opcode: bth.opcode,
            psn: bth.psn,
            ack_req: bth.ack_req,
            solicited: bth.solicited,
            ext: frame.ext_headers(),
            payload: frame.payload().concat(),
            pkey: bth.pkey,
            version: bth.version,
            addresses: None,
            dest_qp: None,
            pad_count: None,
        }
    }
}

fn ip(src: IpAddr, dst: IpAddr) -> Ip {
    match (src, dst) {
        (IpAddr::V4(src), IpAddr::V4(dst)) => Ip::V4(Ipv4 {
            dscp_ecn: 2,
            total_len: 0,
            identification: 7,
            flags_fragment: Ipv4::DONT_FRAGMENT,
            ttl: 60,
            protocol: 17,
            checksum: 0,
            src,
            dst,
        }),
        (IpAddr::V6(src), IpAddr::V6(dst)) => Ip::V6(Ipv6 {
            traffic_class: 2,
            flow_label: 5,
            payload_len: 0,
            next_header: 17,
            hop_limit: 60,
            src,
            dst,
        }),
        _ => panic!("addresses of one family"),
    }
}
