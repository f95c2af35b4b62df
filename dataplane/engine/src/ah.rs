//! Address handles (IBTA 11.2.2.1): where a datagram goes, kept by the engine so that a work
//! request names it by a number.

use core::fmt;

use roce_codec::ib::{Bth, Deth, QKey, Qpn};
use roce_codec::net::datagram_source_port;

use crate::cq::WcStatus;
use crate::engine::Engine;
use crate::pool::{Link, Linked, Pool};
use crate::qp::Path;

/// The bit of a Q_Key by which the sending queue pair's own is meant.
const QKEY_IS_OWN: u32 = 0x8000_0000;

/// An address handle.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub struct Ah(u32);

/// Whom a datagram is for.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub struct UdAddress {
    /// The way to the peer's port.
    pub ah: Ah,
    /// The peer's queue pair.
    pub dest_qpn: Qpn,
    /// The Q_Key it wants. With its highest bit set, the sending queue pair's own is used instead:
    /// such keys are not for everybody to send (IBTA 10.2.5).
    pub qkey: QKey,
}

/// Why there is no such address handle.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[non_exhaustive]
pub enum AhError {
    /// All address handle slots are taken.
    NoSlot,
    /// Source and destination address are of different families.
    AddressFamily,
    /// No address handle is called that, or no longer.
    UnknownAh,
}

impl fmt::Display for AhError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::NoSlot => "all address handle slots are taken",
            Self::AddressFamily => "addresses of different families",
            Self::UnknownAh => "no such address handle",
        })
    }
}

impl core::error::Error for AhError {}

/// One address handle; part of [`Storage`](crate::Storage).
#[derive(Debug, Clone, Copy)]
pub struct AhSlot {
    link: Link,
    live: bool,
    /// Counts the slot's owners, so that the handle of a former one is known as such.
    owner: u32,
    path: Path,
}

impl AhSlot {
    /// An empty slot.
    pub const EMPTY: Self = Self { link: Link::NONE, live: false, owner: 0, path: Path::EMPTY };
}

impl Linked for AhSlot {
    fn link(&mut self) -> &mut Link {
        &mut self.link
    }
}

/// The address handles. One's number is an owner count above a slot number.
#[derive(Debug)]
pub(crate) struct AhTable<'s> {
    pool: Pool<'s, AhSlot>,
    index_bits: u32,
}

impl<'s> AhTable<'s> {
    pub(crate) fn new(slots: &'s mut [AhSlot]) -> Self {
        // A number keeps at least eight bits of owner count.
        let most = slots.len().min(1 << 24);
        let index_bits = usize::BITS - most.saturating_sub(1).leading_zeros();
        let (slots, _) = slots.split_at_mut(most);
        Self { pool: Pool::new(slots), index_bits }
    }

    fn create(&mut self, path: &Path) -> Result<Ah, AhError> {
        if path.src.is_ipv4() != path.dst.is_ipv4() {
            return Err(AhError::AddressFamily);
        }
        let index = self.pool.take().ok_or(AhError::NoSlot)?;
        let bits = self.index_bits;
        let slot = self.pool.get_mut(index).ok_or(AhError::NoSlot)?;
        let owner = slot.owner.wrapping_add(1);
        *slot = AhSlot { link: Link::NONE, live: true, owner, path: *path };
        Ok(Ah(owner.checked_shl(bits).unwrap_or(0) | index))
    }

    fn find(&self, ah: Ah) -> Option<u32> {
        let index = ah.0 & !(u32::MAX << self.index_bits);
        let slot = self.pool.get(index)?;
        let number = slot.owner.checked_shl(self.index_bits).unwrap_or(0) | index;
        (slot.live && number == ah.0).then_some(index)
    }

    /// The way; `None` if the handle has been destroyed.
    pub(crate) fn path(&self, ah: Ah) -> Option<&Path> {
        Some(&self.pool.get(self.find(ah)?)?.path)
    }

    fn destroy(&mut self, ah: Ah) -> Result<(), AhError> {
        let index = self.find(ah).ok_or(AhError::UnknownAh)?;
        if let Some(slot) = self.pool.get_mut(index) {
            slot.live = false;
        }
        self.pool.give(index);
        Ok(())
    }
}

impl Engine<'_> {
    /// A handle for a way. A UDP source port of 0 stands for the one that Linux gives the sending
    /// queue pair ([`datagram_source_port`](roce_codec::net::datagram_source_port)).
    ///
    /// # Errors
    /// [`AhError::NoSlot`] and [`AhError::AddressFamily`].
    pub fn create_ah(&mut self, path: &Path) -> Result<Ah, AhError> {
        self.ahs.create(path)
    }

    /// Writes a datagram's destination into its headers; returns the header that says its source, or
    /// how its request ends if it has no destination any more.
    pub(crate) fn address(
        &self,
        slot: u32,
        to: &UdAddress,
        path: &mut Path,
        bth: &mut Bth,
    ) -> Result<Deth, WcStatus> {
        let gone = WcStatus::LocalQpOperation;
        let qp = self.qps.get(slot).ok_or(gone)?;
        *path = *self.ahs.path(to.ah).ok_or(gone)?;
        if path.src_port == 0 {
            path.src_port = datagram_source_port(qp.qpn);
        }
        bth.dest_qp = to.dest_qpn;
        let own = to.qkey.0 & QKEY_IS_OWN != 0;
        let qkey = if own { qp.qkey } else { to.qkey };
        Ok(Deth { qkey, resv8: 0, src_qp: qp.qpn })
    }

    /// Takes an address handle away. A send that has not gone yet fails; wait for its completion.
    ///
    /// # Errors
    /// [`AhError::UnknownAh`].
    pub fn destroy_ah(&mut self, ah: Ah) -> Result<(), AhError> {
        self.ahs.destroy(ah)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_destroyed_handle_stays_dead() {
        let mut slots = [AhSlot::EMPTY; 3];
        let mut table = AhTable::new(&mut slots);
        let path = |port| Path { src_port: port, ..Path::EMPTY };
        let all: [Ah; 3] = core::array::from_fn(|_| table.create(&path(1)).unwrap());
        assert_eq!(table.create(&path(1)), Err(AhError::NoSlot));
        for old in all {
            assert_eq!(table.path(old), Some(&path(1)));
            table.destroy(old).unwrap();
            assert_eq!(table.path(old), None);
            assert_eq!(table.destroy(old), Err(AhError::UnknownAh));
        }
        for old in all {
            let new = table.create(&path(2)).unwrap();
            assert_ne!(new, old);
            assert_eq!((table.path(old), table.path(new)), (None, Some(&path(2))));
        }
        let six = Path { src: "fe80::1".parse().unwrap(), ..Path::EMPTY };
        assert_eq!(table.create(&six), Err(AhError::AddressFamily));
    }

    #[test]
    fn no_slots_at_all() {
        let mut table = AhTable::new(&mut []);
        assert_eq!(table.create(&Path::EMPTY), Err(AhError::NoSlot));
        assert_eq!(table.path(Ah(0)), None);
    }
}
