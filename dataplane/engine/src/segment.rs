//! Work requests cut into packets: which opcode and headers, and which bytes, each PSN carries.

use roce_codec::ib::{AtomicEth, ExtHeaders, Ieth, ImmDt, Opcode, Psn, RKey, Reth, Service};

use crate::flush::{self, Selectivity};
use crate::wqe::SendWqe;
use crate::wr::WrOpcode;

/// One packet of a work request.
pub(crate) struct Packet {
    pub(crate) opcode: Opcode,
    pub(crate) ext: ExtHeaders,
    pub(crate) offset: u32,
    pub(crate) len: u32,
    /// PSNs it takes: a READ request as many as its answer has packets.
    pub(crate) packets: u32,
}

/// The same operation of a service: an opcode's upper three bits.
pub(crate) const fn in_service(opcode: Opcode, service: Service) -> Opcode {
    match service {
        Service::Uc => Opcode(opcode.0 | Opcode::UC_SEND_FIRST.0),
        Service::Ud => Opcode(opcode.0 & 0x1f | Opcode::UD_SEND_ONLY.0 & 0xe0),
        _ => opcode,
    }
}

impl SendWqe {
    /// Whether the packet with this PSN takes a receive of the peer's.
    pub(crate) fn takes_receive_at(&self, psn: Psn) -> bool {
        let at = if self.opcode.is_send() { self.first_psn } else { self.last_psn };
        self.opcode.takes_receive() && psn == at
    }

    /// The packet with this PSN; `None` if no packet carries it.
    pub(crate) fn packet(&self, psn: Psn, mtu: u32) -> Option<Packet> {
        let index = u32::try_from(psn.distance_from(self.first_psn)).unwrap_or(0);
        let offset = index.saturating_mul(mtu).min(self.local.len);
        let left = self.local.len - offset;
        let (first, last) = (psn == self.first_psn, psn == self.last_psn);
        let len = left.min(mtu);
        Some(match self.opcode {
            WrOpcode::Send => {
                let opcode = match (first, last) {
                    (true, true) => Opcode::RC_SEND_ONLY,
                    (true, false) => Opcode::RC_SEND_FIRST,
                    (false, false) => Opcode::RC_SEND_MIDDLE,
                    (false, true) => Opcode::RC_SEND_LAST,
                };
                Packet { opcode, ext: ExtHeaders::NONE, offset, len, packets: 1 }
            }
            WrOpcode::SendWithImm(imm) => {
                let opcode = match (first, last) {
                    (true, true) => Opcode::RC_SEND_ONLY_IMM,
                    (true, false) => Opcode::RC_SEND_FIRST,
                    (false, false) => Opcode::RC_SEND_MIDDLE,
                    (false, true) => Opcode::RC_SEND_LAST_IMM,
                };
                let ext = ExtHeaders { imm_dt: Some(ImmDt(imm)), ..ExtHeaders::NONE };
                Packet { opcode, ext, offset, len, packets: 1 }
            }
            WrOpcode::SendWithInvalidate(rkey) => {
                let opcode = match (first, last) {
                    (true, true) => Opcode::RC_SEND_ONLY_INV,
                    (true, false) => Opcode::RC_SEND_FIRST,
                    (false, false) => Opcode::RC_SEND_MIDDLE,
                    (false, true) => Opcode::RC_SEND_LAST_INV,
                };
                let ext = ExtHeaders { ieth: Some(Ieth(rkey)), ..ExtHeaders::NONE };
                Packet { opcode, ext, offset, len, packets: 1 }
            }
            WrOpcode::RdmaWrite { va, rkey } => {
                let opcode = match (first, last) {
                    (true, true) => Opcode::RC_RDMA_WRITE_ONLY,
                    (true, false) => Opcode::RC_RDMA_WRITE_FIRST,
                    (false, false) => Opcode::RC_RDMA_WRITE_MIDDLE,
                    (false, true) => Opcode::RC_RDMA_WRITE_LAST,
                };
                let ext = ExtHeaders { reth: Some(self.reth(va, rkey)), ..ExtHeaders::NONE };
                Packet { opcode, ext, offset, len, packets: 1 }
            }
            WrOpcode::RdmaWriteWithImm { va, rkey, imm } => {
                let opcode = match (first, last) {
                    (true, true) => Opcode::RC_RDMA_WRITE_ONLY_IMM,
                    (true, false) => Opcode::RC_RDMA_WRITE_FIRST,
                    (false, false) => Opcode::RC_RDMA_WRITE_MIDDLE,
                    (false, true) => Opcode::RC_RDMA_WRITE_LAST_IMM,
                };
                let ext = ExtHeaders {
                    reth: Some(self.reth(va, rkey)),
                    imm_dt: Some(ImmDt(imm)),
                    ..ExtHeaders::NONE
                };
                Packet { opcode, ext, offset, len, packets: 1 }
            }
            WrOpcode::RdmaRead { va, rkey } => {
                // IBTA 9.7.5.2.8: sent again, it asks for what has not come yet.
                let va = va.wrapping_add(u64::from(offset));
                let reth = Reth { va, rkey, dma_len: left };
                let ext = ExtHeaders { reth: Some(reth), ..ExtHeaders::NONE };
                let behind = self.last_psn.distance_from(psn);
                let packets = u32::try_from(behind).unwrap_or(0) + 1;
                Packet { opcode: Opcode::RC_RDMA_READ_REQUEST, ext, offset: 0, len: 0, packets }
            }
            WrOpcode::CompareSwap { va, rkey, compare, swap } => {
                let eth = AtomicEth { va, rkey, swap_add: swap, compare };
                Self::atomic(Opcode::RC_COMPARE_SWAP, eth)
            }
            WrOpcode::FetchAdd { va, rkey, add } => {
                let eth = AtomicEth { va, rkey, swap_add: add, compare: 0 };
                Self::atomic(Opcode::RC_FETCH_ADD, eth)
            }
            WrOpcode::AtomicWrite { va, rkey } => {
                let ext = ExtHeaders { reth: Some(self.reth(va, rkey)), ..ExtHeaders::NONE };
                Packet { opcode: Opcode::RC_ATOMIC_WRITE, ext, offset, len, packets: 1 }
            }
            WrOpcode::Flush { rkey, selectivity, placement } => {
                let (va, dma_len) = match selectivity {
                    Selectivity::Range { va, len } => (va, len),
                    Selectivity::Region => (0, 0),
                };
                let ext = ExtHeaders {
                    feth: Some(flush::feth(selectivity, placement)),
                    reth: Some(Reth { va, rkey, dma_len }),
                    ..ExtHeaders::NONE
                };
                Packet { opcode: Opcode::RC_FLUSH, ext, offset: 0, len: 0, packets: 1 }
            }
            WrOpcode::BindMw { .. } | WrOpcode::LocalInvalidate(_) => return None,
        })
    }

