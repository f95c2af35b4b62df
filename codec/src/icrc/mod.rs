//! The invariant CRC: what it covers and how it is computed and checked.
//!
//! `CRC-32(ff × 8 | IP | UDP | BTH | extension headers | payload | pad)`, in zlib's terms; the
//! wire carries its four bytes least significant first. Before it is computed, the fields that
//! routers and switches may change are set to ones: IPv4 type of service, time to live and header
//! checksum; IPv6 traffic class, flow label and hop limit; the UDP checksum; and BTH byte 4
//! (FECN, BECN, Resv6). Ethernet, VLAN tags and Ethernet padding are not covered
//! (IBTA Vol. 1, 7.8.1 and Annex A17.3.3).
//!
//! RoCE v1 and native InfiniBand have a GRH instead of IP and UDP, of which traffic class, flow
//! label and hop limit count as ones. A native packet without GRH is covered from its LRH on, of
//! which the VL counts as ones; a GRH turns the whole LRH into the eight bytes of ones.

mod diagnosis;
mod field;
mod head;
mod hypothesis;
mod mistake;
mod suspect;
mod verdict;

use roce_crc::{AFTER_ONES8, Crc, Crc32, INITIAL};

use crate::ib::Bth;
use crate::ib::Lrh;
use crate::net::{Grh, Ipv4, Ipv6, Udp};

pub use diagnosis::{IcrcDiagnosis, diagnose};
pub use field::{Field, Fields, Network, can_change_in_flight};
pub use mistake::IcrcMistake;
pub use verdict::{IcrcVerdict, NotCheckable, verify, verify_datagram};

pub(crate) use suspect::Suspect;

/// Bytes of the ICRC.
pub const ICRC_LEN: usize = 4;

/// IPv4 to the end of the BTH: the headers in which fields are masked.
pub const IPV4_HEADERS: usize = Ipv4::LEN + Udp::LEN + Bth::LEN;

/// IPv6 to the end of the BTH.
pub const IPV6_HEADERS: usize = Ipv6::LEN + Udp::LEN + Bth::LEN;

/// GRH to the end of the BTH.
pub const GRH_HEADERS: usize = Grh::LEN + Bth::LEN;

/// LRH to the end of the BTH.
pub const LRH_HEADERS: usize = Lrh::LEN + Bth::LEN;

/// A sender's or a checker's running ICRC: start it on the headers, feed it what follows the BTH
/// (while copying, if it has to be copied anyway), and take the four bytes.
///
/// ```
/// use roce_codec::icrc::Icrc;
///
/// // IPv4, UDP and BTH of a zero-length SEND.
/// let headers: [u8; 40] = [
///     0x45, 0x02, 0, 0x2c, 0, 1, 0x40, 0, 0x40, 0x11, 0xb6, 0xba, 192, 0, 2, 1, 192, 0, 2, 2,
///     0xc0, 0, 0x12, 0xb7, 0, 0x18, 0, 0,
///     0x04, 0x40, 0xff, 0xff, 0, 0, 1, 0x23, 0x80, 0, 0, 5,
/// ];
/// let icrc: Icrc = Icrc::ipv4(&headers);
/// assert_eq!(icrc.finish(), [0xc9, 0x0e, 0x17, 0x92]);
/// ```
#[derive(Clone)]
pub struct Icrc<C: Crc32 = Crc>(C);

/// What counts as ones from the IPv4 header on: type of service, time to live, header checksum,
/// UDP checksum, BTH byte 4.
const IPV4_ONES: [u8; 64] = ones(&[1, 8, 10, 11, 26, 27, 32]);

/// What counts as ones from the IPv6 header on: traffic class and flow label (but not the
/// version before them), hop limit, UDP checksum, BTH byte 4.
const IPV6_ONES: [u8; 64] = {
    let mut mask = ones(&[1, 2, 3, 7, 46, 47, 52]);
    mask[0] = 0x0f;
    mask
};

/// What counts as ones from the GRH on: traffic class and flow label, hop limit, BTH byte 4.
const GRH_ONES: [u8; 64] = {
    let mut mask = ones(&[1, 2, 3, 7, 44]);
    mask[0] = 0x0f;
    mask
};

/// What counts as ones from the LRH on, when no GRH follows: VL, BTH byte 4.
const LRH_ONES: [u8; 64] = {
    let mut mask = ones(&[12]);
    mask[0] = 0xf0;
    mask
};

const fn ones(offsets: &[usize]) -> [u8; 64] {
    let mut mask = [0; 64];
    let mut index = 0;
    while index < offsets.len() {
        mask[offsets[index]] = 0xff;
        index += 1;
    }
    mask
}

impl<C: Crc32> Icrc<C> {
    /// Starts on IPv4, UDP and BTH as they are on the wire.
    #[inline]
    #[must_use]
    pub fn ipv4(headers: &[u8; IPV4_HEADERS]) -> Self {
        Self::packet(Network::Ipv4, headers)
    }

    /// Starts on IPv6, UDP and BTH as they are on the wire.
    #[inline]
    #[must_use]
    pub fn ipv6(headers: &[u8; IPV6_HEADERS]) -> Self {
        Self::packet(Network::Ipv6, headers)
    }

    /// Starts on GRH and BTH as they are on the wire: RoCE v1, or native InfiniBand behind an LRH.
    #[must_use]
    pub fn global(headers: &[u8; GRH_HEADERS]) -> Self {
        Self::packet(Network::Grh, headers)
    }

    /// Starts on LRH and BTH as they are on the wire: native InfiniBand without a GRH.
    #[must_use]
    pub fn local(headers: &[u8; LRH_HEADERS]) -> Self {
        Self::packet(Network::Lrh, headers)
    }

    /// Starts on everything from the network header on, or as much of it as is in one piece: at
    /// least the BTH must be.
    #[inline]
    pub(crate) fn packet(network: Network, bytes: &[u8]) -> Self {
        // Eight bytes of ones stand for the LRH that RoCE does not have.
        match network {
            Network::Ipv4 => Self::start(AFTER_ONES8, bytes, &IPV4_ONES),
            Network::Ipv6 => Self::start(AFTER_ONES8, bytes, &IPV6_ONES),
            Network::Grh => Self::start(AFTER_ONES8, bytes, &GRH_ONES),
            Network::Lrh => Self::start(INITIAL, bytes, &LRH_ONES),
        }
    }

    #[inline]
    fn start(before: u32, bytes: &[u8], ones: &[u8; 64]) -> Self {
        let mut crc = C::resume(before);
        crc.update_masked(bytes, ones);
        Self(crc)
    }

    /// Feeds what follows: extension headers, payload, pad.
    #[inline]
    pub fn update(&mut self, bytes: &[u8]) {
        self.0.update(bytes);
    }

    /// Copies `src` to `dst` and feeds it, in one pass. Copies and feeds the shorter of the two
    /// lengths and returns it.
    #[inline]
    pub fn copy_update(&mut self, dst: &mut [u8], src: &[u8]) -> usize {
        self.0.copy_update(dst, src)
    }

    /// The bytes that belong on the wire.
    #[inline]
    #[must_use]
    pub fn finish(&self) -> [u8; ICRC_LEN] {
        self.0.finish().to_le_bytes()
    }
}
