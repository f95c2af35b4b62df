//! A responder and a requester written by hand for exactly the packets of this benchmark: IPv4
//! without options, one queue pair, one region, packets of one piece, answers from a template.
//! Fixed offsets, the checks without which a peer could write where it likes, crc32fast.

use roce_codec::ib::Opcode;
use roce_engine::{Addr, AtomicOp, Backing};

use crate::frames::{PEER_QPN, To, ack};
use crate::host::{Ring, VA, Window};

// Offsets in an Ethernet frame.
const IP: usize = 14;
const SRC: usize = 26;
const UDP: usize = 34;
const BTH: usize = 42;
const AFTER_BTH: usize = 54;
const AFTER_RETH: usize = 70;
const ICRC: usize = 4;

/// The responder's state, and the requester's.
pub(crate) struct Stub {
    pub(crate) qpn: u32,
    pub(crate) rkey: u32,
    pub(crate) len: u64,
    pub(crate) path_mtu: usize,
    pub(crate) expected: u32,
    pub(crate) msn: u32,
    /// Where SENDs go: a receive is an offset.
    pub(crate) receives: std::collections::VecDeque<u64>,
    /// Bytes of each SEND that came.
    pub(crate) completions: Vec<u32>,
    /// Source and destination address of what comes.
    addresses: [u8; 8],
    /// An ACK, and what a WRITE's headers are.
    template: Vec<u8>,
    write: Vec<u8>,
    ring: Ring,
    seed: u32,
}

fn be32(bytes: &[u8], at: usize) -> u32 {
    u32::from_be_bytes(bytes[at..at + 4].try_into().expect("four"))
}

fn be64(bytes: &[u8], at: usize) -> u64 {
    u64::from_be_bytes(bytes[at..at + 8].try_into().expect("eight"))
}

fn put24(bytes: &mut [u8], at: usize, value: u32) {
    bytes[at..at + 3].copy_from_slice(&value.to_be_bytes()[1..]);
}

impl Stub {
    pub(crate) fn new(qpn: u32, rkey: u32, len: u64, path_mtu: usize, request: &[u8]) -> Self {
        let to = To { qpn: PEER_QPN, psn: 0, ack_req: false };
        let mut template = ack(to, 0);
        let mut write = request[..AFTER_RETH.min(request.len())].to_vec();
        // From us to the peer: the other way round than what comes.
        for headers in [&mut template, &mut write] {
            headers[..6].copy_from_slice(&request[6..12]);
            headers[6..12].copy_from_slice(&request[..6]);
            headers[SRC..SRC + 4].copy_from_slice(&request[SRC + 4..SRC + 8]);
            headers[SRC + 4..SRC + 8].copy_from_slice(&request[SRC..SRC + 4]);
        }
        let mut seed = crc32fast::Hasher::new();
        seed.update(&[0xff; 8]);
        Self {
            qpn,
            rkey,
            len,
            path_mtu,
            expected: 0,
            msn: 0,
            receives: std::collections::VecDeque::with_capacity(1024),
            completions: Vec::with_capacity(1024),
            addresses: request[SRC..SRC + 8].try_into().expect("eight"),
            template,
            write,
            ring: Ring::new(),
            seed: seed.finalize(),
        }
    }

    pub(crate) fn reset(&mut self) {
        self.expected = 0;
        self.msn = 0;
    }

    /// The ICRC of a packet from its IP header to its end.
    #[inline]
    fn icrc(seed: u32, frame: &[u8]) -> u32 {
        // The variant fields lie in the first 40 bytes.
        let mut scratch: [u8; 40] = frame[IP..AFTER_BTH].try_into().expect("forty");
        scratch[1] = 0xff;
        scratch[8] = 0xff;
        scratch[10..12].fill(0xff);
        scratch[26..28].fill(0xff);
        scratch[32] = 0xff;
        let mut crc = crc32fast::Hasher::new_with_initial(seed);
        crc.update(&scratch);
        crc.update(&frame[AFTER_BTH..]);
        crc.finalize()
    }

