//! Flow control on Ethernet: the PAUSE of 802.3x and the priority-based one of 802.1Qbb (PFC).
//!
//! ```text
//!  0                   1                   2                   3
//!  0 1 2 3 4 5 6 7 8 9 0 1 2 3 4 5 6 7 8 9 0 1 2 3 4 5 6 7 8 9 0 1
//! +---------------------------------------------------------------+
//! |              Destination MAC, 01:80:c2:00:00:01               |
//! +-------------------------------+-------------------------------+
//! |                               |                               |
//! +-------------------------------+          Source MAC           |
//! |                                                               |
//! +-------------------------------+-------------------------------+
//! |        EtherType 8808         |         Opcode 0001           |
//! +-------------------------------+-------------------------------+
//! |            Quanta             |       Reserved (42 bytes)     |
//! +-------------------------------+-------------------------------+
//!
//!                                 +-------------------------------+
//!                          ...    |         Opcode 0101           |
//! +---------------+---------------+-------------------------------+
//! |   Reserved    |  Enable 7..0  |      Quanta of priority 0     |
//! +---------------+---------------+-------------------------------+
//! |     Quanta of priority 1      |              ...              |
//! +-------------------------------+-------------------------------+
//! |              ...              |      Reserved (26 bytes)      |
//! +-------------------------------+-------------------------------+
//! ```
//!
//! 60 bytes without the frame check sequence. IEEE 802.3, 31 and annexes 31B and 31D; 802.1Qbb. A
//! MAC consumes these frames: a host sees them only in captures that a switch or a tap made.
//! They never have a VLAN tag.

mod quanta;

use zerocopy::byteorder::{BE, U16};
use zerocopy::{FromBytes, Immutable, IntoBytes, KnownLayout, Unaligned};

use super::{EtherType, MacAddr, take_ethernet};
use crate::wire::{put, take};
use crate::{EmitError, Layer, ParseError};

pub use quanta::PauseQuanta;

#[derive(FromBytes, IntoBytes, KnownLayout, Immutable, Unaligned)]
#[repr(C)]
struct HeadWire {
    dst: [u8; 6],
    src: [u8; 6],
    ethertype: U16<BE>,
    opcode: U16<BE>,
}

/// Bytes of addresses, EtherType and opcode.
const HEAD: usize = size_of::<HeadWire>();

#[derive(FromBytes, IntoBytes, KnownLayout, Immutable, Unaligned)]
#[repr(C)]
struct PfcWire {
    resv8: u8,
    enabled: u8,
    quanta: [U16<BE>; 8],
}

/// A PAUSE: the peer shall send nothing for a while (802.3x).
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
#[cfg_attr(feature = "defmt", derive(defmt::Format))]
pub struct Pause {
    /// Destination; [`MacControl::DESTINATION`], or the peer's own address.
    pub dst: MacAddr,
    /// Source.
    pub src: MacAddr,
    /// How long; 0 lets it go on.
    pub quanta: PauseQuanta,
    /// Reserved; senders write zeroes.
    pub reserved: [u8; 42],
}

/// A priority-based PAUSE: the peer shall send nothing of some priorities for a while (802.1Qbb).
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
#[cfg_attr(feature = "defmt", derive(defmt::Format))]
pub struct Pfc {
    /// Destination; [`MacControl::DESTINATION`].
    pub dst: MacAddr,
    /// Source.
    pub src: MacAddr,
    /// The upper half of the class-enable vector: reserved; senders write zero.
    pub resv8: u8,
    /// The priorities it is about: bit n is priority n.
    pub enabled: u8,
    /// How long, by priority; 0 lets it go on. Those that are not enabled mean nothing.
    pub quanta: [PauseQuanta; 8],
    /// Reserved; senders write zeroes.
    pub reserved: [u8; 26],
}

/// A MAC control frame.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
#[cfg_attr(feature = "defmt", derive(defmt::Format))]
pub enum MacControl {
    /// 802.3x.
    Pause(Pause),
    /// 802.1Qbb.
    Pfc(Pfc),
}

