//! A packet's extension headers, each as the value it holds.

use super::Transport;
use crate::ib::{
    Aeth, AtomicAckEth, AtomicEth, Deth, ExtHeaders, Feth, HeaderKind, Ieth, ImmDt, Rdeth, Reth,
    Xrceth,
};

impl<'a> Transport<'a> {
    /// The bytes of an extension header, if the opcode has it.
    #[inline]
    #[must_use]
    pub fn ext(&self, kind: HeaderKind) -> Option<&'a [u8]> {
        let headers = self.parts.info.headers;
        // One comparison for the header that stands first, as nearly every one does.
        let offset = if headers.starts_with(kind) { 0 } else { headers.offset_of(kind)? };
        self.parts.ext.get(offset..offset + kind.len())
    }

    /// RETH, if the opcode has one.
    #[inline]
    #[must_use]
    pub fn reth(&self) -> Option<Reth> {
        Reth::parse(self.ext(HeaderKind::Reth)?).ok()
    }

    /// AETH, if the opcode has one.
    #[inline]
    #[must_use]
    pub fn aeth(&self) -> Option<Aeth> {
        Aeth::parse(self.ext(HeaderKind::Aeth)?).ok()
    }

    /// AtomicETH, if the opcode has one.
    #[inline]
    #[must_use]
    pub fn atomic_eth(&self) -> Option<AtomicEth> {
        AtomicEth::parse(self.ext(HeaderKind::AtomicEth)?).ok()
    }

    /// AtomicAckETH, if the opcode has one.
    #[inline]
    #[must_use]
    pub fn atomic_ack_eth(&self) -> Option<AtomicAckEth> {
        AtomicAckEth::parse(self.ext(HeaderKind::AtomicAckEth)?).ok()
    }

    /// Immediate data, if the opcode has it.
    #[inline]
    #[must_use]
    pub fn imm_dt(&self) -> Option<ImmDt> {
        ImmDt::parse(self.ext(HeaderKind::ImmDt)?).ok()
    }

    /// DETH, if the opcode has one.
    #[must_use]
    pub fn deth(&self) -> Option<Deth> {
        Deth::parse(self.ext(HeaderKind::Deth)?).ok()
    }

    /// IETH, if the opcode has one.
    #[must_use]
    pub fn ieth(&self) -> Option<Ieth> {
        Ieth::parse(self.ext(HeaderKind::Ieth)?).ok()
    }

    /// FETH, if the opcode has one.
    #[must_use]
    pub fn feth(&self) -> Option<Feth> {
        Feth::parse(self.ext(HeaderKind::Feth)?).ok()
    }

    /// RDETH, if the opcode has one.
    #[must_use]
    pub fn rdeth(&self) -> Option<Rdeth> {
        Rdeth::parse(self.ext(HeaderKind::Rdeth)?).ok()
    }

    /// XRCETH, if the opcode has one.
    #[must_use]
    pub fn xrceth(&self) -> Option<Xrceth> {
        Xrceth::parse(self.ext(HeaderKind::Xrceth)?).ok()
    }

    /// All extension headers as values.
    #[must_use]
    pub fn ext_headers(&self) -> ExtHeaders {
        ExtHeaders {
            rdeth: self.rdeth(),
            deth: self.deth(),
            xrceth: self.xrceth(),
            feth: self.feth(),
            reth: self.reth(),
            atomic_eth: self.atomic_eth(),
            aeth: self.aeth(),
            atomic_ack_eth: self.atomic_ack_eth(),
            imm_dt: self.imm_dt(),
            ieth: self.ieth(),
            cnp_reserved: self
                .ext(HeaderKind::CnpReserved)
                .and_then(|bytes| bytes.first_chunk().copied()),
        }
    }
}
