//! The fields of a packet as the ICRC sees them: covered, or left to those on the way.

use core::fmt;

use crate::ib::{Bth, Lrh};
use crate::net::{Grh, Ipv4, Ipv6, Udp};

/// What stands before the BTH.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
#[non_exhaustive]
#[cfg_attr(feature = "defmt", derive(defmt::Format))]
pub enum Network {
    /// RoCEv2: IPv4 and UDP.
    Ipv4,
    /// RoCEv2: IPv6 and UDP.
    Ipv6,
    /// Native InfiniBand within a subnet: a local route header alone.
    Lrh,
    /// A global route header: native InfiniBand behind a local one, or RoCE v1.
    Grh,
}

/// Bytes of the local route header, and of the ones that stand for it in RoCE.
pub(super) const LRH: usize = Lrh::LEN;

impl Network {
    /// Bytes before the BTH, those of UDP included.
    #[inline]
    #[must_use]
    pub const fn header_len(self) -> usize {
        match self {
            Self::Ipv4 => Ipv4::LEN + Udp::LEN,
            Self::Ipv6 => Ipv6::LEN + Udp::LEN,
            Self::Lrh => Lrh::LEN,
            Self::Grh => Grh::LEN,
        }
    }

    /// Where UDP starts behind the LRH or what stands for it.
    pub(super) const fn udp_at(self) -> Option<usize> {
        match self {
            Self::Ipv4 => Some(LRH + Ipv4::LEN),
            Self::Ipv6 => Some(LRH + Ipv6::LEN),
            Self::Lrh | Self::Grh => None,
        }
    }

    /// Where the BTH starts, the LRH or what stands for it counted.
    pub(super) const fn bth_at(self) -> usize {
        match self {
            Self::Lrh => LRH,
            Self::Ipv4 | Self::Ipv6 | Self::Grh => LRH + self.header_len(),
        }
    }

    /// Whether its network header is IPv6 or has IPv6's form.
    const fn has_ipv6_form(self) -> bool {
        matches!(self, Self::Ipv6 | Self::Grh)
    }
}