impl MacControl {
    /// The group address that no bridge forwards.
    pub const DESTINATION: MacAddr = MacAddr([0x01, 0x80, 0xc2, 0, 0, 0x01]);

    /// Bytes of a frame, without the frame check sequence.
    pub const LEN: usize = 60;

    /// The opcode of a PAUSE.
    pub const PAUSE_OPCODE: u16 = 0x0001;

    /// The opcode of a PFC frame.
    pub const PFC_OPCODE: u16 = 0x0101;

    /// Parses the frame at the front of `bytes`. Reserved bytes that a capture cut off are zeroes;
    /// what follows the 60 bytes is ignored.
    ///
    /// # Errors
    /// [`ParseError::NotRoce`] if it has another EtherType, [`ParseError::TaggedMacControl`],
    /// [`ParseError::MacControlOpcode`], [`ParseError::Truncated`].
    pub fn parse(bytes: &[u8]) -> Result<Self, ParseError> {
        let (head, rest) = take::<HeadWire>(bytes, Layer::MacControl)?;
        let ethertype = EtherType(head.ethertype.get());
        if ethertype.is_tag() && take_ethernet(bytes)?.0 == EtherType::MAC_CONTROL {
            return Err(ParseError::TaggedMacControl);
        }
        if ethertype != EtherType::MAC_CONTROL {
            return Err(ParseError::NotRoce { layer: Layer::Ethernet, found: ethertype.0 });
        }
        let (dst, src) = (MacAddr(head.dst), MacAddr(head.src));
        match head.opcode.get() {
            Self::PAUSE_OPCODE => {
                let (quanta, rest) = take_parameters::<U16<BE>>(rest)?;
                let quanta = PauseQuanta(quanta.get());
                Ok(Self::Pause(Pause { dst, src, quanta, reserved: reserved(rest) }))
            }
            Self::PFC_OPCODE => {
                let (wire, rest) = take_parameters::<PfcWire>(rest)?;
                Ok(Self::Pfc(Pfc {
                    dst,
                    src,
                    resv8: wire.resv8,
                    enabled: wire.enabled,
                    quanta: wire.quanta.map(|quanta| PauseQuanta(quanta.get())),
                    reserved: reserved(rest),
                }))
            }
            opcode => Err(ParseError::MacControlOpcode(opcode)),
        }
    }

    /// Writes the frame at the front of `out`; says how many bytes, [`MacControl::LEN`].
    ///
    /// # Errors
    /// [`EmitError::NoRoom`].
    pub fn emit(&self, out: &mut [u8]) -> Result<usize, EmitError> {
        match self {
            Self::Pause(pause) => pause.emit(out),
            Self::Pfc(pfc) => pfc.emit(out),
        }
    }
}

impl Pause {
    /// A PAUSE to whoever is at the other end of the link.
    #[must_use]
    pub const fn new(src: MacAddr, quanta: PauseQuanta) -> Self {
        Self { dst: MacControl::DESTINATION, src, quanta, reserved: [0; 42] }
    }

    /// Parses the frame at the front of `bytes`.
    ///
    /// # Errors
    /// As [`MacControl::parse`]; a PFC frame's opcode is another.
    pub fn parse(bytes: &[u8]) -> Result<Self, ParseError> {
        match MacControl::parse(bytes)? {
            MacControl::Pause(pause) => Ok(pause),
            MacControl::Pfc(_) => Err(ParseError::MacControlOpcode(MacControl::PFC_OPCODE)),
        }
    }

    /// Writes the frame at the front of `out`; says how many bytes, [`MacControl::LEN`].
    ///
    /// # Errors
    /// [`EmitError::NoRoom`].
    pub fn emit(&self, out: &mut [u8]) -> Result<usize, EmitError> {
        let head = head(self.dst, self.src, MacControl::PAUSE_OPCODE);
        emit_frame(&head, &U16::<BE>::new(self.quanta.0), &self.reserved, out)
    }
}

