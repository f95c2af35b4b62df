//! ClassPortInfo: what a port's manager of a class can do, and who to ask instead.
//!
//! ```text
//!  byte                                      byte
//!    0  base version 8                        36  redirect Q_Key 32
//!    1  class version 8                       40  trap GID 128
//!    2  capability mask 16                    56  trap traffic class 8
//!    4  capability mask 2 27,                 57  trap SL 4, trap flow label 20
//!       response time value 5                 60  trap LID 16
//!    8  redirect GID 128                      62  trap P_Key 16
//!   24  redirect traffic class 8              64  trap hop limit 8
//!   25  redirect SL 4, redirect flow label 20 65  trap QP 24
//!   28  redirect LID 16                       68  trap Q_Key 32
//!   30  redirect P_Key 16
//!   32  Resv8
//!   33  redirect QP 24
//! ```
//!
//! 72 bytes at the front of a MAD's data. IBTA Vol. 1, 13.4.8.1; the connection manager's
//! capabilities, 16.7.3.1.

use zerocopy::byteorder::{BE, U16, U32};
use zerocopy::{FromBytes, Immutable, IntoBytes, KnownLayout, Unaligned};

use super::wire::{view, view_mut};
use super::{CmEmitError, CmError, Gid, Timeout};
use crate::ib::{PKey, QKey, Qpn};
use crate::wire::{to_u24, u24};

#[derive(FromBytes, IntoBytes, KnownLayout, Immutable, Unaligned)]
#[repr(C)]
struct EndpointWire {
    gid: [u8; 16],
    traffic_class: u8,
    sl_label: [u8; 3],
    lid: U16<BE>,
    pkey: U16<BE>,
    /// Redirect: reserved. Trap: hop limit.
    hop_limit: u8,
    qpn: [u8; 3],
    qkey: U32<BE>,
}

#[derive(FromBytes, IntoBytes, KnownLayout, Immutable, Unaligned)]
#[repr(C)]
struct ClassPortInfoWire {
    base_version: u8,
    class_version: u8,
    capability_mask: U16<BE>,
    mask_2_response_time: U32<BE>,
    redirect: EndpointWire,
    trap: EndpointWire,
}

const _: () = assert!(size_of::<ClassPortInfoWire>() == ClassPortInfo::LEN);

/// Where a manager is reached.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Default)]
#[cfg_attr(feature = "defmt", derive(defmt::Format))]
pub struct MgmtEndpoint {
    /// GID of its port.
    pub gid: Gid,
    /// Traffic class.
    pub traffic_class: u8,
    /// Service level, 4 bits.
    pub sl: u8,
    /// Flow label, 20 bits.
    pub flow_label: u32,
    /// LID of its port.
    pub lid: u16,
    /// Partition key.
    pub pkey: PKey,
    /// Hop limit, where traps go; reserved, 8 bits, in a redirection.
    pub hop_limit: u8,
    /// Its QP.
    pub qpn: Qpn,
    /// That QP's key.
    pub qkey: QKey,
}

impl EndpointWire {
    fn value(&self) -> MgmtEndpoint {
        let [sl, ..] = self.sl_label;
        MgmtEndpoint {
            gid: Gid(self.gid),
            traffic_class: self.traffic_class,
            sl: sl >> 4,
            flow_label: u24(self.sl_label) & 0x000f_ffff,
            lid: self.lid.get(),
            pkey: PKey(self.pkey.get()),
            hop_limit: self.hop_limit,
            qpn: Qpn::new(u24(self.qpn)),
            qkey: QKey(self.qkey.get()),
        }
    }

    fn set(&mut self, endpoint: &MgmtEndpoint) {
        let sl = u32::from(endpoint.sl & 0x0f);
        self.gid = endpoint.gid.0;
        self.traffic_class = endpoint.traffic_class;
        self.sl_label = to_u24(sl << 20 | endpoint.flow_label & 0x000f_ffff);
        self.lid.set(endpoint.lid);
        self.pkey.set(endpoint.pkey.0);
        self.hop_limit = endpoint.hop_limit;
        self.qpn = to_u24(endpoint.qpn.get());
        self.qkey.set(endpoint.qkey.0);
    }
}

/// What a port's manager of a class can do, and who to ask instead; every bit of it.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Default)]
#[cfg_attr(feature = "defmt", derive(defmt::Format))]
pub struct ClassPortInfo {
    /// Version of the MAD format.
    pub base_version: u8,
    /// Version of the class.
    pub class_version: u8,
    /// What the manager can do: bits 0 to 7 as every class, 8 to 15 as this one. The connection
    /// manager's are the constants here.
    pub capability_mask: u16,
    /// More of what it can do, 27 bits.
    pub capability_mask_2: u32,
    /// How long it takes to respond.
    pub response_time: Timeout,
    /// Who to ask instead; the GID is zero unless the manager redirects.
    pub redirect: MgmtEndpoint,
    /// Where traps go. The connection manager has none.
    pub trap: MgmtEndpoint,
}

impl ClassPortInfo {
    /// Bytes of the attribute.
    pub const LEN: usize = 72;

    /// The connection manager connects RC.
    pub const IS_RELIABLE_CONNECTION_CAPABLE: u16 = 1 << 9;
    /// The connection manager connects RD.
    pub const IS_RELIABLE_DATAGRAM_CAPABLE: u16 = 1 << 10;
    /// The connection manager serves raw datagrams.
    pub const IS_RAW_DATAGRAM_CAPABLE: u16 = 1 << 11;
    /// The connection manager connects UC.
    pub const IS_UNRELIABLE_CONNECTION_CAPABLE: u16 = 1 << 12;
    /// The connection manager resolves service IDs for UD.
    pub const IS_UNRELIABLE_DATAGRAM_CAPABLE: u16 = 1 << 13;

    /// Parses the attribute at the front of `bytes`: a MAD's data, or the additional information
    /// of a message that redirects.
    ///
    /// # Errors
    /// [`CmError::Truncated`].
    pub fn parse(bytes: &[u8]) -> Result<Self, CmError> {
        let wire = view::<ClassPortInfoWire>(bytes)?;
        let [.., response_time] = wire.mask_2_response_time.to_bytes();
        Ok(Self {
            base_version: wire.base_version,
            class_version: wire.class_version,
            capability_mask: wire.capability_mask.get(),
            capability_mask_2: wire.mask_2_response_time.get() >> 5,
            response_time: Timeout::new(response_time),
            redirect: wire.redirect.value(),
            trap: wire.trap.value(),
        })
    }

    /// Writes the attribute at the front of `out`. Bits above a field's width are dropped.
    ///
    /// # Errors
    /// [`CmEmitError::NoRoom`].
    pub fn emit(&self, out: &mut [u8]) -> Result<(), CmEmitError> {
        let wire = view_mut::<ClassPortInfoWire>(out)?;
        wire.base_version = self.base_version;
        wire.class_version = self.class_version;
        wire.capability_mask.set(self.capability_mask);
        let response_time = u32::from(self.response_time.code());
        wire.mask_2_response_time.set(self.capability_mask_2 << 5 | response_time);
        wire.redirect.set(&self.redirect);
        wire.trap.set(&self.trap);
        Ok(())
    }
}