macro_rules! fields {
    ($($(#[$doc:meta])* $name:ident = $text:literal;)*) => {
        /// A field of a packet, or a part of it that the ICRC treats as one.
        #[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
        #[non_exhaustive]
        #[repr(u8)]
        #[cfg_attr(feature = "defmt", derive(defmt::Format))]
        pub enum Field { $($(#[$doc])* $name,)* }

        impl Field {
            /// All of them, in wire order.
            pub const ALL: [Self; 32] = [$(Self::$name,)*];

            /// Its bit in a [`Fields`].
            const fn bit(self) -> u32 {
                let mut bit = 0;
                $(if matches!(self, Self::$name) { return 1 << bit } bit += 1;)*
                // Every variant is in the list.
                bit & 0
            }
        }

        impl fmt::Display for Field {
            fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                f.write_str(match self { $(Self::$name => $text,)* })
            }
        }
    };
}

fields! {
    /// Ethernet's addresses and type.
    Ethernet = "the Ethernet header";
    /// 802.1Q and 802.1ad tags.
    VlanTags = "VLAN tags";
    /// The virtual lane of a local route header.
    VirtualLane = "the virtual lane";
    /// The rest of a local route header.
    LocalRoute = "the local route header";
    /// IP version, and IPv4's header length.
    IpVersion = "the IP version";
    /// Type of service or traffic class: DSCP and ECN.
    TrafficClass = "the type of service (traffic class)";
    /// IPv6 flow label.
    FlowLabel = "the flow label";
    /// IPv4 total length, IPv6 payload length.
    IpLength = "the IP length";
    /// IPv4 identification.
    Identification = "the IP identification";
    /// IPv4 flags and fragment offset.
    Fragment = "the IP flags";
    /// Time to live or hop limit.
    HopLimit = "the time to live (hop limit)";
    /// Protocol or next header.
    Protocol = "the IP protocol";
    /// IPv4 header checksum.
    IpChecksum = "the IP checksum";
    /// Source address.
    SrcAddress = "the source address";
    /// Destination address.
    DstAddress = "the destination address";
    /// UDP source port.
    SrcPort = "the UDP source port";
    /// UDP destination port.
    DstPort = "the UDP destination port";
    /// UDP length.
    UdpLength = "the UDP length";
    /// UDP checksum.
    UdpChecksum = "the UDP checksum";
    /// BTH: operation code.
    Opcode = "the opcode";
    /// BTH byte 1: solicited event, migration, pad count, version.
    BthFlags = "the BTH's flags";
    /// BTH: partition key.
    PKey = "the P_Key";
    /// BTH: FECN and BECN.
    FecnBecn = "FECN, BECN";
    /// BTH: the six reserved bits beside them.
    Resv6 = "Resv6";
    /// BTH: destination queue pair.
    DestQp = "the destination QP";
    /// BTH: acknowledge request.
    AckReq = "AckReq";
    /// BTH: the seven reserved bits beside it.
    Resv7 = "Resv7";
    /// BTH: packet sequence number.
    Psn = "the PSN";
    /// The extension headers.
    ExtHeaders = "the extension headers";
    /// The payload.
    Payload = "the payload";
    /// The pad bytes.
    Pad = "the pad bytes";
    /// What lies behind the ICRC: Ethernet padding and FCS, a native packet's VCRC.
    Trailer = "the trailer";
}

impl Field {
    /// Where it lies, counted from the LRH or what stands for it, and which bits; `None` if this
    /// kind of packet does not have it or it is no header before the BTH's end.
    pub(super) fn place(self, network: Network) -> Option<(usize, &'static [u8])> {
        const BYTE: &[u8] = &[0xff];
        const TWO: &[u8] = &[0xff; 2];
        let ipv6 = network.has_ipv6_form();
        let ipv4 = matches!(network, Network::Ipv4);
        let bth = network.bth_at();
        let (at, mask) = match self {
            Self::VirtualLane if network.udp_at().is_none() => (0, &[0xf0][..]),
            Self::LocalRoute if network.udp_at().is_none() => {
                (0, &[0x0f, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff][..])
            }
            Self::IpVersion if ipv6 => (LRH, &[0xf0][..]),
            Self::TrafficClass if ipv6 => (LRH, &[0x0f, 0xf0][..]),
            Self::FlowLabel if ipv6 => (LRH + 1, &[0x0f, 0xff, 0xff][..]),
            Self::IpLength if ipv6 => (LRH + 4, TWO),
            Self::Protocol if ipv6 => (LRH + 6, BYTE),
            Self::HopLimit if ipv6 => (LRH + 7, BYTE),
            Self::SrcAddress if ipv6 => (LRH + 8, &[0xff; 16][..]),
            Self::DstAddress if ipv6 => (LRH + 24, &[0xff; 16][..]),
            Self::IpVersion if ipv4 => (LRH, BYTE),
            Self::TrafficClass if ipv4 => (LRH + 1, BYTE),
            Self::IpLength if ipv4 => (LRH + 2, TWO),
            Self::Identification if ipv4 => (LRH + 4, TWO),
            Self::Fragment if ipv4 => (LRH + 6, TWO),
            Self::HopLimit if ipv4 => (LRH + 8, BYTE),
            Self::Protocol if ipv4 => (LRH + 9, BYTE),
            Self::IpChecksum if ipv4 => (LRH + 10, TWO),
            Self::SrcAddress if ipv4 => (LRH + 12, &[0xff; 4][..]),
            Self::DstAddress if ipv4 => (LRH + 16, &[0xff; 4][..]),
            Self::SrcPort | Self::DstPort | Self::UdpLength | Self::UdpChecksum => {
                let udp = network.udp_at()?;
                let at = match self {
                    Self::SrcPort => udp,
                    Self::DstPort => udp + 2,
                    Self::UdpLength => udp + 4,
                    _ => udp + 6,
                };
                (at, TWO)
            }
            Self::Opcode => (bth, BYTE),
            Self::BthFlags => (bth + 1, BYTE),
            Self::PKey => (bth + 2, TWO),
            Self::FecnBecn => (bth + 4, &[0xc0][..]),
            Self::Resv6 => (bth + 4, &[0x3f][..]),
            Self::DestQp => (bth + 5, &[0xff; 3][..]),
            Self::AckReq => (bth + 8, &[0x80][..]),
            Self::Resv7 => (bth + 8, &[0x7f][..]),
            Self::Psn => (bth + 9, &[0xff; 3][..]),
            _ => return None,
        };
        Some((at, mask))
    }
}

/// Bytes from the LRH, or what stands for it, to the end of the BTH: at most.
pub(super) const LONGEST_HEAD: usize = Network::Ipv6.bth_at() + Bth::LEN;

/// A set of fields.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Default)]
#[cfg_attr(feature = "defmt", derive(defmt::Format))]
pub struct Fields(u32);

impl Fields {
    /// None.
    pub const NONE: Self = Self(0);

    /// Those listed.
    #[must_use]
    pub const fn of(fields: &[Field]) -> Self {
        let mut set = 0;
        let mut rest = fields;
        while let [first, others @ ..] = rest {
            set |= first.bit();
            rest = others;
        }
        Self(set)
    }

    /// Whether `field` is in the set.
    #[must_use]
    pub const fn contains(self, field: Field) -> bool {
        self.0 & field.bit() != 0
    }

    /// Whether the set is empty.
    #[must_use]
    pub const fn is_empty(self) -> bool {
        self.0 == 0
    }

    /// How many there are.
    #[must_use]
    pub const fn len(self) -> u32 {
        self.0.count_ones()
    }

    /// Those in either.
    #[must_use]
    pub const fn union(self, other: Self) -> Self {
        Self(self.0 | other.0)
    }

    /// Those that are not in `other`.
    #[must_use]
    pub const fn without(self, other: Self) -> Self {
        Self(self.0 & !other.0)
    }

    /// The fields, in wire order.
    pub fn iter(self) -> impl Iterator<Item = Field> {
        self.indices().filter_map(|index| Field::ALL.get(index).copied())
    }

    /// Where the fields stand in [`Field::ALL`].
    pub(super) fn indices(self) -> impl Iterator<Item = usize> {
        let mut left = self.0;
        core::iter::from_fn(move || {
            let lowest = usize::try_from(left.trailing_zeros()).ok()?;
            (left != 0).then(|| {
                left &= left.wrapping_sub(1);
                lowest
            })
        })
    }

    /// Every subset, the empty one first.
    pub(super) fn subsets(self) -> impl Iterator<Item = Self> {
        // Counts upwards in the set's own bits.
        let next = move |subset: &Self| {
            let next = subset.0.wrapping_sub(self.0) & self.0;
            (next != 0).then_some(Self(next))
        };
        core::iter::successors(Some(Self::NONE), next)
    }
}

impl fmt::Display for Fields {
    /// The names, with commas and an "and".
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let mut left = self.len();
        for field in self.iter() {
            write!(f, "{field}")?;
            left = left.saturating_sub(1);
            f.write_str(match left {
                0 => "",
                1 => " and ",
                _ => ", ",
            })?;
        }
        Ok(())
    }
}

/// The fields that count as ones, whatever the packet holds.
pub(super) const fn masked(network: Network) -> Fields {
    use Field as F;
    match network {
        Network::Ipv4 => Fields::of(&[
            F::TrafficClass,
            F::HopLimit,
            F::IpChecksum,
            F::UdpChecksum,
            F::FecnBecn,
            F::Resv6,
        ]),
        Network::Ipv6 => Fields::of(&[
            F::TrafficClass,
            F::FlowLabel,
            F::HopLimit,
            F::UdpChecksum,
            F::FecnBecn,
            F::Resv6,
        ]),
        Network::Lrh => Fields::of(&[F::VirtualLane, F::FecnBecn, F::Resv6]),
        Network::Grh => Fields::of(&[
            F::VirtualLane,
            F::LocalRoute,
            F::TrafficClass,
            F::FlowLabel,
            F::HopLimit,
            F::FecnBecn,
            F::Resv6,
        ]),
    }
}

/// What a switch or router may change without a new ICRC: the fields that count as ones, and the
/// link layer around the packet, which is not covered. Whoever changes any other (addresses,
/// ports, lengths, IPv4 identification, opcode, P_Key, destination QP, PSN, payload) must compute
/// the ICRC anew, or receivers drop the packet (IBTA Vol. 1, 7.8.1 and Annex A17.3.3).
///
/// ```
/// use roce_codec::icrc::{Field, Network, can_change_in_flight};
///
/// let may = can_change_in_flight(Network::Ipv4);
/// assert!(may.contains(Field::HopLimit) && may.contains(Field::VlanTags));
/// assert!(!may.contains(Field::DstAddress) && !may.contains(Field::SrcPort));
/// ```
#[must_use]
pub const fn can_change_in_flight(network: Network) -> Fields {
    let link = Fields::of(&[Field::Ethernet, Field::VlanTags, Field::Trailer]);
    masked(network).union(link)
}

#[cfg(test)]
mod tests {
    use super::*;

    const NETWORKS: [Network; 4] = [Network::Ipv4, Network::Ipv6, Network::Lrh, Network::Grh];

    #[test]
    fn the_fields_of_a_head_are_disjoint_and_leave_nothing_out() {
        for network in NETWORKS {
            let mut seen = [0; LONGEST_HEAD];
            for field in Field::ALL {
                let Some((at, mask)) = field.place(network) else { continue };
                for (byte, mask) in seen[at..].iter_mut().zip(mask) {
                    assert_eq!(*byte & mask, 0, "{network:?} {field}");
                    *byte |= mask;
                }
            }
            let lrh = if network.udp_at().is_some() { LRH } else { 0 };
            let end = network.bth_at() + Bth::LEN;
            assert_eq!(seen[lrh..end], [0xff; LONGEST_HEAD][lrh..end], "{network:?}");
        }
    }

    #[test]
    fn masked_fields_are_the_masks_of_the_fast_path() {
        use crate::icrc::{GRH_ONES, IPV4_ONES, IPV6_ONES, LRH_ONES};
        for (network, ones, from) in [
            (Network::Ipv4, IPV4_ONES, LRH),
            (Network::Ipv6, IPV6_ONES, LRH),
            (Network::Grh, GRH_ONES, LRH),
            (Network::Lrh, LRH_ONES, 0),
        ] {
            let mut mask = [0; LRH + 64];
            for (at, bits) in masked(network).iter().filter_map(|field| field.place(network)) {
                for (byte, bits) in mask[at..].iter_mut().zip(bits) {
                    *byte |= bits;
                }
            }
            assert_eq!(mask[from..from + 64], ones, "{network:?}");
        }
        // A GRH turns the whole LRH into ones.
        assert!(masked(Network::Grh).contains(Field::LocalRoute));
    }

    #[test]
    fn sets() {
        for (index, field) in Field::ALL.into_iter().enumerate() {
            assert_eq!(field.bit(), 1 << index);
        }
        let set = Fields::of(&[Field::Psn, Field::HopLimit, Field::Pad]);
        assert_eq!(set.len(), 3);
        assert_eq!(set.to_string(), "the time to live (hop limit), the PSN and the pad bytes");
        assert_eq!(
            Fields::of(&[Field::Resv6, Field::FecnBecn]).to_string(),
            "FECN, BECN and Resv6"
        );
        let subsets: Vec<Fields> = set.subsets().collect();
        assert_eq!(subsets.len(), 8);
        assert_eq!((subsets[0], subsets[7]), (Fields::NONE, set));
        assert!(subsets.iter().all(|subset| subset.without(set).is_empty()));
    }
}
