//! Which extension headers there are, in the order in which they stand behind the BTH.

use core::fmt;

use super::{
    Aeth, AtomicAckEth, AtomicEth, Deth, Feth, Ieth, ImmDt, OpcodeInfo, Rdeth, Reth, Xrceth,
};
use crate::EmitError;

/// The kinds of extension header, in wire order.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord)]
#[cfg_attr(feature = "defmt", derive(defmt::Format))]
#[non_exhaustive]
#[repr(u8)]
pub enum HeaderKind {
    /// Reliable datagram: the EE context.
    Rdeth,
    /// Datagram: Q_Key and source QP.
    Deth,
    /// XRC: the shared receive queue.
    Xrceth,
    /// FLUSH: what to flush.
    Feth,
    /// RDMA: address, key, length.
    Reth,
    /// Atomic operands.
    AtomicEth,
    /// Acknowledgement.
    Aeth,
    /// An atomic's answer.
    AtomicAckEth,
    /// Immediate data.
    ImmDt,
    /// The key to invalidate.
    Ieth,
    /// The 16 reserved bytes of a RoCEv2 CNP.
    CnpReserved,
}

impl HeaderKind {
    /// All of them, in wire order.
    pub const ALL: [Self; 11] = [
        Self::Rdeth,
        Self::Deth,
        Self::Xrceth,
        Self::Feth,
        Self::Reth,
        Self::AtomicEth,
        Self::Aeth,
        Self::AtomicAckEth,
        Self::ImmDt,
        Self::Ieth,
        Self::CnpReserved,
    ];

    /// Bytes of the header.
    #[inline]
    #[must_use]
    #[expect(clippy::len_without_is_empty, reason = "no header is empty")]
    pub const fn len(self) -> usize {
        match self {
            Self::Rdeth | Self::Xrceth | Self::Feth | Self::Aeth | Self::ImmDt | Self::Ieth => 4,
            Self::Deth | Self::AtomicAckEth => 8,
            Self::Reth | Self::CnpReserved => 16,
            Self::AtomicEth => 28,
        }
    }

    const fn bit(self) -> u16 {
        match self {
            Self::Rdeth => 1 << 0,
            Self::Deth => 1 << 1,
            Self::Xrceth => 1 << 2,
            Self::Feth => 1 << 3,
            Self::Reth => 1 << 4,
            Self::AtomicEth => 1 << 5,
            Self::Aeth => 1 << 6,
            Self::AtomicAckEth => 1 << 7,
            Self::ImmDt => 1 << 8,
            Self::Ieth => 1 << 9,
            Self::CnpReserved => 1 << 10,
        }
    }
}

impl fmt::Display for HeaderKind {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Rdeth => "RDETH",
            Self::Deth => "DETH",
            Self::Xrceth => "XRCETH",
            Self::Feth => "FETH",
            Self::Reth => "RETH",
            Self::AtomicEth => "AtomicETH",
            Self::Aeth => "AETH",
            Self::AtomicAckEth => "AtomicAckETH",
            Self::ImmDt => "ImmDt",
            Self::Ieth => "IETH",
            Self::CnpReserved => "CNP reserved bytes",
        })
    }
}

/// A set of extension headers.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Default)]
pub struct HeaderSet(u16);

impl HeaderSet {
    /// None.
    pub const EMPTY: Self = Self(0);

    /// The set with `kind` added.
    #[must_use]
    pub const fn with(self, kind: HeaderKind) -> Self {
        Self(self.0 | kind.bit())
    }

    /// Whether `kind` is in the set.
    #[inline]
    #[must_use]
    pub const fn contains(self, kind: HeaderKind) -> bool {
        self.0 & kind.bit() != 0
    }

    /// The headers in wire order.
    #[inline]
    pub fn iter(self) -> impl Iterator<Item = HeaderKind> {
        let mut left = self.0;
        core::iter::from_fn(move || {
            let kind = HeaderKind::ALL.get(usize::try_from(left.trailing_zeros()).ok()?)?;
            left &= left.wrapping_sub(1);
            Some(*kind)
        })
    }

    /// Bytes of all of them together.
    #[must_use]
    pub const fn len(self) -> usize {
        self.len_before(u16::MAX)
    }

    /// Whether the set is empty.
    #[must_use]
    pub const fn is_empty(self) -> bool {
        self.0 == 0
    }

    /// Whether `kind` is in the set and stands right behind the BTH.
    #[inline]
    #[must_use]
    pub const fn starts_with(self, kind: HeaderKind) -> bool {
        let up_to_kind = kind.bit() | (kind.bit() - 1);
        self.0 & up_to_kind == kind.bit()
    }

    /// Where `kind` starts behind the BTH, if it is there.
    #[inline]
    #[must_use]
    pub const fn offset_of(self, kind: HeaderKind) -> Option<usize> {
        if self.contains(kind) { Some(self.len_before(kind.bit() - 1)) } else { None }
    }