impl Pfc {
    /// A frame that pauses nothing yet, to whoever is at the other end of the link.
    #[must_use]
    pub const fn new(src: MacAddr) -> Self {
        Self {
            dst: MacControl::DESTINATION,
            src,
            resv8: 0,
            enabled: 0,
            quanta: [PauseQuanta(0); 8],
            reserved: [0; 26],
        }
    }

    /// The same with `priority`, 0 to 7, paused for `quanta` (0 lets it go on). Another priority
    /// changes nothing.
    #[must_use]
    pub fn with(mut self, priority: u8, quanta: PauseQuanta) -> Self {
        if let Some(slot) = self.quanta.get_mut(usize::from(priority)) {
            *slot = quanta;
            self.enabled |= 1_u8.checked_shl(priority.into()).unwrap_or(0);
        }
        self
    }

    /// The priorities it is about, and how long each is to pause.
    pub fn enabled(&self) -> impl Iterator<Item = (u8, PauseQuanta)> {
        let enabled = self.enabled;
        (0..8)
            .zip(self.quanta)
            .filter(move |(priority, _)| enabled.checked_shr(*priority).unwrap_or(0) & 1 == 1)
            // At most 7.
            .map(|(priority, quanta)| (priority.to_le_bytes()[0], quanta))
    }

    /// Parses the frame at the front of `bytes`.
    ///
    /// # Errors
    /// As [`MacControl::parse`]; a PAUSE frame's opcode is another.
    pub fn parse(bytes: &[u8]) -> Result<Self, ParseError> {
        match MacControl::parse(bytes)? {
            MacControl::Pfc(pfc) => Ok(pfc),
            MacControl::Pause(_) => Err(ParseError::MacControlOpcode(MacControl::PAUSE_OPCODE)),
        }
    }

    /// Writes the frame at the front of `out`; says how many bytes, [`MacControl::LEN`].
    ///
    /// # Errors
    /// [`EmitError::NoRoom`].
    pub fn emit(&self, out: &mut [u8]) -> Result<usize, EmitError> {
        let head = head(self.dst, self.src, MacControl::PFC_OPCODE);
        let wire = PfcWire {
            resv8: self.resv8,
            enabled: self.enabled,
            quanta: self.quanta.map(|quanta| quanta.0.into()),
        };
        emit_frame(&head, &wire, &self.reserved, out)
    }
}

fn head(dst: MacAddr, src: MacAddr, opcode: u16) -> HeadWire {
    HeadWire {
        dst: dst.0,
        src: src.0,
        ethertype: EtherType::MAC_CONTROL.0.into(),
        opcode: opcode.into(),
    }
}

/// What follows the opcode; the lengths of an error are the whole frame's.
fn take_parameters<T: crate::wire::Wire>(rest: &[u8]) -> Result<(&T, &[u8]), ParseError> {
    take::<T>(rest, Layer::MacControl).map_err(|_| ParseError::Truncated {
        layer: Layer::MacControl,
        needed: HEAD + size_of::<T>(),
        available: HEAD.saturating_add(rest.len()),
    })
}

fn reserved<const N: usize>(rest: &[u8]) -> [u8; N] {
    let mut reserved = [0; N];
    for (to, byte) in reserved.iter_mut().zip(rest) {
        *to = *byte;
    }
    reserved
}

fn emit_frame<T: crate::wire::Wire>(
    head: &HeadWire,
    parameters: &T,
    reserved: &[u8],
    out: &mut [u8],
) -> Result<usize, EmitError> {
    let short = EmitError::NoRoom { needed: MacControl::LEN, available: out.len() };
    let out = out.get_mut(..MacControl::LEN).ok_or(short)?;
    let (first, rest) = out.split_at_mut_checked(HEAD).ok_or(short)?;
    let (second, rest) = rest.split_at_mut_checked(size_of::<T>()).ok_or(short)?;
    put(head, first)?;
    put(parameters, second)?;
    for (to, byte) in rest.iter_mut().zip(reserved) {
        *to = *byte;
    }
    Ok(MacControl::LEN)
}

#[cfg(test)]
mod tests;