    fn atomic(opcode: Opcode, eth: AtomicEth) -> Packet {
        let ext = ExtHeaders { atomic_eth: Some(eth), ..ExtHeaders::NONE };
        Packet { opcode, ext, offset: 0, len: 0, packets: 1 }
    }

    const fn reth(&self, va: u64, rkey: RKey) -> Reth {
        Reth { va, rkey, dma_len: self.local.len }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn opcodes_of_the_unreliable_services() {
        use Opcode as O;
        for (rc, uc) in [
            (O::RC_SEND_FIRST, O::UC_SEND_FIRST),
            (O::RC_SEND_MIDDLE, O::UC_SEND_MIDDLE),
            (O::RC_SEND_LAST, O::UC_SEND_LAST),
            (O::RC_SEND_LAST_IMM, O::UC_SEND_LAST_IMM),
            (O::RC_SEND_ONLY, O::UC_SEND_ONLY),
            (O::RC_SEND_ONLY_IMM, O::UC_SEND_ONLY_IMM),
            (O::RC_RDMA_WRITE_FIRST, O::UC_RDMA_WRITE_FIRST),
            (O::RC_RDMA_WRITE_MIDDLE, O::UC_RDMA_WRITE_MIDDLE),
            (O::RC_RDMA_WRITE_LAST, O::UC_RDMA_WRITE_LAST),
            (O::RC_RDMA_WRITE_LAST_IMM, O::UC_RDMA_WRITE_LAST_IMM),
            (O::RC_RDMA_WRITE_ONLY, O::UC_RDMA_WRITE_ONLY),
            (O::RC_RDMA_WRITE_ONLY_IMM, O::UC_RDMA_WRITE_ONLY_IMM),
        ] {
            assert_eq!(in_service(rc, Service::Uc), uc);
            assert_eq!(in_service(rc, Service::Rc), rc);
        }
        assert_eq!(in_service(O::RC_SEND_ONLY, Service::Ud), O::UD_SEND_ONLY);
        assert_eq!(in_service(O::RC_SEND_ONLY_IMM, Service::Ud), O::UD_SEND_ONLY_IMM);
    }
}