    const fn len_before(self, mask: u16) -> usize {
        let set = self.0 & mask;
        let mut len = 0;
        let mut index = 0;
        while index < HeaderKind::ALL.len() {
            let kind = HeaderKind::ALL[index];
            if set & kind.bit() != 0 {
                len += kind.len();
            }
            index += 1;
        }
        len
    }
}

/// Values for extension headers. [`FrameBuilder`](crate::FrameBuilder) writes those the opcode
/// calls for and ignores the others.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct ExtHeaders {
    /// Reliable datagram.
    pub rdeth: Option<Rdeth>,
    /// Datagram.
    pub deth: Option<Deth>,
    /// XRC.
    pub xrceth: Option<Xrceth>,
    /// FLUSH.
    pub feth: Option<Feth>,
    /// RDMA.
    pub reth: Option<Reth>,
    /// Atomic.
    pub atomic_eth: Option<AtomicEth>,
    /// Acknowledgement.
    pub aeth: Option<Aeth>,
    /// Atomic answer.
    pub atomic_ack_eth: Option<AtomicAckEth>,
    /// Immediate data.
    pub imm_dt: Option<ImmDt>,
    /// Invalidate.
    pub ieth: Option<Ieth>,
    /// The reserved bytes of a CNP; zeroes if not given.
    pub cnp_reserved: Option<[u8; 16]>,
}

impl ExtHeaders {
    /// No header.
    pub const NONE: Self = Self {
        rdeth: None,
        deth: None,
        xrceth: None,
        feth: None,
        reth: None,
        atomic_eth: None,
        aeth: None,
        atomic_ack_eth: None,
        imm_dt: None,
        ieth: None,
        cnp_reserved: None,
    };

    /// Writes the headers that `info` calls for at the front of `out`; says how many bytes.
    ///
    /// # Errors
    /// [`EmitError::MissingHeader`] and [`EmitError::NoRoom`].
    #[inline]
    pub fn emit(&self, info: &OpcodeInfo, out: &mut [u8]) -> Result<usize, EmitError> {
        let needed = usize::from(info.headers_len);
        let available = out.len();
        let mut rest = out.get_mut(..needed).ok_or(EmitError::NoRoom { needed, available })?;
        for kind in info.headers.iter() {
            self.emit_one(kind, rest)?;
            rest = rest.get_mut(kind.len()..).unwrap_or_default();
        }
        Ok(needed)
    }

    /// Not inlined: in the loop around it, every header would be made ready before the first is
    /// looked for.
    #[inline(never)]
    fn emit_one(&self, kind: HeaderKind, out: &mut [u8]) -> Result<(), EmitError> {
        let missing = EmitError::MissingHeader(kind);
        match kind {
            HeaderKind::Rdeth => self.rdeth.ok_or(missing)?.emit(out),
            HeaderKind::Deth => self.deth.ok_or(missing)?.emit(out),
            HeaderKind::Xrceth => self.xrceth.ok_or(missing)?.emit(out),
            HeaderKind::Feth => self.feth.ok_or(missing)?.emit(out),
            HeaderKind::Reth => self.reth.ok_or(missing)?.emit(out),
            HeaderKind::AtomicEth => self.atomic_eth.ok_or(missing)?.emit(out),
            HeaderKind::Aeth => self.aeth.ok_or(missing)?.emit(out),
            HeaderKind::AtomicAckEth => self.atomic_ack_eth.ok_or(missing)?.emit(out),
            HeaderKind::ImmDt => self.imm_dt.ok_or(missing)?.emit(out),
            HeaderKind::Ieth => self.ieth.ok_or(missing)?.emit(out),
            HeaderKind::CnpReserved => {
                crate::wire::put(&self.cnp_reserved.unwrap_or_default(), out)
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn offsets_follow_the_wire_order() {
        let set = HeaderSet::EMPTY
            .with(HeaderKind::ImmDt)
            .with(HeaderKind::Reth)
            .with(HeaderKind::Xrceth);
        assert_eq!(set.len(), 24);
        assert_eq!(set.offset_of(HeaderKind::Xrceth), Some(0));
        assert_eq!(set.offset_of(HeaderKind::Reth), Some(4));
        assert_eq!(set.offset_of(HeaderKind::ImmDt), Some(20));
        assert_eq!(set.offset_of(HeaderKind::Aeth), None);
        for kind in HeaderKind::ALL {
            assert_eq!(set.starts_with(kind), kind == HeaderKind::Xrceth, "{kind}");
        }
        assert!(set.iter().eq([HeaderKind::Xrceth, HeaderKind::Reth, HeaderKind::ImmDt]));
    }

    #[test]
    fn all_is_in_bit_order() {
        for (index, kind) in HeaderKind::ALL.into_iter().enumerate() {
            assert_eq!(kind.bit(), 1 << index);
        }
    }
}
