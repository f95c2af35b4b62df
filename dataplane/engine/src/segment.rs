//! Work requests cut into packets: which opcode and headers, and which bytes, each PSN carries.

use roce_codec::ib::{AtomicEth, ExtHeaders, Ieth, ImmDt, Opcode, Psn, RKey, Reth, Service};

use crate::flush::{self, Selectivity};
use crate::wqe::SendWqe;
use crate::wr::WrOpcode;

/// One packet of a work request.
pub(crate) struct Packet {
    pub(crate) opcode: Opcode,
    /// Where its bytes begin, or of a READ request those that it asks for.
    pub(crate) offset: u32,
    /// Bytes of payload.
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
        let len = (self.local.len - offset).min(mtu);
        let (first, last) = (psn == self.first_psn, psn == self.last_psn);
        let full = |opcode| Packet { opcode, offset, len, packets: 1 };
        let bare = |opcode, packets| Packet { opcode, offset, len: 0, packets };
        Some(match self.opcode {
            WrOpcode::Send => full(match (first, last) {
                (true, true) => Opcode::RC_SEND_ONLY,
                (true, false) => Opcode::RC_SEND_FIRST,
                (false, false) => Opcode::RC_SEND_MIDDLE,
                (false, true) => Opcode::RC_SEND_LAST,
            }),
            WrOpcode::SendWithImm(_) => full(match (first, last) {
                (true, true) => Opcode::RC_SEND_ONLY_IMM,
                (true, false) => Opcode::RC_SEND_FIRST,
                (false, false) => Opcode::RC_SEND_MIDDLE,
                (false, true) => Opcode::RC_SEND_LAST_IMM,
            }),
            WrOpcode::SendWithInvalidate(_) => full(match (first, last) {
                (true, true) => Opcode::RC_SEND_ONLY_INV,
                (true, false) => Opcode::RC_SEND_FIRST,
                (false, false) => Opcode::RC_SEND_MIDDLE,
                (false, true) => Opcode::RC_SEND_LAST_INV,
            }),
            WrOpcode::RdmaWrite { .. } => full(match (first, last) {
                (true, true) => Opcode::RC_RDMA_WRITE_ONLY,
                (true, false) => Opcode::RC_RDMA_WRITE_FIRST,
                (false, false) => Opcode::RC_RDMA_WRITE_MIDDLE,
                (false, true) => Opcode::RC_RDMA_WRITE_LAST,
            }),
            WrOpcode::RdmaWriteWithImm { .. } => full(match (first, last) {
                (true, true) => Opcode::RC_RDMA_WRITE_ONLY_IMM,
                (true, false) => Opcode::RC_RDMA_WRITE_FIRST,
                (false, false) => Opcode::RC_RDMA_WRITE_MIDDLE,
                (false, true) => Opcode::RC_RDMA_WRITE_LAST_IMM,
            }),
            WrOpcode::AtomicWrite { .. } => full(Opcode::RC_ATOMIC_WRITE),
            WrOpcode::RdmaRead { .. } => {
                let behind = self.last_psn.distance_from(psn);
                bare(Opcode::RC_RDMA_READ_REQUEST, u32::try_from(behind).unwrap_or(0) + 1)
            }
            WrOpcode::CompareSwap { .. } => bare(Opcode::RC_COMPARE_SWAP, 1),
            WrOpcode::FetchAdd { .. } => bare(Opcode::RC_FETCH_ADD, 1),
            WrOpcode::Flush { .. } => bare(Opcode::RC_FLUSH, 1),
            WrOpcode::BindMw { .. } | WrOpcode::LocalInvalidate(_) => return None,
        })
    }

    /// Puts the extension headers of the packet at `offset` where they are to be: together they are
    /// too large to be moved for each packet. Its opcode says which of them it has.
    pub(crate) fn put_headers(&self, offset: u32, ext: &mut ExtHeaders) {
        match self.opcode {
            WrOpcode::Send | WrOpcode::BindMw { .. } | WrOpcode::LocalInvalidate(_) => {}
            WrOpcode::SendWithImm(imm) => ext.imm_dt = Some(ImmDt(imm)),
            WrOpcode::SendWithInvalidate(rkey) => ext.ieth = Some(Ieth(rkey)),
            WrOpcode::RdmaWrite { va, rkey } | WrOpcode::AtomicWrite { va, rkey } => {
                ext.reth = Some(self.reth(va, rkey));
            }
            WrOpcode::RdmaWriteWithImm { va, rkey, imm } => {
                ext.reth = Some(self.reth(va, rkey));
                ext.imm_dt = Some(ImmDt(imm));
            }
            WrOpcode::RdmaRead { va, rkey } => {
                // IBTA 9.7.5.2.8: sent again, it asks for what has not come yet.
                let va = va.wrapping_add(u64::from(offset));
                let left = self.local.len.saturating_sub(offset);
                let reth = Reth { va, rkey, dma_len: left };
                ext.reth = Some(reth);
            }
            WrOpcode::CompareSwap { va, rkey, compare, swap } => {
                ext.atomic_eth = Some(AtomicEth { va, rkey, swap_add: swap, compare });
            }
            WrOpcode::FetchAdd { va, rkey, add } => {
                ext.atomic_eth = Some(AtomicEth { va, rkey, swap_add: add, compare: 0 });
            }
            WrOpcode::Flush { rkey, selectivity, placement } => {
                let (va, dma_len) = match selectivity {
                    Selectivity::Range { va, len } => (va, len),
                    Selectivity::Region => (0, 0),
                };
                ext.feth = Some(flush::feth(selectivity, placement));
                ext.reth = Some(Reth { va, rkey, dma_len });
            }
        }
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
