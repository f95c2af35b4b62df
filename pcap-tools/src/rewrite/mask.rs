//! Other addresses for real ones: two that share a prefix share one of the same length afterwards,
//! and an address becomes the same one everywhere (Xu, Fan, Ammar, Moon, "Prefix-preserving IP
//! address anonymization", 2002).

use std::collections::HashMap;
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr};

use roce_codec::cm::{CaGuid, Gid};
use roce_codec::net::MacAddr;

use super::key::Key;

/// Addresses remembered; beyond this all are worked out anew.
const MAX_KNOWN: usize = 1 << 16;

/// Masks addresses by a key.
#[derive(Debug)]
pub struct Mask {
    key: Key,
    known: HashMap<IpAddr, IpAddr>,
    known_macs: HashMap<MacAddr, MacAddr>,
}

impl Mask {
    /// By that key.
    #[must_use]
    pub fn new(key: Key) -> Self {
        Self { key, known: HashMap::new(), known_macs: HashMap::new() }
    }

    /// The address in place of `address`. What kind of address it is stays: unspecified and
    /// broadcast as they are, the class of an IPv4 address and the scope of an IPv6 one.
    pub fn ip(&mut self, address: IpAddr) -> IpAddr {
        if let Some(known) = self.known.get(&address) {
            return *known;
        }
        let masked = match address {
            IpAddr::V4(address) => self.v4(address).into(),
            IpAddr::V6(address) => match address.to_ipv4_mapped() {
                Some(address) => self.v4(address).to_ipv6_mapped().into(),
                None => self.v6(address).into(),
            },
        };
        if self.known.len() >= MAX_KNOWN {
            self.known.clear();
        }
        self.known.insert(address, masked);
        masked
    }

    fn v4(&self, address: Ipv4Addr) -> Ipv4Addr {
        if address.is_unspecified() || address.is_broadcast() {
            return address;
        }
        let mut octets = address.octets();
        // 0, 10, 110, 1110: the class.
        let class = usize::try_from(octets[0].leading_ones()).unwrap_or_default() + 1;
        self.bits(4, &mut octets, class.min(4));
        octets.into()
    }

    fn v6(&self, address: Ipv6Addr) -> Ipv6Addr {
        if address.is_unspecified() || address.is_loopback() {
            return address;
        }
        let mut octets = address.octets();
        let kept = match octets {
            [0xff, ..] => 16,
            [0xfe, ..] => 10,
            [0xfc | 0xfd, ..] => 8,
            _ => 3,
        };
        self.bits(6, &mut octets, kept);
        octets.into()
    }

    /// The MAC in place of `mac`; one of a group of stations stays.
    pub fn mac(&mut self, mac: MacAddr) -> MacAddr {
        if mac.is_multicast() || mac == MacAddr([0; 6]) {
            return mac;
        }
        if let Some(known) = self.known_macs.get(&mac) {
            return *known;
        }
        let MacAddr(mut octets) = mac;
        let group = octets[0] & 3;
        self.bits(2, &mut octets, 0);
        octets[0] = octets[0] & !3 | group;
        if self.known_macs.len() >= MAX_KNOWN {
            self.known_macs.clear();
        }
        self.known_macs.insert(mac, MacAddr(octets));
        MacAddr(octets)
    }

    /// The GID in place of `gid`, which is an IP address on RoCEv2.
    pub fn gid(&mut self, gid: Gid) -> Gid {
        match self.ip(IpAddr::V6(Ipv6Addr::from(gid.0))) {
            IpAddr::V6(address) => address.into(),
            IpAddr::V4(address) => address.into(),
        }
    }

    /// The channel adapter's identifier in place of `guid`; 0 stays.
    #[must_use]
    pub fn guid(&self, guid: CaGuid) -> CaGuid {
        if guid.0 == 0 {
            return guid;
        }
        let mut message = [8; 9];
        message[1..].copy_from_slice(&guid.0.to_be_bytes());
        CaGuid(self.key.hash(&message))
    }

    /// Turns each bit behind the first `kept` by what the key makes of the bits in front of it.
    fn bits(&self, family: u8, octets: &mut [u8], kept: usize) {
        let original = octets.to_vec();
        let mut message = [0; 18];
        message[0] = family;
        for bit in kept..original.len() * 8 {
            // The bits in front, and how many they are.
            let (whole, part) = (bit / 8, bit % 8);
            let prefix = &mut message[2..];
            prefix.fill(0);
            prefix[..whole].copy_from_slice(&original[..whole]);
            prefix[whole] = original[whole] & !(0xff >> part);
            message[1] = u8::try_from(bit).unwrap_or(u8::MAX);
            if self.key.hash(&message) & 1 == 1 {
                octets[whole] ^= 0x80 >> part;
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn common(a: IpAddr, b: IpAddr) -> u32 {
        match (a, b) {
            (IpAddr::V4(a), IpAddr::V4(b)) => (a.to_bits() ^ b.to_bits()).leading_zeros(),
            (IpAddr::V6(a), IpAddr::V6(b)) => (a.to_bits() ^ b.to_bits()).leading_zeros(),
            _ => panic!("the family changed"),
        }
    }

    #[test]
    fn prefixes_are_kept_and_addresses_are_not() {
        let mut mask = Mask::new(Key::of_text("k"));
        let texts = [
            "10.1.2.3",
            "10.1.2.4",
            "10.1.3.3",
            "10.200.0.1",
            "192.168.7.7",
            "172.16.0.1",
            "2001:db8::1",
            "2001:db8::2",
            "2001:db8:1::1",
            "fe80::1",
            "fe80::2",
            "fd00:16::8",
        ];
        let addresses: Vec<IpAddr> = texts.iter().map(|text| text.parse().unwrap()).collect();
        for a in &addresses {
            assert_ne!(mask.ip(*a), *a, "{a}");
            for b in addresses.iter().filter(|b| b.is_ipv4() == a.is_ipv4()) {
                assert_eq!(common(mask.ip(*a), mask.ip(*b)), common(*a, *b), "{a} {b}");
            }
        }
    }

    #[test]
    fn kinds_of_address_stay() {
        let mut mask = Mask::new(Key::random());
        for same in ["0.0.0.0", "255.255.255.255", "::", "::1"] {
            let address: IpAddr = same.parse().unwrap();
            assert_eq!(mask.ip(address), address);
        }
        for last in 0..50 {
            assert!(mask.ip(Ipv4Addr::new(224, 0, 0, last).into()).is_multicast());
            assert!(!mask.ip(Ipv4Addr::new(192, 0, 2, last).into()).is_multicast());
            let mapped = Ipv4Addr::new(10, 0, 0, last).to_ipv6_mapped();
            let plain = mask.ip(Ipv4Addr::new(10, 0, 0, last).into());
            assert_eq!(mask.gid(Gid(mapped.octets())).ip(), plain, "a GID is its address");
            let mac = MacAddr([2, 0, 0, 0, 0, last]);
            let masked = mask.mac(mac);
            assert!(!masked.is_multicast() && masked != mac && masked == mask.mac(mac));
        }
        assert_eq!(mask.mac(MacAddr::BROADCAST), MacAddr::BROADCAST);
    }
}