    /// Takes one frame; says how many it answered with, or `None` if it is not as expected.
    #[inline]
    pub(crate) fn handle(&mut self, frame: &[u8], memory: &Window) -> Option<usize> {
        let end = frame.len().checked_sub(ICRC).filter(|end| *end >= AFTER_BTH)?;
        let plain =
            frame[12..15] == [8, 0, 0x45] && frame[23] == 17 && frame[36..38] == [0x12, 0xb7];
        let total = usize::from(u16::from_be_bytes([frame[16], frame[17]]));
        if !plain || total != frame.len() - IP || frame[SRC..SRC + 8] != self.addresses {
            return None;
        }
        let icrc = Self::icrc(self.seed, &frame[..end]);
        if frame[end..] != icrc.to_le_bytes() || frame[BTH + 1] & 0x0f != 0 {
            return None;
        }
        let psn = be32(frame, BTH + 8) & 0x00ff_ffff;
        if be32(frame, BTH + 4) & 0x00ff_ffff != self.qpn || psn != self.expected {
            return None;
        }
        let ask = frame[BTH + 8] & 0x80 != 0;
        let packets = match Opcode(frame[BTH]) {
            Opcode::RC_RDMA_WRITE_ONLY => {
                let payload = frame.get(AFTER_RETH..end)?;
                let at = self.place(frame, payload.len())?;
                memory.write(at, [payload, &[]]).ok()?;
                1
            }
            Opcode::RC_SEND_ONLY => {
                let payload = &frame[AFTER_BTH..end];
                let offset = self.receives.pop_front()?;
                memory.write(Addr { region: 0, offset }, [payload, &[]]).ok()?;
                self.completions.push(u32::try_from(payload.len()).ok()?);
                1
            }
            Opcode::RC_RDMA_READ_REQUEST => return self.read(frame, psn, memory),
            Opcode::RC_FETCH_ADD => {
                let at = self.place(frame, 8)?;
                let add = AtomicOp::FetchAdd(be64(frame, AFTER_RETH));
                let original = memory.atomic(at, add).ok()?;
                self.expected = psn + 1;
                self.msn += 1;
                self.respond(Opcode::RC_ATOMIC_ACKNOWLEDGE, psn, &original.to_be_bytes());
                return Some(1);
            }
            _ => return None,
        };
        self.expected = psn + packets;
        self.msn += 1;
        if ask {
            self.respond(Opcode::RC_ACKNOWLEDGE, psn, &[]);
        }
        Some(usize::from(ask))
    }

    /// Where a RETH, or what an AtomicETH has in common with it, points; `len` bytes.
    #[inline]
    fn place(&self, frame: &[u8], len: usize) -> Option<Addr> {
        let offset = be64(frame, AFTER_BTH).checked_sub(VA)?;
        let fits = offset.checked_add(u64::try_from(len).ok()?)? <= self.len;
        (be32(frame, AFTER_BTH + 8) == self.rkey && fits).then_some(Addr { region: 0, offset })
    }

    #[inline]
    fn read(&mut self, frame: &[u8], psn: u32, memory: &Window) -> Option<usize> {
        let len = usize::try_from(be32(frame, AFTER_BTH + 12)).ok()?;
        let at = self.place(frame, len)?;
        let packets = len.div_ceil(self.path_mtu);
        self.msn += 1;
        for index in 0..packets {
            let middle = index > 0 && index + 1 < packets;
            let opcode = match (index, index + 1 == packets) {
                (0, true) => Opcode::RC_RDMA_READ_RESPONSE_ONLY,
                (0, false) => Opcode::RC_RDMA_READ_RESPONSE_FIRST,
                (_, true) => Opcode::RC_RDMA_READ_RESPONSE_LAST,
                (_, false) => Opcode::RC_RDMA_READ_RESPONSE_MIDDLE,
            };
            let skipped = index * self.path_mtu;
            let payload = (len - skipped).min(self.path_mtu);
            let out = self.ring.slot();
            let after_headers = AFTER_BTH + if middle { 0 } else { 4 };
            let end = after_headers + payload;
            let psn = psn + u32::try_from(index).ok()?;
            Self::headers(&self.template, out, opcode, psn, self.msn, end + ICRC);
            let offset = at.offset + u64::try_from(skipped).ok()?;
            memory.read(Addr { offset, ..at }, &mut out[after_headers..end]);
            let icrc = Self::icrc(self.seed, &out[..end]);
            out[end..end + ICRC].copy_from_slice(&icrc.to_le_bytes());
        }
        self.expected = psn + u32::try_from(packets).ok()?;
        Some(packets)
    }

    /// An answer with these bytes behind its AETH.
    #[inline]
    fn respond(&mut self, opcode: Opcode, psn: u32, behind: &[u8]) {
        let out = self.ring.slot();
        let end = AFTER_BTH + 4 + behind.len();
        Self::headers(&self.template, out, opcode, psn, self.msn, end + ICRC);
        out[AFTER_BTH + 4..end].copy_from_slice(behind);
        let icrc = Self::icrc(self.seed, &out[..end]);
        out[end..end + ICRC].copy_from_slice(&icrc.to_le_bytes());
    }

    /// The template, with what differs from packet to packet.
    #[inline]
    fn headers(
        template: &[u8],
        out: &mut [u8],
        opcode: Opcode,
        psn: u32,
        msn: u32,
        frame_len: usize,
    ) {
        out[..AFTER_BTH + 4].copy_from_slice(&template[..AFTER_BTH + 4]);
        out[BTH] = opcode.0;
        put24(out, BTH + 9, psn);
        put24(out, AFTER_BTH + 1, msn);
        Self::lengths(out, frame_len);
    }

    #[inline]
    fn lengths(out: &mut [u8], frame_len: usize) {
        let len = |from| u16::try_from(frame_len - from).expect("a packet").to_be_bytes();
        out[16..18].copy_from_slice(&len(IP));
        out[UDP + 4..UDP + 6].copy_from_slice(&len(UDP));
        out[24..26].fill(0);
        let sum: u32 = (IP..UDP)
            .step_by(2)
            .map(|at| u32::from(u16::from_be_bytes([out[at], out[at + 1]])))
            .sum();
        let folded = (sum & 0xffff) + (sum >> 16);
        let folded = u16::try_from((folded & 0xffff) + (folded >> 16)).expect("folded");
        out[24..26].copy_from_slice(&(!folded).to_be_bytes());
    }

    /// Sends a WRITE of `len` bytes of the memory.
    #[inline]
    pub(crate) fn send_write(&mut self, psn: u32, offset: u64, len: usize, memory: &Window) {
        let end = AFTER_RETH + len;
        let out = self.ring.slot();
        out[..AFTER_RETH].copy_from_slice(&self.write);
        put24(out, BTH + 9, psn);
        out[AFTER_BTH..AFTER_BTH + 8].copy_from_slice(&(VA + offset).to_be_bytes());
        Self::lengths(out, end + ICRC);
        memory.read(Addr { region: 0, offset }, &mut out[AFTER_RETH..end]);
        let icrc = Self::icrc(self.seed, &out[..end]);
        out[end..end + ICRC].copy_from_slice(&icrc.to_le_bytes());
    }

    /// Takes an ACK; says up to which PSN.
    #[inline]
    pub(crate) fn acknowledged(&self, frame: &[u8]) -> Option<u32> {
        let end = frame.len().checked_sub(ICRC).filter(|end| *end == AFTER_BTH + 4)?;
        let icrc = Self::icrc(self.seed, &frame[..end]);
        let ours = frame[SRC..SRC + 8] == self.addresses;
        let to_us = be32(frame, BTH + 4) & 0x00ff_ffff == self.qpn;
        let positive = Opcode(frame[BTH]) == Opcode::RC_ACKNOWLEDGE && frame[AFTER_BTH] >> 5 == 0;
        let valid = frame[end..] == icrc.to_le_bytes();
        (ours && to_us && positive && valid).then(|| be32(frame, BTH + 8) & 0x00ff_ffff)
    }
}
